"""`dustream generate`: a web of any size, with the truth about its duplicates."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

DESCRIPTION = """\
Write a generated web: a log of crawl events with realistic pages, and the truth about every URL beside it.

The web has mirrors, session ids, tracking parameters, print versions, index pages, http/https, www, slash and case
variants, syndicated and merely related articles, pagination chains, redirects, updates, deaths and returns, late and
repeated events, legacy encodings, broken HTML and a few unusable events, in eight languages. The same --pages and
--seed give the same bytes on every machine.
"""
EXAMPLES = """\
examples:
  dustream generate --pages 3000 --seed 1 --out web.jsonl.zst
      writes web.jsonl.zst (the events) and web.truth.jsonl.zst (the truth)
  dustream run web.jsonl.zst --out result
      finds the duplicates in it
  dustream generate --pages 1000000 --seed 7 --out big.jsonl.zst --json
      a million pages in a few minutes, and a summary for programs
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "generate",
        help="write a generated web with known duplicates",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pages", type=int, default=3000, metavar="N", help="number of URLs (default 3000)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="another seed gives another web (default 1)")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="where the events go: .jsonl, .jsonl.gz or .jsonl.zst; the truth goes to FILE's name with .truth in it",
    )
    parser.add_argument(
        "--markup-bytes",
        type=int,
        default=None,
        metavar="B",
        help="about how much HTML surrounds the text of a page (default 11000, which gives pages of 8 to 25 KB)",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import msgspec

    from dustream.core.errors import BadSetting
    from dustream.streams.generate.files import write
    from dustream.streams.generate.web import MARKUP_BYTES_DEFAULT

    markup_bytes = MARKUP_BYTES_DEFAULT if args.markup_bytes is None else args.markup_bytes
    try:
        written = write(args.pages, args.seed, args.out, markup_bytes)
    except OSError as error:
        raise BadSetting(f"cannot write {args.out}: {error.strerror or error}; choose another --out") from error
    if args.json:
        print(msgspec.json.encode(_facts(written)).decode())
    else:
        print(_summary(written))
    return 0


def _facts(written: Any) -> dict[str, Any]:
    import msgspec

    return {
        "events": str(written.events),
        "truth": str(written.truth),
        "events_file_bytes": written.events_file_bytes,
        "events_plain_bytes": written.events_plain_bytes,
        "web": msgspec.to_builtins(written.header),
    }


def _summary(written: Any) -> str:
    header = written.header
    roles = ", ".join(f"{count:,} {role}" for role, count in header.roles.items())
    rules = ", ".join(f"{rule} {count:,}" for rule, count in header.rules.items())
    return f"""\
{header.pages:,} URLs, {header.events:,} events ({written.events_plain_bytes / 1e6:,.1f} MB, seed {header.seed})
  at the end of the log: {roles}
  {header.clusters:,} clusters of duplicates with {header.clustered_pages:,} pages; {header.grey:,} too close to call
  further addresses by rule: {rules or "none"}
events  {written.events} ({written.events_file_bytes / 1e6:,.1f} MB)
truth   {written.truth}
next    dustream run {written.events} --out result"""
