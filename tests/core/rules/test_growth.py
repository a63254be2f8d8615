"""The compiled tree against Algorithm 1 written down plainly."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from dustream.core.rules import pattern_tree
from dustream.core.rules.growth import IS, SALIENT_FREQUENCY_MIN, summary
from dustream.core.rules.pattern_tree import build_pattern_tree
from dustream.core.rules.training import ABSENT, KnownUrl, TrainingSet, training_set
from dustream.streams.generate.planted_sites import big_site, mislabelled, planted_site


def plain_tree(training: TrainingSet, nodes_max: int = 2_048) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """Rows and excluded values of all nodes in preorder."""
    rows_min = max(4, training.size / 1_000)
    nodes: list[tuple[list[int], list[tuple[int, int]]]] = []

    def build(rows: list[int], done: frozenset[int], excluded: list[tuple[int, int]]) -> None:
        nodes.append((rows, excluded))
        if len(rows) < rows_min or len(nodes) >= nodes_max:
            return
        for key in sorted(set(range(len(training.keys))) - done, key=lambda key: (plain_entropy(rows, key), key)):
            column = {row: int(training.values[key, row]) for row in rows}
            salient = plain_salient(list(column.values()))
            parts = [[row for row in rows if column[row] == code] for code in (ABSENT, *salient)]
            parts.append([row for row in rows if column[row] not in (ABSENT, *salient)])
            if sum(map(bool, parts)) > 1:
                for i, part in enumerate(parts):
                    beside = [*excluded, *((key, code) for code in salient)] if i == len(parts) - 1 else excluded
                    if part:
                        build(part, done | {key}, beside)
                return

    def plain_entropy(rows: list[int], key: int) -> float:
        _, counts = np.unique(training.values[key, rows], return_counts=True)
        return round(float(-(counts / len(rows) * np.log(counts / len(rows))).sum()), 9)

    build(list(range(training.size)), frozenset(), [])
    return nodes


def plain_salient(column: list[int]) -> list[int]:
    counts = {code: column.count(code) for code in set(column) - {ABSENT}}
    ordered = sorted(counts, key=lambda code: (-counts[code], code))
    curve = [counts[code] for code in ordered] + [1]
    drops = [math.log(a / b) for a, b in pairwise(curve)][: math.isqrt(len(column))]
    possible = [i for i, drop in enumerate(drops) if drop >= math.log(2) and curve[i] >= SALIENT_FREQUENCY_MIN]
    return ordered[: max(possible, key=lambda i: (drops[i], i)) + 1] if possible else []


@pytest.mark.parametrize("site", [0, 1, 5, 6, 11, "wrong labels", "big"])
def test_the_compiled_tree_is_algorithm_1(site: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = big_site(900) if site == "big" else planted_site(site if isinstance(site, int) else 7, pages=40).known
    known = mislabelled(known, 10) if site == "wrong labels" else known
    training = training_set(KnownUrl(entry.url, entry.cluster) for entry in known)
    for nodes_max in (2_048, 5):
        monkeypatch.setattr(pattern_tree, "NODES_MAX", nodes_max)
        tree = build_pattern_tree(training)
        plain = plain_tree(training, nodes_max)
        assert [sorted(tree.rows(node).tolist()) for node in tree.nodes] == [rows for rows, _ in plain]
        assert [list(node.excluded) for node in tree.nodes] == [excluded for _, excluded in plain]


def test_patterns_below_the_root_are_those_of_their_rows() -> None:
    tree = build_pattern_tree(training_set(KnownUrl(e.url, e.cluster) for e in planted_site(4).known))
    assert len(tree.nodes) > 10
    for node in tree.nodes:
        kinds, codes = summary(tree.training.values, tree.rows(node), tree.training.decimal)
        assert (node.kinds.tolist(), node.codes.tolist()) == (kinds.tolist(), codes.tolist())
        assert all(kind != IS or code != ABSENT for kind, code in zip(node.kinds, node.codes, strict=True))
    root = tree.root
    assert root is not None and root.kinds.tolist() == tree.nodes[0].kinds.tolist()
