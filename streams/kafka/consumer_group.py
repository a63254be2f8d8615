"""The worker's membership of its consumer group: Faust delivers records and assigns partitions.

Limitations of Faust 0.15.3, and how they are handled:

- It acks records that an agent did not handle, and commits them: here it commits nothing (acks off, no commit timer).
  The position in a task's state counts.
- Around a rebalance or a broker restart it fetches records and discards them: marks on the records reveal the hole
  (faust_consumer.py), and the task seeks to its position (hole_recovery.py).
- Records of an older generation may still arrive after a rebalance: they are dropped.
- A round in progress during a rebalance is committed before Faust joins the group again; later it would be rejected.
- Its web server binds all interfaces: it is off; health.py has the endpoints.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import faust
from aiokafka.errors import IllegalStateError
from faust.types import TP

from dustream.core.topology import ProcessorSpec
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.faust_consumer import handed_out, install
from dustream.streams.kafka.transactions import Membership
from dustream.streams.kafka.worker_options import WorkerOptions

log = logging.getLogger(__name__)

POLL_RECORDS_MAX = 500
BUFFER_RECORDS_MAX = 100  # per stage, buffered by Faust; records between stages are split at RECORD_BYTES
FETCH_BYTES_MAX = 1 << 20
HEARTBEAT_INTERVAL_S = 2.0
NEVER_S = 10.0**9


class ConsumerGroup:
    """One member of the consumer group. `connect` before `start`."""

    def __init__(
        self, cluster: KafkaCluster, application: Application, specs: Sequence[ProcessorSpec], options: WorkerOptions
    ) -> None:
        install()
        self._application = application
        self._specs = specs
        self._topics = {application.topic(spec.input) for spec in specs}
        self._session_timeout_s = options.session_timeout_s
        self._app = _app(cluster, application, options)

    def connect(
        self, deliver: Callable[[Any], Awaitable[None]], turn: asyncio.Lock, fail: Callable[[BaseException], None]
    ) -> None:
        """`deliver` gets every record. A rebalance waits for `turn`. `fail` gets the error that ends an agent."""

        async def agent(stream: Any) -> None:
            try:
                async for event in stream.noack().events():
                    await deliver(event.message)
            except asyncio.CancelledError:
                raise
            except BaseException as failure:
                log.exception("an agent failed")
                fail(failure)

        async def let_round_end(*args: Any, **kwargs: Any) -> None:
            """The group rebalances and waits for us a while: the current transaction can still be committed. No round
            starts meanwhile."""
            with suppress(TimeoutError):
                async with asyncio.timeout(self._session_timeout_s / 2), turn:
                    return

        for spec in self._specs:
            self._app.agent(self._topic(spec), name=spec.name)(agent)
        self._app.on_partitions_revoked.connect(let_round_end)

    async def start(self) -> None:
        await self._app.start()

    async def stop(self) -> None:
        await self._app.stop()

    @property
    def crash_reason(self) -> str | None:
        """The error that ended Faust; None while it runs."""
        return repr(self._app.crash_reason) if self._app.crashed else None

    @property
    def is_rebalancing(self) -> bool:
        return bool(self._app.rebalancing)

    @property
    def contact_at_s(self) -> float | None:
        """When the broker last answered; None before there is a consumer."""
        with suppress(AttributeError):
            return float(self._consumer().contact_at_s)
        return None

    def assignment(self) -> tuple[Membership | None, set[TP]]:
        """Our membership and the partitions assigned to it; None during a rebalance. Faust's consumer runs in another
        thread: the result is used only if nothing has changed meanwhile."""
        generation = self._app.consumer_generation_id
        if generation <= 0 or self._app.rebalancing:
            return None, set()
        member = str(self._coordinator().member_id)
        assigned = self.partitions()
        again = (self._app.consumer_generation_id, self._coordinator().generation)
        if not member or again != (generation, generation) or self._app.rebalancing:
            return None, set()
        ours = {tp for tp in assigned if tp.topic in self._topics}
        return Membership(self._application.group, generation, member), ours

    def addresses(self) -> dict[tuple[str, int], str]:
        """By topic and partition, the address of the worker that has it. The leader of the group tells every member
        with its assignment, so all know of one generation the same."""
        assignor: Any = self._app.assignor
        return {
            (topic, partition): address
            for address, topics in assignor.external_topic_distribution.items()
            if address.startswith("http")
            for topic, partitions in topics.items()
            for partition in partitions
        }

    def address(self, topic: str, partition: int) -> str | None:
        """The address of the worker that has one partition."""
        assignor: Any = self._app.assignor
        for address, topics in assignor.external_topic_distribution.items():
            if partition in topics.get(topic, ()) and address.startswith("http"):
                return str(address)
        return None

    def partitions(self) -> set[TP]:
        """The partitions that the consumer fetches now."""
        return {TP(tp.topic, tp.partition) for tp in self._app.consumer.assignment()}

    def end_of(self, tp: TP) -> int:
        """The end of a log, as of the last fetch."""
        return int(self._app.consumer.highwater(tp) or 0)

    def handled(self, tp: TP, position: int) -> int:
        """The offset up to which a task at `position` has nothing to do: transaction markers may follow it."""
        read_to, last_end = handed_out(self._consumer(), tp) or (0, 0)
        return max(position, read_to) if position >= last_end else position

    async def beginnings(self, tps: Iterable[TP]) -> dict[TP, int]:
        """Where these logs begin now."""
        return dict(await self._app.consumer.earliest_offsets(*tps))

    async def seek(self, tp: TP, position: int) -> None:
        """Fetch from this position on. It runs in the consumer's own thread: a seek during a fetch would be lost."""
        with suppress(IllegalStateError):  # a rebalance: the next owner starts with a seek
            await self._app.consumer.seek_wait({tp: position})

    def _topic(self, spec: ProcessorSpec) -> Any:
        return self._app.topic(
            self._application.topic(spec.input),
            key_type=bytes,
            value_type=bytes,
            key_serializer="raw",
            value_serializer="raw",
            partitions=spec.partitions,
            acks=False,
        )

    def _consumer(self) -> Any:
        """The aiokafka consumer inside Faust's."""
        consumer: Any = self._app.consumer
        return consumer._thread._consumer

    def _coordinator(self) -> Any:
        return self._consumer()._coordinator


