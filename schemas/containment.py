"""The input log of `containment`, by explicit partition (internal, msgpack): the terms of pages that may contain others
or be contained. Columns are little-endian."""

from __future__ import annotations

from msgspec import Struct


class Postings(Struct, frozen=True, array_like=True):
    """Some pages, and those of their terms that belong to one partition, in columns; also a row of its index."""

    serials: bytes  # int64, ascending: the page's number at its tier-2 home
    sizes: bytes  # int32: shingles of the page
    masks: bytes  # 4 uint64: the terms that the page asks with and those that it posts, each as a mask of 128 bits
    counts: bytes  # int32: terms of the page in `terms`
    terms: bytes  # uint64
    kinds: bytes  # uint8: flags of the term (core/containment/sketch.py)


class Post(Struct, frozen=True, array_like=True, tag="post"):
    """Makes pages of the tier-2 partition `home` findable by these terms, and searches for others by them."""

    home: int
    postings: Postings


class Unpost(Struct, frozen=True, array_like=True, tag="unpost"):
    """Removes pages of the tier-2 partition `home` from the partitions that they were posted to."""

    home: int
    serials: bytes  # int64


ContainmentMessage = Post | Unpost
