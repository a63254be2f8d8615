"""Which verdict counts: that of tier 2, unless an operator split the group, or another page contains this one."""

from __future__ import annotations

from dustream.core.pages.rows import PageRow
from dustream.schemas.containment import Place
from dustream.schemas.pages import Standing, Verdict


def effective(url: str, standing: Standing, verdict: Verdict) -> Verdict:
    """The verdict, or in a group that an operator split and for a page not similar enough: it is kept."""
    if verdict.winner != url and verdict.similarity < standing.pass_from and not verdict.contained:
        return Verdict(url)
    return verdict


def places_of(url: str, page: PageRow) -> tuple[Place, ...]:
    """What a content page is without containment, by market."""
    standing = page.standing
    assert standing is not None
    kept: Place = "alone" if standing.alone else "winner"
    return tuple(kept if effective(url, standing, verdict).winner == url else "duplicate" for verdict in page.verdicts)


def verdicts_of(url: str, page: PageRow) -> tuple[Verdict, ...]:
    """A content page's verdicts by market; where it is alone, it may be contained in another page."""
    if not page.contained or not any(page.contained):
        return page.verdicts
    each = zip(page.verdicts, page.contained, places_of(url, page), strict=True)
    return tuple(contained if contained and place == "alone" else verdict for verdict, contained, place in each)
