"""Where a URL leads. A content page resolves to itself, a redirect to what its target resolves to.

A way is cut when it comes back to the page itself or is longer than the hop limit. A cut way is one value, None, and
says nothing of why: a ring of redirects has no source that could make different answers agree, so two kinds of cut
could chase each other round it for ever; with one, the ring comes to rest.
"""

from __future__ import annotations

from dustream.core.pages.rows import PageRow
from dustream.core.pages.verdicts import verdicts_of
from dustream.schemas.pages import Resolution

REDIRECT_HOPS_MAX = 16


def resolution(url: str, page: PageRow | None, hops_max: int = REDIRECT_HOPS_MAX) -> Resolution | None:
    """What the page's followers are told."""
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
