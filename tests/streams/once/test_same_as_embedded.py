"""Computed at once or one by one, kept or not: the outcome is one."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from dustream.core.errors import BadSetting
from dustream.core.intake import take_in
from dustream.core.once.contents import COLUMNS_AT_ONCE, Contents, MemorySpool
from dustream.core.once.matching import stars
from dustream.core.pipeline import PAGES, pipeline
from dustream.core.processor import Send
from dustream.core.settings import Settings
from dustream.core.text.extractors import TextSource
from dustream.core.text.signature import sign
from dustream.core.winners import Market
from dustream.schemas.pages import Crawl, Decision, PageDecision, PairDecision
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.results import StoredResults, write_outcome
from dustream.streams.generate import generate
from dustream.streams.once import rule_learning
from dustream.streams.once.engine import OnceEngine
from dustream.streams.once.spool import MEMORY_BYTES_MAX, PARTS_MAX, FileSpool
from dustream.streams.store.memory import MemoryStore

FILES = ("status.jsonl", "groups.jsonl", "keep.txt", "rules.jsonl", "alarms.jsonl", "rejected.jsonl")
SITES = ("a.example", "b.example", "c.example")
DIGESTS = ("X", "Y", "Z")
BY_AGE = Market(name="by age", criteria=("first_seen", "url_hash"), first_seen_step_days=1)


def outcomes(sends: list[Send], settings: Settings, folder: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """What both engines write, one by one and at once."""
    feeds = [Feed(sends[at : at + 50]) for at in range(0, len(sends), 50)]
    store = MemoryStore()
    EmbeddedEngine(pipeline(settings), store).run(feeds)
    kept = StoredResults(store, settings.partitions)
    once = OnceEngine(settings, MemorySpool)
    once.run(feeds)
    counted = kept.fetch_counts(), once.fetch_counts()
    assert counted[0] == counted[1]
    assert markets(kept.statuses()) == markets(once.statuses())
    hashes = write_outcome(kept, folder / "kept").state_hash, write_outcome(once, folder / "once").state_hash
    assert hashes[0] == hashes[1]
    return read(folder / "kept"), read(folder / "once")


def markets(statuses: Iterator[object]) -> list[object]:
    return [(status.url, status.markets) for status in statuses]  # type: ignore[attr-defined]


def read(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def web_sends(seed: int, source: TextSource) -> list[Send]:
    intake = take_in(list(generate(pages=400, seed=seed)), source)
    return [Send(PAGES, crawl.url, crawl) for crawl in intake.crawls]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_generated_web(seed: int, tmp_path: Path) -> None:
    kept, once = outcomes(web_sends(seed, TextSource()), Settings(), tmp_path)
    assert once == kept
    assert kept["groups.jsonl"].count(b"\n") > 30 and b'"redirect"' in kept["status.jsonl"] and kept["rules.jsonl"]


def test_with_markets_anchors_and_a_breaker_that_holds(tmp_path: Path) -> None:
    settings = Settings(
        threshold=0.6,
        anchor_distance=0.1,
        group_size_max=3,
        site_pages_min=2,
        site_share_max=0.1,
        markets=(Market(), BY_AGE),
    )
    kept, once = outcomes(web_sends(5, settings.text_source), settings, tmp_path)
    assert once == kept
    assert b"group_held" in kept["alarms.jsonl"] and b"site_held" in kept["alarms.jsonl"]


# ---------------------------------------------------------------- random histories


def texts(rng: random.Random) -> list[str]:
    """Chains of texts, each a few words from the one before."""
    found = []
    for _ in range(4):
        words = [f"w{rng.randrange(500)}" for _ in range(rng.randrange(8, 60))]
        for _ in range(rng.randrange(1, 7)):
            found.append(" ".join(words))
            for _ in range(rng.randrange(1, 3)):
                words[rng.randrange(len(words))] = f"w{rng.randrange(500)}"
    around = [f"{found[0]} {rng.choice(found)} {rng.choice(found)}" for _ in range(3)]  # reprints with more around them
    return [*found, *around, ""]


def random_crawl(rng: random.Random, urls: list[str], pool: list[str], settings: Settings) -> Crawl:
    url, version = rng.choice(urls), rng.randrange(1, 60)
    kind = rng.choices(("content", "redirect", "revisit", "gone", "seen"), (12, 3, 3, 1, 1))[0]
    popularity = rng.choice((None, None, 0.5, 8.0))
    others = [other for other in urls if other != url]
    if kind == "redirect" or (kind == "revisit" and others):
        target, digest = rng.choice(others or urls), rng.choice(("", "", *DIGESTS))
        return Crawl(url, version, kind, target=target, popularity=popularity, digest=digest)  # type: ignore[arg-type]
    if kind not in ("content", "revisit"):
        return Crawl(url, version, kind, popularity=popularity)  # type: ignore[arg-type]
    page = content(url, version, rng.choice(pool), popularity, with_code=settings.containment == "all")
    canonical, digest = rng.choice(("self", "none", f"{url}/named")), rng.choice(("", "", *DIGESTS))
    return msgspec.structs.replace(page, canonical=canonical, digest=digest)  # type: ignore[arg-type]


def content(url: str, version: int, text: str, popularity: float | None = None, *, with_code: bool) -> Crawl:
    """A page whose feature code has a character for each of its words."""
    code = "".join(chr(0x4E00 + int(word[1:])) for word in text.split())
    signature = msgspec.structs.replace(sign(text, "en"), code=code if with_code else "")
    return Crawl(url, version, "content", signature=signature, popularity=popularity)


def random_sends(seed: int, settings: Settings) -> list[Send]:
    rng = random.Random(seed)
    urls = [f"http://{rng.choice(SITES)}/{rng.choice('pq')}/{number}" for number in range(rng.randrange(2, 40))]
    pool = texts(rng)
    sends = []
    for _ in range(rng.randrange(1, 120)):
        if rng.random() < 0.05:
            on = rng.choice(("group", "site"))
            word = Decision(rng.choice(urls), rng.randrange(60), on, rng.choice((None, 0.0, 0.8)))  # type: ignore[arg-type]
            sends.append(Send(PAGES, word.url, word))
        elif rng.random() < 0.05:
            kept = PageDecision(rng.choice(urls), rng.randrange(60), rng.random() < 0.7)
            sends.append(Send(PAGES, kept.url, kept))
        elif rng.random() < 0.1:
            one, other = rng.sample(urls, 2)
            same = PairDecision(one, rng.randrange(60), other, rng.random() < 0.8)
            sends.append(Send(PAGES, same.url, same))
        else:
            crawl = random_crawl(rng, urls, pool, settings)
            sends.append(Send(PAGES, crawl.url, crawl))
    return sends


@pytest.mark.parametrize("seed", range(60))
def test_random_histories(seed: int, tmp_path: Path) -> None:
    settings = Settings(
        threshold=(0.6, 0.8, 0.9)[seed % 3],
        partitions=1 + seed % 4,
        anchor_distance=(0.0, 0.2)[seed % 2],
        containment=("off", "all")[seed % 2],
        containment_share=0.5,
        group_size_max=(3, 100)[seed % 2],
        site_pages_min=2,
        markets=(Market(), BY_AGE) if seed % 5 == 0 else (Market(),),
    )
    kept, once = outcomes(random_sends(seed, settings), settings, tmp_path)
    assert once == kept


def test_a_page_within_a_longer_one(tmp_path: Path) -> None:
    settings = Settings(containment="all", containment_share=0.5)
    rng = random.Random(0)
    part, before, behind = (" ".join(f"w{rng.randrange(500)}" for _ in range(80)) for _ in range(3))
    pages = {"http://a.example/part": part, "http://b.example/all": f"{before} {part} {behind}"}
    sends = [Send(PAGES, url, content(url, 1, text, with_code=True)) for url, text in pages.items()]
    kept, once = outcomes(sends, settings, tmp_path)
    assert once == kept
    assert b'"contained"' in kept["status.jsonl"]


# ---------------------------------------------------------------- its edges


def test_nothing_to_read(tmp_path: Path) -> None:
    kept, once = outcomes([], Settings(), tmp_path)
    assert once == kept


@pytest.mark.parametrize("count", [COLUMNS_AT_ONCE - 1, COLUMNS_AT_ONCE, COLUMNS_AT_ONCE + 1])
def test_as_many_contents_as_are_taken_at_once(count: int) -> None:
    contents = Contents(0.9, MemorySpool)
    one, other = sign("one two three four five six"), sign("seven eight nine")
    for number in range(count):
        contents.add(one if number % 2 else other)
    columns = contents.columns()
    assert {len(column) for column in columns[:-1]} == {count}
    assert contents.shingle_bytes(count - 1) == (other if count % 2 else one).shingles


@pytest.mark.parametrize("known_max", [0, 2, 100])
def test_copies_share_their_shingles(known_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dustream.core.once.contents.COPIES_KNOWN_MAX", known_max)
    contents = Contents(0.9, MemorySpool)
    pages = [sign(text) for text in ("one two three four five six", "seven eight nine ten", "eleven twelve") * 3]
    for page in pages:
        contents.add(page)
    assert [contents.shingle_bytes(number) for number in range(9)] == [page.shingles for page in pages]
    assert contents.lengths().tolist() == [len(page.shingles) // 8 for page in pages]
    columns = contents.columns()
    for number, page in enumerate(pages):
        assert columns.shingles[columns.starts[number] : columns.ends[number]].tobytes() == page.shingles
    distinct = sum(len(page.shingles) for page in pages[:3])
    assert (columns.shingles.nbytes == distinct) == (known_max == 100)


@pytest.mark.parametrize("memory_bytes_max", [0, 1 << 14, MEMORY_BYTES_MAX])
def test_shingles_in_a_file_or_in_memory(
    memory_bytes_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them in the file, all but the last few kilobytes, none; read by one thread or by several."""
    sends = web_sends(4, TextSource())
    monkeypatch.setattr("dustream.streams.resident.RESIDENT_BYTES_MAX", 0)  # everything is dropped all the time
    monkeypatch.setattr("dustream.core.once.containing.TERMS_AT_ONCE", 1 + memory_bytes_max)
    monkeypatch.setattr("dustream.core.once.containing.PAGES_AT_ONCE", 10 + memory_bytes_max)
    monkeypatch.setattr("dustream.core.once.outcome.PAGES_AT_ONCE", 10 + memory_bytes_max)
    new_spool = partial(FileSpool, tmp_path, memory_bytes_max)
    engines = OnceEngine(Settings(), MemorySpool), OnceEngine(Settings(), new_spool, jobs=3)
    for engine in engines:
        engine.run([Feed(sends)])
        engine.close()
    assert len(stars.compiled_types) == 1  # type: ignore[attr-defined]  # compiled once for both
    one, other = ([msgspec.json.encode(each) for each in engine.statuses()] for engine in engines)
    assert one == other and len(one) > 300
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("memory_bytes_max", [0, 1 << 10])
def test_words_are_read_while_more_are_appended(memory_bytes_max: int, tmp_path: Path) -> None:
    spool, memory = FileSpool(tmp_path, memory_bytes_max), MemorySpool()
    for number in range(300):
        for each in (spool, memory):
            each.append(bytes([number % 256]) * 8)
        if number % 100 == 0:
            assert spool.all().tobytes() == memory.all().tobytes()
    assert spool.piece(8, 80) == memory.piece(8, 80) == memory.all()[1:10].tobytes()
    spool.close()


