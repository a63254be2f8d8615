"""Whether a fetch changes a page, and whether a changed page keeps its vertex without tier 2 (Zhu et al., 5.1).

There are two rules for small changes.

By anchor: the version of the page in tier 2 represents every later one within a small distance. This depends on the
page's own history alone, so the outcome is the same in every run.

By representative, as in Zhu et al.: a page stays if it still matches its group's winner. A winner is its own
representative, and each version that stays is the next to be compared with. A page alone is the winner of a group of
one. Which page is the winner when the fetch arrives depends on timing, and the version in tier 2 may be far behind:
replays may differ, and pairs are missed or kept wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dustream.core.pages.rows import PageRow
from dustream.core.similarity import similarity_at_least, threshold_ratio
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.text.shingles import jaccard
from dustream.schemas.pages import Crawl, Verdict
from dustream.schemas.signature import PageSignature


class ComparedFind(Protocol):
    """The fields of a page that a fetch is compared with."""

    @property
    def kind(self) -> str: ...
    @property
    def content_hash(self) -> bytes: ...
    @property
    def target(self) -> str: ...
    @property
    def revisit(self) -> str: ...


def finds_same(page: ComparedFind, crawl: Crawl) -> bool:
    """Whether the fetch found the known state again."""
    if crawl.kind == "seen":
        return True
    if crawl.kind == "revisit":
        return crawl.target == page.revisit
    if page.revisit or crawl.kind != page.kind:
        return False
    if crawl.kind == "content":
        return crawl.signature is not None and crawl.signature.content_hash == page.content_hash
    return crawl.kind == "gone" or crawl.target == page.target


@dataclass(frozen=True)
class ByAnchor:
    """Stays within `distance` (Jaccard) of the version tier 2 knows; 0: every change goes to tier 2."""

    distance: float

    @property
    def keeps_shingles(self) -> bool:
        return self.distance > 0.0

    def stands_for(self, anchor: bytes, signature: PageSignature) -> bool:
        return 1.0 - jaccard(shingle_array(anchor), shingle_array(signature.shingles)) <= self.distance


@dataclass(frozen=True)
class ByRepresentative:
    """Stays if it matches the winner of its group."""

    threshold: float

    @property
    def keeps_shingles(self) -> bool:
        return True

    def verdict(self, winner: str, page: PageRow, shingles: bytes, signature: PageSignature) -> Verdict | None:
        """The verdict on a page compared with `winner`, whose row and shingles these are; None if they do not match."""
        if page.content_hash == signature.content_hash:
            return Verdict(winner)
        ratio = threshold_ratio(self.threshold)
        similarity = similarity_at_least(shingle_array(shingles), shingle_array(signature.shingles), *ratio)
        return Verdict(winner, float(similarity), False) if similarity >= 0.0 else None


SmallChanges = ByAnchor | ByRepresentative
EXACT = ByAnchor(0.0)


def representative_of(page: PageRow) -> str | None:
    """The winner that the page's next version is compared with, itself if it is alone; None if it has no content."""
    return page.verdicts[0].winner if page.kind == "content" else None
