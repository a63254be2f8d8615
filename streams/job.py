"""`dustream run`: reads inputs through the pipeline into a state, and writes the results. It resumes if interrupted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from dustream.core.errors import BadSetting, UnreadableInput
from dustream.core.kernels.compile import compile_clock
from dustream.core.pipeline import CONTAINMENT, PAGES, TIER2, pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.schemas.dead_letter import DeadLetter
from dustream.schemas.status import Role
from dustream.streams.embedded.beside import BesideRequest, TasksBeside
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.embedded.tasks import Opening
from dustream.streams.engine.alarms import AlarmLine
from dustream.streams.engine.chunks import ChunkSpan, InputPlan, plan_inputs, read_chunks
from dustream.streams.engine.counts import add_counts, added
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.rejections import Rejections
from dustream.streams.engine.results import Outcome, Results, StoredResults, Tier2Load, write_outcome
from dustream.streams.engine.shared_reading import ReadRequest, SharedReading, can_be_shared
from dustream.streams.engine.signing import Chunk, SignedChunk, sign_chunks
from dustream.streams.engine.sizes import SizeTally
from dustream.streams.engine.state_rows import COUNTS_KEY, Counts
from dustream.streams.engine.states import open_state, state_map
from dustream.streams.engine.worker_processes import peak_memory_mb
from dustream.streams.folders import make_folder
from dustream.streams.once.engine import OnceEngine
from dustream.streams.once.rule_learning import learn_parts
from dustream.streams.once.spool import FileSpool
from dustream.streams.readers import expand_paths
from dustream.streams.store.base import Store
from dustream.streams.store.memory import MemoryStore

STATE_FOLDER = "state"  # under --out
MEMORY_MB, MEMORY_MB_MIN = 224, 8  # for caches
COMPARING = (TIER2, CONTAINMENT)  # with several jobs, in a process of their own
ALARMS_SHOWN = 10  # in the summary; all are in alarms.jsonl


@dataclass(frozen=True)
class RunRequest:
    """The user's request."""

    inputs: list[str]
    out: Path
    state: Path | None
    """None: compute the outcome of these inputs directly, and keep no state."""
    settings: Settings
    jobs: int
    field_map: dict[str, str] = field(default_factory=dict)
    partition_map: bytes | None = None
    """A map as `dustream partitions --out` writes it, for a fresh state; otherwise the default map is used."""
    memory_mb: int = MEMORY_MB
    """For caches: shingle sets, RocksDB; without a state, what is held before it is written to temporary files."""


class RunProgress(NamedTuple):
    """The progress of a run."""

    bytes_read: int
    bytes_total: int
    records: int


class Watcher:
    """Callbacks on the progress of a run. The default ignores them."""

    def inputs(self, plans: list[InputPlan]) -> None:
        """The inputs to be read."""

    def opening(self, opening: Opening) -> None:
        """A task is being rebuilt from the state: called at its start, and after every thousand rows."""

    def progress(self, progress: RunProgress) -> None:
        """Called after every chunk."""

    def compiling(self) -> None:
        """Code is being compiled before the run continues: the first time after an update."""

    def refused(self, path: str, error: UnreadableInput) -> None:
        """An input cannot be read."""

    def passed_over(self, path: str) -> None:
        """An entry of a folder is not a regular file, and is not read."""

    def notice(self, path: str, text: str) -> None:
        """A remark on an input as a whole."""

    def settling(self, stage: str) -> None:
        """All input is read; the outcome is being computed (with `state` None), stage by stage."""

    def writing(self) -> None:
        """All input is processed; the results are being written."""


