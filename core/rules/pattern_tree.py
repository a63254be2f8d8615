"""The pattern tree of a site (Lei, section 5.1, Algorithm 1).

Each node is a group of URLs and the pattern that describes them; a split is by the key with the smallest entropy
(eq. 4) into its salient values, the rest of them (`*`), and the URLs that lack the key: absence is a value of its own,
so that a node's URLs end up with one syntax structure. A key with one value throughout is part of the pattern and never
splits. Algorithm 1 stops when the best key's values are all trivial; here the next key is tried first, because a key of
larger entropy may still distinguish structures by its absence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.hash_slots import Ints
from dustream.core.rules.growth import (
    ABSENT,
    ANY,
    DEPTH,
    DIGITS,
    IS,
    SALIENT_END,
    SALIENT_START,
    SOME,
    SPLIT_KEY,
    Grown,
    grow,
    summary,
)
from dustream.core.rules.training import TrainingSet
from dustream.core.rules.url_regex import url_pattern
from dustream.core.urls.keys import index_of
from dustream.schemas.rules import KeyTest

NODES_MAX: Final = 2_048
KEYS_KEPT_MAX: Final = 8_192
SPLIT_ROWS_MIN: Final = 4
SPLIT_SHARE_MIN: Final = 1 / 1_000
"""A node with fewer of the site's URLs is a leaf: a rule for so few is no rule."""


TEST_OF_KIND: Final[dict[int, Literal["is", "digits", "some", "absent", "any"]]] = {
    ABSENT: "absent",
    IS: "is",
    DIGITS: "digits",
    SOME: "some",
    ANY: "any",
}


class Node(NamedTuple):
    """`order[start:end]` of the tree are its rows. `kinds[key]`, `codes[key]` (for IS) are its pattern.

    `excluded` are (key, value) pairs: where the way down took the trivial branch, the salient values beside it. Without
    them the pattern would take in the URLs of its siblings.
    """

    id: int
    parent: int
    depth: int
    start: int
    end: int
    kinds: npt.NDArray[np.int8]
    codes: Ints
    excluded: tuple[tuple[int, int], ...]
    split_key: int
    children: tuple[int, ...]

    @property
    def volume(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class PatternTree:
    """Nodes in preorder: a node's descendants follow it, their rows are slices of its rows.

    It grows when something below its root is asked for: where a rule of the root settles a site, nothing is.
    """

    training: TrainingSet

    @cached_property
    def root(self) -> Node | None:
        """What all URLs have in common; None where there are none. Its children are not known."""
        size = self.training.size
        if not size:
            return None
        kinds, codes = summary(self.training.values, self.training.all_rows, self.training.decimal)
        return Node(0, -1, 0, 0, size, kinds, codes, (), -1, ())

    @cached_property
    def grown(self) -> Grown:
        size = self.training.size
        rows_min = float(max(SPLIT_ROWS_MIN, SPLIT_SHARE_MIN * size))  # else it is compiled again for large sites
        return Grown(*grow(self.training.values, self.training.decimal, rows_min, NODES_MAX))

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        return _nodes(self.grown) if self.training.size else ()

    def node(self, number: int) -> Node:
        """For the root the tree need not grow."""
        return self.nodes[number] if number or self.root is None else self.root

    @property
    def node_count(self) -> int:
        return len(self.grown.places) if self.training.size else 0

    @property
    def height(self) -> int:
        return 1 + int(self.grown.places[:, DEPTH].max()) if self.training.size else 0

    def rows(self, node: Node) -> Ints:
        return self.grown.order[node.start : node.end] if node.id else self.training.all_rows

    def is_ancestor(self, above: Node, below: Node) -> bool:
        """Whether `above` is a proper ancestor of `below`."""
        return above.id < below.id and above.start <= below.start and below.end <= above.end


def build_pattern_tree(training: TrainingSet) -> PatternTree:
    """Algorithm 1, depth first. Deterministic: ties go to the first key in alphabetical order."""
    return PatternTree(training)


def _nodes(grown: Grown) -> tuple[Node, ...]:
    """Every node as an object, with what it excludes and its children."""
    places = grown.places.tolist()
    excluded: list[tuple[tuple[int, int], ...]] = []
    children: list[list[int]] = [[] for _ in places]
    for node, (parent, _, _, _, is_trivial, *_) in enumerate(places):
        above = excluded[parent] if parent >= 0 else ()
        excluded.append((*above, *_salient_values(grown, places[parent])) if is_trivial else above)
        if parent >= 0:
            children[parent].append(node)
    return tuple(
        Node(node, parent, depth, start, end, kinds, codes, excluded[node], split_key, tuple(children[node]))
        for node, ((parent, depth, start, end, _, split_key, *_), kinds, codes) in enumerate(
            zip(places, grown.kinds, grown.codes, strict=True)
        )
    )


def _salient_values(grown: Grown, split: list[int]) -> list[tuple[int, int]]:
    return [(split[SPLIT_KEY], code) for code in grown.salient[split[SALIENT_START] : split[SALIENT_END]].tolist()]


def node_pattern(tree: PatternTree, node: Node) -> list[tuple[str, str]]:
    """The pattern as key–value pairs; `*` stands for differing values, `*?` where some URLs lack the key."""
    signs = {DIGITS: "*", SOME: "*", ANY: "*?"}
    texts = tree.training.texts
    pairs = []
    for key, kind, code in zip(tree.training.keys, node.kinds, node.codes, strict=True):
        if kind != ABSENT:
            pairs.append((key, texts[code] if kind == IS else signs[int(kind)]))
    return sorted(pairs, key=lambda pair: url_position(pair[0]))


def node_regex(tree: PatternTree, node: Node) -> str:
    """The regular expression of a node (Algorithm 1, line 2), for people: matching is done by key."""
    texts = tree.training.texts
    tests = []
    for k, (key, kind, code) in enumerate(zip(tree.training.keys, node.kinds, node.codes, strict=True)):
        unless = tuple(sorted(texts[value] for excluded, value in node.excluded if excluded == k and kind > IS))
        tests.append(KeyTest(key, TEST_OF_KIND[int(kind)], texts[code] if kind == IS else "", unless))
    return url_pattern(sorted(tests, key=lambda test: url_position(test.key)))


@lru_cache(maxsize=KEYS_KEPT_MAX)
def url_position(key: str) -> tuple[int, int, str]:
    """Where a key stands in a URL; named keys among themselves by name."""
    if key.startswith("host_"):
        return 2, index_of(key), ""
    if key.startswith("path_"):
        return 4, index_of(key), ""
    places = {"scheme": 0, "userinfo": 1, "port": 3, "ext": 5, ";": 6, "?": 7, "#": 8}
    return places[key if key in places else key[0]], 0, key
