"""Workers that read for themselves: what they give together is what one reader gives, in order, after any crash."""

from __future__ import annotations

import gzip
import importlib
import io
import os
import signal
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from archives import ARC_HEADER, Page, arc_record, page, warc_record

from dustream.core.errors import UnreadableInput
from dustream.core.text.extractors import TextSource
from dustream.schemas.dead_letter import DeadLetter
from dustream.streams.engine.chunks import InputPlan, plan_inputs, read_chunks
from dustream.streams.engine.counts import added
from dustream.streams.engine.shared_reading import ReadRequest, SharedReading
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


def read_together(plans: list[InputPlan], jobs: int, field_map: dict[str, str] | None = None) -> Read:
    found = Read()
    with SharedReading(ReadRequest(plans, field_map or {}, SOURCE), jobs) as shared:
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


@pytest.mark.parametrize("jobs", [2, 3])
def test_shares_together_are_the_whole_input(tmp_path: Path, jobs: int) -> None:
    plans = plans_of(mixed_inputs(tmp_path))
    assert read_together(plans, jobs) == read_alone(plans)


def test_reading_goes_on_from_any_position(tmp_path: Path) -> None:
    plans = plans_of(mixed_inputs(tmp_path)[:1])
    for start in (1, STRIPE_RECORDS - 1, STRIPE_RECORDS, 300, RECORDS):
        rest = [plans[0]._replace(start=start)]
        assert read_together(rest, 2) == read_alone(rest)


def test_progress_after_each_chunk_is_exact(tmp_path: Path) -> None:
    """A run killed after any chunk goes on with the first record that was not processed."""
    plans = plans_of(mixed_inputs(tmp_path)[2:3])
    whole = read_alone(plans)
    with SharedReading(ReadRequest(plans, {}, SOURCE), 2) as shared:
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


def test_worker_that_is_killed_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers sign slowly, so that they have not ended when they are killed."""
    (tmp_path / "slow_pages.py").write_text(SLOW_WORKER)
    monkeypatch.syspath_prepend(tmp_path)
    sign = importlib.import_module("slow_pages").sign_slowly
    (tmp_path / "inputs").mkdir()
    plans = plans_of(mixed_inputs(tmp_path / "inputs"))
    found, killed = Read(), 0
    with SharedReading(ReadRequest(plans, {}, SOURCE, sign), 2) as shared:
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


def test_page_that_kills_its_worker_is_rejected_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hostile_pages.py").write_text(HOSTILE_WORKER)  # a module that workers can import
    monkeypatch.syspath_prepend(tmp_path)
    sign = importlib.import_module("hostile_pages").die_on_hostile_page
    pages = [page(number) for number in range(2 * STRIPE_RECORDS)]
    pages[5] = Page("http://a.de/hostile", b"<p>bye</p>")
    (tmp_path / "a.jsonl").write_bytes(b"".join(map(json_line, pages)))
    found = Read()
    with SharedReading(ReadRequest(plans_of([tmp_path / "a.jsonl"]), {}, SOURCE, sign), 2) as shared:
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
