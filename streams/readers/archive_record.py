"""One archive record → one crawl event, for WARC and ARC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from dustream.core.errors import BadEvent
from dustream.core.events import PAGE_TYPES, is_page_type, looks_binary, media_type
from dustream.core.text.page_guard import PAGE_BYTES_MAX
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.readers.http_head import HttpHead, head_bytes_max, parse_http_head
from dustream.streams.readers.payload import decode_payload
from dustream.streams.readers.records import bare_digest, readable

block_bytes_max: Final = head_bytes_max + PAGE_BYTES_MAX + (PAGE_BYTES_MAX >> 6)  # and what chunks take


class Skip(NamedTuple):
    """A record that is not a page, and why."""

    reason: str


class Truncated(Exception):
    """The data end within a record, or its header is invalid."""


Outcome = CrawlEvent | Skip | BadEvent


class Headers(Protocol):
    """The named fields of a record, by their WARC names."""

    def get(self, key: str, /) -> str | None: ...


class RecordBlock(NamedTuple):
    """The block of a record, or its beginning, if it is larger than what is read of a page."""

    content: bytes
    size: int

    @property
    def is_cut(self) -> bool:
        return len(self.content) < self.size


def read_record(headers: Headers, block: RecordBlock) -> CrawlEvent | Skip:
    """The event of a record; BadEvent if it should be a page but cannot be used."""
    kind = (headers.get("WARC-Type") or "").strip().lower()
    read_kind = _READ_KIND.get(kind)
    if read_kind is None:
        return Skip(f"{kind[:40]} record")
    url = _uri(headers.get("WARC-Target-URI"))
    if not url:
        raise BadEvent("no URL (WARC-Target-URI)")
    scheme = url.partition(":")[0].lower()
    if scheme not in ("http", "https"):
        return Skip(f"scheme {scheme[:40]}")
    event = read_kind(headers, block, url)
    return readable(event) if isinstance(event, CrawlEvent) else event


def _uri(value: str | None) -> str:
    return (value or "").strip().removeprefix("<").removesuffix(">")


def _response(headers: Headers, block: RecordBlock, url: str) -> CrawlEvent | Skip:
    head = parse_http_head(block.content)
    if head is None:
        raise BadEvent("no HTTP response in the record")
    content_type = head.get("Content-Type") or headers.get("WARC-Identified-Payload-Type")
    if not 200 <= head.status <= 299:
        return CrawlEvent(
            url=url,
            fetched_at=headers.get("WARC-Date"),
            status=head.status,
            redirect_to=head.get("Location") if 300 <= head.status <= 399 else None,
            content_type=content_type,
        )
    if not is_page_type(content_type):
        return Skip(f"content type {media_type(content_type)[:80]}")
    return _page(headers, url, head.status, _body(head, block.content[head.size_bytes :]), content_type, block.is_cut)


def _body(head: HttpHead, payload: bytes) -> bytes:
    """More of it than is read of a page, if there is more."""
    transfer_encoding = head.get("Transfer-Encoding") or ""
    content_encoding = head.get("Content-Encoding") or ""
    if not transfer_encoding and not content_encoding:
        return payload
    return decode_payload(payload, transfer_encoding, content_encoding, PAGE_BYTES_MAX + 1)


def _page(
    headers: Headers, url: str, status: int, body: bytes, content_type: str | None, is_cut: bool
) -> CrawlEvent | Skip:
    if media_type(content_type) not in PAGE_TYPES and looks_binary(body):
        return Skip("binary data without a content type")
    return CrawlEvent(
        url=url,
        fetched_at=headers.get("WARC-Date"),
        status=status,
        body=body,
        digest=bare_digest(headers.get("WARC-Payload-Digest")),
        content_type=content_type,
        truncated=is_cut,
    )


def _resource(headers: Headers, block: RecordBlock, url: str) -> CrawlEvent | Skip:
    content_type = headers.get("Content-Type")
    if not is_page_type(content_type):
        return Skip(f"content type {media_type(content_type)[:80]}")
    return _page(headers, url, 200, block.content, content_type, block.is_cut)


def _conversion(headers: Headers, block: RecordBlock, url: str) -> CrawlEvent | Skip:
    content_type = headers.get("Content-Type")
    if media_type(content_type) not in ("text/plain", ""):
        return Skip(f"content type {media_type(content_type)[:80]}")
    return CrawlEvent(
        url=url,
        fetched_at=headers.get("WARC-Date"),
        text=block.content.decode("utf-8", "replace"),
        content_type=content_type,
        truncated=block.is_cut,
    )


def _revisit(headers: Headers, block: RecordBlock, url: str) -> CrawlEvent | Skip:
    """The HTTP head is optional here (WARC 1.1 section 6.7); without one the page answered as before."""
    head = parse_http_head(block.content)
    status = head.status if head else 200
    content_type = head.get("Content-Type") if head else None
    if status <= 299 and not is_page_type(content_type):
        return Skip(f"content type {media_type(content_type)[:80]}")
    return CrawlEvent(
        url=url,
        fetched_at=headers.get("WARC-Date"),
        status=status,
        redirect_to=head.get("Location") if head and 300 <= status <= 399 else None,
        revisit_of=_uri(headers.get("WARC-Refers-To-Target-URI")) or url,
        digest=bare_digest(headers.get("WARC-Payload-Digest")),
        content_type=content_type,
    )


_READ_KIND: Final[dict[str, Callable[[Headers, RecordBlock, str], CrawlEvent | Skip]]] = {
    "response": _response,
    "resource": _resource,
    "conversion": _conversion,
    "revisit": _revisit,
}
