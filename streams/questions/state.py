"""The interface of a state for questions: its settings, and the tables of every task, row by row.

Rows are read in place: nothing is loaded or indexed first, so an answer takes as long on a big state as on a small one.
`EmbeddedState` reads the folder of a `dustream run`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from dustream.core.errors import StateMismatch
from dustream.core.groups.rows import EdgeRow, GroupRow, MembershipRow
from dustream.core.pages.former import FormerRow
from dustream.core.pages.rows import DecisionRow, FollowerRow, HomeRow, PageDecisionRow, PageRow, PairDecisionRow
from dustream.core.rules.decisions import RuleDecisionRow
from dustream.core.settings import Settings
from dustream.core.sites.processor import SiteRow
from dustream.core.tier2.partition_map import PartitionMap
from dustream.core.tier2.rows import ContainerRow, VertexRow
from dustream.core.topology import partition_of
from dustream.schemas.dead_letter import DeadLetter
from dustream.schemas.rules import RuleSet
from dustream.schemas.signature import PageSignature
from dustream.schemas.status import DuplicateStatus
from dustream.streams.engine.results import find_status, read_rule_sets, read_statuses
from dustream.streams.engine.state_rows import (
    COUNTS_KEY,
    MAP_KEY,
    STATE_KEY,
    Counts,
    InputProgress,
    StateHeader,
    read_inputs,
    view_prefix,
)
from dustream.streams.engine.states import fitting_map
from dustream.streams.store.base import Store
from dustream.streams.store.extent import open_to_read

Row = TypeVar("Row", covariant=True)

ROWS: dict[tuple[str, str], Any] = {
    ("pages", "pages"): PageRow,
    ("pages", "decisions"): DecisionRow,
    ("pages", "page_decisions"): PageDecisionRow,
    ("pages", "pair_decisions"): PairDecisionRow,
    ("rules", "rule_decisions"): RuleDecisionRow,
    ("pages", "followers"): FollowerRow,
    ("pages", "former"): FormerRow,
    ("pages", "homes"): HomeRow,
    ("sites", "sites"): SiteRow,
    ("tier2", "vertices"): VertexRow,
    ("tier2", "contents"): PageSignature,
    ("tier2", "containers"): ContainerRow,
    ("groups", "groups"): GroupRow,
    ("groups", "memberships"): MembershipRow,
    ("groups", "edges"): EdgeRow,
    ("rules", "rule_sets"): RuleSet,
}
"""The tables that questions read, by processor and name."""


class RowReader(Protocol[Row]):
    """One table of one task."""

    def get(self, key: str) -> Row | None: ...
    def scan(self, prefix: str = "") -> Iterator[tuple[str, Row]]: ...
    def names(self, prefix: str = "") -> Iterator[str]:
        """The keys alone, without decoding the rows."""

    def containing_any(self, texts: Collection[str]) -> Iterator[tuple[str, Row]]:
        """Rows that contain one of the texts: all are read, few are decoded."""


class ReadableState(Protocol):
    """The state of a run."""

    @property
    def settings(self) -> Settings: ...
    def table(self, processor: str, partition: int, name: str) -> RowReader[Any]: ...
    def rows(self, processor: str, name: str, keys: Iterable[str]) -> dict[str, Any]:
        """The rows of keys that may belong to several tasks; those that exist."""

    def status(self, url: str) -> DuplicateStatus | None:
        """The last published status."""

    def urls(self, prefix: str) -> Iterator[str]:
        """URLs with a status, in order."""

    def dead_letters(self, host: str) -> Iterator[DeadLetter]:
        """Those that contain this host, in any spelling."""

    def counts(self) -> Counts: ...
    def inputs(self) -> dict[str, InputProgress]: ...


def task_table(state: ReadableState, processor: str, key: str, name: str) -> RowReader[Any]:
    """The table of the task responsible for a key."""
    return state.table(processor, partition_of(key, state.settings.partitions), name)


class StoredRows(Generic[Row]):
    """A table in a store."""

    def __init__(self, store: Store, prefix: bytes, row: Any) -> None:
        self._store = store
        self._prefix = prefix
        self._decoder = msgspec.msgpack.Decoder(row)

    def get(self, key: str) -> Row | None:
        data = self._store.get(self._prefix + key.encode())
        return None if data is None else self._decode(data)

    def _decode(self, data: bytes) -> Row:
        try:
            row: Row = self._decoder.decode(data)
            return row
        except msgspec.MsgspecError as error:
            raise _other_version(error) from error

    def scan(self, prefix: str = "") -> Iterator[tuple[str, Row]]:
        for key, data in self._store.scan(self._prefix + prefix.encode()):
            yield key[len(self._prefix) :].decode(), self._decode(data)

    def names(self, prefix: str = "") -> Iterator[str]:
        for key, _ in self._store.scan(self._prefix + prefix.encode()):
            yield key[len(self._prefix) :].decode()

    def containing_any(self, texts: Collection[str]) -> Iterator[tuple[str, Row]]:
        wanted = [text.encode() for text in texts]
        for key, data in self._store.scan(self._prefix):
            if any(text in data for text in wanted):
                yield key[len(self._prefix) :].decode(), self._decode(data)


class StoredState:
    """The state in a store of the embedded engine."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    @property
    def settings(self) -> Settings:
        return self._settings

    def table(self, processor: str, partition: int, name: str) -> StoredRows[Any]:
        prefix = f"task/{processor}/{partition:05d}/{name}/".encode()
        return StoredRows(self._store, prefix, ROWS[processor, name])

    def rows(self, processor: str, name: str, keys: Iterable[str]) -> dict[str, Any]:
        found = ((key, task_table(self, processor, key, name).get(key)) for key in keys)
        return {key: row for key, row in found if row is not None}

    def status(self, url: str) -> DuplicateStatus | None:
        return find_status(self._store, url)

    def statuses(self) -> Iterator[DuplicateStatus]:
        """The newest status of every URL, in the order of the URLs."""
        return read_statuses(self._store)

    def rule_sets(self) -> Iterator[RuleSet]:
        return read_rule_sets(self._store)

    def partition_map(self) -> PartitionMap:
        """The map that the state was filled with."""
        return fitting_map(self._store.get(MAP_KEY), self._settings)

    def close(self) -> None:
        self._store.close()

    def urls(self, prefix: str) -> Iterator[str]:
        view = view_prefix("duplicate.status")
        for key, _ in self._store.scan(view + prefix.encode()):
            yield key[len(view) :].decode()

    def dead_letters(self, host: str) -> Iterator[DeadLetter]:
        decoder = msgspec.json.Decoder(DeadLetter)
        for _, data in self._store.scan(view_prefix("dead.letters")):
            if host.encode() in data.lower():
                yield decoder.decode(data)

    def counts(self) -> Counts:
        row = self._store.get(COUNTS_KEY)
        return Counts() if row is None else msgspec.json.decode(row, type=Counts)

    def inputs(self) -> dict[str, InputProgress]:
        return dict(read_inputs(self._store))


