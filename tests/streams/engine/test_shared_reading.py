"""Workers that read for themselves: what they give together is what one reader gives, in order, after any crash."""

from __future__ import annotations

import gzip
import importlib
import io
import os
import random
import signal
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from archives import ARC_HEADER, Page, arc_record, page, warc_record

from dustream.core.errors import UnreadableInput
from dustream.core.text.extractors import TextSource
from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.engine.chunks import InputPlan, plan_inputs, read_chunks
from dustream.streams.engine.counts import added
from dustream.streams.engine.shared_reading import NICENESS, SEGMENT_BYTES, ReadRequest, SharedReading
from dustream.streams.engine.signing import CRASHED, SignedChunk, sign_chunks
from dustream.streams.readers import STRIPE_RECORDS, Share, open_input
from dustream.streams.store.memory import MemoryStore

SOURCE = TextSource()
RECORDS = 5 * STRIPE_RECORDS + 17


class Read(msgspec.Struct):
    """What a run takes from its inputs, in order."""

    crawls: list[tuple[str, str]] = []
    letters: list[DeadLetter] = []
    skipped: dict[str, int] = {}
    refused: list[str] = []
    notices: list[str] = []
    ends: list[tuple[str, int]] = []

    def add(self, signed: SignedChunk) -> None:
        place, intake = signed.chunk.place, signed.intake
        self.crawls += [
            (crawl.url, place.origin(index)) for crawl, index in zip(intake.crawls, intake.indexes, strict=True)
        ]
        self.letters += [rejected.letter for rejected in place.rejections]
        self.letters += [
            DeadLetter(source=place.path, position=place.positions[each.index][0], reason=each.reason)
            for each in intake.rejected
        ]
        self.letters.sort(key=lambda letter: (letter.source, letter.position))
        self.skipped = added(self.skipped, place.skipped)
        if place.progress.done:
            self.ends.append((place.path, place.progress.position))


def plans_of(paths: list[Path]) -> list[InputPlan]:
    return plan_inputs(map(str, paths), MemoryStore())


def read_alone(plans: list[InputPlan], field_map: dict[str, str] | None = None) -> Read:
    found = Read()
    chunks = read_chunks(
        plans,
        field_map or {},
        lambda path, error: found.refused.append(str(error)),
        lambda path, notice: found.notices.append(notice),
    )
    for signed in sign_chunks(chunks, 1, SOURCE):
        found.add(signed)
    return found


def read_together(
    plans: list[InputPlan],
    jobs: int,
    field_map: dict[str, str] | None = None,
    *,
    segment_bytes: int = SEGMENT_BYTES,
) -> Read:
    found = Read()
    with SharedReading(ReadRequest(plans, field_map or {}, SOURCE, segment_bytes=segment_bytes), jobs) as shared:
        for signed in shared.chunks(
            lambda path, error: found.refused.append(str(error)), lambda path, notice: found.notices.append(notice)
        ):
            found.add(signed)
    return found


def json_line(page: Page) -> bytes:
    return msgspec.json.encode({"url": page.url, "html": page.body.decode()}) + b"\n"


def request_record(number: int) -> bytes:
    block = b"GET / HTTP/1.1\r\n\r\n"
    head = f"WARC/1.0\r\nWARC-Type: request\r\nWARC-Target-URI: http://a.de/{number}\r\nContent-Length: {len(block)}"
    return head.encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


