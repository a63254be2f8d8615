"""Tables II to IV of Guo et al. on pages that separate the methods: `python bench/guo.py [--pages N]`.

Four generated news sites with as many pages as the paper has (25,476), in Chinese-looking text whose truth is known:

- *reprints*, whole or in parts, with adverts, links and comments around them;
- *columns*: pages with their own text under one title (the site's, or the column's), which a title takes for the same;
- *forms*: reports in the same sentences with other words and figures in them (the paper's figure 5(b)), which strings
  beside punctuation take for the same.

A pair is right if both pages show one article and the page kept has three quarters of what the page dropped shows of
it, in 5-character shingles: a whole article dropped for a part of it is wrong, as in the paper; adverts and comments do
not count. Figures go to bench/results/guo.json.
"""

from __future__ import annotations

import argparse
import sys
from typing import NamedTuple

from codes import TABLE_II, TABLE_III, TABLE_IV, Found, Method, Page, Prose, fuzzy, purified, reprint, shingles
from result_files import Table, write_result

PAPER_PAGES = 25_476
LOST_SHARE_MAX = 0.25
SITES = 4
COLUMNS_PER_SITE = 3
# Of 1,000 pages that begin a family; the rest are articles that nobody reprints.
REPRINTED, IN_PARTS, COLUMN, FORM = 45, 20, 45, 8
FORM_COPIES = (2, 5)


class InPaper(NamedTuple):
    """What the paper has of a method."""

    removal: str = ""
    precision: str = ""
    seconds: str = ""


IN_PAPER = {
    "I": InPaper("6.30 %", "34.84 %", "32"),
    "II": InPaper("2.68 %", "100 %", "36"),
    "III": InPaper("2.93 %", "100 %", "43"),
    "IV": InPaper("5.53 %", "99.29 %", "36"),
    "V": InPaper("6.94 %", "99.03 %", "44"),
    "M1": InPaper("6.94 %", "99.03 %"),
    "M2": InPaper("9.96 %", "85.37 %"),
    "M3": InPaper("4.60 %", "94.92 %"),
    "δ = 0.70": InPaper("7.03 %", "98.78 %"),
    "δ = 0.75": InPaper("6.94 %", "99.03 %"),
    "δ = 0.80": InPaper("6.70 %", "99.06 %"),
    "δ = 0.85": InPaper("6.51 %", "99.10 %"),
    "δ = 0.90": InPaper("6.11 %", "99.17 %"),
    "δ = 0.95": InPaper("5.70 %", "99.24 %"),
    "δ = 1.00": InPaper("5.53 %", "99.29 %"),
}
"""By the number of the method, or of Table IV by the threshold."""


def page_of(title: str, paragraphs: list[str], article: list[str]) -> Page:
    """A page, and the article that it shows, as it is compared."""
    whole = Page("", "\n".join(article))
    return Page(title, "\n".join(paragraphs), purified(whole))


