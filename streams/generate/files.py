"""A generated web in files: the events, and the truth beside them."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import zstandard
from tqdm import tqdm

from dustream.core.errors import BadSetting
from dustream.streams.folders import make_folder
from dustream.streams.generate.truth import TruthCounts, TruthHeader
from dustream.streams.generate.web import MARKUP_BYTES_DEFAULT, blocks, events

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
ZSTD_LEVEL, GZIP_LEVEL = 3, 3
COPY_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class WrittenWeb:
    """What `write` has written."""

    events: Path
    truth: Path
    header: TruthHeader
    events_file_bytes: int
    events_plain_bytes: int


def truth_path(out: Path) -> Path:
    """Where the truth of a web goes: web.jsonl.zst → web.truth.jsonl.zst."""
    ending = _ending(out)
    return out.with_name(out.name.removesuffix(ending) + ".truth" + ending)


def write(pages: int, seed: int, out: Path, markup_bytes: int = MARKUP_BYTES_DEFAULT) -> WrittenWeb:
    """Write a generated web to `out` (.jsonl, .jsonl.gz or .jsonl.zst) and its truth beside it.

    The files appear under their names when they are complete, the events last: where there are events there is truth.
    """
    truth_out = truth_path(out)
    make_folder(out.parent)
    encode = msgspec.json.Encoder().encode
    tally, plain_bytes = TruthCounts(), 0
    with ExitStack() as stack:
        log = stack.enter_context(_appearing(out))
        truth = stack.enter_context(_appearing(truth_out))
        spool = stack.enter_context(_temporary(truth_out))
        bar = stack.enter_context(tqdm(total=pages, unit=" pages", disable=None, file=sys.stderr, desc="generate"))
        for block in blocks(pages, seed, markup_bytes):
            for event in events(block):
                plain_bytes += log.write(encode(event) + b"\n")
                tally.events += 1
            truths = block.truths()
            tally.add_block(truths)
            spool.writelines(encode(page) + b"\n" for page in truths)
            bar.update(len(truths))
        header = tally.header(seed)
        truth.write(encode(header) + b"\n")
        spool.seek(0)
        shutil.copyfileobj(spool, truth, COPY_CHUNK_BYTES)
    return WrittenWeb(out, truth_out, header, out.stat().st_size, plain_bytes)


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file that `write` has written."""
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        ending = _ending(path)
        if ending == ".jsonl.gz":
            yield from gzip.GzipFile(fileobj=file)
        elif ending == ".jsonl.zst":
            yield from io.BufferedReader(cast(io.RawIOBase, zstandard.ZstdDecompressor().stream_reader(file)))
        else:
            yield from file


def _ending(path: Path) -> str:
    for ending in reversed(ENDINGS):
        if path.name.endswith(ending) and path.name != ending:
            return ending
    raise BadSetting(f"{path.name}: the name must end in one of {', '.join(ENDINGS)}")


@contextmanager
def _appearing(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name when all is written, and leaves nothing behind when that fails."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file, _compressed(path, file) as stream:
            yield stream
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _compressed(path: Path, file: BinaryIO) -> Iterator[BinaryIO]:
    """A stream that compresses as the name says; no time stamp goes into it, so equal webs give equal files."""
    ending = _ending(path)
    if ending == ".jsonl.gz":
        with gzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=file, mtime=0) as stream:
            yield cast(BinaryIO, stream)
    elif ending == ".jsonl.zst":
        with zstandard.ZstdCompressor(level=ZSTD_LEVEL).stream_writer(file, closefd=False) as stream:
            yield cast(BinaryIO, stream)
    else:
        yield file


@contextmanager
def _temporary(beside: Path) -> Iterator[BinaryIO]:
    """A file that is gone when its work is done: the truth waits here for its first line, which counts it all."""
    part = beside.with_name(f".{beside.name}.{os.getpid()}.spool")
    try:
        with part.open("w+b") as file:
            yield file
    finally:
        part.unlink(missing_ok=True)
