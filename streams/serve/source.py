"""What the service answers from: the state of a run, which may grow meanwhile, or the files of a --once result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct

from dustream.core.errors import BadSetting
from dustream.core.settings import Settings
from dustream.schemas.lookup import InputStatus
from dustream.schemas.rules import RuleSet
from dustream.schemas.status import DuplicateStatus
from dustream.streams.engine.alarms import AlarmLine
from dustream.streams.engine.results import Tier2Load
from dustream.streams.questions.group_list import GroupAnswer, GroupRequest
from dustream.streams.questions.one_page import PageAnswer
from dustream.streams.questions.page_sizes import PageSizes
from dustream.streams.questions.texts import TextAnswer
from dustream.streams.questions.two_pages import PairAnswer


class Seen(NamedTuple):
    """How far the input is included: records, whether all that follows from them is included, too, and for how many
    records that is known. On Kafka, these are offsets by partition."""

    position: int | list[int]
    settled: bool
    settled_position: int | list[int]

    def has_settled(self, asked: int | str) -> bool:
        """Whether all that `min_position` asks for is included; BadSetting if that is not a position here."""
        reached = self.settled_position
        if isinstance(reached, int):
            if isinstance(asked, str) and not asked.isdecimal():
                raise BadSetting("min_position is a number of records here: PARTITION:OFFSET is for workers on Kafka")
            return reached >= int(asked)
        if asked in (0, "0") or not reached:
            return asked in (0, "0")
        return all(reached[partition] > offset for partition, offset in _offsets(asked, len(reached)))


def _offsets(asked: int | str, partitions: int) -> Iterator[tuple[int, int]]:
    """The records that a request to a worker asks for."""
    for each in str(asked).split(","):
        partition, _, offset = each.partition(":")
        if not offset or int(partition) >= partitions:
            raise BadSetting(
                f"min_position={asked}: use PARTITION:OFFSET of a record of the input, which has {partitions} "
                "partitions; Kafka tells a producer both"
            )
        yield int(partition), int(offset)


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
    """A decision of an operator that is in force. `on`: group, site, page, pair or rule; of a rule, `name` is the
    site, `rule` the id, and `text` what the rule does; of a pair, `other` is the other page."""

    on: str
    name: str
    action: str
    at: str
    pass_from: float | None = None
    rule: str = ""
    text: str = ""
    other: str = ""

    @property
    def words(self) -> str:
        """What was decided, without on what."""
        if self.on in ("page", "pair"):
            return "not a duplicate:" if self.on == "page" else "same:"
        return f"{self.action} a rule of" if self.on == "rule" else self.action

    @property
    def undo(self) -> str:
        """The action that withdraws it."""
        return "undo" if self.on in ("page", "pair", "rule") else "hold"


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


class WorkerFacts(Struct, frozen=True, kw_only=True):
    """What one worker does now. `taken` counts the pages since its start."""

    address: str
    stage: str
    tasks: int
    tasks_open: int
    rows_recovered: int
    taken: int
    lag: int | None
    lag_s: float | None


class WorkersNow(Struct, frozen=True, kw_only=True):
    """What all workers do now; `silent` are those that do not answer."""

    workers: list[WorkerFacts]
    silent: list[str]
    tasks_missing: int
    pages_per_second: float | None

    @property
    def lag(self) -> int:
        return sum(each.lag or 0 for each in self.workers)

    @property
    def lag_s(self) -> float:
        return max((each.lag_s or 0.0 for each in self.workers), default=0.0)


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
    async def status_soon(self, url: str) -> DuplicateStatus | None:
        """The same, without keeping the event loop waiting."""

    def statuses(self, urls: Sequence[str]) -> dict[str, DuplicateStatus]:
        """Those that there are."""

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

    def page_sizes(self) -> PageSizes | None:
        """Lengths of pages; None without signatures."""

    def workers(self) -> WorkersNow | None:
        """Of a worker: what all workers do now."""

    def last_run(self) -> LastRun | None:
        """From the summary of the last run, if there is one."""

    def lower_sample(self) -> LowerSample | None:
        """Pages that would match at lower thresholds, from a sample; None without signatures."""

    def inputs(self) -> list[InputStatus]: ...
    def decisions(self) -> list[StandingDecision]: ...
    def breaker_options(self) -> list[str]:
        """The options that tell `dustream breaker` where to decide."""
