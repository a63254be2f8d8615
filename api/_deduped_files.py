"""Deduplicate files: the command `dustream dedupe` as a function."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dustream.core.errors import BadSetting, DustreamError, UnreadableInput
from dustream.core.text.row_signing import TokenKind, TokenRules
from dustream.streams.dedupe.filtered import Output
from dustream.streams.dedupe.job import STDIN, DedupeRequest, DedupeWatcher, run_dedupe
from dustream.streams.dedupe.settings import DedupeSettings
from dustream.streams.dedupe.stages import DedupeSummary
from dustream.streams.dedupe.verdicts import VERDICTS_FILE

if TYPE_CHECKING:
    import pyarrow as pa

_OPTION = re.compile(r"(?<!\S)--([a-z][a-z-]*)")
"""Messages name options of the command; here they are parameters."""

Paths = str | PathLike[str] | Iterable[str | PathLike[str]]


def dedupe_files(
    inputs: Paths,
    out: str | PathLike[str] | None = None,
    *,
    write: Sequence[Literal["kept", "dropped", "annotated"]] = (),
    text: str = "text",
    id: str | None = None,
    threshold: float = 0.9,
    prefer: str | Sequence[str] = "first",
    tokens: TokenKind = "words",
    ngram: int = 0,
    min_tokens: int = 1,
    keep_case: bool = False,
    fold_chinese: bool = False,
    against: Paths = (),
    against_state: Paths = (),
    only_against: bool = False,
    save_index: str | PathLike[str] | None = None,
    json_lines: bool = False,
    force: bool = False,
    jobs: int | None = None,
    work_dir: str | PathLike[str] | None = None,
) -> DedupedFiles:
    """Find the near-duplicates among the rows of files, out of core, as the command `dustream dedupe` does.

    `inputs` is a file, a folder or a pattern, or several: Parquet, Arrow, JSON lines and CSV. The results are written
    to the folder `out`: one verdict for every row, and the rows themselves as `write` says, in files of the same names
    and format as the input. Without `out` nothing is written.

    The other options are those of the command (`dustream dedupe --help`). `jobs` are threads; without a number, one for
    every core. An input that cannot be read to its end is left out and listed in `summary.unread`; UnreadableInput is
    raised if no row could be compared.

    >>> import json, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> words = " ".join(map(str, range(100)))
    >>> lines = [json.dumps({"id": name, "text": words + end}) for name, end in (("a", ""), ("b", " 100"))]
    >>> _ = (folder / "rows.jsonl").write_text("\\n".join(lines))
    >>> found = dedupe_files(folder / "rows.jsonl", folder / "out", id="id", write=["kept"])
    >>> found
    <DedupedFiles 2 rows: 1 kept>
    >>> found.verdicts["winner"].to_pylist()
    ['a', 'a']
    >>> [path.name for path in found.files("kept")]
    ['rows.jsonl']
    """
    settings = DedupeSettings(
        text=text,
        id=id,
        threshold=threshold,
        rules=TokenRules(tokens, ngram, keep_case, fold_chinese),
        min_tokens=min_tokens,
        prefer=(prefer,) if isinstance(prefer, str) else tuple(prefer),
    )
    if isinstance(write, str):
        raise BadSetting(f"write is {write!r}: give a list, such as [{write!r}]")
    outputs: list[Output] = list(dict.fromkeys(write))
    request = DedupeRequest(
        inputs=_names(inputs),
        out=_path(out),
        settings=settings,
        against=_names(against),
        against_state=[Path(each) for each in _names(against_state)],
        only_against=only_against,
        save_index=_path(save_index),
        outputs=outputs,
        json_lines=json_lines,
        force=force,
        jobs=jobs or os.cpu_count() or 1,
        work_dir=_path(work_dir),
    )
    try:
        summary = run_dedupe(request, DedupeWatcher())
        if not summary.compared:
            raise UnreadableInput(summary.nothing_compared)
    except DustreamError as error:
        raise type(error)(_OPTION.sub(lambda option: option[1].replace("-", "_"), str(error))) from None
    return DedupedFiles(summary, request.out)


def _names(paths: Paths) -> list[str]:
    some = [paths] if isinstance(paths, str | PathLike) else paths
    # a file of this name, never standard input
    return [f"./{STDIN}" if os.fspath(each) == STDIN else os.fspath(each) for each in some]


def _path(path: str | PathLike[str] | None) -> Path | None:
    return None if path is None else Path(path)


class DedupedFiles:
    """The outcome of `dedupe_files`: counts in `summary`, as summary.json has them; the results in the folder `out`."""

    def __init__(self, summary: DedupeSummary, out: Path | None) -> None:
        self.summary, self.out = summary, out

    def __repr__(self) -> str:
        unread = f", {len(self.summary.unread)} inputs left out" if self.summary.unread else ""
        return f"<DedupedFiles {self.summary.rows} rows: {self.summary.kept} kept{unread}>"

    @cached_property
    def verdicts(self) -> pa.Table:
        """One row for every row of the input, as in verdicts.parquet."""
        import pyarrow.parquet as pq

        return pq.read_table(self._written() / VERDICTS_FILE)

    def files(self, output: Literal["kept", "dropped", "annotated"]) -> list[Path]:
        """The files that were written of one kind, in the order of the inputs."""
        paths = [self._written() / output / each.name for each in self.summary.inputs]
        return [path for path in paths if path.exists()]

    def _written(self) -> Path:
        if self.out is None:
            raise UnreadableInput("nothing was written: name a folder with `out`")
        return self.out
