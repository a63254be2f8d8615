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
        self._said: dict[str, dict[str, DuplicateStatus]] = {}

    def add(self, site: str, said: DuplicateStatus) -> None:
        self._said.setdefault(site, {})[said.url] = said

    def drain(self) -> Iterator[Send]:
        for site, said in self._said.items():
            each = map(_member, said.values())
            while some := tuple(islice(each, self._members_max)):
                yield Send("cluster.updates", site, ClusterUpdate(site=site, members=some))
        self._said = {}


def _member(said: DuplicateStatus) -> ClusterMember:
    return ClusterMember(
        said.url,
        said.version,
        said.group,
        said.role,
        said.winner,
        said.relation,
        said.since,
        said.canonical,
        said.similarity,
    )
