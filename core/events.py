"""Checks a crawl event: the identity of its page, the time of the fetch, and what the fetch found.

    2xx with html, text, body or digest          content   the page has this content now
    3xx with a target; redirect_to with any 2xx  redirect  it redirects to `target` (via http, or meta: its own markup)
    revisit of another URL                       revisit   it has the content that `target` had then
    revisit of itself, 304                       seen      unchanged; only the version advances
    404, 410                                     gone      the page is dead
    `decision`                                   decision  not a fetch: an operator's decision
    any other status                             failed    no information about the page: counted and ignored
    not a page (image, PDF, no content at all)   skipped   counted and ignored

An event that cannot be read (no URL, absurd time, unknown schema version) is a `BadEvent`: the record is rejected.
No clock is read: fixed bounds decide whether a time is absurd, so a replay decides the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from dustream.core.errors import BadEvent, BadInput
from dustream.core.urls.identity import EXCERPT_CHARS_MAX, excerpt, page_identity, resolve_target
from dustream.core.urls.sites import site_of
from dustream.schemas.crawl import CRAWL_EVENT_VERSION, CrawlEvent

# A version far in the future would outrank every later fetch of its URL for ever, so the bound is tight but fixed.
fetched_at_s_max: Final = 4_102_444_800  # 2100-01-01T00:00:00Z
year_9999_s_max: Final = 253_402_300_799

Kind = Literal["content", "redirect", "revisit", "gone", "seen", "decision", "failed", "skipped"]


class Finding(NamedTuple):
    """What one fetch found. `target` is set for redirects and revisits, `via` for redirects, `reason` for failed and
    skipped."""

    kind: Kind
    target: str | None = None
    via: str = "http"
    reason: str = ""


_CONTENT: Final = Finding("content")


class CheckedEvent(Struct, frozen=True, gc=False):
    """A crawl event with a valid URL and time. `version` is fetched_at in milliseconds, 0 if unknown."""

    url: str
    version: int
    finding: Finding
    event: CrawlEvent


def event_of(fields: CrawlEvent | Mapping[str, Any]) -> CrawlEvent:
    """The event with these fields, as Python programs give them: `body` may be bytes, `fetched_at` a datetime. Raises
    BadEvent if a field has the wrong type."""
    if isinstance(fields, CrawlEvent):
        return fields
    fetched_at = fields.get("fetched_at")
    if isinstance(fetched_at, datetime):
        fields = {**fields, "fetched_at": fetched_at.isoformat()}
    try:
        return msgspec.convert(fields, CrawlEvent)
    except msgspec.ValidationError as error:
        raise BadEvent(f"the event cannot be used: {error}") from None


def check_event(event: CrawlEvent) -> CheckedEvent:
    """Identity, version and finding of an event; raises BadEvent if it cannot be used."""
    check_schema_version(event.v)
    url = page_identity(event.url)
    return CheckedEvent(url, parse_time_ms(event.fetched_at), _find(event, url), event)


def check_schema_version(version: int) -> None:
    """Reject events of another schema version."""
    if version != CRAWL_EVENT_VERSION:
        raise BadEvent(f"schema version {version} is not supported (this program reads version {CRAWL_EVENT_VERSION})")


# ---------------------------------------------------------------- time

_TIME: Final = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*([Zz]|UTC|GMT|[+-]\d\d:?\d\d)?)?)?)?",
    re.ASCII,
)
_CDX_TIME: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)", re.ASCII)
_PLAIN_SIGNS: Final = frozenset({"--T::Z", "--T::+", "--T::-"})  # every third character of a plain time
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def parse_time_ms(value: str | int | float | None) -> int:
    """Milliseconds since 1970 of an RFC 3339 time (any offset; without one, UTC; also the shortened forms of
    WARC-Date), a 14-digit CDX time, or seconds since 1970. A missing time is 0, which every known time outranks."""
    if value is None:
        return 0
    if isinstance(value, str):
        if (plain := _plain_time_ms(value)) is not None:
            return _bounded_ms(plain, value)
        text = value.strip()
        return _bounded_ms(_text_time_ms(text), text) if text else 0
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        raise BadEvent(f"fetched_at {value!r} is not a time")
    if abs(value) > year_9999_s_max:
        raise BadEvent(f"fetched_at {value!r} is beyond year 9999: give seconds since 1970, not milliseconds")
    return _bounded_ms(round(value * 1000), value)


def _text_time_ms(text: str) -> int:
    if (plain := _plain_time_ms(text)) is not None:
        return plain
    if found := _CDX_TIME.fullmatch(text):
        return _civil_ms(text, *map(int, found.groups()))
    found = _TIME.fullmatch(text)
    if found is None or (found[2] is None and len(text) != 4):
        raise BadEvent(
            f"fetched_at {excerpt(text)} is not a time: "
            "give RFC 3339 (2024-05-01T12:00:00Z), 14 digits (20240501120000), or seconds since 1970 as a number"
        )
    year, month, day, hour, minute, second = (int(found[i] or (i in (2, 3))) for i in range(1, 7))
    fraction_ms = int((found[7] or "0").ljust(3, "0")[:3])
    return _civil_ms(text, year, month, day, hour, minute, second) + fraction_ms - _offset_ms(found[8])


def _plain_time_ms(text: str) -> int | None:
    """Parse the usual forms, 2024-05-01T12:00:00Z and …+02:00; None for every other text."""
    if len(text) not in (20, 25) or text[4:20:3] not in _PLAIN_SIGNS:
        return None
    try:
        return round(datetime.fromisoformat(text).timestamp()) * 1000
    except ValueError:
        return None


def _civil_ms(text: str, year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    if hour > 23 or minute > 59 or second > 60:  # 60: a leap second, counted as the next second
        raise BadEvent(f"fetched_at {excerpt(text)}: there is no such time of day")
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        raise BadEvent(f"fetched_at {excerpt(text)}: there is no such day") from None
    return ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000


def _offset_ms(offset: str | None) -> int:
    if offset is None or offset[0] not in "+-":
        return 0
    sign = -1 if offset[0] == "-" else 1
    return sign * (int(offset[1:3]) * 60 + int(offset[-2:])) * 60_000


def _bounded_ms(time_ms: int, value: str | int | float) -> int:
    if time_ms < 0:
        raise BadEvent(f"fetched_at {excerpt(str(value))} is before 1970")
    if time_ms > fetched_at_s_max * 1000:
        raise BadEvent(f"fetched_at {excerpt(str(value))} is after the year 2100")
    return time_ms


# ---------------------------------------------------------------- findings

PAGE_TYPES: Final = frozenset(
    {"text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml", "text/plain", "text/markdown"}
)
_UNKNOWN_TYPES: Final = frozenset({"", "-", "unk", "unknown", "application/unknown", "no-type", "*/*"})
# Bytes that never occur in text (WHATWG MIME Sniffing section 7.1, "binary data byte"); it reads the first 1445 bytes.
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
sniff_bytes_max: Final = 1445


@lru_cache(maxsize=1024)
def media_type(content_type: str | None) -> str:
    """`text/html` from `Text/HTML; charset=x`; the first type if the server sent several; "" if it sent none."""
    if not content_type:
        return ""
    return re.split(r"[;,\s]", content_type.strip(), maxsplit=1)[0].lower()


def is_page_type(content_type: str | None) -> bool:
    """Whether a payload of this type is a page to compare. For an unknown type the bytes decide."""
    kind = media_type(content_type)
    return kind in PAGE_TYPES or kind in _UNKNOWN_TYPES


def looks_binary(body: bytes) -> bool:
    return not body.startswith(_UTF16_MARKS) and _BINARY.search(body[:sniff_bytes_max]) is not None


def classify(event: CrawlEvent) -> Finding:
    """What one fetch found; raises BadEvent if its URL cannot be used."""
    return _find(event, page_identity(event.url))


def _find(event: CrawlEvent, url: str) -> Finding:
    status = event.status
    if status == 200 and event.html is not None and _tells_content_alone(event):
        return _CONTENT
    if event.decision is not None:
        _check_decision(event)
        return Finding("decision")
    if status == 304:
        return Finding("seen")
    if 300 <= status <= 399:
        return _redirect(event, url)
    if status in (404, 410):
        return Finding("gone")
    if not 200 <= status <= 299 or status == 206:
        return Finding("failed", reason=f"status {status}")
    if event.revisit_of is not None:
        return _revisit(event.revisit_of, url)
    if event.redirect_to is not None:
        found = _redirect(event, url)
        if found.kind == "redirect":
            return found._replace(via="meta")
    return _content(event)


def _tells_content_alone(event: CrawlEvent) -> bool:
    return event.decision is None and event.revisit_of is None and event.redirect_to is None


def _check_decision(event: CrawlEvent) -> None:
    if not parse_time_ms(event.fetched_at):
        raise BadEvent("decision without fetched_at: the latest decision counts, so its time is needed")
    if (event.decision == "split_group") != (event.pass_from is not None):
        raise BadEvent(f"{event.decision} {'needs' if event.pass_from is None else 'has no'} pass_from")
    if event.pass_from is not None and not 0 < event.pass_from <= 1:
        raise BadEvent(f"pass_from {event.pass_from} is not a similarity: use one above 0 and at most 1, such as 0.97")
    _check_decided_pair(event)
    _check_decided_rule(event)


def _check_decided_pair(event: CrawlEvent) -> None:
    if (event.decision in ("same", "undo_same")) != (event.same_as is not None):
        raise BadEvent(f"{event.decision} {'needs' if event.same_as is None else 'has no'} same_as")
    if event.same_as is not None and page_identity(event.same_as) == page_identity(event.url):
        raise BadEvent(f"{excerpt(event.url)} is one page: name two different ones")


def _check_decided_rule(event: CrawlEvent) -> None:
    from dustream.core.rules.rewrite import check_rewrite  # only decisions need it, and it takes a while to import

    if str(event.decision).endswith("_rule") != (event.rule is not None):
        raise BadEvent(f"{event.decision} {'needs' if event.rule is None else 'has no'} rule")
    if event.rule is None:
        return
    if not site_of(event.url):
        raise BadEvent(f"{excerpt(event.url)} belongs to no site, so it has no rules")
    try:
        check_rewrite(event.rule)
    except BadInput as error:
        raise BadEvent(f"the rule cannot be used: {error}") from None


def _redirect(event: CrawlEvent, url: str) -> Finding:
    if event.redirect_to is None:
        return Finding("failed", reason=f"status {event.status} without a target")
    try:
        target = resolve_target(url, event.redirect_to)
    except BadEvent as error:
        return Finding("failed", reason=f"redirect target is not a page: {error}")
    if target == url:
        return Finding("failed", reason="redirect to itself")
    return Finding("redirect", target)


def _revisit(revisit_of: str, url: str) -> Finding:
    try:
        original = resolve_target(url, revisit_of)
    except BadEvent as error:
        return Finding("failed", reason=f"revisited URL is not a page: {error}")
    return Finding("seen") if original == url else Finding("revisit", original)


def _content(event: CrawlEvent) -> Finding:
    if event.html is not None or event.text is not None:
        return _CONTENT
    if event.body is None and event.digest is None:
        return Finding("skipped", reason="no content")
    if not is_page_type(event.content_type):
        return Finding("skipped", reason=f"content type {media_type(event.content_type)[:EXCERPT_CHARS_MAX]}")
    if event.body is not None and media_type(event.content_type) not in PAGE_TYPES and looks_binary(event.body):
        return Finding("skipped", reason="binary data without a content type")
    return Finding("content")
