"""The state of all workers as one: rows of tasks held here are read in place, others are asked of the worker that holds
them. Reading blocks: it is for threads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from dustream.core.errors import Unavailable
from dustream.core.pages.resolution import REDIRECT_HOPS_MAX
from dustream.core.pages.rows import PageRow
from dustream.core.pages.status import status, view
from dustream.core.settings import Settings
from dustream.core.topology import partition_of
from dustream.schemas.dead_letter import DeadLetter
from dustream.schemas.status import DuplicateStatus
from dustream.streams.engine.state_rows import Counts, InputProgress
from dustream.streams.kafka.health import Health
from dustream.streams.kafka.held import HeldTasks
from dustream.streams.kafka.local_state import task_prefix
from dustream.streams.kafka_serve.peers import EVIDENCE, ROWS, Peers, decoded
from dustream.streams.kafka_serve.rows import (
    FOUND,
    ROWS_MAX,
    RowsAsked,
    RowsFound,
    encode_asked,
    held_there,
    read_rows,
)
from dustream.streams.questions.evidence import EvidencePath, search_evidence
from dustream.streams.questions.state import ROWS as ROW_TYPES
from dustream.streams.questions.state import RowReader, StoredRows

FIRST_ROWS = 64  # of a scan: many end early
CONTAINING_FIRST = 2
URLS_AT_ONCE = 500  # per task

_ENCODER = msgspec.msgpack.Encoder()
_SEARCHED = msgspec.msgpack.Decoder(tuple[str, str, str])
_EVIDENCE: msgspec.msgpack.Decoder[EvidencePath | None] = msgspec.msgpack.Decoder(EvidencePath | None)
_DECODERS = {table: msgspec.msgpack.Decoder(row) for table, row in ROW_TYPES.items()}


class GatheredState:
    """A state as questions read it."""

    def __init__(self, health: Health, settings: Settings, peers: Peers, address: str) -> None:
        self._health = health
        self._settings = settings
        self._peers = peers
        self._address = address
        self._markets = tuple(market.name for market in settings.markets)

    @property
    def settings(self) -> Settings:
        return self._settings

    def held(self) -> HeldTasks:
        """The tasks of this worker; Unavailable while it starts or stops."""
        held = self._health.held
        if held is None:
            raise Unavailable(f"this worker is not ready: {self._health.stage}")
        return held

    def fetch(self, asked: Sequence[RowsAsked]) -> list[RowsFound]:
        """The rows of several tables: one request to each worker that holds some of them."""
        held = self.held()
        answers: dict[int, RowsFound] = {}
        elsewhere: dict[str, list[int]] = {}
        for number, each in enumerate(asked):
            place = each.processor, each.partition
            if held.holds(*place):
                answers[number] = read_rows(held, each)
            else:
                elsewhere.setdefault(self.other(held.address(*place), *place), []).append(number)
        bodies = {address: encode_asked([asked[at] for at in numbers]) for address, numbers in elsewhere.items()}
        for address, data in self._peers.ask(ROWS, bodies).items():
            found = decoded(FOUND, data)
            answers |= zip(elsewhere[address], map(held_there, found), strict=True)
        return [answers[number] for number in range(len(asked))]

    def other(self, address: str | None, processor: str, partition: int) -> str:
        """The address of the other worker that has a task; Unavailable if there is none."""
        if address is None or address == self._address:
            raise Unavailable(
                f"the task {processor}-{partition} is moving or recovering, or its worker has no --serve-port"
            )
        return address

    def evidence(self, group: str, one: str, other: str) -> EvidencePath | None:
        """Searched by the worker that has the group."""
        held, partition = self.held(), partition_of(group, self._settings.partitions)
        if held.holds("groups", partition):
            return search_evidence(self, group, one, other)
        address = self.other(held.address("groups", partition), "groups", partition)
        answer = self._peers.ask(EVIDENCE, {address: _ENCODER.encode((group, one, other))})[address]
        return decoded(_EVIDENCE, answer)

    def evidence_here(self, body: bytes) -> bytes:
        """For another worker: in a group that is held here."""
        group, one, other = _SEARCHED.decode(body)
        self.held().rows("groups", partition_of(group, self._settings.partitions))
        return _ENCODER.encode(search_evidence(self, group, one, other))

    # What questions read

    def table(self, processor: str, partition: int, name: str) -> RowReader[Any]:
        held = self.held()
        if not held.holds(processor, partition):
            return GatheredRows(self, processor, partition, name)
        prefix = task_prefix(processor, partition) + f"{name}/".encode()
        return StoredRows(held.rows(processor, partition), prefix, ROW_TYPES[processor, name])

    def rows(self, processor: str, name: str, keys: Iterable[str]) -> dict[str, Any]:
        by_task: dict[int, list[str]] = {}
        for key in keys:
            by_task.setdefault(partition_of(key, self._settings.partitions), []).append(key)
        found = self.fetch([RowsAsked(processor, partition, name, some) for partition, some in by_task.items()])
        decode = _DECODERS[processor, name].decode
        return {key: decode(row) for each in found for key, row in each.rows}

    def status(self, url: str) -> DuplicateStatus | None:
        return self.statuses([url]).get(url)

    async def status_soon(self, url: str) -> DuplicateStatus | None:
        """On the event loop: one row is read in place, or asked for together with others."""
        held, partition = self.held(), partition_of(url, self._settings.partitions)
        asked = RowsAsked("pages", partition, "pages", [url])
        if held.holds("pages", partition):
            found = read_rows(held, asked)
        else:
            address = self.other(held.address("pages", partition), "pages", partition)
            found = await self._peers.rows_soon(address, asked)
        if not found.rows:
            return None
        return self.status_of(url, _DECODERS["pages", "pages"].decode(found.rows[0][1]))

    def statuses(self, urls: Iterable[str]) -> dict[str, DuplicateStatus]:
        rows: dict[str, PageRow] = self.rows("pages", "pages", urls)
        return {url: found for url, row in rows.items() if (found := self.status_of(url, row)) is not None}

    def status_of(self, url: str, row: PageRow) -> DuplicateStatus | None:
        """The status of a page, a function of its row; None before it is compared for the first time, and while
        changed content is being compared."""
        seen = None if row.unsaid else view(url, row, self._markets, REDIRECT_HOPS_MAX)
        return None if seen is None else status(row, seen)

    def all_statuses(self, prefix: str = "") -> Iterator[DuplicateStatus]:
        """Of all URLs with a prefix, by URL: some of every task at a time."""
        decode = _DECODERS["pages", "pages"].decode
        partitions, after, is_done = range(self._settings.partitions), "", False
        while not is_done:
            found = self.fetch(
                [RowsAsked("pages", partition, "pages", None, prefix, after, URLS_AT_ONCE) for partition in partitions]
            )
            ends = [each.rows[-1][0].encode() for each in found if each.is_cut]
            is_done, end = not ends, min(ends, default=b"")
            rows = sorted((url.encode(), row) for each in found for url, row in each.rows)
            for key, row in rows:
                if is_done or key <= end:
                    seen = self.status_of(key.decode(), decode(row))
                    if seen is not None:
                        yield seen
            after = end.decode()

    def urls(self, prefix: str) -> Iterator[str]:
        return (each.url for each in self.all_statuses(prefix))

    def dead_letters(self, host: str) -> Iterator[DeadLetter]:
        return iter(())

    def counts(self) -> Counts:
        return Counts()

    def inputs(self) -> dict[str, InputProgress]:
        return {}


class GatheredRows:
    """One table of a task that another worker has, or will have when it is asked."""

    def __init__(self, state: GatheredState, processor: str, partition: int, name: str) -> None:
        self._state = state
        self._place = processor, partition, name
        self._decode = _DECODERS[processor, name].decode

    def get(self, key: str) -> Any:
        found = self._state.fetch([RowsAsked(*self._place, [key])])[0].rows
        return self._decode(found[0][1]) if found else None

    def scan(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        return ((key, self._decode(row)) for key, row in self._read(prefix, FIRST_ROWS, (), is_names=False))

    def names(self, prefix: str = "") -> Iterator[str]:
        return (key for key, _ in self._read(prefix, FIRST_ROWS, (), is_names=True))

    def containing_any(self, texts: Collection[str]) -> Iterator[tuple[str, Any]]:
        """The worker that has the rows searches them."""
        return ((key, self._decode(row)) for key, row in self._read("", CONTAINING_FIRST, texts, is_names=False))

    def _read(
        self, prefix: str, first: int, containing: Collection[str], *, is_names: bool
    ) -> Iterator[tuple[str, bytes]]:
        after, limit = "", first
        while True:
            asked = RowsAsked(*self._place, None, prefix, after, limit, list(containing), is_names)
            found = self._state.fetch([asked])[0]
            yield from found.rows
            if not found.is_cut:
                return
            after, limit = found.rows[-1][0], min(4 * limit, ROWS_MAX)
