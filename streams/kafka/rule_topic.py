"""Follows the rules topic: reads the rule sets written since the last call."""

from __future__ import annotations

from collections.abc import Iterator

from dustream.core.pipeline import URL_RULES
from dustream.schemas import wire
from dustream.schemas.rules import RuleSet
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.followed_topic import FollowedTopic


class RuleTopic(FollowedTopic):
    """Reads the rule sets of an application, oldest first; a later one of a site replaces an earlier one."""

    def __init__(self, cluster: KafkaCluster, application: Application) -> None:
        super().__init__(cluster, application.topic(URL_RULES))

    def read(self) -> Iterator[RuleSet]:
        """On the first call everything up to the end of the topic, then what has arrived since."""
        return (wire.decode(RuleSet, value) for value in self.values())