class NewsWeb:
    """Draws the pages of the four sites."""

    def __init__(self, seed: int) -> None:
        self._prose = Prose(seed)
        self._chance = self._prose.chance
        self._columns = [[self._title() for _ in range(COLUMNS_PER_SITE)] for _ in range(SITES)]

    def pages(self, count: int) -> list[Page]:
        found: list[Page] = []
        while len(found) < count:
            found += self._family()
        self._chance.shuffle(found)
        return found[:count]

    def _title(self) -> str:
        return self._prose.characters(self._chance.randrange(6, 18))

    def _family(self) -> list[Page]:
        drawn, title, article = self._chance.randrange(1_000), self._title(), self._prose.article()
        kinds = (self._reprints, REPRINTED), (self._parts, IN_PARTS), (self._column, COLUMN), (self._forms, FORM)
        for kind, share in kinds:
            if drawn < share:
                return kind(title, article)
            drawn -= share
        return [page_of(title, article, article)]

    def _reprints(self, title: str, article: list[str]) -> list[Page]:
        """Half of them to the letter."""
        copies = [
            article if self._chance.random() < 0.5 else reprint(self._prose, article)
            for _ in range(self._chance.randrange(1, 3))
        ]
        shown = [title if self._chance.random() < 0.4 else self._title() for _ in copies]
        return [page_of(each, text, article) for each, text in zip((title, *shown), (article, *copies), strict=True)]

    def _parts(self, title: str, article: list[str]) -> list[Page]:
        """The whole, and a part of it with an advert."""
        whole = [*article, *(self._prose.paragraph(200) for _ in range(3))]
        part = [*whole[: max(1, len(whole) * 7 // 10)], self._prose.characters(40)]
        return [page_of(title, whole, whole), page_of(self._title(), part, whole)]

    def _column(self, title: str, article: list[str]) -> list[Page]:
        return [page_of(self._chance.choice(self._chance.choice(self._columns)), article, article)]

    def _forms(self, title: str, article: list[str]) -> list[Page]:
        """Reports by one pattern, each of its own day."""
        count = self._chance.randrange(*FORM_COPIES)
        reports = [[self._other_words(paragraph) for paragraph in article] for _ in range(count)]
        return [page_of(self._title(), report, report) for report in reports]

    def _other_words(self, paragraph: str) -> str:
        """Words in the middle of sentences differ, and now and then those at their ends."""
        parts = paragraph.split("，")
        for at, part in enumerate(parts):
            if len(part) > 9:
                parts[at] = part[:3] + self._prose.characters(4) + part[7:]
            if self._chance.random() < 0.12:
                parts[at] = self._prose.characters(len(part))
        return "，".join(parts)


def is_right(pages: list[Page], dropped: int, kept: int) -> bool:
    if pages[dropped].article != pages[kept].article:
        return False
    here, there = (shingles(purified(pages[each])) for each in (dropped, kept))
    wanted = here & shingles(pages[dropped].article)
    return len(wanted - there) <= LOST_SHARE_MAX * len(wanted)


def repeats(pages: list[Page]) -> int:
    """Pages that repeat another one: what a perfect method would drop."""
    by_article: dict[str, list[int]] = {}
    for number, page in enumerate(pages):
        by_article.setdefault(page.article, []).append(number)
    return sum(
        any(is_right(pages, one, other) and (len(pages[one].text), one) <= (len(pages[other].text), other)
            for other in family if other != one)
        for family in by_article.values() for one in family
    )  # fmt: skip


def table(title: str, pages: list[Page], methods: dict[str, Method], to_find: int) -> Table:
    head = ["method", "effective", "dropped", "removal", "precision", "recall", "s", "paper: removal", "precision", "s"]
    rows = [row(label, pages, method(pages), to_find) for label, method in methods.items()]
    return Table(title, head, rows)


def row(label: str, pages: list[Page], found: Found, to_find: int) -> list[str]:
    right = sum(is_right(pages, *pair) for pair in found.pairs)
    paper = IN_PAPER.get(label if label.startswith("δ") else label.split()[0], InPaper())
    if label.endswith("δ = .85"):  # not in Table II of the paper
        paper = InPaper()
    figures = [right / max(len(found.pairs), 1), right / max(to_find, 1)]
    return [
        label,
        f"{found.effective:,}",
        f"{len(found.pairs):,}",
        f"{len(found.pairs) / max(found.effective, 1):.2%}",
        *(f"{each:.2%}" for each in figures),
        f"{found.seconds:.1f}",
        *paper,
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=PAPER_PAGES, help=f"default {PAPER_PAGES:,}, as in the paper")
    args = parser.parse_args()
    pages = NewsWeb(seed=4).pages(args.pages)
    fuzzy(0.75)(pages[:50])  # compiled before it is timed
    to_find = repeats(pages)
    what = f"{len(pages):,} generated news pages, {to_find:,} of which repeat another ({to_find / len(pages):.2%})"
    tables = [
        table(f"Table {number}: {what}", pages, methods, to_find)
        for number, methods in (("II", TABLE_II), ("III", TABLE_III), ("IV", TABLE_IV))
    ]
    for each in tables:
        print(f"\n{each.title}\n\n{each.markdown()}", flush=True)
    if args.pages == PAPER_PAGES:
        write_result("guo", tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
