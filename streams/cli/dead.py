"""`dustream dead`: list records that could not be used, and send them again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dustream.streams.kafka.dead import FoundLetter

DESCRIPTION = """\
List the dead letters of an application (records and messages that could not be used, with position and reason), or send
them again once the cause is fixed.

Name letters by partition:offset as `list` shows them. --reason selects those whose reason contains a text. `list` marks
letters that were sent again; `redrive` leaves them out unless --again is given. A letter that fails again is a new
letter.
"""

EXAMPLES = """\
examples:
  dustream dead list
  dustream dead list --reason 'processor failed' --json
  dustream dead redrive 3:17 3:18
  dustream dead redrive --all --reason 'processor failed'
"""


def add_parser(subparsers: Any) -> None:
    from dustream.streams.cli.topics import add_cluster

    parser: argparse.ArgumentParser = subparsers.add_parser(
        "dead",
        help="list dead letters, or send them again",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("list", "redrive"))
    parser.add_argument("letters", nargs="*", metavar="PARTITION:OFFSET", help="which (default: all)")
    add_cluster(parser)
    parser.add_argument("--reason", metavar="TEXT", help="only letters whose reason contains this")
    parser.add_argument("--all", action="store_true", help="redrive without naming letters")
    parser.add_argument("--again", action="store_true", help="also redrive letters that were sent again before")
    parser.add_argument("--originals", action="store_true", help="with --json: the original bytes too, as base64")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.core.errors import BadSetting
    from dustream.streams.cli.topics import read_application
    from dustream.streams.kafka.dead import choose, read_letters, redrive

    cluster, application = read_application(args)
    if args.action == "redrive" and not (args.letters or args.all):
        raise BadSetting("name the letters to send again (see `dustream dead list`), or give --all")
    chosen = choose(read_letters(cluster, application), args.letters, args.reason)
    if args.action == "list":
        _list(chosen, args)
        return 0
    due = [letter for letter in chosen if args.again or not letter.redriven]
    sent = redrive(cluster, application, due)
    left, before = len(due) - sent, len(chosen) - len(due)
    if args.json:
        print(f'{{"redriven":{sent},"without_original":{left},"redriven_before":{before}}}')
    else:
        cannot = f"; {left} cannot be: publish their files again" if left else ""
        print(f"{sent} sent again{cannot}" + (f"; {before} were before (--again sends them too)" if before else ""))
    return 1 if left and not sent else 0


def _list(letters: list[FoundLetter], args: argparse.Namespace) -> None:
    if letters and not args.json:
        print("PLACE\tWHERE IT STOOD\tURL\tORIGINAL\tSENT AGAIN\tREASON")
    for letter in letters:
        print(_as_json(letter, args.originals) if args.json else _line(letter))
    if not letters and not args.json:
        print("no dead letters")


def _line(letter: FoundLetter) -> str:
    from dustream.streams.cli.terminal import shown

    content = letter.letter
    fields = (
        letter.place,
        f"{content.source} at {content.position}",
        content.url or "-",
        _size(letter),
        "sent again" if letter.redriven else "-",
        content.reason,
    )
    return "\t".join(map(shown, fields))


def _size(letter: FoundLetter) -> str:
    if letter.original is None:
        return "no original"
    kept = len(letter.original)
    return f"{kept} bytes" if kept == letter.original_size else f"first {kept} of {letter.original_size} bytes"


def _as_json(letter: FoundLetter, with_original: bool) -> str:
    import msgspec

    shown = {
        "place": letter.place,
        "topic": letter.topic,
        "redriven": letter.redriven,
        "letter": letter.letter,
        "original_bytes": None if letter.original is None else len(letter.original),
        "original_size": letter.original_size,
    }
    return msgspec.json.encode(shown | ({"original": letter.original} if with_original else {})).decode()
