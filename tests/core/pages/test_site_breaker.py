"""A site that would lose most of its pages to winners elsewhere is held; what operators say; what goes out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from model_pipeline import Pipeline, gone, page, redirect

from dustream.core.pages.processor import PagesProcessor
from dustream.core.pages.publisher import PagesLimits
from dustream.core.processor import Send
from dustream.schemas.pages import ContinueSite, Crawl, Decision, SiteHeld

SOURCE, COPY = "source.example", "copy.example"
LIMITS = {"share_max": 0.5, "pages_min": 10}


def text(number: int, site: int = 0) -> range:
    """Pages of one number match (Jaccard 95 / 105), others have nothing in common."""
    return range(1000 * number + 5 * site, 1000 * number + 5 * site + 100)


def sources(count: int) -> list[Crawl]:
    return [page(f"http://{SOURCE}/{n}", 1 + n, text(n), popularity=1e6) for n in range(count)]


def copies(count: int, first: int = 0) -> list[Crawl]:
    return [page(f"http://{COPY}/{n}", 1000 + n, text(n, 1)) for n in range(first, first + count)]


def originals(count: int) -> list[Crawl]:
    return [page(f"http://{COPY}/own/{n}", 1000 + n, text(5000 + n)) for n in range(count)]


def roles_on(pipeline: Pipeline, site: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for url, role in pipeline.roles().items():
        if f"/{site}/" in url:
            found[role] = found.get(role, 0) + 1
    return found


class TestASourceWipedOutByWeakLinks:
    def test_every_page_has_a_winner_on_another_site(self) -> None:
        pipeline = Pipeline(sites=LIMITS).feed(*sources(12), *copies(12))
        assert roles_on(pipeline, COPY) == {"held": 12}
        assert roles_on(pipeline, SOURCE) == {"winner": 12}
        [alarm] = [alarm for alarm in pipeline.alarms() if alarm.site == COPY][-1:]
        assert (alarm.kind, alarm.lost) == ("site_held", alarm.size) and alarm.size >= 10

    def test_every_page_hangs_on_a_chain_that_ends_on_another_site(self) -> None:
        """One page elsewhere, and a chain of pages each of which matches the next: one group, but only who matches the
        winner itself would be dropped, so the site keeps most of its pages and nothing is held."""
        chain = [page(f"http://{COPY}/{n:02d}", 10 + n, range(10 * n + 10, 10 * n + 110)) for n in range(40)]
        pipeline = Pipeline(sites=LIMITS).feed(page(f"http://{SOURCE}/", 1, range(100), popularity=1e6), *chain)
        statuses = pipeline.statuses()
        assert len({status.group for status in statuses.values()}) == 1
        lost = [url for url, status in statuses.items() if COPY in url and status.winner == f"http://{SOURCE}/"]
        assert lost == [f"http://{COPY}/00"]
        assert "held" not in pipeline.roles().values() and not pipeline.alarms()

    def test_such_a_chain_is_held_as_a_group_when_it_is_too_long(self) -> None:
        chain = [page(f"http://{COPY}/{n:02d}", 10 + n, range(10 * n + 10, 10 * n + 110)) for n in range(40)]
        first = page(f"http://{SOURCE}/", 1, range(100), popularity=1e6)
        pipeline = Pipeline(sites=LIMITS, groups={"group_size_max": 40}).feed(first, *chain)
        assert set(roles_on(pipeline, COPY)) == {"winner", "held"}
        assert [(alarm.kind, alarm.size) for alarm in pipeline.alarms()] == [("group_held", 41)]


class TestHeldIsAFunctionOfWhatIs:
    def test_a_site_that_keeps_enough_passes(self) -> None:
        pipeline = Pipeline(sites=LIMITS).feed(*sources(12), *copies(12), *originals(12))
        assert roles_on(pipeline, COPY) == {"duplicate": 12, "unique": 12}

    def test_it_is_held_when_the_share_rises_and_passes_when_it_falls(self) -> None:
        pipeline = Pipeline(sites=LIMITS).feed(*sources(13), *originals(12), *copies(13))
        assert roles_on(pipeline, COPY) == {"held": 13, "unique": 12}
        pipeline.feed(gone(f"http://{COPY}/3", 9000))
        assert roles_on(pipeline, COPY) == {"duplicate": 12, "gone": 1, "unique": 12}
        assert [alarm.kind for alarm in pipeline.alarms() if alarm.site == COPY][-1] == "site_passed"
        pipeline.feed(redirect(f"http://{COPY}/own/1", 9001, f"http://{COPY}/own/2"))
        assert roles_on(pipeline, COPY) == {"held": 12, "gone": 1, "unique": 11, "redirect": 1}

    def test_pages_that_come_while_the_site_is_held_are_held(self) -> None:
        pipeline = Pipeline(sites=LIMITS).feed(*sources(20), *copies(12)).feed(*copies(8, first=12))
        assert roles_on(pipeline, COPY) == {"held": 20}

    def test_a_small_site_is_never_held(self) -> None:
        pipeline = Pipeline(sites=LIMITS).feed(*sources(9), *copies(9))
        assert roles_on(pipeline, COPY) == {"duplicate": 9}

    def test_copies_within_a_site_are_no_loss(self) -> None:
        same = [page(f"http://{COPY}/{n}?again", 2000 + n, text(n, 1)) for n in range(12)]
        pipeline = Pipeline(sites=LIMITS).feed(*copies(12), *same)
        assert roles_on(pipeline, COPY) == {"winner": 12, "duplicate": 12}
        assert not pipeline.alarms()


class TestOperators:
    def test_a_site_is_released_and_held_again(self) -> None:
        pipeline = Pipeline(sites=LIMITS).feed(*sources(12), *copies(12))
        pipeline.feed(Decision(f"http://{COPY}/", 10, "site", 0.0))
        assert roles_on(pipeline, COPY) == {"duplicate": 12}
        pipeline.feed(Decision(f"http://{COPY}/any", 5, "site", None))  # an older word changes nothing
        assert roles_on(pipeline, COPY) == {"duplicate": 12}
        pipeline.feed(Decision(f"http://{COPY}/any", 11, "site", None))
        assert roles_on(pipeline, COPY) == {"held": 12}

    def test_a_decision_counts_also_if_it_came_first(self) -> None:
        word = Decision(f"http://{COPY}/", 10, "site", 0.0)
        assert roles_on(Pipeline(sites=LIMITS).feed(word, *sources(12), *copies(12)), COPY) == {"duplicate": 12}

    def test_a_group_that_is_split_keeps_who_is_not_similar_enough(self) -> None:
        best = page("http://a.example/", 1, range(100), popularity=1e6)
        near = page("http://b.example/", 2, range(1, 101))  # 99 / 101
        far = page("http://c.example/", 3, range(10, 110))  # 90 / 110
        way = redirect("http://d.example/", 4, far.url)
        pipeline = Pipeline(groups={"group_size_max": 2}).feed(best, near, far, way)
        assert pipeline.roles() == {best.url: "winner", near.url: "held", far.url: "held", way.url: "redirect"}
        pipeline.feed(Decision(best.url, 1, "group", 0.95))
        roles = {best.url: "winner", near.url: "duplicate", far.url: "winner", way.url: "redirect"}
        assert pipeline.roles() == roles
        assert pipeline.statuses()[way.url].winner == far.url
        assert pipeline.alarms()[-1].kind == "group_passed"

    def test_a_page_kept_by_a_split_is_not_lost_to_its_site(self) -> None:
        limits = {"share_max": 0.5, "pages_min": 1}
        pipeline = Pipeline(sites=limits).feed(*sources(1), *copies(1))
        assert roles_on(pipeline, COPY) == {"held": 1}
        pipeline.feed(Decision(f"http://{SOURCE}/0", 1, "group", 0.99))
        assert roles_on(pipeline, COPY) == {"winner": 1}
        assert [alarm.kind for alarm in pipeline.alarms() if alarm.site == COPY][-1] == "site_passed"

    def test_of_two_words_of_one_time_the_more_careful_counts(self) -> None:
        words = [Decision(f"http://{COPY}/", 10, "site", 0.0), Decision(f"http://{COPY}/", 10, "site", None)]
        for order in (words, words[::-1]):
            pipeline = Pipeline(sites=LIMITS).feed(*sources(12), *copies(12), *order)
            assert roles_on(pipeline, COPY) == {"held": 12}


class Watched(PagesProcessor):
    """Notes how much each step says of statuses, and how large its cluster updates are."""

    told: ClassVar[list[int]] = []
    members: ClassVar[list[int]] = []

    def process(self, state: Any, messages: Any) -> list[Send]:
        sends = super().process(state, messages)
        self.members += [len(send.message.members) for send in sends if send.topic == "cluster.updates"]
        if any(isinstance(message, SiteHeld | ContinueSite) for message in messages):
            self.told.append(sum(send.topic == "duplicate.status" for send in sends) // len(messages))
        return sends


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Watched]]:
    monkeypatch.setattr("model_pipeline.PagesProcessor", Watched)
    Watched.told, Watched.members = [], []
    yield Watched


def test_many_pages_hear_of_a_hold_in_bounded_steps(watched: type[Watched]) -> None:
    options = {"limits": PagesLimits(site_pages_updated_max=7, update_members_max=5)}
    pipeline = Pipeline(sites=LIMITS, pages=options).feed(*sources(100), *copies(100))
    assert roles_on(pipeline, COPY) == {"held": 100}
    watched.told.clear()
    pipeline.feed(Decision(f"http://{COPY}/", 1, "site", 0.0))
    assert roles_on(pipeline, COPY) == {"duplicate": 100}
    assert max(watched.told) <= 7 and len(watched.told) >= 100 // 7


def test_a_new_winner_of_many_goes_out_in_few_bounded_updates(watched: type[Watched]) -> None:
    count, at_most = 300, 50
    pipeline = Pipeline(pages={"limits": PagesLimits(update_members_max=at_most)})
    pipeline.feed(*(page(f"http://{COPY}/{n}", 1 + n, range(100)) for n in range(count)))
    watched.members.clear()
    pipeline.feed(page(f"http://{SOURCE}/", 9000, range(100), popularity=1e6))
    assert {status.winner for status in pipeline.statuses().values()} == {f"http://{SOURCE}/"}
    assert max(watched.members) <= at_most
    assert sum(watched.members) >= count and len(watched.members) < count // 10
    last = {member.url: member for update in pipeline.updates() for member in update.members}
    assert {(member.winner, member.relation) for url, member in last.items() if COPY in url} == {
        (f"http://{SOURCE}/", "exact")
    }
