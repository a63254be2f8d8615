"""What a worker's lookup service answers from: the state of all workers, gathered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from dustream.core.settings import Settings
from dustream.schemas.dead_letter import DeadLetter
from dustream.schemas.lookup import InputStatus
from dustream.schemas.rules import RuleSet
from dustream.schemas.status import DuplicateStatus
from dustream.streams.engine.alarms import AlarmLine
from dustream.streams.engine.results import Tier2Load
from dustream.streams.kafka.application import CRAWL_PAGES, Application
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.health import Health
from dustream.streams.kafka.maps import read_map
from dustream.streams.kafka_serve.counts import AllCounts, OwnCounts
from dustream.streams.kafka_serve.gathered_state import GatheredState
from dustream.streams.kafka_serve.letters import Letters
from dustream.streams.kafka_serve.peers import GROUPS, Peers, decoded
from dustream.streams.kafka_serve.standings import Standings
from dustream.streams.questions.group_list import (
    GroupAnswer,
    GroupCandidate,
    GroupRequest,
    best_candidates,
    best_of,
    describe_groups,
)
from dustream.streams.questions.page_sizes import PageSizes, cuts_of, sizes_of
from dustream.streams.serve.digest import Counting, Digest, digest_of
from dustream.streams.serve.source import LowerSample, Seen, WorkersNow
from dustream.streams.serve.state_source import StateSource

_RULES = msgspec.msgpack.Decoder(RuleSet)
_ENCODER = msgspec.msgpack.Encoder()


class BestGroupsAsked(msgspec.Struct, frozen=True):
    """The best groups of some tasks, as workers ask each other for them."""

    request: GroupRequest
    partitions: list[int]


_GROUPS_ASKED = msgspec.msgpack.Decoder(BestGroupsAsked)
_CANDIDATES = msgspec.msgpack.Decoder(list[GroupCandidate])


class WorkerState(GatheredState):
    """The gathered state, with the dead letters of the application."""

    def __init__(self, health: Health, settings: Settings, peers: Peers, address: str) -> None:
        super().__init__(health, settings, peers, address)
        self.letters = Letters()

    def dead_letters(self, host: str) -> Iterator[DeadLetter]:
        self.letters.catch_up(self.held())
        return self.letters.of_host(host)


class WorkerSource(StateSource):
    """A state that is spread over workers."""

    _state: WorkerState

    def __init__(
        self,
        health: Health,
        settings: Settings,
        peers: Peers,
        address: str,
        cluster: KafkaCluster,
        application: Application,
    ) -> None:
        self.path = Path(application.name)
        self._cluster = cluster
        self._application = application
        self._peers = peers
        self._address = address
        self._state = WorkerState(health, settings, peers, address)
        self.standing = Standings(health, self._state, peers, address)
        self.own_counts = OwnCounts(self._state, self.standing)
        self._counts = AllCounts(self.own_counts, self._state, peers, address)
        self._rules: dict[int, tuple[int, list[RuleSet]]] = {}
        self._cuts: list[int] | None = None

    @property
    def settings(self) -> Settings:
        return self._state.settings

    def seen(self) -> Seen:
        return self.standing.seen

    def catch_up(self) -> None:
        self.standing.poll()

    def close(self) -> None:
        self._state.letters.close()

    def digest(self) -> Digest:
        """Of all workers; an empty one before they were asked for the first time."""
        if not self.standing.seen.position:
            return digest_of(self, self.seen(), Counting(), [])
        self._state.letters.catch_up(self._state.held())
        return self._counts.digest(self)

    async def status_soon(self, url: str) -> DuplicateStatus | None:
        return await self._state.status_soon(url)

    def statuses(self, urls: Sequence[str]) -> dict[str, DuplicateStatus]:
        return self._state.statuses(urls)

    def status_rows(self) -> Iterator[bytes]:
        return map(msgspec.json.encode, self._state.all_statuses())

    def rule_sets(self) -> Iterator[RuleSet]:
        """Read again only from tasks whose rows have changed. Revisions are left out, as in a run's results."""
        copied = {at: end for (name, at), end in self.standing.copied.items() if name == "rules"}
        old = [at for at, end in copied.items() if at not in self._rules or self._rules[at][0] != end]
        for at in old:
            found = self._state.table("rules", at, "rule_sets").scan()
            self._rules[at] = copied[at], [replace(rules, version=1) for _, rules in found if rules.rules]
        known = list(self._rules.values())  # another thread may add to it
        return iter(sorted((each for _, some in known for each in some), key=lambda each: each.site))

    def groups(self, request: GroupRequest) -> list[GroupAnswer]:
        """Every worker chooses the best of its groups."""
        held, elsewhere = self._state.held(), dict[str, list[int]]()
        addresses, here = held.addresses(), []
        for partition in range(self.settings.partitions):
            if held.holds("groups", partition):
                here.append(partition)
            else:
                address = addresses.get(("groups", partition))
                elsewhere.setdefault(self._state.other(address, "groups", partition), []).append(partition)
        bodies = {address: _ENCODER.encode(BestGroupsAsked(request, some)) for address, some in elsewhere.items()}
        found = [decoded(_CANDIDATES, data) for data in self._peers.ask(GROUPS, bodies).values()]
        own = best_candidates(self._state, request, here)
        best = best_of(request, (each for some in (own, *found) for each in some))
        return describe_groups(self._state, request, best)

    def best_groups(self, body: bytes) -> bytes:
        """For another worker: the best groups of tasks held here."""
        asked = _GROUPS_ASKED.decode(body)
        for partition in asked.partitions:
            self._state.held().rows("groups", partition)
        return _ENCODER.encode(best_candidates(self._state, asked.request, asked.partitions))

    def evidence_here(self, body: bytes) -> bytes:
        return self._state.evidence_here(body)

    def alarms(self) -> list[AlarmLine]:
        return self.digest().alarms

    def rejected(self) -> int:
        return self._state.letters.count

    def tier2_load(self) -> Tier2Load | None:
        return self._counts.load

    def page_sizes(self) -> PageSizes:
        if self._cuts is None and self.standing.seen.position:
            self._cuts = cuts_of(read_map(self._cluster, self._application, self.settings))
        return sizes_of(self._counts.sizes, self._cuts or ())

    def workers(self) -> WorkersNow:
        return self.standing.now

    def last_run(self) -> None:
        return None

    def lower_sample(self) -> LowerSample | None:
        """None: reading all signatures would keep the worker from its work."""
        return None

    def inputs(self) -> list[InputStatus]:
        topic, position = self._application.topic(CRAWL_PAGES), self.seen().position
        offsets = position if isinstance(position, list) else [position]
        return [InputStatus(f"{topic}, partition {at}", offset, False) for at, offset in enumerate(offsets)]

    def breaker_options(self) -> list[str]:
        topic = self._application.input_topic
        chosen = [] if topic is None else ["--input-topic", topic]
        return ["--bootstrap", self._cluster.bootstrap, "--name", self._application.name, *chosen]
