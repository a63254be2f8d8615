"""Cluster updates: what changed on a site in one step, in few messages of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dustream.core.processor import Send
from dustream.schemas.cluster import ClusterMember, ClusterUpdate
from dustream.schemas.status import DuplicateStatus

MEMBERS_MAX = 500  # in one message


class ClusterUpdates:
    """Gathers the statuses of a step by site; of several of one URL the last counts."""

    def __init__(self, members_max: int = MEMBERS_MAX) -> None:
        self._members_max = members_max
        self._members: dict[str, dict[str, ClusterMember]] = {}

    def add(self, site: str, said: DuplicateStatus) -> None:
        member = ClusterMember(said.url, said.version, said.group, said.role, said.winner, said.relation, said.since)
        self._members.setdefault(site, {})[said.url] = member

    def drain(self) -> Iterator[Send]:
        for site, members in self._members.items():
            each = iter(members.values())
            while some := tuple(islice(each, self._members_max)):
                yield Send("cluster.updates", site, ClusterUpdate(site=site, members=some))
        self._members = {}
