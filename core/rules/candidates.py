"""Candidate rules from the pattern tree (Lei, section 5.2).

A rule s → t takes every URL of node s to the format of node t: for each key of t a value to keep, a key of s to copy
from (replace), or nothing, because the values do not matter (ignore). Ignored query keys and path parameters are
dropped; in hosts and paths, where nothing can be dropped, the most frequent value stands for all: both give a URL that
can be fetched, where the paper writes `*`.

Where this goes beyond the paper, and why:
- overlap (eq. 6) is symmetric: a node with few URLs and one with many never overlap by half. A pair also counts if
  half of the duplicates in s alone are shared (`coverage`), since a rule has a direction.
- σ counts common values per common cluster: two keys that both hold small numbers share values without any relation.
- "too many URLs with different values are duplicate" is measured against what chance would give (`difference_ratio`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.hash_slots import Ints
from dustream.core.rules.evidence import Bools, Evidence, EvidenceIndex, Operations
from dustream.core.rules.growth import ABSENT, DIGITS, END, IS, PARENT, SPLIT_KEY, START, Kinds
from dustream.core.rules.landing import LandingSettings, allowed_share
from dustream.core.rules.parameters import Selection
from dustream.core.rules.pattern_tree import Node, PatternTree
from dustream.core.rules.reasons import TextOrder, rank_of, text_order
from dustream.core.rules.shares import ClusterShares
from dustream.core.urls.keys import is_named

NODES_PER_CLUSTER_MAX: Final = 512
DUPLICATE_NODES_MAX: Final = 1_000
CLUSTERS_LOOKED_AT_MAX: Final = 400
ROWS_PER_CLUSTER_MAX: Final = 8
EQUALS_COMPARED_MAX: Final = 64
SETTLED_SHARE_MIN: Final = 0.98
"""A rule that removes this share of a node's duplicates leaves nothing to look for below it."""


class CandidateSettings(NamedTuple):
    """The paper's parameters; `coverage_min` above 1 gives the paper's own conditions.

    `o_min` bounds the overlap of two nodes, and within one node its duplicate rate (section 5.2.1).

    `label_noise`: the share of URLs that are known to be in a wrong cluster, which the paper leaves for future work.
    """

    o_min: float = 0.5
    sigma_min: float = 0.5
    fpr_max: float = 0.05
    coverage_min: float = 0.5
    difference_ratio_max: float = 0.3
    common_clusters_min: int = 3
    support_min: int = 3
    support_share_min: float = 0.1
    label_noise: float = 0.0
    selection: Selection = "graph"
    landing: LandingSettings = LandingSettings()

    def lands(self, evidence: Evidence) -> bool:
        """Whether few of the URLs that a rule changes land unknown."""
        allowed = self.landing.unknown_allowed(evidence.changed)
        return evidence.unknown <= allowed * evidence.changed

    def fpr_allowed(self, pairs: int) -> float:
        """What a rule of fpr_max may show over so many pairs when this share of the labels is wrong: a pair is right if
        both labels are. Few pairs may have met more wrong labels than their share; wrong rules show far more."""
        return allowed_share(self.fpr_max, (1 - self.label_noise) ** 2, pairs)


@dataclass(frozen=True)
class Candidate:
    """A rule between two nodes of the tree (or within one) with its evidence."""

    source: int
    target: int
    operations: Operations
    evidence: Evidence


class Candidates(NamedTuple):
    """All rules that were constructed, and those of them that passed the false-positive filter."""

    raw: int
    qualified: list[Candidate]


def candidate_rules(tree: PatternTree, settings: CandidateSettings | None = None) -> Candidates:
    """Sections 5.2.1 to 5.2.3 in a row: first rules within nodes, from the root down, then rules between nodes.

    Where a rule within a node leaves hardly a duplicate, nothing more is looked for among the nodes below it: any other
    rule there would be redundant (Figure 7 b).
    """
    settings = settings or CandidateSettings()
    index = EvidenceIndex(tree.training)
    shares = ClusterShares(tree)
    raw, qualified, settled = _rules_within(tree, shares, index, settings)
    pairs = duplicate_nodes(tree, shares, settled, settings)
    if pairs:
        qualified += _rules_between(tree, shares, index, pairs, settings)
    return Candidates(raw + len(pairs), qualified)


