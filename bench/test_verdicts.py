"""Verdicts are judged by the fetch that they are about."""

from __future__ import annotations

from pathlib import Path

import msgspec
import zstandard
from verdicts import Verdict, Visible

PAGE, OTHER = "https://a.example/page", "https://a.example/other"
ARTICLE = "<p>The harbour was closed for three days after the storm, and the ferries stayed in the bay.</p>"
STUB = "<p>This page has moved to a new address.</p>"


def fetches(path: Path) -> Path:
    """Of PAGE: an article, then a stub; the older fetch is last in the file."""
    rows = [
        {"url": OTHER, "t": "2020-01-01T00:00:00+00:00", "html": ARTICLE},
        {"url": PAGE, "t": "2020-01-03T00:00:00+00:00", "html": STUB},
        {"url": PAGE, "t": "2020-01-02T01:00:00+01:00", "html": ARTICLE},
        {"url": PAGE, "t": "2020-01-04T00:00:00+00:00", "status": 404},
    ]
    path.write_bytes(zstandard.compress(b"".join(msgspec.json.encode(row) + b"\n" for row in rows)))
    return path


def similarity(path: Path, fetched_ms: int) -> float:
    found = {PAGE: Verdict("near", OTHER, fetched_ms), OTHER: Verdict("kept", OTHER, 1577836800000)}
    return Visible(path, [found]).similarity(found, PAGE, OTHER)


def test_a_page_is_compared_as_it_was_in_the_fetch_of_its_verdict(tmp_path: Path) -> None:
    path = fetches(tmp_path / "pages.jsonl.zst")
    assert similarity(path, 1577923200000) == 1.0  # 2 January
    assert similarity(path, 1578009600000) == 0.0  # 3 January
