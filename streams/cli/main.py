"""The `dustream` command. Commands import what they need when they run, so that `--help` answers at once."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module

from dustream.core.errors import BadSetting, DustreamError, broken_program
from dustream.streams.disk import describe
from dustream.streams.engine.feed import rare_collections

COMMANDS = (
    "demo",
    "run",
    "dedupe",
    "examples",
    "thresholds",
    "status",
    "why",
    "groups",
    "breaker",
    "decide",
    "serve",
    "report",
    "generate",
    "codes",
    "partitions",
    "learn",
    "normalize",
    "rules",
    "broker",
    "topics",
    "publish",
    "worker",
    "watch",
    "settled",
    "dead",
    "replay",
    "compare",
    "compile",
)

SERVERS = ("serve", "worker")

DESCRIPTION = """\
Near-duplicate groups of crawled pages, kept up to date while pages arrive, change, redirect and die.

  dustream demo                            run the pipeline on a small generated web
  dustream run crawl.warc.gz --out result  find the duplicates in your own crawl
  dustream dedupe corpus/ --out result     remove the near-duplicates of a corpus
  dustream status URL --state result       show the role of a URL
  dustream why URL --state result          explain it
"""


def build_parser(commands: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dustream", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    subparsers = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name in commands:
        import_module(f"dustream.streams.cli.{name}").add_parser(subparsers)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Errors are one line that says what to do; a traceback is a bug."""
    atexit.register(gc.freeze)  # else Python looks for cycles among all objects again while it ends
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except DustreamError as error:
        print(f"dustream: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadSetting) else 1
    except KeyboardInterrupt:
        print("dustream: interrupted; completed work is kept; run the same command again to resume", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _close_stdout()  # the reader has gone: say nothing more
        return 141
    except OSError as error:
        print(f"dustream: {describe(error)}", file=sys.stderr)
        _close_stdout()
        return 1
    except Exception as error:
        if (broken := broken_program(error)) is None:
            raise
        print(f"dustream: {broken}", file=sys.stderr)
        return 1


def _run(argv: list[str]) -> int:
    named = [name for name in argv[:1] if name in COMMANDS]
    parser = build_parser(named or COMMANDS)
    args = parser.parse_args(argv)
    if args.version:
        print(_version())
        return 0
    if args.command is None:
        parser.print_help()
        return 0
    # modules and machine code make many objects and no garbage; servers make garbage for as long as they run
    with nullcontext() if args.command in SERVERS else rare_collections():
        code: int = args.run(args)
    return code


def _close_stdout() -> None:
    """Python flushes stdout at exit; a second attempt must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version() -> str:
    from importlib.metadata import version

    return f"dustream {version('dustream')}"


if __name__ == "__main__":
    sys.exit(main())
