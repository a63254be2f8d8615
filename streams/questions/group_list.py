"""Lists the groups of a state: the largest, the last changed, the held ones, those of a site.

The rows of all groups are read once, and only the best few are kept; then the members of those few are read, up to a
limit. So a list takes little memory however many pages there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from itertools import groupby, islice
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from dustream.core.urls.sites import site_of
from dustream.core.vertex import END, epoch_of, url_of
from dustream.streams.questions.contained_list import (
    PAGES_SHOWN_MAX,
    PROGRESS_ROWS,
    ContainedPage,
    OnProgress,
    contained_in,
)
from dustream.streams.questions.one_page import market_number
from dustream.streams.questions.pages import known_page, verdict_of
from dustream.streams.questions.state import ReadableState

MEMBERS_READ_MAX = 10_000  # per group listed
WINNERS_SHOWN_MAX = 5
SITES_SHOWN_MAX = 5

Order = Literal["size", "changed"]


class GroupRequest(Struct, frozen=True, kw_only=True):
    """Which groups to list, and how many."""

    top: int = 20
    by: Order = "size"
    held: bool = False
    site: str | None = None
    market: str | None = None


class GroupAnswer(Struct, frozen=True, kw_only=True):
    """One group. For a huge one, winners, sites, redirects and the weakest link are those of the first `members_read`
    members; contained pages are those of the winners listed."""

    group: str
    size: int
    held: bool
    changed: int
    winners: list[str]
    winner_count: int
    sites: dict[str, int]
    site_count: int
    redirects: int
    weakest_link: float | None
    members_read: int
    contained_count: int
    contained: list[ContainedPage]
    """Pages of other groups that are contained in a winner of this one."""


class _Candidate(NamedTuple):
    """A group that may be listed; the smallest rank comes first."""

    rank: tuple[int, int, str]
    key: str
    partition: int
    size: int
    changed: int


def list_groups(
    state: ReadableState, request: GroupRequest, on_progress: OnProgress = lambda rows: None
) -> list[GroupAnswer]:
    """The requested groups of more than one page with content, best first."""
    market = market_number(state, request.market)
    found = nsmallest(request.top, _candidates(state, request, on_progress), key=lambda each: each.rank)
    answers = [_answer(state, each, market) for each in found]
    inside = contained_in(state, market, {url for answer in answers for url in answer.winners}, on_progress)
    return [_with_contained(answer, inside) for answer in answers]


def _candidates(state: ReadableState, request: GroupRequest, on_progress: OnProgress) -> Iterator[_Candidate]:
    """By size, the groups' own rows are enough; otherwise their members are read, too."""
    rows = 0
    by_member = request.by == "changed" or request.site is not None
    for partition in range(state.settings.partitions):
        for each in _by_members(state, partition, request) if by_member else _by_rows(state, partition, request):
            rows += each.size if by_member else 1
            if rows // PROGRESS_ROWS != (rows - 1) // PROGRESS_ROWS:
                on_progress(rows)
            yield each


def _by_rows(state: ReadableState, partition: int, request: GroupRequest) -> Iterator[_Candidate]:
    for key, row in state.table("groups", partition, "groups").scan():
        if row.size > 1 and (not request.held or (row.standing is not None and row.standing.held)):
            yield _Candidate((-row.size, 0, row.eldest), key, partition, row.size, 0)


def _by_members(state: ReadableState, partition: int, request: GroupRequest) -> Iterator[_Candidate]:
    """Members are adjacent in the table, one group after the other."""
    groups = state.table("groups", partition, "groups")
    names = (key.partition(END) for key in state.table("groups", partition, "tokens").names())
    for key, members in groupby(names, key=lambda name: name[0]):
        size, changed, wanted = 0, 0, request.site is None
        for _, _, vertex in members:
            size += 1
            changed = max(changed, epoch_of(vertex))
            wanted = wanted or site_of(url_of(vertex)) == request.site
        row = groups.get(key) if size > 1 and wanted else None
        if row is None or (request.held and (row.standing is None or not row.standing.held)):
            continue
        rank = (-changed, -size) if request.by == "changed" else (-size, 0)
        yield _Candidate((*rank, row.eldest), key, partition, size, changed)


def _answer(state: ReadableState, group: _Candidate, market: int) -> GroupAnswer:
    row = state.table("groups", group.partition, "groups").get(group.key)
    assert row is not None
    vertices = list(islice(_members(state, group), MEMBERS_READ_MAX))
    pages = [page for vertex in vertices if (page := known_page(state, url_of(vertex))) is not None]
    winners = [page.url for page in pages if page.row.standing and verdict_of(page, market).winner == page.url]
    sites: dict[str, int] = {}
    for page in pages:
        sites[site_of(page.url)] = sites.get(site_of(page.url), 0) + 1
    most = sorted(sites.items(), key=lambda item: (-item[1], item[0]))
    return GroupAnswer(
        group=url_of(row.eldest),
        size=group.size,
        held=row.standing is not None and row.standing.held,
        changed=max(map(epoch_of, vertices)),
        winners=winners[:WINNERS_SHOWN_MAX],
        winner_count=len(winners),
        sites=dict(most[:SITES_SHOWN_MAX]),
        site_count=len(sites),
        redirects=sum(page.row.follower_count for page in pages),
        weakest_link=_weakest_link(state, group),
        members_read=len(vertices),
        contained_count=0,
        contained=[],
    )


def _with_contained(group: GroupAnswer, inside: dict[str, list[ContainedPage]]) -> GroupAnswer:
    pages = [page for url in group.winners for page in inside[url]]
    return replace(group, contained_count=len(pages), contained=pages[:PAGES_SHOWN_MAX])


def _members(state: ReadableState, group: _Candidate) -> Iterator[str]:
    prefix = group.key + END
    for key in state.table("groups", group.partition, "tokens").names(prefix):
        yield key[len(prefix) :]


def _weakest_link(state: ReadableState, group: _Candidate) -> float | None:
    edges = state.table("groups", group.partition, "edges").scan(group.key + END)
    return min((edge.similarity for _, edge in islice(edges, MEMBERS_READ_MAX)), default=None)
