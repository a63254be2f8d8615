"""The progress of `dustream publish` on the terminal."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm

from dustream.core.errors import UnreadableInput
from dustream.streams.cli.terminal import shown
from dustream.streams.engine.chunks import ChunkSpan, InputPlan
from dustream.streams.kafka.publish import PublishListener


class PublishBar(PublishListener):
    """A progress bar, and notices about files."""

    def __init__(self, *, show: bool) -> None:
        self._show = show
        self._bar: Any = None
        self._read: dict[str, int] = {}

    def plans(self, plans: list[InputPlan]) -> None:
        for plan in plans:
            if plan.done:
                print(f"dustream: {plan.path}: already published, not read again", file=sys.stderr)
            elif plan.start:
                print(f"dustream: {plan.path}: resuming at record {plan.start}", file=sys.stderr)
        if self._show:
            total = sum(plan.bytes_total for plan in plans if not plan.done)
            self._bar = tqdm(total=total or None, unit="B", unit_scale=True, unit_divisor=1024, leave=False)

    def progress(self, place: ChunkSpan, events: int) -> None:
        if self._bar is not None:
            self._read[place.path] = place.bytes_read
            self._bar.set_description(f"{events} events")
            self._bar.update(sum(self._read.values()) - self._bar.n)

    def refused(self, path: str, error: UnreadableInput) -> None:
        print(f"dustream: refused: {error}", file=sys.stderr)

    def notice(self, path: str, text: str) -> None:
        print(f"dustream: {shown(path)}: {text}", file=sys.stderr)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
