"""The embedded engine on a state that stays open: takes events from a program instead of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from dustream.core.intake import Rejected, take_in
from dustream.core.pipeline import PAGES, pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.chunks import CHUNK_EVENTS_MAX
from dustream.streams.engine.counts import add_counts
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.rejections import Rejections
from dustream.streams.engine.state_rows import COUNTS_KEY, Counts
from dustream.streams.engine.states import open_state, state_map

SOURCE = "a program"  # in dead letters, in place of a file name


class Session:
    """A state, written by this process alone. When `add` returns, all its events are in the state."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.settings = settings
        self.store = open_state(path, settings)
        try:
            cells = state_map(self.store, settings, None, path)
            self.engine = EmbeddedEngine(pipeline(settings, cells), self.store)
        except BaseException:
            self.store.close()
            raise
        row = self.store.get(COUNTS_KEY)
        self._counts = msgspec.json.decode(row, type=Counts) if row else Counts()
        self._rejections = Rejections(self.store)

    def add(self, events: Iterable[CrawlEvent]) -> list[Rejected]:
        """Process events to completion, and return those that were rejected, by their number."""
        rejected: list[Rejected] = []
        self.engine.run(self._feeds(iter(events), rejected))
        return rejected

    def _feeds(self, events: Iterator[CrawlEvent], rejected: list[Rejected]) -> Iterator[Feed]:
        first = 0
        while chunk := list(islice(events, CHUNK_EVENTS_MAX)):
            intake = take_in(chunk, self.settings.text_source)
            now = [Rejected(first + each.index, each.url, each.reason) for each in intake.rejected]
            letters = [
                DeadLetter(source=SOURCE, position=self._counts.records + each.index, reason=each.reason, url=each.url)
                for each in intake.rejected
            ]
            add_counts(self._counts, len(chunk), intake, letters)
            kept = [letter for letter in letters if self._rejections.keep(SOURCE, letter.reason)]
            sends = [Send(PAGES, crawl.url, crawl) for crawl in intake.crawls]
            sends += [Send(PAGES, decision.url, decision) for decision in intake.decisions]
            sends += [Send("dead.letters", letter.source, letter) for letter in kept]
            changes = [self._rejections.change(SOURCE), (COUNTS_KEY, msgspec.json.encode(self._counts))]
            yield Feed(sends, changes)
            rejected += now
            first += len(chunk)
