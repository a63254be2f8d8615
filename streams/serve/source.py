"""What the service answers from: the state of a run, which may grow meanwhile, or the files of a --once result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct

from dustream.core.settings import Settings
from dustream.schemas.lookup import InputStatus
from dustream.schemas.rules import RuleSet
from dustream.schemas.status import DuplicateStatus
from dustream.streams.engine.alarms import AlarmLine
from dustream.streams.engine.results import Tier2Load
from dustream.streams.questions.group_list import GroupAnswer, GroupRequest
from dustream.streams.questions.one_page import PageAnswer
from dustream.streams.questions.texts import TextAnswer
from dustream.streams.questions.two_pages import PairAnswer


class Seen(NamedTuple):
    """How far the input is included: records, whether all that follows from them is included, too, and for how many
    records that is known."""

    position: int
    settled: bool
    settled_position: int


class FoundGroup(NamedTuple):
    """A group and some of its members: pages with content, then redirects to them."""

    group: str
    size: int
    held: bool
    weakest_link: float | None
    members: list[DuplicateStatus]
    left_out: int


class SiteFacts(NamedTuple):
    """The counts of a site in the first market."""

    pages: int
    lost: int
    held: bool
    released: bool


class StandingDecision(NamedTuple):
    """A decision of an operator that is in force."""

    name: str
    action: str
    at: str
    pass_from: float | None


class LastRun(Struct, frozen=True):
    """The fields of summary.json about the speed of a run."""

    events_now: int
    seconds: float
    pages_per_second: float


def read_last_run(folder: Path) -> LastRun | None:
    try:
        return msgspec.json.decode((folder / "summary.json").read_bytes(), type=LastRun)
    except (OSError, msgspec.MsgspecError):
        return None


class NearPair(Struct, frozen=True, gc=False):
    """A near-duplicate and its winner."""

    similarity: float
    url: str
    winner: str


class LowerSample(Struct, frozen=True, kw_only=True):
    """The nearest kept page of each page in a sample, if it is similar enough: the most similar first."""

    sampled: int
    compared_with: int
    is_cut: bool
    nearest: list[NearPair]

    def share(self, threshold: float) -> float:
        """Of the sampled pages, those that would match another page that the run keeps."""
        found = sum(pair.similarity >= threshold for pair in self.nearest)
        return found / self.sampled if self.sampled else 0.0


class LookupSource(Protocol):
    """The interface that endpoints and pages read. Reading is safe from several threads."""

    @property
    def settings(self) -> Settings: ...
    @property
    def path(self) -> Path:
        """The folder that was named."""

    @property
    def is_state(self) -> bool:
        """Whether evidence, texts and decisions are available: a --once result has none of them."""

    def seen(self) -> Seen: ...
    def catch_up(self) -> None:
        """Include what was committed since."""

    def close(self) -> None: ...
    def status(self, url: str) -> DuplicateStatus | None: ...
    def status_rows(self) -> Iterator[bytes]:
        """All statuses as JSON, by URL."""

    def rule_sets(self) -> Iterator[RuleSet]: ...
    def page(self, url: str, market: str | None) -> PageAnswer: ...
    def pair(self, one: str, other: str, market: str | None) -> PairAnswer: ...
    def texts(self, one: str, other: str) -> TextAnswer | None:
        """The difference of two pages' texts; None if there are not two contents."""

    def group(self, group: str, members_max: int) -> FoundGroup | None:
        """A group by its id, or by a URL in it."""

    def groups(self, request: GroupRequest) -> list[GroupAnswer]: ...
    def site(self, site: str) -> SiteFacts | None: ...
    def alarms(self) -> list[AlarmLine]: ...
    def rejected(self) -> int:
        """The number of records that could not be used."""

    def tier2_load(self) -> Tier2Load | None:
        """Pages by tier-2 partition; None without tier 2."""

    def last_run(self) -> LastRun | None:
        """From the summary of the last run, if there is one."""

    def lower_sample(self) -> LowerSample | None:
        """Pages that would match at lower thresholds, from a sample; None without signatures."""

    def inputs(self) -> list[InputStatus]: ...
    def decisions(self) -> list[StandingDecision]: ...
