"""`dustream normalize`: URLs in, their normal URLs out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dustream.core.rules.normalize import Explanation, Step
    from dustream.schemas.rules import RuleSet

DESCRIPTION = """\
Print the normal form of each URL, one a line in the same order: first the standard steps that are safe on every site,
then the active rules of the URL's site. Without URLs as arguments, they are read from standard input, one a line.

  dustream normalize 'HTTP://www.Example.com:80/a/../b'
  dustream normalize < urls.txt
  dustream normalize --rules rules.json < urls.txt
  dustream normalize --state result < urls.txt               by the rules of a run
  dustream normalize --rules rules.json --explain 'https://example.com/b?sid=1'

A normal form made by rules is a key to compare URLs by; it may not exist as a page. Compare the normal forms and fetch
the original URL. --explain and --json name the URL to fetch: the normal form only if the run of --state has seen it.
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "normalize",
        help="rewrite URLs to their normal form",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("urls", nargs="*", metavar="URL", help="a URL (default: read them from standard input)")
    parser.add_argument("--rules", type=Path, metavar="FILE", help="rules to apply after the standard steps")
    parser.add_argument("--state", type=Path, metavar="DIR", help="state or result folder of a run, also with --once")
    parser.add_argument("--explain", action="store_true", help="show every step that changed the URL")
    parser.add_argument("--json", action="store_true", help="one JSON object per URL, with its steps")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.core.rules.normalize import Normalizer
    from dustream.streams.rules_io.files import read_rules

    with _state_rules(args.state) as (known, is_known):
        normalizer = Normalizer([*known, *(read_rules(args.rules) if args.rules else [])])
        for url in args.urls or _read_urls():
            if args.json or args.explain:
                print(_explained(normalizer.explain(url), is_known, args.json))
            else:
                print(normalizer.normalize(url))
    return 0


def _read_urls() -> Iterator[str]:
    if sys.stdin.isatty():
        print("reading URLs from standard input, one a line", file=sys.stderr)
    for line in sys.stdin.buffer:
        yield line.decode("utf-8", "replace").rstrip("\r\n")


@contextmanager
def _state_rules(folder: Path | None) -> Iterator[tuple[list[RuleSet], Callable[[str], bool]]]:
    """The rules of a run, and whether it knows a URL. A run with --once has rules, but no state."""
    from dustream.streams.engine.results import find_status, read_rule_sets
    from dustream.streams.questions.state import state_folder
    from dustream.streams.rules_io.files import read_rules
    from dustream.streams.store.extent import open_to_read

    if folder is None:
        yield [], lambda url: False
        return
    state = state_folder(folder)
    if not (state / "CURRENT").exists() and (folder / "rules.jsonl").exists():
        yield read_rules(folder), lambda url: False
        return
    store = open_to_read(state)
    try:
        yield list(read_rule_sets(store)), lambda url: find_status(store, url) is not None
    finally:
        store.close()


def _explained(explanation: Explanation, is_known: Callable[[str], bool], as_json: bool) -> str:
    import msgspec

    is_ruled = any(step.rule for step in explanation.steps)
    is_key = is_ruled and not is_known(explanation.normalized)
    fetch = explanation.url if is_key else explanation.normalized
    if as_json:
        steps = [
            {"name": step.name, "url": step.url, "rule": step.rule, **_evidence(step)} for step in explanation.steps
        ]
        return msgspec.json.encode({**explanation._asdict(), "fetch": fetch, "steps": steps}).decode()
    lines = [explanation.normalized, f"  from {explanation.url}"]
    for step in explanation.steps:
        lines += [
            f"  {step.name}{f' [rule {step.rule}]' if step.rule else ''}",
            f"    {step.url}",
            *_evidence_lines(step),
        ]
    if is_key:
        lines.append("  a key to compare by, not known to exist: fetch the URL it is from")
    return "\n".join(lines if explanation.steps else [explanation.normalized, "  unchanged"])


def _evidence(step: Step) -> dict[str, object]:
    """The evidence for and against a rule; empty for a standard step."""
    if isinstance(step.by, str):
        return {}
    return {"support": step.by.support, "unknown": step.by.unknown, "false_positives": step.by.false_positives,
            "examples": step.by.examples, "against": step.by.against}  # fmt: skip


def _evidence_lines(step: Step) -> list[str]:
    from dustream.core.rules.wording import evidence_words
    from dustream.streams.cli.rule_text import example_lines

    if isinstance(step.by, str):
        return []
    return [f"      {evidence_words(step.by)}", *example_lines(step.by)]
