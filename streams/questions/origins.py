"""The origin of a page's content, and reading it again.

A state stores no texts, but where each page's content is in its input. With that, and with the settings of the run, the
exact text that was compared can be recovered as long as the input exists. The result is checked by its content hash.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from msgspec import Struct

from dustream.schemas.crawl import CrawlEvent
from dustream.streams.engine.state_rows import InputProgress, Origin
from dustream.streams.questions.state import ReadableState

if TYPE_CHECKING:
    from dustream.streams.readers import Input

Watch = Callable[["Input"], AbstractContextManager[object]]
"""Entered while an input is searched, which may take long; its `bytes_read` grows."""


class Where(Struct, frozen=True):
    """A record of an input: file (- is standard input) or topic, its position there, its byte offset if it has one."""

    source: str
    position: int
    offset: int | None = None


class NotThere(Exception):
    """The record cannot be read again; `str(error)` gives the reason."""


def where_read(state: ReadableState, origin: str) -> Where | None:
    """The record of an origin; None for states that did not store it."""
    if origin.startswith("k"):
        partition, offset, number = origin[1:].split(":")
        return Where(f"crawl.pages, partition {partition}, offset {offset}", int(number))
    found = _input_of(state, origin)
    if found is None:
        return None
    path, _ = found
    at = Origin.parse(origin)
    return Where(path, at.position, at.offset if at.offset >= 0 else None)


def _input_of(state: ReadableState, origin: str) -> tuple[str, InputProgress] | None:
    if not origin:
        return None
    number = Origin.parse(origin).input
    return next(((path, row) for path, row in state.inputs().items() if row.number == number), None)


def read_again(state: ReadableState, origins: Iterable[str], watch: Watch) -> dict[str, CrawlEvent | NotThere]:
    """The events at these origins, or why they cannot be read. Each input is read once."""
    answers: dict[str, CrawlEvent | NotThere] = {}
    by_input: dict[int, list[Origin]] = {}
    for origin in set(origins):
        if origin.startswith("k"):
            answers[origin] = NotThere("its text is on the crawl topic, which is not read from here")
        elif not origin:
            answers[origin] = NotThere("this state does not store where texts come from")
        else:
            at = Origin.parse(origin)
            by_input.setdefault(at.input, []).append(at)
    for some in by_input.values():
        answers |= _read_input(state, sorted(some), watch)
    return answers


def _read_input(state: ReadableState, origins: list[Origin], watch: Watch) -> dict[str, CrawlEvent | NotThere]:
    found = _input_of(state, str(origins[0]))
    try:
        if found is None:
            raise NotThere("its input is no longer known")
        path, row = found
        if path == "-":
            raise NotThere("it came from standard input, which cannot be read again")
        if not os.path.isfile(path):
            raise NotThere(f"its input {path} is not there any more")
        return dict(_read_file(path, row, origins, watch))
    except NotThere as error:
        return {str(origin): error for origin in origins}


def _read_file(
    path: str, row: InputProgress, origins: list[Origin], watch: Watch
) -> Iterator[tuple[str, CrawlEvent | NotThere]]:
    """Positions must ascend. Seeks to records where possible; the rest of the file is read once for all others."""
    from dustream.core.errors import UnreadableInput
    from dustream.streams.readers import open_input

    try:
        with open_input(path, field_map=row.field_map) as opened:
            if not opened.jump_to(origins[0].position, origins[0].offset):
                yield from _read_on(opened, origins, watch)
                return
            yield from _read_on(opened, origins[:1], watch)
        if origins[1:]:
            yield from _read_file(path, row, origins[1:], watch)
    except UnreadableInput as error:
        raise NotThere(str(error)) from None


def _read_on(opened: Input, origins: list[Origin], watch: Watch) -> Iterator[tuple[str, CrawlEvent | NotThere]]:
    from dustream.streams.readers import Record

    changed = NotThere(f"its input {opened.path} has changed since")
    records = iter(opened)
    with watch(opened):
        for origin in origins:
            opened.start_at(origin.position)
            item = next(records, None)
            there = isinstance(item, Record) and item.position == origin.position
            yield str(origin), item.event if there and isinstance(item, Record) else changed
