"""Parquet tables."""

from __future__ import annotations

from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dustream.core.errors import BadSetting, UnreadableInput
from dustream.core.events import parse_time_ms
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.readers import Item, Record, Rejection, open_input


def write(path: Path, columns: dict[str, object], **options: object) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


def read(path: Path, start: int = 0, **options: object) -> list[Item]:
    with open_input(str(path), **options) as opened:  # type: ignore[arg-type]
        return list(opened.start_at(start))


def test_columns_are_fields(tmp_path: Path) -> None:
    columns = {
        "url": ["http://a.de/1", "http://a.de/2"],
        "html": ["<p>x", None],
        "status": pa.array([200, 404], pa.int16()),
        "other": [{"a": 1}, None],
        "popularity": [0.5, None],
    }
    items = read(write(tmp_path / "x", columns))
    assert [item.event for item in items] == [
        CrawlEvent(url="http://a.de/1", html="<p>x", popularity=0.5),
        CrawlEvent(url="http://a.de/2", status=404),
    ]
    assert [item.position for item in items] == [0, 1]


MOMENT = datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([MOMENT], pa.timestamp("ms", tz="Europe/Berlin")),
        pa.array([MOMENT.replace(tzinfo=None)], pa.timestamp("us")),
        pa.array([MOMENT.isoformat()]),
        pa.array([MOMENT.timestamp()]),
    ],
)
def test_times_of_all_types(tmp_path: Path, column: pa.Array) -> None:
    [item] = read(write(tmp_path / "x", {"url": ["http://a.de/"], "fetched_at": column}))
    assert parse_time_ms(item.event.fetched_at) == 1_714_564_800_250


def test_other_arrow_types(tmp_path: Path) -> None:
    columns = {
        "url": pa.array(["http://a.de/"]).dictionary_encode(),
        "html": pa.array([b"<p>\xe4"], pa.binary()),
        "lang": pa.array([b"de"], pa.large_binary()),
    }
    [item] = read(write(tmp_path / "x", columns))
    assert item.event == CrawlEvent(url="http://a.de/", body=b"<p>\xe4", lang="de")


def test_field_map(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {"link": ["http://a.de/"], "fetch_time": [5], "url": [7]})
    [item] = read(path, field_map={"url": "link", "fetched_at": "fetch_time"})
    assert item.event == CrawlEvent(url="http://a.de/", fetched_at=5)
    with pytest.raises(BadSetting, match="both be read from link"):
        read(path, field_map={"url": "link", "text": "link"})


def test_bad_rows_are_rejected_and_their_neighbours_are_unharmed(tmp_path: Path) -> None:
    columns = {"url": ["http://a.de/1", None, " ", "http://a.de/4", "http://a.de/5"], "v": [1, 1, 1, 2, 1]}
    items = read(write(tmp_path / "x", columns))
    assert [item.event.url for item in items if isinstance(item, Record)] == ["http://a.de/1", "http://a.de/5"]
    rejected = [(item.position, item.reason) for item in items if isinstance(item, Rejection)]
    assert [position for position, _ in rejected] == [1, 2, 3]
    assert rejected[0][1] == rejected[1][1] == "no URL"
    assert "schema version 2" in rejected[2][1]


def test_rejected_row_is_kept_as_json(tmp_path: Path) -> None:
    columns = {"url": ["http://a.de/"], "html": [b"<p>\xe4"], "fetched_at": [MOMENT], "status": ["200"]}
    [item] = read(write(tmp_path / "x", columns))
    assert isinstance(item, Rejection)
    kept = msgspec.json.decode(item.original)
    assert kept["url"] == "http://a.de/" and kept["status"] == "200" and b64decode(kept["html"]) == b"<p>\xe4"
    assert item.original_size == len(item.original)


def test_a_column_of_the_wrong_type_rejects_its_rows(tmp_path: Path) -> None:
    [item] = read(write(tmp_path / "x", {"url": ["http://a.de/"], "status": ["200"]}))
    assert isinstance(item, Rejection)
    assert "status" in item.reason


@pytest.mark.parametrize("start", [0, 1, 99, 100, 250, 999, 1000, 5000])
def test_reading_starts_at_a_position(tmp_path: Path, start: int) -> None:
    urls = [f"http://a.de/{number}" for number in range(1000)]
    items = read(write(tmp_path / "x", {"url": urls}, row_group_size=100), start)
    assert [item.event.url for item in items] == urls[start:]
    assert [item.position for item in items] == list(range(start, 1000))


def test_a_damaged_row_group_costs_its_rows_only(tmp_path: Path) -> None:
    urls = [f"http://a.de/{number:05}" for number in range(3000)]
    path = write(tmp_path / "x", {"url": urls}, row_group_size=1000, compression="zstd", use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    # The head of the zstd frame: damage further on may decompress to other text, as pages have no checksum.
    frame = content.index(b"\x28\xb5\x2f\xfd", column.data_page_offset)
    content[frame : frame + 40] = bytes(40)
    path.write_bytes(content)
    items = read(path)
    assert [item.event.url for item in items if isinstance(item, Record)] == urls[:1000] + urls[2000:]
    [rejection] = [item for item in items if isinstance(item, Rejection)]
    assert rejection.position == 1000
    assert "rows 1000 to 1999 are lost" in rejection.reason


@pytest.mark.parametrize("keep", [4, 20, 200])
def test_a_truncated_file_is_refused_by_name(tmp_path: Path, keep: int) -> None:
    path = write(tmp_path / "short.parquet", {"url": ["http://a.de/"] * 100})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UnreadableInput, match=r"short\.parquet: Parquet without a readable footer"):
        read(path)


def test_a_table_without_urls_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"columns: link, x\); name it with --map url=COLUMN"):
        read(write(tmp_path / "x", {"link": ["http://a.de/"], "x": [1]}))


def test_progress(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {"url": ["http://a.de/"] * 1000}, row_group_size=100)
    with open_input(str(path)) as opened:
        seen = [opened.bytes_read for _ in opened]
        assert seen == sorted(seen)
        assert seen[0] < seen[500] < opened.bytes_read == opened.bytes_total == path.stat().st_size
