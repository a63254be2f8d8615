"""The state of a crawl: events go in, statuses, groups, rules and reasons come out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, overload

from msgspec import Struct

from dustream.core.errors import BadEvent, StateMismatch
from dustream.core.events import event_of
from dustream.core.intake import Rejected
from dustream.core.settings import Settings, parse_settings
from dustream.core.urls.identity import page_identity
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.rules import RuleSet
from dustream.schemas.status import DuplicateStatus, is_kept
from dustream.streams.embedded.session import Session
from dustream.streams.questions.group_list import GroupAnswer, GroupRequest, list_groups
from dustream.streams.questions.one_page import PageAnswer, ask_page
from dustream.streams.questions.state import EmbeddedState, StoredState, state_folder
from dustream.streams.questions.two_pages import PairAnswer, ask_pair


class Added(Struct, frozen=True):
    """What `State.add` did: how many events it was given, and which of them could not be used, by their number."""

    events: int
    rejected: list[Rejected]


def open(path: str | os.PathLike[str], *, read_only: bool = False, **settings: Any) -> State:
    """Open the state in a folder, or start a new one.

    It is the state of `dustream run --out PATH`: what a run began can be continued here, and the other way round.
    `settings` are those of docs/reference/settings.md, such as `threshold=0.85`; they are chosen when the state is
    new, and must be the same or left out later. `read_only` also works while a run adds to the state,
    and shows what was committed.

    >>> with dustream.open(folder) as state:
    ...     state.add([
    ...         {"url": "https://a.example/", "fetched_at": 1, "text": "one text of several words"},
    ...         {"url": "https://b.example/?print", "fetched_at": 2, "text": "one text of several words"},
    ...     ])
    ...     state.status("https://b.example/?print").winner
    ...     list(state.keep())
    Added(events=2, rejected=[])
    'https://a.example/'
    ['https://a.example/']
    """
    return State(path, read_only=read_only, **settings)


class State:
    """A crawl's state. Use it in a `with` block, or call `close`."""

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False, **settings: Any) -> None:
        folder = _folder(Path(path), read_only=read_only)
        self._session: Session | None = None
        if read_only:
            self._state: StoredState = EmbeddedState(folder)
            return
        wanted = parse_settings(settings) if settings else _known_settings(folder)
        self._session = Session(folder, wanted or Settings())
        self._state = StoredState(self._session.store, self._session.settings)

    def __enter__(self) -> State:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the folder. What was added is kept."""
        self._state.close()

    @property
    def settings(self) -> Settings:
        return self._state.settings

    def add(self, events: Iterable[CrawlEvent | Mapping[str, Any]]) -> Added:
        """Take in crawl events: CrawlEvent objects, or dicts with the fields of a JSON line (docs/reference/inputs.md).
        `body` may be bytes, `fetched_at` a datetime (UTC, if it has no time zone).

        When it returns, the events are durable and every status is up to date. An event that cannot be used is
        reported and left out; the others count. Add many events at once: each call brings the whole state up to date.
        """
        if self._session is None:
            raise StateMismatch("the state was opened read-only: open it without read_only to add events")
        total, numbers, refused = 0, [], []

        def usable() -> Iterator[CrawlEvent]:
            nonlocal total
            for number, fields in enumerate(events):
                total = number + 1
                try:
                    event = event_of(fields)
                except BadEvent as error:
                    url = fields.get("url") if isinstance(fields, Mapping) else None
                    refused.append(Rejected(number, str(url or ""), str(error)))
                    continue
                numbers.append(number)
                yield event

        rejected = self._session.add(usable())
        refused += [Rejected(numbers[each.index], each.url, each.reason) for each in rejected]
        return Added(total, sorted(refused, key=lambda each: each.index))

    def status(self, url: str) -> DuplicateStatus | None:
        """What a URL is: its role, group, winner and the similarity to it; None if it is not known."""
        return self._state.status(page_identity(url))

    def statuses(self) -> Iterator[DuplicateStatus]:
        """The status of every URL, in the order of the URLs."""
        return self._state.statuses()

    def keep(self) -> Iterator[str]:
        """The URLs to keep: unique pages, winners, and pages that are held for review."""
        return (status.url for status in self.statuses() if is_kept(status.role))

    @overload
    def why(self, url: str, other: None = None, *, market: str | None = None) -> PageAnswer: ...
    @overload
    def why(self, url: str, other: str, *, market: str | None = None) -> PairAnswer: ...
    def why(self, url: str, other: str | None = None, *, market: str | None = None) -> PageAnswer | PairAnswer:
        """Why a URL is what it is; with two URLs, how they relate, or why they do not. `words` says it shortly."""
        if other is None:
            return ask_page(self._state, page_identity(url), market)
        return ask_pair(self._state, page_identity(url), page_identity(other), market)

    def groups(
        self,
        *,
        top: int = 20,
        by: Literal["size", "changed"] = "size",
        held: bool = False,
        site: str | None = None,
        market: str | None = None,
    ) -> list[GroupAnswer]:
        """The largest groups, or those changed last; with `held` those held for review, with `site` those of a site."""
        return list_groups(self._state, GroupRequest(top=top, by=by, held=held, site=site, market=market))

    def rules(self, site: str | None = None) -> list[RuleSet]:
        """The URL rules learned, of every site or of one."""
        from dustream.core.urls.sites import site_of

        wanted = None if site is None else site_of(site)
        return [rules for rules in self._state.rule_sets() if wanted in (None, rules.site)]


def _folder(path: Path, *, read_only: bool) -> Path:
    """Where the state is, or will be: as `dustream run --out` lays it out."""
    folder = state_folder(path)
    if (folder / "CURRENT").exists() or read_only:
        return folder
    return path / "state"


def _known_settings(folder: Path) -> Settings | None:
    """Those that an existing state was made with."""
    if not (folder / "CURRENT").exists():
        return None
    with EmbeddedState(folder) as state:
        return state.settings
