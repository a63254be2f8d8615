"""One rule set per site, from both learners: what the pattern tree and DustBuster propose, conflicts resolved.

Proposals are tried in the order of how many URLs each would remove. Each is judged on the URLs as the rules before it
leave them: it must remove URLs that are still there, with hardly a false positive, and lead to no URL that redirects or
is gone. So of two rules that do the same only the first stays, and the order of the set is the order in which one pass
applies it.

Learning proceeds in rounds, each on the URLs that the previous rounds leave: a rule for the whole site (`www.`) and one
for a directory of it cannot both be deployed from one tree (Lei, Figure 7 b), but one after the other they can.
DustBuster runs when the tree finds no more rules.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast
from zlib import crc32

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from dustream.core.kernels.hash_slots import Ints
from dustream.core.rules import fanout
from dustream.core.rules.ages import NEVER, NO_AGES, Ages, Times, current_clusters
from dustream.core.rules.candidates import (
    Candidate,
    CandidateSettings,
    candidate_rules,
    is_qualified,
    one_way,
)
from dustream.core.rules.coverage import known_share
from dustream.core.rules.dustbuster import (
    URLS_MAX,
    DustRule,
    DustSettings,
    Fetch,
    LoggedUrl,
    UrlList,
    is_deployable,
    is_listed,
    mates,
    rules_of_list,
    url_list,
    wanted_mates,
)
from dustream.core.rules.evidence import (
    Bools,
    Evidence,
    EvidenceIndex,
    Operations,
    Places,
    cluster_places,
    most_frequent_clusters,
    move_evidence,
    rewritten_hashes,
    supporting_pages,
)
from dustream.core.rules.growth import DIGITS, IS, SOME, summary
from dustream.core.rules.hosting import is_shared
from dustream.core.rules.joined import (
    hosts_replaced,
    landing_values,
    narrowed,
    one_value_replaced,
    unsupported_keys,
    without,
)
from dustream.core.rules.labels import NOT_NAMED, with_canonical
from dustream.core.rules.landing import (
    MEETS,
    UNCOUNTED,
    UNKNOWN,
    WRONG,
    Landing,
    LandingSettings,
    Targets,
    Ways,
    counted,
    counted_by_page,
    saved,
    ways_in_time,
)
from dustream.core.rules.normalize import PASSES_MAX, SiteRules
from dustream.core.rules.parameters import RuleParameters
from dustream.core.rules.pattern_tree import PatternTree, build_pattern_tree
from dustream.core.rules.reasons import (
    exchanged,
    rank_of,
    text_order,
    way_back,
)
from dustream.core.rules.rewrite import (
    Pattern,
    PatternRewriter,
    Rewriter,
    Taken,
    as_regex,
    coded_rewrite,
    is_allowed,
    matching_rows,
    replaced,
    rewrite_of,
    rewriter,
    rule_id,
)
from dustream.core.rules.selection import select
from dustream.core.rules.stand_ins import with_stand_ins
from dustream.core.rules.text_search import SearchedTexts
from dustream.core.rules.training import RANK_AVOIDED, URL_CHARS_MAX, Ranks, TrainingSet, ranks_of, training_of
from dustream.core.rules.url_regex import rule_regex
from dustream.core.rules.url_table import UrlTable
from dustream.core.rules.wording import describe
from dustream.core.urls.canonical import canonical_of
from dustream.core.urls.keys import Keys, is_named
from dustream.core.urls.parts import url_parts
from dustream.core.urls.sites import site_of
from dustream.core.urls.standard import standard_form
from dustream.core.winners import CANONICAL_PLACES, canonical_class
from dustream.schemas.rules import Learner, PatternRewrite, Rewrite, RuleStage, SubstringRewrite, UrlRule

PROPOSALS_MAX: Final = 200
ENDS_MAX: Final = 200_000  # URLs of which it is remembered where the accepted rules lead
EXAMPLES_MAX: Final = 3
ROUNDS_MAX: Final = 4
ONE_VALUE_URLS_MIN: Final = 20

Column = TypeVar("Column", bound=npt.NDArray[Any])
Method = Literal["both", "tree", "dust", "fanout"]


class SiteUrl(NamedTuple):
    """What is known of one URL: the cluster of its content, or only a size; whether it redirects or is gone;
    `canonical`: its rel=canonical link, as it stands in the page."""

    url: str
    cluster: str | None = None
    size_min: int = -1
    size_max: int = -1
    avoid: bool = False
    canonical: str = ""


class LearnSettings(NamedTuple):
    """A rule must remove at least `gain_min` URLs, and that share of the site's: a rule per page is no rule.

    `dust_urls_max`: DustBuster looks at a sample of so many URLs; all of them judge what it finds.
    `active_pages_min`: a rule that fewer pages support is a shadow. What a sample cannot contradict looks right:
    a rule that is wrong on every second page of a site is right on five of them by chance once in 32 times, and most
    rules that are wrong at all are wrong on about so many. One page under many URLs counts once: an error page that is
    sent with status 200 looks like that, and its rule would skip all other pages.
    """

    candidates: CandidateSettings = CandidateSettings()
    dust: DustSettings = DustSettings()
    gain_min: int = 3
    gain_share_min: float = 0.0002
    dust_urls_max: int = URLS_MAX
    fan_out: int = 10
    active_pages_min: int = 5

    @classmethod
    def of(cls, parameters: RuleParameters) -> LearnSettings:
        """With the parameters that users set."""
        p = parameters
        bucket = {} if p.bucket_max is None else {"bucket_max": p.bucket_max, "sized_bucket_max": p.bucket_max}
        return cls(
            candidates=CandidateSettings(
                o_min=p.o_min,
                sigma_min=p.sigma_min,
                fpr_max=p.fpr_max,
                selection=p.selection,
                landing=LandingSettings(p.wrong_max, p.unknown_max),
            ),
            dust=DustSettings(
                substring_max=p.substring_max,
                mrd=p.mrd,
                mad=p.mad,
                mw=p.mw,
                ms=p.ms,
                validation_count=p.validation_count,
                refutation=p.refutation,
                **bucket,
            ),
        )

    def with_label_noise(self, share: float) -> LearnSettings:
        """For labels of which this share is wrong."""
        return self._replace(
            candidates=self.candidates._replace(label_noise=share, landing=self.landing._replace(label_noise=share)),
            dust=self.dust._replace(label_noise=share),
        )

    @property
    def landing(self) -> LandingSettings:
        return self.candidates.landing

    def with_landing(self, landing: LandingSettings) -> LearnSettings:
        return self._replace(candidates=self.candidates._replace(landing=landing))


class Proposal(NamedTuple):
    """A rule that a learner proposes. `places`: of the URLs it can apply to, if that is known. `landed`: of the known
    URL that each of them becomes, by the tree with the same pairs in whatever order; −1 if there is none.

    `right`, `wrong`: what DustBuster's validation counted; where only sizes are known there is nothing else.
    """

    rewrite: Rewrite
    learner: Learner
    gain: int
    places: Places | None = None
    right: int = 0
    wrong: int = 0
    landed: Places | None = None


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
    """The rules of a site in order of application, the tree they came from, and what was tried for them."""

    site: str
    rules: tuple[UrlRule, ...]
    tree: PatternTree
    left_out: int
    raw: int
    proposed: int

    @property
    def urls_left_out(self) -> int:
        """URLs beyond the limits."""
        return self.left_out + self.tree.training.left_out

    @property
    def counts(self) -> SiteCounts:
        """The whole tree is grown for it."""
        training = self.tree.training
        return SiteCounts(
            urls=training.size,
            left_out=self.urls_left_out,
            clusters=int(training.clusters.max(initial=-1)) + 1,
            nodes=self.tree.node_count,
            height=self.tree.height,
            raw=self.raw,
            proposed=self.proposed,
        )


@dataclass(frozen=True)
class SiteUrls:
    """What is known of the URLs of a site, as columns: one entry for each thing known, in the order of the URLs' text.

    `places`: where in the table the URL is. `clusters`: −1 if nothing is known of the content; `names`: of the
    clusters, where a fetcher is asked for them. `sizes`: the interval. `others`: the places of URLs that exist, of
    which nothing else is known to the learner.
    """

    table: UrlTable
    places: Places
    clusters: Ints
    avoid: Bools
    sizes: npt.NDArray[np.int64]
    names: tuple[str, ...] = ()
    left_out: int = 0
    others: Places = field(default_factory=lambda: np.zeros(0, np.int64))
    canonical: Ranks | None = None
    ages: Ages = NO_AGES

    @cached_property
    def ranks(self) -> Ranks:
        """Of each entry: what the page says of itself (reasons.py)."""
        if self.canonical is None:
            return ranks_of(self.avoid)
        return np.where(self.avoid, RANK_AVOIDED, self.canonical).astype(np.int8)

    def with_canonical(self, said: Sequence[str]) -> SiteUrls:
        """With each page's canonical link: `self`, `none`, or the page that it names (core/urls/canonical.py)."""
        standard = [each if each in ("self", "none") else standard_form(each) for each in said]
        is_named = [canonical_class(each) == "other" and len(each) <= URL_CHARS_MAX for each in standard]
        others = np.flatnonzero(is_named).tolist()
        names = np.full(len(said), NOT_NAMED, np.int64)
        names[others] = self.table.rows([standard[i] for i in others])
        own = np.array([each == "self" for each in said], np.bool_)
        names[own] = self.places[own]
        labels = with_canonical(self.places, self.clusters, self.avoid, names)
        places = np.append(self.places, labels.named)
        order = sorted(range(len(places)), key=lambda i: self.table.urls[places[i]])
        more = len(labels.named)
        canonical = np.array([CANONICAL_PLACES[canonical_class(each)] for each in said], np.int8)
        clusters = np.append(labels.clusters, labels.named_clusters)
        return SiteUrls(
            table=self.table,
            places=places[order],
            clusters=clusters[order],
            avoid=np.append(self.avoid, np.zeros(more, np.bool_))[order],
            sizes=np.append(self.sizes, np.full((more, 2), -1, np.int64), axis=0)[order],
            names=(*self.names, *(f"canonical {i}" for i in range(len(self.names), int(clusters.max(initial=-1)) + 1))),
            left_out=self.left_out,
            others=self.others,
            canonical=np.append(canonical, np.full(more, CANONICAL_PLACES["self"], np.int8))[order],
        )

    def by_host(self) -> Iterator[SiteUrls]:
        """The URLs of each host by themselves, in the order of the hosts' names."""
        urls = self.table.urls
        hosts = np.array([url_parts(urls[place]).netloc for place in self.places.tolist()])
        other_hosts = np.array([url_parts(urls[place]).netloc for place in self.others.tolist()], hosts.dtype)
        for host in np.unique(hosts):
            mine = hosts == host
            yield dataclasses.replace(
                self,
                places=self.places[mine],
                clusters=self.clusters[mine],
                avoid=self.avoid[mine],
                sizes=self.sizes[mine],
                others=self.others[other_hosts == host],
                canonical=None if self.canonical is None else self.canonical[mine],
                ages=self.ages.only(mine),
            )


