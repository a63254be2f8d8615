"""A network that is as unfair as it may be: every link keeps its order, and lags by its own amount; tasks die between
steps."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import numpy as np
from model_world import SHARE, THRESHOLD, Contents, Event, History, site_of
from numpy.typing import NDArray

from dustream.core.containment.processor import TABLES as CONTAINMENT_TABLES
from dustream.core.containment.processor import ContainmentProcessor
from dustream.core.groups.processor import TABLES as GROUPS_TABLES
from dustream.core.groups.processor import GroupsProcessor
from dustream.core.pages.processor import TABLES as PAGES_TABLES
from dustream.core.pages.processor import PagesProcessor
from dustream.core.pages.publisher import PagesLimits
from dustream.core.processor import Processor, Resting, Send
from dustream.core.sites.processor import TABLES as SITES_TABLES
from dustream.core.sites.processor import SitesProcessor
from dustream.core.tier2.containers import ContainmentRules
from dustream.core.tier2.processor import TABLES as TIER2_TABLES
from dustream.core.tier2.processor import Tier2Processor
from dustream.core.tier2.search_protocol import BruteForceSearch, Query, Search, ShinglesOf
from dustream.core.topology import partition_of
from dustream.core.winners import Markets
from dustream.schemas.alarms import Alarm
from dustream.schemas.cluster import ClusterMember
from dustream.schemas.containment import ContainmentMessage
from dustream.schemas.groups import GroupsMessage
from dustream.schemas.pages import Crawl, PagesMessage
from dustream.schemas.sites import SitesMessage
from dustream.schemas.status import DuplicateStatus
from dustream.schemas.tier2 import Tier2Message

TABLES = {
    "pages": PAGES_TABLES,
    "tier2": TIER2_TABLES,
    "groups": GROUPS_TABLES,
    "sites": SITES_TABLES,
    "containment": CONTAINMENT_TABLES,
}
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = {
    "pages": msgspec.msgpack.Decoder(PagesMessage).decode,
    "tier2": msgspec.msgpack.Decoder(Tier2Message).decode,
    "groups": msgspec.msgpack.Decoder(GroupsMessage).decode,
    "sites": msgspec.msgpack.Decoder(SitesMessage).decode,
    "containment": msgspec.msgpack.Decoder(ContainmentMessage).decode,
}
_ROW_DECODE = {
    (name, table): msgspec.msgpack.Decoder(row).decode for name, rows in TABLES.items() for table, row in rows.items()
}


class ByteTable:
    """Rows as bytes, so that nobody shares a value with the store."""

    def __init__(self, decode: Callable[[bytes], Any]) -> None:
        self._decode = decode
        self._rows: dict[str, bytes] = {}
        self._keys: list[str] = []

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: str) -> Any:
        data = self._rows.get(key)
        return None if data is None else self._decode(data)

    def put(self, key: str, row: Any) -> None:
        if key not in self._rows:
            insort(self._keys, key)
        self._rows[key] = _ENCODE(row)

    def delete(self, key: str) -> None:
        if self._rows.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def scan(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, Any]]:
        found = []
        start = bisect_right(self._keys, after) if after > prefix else bisect_left(self._keys, prefix)
        for at in range(start, len(self._keys)):
            key = self._keys[at]
            if not key.startswith(prefix):
                break
            found.append((key, self._rows[key]))
        for key, data in found:
            yield key, self._decode(data)


class Task:
    """A processor on one partition, its tables, its input log, and what it has sent but the links still hold."""

    def __init__(self, name: str, partition: int, make: Callable[[], Processor]) -> None:
        self.name = name
        self.partition = partition
        self.tables = {table: ByteTable(_ROW_DECODE[name, table]) for table in TABLES[name]}
        self.log: deque[bytes] = deque()
        self.links: dict[tuple[str, int], deque[bytes]] = {}
        self._make = make
        self.restart()

    def table(self, name: str) -> ByteTable:
        return self.tables[name]

    def restart(self) -> None:
        self.processor = self._make()
        self.processor.open(self)


class KnownSimilarities(BruteForceSearch):
    """Search by the world's table of similarities."""

    def __init__(self, contents: Contents, shingles_of: ShinglesOf) -> None:
        super().__init__(THRESHOLD, shingles_of)
        self._similar = contents.similar

    def candidates(self, query: Query) -> NDArray[np.int64]:
        similar = self._similar[_content(query.signature.content_hash)]
        found = [number for number, other in self._hashes.items() if similar[_content(other)] > 0.5]
        return np.array(sorted(found), dtype=np.int64)

    def similarities(self, query: Query, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        similar = self._similar[_content(query.signature.content_hash)]
        return np.array([similar[_content(self._hashes[number])] for number in numbers.tolist()], dtype=np.float64)


def _content(content_hash: bytes) -> int:
    return int.from_bytes(content_hash, "big")


class Network:
    """All tasks of a history, run to rest in a random order."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._rng = random.Random(history.seed + 1)
        self.markets = Markets(history.markets)
        self.tasks = {
            (name, partition): Task(name, partition, self._maker(name))
            for name, count in history.partitions.items()
            for partition in range(count)
        }
        self.statuses: dict[str, DuplicateStatus] = {}
        self.alarms: dict[str | int, Alarm] = {}
        self.told: dict[str, ClusterMember] = {}
        self._said: dict[tuple[str, tuple[int, int]], DuplicateStatus] = {}
        self.messages: Counter[str] = Counter()
        self.crashes = 0
        self._slow: dict[tuple[Any, Any], bool] = {}
        self._lagging = self._rng.random() < 0.8

    def _maker(self, name: str) -> Callable[[], Processor]:
        history, limits = self.history, self.history.limits
        if name == "pages":
            return lambda: PagesProcessor(
                history.partition_map,
                self.markets,
                site_of,
                small_changes=history.small_changes,
                limits=PagesLimits(
                    redirect_hops_max=limits.redirect_hops,
                    followers_notified_max=limits.followers_told,
                    unparked_max=limits.followers_told,
                    former_max=len(history.contents),
                    site_pages_updated_max=limits.site_pages_told,
                ),
            )
        if name == "sites":
            return lambda: SitesProcessor(
                history.partitions["pages"], share_max=limits.site_share, pages_min=limits.site_pages
            )
        if name == "containment":
            return lambda: ContainmentProcessor(term_cap=limits.term_cap, code_cap=limits.code_cap)
        if name == "tier2":
            order, shards = history.container_order, history.partitions["containment"]
            rules = ContainmentRules(shards, SHARE, order, shingles_min=1, waiting_max=limits.waiting)
            make = partial(Tier2Processor, self.markets, self._make_search, containment=rules)
            return lambda: make(work_max=limits.stars_work)
        return lambda: GroupsProcessor(
            group_size_max=limits.group_size, work_max=limits.groups_work, transfer_rows_max=limits.transfer_rows
        )

    def _make_search(self, shingles_of: ShinglesOf) -> Search:
        if self.history.real_index:
            from dustream.core.tier2.crowded_index import CrowdedIndex

            return CrowdedIndex(THRESHOLD, shingles_of, shingle_cache_bytes_max=1 << 16)
        return KnownSimilarities(self.history.contents, shingles_of)

    # Running

    def run(self) -> int:
        """Feed all events and come to rest; the number of messages handled."""
        rng = self._rng
        events = deque(self.history.events)
        bias, burst = rng.choice((1, 1, 2, 4)), rng.choice((1, 1, 3, 10))
        feed, crash = rng.choice((0.02, 0.1, 0.5, 0.95)), rng.choice((0.002, 0.01, 0.03))
        rest = (0.0, 0.01, 0.2)[self.history.seed % 3]
        order = list(self.tasks.values())
        rng.shuffle(order)
        handled, limit = 0, 4_000 * len(events) + 20_000
        while True:
            ready = [task for task in order if task.log] or [task for task in order if task.links]
            if events and (not ready or rng.random() < feed):
                self._feed(events.popleft())
            elif not ready:
                if not self._rest(order):
                    return handled
            else:
                task = ready[int(len(ready) * rng.random() ** bias)]
                handled += self._step(task, rng.randint(1, burst))
                if rng.random() < rest:
                    self._rest([task])
                if rng.random() < crash:
                    self.crashes += 1
                    task.restart()
            assert handled < limit, f"no rest after {handled} messages"

    def _rest(self, tasks: list[Task]) -> bool:
        """Let tasks do what could wait; whether any of them had something to say."""
        spoke = False
        for task in tasks:
            if isinstance(task.processor, Resting):
                sends = task.processor.at_rest(task)
                for send in sends:
                    self._send(task, send)
                spoke = spoke or bool(sends)
        return spoke

    def _feed(self, event: Event) -> None:
        if isinstance(event, Crawl) and event.kind == "content":
            number = int(event.via)
            event = msgspec.structs.replace(event, signature=self.history.contents.signatures[number], via="http")
        partition = partition_of(event.url, self.history.partitions["pages"])
        self.tasks["pages", partition].log.append(_ENCODE(event))

    def _step(self, task: Task, count: int) -> int:
        batch = [task.log.popleft() for _ in range(min(count, len(task.log)))]
        if batch:
            messages = [_DECODE[task.name](data) for data in batch]
            for message in messages:
                self.messages[f"{task.name} {type(message).__name__}"] += 1
            for send in task.processor.process(task, messages):
                self._send(task, send)
        self._flush(task)
        return len(batch)

    def _send(self, task: Task, send: Send) -> None:
        if send.topic == "duplicate.status":
            self._note_status(send)
        elif send.topic in TABLES:
            partition = partition_of(send.key, self.history.partitions[send.topic])
            task.links.setdefault((send.topic, partition), deque()).append(_ENCODE(send.message))
        elif send.topic == "alarms":
            self.alarms[send.key] = send.message
        else:
            assert send.topic == "cluster.updates" and send.key == send.message.site
            self.told |= {member.url: member for member in send.message.members}

    def _note_status(self, send: Send) -> None:
        status: DuplicateStatus = send.message
        assert send.key == status.url
        assert self._said.setdefault((status.url, status.version), status) == status, "two statuses of one version"
        if status.role == "duplicate":
            least = {"contained": SHARE, "decided": 0.0}.get(str(status.relation), THRESHOLD)
            assert status.similarity is not None and status.similarity >= least, "a duplicate that is not verified"
        known = self.statuses.get(status.url)
        assert known is None or status.version > known.version, "a status that cannot win"
        self.statuses[status.url] = status

    def _flush(self, task: Task) -> None:
        """Links keep their order; each lets through as much as it likes, a slow one rarely anything."""
        rng = self._rng
        for link in list(task.links):
            waiting = task.links[link]
            if self._lagging:
                slow = self._slow.setdefault(((task.name, task.partition), link), rng.random() < 0.3)
                if rng.random() > (0.05 if slow else 0.7):
                    continue
            while waiting and (not self._lagging or rng.random() < 0.9):
                self.tasks[link].log.append(waiting.popleft())
            if not waiting:
                del task.links[link]
