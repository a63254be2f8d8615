"""Feature codes: Tables II to IV of Guo et al. in shape, and search as codes grow: `python bench/codes.py [--quick]`.

On the Chinese pages of two real collections (where DUSTREAM_DATA names them) and on generated reprints whose truth is
known. On real pages a pair counts as right if the page kept has three quarters of the 5-character shingles of what is
compared of the page dropped: a measure that knows nothing of codes. *Lost* is how much of these the page kept does not
have, on average: what is lost by dropping.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from code_search.code_index import ContainmentIndex
from pages import data_folder, real_pages
from result_files import Table, write_result

from dustream.core.text.code_parameters import DEFAULT_ANCHORS
from dustream.core.text.feature_code import feature_code, purify
from dustream.core.text.repeatability import information_loss_max, repeatability
from dustream.core.text.scan import scan

DELTAS = (0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 1.00)
REAL_CHINESE = ("A_dolphinscheduler_zh_en", "C_pages_multisite")
SHINGLE_CHARS = 5
RIGHT_SHARE_MIN = 0.75
HALF_STRING_CHARS = 5  # L/2 of M2 and M3
LENGTH_TOLERANCE = 0.05  # of M3
LOSS_PAIRS = 1_000


class Page(NamedTuple):
    """A page of a corpus; `article` is what it is a reprint of, "" where nobody knows."""

    title: str
    text: str
    article: str = ""


class Found(NamedTuple):
    """Pairs (dropped, kept), of how many pages that had something to compare, and processor seconds."""

    pairs: list[tuple[int, int]]
    effective: int
    seconds: float


Method = Callable[[Sequence[Page]], Found]


# Methods


def equal(key: Callable[[Page], str]) -> Method:
    """Drop a page whose key an earlier one has; pages without a key are not compared."""

    def method(pages: Sequence[Page]) -> Found:
        started = time.process_time()
        first: dict[str, int] = {}
        keys = [key(page) for page in pages]
        pairs = [
            (number, first[each])
            for number, each in enumerate(keys)
            if each and first.setdefault(each, number) != number
        ]
        return Found(pairs, sum(map(bool, keys)), time.process_time() - started)

    return method


def fuzzy(delta: float) -> Method:
    """Section III.C: from the longest code to the shortest, drop what repeats a page that is kept."""

    def method(pages: Sequence[Page]) -> Found:
        started = time.process_time()
        codes = [code_of(page) for page in pages]
        index, pairs = ContainmentIndex(delta), []
        for number in sorted(range(len(pages)), key=lambda each: (-len(codes[each]), each)):
            code = codes[number]
            share, kept = max(
                ((found.common / len(code), -int(found.key)) for found in index.search(code)), default=(0.0, 0)
            )
            if share >= delta:
                pairs.append((number, -kept))
            else:
                index.put(str(number), code)
        return Found(pairs, sum(map(bool, codes)), time.process_time() - started)

    return method


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def purified(page: Page, chars_max: int = 1 << 30) -> str:
    return "".join(purify(page.text, chars_max).paragraphs)


def code_of(page: Page) -> str:
    return feature_code(page.text).code


def shared_strings(strings_of: Callable[[Page], list[str]], scope: Callable[[Page], str], of_all: bool) -> Method:
    """Older methods: in the order of arrival, drop a page that has .75 of its strings, or of those of the page with
    fewer, in common with a page that is kept and in its scope."""

    def method(pages: Sequence[Page]) -> Found:
        started = time.process_time()
        kept: dict[tuple[str, str], list[int]] = {}
        strings = [frozenset(strings_of(page)) for page in pages]
        pairs = []
        for number, mine in enumerate(strings):
            within = scope(pages[number])
            keys = [(within, each) for each in mine]
            common = Counter(other for key in keys for other in kept.get(key, ()))
            least = {other: (max if of_all else min)(len(mine), len(strings[other])) for other in common}
            found = min((other for other, count in common.items() if count >= 0.75 * least[other]), default=None)
            if found is not None:
                pairs.append((number, found))
                continue
            for key in keys:
                kept.setdefault(key, []).append(number)
        return Found(pairs, sum(map(bool, strings)), time.process_time() - started)

    return method


def beside_periods(page: Page) -> list[str]:
    """M2, reference [15]: strings of L/2 characters on both sides of the periods. A text without any has none."""
    pieces = purified(page).split("。")
    return [left[-HALF_STRING_CHARS:] + right[:HALF_STRING_CHARS] for left, right in pairwise(pieces)]


def beside_marks(page: Page) -> list[str]:
    """M3, reference [16]: "similar", and no page was without: the same beside all marks, and beside the beginning."""
    pieces = ["", *re.split(f"[{re.escape(DEFAULT_ANCHORS['zh'])}]+", purified(page))]
    return [left[-HALF_STRING_CHARS:] + right[:HALF_STRING_CHARS] for left, right in pairwise(pieces) if left or right]


def beginning_and_length(page: Page) -> str:
    """M3's "too many restrictions in reducing the comparison scope": here one beginning and about one length."""
    text = purified(page)
    return f"{text[:HALF_STRING_CHARS]} {round(math.log(len(text) or 1) / LENGTH_TOLERANCE)}"


