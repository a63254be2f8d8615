"""`dustream dedupe`: all stages in one work folder."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from dustream.core.errors import BadInput, BadSetting, UnreadableInput
from dustream.streams.dedupe.filtered import OUTPUTS, Output, copy_metadata, filter_shard
from dustream.streams.dedupe.index import check_index, save_index
from dustream.streams.dedupe.pool import in_processes
from dustream.streams.dedupe.settings import DedupeSettings
from dustream.streams.dedupe.shards import STDIN_NAME, Shard, find_shards, parts_of
from dustream.streams.dedupe.signatures import SignedCorpus, SignedShard, folder_name, sign_shard
from dustream.streams.dedupe.stages import (
    MATCHES,
    SIGNATURES,
    SUMMARY_FILE,
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
from dustream.streams.folders import make_folder

WORK_FOLDER: Final = "work"
INCOMPLETE_FILE: Final = ".incomplete"
STDIN: Final = "-"
COPIED_BYTES: Final = 1 << 20
POOL_BYTES_MIN: Final = 64 << 20  # smaller inputs are done before other processes have started


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


def sign_task(task: SignTask) -> SignedShard | UnreadShard:
    try:
        return sign_shard(
            task.shard, task.folder, task.settings, position=task.position, is_reference=task.is_reference
        )
    except BadInput as error:
        return UnreadShard(task.shard.path, str(error))


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
    for folder in request.against_state:
        check_index(folder, request.settings, is_new=False)
    if request.save_index is not None:
        check_index(request.save_index, request.settings, is_new=True)
    if request.out is not None:
        check_out(request.out, request.inputs + request.against, request.outputs, force=request.force)
    work = request.work_dir or (
        Path(tempfile.mkdtemp(prefix="dustream-")) if request.out is None else request.out / WORK_FOLDER
    )
    make_folder(work)
    is_done = False
    try:
        summary = _Job(request, work, watcher).run()
        is_done = True
    finally:
        if is_done or request.work_dir is None:
            remove_work(work)
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
        self._match()
        watcher.stage("resolve", 1)
        corpus = open_corpus(self._work, request.against_state)
        pairs = read_matches(self._work, corpus)
        verdicts = resolve(corpus, pairs, only_references=request.only_against)
        summary = summarize(corpus, verdicts, unread)
        watcher.step()
        if request.out is not None:
            self._write(request.out, corpus, verdicts, summary)
        if request.save_index is not None:
            watcher.stage("index", 1)
            save_index(corpus, verdicts, request.save_index)
            watcher.step()
        return summary

    def _sign(self) -> list[UnreadShard]:
        tasks = self._tasks()
        if sum(os.path.getsize(path) for path in {task.shard.path for task in tasks}) < POOL_BYTES_MIN:
            self._jobs = 1
        folder = self._work / SIGNATURES
        wanted = {task.folder.name for task in tasks}
        for other in folder.iterdir() if folder.is_dir() else ():
            if other.name not in wanted:
                shutil.rmtree(other)
        self._watcher.stage("sign", len(tasks))
        found = []
        for each in in_processes(sign_task, tasks, self._jobs):
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

        own = find_shards(map(self._spooled, self._request.inputs), passed_over)
        references = find_shards(self._request.against, passed_over)
        both = {os.path.realpath(each.path) for each in own} & {os.path.realpath(each.path) for each in references}
        if both:
            raise BadSetting(f"{min(both)} is an input, and --against names it, too: name it once")
        folder = self._work / SIGNATURES
        return [
            SignTask(part, folder / folder_name(part), settings, position, is_reference)
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

    def _match(self) -> None:
        parts = self._jobs
        self._watcher.stage("match", parts)
        shares = [(part, parts) for part in range(parts)]
        work = partial(match_share, self._work, indexes=self._request.against_state)
        for _ in in_processes(work, shares, parts):
            self._watcher.step()

    def _write(self, out: Path, corpus: SignedCorpus, verdicts: CorpusVerdicts, summary: DedupeSummary) -> None:
        request, watcher = self._request, self._watcher
        make_folder(out)
        (out / INCOMPLETE_FILE).touch()
        for output in OUTPUTS:
            shutil.rmtree(out / output, ignore_errors=True)
        write_verdicts(corpus, verdicts, out, json_lines=request.json_lines)
        shards = [Shard(each.path, each.name) for each in summary.inputs]
        watcher.stage("filter", len(shards) if request.outputs else 0)
        tasks = shards if request.outputs else []
        for _ in in_processes(partial(filter_shard, out=out, outputs=request.outputs), tasks, self._jobs):
            watcher.step()
        write_metadata(summary, request.inputs, out, request.outputs)
        write_summary(summary, out)
        (out / INCOMPLETE_FILE).unlink()


def match_share(work: Path, share: tuple[int, int], indexes: list[Path]) -> None:
    match(work, share, indexes)


def write_metadata(summary: DedupeSummary, inputs: list[str], out: Path, outputs: list[Output]) -> None:
    """Metadata files of Hugging Face lie beside or above the data, or one folder up."""
    folders = {os.path.dirname(each.path): os.path.dirname(each.name) for each in summary.inputs}

    def name_of(path: str) -> str | None:
        parent, name = os.path.split(path)
        if parent in folders:
            return os.path.join(folders[parent], name)
        below = [named for folder, named in folders.items() if os.path.dirname(folder) == parent]
        return os.path.join(os.path.dirname(below[0]), name) if below else None

    copy_metadata(inputs, name_of, out, outputs)


def check_out(out: Path, inputs: list[str], outputs: list[Output], *, force: bool) -> None:
    """BadSetting if results would be overwritten, or lie among the inputs."""
    real = Path(os.path.realpath(out))
    for name in inputs:
        path = Path(os.path.realpath(name))
        if path.is_dir() and (real == path or path in real.parents):
            raise BadSetting(f"--out {out} is inside the input {name}, and would be read as data: name another folder")
        if any(real / each == path or real / each in path.parents for each in OUTPUTS):
            raise BadSetting(f"the input {name} is inside the output of --out {out}: name another folder")
    if force or (out / INCOMPLETE_FILE).exists():
        return
    existing = [name for name in (VERDICTS_FILE, VERDICT_LINES_FILE, SUMMARY_FILE, *OUTPUTS) if (out / name).exists()]
    if existing:
        raise BadSetting(f"{out / existing[0]} exists: name another --out, or overwrite it with --force")
