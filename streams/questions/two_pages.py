"""How two pages relate: duplicates of each other, members of one group, or why not.

If two pages are not duplicates, the final reason is always that their shingle sets are not similar enough. Before that,
there may be nothing to compare (gone, no text, never seen), or the lengths or the bounds of the partition map exclude a
match, in which case the pages were never compared. Languages are irrelevant.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dustream.core.vertex import END, epoch_of
from dustream.streams.questions.criteria import CriterionDecision, decision, time_shown
from dustream.streams.questions.evidence import EvidencePath, evidence
from dustream.streams.questions.one_page import PageAnswer, ask_page, market_number
from dustream.streams.questions.pages import (
    ComparedPage,
    KnownPage,
    common_shingles,
    compared_pages,
    content_page,
    known_page,
    verdict_of,
)
from dustream.streams.questions.state import ReadableState, task_table

ReasonCode = Literal[
    "nothing_to_compare",
    "same_page",
    "no_text",
    "not_settled",
    "similarity",
    "length",
    "partitions",
    "versions",
    "verdicts",
    "containment",
    "decided",
    "no_state",
]


class Reason(Struct, frozen=True):
    """One statement about the pair."""

    code: ReasonCode
    words: str


class Measures(Struct, frozen=True, kw_only=True):
    """Measures of two contents; pairs are those of the first and the second page."""

    similarity: float
    threshold: float
    common: int
    shingles: tuple[int, int]
    similarity_max: float
    """The greatest similarity that their lengths allow."""
    homes: tuple[int, int]
    meet_in: list[int]
    languages: tuple[str, str]


class PairAnswer(Struct, frozen=True, kw_only=True):
    """Two URLs, in one market."""

    one: PageAnswer
    other: PageAnswer
    words: str
    same_group: bool
    measures: Measures | None = None
    decision: CriterionDecision | None = None
    reasons: list[Reason] = []
    evidence: EvidencePath | None = None
    decided_same: bool = False
    """An operator decided that the two are the same."""


def ask_pair(state: ReadableState, one_url: str, other_url: str, market: str | None = None) -> PairAnswer:
    """How two URLs relate."""
    answers = [ask_page(state, url, market, with_evidence=False) for url in (one_url, other_url)]
    contents = [_content(state, url) for url in (one_url, other_url)]
    decided = _decided(state, one_url, other_url)
    if contents[0] is None or contents[1] is None or contents[0].url == contents[1].url:
        return _nothing_to_compare(answers, contents, decided)
    one, other = contents[0], contents[1]
    compared = compared_pages(state, (one, other))
    measures = _measures(state, *compared)
    same_group = one.row.owner is not None and one.row.owner == other.row.owner
    return PairAnswer(
        one=answers[0],
        other=answers[1],
        words=_words(one, other, market_number(state, market), same_group=same_group),
        same_group=same_group,
        measures=measures,
        decision=_decision(state, one, other, market_number(state, market)),
        reasons=decided
        + _reasons((one, other), compared, measures, market_number(state, market), same_group=same_group),
        evidence=evidence(state, one.row.owner, one.vertex, other.vertex) if same_group and one.row.owner else None,
        decided_same=bool(decided),
    )


def _decided(state: ReadableState, one_url: str, other_url: str) -> list[Reason]:
    """The operator's decision in force on the two."""
    row = task_table(state, "pages", one_url, "pair_decisions").get(f"{one_url}{END}{other_url}")
    if row is None or not row.same:
        return []
    return [Reason("decided", f"an operator decided {time_shown(row.version)} that they are the same")]


def _decision(state: ReadableState, one: KnownPage, other: KnownPage, market: int) -> CriterionDecision | None:
    """Which of the two is better; None if one is contained, where lengths decide."""
    if any(verdict_of(page, market).contained for page in (one, other)):
        return None
    return decision(state.settings.markets[market], one, other)


def _content(state: ReadableState, url: str) -> KnownPage | None:
    page = known_page(state, url)
    return None if page is None else content_page(state, page)


def _nothing_to_compare(
    answers: list[PageAnswer], contents: list[KnownPage | None], decided: list[Reason]
) -> PairAnswer:
    if contents[0] is not None and contents[1] is not None:
        reason = Reason("same_page", f"both are {contents[0].url}: they show one page, not two that could be compared")
        words = "one and the same page"
        reasons = [reason]
    else:
        words = "not comparable"
        reasons = [
            Reason("nothing_to_compare", f"{answer.url} is {answer.words}")
            for answer, content in zip(answers, contents, strict=True)
            if content is None
        ]
    return PairAnswer(
        one=answers[0],
        other=answers[1],
        words=words,
        same_group=False,
        reasons=decided + reasons,
        decided_same=bool(decided),
    )


def _measures(state: ReadableState, one: ComparedPage | None, other: ComparedPage | None) -> Measures | None:
    if one is None or other is None:
        return None
    common = common_shingles(one.signature, other.signature)
    sizes = (one.shingle_count, other.shingle_count)
    union = sum(sizes) - common
    return Measures(
        similarity=common / union if union else 0.0,
        threshold=state.settings.threshold,
        common=common,
        shingles=sizes,
        similarity_max=min(sizes) / max(sizes) if max(sizes) else 0.0,
        homes=(one.vertex.home, other.vertex.home),
        meet_in=sorted({one.vertex.home} & other.contacts | {other.vertex.home} & one.contacts),
        languages=(one.signature.lang, other.signature.lang),
    )


