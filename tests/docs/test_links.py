"""Relative links in the documentation lead to files, and to headings, that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)", re.M)
MENTION = re.compile(r"docs/[\w/-]+\.md")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in HEADING.findall(page.read_text())}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in LINK.findall(page.read_text()):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        path = page.parent / target if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_resolves(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title, here\n[a](page.md#a-title-here) [b](gone.md) [c](#none) [d](https://example.com/x)\n")
    assert broken_links(page) == ["gone.md", "#none"]


@pytest.mark.parametrize("folder", ["api", "core", "schemas", "streams", "bench", "tests", "examples"])
def test_pages_named_in_the_source_exist(folder: str) -> None:
    named = {
        (str(path.relative_to(ROOT)), page)
        for path in (ROOT / folder).rglob("*.py")
        for page in MENTION.findall(path.read_text())
    }
    assert {each for each in named if not (ROOT / each[1]).exists()} == set()
