"""docs/explanation/protocol.md names every state table."""

from __future__ import annotations

from pathlib import Path

from dustream.core.pipeline import pipeline
from dustream.core.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "protocol.md"


def test_every_table_is_described() -> None:
    section = PAGE.read_text().split("## State tables\n")[1].split("\n## ")[0]
    tables = {table.name for spec in pipeline(Settings()).processors for table in spec.tables}
    assert {name for name in tables if f"`{name}`" not in section} == set()
