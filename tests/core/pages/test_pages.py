"""What becomes of a URL: versions, redirects, deaths and returns, and input that is odd."""

from __future__ import annotations

from itertools import permutations

import pytest
from model_pipeline import Pipeline, digest, gone, page, redirect, revisit
from msgspec.structs import replace

from dustream.core.pages.former import FORMER_MAX
from dustream.core.pages.publisher import FOLLOWERS_NOTIFIED_MAX, PagesLimits
from dustream.core.pages.small_changes import ByAnchor, ByRepresentative
from dustream.core.winners import Market
from dustream.schemas.pages import Crawl

A, B, C = "http://a.example/", "http://b.example/", "http://c.example/"
TEXT = range(100)
NEAR = range(5, 105)  # Jaccard 95 / 105 to TEXT
OTHER = range(1000, 1100)


def test_a_page_is_unique_until_another_matches_it() -> None:
    pipeline = Pipeline().feed(page(A, 1, TEXT))
    assert pipeline.roles() == {A: "unique"}
    pipeline.feed(page(B, 2, NEAR))
    assert pipeline.roles() == {A: "winner", B: "duplicate"}
    status = pipeline.status(B)
    assert status is not None
    assert (status.winner, status.group, status.relation, status.similarity) == (A, A, "near", 95 / 105)


def test_a_page_that_joins_a_group_says_its_winner_and_its_group_at_once() -> None:
    pipeline = Pipeline().feed(page(A, 1, TEXT), page(B, 2, TEXT)).feed(page(C, 3, TEXT))
    status = pipeline.status(C)
    assert status is not None and (status.group, status.role) == (A, "duplicate")
    assert status.version == (3, 1), "not unique first: it is said once it is in its group"


def test_an_exact_copy_says_so() -> None:
    status = Pipeline().feed(page(A, 1, TEXT), page(B, 2, TEXT)).status(B)
    assert status is not None
    assert (status.relation, status.similarity) == ("exact", 1.0)


def test_a_dead_winner_is_replaced_and_comes_back() -> None:
    pipeline = Pipeline().feed(page(A, 1, TEXT), page(B, 2, NEAR), gone(A, 3))
    assert pipeline.roles() == {A: "gone", B: "unique"}
    pipeline.feed(page(A, 4, TEXT))
    assert pipeline.roles() == {A: "winner", B: "duplicate"}


def test_a_page_that_changes_leaves_its_group() -> None:
    pipeline = Pipeline().feed(page(A, 1, TEXT), page(B, 2, NEAR), page(B, 3, OTHER))
    assert pipeline.roles() == {A: "unique", B: "unique"}


def test_events_in_reverse_order_end_like_the_newest() -> None:
    pipeline = Pipeline().feed(gone(A, 3), page(A, 2, TEXT), page(A, 1, OTHER))
    assert pipeline.roles() == {A: "gone"}
    assert pipeline.counts() == {"new": 1, "late": 2}


def test_of_two_contents_with_one_time_stamp_the_first_in_the_log_counts() -> None:
    pipeline = Pipeline().feed(page(B, 1, TEXT), page(A, 5, TEXT), page(A, 5, OTHER), page(A, 5, TEXT))
    assert pipeline.roles() == {A: "duplicate", B: "winner"}
    assert pipeline.counts() == {"new": 2, "conflicting": 1, "repeated": 1}


def test_unchanged_and_seen_pages_only_get_older() -> None:
    pipeline = (
        Pipeline().feed(page(A, 1, TEXT)).feed(page(A, 2, TEXT), Crawl(A, 3, "seen"), gone(A, 2), page(A, 1, OTHER))
    )
    status = pipeline.status(A)
    assert status is not None and (status.role, status.version) == ("unique", (1, 1))
    assert pipeline.counts() == {"new": 1, "unchanged": 2, "conflicting": 1, "late": 1}


def test_a_death_of_an_unknown_page_is_a_death() -> None:
    assert Pipeline().feed(gone(A, 1)).roles() == {A: "gone"}


