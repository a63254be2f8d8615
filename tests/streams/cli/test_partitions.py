"""`dustream partitions` from input to map, numbers and picture."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from dustream.core.errors import BadSetting, UnreadableInput
from dustream.core.partitioning import tie_of
from dustream.core.text.signature import sign
from dustream.core.tier2.partition_map import map_from_bytes, map_id
from dustream.streams.cli import partitions
from dustream.streams.page_sample import sample_pages, sample_rank


def write_pages(path: Path, count: int, backwards: bool = False) -> Path:
    """Pages of four topics, and one page with no text at all."""
    draws = np.random.default_rng(11)
    events = [{"url": "http://example.com/empty", "fetched_at": 5, "text": ""}]
    for at in range(count - 1):
        words = draws.integers(0, 60, int(draws.integers(20, 120))) + 1000 * (at % 4)
        text = " ".join(f"word{word}" for word in words.tolist())
        events.append({"url": f"http://example.com/{at}", "fetched_at": at + 10, "text": text})
    lines = [json.dumps(event) + "\n" for event in events]
    path.write_text("".join(reversed(lines) if backwards else lines))
    return path


def run(*words: str | Path) -> int:
    parser = argparse.ArgumentParser()
    partitions.add_parser(parser.add_subparsers())
    args = parser.parse_args(["partitions", *(str(word) for word in words)])
    code: int = args.run(args)
    return code


def test_numbers_map_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = write_pages(tmp_path / "pages.jsonl", 120)
    stored, picture = tmp_path / "map.bin", tmp_path / "map.svg"
    assert run(pages, "--partitions", "8", "--out", stored, "--picture", picture, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    partition_map = map_from_bytes(stored.read_bytes())
    assert report["map"] == map_id(partition_map)
    assert sum(report["load"]) == report["sample_pages"] == 120
    assert report["imbalance_factor"] == pytest.approx(max(report["load"]) / 15) and report["imbalance_factor"] <= 1.5
    assert report["contacts_mean"] == pytest.approx(sum(report["visits"]) / 120)
    titles = [one.text for one in ElementTree.fromstring(picture.read_text()).iter("{http://www.w3.org/2000/svg}title")]
    assert [str(load) for load in report["load"]] == titles[-8:]


def test_intervals_and_packing_are_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = write_pages(tmp_path / "pages.jsonl", 300)
    maps = set()
    for options in (["--intervals", "4"], ["--intervals", "8"], ["--intervals", "8", "--packing", "spread"]):
        assert run(pages, "--partitions", "8", "--kind", "zhu3", *options, "--json") == 0
        maps.add(json.loads(capsys.readouterr().out)["map"])
    assert len(maps) == 3


@pytest.mark.parametrize("kind", ["ours", "zhu1", "zhu2", "zhu3"])
def test_every_kind_prints_its_balance(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    pages = write_pages(tmp_path / "pages.jsonl", 60)
    assert run(pages, "--partitions", "4", "--kind", kind, "--picture", tmp_path / "p.svg", "--describe") == 0
    printed = capsys.readouterr().out
    assert "imbalance factor" in printed and "partitions contacted per page" in printed and "4 partitions" in printed
    ElementTree.fromstring((tmp_path / "p.svg").read_text())


def test_the_sample_does_not_depend_on_order(tmp_path: Path) -> None:
    forwards = sample_pages([str(write_pages(tmp_path / "one.jsonl", 90))], 40)
    backwards = sample_pages([str(write_pages(tmp_path / "other.jsonl", 90, backwards=True))], 40)
    assert len(forwards.batch) == len(backwards.batch) == 40
    assert forwards.read == backwards.read == 90
    assert np.array_equal(forwards.batch.shingles, backwards.batch.shingles)
    assert np.array_equal(forwards.batch.tie, backwards.batch.tie)


@pytest.mark.parametrize("backwards", [False, True])
def test_pages_passed_over_unread_are_those_not_in_the_sample(tmp_path: Path, backwards: bool) -> None:
    """Against choosing among all pages once all are read."""
    path = write_pages(tmp_path / "pages.jsonl", 700, backwards)
    texts = {line["url"]: line["text"] for line in map(json.loads, path.read_text().splitlines())}
    lowest = sorted(sorted(texts, key=sample_rank)[:50])
    sample = sample_pages([str(path)], 50)
    assert sample.batch.tie.tolist() == [tie_of(url) for url in lowest]
    assert sample.batch.shingles.tobytes() == b"".join(sign(texts[url]).shingles for url in lowest)
    assert sample.read == 700 and 300 < sample.passed_over < 650


def test_what_is_wrong_with_a_record_is_counted_also_once_the_sample_is_full(tmp_path: Path) -> None:
    path = write_pages(tmp_path / "pages.jsonl", 300)
    with path.open("a") as file:
        file.write('{"url": "no url", "fetched_at": 5, "text": "words"}\nnot json\n')
    sample = sample_pages([str(path)], 5)
    assert (len(sample.batch), sample.read, sample.unusable) == (5, 302, 2)


def test_the_last_version_of_a_page_is_taken(tmp_path: Path) -> None:
    versions = [(7, "old words here"), (9, "some new words are here"), (8, "late")]
    lines = [json.dumps({"url": "http://example.com/", "fetched_at": at, "text": text}) for at, text in versions]
    (tmp_path / "pages.jsonl").write_text("\n".join(lines))
    assert sample_pages([str(tmp_path / "pages.jsonl")], 10).batch.length.tolist() == [5]


def test_what_cannot_be_done(tmp_path: Path) -> None:
    pages = write_pages(tmp_path / "pages.jsonl", 20)
    for words, complaint in (
        (["--tau", "1"], "between 0 and 1"),
        (["--partitions", "0"], "use a number"),
        (["--sample", "0"], "--sample 0"),
        (["--partitions", "64"], "too few"),
        (["--out", str(tmp_path / "no" / "map.bin"), "--partitions", "2"], "cannot be written"),
    ):
        with pytest.raises(BadSetting, match=complaint):
            run(pages, *words)
    with pytest.raises(UnreadableInput):
        run(tmp_path / "missing.jsonl")
    (tmp_path / "gone.jsonl").write_text('{"url": "http://example.com/", "fetched_at": 5, "status": 404}\n')
    with pytest.raises(BadSetting, match="no page with content"):
        run(tmp_path / "gone.jsonl")
