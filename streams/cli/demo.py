"""`dustream demo`: the pipeline on a small generated web, scored against its truth."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dustream.streams.evaluate import Scores

PAGES = 3_000
SEED = 1
WORST_SHOWN = 3

DESCRIPTION = """\
Generate a small web with known duplicates (mirrors, session ids, print versions, syndicated articles in several
languages, redirects, updates, deaths), run it through the pipeline, show the URL rules learned, and score the outcome
against the truth.
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "demo",
        help="run the pipeline on a small generated web",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pages", type=int, default=PAGES, metavar="N", help=f"size of the web (default {PAGES:,})")
    parser.add_argument(
        "--seed", type=int, default=SEED, metavar="S", help=f"another seed, another web (default {SEED})"
    )
    parser.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="output folder (default ./demo)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes that parse and sign pages"
    )
    parser.add_argument("--json", action="store_true", help="print the summary and scores as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import shutil

    import msgspec

    from dustream.core.settings import Settings
    from dustream.streams.cli.run import TerminalWatcher, describe, describe_rules
    from dustream.streams.evaluate import score
    from dustream.streams.folders import make_folder
    from dustream.streams.generate import read_lines, write
    from dustream.streams.job import RunRequest, run_job

    make_folder(args.out)
    web, out = args.out / "web.jsonl.zst", args.out / "result"
    if not args.json:
        print(f"generating a web of about {args.pages:,} pages ...")
    written = write(args.pages, args.seed, web)
    shutil.rmtree(out, ignore_errors=True)  # a demo shows a whole run
    watcher = TerminalWatcher(show_bar=sys.stderr.isatty() and not args.json)
    try:
        request = RunRequest([str(web)], out, out / "state", Settings(), args.jobs)
        summary = run_job(request, watcher)  # type: ignore[arg-type]
    finally:
        watcher.close()
    scores = score(read_lines(out / "status.jsonl"), read_lines(written.truth))
    if args.json:
        print(msgspec.json.encode({"summary": summary, "scores": scores.summary()}).decode())
    else:
        print(describe(summary, out))
        print(describe_rules(out))
        print(describe_scores(scores, written.truth))
        print(next_steps(out))
    return 0


def describe_scores(scores: Scores, truth: Path) -> str:
    """How well the run found what was planted, for people."""
    lines = [
        "",
        f"against the truth ({truth}):",
        f"  {scores.precision:9.4f} precision: of {scores.pairs_said:,} pairs put together, so many belong together",
        f"  {scores.recall:9.4f} recall: of {scores.pairs_true:,} pairs that belong together, so many were",
        f"  {scores.clusters_found:>9,} of {scores.clusters:,} clusters whole, "
        f"{scores.redirects_right:,} of {scores.redirects:,} redirects in the right group",
        f"  {scores.kept:>9,} pages kept; {scores.clusters_lost:,} clusters lost: none of their pages is kept",
    ]
    for wrong in scores.worst[:WORST_SHOWN]:
        lines.append(f"            {wrong.what}: {wrong.said}: {', '.join(wrong.urls[:2])}")
    return "\n".join(lines)


def next_steps(out: Path) -> str:
    """What to try with the demo's files."""
    import shutil

    duplicate = _first_near_duplicate(out)
    command = (
        "dustream" if shutil.which("dustream") else sys.argv[0]
    )  # as it was called, if its virtualenv is not active
    return "\n".join(
        [
            "",
            "try next:",
            f"  {command} status '{duplicate}' --state {out}",
            f"  head -3 {out / 'groups.jsonl'}",
            f"  {command} rules show {out}",
            f"  cut -d'\"' -f4 {out / 'status.jsonl'} | {command} normalize --state {out} | sort | uniq -cd",
            f"  {command} run YOUR-CRAWL.warc.gz --out result",
        ]
    )


def _first_near_duplicate(out: Path) -> str:
    import msgspec

    from dustream.streams.engine.results import StatusLine

    decoder = msgspec.json.Decoder(StatusLine)
    with (out / "status.jsonl").open("rb") as lines:
        found = (line for line in map(decoder.decode, lines) if line.role == "duplicate")
        first = next((line for line in found if line.relation == "near"), None)
    return first.url if first else "URL"
