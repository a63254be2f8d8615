"""One rule set per site, from both learners: what the pattern tree and DustBuster propose, conflicts resolved.

Proposals are tried in the order of how many URLs each would remove. Each is judged on the URLs as the rules before it
leave them: it must remove URLs that are still there, with hardly a false positive, and lead to no URL that redirects or
is gone. So of two rules that do the same only the first stays, and the order of the set is the order in which one pass
applies it.

Learning goes in rounds, each on the URLs that the rounds before leave: a rule for the whole site (`www.`) and one for a
directory of it cannot both be deployed from one tree (Lei, Figure 7 b), but one after the other they can. DustBuster
comes when the tree has nothing more to say.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from dustream.core.rules import fanout
from dustream.core.rules.candidates import (
    Candidate,
    CandidateSettings,
    candidate_rules,
    is_qualified,
)
from dustream.core.rules.decompose import is_named
from dustream.core.rules.dustbuster import DustSettings, Fetch, LoggedUrl, dust_rules
from dustream.core.rules.evidence import Evidence, EvidenceIndex, Operations, rewritten_hashes
from dustream.core.rules.growth import summary
from dustream.core.rules.hash_slots import Ints
from dustream.core.rules.normalize import PASSES_MAX, SiteRules
from dustream.core.rules.pattern_tree import Kind, PatternTree, build_pattern_tree
from dustream.core.rules.rewrite import (
    Pattern,
    PatternRewriter,
    Rewrite,
    Rewriter,
    Taken,
    as_regex,
    matching_rows,
    rewrite_of,
    rewriter,
    rule_id,
)
from dustream.core.rules.selection import select_by_graph
from dustream.core.rules.standard import standard_form
from dustream.core.rules.training import KnownUrl, TrainingSet, training_set
from dustream.core.rules.url_table import UrlTable
from dustream.core.sites import site_of
from dustream.schemas.rules import Learner, RuleStage, UrlRule

PROPOSALS_MAX: Final = 200
EXAMPLES_MAX: Final = 3
ROUNDS_MAX: Final = 4
ONE_VALUE_URLS_MIN: Final = 20

Group = dict[str | None, int]
"""How many of the URLs that have become one are in each cluster; None: unknown."""

Method = Literal["both", "tree", "dust", "fanout"]


class SiteUrl(NamedTuple):
    """What is known of one URL: the cluster of its content, or only a size; whether it redirects or is gone."""

    url: str
    cluster: str | None = None
    size_min: int = -1
    size_max: int = -1
    avoid: bool = False


class LearnSettings(NamedTuple):
    """A rule must remove at least `gain_min` URLs, and that share of the site's: a rule per page is no rule."""

    candidates: CandidateSettings = CandidateSettings()
    dust: DustSettings = DustSettings()
    gain_min: int = 3
    gain_share_min: float = 0.0002
    fan_out: int = 10

    def with_label_noise(self, share: float) -> LearnSettings:
        """For labels of which this share is wrong."""
        return self._replace(
            candidates=self.candidates._replace(label_noise=share), dust=self.dust._replace(label_noise=share)
        )


class Proposal(NamedTuple):
    """A rule that a learner proposes. `urls`: the ones it can apply to, if that is known.

    `right`, `wrong`: what DustBuster's validation counted; where only sizes are known there is nothing else.
    """

    rewrite: Rewrite
    learner: Learner
    gain: int
    urls: list[str] | None = None
    right: int = 0
    wrong: int = 0


class SiteCounts(NamedTuple):
    """What was seen while learning a site. No clusters: only sizes are known."""

    urls: int
    left_out: int
    clusters: int
    nodes: int
    height: int
    raw: int
    proposed: int


@dataclass(frozen=True)
class LearnedSite:
    """The rules of a site in order of application, the tree they came from, and counts."""

    site: str
    rules: tuple[UrlRule, ...]
    tree: PatternTree
    counts: SiteCounts


def learn_site(
    site: str,
    known: Iterable[SiteUrl],
    method: Method = "both",
    settings: LearnSettings | None = None,
    stage: RuleStage = "active",
    fetch: Fetch | None = None,
    table: UrlTable | None = None,
) -> LearnedSite:
    """The rules of one site from its URLs. The outcome does not depend on their order. `table`: see `training_set`."""
    settings = settings or LearnSettings()
    entries = sorted(set(known), key=_entry_order)
    judge = Judge(site, entries, settings, table or UrlTable())
    first = judge.training()
    tree = build_pattern_tree(first)
    rounds = _Rounds(judge, settings, stage)
    if judge.may_have_rules():
        rounds.learn(method, tree, entries, fetch)
    counts = SiteCounts(
        urls=first.size,
        left_out=first.left_out,
        clusters=int(first.clusters.max(initial=-1)) + 1,
        nodes=tree.node_count,
        height=tree.height,
        raw=rounds.raw,
        proposed=rounds.proposed,
    )
    return LearnedSite(site, tuple(rounds.rules), tree, counts)


