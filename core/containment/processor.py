"""The containment processor: which page is contained in which. By language, so that all that may meet do.

`pages` says which codes there are, their places in the orders, and what their pages are without containment; the rules
by which a container is chosen are those of `containers.py`, once per market.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dustream.core.containment.containers import Who
from dustream.core.containment.language_codes import LanguageCodes
from dustream.core.containment.rows import CodeRow, CodeRows
from dustream.core.processor import Send, TaskState
from dustream.schemas.containment import Codes, ContainmentMessage, ContinueContainment

TABLES: dict[str, Any] = {"codes": CodeRow}


SETTLE_NEWS = 1_000  # while news keep coming, a page that waits is looked at after once to twice so many
LOOKS_MAX = 2_000  # pages of a language and market that are looked at in a step


class ContainmentProcessor:
    """One task of `containment`. What is beside the table is derived from it."""

    def __init__(
        self, delta: float, markets: int = 1, *, settle_news: int = SETTLE_NEWS, looks_max: int = LOOKS_MAX
    ) -> None:
        self._delta = delta
        self._markets = markets
        self._settle_news = settle_news
        self._looks_max = looks_max

    def open(self, state: TaskState) -> None:
        self._partition = state.partition
        self._rows = CodeRows(state.table("codes"))
        self._languages: dict[str, LanguageCodes] = {}
        self._news = 0
        self._going_on = False
        for vertex, row in self._rows.items():
            self._of(row.language).add(vertex, row)

    def process(self, state: TaskState, messages: Sequence[ContainmentMessage]) -> list[Send]:
        goes_on = False
        for message in messages:
            if isinstance(message, Codes):
                self._take(message)
            else:
                goes_on, self._going_on = True, False
        return self._settle("all" if goes_on else "waited" if self._news >= self._settle_news else "urgent")

    def at_rest(self, state: TaskState) -> list[Send]:
        return self._settle("all")

    def _take(self, message: Codes) -> None:
        codes = self._of(message.language)
        for news in message.news:
            codes.take(news)
        self._news += len(message.news)

    def _settle(self, who: Who) -> list[Send]:
        sends: list[Send] = []
        for codes in self._languages.values():
            sends += codes.settle(self._looks_max, who)
        self._news = self._news if who == "urgent" else 0
        if not self._going_on and any(codes.is_cut for codes in self._languages.values()):
            self._going_on = True  # forgotten by a restart: then two are under way, one of which leads to no other
            sends.append(Send("containment", self._partition, ContinueContainment()))
        return sends

    def _of(self, language: str) -> LanguageCodes:
        """Languages that happen to share a task are apart all the same: else what is compared would depend on the
        number of partitions."""
        if language not in self._languages:
            self._languages[language] = LanguageCodes(language, self._delta, self._markets, self._rows)
        return self._languages[language]