def _rules_between(
    tree: PatternTree,
    shares: ClusterShares,
    index: EvidenceIndex,
    pairs: list[tuple[int, int]],
    settings: CandidateSettings,
) -> list[Candidate]:
    """The rules from each source to its target that pass the false-positive filter."""
    sources, targets = np.array(pairs).T.copy()
    copied, fixed = _between_nodes(tree, shares, sources, targets, settings)
    counts = index.evidence_of_slices(tree.grown.order, tree.grown.bounds[sources], copied, fixed)
    found = [Evidence(*each) for each in counts.tolist()]
    allowed = ~_leaves_https(tree, sources, copied, fixed)
    return [
        Candidate(*pairs[i], Operations(copied[i], fixed[i]), found[i])
        for i in np.flatnonzero(allowed).tolist()
        if is_qualified(found[i], settings)
    ]


def _leaves_https(tree: PatternTree, sources: npt.NDArray[np.int64], copied: Ints, fixed: Ints) -> Bools:
    """Per rule whether https may become http."""
    key = tree.training.keys.index("scheme")
    written: Ints = fixed[:, key]
    http = [code for code in np.unique(written).tolist() if tree.training.text(code) == "http"]
    stays = (tree.grown.kinds[sources, key] == IS) & (tree.grown.codes[sources, key] == written)
    leaves: Bools = (copied[:, key] < 0) & np.isin(written, http) & ~stays
    return leaves


def one_way(tree: PatternTree, candidates: list[Candidate], settings: CandidateSettings) -> list[Candidate]:
    """Of two rules between the same nodes, the one that redirects and canonical links support. If they support neither,
    the one that lands: a part of /docs/ that is mirrored is found in /docs/, not the other way round. If both land, or
    none does, the other reasons decide."""
    lands = {(rule.source, rule.target): settings.lands(rule.evidence) for rule in candidates}
    orders = {
        node: node_order(tree, tree.nodes[node])
        for way in lands
        if way[0] != way[1] and way[::-1] in lands
        for node in way
    }

    def is_preferred(source: int, target: int) -> bool:
        if source == target or (target, source) not in lands:
            return True
        if orders[source].rank == orders[target].rank and lands[source, target] != lands[target, source]:
            return lands[source, target]
        return orders[target] < orders[source]

    return [rule for rule in candidates if is_preferred(rule.source, rule.target)]


class NodeOrder(NamedTuple):
    """Of two nodes, the smaller is where rules lead (reasons.py)."""

    rank: int
    is_http: bool
    goes_by: bool
    named_keys: int
    depth: int
    text: TextOrder


def node_order(tree: PatternTree, node: Node) -> NodeOrder:
    training, rows = tree.training, tree.rows(node)
    kinds = node.kinds.tolist()
    fixed = [training.texts[code] for kind, code in zip(kinds, node.codes.tolist(), strict=True) if kind == IS]
    orders = list(map(text_order, fixed))
    present = [key for key, kind in zip(training.keys, kinds, strict=True) if kind != ABSENT]
    return NodeOrder(
        rank=rank_of(training.ranks[rows[training.repeated[rows]]]),
        is_http=any(order.is_http for order in orders),
        goes_by=all(order.goes_by for order in orders),
        named_keys=sum(map(is_named, present)),
        depth=sum(key.startswith("path_") for key in present),
        text=text_order(" ".join(fixed)),
    )


def _rules_within(
    tree: PatternTree, shares: ClusterShares, index: EvidenceIndex, settings: CandidateSettings
) -> tuple[int, list[Candidate], npt.NDArray[np.int64]]:
    """The case s = t; and per node the topmost node above it, or itself, whose rule settles it (−1: none does).

    If the root is settled the tree need not grow, and nothing is said of other nodes.
    """
    if tree.root is None:
        return 0, [], np.full(0, -1)
    raw, rule, settles = _rule_within(tree, tree.root, shares, index, settings)
    if settles:
        return raw, [rule] if rule else [], np.zeros(1, np.int64)
    qualified = [rule] if rule else []
    settled = np.full(len(tree.nodes), -1)
    for node in tree.nodes[1:]:
        if settled[node.parent] >= 0:
            settled[node.id] = settled[node.parent]
            continue
        tried, rule, settles = _rule_within(tree, node, shares, index, settings)
        raw += tried
        qualified += [rule] if rule else []
        settled[node.id] = node.id if settles else -1
    return raw, qualified, settled


