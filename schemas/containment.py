"""The input log of `containment`, by language (internal, msgpack): the feature codes of pages and what they are."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Place = Literal["alone", "winner", "duplicate"]
"""What a page is without containment: alone in its group, a winner with others, or another's duplicate."""


class KeepCode(Struct, frozen=True, array_like=True, tag="keep"):
    """A new vertex with its feature code, alone until told otherwise. `orders`: by market; of two, the smaller is
    kept, and of equal ones the vertex with the smaller name."""

    vertex: str
    code: str
    orders: tuple[bytes, ...]


class PlaceCode(Struct, frozen=True, array_like=True, tag="place"):
    """What the vertex is now, by market."""

    vertex: str
    places: tuple[Place, ...]


class ReorderCode(Struct, frozen=True, array_like=True, tag="reorder"):
    """The vertex has another place in the orders."""

    vertex: str
    orders: tuple[bytes, ...]


class DropCode(Struct, frozen=True, array_like=True, tag="drop"):
    """The vertex is no more."""

    vertex: str


CodeNews = KeepCode | PlaceCode | ReorderCode | DropCode


class Codes(Struct, frozen=True, array_like=True, tag="codes"):
    """What a step of `pages` has to say about the codes of one language, in order."""

    language: str
    news: tuple[CodeNews, ...]


class ContinueContainment(Struct, frozen=True, array_like=True, tag="continue"):
    """To oneself: go on looking at the pages that wait for it."""


ContainmentMessage = Codes | ContinueContainment
