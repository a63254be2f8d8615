"""Tables in docs are those of bench/results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from result_files import ASKED, DOCS, FOLDER, Table, with_tables, write_result
from results_page import PAGE, read_sections, results_page


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_docs_have_the_tables_of_the_results(path: Path) -> None:
    assert with_tables(path.read_text()) == path.read_text(), "run: python bench/result_files.py"


def test_docs_ask_for_some() -> None:
    assert sum(len(ASKED.findall(path.read_text())) for path in DOCS.rglob("*.md")) >= 1


def test_a_result_names_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("result_files.FOLDER", tmp_path)
    path = write_result(
        "x", [Table("a title", ["map", "s"], [["ours", 1.25], ["theirs", 12_345]])], "python bench/x.py"
    )
    result = json.loads(path.read_text())
    assert result["command"] == "python bench/x.py" and result["commit"] and "cores" in result["machine"]
    asked = "before\n\n<!-- bench/results/x.json, table 1 -->\n\n| old |\n\nafter\n"
    shown = "| map | s |\n| --- | --- |\n| ours | 1.25 |\n| theirs | 12,345 |\n"
    assert with_tables(asked) == asked.replace("| old |\n", shown)
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]


def test_the_results_page_is_that_of_the_files() -> None:
    assert PAGE.read_text() == results_page(), "run: python bench/result_files.py"


def test_every_result_in_tables_is_on_the_page() -> None:
    shown = PAGE.read_text()
    for path in FOLDER.glob("*.json"):
        if "tables" in (result := json.loads(path.read_text())):
            assert f"`{result['command']}` at {result['commit']}" in shown


def test_sections_are_about_results_and_pictures_that_exist() -> None:
    for section in read_sections():
        assert (FOLDER / f"{section.name}.json").exists()
        assert all((DOCS / "img" / f"{picture}.svg").exists() for picture in section.pictures)
