"""The files of `dustream run --once` as a source: status.jsonl and groups.jsonl, which are sorted, mapped into memory.

Lookups are binary searches, so starting takes as long as finding the line ends.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from dustream.core.errors import BadSetting, StateMismatch
from dustream.core.settings import Settings
from dustream.core.urls.sites import site_of
from dustream.schemas.lookup import InputStatus
from dustream.schemas.rules import RuleSet
from dustream.schemas.status import DuplicateStatus
from dustream.streams.engine.alarms import AlarmLine
from dustream.streams.engine.results import GroupLine, StatusLine, Tier2Load
from dustream.streams.engine.sizes import SizeTally
from dustream.streams.questions.group_list import SITES_SHOWN_MAX, WINNERS_SHOWN_MAX, GroupAnswer, GroupRequest
from dustream.streams.questions.near_urls import near_urls_among
from dustream.streams.questions.one_page import MEMBERS_SHOWN_MAX, GroupFacts, PageAnswer
from dustream.streams.questions.page_sizes import PageSizes, sizes_of
from dustream.streams.questions.texts import TextAnswer
from dustream.streams.questions.two_pages import PairAnswer, Reason
from dustream.streams.serve.source import (
    FoundGroup,
    LastRun,
    LowerSample,
    Seen,
    SiteFacts,
    StandingDecision,
    read_last_run,
)
from dustream.streams.serve.wording import status_words, unknown_status

Line = TypeVar("Line")

NO_STATE = "a --once result keeps no state: run without --once to see matches and texts"


class _Totals(msgspec.Struct):
    """The fields of summary.json that are used here."""

    events: int
    rejected: int
    settings: Settings
    sizes: SizeTally | None = None


class SortedLines(Generic[Line]):
    """A file of JSON lines, sorted by the UTF-8 bytes of one field."""

    def __init__(self, path: Path, kind: type[Line], field: str) -> None:
        key = msgspec.defstruct("Key", [(field, str)], rename=None)
        self._decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(kind)
        self._key_decoder = msgspec.json.Decoder(key)
        self._field = field
        with path.open("rb") as file:
            size = path.stat().st_size
            self._data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        found = np.flatnonzero(np.frombuffer(self._data, dtype=np.uint8) == ord("\n"))
        self._starts = np.concatenate([[0], found + 1]).astype(np.int64)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def row(self, number: int) -> bytes:
        row: bytes = self._data[self._starts[number] : self._starts[number + 1]]
        return row

    def rows(self, first: int = 0) -> Iterator[bytes]:
        return (self.row(number) for number in range(first, len(self)))

    def lines(self) -> Iterator[Line]:
        return (self._decoder.decode(row) for row in self.rows())

    def place(self, key: str) -> int:
        """The number of the first line whose key is not smaller."""
        return bisect_left(range(len(self)), key.encode(), key=lambda number: self.key(number).encode())

    def key(self, number: int) -> str:
        key: str = getattr(self._key_decoder.decode(self.row(number)), self._field)
        return key

    def get(self, key: str) -> Line | None:
        number = self.place(key)
        if number == len(self) or self.key(number) != key:
            return None
        return self._decoder.decode(self.row(number))


class OnceSource:
    """A result folder without a state."""

    is_state = False

    def __init__(self, path: Path) -> None:
        try:
            totals = msgspec.json.decode((path / "summary.json").read_bytes(), type=_Totals)
            self._statuses = SortedLines(path / "status.jsonl", StatusLine, "url")
            self._groups = SortedLines(path / "groups.jsonl", GroupLine, "group")
            self._rules = _read_lines(path / "rules.jsonl", RuleSet)
            self._alarms = _read_lines(path / "alarms.jsonl", AlarmLine)
        except (OSError, msgspec.MsgspecError) as error:
            raise StateMismatch(f"{path} has neither a state nor complete result files ({error}): run again") from None
        self.path = path
        self.settings = totals.settings
        self._totals = totals
        self._sites: dict[str, SiteFacts] | None = None

    def seen(self) -> Seen:
        return Seen(self._totals.events, True, self._totals.events)

    def catch_up(self) -> None:
        """The files of a result do not grow."""

    def close(self) -> None:
        """The files are released with this object."""

    def status(self, url: str) -> DuplicateStatus | None:
        line = self._statuses.get(url)
        return None if line is None else _status(line)

    async def status_soon(self, url: str) -> DuplicateStatus | None:
        return self.status(url)

    def statuses(self, urls: Sequence[str]) -> dict[str, DuplicateStatus]:
        return {url: found for url in urls if (found := self.status(url)) is not None}

    def status_rows(self) -> Iterator[bytes]:
        return self._statuses.rows()

    def rule_sets(self) -> Iterator[RuleSet]:
        return iter(self._rules)

    def _near(self, url: str) -> list[str]:
        return near_urls_among(url, lambda each: self._statuses.get(each) is not None, self._urls)

    def _urls(self, prefix: str) -> Iterator[str]:
        for number in range(self._statuses.place(prefix), len(self._statuses)):
            url = self._statuses.key(number)
            if not url.startswith(prefix):
                return
            yield url

    def page(self, url: str, market: str | None) -> PageAnswer:
        self._require_first(market)
        name = self.settings.markets[0].name
        status = self.status(url)
        if status is None:
            words = unknown_status(url).words
            return PageAnswer(url=url, role="unknown", words=words, market=name, near_urls=self._near(url))
        return PageAnswer(
            url=url,
            role=status.role,
            words=status_words(status),
            market=name,
            since=status.since,
            way=[] if status.target is None else [status.target],
            problem=status.problem,
            winner=status.winner,
            relation=status.relation,
            similarity=status.similarity,
            group=self._group_facts(status),
        )

    def _require_first(self, market: str | None) -> None:
        if market not in (None, self.settings.markets[0].name):
            raise BadSetting(f"a --once result has the verdicts of market {self.settings.markets[0].name} only")

    def _group_facts(self, status: DuplicateStatus) -> GroupFacts | None:
        line = None if status.group is None else self._groups.get(status.group)
        if line is None:
            return None
        pages = [each.url for each in line.members if each.role not in ("redirect", "gone")]
        others = [url for url in pages if url != status.url][:MEMBERS_SHOWN_MAX]
        return GroupFacts(line.group, len(pages), any(each.role == "held" for each in line.members), others)

    def pair(self, one: str, other: str, market: str | None) -> PairAnswer:
        pages = [self.page(url, market) for url in (one, other)]
        ids = [None if page.group is None else page.group.id for page in pages]
        same_group = ids[0] is not None and ids[0] == ids[1]
        words = _pair_words(pages[0], pages[1], same_group=same_group)
        reasons = [Reason("no_state", NO_STATE)]
        return PairAnswer(one=pages[0], other=pages[1], words=words, same_group=same_group, reasons=reasons)

    def texts(self, one: str, other: str) -> TextAnswer | None:
        return TextAnswer(one=one, other=other, missing=[NO_STATE])

    def group(self, group: str, members_max: int) -> FoundGroup | None:
        status = self.status(group)
        line = self._groups.get((status.group if status is not None else None) or group)
        if line is None:
            return None
        pages = [each.url for each in line.members if each.role != "redirect"]
        redirects = [each.url for each in line.members if each.role == "redirect"]
        found = (self.status(url) for url in [*pages[:members_max], *redirects[:members_max]])
        held = any(each.role == "held" for each in line.members)
        members = [each for each in found if each is not None]
        return FoundGroup(line.group, len(pages), held, None, members, max(0, len(pages) - members_max))

    def groups(self, request: GroupRequest) -> list[GroupAnswer]:
        if request.by == "changed":
            raise BadSetting("a --once result does not say when groups changed: list them by size")
        self._require_first(request.market)
        wanted = (self._answer(line) for line in self._groups.lines() if _is_wanted(line, request))
        return nsmallest(request.top, wanted, key=lambda answer: (-answer.size, answer.group))

    def _answer(self, line: GroupLine) -> GroupAnswer:
        pages = [each for each in line.members if each.role != "redirect"]
        sites: dict[str, int] = {}
        for page in pages:
            sites[site_of(page.url)] = sites.get(site_of(page.url), 0) + 1
        most = sorted(sites.items(), key=lambda item: (-item[1], item[0]))
        return GroupAnswer(
            group=line.group,
            size=len(pages),
            held=any(each.role == "held" for each in pages),
            changed=0,
            winners=line.winners[:WINNERS_SHOWN_MAX],
            winner_count=len(line.winners),
            sites=dict(most[:SITES_SHOWN_MAX]),
            site_count=len(sites),
            redirects=line.size - len(pages),
            weakest_link=None,
            members_read=len(pages),
            contained_count=0,
            contained=[],
        )

    def site(self, site: str) -> SiteFacts | None:
        if self._sites is None:
            self._sites = self._count_sites()
        return self._sites.get(site)

    def _count_sites(self) -> dict[str, SiteFacts]:
        counts: dict[str, list[int]] = {}
        for line in self._statuses.lines():
            if line.role in ("redirect", "gone"):
                continue
            name = site_of(line.url)
            count = counts.setdefault(name, [0, 0, 0])
            count[0] += 1
            count[1] += line.winner is not None and site_of(line.winner) != name
        held = {alarm.name for alarm in self._alarms if alarm.kind == "site_held"}
        return {name: SiteFacts(pages, lost, name in held, False) for name, (pages, lost, _) in counts.items()}

    def alarms(self) -> list[AlarmLine]:
        return self._alarms

    def rejected(self) -> int:
        return self._totals.rejected

    def tier2_load(self) -> Tier2Load | None:
        return None

    def page_sizes(self) -> PageSizes | None:
        """There is no partition map, so there are no cuts."""
        return None if self._totals.sizes is None else sizes_of(self._totals.sizes, ())

    def workers(self) -> None:
        return None

    def breaker_options(self) -> list[str]:
        return ["--state", str(self.path)]

    def last_run(self) -> LastRun | None:
        return read_last_run(self.path)

    def lower_sample(self) -> LowerSample | None:
        return None

    def inputs(self) -> list[InputStatus]:
        return []

    def decisions(self) -> list[StandingDecision]:
        return []


def _is_wanted(line: GroupLine, request: GroupRequest) -> bool:
    pages = [each for each in line.members if each.role != "redirect"]
    return (
        len(pages) > 1
        and (not request.held or any(each.role == "held" for each in pages))
        and (request.site is None or any(site_of(each.url) == request.site for each in pages))
    )


def _status(line: StatusLine) -> DuplicateStatus:
    return DuplicateStatus(
        url=line.url,
        version=(line.version, 0),
        role=line.role,
        since=line.version,
        group=line.group,
        winner=line.winner,
        relation=line.relation,
        similarity=line.similarity,
        target=line.target,
        problem=line.problem,
        decided=line.decided,
    )


def _pair_words(one: PageAnswer, other: PageAnswer, *, same_group: bool) -> str:
    for page, against in ((one, other), (other, one)):
        if page.winner == against.url and page.url != against.url:
            return f"{page.url} is {page.words}"
    if one.winner is not None and one.winner == other.winner:
        return f"both are kept as {one.winner}"
    return "in one group, but neither is a duplicate of the other" if same_group else "in different groups"


def _read_lines(path: Path, kind: type[Line]) -> list[Line]:
    decoder = msgspec.json.Decoder(kind)
    return [decoder.decode(line) for line in path.read_bytes().splitlines()]