TABLE_II: dict[str, Method] = {
    "I    title": equal(lambda page: page.title),
    "II   MD5 of the text": equal(lambda page: md5(page.text)),
    "III  MD5 of the purified text": equal(lambda page: md5(purified(page))),
    "IV   exact code": equal(code_of),
    "V    fuzzy code, δ = .75": fuzzy(0.75),
    "V    fuzzy code, δ = .85": fuzzy(0.85),
}
TABLE_III: dict[str, Method] = {
    "M1   fuzzy code, δ = .75": fuzzy(0.75),
    "M2   strings beside periods [15]": shared_strings(beside_periods, lambda page: "", of_all=False),
    "M3   marks, limited scope [16]": shared_strings(beside_marks, beginning_and_length, of_all=True),
}
TABLE_IV: dict[str, Method] = {f"δ = {delta:.2f}": fuzzy(delta) for delta in DELTAS}


# Truth


def shingles(text: str) -> set[str]:
    return {text[at : at + SHINGLE_CHARS] for at in range(max(1, len(text) - SHINGLE_CHARS + 1))}


def is_right(pages: Sequence[Page], dropped: int, kept: int) -> bool:
    if pages[dropped].article:
        return pages[dropped].article == pages[kept].article
    return lost_share(pages, dropped, kept) <= 1 - RIGHT_SHARE_MIN


def lost_share(pages: Sequence[Page], dropped: int, kept: int) -> float:
    """What the page kept does not have of what is compared of the page dropped."""
    wanted = shingles(purified(pages[dropped], 1_000))
    return len(wanted - shingles(purified(pages[kept]))) / len(wanted)


# Corpora


def chinese_pages(name: str) -> list[Page]:
    pages = []
    for event in real_pages(name):
        found = scan(event.html or "")
        if feature_code(found.text).language == "zh":
            pages.append(Page(found.title, found.text))
    return pages


class Prose:
    """Chinese-looking text: characters as frequent as a character of that rank is in Chinese (1/rank)."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._characters = [chr(0x4E00 + 5 * rank) for rank in range(3_500)]
        self._weights = list(accumulate(1 / (rank + 10) for rank in range(3_500)))

    def characters(self, count: int) -> str:
        return "".join(self.chance.choices(self._characters, cum_weights=self._weights, k=count))

    def paragraph(self, chars: int) -> str:
        text = ""
        while len(text) < chars:
            text += self.characters(self.chance.randrange(5, 22)) + self.chance.choices("，。、", (60, 33, 7))[0]
        return text[:-1] + "。"

    def article(self) -> list[str]:
        return [self.paragraph(self.chance.randrange(60, 520)) for _ in range(self.chance.randrange(1, 7))]


def reprint(prose: Prose, article: list[str]) -> list[str]:
    """As others print it: whole, cut, with an advert in front, with links or comments after it."""
    chance = prose.chance
    paragraphs = list(article)
    if len(paragraphs) > 2 and chance.random() < 0.3:
        paragraphs = paragraphs[: chance.randrange(2, len(paragraphs))]
    if chance.random() < 0.5:
        paragraphs.insert(0, prose.characters(chance.randrange(6, 40)))
    if chance.random() < 0.3:
        paragraphs.insert(chance.randrange(len(paragraphs) + 1), prose.characters(chance.randrange(6, 60)))
    if chance.random() < 0.5:
        paragraphs += [prose.characters(chance.randrange(4, 16)) for _ in range(chance.randrange(1, 6))]
    if chance.random() < 0.25:
        paragraphs += [prose.paragraph(chance.randrange(30, 200)) for _ in range(chance.randrange(1, 8))]
    return paragraphs


def filled_in(prose: Prose, pattern: str) -> str:
    """The paper's figure 5(b): another text in the same sentences, only words in their middle differ."""
    parts = pattern.split("，")
    return "，".join(part[:3] + prose.characters(3) + part[6:] if len(part) > 9 else part for part in parts)


