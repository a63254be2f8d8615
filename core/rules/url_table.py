"""Parsed URLs as numbers, cached for training sets that share most of their URLs.

URLs with the same keys have one structure; a URL is its structure and the numbers of its values. Plain URLs, which most
are, are taken apart and numbered in compiled code; all others by `keys_and_values`, which says what is right.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.hash_slots import Hashes, Ints, after, home, numbered, slot_count
from dustream.core.urls.keys import Keys, keys_and_values
from dustream.core.urls.standard import standard_form

NAMED_MAX: Final = 32
"""A URL with more query keys is not plain: that none is repeated is checked pair by pair."""
EXTENSION_MAX: Final = 8

_SLASH, _DOT, _QUERY, _AND, _EQUALS, _HASH, _SEMICOLON = (ord(c) for c in "/.?&=#;")
_HOST, _PATH, _EXT, _NAMED = 1, 2, 3, 4

Bytes = npt.NDArray[np.uint8]


class Values(NamedTuple):
    """`values[key, row]`: 0 is absent, else the number of a text, given as they come up, row by row: that depends on
    nothing that the table has beside these rows. `codes[number]`: the code of the text in the table; `decimal[number]`:
    it is a number."""

    values: Ints
    codes: Ints
    decimal: npt.NDArray[np.bool_]


class UrlTable:
    """Grows as URLs are asked for. Every text has one number from 1 on, whatever the key."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self.urls: list[str] = []
        self._structures: dict[Keys, int] = {}
        self._keys: list[Keys] = []
        self._codes: dict[str, int] = {}
        self._texts: list[str] = [""]
        self._decimal = array("b", [0])
        self._structure_of = array("i")
        self._starts = array("q")
        self._flat = array("i")

    def standard(self, url: str) -> str:
        return url if url in self._rows else standard_form(url)

    def rows(self, urls: Iterable[str]) -> npt.NDArray[np.int64]:
        """Where the URLs, in standard form, are in the table; new ones are added in this order."""
        rows, urls = self._rows, list(urls)
        new = [url for url in dict.fromkeys(urls) if url not in rows]
        if new:
            self._add(new)
            rows.update(zip(new, range(len(rows), len(rows) + len(new)), strict=True))
            self.urls += new
        return np.fromiter(map(rows.__getitem__, urls), np.int64, len(urls))

    def _add(self, urls: list[str]) -> None:
        text = [url if url.isascii() else "" for url in urls]
        data = "".join(text).encode()
        ends = np.cumsum(np.fromiter(map(len, text), np.int64, len(text)))
        counts, structures, begins, stops = _taken_apart(np.frombuffer(data, np.uint8), ends)
        own, firsts = numbered(structures)
        number_of = [
            self._structure(keys_and_values(urls[first])[0]) if counts[first] else -1 for first in firsts.tolist()
        ]
        own = np.array(number_of, np.int32)[own]
        if not counts.all():
            others = np.flatnonzero(counts == 0)
            data, begins, stops = self._with_others([urls[i] for i in others], others, counts, own, data, begins, stops)
        self._starts.frombytes((len(self._flat) + np.cumsum(counts) - counts).astype(np.int64).tobytes())
        self._structure_of.frombytes(own.tobytes())
        self._flat.frombytes(self._coded(data, begins, stops).tobytes())

    def _structure(self, keys: Keys) -> int:
        number = self._structures.setdefault(keys, len(self._structures))
        if number == len(self._keys):
            self._keys.append(keys)
        return number

    def _with_others(
        self,
        urls: list[str],
        at: npt.NDArray[np.int64],
        counts: Ints,
        own: Ints,
        data: bytes,
        begins: npt.NDArray[np.int64],
        stops: npt.NDArray[np.int64],
    ) -> tuple[bytes, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """With the values of the URLs that are not plain where they belong; fills in their counts and structures."""
        apart = [keys_and_values(url) for url in urls]
        counts[at] = [len(keys) for keys, _ in apart]
        own[at] = [self._structure(keys) for keys, _ in apart]
        texts = [value.encode("utf-8", "surrogatepass") for _, values in apart for value in values]
        more_stops = len(data) + np.cumsum([len(text) for text in texts])
        more_begins = more_stops - [len(text) for text in texts]
        is_other = np.zeros(len(counts), np.bool_)
        is_other[at] = True
        of_others = np.repeat(is_other, counts)
        places = np.empty((2, len(of_others)), np.int64)
        places[:, ~of_others] = begins, stops
        places[:, of_others] = more_begins, more_stops
        return data + b"".join(texts), places[0], places[1]

    def _coded(self, data: bytes, begins: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> Ints:
        """The numbers of the values; new texts get the next ones."""
        local, firsts = _numbered_spans(np.frombuffer(data, np.uint8), begins, stops)
        codes = self._codes
        texts = [
            data[begin:stop].decode("utf-8", "surrogatepass")
            for begin, stop in zip(begins[firsts].tolist(), stops[firsts].tolist(), strict=True)
        ]
        new = [text for text in texts if text not in codes]
        codes.update(zip(new, range(len(codes) + 1, len(codes) + 1 + len(new)), strict=True))
        of_local = np.fromiter(map(codes.__getitem__, texts), np.int32, len(texts))
        self._texts += new
        self._decimal.extend(map(str.isdecimal, new))
        coded: Ints = of_local[local]
        return coded

    def apart(self, url: str) -> tuple[Keys, list[str]]:
        """The keys and values of a URL, as `keys_and_values` gives them; at once, if the table has it."""
        row = self._rows.get(url)
        if row is None:
            return keys_and_values(url)
        keys = self._keys[self._structure_of[row]]
        start = self._starts[row]
        return keys, [self._texts[code] for code in self._flat[start : start + len(keys)]]

    @property
    def keys(self) -> list[Keys]:
        """Of every structure."""
        return self._keys

    def structure_of(self, rows: npt.NDArray[np.int64]) -> Ints:
        own: Ints = np.array(self._structure_of, np.int32)[rows]
        return own

    def structures(self, rows: npt.NDArray[np.int64]) -> tuple[list[Keys], Ints]:
        """All structures, and for each row the number of its own."""
        return self._keys, self.structure_of(rows)

    def row_of(self, url: str) -> int:
        """Where a URL in standard form is; −1 if it is not."""
        return self._rows.get(url, -1)

    def values(self, rows: npt.NDArray[np.int64], keys: dict[str, int]) -> Values:
        """Of rows all of whose keys are among these."""
        structures, own = self.structures(rows)
        present = np.bincount(own, minlength=len(structures)).tolist()
        used = [each if count else () for each, count in zip(structures, present, strict=True)]
        key_starts = np.cumsum([0, *map(len, used)])
        flat_keys = np.array([keys[key] for each in used for key in each], np.int32)
        starts = np.array(self._starts, np.int64)[rows]
        values, codes = _placed(
            np.array(self._flat, np.int32), starts, own, flat_keys, key_starts, len(keys), len(self._texts)
        )
        return Values(values, codes, np.array(self._decimal, np.bool_)[codes])

    def text(self, code: int) -> str:
        return self._texts[code]

    def texts(self, codes: Ints) -> tuple[str, ...]:
        return tuple(map(self._texts.__getitem__, codes.tolist()))


@kernel
def _placed(
    flat: Ints,
    starts: npt.NDArray[np.int64],
    own: Ints,
    keys: Ints,
    key_starts: npt.NDArray[np.int64],
    key_count: int,
    code_count: int,
) -> tuple[Ints, Ints]:
    """The values, numbered from 1 in the order of first appearance, and for each number its code in the table."""
    values = np.zeros((key_count, len(own)), np.int32)
    numbers, codes = np.zeros(code_count, np.int32), np.zeros(code_count, np.int32)
    used = 1
    for row in range(len(own)):
        first = key_starts[own[row]]
        for i in range(key_starts[own[row] + 1] - first):
            code = flat[starts[row] + i]
            if numbers[code] == 0:
                numbers[code] = used
                codes[used] = code
                used += 1
            values[keys[first + i], row] = numbers[code]
    return values, codes[:used]


@kernel
def _numbered_spans(data: Bytes, begins: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> tuple[Ints, Ints]:
    """A number for each piece of text, in the order of first appearance; and the first of each."""
    slots = np.full(slot_count(len(begins)), -1, np.int32)
    firsts = np.zeros(len(begins), np.int32)
    numbers = np.zeros(len(begins), np.int32)
    hashes = np.zeros(len(begins), np.uint64)
    used = 0
    for i in range(len(begins)):
        hashes[i] = _hashed(data, begins[i], stops[i])
        slot = home(hashes[i], len(slots))
        while slots[slot] >= 0:
            other = firsts[slots[slot]]
            if hashes[other] == hashes[i] and _equal(data, begins[i], stops[i], begins[other], stops[other]):
                break
            slot = after(slot, len(slots))
        if slots[slot] < 0:
            slots[slot] = used
            firsts[used] = i
            used += 1
        numbers[i] = slots[slot]
    return numbers, firsts[:used]


@inner
def _equal(data: Bytes, begin: int, stop: int, other: int, other_stop: int) -> bool:
    if stop - begin != other_stop - other:
        return False
    while begin < stop and data[begin] == data[other]:
        begin += 1
        other += 1
    return begin == stop


@inner
def _hashed(data: Bytes, begin: int, stop: int) -> np.uint64:
    hashed = np.uint64(14_695_981_039_346_656_037)
    for at in range(begin, stop):
        hashed = (hashed ^ np.uint64(data[at])) * np.uint64(1_099_511_628_211)
    return hashed


@inner
def _joined(hashed: np.uint64, kind: int, name: np.uint64) -> np.uint64:
    """The hash of a structure with one more key."""
    x = (hashed ^ np.uint64(kind)) * np.uint64(0x9E3779B97F4A7C15) + name
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return x ^ (x >> np.uint64(31))


@kernel
def _taken_apart(
    data: Bytes, ends: npt.NDArray[np.int64]
) -> tuple[Ints, Hashes, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Per URL how many values it has and the hash of its structure, and where all values begin and stop; a URL with no
    values is not plain."""
    room = 2 * len(ends)
    for byte in data:
        room += byte in (_SLASH, _DOT, _QUERY, _AND)
    begins, stops = np.zeros(room, np.int64), np.zeros(room, np.int64)
    counts, structures = np.zeros(len(ends), np.int32), np.zeros(len(ends), np.uint64)
    used = 0
    start = 0
    for i in range(len(ends)):
        found, structure = _url_apart(data, start, ends[i], begins[used:], stops[used:])
        if found > 0:
            counts[i], structures[i] = found, structure
            used += found
        start = ends[i]
    return counts, structures, begins[:used], stops[:used]


@inner
def _url_apart(
    data: Bytes, start: int, end: int, begins: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> tuple[int, np.uint64]:
    """How many values, and the hash of the structure; −1 if the URL is not plain."""
    host = _scheme_end(data, start, end)
    if host < 0:
        return -1, np.uint64(0)
    begins[0], stops[0] = start, host - 3
    path = _authority_end(data, host, end)
    if path < 0:
        return -1, np.uint64(0)
    used, structure = _labels(data, host, path, begins, stops)
    query = path
    while query < end and data[query] != _QUERY:
        if data[query] <= 0x20 or data[query] == 0x7F or data[query] == _HASH:
            return -1, np.uint64(0)
        query += 1
    if path < query:
        used, structure = _segments(data, path, query, begins, stops, used, structure)
    if used >= 0 and query < end:
        used, structure = _named(data, query, end, begins, stops, used, structure)
    return used, structure


@inner
def _scheme_end(data: Bytes, start: int, end: int) -> int:
    """Where the host of an http or https URL begins, or −1."""
    if end - start < 8 or data[start] != 104 or data[start + 1] != 116 or data[start + 2] != 116:
        return -1
    at = start + (5 if data[start + 4] == 115 else 4)
    plain = data[start + 3] == 112 and data[at] == 58 and data[at + 1] == _SLASH and data[at + 2] == _SLASH
    return at + 3 if plain else -1


@inner
def _authority_end(data: Bytes, start: int, end: int) -> int:
    """Where a host name ends; −1 for user names, ports, addresses, and what is no host name."""
    at = start
    is_name = False
    while at < end and data[at] != _SLASH and data[at] != _QUERY:
        byte = data[at]
        is_letter = 97 <= byte <= 122 or byte == 45 or byte == 95
        if not is_letter and not 48 <= byte <= 57 and byte != _DOT:
            return -1
        is_name |= is_letter
        at += 1
    return at if is_name else -1


@inner
def _labels(
    data: Bytes, start: int, end: int, begins: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> tuple[int, np.uint64]:
    """From right to left, after the scheme."""
    used, structure = 1, np.uint64(0)
    stop = end
    for at in range(end - 1, start - 2, -1):
        if at < start or data[at] == _DOT:
            begins[used], stops[used] = at + 1, stop
            structure = _joined(structure, _HOST, np.uint64(0))
            used += 1
            stop = at
    return used, structure


@inner
def _segments(
    data: Bytes,
    start: int,
    end: int,
    begins: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    used: int,
    structure: np.uint64,
) -> tuple[int, np.uint64]:
    """The parts of the path and the extension of the last; not plain if that has parameters."""
    last_dot = -1
    for at in range(start, end):
        if data[at] == _SLASH:
            begins[used] = at + 1
            structure = _joined(structure, _PATH, np.uint64(0))
            used += 1
            last_dot = -1
            if at > start:
                stops[used - 2] = at
        elif data[at] == _DOT:
            last_dot = at
    stops[used - 1] = end
    for at in range(begins[used - 1], end):
        if data[at] == _SEMICOLON:
            return -1, structure
    if last_dot > begins[used - 1] and _is_extension(data, last_dot + 1, end):
        stops[used - 1] = last_dot
        begins[used], stops[used] = last_dot + 1, end
        return used + 1, _joined(structure, _EXT, np.uint64(0))
    return used, structure


@inner
def _is_extension(data: Bytes, begin: int, end: int) -> bool:
    """As in core/urls/keys.py: a letter, then up to seven letters and digits."""
    if not 1 <= end - begin <= EXTENSION_MAX or 48 <= data[begin] <= 57:
        return False
    at = begin
    while at < end and (97 <= data[at] <= 122 or 65 <= data[at] <= 90 or 48 <= data[at] <= 57):
        at += 1
    return at == end


@inner
def _named(
    data: Bytes,
    start: int,
    end: int,
    begins: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    used: int,
    structure: np.uint64,
) -> tuple[int, np.uint64]:
    """The query; not plain if a key is repeated."""
    names = np.zeros(NAMED_MAX, np.uint64)
    count = 0
    begin = start + 1
    while begin <= end:
        stop = begin
        value = -1
        while stop < end and data[stop] != _AND:
            if data[stop] <= 0x20 or data[stop] == 0x7F or data[stop] == _HASH:
                return -1, structure
            if data[stop] == _EQUALS and value < 0:
                value = stop + 1
            stop += 1
        value = stop if value < 0 else value
        name = _hashed(data, begin, value)
        if count == NAMED_MAX or np.any(names[:count] == name):
            return -1, structure
        names[count] = name
        count += 1
        begins[used], stops[used] = value, stop
        structure = _joined(structure, _NAMED, name)
        used += 1
        begin = stop + 1
    return used, structure
