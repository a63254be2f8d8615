"""What each URL is at the end of the log: the rules by which `pages` takes fetches, without telling anybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from dustream.core.once.contents import Contents
from dustream.core.pages.decisions import weight
from dustream.core.pages.same_find import finds_same
from dustream.core.pages.small_changes import ByAnchor
from dustream.core.pages.vertex import END
from dustream.schemas.pages import Crawl, Decision, PageCode
from dustream.schemas.signature import PageSignature

NO_CONTENT = -1


class FoldedPage(Struct, gc=False):
    """A URL as its fetches so far made it. `content` numbers the signature that stands for it."""

    version: int
    first_seen_ms: int
    kind: Literal["unknown", "content", "redirect", "gone"] = "unknown"
    epoch: int = 0
    popularity: float | None = None
    content: int = NO_CONTENT
    content_hash: bytes = b""
    code: PageCode | None = None
    target: str = ""
    via: str = ""
    truncated: bool = False


class Fold:
    """Takes fetches in the order of the log. Of two fetches of a URL the later one counts; of two with one time stamp
    the first in the log."""

    def __init__(self, contents: Contents, small_changes: ByAnchor) -> None:
        self.pages: dict[str, FoldedPage] = {}
        self.counts: Counter[str] = Counter()
        self._contents = contents
        self._small_changes = small_changes
        self._group_words: dict[str, Decision] = {}
        self.site_words: list[Decision] = []

    def take(self, crawls: Iterable[Crawl]) -> None:
        pages, counts = self.pages, self.counts
        for crawl in crawls:
            page = pages.get(crawl.url)
            if END in crawl.url or END in (crawl.target or ""):
                counts["refused"] += 1
            elif page is None:
                counts["new"] += 1
                pages[crawl.url] = page = FoldedPage(crawl.version, crawl.version, popularity=crawl.popularity)
                self._become(page, crawl)
            elif crawl.version <= page.version:
                late = crawl.version < page.version
                counts["late" if late else "repeated" if finds_same(page, crawl) else "conflicting"] += 1
            else:
                self._update(page, crawl)

    def decide(self, decision: Decision) -> None:
        """An operator's word. Of two the later one counts; of two of one time the more careful one."""
        if decision.on == "site":
            self.site_words.append(decision)
            return
        known = self._group_words.get(decision.url)
        if known is None or weight(decision) > weight(known):
            self._group_words[decision.url] = decision

    def pass_from(self, group: str) -> float | None:
        """The operator's word on the group with this id."""
        word = self._group_words.get(group)
        return None if word is None else word.pass_from

    def _update(self, page: FoldedPage, crawl: Crawl) -> None:
        page.version = crawl.version
        if crawl.popularity is not None:
            page.popularity = crawl.popularity
        if finds_same(page, crawl):
            self.counts["unchanged"] += 1
        elif page.kind == "content" and crawl.signature is not None and self._stands(page, crawl.signature):
            self.counts["settled_by_anchor"] += 1
            page.content_hash = crawl.signature.content_hash
        else:
            self.counts[crawl.kind if crawl.kind != "content" else "changed"] += 1
            self._become(page, crawl)

    def _become(self, page: FoldedPage, crawl: Crawl) -> None:
        if crawl.kind == "seen":
            return
        page.kind, page.epoch = crawl.kind, crawl.version
        page.target, page.via, page.truncated = crawl.target or "", crawl.via, crawl.truncated
        page.content, page.content_hash, page.code = NO_CONTENT, b"", crawl.code
        if crawl.signature is not None:
            page.content, page.content_hash = self._contents.add(crawl.signature), crawl.signature.content_hash

    def _stands(self, page: FoldedPage, signature: PageSignature) -> bool:
        rule = self._small_changes
        return rule.keeps_shingles and rule.stands_for(self._contents.shingle_bytes(page.content), signature)