def generated_reprints(count: int, seed: int = 3) -> list[Page]:
    """`count` pages: articles, three in ten of them reprinted elsewhere, and two in a thousand filled-in forms."""
    prose = Prose(seed)
    chance = prose.chance
    pages: list[Page] = []
    while len(pages) < count:
        name, title, article = str(len(pages)), prose.characters(chance.randrange(4, 18)), prose.article()
        pages.append(Page(title, "\n".join(article), name))
        if chance.random() < 0.3:
            for _ in range(chance.randrange(1, 4)):
                shown = title if chance.random() < 0.6 else prose.characters(8)
                pages.append(Page(shown, "\n".join(reprint(prose, article)), name))
        if chance.random() < 0.003:
            other = "\n".join(filled_in(prose, paragraph) for paragraph in article)
            pages.append(Page(title, other, name + " filled in"))
        if chance.random() < 0.02:  # a column's name is the title of many different pages
            pages.append(Page("专栏", "\n".join(prose.article()), name + " column"))
    chance.shuffle(pages)
    return pages


# Output


COLUMNS = ["method", "effective", "dropped", "removal", "precision", "lost", "µs a page"]


def measured(corpus: str, name: str, pages: Sequence[Page], methods: dict[str, Method]) -> Table:
    rows = []
    for label, method in methods.items():
        found = method(pages)
        right = sum(is_right(pages, *pair) for pair in found.pairs)
        precision = f"{right / len(found.pairs):.2%}" if found.pairs else "-"
        some = found.pairs[:: max(1, len(found.pairs) // LOSS_PAIRS)]
        lost = sum(lost_share(pages, *pair) for pair in some) / max(1, len(some))
        rate, each = len(found.pairs) / max(found.effective, 1), found.seconds / len(pages) * 1e6
        shown = " ".join(label.split())
        rows.append([shown, found.effective, len(found.pairs), f"{rate:.2%}", precision, f"{lost:.2%}", round(each)])
    return printed(Table(f"{corpus}, {len(pages):,} pages: {name}", COLUMNS, rows))


def printed(table: Table) -> Table:
    print(f"\n{table.title}\n\n{table.markdown()}", flush=True)
    return table


def tables_of(corpus: str, pages: Sequence[Page]) -> list[Table]:
    fuzzy(0.75)(pages[:50])  # compiled before it is timed
    named = {"Table II": TABLE_II, "Table III": TABLE_III, "Table IV": TABLE_IV}
    return [measured(corpus, name, pages, methods) for name, methods in named.items()] + [losses(corpus, pages)]


def losses(corpus: str, pages: Sequence[Page]) -> Table:
    """Section III.D: what is lost of the codes of dropped pages, and what may be lost at most."""
    codes = [code_of(page) for page in pages]
    rows = []
    for delta in DELTAS:
        pairs = fuzzy(delta)(pages).pairs
        lost = sum(len(codes[one]) * (1 - repeatability(codes[one], codes[other])) for one, other in pairs)
        dropped = [len(codes[one]) for one, _ in pairs]
        most = information_loss_max(delta, dropped)
        total = max(1, sum(dropped))
        rows.append([f"{delta:.2f}", f"{lost / total:.2%}", f"{most / total:.0%}"])
    return printed(Table(f"{corpus}: what the codes of dropped pages lose", ["δ", "lost", "bound of III.D"], rows))


def random_codes(count: int, seed: int) -> Iterator[str]:
    prose = Prose(seed)
    for _ in range(count):
        yield prose.characters(prose.chance.randrange(12, 60))


def growth(sizes: Sequence[int], asked: int = 2_000) -> Table:
    rows = []
    index, number, stream = ContainmentIndex(0.75), 0, random_codes(max(sizes), 1)
    for size in sizes:
        while number < size:
            index.put(str(number), next(stream))
            number += 1
        codes, compared = list(random_codes(asked, size)), index.compared
        times = [time.process_time()]
        for code in codes:
            index.search(code)
        times.append(time.process_time())
        for at, code in enumerate(codes):
            index.put(f"new {at}", code)
        times.append(time.process_time())
        for at in range(asked):
            index.remove(f"new {at}")
        times.append(time.process_time())
        each = [(end - start) / asked * 1e6 for start, end in pairwise(times)]
        met = (index.compared - compared) / asked
        rows.append([size, *(round(us, 1) for us in each), round(met, 2), round(index.bytes_used / size)])
    columns = ["codes", "search", "put", "remove", "compared", "bytes a code"]
    return printed(Table("Codes of 12 to 59 characters, µs of processor each", columns, rows))


def main() -> None:
    quick = "--quick" in sys.argv
    tables = tables_of("Generated reprints", generated_reprints(2_000 if quick else 20_000))
    if data_folder() is not None:
        for name in REAL_CHINESE:
            tables += tables_of(f"Chinese pages of {name}", chinese_pages(name))
    tables.append(growth((1_000, 10_000) if quick else (10_000, 30_000, 100_000, 300_000, 1_000_000)))
    if not quick:
        write_result("codes", tables)


if __name__ == "__main__":
    main()
