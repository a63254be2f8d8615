"""`dustream normalize`: URLs in, their normal URLs out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dustream.core.rules.normalize import Explanation
    from dustream.schemas.rules import RuleSet

DESCRIPTION = """\
Read URLs from standard input, one a line, and print the normal form of each, one a line in the same order:
first the standard steps that are safe on every site, then the active rules of the URL's site.

  dustream normalize < urls.txt
  dustream normalize --rules rules.json < urls.txt
  dustream normalize --state result < urls.txt               by the rules that a run learned as it went
  echo 'HTTP://www.Example.com:80/a/../b?sid=1' | dustream normalize --rules rules.json --explain
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "normalize",
        help="rewrite URLs to the one URL of their content",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rules", type=Path, metavar="FILE", help="rules to apply after the standard steps")
    parser.add_argument("--state", type=Path, metavar="DIR", help="state or result folder of a run: its rules, too")
    parser.add_argument("--explain", action="store_true", help="tell every step that changed something")
    parser.add_argument("--json", action="store_true", help="one JSON object per URL, with its steps")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.core.rules.normalize import Normalizer
    from dustream.streams.rules_io.files import read_rules

    known = _state_rules(args.state) if args.state else []
    known += read_rules(args.rules) if args.rules else []
    normalizer = Normalizer(known)
    for line in sys.stdin.buffer:
        url = line.decode("utf-8", "replace").rstrip("\r\n")
        if args.json or args.explain:
            print(_told(normalizer.explain(url), args.json))
        else:
            print(normalizer.normalize(url))
    return 0


def _state_rules(folder: Path) -> list[RuleSet]:
    from dustream.streams.embedded.results import read_rule_sets
    from dustream.streams.questions.state import state_folder
    from dustream.streams.store.extent import open_to_read

    store = open_to_read(state_folder(folder))
    try:
        return list(read_rule_sets(store))
    finally:
        store.close()


def _told(explanation: Explanation, as_json: bool) -> str:
    import msgspec

    if as_json:
        steps = [{"name": step.name, "url": step.url, "rule": step.rule} for step in explanation.steps]
        return msgspec.json.encode({**explanation._asdict(), "steps": steps}).decode()
    lines = [explanation.normalized, f"  from {explanation.url}"]
    lines += [
        f"  {step.name}{f' [rule {step.rule}]' if step.rule else ''}\n    {step.url}" for step in explanation.steps
    ]
    return "\n".join(lines if explanation.steps else [explanation.normalized, "  unchanged"])
