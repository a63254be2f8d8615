"""HTTP payloads in archives: often still chunked and compressed, often only declared to be.

A coding that does not fit the bytes was removed by the archiver, who left the header: the bytes are taken as they are.
A coding that breaks off gives what precedes the break, as in a browser.
"""

from __future__ import annotations

import io
import re
from typing import Final

import zstandard
from fastwarc.stream_io import BrotliReader
from zlib_ng import zlib_ng

from dustream.streams.readers.sources import zstd_window_bytes_max

_CHUNK_HEAD: Final = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
_ZLIB_WINDOW: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_step_bytes: Final = 16 * 1024


def decode_payload(payload: bytes, transfer_encoding: str, content_encoding: str, bytes_max: int) -> bytes:
    """The payload without its transfer and content codings, or its first `bytes_max` bytes."""
    if "chunked" in transfer_encoding.lower():
        payload = _dechunk(payload)
    codings = [coding for coding in re.split(r"[,\s]+", content_encoding.lower()) if coding]
    for coding in reversed(codings):  # RFC 9110 section 8.4: listed in the order they were applied
        payload = _decode(payload, coding, bytes_max)
    return payload


def _dechunk(payload: bytes) -> bytes:
    """RFC 9112 section 7.1, with extensions and trailers passed over."""
    pieces: list[bytes] = []
    at = 0
    while found := _CHUNK_HEAD.match(payload, at):
        size = int(found[1], 16)
        if size == 0:
            return b"".join(pieces)
        at = found.end() + size
        pieces.append(payload[found.end() : at])
        if payload[at : at + 2] == b"\r\n":
            at += 2
    ended = at >= len(payload)
    return b"".join(pieces) if ended or len(pieces) > 1 else payload


def _decode(payload: bytes, coding: str, bytes_max: int) -> bytes:
    if coding in _ZLIB_WINDOW:
        return _inflate(payload, _ZLIB_WINDOW[coding], bytes_max)
    if coding == "br":
        return _unbrotli(payload, bytes_max)
    if coding == "zstd":
        return _unzstd(payload, bytes_max)
    return payload


def _inflate(payload: bytes, window: int, bytes_max: int) -> bytes:
    content = _inflated(payload, window, bytes_max)
    if not content and window == 15:  # "deflate" means zlib, but some servers send it bare
        content = _inflated(payload, -15, bytes_max)
    return content or payload


def _inflated(payload: bytes, window: int, bytes_max: int) -> bytes:
    """In small steps, since zlib keeps back the output of a call that fails."""
    stream = zlib_ng.decompressobj(window)
    pieces = []
    size = 0
    try:
        for start in range(0, len(payload), _step_bytes):
            pieces.append(stream.decompress(payload[start : start + _step_bytes], bytes_max - size))
            size += len(pieces[-1])
            if stream.eof or size >= bytes_max:
                break
    except zlib_ng.error:
        pass
    return b"".join(pieces)


def _unbrotli(payload: bytes, bytes_max: int) -> bytes:
    pieces = []
    reader = BrotliReader(io.BytesIO(payload))
    size = 0
    try:
        while size < bytes_max and (piece := reader.read(_step_bytes)):
            pieces.append(piece)
            size += len(piece)
    except OSError:
        pass
    return b"".join(pieces)[:bytes_max] or payload


def _unzstd(payload: bytes, bytes_max: int) -> bytes:
    reader = zstandard.ZstdDecompressor(max_window_size=zstd_window_bytes_max).stream_reader(payload)
    pieces = []
    size = 0
    try:
        while size < bytes_max and (piece := reader.read(min(_step_bytes, bytes_max - size))):
            pieces.append(piece)
            size += len(piece)
    except zstandard.ZstdError:
        pass
    return b"".join(pieces) or payload
