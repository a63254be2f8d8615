"""Which candidates are deployed (Lei, section 5.3). Figure 7 names what must not be in the outcome:

    (a) two rules share a source node   (b) a rule's source is an ancestor of another's   (c) rules form a circle

`select_by_graph`: the random walk decides which nodes are destinations, rules lead only there, chains are
joined into one rule. `select_naively`: the paper's ad-hoc strategy, rule by rule. Neither leaves any of the three.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from dustream.core.rules.candidates import Candidate, CandidateSettings, is_qualified
from dustream.core.rules.evidence import EvidenceIndex, Operations
from dustream.core.rules.pattern_tree import Node, PatternTree

WALK_STEPS_MAX: Final = 200
WALK_CHANGE_MIN: Final = 1e-9
CHAIN_LENGTH_MAX: Final = 16


def select(tree: PatternTree, candidates: list[Candidate], settings: CandidateSettings) -> list[Candidate]:
    """By the method in the settings."""
    if settings.selection == "naive":
        return select_naively(tree, candidates)
    return select_by_graph(tree, candidates, settings)


def select_by_graph(
    tree: PatternTree, candidates: list[Candidate], settings: CandidateSettings | None = None
) -> list[Candidate]:
    """S_graph."""
    if all(rule.source == rule.target == 0 for rule in candidates):
        return candidates  # nothing but a rule of the root, or nothing at all: the tree need not grow
    settings = settings or CandidateSettings()
    towards: dict[int, Candidate] = {}
    if any(rule.source != rule.target for rule in candidates):
        towards = _towards_destinations(candidates, stable_distribution(tree, candidates))
    inner = {rule.source: rule for rule in candidates if rule.source == rule.target}
    index = EvidenceIndex(tree.training)
    joined = [_joined(tree, index, source, towards, inner, settings) for source in sorted(towards)]
    # Below one source there may be better ones: the walk says where rules lead, the gain which of two levels rewrites.
    return _without_covered(tree, [*(rule for rule in joined if rule is not None), *inner.values()])


def stable_distribution(tree: PatternTree, candidates: list[Candidate]) -> dict[int, float]:
    """Lei eq. 7: π = (Pᵀ)^∞ π⁰ with π⁰ the volumes, over the nodes that occur in candidates.

    Half of the energy stays at each step: that changes no limit, but a circle of two comes to rest. What has no way out
    keeps its energy.
    """
    nodes = sorted({node for rule in candidates for node in (rule.source, rule.target)})
    place = {node: i for i, node in enumerate(nodes)}
    weights = _edge_weights(tree, candidates, place)
    out = weights.sum(axis=1, keepdims=True)
    transition = np.where(out > 0, weights / np.where(out > 0, out, 1), np.eye(len(nodes)))
    energy = np.array([float(tree.nodes[node].volume) for node in nodes])
    towards, total = transition.T, np.add.reduce  # as `sum`, with less around it
    for _ in range(WALK_STEPS_MAX):
        after = (energy + towards @ energy) / 2
        if total(np.abs(after - energy)) <= WALK_CHANGE_MIN * total(energy):
            break
        energy = after
    return dict(zip(nodes, energy.tolist(), strict=True))


def _edge_weights(tree: PatternTree, candidates: list[Candidate], place: dict[int, int]) -> npt.NDArray[np.float64]:
    """1 − fpr for rules, 1 for links from descendants to ancestors."""
    weights = np.zeros((len(place), len(place)))
    for node in place:
        above = tree.nodes[node].parent
        while above >= 0:
            if above in place:
                weights[place[node], place[above]] = 1.0
            above = tree.nodes[above].parent
    for rule in candidates:
        if rule.source != rule.target:
            i, j = place[rule.source], place[rule.target]
            weights[i, j] = max(weights[i, j], 1.0 - rule.evidence.false_positive_rate)
    return weights


def _towards_destinations(candidates: list[Candidate], energies: dict[int, float]) -> dict[int, Candidate]:
    """For each node that is no destination the one rule it keeps: a forest whose roots are the destinations.

    The free node with the most energy becomes a destination; rules lead to it, directly or over nodes that have a rule
    to it. So no node has two rules, and no rules form a circle."""
    into: dict[int, list[Candidate]] = defaultdict(list)
    for rule in candidates:
        if rule.source != rule.target:
            into[rule.target].append(rule)
    chosen: dict[int, Candidate] = {}
    settled: set[int] = set()
    for destination in sorted(energies, key=lambda node: (-energies[node], node)):
        if destination in settled:
            continue
        settled.add(destination)
        front = [destination]
        while front:
            reached = []
            for node in front:
                for rule in sorted(into[node], key=_quality):
                    if rule.source not in settled:
                        settled.add(rule.source)
                        chosen[rule.source] = rule
                        reached.append(rule.source)
            front = reached
    return chosen


def _quality(rule: Candidate) -> tuple[float, int, int, int]:
    return rule.evidence.false_positive_rate, -rule.evidence.support, rule.source, rule.target


def _joined(
    tree: PatternTree,
    index: EvidenceIndex,
    source: int,
    towards: dict[int, Candidate],
    inner: dict[int, Candidate],
    settings: CandidateSettings,
) -> Candidate | None:
    """The chain from a node to its destination as one rule (Figure 8 d, e), the destination's own rule included.

    None if the join has no evidence of its own; a single rule then stands for itself.
    """
    first = rule = towards[source]
    operations = rule.operations
    for _ in range(CHAIN_LENGTH_MAX):
        if rule.target not in towards:
            break
        rule = towards[rule.target]
        operations = chained(operations, rule.operations)
    if rule.target in inner:
        operations = chained(operations, inner[rule.target].operations)
    evidence = index.evidence(tree.rows(tree.nodes[source]), operations)
    if is_qualified(evidence, settings):
        return replace(first, target=rule.target, operations=operations, evidence=evidence)
    return first if first.target not in towards else None


def chained(first: Operations, second: Operations) -> Operations:
    """Both operations in one."""
    copied = np.where(second.copied >= 0, first.copied[np.maximum(second.copied, 0)], -1)
    fixed = np.where(second.copied >= 0, first.fixed[np.maximum(second.copied, 0)], second.fixed)
    return Operations(copied.astype(np.int32), fixed.astype(np.int32))


def _without_covered(tree: PatternTree, rules: list[Candidate]) -> list[Candidate]:
    """Cases (a) and (b): per node one rule, and on every way from the root to a leaf one node with a rule.

    An ancestor's rule stays unless the rules below it remove more URLs together.
    """
    by_source: dict[int, list[Candidate]] = defaultdict(list)
    for rule in rules:
        by_source[rule.source].append(rule)
    kept: list[Candidate] = []
    for source in sorted(by_source, reverse=True):  # in preorder what is below a node comes after it
        own = max(by_source[source], key=lambda rule: (rule.evidence.gain, *_reverse(rule)))
        below = [rule for rule in kept if tree.is_ancestor(tree.nodes[source], tree.nodes[rule.source])]
        if own.evidence.gain >= sum(rule.evidence.gain for rule in below):
            kept = [rule for rule in kept if rule not in below] + [own]
    return _without_circles(tree, kept)


def _reverse(rule: Candidate) -> tuple[float, int, int]:
    return -rule.evidence.false_positive_rate, rule.evidence.support, -rule.target


def select_naively(tree: PatternTree, candidates: list[Candidate]) -> list[Candidate]:
    """S_naive: the smallest fpr per source; ancestors before descendants; circles lose their weakest rule."""
    per_source: dict[int, Candidate] = {}
    for rule in sorted(candidates, key=_quality):
        per_source.setdefault(rule.source, rule)
    kept: list[Candidate] = []
    for rule in sorted(per_source.values(), key=lambda rule: rule.source):
        if not any(tree.is_ancestor(tree.nodes[above.source], tree.nodes[rule.source]) for above in kept):
            kept.append(rule)
    return _without_circles(tree, kept)


def _without_circles(tree: PatternTree, rules: list[Candidate]) -> list[Candidate]:
    """Case (c): as long as rules lead in a circle, the one with the least support goes."""
    kept = sorted(rules, key=lambda rule: rule.source)
    while circle := find_circle(tree, kept):
        weakest = min(circle, key=lambda rule: (rule.evidence.support, -rule.source))
        kept = [rule for rule in kept if rule is not weakest]
    return kept


def find_circle(tree: PatternTree, rules: Iterable[Candidate]) -> list[Candidate]:
    """Rules that lead from one to the next and back, or nothing. A rule within one node leads to no other node.

    One rule leads to the other if the source of the second is the target of the first, above it or below it.
    """
    rules = list(rules)
    nodes = tree.nodes
    leads = _related(tree)
    followers = {
        i: [
            j
            for j, other in enumerate(rules)
            if other.source != other.target and leads(nodes[rule.target], nodes[other.source])
        ]
        for i, rule in enumerate(rules)
        if rule.source != rule.target
    }
    state: dict[int, int] = {}
    for start in followers:
        way: list[int] = []
        stack = [(start, iter(followers[start]))]
        if state.get(start):
            continue
        state[start] = 1
        way.append(start)
        while stack:
            at, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                way.pop()
                state[at] = 2
            elif state.get(following) == 1:
                return [rules[i] for i in way[way.index(following) :]]
            elif not state.get(following):
                state[following] = 1
                way.append(following)
                stack.append((following, iter(followers[following])))
    return []


def _related(tree: PatternTree) -> Callable[[Node, Node], bool]:
    def related(a: Node, b: Node) -> bool:
        return a.id == b.id or tree.is_ancestor(a, b) or tree.is_ancestor(b, a)

    return related
