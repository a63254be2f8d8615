"""A round of damaged inputs (`make fuzz` has 20,000), and hostile ones through a whole run."""

from __future__ import annotations

import json
from pathlib import Path

import fuzz
import pytest

from dustream.core.settings import Settings
from dustream.streams.job import RunRequest, run_job


@pytest.mark.parametrize("first", range(0, 1_000, 250))
def test_no_damage_costs_a_sound_record(first: int) -> None:
    assert sum(fuzz.run(first, 250).values()) == 250


def test_no_input_ends_a_run(tmp_path: Path) -> None:
    """Every hostile piece, in every place where a number or a name stands, in every format."""
    folder = tmp_path / "inputs"
    folder.mkdir()
    for number, kind in enumerate(fuzz.KINDS):
        sound = kind.record(fuzz.page(number))
        for at, piece in enumerate(fuzz.HOSTILE):
            for place in (b"148", b"200", b"http://a.de", b"text/html", b"word"):
                content = kind.compress(sound.replace(place, piece, 1))
                (folder / f"{number}-{at}-{place[:4].hex()}-{kind.name}").write_bytes(kind.head + content)
    (folder / "good.jsonl").write_bytes(fuzz.json_line(fuzz.page(77)))
    for state in (None, tmp_path / "state"):
        out = tmp_path / f"out-{state is None}"
        summary = run_job(RunRequest([str(folder)], out, state, Settings(partitions=2), jobs=1))
        urls = {json.loads(line)["url"] for line in (out / "status.jsonl").read_text().splitlines()}
        assert "http://a.de/77" in urls and summary.rejected > 100