def mixed_inputs(folder: Path) -> list[Path]:
    """Every format, with records that are rejected and others that are skipped; some shorter than a stripe."""
    pages = [page(number) for number in range(RECORDS)]
    lines = [json_line(each) for each in pages]
    lines[3], lines[STRIPE_RECORDS], lines[-1] = b"{broken\n", b"\n", b'{"url": "relative", "html": "x"}\n'
    warc = [warc_record(each) for each in pages]
    for number in (*range(STRIPE_RECORDS, 2 * STRIPE_RECORDS), RECORDS - 1):  # a whole stripe, and the last record
        warc[number] = request_record(number)
    parquet, package = io.BytesIO(), io.BytesIO()
    table = pa.table({"url": [each.url for each in pages[:-1]] + [""], "html": [each.body for each in pages]})
    pq.write_table(table, parquet, row_group_size=200)
    with zipfile.ZipFile(package, "w") as zipped:
        zipped.writestr("archive/a.warc.gz", gzip.compress(b"".join(warc[:200])))
        zipped.writestr("archive/b.warc", b"".join(warc[200:]))
    contents = {
        "a.jsonl": b"".join(lines),
        "b.jsonl.gz": gzip.compress(b"".join(lines[:50]))[:-20],  # cut off
        "c.warc.gz": b"".join(map(gzip.compress, warc)),
        "d.arc": ARC_HEADER + b"".join(map(arc_record, pages)),
        "e.parquet": parquet.getvalue(),
        "f.wacz": package.getvalue(),
        "g.pdf": b"%PDF-1.4 no page of a crawl",
        "h.jsonl": b"".join(lines[:3]),
        "i.jsonl": b"",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


def test_inputs_whose_records_can_be_found_from_any_byte_on_are_divided(tmp_path: Path) -> None:
    records = [warc_record(page(number)) for number in range(20)]
    contents = {
        "plain.warc": (b"".join(records), True),
        "members.warc.gz": (b"".join(map(gzip.compress, records)), True),
        "frames.warc.zst": (b"".join(map(zstandard.compress, records)), True),
        "whole.warc.gz": (gzip.compress(b"".join(records)), False),
        "pairs.warc.gz": (b"".join(gzip.compress(b"".join(records[at : at + 2])) for at in range(0, 20, 2)), False),
        "lines.jsonl": (b"".join(json_line(page(number)) for number in range(20)), True),
        "lines.jsonl.gz": (gzip.compress(b"".join(json_line(page(number)) for number in range(20))), False),
    }
    for name, (content, is_divisible) in contents.items():
        (tmp_path / name).write_bytes(content)
        with open_input(str(tmp_path / name)) as opened:
            assert opened.is_divisible() == is_divisible, name
    with open_input(str(tmp_path / "lines.jsonl"), field_map={"popularity": "rank"}) as opened:
        assert not opened.is_divisible()  # the first lines of the input show whether the map fits


@pytest.mark.parametrize("segment_bytes", [29, 90, 101, 1_000, 40_000])
def test_segments_of_lines_are_read_as_by_one_reader(tmp_path: Path, segment_bytes: int) -> None:
    """A mark at the beginning, blank lines, a line as long as many segments, and no line feed at the end; at 101 bytes
    every other line ends where a segment does."""
    even = [json_line(Page(f"http://a.de/{number:03d}", b"words " * 11)) for number in range(20)]
    even = [line[:-1].ljust(100) + b"\n" for line in even]
    large = json_line(Page("http://a.de/large", b"<p>" + b"many words " * 9_000 + b"</p>"))
    odd = [b"\xef\xbb\xbf" + even[0], b"\n \n", large, *even[1:9], b"{broken\r\n", b"\n" * 300, even[9][:-1]]
    paths = [tmp_path / "even.jsonl", tmp_path / "odd.jsonl", tmp_path / "cut.jsonl"]
    for path, lines in zip(paths, (even, odd, [*even, even[0][:50]]), strict=True):
        path.write_bytes(b"".join(lines))
    plans = plans_of(paths)
    alone = read_alone(plans)
    assert read_together(plans, 2, segment_bytes=segment_bytes) == alone
    assert len(alone.crawls) == 20 + 11 + 20 and len(alone.letters) == 2


@pytest.mark.parametrize(("jobs", "segment_bytes"), [(2, 700), (2, 50_000), (3, 4_000)])
def test_segments_together_are_the_whole_input(tmp_path: Path, jobs: int, segment_bytes: int) -> None:
    plans = plans_of([*mixed_inputs(tmp_path), *odd_archives(tmp_path)])
    assert read_together(plans, jobs, segment_bytes=segment_bytes) == read_alone(plans)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))])
