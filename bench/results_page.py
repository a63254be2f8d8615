"""docs/results.md: every table of bench/results on one page, with its command, commit and machine.

`python bench/result_files.py` writes it. results_sections.toml says what was measured, and what of a paper did not
reproduce; a result without a section stands at the end under its own name.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from result_files import DOCS, FOLDER, Table

PAGE = DOCS / "results.md"
SECTIONS = Path(__file__).resolve().parent / "results_sections.toml"

INTRODUCTION = """\
# Results

<!-- Written by `python bench/result_files.py` from bench/results/*.json. Edit results_sections.toml instead. -->

Each section names the command, the commit (+: with local changes) and the machine. Times are processor time unless a
table says otherwise; ratios within one run mean more than absolute times. `DUSTREAM_DATA` names the folder of real
pages.
"""


class Section(NamedTuple):
    """What stands beside the tables of one result file."""

    name: str
    heading: str
    about: str
    not_reproduced: str = ""
    pictures: Sequence[str] = ()
    """In docs/img, without .svg."""


def read_sections() -> list[Section]:
    return [Section(**each) for each in tomllib.loads(SECTIONS.read_text())["section"]]


def results_page() -> str:
    parts = [INTRODUCTION]
    results = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
    sections = read_sections()
    listed = {section.name for section in sections}
    others = [Section(name, name, "") for name in results if name not in listed]
    for section in (*sections, *others):
        if "tables" in results.get(section.name, {}):
            parts.append(_section(section, results[section.name]))
    return "\n".join(parts)


def _section(section: Section, result: dict[str, Any]) -> str:
    where = f"`{result['command']}` at {result['commit']}, on {result['machine']}."
    parts = [f"## {section.heading}\n", where + "\n"]
    parts += [f"{section.about}\n"] if section.about else []
    parts += [f"**Not reproduced.** {section.not_reproduced}\n"] if section.not_reproduced else []
    for table in (Table(**each) for each in result["tables"]):
        title = table.title[:1].upper() + table.title[1:] if table.title[:1].isascii() else table.title
        parts.append(f"**{title}**\n\n{table.markdown()}\n")
    parts += [f"![{picture}](img/{picture}.svg)\n" for picture in section.pictures]
    return "\n".join(parts)


def write_page() -> bool:
    """Whether the page was out of date."""
    text = results_page()
    if PAGE.exists() and PAGE.read_text() == text:
        return False
    PAGE.write_text(text)
    return True
