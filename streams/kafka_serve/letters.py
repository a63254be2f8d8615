"""The dead letters of the application: how many there are, and the last ones, for questions about their URLs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock

import msgspec

from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.kafka.cluster import Unreachable
from dustream.streams.kafka.followed_topic import FollowedTopic
from dustream.streams.kafka.held import HeldTasks
from dustream.streams.kafka.records import DEAD_LETTERS

LETTERS_KEPT_MAX = 10_000


class Letters:
    """Follows the topic of dead letters."""

    def __init__(self) -> None:
        self._topic: FollowedTopic | None = None
        self._last: deque[bytes] = deque(maxlen=LETTERS_KEPT_MAX)
        self._reading = Lock()
        self.count = 0

    def catch_up(self, held: HeldTasks) -> None:
        """Read what was written since; later, if the broker does not answer."""
        with self._reading, suppress(Unreachable):
            if self._topic is None:
                self._topic = FollowedTopic(held.cluster, held.application.topic(DEAD_LETTERS))
            for value in self._topic.values():
                self._last.append(value)
                self.count += 1

    def of_host(self, host: str) -> Iterator[DeadLetter]:
        """Those among the last that contain this host, in any spelling."""
        decoder = msgspec.json.Decoder(DeadLetter)
        return (decoder.decode(value) for value in list(self._last) if host.encode() in value.lower())

    def close(self) -> None:
        with self._reading:
            if self._topic is not None:
                self._topic.close()
