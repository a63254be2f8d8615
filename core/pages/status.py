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


def role_of(url: str, standing: Standing, verdict: Verdict) -> Role:
    """Only what would be dropped is held: a winner of a group that is held stays a winner."""
    if verdict.winner != url:
        return "held" if standing.held else "duplicate"
    return "unique" if standing.alone else "winner"


def _content_view(url: str, page: PageRow, market_names: tuple[str, ...]) -> View:
    standing = page.standing
    assert standing is not None
    main = _verdict_view(url, standing, page.verdicts[0])
    if len(market_names) > 1:
        each = zip(market_names, page.verdicts, strict=True)
        main["markets"] = {name: MarketStatus(**_verdict_view(url, standing, verdict)) for name, verdict in each}
    main["group"] = standing.group
    return main


def _verdict_view(url: str, standing: Standing, verdict: Verdict) -> View:
    role = role_of(url, standing, verdict)
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
    seen["winner"] = way.verdicts[0].winner
    if len(market_names) > 1:
        each = zip(market_names, way.verdicts, strict=True)
        seen["markets"] = {
            name: MarketStatus(role="redirect", winner=verdict.winner, relation=relation) for name, verdict in each
        }
    return seen
