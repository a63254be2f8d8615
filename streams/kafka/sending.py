"""Sends records and checks that they arrived: a client's `flush` alone counts records that the broker rejected as
done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaException, Producer

from dustream.core.errors import BadInput
from dustream.streams.kafka.cluster import KafkaCluster, Unreachable
from dustream.streams.kafka.topics import RECORD_BYTES_MAX

FLUSH_TIMEOUT_S = 120.0  # for the broker's confirmation
QUEUE_BYTES_MAX = 64 << 20
QUEUE_WAIT_S = 0.1
ANY_PARTITION = -1
NOW = 0


class Sender:
    """An idempotent producer. `refused`: the advice for a record that a broker rejects or does not confirm."""

    def __init__(self, cluster: KafkaCluster, refused: str, **settings: Any) -> None:
        self._refused = refused
        self._failure: str | None = None
        self._producer = Producer(
            cluster.confluent(
                enable_idempotence=True,
                queue_buffering_max_kbytes=QUEUE_BYTES_MAX >> 10,
                message_max_bytes=RECORD_BYTES_MAX,
                **settings,
            )
        )

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int = ANY_PARTITION,
        headers: Sequence[tuple[str, bytes]] = (),
        time_ms: int = NOW,
    ) -> None:
        """Send a record; it is confirmed after the next `flush`."""
        while True:
            try:
                self._producer.produce(
                    topic, value, key, partition, on_delivery=self._delivered, timestamp=time_ms, headers=list(headers)
                )
                break
            except BufferError:
                self._producer.poll(QUEUE_WAIT_S)
            except KafkaException as error:
                size = len(value or b"")
                raise BadInput(f"a record of {size} bytes cannot be sent: {error.args[0].str()}") from None
        self._producer.poll(0)

    def flush(self) -> None:
        """Return when the broker has confirmed everything."""
        left = self._producer.flush(FLUSH_TIMEOUT_S)
        if self._failure is not None:
            raise BadInput(f"the broker refused a record ({self._failure}): {self._refused}")
        if left:
            raise Unreachable(f"{left} records were not confirmed within {FLUSH_TIMEOUT_S:.0f} s: {self._refused}")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failure = error.str()
