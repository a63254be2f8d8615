"""`dustream dedupe`: all stages in one work folder."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dustream.core.errors import BadInput, BadSetting, UnreadableInput
from dustream.streams.dedupe.filtered import OUTPUTS, FilterTask, Output, copy_metadata, filter_shard
from dustream.streams.dedupe.index import check_index, save_index
from dustream.streams.dedupe.pool import in_processes, in_threads
from dustream.streams.dedupe.run_state import is_run_state, sign_state
from dustream.streams.dedupe.settings import DedupeSettings
from dustream.streams.dedupe.shards import STDIN_NAME, Shard, find_shards, is_lines, parts_of
from dustream.streams.dedupe.signatures import SignedCorpus, SignedShard, folder_name, sign_shard
from dustream.streams.dedupe.stages import (
    MATCHES,
    SIGNATURES,
    SUMMARY_FILE,
    ComparedRows,
    DedupeSummary,
    UnreadShard,
    match,
    open_corpus,
    read_matches,
    resolve,
    summarize,
    write_summary,
)
from dustream.streams.dedupe.verdicts import VERDICT_LINES_FILE, VERDICTS_FILE, CorpusVerdicts, write_verdicts
from dustream.streams.folders import check_writable, locked, make_folder

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

WORK_FOLDER: Final = "work"
INCOMPLETE_FILE: Final = ".incomplete"
RESULTS: Final = (VERDICTS_FILE, VERDICT_LINES_FILE, SUMMARY_FILE, *OUTPUTS)
STDIN: Final = "-"
COPIED_BYTES: Final = 1 << 20
PROCESSES_MIN: Final = 4  # Python code that reads or writes lines in one thread keeps up with three that sign
PROCESSES_BYTES_MIN: Final = 256 << 20  # fewer lines are done before other processes have started


class DedupeRequest(Struct, frozen=True, kw_only=True):
    """What to deduplicate, and what to write. Without `out` nothing is written."""

    inputs: list[str]
    out: Path | None
    settings: DedupeSettings
    against: list[str] = []
    against_state: list[Path] = []
    only_against: bool = False
    save_index: Path | None = None
    outputs: list[Output] = []
    json_lines: bool = False
    force: bool = False
    jobs: int = 1
    work_dir: Path | None = None
    run_states: list[Path] = []  # of `against_state`: those of runs

    def __post_init__(self) -> None:
        unknown = [each for each in self.outputs if each not in OUTPUTS]
        if unknown:
            raise BadSetting(f"{unknown[0]!r} cannot be written: choose among {', '.join(OUTPUTS)}")
        if self.out is None and (self.outputs or self.save_index is not None or self.json_lines):
            raise BadSetting("nothing is written without a folder for the results: name one, or ask for no files")
        if self.only_against and not (self.against or self.against_state or self.run_states):
            raise BadSetting("only_against needs a corpus, an index or a run to compare with: name one")


def with_run_states(request: DedupeRequest) -> DedupeRequest:
    """Rows that are compared with the pages of a run are signed as pages."""
    states = [folder for folder in request.against_state if is_run_state(folder)]
    if not states:
        return request
    settings = replace(request.settings, rules=replace(request.settings.rules, as_pages=True))
    indexes = [folder for folder in request.against_state if folder not in states]
    return replace(request, settings=settings, against_state=indexes, run_states=states)


class DedupeWatcher:
    """Is told how a job proceeds."""

    def stage(self, name: str, total: int) -> None: ...

    def step(self) -> None: ...

    def notice(self, text: str) -> None: ...


class SignTask(Struct, frozen=True):
    """One shard to sign."""

    shard: Shard
    folder: Path
    settings: DedupeSettings
    position: int = 0
    is_reference: bool = False


def sign_task(task: SignTask, jobs: int = 1) -> SignedShard | UnreadShard:
    try:
        return sign_shard(
            task.shard, task.folder, task.settings, position=task.position, is_reference=task.is_reference, jobs=jobs
        )
    except BadInput as error:
        return UnreadShard(task.shard.path, str(error))


def sign_tasks(tasks: list[SignTask], jobs: int) -> Iterator[SignedShard | UnreadShard]:
    """If there are fewer tasks than jobs, several threads sign the rows of one."""
    each = max(1, jobs // max(1, len(tasks)))
    return beside(partial(sign_task, jobs=each), tasks, [task.shard.path for task in tasks], jobs)


def beside(work: Callable[[Task], Outcome], tasks: list[Task], paths: list[str], jobs: int) -> Iterator[Outcome]:
    """The outcome of each task on these files, in their order: by threads, or by processes if that is faster."""
    lines = sum(os.path.getsize(path) for path in set(paths) if os.path.exists(path) and is_lines(path))
    if jobs >= PROCESSES_MIN and lines >= PROCESSES_BYTES_MIN:
        return in_processes(work, tasks, jobs)
    return in_threads(work, tasks, jobs)


def left_out(tasks: list[SignTask], found: list[SignedShard | UnreadShard]) -> list[UnreadShard]:
    """The files that cannot be read to their end, once each; other parts of them are removed."""
    unread = {each.path: each for each in found if isinstance(each, UnreadShard)}
    for task in tasks:
        if task.shard.path in unread:
            shutil.rmtree(task.folder, ignore_errors=True)
    return list(unread.values())


def run_dedupe(request: DedupeRequest, watcher: DedupeWatcher) -> DedupeSummary:
    """All stages. Work files are removed at the end; if it does not come to that, they stay only in a work folder that
    the user named."""
    request = with_run_states(request)
    for folder in request.against_state:
        check_index(folder, request.settings, is_new=False)
    if request.save_index is not None:
        check_new_index(request.save_index, request.settings, request.out)
    if request.out is not None:
        check_out(request.out, request.inputs + request.against, force=request.force)
    is_new = request.out is not None and not request.out.exists()
    work = request.work_dir or (
        Path(tempfile.mkdtemp(prefix="dustream-")) if request.out is None else request.out / WORK_FOLDER
    )
    folders = [work] if request.out is None else [work, request.out]
    for folder in folders:
        make_folder(folder)
    with ExitStack() as stack:
        for folder in reversed(folders):
            stack.enter_context(locked(folder))
        is_done = False
        try:
            summary = _Job(request, work, watcher).run()
            is_done = True
        finally:
            if is_done or request.work_dir is None:
                remove_work(work)
            if request.out is not None and is_new and request.out.is_dir() and not any(request.out.iterdir()):
                request.out.rmdir()
    return summary


def remove_work(work: Path) -> None:
    """What the stages put there, and the folder if nothing else is in it."""
    for name in (SIGNATURES, MATCHES, WORK_FOLDER):
        shutil.rmtree(work / name, ignore_errors=True)
    (work / STDIN_NAME).unlink(missing_ok=True)
    if work.is_dir() and not any(work.iterdir()):
        work.rmdir()


class _Job:
    def __init__(self, request: DedupeRequest, work: Path, watcher: DedupeWatcher) -> None:
        self._request, self._work, self._watcher = request, work, watcher
        self._jobs = request.jobs

    def run(self) -> DedupeSummary:
        request, watcher = self._request, self._watcher
        unread = self._sign()
        corpus = open_corpus(self._work, request.against_state)
        verdicts = self._compare(corpus)
        summary = summarize(corpus, verdicts, unread)
        watcher.step()
        if request.out is not None:
            self._write(request.out, corpus, verdicts, summary)
        if request.save_index is not None:
            watcher.stage("index", 1)
            save_index(corpus, verdicts, request.save_index)
            watcher.step()
        if request.out is not None:
            (request.out / INCOMPLETE_FILE).unlink()
        return summary

    def _sign(self) -> list[UnreadShard]:
        tasks = self._tasks()
        folder = self._work / SIGNATURES
        states = [(state, folder / folder_name(Shard(str(state), state.name))) for state in self._request.run_states]
        wanted = {task.folder.name for task in tasks} | {target.name for _, target in states}
        for other in folder.iterdir() if folder.is_dir() else ():
            if other.name not in wanted:
                shutil.rmtree(other)
        self._watcher.stage("sign", len(tasks) + len(states))
        for state, target in states:
            sign_state(state, target, self._request.settings)
            self._watcher.step()
        found = []
        for each in sign_tasks(tasks, self._jobs):
            found.append(each)
            self._watcher.step()
        unread = left_out(tasks, found)
        for each in unread:
            self._watcher.notice(f"left out: {each.reason}")
        gone = {each.path for each in unread}
        signed = [each for each in found if isinstance(each, SignedShard) and each.shard.path not in gone]
        if not any(each.rows for each in signed if not each.is_reference):
            raise UnreadableInput(
                "nothing can be deduplicated: " + ("no input could be read" if unread else "the inputs have no rows")
            )
        return unread

    def _tasks(self) -> list[SignTask]:
        settings = self._request.settings

        def passed_over(path: str) -> None:
            self._watcher.notice(f"passed over, no data file by its name: {path}")

        if STDIN in self._request.against:
            raise BadSetting("standard input can be an input, not --against: write those rows to a file")
        own = find_shards(map(self._spooled, self._request.inputs), passed_over)
        references = find_shards(self._request.against, passed_over)
        both = {os.path.realpath(each.path) for each in own} & {os.path.realpath(each.path) for each in references}
        if both:
            raise BadSetting(f"{min(both)} is an input, and --against names it, too: name it once")
        if self._request.out is not None:
            check_outside(self._request.out, [each.path for each in [*own, *references]])
        folder = self._work / SIGNATURES
        unranked = replace(settings, prefer=("first",))  # references win anyway: they need no other column
        return [
            SignTask(part, folder / folder_name(part), unranked if is_reference else settings, position, is_reference)
            for is_reference, shards in ((True, references), (False, own))
            for position, shard in enumerate(shards)
            for part in parts_of(shard)
        ]

    def _spooled(self, name: str) -> str:
        """Standard input is read twice, so it is written to the work folder first."""
        if name != STDIN:
            return name
        path = self._work / STDIN_NAME
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, COPIED_BYTES)
        return str(path)

    def _compare(self, corpus: SignedCorpus) -> CorpusVerdicts:
        watcher, jobs = self._watcher, self._jobs
        compared = ComparedRows.of(corpus)
        watcher.stage("match", jobs)
        for _ in match(self._work, compared, [(part, jobs) for part in range(jobs)], jobs):
            watcher.step()
        watcher.stage("resolve", 1)
        pairs = read_matches(self._work, corpus)
        return resolve(compared, pairs, only_references=self._request.only_against, jobs=jobs)

    def _write(self, out: Path, corpus: SignedCorpus, verdicts: CorpusVerdicts, summary: DedupeSummary) -> None:
        request, watcher = self._request, self._watcher
        make_folder(out)
        (out / INCOMPLETE_FILE).touch()
        for output in OUTPUTS:
            shutil.rmtree(out / output, ignore_errors=True)
        write_verdicts(corpus, verdicts, out, json_lines=request.json_lines)
        shards = [Shard(each.path, each.name) for each in summary.inputs]
        watcher.stage("filter", len(shards) * len(request.outputs))
        for _ in filter_shards(shards, out, request.outputs, self._jobs):
            watcher.step()
        write_metadata(summary, request.inputs, out, request.outputs)
        write_summary(summary, out)


def filter_shards(shards: list[Shard], out: Path, outputs: list[Output], jobs: int) -> Iterator[None]:
    """Write these shards' rows."""
    tasks = [FilterTask(shard, output) for shard in shards for output in outputs]
    each = max(1, jobs // max(1, len(tasks)))
    return beside(partial(filter_shard, out=out, jobs=each), tasks, [task.shard.path for task in tasks], jobs)


def write_metadata(summary: DedupeSummary, inputs: list[str], out: Path, outputs: list[Output]) -> None:
    """Metadata files of Hugging Face lie beside or above the data, or one folder up."""
    folders = {os.path.dirname(each.path): os.path.dirname(each.name) for each in summary.inputs}

    def name_of(path: str) -> str | None:
        parent, name = os.path.split(os.path.abspath(path))
        if parent in folders:
            return os.path.join(folders[parent], name)
        below = [named for folder, named in folders.items() if os.path.dirname(folder) == parent]
        return os.path.join(os.path.dirname(below[0]), name) if below else None

    copy_metadata(inputs, name_of, out, outputs)


def check_new_index(folder: Path, settings: DedupeSettings, out: Path | None) -> None:
    """BadSetting if an index cannot be written there at the end."""
    check_index(folder, settings, is_new=True)
    if out is not None:
        real, real_out = Path(os.path.realpath(folder)), Path(os.path.realpath(out))
        results = [real_out / each for each in (*RESULTS, WORK_FOLDER)]
        if real == real_out or real in real_out.parents or any(each in (real, *real.parents) for each in results):
            raise BadSetting(f"the index {folder} and the results {out} need a folder each: name another for the index")
    check_writable(folder)


def check_out(out: Path, inputs: list[str], *, force: bool) -> None:
    """BadSetting if results would be overwritten, or lie among the inputs."""
    real = Path(os.path.realpath(out))
    for name in inputs:
        path = Path(os.path.realpath(name))
        if path.is_dir() and (real == path or path in real.parents):
            raise BadSetting(f"--out {out} is inside the input {name}, and would be read as data: name another folder")
    check_outside(out, inputs)
    if force or (out / INCOMPLETE_FILE).exists():
        return
    existing = [name for name in RESULTS if (out / name).exists()]
    if existing:
        raise BadSetting(f"{out / existing[0]} exists: name another --out, or overwrite it with --force")


def check_outside(out: Path, inputs: list[str]) -> None:
    """BadSetting if an input is among the results of an earlier run: a pattern may match them."""
    results = [Path(os.path.realpath(out)) / each for each in RESULTS]
    for name in inputs:
        path = Path(os.path.realpath(name))
        if any(each == path or each in path.parents for each in results):
            raise BadSetting(f"the input {name} is inside the output of --out {out}: name another folder")
