"""What decides the outcome of a deduplication."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from dustream.core.errors import BadSetting
from dustream.core.similarity import check_tau
from dustream.core.text.row_signing import TokenRules

PREFERENCES: Final = ("first", "last", "longest", "shortest")


class Preference(NamedTuple):
    """One criterion of which row wins: of PREFERENCES, or a column with its direction."""

    name: str
    column: str | None = None
    descending: bool = False


class DedupeSettings(Struct, frozen=True, kw_only=True):
    """`id`: the column by which rows are known; without it, they are known by file and row number. Rows of fewer than
    `min_tokens` are not compared."""

    text: str = "text"
    id: str | None = None
    threshold: float = 0.9
    rules: TokenRules = field(default_factory=TokenRules)
    min_tokens: int = 1
    prefer: tuple[str, ...] = ("first",)

    def __post_init__(self) -> None:
        check_tau(self.threshold)
        if self.min_tokens < 1:
            raise BadSetting(f"min_tokens is {self.min_tokens}: use 1 or more")
        if not self.text:
            raise BadSetting("the name of the text column is empty")
        _ = self.preferences

    @property
    def preferences(self) -> list[Preference]:
        return [_preference(text) for text in self.prefer]

    @property
    def columns(self) -> list[str]:
        """The columns that are stored beside the signatures, each once."""
        named = [each.column for each in self.preferences if each.column is not None]
        return list(dict.fromkeys(([self.id] if self.id is not None else []) + named))


def _preference(text: str) -> Preference:
    if text in PREFERENCES:
        return Preference(text)
    column, _, direction = text.rpartition(":")
    if not column or direction not in ("asc", "desc"):
        raise BadSetting(
            f"prefer {text!r} is not known: use {', '.join(PREFERENCES)}, COLUMN:asc (the smallest value wins) or "
            "COLUMN:desc (the largest)"
        )
    return Preference(text, column, direction == "desc")


def nested_value(row: Mapping[str, Any], name: str) -> Any:
    """A field by its name, or by the names of dicts and a field (`meta.id`); None if it is not there."""
    if name in row or "." not in name:
        return row.get(name)
    value: Any = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
