"""What a page resolves to: the verdict that counts for a content page, and the end of a redirect's path.

A content page resolves to itself, a redirect to whatever its target resolves to. A path is cut when it returns to the
page itself or exceeds the hop limit. Every cut path is the same value, None, without a reason. In a ring of redirects,
two different values could replace each other for ever; with one value the ring comes to rest.
"""

from __future__ import annotations

from dustream.core.pages.rows import PageRow
from dustream.schemas.pages import Resolution, Standing, Verdict

REDIRECT_HOPS_MAX = 16


def effective(url: str, standing: Standing, verdict: Verdict) -> Verdict:
    """The verdict of tier 2; in a group that an operator split, a page not similar enough to its winner is kept, unless
    an operator decided that the two are the same."""
    is_by_similarity = not (verdict.contained or verdict.decided)
    if verdict.winner != url and verdict.similarity < standing.pass_from and is_by_similarity:
        return Verdict(url)
    return verdict


def contained_markets(url: str, page: PageRow) -> int:
    """The markets, bit by bit, in which a content page is dropped because another page contains it: those where it is
    its own winner and alone in its group. A page that is the winner of others is kept for them."""
    markets = 0
    if page.contained and page.standing is not None and page.standing.alone and not page.kept:
        for market, (verdict, contained) in enumerate(zip(page.verdicts, page.contained, strict=True)):
            markets |= (contained is not None and verdict.winner == url) << market
    return markets


def verdicts_of(url: str, page: PageRow) -> tuple[Verdict, ...]:
    """A content page's verdicts by market, that of its container where it is contained. A page that an operator decided
    to keep is its own winner."""
    if page.kept:
        return (Verdict(url),) * len(page.verdicts)
    markets = contained_markets(url, page)
    if not markets:
        return page.verdicts
    each = enumerate(zip(page.verdicts, page.contained, strict=True))
    return tuple(contained if markets >> market & 1 and contained else verdict for market, (verdict, contained) in each)


def resolution(url: str, page: PageRow | None, hops_max: int = REDIRECT_HOPS_MAX) -> Resolution | None:
    """The resolution that is sent to the page's followers."""
    if page is None or page.kind == "unknown":
        return Resolution((url,), "unknown")
    if page.kind == "gone":
        return Resolution((url,), "gone")
    if page.kind == "content":
        return Resolution((url,), "content", page.standing, verdicts_of(url, page))
    up = page.upstream
    if up is None or len(up.path) > hops_max or url in up.path:
        return None
    return Resolution((url, *up.path), up.end, up.standing, up.verdicts)