def _rule_within(
    tree: PatternTree, node: Node, shares: ClusterShares, index: EvidenceIndex, settings: CandidateSettings
) -> tuple[int, Candidate | None, bool]:
    """How many rules were tried, the one that holds, and whether it settles the node."""
    repeats, ratios = shares.differences(node)
    if repeats < settings.support_min or repeats < settings.o_min * node.volume:
        return 0, None, False
    tried = 0
    for operations in _ignoring_rules(tree, shares, node, _ignored_keys(ratios, settings)):
        tried += 1
        evidence = index.evidence(tree.rows(node), operations)
        if is_qualified(evidence, settings):
            rule = Candidate(node.id, node.id, operations, evidence)
            return tried, rule, evidence.gain >= SETTLED_SHARE_MIN * repeats and settings.lands(evidence)
    return tried, None, False


def is_qualified(evidence: Evidence, settings: CandidateSettings) -> bool:
    """The false-positive filter (5.2.3); and no rule leads to URLs that redirect or are gone."""
    return (
        evidence.gain > 0
        and evidence.support >= max(settings.support_min, settings.support_share_min * evidence.reached)
        and evidence.false_positive_rate <= settings.fpr_allowed(evidence.support_pairs)
        and evidence.forbidden <= settings.fpr_max * evidence.support
    )


# ---------------------------------------------------------------- 5.2.1 duplicate nodes


def overlap(common_rows_s: Ints, common_rows_t: Ints, volume_s: Ints, volume_t: Ints) -> npt.NDArray[np.float64]:
    """Lei eq. 6: the URLs of both nodes that are in common clusters, by all URLs of both."""
    shared: npt.NDArray[np.float64] = (common_rows_s + common_rows_t) / (volume_s + volume_t)
    return shared


def duplicate_nodes(
    tree: PatternTree, shares: ClusterShares, settled: npt.NDArray[np.int64], settings: CandidateSettings
) -> list[tuple[int, int]]:
    """Algorithm 2: ordered pairs of nodes with enough common duplicates."""
    if len(settled) == 0 or settled[0] >= 0:
        return []
    common_rows, common_clusters = _common(tree, shares)
    members, (starts, ends) = shares.member_counts(), tree.grown.bounds.T
    s, t = np.nonzero(common_clusters >= settings.common_clusters_min)
    s, t = s[s < t], t[s < t]
    is_ancestor = (starts[s] <= starts[t]) & (ends[t] <= ends[s])  # nodes are in preorder, so t is none of s
    is_looked_at = ~is_ancestor & ((settled[s] < 0) | (settled[s] != settled[t]))
    s, t = s[is_looked_at], t[is_looked_at]
    volumes = ends - starts
    shared = overlap(common_rows[s, t], common_rows[t, s], volumes[s], volumes[t])
    found: list[tuple[int, int, int]] = []
    for source, target in ((s, t), (t, s)):
        rows = common_rows[source, target]
        is_pair = (shared >= settings.o_min) | (rows / members[source] >= settings.coverage_min)
        found += zip((-rows[is_pair]).tolist(), source[is_pair].tolist(), target[is_pair].tolist(), strict=True)
    return [(s, t) for _, s, t in sorted(found)[:DUPLICATE_NODES_MAX]]


