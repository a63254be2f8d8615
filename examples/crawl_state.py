"""Keep the duplicates of a crawl up to date while it runs.

    python examples/crawl_state.py fetched.jsonl result

Reads fetches as JSON lines (`url`, `fetched_at`, `status`, `html` …), adds them to the state in batches, and prints the
URLs to drop. The state stays in `result`: run it again with the next day's fetches, or ask it with
`dustream why URL --state result`.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path

import dustream

BATCH = 1_000  # each batch brings the whole state up to date: larger ones cost less per page


def main(fetches: Path, folder: Path) -> None:
    with dustream.open(folder) as state, fetches.open() as lines:
        events = map(json.loads, lines)
        while batch := list(islice(events, BATCH)):
            added = state.add(batch)
            for each in added.rejected:
                print(f"rejected {each.url}: {each.reason}", file=sys.stderr)
            for event in batch:
                status = state.status(event["url"])
                if status is None or dustream.is_kept(status.role):
                    continue
                print(event["url"], status.role, status.winner or "")
        print("URLs to keep:", sum(1 for _ in state.keep()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