def test_a_confirmation_may_come_before_what_it_confirms() -> None:
    pipeline = Pipeline().feed(Crawl(A, 5, "seen"))
    status = pipeline.status(A)
    assert status is not None and (status.role, status.problem, status.winner) == ("unique", "content_unknown", None)
    status = pipeline.feed(page(A, 4, TEXT)).status(A)
    assert status is not None and (status.role, status.problem, status.version) == ("unique", None, (5, 2))
    assert pipeline.feed(page(B, 1, TEXT), gone(A, 4)).roles() == {A: "duplicate", B: "winner"}, "4 is known"
    assert pipeline.feed(gone(A, 5)).roles() == {A: "gone", B: "unique"}, "a confirmation says nothing of what it is"


def test_the_last_popularity_named_counts_in_any_order() -> None:
    one, other = page(A, 1, TEXT, 5.0), page(A, 2, TEXT)
    for order in ((one, other), (other, one)):
        assert Pipeline().feed(page(B, 1, TEXT, 1.0)).feed(*order).roles() == {A: "winner", B: "duplicate"}


def test_urls_are_compared_as_they_come() -> None:
    """Case and escapes are intake's to normalise: here two spellings are two pages."""
    upper, escaped = "http://a.example/X", "http://a.example/%78"
    pipeline = Pipeline().feed(page(upper, 1, TEXT), page(upper.lower(), 2, TEXT), page(escaped, 3, TEXT))
    assert sorted(pipeline.roles().values()) == ["duplicate", "duplicate", "winner"]


def test_a_url_that_cannot_be_a_name_is_refused_and_counted() -> None:
    pipeline = Pipeline().feed(page("http://a.example/\0", 1, TEXT), redirect(A, 1, "http://b.example/\0x"))
    assert pipeline.roles() == {} and pipeline.counts() == {"refused": 2}


@pytest.mark.parametrize("url", ["http://[", "nonsense", "http://a.example/ with space", "http://ä.example/ü"])
def test_odd_urls_have_a_place_in_the_winner_order_too(url: str) -> None:
    pipeline = Pipeline(markets=(Market(),)).feed(page(url, 1, TEXT), page(B, 2, TEXT))
    assert sorted(pipeline.roles().values()) == ["duplicate", "winner"]