def _words(one: KnownPage, other: KnownPage, market: int, *, same_group: bool) -> str:
    verdicts = [verdict_of(page, market) for page in (one, other)]
    winners = [verdict.winner for verdict in verdicts]
    for page, verdict, against in ((one, verdicts[0], other), (other, verdicts[1], one)):
        if verdict.winner == against.url:
            return f"{page.url} is {'contained in' if verdict.contained else 'a duplicate of'} {against.url}"
    if winners[0] == winners[1] and any(verdict.contained for verdict in verdicts):
        return f"both are contained in {winners[0]}, or like it"
    if winners[0] == winners[1]:
        return f"both are duplicates of {winners[0]}"
    if same_group:
        return "in one group, but neither is a duplicate of the other"
    return "in different groups: neither is a duplicate of the other"


def _reasons(
    pages: tuple[KnownPage, KnownPage],
    compared: list[ComparedPage | None],
    measures: Measures | None,
    market: int,
    *,
    same_group: bool,
) -> list[Reason]:
    if measures is None:
        late = [page.url for page, found in zip(pages, compared, strict=True) if found is None]
        return [Reason("not_settled", f"{' and '.join(late)} has not been compared yet: let the run come to rest")]
    if 0 in measures.shingles:
        return [_no_text(pages, measures)]
    reasons = _similarity_reasons(measures) + _containment_reasons(pages, market)
    if measures.similarity >= measures.threshold and not same_group:
        reasons.append(Reason("not_settled", "they match but are not in one group yet: let the run come to rest"))
    reasons += _verdict_reasons(pages, measures, market)
    return reasons + _version_reasons(pages, compared)


def _no_text(pages: tuple[KnownPage, KnownPage], measures: Measures) -> Reason:
    empty = [page.url for page, size in zip(pages, measures.shingles, strict=True) if size == 0]
    return Reason("no_text", f"{' and '.join(empty)}: no text to compare; without text, only equal digests match")


def _similarity_reasons(measures: Measures) -> list[Reason]:
    sizes, tau = measures.shingles, measures.threshold
    matches = measures.similarity >= tau
    compare = "at least" if matches else "below"
    common = f"{measures.common:,} shingles in common of {sum(sizes) - measures.common:,}"
    exactly = similarity_shown(measures.similarity, tau)
    reasons = [Reason("similarity", f"similarity {exactly}, {compare} the threshold {tau:g}: {common}")]
    if measures.similarity_max < tau:
        text = f"their lengths alone exclude a match: {sizes[0]:,} and {sizes[1]:,} shingles allow at most"
        reasons.append(Reason("length", f"{text} {measures.similarity_max:.4f}"))
    if not measures.meet_in:
        text = "they were never compared: they live in partitions"
        bounds = "and the bounds of neither reach the other"
        reasons.append(Reason("partitions", f"{text} {measures.homes[0]} and {measures.homes[1]}, {bounds}"))
    return reasons


def _containment_reasons(pages: tuple[KnownPage, KnownPage], market: int) -> list[Reason]:
    """Which page a page is contained in, the other one or a third."""
    reasons = []
    for page in pages:
        verdict = verdict_of(page, market)
        if verdict.contained:
            share = f"{verdict.winner} has {verdict.similarity:.4f} of its shingles"
            reasons.append(Reason("containment", f"{page.url}: {share}"))
    return reasons


def _verdict_reasons(pages: tuple[KnownPage, KnownPage], measures: Measures, market: int) -> list[Reason]:
    """Of two pages that match, at most one is a winner; two duplicates may have different winners."""
    winners = [verdict_of(page, market).winner for page in pages]
    if measures.similarity < measures.threshold or winners[0] == winners[1]:
        return []
    reasons = []
    for page, winner in zip(pages, winners, strict=True):
        if winner != page.url and winner not in (pages[0].url, pages[1].url):
            reasons.append(Reason("verdicts", f"{page.url} is a duplicate of {winner}, the best winner it matches"))
    return reasons


def similarity_shown(similarity: float, tau: float) -> str:
    """Four digits, or as many as needed to distinguish it from the threshold."""
    four = f"{similarity:.4f}"
    return four if (float(four) >= tau) == (similarity >= tau) else repr(similarity)


def _version_reasons(pages: tuple[KnownPage, KnownPage], compared: list[ComparedPage | None]) -> list[Reason]:
    """Which version was compared: the last content, or for a page with a small change, the content before it."""
    reasons = []
    for page, found in zip(pages, compared, strict=True):
        if found is not None and found.vertex.content_hash != page.row.content_hash:
            since = time_shown(epoch_of(found.vertex.vertex))
            text = f"{page.url} as it was {since}; it has changed since, too little to be compared again"
        else:
            changed = "" if page.row.epoch == page.row.first_seen_ms else ", when it had changed"
            last = "" if page.row.version == page.row.epoch else f"; last fetched {time_shown(page.row.version)}"
            text = f"{page.url} as fetched {time_shown(page.row.epoch)}{changed}{last}"
        reasons.append(Reason("versions", text))
    return reasons