def _common(tree: PatternTree, shares: ClusterShares) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For nodes s, t: how many URLs of s are in clusters common with t, and how many such clusters there are."""
    places = tree.grown.places
    leaf_of_row = _leaves(places, tree.grown.order)
    rows = shares.all_members()
    return _accumulate_common(
        tree.training.clusters[rows], leaf_of_row[rows], places[:, PARENT].copy(), NODES_PER_CLUSTER_MAX
    )


@kernel
def _leaves(places: Ints, order: Ints) -> Ints:
    """The leaf of every row."""
    leaves = np.zeros(len(order), np.int32)
    for node in range(len(places)):
        if places[node, SPLIT_KEY] < 0:
            leaves[order[places[node, START] : places[node, END]]] = node
    return leaves


@kernel
def _accumulate_common(
    clusters: Ints, leaves: Ints, parents: Ints, nodes_max: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The inverted index of Algorithm 2: per cluster the nodes it touches, with counts; then all pairs of them."""
    node_count = len(parents)
    common_rows = np.zeros((node_count, node_count), np.int64)
    common_clusters = np.zeros((node_count, node_count), np.int64)
    counts = np.zeros(node_count, np.int64)
    touched = np.zeros(node_count, np.int32)
    start = 0
    while start < len(clusters):
        end = start
        size = 0
        while end < len(clusters) and clusters[end] == clusters[start]:
            node = leaves[end]
            while node >= 0:
                if counts[node] == 0:
                    touched[size] = node
                    size += 1
                counts[node] += 1
                node = parents[node]
            end += 1
        looked_at = min(size, nodes_max)
        for i in range(looked_at):
            for j in range(looked_at):
                common_rows[touched[i], touched[j]] += counts[touched[i]]
                common_clusters[touched[i], touched[j]] += 1
        for i in range(size):
            counts[touched[i]] = 0
        start = end
    return common_rows, common_clusters


# ---------------------------------------------------------------- 5.2.2 rewrite operations


def _ignored_keys(ratios: npt.NDArray[np.float64], settings: CandidateSettings) -> list[int]:
    """The keys of a node whose values do not matter; those that differ most among duplicates come first."""
    possible = [(-ratio, key) for key, ratio in enumerate(ratios.tolist()) if ratio >= settings.difference_ratio_max]
    return [key for _, key in sorted(possible)]


def _ignoring_rules(tree: PatternTree, shares: ClusterShares, node: Node, ignored: list[int]) -> Iterator[Operations]:
    """Where several keys seem irrelevant also each alone: two of them may only be irrelevant each in the other's
    absence."""
    stand_ins = {key: stand_in(tree, shares, node, key) for key in ignored}
    choices = [ignored] if len(ignored) < 2 else [ignored, *([key] for key in ignored)]
    yield from (_ignoring(len(tree.training.keys), choice, stand_ins) for choice in choices if choice)


def _ignoring(key_count: int, ignored: list[int], stand_ins: dict[int, int]) -> Operations:
    copied = np.arange(key_count, dtype=np.int32)
    fixed = np.zeros(key_count, np.int32)
    for key in ignored:
        copied[key] = -1
        fixed[key] = stand_ins[key]
    return Operations(copied, fixed)


def stand_in(tree: PatternTree, shares: ClusterShares, node: Node, key: int) -> int:
    """What is written for an ignored key: nothing where it can be dropped, else its most frequent value. Of equals the
    greatest text; where very many are equal none stands out, and the last one will do. Of schemes it is https."""
    if is_named(tree.training.keys[key]):
        return 0
    if tree.training.keys[key] == "scheme":
        schemes: list[int] = np.unique(tree.training.values[key][tree.rows(node)]).tolist()
        return max(schemes, key=tree.training.text)
    equals = shares.most_frequent(node, key)
    return max(equals, key=tree.training.text) if len(equals) <= EQUALS_COMPARED_MAX else max(equals)


def _between_nodes(
    tree: PatternTree,
    shares: ClusterShares,
    sources: npt.NDArray[np.int64],
    targets: npt.NDArray[np.int64],
    settings: CandidateSettings,
) -> tuple[Ints, Ints]:
    """Keep, replace or ignore for every key of each target: the fields of Operations, a row for each rule."""
    grown, training = tree.grown, tree.training
    told = _Told(training.values, training.clusters, grown.kinds, *shares.members(np.append(sources, targets)))
    copied, is_ignored = _mapped(told, sources, targets, settings.sigma_min, settings.difference_ratio_max)
    fixed = np.where(grown.kinds[targets] == IS, grown.codes[targets], 0).astype(np.int32)
    stand_ins: dict[tuple[int, int], int] = {}
    for rule, key in np.argwhere(is_ignored).tolist():
        ignored = int(targets[rule]), key
        if ignored not in stand_ins:
            stand_ins[ignored] = stand_in(tree, shares, tree.nodes[targets[rule]], key)
        fixed[rule, key] = stand_ins[ignored]
    return copied, fixed


