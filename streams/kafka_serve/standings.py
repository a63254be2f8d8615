"""How far all workers are: the position in each partition of the input, and whether all that follows is included.

Every task counts the batches that it sent to each other task and received from each (streams/kafka/progress.py). The
counts of one worker are read as of one moment. If over all workers as many were received as sent on every link, and no
task has postponed work, nothing was under way between the moments at which they were read: what follows from the input
up to those positions is included in every answer that is read later. Positions do not fall when a task moves: its next
worker opens it with everything that was committed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from dustream.core.topology import Topology
from dustream.streams.kafka.assembly import INTAKE
from dustream.streams.kafka.health import Health
from dustream.streams.kafka.held import HeldTasks, TaskPlace
from dustream.streams.kafka_serve.gathered_state import GatheredState
from dustream.streams.kafka_serve.peers import TASKS, Peers, decoded
from dustream.streams.serve.source import Seen, WorkerFacts, WorkersNow

RATE_OVER_S = 10.0


class TaskStanding(Struct, frozen=True, array_like=True):
    """A task's place, its progress, and the position of its local copy in its changelog."""

    processor: str
    partition: int
    position: int
    copied: int
    sent: dict[str, int]
    received: dict[str, int]


class WorkerStanding(Struct, frozen=True, array_like=True):
    """How far one worker is."""

    tasks: list[TaskStanding]
    is_rested: bool
    facts: WorkerFacts


_DECODER = msgspec.msgpack.Decoder(WorkerStanding)
_ENCODER = msgspec.msgpack.Encoder()


def own_standing(health: Health, held: HeldTasks, address: str) -> WorkerStanding:
    found, is_rested = held.progress()
    tasks = [
        TaskStanding(*place, each.progress.position, each.copied, each.progress.sent, each.progress.received)
        for place, each in found.items()
    ]
    assigned, opened = held.opening()
    total = held.metrics.total
    lag = total("lag", processor=INTAKE)
    facts = WorkerFacts(
        address=address,
        stage="ready" if health.is_ready() else health.stage,
        tasks=assigned,
        tasks_open=opened,
        rows_recovered=int(total("recovered_rows") or 0),
        taken=int(total("pages_taken") or 0),
        lag=None if lag is None else int(lag),
        lag_s=held.metrics.highest("lag_seconds"),
    )
    return WorkerStanding(tasks, is_rested, facts)


def encode_standing(standing: WorkerStanding) -> bytes:
    return _ENCODER.encode(standing)


class Standings:
    """What the last polls found."""

    def __init__(self, health: Health, state: GatheredState, peers: Peers, address: str) -> None:
        self._health = health
        self._state = state
        self._peers = peers
        self._address = address
        self._rates: list[tuple[float, dict[str, int]]] = []
        self.seen = Seen([], False, [])
        self.copied: dict[TaskPlace, int] = {}
        """By task, the position of its copy in the changelog: rows change only together with it."""
        self.now = WorkersNow(workers=[], silent=[], tasks_missing=0, pages_per_second=None)

    def poll(self) -> None:
        """Ask all workers how far they are."""
        held = self._state.held()
        others = sorted(set(held.addresses().values()) - {self._address})
        standings = [own_standing(self._health, held, self._address)]
        answers = self._peers.ask_some(TASKS, dict.fromkeys(others, b""))
        standings += [decoded(_DECODER, answer) for answer in answers.values()]
        self._note(held.topology, standings)
        facts = [each.facts for each in standings]
        expected = sum(spec.partitions for spec in held.topology.processors)
        self.now = WorkersNow(
            workers=sorted(facts, key=lambda each: each.address),
            silent=sorted(set(others) - set(answers)),
            tasks_missing=expected - len(self.copied),
            pages_per_second=self._rate(facts),
        )

    def _note(self, topology: Topology, standings: list[WorkerStanding]) -> None:
        tasks = {(task.processor, task.partition): task for each in standings for task in each.tasks}
        self.copied = {place: task.copied for place, task in tasks.items()}
        before = self.seen
        position = [0] * topology.processor(INTAKE).partitions
        for partition in range(len(position)):
            task = tasks.get((INTAKE, partition))
            known = before.position[partition] if isinstance(before.position, list) and before.position else 0
            position[partition] = known if task is None else max(known, task.position)
        is_complete = len(tasks) == sum(spec.partitions for spec in topology.processors)
        settled = is_complete and all(each.is_rested for each in standings) and are_links_empty(topology, tasks)
        self.seen = Seen(position, settled, position if settled else before.settled_position or [0] * len(position))

    def _rate(self, facts: list[WorkerFacts]) -> float | None:
        """Pages taken a second, of the workers that answered both times."""
        now_s, taken = time.monotonic(), {each.address: each.taken for each in facts}
        self._rates = [each for each in self._rates if now_s - each[0] <= RATE_OVER_S]
        self._rates.append((now_s, taken))
        since_s, before = self._rates[0]
        if now_s - since_s < 1.0:
            return self.now.pages_per_second
        return sum(max(0, taken[name] - before[name]) for name in taken.keys() & before.keys()) / (now_s - since_s)


def are_links_empty(topology: Topology, tasks: Mapping[TaskPlace, TaskStanding]) -> bool:
    """Whether every task has received what the others have sent to it."""
    sent: dict[tuple[str, str], int] = {}
    received: dict[tuple[str, str], int] = {}
    for (processor, partition), task in tasks.items():
        name, log = f"{processor}-{partition}", f"{topology.processor(processor).input}-{partition}"
        sent |= {(name, to): count for to, count in task.sent.items() if count}
        received |= {(sender, log): count for sender, count in task.received.items() if count}
    return sent == received