def test_what_the_system_does_not_write_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def writes_some(file: int, parts: list[bytes]) -> int:
        return os.write(file, b"".join(parts)[:100])

    monkeypatch.setattr("dustream.streams.once.spool.os.writev", writes_some)
    spool, memory = FileSpool(tmp_path, 8 * 2 * PARTS_MAX), MemorySpool()
    for number in range(5 * PARTS_MAX):
        for each in (spool, memory):
            each.append(number.to_bytes(8))
    assert spool.all().tobytes() == memory.all().tobytes()
    spool.close()


def test_representatives_need_the_way_there() -> None:
    with pytest.raises(BadSetting, match="leave --once out"):
        OnceEngine(Settings(small_changes="representative"), MemorySpool)


def test_a_word_on_a_site_counts_though_it_is_held_at_first(tmp_path: Path) -> None:
    """More sites than are told at once, so that a site is held before the word on it is heard."""
    text = "one two three four five six seven eight nine"
    pages = [(f"http://s{site}.example/{page}", f"{text} {page}") for site in range(1_100) for page in range(2)]
    sends = [Send(PAGES, url, content_of(url, text)) for url, text in pages]
    word = Decision("http://s3.example/", 5, "site", 0.0)
    kept, once = outcomes([*sends, Send(PAGES, word.url, word)], Settings(site_pages_min=2, partitions=1), tmp_path)
    assert once == kept
    assert b"s4.example" in kept["alarms.jsonl"] and b"s3.example" not in kept["alarms.jsonl"]


def content_of(url: str, text: str) -> Crawl:
    return Crawl(url, 1, "content", signature=sign(text, "en"))


def test_a_processor_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no rules today")

    monkeypatch.setattr(rule_learning, "learned_rules", fail)
    engine = OnceEngine(Settings(), MemorySpool)
    engine.run([Feed(web_sends(4, TextSource()))])
    outcome = write_outcome(engine, tmp_path)
    assert outcome.rejected == 1 and outcome.groups > 30
    assert b"no rules today" in (tmp_path / "rejected.jsonl").read_bytes()
