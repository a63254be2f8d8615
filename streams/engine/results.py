"""The result files of a run: statuses, groups, the keep list, alarms, rejected records, and a summary."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dustream.core.pages.rows import CountRow, HomeRow, imbalance
from dustream.schemas.alarms import Alarm
from dustream.schemas.dead_letter import DeadLetter
from dustream.schemas.rules import RuleSet
from dustream.schemas.status import Decided, DuplicateStatus, Problem, Relation, Role, is_kept
from dustream.streams.engine.alarms import AlarmCounts, AlarmLine, standing_alarms
from dustream.streams.engine.sizes import SizeTally
from dustream.streams.engine.state_rows import view_prefix
from dustream.streams.folders import make_folder
from dustream.streams.store.base import Store

_ENCODER = msgspec.json.Encoder()


class StatusLine(Struct, frozen=True, omit_defaults=True):
    """A line of status.jsonl. `decided`: only where an operator decided on the page."""

    url: str
    role: Role
    group: str | None
    winner: str | None
    relation: Relation | None
    similarity: float | None
    target: str | None
    problem: Problem | None
    version: int
    decided: Decided | None = None


class GroupMember(Struct, frozen=True):
    """A page in a line of groups.jsonl."""

    url: str
    role: Role
    winner: str | None
    relation: Relation | None
    similarity: float | None


class GroupLine(Struct, frozen=True):
    """A line of groups.jsonl: a group of more than one page. `kept`: its winners and, if it is held, the held pages."""

    group: str
    size: int
    winners: list[str]
    kept: list[str]
    members: list[GroupMember]


class Outcome(NamedTuple):
    """Counts of the written results."""

    roles: dict[Role, int]
    kept: int
    """The number of URLs in keep.txt."""
    relations: dict[str, int]
    """Duplicates by their relation to the winner."""
    groups: int
    largest_group: int
    rejected: int
    alarms: list[AlarmLine]
    rules: dict[str, int]
    state_hash: str


def status_line(status: DuplicateStatus) -> StatusLine:
    """A status as users see it: its version is the fetch that brought the page's present state. How often the status
    was revised, and whether the page was seen again unchanged, depends on timing and is left out."""
    return StatusLine(
        url=status.url,
        role=status.role,
        group=status.group,
        winner=status.winner,
        relation=status.relation,
        similarity=status.similarity,
        target=status.target,
        problem=status.problem,
        version=status.since,
        decided=status.decided,
    )


def read_statuses(store: Store) -> Iterator[DuplicateStatus]:
    """The newest status of every URL, by URL."""
    decoder = msgspec.json.Decoder(DuplicateStatus)
    for _, data in store.scan(view_prefix("duplicate.status")):
        yield decoder.decode(data)


def find_status(store: Store, url: str) -> DuplicateStatus | None:
    data = store.get(view_prefix("duplicate.status") + url.encode())
    return None if data is None else msgspec.json.decode(data, type=DuplicateStatus)


def read_dead_letters(store: Store) -> Iterator[DeadLetter]:
    decoder = msgspec.json.Decoder(DeadLetter)
    for _, data in store.scan(view_prefix("dead.letters")):
        yield decoder.decode(data)


def read_fetch_counts(store: Store, partitions: int) -> dict[str, int]:
    """The fetches of a state by outcome: new, unchanged, changed, settled_by_anchor, gone …"""
    decoder = msgspec.msgpack.Decoder(CountRow)
    counts: Counter[str] = Counter()
    for partition in range(partitions):
        prefix = f"task/pages/{partition:05d}/counts/".encode()
        for key, data in store.scan(prefix):
            counts[key[len(prefix) :].decode()] += decoder.decode(data).count
    return dict(sorted(counts.items()))


def read_tier2_load(store: Store, partitions: int) -> Tier2Load:
    """The distribution of a state's pages over tier 2."""
    decoder = msgspec.msgpack.Decoder(HomeRow)
    pages, remapped = [0] * partitions, 0
    for partition in range(partitions):
        prefix = f"task/pages/{partition:05d}/homes/".encode()
        for key, data in store.scan(prefix):
            row = decoder.decode(data)
            pages[int(key[len(prefix) :])] += row.pages
            remapped += row.remapped
    return Tier2Load(pages, imbalance(pages), remapped)


def read_rule_sets(store: Store) -> Iterator[RuleSet]:
    """The rules of every site that has any. How often they were revised depends on timing and is left out, as for
    statuses."""
    decoder = msgspec.json.Decoder(RuleSet)
    for _, data in store.scan(view_prefix("url.rules")):
        rule_set = decoder.decode(data)
        if rule_set.rules:
            yield replace(rule_set, version=1)


class Tier2Load(Struct, frozen=True):
    """Pages by their home partition in tier 2; the fullest over the mean (Zhu et al., 6.1); and how many changed pages
    were remapped to another partition."""

    pages: list[int]
    imbalance: float
    remapped: int


