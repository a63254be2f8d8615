"""Decisions from the web page: a preview of what changes, and `dustream breaker` or `dustream decide` in a process of
its own to apply it.

A process of its own, because the engine needs memory for the whole index, and the server must go on answering.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from dustream.core.errors import BadSetting, DustreamError
from dustream.core.rules.wording import describe, evidence_words
from dustream.core.urls.identity import page_identity
from dustream.core.urls.sites import site_of
from dustream.schemas.status import DuplicateStatus, is_kept
from dustream.streams.serve.digest import CountedStatus
from dustream.streams.serve.lookups import Lookups

EXAMPLES_MAX = 10
BREAKER_ACTIONS = ("release", "split", "hold")
PAGE_ACTIONS = ("not_duplicate", "undo")
PAIR_ACTIONS = ("same", "undo")
RULE_ACTIONS = ("accept", "reject", "pin", "undo")
PAGES_PREVIEWED_MAX = 10_000
SHOWN_WITHIN_S = 3.0


_Examples = Sequence[CountedStatus | DuplicateStatus]
_NO_EXAMPLES: _Examples = ()


class AskedDecision(msgspec.Struct, frozen=True):
    """A decision asked for in a form: on a group or site, on a page, with `other` on two pages, or with `rule`, its id,
    on a rule of the site."""

    action: str
    name: str
    pass_from: float | None = None
    rule: str = ""
    other: str = ""

    @property
    def is_of_breaker(self) -> bool:
        return self.action in BREAKER_ACTIONS

    def command(self, options: list[str]) -> list[str]:
        """The arguments of the command that applies it; `options` name the state or the application."""
        if self.rule:
            return ["decide", "rule", *options, "--", self.action, self.name, self.rule]
        if not self.is_of_breaker:
            other = [self.other] if self.other else []
            return ["decide", self.action.replace("_", "-"), *options, "--", self.name, *other]
        split = [] if self.pass_from is None else ["--pass-from", repr(self.pass_from)]
        return ["breaker", *options, *split, "--", self.action, self.name]


class Decider:
    """Applies one decision at a time."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
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
        try:
            self.message = await self._applied(decision)
        except DustreamError as error:
            self.message = f"{decision.action} {decision.name}: not applied: {error}"

    async def _applied(self, decision: AskedDecision) -> str:
        """What the command says. It has decided, whatever keeps the effect from being shown."""
        before = await asyncio.to_thread(self._lookups.source.decisions)
        options = self._lookups.source.breaker_options()
        command = [sys.executable, "-m", "dustream.streams.cli.main", *decision.command(options)]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        with suppress(DustreamError):
            await asyncio.to_thread(self._show_effect, before)
        return output.decode(errors="replace").strip() or f"failed with status {process.returncode}"

    def _show_effect(self, before: object) -> None:
        """A follower may need another attempt to see what the process has written: files that replace others. The
        decision is looked for first: a state that is settled afterwards includes what follows from it."""
        deadline = time.monotonic() + SHOWN_WITHIN_S
        while True:
            is_known = self._lookups.source.decisions() != before
            self._lookups.catch_up(0.0)
            if (is_known and self._lookups.seen().settled) or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        self._lookups.renew_digest()

    async def close(self) -> None:
        """Wait for a decision under way: it is a write."""
        if self._task is not None:
            await self._task


def read_decision(given: dict[str, str]) -> AskedDecision:
    """From the fields of a form; BadSetting says what is wrong."""
    action, name, rule, other = (given.get(field, "").strip() for field in ("action", "name", "rule", "other"))
    if other or action == "same":
        return _read_pair(action, name, other)
    if action not in (RULE_ACTIONS if rule else BREAKER_ACTIONS + PAGE_ACTIONS):
        raise BadSetting(f"{action!r} is no decision on {'a rule' if rule else 'a group, a site or a page'}")
    if rule:
        if not name or site_of(name) != name or not rule.isalnum():
            raise BadSetting("a decision on a rule needs the site and the rule's id")
        return AskedDecision(action, name, rule=rule)
    if action in PAGE_ACTIONS:
        return AskedDecision(action, page_identity(name))
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


def _read_pair(action: str, name: str, other: str) -> AskedDecision:
    if action not in PAIR_ACTIONS:
        raise BadSetting(f"{action!r} is no decision on two pages")
    one, two = page_identity(name), page_identity(other)
    if one == two:
        raise BadSetting(f"{one} is one page: name two different ones")
    return AskedDecision(action, one, other=two)


