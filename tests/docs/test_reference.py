"""docs/reference is what the code says, and says it of everything."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import dustream
from dustream.core.settings import Settings, parse_settings
from dustream.streams.kafka.metrics import HELP
from dustream.streams.reference import reference_pages
from dustream.streams.reference.fields import SUMMARY_FIELDS

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES = reference_pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name], "run: make reference"


def test_every_public_name_is_described() -> None:
    missing = [name for name in dustream.__all__ if name not in PAGES["python.md"] and name != "__version__"]
    assert missing == []


def test_every_metric_is_described() -> None:
    assert all(f"`dustream_{name}" in PAGES["metrics.md"] for name in HELP)


def test_every_option_of_a_command_is_described() -> None:
    assert "| `--partition-map FILE` |" in PAGES["commands.md"]
    assert "### dustream rules export" in PAGES["commands.md"]


def test_the_settings_shown_are_the_defaults() -> None:
    shown = PAGES["settings.md"].split("```toml\n")[1].split("```")[0]
    values = tomllib.loads(shown)
    assert values.keys() == set(Settings.__struct_fields__)
    assert parse_settings(values) == Settings()


def test_fields_of_the_summary_are_those_of_a_run() -> None:
    from dustream.streams.job import RunSummary

    assert list(SUMMARY_FIELDS) == list(RunSummary.__struct_fields__)
