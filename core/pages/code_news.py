"""What a step has to say to containment: few messages of bounded size, one language each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dustream.core.processor import Send
from dustream.schemas.containment import CodeNews, Codes

NEWS_MAX = 100  # in one message


class CodesTold:
    """Gathers the news of a step by language, in order; of two words of one kind about a vertex the last counts."""

    def __init__(self) -> None:
        self._news: dict[str, dict[tuple[str, type], CodeNews]] = {}

    def add(self, language: str, news: CodeNews) -> None:
        self._news.setdefault(language, {})[news.vertex, type(news)] = news

    def drain(self) -> Iterator[Send]:
        for language, news in self._news.items():
            each = iter(news.values())
            while some := tuple(islice(each, NEWS_MAX)):
                yield Send("containment", language, Codes(language, some))
        self._news = {}