class RunSummary(Struct, frozen=True):
    """summary.json."""

    events: int
    events_now: int
    pages: int
    kept: int
    roles: dict[Role, int]
    relations: dict[str, int]
    groups: int
    largest_group: int
    rejected: int
    rejected_by_reason: dict[str, int]
    truncated: int
    fetches: dict[str, int]
    tier2: Tier2Load | None
    sizes: SizeTally | None
    rules: dict[str, int]
    held_groups: int
    held_sites: int
    alarms: list[AlarmLine]
    ignored: dict[str, int]
    skipped: dict[str, int]
    refused: list[str]
    seconds: float
    seconds_per_stage: dict[str, float]
    messages: dict[str, int]
    pages_per_second: float
    peak_memory_mb: int
    settings: Settings
    state_hash: str


def run_job(request: RunRequest, watcher: Watcher | None = None) -> RunSummary:
    """Run the job; on the same state again, only new input is processed."""
    if request.jobs < 1:
        raise BadSetting(f"--jobs {request.jobs}: use 1 or more")
    if request.memory_mb < MEMORY_MB_MIN:
        raise BadSetting(f"--memory {request.memory_mb}: use {MEMORY_MB_MIN} or more (megabytes)")
    watcher = watcher or Watcher()
    paths = expand_paths(request.inputs, watcher.passed_over)
    make_folder(request.out)  # fail early, not when the results are written
    if request.state is None:
        return _run_once(request, paths, watcher)
    memory_bytes = request.memory_mb << 20
    shingle_bytes, store_bytes, beside_bytes = [memory_bytes * share // 7 for share in _shares(request.jobs)]
    store = open_state(request.state, request.settings, store_bytes)
    try:
        cells = state_map(store, request.settings, request.partition_map, request.state)
        input_ends = all(path != "-" and os.path.isfile(path) for path in paths)  # a pipe may never end
        make_topology = partial(pipeline, request.settings, cells, shingle_bytes, input_ends=input_ends)
        beside = BesideRequest(make_topology, COMPARING, request.state, beside_bytes)
        with ExitStack() as opened:
            open_engine = partial(_open_engine, request, watcher, store, beside, opened)
            results = StoredResults(store, request.settings.partitions)
            return _Run(request, paths, store, open_engine, results, watcher).run()
    finally:
        store.close()


def _shares(jobs: int) -> tuple[int, int, int]:
    """Sevenths of the memory: for shingles, the state, and what the process beside the main one has of the state."""
    return (3, 2, 2) if jobs > 1 else (4, 3, 0)


def _open_engine(
    request: RunRequest, watcher: Watcher, store: Store, beside: BesideRequest, opened: ExitStack, is_shared: bool
) -> EmbeddedEngine:
    """With a process beside this one if the work is shared; not with small changes by representative, whose outcome
    would depend on which process is faster."""
    do_parts = partial(learn_parts, request.settings, request.jobs) if request.jobs > 1 else lambda parts: None
    start_beside = partial(TasksBeside, request=beside, on_compile=watcher.compiling)
    engine = EmbeddedEngine(
        beside.make_topology(),
        store,
        on_open=watcher.opening,
        do_parts=do_parts,
        start_beside=start_beside if is_shared and request.settings.small_changes == "anchor" else None,
    )
    return opened.enter_context(closing(engine))


def _run_once(request: RunRequest, paths: list[str], watcher: Watcher) -> RunSummary:
    if (kept := request.out / STATE_FOLDER).exists():
        raise BadSetting(
            f"{kept} is the state of an earlier run, which the results beside it belong to: with --once use another "
            "--out, or leave --once out to continue from that state"
        )
    new_spool = partial(FileSpool, request.out, (request.memory_mb << 20) * 2 // 7)
    with closing(OnceEngine(request.settings, new_spool, jobs=request.jobs, on_stage=watcher.settling)) as engine:
        return _Run(request, paths, MemoryStore(), lambda is_shared: engine, engine, watcher).run()


class Engine(Protocol):
    """The interface of the engine that processes a run."""

    @property
    def seconds(self) -> dict[str, float]:
        """By stage."""

    @property
    def messages(self) -> dict[str, int]:
        """By processor."""

    @property
    def peak_memory_beside_mb(self) -> int:
        """Of a process that compares pages."""

    def run(self, feeds: Iterable[Feed]) -> None:
        """Process everything until the engine is at rest."""


class _Run:
    """One run: the counters and timers that its parts share."""

    def __init__(
        self,
        request: RunRequest,
        paths: list[str],
        store: Store,
        open_engine: Callable[[bool], Engine],
        results: Results,
        watcher: Watcher,
    ) -> None:
        self._request = request
        self._open_engine = open_engine
        self._results = results
        self._watcher = watcher
        self._started = time.perf_counter()
        self._plans = plan_inputs(paths, store)
        self._bytes_total = sum(plan.bytes_total for plan in self._plans if not plan.done)
        self._bytes_before: dict[str, int] = {}
        row = store.get(COUNTS_KEY)
        self._counts = msgspec.json.decode(row, type=Counts) if row else Counts()
        self._counts_before = copy(self._counts)
        self._rejections = Rejections(store)
        self._refused: list[str] = []
        self._seconds = {"read": 0.0, "sign": 0.0}

    def run(self) -> RunSummary:
        self._watcher.inputs(self._plans)
        with compile_clock(self._watcher.compiling) as clock:
            engine = self._open_engine(self._is_shared)
            engine.run(self._feeds())
        if clock.seconds:
            self._seconds["compile"] = clock.seconds
        self._watcher.writing()
        started, engine_before = time.perf_counter(), sum(engine.seconds.values())
        more = self._rejections.summaries()
        outcome = write_outcome(self._results, self._request.out, more)
        outcome = outcome._replace(rejected=outcome.rejected - len(more) + self._rejections.not_kept)
        waited = sum(engine.seconds.values()) - engine_before  # for rules that were still being learned
        self._seconds["results"] = time.perf_counter() - started - waited
        summary = self._summary(engine, outcome)
        text = msgspec.json.format(msgspec.json.encode(summary), indent=2)
        (self._request.out / "summary.json").write_bytes(text + b"\n")
        if self._refused and not self._read_any:
            raise UnreadableInput("no input could be read: see above, and rejected.jsonl")
        return summary

    @property
    def _read_any(self) -> bool:
        """Whether any record was used, now or in an earlier run over the same inputs."""
        before, now = self._counts_before, self._counts
        used = (now.records - now.rejected) - (before.records - before.rejected)
        return used > 0 or now.skipped != before.skipped or any(plan.done for plan in self._plans)

    @property
    def _plans_left(self) -> list[InputPlan]:
        return [plan for plan in self._plans if not plan.done]

    @property
    def _is_shared(self) -> bool:
        """Whether the work is worth several processes."""
        return self._request.jobs > 1 and can_be_shared(self._plans_left)

    def _feeds(self) -> Iterator[Feed]:
        for signed in self._signed():
            self._seconds["sign"] += signed.seconds
            yield self._feed(signed)
            self._report(signed.chunk)

    def _signed(self) -> Iterator[SignedChunk[ChunkSpan]]:
        request, watcher = self._request, self._watcher
        source = request.settings.text_source
        plans = self._plans_left
        if self._is_shared:
            with SharedReading(ReadRequest(plans, request.field_map, source), request.jobs) as shared:
                yield from shared.chunks(self._refuse, watcher.notice)
                self._read_took(shared.read_seconds)
        else:
            chunks = _timed(read_chunks(plans, request.field_map, self._refuse, watcher.notice), self._read_took)
            yield from sign_chunks(chunks, request.jobs, source)

    def _feed(self, signed: SignedChunk[ChunkSpan]) -> Feed:
        place, intake = signed.chunk.place, signed.intake
        letters = [rejected.letter for rejected in place.rejections]
        for rejected in intake.rejected:
            position, offset = place.positions[rejected.index]
            letters.append(
                DeadLetter(
                    source=place.path, position=position, offset=offset, reason=rejected.reason, url=rejected.url
                )
            )
        letters.sort(key=lambda letter: letter.position)
        self._count(signed, letters)
        letters = [letter for letter in letters if self._rejections.keep(place.path, letter.reason)]
        crawls = intake.crawls if self._request.state is None else intake.with_origins(place.origin)  # to read it again
        sends = [Send(PAGES, crawl.url, crawl) for crawl in crawls]
        sends += [Send(PAGES, decision.url, decision) for decision in intake.decisions]
        sends += [Send("dead.letters", letter.source, letter) for letter in letters]
        self._judge(place)
        changes = [place.change(), self._rejections.change(place.path)]
        return Feed(sends, [*changes, (COUNTS_KEY, msgspec.json.encode(self._counts))])

    def _judge(self, place: ChunkSpan) -> None:
        """An input without a usable record is reported as unreadable."""
        if place.progress.done and place.path not in self._refused and self._rejections.nothing_used(place.path):
            self._refused.append(place.path)

    def _count(self, signed: SignedChunk[ChunkSpan], letters: list[DeadLetter]) -> None:
        counts, place = self._counts, signed.chunk.place
        records = len(place.positions) + len(place.rejections)
        if records > len(letters) or place.skipped:
            self._rejections.use(place.path)
        add_counts(counts, records, signed.intake, letters)
        counts.skipped = added(counts.skipped, place.skipped)

    def _report(self, chunk: Chunk[ChunkSpan]) -> None:
        self._bytes_before[chunk.place.path] = chunk.place.bytes_read
        read = sum(self._bytes_before.values())
        self._watcher.progress(RunProgress(read, self._bytes_total, self._counts.records - self._counts_before.records))

    def _refuse(self, path: str, error: UnreadableInput) -> None:
        self._refused.append(path)
        self._watcher.refused(path, error)

    def _read_took(self, seconds: float) -> None:
        self._seconds["read"] += seconds

    def _summary(self, engine: Engine, outcome: Outcome) -> RunSummary:
        seconds = time.perf_counter() - self._started
        counts = self._counts
        events_now = counts.records - self._counts_before.records
        return RunSummary(
            events=counts.records,
            events_now=events_now,
            fetches=self._results.fetch_counts(),
            tier2=self._results.tier2_load(),
            sizes=self._results.sizes(),
            **outcome_fields(outcome),
            rejected_by_reason=counts.rejected_by_reason,
            truncated=counts.truncated,
            ignored=counts.ignored,
            skipped=counts.skipped,
            refused=self._refused,
            seconds=round(seconds, 3),
            seconds_per_stage={name: round(took, 3) for name, took in (self._seconds | engine.seconds).items()},
            messages=engine.messages,
            pages_per_second=round(events_now / (seconds - self._seconds.get("compile", 0.0)), 1),
            peak_memory_mb=peak_memory_mb() + engine.peak_memory_beside_mb,
            settings=self._request.settings,
        )


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """The fields of summary.json about the outcome."""
    return {
        "pages": sum(outcome.roles.values()),
        "kept": outcome.kept,
        "roles": outcome.roles,
        "relations": outcome.relations,
        "groups": outcome.groups,
        "largest_group": outcome.largest_group,
        "rejected": outcome.rejected,
        "rules": outcome.rules,
        "held_groups": sum(line.kind == "group_held" for line in outcome.alarms),
        "held_sites": sum(line.kind == "site_held" for line in outcome.alarms),
        "alarms": outcome.alarms[:ALARMS_SHOWN],
        "state_hash": outcome.state_hash,
    }


def _timed(chunks: Iterator[Chunk[ChunkSpan]], took: Callable[[float], None]) -> Iterator[Chunk[ChunkSpan]]:
    while True:
        started = time.perf_counter()
        chunk = next(chunks, None)
        took(time.perf_counter() - started)
        if chunk is None:
            return
        yield chunk
