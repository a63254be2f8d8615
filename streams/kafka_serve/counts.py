"""The digest of all workers: each counts the statuses of the URLs that it holds, and the counts are added together."""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import Lock

import msgspec
from msgspec import Struct

from dustream.core.errors import Unavailable
from dustream.core.pages.rows import HomeRow, PageRow, imbalance
from dustream.core.pages.status import holds_group
from dustream.streams.engine.alarms import AlarmLine
from dustream.streams.engine.results import Tier2Load
from dustream.streams.engine.sizes import SizeTally
from dustream.streams.kafka_serve.gathered_state import GatheredState
from dustream.streams.kafka_serve.peers import COUNTS, Peers, decoded
from dustream.streams.kafka_serve.standings import Standings
from dustream.streams.serve.digest import CountedStatus, Counting, Digest, digest_of
from dustream.streams.serve.lookups import DIGEST_INTERVAL_S, DIGEST_SHARE_MAX
from dustream.streams.serve.source import LookupSource, Seen


class WorkerCounts(Struct, kw_only=True):
    """The counts of the URLs of some tasks, and the names of what is held. `position`: input that they include;
    `settled`: with all that follows from it."""

    version: str
    position: list[int]
    settled: bool
    partitions: list[int]
    counting: Counting
    held_groups: list[str]
    held_sites: list[str]
    homes: list[int]
    remapped: int
    sizes: SizeTally


_DECODER = msgspec.msgpack.Decoder(WorkerCounts)
_ENCODER = msgspec.msgpack.Encoder()


class OwnCounts:
    """The counts of this worker, kept until they are old enough to be counted again."""

    def __init__(self, state: GatheredState, standing: Standings) -> None:
        self._state = state
        self._standing = standing
        self._counting = Lock()
        self._kept: WorkerCounts | None = None
        self._encoded = b""
        self._counted_at_s = 0.0
        self._took_s = 0.0

    def current(self) -> WorkerCounts:
        """Takes as long as reading all statuses, if they are to be counted."""
        with self._counting:
            wait_s = max(DIGEST_INTERVAL_S, self._took_s / DIGEST_SHARE_MAX)
            seen, places = self._standing.seen, self._places()
            version = msgspec.json.encode((seen.position, seen.settled, places)).decode()
            kept = self._kept
            is_same_tasks = kept is not None and kept.partitions == [partition for partition, _ in places]
            is_fresh = time.monotonic() - self._counted_at_s < wait_s
            if kept is None or (kept.version != version and not (is_same_tasks and is_fresh)):
                started = time.monotonic()
                kept = self._kept = self._count(version, seen, [partition for partition, _ in places])
                self._encoded = _ENCODER.encode(kept)
                self._counted_at_s = time.monotonic()
                self._took_s = self._counted_at_s - started
            return kept

    def answer(self, known: bytes) -> bytes:
        """For another worker; empty if it knows this version."""
        return b"" if self.current().version == known.decode() else self._encoded

    def _places(self) -> list[tuple[int, list[int]]]:
        """The partitions held here, with the positions of the copies that are counted."""
        held, partitions = self._state.held(), range(self._state.settings.partitions)
        progress, _ = held.progress()
        names = ("pages", "sites")
        found = {(name, at): each.copied for (name, at), each in progress.items() if name in names}
        return [(at, [found.get((name, at), -1) for name in names]) for at in partitions if ("pages", at) in found]

    def _count(self, version: str, seen: Seen, partitions: Iterable[int]) -> WorkerCounts:
        if not isinstance(seen.position, list) or not seen.position:
            raise Unavailable("this worker has not asked the others yet how far they are")
        state, held = self._state, self._state.held()
        counts = WorkerCounts(
            version=version,
            position=seen.position,
            settled=seen.settled,
            partitions=list(partitions),
            counting=Counting(),
            held_groups=[],
            held_sites=[],
            homes=[0] * state.settings.partitions,
            remapped=0,
            sizes=SizeTally(),
        )
        for partition in counts.partitions:
            for url, row in state.table("pages", partition, "pages").scan():
                _add_page(counts, state, url, row)
            for home, row in state.table("pages", partition, "homes").scan():
                _add_home(counts, int(home), row)
        for partition in range(state.settings.partitions):
            if held.holds("sites", partition):
                rows = state.table("sites", partition, "sites").scan()
                counts.held_sites += [site for site, row in rows if row.held]
        return counts


def _add_page(counts: WorkerCounts, state: GatheredState, url: str, row: PageRow) -> None:
    found = state.status_of(url, row)
    if found is None:
        return
    fields = (found.url, found.role, found.group, found.winner, found.relation, found.similarity, found.since)
    counts.counting.add(CountedStatus(*fields))
    counts.sizes.add(url, row)
    if holds_group(url, row):
        counts.held_groups.append(url)


def _add_home(counts: WorkerCounts, home: int, row: HomeRow) -> None:
    counts.homes[home] += row.pages
    counts.remapped += row.remapped


class AllCounts:
    """The counts of all workers. Those that have not changed are not sent again."""

    def __init__(self, own: OwnCounts, state: GatheredState, peers: Peers, address: str) -> None:
        self._own = own
        self._state = state
        self._peers = peers
        self._address = address
        self._known: dict[str, WorkerCounts] = {}
        self.load: Tier2Load | None = None
        self.sizes = SizeTally()

    def digest(self, source: LookupSource) -> Digest:
        """Of everything; Unavailable unless every task is counted once."""
        parts = [self._own.current(), *self._others()]
        partitions = sorted(partition for each in parts for partition in each.partitions)
        if partitions != list(range(self._state.settings.partitions)):
            raise Unavailable("tasks are moving: not all pages can be counted")
        whole, sizes = Counting(), SizeTally()
        for each in parts:
            whole.include(each.counting)
            sizes.include(each.sizes)
        self.sizes = sizes
        pages = [sum(counts) for counts in zip(*(each.homes for each in parts), strict=True)]
        self.load = Tier2Load(pages, imbalance(pages), sum(each.remapped for each in parts))
        position = [min(offsets) for offsets in zip(*(each.position for each in parts), strict=True)]
        settled = all(each.settled and each.position == position for each in parts)
        seen = Seen(position, settled, position)
        return digest_of(source, seen, whole, _alarms(whole, parts))

    def _others(self) -> list[WorkerCounts]:
        addresses = sorted(set(self._state.held().addresses().values()) - {self._address})
        known = self._known
        bodies = {each: known[each].version.encode() if each in known else b"" for each in addresses}
        answers = self._peers.ask(COUNTS, bodies)
        self._known = {each: decoded(_DECODER, data) if data else known[each] for each, data in answers.items()}
        return [self._known[each] for each in addresses]


def _alarms(whole: Counting, parts: Iterable[WorkerCounts]) -> list[AlarmLine]:
    """What is held, the most pages first."""
    lines = []
    for part in parts:
        for group in part.held_groups:
            tally = whole.groups[group]
            lines.append(AlarmLine("group_held", group, tally.pages, tally.held))
        for site in part.held_sites:
            pages, _, lost, held = whole.sites.get(site, [0] * 4)
            lines.append(AlarmLine("site_held", site, pages, held, lost))
    return sorted(lines, key=lambda line: (-line.held, line.name))
