"""Inputs as chunks of events with their positions, so that an interrupted run can resume."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import count
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from dustream.core.errors import BadSetting, StateMismatch, UnreadableInput, broken_program
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.engine.signing import Chunk
from dustream.streams.engine.state_rows import InputProgress, Origin, input_key, read_inputs
from dustream.streams.readers import (
    STRIPE_RECORDS,
    WHOLE,
    Border,
    Fingerprint,
    Input,
    Record,
    Rejection,
    Segment,
    Share,
    change_since,
    fingerprint,
    open_input,
)
from dustream.streams.store.base import Change, Store

CHUNK_EVENTS_MAX = STRIPE_RECORDS
CHUNK_BYTES_MAX = 8 << 20
CHUNK_REJECTIONS_MAX = 1_024
READER_FAILED_CHARS_MAX = 500


class RejectedInput(NamedTuple):
    """A dead letter, and the whole record if the reader had it."""

    letter: DeadLetter
    original: bytes = b""
    original_size: int = 0


class ChunkSpan(NamedTuple):
    """The origin of a chunk, the records rejected or skipped there, and the input's progress after it."""

    path: str
    number: int
    positions: list[tuple[int, int]]
    rejections: list[RejectedInput]
    skipped: dict[str, int]
    progress: InputProgress
    bytes_read: int
    begins: Border = Border()
    ends: Border = Border()
    """Of the segment, once the chunk is the last one of it."""

    def change(self) -> Change:
        """The row that stores the progress."""
        return input_key(self.path), msgspec.json.encode(self.progress)

    def moved(self, positions: int, *, done: bool) -> ChunkSpan:
        """The same in the whole input, `positions` records behind its beginning."""
        letters = [
            each._replace(letter=replace(each.letter, position=each.letter.position + positions))
            for each in self.rejections
        ]
        progress = replace(self.progress, position=self.progress.position + positions, done=done)
        places = [(position + positions, offset) for position, offset in self.positions]
        return self._replace(positions=places, rejections=letters, progress=progress)

    def origin(self, index: int) -> str:
        """The origin of an event, by its number in the chunk."""
        return str(Origin(self.number, *self.positions[index]))


class InputPlan(NamedTuple):
    """An input, and the part of it still to be read. `number` identifies the input in this state."""

    path: str
    number: int
    start: int
    done: bool
    bytes_total: int


def plan_inputs(paths: Iterable[str], store: Store) -> list[InputPlan]:
    """The part of each input to read, after earlier runs on this state."""
    known = dict(read_inputs(store))
    numbers = {path: row.number for path, row in known.items() if row.number is not None}
    unused = count(max(numbers.values(), default=-1) + 1)
    plans = []
    for path in paths:
        path = path if path == "-" else os.path.abspath(path)
        if path not in numbers:
            numbers[path] = next(unused)
        plans.append(_plan(path, numbers[path], known.get(path)))
    return plans


def _plan(path: str, number: int, known: InputProgress | None) -> InputPlan:
    if path == "-" or not os.path.isfile(path):  # standard input, or a pipe
        return InputPlan(path, number, 0, False, 0)
    size = os.path.getsize(path)
    if known is None or known.fingerprint is None:
        return InputPlan(path, number, 0, False, size)
    change = change_since(known.fingerprint, path)
    if change == "other":
        if not known.done:
            raise StateMismatch(
                f"{path} has changed since a run on this state was interrupted in the middle of it: "
                "bring the file back, or use a fresh --state"
            )
        return InputPlan(path, number, 0, False, size)
    return InputPlan(path, number, known.position, known.done and change == "same", size)


def read_chunks(
    plans: list[InputPlan],
    field_map: dict[str, str],
    on_refused: Callable[[str, UnreadableInput], None],
    on_notice: Callable[[str, str], None] = lambda path, notice: None,
) -> Iterator[Chunk[ChunkSpan]]:
    """The events of all inputs in order. An input that cannot be read at all is reported, and the next one is read."""
    for plan in plans:
        if plan.done:
            continue
        try:
            yield from read_share(plan, field_map, Share(), on_notice)
        except UnreadableInput as error:
            on_refused(plan.path, error)
            yield Chunk([], refused_span(plan, field_map, error))


