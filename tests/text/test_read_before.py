"""Pages that were read before are not read again, and nobody can tell from what comes out."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from dustream.core.errors import BadEvent
from dustream.core.intake import reader, take_in
from dustream.core.text import read_before
from dustream.core.text.extractors import DEFAULT_SOURCE, TextSource
from dustream.core.text.one_pass import READ, SEEN, TRACE, one_pass
from dustream.core.text.read_before import ReadBefore
from dustream.core.text.signature import SignedPage, page_signer
from dustream.schemas.crawl import CrawlEvent

WORDS = ("page", "text", "crawler", "stream", "winner", "märz", "重复", "of", "the", "and", "to", "a", "in")


def page(number: int) -> str:
    words = " ".join(random.Random(number).choices(WORDS, k=200))
    return f"<html><p>{words}</p>"


def was_seen(data: bytes) -> bool:
    return bool(one_pass(np.frombuffer(data, dtype=np.uint8), READ | TRACE).result()[SEEN])


class TestTrace:
    def test_a_page_is_seen_when_it_comes_again(self) -> None:
        data = page(1_000_001).encode()
        assert [was_seen(data) for _ in range(3)] == [False, True, True]

    def test_any_change_of_a_byte_and_any_move_of_a_word_is_another_trace(self) -> None:
        """Pages of every length around the steps that the trace is taken in."""
        rng = random.Random(5)
        for size in [*range(1, 20), 63, 64, 65, 255, 256, 257, 511, 512, 700, 1024]:
            data = bytearray(rng.randbytes(size))
            assert not was_seen(bytes(data))
            for at in rng.sample(range(size), min(size, 20)):
                changed = bytearray(data)
                changed[at] ^= 1 << rng.randrange(8)
                assert not was_seen(bytes(changed)), (size, at)
            if size >= 64:
                a, b = (8 * place for place in rng.sample(range(size // 8), 2))
                data[a : a + 8], data[b : b + 8] = data[b : b + 8], data[a : a + 8]
                assert not was_seen(bytes(data)), (size, a, b)


class TestReadings:
    def readings(self, known: ReadBefore, pages: list[str]) -> Iterator[bool]:
        """Of each page whether it was read."""
        direct = page_signer(DEFAULT_SOURCE)
        for each in pages:
            asked: list[str] = []

            def read(each: str = each, asked: list[str] = asked) -> SignedPage:
                asked.append(each)
                return direct(each, None, "")

            found = known.reading(np.frombuffer(each.encode(), dtype=np.uint8), "", read)
            assert found == direct(each, None, "")
            yield bool(asked)

    def test_what_is_kept_is_not_read(self) -> None:
        assert list(self.readings(ReadBefore(), [page(1), page(2), page(1), page(2)])) == [True, True, False, False]

    def test_what_is_kept_is_bounded_and_the_latest(self) -> None:
        known = ReadBefore(kept_bytes_max=10_000)
        assert all(self.readings(known, [page(number) for number in range(20)]))
        assert 0 < known.kept_bytes <= 10_000 and 0 < len(known) < 20
        assert list(self.readings(known, [page(19), page(0)])) == [False, True]


def test_with_a_memory_pages_are_read_as_without_one() -> None:
    rng, read, direct = random.Random(3), reader(DEFAULT_SOURCE), page_signer(DEFAULT_SOURCE)
    kinds = (None, "text/html", "text/plain", "text/html; charset=gb18030")
    for _ in range(400):
        one, lang, kind = page(rng.randrange(12)), rng.choice(["", "de"]), rng.choice(kinds)
        given: str | bytes = one if rng.random() < 0.5 else one.encode(rng.choice(["utf-8", "gb18030"]))
        assert read(given, kind, lang) == direct(given, kind, lang)


def test_the_third_copy_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(read_before, "_size", lambda signed: sizes.append(1) or 1)
    read = reader(DEFAULT_SOURCE)
    for _ in range(5):
        read(page(2_000_001), None, "")
    assert len(sizes) == 1, "a reading is measured when it is first kept"


def test_what_cannot_be_read_cannot_be_read_again() -> None:
    read, huge = reader(DEFAULT_SOURCE), "x" * (9 << 20)
    for _ in range(3):
        with pytest.raises(BadEvent):
            read(huge, None, "")


@pytest.mark.parametrize("source", [DEFAULT_SOURCE, TextSource(codes="all"), TextSource(mode="full")])
def test_a_batch_is_taken_in_the_same(source: TextSource) -> None:
    events = [CrawlEvent(url=f"http://a.example/{n}", fetched_at=n, html=page(n % 4)) for n in range(20)]
    read = reader(source)
    assert take_in(events, source, read) == take_in(events, source) == take_in(events, source, read)
