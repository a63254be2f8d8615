"""Reading and signing on all cores: every worker process reads the inputs itself and signs its share of the records. A
page's bytes need not pass between processes.

The shares of most inputs are stripes of consecutive records in turn: all workers read everything, which is cheap beside
signing, and the parent has all signed records in the order of the input by taking from each worker what comes first.

Unpacking an archive is not cheap, and large files take a while to read. If the records of an input can be found from
any byte on, as in archives and in lines that are not compressed, the shares are segments of the file in turn, and a
worker reads its own only. It does not know how many records come before, nor for certain that it began with a record of
the archive and not with one of an archive inside a record. The parent does, since it has read all segments before: it
moves the positions, and discards a segment that does not begin where the one before it ended, to read it again from
there.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from functools import cached_property
from math import inf
from multiprocessing.connection import Connection
from queue import Queue
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dustream.core.errors import UnreadableInput
from dustream.core.intake import Intake, take_in
from dustream.core.text.extractors import TextSource
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.engine.chunks import ChunkSpan, InputPlan, read_share, refused_span
from dustream.streams.engine.message_pipe import MessageReceiver, send_message, widen
from dustream.streams.engine.signing import (
    Chunk,
    Sign,
    SignedChunk,
    SigningPool,
    sign_isolated,
)
from dustream.streams.engine.worker_processes import (
    SHARED_BYTES_MIN,
    follow_parent,
    interrupts_ignored,
    pickled,
    worker_context,
)
from dustream.streams.readers import WHOLE, Border, Segment, Share, open_input

NICENESS = 10  # workers give way to the processes that need what they read: reading far ahead of them saves nothing
CHUNKS_AHEAD_MAX = 32  # signed by a worker and not yet taken by the parent
SEGMENT_BYTES = 8 << 20  # of the file as it is stored: what a worker signs of one is not many chunks

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
    segment_bytes: int = SEGMENT_BYTES


class _ReadTask(NamedTuple):
    """A worker's share of an input."""

    plan: InputPlan
    share: Share
    segment: Segment = WHOLE


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


def _work(request: ReadRequest, tasks: list[_ReadTask], connection: Connection) -> None:
    """Read these shares of inputs, and send what is signed of each."""
    follow_parent()
    os.nice(NICENESS)
    messages: Queue[bytearray | None] = Queue(CHUNKS_AHEAD_MAX)
    spare: deque[bytearray] = deque()
    sender = threading.Thread(target=_send_all, args=(messages, spare, connection), daemon=True)
    sender.start()
    for task in tasks:
        for message in _messages(request, task):
            encoded = spare.pop() if spare else bytearray()
            _ENCODER.encode_into(message, encoded)
            messages.put(encoded)
    messages.put(None)
    sender.join()


def _send_all(messages: Queue[bytearray | None], spare: deque[bytearray], connection: Connection) -> None:
    """The memory of what is sent is used again: fresh memory takes longer than what is written there."""
    try:
        while (message := messages.get()) is not None:
            send_message(connection, message)
            spare.append(message)
    except OSError:
        return  # the parent is gone, and this process ends with it


def _messages(request: ReadRequest, task: _ReadTask) -> Iterator[_Message]:
    notices: list[str] = []
    started = time.process_time()
    try:
        for chunk in _read(request, task, lambda _, notice: notices.append(notice)):
            read = time.process_time()
            intake = request.sign(chunk.events, request.source)
            signed = time.process_time()
            yield _SignedShare(chunk.place, intake, read - started, signed - read, notices)
            notices.clear()
            started = signed
    except UnreadableInput as error:
        yield _RefusedInput(str(error))
    except Exception as error:
        yield _Failed(pickled(error))


def _read(request: ReadRequest, task: _ReadTask, on_notice: OnNotice) -> Generator[Chunk[ChunkSpan], None, None]:
    return read_share(task.plan, request.field_map, task.share, on_notice, task.segment)


# ---------------------------------------------------------------- in the parent


