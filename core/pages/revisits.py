"""Revisits: pages that found a URL's content unchanged ask that URL for the content.

Rules (docs/explanation/protocol.md):
- A former or late content stays known: its fetches in this table, its signature in tier 2.
- An asker is answered at once, and again whenever the answer changes.
- The content is sent by its tier-2 home, other answers from here. These are two links, so answers are numbered.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from dustream.core.pages.former import NOT_KEPT, FormerRow, found_at, merged, surplus
from dustream.core.pages.rows import UNKNOWN_VERSION, PageRow, vertex_of
from dustream.core.partitioning import PartitionMap, tie_of
from dustream.core.processor import Send, Table, TaskState, rows_after
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.vertex import END, vertex_name
from dustream.schemas.pages import Answer, AnswerOn, Ask, Crawl, Unask
from dustream.schemas.tier2 import Forget, Keep, Recall


class AskerRow(Struct, frozen=True, array_like=True):
    """Table `askers`, by URL and asker: time and digest of the revisit, number and content of the last answer."""

    version: int
    digest: str
    answers: int = 0
    answered: str | None = None


class Revisits:
    """The former contents of a task's URLs, and the pages that ask for them."""

    def __init__(
        self, partition_map: PartitionMap, asked_max: int, former_max: int, send: Callable[[Send], None]
    ) -> None:
        self._map = partition_map
        self._asked_max = asked_max
        self._former_max = former_max
        self._send = send

    def open(self, state: TaskState) -> None:
        self._former: Table[FormerRow] = state.table("former")
        self._askers: Table[AskerRow] = state.table("askers")

    # Contents

    def supersede(self, url: str, page: PageRow) -> None:
        """Keep the page's own content as a former one."""
        self._note(url, page.content_hash.hex(), _own(url, page))
        self._bound(url, "")

    def is_kept(self, url: str, page: PageRow, vertex: str) -> bool:
        """Whether the content of a removed vertex stays known under the vertex's name."""
        row = self._former.get(f"{url}{END}{page.content_hash.hex()}")
        return row is not None and row.name == vertex

    def note_revisit(self, url: str, version: int) -> None:
        """A content that the URL itself found by a revisit counts as unknown."""
        self._note(url, NOT_KEPT, FormerRow(version, version))

    def note_late(self, url: str, page: PageRow, crawl: Crawl) -> PageRow:
        """Keep a content that arrived after a later one. Returns the page."""
        signature = crawl.signature
        assert signature is not None
        if _has_own(page) and page.content_hash == signature.content_hash:
            is_first = crawl.version < page.first_at
            return replace(page, first_at=crawl.version, first_digest=crawl.digest) if is_first else page
        content = signature.content_hash.hex()
        row = FormerRow(crawl.version, crawl.version, crawl.digest, crawl.digest)
        if self._former.get(f"{url}{END}{content}") is None:
            home, _ = self._map.route(shingle_array(signature.shingles), tie_of(url), signature.lang)
            name = f"{vertex_name(page.first_seen_ms, url, crawl.version)} {content}"
            self._send(Send("tier2", home, Keep(name, signature)))
            row = replace(row, name=name, home=home)
        self._note(url, content, row)
        self._bound(url, page.content_hash.hex() if _has_own(page) else "")
        return page

    def _note(self, url: str, content: str, row: FormerRow) -> None:
        key = f"{url}{END}{content}"
        self._former.put(key, merged(self._former.get(key), row))

    def _bound(self, url: str, present: str) -> None:
        prefix = url + END
        rows = {key[len(prefix) :]: row for key, row in self._former.scan(prefix)}
        for content in surplus(rows, present, self._former_max):
            row = rows[content]
            self._former.delete(prefix + content)
            self._note(url, NOT_KEPT, FormerRow(row.first, row.last))
            self._send(Send("tier2", row.home, Forget(row.name)))

    # Askers

    def ask(self, message: Ask, page: PageRow | None) -> PageRow:
        """Register and answer an asker. Returns the page asked."""
        key = f"{message.url}{END}{message.asker}"
        now = page or PageRow(UNKNOWN_VERSION, 0)
        if self._askers.get(key) is None:
            now = replace(now, asker_count=now.asker_count + 1)
        row = AskerRow(message.version, message.digest)
        self._askers.put(key, self._answered(message.asker, row, self._contents(message.url, now), first=True))
        return now

    def unask(self, message: Unask, page: PageRow) -> PageRow:
        key = f"{message.url}{END}{message.asker}"
        row = self._askers.get(key)
        if row is None or row.version != message.version:
            return page
        self._askers.delete(key)
        return replace(page, asker_count=page.asker_count - 1)

    def answer(self, url: str, page: PageRow) -> PageRow:
        """Send changed answers after the contents changed, in bounded steps. A change during them restarts."""
        if not page.asker_count:
            return page
        if page.answers_after is None and page.asker_count > self._asked_max:
            self._send(Send("pages", url, AnswerOn(url)))
        if page.answers_after is not None or page.asker_count > self._asked_max:
            return replace(page, answers_after="")
        self._answer_some(url, page, "")
        return page

    def answer_on(self, url: str, page: PageRow) -> PageRow:
        if page.answers_after is None:
            return page
        last = self._answer_some(url, page, page.answers_after)
        if last is not None:
            self._send(Send("pages", url, AnswerOn(url)))
        return replace(page, answers_after=last)

    def _answer_some(self, url: str, page: PageRow, after: str) -> str | None:
        """Answer some askers after `after`. Returns the last one if there may be more."""
        prefix, contents = url + END, self._contents(url, page)
        rows = rows_after(self._askers, prefix, after, self._asked_max)
        for key, row in rows:
            now = self._answered(key[len(prefix) :], row, contents)
            if now is not row:
                self._askers.put(key, now)
        return rows[-1][0][len(prefix) :] if len(rows) == self._asked_max else None

    def _answered(self, asker: str, row: AskerRow, contents: dict[str, FormerRow], *, first: bool = False) -> AskerRow:
        content = found_at(contents, row.version, row.digest)
        if content == row.answered and not first:
            return row
        number = row.answers + 1
        if content is None:
            self._send(Send("pages", asker, Answer(asker, row.version, number)))
        else:
            found = contents[content]
            self._send(Send("tier2", found.home, Recall(found.name, asker, row.version, number)))
        return replace(row, answers=number, answered=content)

    def _contents(self, url: str, page: PageRow) -> dict[str, FormerRow]:
        """All known contents; the present one under its vertex's name."""
        prefix = url + END
        rows = {key[len(prefix) :]: row for key, row in self._former.scan(prefix)}
        if _has_own(page):
            content = page.content_hash.hex()
            rows[content] = merged(_own(url, page), rows[content]) if content in rows else _own(url, page)
        return rows


def _has_own(page: PageRow) -> bool:
    """Whether the page has a content that its own fetch brought."""
    return page.kind == "content" and not page.revisit


def _own(url: str, page: PageRow) -> FormerRow:
    return FormerRow(page.first_at, page.found_at, page.first_digest, page.last_digest, vertex_of(url, page), page.home)
