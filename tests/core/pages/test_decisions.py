"""Operators' decisions on single pages, which are kept whatever they match, and on pairs of pages, which match whatever
their texts."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from model_pipeline import Pipeline, gone, page, redirect

from dustream.schemas.pages import Decision, PageDecision, PairDecision

A, B, C, AWAY = "http://a.example/", "http://b.example/", "http://c.example/", "http://a.example/away"
TEXT = range(100)


def copies() -> list[Any]:
    """Three equal pages; the first one wins."""
    return [page(A, 1, TEXT, popularity=9.0), page(B, 2, TEXT), page(C, 3, TEXT)]


def test_a_page_is_kept_and_says_why() -> None:
    pipeline = Pipeline().feed(*copies(), redirect(AWAY, 4, B), PageDecision(B, 5, True))
    assert pipeline.roles() == {A: "winner", B: "winner", C: "duplicate", AWAY: "redirect"}
    kept, away = pipeline.status(B), pipeline.status(AWAY)
    assert kept is not None and away is not None
    assert (kept.decided, kept.winner, kept.relation, kept.group) == ("not_duplicate", B, None, A)
    assert away.winner == B
    pipeline.feed(PageDecision(B, 6, False))
    assert pipeline.roles()[B] == "duplicate"
    undone, away = pipeline.status(B), pipeline.status(AWAY)
    assert undone is not None and undone.decided is None and undone.winner == A
    assert away is not None and away.winner == A


def test_the_latest_decision_counts_in_any_order() -> None:
    decisions = [PageDecision(B, 7, True), PageDecision(B, 8, False), PageDecision(B, 8, True)]
    for order in permutations([*copies(), *decisions]):
        assert Pipeline().feed(*order).roles()[B] == "winner"
    for order in permutations(decisions[:2]):
        assert Pipeline().feed(*order, *copies()).roles()[B] == "duplicate"


def test_a_decision_waits_for_its_page_and_stays_with_it() -> None:
    pipeline = Pipeline().feed(PageDecision(B, 1, True))
    assert pipeline.statuses() == {}
    pipeline.feed(*copies())
    assert pipeline.roles()[B] == "winner"
    pipeline.feed(page(B, 10, range(500, 600)), page(C, 10, range(500, 600), popularity=5.0))
    changed = pipeline.status(B)
    assert changed is not None and (changed.role, changed.group) == ("winner", B)
    pipeline.feed(gone(B, 11), page(B, 12, TEXT))
    assert pipeline.roles()[B] == "winner"


def test_a_withdrawn_decision_on_an_unknown_page_leaves_no_row() -> None:
    pipeline = Pipeline().feed(PageDecision(B, 1, True), PageDecision(B, 2, False))
    assert not list(pipeline.store.scan(b"task/pages/00000/pages/"))


@pytest.mark.parametrize("kept", [True, False])
def test_a_kept_page_is_not_lost_to_its_site(kept: bool) -> None:
    """The circuit breaker counts pages that are dropped for another site."""
    source = [page(f"http://source.example/{n}", 1 + n, range(1000 * n, 1000 * n + 100), 9.0) for n in range(4)]
    copied = [page(f"http://copy.example/{n}", 9 + n, range(1000 * n, 1000 * n + 100)) for n in range(4)]
    pipeline = Pipeline(sites={"share_max": 0.5, "pages_min": 4}).feed(*source, *copied)
    decisions = [PageDecision(f"http://copy.example/{n}", 20, kept) for n in range(2)]
    roles = pipeline.feed(*decisions).roles()
    copies_now = [roles[f"http://copy.example/{n}"] for n in range(4)]
    assert copies_now == (["winner", "winner", "duplicate", "duplicate"] if kept else ["held"] * 4)


# ---------------------------------------------------------------- pairs


OTHER = range(1000, 1100)


def two_texts() -> list[Any]:
    """Two pages with nothing in common; C is a near copy of B."""
    return [page(A, 1, TEXT, popularity=9.0), page(B, 2, OTHER), page(C, 3, range(1004, 1104))]


def test_two_pages_are_the_same_by_decision() -> None:
    """The worse of the two is a duplicate of the better one. C matched B, and not A: it is kept."""
    pipeline = Pipeline().feed(*two_texts())
    assert pipeline.roles() == {A: "unique", B: "winner", C: "duplicate"}
    pipeline.feed(PairDecision(B, 5, A, True))
    assert pipeline.roles() == {A: "winner", B: "duplicate", C: "winner"}
    same = pipeline.status(B)
    assert same is not None
    assert (same.winner, same.relation, same.similarity, same.group) == (A, "decided", 0.0, A)
    pipeline.feed(PairDecision(A, 6, B, False))
    assert pipeline.roles() == {A: "unique", B: "winner", C: "duplicate"}


def test_the_latest_decision_on_a_pair_counts_in_any_order_of_events_and_urls() -> None:
    decisions = [PairDecision(B, 7, A, True), PairDecision(A, 8, B, False), PairDecision(B, 8, A, True)]
    for order in permutations([*two_texts()[:2], *decisions]):
        assert Pipeline().feed(*order).roles() == {A: "unique", B: "unique"}
    for order in permutations([*two_texts()[:2], PairDecision(B, 9, A, True), decisions[1]]):
        assert Pipeline().feed(*order).roles() == {A: "winner", B: "duplicate"}


def test_a_decision_on_a_pair_waits_for_both_pages_and_stays_with_them() -> None:
    pipeline = Pipeline().feed(PairDecision(B, 1, A, True))
    assert pipeline.statuses() == {}
    pipeline.feed(*two_texts())
    assert pipeline.roles()[B] == "duplicate"
    pipeline.feed(page(B, 10, range(500, 600)))
    assert pipeline.roles() == {A: "winner", B: "duplicate", C: "unique"}
    pipeline.feed(gone(A, 11))
    assert pipeline.roles() == {A: "gone", B: "unique", C: "unique"}
    pipeline.feed(page(A, 12, TEXT))
    assert pipeline.roles()[B] == "duplicate"


def test_copies_that_are_the_same_by_decision_say_that_they_are_copies() -> None:
    pipeline = Pipeline().feed(*copies(), PairDecision(A, 5, B, True))
    status = pipeline.status(B)
    assert status is not None and (status.relation, status.similarity, status.winner) == ("exact", 1.0, A)


def test_a_split_does_not_part_pages_that_are_the_same_by_decision() -> None:
    pipeline = Pipeline().feed(*two_texts(), PairDecision(B, 5, A, True), Decision(A, 6, "group", 0.99))
    assert pipeline.roles() == {A: "winner", B: "duplicate", C: "winner"}


def test_a_page_that_is_not_a_duplicate_is_kept_though_it_is_the_same() -> None:
    """Of two decisions the one that keeps a page."""
    pipeline = Pipeline().feed(*two_texts(), PairDecision(B, 5, A, True), PageDecision(B, 4, True))
    assert pipeline.roles()[B] == "winner"


def test_withdrawn_decisions_on_unknown_pages_leave_no_rows() -> None:
    pipeline = Pipeline().feed(PairDecision(B, 1, A, True), PairDecision(B, 2, A, False))
    for partition in range(2):
        assert not list(pipeline.store.scan(b"task/pages/%05d/pages/" % partition))
