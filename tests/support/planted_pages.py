"""A small web with planted relations: a chain, markets that disagree, redirects, deaths, changes, hostile text."""

from __future__ import annotations

import json
from pathlib import Path

WORDS = 400  # changing one word of 400 costs 10 of 405 shingles: four changes stay above .9, eight do not
SHORT = (60, 100, 150, 250)
DAY = "2024-05-{:02d}T00:00:00Z"


def prose(topic: str, changes: int = 0) -> str:
    """A text of its own per topic; each change replaces one word, far from the others."""
    words = [f"{topic}{number}" for number in range(WORDS)]
    for change in range(changes):
        words[20 + change * 40] = f"changed{change}"
    return " ".join(words)


def event(url: str, text: str | None = None, day: int = 1, **more: object) -> dict[str, object]:
    found: dict[str, object] = {"url": f"https://{url}", "fetched_at": DAY.format(day), **more}
    return found if text is None else found | {"html": f"<html><body><main><p>{text}</p></main></body></html>"}


CHAIN = [
    event("a.example/chain", prose("chain")),
    event("b.example/chain?middle=1", prose("chain", 4), day=2),
    event("c.example/chain/end", prose("chain", 8), day=3),
]
MARKETS = [event("www.example/p", prose("market")), event("m.example/some/longer/path", prose("market", 1), day=2)]
REDIRECTS = [
    event("a.example/old", status=301, redirect_to="/chain"),
    event("a.example/older", status=301, redirect_to="/old"),
    event("a.example/nowhere", status=301, redirect_to="/never-seen"),
    event("f.example/slip", status=301, redirect_to="/page"),
    event("a.example/round", status=301, redirect_to="/and-round"),
    event("a.example/and-round", status=301, redirect_to="/round"),
]
DEATHS = [event("d.example/dead", prose("dead")), event("d.example/dead", day=9, status=404)]
CHANGED = [event("e.example/first", prose("old")), event("e.example/first", prose("new"), day=8)]
OTHERS = [
    *(event(f"f.example/short/{size}", " ".join(prose("chain").split()[:size])) for size in SHORT),
    event("f.example/Page/", prose("alone")),
    event("f.example/empty", ""),
    event("F.Example/absurd#top", prose("absurd")) | {"fetched_at": "9021-01-01T00:00:00Z"},
]
HOSTILE = [
    event("h.example/1") | {"text": prose("hostile")},
    event("h.example/evil?2") | {"text": prose("hostile").replace("hostile50 ", "\x1b]0;owned\x07boo\u202e\x9b31m ")},
]
WEB = [*CHAIN, *MARKETS, *REDIRECTS, *DEATHS, *CHANGED, *OTHERS, *HOSTILE]


def write_events(path: Path, events: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in events))
    return path
