"""Compares two outcomes: which URLs changed their status, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from dustream.core.errors import UnreadableInput
from dustream.schemas.status import is_kept
from dustream.streams.engine.results import StatusLine, status_line
from dustream.streams.kafka.client import Client
from dustream.streams.kafka.cluster import Unreachable

Kind = Literal["only before", "only after", "fetch", "role", "winner", "group", "similarity", "other"]


class Change(Struct, frozen=True):
    """One URL whose status differs."""

    url: str
    kind: Kind
    why: str
    before: StatusLine | None
    after: StatusLine | None


class Comparison(Struct, frozen=True):
    """Counts over two outcomes."""

    before: int
    after: int
    same: int
    changed: dict[str, int]
    kept_before: int
    kept_after: int


def read_outcome(source: str, bootstrap: str | None) -> dict[str, StatusLine]:
    """The statuses in a status.jsonl, in the folder of a run, or of an application on Kafka."""
    path = Path(source)
    file = path / "status.jsonl" if path.is_dir() else path
    if file.is_file():
        decoder = msgspec.json.Decoder(StatusLine)
        try:
            with file.open("rb") as lines:
                return {status.url: status for status in map(decoder.decode, lines)}
        except msgspec.MsgspecError as error:
            raise UnreadableInput(f"{file} is not a status.jsonl: {error}") from None
    if path.exists():
        raise UnreadableInput(f"there is no status.jsonl in {source}: name the --out folder of a run")
    try:
        return {url: status_line(status) for url, status in Client(bootstrap, source).newest().items()}
    except Unreachable as error:
        raise UnreadableInput(
            f"there is no file or folder {source}, and as the name of an application on Kafka: {error}"
        ) from None


def compare(before: dict[str, StatusLine], after: dict[str, StatusLine]) -> tuple[Comparison, list[Change]]:
    """All changes, by URL."""
    changes = list(_changes(before, after))
    return (
        Comparison(
            before=len(before),
            after=len(after),
            same=len(before.keys() | after.keys()) - len(changes),
            changed=dict(sorted(Counter(change.kind for change in changes).items())),
            kept_before=sum(is_kept(status.role) for status in before.values()),
            kept_after=sum(is_kept(status.role) for status in after.values()),
        ),
        changes,
    )


def _changes(before: dict[str, StatusLine], after: dict[str, StatusLine]) -> Iterator[Change]:
    for url in sorted(before.keys() | after.keys()):
        old, new = before.get(url), after.get(url)
        if old != new:
            kind, why = _explain(old, new)
            yield Change(url, kind, why, old, new)


def _explain(old: StatusLine | None, new: StatusLine | None) -> tuple[Kind, str]:
    if old is None or new is None:
        return ("only after", "not known before") if old is None else ("only before", "not known after")
    if old.version != new.version:
        return "fetch", f"another fetch of the page decides: {old.version} before, {new.version} after"
    if old.role != new.role:
        return "role", _role_change(old, new)
    if old.winner != new.winner or old.target != new.target:
        return "winner", f"{_relation(old)} before, {_relation(new)} after"
    if old.group != new.group:
        return "group", f"in the group of {old.group} before, of {new.group} after"
    if old.similarity != new.similarity:
        return "similarity", f"{_relation(old)} before, {_relation(new)} after"
    return "other", "details differ"


def _role_change(old: StatusLine, new: StatusLine) -> str:
    if old.role == "duplicate":
        return f"no duplicate any more: was {_relation(old)}, is {new.role} now"
    if new.role == "duplicate":
        return f"a duplicate now: {_relation(new)}; was {old.role}"
    if {old.role, new.role} == {"unique", "winner"}:
        return (
            "pages that were its duplicates are no more"
            if old.role == "winner"
            else "other pages are its duplicates now"
        )
    return f"{old.role} before, {new.role} after"


def _relation(status: StatusLine) -> str:
    if status.target is not None:
        return f"leads to {status.target}"
    if status.winner is None or status.winner == status.url:
        return status.role
    if status.relation == "contained":
        return f"contained in {status.winner}, share {status.similarity:.4f}"
    similarity = "" if status.similarity is None else f", similarity {status.similarity:.4f}"
    return f"{status.relation} duplicate of {status.winner}{similarity}"
