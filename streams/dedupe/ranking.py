"""Which row wins: the order of all rows, the best first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dustream.core.errors import BadSetting
from dustream.streams.dedupe.settings import Preference

Ints = NDArray[np.int64]


def ranked_rows(preferences: list[Preference], lengths: Ints, columns: dict[str, pa.ChunkedArray]) -> Ints:
    """The numbers of the rows by these preferences, then by their place in the input. Rows without a value come last.
    Texts that are all numbers (of CSV) are ordered as numbers."""
    numbers = np.arange(len(lengths), dtype=np.int64)
    table: dict[str, pa.Array | pa.ChunkedArray] = {}
    keys = []
    for place, each in enumerate(preferences):
        name, values = f"{place}", _as_numbers(columns[each.column]) if each.column is not None else pa.array(numbers)
        if each.name in ("longest", "shortest"):
            values = pa.array(lengths)
        table[name] = values
        keys.append((name, "descending" if each.descending or each.name in ("last", "longest") else "ascending"))
    table["row"] = pa.array(numbers)
    keys.append(("row", "ascending"))
    try:
        order = pc.sort_indices(pa.table(table), sort_keys=keys)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        named = ", ".join(f"{name} ({column.type})" for name, column in columns.items())
        raise BadSetting(
            f"the rows cannot be ordered by {named}: prefer columns of numbers, texts, dates or times"
        ) from None
    numbered: Ints = order.to_numpy().astype(np.int64)
    return numbered


def _as_numbers(values: pa.ChunkedArray) -> pa.ChunkedArray:
    for numbers in (pa.int64(), pa.float64()) if pa.types.is_string(values.type) else ():
        try:
            return values.cast(numbers)
        except pa.ArrowInvalid:
            continue
    return values
