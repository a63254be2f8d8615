"""Opens the state of the embedded engine: a new one, or one made with the same settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dustream.core.errors import StateMismatch
from dustream.core.pipeline import require_fitting
from dustream.core.settings import Settings, differing
from dustream.core.tier2.partition_map import PartitionMap, default_map, map_from_bytes, map_to_bytes
from dustream.streams.engine.state_rows import MAP_KEY, STATE_FORMAT, STATE_KEY, StateHeader
from dustream.streams.store.base import Store
from dustream.streams.store.extent import MeasuredStore
from dustream.streams.store.rocks import MEMORY_BYTES


def open_state(path: Path, settings: Settings, memory_bytes: int = MEMORY_BYTES) -> MeasuredStore:
    """The state in a folder, new or made with the same settings."""
    store = MeasuredStore(path, memory_bytes=memory_bytes)
    row = store.get(STATE_KEY)
    header = StateHeader(STATE_FORMAT, settings.fingerprint(), settings)
    if row is None:
        store.write([(STATE_KEY, msgspec.json.encode(header))])
        return store
    try:
        _check_header(path, row, header)
    except StateMismatch:
        store.close()
        raise
    return store


def state_map(store: Store, settings: Settings, wanted: bytes | None, path: Path) -> PartitionMap:
    """The partition map of a state. It determines where pages are stored, so it is fixed when the state is new."""
    stored = store.get(MAP_KEY)
    if stored is None:
        cells = fitting_map(wanted, settings)
        store.write([(MAP_KEY, map_to_bytes(cells))])
        return cells
    if wanted is not None and wanted != stored:
        raise StateMismatch(f"the state in {path} was filled with another partition map: use a fresh --state")
    return map_from_bytes(stored)


def fitting_map(stored: bytes | None, settings: Settings) -> PartitionMap:
    """The map in these bytes, or else the default one; BadSetting if it was made for other settings."""
    cells = default_map(settings.partitions, settings.threshold) if stored is None else map_from_bytes(stored)
    require_fitting(cells, settings)
    return cells


def _check_header(path: Path, row: bytes, wanted: StateHeader) -> None:
    known: dict[str, Any] = msgspec.json.decode(row)
    if known["format"] != wanted.format:
        raise StateMismatch(
            f"the state in {path} has format {known['format']}, this program writes {wanted.format}: "
            "use a fresh --state and run the inputs again"
        )
    if known["fingerprint"] != wanted.fingerprint:
        raise StateMismatch(f"the state in {path} {_difference(known['settings'], wanted.settings)}")


def _difference(known: dict[str, Any], wanted: Settings) -> str:
    """Why a state with these settings cannot be used, and what to do."""
    if different := differing(known, wanted):
        return f"was made with other settings ({', '.join(different)}): use the same, or a fresh --state"
    return "has signatures of another version of this program: use a fresh --state and run the inputs again"
