"""Every script in examples/ does what it says. The one for Kafka is run by tests/streams/kafka/test_examples.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import dustream

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTED = {"crawl_state.py", "dedupe_parquet.py", "ask_before_fetch.py", "kafka_follow.py"}


def run(name: str, *arguments: object, stdin: str = "") -> list[str]:
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, input=stdin, check=True, capture_output=True, text=True).stdout.splitlines()


def text(page: int) -> str:
    return " ".join(f"page{page}word{number}" for number in range(200))


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == TESTED


def test_a_crawl_is_continued_from_day_to_day(tmp_path: Path) -> None:
    events = [
        {"url": "https://example.com/a", "fetched_at": 1, "text": text(1)},
        {"url": "https://example.com/a?print=1", "fetched_at": 2, "text": text(1)},
        {"url": "https://example.com/b", "fetched_at": 3, "text": text(2)},
    ]
    for day, batch in enumerate((events[:1], events[1:])):
        (tmp_path / f"{day}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in batch))
    assert run("crawl_state.py", tmp_path / "0.jsonl", tmp_path / "result") == ["URLs to keep: 1"]
    assert run("crawl_state.py", tmp_path / "1.jsonl", tmp_path / "result") == [
        "https://example.com/a?print=1 duplicate https://example.com/a",
        "URLs to keep: 2",
    ]


def test_a_corpus_is_deduplicated(tmp_path: Path) -> None:
    texts = [text(1), text(2), text(1) + " more", text(3)]
    pq.write_table(pa.table({"text": texts, "source": list("abcd")}), tmp_path / "corpus.parquet")
    printed = run("dedupe_parquet.py", tmp_path / "corpus.parquet", tmp_path / "kept.parquet")
    assert printed == ["4 texts, 3 kept", "2 texts like row 0, kept: [2]"]
    assert pq.read_table(tmp_path / "kept.parquet")["source"].to_pylist() == ["b", "c", "d"]


def test_a_crawler_skips_what_rules_know(tmp_path: Path) -> None:
    urls = [
        (f"https://example.com/{kind}/{page}{query}", f"{kind} {page}")
        for kind in "abc"
        for page in range(20)
        for query in ("", f"?sid={page}7", f"?sid={page}9")
    ]
    dustream.learn(urls).save(tmp_path / "rules.json")
    frontier = [f"https://example.com/a/{page}?sid={sid}" for page in range(50) for sid in range(10)]
    fetched = run("ask_before_fetch.py", tmp_path / "rules.json", stdin="\n".join(frontier))
    first = {url for url in frontier if url.endswith("sid=0")}
    assert first < set(fetched) and len(first) == 50
    assert 0 < len(fetched) - 50 < 30  # the share that is fetched to check the rules: 2 % of 450