def test_segments_of_damaged_archives_are_read_as_by_one_reader(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    paths = [path for path in [*mixed_inputs(tmp_path), *odd_archives(tmp_path)] if "arc" in path.name]
    for path in paths:
        content = bytearray(path.read_bytes())
        for _ in range(3):
            at = draw.randrange(len(content) // 4, len(content))
            if draw.random() < 0.5:
                content[at] ^= 0xFF
            else:
                del content[at : at + draw.randrange(1, 300)]
        path.write_bytes(content)
    plans = plans_of(paths)
    assert read_together(plans, 2, segment_bytes=draw.choice([500, 3_000, 20_000])) == read_alone(plans)


def odd_archives(folder: Path) -> list[Path]:
    """An archive inside a record, stored without compression, so that its members look like those of the outer one;
    records that share members with others; a record as long as many segments; and line ends between members."""
    inner = b"".join(gzip.compress(warc_record(page(number))) for number in range(1_000, 1_100))
    package = http_record("http://a.de/inner.warc.gz", "application/gzip", inner)
    large = warc_record(Page("http://a.de/large", b"<p>" + b"many words " * 20_000 + b"</p>"))
    records = [warc_record(page(number)) for number in range(2_000, 2_100)]
    members = [*map(gzip.compress, records[:20]), gzip.compress(package, 0), *map(gzip.compress, records[20:40])]
    members += [gzip.compress(b"".join(records[40:60])), gzip.compress(large, 0), *map(gzip.compress, records[60:])]
    contents = {
        "j.warc.gz": b"".join(members),
        "k.warc": b"".join([*records[:9], package, *records[9:20], large, *records[20:]]),
        "l.warc.gz": b"\r\n".join(members) + b"\0" * 600,
        "m.arc.gz": gzip.compress(ARC_HEADER) + b"".join(gzip.compress(arc_record(page(at))) for at in range(90)),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


def http_record(url: str, content_type: str, body: bytes) -> bytes:
    block = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nContent-Length: {len(block)}\r\n\r\n"
    return head.encode() + block + b"\r\n\r\n"


@pytest.mark.parametrize("jobs", [2, 3])
def test_shares_together_are_the_whole_input(tmp_path: Path, jobs: int) -> None:
    plans = plans_of(mixed_inputs(tmp_path))
    assert read_together(plans, jobs) == read_alone(plans)


def test_reading_goes_on_from_any_position(tmp_path: Path) -> None:
    plans = plans_of(mixed_inputs(tmp_path)[:1])
    for start in (1, STRIPE_RECORDS - 1, STRIPE_RECORDS, 300, RECORDS):
        rest = [plans[0]._replace(start=start)]
        assert read_together(rest, 2) == read_alone(rest)


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("segment_bytes", [9_000, SEGMENT_BYTES])
def test_progress_after_each_chunk_is_exact(tmp_path: Path, segment_bytes: int, number: int) -> None:
    """A run killed after any chunk goes on with the first record that was not processed."""
    plans = plans_of(mixed_inputs(tmp_path)[number : number + 1])
    whole = read_alone(plans)
    with SharedReading(ReadRequest(plans, {}, SOURCE, segment_bytes=segment_bytes), 2) as shared:
        chunks = list(shared.chunks(_no_refusal, _no_notice))
    before = Read()
    for chunk in chunks[:-1]:
        before.add(chunk)
        rest = read_alone([plans[0]._replace(start=chunk.chunk.place.progress.position)])
        assert before.crawls + rest.crawls == whole.crawls
        assert added(before.skipped, rest.skipped) == whole.skipped


def test_notice_of_a_map_that_fits_nothing_comes_once(tmp_path: Path) -> None:
    plans = plans_of(mixed_inputs(tmp_path)[:1])
    field_map = {"popularity": "rank"}
    found = read_together(plans, 2, field_map)
    assert found == read_alone(plans, field_map)
    assert len(found.notices) == 1


SLOW_WORKER = """
import time
from dustream.core.intake import take_in

def sign_slowly(pages, source):
    time.sleep(0.05)
    return take_in(pages, source)
"""


@pytest.mark.parametrize("segment_bytes", [9_000, SEGMENT_BYTES])
def test_worker_that_is_killed_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segment_bytes: int) -> None:
    """Workers sign slowly, so that they have not ended when they are killed."""
    (tmp_path / "slow_pages.py").write_text(SLOW_WORKER)
    monkeypatch.syspath_prepend(tmp_path)
    sign = importlib.import_module("slow_pages").sign_slowly
    (tmp_path / "inputs").mkdir()
    plans = plans_of(mixed_inputs(tmp_path / "inputs"))
    found, killed = Read(), 0
    with SharedReading(ReadRequest(plans, {}, SOURCE, sign, segment_bytes), 2) as shared:
        chunks = shared.chunks(lambda path, error: found.refused.append(str(error)), _no_notice)
        for number, signed in enumerate(chunks):
            found.add(signed)
            if number in (1, 4, 9):
                with suppress(ProcessLookupError):
                    os.kill(shared.worker_pids[number % 2], signal.SIGKILL)
                    killed += 1
    assert found == read_alone(plans)
    assert killed


HOSTILE_WORKER = """
import os, signal
from dustream.core.intake import take_in

def die_on_hostile_page(pages, source):
    if any("hostile" in page.url for page in pages):
        os.kill(os.getpid(), signal.SIGSEGV)
    return take_in(pages, source)
"""


@pytest.mark.parametrize("form", ["jsonl", "warc"])
def test_page_that_kills_its_worker_is_rejected_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    (tmp_path / "hostile_pages.py").write_text(HOSTILE_WORKER)  # a module that workers can import
    monkeypatch.syspath_prepend(tmp_path)
    sign = importlib.import_module("hostile_pages").die_on_hostile_page
    pages = [page(number) for number in range(2 * STRIPE_RECORDS)]
    pages[5] = Page("http://a.de/hostile", b"<p>bye</p>")
    path = tmp_path / f"a.{form}"
    path.write_bytes(b"".join(map(json_line if form == "jsonl" else warc_record, pages)))
    found = Read()
    with SharedReading(ReadRequest(plans_of([path]), {}, SOURCE, sign, segment_bytes=3_000), 2) as shared:
        for signed in shared.chunks(_no_refusal, _no_notice):
            found.add(signed)
    assert [url for url, _ in found.crawls] == [each.url for each in pages if "hostile" not in each.url]
    assert [(letter.position, letter.reason) for letter in found.letters] == [(5, CRASHED)]


FAILING_WORKER = """
class Lost(Exception):
    def __init__(self, name, *, module):
        super().__init__(f"{name} in {module}")

def fail(pages, source):
    raise {error}
"""


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        ("ImportError('no module named lost')", ImportError, "no module named lost"),
        ("Lost('a', module='b')", RuntimeError, "Lost: a in b"),  # cannot be unpickled
    ],
)
def test_error_that_no_page_caused_is_raised_in_the_parent(
    error: str, expected: type[Exception], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_pages.py").write_text(FAILING_WORKER.replace("{error}", error))
    monkeypatch.delitem(sys.modules, "failing_pages", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    sign = importlib.import_module("failing_pages").fail
    (tmp_path / "a.jsonl").write_bytes(json_line(page(0)))
    request = ReadRequest(plans_of([tmp_path / "a.jsonl"]), {}, SOURCE, sign)
    with SharedReading(request, 2) as shared, pytest.raises(expected, match=words):
        list(shared.chunks(_no_refusal, _no_notice))


NICE_WORKER = """
import os

def say(pages, source):
    raise RuntimeError(f"niceness {os.nice(0)}")
"""


def test_workers_give_way_to_the_processes_that_need_what_they_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nice_pages.py").write_text(NICE_WORKER)
    monkeypatch.delitem(sys.modules, "nice_pages", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    sign = importlib.import_module("nice_pages").say
    (tmp_path / "a.jsonl").write_bytes(json_line(page(0)))
    request = ReadRequest(plans_of([tmp_path / "a.jsonl"]), {}, SOURCE, sign)
    expected = min(os.nice(0) + NICENESS, 19)
    with SharedReading(request, 2) as shared, pytest.raises(RuntimeError, match=f"niceness {expected}$"):
        list(shared.chunks(_no_refusal, _no_notice))


def test_shares_split_every_position_among_the_readers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(json_line(page(number)) for number in range(RECORDS)))
    seen: list[int] = []
    for reader in range(3):
        with open_input(str(path)) as opened:
            opened.share = Share(reader, 3)
            seen += [item.position for item in opened]
    assert sorted(seen) == list(range(RECORDS))


def _no_refusal(path: str, error: UnreadableInput) -> None:
    raise AssertionError(f"{path}: {error}")


def _no_notice(path: str, notice: str) -> None:
    raise AssertionError(f"{path}: {notice}")