class _Rounds:
    """The rules so far, and what was tried for them."""

    def __init__(self, judge: Judge, settings: LearnSettings, stage: RuleStage) -> None:
        self._judge = judge
        self._settings = settings
        self._stage = stage
        self.rules: list[UrlRule] = []
        self.raw = 0
        self.proposed = 0

    def learn(self, method: Method, tree: PatternTree, entries: list[SiteUrl], fetch: Fetch | None) -> None:
        if method == "fanout":
            self.propose(*fanout_proposals(tree, self._settings))
        if method in ("both", "tree"):
            self.learn_trees(tree)
        if method in ("both", "dust") and self.learn_dust(entries, fetch) and method == "both":
            self.learn_trees(build_pattern_tree(self._judge.training()))

    def learn_trees(self, tree: PatternTree) -> None:
        """Round after round, until one brings nothing new."""
        for _ in range(ROUNDS_MAX):
            if not self.propose(*tree_proposals(tree, self._settings.candidates)):
                break
            tree = build_pattern_tree(self._judge.training())

    def learn_dust(self, entries: list[SiteUrl], fetch: Fetch | None) -> bool:
        """DustBuster on what the trees left; where no cluster is known, by the sizes of all requests."""
        sized: dict[str, list[LoggedUrl]] = defaultdict(list)
        for entry in entries:
            if entry.cluster is None and entry.size_min >= 0:
                url = standard_form(entry.url)
                sized[url].append(LoggedUrl(url, None, entry.size_min, entry.size_max))
        listed = [
            logged
            for known in self._judge.remaining()
            for logged in sized.get(known.url, [LoggedUrl(known.url, _sketch(known))])
        ]
        findings = dust_rules(listed, self._settings.dust, fetch)
        proposals = [
            Proposal(rule.rewrite, "dust", rule.right, right=rule.right, wrong=rule.wrong) for rule in findings.rules
        ]
        return self.propose(findings.detected, proposals)

    def propose(self, raw: int, proposals: list[Proposal]) -> bool:
        """Whether any of the proposals became a rule."""
        self.raw += raw
        self.proposed += len(proposals)
        accepted = list(self._judge.judged(proposals, self._stage))
        self.rules += [rule for rule in accepted if rule.id not in {other.id for other in self.rules}]
        return bool(accepted)


def _sketch(known: KnownUrl) -> str | None:
    return None if known.cluster is None else str(known.cluster)


def _entry_order(entry: SiteUrl) -> tuple[str, str, int, int, bool]:
    return entry.url, entry.cluster or "", entry.size_min, entry.size_max, entry.avoid


def by_site(known: Iterable[SiteUrl]) -> Iterator[tuple[str, list[SiteUrl]]]:
    """URLs by site, sites in order. What has no site teaches nothing."""
    sites: dict[str, list[SiteUrl]] = defaultdict(list)
    for entry in known:
        site = site_of(standard_form(entry.url))
        if site:
            sites[site].append(entry)
    yield from sorted(sites.items())


# ---------------------------------------------------------------- proposals


def tree_proposals(tree: PatternTree, settings: CandidateSettings) -> tuple[int, list[Proposal]]:
    """The deployable rules of the pattern tree, each as wide as its evidence reaches; and how many were constructed."""
    candidates = candidate_rules(tree, settings)
    index = EvidenceIndex(tree.training)
    proposals = []
    for rule in select_by_graph(tree, candidates.qualified, settings):
        for pattern, operations in _widths(tree, rule, index, settings):
            proposal = _tightened(tree, index, pattern, operations)
            if proposal is not None:
                proposals.append(proposal)
    return candidates.raw, _distinct(proposals)


