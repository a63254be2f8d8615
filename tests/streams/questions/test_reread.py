"""Texts are read again from wherever a run had read them, and are the texts it had compared."""

from __future__ import annotations

import gzip
import json
from io import BytesIO
from pathlib import Path

import pytest
import zstandard
from planted_pages import CHAIN, OTHERS, event, prose, write_events
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

B = "https://b.example/chain?middle=1"
EVENTS = [*OTHERS[:2], *CHAIN, *OTHERS[2:4]]


def jsonl(folder: Path) -> Path:
    return write_events(folder / "web.jsonl", EVENTS)


def jsonl_gz(folder: Path) -> Path:
    path = folder / "web.jsonl.gz"
    path.write_bytes(gzip.compress(jsonl(folder).read_bytes()))
    return path


def jsonl_zst(folder: Path) -> Path:
    path = folder / "web.jsonl.zst"
    path.write_bytes(zstandard.compress(jsonl(folder).read_bytes()))
    return path


def warc(folder: Path, *, record_by_record: bool = True) -> Path:
    path = folder / "web.warc.gz"
    stored = BytesIO()
    writer = WARCWriter(stored, gzip=record_by_record)
    for each in EVENTS:
        headers = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
        record = writer.create_warc_record(
            str(each["url"]),
            "response",
            payload=BytesIO(str(each.get("html", "")).encode()),
            http_headers=headers,
            warc_headers_dict={"WARC-Date": str(each["fetched_at"])},
        )
        writer.write_record(record)
    path.write_bytes(stored.getvalue() if record_by_record else gzip.compress(stored.getvalue()))
    return path


def warc_as_a_whole(folder: Path) -> Path:
    return warc(folder, record_by_record=False)


def parquet(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "web.parquet"
    columns = {name: [each.get(name) for each in EVENTS] for name in ("url", "fetched_at", "html")}
    pq.write_table(pa.table(columns), path, row_group_size=3)
    return path


@pytest.mark.parametrize("write", [jsonl, jsonl_gz, jsonl_zst, warc, warc_as_a_whole, parquet])
def test_texts_come_back_from_every_kind_of_file(write, ask, tmp_path: Path) -> None:
    given = write(tmp_path)
    assert ask("run", given, "--out", tmp_path / "out", "--jobs", 1, "--quiet").code == 0
    text = ask("why", B, "--state", tmp_path / "out", "--json").json["text"]
    assert text["missing"] == []
    assert (text["diff"]["words_removed"], text["diff"]["words_same"]) == (4, 396)


def test_fields_under_other_names_are_found_again(ask, tmp_path: Path) -> None:
    renamed = [{"u": each["url"], "t": each["fetched_at"], "page": each["html"]} for each in CHAIN]
    given = write_events(tmp_path / "web.jsonl", renamed)
    names = ["--map", "url=u", "--map", "fetched_at=t", "--map", "html=page"]
    assert ask("run", given, "--out", tmp_path / "out", "--jobs", 1, "--quiet", *names).code == 0
    assert ask("why", B, "--state", tmp_path / "out", "--json").json["text"]["diff"]["words_same"] == 396


def test_pages_of_several_inputs_and_runs_are_found_again(ask, tmp_path: Path) -> None:
    for number, some in enumerate(([CHAIN[0]], OTHERS[:2], [CHAIN[1]])):
        given = write_events(tmp_path / f"{number}.jsonl", some)
        assert ask("run", given, "--out", tmp_path / "out", "--jobs", 1, "--quiet").code == 0
    answer = ask("why", B, "--state", tmp_path / "out", "--json").json
    assert answer["decided_by"] == {"source": str(tmp_path / "2.jsonl"), "position": 0, "offset": 0}
    assert answer["text"]["diff"]["words_same"] == 396


def test_state_that_kept_no_origins_still_answers(ask, tmp_path: Path) -> None:
    """Rows as they were written before pages had an origin: they end before it."""
    import msgspec

    from dustream.core.pages.rows import PageRow
    from dustream.streams.store.rocks import RocksStore

    given = jsonl(tmp_path)
    ask("run", given, "--out", tmp_path / "out", "--jobs", 1, "--quiet")
    store = RocksStore(tmp_path / "out" / "state")
    for key, data in list(store.scan(b"task/pages/")):
        if b"/pages/http" in key:
            row = msgspec.msgpack.decode(data)
            at = PageRow.__struct_fields__.index("origin")
            assert row[at].startswith("0:")
            store.put(key, msgspec.msgpack.encode(row[:at]))
    for key, data in list(store.scan(b"meta/input/")):
        known = json.loads(data)
        store.put(key, json.dumps({name: known[name] for name in ("fingerprint", "position", "done")}).encode())
    store.close()
    answer = ask("why", B, "--state", tmp_path / "out", "--json").json
    assert answer["role"] == "duplicate" and answer["decided_by"] is None
    assert "does not store where texts come from" in answer["text"]["missing"][0]
    assert ask("run", given, "--out", tmp_path / "out", "--jobs", 1, "--quiet").code == 0


def test_text_is_that_of_the_version_compared(ask, tmp_path: Path) -> None:
    """A page that changed too little to be compared again is shown as it was when it was compared."""
    url = "https://b.example/chain?middle=1"
    later = [event("b.example/chain?middle=1", prose("chain", 5), day=9)]
    given = write_events(tmp_path / "web.jsonl", [*CHAIN, *later])
    anchored = ["--small-changes", "anchor", "--anchor-distance", "0.05"]
    assert ask("run", given, "--out", tmp_path / "out", "--jobs", 1, "--quiet", *anchored).code == 0
    answer = ask("why", url, "https://a.example/chain", "--state", tmp_path / "out", "--json").json
    assert answer["text"]["missing"] == [] and answer["text"]["diff"]["words_removed"] == 4
    [changed, _] = [reason["words"] for reason in answer["reasons"] if reason["code"] == "versions"]
    assert changed == f"{url} as it was 2024-05-02T00:00:00Z; it has changed since, too little to be compared again"
