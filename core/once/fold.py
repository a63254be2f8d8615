"""The state of each URL at the end of the log: the rules of `pages` for fetches, without notifying other tasks."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from dustream.core.once.contents import Contents
from dustream.core.pages.former import NOT_KEPT, FormerRow, found_at, merged, surplus
from dustream.core.pages.rows import UNKNOWN_VERSION, weight
from dustream.core.pages.small_changes import ByAnchor, finds_same
from dustream.core.vertex import END
from dustream.schemas.pages import AnyDecision, Crawl, Decision, PageDecision, PairDecision, RuleDecision
from dustream.schemas.signature import PageSignature

NO_CONTENT = -1


class FoldedPage(Struct, gc=False):
    """The state of a URL after the fetches so far, as in the rows of `pages`. `content` is the number of the signature
    that represents it. The content of a revisit is known only after all fetches."""

    version: int
    first_seen_ms: int
    kind: Literal["unknown", "content", "redirect", "gone"] = "unknown"
    epoch: int = 0
    popularity: float | None = None
    canonical: str = "none"
    content: int = NO_CONTENT
    content_hash: bytes = b""
    target: str = ""
    via: str = ""
    popularity_at: int = UNKNOWN_VERSION
    found_at: int = UNKNOWN_VERSION
    first_at: int = 0
    first_digest: str = ""
    last_digest: str = ""
    revisit: str = ""
    revisit_digest: str = ""
    truncated: bool = False
    size: int = 0


class Fold:
    """Applies fetches in log order. The latest fetch of a URL counts; of two with the same timestamp, the first in the
    log."""

    def __init__(self, contents: Contents, small_changes: ByAnchor) -> None:
        self.pages: dict[str, FoldedPage] = {}
        self.counts: Counter[str] = Counter()
        self._contents = contents
        self._small_changes = small_changes
        self._former: dict[str, dict[str, FormerRow]] = {}
        self._group_decisions: dict[str, Decision] = {}
        self._page_decisions: dict[str, PageDecision] = {}
        self._pair_decisions: dict[tuple[str, str], PairDecision] = {}
        self.site_decisions: list[Decision] = []
        self.rule_decisions: list[RuleDecision] = []

    def take(self, crawls: Iterable[Crawl]) -> None:
        pages, counts = self.pages, self.counts
        for crawl in crawls:
            page = pages.get(crawl.url)
            if END in crawl.url or END in (crawl.target or ""):
                counts["refused"] += 1
            elif page is None:
                counts["new"] += 1
                pages[crawl.url] = page = FoldedPage(crawl.version, crawl.version)
                _note_popularity(page, crawl)
                self._become(page, crawl)
            elif crawl.kind == "seen" or crawl.version <= page.found_at:
                self._stay(page, crawl)
            else:
                self._update(page, crawl)

    def settle(self) -> None:
        """Resolve revisits after the last fetch. Only contents from a URL's own fetches are used, so the order does not
        matter."""
        found = {url: self._revisited(page) for url, page in self.pages.items() if page.revisit}
        for url, row in found.items():
            page = self.pages[url]
            if row is not None:
                page.kind, page.content = "content", row.home

    def decide(self, decision: AnyDecision) -> None:
        """Store an operator's decision. The later one counts; of two with one timestamp, the more careful one."""
        if isinstance(decision, RuleDecision):
            self.rule_decisions.append(decision)
        elif isinstance(decision, PageDecision):
            decided = self._page_decisions.get(decision.url, decision)
            newest = max(decided, decision, key=lambda each: (each.version, each.kept))
            self._page_decisions[decision.url] = newest
        elif isinstance(decision, PairDecision):
            pair = min(decision.url, decision.other), max(decision.url, decision.other)
            earlier = self._pair_decisions.get(pair, decision)
            latest = max(earlier, decision, key=lambda each: (each.version, not each.same))
            self._pair_decisions[pair] = latest
        elif decision.on == "site":
            self.site_decisions.append(decision)
        else:
            known = self._group_decisions.get(decision.url)
            if known is None or weight(decision) > weight(known):
                self._group_decisions[decision.url] = decision

    def is_kept(self, url: str) -> bool:
        """Whether an operator decided that the page is not a duplicate."""
        decision = self._page_decisions.get(url)
        return decision is not None and decision.kept

    def same(self) -> list[tuple[str, str]]:
        """The pairs of URLs that an operator decided to be the same, ascending."""
        return sorted(pair for pair, decision in self._pair_decisions.items() if decision.same)

    def pass_from(self, group: str) -> float | None:
        """The `pass_from` of the operator's decision on the group with this id."""
        decision = self._group_decisions.get(group)
        return None if decision is None else decision.pass_from

    def _stay(self, page: FoldedPage, crawl: Crawl) -> None:
        """Apply a fetch that does not change the page: it confirms the state, or a later fetch is known."""
        newest = page.version if crawl.kind == "seen" else page.found_at
        page.version = max(page.version, crawl.version)
        _note_popularity(page, crawl)
        if crawl.version > newest:
            self.counts["unchanged"] += 1
        elif crawl.version == newest:
            self.counts["repeated" if finds_same(page, crawl) else "conflicting"] += 1
        else:
            self.counts["late"] += 1
            if crawl.kind == "content":
                self._note_late(page, crawl)
            elif crawl.kind == "revisit":
                self._note(crawl.url, NOT_KEPT, FormerRow(crawl.version, crawl.version))

    def _update(self, page: FoldedPage, crawl: Crawl) -> None:
        page.version = max(page.version, crawl.version)
        page.canonical, page.truncated = sys.intern(crawl.canonical), crawl.truncated
        _note_popularity(page, crawl)
        if crawl.kind != "revisit" and finds_same(page, crawl):
            self.counts["unchanged"] += 1
            page.found_at, page.last_digest = crawl.version, crawl.digest
        elif _has_own(page) and crawl.signature is not None and self._stands(page, crawl.signature):
            self.counts["settled_by_anchor"] += 1
            page.found_at, page.last_digest = crawl.version, crawl.digest
            page.content_hash, page.size = crawl.signature.content_hash, crawl.size
        else:
            self.counts[crawl.kind if crawl.kind != "content" else "changed"] += 1
            if _has_own(page):
                self._note(crawl.url, page.content_hash.hex(), self._own(page))
                self._bound(crawl.url, "")
            self._become(page, crawl)

    def _become(self, page: FoldedPage, crawl: Crawl) -> None:
        if crawl.kind == "seen":
            return
        page.kind = "unknown" if crawl.kind == "revisit" else crawl.kind
        page.epoch = page.found_at = page.first_at = crawl.version
        page.target, page.via = crawl.target or "", sys.intern(crawl.via)
        page.canonical, page.truncated = sys.intern(crawl.canonical), crawl.truncated
        page.content, page.content_hash, page.size = NO_CONTENT, b"", crawl.size
        page.first_digest = page.last_digest = crawl.digest
        page.revisit, page.revisit_digest = "", ""
        if crawl.signature is not None:
            page.content, page.content_hash = self._contents.add(crawl.signature), crawl.signature.content_hash
        elif crawl.kind == "revisit":
            page.revisit, page.revisit_digest = page.target, crawl.digest
            self._note(crawl.url, NOT_KEPT, FormerRow(crawl.version, crawl.version))

    # Former contents, for revisits

    def _note_late(self, page: FoldedPage, crawl: Crawl) -> None:
        signature = crawl.signature
        assert signature is not None
        if _has_own(page) and page.content_hash == signature.content_hash:
            if crawl.version < page.first_at:
                page.first_at, page.first_digest = crawl.version, crawl.digest
            return
        content, number = signature.content_hash.hex(), NO_CONTENT
        if content not in self._former.get(crawl.url, {}):
            number = self._contents.add(signature)
        row = FormerRow(crawl.version, crawl.version, crawl.digest, crawl.digest, home=number)
        self._note(crawl.url, content, row)
        self._bound(crawl.url, page.content_hash.hex() if _has_own(page) else "")

    def _own(self, page: FoldedPage) -> FormerRow:
        times = page.first_at, page.found_at
        return FormerRow(*times, page.first_digest, page.last_digest, home=page.content)

    def _note(self, url: str, content: str, row: FormerRow) -> None:
        rows = self._former.setdefault(url, {})
        rows[content] = merged(rows.get(content), row)

    def _bound(self, url: str, present: str) -> None:
        rows = self._former[url]
        for content in surplus(rows, present):
            row = rows.pop(content)
            self._note(url, NOT_KEPT, FormerRow(row.first, row.last))

    def _revisited(self, page: FoldedPage) -> FormerRow | None:
        contents, target = dict(self._former.get(page.revisit, {})), self.pages.get(page.revisit)
        if target is not None and _has_own(target):
            content = target.content_hash.hex()
            own = self._own(target)
            contents[content] = merged(own, contents[content]) if content in contents else own
        found = found_at(contents, page.found_at, page.revisit_digest)
        return None if found is None else contents[found]

    def _stands(self, page: FoldedPage, signature: PageSignature) -> bool:
        rule = self._small_changes
        return rule.keeps_shingles and rule.stands_for(self._contents.shingle_bytes(page.content), signature)


def _note_popularity(page: FoldedPage, crawl: Crawl) -> None:
    if crawl.popularity is not None and crawl.version > page.popularity_at:
        page.popularity, page.popularity_at = crawl.popularity, crawl.version


def _has_own(page: FoldedPage) -> bool:
    return page.kind == "content" and not page.revisit
