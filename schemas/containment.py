"""The input log of `containment`, by language (internal, msgpack): the feature codes of pages and what they are."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Place = Literal["alone", "winner", "duplicate"]
"""What a page is without containment: alone in its group, a winner with others, or another's duplicate."""


class KeepCode(Struct, frozen=True, array_like=True, tag="keep"):
    """A new vertex with its feature code, alone until told otherwise. `order`: of two, the smaller is kept."""

    vertex: str
    code: str
    order: bytes


class PlaceCode(Struct, frozen=True, array_like=True, tag="place"):
    """What the vertex is now."""

    vertex: str
    place: Place


class ReorderCode(Struct, frozen=True, array_like=True, tag="reorder"):
    """The vertex has another place in the order."""

    vertex: str
    order: bytes


class DropCode(Struct, frozen=True, array_like=True, tag="drop"):
    """The vertex is no more."""

    vertex: str


ContainmentMessage = KeepCode | PlaceCode | ReorderCode | DropCode
