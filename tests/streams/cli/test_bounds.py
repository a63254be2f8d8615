"""No input ends a run, hangs it, or fills memory and disk; what could not be read is said."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dustream.core.text.page_guard import PAGE_BYTES_MAX
from dustream.streams.engine.rejections import kept_per_input_max

COMMAND = [sys.executable, "-m", "dustream.streams.cli.main"]
GOOD = b'{"url": "http://a.de/1", "html": "<p>some words that are there to be read</p>"}\n'


def dustream(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def summary(out: Path) -> dict[str, Any]:
    return json.loads((out / "summary.json").read_text())


def lines(out: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / name).read_text().splitlines()]


MODES = pytest.mark.parametrize("mode", [[], ["--once"]], ids=["embedded", "once"])


@MODES
def test_rejected_records_are_counted_and_the_first_kept(tmp_path: Path, mode: list[str]) -> None:
    bad = b"{nonsense %d\n" + b'{"url": "ftp://x.de/%d", "text": "x"}\n'
    content = b"".join(bad % (number, number) for number in range(15_000))
    (tmp_path / "bad.jsonl.gz").write_bytes(gzip.compress(content))
    (tmp_path / "good.jsonl").write_bytes(GOOD + b"nonsense\n")
    done = dustream("run", tmp_path / "bad.jsonl.gz", tmp_path / "good.jsonl", "--out", tmp_path / "out", *mode)
    assert done.returncode == 3 and "nothing could be read of 1 input" in done.stderr
    told = summary(tmp_path / "out")
    assert (told["rejected"], told["pages"]) == (30_001, 1)
    assert sum(told["rejected_by_reason"].values()) == 30_001 and len(told["rejected_by_reason"]) < 10
    rejected = lines(tmp_path / "out", "rejected.jsonl")
    more = [line for line in rejected if line["position"] == -1]
    assert len(rejected) - len(more) == kept_per_input_max + 1
    assert sum(int(line["reason"].split()[0]) for line in more) == 30_000 - kept_per_input_max
    assert any("10,001 rejected" in line or "30,001 rejected" in line for line in done.stdout.splitlines())


def test_counts_of_rejected_records_survive_a_second_run(tmp_path: Path) -> None:
    file, out = tmp_path / "bad.jsonl", tmp_path / "out"
    file.write_bytes(GOOD + b"nonsense\n" * (kept_per_input_max + 50))
    dustream("run", file, "--out", out)
    with file.open("ab") as more:
        more.write(b"nonsense\n" * 70)
    assert dustream("run", file, "--out", out).returncode == 0
    assert summary(out)["rejected"] == kept_per_input_max + 120
    [told] = [line for line in lines(out, "rejected.jsonl") if line["position"] == -1]
    assert told["reason"].startswith("120 more records")


@pytest.mark.parametrize(
    ("count", "said"), [(3, "first 3 lines"), pytest.param(5_000, "first 1,000 lines", marks=pytest.mark.slow)]
)
def test_a_map_that_fits_no_record_is_said(tmp_path: Path, count: int, said: str) -> None:
    (tmp_path / "x.jsonl").write_bytes(GOOD * count)
    done = dustream("run", tmp_path / "x.jsonl", "--out", tmp_path / "out", "--once", "--map", "fetched_at=t")
    assert f"--map fetched_at=t fits no record: none of the {said} has a field t" in done.stderr
    fits = dustream("run", tmp_path / "x.jsonl", "--out", tmp_path / "out", "--once", "--map", "html=html")
    assert "fits no record" not in fits.stderr


def window_of(bytes_: int) -> bytes:
    """A zstd frame that asks for a window of so many bytes (RFC 8878 section 3.1.1.1.2)."""
    exponent = bytes_.bit_length() - 1 - 10
    return b"\x28\xb5\x2f\xfd\0" + bytes([exponent << 3]) + b"\x01\0\0"


UNREADABLE = {
    "window.jsonl.zst": window_of(1 << 31),
    "window.warc.zst": window_of(1 << 31),
    "cut.warc.gz": gzip.compress(b"WARC/1.0\r\nWARC-Type: response\r\n")[:20],
    "cut.jsonl.gz": gzip.compress(GOOD)[:20],
    "bad.jsonl": b"{nonsense\n",
    "long.warc": b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\nx",
    "what.bin": bytes(range(256)),
}


@MODES
@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_of_which_nothing_could_be_read_is_said_by_the_exit_status(
    tmp_path: Path, name: str, mode: list[str]
) -> None:
    (tmp_path / name).write_bytes(UNREADABLE[name])
    (tmp_path / "z-good.jsonl").write_bytes(GOOD)
    done = dustream("run", tmp_path / name, tmp_path / "z-good.jsonl", "--out", tmp_path / "out", *mode)
    assert done.returncode == 3 and name in done.stderr and "Traceback" not in done.stderr
    assert summary(tmp_path / "out")["pages"] == 1 and summary(tmp_path / "out")["refused"] == [str(tmp_path / name)]
    alone = dustream("run", tmp_path / name, "--out", tmp_path / "alone", *mode)
    assert alone.returncode == 1 and "no input could be read" in alone.stderr


def test_a_pipe_in_a_folder_is_named_and_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    folder.mkdir()
    (folder / "good.jsonl").write_bytes(GOOD)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "link.jsonl").symlink_to("/dev/zero")
    (folder / "nowhere.jsonl").symlink_to("nothing")
    for inputs in (folder, folder / "*.jsonl"):
        done = dustream("run", inputs, "--out", tmp_path / "out", "--once")
        assert done.returncode == 0
        for name in ("pipe.jsonl", "link.jsonl", "nowhere.jsonl"):
            assert f"{folder / name}: not a regular file, skipped" in done.stderr


@MODES
def test_a_page_over_the_limit_is_kept_and_marked(tmp_path: Path, mode: list[str]) -> None:
    words = " ".join(f"word{number % 9_973}" for number in range(1_200_000))
    assert len(words) > PAGE_BYTES_MAX
    cyrillic = "страница " * 600_000  # in windows-1251 below the limit, in UTF-8 above it
    events = [
        {"url": "http://a.de/html", "html": f"<p>{words}</p>"},
        {"url": "http://a.de/same", "html": f"<p>{words}</p> and an end that nobody compares"},
        {"url": "http://a.de/text", "text": words.replace("word", "other")},
        {"url": "http://a.de/small", "text": "a small page of a few words only"},
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=windows-1251\r\n\r\n<p>" + cyrillic.encode("cp1251")
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.de/ru\r\nContent-Length: {len(block)}\r\n\r\n"
    (tmp_path / "x.warc").write_bytes(head.encode() + block + b"\r\n\r\n")
    out = tmp_path / "out"
    done = dustream("run", tmp_path / "x.jsonl", tmp_path / "x.warc", "--out", out, *mode)
    assert done.returncode == 0 and "over 8 MiB" in done.stdout
    told = {line["url"].rpartition("/")[2]: line for line in lines(out, "status.jsonl")}
    assert {name: line["problem"] for name, line in told.items()} == {
        "html": "truncated", "same": "truncated", "text": "truncated", "ru": "truncated", "small": None
    }  # fmt: skip
    assert {told["html"]["role"], told["same"]["role"]} == {"winner", "duplicate"}
    assert (summary(out)["rejected"], summary(out)["truncated"]) == (0, 4)


def test_signers_end_with_the_main_process(tmp_path: Path) -> None:
    web = tmp_path / "web.jsonl"
    web.write_bytes(b"".join(GOOD.replace(b"/1", b"/%d" % number) for number in range(60_000)))
    command = [*COMMAND, "run", web, "--out", tmp_path / "out", "--jobs", "2", "--quiet"]
    main = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while (
            len(_group(main.pid)) < 4 and time.monotonic() < deadline
        ):  # itself, the tracker of resources, two signers
            time.sleep(0.05)
        assert len(_group(main.pid)) >= 4 and main.poll() is None
        main.kill()
        assert main.stdout is not None
        main.stdout.read()  # ends when nobody holds it open
        deadline = time.monotonic() + 10
        while _group(main.pid) - {main.pid} and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _group(main.pid) - {main.pid}
    finally:
        main.wait()
        for left in _group(main.pid):
            os.kill(left, signal.SIGKILL)


def _group(leader: int) -> set[int]:
    """The processes of a session that still run."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(session) == leader and state != "Z":
                found.add(int(entry.name))
    return found


@MODES
def test_less_memory_for_caches_changes_nothing(tmp_path: Path, mode: list[str]) -> None:
    web = tmp_path / "web.jsonl"
    assert dustream("generate", "--pages", 400, "--out", web).returncode == 0
    for memory in ((), ("--memory", 8)):
        assert dustream("run", web, "--out", tmp_path / f"out{len(memory)}", *mode, *memory).returncode == 0
    assert summary(tmp_path / "out0")["state_hash"] == summary(tmp_path / "out2")["state_hash"]


def test_too_little_memory_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.jsonl"
    page.write_bytes(GOOD)
    done = dustream("run", page, "--out", tmp_path / "out", "--memory", 1)
    assert done.returncode == 2 and "--memory 1: use 8 or more (megabytes)" in done.stderr
