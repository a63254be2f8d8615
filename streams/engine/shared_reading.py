"""Reading and signing on all cores: every worker process reads the inputs itself and signs its share of the records.

Reading is cheap beside signing, and a page's bytes need not pass between processes. The shares are stripes of
consecutive records in turn, so the parent has all signed records in the order of the input by taking from each worker
what comes first.
"""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from math import inf
from multiprocessing.connection import Connection
from queue import Queue

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dustream.core.errors import UnreadableInput
from dustream.core.intake import Intake, take_in
from dustream.core.text.extractors import TextSource
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.engine.chunks import ChunkSpan, InputPlan, read_share, refused_span
from dustream.streams.engine.signing import (
    Chunk,
    Sign,
    SignedChunk,
    sign_isolated,
)
from dustream.streams.engine.worker_processes import (
    SHARED_BYTES_MIN,
    follow_parent,
    interrupts_ignored,
    worker_context,
)
from dustream.streams.readers import Share

CHUNKS_AHEAD_MAX = 32  # signed by a worker and not yet taken by the parent

A_PAGE = CrawlEvent(url="http://a.example/", html="<p>some words</p>")
NOTHING = Intake([], [], {}, [])

OnRefused = Callable[[str, UnreadableInput], None]
OnNotice = Callable[[str, str], None]


class ReadRequest(Struct, frozen=True):
    """What to read, and how."""

    plans: list[InputPlan]
    field_map: dict[str, str]
    source: TextSource
    sign: Sign = take_in


class _SignedShare(Struct, frozen=True, array_like=True, tag=True):
    span: ChunkSpan
    intake: Intake
    read_seconds: float
    sign_seconds: float
    notices: list[str]


class _RefusedInput(Struct, frozen=True, array_like=True, tag=True):
    """The input cannot be read at all."""

    reason: str


class _Failed(Struct, frozen=True, array_like=True, tag=True):
    """The run cannot go on; `error` is the exception, pickled."""

    error: bytes


_Message = _SignedShare | _RefusedInput | _Failed
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[_Message] = msgspec.msgpack.Decoder(_Message)


def can_be_shared(plans: list[InputPlan]) -> bool:
    """Whether workers can read these inputs for themselves (files, not pipes), and it is worth starting them."""
    return all(plan.bytes_total for plan in plans) and sum(plan.bytes_total for plan in plans) >= SHARED_BYTES_MIN


# ---------------------------------------------------------------- in a worker


def _work(request: ReadRequest, reader: int, readers: int, first: int, connection: Connection) -> None:
    """Read all inputs from number `first` on, and send this reader's share of each."""
    follow_parent()
    messages: Queue[bytes | None] = Queue(CHUNKS_AHEAD_MAX)
    sender = threading.Thread(target=_send_all, args=(messages, connection), daemon=True)
    sender.start()
    for number, plan in enumerate(request.plans[first:], start=first):
        for message in _messages(request, plan, _share_of(reader, readers, number)):
            messages.put(_ENCODER.encode(message))
    messages.put(None)
    sender.join()


def _share_of(reader: int, readers: int, number: int) -> Share:
    """In input `number`. Every input begins with another reader, so that small ones are shared, too."""
    return Share((reader + number) % readers, readers)


def _send_all(messages: Queue[bytes | None], connection: Connection) -> None:
    while (message := messages.get()) is not None:
        connection.send_bytes(message)


def _messages(request: ReadRequest, plan: InputPlan, share: Share) -> Iterator[_Message]:
    notices: list[str] = []
    started = time.process_time()
    try:
        for chunk in read_share(plan, request.field_map, share, lambda _, notice: notices.append(notice)):
            read = time.process_time()
            intake = request.sign(chunk.events, request.source)
            signed = time.process_time()
            yield _SignedShare(chunk.place, intake, read - started, signed - read, notices)
            notices.clear()
            started = signed
    except UnreadableInput as error:
        yield _RefusedInput(str(error))
    except Exception as error:
        yield _Failed(_pickled(error))


def _pickled(error: Exception) -> bytes:
    try:
        pickle.loads(pickled := pickle.dumps(error))
    except Exception:  # not every exception survives it
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return pickled


# ---------------------------------------------------------------- in the parent