class _Worker:
    """One worker process, replaced by another one where a page takes it down."""

    def __init__(self, request: ReadRequest, tasks: list[_ReadTask]) -> None:
        self._request = request
        self._tasks = deque(tasks)  # the next message is about the first one
        self._start()

    def _start(self) -> None:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        widen(ours)
        self._process = worker_context().Process(
            target=_work, args=(self._request, list(self._tasks), theirs), daemon=True
        )
        with interrupts_ignored():
            self._process.start()
        theirs.close()
        self._connection, self._receiver = ours, MessageReceiver(ours)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def next(self) -> _Message:
        """The next message; if a page has taken the worker down, what can be said of the other pages around it."""
        try:
            message = _DECODER.decode(self._receiver.next())
        except (EOFError, OSError):  # it ended between messages, or within one
            self.close()
            message = self._isolated()
            self._move_behind(message)
            self._start()
        else:
            self._move_behind(message)
        return message

    def _move_behind(self, message: _Message) -> None:
        task = self._tasks.popleft()
        if isinstance(message, _SignedShare) and not message.span.progress.done:
            plan = task.plan._replace(start=message.span.progress.position)
            self._tasks.appendleft(task._replace(plan=plan))

    def _isolated(self) -> _Message:
        """The chunk that the worker died on, signed with every page that kills a process in one of its own."""
        notices: list[str] = []
        try:
            with closing(_read(self._request, self._tasks[0], lambda _, text: notices.append(text))) as chunks:
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
        self._segments = [_segments_of(plan, request) for plan in request.plans]
        self._workers = [_Worker(request, self._tasks_of(reader, jobs)) for reader in range(jobs)]
        self.read_seconds = 0.0
        self._open = ExitStack()

    def _tasks_of(self, reader: int, readers: int) -> list[_ReadTask]:
        """Every input begins with another reader, so that small ones are shared, too."""
        tasks = []
        for number, (plan, segments) in enumerate(zip(self._request.plans, self._segments, strict=True)):
            first = (reader + number) % readers
            tasks += [_ReadTask(plan, Share(), segment) for segment in segments[first::readers]]
            tasks += [] if segments else [_ReadTask(plan, Share(first, readers))]
        return tasks

    @property
    def worker_pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    def __enter__(self) -> SharedReading:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()
        for worker in self._workers:
            worker.close()

    def chunks(self, on_refused: OnRefused, on_notice: OnNotice) -> Iterator[SignedChunk[ChunkSpan]]:
        """All chunks, in the order of the inputs and of their records."""
        for number, plan in enumerate(self._request.plans):
            if self._segments[number]:
                yield from self._chunks_of_segments(number, on_notice)
            else:
                yield from self._chunks_of(plan, on_refused, on_notice)

    def _chunks_of_segments(self, number: int, on_notice: OnNotice) -> Iterator[SignedChunk[ChunkSpan]]:
        segments, border, before = self._segments[number], Border(), 0
        for at, segment in enumerate(segments):
            is_last = segment is segments[-1]
            for signed in self._chunks_of_segment(number, at, border, on_notice):
                span = signed.chunk.place
                is_end = span.progress.done
                yield signed._replace(chunk=Chunk([], span.moved(before, done=is_last and is_end)))
                if is_end:
                    border, before = span.ends, before + span.progress.position

    def _chunks_of_segment(
        self, number: int, at: int, border: Border, on_notice: OnNotice
    ) -> Iterator[SignedChunk[ChunkSpan]]:
        """The chunks of a segment, the last one `done`, if a record begins at the border; else they are read again from
        there on."""
        segment, plan = self._segments[number][at], self._request.plans[number]
        worker = (at - number) % len(self._workers)
        is_sound, is_end = True, False
        while not is_end:
            head = self._next_of(worker)
            if isinstance(head, _RefusedInput):  # it could be read when it was divided
                raise UnreadableInput(head.reason)
            is_end, is_sound = head.span.progress.done, head.span.begins == border
            for notice in head.notices:
                on_notice(plan.path, notice)
            if is_sound:
                yield self._taken(head, head.span)
        if not is_sound:
            again = _read(self._request, _ReadTask(plan, Share(), Segment(border, segment.end)), on_notice)
            if border.offset < segment.end:
                yield from self._again.sign(again)
            else:  # the segment is inside a record
                yield from (SignedChunk(chunk, NOTHING, 0.0) for chunk in again)

    @cached_property
    def _again(self) -> SigningPool:
        """Signs what the parent reads."""
        return self._open.enter_context(SigningPool(1, self._request.source, self._request.sign))

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

    def _next_of(self, number: int) -> _SignedShare | _RefusedInput:
        message = self._workers[number].next()
        if isinstance(message, _Failed):
            raise pickle.loads(message.error)
        return message

    def _taken(self, head: _SignedShare, span: ChunkSpan) -> SignedChunk[ChunkSpan]:
        self.read_seconds += head.read_seconds
        return SignedChunk(Chunk([], span), head.intake, head.sign_seconds)


def _segments_of(plan: InputPlan, request: ReadRequest) -> list[Segment]:
    """The segments in which an input is read; none if it is not divided. Records before the start of a plan can only be
    counted, so the rest of an input is read in stripes."""
    segment_bytes = request.segment_bytes
    if plan.start or plan.bytes_total <= segment_bytes:
        return []
    try:
        with open_input(plan.path, field_map=request.field_map) as opened:
            if not opened.is_divisible():
                return []
    except UnreadableInput:
        return []  # reported when it is read
    begins = range(0, plan.bytes_total, segment_bytes)
    return [Segment(Border(begin), begin + segment_bytes, is_known=begin == 0) for begin in begins]


def _position(span: ChunkSpan) -> float:
    """By which chunks of different stripes are in order. An empty chunk, which ends a worker's share, comes last."""
    is_empty = not (span.positions or span.rejections or span.skipped)
    return inf if is_empty else span.progress.position
