"""From an object file of LLVM to an image of its code.

The object file refers to its own parts and to other things by name. In an image its parts have their places, so that
whoever loads it need not know the format of object files: it copies the content and adds addresses
(`loading`). Images are made of ELF files for x86-64, as LLVM makes them for the large code model, where code may be
anywhere in memory: all addresses of other things are written in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from dustream.core.kernels.machine_code import Image

_MAGIC: Final = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
_X86_64: Final = 62
_HEADER: Final = Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = Struct("<IIQQQQIIQQ")
_SYMBOL: Final = Struct("<IBBHQQ")
_REFERENCE: Final = Struct("<QQq")
_SYMBOLS, _REFERENCES, _UNWIND, _NO_CONTENT = 2, 4, 0x70000001, 8  # kinds of sections
_WRITTEN, _LOADED = 1, 2  # flags of sections
_UNDEFINED, _VARIABLE, _RESERVED = 0, 0xFFF2, 0xFF00  # numbers of no section
_ADDRESS, _DISTANCE_32, _CALL, _DISTANCE = 1, 2, 4, 24  # kinds of references
_DISTANCES: Final = {_DISTANCE_32: 4, _CALL: 4, _DISTANCE: 8}  # their bytes


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_bytes: int


class _Symbol(NamedTuple):
    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


class _Unsupported(Exception):
    """No image can be made of this object file."""


def image_of(object_file: bytes, entry: str) -> Image | None:
    """The image of the code, to be entered at this symbol; None for other platforms or forms of code."""
    try:
        return _Linker(object_file).image(entry)
    except _Unsupported:
        return None


class _Linker:
    def __init__(self, object_file: bytes) -> None:
        self._file = object_file
        if not object_file.startswith(_MAGIC):
            raise _Unsupported
        header = _HEADER.unpack_from(object_file)
        if header[2] != _X86_64:
            raise _Unsupported
        start, size, count = header[6], header[11], header[12]
        self._sections = [
            _Section(*_SECTION.unpack_from(object_file, start + size * number)) for number in range(count)
        ]
        self._content = bytearray()
        self._places = self._place_sections()
        self._symbols, self._names = self._read_symbols()

    def _place_sections(self) -> dict[int, int]:
        """Copies what is to be loaded one behind the other; where each section begins."""
        places = {}
        for number, section in enumerate(self._sections):
            if not section.flags & _LOADED or not section.size or section.kind == _UNWIND:
                continue
            if section.flags & _WRITTEN or section.kind == _NO_CONTENT:
                raise _Unsupported
            self._content += bytes(-len(self._content) % section.alignment)
            places[number] = len(self._content)
            self._content += self._bytes_of(section)
        return places

    def _bytes_of(self, section: _Section) -> bytes:
        return self._file[section.offset : section.offset + section.size]

    def _read_symbols(self) -> tuple[list[_Symbol], bytes]:
        table = next(section for section in self._sections if section.kind == _SYMBOLS)
        names = self._bytes_of(self._sections[table.link])
        return [_Symbol(*each) for each in _SYMBOL.iter_unpack(self._bytes_of(table))], names

    def _name(self, symbol: _Symbol) -> str:
        return self._names[symbol.name : self._names.index(b"\0", symbol.name)].decode()

    def _place(self, symbol: _Symbol) -> int | None:
        """Where in the image the symbol is; None if it is elsewhere."""
        if symbol.section in (_UNDEFINED, _VARIABLE):
            return None
        if symbol.section >= _RESERVED or symbol.section not in self._places:
            raise _Unsupported
        return self._places[symbol.section] + symbol.value

    def image(self, entry: str) -> Image:
        [at] = [self._place(symbol) for symbol in self._symbols if self._name(symbol) == entry]
        if at is None:
            raise _Unsupported
        own, others, numbers = [], [], dict[str, int]()
        for place, kind, symbol, added in self._references():
            target = self._place(symbol)
            if target is not None and kind == _ADDRESS:
                own.append((place, target + added))
            elif target is not None and kind in _DISTANCES:
                distance = (target + added - place).to_bytes(_DISTANCES[kind], "little", signed=True)
                self._content[place : place + len(distance)] = distance
            elif kind == _ADDRESS:
                number = numbers.setdefault(self._name(symbol), len(numbers))
                others.append((place, number, added))
            else:
                raise _Unsupported
        return Image(bytes(self._content), at, own, others, list(numbers))

    def _references(self) -> Iterator[tuple[int, int, _Symbol, int]]:
        """Place in the image, kind, symbol, and what is to be added."""
        for section in self._sections:
            if section.kind == _REFERENCES and section.info in self._places:
                begin = self._places[section.info]
                for place, info, added in _REFERENCE.iter_unpack(self._bytes_of(section)):
                    yield begin + place, info & 0xFFFFFFFF, self._symbols[info >> 32], added
