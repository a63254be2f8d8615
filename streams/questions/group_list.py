"""Lists the groups of a state: the largest, the last changed, the held ones, those of a site.

The rows of all groups are read once, and only the best few are kept; then the members of those few are read, up to a
limit. So a list takes little memory however many pages there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from dustream.core.groups.members import ARRIVING
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
from dustream.streams.questions.pages import known_pages, verdict_of
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


class GroupCandidate(NamedTuple):
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
    candidates = best_candidates(state, request, range(state.settings.partitions), on_progress)
    return describe_groups(state, request, candidates, on_progress)


def best_candidates(
    state: ReadableState, request: GroupRequest, partitions: Iterable[int], on_progress: OnProgress = lambda rows: None
) -> list[GroupCandidate]:
    """The best groups of some tasks."""
    return best_of(request, _candidates(state, request, partitions, on_progress))


def best_of(request: GroupRequest, candidates: Iterable[GroupCandidate]) -> list[GroupCandidate]:
    return nsmallest(request.top, candidates, key=lambda each: each.rank)


def describe_groups(
    state: ReadableState,
    request: GroupRequest,
    found: Sequence[GroupCandidate],
    on_progress: OnProgress = lambda rows: None,
) -> list[GroupAnswer]:
    """The answer about each of these groups, in their order."""
    market = market_number(state, request.market)
    answers = [answer for each in found if (answer := _answer(state, each, market)) is not None]
    inside = contained_in(state, market, {url for answer in answers for url in answer.winners}, on_progress)
    return [_with_contained(answer, inside) for answer in answers]


def _candidates(
    state: ReadableState, request: GroupRequest, partitions: Iterable[int], on_progress: OnProgress
) -> Iterator[GroupCandidate]:
    """By size, the groups' own rows are enough; otherwise their members are read, too."""
    rows = 0
    by_member = request.by == "changed" or request.site is not None
    for partition in partitions:
        for each in _by_members(state, partition, request) if by_member else _by_rows(state, partition, request):
            rows += each.size if by_member else 1
            if rows // PROGRESS_ROWS != (rows - 1) // PROGRESS_ROWS:
                on_progress(rows)
            yield each


def _by_rows(state: ReadableState, partition: int, request: GroupRequest) -> Iterator[GroupCandidate]:
    for key, row in state.table("groups", partition, "groups").scan():
        if row.size > 1 and (not request.held or (row.standing is not None and row.standing.held)):
            yield GroupCandidate((-row.size, 0, row.eldest), key, partition, row.size, 0)


def _by_members(state: ReadableState, partition: int, request: GroupRequest) -> Iterator[GroupCandidate]:
    """The rows of the groups are read only where their standing counts: there are as many as groups."""
    groups = state.table("groups", partition, "groups")
    for key, vertices in _all_members(state, partition):
        size, changed = len(vertices), max(map(epoch_of, vertices)) if request.by == "changed" else 0
        if size < 2 or (request.site is not None and not _has_site(vertices, request.site)):
            continue
        row = groups.get(key) if request.held else None
        if request.held and (row is None or row.standing is None or not row.standing.held):
            continue
        rank = (-changed, -size) if request.by == "changed" else (-size, 0)
        yield GroupCandidate((*rank, vertices[0]), key, partition, size, changed)


def _all_members(state: ReadableState, partition: int) -> Iterator[tuple[str, list[str]]]:
    """Members are adjacent in the table, one group after the other, the eldest first. Those that are moving into a
    group are left out."""
    group, vertices = "", list[str]()
    for key in state.table("groups", partition, "memberships").names():
        place, _, vertex = key.partition(END)
        if place != group:
            if vertices and ARRIVING not in group:
                yield group, vertices
            group, vertices = place, []
        vertices.append(vertex)
    if vertices and ARRIVING not in group:
        yield group, vertices


def _has_site(vertices: list[str], site: str) -> bool:
    """A URL contains the name of its site, which is found faster than the site of each URL."""
    return any(site in vertex and site_of(url_of(vertex)) == site for vertex in vertices)


def _answer(state: ReadableState, group: GroupCandidate, market: int) -> GroupAnswer | None:
    """None if the group has gone since it was found."""
    row = state.table("groups", group.partition, "groups").get(group.key)
    vertices = list(islice(_members(state, group), MEMBERS_READ_MAX))
    if row is None or not vertices:
        return None
    pages = known_pages(state, map(url_of, vertices))
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


def _members(state: ReadableState, group: GroupCandidate) -> Iterator[str]:
    prefix = group.key + END
    for key in state.table("groups", group.partition, "memberships").names(prefix):
        yield key[len(prefix) :]


def _weakest_link(state: ReadableState, group: GroupCandidate) -> float | None:
    edges = state.table("groups", group.partition, "edges").scan(group.key + END)
    return min((edge.similarity for _, edge in islice(edges, MEMBERS_READ_MAX)), default=None)
