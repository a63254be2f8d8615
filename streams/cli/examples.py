"""`dustream examples`: pairs of duplicates near a similarity, with the words that differ."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dustream.streams.cli.arguments import at_least_one
from dustream.streams.cli.terminal import BOLD, GREEN, RED, number_of, painted, print_json, shown

if TYPE_CHECKING:
    from dustream.streams.dedupe.pairs import StoredPair
    from dustream.streams.questions.word_diff import Run, WordDiff

DESCRIPTION = """\
Show pairs of duplicates and winners whose similarity lies between two values, with the words that differ: to find the
threshold by looking. Pairs come nearest to the middle first, from different clusters where there are enough.

DIR is the --out folder of `dustream dedupe`, or of `dustream run`, whose inputs must be named, too. Only similarities
from the threshold of that run on are stored: run it with a low one, such as --threshold 0.7, and look.
"""

EXAMPLES = """\
examples:
  dustream examples result --between .80 .85 -n 20
  dustream examples crawl-result crawl.warc.gz --between .9 .92
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "examples",
        help="show pairs of duplicates near a similarity, with the words that differ",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="--out folder of `dedupe` or `run`")
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="the inputs of a run")
    parser.add_argument(
        "--between",
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="similarities (default: from the threshold to 1)",
    )
    parser.add_argument("-n", type=at_least_one, default=10, metavar="N", help="pairs to show (default 10)")
    parser.add_argument("--json", action="store_true", help="one JSON object per pair")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.core.errors import BadSetting
    from dustream.streams.dedupe.pairs import StoredOutcome
    from dustream.streams.questions.word_diff import unit_of, word_diff

    outcome = StoredOutcome(args.folder)
    low, high = args.between or (outcome.threshold, 1.0)
    if not 0 <= low <= high <= 1:
        raise BadSetting(f"--between {low} {high}: two similarities from 0 to 1, the lower one first")
    pairs, without_text = outcome.pairs(low, high, args.n)
    if not pairs and not without_text:
        below = (
            f": below {outcome.threshold:g} none are stored, use a lower --threshold" if low < outcome.threshold else ""
        )
        print(f"no near-duplicates between {low:g} and {high:g}{below}")
        return 1
    texts = outcome.texts(pairs, args.inputs)
    for pair in pairs:
        one, other = (None if place is None else texts.get(place) for place in pair.places)
        diff = None if one is None or other is None else word_diff(one, other, outcome.rules)
        if args.json:
            print_json(
                {"similarity": pair.similarity, "duplicate": pair.names[0], "winner": pair.names[1], "diff": diff}
            )
        else:
            missing = outcome.missing_files(pair) if diff is None else []
            print(describe(pair, diff, unit_of(outcome.rules), missing), end="\n\n")
    if without_text:
        print(
            f"dustream: {number_of(without_text, 'more pair')} cannot be shown: the winners are in an index or a run, "
            "which keep no texts",
            file=sys.stderr,
        )
    return 0


def describe(pair: StoredPair, diff: WordDiff | None, unit: str, missing: list[str]) -> str:
    """A pair, for people: of each passage the two versions, one above the other."""
    lines = [painted(f"{pair.similarity:.4f}  {shown(pair.names[0])}  ~  {shown(pair.names[1])}", BOLD)]
    if diff is None:
        reason = f": there is no {shown(missing[0])}" if missing else ""
        return "\n".join([*lines, f"  the texts cannot be read again{reason}"])
    lines.append(
        f"  {diff.words_same:,} {unit} in common, {diff.words_removed:,} only in the duplicate, "
        f"{diff.words_added:,} only in the winner"
    )
    for passage in diff.passages:
        lines.append("  - " + " ".join(filter(None, (_side(each, "removed") for each in passage))))
        lines.append("  + " + " ".join(filter(None, (_side(each, "added") for each in passage))))
    if diff.passages_left_out:
        lines.append(f"  and {diff.passages_left_out:,} more passages")
    return "\n".join(lines)


def _side(run: Run, kind: str) -> str:
    if run.kind == "same":
        return shown(run.text)
    if run.kind != kind:
        return ""
    return painted(f"[{shown(run.text)}]", RED if kind == "removed" else GREEN)
