"""Opening inputs: names, folders and patterns → readers."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator

from dustream.core.errors import UnreadableInput, stop_if_fatal
from dustream.streams.readers.field_map import FieldMap, check_field_map
from dustream.streams.readers.formats import Format, detect_format, refuse
from dustream.streams.readers.records import Input
from dustream.streams.readers.sources import BrokenSource, Source, open_source

PassedOver = Callable[[str], None]


def expand_paths(paths: Iterable[str], on_passed_over: PassedOver = lambda path: None) -> list[str]:
    """Files named, files in folders named (at any depth, none hidden), files a pattern matches; sorted within each.
    What is no regular file is read only if it is named itself: a pipe or device in a folder may never end."""
    found: list[str] = []
    for path in paths:
        if path == "-" or os.path.isfile(path):
            found.append(path)
        elif os.path.isdir(path):
            found.extend(_files_under(path, on_passed_over))
        elif os.path.exists(path):
            found.append(path)  # a pipe
        else:
            found.extend(_matching(path, on_passed_over))
    return found


def _files_under(folder: str, on_passed_over: PassedOver) -> list[str]:
    found = [
        os.path.join(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if not name.startswith((".", "_")) and "/." not in parent[len(folder) :]
    ]
    files = _regular(found, on_passed_over)
    if not files:
        raise UnreadableInput(f"{folder}: no files in this folder")
    return files


def _matching(pattern: str, on_passed_over: PassedOver) -> list[str]:
    found = [path for path in glob.glob(pattern, recursive=True) if not os.path.isdir(path)]
    matches = _regular(found, on_passed_over)
    if not matches:
        raise UnreadableInput(f"{pattern}: no such file")
    return matches


def _regular(paths: list[str], on_passed_over: PassedOver) -> list[str]:
    """In order. Links to files are files."""
    regular = []
    for path in sorted(paths):
        if os.path.isfile(path):
            regular.append(path)
        else:
            on_passed_over(path)
    return regular


def open_inputs(paths: Iterable[str], *, field_map: FieldMap | None = None) -> Iterator[Input]:
    """The inputs one after the other, each opened when the one before is done with."""
    for path in expand_paths(paths):
        with open_input(path, field_map=field_map) as opened:
            yield opened


def open_input(path: str, *, field_map: FieldMap | None = None) -> Input:
    """A reader for this file ("-" is standard input). Raises UnreadableInput naming the file and why."""
    check_field_map(field_map or {})
    source = open_source(path)
    try:
        return _reader(detect_format(path, source), path, source, field_map)
    except BaseException as error:
        source.close()
        if not isinstance(error, Exception):
            raise
        stop_if_fatal(error)
        # any error of a parser on a damaged directory or schema
        raise refuse(path, str(error) if isinstance(error, BrokenSource) else f"damaged ({error!r})") from None


def _reader(format: Format, path: str, source: Source, field_map: FieldMap | None) -> Input:
    """Imports only what the format needs: pyarrow alone takes longer than reading a small file."""
    if format == "jsonl":
        from dustream.streams.readers.jsonl import JsonLines

        return JsonLines(path, source, field_map)
    if format == "cdx":
        from dustream.streams.readers.cdx import CdxIndex

        return CdxIndex(path, source)
    if path == "-" or source.bytes_total is None:
        raise refuse(path, f"{format} data from a pipe, where only lines are read: write them to a file")
    source.close()
    return _file_reader(format, path, field_map)


def _file_reader(format: Format, path: str, field_map: FieldMap | None) -> Input:
    if format == "parquet":
        from dustream.streams.readers.parquet import ParquetTable

        return ParquetTable(path, field_map)
    if format == "wacz":
        from dustream.streams.readers.wacz import WaczArchive

        return WaczArchive(path)
    file = open(path, "rb")  # noqa: SIM115 - closed by the input that owns it
    if format == "arc":
        from dustream.streams.readers.arc import ArcArchive

        return ArcArchive(path, file, os.path.getsize(path))
    from dustream.streams.readers.warc import WarcArchive

    return WarcArchive(path, file, os.path.getsize(path))