class TestRevisits:
    """B revisits A at 5 and finds the content that A had then."""

    FOUND = revisit(B, 5, A)

    def test_a_page_keeps_what_it_found(self) -> None:
        pipeline = Pipeline().feed(page(A, 1, TEXT), self.FOUND)
        status = pipeline.status(B)
        assert status is not None and (status.role, status.winner, status.relation) == ("duplicate", A, "exact")
        assert pipeline.feed(page(A, 6, OTHER)).roles() == {A: "unique", B: "unique"}
        assert pipeline.feed(page(C, 7, TEXT)).roles() == {A: "unique", B: "winner", C: "duplicate"}
        assert pipeline.feed(gone(A, 8)).roles() == {A: "gone", B: "winner", C: "duplicate"}

    @pytest.mark.parametrize("order", range(24))
    def test_in_any_order(self, order: int) -> None:
        events = [page(A, 1, TEXT), self.FOUND, page(A, 6, OTHER), page(C, 2, NEAR, 9.0)]
        shuffled = list(permutations(events))[order]
        for feeds in ([shuffled], [[event] for event in shuffled]):
            pipeline = Pipeline()
            for each in feeds:
                pipeline.feed(*each)
            assert pipeline.roles() == {A: "unique", B: "duplicate", C: "winner"}

    @pytest.mark.parametrize("events", [[], [page(A, 6, TEXT)], [gone(A, 1)], [revisit(A, 1, C), page(C, 1, TEXT)]])
    def test_a_content_that_is_not_known(self, events: list[Crawl]) -> None:
        """Never fetched, fetched too late, never a page, and found by a revisit itself."""
        for order in ([self.FOUND, *events], [*events, self.FOUND]):
            status = Pipeline().feed(*order).status(B)
            assert status is not None and (status.role, status.problem) == ("unique", "content_unknown")
            assert (status.since, status.group, status.winner) == (5, None, None)

    def test_the_digest_of_a_payload_names_the_content(self) -> None:
        """At 5 A had another content than the one with that digest."""
        contents = [digest(page(A, 1, TEXT), "X"), digest(page(A, 4, OTHER), "Y")]
        for found, group in (("X", C), ("Y", B), ("Z", None)):
            for order in ([*contents, digest(self.FOUND, found)], [digest(self.FOUND, found), *contents[::-1]]):
                status = Pipeline().feed(page(C, 0, TEXT)).feed(*order).status(B)
                assert status is not None and status.group == (A if group == B else group)

    def test_a_content_seen_again_later_may_be_either(self) -> None:
        contents = [page(A, 1, TEXT), page(A, 3, OTHER), page(A, 7, TEXT)]
        for order in permutations([*contents, self.FOUND]):
            status = Pipeline().feed(*order).status(B)
            assert status is not None and status.problem == "content_unknown"

    def test_what_was_found_turns_out_to_be_another_content(self) -> None:
        pipeline = Pipeline().feed(page(C, 1, OTHER), page(A, 1, TEXT), self.FOUND)
        assert pipeline.roles() == {A: "winner", B: "duplicate", C: "unique"}
        pipeline.feed(page(A, 7, NEAR)).feed(page(A, 4, OTHER))
        assert pipeline.roles() == {A: "unique", B: "duplicate", C: "winner"}
        pipeline.feed(page(A, 8, TEXT))
        assert pipeline.status(B).problem == "content_unknown", "text may have been there before 4 and after"

    def test_a_page_that_revisits_again_keeps_its_place(self) -> None:
        pipeline = Pipeline().feed(page(A, 1, TEXT), self.FOUND).feed(revisit(B, 8, A), revisit(B, 9, C))
        status = pipeline.status(B)
        assert status is not None and (status.since, status.problem) == (9, "content_unknown")
        pipeline.feed(page(C, 2, TEXT))
        assert pipeline.roles() == {A: "winner", B: "duplicate", C: "duplicate"}

    def test_so_many_former_contents_are_kept(self) -> None:
        contents = [page(A, version, range(1_000 * version, 1_000 * version + 50)) for version in range(20)]
        pipeline = Pipeline().feed(*contents)
        first_kept = 20 - 1 - FORMER_MAX
        found = [revisit(f"http://{version}.example/", version, A) for version in range(20)]
        statuses = pipeline.feed(*found).statuses()
        problems = [statuses[each.url].problem for each in found]
        assert problems == ["content_unknown"] * first_kept + [None] * (FORMER_MAX + 1)
        for processor, rows in (("pages", FORMER_MAX + 1), ("tier2", FORMER_MAX)):
            keys = [key for key, _ in pipeline.store.scan(f"task/{processor}/".encode()) if b"/former/" in key]
            assert len([key for key in keys if A.encode() in key]) == rows

    def test_many_who_ask_are_answered_in_steps(self) -> None:
        urls = [f"http://asker.example/{number}" for number in range(50)]
        limits = PagesLimits(followers_notified_max=7)
        pipeline = Pipeline(pages={"limits": limits}).feed(*(revisit(url, 5, A) for url in urls))
        pipeline.feed(page(A, 1, TEXT), page(A, 3, OTHER), page(C, 1, OTHER))
        assert {pipeline.statuses()[url].group for url in urls} == {A}


