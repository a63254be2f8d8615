"""Publish fetches to Kafka and follow what they become.

    python examples/kafka_follow.py fetched.jsonl 127.0.0.1:9092 dustream

The application `dustream` must have its topics and a worker (docs/tutorial/kafka.md). Ends when every URL that was
published has a status.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import dustream


def main(fetches: Path, bootstrap: str, name: str) -> None:
    waiting = set()
    with dustream.Client(bootstrap, name) as client, fetches.open() as lines:
        for line in lines:
            event = json.loads(line)
            client.publish(event)
            waiting.add(event["url"])
    for status in dustream.Client(bootstrap, name).statuses(follow=True):
        action = "keep" if dustream.is_kept(status.role) else "drop"
        print(action, status.url, status.role, status.winner or "", flush=True)  # a later line replaces an earlier one
        waiting.discard(status.url)
        if not waiting:
            break


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