def _widths(
    tree: PatternTree, rule: Candidate, index: EvidenceIndex, settings: CandidateSettings
) -> Iterator[tuple[Pattern, Operations]]:
    """The rule itself, and the same writes under the tests of the ancestor where most URLs speak for it.

    A value that many directories share is split into one node per directory, and the rule with it. Only what the rule
    writes or copies keeps the tests of its own node. At least half of the duplicates it reaches must speak for it.
    """
    node = tree.nodes[rule.source]
    yield Pattern(node.kinds.tolist(), node.codes.tolist(), node.excluded), rule.operations
    changed = _changed_keys(rule.operations, node.kinds, node.codes)
    operations = _only(rule.operations, changed)
    best, best_gain = None, rule.evidence.gain
    above = node.parent
    while above >= 0:
        ancestor = tree.nodes[above]
        kinds, codes = ancestor.kinds.copy(), ancestor.codes.copy()
        kinds[changed], codes[changed] = node.kinds[changed], node.codes[changed]
        kept = tuple(pair for pair in node.excluded if pair in ancestor.excluded or pair[0] in changed)
        pattern = Pattern(kinds.tolist(), codes.tolist(), kept)
        evidence = index.evidence(matching_rows(tree.training, pattern), operations)
        spoken_for = evidence.support >= settings.coverage_min * evidence.reached
        if is_qualified(evidence, settings) and evidence.gain > best_gain and spoken_for:
            best, best_gain = pattern, evidence.gain
        above = ancestor.parent
    if best is not None:
        yield best, operations


def _tightened(tree: PatternTree, index: EvidenceIndex, pattern: Pattern, operations: Operations) -> Proposal | None:
    """The rule with the pattern of the URLs that speak for it, and no wider: elsewhere nobody knows what it does."""
    training = tree.training
    speaking = index.speaking_rows(matching_rows(training, pattern), operations)
    if len(speaking) == 0:
        return None
    operations = _landing(index, speaking, operations)
    kinds, codes = summary(training.values, speaking, training.decimal)
    written = set(_changed_keys(operations, kinds, codes).tolist())
    for k, key in enumerate(training.keys):
        # A query key with one value in a few URLs has it by chance; a directory is where the evidence is.
        by_chance = is_named(key) and k not in written and len(speaking) < ONE_VALUE_URLS_MIN
        if kinds[k] == Kind.IS and pattern.kinds[k] != Kind.IS and by_chance:
            kinds[k] = Kind.DIGITS if training.decimal[codes[k]] else Kind.SOME
            codes[k] = 0
    tight = Pattern(kinds.tolist(), codes.tolist(), pattern.excluded)
    rows = matching_rows(training, tight)
    rewrite = rewrite_of(training, tight, operations)
    if not rewrite.writes:
        return None
    return Proposal(rewrite, "tree", index.evidence(rows, operations).gain, _urls(tree, rows))


def _landing(index: EvidenceIndex, speaking: Ints, operations: Operations) -> Operations:
    """The operations, or the same with other stand-ins for what they ignore if those lead to more URLs that exist.

    What stands for an ignored path part was the most frequent value of a whole node. If all that speak for the rule are
    in one corner of it, that value may not occur there: then the most frequent ones of that corner stand for all.
    """
    training = index.training
    fixed_keys = np.flatnonzero((operations.copied < 0) & (operations.fixed > 0))
    ignored = [k for k in fixed_keys.tolist() if not is_named(training.keys[k])]
    alive = speaking[~training.avoid[speaking]]
    if not ignored or len(alive) == 0:
        return operations
    there = Counter(map(tuple, training.values[ignored][:, alive].T.tolist()))
    most = max(there, key=lambda codes: (there[codes], [training.texts[code] for code in codes]))
    fixed = operations.fixed.copy()
    fixed[ignored] = most
    other = Operations(operations.copied, fixed)
    return other if _landed(index, speaking, other) > _landed(index, speaking, operations) else operations


def _landed(index: EvidenceIndex, rows: Ints, operations: Operations) -> int:
    """How many of the rows become known URLs that may be led to."""
    training = index.training
    landed = index.rows_at(rewritten_hashes(training, rows, operations))
    return int((~training.avoid[landed[landed >= 0]]).sum())


def _changed_keys(operations: Operations, kinds: npt.NDArray[np.int8], codes: Ints) -> Ints:
    """The keys that a rule writes, and those that it copies from."""
    own = operations.copied == np.arange(len(operations.copied))
    same = (operations.copied < 0) & (kinds <= Kind.IS) & (operations.fixed == codes)
    written = np.flatnonzero(~own & ~same)
    return np.union1d(written, operations.copied[written][operations.copied[written] >= 0]).astype(np.int32)


def _only(operations: Operations, keys: Ints) -> Operations:
    """The operations on these keys; all others keep their values."""
    copied = np.arange(len(operations.copied), dtype=np.int32)
    fixed = np.zeros(len(operations.copied), np.int32)
    copied[keys], fixed[keys] = operations.copied[keys], operations.fixed[keys]
    return Operations(copied, fixed)