def read_share(
    plan: InputPlan,
    field_map: dict[str, str],
    share: Share,
    on_notice: Callable[[str, str], None],
    segment: Segment = WHOLE,
) -> Generator[Chunk[ChunkSpan], None, None]:
    """A reader's share of the events of an input, or of a segment of it; no chunk has records of two stripes. The last
    chunk, which may be empty, is `done`."""
    identity = fingerprint(plan.path) if os.path.isfile(plan.path) else None
    with open_input(plan.path, field_map=field_map) as opened:
        opened.share, opened.segment = share, segment
        builder = _Builder(opened, plan, identity, field_map)
        for chunk in _chunks_of(opened.start_at(plan.start), builder):
            while opened.notices:
                on_notice(plan.path, opened.notices.pop(0))
            yield chunk


def refused_span(plan: InputPlan, field_map: dict[str, str], error: UnreadableInput) -> ChunkSpan:
    """In place of the records of an input that cannot be read at all."""
    letter = DeadLetter(source=plan.path, position=0, reason=str(error))
    progress = InputProgress(None, 0, True, plan.number, field_map)
    return ChunkSpan(plan.path, plan.number, [], [RejectedInput(letter)], {}, progress, plan.bytes_total)


class _Builder:
    """Collects the records of a reader's share into chunks, none of which has records of two stripes if there are
    several readers."""

    def __init__(self, opened: Input, plan: InputPlan, identity: Fingerprint | None, field_map: dict[str, str]) -> None:
        self._opened = opened
        self._plan = plan
        self._identity = identity
        self._field_map = field_map
        self._is_shared = opened.share.readers > 1
        self.next_position = plan.start
        self._finished: list[Chunk[ChunkSpan]] = []
        self._clear()
        opened.on_skip = self.skip

    def _clear(self) -> None:
        self._events: list[CrawlEvent] = []
        self._positions: list[tuple[int, int]] = []
        self._rejections: list[RejectedInput] = []
        self._skipped: dict[str, int] = {}
        self._size = 0

    def add(self, item: Record | Rejection) -> None:
        self._move_to(item.position)
        if isinstance(item, Record):
            self._events.append(item.event)
            self._positions.append((item.position, item.offset))
            self._size += _event_bytes(item.event)
        else:
            self._rejections.append(RejectedInput(dead_letter(item), item.original, item.original_size))
            self._size += len(item.original)
        if (
            len(self._events) >= CHUNK_EVENTS_MAX
            or self._size >= CHUNK_BYTES_MAX
            or len(self._rejections) >= CHUNK_REJECTIONS_MAX
        ):
            self.finish(done=False)

    def skip(self, position: int, reason: str) -> None:
        self._move_to(position)
        self._skipped[reason] = self._skipped.get(reason, 0) + 1

    def _move_to(self, position: int) -> None:
        begun = bool(self._events or self._rejections or self._skipped)
        if self._is_shared and begun and position // STRIPE_RECORDS != (self.next_position - 1) // STRIPE_RECORDS:
            self.finish(done=False)
        self.next_position = position + 1

    def finish(self, *, done: bool) -> None:
        plan = self._plan
        progress = InputProgress(self._identity, self.next_position, done, plan.number, self._field_map)
        place = ChunkSpan(
            plan.path,
            plan.number,
            self._positions,
            self._rejections,
            self._skipped,
            progress,
            self._opened.bytes_read,
            self._opened.begins,
            self._opened.ends,
        )
        self._finished.append(Chunk(self._events, place))
        self._clear()

    def finished(self) -> list[Chunk[ChunkSpan]]:
        """Those not yet taken."""
        found, self._finished = self._finished, []
        return found


def _chunks_of(opened: Input, builder: _Builder) -> Iterator[Chunk[ChunkSpan]]:
    for item in _all_items(opened, builder):
        builder.add(item)
        yield from builder.finished()
    builder.finish(done=True)
    yield from builder.finished()


def _all_items(opened: Input, builder: _Builder) -> Iterator[Record | Rejection]:
    """No input can end a run by its content: if its reader fails, the rest is rejected and the next input is read."""
    try:
        yield from opened
    except BadSetting:
        raise
    except Exception as error:
        if (broken := broken_program(error)) is not None:
            raise broken from error
        reason = f"the reader failed here and cannot read the rest: {type(error).__name__}: {error}"
        yield opened.reject(builder.next_position, -1, reason[:READER_FAILED_CHARS_MAX], ends_input=True)


def dead_letter(item: Rejection) -> DeadLetter:
    """The dead letter of a record that could not be read."""
    excerpt = item.excerpt.decode("utf-8", "backslashreplace") or None
    return DeadLetter(source=item.file, position=item.position, offset=item.offset, reason=item.reason, excerpt=excerpt)


def _event_bytes(event: CrawlEvent) -> int:
    return len(event.html or "") + len(event.body or b"") + len(event.text or "")
