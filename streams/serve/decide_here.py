"""Decisions from the web page: a preview of what changes, and `dustream breaker` in a process of its own to apply it.

A process of its own, because the engine needs memory for the whole index, and the server must go on answering.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from dustream.core.errors import BadSetting
from dustream.core.urls.identity import page_identity
from dustream.core.urls.sites import site_of
from dustream.schemas.status import DuplicateStatus
from dustream.streams.serve.digest import CountedStatus
from dustream.streams.serve.lookups import Lookups

EXAMPLES_MAX = 10
PAGES_PREVIEWED_MAX = 10_000
SHOWN_WITHIN_S = 3.0


class AskedDecision(msgspec.Struct, frozen=True):
    """A decision asked for in a form."""

    action: str
    name: str
    pass_from: float | None = None


class Decider:
    """Applies one decision at a time."""

    def __init__(self, lookups: Lookups, path: Path) -> None:
        self._lookups = lookups
        self._path = path
        self._task: asyncio.Task[None] | None = None
        self.message = ""
        self.form_key = secrets.token_urlsafe(32)
        """Forms carry it: another site can send a form here, but cannot read this."""

    @property
    def is_busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self, decision: AskedDecision) -> None:
        if self.is_busy:
            raise BadSetting("another decision is being applied: wait for it")
        self.message = f"{decision.action} {decision.name}: being applied …"
        self._task = asyncio.get_running_loop().create_task(self._apply(decision))

    async def _apply(self, decision: AskedDecision) -> None:
        before = await asyncio.to_thread(self._lookups.source.decisions)
        arguments = ["breaker", "--state", str(self._path)]
        if decision.pass_from is not None:
            arguments += ["--pass-from", repr(decision.pass_from)]
        command = [sys.executable, "-m", "dustream.streams.cli.main", *arguments, "--", decision.action, decision.name]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        await asyncio.to_thread(self._show_effect, before)
        self.message = output.decode(errors="replace").strip() or f"failed with status {process.returncode}"

    def _show_effect(self, before: object) -> None:
        """A follower may need another attempt to see what the process has written: files that replace others."""
        deadline = time.monotonic() + SHOWN_WITHIN_S
        while True:
            self._lookups.catch_up(0.0)
            is_shown = self._lookups.source.seen().settled and self._lookups.source.decisions() != before
            if is_shown or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        self._lookups.renew_digest()

    async def close(self) -> None:
        """Wait for a decision under way: it is a write."""
        if self._task is not None:
            await self._task


def read_decision(given: dict[str, str]) -> AskedDecision:
    """From the fields of a form; BadSetting says what is wrong."""
    action, name = given.get("action", ""), given.get("name", "").strip()
    if action not in ("release", "split", "hold"):
        raise BadSetting("choose release, split or hold")
    if "://" in name:
        name = page_identity(name)
    elif not name or site_of(name) != name:
        raise BadSetting(f"{name!r} is neither a URL nor a site")
    if action != "split":
        return AskedDecision(action, name)
    try:
        pass_from = float(given.get("pass_from", ""))
    except ValueError:
        raise BadSetting("a split needs a similarity from which on pages are duplicates, as 0.98") from None
    if "://" not in name or not 0 < pass_from <= 1:
        raise BadSetting("only a group can be split, at a similarity above 0 and at most 1")
    return AskedDecision(action, name, pass_from)


def preview(lookups: Lookups, decision: AskedDecision) -> dict[str, Any]:
    """What would change, from the statuses."""
    pages = _pages_of(lookups, decision.name)
    held = [page for page in pages if page.role == "held"]
    if decision.action == "hold":
        effect = "The decision is withdrawn, and the circuit breaker decides again."
        examples = []
    elif decision.action == "release":
        effect = f"{len(held):,} held pages become duplicates of their winners and are no longer kept."
        examples = held
    else:
        limit = decision.pass_from or 0.0
        apart = [page for page in pages if page.similarity is not None and page.similarity < limit]
        effect = (
            f"The group passes. {len(apart):,} of its {len(pages):,} pages are less than {limit:g} similar to their "
            "winner and are kept; the others are duplicates."
        )
        examples = apart
    more = "" if len(pages) < PAGES_PREVIEWED_MAX else f" Only the first {PAGES_PREVIEWED_MAX:,} pages were counted."
    return {
        "action": decision.action,
        "name_asked": decision.name,
        "pass_from": decision.pass_from,
        "effect": effect + more,
        "examples": examples[:EXAMPLES_MAX],
    }


def _pages_of(lookups: Lookups, name: str) -> list[CountedStatus] | list[DuplicateStatus]:
    if "://" in name:
        found = lookups.source.group(name, PAGES_PREVIEWED_MAX)
        return [] if found is None else [each for each in found.members if each.role != "redirect"]
    decoder = msgspec.json.Decoder(CountedStatus)
    statuses = (decoder.decode(row) for row in lookups.source.status_rows() if name.encode() in row)
    return [each for each in statuses if site_of(each.url) == name][:PAGES_PREVIEWED_MAX]
