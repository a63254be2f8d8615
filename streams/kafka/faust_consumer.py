"""Faust's consumer, made to say what it skipped.

Faust reads uncommitted records unless its own exactly_once is on, and around a rebalance or a broker restart it fetches
records and throws them away. So its aiokafka consumer is replaced by one that reads committed records only, and every
record is marked with the offset *since* which there is no other record in the log. Whoever has dealt with everything
before that offset knows that nothing is missing between; transaction markers, aborted records and what compaction
removed leave gaps in the offsets that look like loss and are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import aiokafka
import faust.transport.drivers.aiokafka as faust_driver
from aiokafka.consumer.fetcher import FetchResult

SINCE_HEADER = "dustream-since"
FETCH_BYTES_MIN = 1
FETCH_WAIT_MS = 500

_fetched_all = FetchResult.getall
_chains: WeakKeyDictionary[Any, tuple[int, int]] = WeakKeyDictionary()
"""Of a partition's state in a consumer: where the next fetch goes on, and the end of the last record handed out."""


class CommittedConsumer(aiokafka.AIOKafkaConsumer):  # type: ignore[misc]
    """Reads committed records only, and does not sleep long on a fetch while other partitions wait."""

    def __init__(self, *topics: str, **settings: Any) -> None:
        settings |= {
            "isolation_level": "read_committed",
            "fetch_max_wait_ms": FETCH_WAIT_MS,
            "fetch_min_bytes": FETCH_BYTES_MIN,
        }
        super().__init__(*topics, **settings)


def install() -> None:
    """Replace what Faust uses. Doing it twice is no error."""
    faust_driver.aiokafka.AIOKafkaConsumer = CommittedConsumer  # type: ignore[attr-defined]
    FetchResult.getall = _marked_all


def _marked_all(result: Any, max_records: int | None = None) -> list[Any]:
    """Hand out fetched records as aiokafka does, marked. Fetches of a partition follow one another without a gap, also
    those that yield nothing; a seek shows by a fetch that starts elsewhere than the last one ended."""
    partition, assignment = result._topic_partition, result._assignment
    if not result.has_more() or not result.check_assignment(partition):
        return list(_fetched_all(result, max_records))
    state = assignment.state_value(partition)
    start = state.position
    end, since = _chains.get(state, (start, start))
    if end != start:
        since = start
    records: list[Any] = _fetched_all(result, max_records)
    for record in records:
        record.headers = (*record.headers, (SINCE_HEADER, b"%d" % since))
        since = record.offset + 1
    _chains[state] = (state.position, since)
    return records


def handed_out(consumer: Any, partition: Any) -> tuple[int, int] | None:
    """Up to where a consumer has read a partition, and the end of the last record it handed out of that: there is none
    between the two. Nothing is known before the first fetch."""
    subscription = consumer._subscription.subscription
    assignment = None if subscription is None else subscription.assignment
    if assignment is None or partition not in assignment.tps:
        return None
    return _chains.get(assignment.state_value(partition))


def split_since(headers: Mapping[str, bytes] | Sequence[tuple[str, bytes]] | None) -> tuple[int, dict[str, bytes]]:
    """The mark of a record, and its own headers."""
    found = dict(headers or {})
    return int(found.pop(SINCE_HEADER)), found