def site_urls(known: Iterable[SiteUrl]) -> SiteUrls:
    """The columns of these entries, whatever their order; URLs too long to learn from are left out."""
    entries = sorted(set(known), key=_entry_order)
    standard = [standard_form(entry.url) for entry in entries]
    order = sorted((i for i, url in enumerate(standard) if len(url) <= URL_CHARS_MAX), key=standard.__getitem__)
    table = UrlTable()
    numbers: dict[str, int] = {}
    clusters = [entries[i].cluster for i in order]
    columns = SiteUrls(
        table=table,
        places=table.rows([standard[i] for i in order]),
        clusters=np.array([-1 if c is None else numbers.setdefault(c, len(numbers)) for c in clusters], np.int32),
        avoid=np.array([entries[i].avoid for i in order], np.bool_),
        sizes=np.array([(entries[i].size_min, entries[i].size_max) for i in order], np.int64).reshape(-1, 2),
        names=tuple(dict.fromkeys(c for c in clusters if c is not None)),
        left_out=len(entries) - len(order),
    )
    if not any(entry.canonical for entry in entries):
        return columns
    return columns.with_canonical([canonical_of(entries[i].url, entries[i].canonical) for i in order])


def learn_site(
    site: str,
    known: Iterable[SiteUrl],
    method: Method = "both",
    settings: LearnSettings | None = None,
    stage: RuleStage = "active",
    fetch: Fetch | None = None,
) -> LearnedSite:
    """The rules of one site from its URLs. The outcome does not depend on their order."""
    return learn_urls(site, site_urls(known), method, settings, stage, fetch)


def learn_urls(
    site: str,
    known: SiteUrls,
    method: Method = "both",
    settings: LearnSettings | None = None,
    stage: RuleStage = "active",
    fetch: Fetch | None = None,
) -> LearnedSite:
    """The same from columns. Other URLs of the table have no influence. On shared hosting, rules are learned host by
    host."""
    judge = Judge(site, known, settings or LearnSettings(), is_validated=fetch is not None)
    if not is_shared(judge.trained_on):
        return _learned(judge, known, method, stage, fetch)
    judges = [(Judge(site, each, judge.settings, fetch is not None), each) for each in known.by_host()]
    learned = [_learned(each, urls, method, stage, fetch) for each, urls in judges]
    rules = sorted((rule for each in learned for rule in each.rules), key=lambda rule: rule.stage != "active")
    raw, proposed = sum(each.raw for each in learned), sum(each.proposed for each in learned)
    tree = build_pattern_tree(judge.trained_on)
    return LearnedSite(site, tuple(rules[:PROPOSALS_MAX]), tree, known.left_out, raw, proposed)


