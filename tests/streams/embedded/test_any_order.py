"""Any shuffle of a log gives the same statuses and groups, in every engine, but for what depends on first sight:
`since` and the group's id (docs/reference/inputs.md). No two fetches of a URL have one time: of two the first in the
log would count."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from dustream.core.once.contents import MemorySpool
from dustream.core.pages.former import FORMER_MAX
from dustream.core.pipeline import PAGES, pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.text.signature import sign
from dustream.core.winners import Market
from dustream.schemas.pages import Crawl, Decision, PageDecision, PairDecision
from dustream.schemas.status import DuplicateStatus
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.results import StoredResults
from dustream.streams.once.engine import OnceEngine
from dustream.streams.store.memory import MemoryStore

URLS = [f"http://{'ab'[number % 2]}.example/{number}" for number in range(8)]
WORDS = [f"w{number}" for number in range(60)]
TEXTS = [  # two that match, the first of which contains a third, and two strangers; more would not all be kept
    " ".join(WORDS),
    " ".join([*WORDS[:-1], "another"]),
    " ".join(WORDS[10:45]),
    " ".join(WORDS[::-1]),
    "short",
]
assert len(TEXTS) <= FORMER_MAX + 1
SETTINGS = Settings(
    threshold=0.8,
    containment="all",
    containment_share=0.5,
    group_size_max=3,
    site_pages_min=2,
    markets=(Market(criteria=("popularity", "url_hash")), Market(name="other", criteria=("url_hash",))),
)


def content(url: str, version: int, number: int, popularity: float | None, digest: str) -> Crawl:
    code = "".join(chr(0x4E00 + WORDS.index(word)) for word in TEXTS[number].split() if word in WORDS)
    signature = sign(TEXTS[number], "en")
    signature = msgspec.structs.replace(signature, code=code)
    return Crawl(url, version, "content", signature, popularity=popularity, digest=digest)


@st.composite
def events(draw: Any) -> Crawl | Decision | PageDecision | PairDecision:
    url, version = draw(st.sampled_from(URLS)), draw(st.integers(1, 30))
    kinds = ("content", "content", "content", "revisit", "seen", "redirect", "gone", "decision", "kept", "same")
    kind, other = draw(st.sampled_from(kinds)), draw(st.sampled_from(URLS))
    popularity, number = draw(st.sampled_from((None, None, 1.0, 500.0))), draw(st.integers(0, len(TEXTS) - 1))
    digest = draw(st.sampled_from(("", "", *(f"{number} {clock}" for clock in range(2)))))
    if kind == "decision":
        return Decision(url, version, "site", draw(st.sampled_from((0.0, None))))
    if kind == "kept":
        return PageDecision(url, version, draw(st.booleans()))
    if kind == "same" and other != url:
        return PairDecision(url, version, other, draw(st.booleans()))
    if kind == "content" or other == url:
        return content(url, version, number, popularity, digest)
    target = other if kind in ("redirect", "revisit") else None
    return Crawl(url, version, kind, target=target, popularity=popularity, digest=digest)


def _identity(event: Crawl | Decision | PageDecision | PairDecision) -> Any:
    said = event if isinstance(event, PageDecision | PairDecision) else None
    return type(event), event.url, event.version, said


logs = st.lists(events(), max_size=40, unique_by=_identity).flatmap(
    lambda log: st.tuples(st.just(log), st.permutations(log), st.integers(1, 5), st.integers(1, 20))
)


def embedded(log: list[Any], partitions: int, at_once: int) -> dict[str, Any]:
    store = MemoryStore()
    wanted = msgspec.structs.replace(SETTINGS, partitions=partitions)
    EmbeddedEngine(pipeline(wanted), store).run(_feeds(log, at_once))
    return outcome(list(StoredResults(store, partitions).statuses()))


def once(log: list[Any]) -> dict[str, Any]:
    engine = OnceEngine(SETTINGS, MemorySpool)
    engine.run(_feeds(log, 50))
    return outcome(list(engine.statuses()))


def _feeds(log: list[Any], at_once: int) -> list[Feed]:
    sends = [Send(PAGES, event.url, event) for event in log]
    return [Feed(sends[at : at + at_once]) for at in range(0, len(sends), at_once)]


def outcome(statuses: list[DuplicateStatus]) -> dict[str, Any]:
    """By URL all that is said, with the group's members instead of its id."""
    members: dict[str, list[str]] = {}
    for status in statuses:
        if status.group is not None and status.role != "redirect":
            members.setdefault(status.group, []).append(status.url)
    return {
        status.url: msgspec.structs.replace(status, version=(0, 0), since=0, group=str(members.get(status.group or "")))
        for status in statuses
    }


@settings(max_examples=150)
@given(logs)
def test_any_shuffle_of_any_log(drawn: tuple[list[Any], list[Any], int, int]) -> None:
    log, shuffled, partitions, at_once = drawn
    expected = once(log)
    assert embedded(log, 2, 50) == expected
    assert once(shuffled) == expected
    assert embedded(shuffled, partitions, at_once) == expected
    assert expected.keys() == {event.url for event in log if isinstance(event, Crawl)}, "every URL has a status"


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_confirmation_before_what_it_confirms(at_once: int) -> None:
    log = [Crawl(URLS[0], 2, "seen"), content(URLS[0], 1, 0, None, "")]
    assert embedded(log, 1, at_once) == once(log) == once(log[::-1])
    assert once(log)[URLS[0]].problem is None
