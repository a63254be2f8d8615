"""Containment among all pages at once: the rules of core/tier2/containers.py, applied from the best page to the
worst."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.containment.candidate_index import CODE_CAP, TERM_CAP, candidate_pairs
from dustream.core.containment.sketch import (
    code_kinds,
    code_terms,
    shingle_kinds,
    sketches_of,
)
from dustream.core.kernels.compile import threaded_kernel
from dustream.core.once.contents import Contents, Spool
from dustream.core.once.records import ONE_THREAD, Threads
from dustream.core.once.rows import Rows
from dustream.core.similarity import intersection_size
from dustream.core.text.repeatability import repeatability
from dustream.core.tier2.containers import ContainmentRules
from dustream.core.vertex import vertex_name
from dustream.core.winners import Markets
from dustream.schemas.pages import Verdict

Ints = NDArray[np.int64]

PAGES_AT_ONCE = 16_384
TERMS_AT_ONCE = 2_000_000
PARTS_PER_THREAD = 4  # of pairs: how long they take differs


class Posted(NamedTuple):
    """A page that is not a duplicate in some market."""

    url: str
    content: int


class _Terms:
    """The terms of pages in parts, each ascending, with the page and the kind of each term. Kept in a spool: there are
    many of a page."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._sizes: list[int] = []

    def __len__(self) -> int:
        return sum(self._sizes)

    def add(self, owners: NDArray[np.int32], terms: NDArray[np.uint64], kinds: NDArray[np.uint8]) -> None:
        order = np.argsort(terms, kind="stable")
        self._spool.append(terms[order].tobytes())
        self._spool.append((owners[order].astype(np.uint64) << np.uint64(8) | kinds[order]).tobytes())
        self._sizes.append(len(terms))

    def ranges(self, count: int) -> Iterator[tuple[NDArray[np.int32], NDArray[np.uint64], NDArray[np.uint8]]]:
        """Owners, terms and kinds, by ranges of terms that have about equally many in the first part."""
        words, ends = self._spool.all(), 2 * np.cumsum(self._sizes)
        parts = [words[end - 2 * size : end].reshape(2, size) for end, size in zip(ends, self._sizes, strict=True)]
        cuts = parts[0][0][[self._sizes[0] * number // count for number in range(1, count)]]
        bounds = [[0, *np.searchsorted(part[0], cuts).tolist(), part.shape[1]] for part in parts]
        for number in range(count):
            some = [part[:, of[number] : of[number + 1]] for part, of in zip(parts, bounds, strict=True)]
            terms, packed = np.concatenate(some, axis=1)
            yield (packed >> np.uint64(8)).astype(np.int32), terms, packed.astype(np.uint8)
            self._spool.release()


class Containing:
    """The containment search. Pages are numbered by their index in `_posted`."""

    def __init__(
        self, rows: Rows, contents: Contents, markets: Markets, rules: ContainmentRules, threads: Threads = ONE_THREAD
    ) -> None:
        self._starts, self._ends, self._shingles = contents.sets()
        self._contents = contents
        self._markets = markets
        self._rules = rules
        self._rows = rows
        self._threads = threads
        self._posted = [Posted(*each) for each in rows.kept_contents() if self._is_looked_at(each[1])]
        self._numbers = np.array([each.content for each in self._posted], dtype=np.int64)
        self._orders: dict[int, tuple[bytes, ...]] = {}

    def found(self) -> Iterator[tuple[str, int, Verdict]]:
        """The verdicts on contained pages: URL, market, verdict."""
        candidates = self._candidates()
        for market in range(len(self._markets.names)):
            for page, verdict in self._contained(candidates, market):
                yield self._posted[page].url, market, verdict

    def _is_looked_at(self, content: int) -> bool:
        languages, size = self._rules.languages, int(self._ends[content] - self._starts[content])
        return bool(size >= self._rules.shingles_min) and (
            languages is None or self._contents.languages[content] in languages
        )

    def _candidates(self) -> dict[int, dict[int, float]]:
        """By page: the pages that contain enough of it, and the share of each."""
        if not self._posted:
            return {}
        pages, containers = np.divmod(np.unique(self._pairs()), len(self._posted))
        contents = self._numbers[pages], self._numbers[containers]
        shares = self._shares(*contents)
        enough = shares >= self._rules.share_min
        found: dict[int, dict[int, float]] = {}
        for page, container, share in zip(
            pages[enough].tolist(), containers[enough].tolist(), shares[enough].tolist(), strict=True
        ):
            found.setdefault(page, {})[container] = share
        return found

    def _shares(self, pages: Ints, containers: Ints) -> NDArray[np.float64]:
        shares = np.empty(len(pages), dtype=np.float64)
        at_once = min(PAGES_AT_ONCE, 1 + len(pages) // (PARTS_PER_THREAD * self._threads.jobs))

        def fill_in(start: int) -> None:
            some = slice(start, start + at_once)
            columns = self._starts, self._ends, self._shingles, pages[some], containers[some]
            shares[some] = _shares(*columns, self._rules.share_min)
            self._contents.release()

        for _ in self._threads.map(fill_in, range(0, len(pages), at_once)):
            pass
        return shares

    def _pairs(self) -> Ints:
        """Pages that share a term that is not common, as `candidate_pairs` returns them. Terms are looked at in ranges,
        so that the orders of all terms need not be in memory together."""
        numbers = self._numbers
        sizes = (self._ends[numbers] - self._starts[numbers]).astype(np.int32)
        masks = np.empty((len(numbers), 4), dtype=np.uint64)
        spooled = self._contents.new_spool()
        with closing(spooled):
            terms = _Terms(spooled)
            for start in range(0, len(numbers), PAGES_AT_ONCE):
                terms.add(*self._terms(start, masks))
            found = [
                candidate_pairs(sizes, masks, *columns, np.argsort(columns[1], kind="stable"), TERM_CAP, CODE_CAP)
                for columns in terms.ranges(1 + len(terms) // TERMS_AT_ONCE)
            ]
        return np.concatenate(found)

    def _terms(
        self, start: int, masks: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int32], NDArray[np.uint64], NDArray[np.uint8]]:
        """The owners, terms and kinds of PAGES_AT_ONCE pages from `start` on, whose masks are filled in."""
        numbers = self._numbers[start : start + PAGES_AT_ONCE]
        starts, ends = self._starts[numbers], self._ends[numbers]
        rows, counts, masks[start : start + len(numbers)] = sketches_of(self._shingles, starts, ends)
        self._contents.release()
        is_term = np.arange(rows.shape[1]) < counts[:, np.newaxis]
        owners = np.repeat(np.arange(start, start + len(numbers), dtype=np.int32), counts)
        kinds = np.broadcast_to(shingle_kinds(rows.shape[1]), rows.shape)[is_term]
        columns = [(owners, rows[is_term], kinds)]
        for page, number in enumerate(numbers.tolist(), start):
            if code := self._contents.codes.get(number):
                runs = code_terms(code)
                columns.append((np.full(runs.size, page, dtype=np.int32), runs, code_kinds(runs.size)))
        owners, terms, kinds = (np.concatenate(each) for each in zip(*columns, strict=True))
        return owners, terms, kinds

    def _contained(self, candidates: dict[int, dict[int, float]], market: int) -> Iterator[tuple[int, Verdict]]:
        """From the best page to the worst: each is contained in the kept page that has the largest share of it, if that
        is enough. Only a page alone in its group can be contained, unless an operator decided to keep it."""
        contained: set[int] = set()
        ranked = [page for page in candidates if self._may_be_contained(page) and self._is_winner(page, market)]
        for page in sorted(ranked, key=lambda each: self._order(each, market)):
            order = self._order(page, market)
            kept = [each for each in candidates[page] if each not in contained and self._is_winner(each, market)]
            better = [each for each in kept if self._order(each, market) < order]
            if better:
                best = min(better, key=lambda each: (-candidates[page][each], self._order(each, market)))
                contained.add(page)
                yield page, self._verdict(page, best, candidates[page][best])

    def _verdict(self, page: int, container: int, share: float) -> Verdict:
        codes = [self._contents.codes.get(self._posted[each].content) for each in (page, container)]
        code_share = repeatability(codes[0], codes[1]) if codes[0] and codes[1] else None
        return Verdict(self._posted[container].url, share, exact=False, contained=True, code_share=code_share)

    def _is_winner(self, page: int, market: int) -> bool:
        url = self._posted[page].url
        return self._rows[url].verdicts[market].winner == url

    def _may_be_contained(self, page: int) -> bool:
        row = self._rows[self._posted[page].url]
        return row.standing is not None and row.standing.alone and not row.kept

    def _order(self, page: int, market: int) -> bytes:
        if page not in self._orders:
            url, content = self._posted[page]
            row = self._rows[url]
            vertex = vertex_name(row.first_seen_ms, url, row.epoch)
            size = int(self._ends[content] - self._starts[content])
            keys = self._markets.keys(url, row, vertex)
            self._orders[page] = tuple(self._rules.order(size, key) for key in keys)
        return self._orders[page][market]


@threaded_kernel
def _shares(
    starts: Ints, ends: Ints, shingles: NDArray[np.uint64], pages: Ints, containers: Ints, share_min: float
) -> NDArray[np.float64]:
    """The share of each page that its container has; any smaller number where it is certainly below `share_min`."""
    shares = np.empty(len(pages), dtype=np.float64)
    for i in range(len(pages)):
        page, container = pages[i], containers[i]
        mine = shingles[starts[page] : ends[page]]
        needed = max(0, int(share_min * mine.size) - 1)  # one less: a share is decided by division, which may round
        common = intersection_size(mine, shingles[starts[container] : ends[container]], needed)
        shares[i] = common / mine.size
    return shares
