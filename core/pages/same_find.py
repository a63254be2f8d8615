"""When a fetch finds what is known of its page already."""

from __future__ import annotations

from typing import Protocol

from dustream.schemas.pages import Crawl


class ComparedFind(Protocol):
    """What of a page a fetch is compared with."""

    @property
    def kind(self) -> str: ...
    @property
    def content_hash(self) -> bytes: ...
    @property
    def target(self) -> str: ...
    @property
    def revisit(self) -> str: ...


def finds_same(page: ComparedFind, crawl: Crawl) -> bool:
    """Whether the fetch found what is known already."""
    if crawl.kind == "seen":
        return True
    if crawl.kind == "revisit":
        return crawl.target == page.revisit
    if page.revisit or crawl.kind != page.kind:
        return False
    if crawl.kind == "content":
        return crawl.signature is not None and crawl.signature.content_hash == page.content_hash
    return crawl.kind == "gone" or crawl.target == page.target
