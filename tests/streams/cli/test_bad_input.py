"""Bad input through the front door: used within stated limits or rejected with a reason; neighbours are unharmed."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

GOOD = (
    "<html><body><main><p>" + " ".join(f"Sentence {n} of a good page." for n in range(40)) + "</p></main></body></html>"
)

BAD: dict[str, bytes] = {
    "invalid-utf-8-line": b'{"url": "https://bad.example/invalid-utf-8-line", "html": "\xff\xfe broken"}',
    "no-url": json.dumps({"html": GOOD}).encode(),
    "relative-url": json.dumps({"url": "/only/a/path", "html": GOOD}).encode(),
    "negative-time": json.dumps({"url": "https://bad.example/negative", "fetched_at": -5, "html": GOOD}).encode(),
    "absurd-time": json.dumps(
        {"url": "https://bad.example/absurd", "fetched_at": "9021-01-01T00:00:00Z", "html": GOOD}
    ).encode(),
    "unknown-version": json.dumps({"url": "https://bad.example/version", "v": 99, "html": GOOD}).encode(),
    "wrong-type": json.dumps({"url": ["https://bad.example/"], "html": GOOD}).encode(),
    "surrogate": b'{"url": "https://bad.example/surrogate", "html": "<p>a lone \\ud800 surrogate</p>"}',
    "not-json": b"{'url': 'https://bad.example/'}",
}
ODD: dict[str, bytes] = {
    "lying-charset": json.dumps(
        {
            "url": "https://odd.example/lying-charset",
            "content_type": "text/html; charset=utf-8",
            "body": base64.b64encode(GOOD.replace("good", "größere").encode("latin-1")).decode(),
        }
    ).encode(),
    "empty": json.dumps({"url": "https://odd.example/empty", "html": ""}).encode(),
    "nul": json.dumps({"url": "https://odd.example/nul", "html": "<p>\x00nul \x00bytes</p>"}).encode(),
    "duplicate-keys": b'{"url": "https://odd.example/1", "url": "https://odd.example/duplicate-keys", "html": "<p>x"}',
    "million-nested-tags": json.dumps(
        {"url": "https://odd.example/million-nested-tags", "html": "<div>" * 1_000_000 + GOOD}
    ).encode(),
    "unknown-fields": json.dumps(
        {"url": "https://odd.example/unknown-fields", "html": GOOD, "mood": {"a": [1]}}
    ).encode(),
}


def good(number: int) -> bytes:
    return json.dumps({"url": f"https://good.example/{number}", "html": GOOD}).encode()


def run(lines: list[bytes], out: Path) -> subprocess.CompletedProcess[bytes]:
    source = out.with_suffix(".jsonl")
    source.write_bytes(b"\n".join(lines) + b"\n")
    command = [sys.executable, "-m", "dustream.streams.cli.main", "run", str(source), "--out", str(out), "--json"]
    return subprocess.run(command, capture_output=True)


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_bad_records_are_rejected_and_the_others_are_not(tmp_path: Path) -> None:
    lines = [good(0)]
    for number, record in enumerate([*BAD.values(), *ODD.values()], start=1):
        lines += [record, good(number)]
    done = run(lines, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    known = {line["url"]: line["role"] for line in lines_of(tmp_path / "out" / "status.jsonl")}
    goods = [f"https://good.example/{number}" for number in range(len(BAD) + len(ODD) + 1)]
    assert set(goods) <= known.keys()
    assert {url for url in known if "odd.example" in url} == {f"https://odd.example/{name}" for name in ODD}
    assert not any("bad.example" in url for url in known)
    rejected = lines_of(tmp_path / "out" / "rejected.jsonl")
    assert [line["position"] for line in rejected] == [1 + 2 * number for number in range(len(BAD))]
    assert all(line["reason"] for line in rejected)
    assert known["https://odd.example/empty"] == "unique"
    assert done.stderr == b""


def test_page_of_50_mb_is_dealt_with_within_limits(tmp_path: Path) -> None:
    word = "<p>word and more words</p>"
    huge = json.dumps({"url": "https://huge.example/", "html": word * (50_000_000 // len(word))}).encode()
    done = run([good(0), huge, good(1)], tmp_path / "out")
    assert done.returncode == 0, done.stderr
    known = {line["url"] for line in lines_of(tmp_path / "out" / "status.jsonl")}
    assert {"https://good.example/0", "https://good.example/1"} <= known
    rejected = lines_of(tmp_path / "out" / "rejected.jsonl")
    assert ("https://huge.example/" in known) != (len(rejected) == 1)
    assert json.loads(done.stdout)["peak_memory_mb"] < 2_000