def fanout_proposals(tree: PatternTree, settings: LearnSettings) -> tuple[int, list[Proposal]]:
    """The baseline's deployable rules."""
    findings = fanout.fanout_rules(tree.training, settings.fan_out, settings.candidates)
    proposals = []
    for rule in fanout.select_naively(findings.qualified):
        pattern = fanout.pattern_of(rule)
        copied = np.arange(len(tree.training.keys), dtype=np.int32)
        copied[rule.key] = -1
        fixed = np.zeros(len(copied), np.int32)
        fixed[rule.key] = rule.value
        rewrite = rewrite_of(tree.training, pattern, Operations(copied, fixed))
        proposals.append(
            Proposal(rewrite, "fanout", rule.evidence.gain, _urls(tree, matching_rows(tree.training, pattern)))
        )
    return findings.raw, _distinct(proposals)


def _urls(tree: PatternTree, rows: Ints) -> list[str]:
    return [tree.training.urls[row] for row in rows]


def _distinct(proposals: list[Proposal]) -> list[Proposal]:
    seen: dict[Rewrite, Proposal] = {}
    for proposal in proposals:
        seen.setdefault(proposal.rewrite, proposal)
    return list(seen.values())


# ---------------------------------------------------------------- judging


class Judge:
    """The known URLs as the accepted rules leave them: each with the clusters of the URLs that have become it."""

    def __init__(self, site: str, entries: Iterable[SiteUrl], settings: LearnSettings, table: UrlTable) -> None:
        self._site = site
        self._settings = settings
        self._groups: dict[str, Group] = {}
        self._avoid: set[str] = set()
        self._accepted: list[UrlRule] = []
        self._spread: Counter[str | None] = Counter()
        self._table = table
        self._sized = any(entry.size_min >= 0 and entry.cluster is None for entry in entries)
        for entry in entries:
            url = table.standard(entry.url)
            if url in self._groups:
                self._groups[url] = _merged(self._groups[url], {entry.cluster: 1})
            else:
                self._groups[url] = {entry.cluster: 1}
            if entry.avoid:
                self._avoid.add(url)
        self._gain_min = max(settings.gain_min, int(settings.gain_share_min * len(self._groups)))

    def may_have_rules(self) -> bool:
        """Whether so many URLs can be removed that a rule is worth it; by sizes alone nobody knows."""
        spread = Counter(cluster for group in self._groups.values() for cluster in group if cluster is not None)
        return self._sized or spread.total() - len(spread) >= self._gain_min

    def remaining(self) -> Iterator[KnownUrl]:
        """The URLs that are left, each in the cluster most of its members have."""
        for url, group in self._groups.items():
            cluster = next(iter(group)) if len(group) == 1 else _most_frequent(group)
            yield KnownUrl(url, cluster, url in self._avoid)

    def training(self) -> TrainingSet:
        return training_set(self.remaining(), self._table)

    def judged(self, proposals: Sequence[Proposal], stage: RuleStage) -> Iterator[UrlRule]:
        """The accepted rules, in the order in which they apply."""
        self._spread = Counter(cluster for group in self._groups.values() for cluster in group)
        in_order = sorted(proposals, key=lambda each: (-each.gain, each.learner, as_regex(each.rewrite)))
        for proposal in in_order[:PROPOSALS_MAX]:
            if proposal.gain < self._gain_min:
                break
            changes = self._changes(proposal)
            if changes is None:
                continue
            evidence = self._evidence(changes)
            if self._is_accepted(proposal, evidence):
                rule = self._rule(proposal, evidence, changes, stage)
                yield rule
                self._accepted.append(replace(rule, stage="active"))
                self._groups = self._after(changes, dict(self._groups))

    def _is_accepted(self, proposal: Proposal, evidence: Evidence) -> bool:
        settings = self._settings.candidates
        if self._is_by_size(proposal):
            # Without clusters there is nothing to count pairs by: DustBuster has validated it by sizes.
            return evidence.gain >= self._gain_min and evidence.forbidden <= settings.fpr_max * evidence.gain
        return evidence.gain >= self._gain_min and is_qualified(evidence, settings)

    def _is_by_size(self, proposal: Proposal) -> bool:
        return self._sized and proposal.learner == "dust"

    def _changes(self, proposal: Proposal) -> list[tuple[str, str]] | None:
        """Where the URLs end if the proposal joins the rules; None if it leads in a circle with them."""
        step = self._step(rewriter(proposal.rewrite))
        accepted = SiteRules(self._site, self._accepted)
        changes = []
        for url in self._groups if proposal.urls is None else proposal.urls:
            end = self._end(step, accepted, url) if url in self._groups else url
            if end is None:
                return None
            if end != url:
                changes.append((url, end))
        return changes

    def _end(self, step: Callable[[str], str | None], accepted: SiteRules, url: str) -> str | None:
        """Where a URL ends by the new rule and the accepted ones together; None if it never does."""
        seen = [url]
        while (after := step(seen[-1])) is not None:
            if after not in self._groups:  # what is there is as the accepted rules leave it
                after, _ = accepted.apply(after)
            if after in seen or len(seen) > PASSES_MAX:
                return None
            seen.append(after)
        return seen[-1]

    def _step(self, run: Rewriter) -> Callable[[str], str | None]:
        """`run.apply`, but for rules by key on URLs that are taken apart already: by the table, or the step before."""
        if not isinstance(run, PatternRewriter):
            return run.apply
        last = Taken("", (), ())

        def step(url: str) -> str | None:
            nonlocal last
            taken = last if last.url == url else Taken(url, *self._table.apart(url))
            writer = run.writer_of(taken.keys)
            if writer is None or not writer.tests.passed_by(taken.values):
                return None
            last = writer.write(taken)
            return None if last.url == url else last.url

        return step

    def _after(self, changes: list[tuple[str, str]], groups: dict[str, Group]) -> dict[str, Group]:
        """The groups with the changes made. All of them at once: what is rewritten to a URL that itself moves stays."""
        moving = {url: self._groups[url] for url, _ in changes}
        for url in moving:
            groups.pop(url, None)
        for url, target in changes:
            there = groups.get(target)
            groups[target] = moving[url] if there is None else _merged(there, moving[url])
        return groups

    def _evidence(self, changes: list[tuple[str, str]]) -> Evidence:
        """Over the groups that the changes touch, before and after them."""
        touched = {url for change in changes for url in change}
        before = {url: self._groups[url] for url in touched if url in self._groups}
        after = self._after(changes, dict(before))
        before_pairs, before_false = _pair_counts(before.values())
        after_pairs, after_false = _pair_counts(after.values())
        support = false = 0
        for url, target in changes:
            own, joined = before[url], after[target]
            mine = sum(joined[cluster] for cluster in own if cluster is not None)
            support += mine > _known(own)
            false += _known(joined) > mine
        return Evidence(
            support_pairs=after_pairs - before_pairs,
            false_positive_pairs=max(0, after_false - before_false),
            support=support,
            false_positives=false,
            forbidden=sum(target in self._avoid for _, target in changes),
            gain=len(before) - len(after),
            reached=sum(any(self._spread[c] > 1 for c in before[url] if c is not None) for url, _ in changes),
        )

    def _rule(
        self, proposal: Proposal, evidence: Evidence, changes: list[tuple[str, str]], stage: RuleStage
    ) -> UrlRule:
        pattern, replacement = as_regex(proposal.rewrite)
        by_size = self._is_by_size(proposal)
        step = max(1, len(changes) // EXAMPLES_MAX)
        return UrlRule(
            id=rule_id(self._site, proposal.rewrite),
            rewrite=proposal.rewrite,
            pattern=pattern,
            replacement=replacement,
            stage=stage,
            learner=proposal.learner,
            support=proposal.right if by_size else evidence.support,
            false_positives=proposal.wrong if by_size else evidence.false_positives,
            evidence="size" if by_size else "content",
            examples=tuple(changes[::step][:EXAMPLES_MAX]),
        )


def _merged(one: Group, other: Group) -> Group:
    merged = dict(one)
    for cluster, count in other.items():
        merged[cluster] = merged.get(cluster, 0) + count
    return merged


def _known(group: Group) -> int:
    """How many of a group's URLs are in a known cluster."""
    return sum(group.values()) - group.get(None, 0)


def _most_frequent(group: Group) -> str | None:
    return max(group, key=lambda cluster: (group[cluster], cluster or ""))


def _pair_counts(groups: Iterable[Group]) -> tuple[int, int]:
    """Support pairs and false-positive pairs (Lei eq. 3) among URLs whose content is known."""
    pairs = false = 0
    for group in groups:
        known = [count for cluster, count in group.items() if cluster is not None]
        total = sum(known)
        pairs += total * (total - 1) // 2
        false += (total * (total - 1) - sum(count * (count - 1) for count in known)) // 2
    return pairs, false
