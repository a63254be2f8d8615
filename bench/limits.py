"""Time limits: hostile inputs must cost no more than their size, and commands must answer at once.

    python bench/limits.py

Figures are processor seconds, the least of three runs. Exit status 1 if one is above its limit.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from result_files import Table, write_result

from dustream.core.errors import BadInput
from dustream.core.rules.normalize import Normalizer
from dustream.core.rules.rewrite import rule_id
from dustream.core.text.extract import extract
from dustream.core.text.one_pass import scan_blocks
from dustream.core.urls.keys import compose, decompose
from dustream.schemas.rules import KeyWrite, PatternRewrite, RuleSet, SubstringRewrite, UrlRule
from dustream.streams.questions.word_diff import word_diff
from dustream.streams.rules_io.imports import import_rules

RUNS = 3
SCANNED_BYTES = 4_000_000
URL_CHARS = 8_000
PIECES = (
    "<div>", "<div><table>", "</div>", "<b><p></b>", "<a href=x>", "<p a='", "<!--", "<", "&", "&#",
    "<script><!--<script", "<ul><li>", "<a b=c ", "<div class='a b'>", "</", "<svg><![CDATA[", "<x>",
    "<table><td>x</div>", "&amp", "-->", "x<br>", "<textarea>", "<select><option>", "</p>",
)  # fmt: skip
URL_PIECES = (
    ("http://site.com/", "a"), ("http://site.com/?", "k=1&"), ("http://site.com/", "/.."),
    ("http://site.com/", "a/../"), ("http://site.com/", "%41"), ("http://", "a."), ("http://", "é."),
    ("http://", "@"), ("http://", "["),
)  # fmt: skip
REFUSED = {
    "50 MB": "<p>word</p>" * 5_000_000,
    "nested": "<div>" * 500_000 + "x" + "</div>" * 500_000,
    "nested, end tags in comments": "<div><!--</div>-->" * 100_000,
    "100,000 attributes": "<p " + " ".join(f"a{i}='>'" for i in range(100_000)) + ">",
    "1,000,000 paragraphs": "<p>x</p>" * 1_000_000,
}
LISTS = {
    "clearurls": json.dumps({"providers": {"x": {"urlPattern": "a." * 50_000, "rules": ["ref"]}}}),
    "adguard": "||x.com^$" + "a," * 100_000 + "x",
    "nutch": "<r><regex><pattern>"
    + "(" * 20_000
    + "a"
    + ")*" * 20_000
    + "</pattern><substitution>$1</substitution></regex></r>",
}

Row = tuple[str, float, float]


def seconds(work: Callable[[], object]) -> float:
    spent = []
    for _ in range(RUNS):
        started = time.process_time()
        with suppress(BadInput):
            work()
        spent.append(time.process_time() - started)
    return min(spent)


def command_seconds(*arguments: object) -> float:
    spent = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "dustream.streams.cli.main", *map(str, arguments)]
        subprocess.run(command, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def hostile() -> Iterator[Row]:
    extract("<p>compiles</p>")
    pages = {piece: ("<div><table><b>" * 200 + piece * (SCANNED_BYTES // len(piece))).encode() for piece in PIECES}
    slowest = max(pages, key=lambda piece: seconds(lambda: scan_blocks(pages[piece])))
    yield (f"scan 4 MB of one piece, the slowest: `{slowest}`", seconds(lambda: scan_blocks(pages[slowest])), 2)
    for name, page in REFUSED.items():
        yield (f"refuse a page: {name}", seconds(lambda page=page: extract(page)), 1)
    rules = [SubstringRewrite("", "a" * 50 + "b", "c"), PatternRewrite((), (KeyWrite("?a=", "drop"),), open=True)]
    fields = {"pattern": "", "replacement": "", "stage": "active", "learner": "imported"}
    active = [UrlRule(id=rule_id("site.com", each), rewrite=each, **fields) for each in rules]
    normalizer = Normalizer([RuleSet(site="site.com", version=1, rules=tuple(active))])

    def normalize(url: str) -> None:
        normalizer.explain(url)
        compose(decompose(url))

    urls = [start + piece * (URL_CHARS // len(piece)) for start, piece in URL_PIECES]
    yield ("normalise a URL of 8,000 characters, the slowest", max(seconds(lambda u=u: normalize(u)) for u in urls), 1)
    for kind, text in LISTS.items():
        yield (f"import a hostile list: {kind}", seconds(lambda kind=kind, text=text: import_rules(kind, text)), 1)
    left, right = "left side of it " * 100_000, "another right text here " * 100_000
    yield ("compare two texts of 400,000 words", seconds(lambda: word_diff(left, right)), 10)


def commands(folder: Path) -> Iterator[Row]:
    yield ("`dustream --help`", command_seconds("--help"), 0.3)
    text = " ".join(f"Bridge {n} over river {n * 7}." for n in range(60))
    urls = [f"https://{host}.example/" for host in "ab"]
    pages = [{"url": url, "fetched_at": "2026-01-01T00:00:00Z", "text": text} for url in urls]
    (folder / "web.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))
    command_seconds("run", folder / "web.jsonl", "--out", folder / "out", "--jobs", 1)
    for arguments in (["status", urls[0]], ["why", *urls, "--no-text"]):
        yield (f"`dustream {arguments[0]}`", command_seconds(*arguments, "--state", folder / "out"), 0.5)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        rows = [*hostile(), *commands(Path(folder))]
    table = Table(
        "Processor seconds", ["what", "seconds", "at most"], [[row[0], round(row[1], 3), row[2]] for row in rows]
    )
    print(table.markdown())
    write_result("limits", [table])
    return int(any(spent > limit for _, spent, limit in rows))


if __name__ == "__main__":
    sys.exit(main())