def _app(cluster: KafkaCluster, application: Application, options: WorkerOptions) -> faust.App:
    return faust.App(
        application.group,
        broker=[f"kafka://{server}" for server in cluster.bootstrap.split(",")],
        broker_credentials=_credentials(cluster),
        broker_session_timeout=options.session_timeout_s,
        broker_heartbeat_interval=min(HEARTBEAT_INTERVAL_S, options.session_timeout_s / 3),
        broker_commit_interval=NEVER_S,
        broker_commit_every=10**12,
        broker_max_poll_records=POLL_RECORDS_MAX,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=FETCH_BYTES_MAX,
        stream_buffer_maxsize=BUFFER_RECORDS_MAX,
        stream_wait_empty=False,
        store="memory://",
        datadir=str(options.data / "faust"),
        version=1,
        autodiscover=False,
        web_enabled=False,
        canonical_url=options.address or f"none://{uuid.uuid4().hex}",  # members with one address would become one
        topic_disable_leader=True,
        topic_allow_declare=False,
    )


def _credentials(cluster: KafkaCluster) -> Any:
    if cluster.uses_sasl:
        return faust.SASLCredentials(
            username=cluster.username,
            password=cluster.password,
            mechanism=cluster.mechanism,
            ssl_context=cluster.ssl_context(),
        )
    return faust.SSLCredentials(cluster.ssl_context()) if cluster.uses_tls else None
