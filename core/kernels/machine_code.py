"""Machine code on disk, one file for each kernel and each types of its arguments.

A file is used by the version of Python and numba and the kind of processor that it was made for, as long as the source
files of all functions and classes that the kernel contains are unchanged.
"""

from __future__ import annotations

import os
import pickle
import sys
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from platform import machine
from typing import Any, Final, NamedTuple

FORMAT: Final = 1
FOLDER_VARIABLE: Final = "NUMBA_CACHE_DIR"
ENDING: Final = ".kernel"
_CHECKSUM_BYTES: Final = 4
_FEATURES: Final = ("vendor", "cpu family", "model", "flags", "CPU", "Features")  # lines of x86, then of ARM

Sources = tuple[tuple[str, int, int], ...]
"""Source files, with their times of change and sizes."""


class Image(NamedTuple):
    """Code that is ready to be copied into memory; then addresses are written into it. See `object_file`."""

    content: bytes
    entry: int  # where the function for Python begins
    own: list[tuple[int, int]]  # places of addresses within the image, and what they are relative to its start
    others: list[tuple[int, int, int]]  # places of other addresses, numbers of their symbols, what is added
    symbols: list[str]


class MachineCode(NamedTuple):
    """A kernel for some types of arguments."""

    types: str  # as `argument_types` says
    name: str
    entry: str  # the symbol of the function for Python
    image: Image | None
    object_file: bytes  # if there is no image: LLVM loads it
    objects: list[str]  # symbols of Python objects that it refers to
    environments: dict[str, tuple[Any, ...]]  # variables of the code, each with Python objects that it uses


class CodeFiles:
    """The files of a kernel."""

    def __init__(self, source: str, name: str, line: int) -> None:
        self._source = source
        self._kernel = f"{Path(source).stem}.{name.replace('<', '').replace('>', '')}-"
        self._prefix = f"{self._kernel}{line}.{_made_for()}."
        self._read: set[str] = set()

    @property
    def folder(self) -> str:
        folder = os.path.dirname(os.path.abspath(self._source))
        if place := os.environ.get(FOLDER_VARIABLE):
            return os.path.join(place, f"{os.path.basename(folder)}_{_digest(folder.encode())}")
        return os.path.join(folder, "__pycache__")

    def unread(self) -> Iterator[MachineCode]:
        """What is there that was not returned before. Files that are outdated or damaged are passed over."""
        for name in _listed(self.folder).get(self._prefix, ()):
            if name not in self._read:
                self._read.add(name)
                if (found := _read(os.path.join(self.folder, name))) is not None:
                    yield found

    def write(self, code: MachineCode, sources: Sources | None) -> None:
        """Replaces outdated code for the same types. Without sources, or a folder that can be written, other processes
        compile for themselves."""
        if sources is None:
            return
        content = pickle.dumps((sources, code), pickle.HIGHEST_PROTOCOL)
        name = f"{self._prefix}{_digest(code.types.encode())}{ENDING}"
        path = os.path.join(self.folder, name)
        beside = f"{path}.{os.getpid()}.new"
        try:
            os.makedirs(self.folder, exist_ok=True)
            with open(beside, "wb") as file:
                file.write(zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "little") + content)
            os.replace(beside, path)
            self._read.add(name)
            self._remove_moved()
        except OSError:
            return

    def _remove_moved(self) -> None:
        """What was compiled when the function stood at another line of the file."""
        for prefix, names in _listed(self.folder).items():
            is_ours = prefix.startswith(self._kernel) and prefix.endswith(f".{_made_for()}.")
            for name in names if is_ours and prefix != self._prefix else ():
                os.unlink(os.path.join(self.folder, name))


def sources_now(paths: Iterable[str]) -> Sources | None:
    """The source files as they are now; None if one of them is no file, such as standard input."""
    found = []
    for path in sorted(set(paths)):
        if (stamp := _stamp(path)) is None:
            return None
        found.append((path, *stamp))
    return tuple(found)


def _read(path: str) -> MachineCode | None:
    try:
        with open(path, "rb") as file:
            checksum, content = file.read(_CHECKSUM_BYTES), file.read()
        if int.from_bytes(checksum, "little") != zlib.crc32(content):
            return None
        sources, code = pickle.loads(content)
    except (OSError, EOFError, AttributeError, ImportError, pickle.UnpicklingError):
        return None
    is_current = all(_stamp(source) == (changed, size) for source, changed, size in sources)
    return MachineCode(*code) if is_current else None


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


_listings: dict[str, tuple[int, dict[str, list[str]]]] = {}


def _listed(folder: str) -> dict[str, list[str]]:
    """The names of files by what they begin with, up to the types."""
    try:
        changed = os.stat(folder).st_mtime_ns
        if folder not in _listings or _listings[folder][0] != changed:
            found: dict[str, list[str]] = {}
            for name in sorted(os.listdir(folder)):
                if name.endswith(ENDING):
                    found.setdefault(name.removesuffix(ENDING).rpartition(".")[0] + ".", []).append(name)
            _listings[folder] = changed, found
    except OSError:
        return {}
    return _listings[folder][1]


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=8).hexdigest()


@cache
def _made_for() -> str:
    """The version of Python, and a digest of all else that code depends on beside its source."""
    settings = sorted((name, value) for name, value in os.environ.items() if name.startswith("NUMBA_"))
    details = [FORMAT, _numba_version(), machine(), _processor()]
    details += [each for each in settings if each[0] != FOLDER_VARIABLE]
    return f"{sys.implementation.cache_tag}-{_digest(repr(details).encode())}"


def _numba_version() -> bytes:
    """What numba says of its version, without importing it."""
    spec = find_spec("numba")
    if spec is None or not spec.origin:
        raise ImportError("numba is missing: install dustream again")
    return Path(spec.origin).with_name("_version.py").read_bytes()


def _processor() -> str:
    """What the processor can do: code is made for all of it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = takewhile(str.strip, file)  # the lines of the first processor
            return "".join(line for line in first if line.startswith(_FEATURES))
    except OSError:
        from platform import processor

        return processor()
