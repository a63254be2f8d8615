"""One pass over all statuses: the counts, lists and samples that the overview, the group browser and the threshold view
show. It is computed at the start and again in the background while a run adds pages, so that no view reads all rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from dustream.core.urls.sites import site_of
from dustream.schemas.status import KEPT_ROLES, Relation, Role, is_kept
from dustream.streams.engine.alarms import AlarmLine
from dustream.streams.questions.page_sizes import PageSizes
from dustream.streams.serve.source import LookupSource, NearPair, Seen

GROUPS_LISTED_MAX = 1_000  # in each order
SITES_LISTED_MAX = 1_000
NAMES_PER_GROUP_MAX = 1_000
UNRELATED_NAMES_MIN = 5
SIMILARITY_STEPS = 200  # counts of similarities by steps of 0.005
EXAMPLES_PER_STEP = 5

GroupOrder = Literal["size", "changed", "lowest", "different"]

_INDEX_NAME = re.compile(r"(?:index|default|home)(?:\.\w+)?$")


class CountedStatus(Struct, gc=False):
    """The fields of a status that are counted. `since` is `version` in status.jsonl."""

    url: str
    role: Role
    group: str | None = None
    winner: str | None = None
    relation: Relation | None = None
    similarity: float | None = None
    since: int | None = None
    version: Any = None


class GroupTally(Struct, array_like=True):
    """The counts of a group."""

    pages: int = 0
    winners: int = 0
    held: int = 0
    redirects: int = 0
    changed: int = 0
    lowest: float = 1.0
    sites: set[str] = set()
    names: set[str] = set()

    def include(self, other: GroupTally) -> None:
        self.pages += other.pages
        self.winners += other.winners
        self.held += other.held
        self.redirects += other.redirects
        self.changed = max(self.changed, other.changed)
        self.lowest = min(self.lowest, other.lowest)
        self.sites |= other.sites
        self.names |= other.names


class GroupBrief(Struct, frozen=True, gc=False):
    """A group in a list.

    `names`: different last parts of its URLs' paths; `lowest`: the lowest similarity to a winner.
    """

    group: str
    size: int
    winners: int
    held: int
    redirects: int
    changed: int
    lowest: float
    sites: int
    names: int

    @property
    def is_unrelated(self) -> bool:
        """One text under many URLs that have nothing in common: an error page, a login page, an empty template."""
        return self.names >= UNRELATED_NAMES_MIN and 2 * self.names >= self.size


class SiteBrief(Struct, frozen=True, gc=False):
    """A site in a list."""

    site: str
    pages: int
    kept: int
    lost: int


class Digest(Struct, frozen=True, kw_only=True):
    """The counts as of `position`."""

    position: int | list[int]
    settled: bool
    urls: int
    roles: dict[str, int]
    relations: dict[str, int]
    group_count: int
    largest_group: int
    group_sizes: dict[str, int]
    """Groups by size: 2, 3–5, 6–10 …"""
    groups: dict[GroupOrder, list[GroupBrief]]
    sites: list[SiteBrief]
    site_count: int
    similarities: list[int]
    """Near-duplicates by similarity to their winner, in steps of 1/200."""
    examples: list[list[NearPair]]
    alarms: list[AlarmLine]
    sizes: PageSizes | None
    rule_stages: dict[str, int]
    rules_saved: int
    ruled_sites: dict[str, int]
    """Sites with rules, and how many of those are active."""

    @property
    def kept(self) -> int:
        return sum(self.roles.get(role, 0) for role in KEPT_ROLES)


GROUP_ORDERS: dict[GroupOrder, Callable[[GroupBrief], Any]] = {
    "size": lambda each: (-each.size, each.group),
    "changed": lambda each: (-each.changed, each.group),
    "lowest": lambda each: (each.lowest, -each.size, each.group),
    "different": lambda each: (-each.names, -each.size, each.group),
}


def make_digest(source: LookupSource) -> Digest:
    """Read all statuses and rules once."""
    seen = source.seen()
    counting = Counting()
    decoder = msgspec.json.Decoder(CountedStatus)
    for row in source.status_rows():
        counting.add(decoder.decode(row))
    return digest_of(source, seen, counting, source.alarms())


def digest_of(source: LookupSource, seen: Seen, counting: Counting, alarms: list[AlarmLine]) -> Digest:
    """The digest of statuses that are counted already."""
    groups = [_brief(name, tally) for name, tally in counting.groups.items() if _urls(tally) > 1]
    sites = (SiteBrief(name, *counts[:3]) for name, counts in counting.sites.items())
    stages: Counter[str] = Counter()
    ruled: dict[str, int] = {}
    saved = 0
    for rules in source.rule_sets():
        stages.update(rule.stage for rule in rules.rules)
        ruled[rules.site] = sum(rule.stage == "active" for rule in rules.rules)
        saved += sum(rule.saved for rule in rules.rules if rule.stage == "active")
    return Digest(
        position=seen.position,
        settled=seen.settled,
        urls=sum(counting.roles.values()),
        roles=dict(sorted(counting.roles.items())),
        relations=dict(sorted(counting.relations.items())),
        group_count=len(groups),
        largest_group=max(map(_urls, counting.groups.values()), default=0),
        group_sizes=_by_size(each.size for each in groups if each.size > 1),
        groups={
            order: nsmallest(GROUPS_LISTED_MAX, (each for each in groups if each.size > 1), key=key)
            for order, key in GROUP_ORDERS.items()
        },
        sites=nsmallest(SITES_LISTED_MAX, sites, key=lambda each: (-each.pages, each.site)),
        site_count=len(counting.sites),
        similarities=counting.similarities,
        examples=counting.examples,
        alarms=alarms,
        sizes=source.page_sizes(),
        rule_stages=dict(sorted(stages.items())),
        rules_saved=saved,
        ruled_sites=dict(sorted(ruled.items())),
    )


def _steps() -> list[int]:
    return [0] * (SIMILARITY_STEPS + 1)


def _examples() -> list[list[NearPair]]:
    return [[] for _ in range(SIMILARITY_STEPS + 1)]


class Counting(Struct):
    """The counts while statuses are read. Those of several parts of the URLs can be added together."""

    roles: dict[str, int] = {}
    relations: dict[str, int] = {}
    groups: dict[str, GroupTally] = {}
    sites: dict[str, list[int]] = {}
    """By site: pages, kept, with the winner on another site, held."""
    similarities: list[int] = field(default_factory=_steps)
    examples: list[list[NearPair]] = field(default_factory=_examples)

    def include(self, other: Counting) -> None:
        """Add the counts of other URLs."""
        for mine, theirs in ((self.roles, other.roles), (self.relations, other.relations)):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count
        for group, tally in other.groups.items():
            self.groups.setdefault(group, GroupTally()).include(tally)
        for site, counts in other.sites.items():
            self.sites[site] = [a + b for a, b in zip(self.sites.get(site, [0] * 4), counts, strict=True)]
        self.similarities = [a + b for a, b in zip(self.similarities, other.similarities, strict=True)]
        both = zip(self.examples, other.examples, strict=True)
        self.examples = [sorted(a + b, key=lambda pair: pair.url)[:EXAMPLES_PER_STEP] for a, b in both]

    def add(self, status: CountedStatus) -> None:
        role = status.role
        self.roles[role] = self.roles.get(role, 0) + 1
        if role == "duplicate":
            self.relations[status.relation or ""] = self.relations.get(status.relation or "", 0) + 1
        site = site_of(status.url)
        if role not in ("redirect", "gone"):
            counts = self.sites.setdefault(site, [0, 0, 0, 0])
            counts[0] += 1
            counts[1] += is_kept(role)
            counts[2] += status.winner is not None and site_of(status.winner) != site
            counts[3] += role == "held"
        if status.group is not None and role not in ("unique", "gone"):
            self._add_to_group(status, site)
        if status.relation == "near" and status.similarity is not None and status.winner is not None:
            step = int(status.similarity * SIMILARITY_STEPS)
            self.similarities[step] += 1
            if len(self.examples[step]) < EXAMPLES_PER_STEP:
                self.examples[step].append(NearPair(status.similarity, status.url, status.winner))

    def _add_to_group(self, status: CountedStatus, site: str) -> None:
        tally = self.groups.setdefault(status.group or "", GroupTally())
        if status.role == "redirect":
            tally.redirects += 1
            return
        tally.pages += 1
        tally.winners += status.role == "winner"
        tally.held += status.role == "held"
        tally.changed = max(tally.changed, status.since if status.since is not None else int(status.version))
        if status.similarity is not None and status.relation not in ("contained", "decided"):
            tally.lowest = min(tally.lowest, status.similarity)
        if len(tally.names) < NAMES_PER_GROUP_MAX:
            tally.sites.add(site)
            tally.names.add(last_name(status.url))


def _urls(tally: GroupTally) -> int:
    """A page that is alone but for redirects to it is `unique`, and not counted above."""
    return max(1, tally.pages) + tally.redirects


def last_name(url: str) -> str:
    """The last part of a URL's path; for the start page of a folder, that of the folder; else the host. Mirrors,
    versions and parameters of one page share it."""
    path = url.partition("?")[0].casefold().rstrip("/")
    head, _, name = path.rpartition("/")
    if _INDEX_NAME.match(name) and head.count("/") >= 2:
        name = head.rpartition("/")[2]
    return name.removeprefix("www.").partition(".")[0] or name


def _brief(group: str, tally: GroupTally) -> GroupBrief:
    return GroupBrief(
        group,
        tally.pages,
        tally.winners,
        tally.held,
        tally.redirects,
        tally.changed,
        tally.lowest,
        len(tally.sites),
        len(tally.names),
    )


_SIZES = ((2, "2"), (5, "3–5"), (10, "6–10"), (100, "11–100"), (1_000, "101–1,000"), (10**12, "over 1,000"))


def _by_size(sizes: Iterable[int]) -> dict[str, int]:
    counts = dict.fromkeys((name for _, name in _SIZES), 0)
    for size in sizes:
        counts[next(name for limit, name in _SIZES if size <= limit)] += 1
    return counts


def would_keep(digest: Digest, threshold: float) -> int:
    """Near-duplicates less similar to their winner than a threshold: at most so many more pages would be kept."""
    return sum(digest.similarities[: round(threshold * SIMILARITY_STEPS)])


def nearest_pairs(
    digest: Digest, threshold: float, count: int = EXAMPLES_PER_STEP
) -> tuple[list[NearPair], list[NearPair]]:
    """Pairs just below and just above a threshold."""
    step = round(threshold * SIMILARITY_STEPS)
    below = [pair for pairs in reversed(digest.examples[:step]) for pair in sorted(pairs, key=_by_similarity)[::-1]]
    above = [pair for pairs in digest.examples[step:] for pair in sorted(pairs, key=_by_similarity)]
    return below[:count], above[:count]


def _by_similarity(pair: NearPair) -> tuple[float, str]:
    return pair.similarity, pair.url
