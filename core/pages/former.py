"""The contents a URL had, and which of them a page found that revisited it.

Of each content of a URL the first and the last fetch that brought it are kept, with the payload digests that the input
names. First and last do not depend on the order in which fetches come, so neither does the answer. Contents that are
kept no more, and those that the URL itself found by a revisit, count as one content that is not known.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

FORMER_MAX = 4  # contents kept of a URL beside its present one: the last ones
NOT_KEPT = "-"  # stands for the content hash of contents that are not known


class FormerRow(Struct, frozen=True, array_like=True):
    """Table `former`, by URL and content hash: the fetches that brought a content, and under which name and in which
    partition tier 2 knows it."""

    first: int
    last: int
    first_digest: str = ""
    last_digest: str = ""
    name: str = ""
    home: int = 0


Contents = Mapping[str, FormerRow]
"""The contents of a URL by content hash, as hex digits."""


def merged(known: FormerRow | None, other: FormerRow) -> FormerRow:
    """What two rows of one content say together; the name is that of the known one."""
    if known is None:
        return other
    if other.first < known.first:
        known = replace(known, first=other.first, first_digest=other.first_digest)
    if other.last > known.last:
        known = replace(known, last=other.last, last_digest=other.last_digest)
    return known


def found_at(contents: Contents, time: int, digest: str) -> str | None:
    """The content that a revisit at `time` found; None if it is not known.

    The one whose payload has the digest named. Else the last one that came until then: unless another one was seen
    again since, so that either may be meant, or its last payload was another one than the revisit names.
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
    """The contents that are kept no more: all but the present one and the last ones."""
    kept = sorted((row.last, key) for key, row in contents.items() if key not in (NOT_KEPT, present))
    return [key for _, key in kept[: max(0, len(kept) - former_max)]]
