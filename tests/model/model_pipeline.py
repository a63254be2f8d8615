"""Pages, tier 2 and groups on the embedded engine, for tests that tell a story with a few pages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
import numpy as np
from model_world import THRESHOLD, AskEverybody

from dustream.core.groups.processor import TABLES as GROUPS_TABLES
from dustream.core.groups.processor import GroupsProcessor
from dustream.core.pages.processor import TABLES as PAGES_TABLES
from dustream.core.pages.processor import PagesProcessor
from dustream.core.processor import Send
from dustream.core.sites.processor import TABLES as SITES_TABLES
from dustream.core.sites.processor import SitesProcessor
from dustream.core.tier2.processor import TABLES as TIER2_TABLES
from dustream.core.tier2.processor import Tier2Processor
from dustream.core.tier2.search_protocol import BruteForceSearch
from dustream.core.topology import ProcessorSpec, TableSpec, Topic, Topology
from dustream.core.urls.sites import site_of
from dustream.core.winners import Market, Markets
from dustream.schemas.alarms import Alarm
from dustream.schemas.cluster import ClusterUpdate
from dustream.schemas.groups import GroupsMessage
from dustream.schemas.pages import Crawl, PagesMessage
from dustream.schemas.signature import SIGNATURE_VERSION, PageSignature
from dustream.schemas.sites import SitesMessage
from dustream.schemas.status import DuplicateStatus
from dustream.schemas.tier2 import Tier2Message
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.state_rows import view_prefix
from dustream.streams.store.base import Store
from dustream.streams.store.memory import MemoryStore

PARTITIONS = 2


def signature(elements: Iterable[int]) -> PageSignature:
    """The signature of a page whose shingles are these."""
    shingles = np.array(sorted(set(elements)), dtype="<u8").tobytes()
    content_hash = msgspec.msgpack.encode(sorted(set(elements)))
    return PageSignature(SIGNATURE_VERSION, _digest(content_hash), shingles, b"", (), 0, "en")


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def page(url: str, version: int, elements: Iterable[int], popularity: float | None = None) -> Crawl:
    return Crawl(url, version, "content", signature(elements), popularity=popularity)


def redirect(url: str, version: int, target: str, via: str = "http") -> Crawl:
    return Crawl(url, version, "redirect", target=target, via=via)


def revisit(url: str, version: int, target: str) -> Crawl:
    return Crawl(url, version, "revisit", target=target)


def digest(crawl: Crawl, payload_digest: str) -> Crawl:
    return msgspec.structs.replace(crawl, digest=payload_digest)


def gone(url: str, version: int) -> Crawl:
    return Crawl(url, version, "gone")


class Pipeline:
    """Feed it, and read what it says."""

    def __init__(
        self,
        *,
        markets: tuple[Market, ...] = (Market(criteria=("popularity",)),),
        pages: dict[str, Any] | None = None,
        groups: dict[str, Any] | None = None,
        tier2: dict[str, Any] | None = None,
        sites: dict[str, Any] | None = None,
        store: Store | None = None,
        engine: dict[str, Any] | None = None,
    ) -> None:
        self.store = store or MemoryStore()
        self._markets = Markets(markets)
        self._options = {"pages": pages or {}, "groups": groups or {}, "tier2": tier2 or {}, "sites": sites or {}}
        self._engine = EmbeddedEngine(self._topology(), self.store, **(engine or {}))

    def _topology(self) -> Topology:
        internal = {"pages": PagesMessage, "tier2": Tier2Message, "groups": GroupsMessage, "sites": SitesMessage}
        topics = [Topic(name, "url", message) for name, message in internal.items()]
        topics.append(Topic("duplicate.status", "url", DuplicateStatus, public=True, compacted=True))
        topics.append(Topic("cluster.updates", "site", ClusterUpdate, public=True))
        topics.append(Topic("alarms", "group", Alarm, public=True))
        outputs = tuple(topic.name for topic in topics)
        tables = {"pages": PAGES_TABLES, "tier2": TIER2_TABLES, "groups": GROUPS_TABLES, "sites": SITES_TABLES}
        specs = tuple(
            ProcessorSpec(
                name,
                name,
                outputs,
                tuple(TableSpec(table, row) for table, row in rows.items()),
                PARTITIONS,
                lambda name=name: self._make(name),  # type: ignore[misc]
            )
            for name, rows in tables.items()
        )
        return Topology(tuple(topics), specs)

    def _make(self, name: str) -> Any:
        options = self._options[name]
        if name == "pages":
            return PagesProcessor(AskEverybody(PARTITIONS), self._markets, site_of, **options)
        if name == "tier2":
            return Tier2Processor(self._markets, partial(BruteForceSearch, THRESHOLD), **options)
        if name == "sites":
            return SitesProcessor(PARTITIONS, **options)
        return GroupsProcessor(**options)

    def feed(self, *events: Any) -> Pipeline:
        self._engine.run([Feed([Send("pages", event.url, event) for event in events])])
        return self

    def status(self, url: str) -> DuplicateStatus | None:
        return self.statuses().get(url)

    def statuses(self) -> dict[str, DuplicateStatus]:
        return {status.url: status for status in self._view("duplicate.status", DuplicateStatus)}

    def roles(self) -> dict[str, str]:
        return {url: status.role for url, status in self.statuses().items()}

    def alarms(self) -> list[Alarm]:
        return list(self._view("alarms", Alarm))

    def updates(self) -> list[ClusterUpdate]:
        return list(self._view("cluster.updates", ClusterUpdate))

    def _view(self, topic: str, kind: Any) -> list[Any]:
        return [msgspec.json.decode(data, type=kind) for _, data in self.store.scan(view_prefix(topic))]

    def counts(self) -> dict[str, int]:
        """How many events went which way."""
        found: dict[str, int] = {}
        for partition in range(PARTITIONS):
            prefix = f"task/pages/{partition:05d}/counts/".encode()
            for key, data in self.store.scan(prefix):
                name = key[len(prefix) :].decode()
                found[name] = found.get(name, 0) + msgspec.msgpack.decode(data)[0]
        return found
