"""DustBuster as the paper tells it, over dictionaries: slow, and plain enough to be believed."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations

from dustream.core.rules.dustbuster import DustSettings, LoggedUrl

START, END = "\x02", "\x03"


def likely_rules(log: list[LoggedUrl], settings: DustSettings) -> dict[frozenset[str], int]:
    """The support of every pair of substrings that has enough of it."""
    buckets: dict[tuple[str, str], list[tuple[LoggedUrl, str]]] = defaultdict(list)
    for entry in log:
        text = START + entry.url + END
        for start in range(len(text) + 1):
            for length in range(min(settings.substring_max, len(text) - start) + 1):
                buckets[text[:start], text[start + length :]].append((entry, text[start : start + length]))
    support: Counter[frozenset[str]] = Counter()
    for bucket in buckets.values():
        if len(bucket) <= settings.bucket_max:
            support.update(frozenset((a, b)) for (x, a), (y, b) in combinations(bucket, 2) if _alike(x, y))
    return {pair: count for pair, count in support.items() if count >= settings.ms}


def _alike(x: LoggedUrl, y: LoggedUrl) -> bool:
    if x.sketch is not None or y.sketch is not None:
        return x.sketch == y.sketch
    return x.size_min <= y.size_max and y.size_min <= x.size_max


def outcomes(log: list[LoggedUrl], find: str, put: str) -> Counter[bool]:
    """How many of the URLs become a known URL that is alike, and how many one that is not."""
    known = {entry.url: entry for entry in log}
    told: Counter[bool] = Counter()
    for entry in log:
        after = (START + entry.url + END).replace(find, put, 1)[1:-1]
        if after != entry.url and after in known:
            told[_alike(entry, known[after])] += 1
    return told
