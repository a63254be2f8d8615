"""Answers of the service that are made of the answers of streams/questions."""

from __future__ import annotations

from msgspec import Struct

from dustream.schemas.lookup import Position, Settled
from dustream.streams.questions.group_list import GroupAnswer
from dustream.streams.questions.one_page import PageAnswer
from dustream.streams.questions.texts import TextAnswer
from dustream.streams.questions.two_pages import PairAnswer


class WhyAnswer(Struct, frozen=True, kw_only=True):
    """GET /v1/why: `page` for one URL, `pair` for two; `text` compares the page with its winner, or the two."""

    position: Position
    settled: Settled
    page: PageAnswer | None = None
    pair: PairAnswer | None = None
    text: TextAnswer | None = None


class GroupsAnswer(Struct, frozen=True, kw_only=True):
    """GET /v1/groups."""

    position: Position
    settled: Settled
    groups: list[GroupAnswer]
