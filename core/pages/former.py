"""The contents a URL has had, and which of them a revisit found.

For each content, the first and the last fetch that brought it are kept, with their payload digests if the input has
them. First and last do not depend on the order in which fetches arrive, so neither does the answer. Contents no longer
kept, and those that the URL itself found by a revisit, count as one unknown content.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

FORMER_MAX = 4  # former contents kept of a URL: the latest ones
NOT_KEPT = "-"  # stands for the content hash of unknown contents


class FormerRow(Struct, frozen=True, array_like=True):
    """Table `former`, by URL and content hash: the first and last fetch of a content, and its name and home partition
    in tier 2."""

    first: int
    last: int
    first_digest: str = ""
    last_digest: str = ""
    name: str = ""
    home: int = 0


Contents = Mapping[str, FormerRow]
"""The contents of a URL by content hash, as hex digits."""


def merged(known: FormerRow | None, other: FormerRow) -> FormerRow:
    """Two rows of one content combined; the name is that of the known one."""
    if known is None:
        return other
    if other.first < known.first:
        known = replace(known, first=other.first, first_digest=other.first_digest)
    if other.last > known.last:
        known = replace(known, last=other.last, last_digest=other.last_digest)
    return known


def found_at(contents: Contents, time: int, digest: str) -> str | None:
    """The content that a revisit at `time` found; None if it is not known.

    A content with the given payload digest comes first. Else it is the latest content that began by then, unless an
    earlier content was seen again since (either may be meant), or its last payload had a different digest.
    """
    named = [(row.first, key) for key, row in contents.items() if digest and row.first_digest == digest]
    if named:
        return min(named)[1]
    begun = [(row.first, key) for key, row in contents.items() if row.first <= time]
    if not begun:
        return None
    first, found = max(begun)
    if found == NOT_KEPT or any(contents[key].last >= first for _, key in begun if key != found):
        return None
    row = contents[found]
    is_another = time > row.last and digest and row.last_digest and row.last_digest != digest
    return None if is_another else found


def surplus(contents: Contents, present: str, former_max: int = FORMER_MAX) -> list[str]:
    """The contents to delete: all but the present one and the latest former ones."""
    kept = sorted((row.last, key) for key, row in contents.items() if key not in (NOT_KEPT, present))
    return [key for _, key in kept[: max(0, len(kept) - former_max)]]
