"""What the public sees of a page: a pure function of its row."""

from __future__ import annotations

from msgspec.structs import replace

from dustream.core.pages.redirects import resolution
from dustream.core.pages.rows import UNKNOWN_VERSION, PageRow, since_of
from dustream.core.pages.verdicts import effective, verdicts_of
from dustream.core.winners import canonical_class
from dustream.schemas.pages import Resolution, Standing, Verdict
from dustream.schemas.status import DuplicateStatus, MarketStatus, Problem, Relation, Role

NOT_SAID = (0, 0)
"""The version of a status that nobody was told."""

_PROBLEMS: dict[str, Problem] = {"gone": "target_gone", "unknown": "target_unknown"}


def view(url: str, page: PageRow | None, market_names: tuple[str, ...], hops_max: int) -> DuplicateStatus | None:
    """The page's status but for its version; None as long as nothing is known of the page."""
    if page is None or page.version == UNKNOWN_VERSION:
        return None
    if page.kind == "unknown":
        return _unknown_view(url, page, market_names)
    if page.kind == "content":
        return _content_view(url, page, market_names)
    if page.kind == "gone":
        return DuplicateStatus(url=url, version=NOT_SAID, since=since_of(page), role="gone")
    return _redirect_view(url, page, resolution(url, page, hops_max), market_names)


def status(page: PageRow, seen: DuplicateStatus) -> DuplicateStatus:
    return replace(seen, version=(page.version, page.status_counter))


def looks_alike(before: PageRow, now: PageRow) -> bool:
    """Whether two rows of a content page are sure to give one view; saves making them."""
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
    )


def role_of(url: str, standing: Standing, verdict: Verdict, site_held: bool) -> Role:
    """Only what would be dropped is held: a winner of a group that is held stays a winner."""
    if verdict.winner != url:
        return "held" if standing.held or site_held else "duplicate"
    return "unique" if standing.alone else "winner"


def holds_group(url: str, page: PageRow | None) -> bool:
    """Whether the page gives its name to a group that is held."""
    if page is None or page.kind != "content" or page.standing is None:
        return False
    return page.standing.held and page.standing.group == url


def _unknown_view(url: str, page: PageRow, market_names: tuple[str, ...]) -> DuplicateStatus:
    """Fetched, but its content is not known: it cannot be compared, so it is kept."""
    markets = {name: MarketStatus(role="unique") for name in market_names} if len(market_names) > 1 else None
    return DuplicateStatus(
        url=url, version=NOT_SAID, since=since_of(page), role="unique", problem="content_unknown", markets=markets
    )


def _content_view(url: str, page: PageRow, market_names: tuple[str, ...]) -> DuplicateStatus:
    standing = page.standing
    assert standing is not None
    verdict = effective(url, standing, verdicts_of(url, page)[0])
    is_own = verdict.winner == url
    return DuplicateStatus(
        url=url,
        version=NOT_SAID,
        since=since_of(page),
        role=role_of(url, standing, verdict, bool(page.site_held & 1)),
        group=standing.group,
        winner=verdict.winner,
        relation=None if is_own else _relation(verdict),
        similarity=None if is_own else verdict.similarity,
        code_share=verdict.code_share,
        canonical=page.canonical if canonical_class(page.canonical) == "other" else None,
        problem="truncated" if page.truncated else None,
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
    return "contained" if verdict.contained else "exact" if verdict.exact else "near"


def _redirect_view(url: str, page: PageRow, way: Resolution | None, market_names: tuple[str, ...]) -> DuplicateStatus:
    seen = DuplicateStatus(url=url, version=NOT_SAID, since=since_of(page), role="redirect")
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
