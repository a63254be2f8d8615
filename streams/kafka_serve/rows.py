"""Rows of tasks, as workers ask each other for them. A worker answers from the tasks that it holds and asks no other:
no request goes round in a circle."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from dustream.core.errors import Unavailable
from dustream.streams.kafka.held import HeldTasks
from dustream.streams.kafka.local_state import task_prefix

ROWS_MAX = 4_096  # in one answer; keys that are asked for one by one are all answered
KEYS_FEW_MAX = 64


class RowsAsked(Struct, frozen=True, array_like=True):
    """Rows of one table: those of `keys`; or, without keys, those with a prefix after a key, if they contain one of the
    texts. `limit` is for the latter."""

    processor: str
    partition: int
    table: str
    keys: list[str] | None = None
    prefix: str = ""
    after: str = ""
    limit: int = ROWS_MAX
    containing: list[str] = []
    is_names: bool = False
    """Whether the keys alone are wanted."""


class RowsFound(Struct, frozen=True, array_like=True):
    """Keys and rows as stored; whether there may be more. `missing`: why the worker cannot answer."""

    rows: list[tuple[str, bytes]]
    is_cut: bool = False
    missing: str = ""


_ASKED = msgspec.msgpack.Decoder(list[RowsAsked])
FOUND = msgspec.msgpack.Decoder(list[RowsFound])
_ENCODER = msgspec.msgpack.Encoder()


def encode_asked(asked: list[RowsAsked]) -> bytes:
    return _ENCODER.encode(asked)


def decode_asked(body: bytes) -> list[RowsAsked]:
    return _ASKED.decode(body)


def are_few(asked: list[RowsAsked]) -> bool:
    """Whether the rows are read faster than a thread is started for it."""
    return all(each.keys is not None for each in asked) and sum(len(each.keys or ()) for each in asked) <= KEYS_FEW_MAX


def answer_rows(held: HeldTasks | None, asked: list[RowsAsked]) -> bytes:
    """The answer to another worker."""
    if held is None:
        raise Unavailable("the worker is starting or stopping")
    return _ENCODER.encode([_read_if_held(held, each) for each in asked])


def _read_if_held(held: HeldTasks, asked: RowsAsked) -> RowsFound:
    try:
        return read_rows(held, asked)
    except Unavailable as error:
        return RowsFound([], missing=str(error))


def held_there(found: RowsFound) -> RowsFound:
    """What another worker found; Unavailable if it could not answer."""
    if found.missing:
        raise Unavailable(found.missing)
    return found


def read_rows(held: HeldTasks, asked: RowsAsked) -> RowsFound:
    store = held.rows(asked.processor, asked.partition)
    table = task_prefix(asked.processor, asked.partition) + f"{asked.table}/".encode()
    if asked.keys is not None:
        pairs = ((key, store.get(table + key.encode())) for key in asked.keys)
        return RowsFound([(key, row) for key, row in pairs if row is not None])
    rows: list[tuple[str, bytes]] = []
    for key, row in _chosen(store.scan(table + asked.prefix.encode(), _after(table, asked.after)), asked.containing):
        rows.append((key[len(table) :].decode(), b"" if asked.is_names else row))
        if len(rows) >= min(asked.limit, ROWS_MAX):
            return RowsFound(rows, is_cut=True)
    return RowsFound(rows)


def _after(table: bytes, key: str) -> bytes:
    return table + key.encode() if key else b""


def _chosen(rows: Iterator[tuple[bytes, bytes]], texts: list[str]) -> Iterator[tuple[bytes, bytes]]:
    if not texts:
        return rows
    wanted = [text.encode() for text in texts]
    return ((key, row) for key, row in rows if any(text in row for text in wanted))
