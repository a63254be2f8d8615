"""What is published about the messages is what the program does, and no change breaks those who rely on it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import dustream.schemas.wire as wire
from dustream.schemas.compatibility import breaking_changes
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.dead_letter import DeadLetter
from dustream.schemas.status import DuplicateStatus
from dustream.streams.schema_files import schema_files, write_schema_files

FOLDER = Path(wire.__file__).parent / "json"


def test_published_files_are_up_to_date() -> None:
    published = {path.name: path.read_text() for path in FOLDER.glob("*.json")}
    assert published == schema_files(), "run `make schemas` and commit schemas/json"


@pytest.mark.parametrize("name", sorted(schema_files()))
def test_change_since_the_first_release_breaks_nobody(name: str) -> None:
    baseline = json.loads((Path(__file__).parent / "released" / name).read_text())
    assert breaking_changes(baseline, json.loads(schema_files()[name])) == []


def status_schema() -> dict[str, Any]:
    return wire.json_schema(DuplicateStatus)


def fields(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schema["$defs"]["DuplicateStatus"]
    return found


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda s: s["properties"].pop("winner"), "/winner: removed"),
        (lambda s: s["required"].append("winner"), "/winner: required now"),
        (lambda s: s["required"].remove("role"), "/role: optional now"),
        (lambda s: s["properties"]["role"]["enum"].remove("gone"), "/role: no longer accepts 'gone'"),
        (
            lambda s: s["properties"]["similarity"].update(anyOf=[{"type": "number"}]),
            "/similarity: no longer accepts null",
        ),
        (lambda s: s["properties"]["url"].update(type="integer"), "/url: no longer accepts string"),
    ],
)
def test_breaking_changes_are_named(change: Any, complaint: str) -> None:
    new = copy.deepcopy(status_schema())
    change(fields(new))
    assert any(complaint in found for found in breaking_changes(status_schema(), new))


def test_additions_break_nobody() -> None:
    new = copy.deepcopy(status_schema())
    fields(new)["properties"]["note"] = {"type": "string"}
    fields(new)["properties"]["role"]["enum"].append("contained")
    assert breaking_changes(status_schema(), new) == []


def test_writing_refuses_to_break(tmp_path: Path) -> None:
    assert write_schema_files(tmp_path) == []
    path = tmp_path / "DuplicateStatus.v1.json"
    old = json.loads(path.read_text())
    fields(old)["properties"]["reason"] = {"type": "string"}
    path.write_text(json.dumps(old))
    assert write_schema_files(tmp_path) == ["DuplicateStatus.v1.json/reason: removed"]
    assert json.loads(path.read_text()) == old


def test_unknown_fields_are_ignored_and_unknown_versions_refused() -> None:
    event = wire.decode(CrawlEvent, b'{"url": "https://a.example/", "mood": "fine"}')
    assert event.url == "https://a.example/" and event.v == 1
    for version in (0, 2, -1):
        with pytest.raises(wire.UnknownVersion, match="CrawlEvent schema version"):
            wire.decode(CrawlEvent, b'{"url": "https://a.example/", "v": %d}' % version)


def test_messages_survive_the_wire() -> None:
    letter = DeadLetter(source="a.warc", position=3, reason="torn", offset=9)
    assert wire.decode(DeadLetter, wire.encode(letter)) == letter
    assert msgspec.json.decode(wire.encode(letter))["v"] == 1
