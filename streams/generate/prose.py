"""Texts: words drawn by Zipf's law from a site's vocabulary, lengths skewed like those of a real crawl, and edits.

A text is a row of 16-bit codes (word and written form, see languages.py), so that a site's texts are drawn in a few
array operations and an edit is a change of codes.

An edit is bounded by the share of shingles it touches: with k = 5 tokens a shingle and k − 1 dummy tokens appended, a
text of n tokens has n shingles, a substituted token touches at most 5 of them and a substituted first token touches 1.
If b of n shingles are lost and b gained, Jaccard is (n − b) / (n + b). Near duplicates are kept clearly above τ = .9,
related texts clearly below; what falls between is marked grey.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from dustream.streams.generate.draws import Draws, lookup_table
from dustream.streams.generate.languages import (
    FORM_COMMA,
    FORM_PARAGRAPH_END,
    FORM_PLAIN,
    FORM_SENTENCE_END,
    FORM_SENTENCE_START,
    Language,
    vocabulary,
)

Codes = NDArray[np.uint16]

SHINGLE_TOKENS = 5
PAGE_WORDS_MIN, PAGE_WORDS_MAX, PAGE_WORDS_MODE = 20, 1686, 237
SITE_WORDS_MAX = 5_000
TITLE_WORDS_MIN, TITLE_WORDS_MAX = 5, 9
DRAFTS_PER_BATCH = 64

SPIKES = ((31, 8), (58, 5), (96, 6), (140, 5), (236, 10), (237, 30), (238, 10), (305, 6), (412, 5), (640, 3), (1000, 2))
"""Sizes that templates make frequent, and how many times as frequent: the spikes of Zhu's Figure 1."""


@dataclass(frozen=True, eq=False)
class Text:
    """A page's main text. Texts of one cluster are near duplicates of each other; `exact` numbers distinct texts."""

    language: Language
    title: Codes
    body: Codes
    cluster: int
    exact: int
    grey: bool = False

    @property
    def words(self) -> int:
        return len(self.title) + len(self.body)

    @cached_property
    def title_html(self) -> str:
        return written(self.language, self.title).strip()

    @cached_property
    def body_html(self) -> str:
        return f"<p>{written(self.language, self.body).rstrip()}</p>"


def written(language: Language, codes: Codes) -> str:
    forms = vocabulary(language.code).forms
    return "".join(forms[codes].tolist())


@cache
def page_lengths() -> NDArray[np.int64]:
    """Lookup table of page lengths in words: Zhu et al., Figure 1 (20 to 1686 words, concentrated around 237, spikes).

    The bell is rational (Lorentz), narrow to the left and wide to the right, so that it is exact in integers.
    """
    sizes = np.arange(PAGE_WORDS_MIN, PAGE_WORDS_MAX + 1, dtype=np.int64)
    width_squared = np.where(sizes < PAGE_WORDS_MODE, 90 * 90, 190 * 190)
    weights = (1_000_000 * width_squared) // (width_squared + (sizes - PAGE_WORDS_MODE) ** 2)
    for size, times in SPIKES:
        weights[size - PAGE_WORDS_MIN] *= times
    return lookup_table(sizes, weights)


def zipf_weights(size: int) -> NDArray[np.int64]:
    """Zipf–Mandelbrot weights 1 / (rank + 2.7), scaled to integers."""
    return (1 << 40) // (10 * np.arange(size, dtype=np.int64) + 27)


