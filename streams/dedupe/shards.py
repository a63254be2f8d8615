"""The files of a corpus, one shard each: Parquet, Arrow (as Hugging Face `save_to_disk` writes it), JSON lines, CSV."""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from dustream.core.errors import BadInput, BadSetting, UnreadableInput
from dustream.streams.readers.formats import FORMATS_READ as RUN_FORMATS_READ
from dustream.streams.readers.formats import detect_format
from dustream.streams.readers.sources import BrokenSource, Source, compression_of, open_source

ShardFormat = Literal["parquet", "arrow_file", "arrow_stream", "jsonl", "csv"]

DATA_NAME: Final = re.compile(r"\.(parquet|arrow|(jsonl|ndjson|json|csv|tsv)(\.gz|\.zst)?)$")
_CSV_NAME: Final = re.compile(r"\.(csv|tsv)(\.gz|\.zst)?$")
# What Hugging Face puts beside the data, by name: copied, never read as data.
METADATA_NAMES: Final = ("state.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json")
FORMATS_READ: Final = "Parquet, Arrow, JSON lines and CSV (.gz, .zst)"
PART_BYTES_MIN: Final = 64 << 20  # uncompressed
STDIN_NAME: Final = "stdin.jsonl"
_ARROW_STREAM: Final = b"\xff\xff\xff\xff"


class Shard(Struct, frozen=True):
    """A file, or a part of a large one, from and to: row groups of Parquet, bytes of JSON lines (the lines that begin
    there). `name` is its path below the input that was named, where its output goes."""

    path: str
    name: str
    part: tuple[int, int] | None = None


def parts_of(shard: Shard) -> list[Shard]:
    """A large file in parts, which can be signed beside each other. The same file has the same parts on every
    machine."""
    try:
        format = shard_format(shard.path)
        if format == "jsonl" and compression(shard.path) == "plain":
            ends = _ends_of_lines(os.path.getsize(shard.path))
        else:
            ends = _ends_of_groups(pq.read_metadata(shard.path)) if format == "parquet" else []
    except (pa.ArrowException, OSError, BrokenSource, BadInput):
        ends = []  # whoever reads it says why
    parts = [replace(shard, part=part) for part in itertools.pairwise([0, *ends])]
    return parts if len(parts) > 1 else [shard]


def _ends_of_groups(metadata: Any) -> list[int]:
    ends, size = [], 0
    for number in range(metadata.num_row_groups):
        size += metadata.row_group(number).total_byte_size
        if size >= PART_BYTES_MIN or number == metadata.num_row_groups - 1:
            ends.append(number + 1)
            size = 0
    return ends


def _ends_of_lines(size: int) -> list[int]:
    parts = max(1, size // PART_BYTES_MIN)
    return [size * number // parts for number in range(1, parts + 1)]


def find_shards(inputs: Iterable[str], on_passed_over: Callable[[str], None] = lambda path: None) -> list[Shard]:
    """The files that are named, those in folders and those that match patterns, in this order; sorted within each.
    The same file named twice is an error: each of its rows would be a copy."""
    found = [shard for name in inputs for shard in _shards_of(name, on_passed_over)]
    twice = [path for path, count in Counter(os.path.realpath(shard.path) for shard in found).items() if count > 1]
    if twice:
        raise BadSetting(f"{twice[0]} is named twice among the inputs: name it once")
    return with_own_names(found)


def below(root: str, shards: Iterable[Shard]) -> list[Shard]:
    """Shards named by their paths below a folder, whichever of them are found at once."""
    named = [replace(each, name=os.path.relpath(os.path.abspath(each.path), os.path.abspath(root))) for each in shards]
    outside = [each.path for each in named if each.name.startswith(os.pardir)]
    if outside:
        raise BadSetting(f"{outside[0]} is not below {root}: name a folder above it with --root")
    return named


def _shards_of(name: str, on_passed_over: Callable[[str], None]) -> list[Shard]:
    if os.path.isdir(name):
        return _in_folder(name, on_passed_over)
    if os.path.exists(name):
        return [Shard(name, os.path.basename(name))]
    matches = sorted(path for path in glob.glob(name, recursive=True) if os.path.isfile(path))
    if not matches:
        raise UnreadableInput(f"{name}: no such file")
    folder = os.path.dirname(re.split(r"[*?\[]", name)[0])
    return [Shard(path, os.path.relpath(path, folder or ".")) for path in matches]


def _in_folder(folder: str, on_passed_over: Callable[[str], None]) -> list[Shard]:
    found = []
    for path in files_under(folder):
        if os.path.basename(path) in METADATA_NAMES:
            continue
        if DATA_NAME.search(path):
            found.append(Shard(path, os.path.relpath(path, folder)))
        else:
            on_passed_over(path)
    if not found:
        raise UnreadableInput(f"{folder}: no data files in this folder. Formats read: {FORMATS_READ}")
    return found


def files_under(folder: str) -> list[str]:
    """At any depth, none hidden, sorted."""
    return sorted(
        os.path.join(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if not name.startswith((".", "_")) and "/." not in parent[len(folder) :]
    )


def with_own_names(shards: list[Shard], taken: Collection[str] = ()) -> list[Shard]:
    """Shards of several inputs may have one name, or one that is taken: then the folders above are part of it, as far
    as needed."""
    depth, named = 0, shards
    while depth < 64:
        counts = Counter([*(shard.name for shard in named), *taken])
        if all(counts[each.name] == 1 for each in named):
            return named
        depth += 1
        named = [replace(each, name=_longer(each)) if counts[each.name] > 1 else each for each in named]
    raise BadSetting("several inputs have the same name: name a folder above them")


def _longer(shard: Shard) -> str:
    parts = Path(os.path.abspath(shard.path)).parts[1:]
    return os.path.join(*parts[-(len(Path(shard.name).parts) + 1) :])


def shard_format(path: str) -> ShardFormat:
    """By content, CSV by its name; UnreadableInput says what it is instead."""
    if _CSV_NAME.search(path):
        return "csv"
    source = open_source(path)
    try:
        head = source.peek(16)
        if not head and not is_lines(path):
            raise UnreadableInput(f"{path}: the file is empty")
        if head.startswith(b"PAR1"):
            return "parquet"
        if head.startswith(b"ARROW1"):
            return "arrow_file"
        if head.startswith(_ARROW_STREAM):
            return "arrow_stream"
        found = _detected(path, source)
    finally:
        source.close()
    if found != "jsonl":
        raise UnreadableInput(f"{path}: a file of crawled pages ({found}): `dustream run` deduplicates those")
    return "jsonl"


def _detected(path: str, source: Source) -> str:
    try:
        return detect_format(path, source)
    except UnreadableInput as error:
        # of the formats that a run reads, this command reads others
        raise UnreadableInput(f"{str(error).removesuffix(RUN_FORMATS_READ)}. Formats read: {FORMATS_READ}") from None


def is_lines(path: str) -> bool:
    """Whether Python code reads its rows one by one."""
    return not path.endswith((".parquet", ".arrow"))


def compression(path: str) -> str:
    with open(path, "rb") as file:
        return compression_of(file.read(16))
