"""docs/explanation/search.md states the miss probability that follows from the bands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dustream.core.tier2.bands import bands_for, miss_probability

DOCS = Path(__file__).parents[3] / "docs" / "explanation"
ROW = re.compile(r"\| ([\d.]+) \| (\d+) × (\d+) \| ([\d.]+)·10⁻⁵ \|")


def test_the_table_of_misses_is_that_of_the_bands() -> None:
    rows = ROW.findall((DOCS / "search.md").read_text())
    assert len(rows) == 6
    for tau, bands, band_rows, missed in rows:
        assert (int(bands), int(band_rows)) == bands_for(float(tau))
        assert miss_probability(float(tau), int(bands), int(band_rows)) * 1e5 == pytest.approx(float(missed), rel=0.01)


@pytest.mark.parametrize("name", ["architecture", "decisions", "partition-map", "protocol"])
def test_what_is_said_of_the_search_elsewhere_is_the_same(name: str) -> None:
    missed = miss_probability(0.9, *bands_for(0.9)) * 1e5
    [said] = re.findall(r"probability\s+([\d.]+)·10⁻⁵", (DOCS / f"{name}.md").read_text())
    assert float(said) == pytest.approx(missed, rel=0.01)