class Prose:
    """The writer of one site: its own choice of words in its own order of frequency."""

    def __init__(self, language: Language, draws: Draws) -> None:
        self.language = language
        self._draws = draws
        self._size = vocabulary(language.code).size
        self._table = self._site_words().astype(np.uint16)
        self._drafts: list[Codes] = []

    def _site_words(self) -> NDArray[np.int64]:
        """The language's common words keep their rank; the site's topic orders the others."""
        common = vocabulary(self.language.code).common_count
        others = self._size - common
        order = np.argsort(self._draws.array(others), kind="stable")[:SITE_WORDS_MAX] + common
        words = np.concatenate([np.arange(common), order])
        return lookup_table(words, zipf_weights(len(words)))

    def draft(self) -> Codes:
        """A text of a length as Zhu's Figure 1 has it."""
        if not self._drafts:
            lengths = page_lengths()[self._draws.array_16_bit(DRAFTS_PER_BATCH)]
            codes = self._sentences(lengths)
            self._drafts = np.split(codes, np.cumsum(lengths)[:-1])
        return self._drafts.pop()

    def draft_of(self, words: int) -> Codes:
        return self._sentences(np.array([words]))

    def words(self, draws: Draws, count: int) -> list[str]:
        """Single words, for menus and advertisements; drawn apart, so that the texts do not depend on the markup."""
        names = vocabulary(self.language.code).words
        return [names[word] for word in self._table[draws.array_16_bit(count)].tolist()]

    def _sentences(self, lengths: NDArray[np.int64]) -> Codes:
        """Texts of the given lengths, one after the other, cut into sentences of 6–21 words and into paragraphs."""
        total = int(lengths.sum())
        forms = np.full(total, FORM_PLAIN, dtype=np.uint16)
        forms[self._draws.array_16_bit(total) < 5_000] = FORM_COMMA
        ends = np.cumsum(self._draws.array_below(16, total // 6 + 1) + 6)
        ends = ends[ends < total]
        forms[ends - 1] = FORM_SENTENCE_END
        forms[ends[self._draws.array_below(4, len(ends)) == 0] - 1] = FORM_PARAGRAPH_END
        forms[ends] = FORM_SENTENCE_START
        stops = np.cumsum(lengths)
        forms[stops - 1] = FORM_SENTENCE_END
        forms[stops - lengths] = FORM_SENTENCE_START
        return self._table[self._draws.array_16_bit(total)] + forms * np.uint16(self._size)


class Library:
    """Numbers the texts of a part of the web, and makes new ones from old ones."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self._texts = 0
        self._clusters = 0

    def new(self, language: Language, codes: Codes) -> Text:
        """A text of its own: the first words are the title."""
        self._clusters += 1
        return self._text(language, codes, self._draws.between(TITLE_WORDS_MIN, TITLE_WORDS_MAX), self._clusters)

    def near(self, text: Text, touched_share_per_mille: int) -> Text:
        """A near duplicate that loses at most this share of its shingles; a very short text stays as it is."""
        touched = text.words * touched_share_per_mille // 1000
        return self._edited(text, touched // SHINGLE_TOKENS, touched % SHINGLE_TOKENS, grey=text.grey)

    def grey(self, text: Text) -> Text:
        """A copy about at the threshold: 5 % of the shingles lost, Jaccard about .9."""
        return self._edited(text, max(1, text.words // 100), 0, grey=True)

    def related(self, text: Text, prose: Prose) -> Text:
        """The same story with passages of its own (a fifth to a half is replaced, Jaccard below .7): no duplicate."""
        body = text.body.copy()
        replaced = len(body) * self._draws.between(220, 480) // 1000
        start = self._draws.below(len(body) - replaced + 1)
        body[start : start + replaced] = prose.draft_of(replaced)
        self._clusters += 1
        return self._text(text.language, np.concatenate([text.title, body]), len(text.title), self._clusters)

    def windows(self, prose: Prose, pages: int) -> list[Text]:
        """A chain: each page's list is the one before moved on by a few entries, as in calendars and result pages.

        Neighbours lose the s words moved plus the shingles over the seams (4 after the title, 4 at the end): 3.7 %,
        Jaccard .929. Pages four apart are at .81 or less, so a chain without three of its pages is two chains.
        """
        words = self._draws.between(600, 1200)
        step = words * 37 // 1000 - 2 * (SHINGLE_TOKENS - 1)
        title = prose.draft_of(TITLE_WORDS_MIN)
        strip = prose.draft_of(words - len(title) + step * (pages - 1))
        self._clusters += 1
        return [
            self._text(
                prose.language,
                np.concatenate([title, strip[i * step : i * step + words - len(title)]]),
                len(title),
                self._clusters,
            )
            for i in range(pages)
        ]

    def regrouped(self, texts: list[Text]) -> list[Text]:
        """The same texts as a cluster of their own: what is left of a chain beyond a gap."""
        self._clusters += 1
        return [Text(t.language, t.title, t.body, self._clusters, t.exact, t.grey) for t in texts]

    def _text(self, language: Language, codes: Codes, title_words: int, cluster: int, grey: bool = False) -> Text:
        self._texts += 1
        return Text(language, codes[:title_words], codes[title_words:], cluster, self._texts, grey)

    def _edited(self, text: Text, in_body: int, in_title: int, grey: bool) -> Text:
        if in_body + in_title == 0:
            return text
        codes = np.concatenate([text.title, text.body])
        places = [len(text.title) + self._draws.below(len(text.body)) for _ in range(in_body)]
        for place in [*range(in_title), *places]:
            codes[place] = self._other_word(text.language, int(codes[place]))
        return self._text(text.language, codes, len(text.title), text.cluster, grey)

    def _other_word(self, language: Language, code: int) -> int:
        """Another word in the same written form."""
        size = vocabulary(language.code).size
        form, word = divmod(code, size)
        return form * size + (word + 1 + self._draws.below(size - 1)) % size