def _learned(judge: Judge, known: SiteUrls, method: Method, stage: RuleStage, fetch: Fetch | None) -> LearnedSite:
    tree = build_pattern_tree(judge.trained_on)
    rounds = _Rounds(judge, judge.settings, stage)
    if judge.may_have_rules():
        rounds.learn(method, tree, fetch)
    return LearnedSite(judge.site, tuple(rounds.rules), tree, known.left_out, rounds.raw, rounds.proposed)


class _Rounds:
    """The rules so far, and what was tried for them."""

    def __init__(self, judge: Judge, settings: LearnSettings, stage: RuleStage) -> None:
        self._judge = judge
        self._settings = settings
        self._candidates = judge.tree_settings()
        self._stage = stage
        self.rules: list[UrlRule] = []
        self.raw = 0
        self.proposed = 0

    def learn(self, method: Method, tree: PatternTree, fetch: Fetch | None) -> None:
        if method == "fanout":
            self.propose(*fanout_proposals(tree, self._settings))
        if method in ("both", "tree"):
            self.learn_trees(tree)
        if method in ("tree", "fanout") or not self._judge.may_have_rules():
            return
        if self.learn_dust(fetch) and method == "both":
            self.learn_trees(build_pattern_tree(self._judge.training()))

    def learn_trees(self, tree: PatternTree) -> None:
        """Round after round, until one brings nothing new."""
        for _ in range(ROUNDS_MAX):
            if not self.propose(*tree_proposals(tree, self._candidates)):
                break
            tree = build_pattern_tree(self._judge.training())

    def learn_dust(self, fetch: Fetch | None) -> bool:
        """DustBuster on what the trees left; where no cluster is known, by the sizes of all requests."""
        found = self._judge.listed()
        if found is None:
            return False
        listed, places = found
        findings = rules_of_list(listed, self._settings.dust, fetch)
        share_min = self._settings.candidates.support_share_min
        proposals = [
            _dust_proposal(rule, places)
            for rule in findings.rules
            # A rule that too few URLs of a sample support is not tried on all of them.
            if len(places) or not listed.by_sketch or rule.right >= share_min * len(rule.rows)
        ]
        return self.propose(findings.detected, proposals)

    def propose(self, raw: int, proposals: list[Proposal]) -> bool:
        """Whether any of the proposals became a rule that the URLs were rewritten by."""
        self.raw += raw
        self.proposed += len(proposals)
        accepted = list(self._judge.judged(proposals, self._stage))
        self.rules += [rule for rule in accepted if rule.id not in {other.id for other in self.rules}]
        return any(self._judge.has_accepted(rule) for rule in accepted)


def _dust_proposal(rule: DustRule, places: Places) -> Proposal:
    """`places`: of the listed URLs, if those are all."""
    if len(places) == 0:
        return Proposal(rule.rewrite, "dust", rule.right, None, rule.right, rule.wrong)
    landed = np.where(rule.landed >= 0, places[rule.landed], -1)
    return Proposal(rule.rewrite, "dust", rule.right, places[rule.rows], rule.right, rule.wrong, landed)


def _entry_order(entry: SiteUrl) -> tuple[str, str, int, int, bool, str]:
    return entry.url, entry.cluster or "", entry.size_min, entry.size_max, entry.avoid, entry.canonical


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
    trials = _Trials(tree.training)
    proposals: list[Proposal] = []
    for rule in _selected(tree, one_way(tree, candidates.qualified, settings), settings):
        for pattern, operations in _widths(tree, rule, trials, settings):
            if trials.is_new("width", pattern, operations):
                for part in _parts(trials.index, pattern, operations, settings):
                    proposals += _tightened(trials, part, settings)
    return candidates.raw, _distinct(proposals)


class _Trials:
    """Rules over one training set: the same rule is found at many nodes, but worked out once."""

    def __init__(self, training: TrainingSet) -> None:
        self.index = EvidenceIndex(training)
        self._evidence: dict[tuple[object, ...], Evidence] = {}
        self._seen: set[tuple[object, ...]] = set()

    def is_new(self, what: str, pattern: Pattern, operations: Operations) -> bool:
        """Whether this is asked for the first time of the rule."""
        before = len(self._seen)
        self._seen.add((what, *_rule_key(pattern, operations)))
        return len(self._seen) > before

    def evidence(self, pattern: Pattern, operations: Operations) -> Evidence:
        rule = _rule_key(pattern, operations)
        if rule not in self._evidence:
            rows = matching_rows(self.index.training, pattern)
            self._evidence[rule] = self.index.evidence(rows, operations)
        return self._evidence[rule]


def _rule_key(pattern: Pattern, operations: Operations) -> tuple[object, ...]:
    kinds, codes, excluded = pattern
    return tuple(kinds), tuple(codes), excluded, operations.copied.tobytes(), operations.fixed.tobytes()


def _selected(tree: PatternTree, candidates: list[Candidate], settings: CandidateSettings) -> list[Candidate]:
    """What is selected; and what is selected of the rules that land: where a wider rule will not be applied, the
    narrower ones stand."""
    selected = select(tree, candidates, settings)
    if all(settings.lands(rule.evidence) for rule in selected):
        return selected
    landing = select(tree, [rule for rule in candidates if settings.lands(rule.evidence)], settings)
    return [*selected, *landing]


def _widths(
    tree: PatternTree, rule: Candidate, trials: _Trials, settings: CandidateSettings
) -> Iterator[tuple[Pattern, Operations]]:
    """The rule itself, and the same writes under the tests of the ancestor where most URLs support it.

    A value that many directories share is split into one node per directory, and the rule with it. Only what the rule
    writes or copies keeps the tests of its own node. At least half of the duplicates it reaches must support it.
    """
    node = tree.node(rule.source)
    yield Pattern(node.kinds.tolist(), node.codes.tolist(), node.excluded), rule.operations
    changed = _changed_keys(rule.operations, node.kinds, node.codes)
    operations = _only(rule.operations, changed)
    best, best_gain = None, rule.evidence.gain
    keys, above = set(changed.tolist()), node.parent
    while above >= 0:
        ancestor = tree.nodes[above]
        kinds, codes = ancestor.kinds.copy(), ancestor.codes.copy()
        kinds[changed], codes[changed] = node.kinds[changed], node.codes[changed]
        excluded = set(ancestor.excluded)
        kept = tuple(pair for pair in node.excluded if pair in excluded or pair[0] in keys)
        pattern = Pattern(kinds.tolist(), codes.tolist(), kept)
        evidence = trials.evidence(pattern, operations)
        is_supported = evidence.support >= settings.coverage_min * evidence.reached
        if is_qualified(evidence, settings) and evidence.gain > best_gain and is_supported:
            best, best_gain = pattern, evidence.gain
        above = ancestor.parent
    if best is not None:
        yield best, operations


