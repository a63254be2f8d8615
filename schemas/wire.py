"""Encoding of public messages: JSON with a schema version. Unknown fields are ignored, unknown versions rejected."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from dustream.schemas.alarms import ALARM_VERSION, Alarm
from dustream.schemas.cluster import CLUSTER_UPDATE_VERSION, ClusterUpdate
from dustream.schemas.crawl import CRAWL_EVENT_VERSION, CrawlEvent
from dustream.schemas.dead_letter import DEAD_LETTER_VERSION, DeadLetter
from dustream.schemas.rules import RULE_SET_VERSION, RuleSet
from dustream.schemas.status import DUPLICATE_STATUS_VERSION, DuplicateStatus

PUBLIC: dict[type[Struct], int] = {
    CrawlEvent: CRAWL_EVENT_VERSION,
    DuplicateStatus: DUPLICATE_STATUS_VERSION,
    ClusterUpdate: CLUSTER_UPDATE_VERSION,
    RuleSet: RULE_SET_VERSION,
    DeadLetter: DEAD_LETTER_VERSION,
    Alarm: ALARM_VERSION,
}
"""The public messages and the newest schema version of each that this program understands."""

Message = TypeVar("Message", bound=Struct)

_ENCODER = msgspec.json.Encoder()


class UnknownVersion(ValueError):
    """A message of a schema version that this program does not know."""


def encode(message: Struct) -> bytes:
    """JSON bytes of a public message."""
    return _ENCODER.encode(message)


def decode(kind: type[Message], data: bytes) -> Message:
    """The message in `data`; raises msgspec.ValidationError or UnknownVersion if it is invalid."""
    message = msgspec.json.decode(data, type=kind)
    check_version(message)
    return message


def check_version(message: Struct) -> None:
    """Reject a message whose schema version is newer than this program, or not a version."""
    known = PUBLIC[type(message)]
    version: int = message.v  # type: ignore[attr-defined]
    if not 1 <= version <= known:
        name = type(message).__name__
        raise UnknownVersion(f"{name} schema version {version} is unknown (this program knows 1 to {known})")


def json_schema(kind: type[Struct]) -> dict[str, Any]:
    """The published JSON Schema of a public message."""
    (schema,), components = json_schemas([kind], "#/$defs/{name}")
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "title": kind.__name__, **schema, "$defs": components}


def json_schemas(
    kinds: Iterable[type[Struct]], ref_template: str
) -> tuple[tuple[dict[str, Any], ...], dict[str, dict[str, Any]]]:
    """A JSON Schema for each kind, and the components they refer to: the same on every Python and msgspec."""
    schemas, components = msgspec.json.schema_components(kinds, ref_template=ref_template)
    for each in components.values():
        if "description" in each:
            each["description"] = inspect.cleandoc(each["description"])  # Python 3.13 does so itself, others do not
    return schemas, {name: _null_last(each) for name, each in components.items()}


def _null_last(schema: Any) -> Any:
    """The schema with null as the last alternative: msgspec 0.19 has it before structs."""
    if isinstance(schema, list):
        return [_null_last(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _null_last(value) for key, value in schema.items()}
    if "anyOf" in found:
        found["anyOf"].sort(key=lambda alternative: alternative == {"type": "null"})
    return found
