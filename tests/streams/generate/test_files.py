"""Files of a generated web: complete or absent, the same content in every format."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dustream.core.errors import BadSetting
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.generate import PageTruth, TruthHeader, files, generate, read_lines, truth, truth_path, write


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_what_is_written_is_what_is_generated(tmp_path: Path, ending: str) -> None:
    out = tmp_path / "deep" / f"web{ending}"
    written = write(150, 4, out, markup_bytes=1_000)
    assert sorted(path.name for path in out.parent.iterdir()) == sorted([out.name, f"web.truth{ending}"])
    events = [msgspec.json.decode(line, type=CrawlEvent) for line in read_lines(out)]
    assert events == list(generate(150, 4, markup_bytes=1_000))
    header, *pages = read_lines(written.truth)
    assert [msgspec.json.decode(line, type=PageTruth) for line in pages] == list(truth(150, 4))
    assert msgspec.json.decode(header, type=TruthHeader) == written.header


def test_header_counts_the_web(tmp_path: Path) -> None:
    header = write(5_000, 4, tmp_path / "web.jsonl", markup_bytes=1_000).header
    pages = list(truth(5_000, 4))
    assert header.pages == sum(header.roles.values()) == sum(header.families.values()) == 5_000
    assert header.events == sum(1 for _ in read_lines(tmp_path / "web.jsonl"))
    assert header.rules["session"] == sum(page.rule == "session" for page in pages)
    sizes: dict[str | None, int] = {}
    for page in pages:
        if page.role == "content" and not page.grey:
            sizes[page.cluster] = sizes.get(page.cluster, 0) + 1
    assert header.clusters == sum(size > 1 for size in sizes.values())


def test_the_same_web_gives_the_same_compressed_file(tmp_path: Path) -> None:
    for ending in (".jsonl.gz", ".jsonl.zst"):
        first, second = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
        write(60, 1, first, markup_bytes=1_000)
        write(60, 1, second, markup_bytes=1_000)
        assert first.read_bytes() == second.read_bytes()


def test_a_failed_write_leaves_nothing_and_keeps_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "web.jsonl"
    out.write_bytes(b"before")

    def broken_events(block):
        yield from list(generate(20, 1, markup_bytes=1_000))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "events", broken_events)
    with pytest.raises(OSError, match="No space"):
        write(150, 4, out)
    assert [path.name for path in tmp_path.iterdir()] == ["web.jsonl"]
    assert out.read_bytes() == b"before"


@pytest.mark.parametrize("name", ["web.json", "web", ".jsonl", "web.jsonl.bz2"])
def test_unknown_endings_are_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadSetting, match="must end in"):
        write(10, 1, tmp_path / "new" / name)
    assert not (tmp_path / "new").exists()


def test_truth_stands_beside_the_events() -> None:
    assert truth_path(Path("a/web.jsonl.zst")) == Path("a/web.truth.jsonl.zst")
