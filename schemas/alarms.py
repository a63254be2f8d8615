"""`alarms`: groups and sites that need attention; the newest alarm of a key is current (public, JSON, compacted)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

ALARM_VERSION = 1


class Alarm(Struct, frozen=True, kw_only=True):
    """A group or site is held, or no longer held. The key is the group's id or the site."""

    kind: Annotated[
        Literal["group_held", "group_passed", "site_held", "site_passed"], Meta(description="what happened")
    ]
    group: Annotated[str, Meta(description="group id: URL of its earliest member; empty if the alarm is about a site")]
    size: Annotated[int, Meta(description="members of the group, or pages of the site, when it happened")]
    v: Annotated[int, Meta(description="schema version")] = ALARM_VERSION
    site: Annotated[str | None, Meta(description="the site, if the alarm is about one")] = None
    lost: Annotated[
        int | None,
        Meta(description="pages of the site whose winners are on other sites, in the market that loses most"),
    ] = None