class TestRedirects:
    def test_a_redirect_follows_its_target(self) -> None:
        pipeline = Pipeline().feed(redirect(C, 1, B), page(A, 1, TEXT), page(B, 2, NEAR))
        status = pipeline.status(C)
        assert status is not None
        assert (status.role, status.target, status.winner, status.group) == ("redirect", B, A, A)
        pipeline.feed(gone(A, 3))
        status = pipeline.status(C)
        assert status is not None and status.winner == B

    def test_targets_that_are_no_page(self) -> None:
        pipeline = Pipeline().feed(
            redirect(A, 1, B), redirect(C, 1, "http://gone.example/"), gone("http://gone.example/", 1)
        )
        problems = {url: status.problem for url, status in pipeline.statuses().items() if status.role == "redirect"}
        assert problems == {A: "target_unknown", C: "target_gone"}

    @pytest.mark.parametrize("length", [1, 2, 50])
    def test_loops_are_cut_and_reported(self, length: int) -> None:
        urls = [f"http://a.example/{number}" for number in range(length)]
        ring = [redirect(url, 1, urls[(number + 1) % length]) for number, url in enumerate(urls)]
        pipeline = Pipeline().feed(*ring, redirect(A, 1, urls[0]))
        assert {status.problem for status in pipeline.statuses().values()} == {"redirect_cut"}
        pipeline.feed(page(urls[0], 2, TEXT))
        assert pipeline.roles()[urls[0]] == "unique"
        assert pipeline.statuses()[A].target == urls[0]

    def test_a_loop_that_had_a_page_in_it(self) -> None:
        pipeline = Pipeline().feed(page(B, 1, TEXT), redirect(A, 1, B), redirect(B, 2, A))
        assert {status.problem for status in pipeline.statuses().values()} == {"redirect_cut"}

    def test_a_chain_of_a_thousand_is_cut_at_the_hop_limit(self) -> None:
        urls = [f"http://a.example/{number}" for number in range(1_001)]
        chain = [redirect(url, 1, urls[number + 1]) for number, url in enumerate(urls[:-1])]
        pipeline = Pipeline().feed(page(urls[-1], 1, TEXT), *chain)
        resolved = [url for url, status in pipeline.statuses().items() if status.target == urls[-1]]
        assert sorted(resolved) == sorted(urls[1_000 - 16 : 1_000])
        cut = [url for url, status in pipeline.statuses().items() if status.problem == "redirect_cut"]
        assert len(cut) == 1_000 - 16

    def test_a_page_with_many_followers_tells_them_in_steps(self) -> None:
        count = 2 * FOLLOWERS_NOTIFIED_MAX + 7
        followers = [redirect(f"http://f.example/{number}", 1, A) for number in range(count)]
        pipeline = Pipeline().feed(page(A, 1, TEXT), *followers, page(B, 1, NEAR, popularity=9.0))
        told = [status for status in pipeline.statuses().values() if status.role == "redirect"]
        assert len(told) == count and {status.winner for status in told} == {B}


class TestAnchors:
    def test_a_small_change_is_settled_in_tier_1(self) -> None:
        pipeline = Pipeline(pages={"small_changes": ByAnchor(0.1)}).feed(page(A, 1, TEXT), page(B, 1, TEXT))
        pipeline.feed(page(B, 2, NEAR))
        assert pipeline.counts() == {"new": 2, "settled_by_anchor": 1}
        assert pipeline.roles() == {A: "winner", B: "duplicate"}

    def test_small_changes_do_not_add_up(self) -> None:
        """The distance is to the anchor, not to the version before."""
        steps = [page(A, version, range(4 * version, 100 + 4 * version)) for version in range(4)]
        pipeline = Pipeline(pages={"small_changes": ByAnchor(0.1)}).feed(*steps)
        assert pipeline.counts() == {"new": 1, "settled_by_anchor": 2, "changed": 1}

    def test_without_a_distance_every_change_goes_to_tier_2(self) -> None:
        pipeline = Pipeline().feed(page(A, 1, TEXT), page(A, 2, NEAR))
        assert pipeline.counts() == {"new": 1, "changed": 1}


