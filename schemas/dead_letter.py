"""`dead.letters`: records that could not be used, with where they stood and why (public, JSON)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

DEAD_LETTER_VERSION = 1


class DeadLetter(Struct, frozen=True, kw_only=True):
    """One rejected record."""

    source: Annotated[str, Meta(description="file or topic-partition it came from")]
    position: Annotated[int, Meta(description="ordinal of the record in its source, from 0")]
    reason: Annotated[str, Meta(description="why it was rejected, for a person")]
    v: Annotated[int, Meta(description="schema version")] = DEAD_LETTER_VERSION
    offset: Annotated[int | None, Meta(description="byte offset in the source, where it is known")] = None
    url: Annotated[str | None, Meta(description="URL of the record, where it could be read")] = None
    excerpt: Annotated[str | None, Meta(description="beginning of the original bytes, as text")] = None