class _Part(NamedTuple):
    """A rule each write of which has evidence of its own, and the rows that support it."""

    pattern: Pattern
    operations: Operations
    supporting: Ints


def _parts(
    index: EvidenceIndex, pattern: Pattern, operations: Operations, settings: CandidateSettings
) -> Iterator[_Part]:
    """The rule without the writes that a single page supports; if it replaces one value only, a separate rule for that
    value; and one for each host that it replaces. Each step leaves fewer writes or a narrower
    test."""
    training = index.training
    rows = matching_rows(training, pattern)
    supporting = index.supporting_rows(rows, operations)
    if len(supporting) == 0:
        return
    stand_ins = with_stand_ins(index, supporting, pattern, operations, settings.landing.known_share or 1.0)
    if stand_ins is not operations:
        operations, supporting = stand_ins, index.supporting_rows(rows, stand_ins)
    if len(supporting) == 0:
        return
    hosts = hosts_replaced(training, supporting, pattern, operations)
    if hosts:
        for host in hosts:
            yield from _parts(index, narrowed(pattern, host), operations, settings)
        return
    unsupported = unsupported_keys(training, supporting, operations)
    for keys in unsupported:
        yield from _parts(index, pattern, without(operations, keys), settings)
    if unsupported:
        return
    only = one_value_replaced(training, supporting, pattern, operations)
    if only is None:
        yield _Part(pattern, operations, supporting)
        return
    yield from _parts(index, narrowed(pattern, only), operations, settings)
    yield from _parts(index, pattern, without(operations, [only.key]), settings)


def _tightened(trials: _Trials, part: _Part, settings: CandidateSettings) -> Iterator[Proposal]:
    """The rule with the pattern of the URLs that support it, and no wider: its effect elsewhere is unknown. If it leads
    too many of them to unknown URLs, also the narrower rules that land."""
    index, (pattern, operations, supporting) = trials.index, part
    training = index.training
    kinds, codes = summary(training.values, supporting, training.decimal)
    tight = Pattern(kinds.tolist(), codes.tolist(), pattern.excluded)
    if len(supporting) < ONE_VALUE_URLS_MIN:
        written = set(_changed_keys(operations, kinds, codes).tolist())
        for k, key in enumerate(training.keys):
            # A query key with one value in a few URLs has it by chance; a directory is where the evidence is.
            if tight.kinds[k] == IS != pattern.kinds[k] and k not in written and is_named(key):
                tight.kinds[k] = DIGITS if training.decimal[tight.codes[k]] else SOME
                tight.codes[k] = 0
    if not trials.is_new("tight", tight, operations):
        return
    evidence = trials.evidence(tight, operations)
    patterns = [tight] if settings.lands(evidence) else [tight, *landing_values(index, tight, operations, settings)]
    for each in patterns:
        rewrite, rows = rewrite_of(training, each, operations), matching_rows(training, each)
        if rewrite.writes:
            gain, landed = trials.evidence(each, operations).gain, landed_places(index, rows, operations)
            yield Proposal(rewrite, "tree", gain, training.places[rows], landed=landed)


def landed_places(index: EvidenceIndex, rows: Ints, operations: Operations) -> Places:
    """The place of the known URL that each row becomes; −1 if there is none."""
    landed = index.rows_at(rewritten_hashes(index.training, rows, operations))
    return np.where(landed >= 0, index.training.places[np.maximum(landed, 0)], -1)


def _changed_keys(operations: Operations, kinds: npt.NDArray[np.int8], codes: Ints) -> Ints:
    """The keys that a rule writes, and those that it copies from."""
    own = operations.copied == np.arange(len(operations.copied))
    same = (operations.copied < 0) & (kinds <= IS) & (operations.fixed == codes)
    written = np.flatnonzero(~own & ~same)
    sources = [key for key in operations.copied[written].tolist() if key >= 0]
    return np.array(sorted({*written.tolist(), *sources}), np.int32)


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
        places = tree.training.places[matching_rows(tree.training, pattern)]
        proposals.append(Proposal(rewrite, "fanout", rule.evidence.gain, places))
    return findings.raw, _distinct(proposals)


def _distinct(proposals: list[Proposal]) -> list[Proposal]:
    seen: dict[Rewrite, Proposal] = {}
    for proposal in proposals:
        seen.setdefault(proposal.rewrite, proposal)
    return list(seen.values())


# ---------------------------------------------------------------- judging


class Changes(NamedTuple):
    """Which URLs become which, by their places in the table."""

    sources: Places
    targets: Places


class _Tried(NamedTuple):
    """A proposal that the evidence supports, what it changes, and how that lands. `unsafe`: why it must not be applied;
    empty if it may be."""

    proposal: Proposal
    changes: Changes
    ways: Ways
    unsafe: str

    @property
    def is_safe(self) -> bool:
        return not self.unsafe


def _by_gain(proposals: Sequence[Proposal]) -> list[Proposal]:
    """Those with the largest gain first; equals by learner, and by the text of the rule."""
    equals: dict[tuple[int, str], list[Proposal]] = defaultdict(list)
    for each in proposals:
        equals[-each.gain, each.learner].append(each)
    return [
        each
        for _, some in sorted(equals.items())
        for each in (sorted(some, key=lambda one: as_regex(one.rewrite)) if len(some) > 1 else some)
    ]


def _in_words(rule: UrlRule) -> UrlRule:
    """The rule as regular expression and as text, which take longer to write than many proposals to judge."""
    pattern, replacement = rule_regex(rule.rewrite)
    return replace(rule, pattern=pattern, replacement=replacement, text=describe(rule))


