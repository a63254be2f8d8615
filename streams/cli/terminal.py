"""Terminal output. URLs and texts are untrusted: control characters in them must not reach the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dustream.streams.readers import Input

Item = TypeVar("Item")

BOLD, RED, GREEN = "1", "31", "32"
PROGRESS_INTERVAL_S = 0.2
SOME_UNREAD = 3  # exit status: done, but of some inputs nothing could be read
UNREAD_SHOWN = 5


def shown(text: str) -> str:
    """Printable characters as they are, others as codes: no control character, escape sequence or bidi mark."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else " " if each.isspace() and each > "\x7f" else _code(each) for each in text
    )


def _code(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def end_with_reader() -> None:
    """End the process when the reader of its output has gone, even while there is nothing to write: a command that
    follows a log would otherwise notice with its next line only."""
    import select
    import signal
    from threading import Thread

    def follow() -> None:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)  # POLLERR is always reported
        poll.poll()
        os.kill(os.getpid(), signal.SIGPIPE)

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    Thread(target=follow, daemon=True).start()


def number_of(count: int, what: str) -> str:
    """1 rule, 1,200 rules."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def say_unread(paths: list[str]) -> int:
    """Name the inputs of which nothing could be read; the exit status: 3, or 0 if there are none."""
    if not paths:
        return 0
    named = ", ".join(map(shown, paths[:UNREAD_SHOWN])) + (", …" if len(paths) > UNREAD_SHOWN else "")
    print(f"dustream: nothing could be read of {number_of(len(paths), 'input')}: {named}", file=sys.stderr)
    return SOME_UNREAD


def painted(text: str, *styles: str) -> str:
    """In colour on a terminal, unless NO_COLOR is set (no-color.org)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{';'.join(styles)}m{text}\x1b[0m"


def print_json(answer: Any) -> None:
    """One object on one line, in ASCII: safe on any terminal."""
    import json

    import msgspec

    print(json.dumps(msgspec.to_builtins(answer)).replace("\x7f", "\\u007f"))


def counted(items: list[Item], unit: str) -> Iterable[Item]:
    """The items, with a progress bar on a terminal if it takes long."""
    if not sys.stderr.isatty():
        return items
    from tqdm import tqdm

    bar: Iterable[Item] = tqdm(items, unit=f" {unit}", leave=False, delay=1)
    return bar


@contextmanager
def searching(opened: Input) -> Iterator[None]:
    """A progress bar on a terminal while an input is searched."""
    if not sys.stderr.isatty():
        yield
        return
    from threading import Event, Thread

    from tqdm import tqdm

    done = Event()
    total = opened.bytes_total
    with tqdm(total=total, unit="B", unit_scale=True, leave=False, desc="reading the texts again", delay=0.5) as bar:

        def follow() -> None:
            while not done.wait(PROGRESS_INTERVAL_S):
                bar.update(opened.bytes_read - bar.n)

        follower = Thread(target=follow, daemon=True)
        follower.start()
        try:
            yield
        finally:
            done.set()
            follower.join()
