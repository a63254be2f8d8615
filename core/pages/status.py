"""The public status of a page, a pure function of its row; and the cluster updates made of the statuses of a step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, starmap

from msgspec.structs import replace

from dustream.core.pages.resolution import effective, resolution, verdicts_of
from dustream.core.pages.rows import UNKNOWN_VERSION, PageRow, since_of
from dustream.core.processor import Send
from dustream.core.winners import canonical_class
from dustream.schemas.cluster import ClusterMember, ClusterUpdate
from dustream.schemas.pages import Resolution, Standing, Verdict
from dustream.schemas.status import DuplicateStatus, MarketStatus, Problem, Relation, Role

MEMBERS_MAX = 500  # in one cluster update

UNPUBLISHED = (0, 0)
"""The version of a status that is not published yet."""

_PROBLEMS: dict[str, Problem] = {"gone": "target_gone", "unknown": "target_unknown"}


def view(url: str, page: PageRow | None, market_names: tuple[str, ...], hops_max: int) -> DuplicateStatus | None:
    """The page's status without its version; None if the page was never fetched."""
    if page is None or page.version == UNKNOWN_VERSION:
        return None
    if page.kind == "unknown":
        return _unknown_view(url, page, market_names)
    if page.kind == "content":
        return _content_view(url, page, market_names)
    if page.kind == "gone":
        return DuplicateStatus(url=url, version=UNPUBLISHED, since=since_of(page), role="gone")
    return _redirect_view(url, page, resolution(url, page, hops_max), market_names)


def status(page: PageRow, seen: DuplicateStatus) -> DuplicateStatus:
    return replace(seen, version=(page.version, page.status_counter))


def looks_alike(before: PageRow, now: PageRow) -> bool:
    """Whether two rows of a content page certainly have the same view, without building the views."""
    return (
        before.kind == "content" == now.kind
        and before.verdicts == now.verdicts
        and before.standing == now.standing
        and before.epoch == now.epoch
        and before.turn == now.turn
        and since_of(before) == since_of(now)
        and before.site_held == now.site_held
        and before.contained == now.contained
        and before.truncated == now.truncated
        and before.canonical == now.canonical
        and before.kept == now.kept
    )


def role_of(url: str, standing: Standing, verdict: Verdict, site_held: bool) -> Role:
    """The role of a content page. Only pages that would be dropped are held: a held group keeps its winner."""
    if verdict.winner != url:
        return "held" if standing.held or site_held else "duplicate"
    return "unique" if standing.alone else "winner"


def holds_group(url: str, page: PageRow | None) -> bool:
    """Whether the page is the eldest member of a held group, which has its URL as its id."""
    if page is None or page.kind != "content" or page.standing is None:
        return False
    return page.standing.held and page.standing.group == url


def _unknown_view(url: str, page: PageRow, market_names: tuple[str, ...]) -> DuplicateStatus:
    """The view of a page that was fetched but whose content is not known: it cannot be compared, so it is kept."""
    markets = {name: MarketStatus(role="unique") for name in market_names} if len(market_names) > 1 else None
    return DuplicateStatus(
        url=url, version=UNPUBLISHED, since=since_of(page), role="unique", problem="content_unknown", markets=markets
    )


def _content_view(url: str, page: PageRow, market_names: tuple[str, ...]) -> DuplicateStatus:
    standing = page.standing
    assert standing is not None
    verdict = effective(url, standing, verdicts_of(url, page)[0])
    is_own = verdict.winner == url
    return DuplicateStatus(
        url=url,
        version=UNPUBLISHED,
        since=since_of(page),
        role=role_of(url, standing, verdict, bool(page.site_held & 1)),
        group=standing.group,
        winner=verdict.winner,
        relation=None if is_own else _relation(verdict),
        similarity=None if is_own else verdict.similarity,
        code_share=verdict.code_share,
        canonical=page.canonical if canonical_class(page.canonical) == "other" else None,
        problem="truncated" if page.truncated else None,
        decided="not_duplicate" if page.kept else None,
        markets=_market_views(url, page, standing, market_names) if len(market_names) > 1 else None,
    )


def _market_views(
    url: str, page: PageRow, standing: Standing, market_names: tuple[str, ...]
) -> dict[str, MarketStatus]:
    return {
        name: _verdict_view(url, standing, verdict, bool(page.site_held >> market & 1))
        for market, (name, verdict) in enumerate(zip(market_names, verdicts_of(url, page), strict=True))
    }


def _verdict_view(url: str, standing: Standing, verdict: Verdict, site_held: bool) -> MarketStatus:
    verdict = effective(url, standing, verdict)
    role = role_of(url, standing, verdict, site_held)
    if verdict.winner == url:
        return MarketStatus(role=role, winner=url)
    return MarketStatus(
        role=role,
        winner=verdict.winner,
        relation=_relation(verdict),
        similarity=verdict.similarity,
        code_share=verdict.code_share,
    )


def _relation(verdict: Verdict) -> Relation:
    if verdict.contained:
        return "contained"
    if verdict.exact:
        return "exact"
    return "decided" if verdict.decided else "near"


def _redirect_view(url: str, page: PageRow, way: Resolution | None, market_names: tuple[str, ...]) -> DuplicateStatus:
    seen = DuplicateStatus(url=url, version=UNPUBLISHED, since=since_of(page), role="redirect")
    if way is None:
        return replace(seen, problem="redirect_cut")
    if way.standing is None:
        return replace(seen, target=way.path[-1], problem=_PROBLEMS[way.end])
    relation: Relation = "redirect"
    winners = [effective(way.path[-1], way.standing, verdict).winner for verdict in way.verdicts]
    seen = replace(seen, target=way.path[-1], group=way.standing.group, relation=relation, winner=winners[0])
    if len(market_names) == 1:
        return seen
    each = zip(market_names, winners, strict=True)
    markets = {name: MarketStatus(role="redirect", winner=winner, relation=relation) for name, winner in each}
    return replace(seen, markets=markets)


class ClusterUpdates:
    """Collects the statuses of a step by site, for messages of bounded size. The last status of a URL counts."""

    def __init__(self, members_max: int = MEMBERS_MAX) -> None:
        self._members_max = members_max
        self._statuses: dict[str, dict[str, tuple[DuplicateStatus, bool]]] = {}

    def add(self, site: str, first_seen_ms: int, status: DuplicateStatus) -> None:
        """`first_seen_ms`: of the page, which was something else then if its present state is younger."""
        self._statuses.setdefault(site, {})[status.url] = status, status.since > first_seen_ms

    def drain(self) -> Iterator[Send]:
        for site in list(self._statuses):
            each = starmap(_member, self._statuses.pop(site).values())
            while some := tuple(islice(each, self._members_max)):
                yield Send("cluster.updates", site, ClusterUpdate(site=site, members=some))


def _member(status: DuplicateStatus, changed: bool) -> ClusterMember:
    return ClusterMember(
        status.url,
        status.version,
        status.group,
        status.role,
        status.winner,
        status.relation,
        status.since,
        status.canonical,
        status.similarity,
        changed,
    )