class Judge:
    """The known URLs as the accepted rules leave them: where each entry is now."""

    def __init__(self, site: str, known: SiteUrls, settings: LearnSettings, is_validated: bool = False) -> None:
        self.site = site
        self._is_validated = is_validated
        self._known = known
        self._table = known.table
        self._at = known.places.copy()
        self._clusters = known.clusters
        self._accepted = SiteRules(site, ())
        self._accepted_ids: set[str] = set()
        self._ends: dict[str, str] = {}
        self._last = Taken("", (), ())  # what a rule by key has made last
        self._room = 0
        self._columns: dict[str, Any] = {}
        self._columns_now: dict[str, Any] = {}  # those that change with every rule that is accepted
        self._made: set[int] = set()
        self._stray: set[int] = set()  # what rules lead to where nothing is known, or to other pages
        self._spread = np.zeros(0, np.int64)
        self._sized = bool(np.any((known.sizes[:, 0] >= 0) & (known.clusters < 0)))
        places = int(np.count_nonzero(self._is_there()))
        self._is_distinct = places == len(self._at)
        self._gain_min = max(settings.gain_min, int(settings.gain_share_min * places))
        self.trained_on = self.training()
        if settings.landing.known_share is None and self.may_have_rules():
            settings = settings.with_landing(settings.landing._replace(known_share=known_share(self.trained_on)))
        self._settings = settings

    @property
    def settings(self) -> LearnSettings:
        """With the share of URLs that are known."""
        return self._settings

    def tree_settings(self) -> CandidateSettings:
        """For trees, which do not see held-out URLs: to them the others are a sample."""
        candidates, told = self._settings.candidates, len(self._known.places)
        share = (candidates.landing.known_share or 1.0) * told / max(1, told + len(self._known.others))
        return candidates._replace(landing=candidates.landing._replace(known_share=share))

    def may_have_rules(self) -> bool:
        """Whether enough URLs can be removed for a rule; always true if only sizes are known."""
        spread = self._spread_now()
        return self._sized or int(spread.sum() - np.count_nonzero(spread)) >= self._gain_min

    def _is_there(self) -> Bools:
        """By place: whether a URL is left there."""
        return self._column("there", lambda: self._marked(self._at), self._columns_now)

    @cached_property
    def _occupied(self) -> set[int]:
        """The places where a URL is left; most sites never come to ask for it."""
        return set(self._at.tolist())

    def _spread_now(self) -> npt.NDArray[np.int64]:
        """At how many places each cluster is."""
        if self._is_distinct:
            return np.bincount(self._clusters[self._clusters >= 0])
        order = np.lexsort((self._clusters, self._at))
        spread: npt.NDArray[np.int64] = cluster_places(self._at[order], self._clusters[order])
        return spread

    def remaining(self) -> tuple[Places, Ints]:
        """The places of the URLs that are left, in the order of their text; of each the cluster most of its entries
        have."""
        if self._is_distinct:
            return self._at, self._clusters
        order = np.lexsort((self._clusters, self._at))
        places, clusters = most_frequent_clusters(self._at[order], self._clusters[order])
        by_text = self._by_text(places)
        return places[by_text], clusters[by_text]

    def _by_text(self, places: Places) -> npt.NDArray[np.int64]:
        """The order of the texts. The known URLs are in it already; the others, which rules have made, are few."""
        rank = np.full(len(self._table.urls), len(self._at), np.int64)
        rank[self._known.places] = np.arange(len(self._at))
        urls = self._table.urls
        by_rank = np.argsort(rank[places], kind="stable")
        known = int(np.count_nonzero(rank[places] < len(self._at)))
        made = sorted(by_rank[known:].tolist(), key=lambda i: urls[places[i]])
        ordered = places[by_rank[:known]].tolist()
        at = [bisect_left(ordered, urls[places[i]], key=urls.__getitem__) for i in made]
        return np.insert(by_rank[:known], at, made)

    def training(self) -> TrainingSet:
        places, clusters = self.remaining()
        avoid = self._is_avoided()[places]
        ranks, ages = self._ranks[places], self._ages.only(places)
        self.trained_on = training_of(self._table, places, clusters, avoid, ranks=ranks, ages=ages)
        return self.trained_on

    @property
    def _ranks(self) -> Ranks:
        """By place: what the page there says of itself."""
        return self._column("ranks", self._ranks_by_place)

    def _ranks_by_place(self) -> Ranks:
        return self._by_place(self._known.places, self._known.ranks, CANONICAL_PLACES["none"])

    @property
    def _ages(self) -> Ages:
        """By place: of the contents there that are not outdated."""
        if len(self._known.ages.changed) == 0:
            return NO_AGES
        named = zip(Ages._fields, self._known.ages, strict=True)
        return Ages(*(self._column(name, partial(self._latest, known), self._columns_now) for name, known in named))

    def _latest(self, known: Times) -> Times:
        """By place: the latest time of its entries."""
        current = self._clusters >= 0
        times = np.full(self._places_max(), NEVER, np.int64)
        np.maximum.at(times, self._at[current], known[current])
        return times

    def _is_avoided(self) -> Bools:
        """By place."""
        return self._column("avoided", lambda: self._marked(self._known.places[self._known.avoid]))

    def _is_known(self) -> Bools:
        """By place: whether the URL there was seen."""
        return self._column("known", lambda: self._marked(self._known.places))

    def _is_other(self) -> Bools:
        """By place: whether it is only known that the URL there exists."""
        return self._column("others", lambda: self._marked(self._known.others))

    def _column(self, name: str, make: Callable[[], Column], columns: dict[str, Any] | None = None) -> Column:
        """What does not change but for the places that come to the table; callers do not write to it."""
        columns = self._columns if columns is None else columns
        column = columns.get(name)
        if column is None or len(column) < len(self._table.urls):
            column = columns[name] = make()
        return column

    def _places_max(self) -> int:
        """How many places columns are made for; a column outlives the next few URLs that come to the table."""
        places = len(self._table.urls)
        if self._room < places:
            self._room = places + places // 8 + 64
        return self._room

    def _by_place(self, places: Places, items: Column, other: int) -> Column:
        """By place: the item there; `other` at all other places."""
        column: Any = np.full(self._places_max(), other, items.dtype)
        column[places] = items
        return cast("Column", column)

    def listed(self) -> tuple[UrlList, Places] | None:
        """What is left, as DustBuster takes it, and the place of each URL; no places if not all of it is listed.
        None if no substring rules can be found: a large site with few duplicates is not listed for nothing."""
        places, clusters = self.remaining()
        if self._sized:
            return url_list(self._logged(places, clusters)), np.zeros(0, np.int64)
        wanted = self._wanted(places, clusters)
        if not wanted.any():
            return None
        chosen = self._chosen(places, clusters)
        urls = [self._table.urls[place] for place in places[chosen].tolist()]
        fits = np.fromiter(map(is_listed, urls), np.bool_, len(urls))
        if not fits.all():
            chosen, urls = chosen[fits], [url for url in urls if is_listed(url)]
        unsized = np.full(len(urls), -1, np.int64)
        is_whole = len(chosen) == len(places)
        listed = UrlList(
            urls, clusters[chosen].astype(np.int64), unsized, unsized, self._known.names, wanted if is_whole else None
        )
        return listed, places if is_whole else np.zeros(0, np.int64)

    def _wanted(self, places: Places, clusters: Ints) -> Bools:
        """Which URLs can be an instance of a substring rule; found out from those that have duplicates alone."""
        wanted, rows = np.zeros(len(places), np.bool_), mates(clusters)
        urls = [self._table.urls[place] for place in places[rows].tolist()]
        wanted[rows] = wanted_mates(urls, clusters[rows].astype(np.int64), self._settings.dust)
        return wanted

    def _chosen(self, places: Places, clusters: Ints) -> npt.NDArray[np.int64]:
        """Which URLs DustBuster looks at: all, or a fair sample of whole clusters; by a checksum of their first URL, so
        that a cluster stays in it or out of it when others come."""
        if len(places) <= self._settings.dust_urls_max:
            return np.arange(len(places))
        known = np.flatnonzero(clusters >= 0)
        labels, first, counts = np.unique(clusters[known], return_index=True, return_counts=True)
        urls = self._table.urls
        drawn = [crc32(urls[place].encode("utf-8", "surrogatepass")) for place in places[known[first]].tolist()]
        order = np.argsort(drawn, kind="stable")
        enough = np.searchsorted(np.cumsum(counts[order]), self._settings.dust_urls_max) + 1
        return known[np.isin(clusters[known], labels[order[:enough]])][: self._settings.dust_urls_max]

    def _logged(self, places: Places, clusters: Ints) -> list[LoggedUrl]:
        """With sketches, and where there are none, with sizes."""
        known = self._known
        sized: dict[int, list[LoggedUrl]] = defaultdict(list)
        for entry in np.flatnonzero((known.clusters < 0) & (known.sizes[:, 0] >= 0)).tolist():
            place, (low, high) = int(known.places[entry]), known.sizes[entry].tolist()
            sized[place].append(LoggedUrl(self._table.urls[place], None, low, high))
        return [
            logged
            for place, cluster in zip(places.tolist(), clusters.tolist(), strict=True)
            for logged in sized.get(
                place, [LoggedUrl(self._table.urls[place], None if cluster < 0 else known.names[cluster])]
            )
        ]

    def judged(self, proposals: Sequence[Proposal], stage: RuleStage) -> Iterator[UrlRule]:
        """The accepted rules, in the order in which they apply."""
        self._spread = self._spread_now()
        self._made.clear()
        worth_it = [each for each in proposals if each.gain >= self._gain_min and is_allowed(each.rewrite)]
        for proposal in _by_gain(worth_it)[:PROPOSALS_MAX]:
            found = self._better_way(proposal)
            if found is None:
                continue
            if found.is_safe:
                rule = self._rule(found, stage)
                yield _in_words(rule)
                self._accepted_ids.add(rule.id)
                self._accepted.add(replace(rule, stage="active"))
                self._ends.clear()
                self._make(found.changes)
            elif not self._stray.issuperset(found.changes.sources.tolist()):
                # It is not applied, so the rules after it meet the URLs without it.
                self._stray.update(found.changes.sources.tolist())
                yield _in_words(self._rule(found, "shadow"))

    def has_accepted(self, rule: UrlRule) -> bool:
        """Whether the URLs were rewritten by the rule."""
        return rule.id in self._accepted_ids

    def _unsafe_reason(self, proposal: Proposal, changes: Changes, ways: Ways, now: Ints) -> str:
        """Why the rule must not be applied; empty if few enough URLs land wrong or unknown. Where targets are known,
        few enough pages must do so, too: a page under many URLs shows agreement many times, and a page without a known
        target shows only once that the rule may be wrong."""
        is_seen, targets = self._is_known(), self._distinct(changes.targets)
        landing = self._settings.landing.with_targets_seen(int(np.count_nonzero(is_seen[targets])), len(targets))
        reason = self._landing(proposal, ways).reason(landing)
        if reason or self._is_by_size(proposal):
            return reason
        meeting = self._distinct(changes.targets[ways == MEETS])
        if 2 * np.count_nonzero(is_seen[meeting]) < len(meeting):
            return reason
        return counted_by_page(ways, now[changes.sources]).reason(landing, "pages")

    def _landing(self, proposal: Proposal, ways: Ways) -> Landing:
        return Landing(proposal.right, 0, proposal.wrong) if self._is_by_size(proposal) else counted(ways)

    def _better_way(self, proposal: Proposal) -> _Tried | None:
        """The rule, or the rule the other way round. Redirects and canonical links decide if there are any. Else it is
        the way that lands, and if both do, the one that reasons prefer. A substring rule that was validated on fetched
        pages, or by sizes, was validated one way only."""
        found = self._tried(proposal)
        before, after = (0, 0) if found is None else self._ranks_of(found.changes)
        found = None if after > before else found
        is_one_way = proposal.learner == "dust" and (self._sized or self._is_validated)
        texts = None if is_one_way else exchanged(proposal.rewrite)
        if texts is None:
            return found
        is_preferred = (after, text_order(texts[1])) < (before, text_order(texts[0]))
        if found is not None and is_preferred and found.is_safe:
            return found
        back = way_back(proposal.rewrite)
        if after < before or not is_allowed(back) or not is_deployable(back):
            return found
        other = self._tried(self._proposed(back, proposal))
        return other if other is not None and other.is_safe else found

    def _ranks_of(self, changes: Changes) -> tuple[int, int]:
        """What the pages say of themselves before and after the changes."""
        ranks = self._ranks
        there = changes.targets[self._is_known()[changes.targets]]
        return rank_of(ranks[changes.sources]), rank_of(ranks[there])

    def _proposed(self, rewrite: Rewrite, like: Proposal) -> Proposal:
        """The rule as a proposal with the gain of another; of a pattern rule, with the URLs that match it and what they
        become."""
        proposal = Proposal(rewrite, like.learner, like.gain, None, like.right, like.wrong)
        coded = coded_rewrite(self.trained_on, rewrite) if isinstance(rewrite, PatternRewrite) else None
        if coded is None:
            return proposal
        pattern, operations = coded
        rows = matching_rows(self.trained_on, pattern)
        landed = landed_places(EvidenceIndex(self.trained_on), rows, operations)
        return proposal._replace(places=self.trained_on.places[rows], landed=landed)

    def _tried(self, proposal: Proposal) -> _Tried | None:
        """The proposal with what it changes; None if it is not accepted."""
        changes = self._changes(proposal)
        if changes is None or not self._is_accepted(proposal, self._evidence(changes)):
            return None
        now = self._clusters_at(changes)
        ways = self._size_ways(changes) if self._is_by_size(proposal) else self._ways(changes, now)
        return _Tried(proposal, changes, ways, self._unsafe_reason(proposal, changes, ways, now))

    def _is_accepted(self, proposal: Proposal, evidence: Evidence) -> bool:
        settings = self._settings.candidates
        if self._is_by_size(proposal):
            # Without clusters there is nothing to count pairs by: DustBuster has validated it by sizes.
            return evidence.gain >= self._gain_min and evidence.forbidden <= settings.fpr_max * evidence.gain
        return evidence.gain >= self._gain_min and is_qualified(evidence, settings)

    def _is_by_size(self, proposal: Proposal) -> bool:
        return self._sized and proposal.learner == "dust"

    def _changes(self, proposal: Proposal) -> Changes | None:
        """Where the URLs end if the proposal joins the rules; None if it leads in a circle with them, or to too few."""
        run = rewriter(proposal.rewrite)
        step = self._step(proposal.rewrite, run)
        if proposal.places is None:
            return self._changes_anywhere(proposal.rewrite, step)
        places = self._reached(proposal.rewrite, proposal.places)
        if len(places) < self._gain_min:
            return None
        targets = self._direct_targets(proposal, run, places)
        slow = np.flatnonzero(targets < 0)
        ends = self._ended(step, places[slow].tolist())
        if ends is None:
            return None
        targets[slow] = self._table.rows(ends.values())
        return Changes(places[targets != places], targets[targets != places])

    def _changes_anywhere(self, rewrite: Rewrite, step: Callable[[str], str | None]) -> Changes | None:
        """The same of a rule of which it is not known which URLs it changes."""
        urls = self._table.urls
        scope, find = (rewrite.scope, rewrite.find) if isinstance(rewrite, SubstringRewrite) else ("", "")
        ends = self._ended(step, self._containing(scope, find))
        if ends is None or len(ends) < self._gain_min:
            return None
        in_order = sorted(ends, key=urls.__getitem__)
        places, targets = np.array(in_order, np.int64), self._table.rows([ends[place] for place in in_order])
        return Changes(places[targets != places], targets[targets != places])

    def _ended(self, step: Callable[[str], str | None], places: Iterable[int]) -> dict[int, str] | None:
        """Where the URL of each place ends; None as soon as one never does."""
        ends = {}
        for place in places:
            end = self._end(step, self._table.urls[place])
            if end is None:
                return None
            ends[place] = end
        return ends

    def _direct_targets(self, proposal: Proposal, run: Rewriter, places: Places) -> Places:
        """By place: the URL that is there and that the rule makes of that one, if the rule itself leaves it alone; −1
        where that has to be found out on the texts."""
        landed = np.full(len(self._table.urls), -1, np.int64)
        if proposal.landed is None or proposal.places is None:
            return landed[places]
        landed[proposal.places] = proposal.landed
        targets = landed[places]
        reached = self._marked(proposal.places)
        ends = (targets >= 0) & self._is_there()[targets] & ~reached[targets]
        if isinstance(run, PatternRewriter):
            ends[ends] = self._are_composed(run, places[ends], targets[ends])
        return np.where(ends, targets, -1)

    def _are_composed(self, run: PatternRewriter, places: Places, targets: Places) -> Bools:
        """Which of the targets have the pairs that the rule makes in the order in which it writes them."""
        keys = self._table.keys
        pairs = self._table.structure_of(places) * np.int64(len(keys)) + self._table.structure_of(targets)
        distinct, which = np.unique(pairs, return_inverse=True)
        ways = [divmod(pair, len(keys)) for pair in distinct.tolist()]
        made = {one: run.keys_after(keys[one]) for one, _ in ways}
        same = [made[one] == keys[to] for one, to in ways]
        composed: Bools = np.array(same, np.bool_)[which]
        return composed

    def _reached(self, rewrite: Rewrite, places: Places) -> Places:
        """Those of the places where a URL is left, and those that rules have made, that a rule may change."""
        if isinstance(rewrite, PatternRewrite):
            return places[self._is_there()[places]]
        urls = self._table.urls
        made = sorted((place for place in self._made if rewrite.find in urls[place]), key=urls.__getitem__)
        there = [place for place in dict.fromkeys([*places.tolist(), *made]) if place in self._occupied]
        return np.array(there, np.int64)

    def _containing(self, scope: str, find: str) -> Iterator[int]:
        """Where URLs are left that begin with a scope and contain a text. Only known URLs are searched together: those
        that rules have made are few."""
        urls, (places, texts) = self._table.urls, self._searched
        yield from (places[i] for i in texts.containing(find, scope) if places[i] in self._occupied)
        made = self._distinct(self._at[~self._is_known()[self._at]]).tolist()
        yield from (place for place in made if urls[place].startswith(scope) and find in urls[place])

    @cached_property
    def _searched(self) -> tuple[list[int], SearchedTexts]:
        """The places of the known URLs, in the order of their text; and the texts."""
        places = list(dict.fromkeys(self._known.places.tolist()))
        return places, SearchedTexts([self._table.urls[place] for place in places])

    def _accepted_end(self, url: str) -> str:
        """Where the accepted rules lead. Many proposals make the same URLs."""
        end = self._ends.get(url)
        if end is None:
            if len(self._ends) >= ENDS_MAX:
                self._ends.clear()
            end, _ = self._accepted.apply(url, self._apart)
            self._ends[url] = end
        return end

    def _end(self, step: Callable[[str], str | None], url: str) -> str | None:
        """Where a URL ends by the new rule and the accepted ones together; None if it never does."""
        seen = [url]
        while (after := step(seen[-1])) is not None:
            if self._table.row_of(after) not in self._occupied:  # what is there is as the accepted rules leave it
                after = self._accepted_end(after)
            if after in seen or len(seen) > PASSES_MAX:
                return None
            seen.append(after)
        return seen[-1]

    def _step(self, rewrite: Rewrite, run: Rewriter) -> Callable[[str], str | None]:
        """`run.apply`, but URLs of the table are in standard form, and need not be taken apart for rules by key; nor
        those of the step before."""
        if not isinstance(run, PatternRewriter):
            return self._substring_step(rewrite)

        def step(url: str) -> str | None:
            keys, values = self._apart(url)
            writer = run.writer_of(keys)
            if writer is None or not writer.tests.passed_by(values):
                return None
            self._last = writer.write(Taken(url, keys, values))
            return None if self._last.url == url else self._last.url

        return step

    def _apart(self, url: str) -> tuple[Keys, Sequence[str]]:
        """The keys and values of a URL; those of the step before, and of the table, need not be taken apart."""
        return (self._last.keys, self._last.values) if self._last.url == url else self._table.apart(url)

    def _substring_step(self, rewrite: Rewrite) -> Callable[[str], str | None]:
        assert isinstance(rewrite, SubstringRewrite)

        def step(url: str) -> str | None:
            after = replaced(rewrite, url)
            standard = None if after is None else self._table.standard(after)
            return None if standard == url else standard

        return step

    def _make(self, changes: Changes) -> None:
        """All of the changes at once: what is rewritten to a URL that itself moves stays."""
        moved = self._moved(changes)
        self._columns_now.clear()
        self._is_distinct = False
        self._at = np.where(moved[self._at] >= 0, moved[self._at], self._at)
        self._clusters = current_clusters(self._at.astype(np.uint64), self._clusters, *self._known.ages)
        targets = changes.targets.tolist()
        self._made.update(targets)
        self._occupied.difference_update(changes.sources.tolist())
        self._occupied.update(targets)

    def _moved(self, changes: Changes) -> Places:
        """By place: where its URL goes; −1: it stays."""
        moved = np.full(len(self._table.urls), -1, np.int64)
        moved[changes.sources] = changes.targets
        return moved

    def _evidence(self, changes: Changes) -> Evidence:
        """Over the places that the changes touch, before and after them."""
        forbidden = int(self._is_avoided()[changes.targets].sum())
        counts = move_evidence(
            self._at,
            self._clusters,
            *self._known.ages,
            self._spread,
            self._moved(changes),
            changes.targets,
            forbidden,
        )
        return Evidence(*counts.tolist())

    def _ways(self, changes: Changes, now: Ints) -> Ways:
        """How the URLs at the changed places land. Held-out targets are not counted: their content is hidden."""
        seen, there, leaves = self._is_known(), self._is_there(), self._marked(changes.sources)
        stay = self._distinct(changes.targets)
        stay = stay[there[stay] & ~leaves[stay] & ~seen[stay]]
        sources, targets = np.append(changes.sources, stay), np.append(changes.targets, stay)
        first, avoided = self._column("first", self._first_clusters), self._is_avoided()
        found = Targets(targets.astype(np.uint64), seen[targets], first[targets], avoided[targets])
        ages = self._ages
        ways = ways_in_time(now[sources], avoided[sources], found, ages.only(sources), ages.only(targets))
        ways = ways[: len(changes.sources)]
        return np.where(self._is_other()[changes.targets], UNCOUNTED, ways).astype(np.int8)

    def _size_ways(self, changes: Changes) -> Ways:
        """The same by sizes alone: those that overlap are equal."""
        sized = self._known.sizes[:, 0] >= 0
        low = np.full(len(self._table.urls), np.iinfo(np.int64).max)
        high = np.full(len(self._table.urls), -1, np.int64)
        np.minimum.at(low, self._at[sized], self._known.sizes[sized, 0])
        np.maximum.at(high, self._at[sized], self._known.sizes[sized, 1])
        (source, target), known = changes, high >= 0
        is_one_size = (low[source] <= high[target]) & (low[target] <= high[source])
        ways = np.where(is_one_size, MEETS, np.where(known[source] & known[target], WRONG, UNKNOWN))
        return ways.astype(np.int8)

    def _marked(self, places: Places) -> Bools:
        """By place: whether it is among these."""
        marked = np.zeros(self._places_max(), np.bool_)
        marked[places] = True
        return marked

    def _distinct(self, places: Places) -> Places:
        """Each of these places once, in ascending order."""
        return np.flatnonzero(self._marked(places))

    def _clusters_at(self, changes: Changes) -> Ints:
        """By place, where the changes lead from or to: the cluster that most of its entries have now; else −1."""
        touched = self._marked(np.append(changes.sources, changes.targets))
        entries = np.flatnonzero(touched[self._at])
        at, labels = self._at[entries], self._clusters[entries]
        order = np.lexsort((labels, at))
        places, clusters = most_frequent_clusters(at[order], labels[order])
        now = np.full(len(touched), -1, np.int32)
        now[places] = clusters
        return now

    def _first_clusters(self) -> Ints:
        """By place, of the URLs that were seen: the cluster before any rule; else −1."""
        order = np.lexsort((self._known.clusters, self._known.places))
        return self._by_place(*most_frequent_clusters(self._known.places[order], self._known.clusters[order]), -1)

    def _rule(self, found: _Tried, stage: RuleStage) -> UrlRule:
        """With its evidence, not yet in words."""
        proposal, changes, ways, unsafe = found
        by_size, landing = self._is_by_size(proposal), self._landing(proposal, ways)
        doubt = self._doubt(proposal, changes) if by_size or not unsafe else ""
        reason = doubt or unsafe
        return UrlRule(
            id=rule_id(self.site, proposal.rewrite),
            rewrite=proposal.rewrite,
            pattern="",
            replacement="",
            stage="shadow" if stage == "active" and reason else stage,
            reason=reason,
            learner=proposal.learner,
            support=landing.meets,
            false_positives=landing.wrong,
            unknown=landing.unknown,
            pages=0 if by_size else self._pages(changes),
            evidence="size" if by_size else "content",
            examples=self._examples(changes, ways == MEETS),
            against=self._examples(changes, ways == WRONG),
            saved=saved(ways, changes.targets, self._is_known()[changes.targets]),
        )

    def _examples(self, changes: Changes, chosen: Bools) -> tuple[tuple[str, str], ...]:
        """A few of the changes, spread over them."""
        sources, targets = changes.sources[chosen], changes.targets[chosen]
        some = slice(None, None, max(1, len(sources) // EXAMPLES_MAX))
        pairs = zip(sources[some].tolist(), targets[some].tolist(), strict=True)
        urls = self._table.urls
        return tuple([(urls[a], urls[b]) for a, b in pairs][:EXAMPLES_MAX])

    def _doubt(self, proposal: Proposal, changes: Changes) -> str:
        """What is missing for the rule to be applied: so few pages support it that its effect on others is unknown, or
        it was learned from sizes and no pages were fetched."""
        if self._is_by_size(proposal) and not self._is_validated:
            return "equal sizes are no proof"
        supporters = proposal.right
        if not self._is_by_size(proposal):
            supporters = supporting_pages(self._at, self._clusters, self._moved(changes))
        enough = self._settings.active_pages_min
        return "" if supporters >= enough else f"{supporters} different pages support it, {enough} are needed"

    def _pages(self, changes: Changes) -> int:
        """How many different pages, of those that are known, the changed URLs show."""
        clusters = self._known.clusters[self._moved(changes)[self._at] >= 0]
        return int(np.count_nonzero(np.bincount(clusters[clusters >= 0])))