class TestRepresentatives:
    """Small changes as in Zhu et al., 5.1."""

    def _pipeline(self) -> Pipeline:
        rule = ByRepresentative(0.8)
        return Pipeline(pages={"small_changes": rule}).feed(page(A, 1, TEXT, popularity=9.0), page(B, 1, NEAR))

    def test_a_duplicate_that_still_matches_the_winner_stays(self) -> None:
        pipeline = self._pipeline().feed(page(B, 2, range(8, 108)))
        assert pipeline.counts() == {"new": 2, "settled_by_representative": 1}
        status = pipeline.status(B)
        assert status is not None and (status.role, status.winner, status.since) == ("duplicate", A, 1)
        assert status.similarity == 92 / 108

    def test_one_that_does_not_goes_to_tier_2(self) -> None:
        pipeline = self._pipeline().feed(page(B, 2, OTHER))
        assert pipeline.counts() == {"new": 2, "changed": 1}
        assert pipeline.roles() == {A: "unique", B: "unique"}

    def test_a_winner_is_its_own_representative_and_changes_it(self) -> None:
        pipeline = self._pipeline().feed(page(A, 2, range(8, 108)), page(B, 3, range(16, 116)))
        assert pipeline.counts() == {"new": 2, "settled_by_representative": 2}
        assert pipeline.roles() == {A: "winner", B: "duplicate"}

    def test_a_page_alone_is_a_group_of_one(self) -> None:
        pipeline = Pipeline(pages={"small_changes": ByRepresentative(0.8)}).feed(page(A, 1, TEXT), page(A, 2, NEAR))
        assert pipeline.counts() == {"new": 1, "settled_by_representative": 1}
        pipeline.feed(page(A, 3, OTHER))
        assert pipeline.counts() == {"new": 1, "settled_by_representative": 1, "changed": 1}

    def test_fetches_do_not_overtake_each_other(self) -> None:
        """The page was seen again with its new content: that content counts."""
        pipeline = self._pipeline().feed(page(B, 2, OTHER), Crawl(B, 3, "seen"))
        status = pipeline.status(B)
        assert status is not None and (status.role, status.since) == ("unique", 2)


class TestMarkets:
    def test_a_change_in_popularity_changes_the_winner(self) -> None:
        pipeline = Pipeline().feed(page(A, 1, TEXT), page(B, 2, NEAR))
        pipeline.feed(page(B, 3, NEAR, popularity=100.0))
        assert pipeline.roles() == {A: "duplicate", B: "winner"}
        pipeline.feed(Crawl(A, 4, "seen", popularity=10_000.0))
        assert pipeline.roles() == {A: "winner", B: "duplicate"}

    def test_a_change_of_the_canonical_link_alone_changes_the_winner(self) -> None:
        pipeline = Pipeline(markets=(Market(),)).feed(page(A, 1, TEXT), replace(page(B, 2, NEAR), canonical="self"))
        assert pipeline.roles() == {A: "duplicate", B: "winner"}
        pipeline.feed(Crawl(B, 3, "seen"))
        assert pipeline.roles() == {A: "duplicate", B: "winner"}
        pipeline.feed(replace(page(B, 4, NEAR), canonical="other"))
        assert pipeline.roles() == {A: "winner", B: "duplicate"}
        pipeline.feed(gone(B, 5), replace(page(B, 6, NEAR), canonical="self"))
        assert pipeline.roles() == {A: "duplicate", B: "winner"}

    def test_each_market_has_its_winner(self) -> None:
        markets = (Market(criteria=("preferred_tld",), preferred_tlds=("fr",)), Market(name="de", criteria=()))
        french, german = "http://a.fr/", "http://a.de/"
        pipeline = Pipeline(markets=markets).feed(page(german, 1, TEXT), page(french, 2, NEAR))
        status = pipeline.status(german)
        assert status is not None and status.markets is not None
        assert (status.role, status.winner) == ("duplicate", french)
        assert {name: each.role for name, each in status.markets.items()} == {"default": "duplicate", "de": "winner"}


def test_cluster_updates_name_the_group() -> None:
    pipeline = Pipeline().feed(page(A, 1, TEXT), page(B, 2, NEAR))
    last = {member.url: member for update in pipeline.updates() for member in update.members}
    assert {url: (member.group, member.role) for url, member in last.items()} == {
        A: (A, "winner"),
        B: (A, "duplicate"),
    }
