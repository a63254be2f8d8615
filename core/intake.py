"""Intake: a crawl event becomes a checked and signed `Crawl` for `pages`. Stateless, so it runs on all cores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from dustream.core.containment.code_choice import CodeOf, code_chooser
from dustream.core.errors import BadEvent
from dustream.core.events import CheckedEvent, check_event
from dustream.core.page_cut import cut_event, smaller
from dustream.core.text.extracted import Extracted
from dustream.core.text.extractors import TextSource, extractor
from dustream.core.text.page_guard import TooLarge
from dustream.core.text.signature import PageSigner, SignedPage, page_signer, sign
from dustream.core.text.tokens import text_bytes
from dustream.core.urls.canonical import canonical_of
from dustream.core.urls.identity import page_identity, resolve_target
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.pages import AnyDecision, Crawl, Decision, PageDecision, PairDecision, RuleDecision
from dustream.schemas.rules import RuleVerdict
from dustream.schemas.signature import PageSignature

REFRESH_DELAY_S_MAX = 5.0  # a meta refresh this soon, before anyone can read the page, is a redirect


class Rejected(Struct, frozen=True, array_like=True):
    """Event number `index` of the batch was rejected."""

    index: int
    url: str
    reason: str


class Intake(Struct, frozen=True, array_like=True):
    """The result of a batch: event number `indexes[i]` became `crawls[i]`. `ignored` counts, by reason, events without
    information about their page."""

    crawls: list[Crawl]
    rejected: list[Rejected]
    ignored: dict[str, int]
    indexes: list[int]
    decisions: list[AnyDecision] = []

    def with_origins(self, origin_of: Callable[[int], str]) -> list[Crawl]:
        """The crawls, each with the origin of its event, which `origin_of` gives by the event's number."""
        return [replace(crawl, origin=origin_of(i)) for crawl, i in zip(self.crawls, self.indexes, strict=True)]


def take_in(events: Sequence[CrawlEvent], source: TextSource) -> Intake:
    """Check and sign a batch of events."""
    read = page_signer(source, with_text=source.codes != "off")
    code_of = code_chooser(source.codes, source.code_parameters)
    crawls: list[Crawl] = []
    rejected: list[Rejected] = []
    ignored: dict[str, int] = {}
    indexes: list[int] = []
    decisions: list[AnyDecision] = []
    for index, event in enumerate(events):
        try:
            checked = check_event(cut_event(event))
            kind = checked.finding.kind
            if kind == "failed" or kind == "skipped":
                ignored[checked.finding.reason] = ignored.get(checked.finding.reason, 0) + 1
            elif kind == "decision":
                decisions.append(_decision(checked))
            else:
                crawls.append(sign_event(checked, read, code_of))
                indexes.append(index)
        except BadEvent as error:
            rejected.append(Rejected(index, event.url, str(error)))
    return Intake(crawls, rejected, ignored, indexes, decisions)


def _decision(checked: CheckedEvent) -> AnyDecision:
    name, pass_from, rewrite = checked.event.decision, checked.event.pass_from, checked.event.rule
    if name in ("not_duplicate", "undo_page"):
        return PageDecision(checked.url, checked.version, name == "not_duplicate")
    if checked.event.same_as is not None:
        return PairDecision(checked.url, checked.version, page_identity(checked.event.same_as), name == "same")
    if rewrite is not None:
        action = str(name).removesuffix("_rule")
        verdict = None if action == "undo" else cast("RuleVerdict", action)
        return RuleDecision(checked.url, checked.version, rewrite, verdict)
    on: Literal["group", "site"] = "site" if name in ("release_site", "hold_site") else "group"
    if name in ("release_group", "release_site"):
        pass_from = 0.0
    return Decision(checked.url, checked.version, on, pass_from)


