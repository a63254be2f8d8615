"""What Faust's consumer says about what it has read, on a real broker."""

from __future__ import annotations

import asyncio

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.faust_consumer import CommittedConsumer, handed_out, install

RECORDS = 3


def test_markers_at_the_end_of_a_log_are_known_to_be_no_records(cluster: KafkaCluster) -> None:
    topic = "markers"
    admin = AdminClient(cluster.confluent())
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    _write_transaction(cluster, topic, commit=True)
    _write_transaction(cluster, topic, commit=False)
    read_to, last_end = asyncio.run(_read(cluster, topic))
    assert last_end == RECORDS
    assert read_to == 2 * (RECORDS + 1)  # both transactions and their markers


def _write_transaction(cluster: KafkaCluster, topic: str, *, commit: bool) -> None:
    producer = Producer(cluster.confluent(transactional_id=f"{topic}-{commit}"))
    producer.init_transactions()
    producer.begin_transaction()
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode())
    producer.flush()
    producer.commit_transaction() if commit else producer.abort_transaction()


async def _read(cluster: KafkaCluster, topic: str) -> tuple[int, int]:
    install()
    consumer = CommittedConsumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        [partition] = consumer.assignment()
        assert handed_out(consumer, partition) is None
        found = 0
        async with asyncio.timeout(60):
            while (known := handed_out(consumer, partition)) is None or known[0] < consumer.highwater(partition):
                found += sum(map(len, (await consumer.getmany(timeout_ms=100)).values()))
        assert found == RECORDS
        return known
    finally:
        await consumer.stop()