class Results(Protocol):
    """The results of an engine."""

    def statuses(self) -> Iterator[DuplicateStatus]:
        """The newest status of every URL, ordered by the URL's UTF-8 bytes."""

    def status(self, url: str) -> DuplicateStatus | None: ...
    def rule_sets(self) -> Iterator[RuleSet]:
        """The rules of every site that has any, by site."""

    def standing_alarms(self) -> list[Alarm]: ...
    def dead_letters(self) -> Iterator[DeadLetter]: ...
    def fetch_counts(self) -> dict[str, int]:
        """The number of fetches by outcome."""

    def tier2_load(self) -> Tier2Load | None:
        """The distribution of pages over tier 2; None for an engine without tier 2."""

    def sizes(self) -> SizeTally | None:
        """Of all pages; None for an engine with a state, which has them in its rows."""


class StoredResults:
    """Results in the store of an engine with a state."""

    def __init__(self, store: Store, partitions: int = 0) -> None:
        self._store = store
        self._partitions = partitions

    def statuses(self) -> Iterator[DuplicateStatus]:
        return read_statuses(self._store)

    def status(self, url: str) -> DuplicateStatus | None:
        return find_status(self._store, url)

    def rule_sets(self) -> Iterator[RuleSet]:
        return read_rule_sets(self._store)

    def standing_alarms(self) -> list[Alarm]:
        return standing_alarms(self._store)

    def dead_letters(self) -> Iterator[DeadLetter]:
        return read_dead_letters(self._store)

    def fetch_counts(self) -> dict[str, int]:
        return read_fetch_counts(self._store, self._partitions)

    def tier2_load(self) -> Tier2Load:
        return read_tier2_load(self._store, self._partitions)

    def sizes(self) -> None:
        return None


def write_results(store: Store, out: Path) -> Outcome:
    """Write the results of a state; see `write_outcome`."""
    return write_outcome(StoredResults(store), out)


def write_outcome(results: Results, out: Path, more_rejected: Sequence[DeadLetter] = ()) -> Outcome:
    """Write all result files but summary.json; each file is replaced atomically. `more_rejected` summarises rejected
    records of which no dead letter is kept."""
    make_folder(out)
    digest = hashlib.blake2b(digest_size=16)
    roles: Counter[Role] = Counter()
    relations: Counter[str] = Counter()
    grouped: dict[str, list[GroupMember]] = {}
    alarms = AlarmCounts(results.standing_alarms())
    with _replacing(out / "status.jsonl") as statuses, _replacing(out / "keep.txt") as keep:
        for status in results.statuses():
            line = _ENCODER.encode(status_line(status)) + b"\n"
            statuses.write(line)
            digest.update(line)
            roles[status.role] += 1
            relations.update([status.relation or ""] if status.role == "duplicate" else [])
            alarms.add(status)
            if is_kept(status.role):
                keep.write(status.url.encode() + b"\n")
            if status.group is not None and status.role != "unique":
                grouped.setdefault(status.group, []).append(_member(status))
    _add_sole_targets(results, grouped)
    groups = _write_groups(out / "groups.jsonl", grouped, digest)
    rules = _write_rules(results, out / "rules.jsonl", digest)
    rejects = _write_lines(out / "rejected.jsonl", chain(results.dead_letters(), more_rejected))
    _write_lines(out / "alarms.jsonl", alarms.lines())
    return Outcome(
        roles=dict(sorted(roles.items())),
        kept=sum(count for role, count in roles.items() if is_kept(role)),
        relations=dict(sorted(relations.items())),
        groups=groups,
        largest_group=max((len(members) for members in grouped.values()), default=0),
        rejected=rejects,
        alarms=alarms.lines(),
        rules=rules,
        state_hash=digest.hexdigest(),
    )


def _write_lines(path: Path, rows: Iterable[Struct]) -> int:
    written = 0
    with _replacing(path) as file:
        for row in rows:
            file.write(_ENCODER.encode(row) + b"\n")
            written += 1
    return written


def _member(status: DuplicateStatus) -> GroupMember:
    return GroupMember(status.url, status.role, status.winner, status.relation, status.similarity)


def _add_sole_targets(results: Results, grouped: dict[str, list[GroupMember]]) -> None:
    """Add a unique page to its group if redirects lead to it: the group is then more than one URL."""
    for group, members in grouped.items():
        known = {member.url for member in members}
        for url in sorted({member.winner for member in members if member.winner} - known):
            status = results.status(url)
            if status is not None and status.group == group:
                members.append(_member(status))
        members.sort(key=lambda member: member.url)


def _write_groups(path: Path, grouped: dict[str, list[GroupMember]], digest: hashlib.blake2b) -> int:
    groups = 0
    with _replacing(path) as file:
        for group in sorted(grouped):
            members = grouped[group]
            if len(members) < 2:  # a page alone, without redirects to it
                continue
            kept = [member for member in members if is_kept(member.role)]
            winners = [member.url for member in kept if member.role != "held"]
            line = GroupLine(group, len(members), winners, [member.url for member in kept], members)
            data = _ENCODER.encode(line) + b"\n"
            file.write(data)
            digest.update(data)
            groups += 1
    return groups


def _write_rules(results: Results, path: Path, digest: hashlib.blake2b) -> dict[str, int]:
    stages: Counter[str] = Counter()
    with _replacing(path) as file:
        for rule_set in results.rule_sets():
            line = _ENCODER.encode(rule_set) + b"\n"
            file.write(line)
            digest.update(line)
            stages.update(rule.stage for rule in rule_set.rules)
    return dict(sorted(stages.items()))


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that replaces `path` once it is completely written."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb", buffering=1 << 20) as file:
        yield file
    os.replace(temporary, path)
