"""Chinese articles and longer pages that print them whole: pages that are contained in others, for a while."""

from __future__ import annotations

import random
from collections.abc import Iterator

from dustream.schemas.crawl import CrawlEvent


def reprints(articles: int, seed: int) -> Iterator[CrawlEvent]:
    """Per article two pages: the article, and the article with comments, which in every third case later dies or
    says something else. All crawled once come before all that changed."""
    chance = random.Random(seed)
    changed = []
    for number in range(articles):
        article, comments = _prose(chance), _prose(chance)
        yield _page(f"https://paper.example/{number}", 1, article)
        yield _page(f"https://forum.example/{number}", 1, article, comments)
        if number % 3 == 1:
            changed.append(CrawlEvent(url=f"https://forum.example/{number}", fetched_at=2, status=410))
        elif number % 3 == 2:
            changed.append(_page(f"https://forum.example/{number}", 2, comments))
    yield from changed


def _prose(chance: random.Random) -> str:
    """A paragraph that is a unit of its own, in sentences."""
    sentences = (
        "".join(chr(chance.randrange(0x4E00, 0x9000)) for _ in range(chance.randrange(6, 14))) for _ in range(36)
    )
    return "，".join(sentences) + "。"


def _page(url: str, fetched_at: int, *paragraphs: str) -> CrawlEvent:
    body = "".join(f"<p>{each}</p>" for each in paragraphs)
    return CrawlEvent(url=url, fetched_at=fetched_at, html=f"<html><body><article>{body}</article></body></html>")
