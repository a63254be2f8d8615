"""Signing on all cores: chunks of events are sent to worker processes and return in order, a bounded number at a
time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from dustream.core.intake import Intake, Rejected, take_in
from dustream.core.text.extractors import TextSource
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.engine.worker_processes import worker_executor

INLINE_EVENTS = 400  # fewer are signed faster in this process than it takes to start a pool
CHUNKS_IN_FLIGHT_PER_JOB = 3
CRASHED = "the parser crashed on this page"

Place = TypeVar("Place")
Sign = Callable[[list[CrawlEvent], TextSource], Intake]

_ENCODER = msgspec.msgpack.Encoder()
_EVENTS = msgspec.msgpack.Decoder(list[CrawlEvent])
_SIGNED = msgspec.msgpack.Decoder(tuple[Intake, float])


class Chunk(NamedTuple, Generic[Place]):
    """Events that are signed together, and their position in the input (opaque here)."""

    events: list[CrawlEvent]
    place: Place


class SignedChunk(NamedTuple, Generic[Place]):
    """A chunk, its result, and the processor seconds it took."""

    chunk: Chunk[Place]
    intake: Intake
    seconds: float


def sign_chunks(chunks: Iterator[Chunk[Place]], jobs: int, source: TextSource) -> Iterator[SignedChunk[Place]]:
    """Sign chunks in order with `jobs` processes; with one job, or few events, in this process."""
    events_seen = 0
    for chunk in chunks:
        yield _sign_here(chunk, source)
        events_seen += len(chunk.events)
        if jobs > 1 and events_seen >= INLINE_EVENTS:
            break
    else:
        return
    with SigningPool(jobs, source) as pool:
        yield from pool.sign(chunks)


def _sign_here(chunk: Chunk[Place], source: TextSource) -> SignedChunk[Place]:
    started = time.process_time()
    intake = take_in(chunk.events, source)
    return SignedChunk(chunk, intake, time.process_time() - started)


def _sign_in_worker(data: bytes, source: TextSource, sign: Sign) -> bytes:
    started = time.process_time()
    intake = sign(_EVENTS.decode(data), source)
    return _ENCODER.encode((intake, time.process_time() - started))


class SigningPool:
    """Worker processes. A worker that dies (a parser crash) costs the page that caused it, not the run."""

    def __init__(self, jobs: int, source: TextSource, sign: Sign = take_in) -> None:
        self._jobs = jobs
        self._source = source
        self._sign = sign
        self._executor = worker_executor(jobs)

    def __enter__(self) -> SigningPool:
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def sign(self, chunks: Iterator[Chunk[Place]]) -> Iterator[SignedChunk[Place]]:
        in_flight: deque[tuple[Chunk[Place], Future[bytes]]] = deque()
        exhausted = False
        while True:
            while not exhausted and len(in_flight) < self._jobs * CHUNKS_IN_FLIGHT_PER_JOB:
                chunk = next(chunks, None)
                if chunk is None:
                    exhausted = True
                else:
                    in_flight.append((chunk, self._submit(chunk.events)))
            if not in_flight:
                return
            chunk, future = in_flight.popleft()
            yield SignedChunk(chunk, *self._result(chunk.events, future))

    def _submit(self, events: list[CrawlEvent]) -> Future[bytes]:
        data = _ENCODER.encode(events)
        try:
            return self._executor.submit(_sign_in_worker, data, self._source, self._sign)
        except BrokenProcessPool:
            self._renew()
            return self._executor.submit(_sign_in_worker, data, self._source, self._sign)

    def _renew(self) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = worker_executor(self._jobs)

    def _result(self, events: list[CrawlEvent], future: Future[bytes]) -> tuple[Intake, float]:
        try:
            return _SIGNED.decode(future.result())
        except BrokenProcessPool:
            # This chunk or another in flight killed a worker: only a separate retry can show which.
            return sign_isolated(events, self._source, self._sign)


def sign_isolated(events: list[CrawlEvent], source: TextSource, sign: Sign) -> tuple[Intake, float]:
    """Sign events in a process of their own, halving them until a page that kills it is alone."""
    with worker_executor(1) as executor:
        try:
            return _SIGNED.decode(executor.submit(_sign_in_worker, _ENCODER.encode(events), source, sign).result())
        except BrokenProcessPool:
            pass
    if len(events) == 1:
        return Intake([], [Rejected(0, events[0].url, CRASHED)], {}, []), 0.0
    half = len(events) // 2
    first, first_seconds = sign_isolated(events[:half], source, sign)
    second, second_seconds = sign_isolated(events[half:], source, sign)
    return _joined(first, second, half), first_seconds + second_seconds


def _joined(first: Intake, second: Intake, offset: int) -> Intake:
    ignored: dict[str, Any] = dict(first.ignored)
    for reason, count in second.ignored.items():
        ignored[reason] = ignored.get(reason, 0) + count
    moved = [Rejected(each.index + offset, each.url, each.reason) for each in second.rejected]
    indexes = first.indexes + [index + offset for index in second.indexes]
    decisions = first.decisions + second.decisions
    return Intake(first.crawls + second.crawls, first.rejected + moved, ignored, indexes, decisions)