class _Told(NamedTuple):
    """What keys are mapped by: `kinds` by node; of node n, `members[starts[n]:ends[n]]` are the rows that are in a
    cluster of two or more, by cluster."""

    values: Ints
    clusters: Ints
    kinds: Kinds
    members: Ints
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


@kernel
def _mapped(
    told: _Told,
    sources: npt.NDArray[np.int64],
    targets: npt.NDArray[np.int64],
    sigma_min: float,
    difference_ratio_max: float,
) -> tuple[Ints, Bools]:
    """Per rule and key: which key of the source it is copied from (−1: none); and whether its values do not matter."""
    copied = np.full((len(sources), told.kinds.shape[1]), -1, np.int32)
    is_ignored = np.zeros(copied.shape, np.bool_)
    for rule in range(len(sources)):
        s, t = sources[rule], targets[rule]
        from_keys, to_keys = np.flatnonzero(told.kinds[s] != ABSENT), np.flatnonzero(told.kinds[t] >= DIGITS)
        if len(to_keys) == 0:
            continue
        members_s = told.members[told.starts[s] : told.ends[s]]
        members_t = told.members[told.starts[t] : told.ends[t]]
        sigma, difference = _key_mappings(told.values, told.clusters, members_s, members_t, from_keys, to_keys)
        for j in range(len(to_keys)):
            best = 0
            for i in range(1, len(from_keys)):
                is_equal = sigma[i, j] == sigma[best, j] and from_keys[i] == to_keys[j]
                if sigma[i, j] > sigma[best, j] or is_equal:
                    best = i
            if sigma[best, j] > sigma_min and difference[best, j] < difference_ratio_max:
                copied[rule, to_keys[j]] = from_keys[best]
            else:
                is_ignored[rule, to_keys[j]] = True
    return copied, is_ignored


@inner
def _key_mappings(
    values: Ints,
    clusters: Ints,
    members_s: Ints,
    members_t: Ints,
    from_keys: npt.NDArray[np.int64],
    to_keys: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Algorithm 3. σ(k, k'): in how many of the common clusters do k in s and k' in t share a value.

    And the difference ratio of each pair of keys: how often they differ in common clusters, by how often at random.
    """
    sigma = np.zeros((len(from_keys), len(to_keys)), np.float64)
    differing = np.zeros((len(from_keys), len(to_keys)), np.float64)
    at_random = np.zeros((len(from_keys), len(to_keys)), np.float64)
    seen = 0
    i, j = 0, 0
    before_s, before_t = -1, -1
    while i < len(members_s) and j < len(members_t) and seen < CLUSTERS_LOOKED_AT_MAX:
        a, b = clusters[members_s[i]], clusters[members_t[j]]
        if a < b:
            i += 1
            continue
        if b < a:
            j += 1
            continue
        end_i, end_j = i, j
        while end_i < len(members_s) and clusters[members_s[end_i]] == a:
            end_i += 1
        while end_j < len(members_t) and clusters[members_t[end_j]] == a:
            end_j += 1
        rows_s = members_s[i : min(end_i, i + ROWS_PER_CLUSTER_MAX)]
        rows_t = members_t[j : min(end_j, j + ROWS_PER_CLUSTER_MAX)]
        for x in range(len(from_keys)):
            for y in range(len(to_keys)):
                same = 0
                for u in rows_s:
                    for v in rows_t:
                        same += values[from_keys[x], u] == values[to_keys[y], v]
                pairs = len(rows_s) * len(rows_t)
                sigma[x, y] += same > 0
                differing[x, y] += 1.0 - same / pairs
                if before_s >= 0:
                    other_t = values[from_keys[x], rows_s[0]] != values[to_keys[y], before_t]
                    other_s = values[from_keys[x], before_s] != values[to_keys[y], rows_t[0]]
                    at_random[x, y] += 0.5 * other_t + 0.5 * other_s
        before_s, before_t = rows_s[0], rows_t[0]
        seen += 1
        i, j = end_i, end_j
    if seen:
        sigma /= seen
        differing /= seen
    for x in range(len(from_keys)):
        for y in range(len(to_keys)):
            random = at_random[x, y] / (seen - 1) if seen > 1 else 0.0
            differing[x, y] = differing[x, y] / random if random > 0.0 else 0.0
    return sigma, differing
