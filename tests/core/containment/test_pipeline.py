"""Containment through the whole pipeline: what users are told, and that nothing else changes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dustream.core.containment.processor import ContainmentProcessor
from dustream.core.intake import take_in
from dustream.core.pipeline import PAGES, pipeline
from dustream.core.processor import Send, TaskState
from dustream.core.settings import Settings
from dustream.core.winners import Market
from dustream.schemas.containment import ContainmentMessage, Post
from dustream.schemas.crawl import CrawlEvent
from dustream.streams.cli.main import main
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.results import Outcome, read_dead_letters, read_statuses, write_results
from dustream.streams.store.memory import MemoryStore


def prose(seed: int, sentences: int) -> str:
    chance = random.Random(seed)
    return "".join(
        "".join(chr(chance.randrange(0x4E00, 0x9000)) for _ in range(chance.randrange(6, 14))) + chance.choice("，。")
        for _ in range(sentences)
    )


ARTICLE = prose(1, 40)
COMMENTS = prose(2, 40)
OTHER = prose(3, 45)


def event(url: str, *paragraphs: str, day: int = 1, **more: object) -> CrawlEvent:
    html = f"<html><body><article>{''.join(f'<p>{each}</p>' for each in paragraphs)}</article></body></html>"
    return CrawlEvent(url=url, fetched_at=f"2024-05-{day:02d}T00:00:00Z", html=html, **more)  # type: ignore[arg-type]


EVENTS = [
    event("https://long.example/1", ARTICLE, COMMENTS),
    event("https://short.example/1", ARTICLE),
    event("https://other.example/1", OTHER),
    CrawlEvent(
        url="https://old.example/", fetched_at="2024-05-01T00:00:00Z", status=301, redirect_to="https://short.example/1"
    ),
]


def ran(events: list[CrawlEvent], settings: Settings, batch: int = 64, store: MemoryStore | None = None) -> MemoryStore:
    store = MemoryStore() if store is None else store
    crawls = take_in(events, settings.text_source).crawls
    engine = EmbeddedEngine(pipeline(settings), store, batch_messages_max=batch)
    engine.run(Feed([Send(PAGES, crawl.url, crawl)]) for crawl in crawls)
    return store


def statuses(events: list[CrawlEvent], **options: object) -> dict[str, tuple[object, ...]]:
    store = ran(events, Settings(partitions=2, **options))  # type: ignore[arg-type]
    return {each.url: (each.role, each.winner, each.relation, each.group) for each in read_statuses(store)}


def test_an_article_within_a_longer_page() -> None:
    told = statuses(EVENTS)
    long, short = "https://long.example/1", "https://short.example/1"
    assert told[short] == ("duplicate", long, "contained", short)
    assert told[long] == ("unique", long, None, long)
    assert told["https://other.example/1"][0] == "unique"
    assert told["https://old.example/"] == ("redirect", long, "redirect", short)


def test_it_does_not_matter_who_comes_first() -> None:
    assert statuses(EVENTS[::-1]) == statuses(EVENTS)


def test_without_containment_all_are_unique() -> None:
    told = statuses(EVENTS, containment="off")
    assert [told[one.url][0] for one in EVENTS] == ["unique", "unique", "unique", "redirect"]


def test_the_container_goes_or_changes() -> None:
    gone = CrawlEvent(url="https://long.example/1", fetched_at="2024-05-03T00:00:00Z", status=404)
    changed = event("https://long.example/1", prose(7, 60), day=3)
    for last in (gone, changed):
        assert statuses([*EVENTS, last])["https://short.example/1"][0] == "unique"


def test_a_page_is_taken_back_where_it_was_posted(monkeypatch: pytest.MonkeyPatch) -> None:
    posts, unposts = set(), set()
    process = ContainmentProcessor.process

    def seen(self: ContainmentProcessor, state: TaskState, messages: Sequence[ContainmentMessage]) -> list[Send]:
        for message in messages:
            (posts if isinstance(message, Post) else unposts).add(state.partition)
        return process(self, state, messages)

    monkeypatch.setattr(ContainmentProcessor, "process", seen)
    gone = CrawlEvent(url=EVENTS[0].url, fetched_at="2024-05-03T00:00:00Z", status=404)
    settings, store = Settings(partitions=64), MemoryStore()
    for one in (EVENTS[0], gone):  # a page is posted once the engine is at rest
        ran([one], settings, store=store)
    assert 0 < len(posts) < 64
    assert unposts == posts


def candidate_rows(store: MemoryStore) -> list[bytes]:
    return [key for key, _ in store.scan(b"task/tier2/") if b"/candidates/" in key]


def test_pairs_with_too_small_a_share_have_no_rows() -> None:
    """Also if the task is opened again before one of the two pages is withdrawn, or proposed again."""
    settings = Settings(partitions=1, containment="all")
    long = event("https://long.example/1", ARTICLE, COMMENTS)
    two_thirds = event("https://short.example/1", ARTICLE, prose(4, 20))
    store = ran([long, two_thirds], settings)
    assert candidate_rows(store) == []
    gone = CrawlEvent(url="https://long.example/1", fetched_at="2024-05-02T00:00:00Z", status=410)
    assert candidate_rows(ran([gone], settings, store=store)) == []
    again = event("https://long.example/1", ARTICLE, COMMENTS, day=3)
    assert candidate_rows(ran([again], settings, store=store)) == []
    whole = event("https://short.example/1", ARTICLE, day=4)
    assert len(candidate_rows(ran([whole], settings, store=store))) == 1
    statuses = {status.url: status.relation for status in read_statuses(store)}
    assert statuses["https://short.example/1"] == "contained"


def test_a_page_that_grows_contains_the_others() -> None:
    grown = event("https://short.example/1", ARTICLE, COMMENTS[: len(COMMENTS) // 2], OTHER, day=4)
    assert statuses([*EVENTS, grown])["https://short.example/1"][0] == "unique"


def test_the_winner_of_a_group_is_not_dropped() -> None:
    copy = event("https://copy.example/1", ARTICLE, day=2)
    told = statuses([*EVENTS, copy])
    roles = sorted(told[url][0] for url in ("https://short.example/1", "https://copy.example/1"))
    assert roles == ["duplicate", "winner"]
    assert all(told[url][2] != "contained" for url in told)


def test_the_criteria_can_decide_instead() -> None:
    popular = event("https://short.example/1", ARTICLE, popularity=9.0)
    events = [EVENTS[0], popular, *EVENTS[2:]]
    assert statuses(events)["https://short.example/1"][0] == "duplicate"
    assert statuses(events, containment_winner="criteria")["https://short.example/1"][0] == "unique"


def test_every_market_has_its_own_container() -> None:
    """By the criteria of one market the longer page is kept, and contains the shorter one; by those of the other the
    shorter one is better, and has too little text to contain the longer: both are kept."""
    long, short = "https://long.example/1", "https://short.example/1"
    markets = tuple(
        Market(name=name, criteria=("preferred_host", "url_hash"), preferred_hosts=(f"{name}.example",))
        for name in ("long", "short")
    )
    near_whole = event(long, ARTICLE, COMMENTS[: len(COMMENTS) // 4])
    settings = Settings(partitions=2, markets=markets, containment_winner="criteria", containment_share=0.6)
    told = {status.url: status.markets for status in read_statuses(ran([near_whole, *EVENTS[1:]], settings))}
    assert all(told.values())
    seen = {url: {name: (each.role, each.winner, each.relation) for name, each in told[url].items()} for url in told}
    assert seen[short] == {"long": ("duplicate", long, "contained"), "short": ("unique", short, None)}
    assert seen[long] == dict.fromkeys(("long", "short"), ("unique", long, None))
    assert seen["https://old.example/"] == {
        name: ("redirect", url, "redirect") for name, url in (("long", long), ("short", short))
    }


def test_popularity_that_comes_later_counts_as_well() -> None:
    tails = ["".join(chr(code) for code in range(first, first + 80)) for first in (0x5000, 0x6000)]
    equal = [event(f"https://{name}.example/1", ARTICLE, tail) for name, tail in zip("ab", tails, strict=True)]
    seen = [
        CrawlEvent(url=f"https://{name}.example/1", fetched_at="2024-05-09T00:00:00Z", status=304, popularity=value)
        for name, value in (("a", 1.0), ("b", 2.0))
    ]
    told = statuses([*equal, *seen], containment_share=0.7, containment_winner="criteria")
    assert told["https://a.example/1"][:3] == ("duplicate", "https://b.example/1", "contained")


def test_other_languages_unless_only_cjk_is_asked_for() -> None:
    chance = random.Random(5)
    words = ["".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(7)) for _ in range(600)]
    text = ", ".join(" ".join(words[at : at + 5]) for at in range(0, 250, 5))
    more = ", ".join(" ".join(words[at : at + 5]) for at in range(250, 600, 5))
    events = [event("https://a.example/", text[:500], more[:450]), event("https://b.example/", text[:500])]
    assert statuses(events)["https://b.example/"][:3] == ("duplicate", "https://a.example/", "contained")
    assert statuses(events, containment="cjk")["https://b.example/"][0] == "unique"


# Pages that have one feature code, or nearly, and little else in common


def colliding_pages() -> dict[str, list[list[str]]]:
    start, rows = prose(21, 110)[:1_100], [prose(seed, 2) for seed in range(300, 310)]
    heading = prose(22, 4)
    return {
        "the same first 1,100 characters": [[start + prose(seed, 900)] for seed in (23, 24)],
        "lists with the same first and last rows": [
            [*rows[:5], *(prose(seed + row, 3) for row in range(90)), *rows[5:]] for seed in (400, 600)
        ],
        "one heading": [[heading, *(prose(seed + row, 1) for row in range(60))] for seed in (800, 900)],
    }


@pytest.mark.parametrize("name", colliding_pages())
def test_pages_that_share_a_code_but_no_text_are_kept(name: str) -> None:
    one, other = colliding_pages()[name]
    told = statuses([event("https://a.example/", *one), event("https://b.example/", *other)])
    assert {url: status[0] for url, status in told.items()} == dict.fromkeys(told, "unique")


# Reprints: the first 70 % of an article's paragraphs, and an advert of 40 characters

CHINESE_ADVERT = "本页内容由合作伙伴提供更多优惠请访问我们的网站立即注册即可获得新人礼包限时特惠先到"[:40]
ENGLISH_ADVERT = "Buy two and get one free, this week only"


def english(seed: int, words: int) -> str:
    chance = random.Random(seed)
    return " ".join("".join(chance.choice("abcdefghijklmnoprstuvw") for _ in range(6)) for _ in range(words)) + "."


def cut(paragraphs: list[str], advert: str) -> list[str]:
    return [*paragraphs[: len(paragraphs) * 7 // 10], advert]


@pytest.mark.parametrize("language", ["Chinese", "English"])
def test_cut_reprints_are_traced_to_their_source(language: str) -> None:
    articles, reprints_of = [], []
    for number in range(40):
        seeds = range(10_000 + 20 * number, 10_010 + 20 * number)
        chinese = language == "Chinese"
        paragraphs = [prose(seed, 6) if chinese else english(seed, 35) for seed in seeds]
        articles.append(event(f"https://source.example/{number}", *paragraphs))
        advert = CHINESE_ADVERT if chinese else ENGLISH_ADVERT
        reprints_of.append(event(f"https://reprint-{number}.example/", *cut(paragraphs, advert)))
    told = statuses([*reprints_of, *articles])
    traced = [told[f"https://reprint-{number}.example/"][:3] for number in range(40)]
    assert traced == [("duplicate", f"https://source.example/{number}", "contained") for number in range(40)]


def test_the_share_told_is_that_of_the_shingles() -> None:
    source, other = prose(31, 40), prose(32, 10)
    events = [event("https://long.example/1", source, COMMENTS), event("https://part.example/1", source, other)]
    settings = Settings(containment_share=0.6)
    crawls = {crawl.url: crawl for crawl in take_in(events, settings.text_source).crawls}
    long, part = (
        set(np.frombuffer(crawls[each.url].signature.shingles, dtype="<u8").tolist())
        for each in events  # type: ignore[union-attr]
    )
    told = {each.url: each for each in read_statuses(ran(events, settings))}["https://part.example/1"]
    assert (told.relation, told.similarity) == ("contained", len(long & part) / len(part))
    assert told.code_share is not None and told.code_share != told.similarity
    strict = Settings(containment_share=len(long & part) / len(part) + 1e-9)
    assert {each.role for each in read_statuses(ran(events, strict))} == {"unique"}


def test_a_text_that_many_pages_have_is_boilerplate() -> None:
    """A licence printed by 70 pages, none of which is like another, makes none of them its container."""
    licence = prose(41, 30)
    pages = [event(f"https://s{number}.example/", licence, prose(5_000 + number, 10)) for number in range(70)]
    alone = event("https://licence.example/", licence)
    assert statuses([alone, *pages])["https://licence.example/"][0] == "unique"
    assert statuses([alone, *pages[:20]])["https://licence.example/"][2] == "contained"


BAD_PAGES = {
    "nothing": "",
    "invisible": "\u200b\u00ad\ufeff" * 500,
    "private": "\ue000\uf8ff" * 500,
    "marks": "。，！" * 200,
    "repeated": "哈" * 5_000,
    "plain": "".join(chr(0x4E00 + number) for number in range(900)),
    "huge": prose(50, 20) * 12_500,
    "mixed": "Kafka 是一个分布式系统, 支持流处理。Faust はライブラリ、です。안녕, good bye!" * 9,
}


@pytest.mark.parametrize("containment", ["cjk", "all"])
def test_bad_pages_are_nobodys_part(containment: str, tmp_path: Path) -> None:
    """And one that hides invisible characters everywhere is what it is without them."""
    hidden = "\u200b".join(ARTICLE) + "\ue123" * 2_000
    pages = [event(f"https://{name}.example/", text) for name, text in BAD_PAGES.items()]
    settings = Settings(partitions=3, containment=containment)  # type: ignore[arg-type]
    store = ran([*pages, event("https://hidden.example/", hidden, COMMENTS), *EVENTS[1:2]], settings)
    told = {each.url: each for each in read_statuses(store)}
    assert {told[page.url].role for page in pages} == {"unique"} and not list(read_dead_letters(store))
    contained = told["https://short.example/1"]
    assert (contained.relation, contained.winner) == ("contained", "https://hidden.example/")


def reprints() -> list[CrawlEvent]:
    """Articles, each in pages with and without something around them, copied, changed and deleted."""
    chance = random.Random(9)
    events = []
    for number in range(40):
        article = prose(100 + number, chance.randrange(20, 45))
        for copy in range(chance.randrange(1, 6)):
            around = [prose(1_000 + 10 * number + copy, chance.randrange(30, 45))] if chance.random() < 0.5 else []
            paragraphs = [article[: chance.randrange(len(article) * 3 // 4, len(article))], *around]
            url = f"https://s{chance.randrange(9)}.example/{number}/{copy}"
            events.append(event(url, *paragraphs, popularity=float(chance.randrange(3))))
            if chance.random() < 0.3:
                events.append(event(url, *paragraphs[:1], day=2))
            if chance.random() < 0.15:
                events.append(CrawlEvent(url=url, fetched_at="2024-05-03T00:00:00Z", status=404))
    return events


@pytest.fixture(scope="module")
def history() -> list[CrawlEvent]:
    return reprints()


def outcome(events: list[CrawlEvent], out: Path, partitions: int, batch: int) -> Outcome:
    return write_results(ran(events, Settings(partitions=partitions, site_share_max=1), batch), out)


def test_partitions_batches_and_order_do_not_matter(history: list[CrawlEvent], tmp_path: Path) -> None:
    plain = outcome(history, tmp_path / "plain", 1, 1024)
    lines = [json.loads(line) for line in (tmp_path / "plain" / "status.jsonl").read_bytes().splitlines()]
    assert sum(line["relation"] == "contained" for line in lines) >= 10
    kept = {line["url"] for line in lines if line["role"] in ("unique", "winner")}
    assert all(line["winner"] in kept for line in lines if line["relation"] == "contained")
    by_url = sorted(history, key=lambda one: one.url)
    for events, partitions, batch in ((history, 3, 1), (history, 8, 7), (by_url, 2, 50)):
        assert outcome(events, tmp_path / f"{partitions}", partitions, batch) == plain


def test_groups_are_the_same_with_and_without(history: list[CrawlEvent], tmp_path: Path) -> None:
    def groups(containment: str) -> dict[str, str | None]:
        store = ran(history, Settings(partitions=2, containment=containment))  # type: ignore[arg-type]
        return {status.url: status.group for status in read_statuses(store)}

    assert groups("all") == groups("off")


def test_commands_tell_it(tmp_path: Path) -> None:
    lines = [
        json.dumps({k: getattr(one, k) for k in ("url", "fetched_at", "html", "status", "redirect_to")})
        for one in EVENTS
    ]
    (tmp_path / "pages.jsonl").write_text("\n".join(lines))
    out = tmp_path / "out"

    def dustream(*arguments: object) -> str:
        command = [sys.executable, "-m", "dustream.streams.cli.main", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, check=True).stdout.decode()

    summary = dustream("run", tmp_path / "pages.jsonl", "--out", out, "--quiet", "--jobs", 1)
    assert "1 duplicate: 1 contained in a longer page" in summary
    assert json.loads((out / "summary.json").read_text())["relations"] == {"contained": 1}
    long, short = "https://long.example/1", "https://short.example/1"
    assert "https://short.example/1" not in (out / "keep.txt").read_text().split()
    assert f"{long} (contained, share 0.99" in dustream("status", short, "--state", out)
    assert f"contained in {long}, which has 99% of its shingles" in dustream("why", short, "--state", out)
    redirect = dustream("why", "https://old.example/", "--state", out)
    assert f"a redirect to {short}, which is contained in {long}" in redirect
    pair = dustream("why", short, long, "--state", out)
    assert f"{short} is contained in {long}" in pair and f"{long} has 0.9" in pair
    containers = dustream("groups", "--contained", "--state", out)
    assert containers.startswith(f"{long}\n  contains    {short} (share 0.99")
    assert "no groups" in dustream("groups", "--state", out)


def test_a_group_lists_what_its_winner_contains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        {"url": f"https://{name}.example/1", "fetched_at": 1, "html": event("", *paragraphs).html, "popularity": liked}
        for name, paragraphs, liked in (
            ("long", (ARTICLE, COMMENTS), None), ("copy", (ARTICLE, COMMENTS), 9.0), ("short", (ARTICLE,), None),
        )
    ]  # fmt: skip
    (tmp_path / "pages.jsonl").write_text("\n".join(map(json.dumps, lines)))
    out = str(tmp_path / "out")
    assert main(["run", str(tmp_path / "pages.jsonl"), "--out", out, "--quiet", "--jobs", "1"]) == 0
    capsys.readouterr()
    assert main(["groups", "--state", out, "--json"]) == 0
    group = json.loads(capsys.readouterr().out)
    assert group["winners"] == ["https://copy.example/1"] and group["contained_count"] == 1
    assert [page["url"] for page in group["contained"]] == ["https://short.example/1"]
    assert 0.98 < group["contained"][0]["share"] < 1  # the last shingles of a text are those at its end
