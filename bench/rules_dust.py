"""DustBuster's own evaluation (Bar-Yossef et al., Tables 2 to 4): rules detected, left after elimination, and valid;
precision of the first k; coverage, and the reduction of a crawl.

Every list is taken twice where it can be: by sketches (digests), and by sizes alone, as from a log. Truth is the
digest, where a list has any: a rule is valid by ValidateRule (N 100, ε .05) over the list, in one direction or the
other. The site lists are complete, so an outcome that is not in them cannot be fetched and counts against the rule; in
a log or an index it says nothing. Lists come from the folder that DUSTREAM_DATA names; without it generated sites are
measured.

    python bench/rules_dust.py
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "rules"))

from pages import data_folder
from result_files import Table, write_result
from rules import REAL_TABLES, _rows

from dustream.core.rules.dustbuster import (
    DustSettings,
    LoggedUrl,
    RulePair,
    detect_likely_rules,
    eliminate_redundancies,
    rules_of_list,
    url_list,
)
from dustream.core.rules.framed_text import END, START
from dustream.core.rules.rewrite import replaced
from dustream.core.rules.scores import score
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import SubstringRewrite
from dustream.streams.generate.planted_sites import planted_site

SETTINGS = DustSettings()
FIRST = (10, 20, 50, 100)
GENERATED = 6


class Listed(NamedTuple):
    """A list as DustBuster gets it, and what is known of its contents besides."""

    name: str
    signal: str
    entries: list[LoggedUrl]
    truth: dict[str, str]
    is_complete: bool


def real_lists() -> Iterable[Listed]:
    for name, table in REAL_TABLES.items():
        rows = [(standard_form(row[0]), row[1], int(row[2])) for row in _rows(table)[1:]]
        truth = {url: digest for url, digest, _ in rows}
        yield Listed(name, "digests", [LoggedUrl(url, digest) for url, digest, _ in rows], truth, True)
        yield Listed(name, "sizes", [LoggedUrl(url, None, size, size) for url, _, size in rows], truth, True)
    index = [row for row in _rows("D_cdx_url_digest")[1:] if row[5] == "200"]
    truth = {standard_form(row[3]): row[6] for row in index}
    yield Listed("CDX index", "digests", [LoggedUrl(url, digest) for url, digest in truth.items()], truth, False)
    log = [row for row in _rows("D_semicomplete_url_size")[1:] if row[1] == "GET" and row[3] == "200"]
    entries = [LoggedUrl(row[2], None, int(row[4]), int(row[4])) for row in log if row[4].isdecimal()]
    yield Listed("access log", "sizes", entries, {}, False)


def generated_lists() -> Iterable[Listed]:
    for number in range(GENERATED):
        planted = planted_site(number)
        truth = {standard_form(entry.url): str(entry.cluster) for entry in planted.known}
        entries = [LoggedUrl(url, cluster) for url, cluster in truth.items()]
        yield Listed(f"generated {number}", "digests", entries, truth, True)


# ---------------------------------------------------------------- validation


def is_valid(pair: RulePair, listed: Listed, sizes: dict[str, tuple[int, int]]) -> bool:
    ways = ((pair.alpha, pair.beta), (pair.beta, pair.alpha))
    return any(_validated(_rewrite(*sides), listed, sizes) for sides in ways)


def _rewrite(find: str, put: str) -> SubstringRewrite:
    frame = START + END
    return SubstringRewrite("", find.strip(frame), put.strip(frame), find.startswith(START), find.endswith(END))


def _validated(rewrite: SubstringRewrite, listed: Listed, sizes: dict[str, tuple[int, int]]) -> bool:
    """ValidateRule, with the list in the place of the web."""
    if not rewrite.find or rewrite.find == rewrite.put:
        return False
    positive = negative = 0
    limits = SETTINGS.limits()
    is_alike = _by_truth(listed.truth) if listed.truth else _by_size(sizes)
    urls = listed.truth or sizes
    for url in sorted((url for url in urls if rewrite.find in url), key=lambda url: zlib.crc32(url.encode())):
        after = replaced(rewrite, url)
        if after is None:
            continue
        after = standard_form(after)
        if after not in urls and not listed.is_complete:
            continue
        alike = after in urls and is_alike(url, after)
        positive, negative = positive + alike, negative + (not alike)
        if negative >= limits.too_many or positive >= limits.enough:
            break
    return positive >= limits.ms and negative <= limits.bound * (positive + negative)


def _by_truth(truth: dict[str, str]) -> Callable[[str, str], bool]:
    return lambda url, after: truth[url] == truth[after]


def _by_size(sizes: dict[str, tuple[int, int]]) -> Callable[[str, str], bool]:
    return lambda url, after: sizes[url][0] <= sizes[after][1] and sizes[after][0] <= sizes[url][1]


def canonized(url: str, rules: list[SubstringRewrite]) -> str:
    """All rules again and again, until nothing changes or `iterations_max` is reached."""
    for _ in range(SETTINGS.iterations_max):
        before = url
        for rule in rules:
            after = replaced(rule, url)
            url = url if after is None else standard_form(after)
        if url == before:
            break
    return url


# ---------------------------------------------------------------- tables


def rows_of(listed: Listed) -> tuple[list[object], list[object]]:
    start = time.process_time()
    urls = url_list(listed.entries)
    settings = SETTINGS if urls.by_sketch else SETTINGS._replace(bucket_max=SETTINGS.sized_bucket_max)
    detected, _ = detect_likely_rules(urls, settings)
    remaining = eliminate_redundancies(detected, settings)
    valid = [rule.rewrite for rule in rules_of_list(urls, SETTINGS).rules]
    seconds = time.process_time() - start
    sizes = {url: (int(low), int(high)) for url, low, high in zip(urls.urls, urls.low, urls.high, strict=True)}
    known = list(listed.truth) or urls.urls
    after = {url: canonized(url, valid) for url in known}
    found = score((after[url], listed.truth[url]) for url in known) if listed.truth else None
    reduced = 1 - len(set(after.values())) / len(known)
    share = f"{len(remaining) / len(detected):.1%}" if detected else "-"
    phases: list[object] = [
        listed.name, listed.signal, len(known), len(detected), len(remaining), share, len(valid), f"{reduced:.2%}",
        f"{found.dup_reduction_rate:.1%}" if found else "-", f"{found.false_positive_rate:.2%}" if found else "-",
        round(seconds, 2),
    ]  # fmt: skip
    verdicts = [is_valid(pair, listed, sizes) for pair in remaining[: FIRST[-1]]]
    precision = [f"{sum(verdicts[:k])} of {len(verdicts[:k])}" for k in FIRST]
    judged: list[object] = [listed.name, listed.signal, "digests" if listed.truth else "sizes", *precision]
    print(*phases, *precision, flush=True)
    return phases, judged


def main() -> None:
    lists = real_lists() if data_folder() else generated_lists()
    if data_folder() is None:
        print("Real lists were not measured: DUSTREAM_DATA names no folder.")
    papers: list[list[object]] = [
        ["Bar-Yossef: forum", "sizes", 15_608, 402, 37, "9.2%", 7, "4.7%", "", "", ""],
        ["Bar-Yossef: academic", "", 17_742, 26_899, 2_041, "7.6%", 52, "18%", "", "", ""],
        ["Bar-Yossef: large news", "", 11_883, 12_144, 1_243, "9.8%", 62, "6%", "", "", ""],
        ["Bar-Yossef: small news", "", 9_456, 4_220, 96, "2.3%", 5, "26%", "", "", ""],
    ]
    found = [rows_of(listed) for listed in lists]
    phases = [
        "list",
        "told by",
        "URLs",
        "detected",
        "left",
        "share",
        "valid",
        "reduction",
        "coverage",
        "false positives",
        "s",
    ]
    tables = [
        Table("Tables 2 to 4: phases", phases, [*papers, *(row for row, _ in found)]),
        Table(
            "Valid among the first k",
            ["list", "told by", "judged by", *map(str, FIRST)],
            [row for _, row in found],
        ),
    ]
    for table in tables:
        print(f"\n{table.title}\n{table.markdown()}")
    if data_folder() is not None:
        write_result("rules_dust", tables)


if __name__ == "__main__":
    main()
