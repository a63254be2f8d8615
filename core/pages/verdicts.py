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


def place_of(url: str, page: PageRow) -> Place:
    """What a content page is without containment, in the first market."""
    assert page.standing is not None
    if effective(url, page.standing, page.verdicts[0]).winner != url:
        return "duplicate"
    return "alone" if page.standing.alone else "winner"


def verdicts_of(url: str, page: PageRow) -> tuple[Verdict, ...]:
    """A content page's verdicts; in the first market, one that is alone may be contained in another page."""
    if not page.container or place_of(url, page) != "alone":
        return page.verdicts
    contained = Verdict(page.container, page.contained_share, exact=False, contained=True)
    return (contained, *page.verdicts[1:])
