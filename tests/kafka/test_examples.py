"""The Kafka example, with a worker on the real broker."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from dustream.streams.cli.main import main
from dustream.streams.kafka.cluster import KafkaCluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka_follow.py"
WAIT_S_MAX = 300


def test_what_is_published_is_followed_to_its_status(cluster: KafkaCluster, tmp_path: Path) -> None:
    named = ["--bootstrap", cluster.bootstrap, "--name", f"example-{time.time_ns()}"]
    url, other, copy = "https://example.com/a", "https://example.com/b", "https://example.com/a?print=1"
    text = " ".join(f"word{number}" for number in range(100))
    assert main(["topics", "create", *named, "--partitions", "2"]) == 0
    command = [sys.executable, "-m", "dustream.streams.cli.main", "worker", *named, "--partitions", "2"]
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen([*command, "--data", str(tmp_path / "worker")], stdout=log, stderr=log)
    try:
        first = follow(tmp_path / "first.jsonl", named, {url: text, other: "another text"})
        second = follow(tmp_path / "second.jsonl", named, {copy: text})
    finally:
        worker.terminate()
        worker.wait(60)
    assert set(first) == {f"keep {url} unique {url}", f"keep {other} unique {other}"}
    assert second[-1] == f"drop {copy} duplicate {url}"


def follow(fetches: Path, named: list[str], texts: dict[str, str]) -> list[str]:
    """Lines of the example, for pages with these texts."""
    events = [{"url": url, "fetched_at": 1, "text": text} for url, text in texts.items()]
    fetches.write_text("".join(json.dumps(event) + "\n" for event in events))
    command = [sys.executable, str(EXAMPLE), str(fetches), named[1], named[3]]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=WAIT_S_MAX)
    return done.stdout.splitlines()