def preview(lookups: Lookups, decision: AskedDecision) -> dict[str, Any]:
    """What would change, from the statuses and rules."""
    if decision.rule:
        effect, examples = _effect_on_rule(lookups, decision), _NO_EXAMPLES
    elif decision.is_of_breaker:
        effect, examples = _effect_on_held(lookups, decision)
    elif decision.other:
        effect, examples = _effect_on_pair(lookups, decision)
    else:
        effect, examples = _effect_on_page(lookups, decision)
    return {
        "action": decision.action,
        "name_asked": decision.name,
        "pass_from": decision.pass_from,
        "rule": decision.rule,
        "other": decision.other,
        "effect": effect,
        "examples": examples[:EXAMPLES_MAX],
    }


def _effect_on_held(lookups: Lookups, decision: AskedDecision) -> tuple[str, _Examples]:
    pages = _pages_of(lookups, decision.name)
    more = "" if len(pages) < PAGES_PREVIEWED_MAX else f" Only the first {PAGES_PREVIEWED_MAX:,} pages were counted."
    if decision.action == "hold":
        return "The decision is withdrawn, and the circuit breaker decides again.", _NO_EXAMPLES
    if decision.action == "release":
        held = [page for page in pages if page.role == "held"]
        return f"{len(held):,} held pages become duplicates of their winners and are no longer kept.{more}", held
    limit = decision.pass_from or 0.0
    apart = [page for page in pages if page.similarity is not None and page.similarity < limit]
    effect = (
        f"The group passes. {len(apart):,} of its {len(pages):,} pages are less than {limit:g} similar to their "
        f"winner and are kept; the others are duplicates.{more}"
    )
    return effect, apart


def _effect_on_page(lookups: Lookups, decision: AskedDecision) -> tuple[str, _Examples]:
    status = lookups.source.status(decision.name)
    if status is None:
        return "The page is not known yet: the decision waits for it.", []
    if decision.action == "undo":
        words = lookups.source.page(decision.name, None).words
        return f"The decision is withdrawn, and its matches decide again. Now it is {words}.", [status]
    if is_kept(status.role) and status.role != "held":
        return "The page is kept already; it stays kept whatever it matches from now on.", [status]
    if status.role in ("redirect", "gone"):
        return f"The page has no content of its own ({status.role}); the decision counts when it has.", [status]
    return "The page is kept, although it matches its winner.", [status]


def _effect_on_pair(lookups: Lookups, decision: AskedDecision) -> tuple[str, _Examples]:
    statuses = [lookups.source.status(url) for url in (decision.name, decision.other)]
    known = [status for status in statuses if status is not None]
    if decision.action == "undo":
        return "The decision is withdrawn, and the texts of the two pages decide again.", known
    if len(known) < 2 or any(status.role in ("redirect", "gone") for status in known):
        return "The decision counts while both pages have a content of their own.", known
    found = lookups.source.pair(decision.name, decision.other, None)
    if found.decision is None:
        return "The two pages match from now on, whatever their texts.", known
    better, worse = found.decision.better, ({decision.name, decision.other} - {found.decision.better}).pop()
    effect = (
        f"The two pages match from now on, whatever their texts, and {better} is better by {found.decision.criterion}: "
        f"{worse} becomes a duplicate of it, unless a still better page decides for one of them. Pages like {worse} "
        f"that do not match {better} are kept."
    )
    return effect, known


def _effect_on_rule(lookups: Lookups, decision: AskedDecision) -> str:
    known = lookups.rule_set(decision.name)
    rule = next((each for each in (() if known is None else known.rules) if each.id == decision.rule), None)
    if rule is None:
        return f"{decision.name} has no such rule now; the decision on it is changed all the same."
    does = f"{describe(rule)}: now {rule.stage}. {evidence_words(rule)}."
    then = {
        "accept": "It becomes active, and is revoked if its predictions fail.",
        "pin": "It becomes active and stays so, whatever the evidence says.",
        "reject": "It is not applied any more, also after the site is learned again.",
        "undo": "The decision is withdrawn, and the evidence decides again.",
    }
    return f"{does} {then[decision.action]}"


def _pages_of(lookups: Lookups, name: str) -> list[CountedStatus] | list[DuplicateStatus]:
    if "://" in name:
        found = lookups.source.group(name, PAGES_PREVIEWED_MAX)
        return [] if found is None else [each for each in found.members if each.role != "redirect"]
    decoder = msgspec.json.Decoder(CountedStatus)
    statuses = (decoder.decode(row) for row in lookups.source.status_rows() if name.encode() in row)
    return [each for each in statuses if site_of(each.url) == name][:PAGES_PREVIEWED_MAX]