class EmbeddedState(StoredState):
    """The state of `dustream run`, opened read-only; a run may be writing it meanwhile."""

    def __init__(self, path: Path) -> None:
        folder = state_folder(path)
        self.in_use = is_in_use(folder)
        store = self._open(folder)
        try:
            super().__init__(store, read_settings(store, path))
        except StateMismatch:
            store.close()
            raise

    def _open(self, folder: Path) -> Store:
        try:
            return open_to_read(folder)
        except StateMismatch as error:
            if not self.in_use:
                raise
            raise StateMismatch(f"a run is writing the state in {folder}: ask again in a moment ({error})") from error

    def __enter__(self) -> EmbeddedState:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def state_folder(path: Path) -> Path:
    """The state's folder, given that folder or the result folder that contains it."""
    return path / "state" if (path / "state" / "CURRENT").exists() else path


def is_in_use(folder: Path) -> bool:
    """Whether a run is writing the state: RocksDB locks the file LOCK."""
    try:
        with (folder / "LOCK").open("rb") as file:
            os.lockf(file.fileno(), os.F_TEST, 0)
    except (PermissionError, BlockingIOError):
        return True
    except OSError:
        return False
    return False


def read_settings(store: Store, path: Path) -> Settings:
    """The settings that the state in a store was made with."""
    row = store.get(STATE_KEY)
    if row is None:
        raise StateMismatch(f"the state in {path} has no settings: name the folder of a `dustream run`")
    try:
        return msgspec.json.decode(row, type=StateHeader).settings
    except msgspec.MsgspecError as error:
        raise _other_version(error) from error


def _other_version(error: Exception) -> StateMismatch:
    return StateMismatch(
        f"the state was made by another version of this program ({error}): ask with that one, or run the inputs again "
        "into a fresh --state"
    )
