"""A Scrapy duplicate filter: a request is a duplicate if one with the same normal form was seen.

    DUPEFILTER_CLASS = "dustream.streams.rules_io.scrapy.NormalUrlDupeFilter"
    DUSTREAM_RULES = "rules.json"

What is fetched is the URL of the request: a normal form is a key to compare URLs by, and may not exist.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scrapy.dupefilters import RFPDupeFilter

from dustream.core.errors import BadSetting
from dustream.core.rules.normalize import Normalizer
from dustream.streams.rules_io.files import read_rules


class NormalUrlDupeFilter(RFPDupeFilter):
    """Scrapy's own filter, asked about the normal forms of requests."""

    _normalizer = Normalizer()

    @classmethod
    def from_crawler(cls, crawler: Any) -> NormalUrlDupeFilter:
        path = crawler.settings.get("DUSTREAM_RULES")
        if not path:
            raise BadSetting("set DUSTREAM_RULES to a rule file (dustream learn writes them)")
        made: NormalUrlDupeFilter = super().from_crawler(crawler)
        made._normalizer = Normalizer(read_rules(Path(path)))
        return made

    def request_seen(self, request: Any) -> bool:
        normal = self._normalizer.normalize(request.url)
        return bool(super().request_seen(request.replace(url=normal)))