class _Worker:
    """One worker process, replaced by another one where a page takes it down."""

    def __init__(self, request: ReadRequest, reader: int, readers: int) -> None:
        self._request = request
        self._reader = reader
        self._readers = readers
        self._plans = list(request.plans)
        self._number = 0  # of the input that the next message is about
        self._start()

    def _start(self) -> None:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        request = replace(self._request, plans=self._plans)
        self._process = worker_context().Process(
            target=_work, args=(request, self._reader, self._readers, self._number, theirs), daemon=True
        )
        with interrupts_ignored():
            self._process.start()
        theirs.close()
        self._connection = ours

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def next(self) -> _Message:
        """The next message; if a page has taken the worker down, what can be said of the other pages around it."""
        try:
            message = _DECODER.decode(self._connection.recv_bytes())
        except (EOFError, OSError):  # it ended between messages, or within one
            self.close()
            message = self._isolated()
            self._move_behind(message)
            self._start()
        else:
            self._move_behind(message)
        return message

    def _move_behind(self, message: _Message) -> None:
        if isinstance(message, _SignedShare):
            progress = message.span.progress
            self._plans[self._number] = self._plans[self._number]._replace(start=progress.position)
            self._number += progress.done
        else:
            self._number += 1

    def _isolated(self) -> _Message:
        """The chunk that the worker died on, signed with every page that kills a process in one of its own."""
        plan = self._plans[self._number]
        share = _share_of(self._reader, self._readers, self._number)
        notices: list[str] = []
        try:
            with closing(
                read_share(plan, self._request.field_map, share, lambda _, text: notices.append(text))
            ) as chunks:
                chunk = next(chunks)
        except UnreadableInput as error:
            return _RefusedInput(str(error))
        intake, seconds = sign_isolated(chunk.events, self._request.source, self._request.sign)
        return _SignedShare(chunk.place, intake, 0.0, seconds, notices)

    def close(self) -> None:
        self._process.kill()  # before its pipe is closed, which it would complain about
        self._process.join()
        self._connection.close()


class SharedReading:
    """Workers that read and sign together; a context manager."""

    def __init__(self, request: ReadRequest, jobs: int) -> None:
        self._request = request
        take_in([A_PAGE], request.source)  # what is not compiled yet is compiled here, not by every worker
        self._workers = [_Worker(request, reader, jobs) for reader in range(jobs)]
        self.read_seconds = 0.0

    @property
    def worker_pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    def __enter__(self) -> SharedReading:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.close()

    def chunks(self, on_refused: OnRefused, on_notice: OnNotice) -> Iterator[SignedChunk[ChunkSpan]]:
        """All chunks, in the order of the inputs and of their records."""
        for plan in self._request.plans:
            yield from self._chunks_of(plan, on_refused, on_notice)

    def _chunks_of(
        self, plan: InputPlan, on_refused: OnRefused, on_notice: OnNotice
    ) -> Iterator[SignedChunk[ChunkSpan]]:
        heads = {number: self._next_of(number) for number in range(len(self._workers))}
        if isinstance(heads[0], _RefusedInput):
            error = UnreadableInput(heads[0].reason)
            on_refused(plan.path, error)
            yield SignedChunk(Chunk([], refused_span(plan, self._request.field_map, error)), NOTHING, 0.0)
            return
        signed = {number: head for number, head in heads.items() if isinstance(head, _SignedShare)}
        position = plan.start
        while signed:
            number = min(signed, key=lambda each: (_position(signed[each].span), each))
            head = signed.pop(number)
            for notice in head.notices if number == 0 else ():
                on_notice(plan.path, notice)
            progress = head.span.progress
            if not progress.done and isinstance(following := self._next_of(number), _SignedShare):
                signed[number] = following
            position = max(position, progress.position)
            progress = replace(progress, position=position, done=not signed)
            yield self._taken(head, head.span._replace(progress=progress))

    def _next_of(self, number: int) -> _Message:
        message = self._workers[number].next()
        if isinstance(message, _Failed):
            raise pickle.loads(message.error)
        return message

    def _taken(self, head: _SignedShare, span: ChunkSpan) -> SignedChunk[ChunkSpan]:
        self.read_seconds += head.read_seconds
        return SignedChunk(Chunk([], span), head.intake, head.sign_seconds)


def _position(span: ChunkSpan) -> float:
    """By which chunks of different stripes are in order. An empty chunk, which ends a worker's share, comes last."""
    is_empty = not (span.positions or span.rejections or span.skipped)
    return inf if is_empty else span.progress.position
