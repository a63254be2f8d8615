"""One interface to all kinds of records: columns by name, rows by number.

Tables are recognised by the package of their type, so none of those packages is imported here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Protocol

from dustream.core.errors import BadInput
from dustream.streams.dedupe.settings import nested_value

Columns = Mapping[str, Sequence[Any]]


class Records(Protocol):
    """What `dedupe` needs of its input."""

    def __len__(self) -> int: ...
    def column(self, name: str) -> Iterator[Any]:
        """A value for every row, None where there is none; BadInput names the columns there are."""

    def pick(self, rows: Sequence[int]) -> Any:
        """These rows."""

    def with_columns(self, columns: Columns) -> Any:
        """The whole table with more columns."""


def records_of(data: Any) -> Records:
    """The right view of some data; BadInput if it is none."""
    table = _TABLES.get(type(data).__module__.partition(".")[0])
    if table is not None and hasattr(data, "__len__") and not isinstance(data, Mapping):
        has_columns = hasattr(data, "columns") or hasattr(data, "column_names")
        return table(data) if has_columns else _Rows(table.values(data))
    if isinstance(data, PathLike):
        raise BadInput(f"{data} is a path: `dustream.dedupe_files` deduplicates files")
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        raise BadInput(
            f"a {type(data).__name__} is no collection of records: give a list of texts or dicts, a pandas or polars "
            "DataFrame, a pyarrow Table, or a Hugging Face Dataset; for files there is `dustream.dedupe_files`"
        )
    return _Rows(data)


class _Rows:
    """Texts, or dicts."""

    def __init__(self, data: Iterable[Any]) -> None:
        self._rows = data if isinstance(data, list) else list(data)

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, name: str) -> Iterator[Any]:
        for number, row in enumerate(self._rows):
            if isinstance(row, Mapping):
                yield nested_value(row, name)
            elif name == "text" and (row is None or isinstance(row, str | bytes)):
                yield row
            else:
                raise BadInput(f"record {number} is a {type(row).__name__} without {name!r}: give texts or dicts")
        top = name.partition(".")[0]
        if self._rows and not any(not isinstance(row, Mapping) or name in row or top in row for row in self._rows):
            known = sorted({str(key) for row in self._rows[:100] for key in row})
            raise BadInput(f"no record has {name!r}; there are {', '.join(known)}")

    def pick(self, rows: Sequence[int]) -> Iterator[Any]:
        return (self._rows[row] for row in rows)

    def with_columns(self, columns: Columns) -> Any:
        raise BadInput("these records are no table: use `verdicts`, `kept()` and `dropped()`")


class _Table(ABC):
    """What tables have in common."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    @staticmethod
    def values(column: Any) -> list[Any]:
        """Of one column without a table."""
        return list(column)

    def _names(self) -> list[str]:
        return list(self._table.columns)

    def _values(self, name: str) -> Iterable[Any]:
        return self._table[name]  # type: ignore[no-any-return]

    def column(self, name: str) -> Iterator[Any]:
        top, _, rest = name.partition(".")
        if self._names().count(name) > 1:
            raise BadInput(f"the table has several columns {name!r}: give them different names")
        if name in self._names():
            return iter(self._values(name))
        if rest and top in self._names():
            return (nested_value(each, rest) if isinstance(each, Mapping) else None for each in self._values(top))
        raise BadInput(f"the table has no column {name!r}; there are {', '.join(map(str, self._names()))}")

    @abstractmethod
    def pick(self, rows: Sequence[int]) -> Any: ...

    @abstractmethod
    def with_columns(self, columns: Columns) -> Any: ...


class _Pandas(_Table):
    """Pandas has several values for a missing one: NaN, NaT, NA."""

    @staticmethod
    def values(column: Any) -> list[Any]:
        from pandas import isna  # type: ignore[import-untyped]

        return [None if isna(value) is True else value for value in column]

    def column(self, name: str) -> Iterator[Any]:
        return iter(self.values(super().column(name)))

    def pick(self, rows: Sequence[int]) -> Any:
        return self._table.iloc[list(rows)]

    def with_columns(self, columns: Columns) -> Any:
        return self._table.assign(**columns)


class _Polars(_Table):
    def pick(self, rows: Sequence[int]) -> Any:
        return self._table[list(rows)]

    def with_columns(self, columns: Columns) -> Any:
        return self._table.with_columns(
            **{name: type(self._table)({name: values})[name] for name, values in columns.items()}
        )


class _Arrow(_Table):
    def __init__(self, table: Any) -> None:
        from pyarrow import RecordBatch, Table

        super().__init__(Table.from_batches([table]) if isinstance(table, RecordBatch) else table)

    @staticmethod
    def values(column: Any) -> list[Any]:
        return column.to_pylist()  # type: ignore[no-any-return]

    def _names(self) -> list[str]:
        return list(self._table.column_names)

    def _values(self, name: str) -> Iterable[Any]:
        return (value for chunk in self._table[name].chunks for value in chunk.to_pylist())

    def pick(self, rows: Sequence[int]) -> Any:
        return self._table.take(list(rows))

    def with_columns(self, columns: Columns) -> Any:
        table = self._table
        for name, values in columns.items():
            table = table.drop_columns([name]) if name in table.column_names else table
            table = table.append_column(name, [values])
        return table


class _HuggingFace(_Table):
    def _names(self) -> list[str]:
        return list(self._table.column_names)

    def pick(self, rows: Sequence[int]) -> Any:
        return self._table.select(rows)

    def with_columns(self, columns: Columns) -> Any:
        table = self._table
        for name, values in columns.items():
            table = table.remove_columns(name) if name in table.column_names else table
            table = table.add_column(name, values)
        return table


_TABLES: dict[str, type[_Table]] = {"pandas": _Pandas, "polars": _Polars, "pyarrow": _Arrow, "datasets": _HuggingFace}
