"""A Scrapy spider middleware: requests get their normal URL before Scrapy looks whether it has seen them.

Settings: DUSTREAM_RULES names the rule file. Scrapy itself is not needed to import this.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

from dustream.core.errors import BadSetting
from dustream.core.rules.normalize import Normalizer
from dustream.streams.rules_io.files import read_rules


class NormalizeUrls:
    """Rewrites the URLs of requests that spiders yield; items pass untouched."""

    def __init__(self, normalizer: Normalizer) -> None:
        self._normalizer = normalizer

    @classmethod
    def from_crawler(cls, crawler: Any) -> NormalizeUrls:
        path = crawler.settings.get("DUSTREAM_RULES")
        if not path:
            raise BadSetting("set DUSTREAM_RULES to a rule file (dustream learn writes them)")
        return cls(Normalizer(read_rules(Path(path))))

    def process_spider_output(self, response: Any, result: Iterable[Any], spider: Any = None) -> Iterator[Any]:
        return (self._rewritten(each) for each in result)

    async def process_spider_output_async(
        self, response: Any, result: AsyncIterator[Any], spider: Any = None
    ) -> AsyncIterator[Any]:
        async for each in result:
            yield self._rewritten(each)

    def _rewritten(self, each: Any) -> Any:
        url = getattr(each, "url", None)
        if not isinstance(url, str) or not hasattr(each, "callback"):
            return each
        normal = self._normalizer.normalize(url)
        return each if normal == url else each.replace(url=normal)
