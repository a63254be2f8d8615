"""docs/howto/choose-winners.md describes every market field and criterion, and its example runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dustream.core.winners import CRITERIA, DEFAULT_CRITERIA, Market
from dustream.streams.cli.main import main

DOCS = Path(__file__).parents[3] / "docs" / "howto" / "choose-winners.md"
TEXT = " ".join(f"word{number}" for number in range(100))


@pytest.fixture(scope="module")
def example() -> str:
    [found] = re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    return str(found)


def table_rows(heading: str) -> dict[str, str]:
    """First column to last column of the table under a heading; several names may share a row."""
    section = DOCS.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {name: row[-1].strip() for row in rows for name in re.findall(r"`(\w+)`", row[0])}


def test_markets_and_criteria_are_all_described() -> None:
    assert table_rows("Markets").keys() == set(Market.__struct_fields__)
    places = table_rows("Criteria")
    assert places.keys() == CRITERIA.keys()
    ordered = sorted((int(place), name) for name, place in places.items() if place)
    assert tuple(name for _, name in ordered) == DEFAULT_CRITERIA


def test_the_example_runs(example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    urls = ("https://a.uk/page", "https://example.com/page", "https://other.example/page")
    events = [
        {"url": url, "fetched_at": f"2024-0{month}-01T00:00:00Z", "html": f"<p>{TEXT}"}
        for url, month in zip(urls, (3, 2, 1), strict=True)
    ]
    (tmp_path / "web.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (tmp_path / "dustream.toml").write_text(example)
    given = ["run", tmp_path / "web.jsonl", "--config", tmp_path / "dustream.toml", "--out", tmp_path / "out"]
    assert main([*map(str, given), "--jobs", "1", "--quiet"]) == 0
    assert (tmp_path / "out" / "keep.txt").read_text() == "https://example.com/page\n"
    for market, winner in (("default", urls[1]), ("uk", urls[0]), ("eldest", urls[2])):
        capsys.readouterr()
        assert main(["groups", "--state", str(tmp_path / "out"), "--market", market, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["winners"] == [winner]


def test_a_preference_without_effect_is_refused_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "dustream.toml"
    config.write_text('[[markets]]\npreferred_tlds = ["uk"]\n')
    assert main(["run", str(config), "--config", str(config), "--out", str(tmp_path / "out")]) == 2
    assert "preferred_tlds has no effect, because preferred_tld is not among the criteria" in capsys.readouterr().err