def sign_event(checked: CheckedEvent, read: PageSigner, code_of: CodeOf) -> Crawl:
    """The `Crawl` of a checked event; raises BadEvent if its content cannot be read."""
    finding, popularity = checked.finding, checked.event.popularity
    if finding.kind == "content":
        return _content(checked, checked.event, read, code_of)
    if finding.kind == "redirect":
        return _redirect(checked, str(finding.target), finding.via)
    if finding.kind == "revisit":
        digest = payload_digest(checked.event)
        return Crawl(
            checked.url, checked.version, "revisit", target=finding.target, popularity=popularity, digest=digest
        )
    if finding.kind == "gone":
        return Crawl(checked.url, checked.version, "gone", popularity=popularity)
    return Crawl(checked.url, checked.version, "seen", popularity=popularity)


def text_of(event: CrawlEvent, source: TextSource) -> str | None:
    """The text of `extracted_of`."""
    found = extracted_of(event, source)
    return None if found is None else found.text


def extracted_of(event: CrawlEvent, source: TextSource) -> Extracted | None:
    """The text by which an event's page is compared; None if only the payload digest is known."""
    event = cut_event(event)
    if event.text is not None:
        return Extracted(utf8=text_bytes(event.text))
    page = event.html if event.html is not None else event.body
    if page is None:
        return None
    read = extractor(source.extractor)
    try:
        return read(page, content_type=event.content_type, mode=source.mode)
    except TooLarge:
        return read(smaller(page), content_type=event.content_type, mode=source.mode)


def _content(checked: CheckedEvent, event: CrawlEvent, read: PageSigner, code_of: CodeOf) -> Crawl:
    if event.text is not None:
        text = event.text.encode("utf-8", "replace")
        return _page(checked, sign(event.text, event.lang or ""), code_of(text), len(text))
    page = event.html if event.html is not None else event.body
    if page is None:
        return _signed(checked, digest_signature(event.digest or ""))
    try:
        found = read(page, event.content_type, event.lang or "")
    except TooLarge:
        found = read(smaller(page), event.content_type, event.lang or "")
        checked = replace(checked, event=replace(event, truncated=True))
    if found.refresh_target:
        target = refresh_target(found, checked.url)
        if target is not None:
            return _redirect(checked, target, "meta")
    canonical = canonical_of(checked.url, found.canonical)
    size = len(page) if isinstance(page, bytes) else found.size
    return _page(checked, found.signature, code_of(found.utf8), size, canonical)


def _page(checked: CheckedEvent, signature: PageSignature, code: str, size: int, canonical: str = "none") -> Crawl:
    if signature.token_count == 0:
        # Pages without text are not duplicates of each other: each gets a content hash of its own.
        signature = replace(signature, content_hash=_hash128("empty", checked.url))
    return _signed(checked, replace(signature, code=code) if code else signature, size, canonical)


def _signed(checked: CheckedEvent, signature: PageSignature, size: int = 0, canonical: str = "none") -> Crawl:
    event = checked.event
    return Crawl(
        checked.url,
        checked.version,
        "content",
        signature,
        popularity=event.popularity,
        canonical=canonical,
        digest=payload_digest(event),
        truncated=event.truncated,
        size=size,
    )


def payload_digest(event: CrawlEvent) -> str:
    """The digest without the name of its algorithm, which not every input has; "" if there is none."""
    return (event.digest or "").rpartition(":")[2].strip().upper()


def _redirect(checked: CheckedEvent, target: str, via: str) -> Crawl:
    return Crawl(checked.url, checked.version, "redirect", target=target, via=via, popularity=checked.event.popularity)


def refresh_target(found: SignedPage, url: str) -> str | None:
    """The target of the page's meta refresh, if it is immediate and another page."""
    if not found.refresh_target or found.refresh_delay_s > REFRESH_DELAY_S_MAX:
        return None
    try:
        target = resolve_target(url, found.refresh_target)
    except BadEvent:
        return None
    return None if target == url else target


def digest_signature(digest: str) -> PageSignature:
    """The signature of a page known by its payload digest only: it equals pages with the same digest, nothing else."""
    return replace(sign(""), content_hash=_hash128("digest", digest))


def _hash128(kind: str, text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16, person=kind.encode()).digest()
