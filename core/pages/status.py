"""What the public sees of a page: a pure function of its row."""

from __future__ import annotations

from typing import Any

from dustream.core.pages.redirects import resolution
from dustream.core.pages.rows import PageRow
from dustream.schemas.pages import Resolution, Standing, Verdict
from dustream.schemas.status import DuplicateStatus, MarketStatus, Problem, Relation, Role

View = dict[str, Any]
"""The fields of a DuplicateStatus but for url and version."""

_PROBLEMS: dict[str, Problem] = {"gone": "target_gone", "unknown": "target_unknown"}


def view(url: str, page: PageRow | None, market_names: tuple[str, ...], hops_max: int) -> View | None:
    """None as long as nothing is known of the page."""
    if page is None or page.kind == "unknown":
        return None
    return {"since": page.epoch, **_view(url, page, market_names, hops_max)}


def _view(url: str, page: PageRow, market_names: tuple[str, ...], hops_max: int) -> View:
    if page.kind == "content":
        return _content_view(url, page, market_names)
    if page.kind == "gone":
        return {"role": "gone"}
    return _redirect_view(page, resolution(url, page, hops_max), market_names)


def status(url: str, page: PageRow, seen: View) -> DuplicateStatus:
    return DuplicateStatus(url=url, version=(page.version, page.status_counter), **seen)


def effective(url: str, standing: Standing, verdict: Verdict) -> Verdict:
    """The verdict, or in a group that an operator split and for a page not similar enough: it is kept."""
    if verdict.winner != url and verdict.similarity < standing.pass_from:
        return Verdict(url)
    return verdict


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


def _content_view(url: str, page: PageRow, market_names: tuple[str, ...]) -> View:
    standing = page.standing
    assert standing is not None
    views = [
        _verdict_view(url, standing, verdict, bool(page.site_held >> market & 1))
        for market, verdict in enumerate(page.verdicts)
    ]
    main = dict(views[0])
    if len(market_names) > 1:
        main["markets"] = {name: MarketStatus(**seen) for name, seen in zip(market_names, views, strict=True)}
    main["group"] = standing.group
    return main


def _verdict_view(url: str, standing: Standing, verdict: Verdict, site_held: bool) -> View:
    verdict = effective(url, standing, verdict)
    role = role_of(url, standing, verdict, site_held)
    if role in ("unique", "winner"):
        return {"role": role, "winner": url}
    relation: Relation = "exact" if verdict.exact else "near"
    return {"role": role, "winner": verdict.winner, "relation": relation, "similarity": verdict.similarity}


def _redirect_view(page: PageRow, way: Resolution | None, market_names: tuple[str, ...]) -> View:
    if way is None:
        return {"role": "redirect", "problem": "redirect_cut"}
    if way.standing is None:
        return {"role": "redirect", "target": way.path[-1], "problem": _PROBLEMS[way.end]}
    relation: Relation = "revisit" if page.via == "revisit" else "redirect"
    seen: View = {"role": "redirect", "target": way.path[-1], "group": way.standing.group, "relation": relation}
    winners = [effective(way.path[-1], way.standing, verdict).winner for verdict in way.verdicts]
    seen["winner"] = winners[0]
    if len(market_names) > 1:
        each = zip(market_names, winners, strict=True)
        seen["markets"] = {
            name: MarketStatus(role="redirect", winner=winner, relation=relation) for name, winner in each
        }
    return seen
