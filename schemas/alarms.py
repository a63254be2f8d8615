"""`alarms`: what an operator should look at (public, JSON, by group)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

ALARM_VERSION = 1


class Alarm(Struct, frozen=True, kw_only=True):
    """A group was held back, or is held no more."""

    kind: Annotated[Literal["group_held", "group_passed"], Meta(description="what happened")]
    group: Annotated[str, Meta(description="group id: URL of its earliest member")]
    size: Annotated[int, Meta(description="members of the group")]
    v: Annotated[int, Meta(description="schema version")] = ALARM_VERSION
