"""Which verdict counts: that of tier 2, unless an operator split the group, or another page contains this one."""

from __future__ import annotations

from dustream.core.pages.rows import PageRow
from dustream.schemas.pages import Standing, Verdict


def effective(url: str, standing: Standing, verdict: Verdict) -> Verdict:
    """The verdict, or in a group that an operator split and for a page not similar enough: it is kept."""
    if verdict.winner != url and verdict.similarity < standing.pass_from and not verdict.contained:
        return Verdict(url)
    return verdict


def contained_markets(url: str, page: PageRow) -> int:
    """The markets, bit by bit, in which a content page is dropped because another one contains it: where it is its own
    winner, and alone in its group. The winner of others is whom these were told to keep."""
    markets = 0
    if page.contained and page.standing is not None and page.standing.alone:
        for market, (verdict, contained) in enumerate(zip(page.verdicts, page.contained, strict=True)):
            markets |= (contained is not None and verdict.winner == url) << market
    return markets


def verdicts_of(url: str, page: PageRow) -> tuple[Verdict, ...]:
    """A content page's verdicts by market, that of its container where it is contained."""
    markets = contained_markets(url, page)
    if not markets:
        return page.verdicts
    each = enumerate(zip(page.verdicts, page.contained, strict=True))
    return tuple(contained if markets >> market & 1 and contained else verdict for market, (verdict, contained) in each)
