"""`--map fetched_at=t`: our field is read from theirs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from dustream.core.errors import BadSetting
from dustream.schemas.crawl import CrawlEvent

FieldMap = dict[str, str]

unseen_lines_max: Final = 1_000
event_fields: Final = tuple(field.name for field in msgspec.structs.fields(CrawlEvent))


def parse_field_map(settings: Iterable[str]) -> FieldMap:
    """`["fetched_at=t"]` → `{"fetched_at": "t"}`."""
    field_map: FieldMap = {}
    for setting in settings:
        ours, equals, theirs = (part.strip() for part in setting.partition("="))
        if not (ours and equals and theirs):
            raise BadSetting(f"--map {setting}: write OUR_FIELD=THEIR_FIELD, as in --map fetched_at=t")
        if ours in field_map:
            raise BadSetting(f"--map {setting}: {ours} is already read from {field_map[ours]}")
        field_map[ours] = theirs
    check_field_map(field_map)
    return field_map


def check_field_map(field_map: FieldMap) -> None:
    for ours in field_map:
        if ours not in event_fields:
            raise BadSetting(f"--map {ours}=…: no field {ours}; there are {', '.join(event_fields)}")


def source_fields(field_map: FieldMap) -> FieldMap:
    """Where each of our fields is read from. A field that another one is read from is not read itself
    (`--map text=html` takes their html as text, and there is no html then), unless it is mapped too."""
    taken = set(field_map.values())
    unmapped = {name: name for name in event_fields if name not in field_map and name not in taken}
    return {**unmapped, **field_map}


class UnseenFields:
    """Detects a map that fits no record: the first lines of an input lack its fields."""

    def __init__(self, field_map: FieldMap) -> None:
        self._unseen = dict(field_map)
        self._lines = 0

    @property
    def is_looking(self) -> bool:
        """Whether a field has not been seen yet."""
        return bool(self._unseen)

    def look(self, line: bytes) -> list[str]:
        """The notice after this line, if there is one."""
        self._lines += 1
        try:
            there = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            there = {}
        self._unseen = {ours: theirs for ours, theirs in self._unseen.items() if theirs not in there}
        return self.end() if self._lines == unseen_lines_max else []

    def end(self) -> list[str]:
        """The notice at the end of the input, if there is one."""
        unseen, self._unseen = self._unseen, {}
        if not self._lines:
            return []
        return [
            f"--map {ours}={theirs} fits no record: none of the first {self._lines:,} lines has a field {theirs}"
            for ours, theirs in unseen.items()
        ]


def mapped_type(field_map: FieldMap) -> type[Any]:
    """A struct with our field names in Python and theirs on the wire."""
    sources = source_fields(field_map)
    by_source = {theirs: ours for ours, theirs in sources.items()}
    if len(by_source) < len(sources):
        shared = next(theirs for ours, theirs in sources.items() if by_source[theirs] != ours)
        raise BadSetting(f"--map: two fields cannot both be read from {shared}")
    fields = [field for field in msgspec.structs.fields(CrawlEvent) if field.name in sources]
    definitions: list[Any] = [
        (field.name, field.type) if field.required else (field.name, field.type, field.default) for field in fields
    ]
    return msgspec.defstruct("MappedCrawlEvent", definitions, rename=sources, frozen=True, kw_only=True, gc=False)
