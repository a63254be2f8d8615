"""The similarity index of one partition: which pages present have Jaccard similarity ≥ τ to a given one.

Banded MinHash proposes candidates, exact Jaccard on the shingle sets decides, and equal content hashes always match. A
match depends on the pair alone, not on other pages or their order, and no bucket is capped.

Pages are identified by numbers that the caller chooses (dense, from 0; a number may be reused after its page is
removed). Shingle sets are stored elsewhere and are fetched by number when a candidate must be compared.

Components. The caller maintains a spanning forest of the match graph and needs, for a page, one match in every
component that has any. The index therefore knows each page's component label and keeps its buckets sorted by it
(buckets.py):
- components merge: `relabel` the smaller one; costs an assignment per page.
- a component splits: `separate` all pieces but the largest; costs a move through all bands per page.
A label is never given to a second component while pages have it; `new_component` makes fresh ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dustream.core.errors import BadSetting
from dustream.core.similarity import similarity_at_least, threshold_ratio
from dustream.core.text.shingle_bytes import SHINGLE_BYTES, shingle_count
from dustream.core.tier2 import bucket_search, buckets, framed
from dustream.core.tier2.bands import PERMUTATIONS, bands_for
from dustream.core.tier2.buckets import Tables
from dustream.core.tier2.search_protocol import ALL, IndexedPage, Match, Matching, Query
from dustream.core.tier2.shingle_cache import ShingleCache, cached_set, is_cached
from dustream.schemas.signature import PageSignature

CONTENT_HASH_BYTES = 16
NUMBER_MAX = buckets.TEXTS_MAX - 1
SHINGLE_CACHE_BYTES_MAX = 64 * 1024 * 1024

# Hash tables grow by a quarter at a load factor of 3/4, so it stays between 3/5 and 3/4.
LOAD_MAX = bucket_search.LOAD_MAX
SLOTS_MIN = 1024
SLOTS_GROWTH = 1.25
# Up to this many slots all columns migrate at once (milliseconds); beyond, one with every insertion.
SLOTS_AT_ONCE_MAX = 1 << 14
# Other arrays are enlarged in place by an eighth.
ROWS_MIN = 1024
ROWS_GROWTH = 1.125

BATCH_PAGES = 2048

ORDER_KEY_MASK = (1 << 63) - 1  # kernels take a signed number


class SimilarityIndex:
    """Pages present in one partition, searchable by similarity ≥ τ."""

    def __init__(
        self,
        tau: float,
        shingles_of: Callable[[int], NDArray[np.uint64]],
        permutations: int = PERMUTATIONS,
        shingle_cache_bytes_max: int = SHINGLE_CACHE_BYTES_MAX,
    ) -> None:
        self.tau = tau
        self.bands, self.rows = bands_for(tau, permutations)
        self.permutations = permutations
        self.fetches = 0
        self._compared = 0
        self._ratio = self.ratio = threshold_ratio(tau)
        self._shingles_of = shingles_of
        self._tables = empty_tables(self.bands + 1)
        ring = np.empty(max(4, shingle_cache_bytes_max // SHINGLE_BYTES), dtype=np.uint64)
        self._cache = ShingleCache(ring, np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64))
        self._walk = empty_walk()
        self._frame: NDArray[np.int64] | None = None

    def _arrays(self) -> NDArray[np.int64]:
        """The arrays as kernels take them; every method that enlarges one discards the frame."""
        if self._frame is None:
            self._frame = framed.frame_of(self._tables, self._cache, self._walk, self._ratio)
        return self._frame

    # ---- contents

    def __len__(self) -> int:
        return int(self._tables.counts[buckets.PAGES])

    def __contains__(self, number: int) -> bool:
        places = self._tables.page_place
        return 0 <= number < len(places) and bool(places[number, 0, buckets.RUN])

    @property
    def comparisons(self) -> int:
        """Pairs of sets compared so far."""
        return self._compared + int(self._walk.place[bucket_search.COMPARED])

    @property
    def text_count(self) -> int:
        """Texts in the bands: pages with the same content hash and component are one text."""
        return int(self._tables.counts[buckets.TEXTS])

    @property
    def resident_bytes(self) -> int:
        """Bytes of all arrays in use, without the shingle cache, which has its own bound."""
        t = self._tables
        untouched = t.slots[: int(t.counts[buckets.STAYING])].nbytes
        return sum(array.nbytes for array in t) + self._cache.place.nbytes - untouched

    def copies(self, content_hash: bytes) -> NDArray[np.int64]:
        """Pages present with this content hash, ascending."""
        texts = self._texts_with(content_words([content_hash])[0])
        return _int64(bucket_search.pages_of(self._tables, texts))

    def _texts_with(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        key = np.uint64(bucket_search.content_key(words))
        return _int64(buckets.texts_with_content(self._tables, key, words))

    # ---- insertion and removal

    def insert(self, number: int, query: Query, component: int | None = None) -> None:
        """Add a page. With `component` None it joins the component of its copies if there are any, else a new one."""
        frame = self._frame if self._frame is not None else self._arrays()
        if framed.put_page(frame, number, query.words, -1 if component is None else component):
            return
        self.insert_batch(
            np.array([number], dtype=np.int64),
            [query.signature.content_hash],
            np.frombuffer(query.signature.minhash, dtype="<u4").reshape(1, -1),
            None if component is None else np.array([component], dtype=np.int64),
        )

    def insert_batch(
        self,
        numbers: NDArray[np.int64],
        content_hashes: Sequence[bytes],
        minhashes: NDArray[np.uint32],
        components: NDArray[np.int64] | None = None,
    ) -> None:
        """Add many pages (rows of `minhashes`), as if one by one; all of them, or none if one cannot be added."""
        self._check_new(numbers)
        keys, contents, bare = self._keys(content_hashes, minhashes)
        if not len(numbers) == len(keys) or (components is not None and len(components) != len(keys)):
            raise ValueError(f"{len(numbers)} numbers for {len(keys)} pages: each page needs one number")
        labels = np.full(len(keys), -1, dtype=np.int64) if components is None else _int64(components)
        self._insert_keys(_int64(numbers), keys, contents, bare, labels)

    def _insert_keys(
        self,
        pages: NDArray[np.int64],
        keys: NDArray[np.uint64],
        contents: NDArray[np.uint64],
        bare: NDArray[np.bool_],
        labels: NDArray[np.int64],
    ) -> None:
        self._make_rows(len(keys), int(pages.max(initial=0)))
        for start in range(0, len(keys), BATCH_PAGES):
            end = min(start + BATCH_PAGES, len(keys))
            self._make_slots(end - start)
            while start < end:
                start = bucket_search.insert_pages(self._tables, start, end, pages, keys, contents, bare, labels)
                if start < end:
                    self._make_room()

    def rebuild(self, pages: Iterable[IndexedPage], progress: Callable[[int], None] | None = None) -> None:
        """Fill an empty index from the state store; calls `progress` with the pages done after each batch."""
        stream = iter(pages)
        while batch := list(islice(stream, BATCH_PAGES)):
            minhashes = np.frombuffer(b"".join([bytes(page.minhash) for page in batch]), dtype="<u4")
            labels = [-1 if page.component is None else page.component for page in batch]
            self.insert_batch(
                np.array([page.number for page in batch], dtype=np.int64),
                [page.content_hash for page in batch],
                minhashes.reshape(len(batch), -1),
                np.array(labels, dtype=np.int64),
            )
            if progress is not None:
                progress(len(self))

    def remove(self, number: int) -> None:
        """Remove a page; its number may be reused."""
        if framed.take_page(self._arrays(), number) == framed.NOT_PRESENT:
            self._check_present(number)

    def move_to(self, other: SimilarityIndex, number: int) -> None:
        """Move a page to another index with the same threshold, with its component."""
        t, text = self._tables, int(self._texts_of([number])[0])
        keys, contents, label = t.keys[[text]], t.content[[text]], int(t.label[text])
        bare = t.marks[[text], buckets.BARE] != 0
        self.remove(number)
        other._insert_keys(np.array([number], dtype=np.int64), keys, contents, bare, np.array([label], dtype=np.int64))

    # ---- components

    def new_component(self) -> int:
        """A label that no page has."""
        label = int(self._tables.counts[buckets.NEXT_COMPONENT])
        self._tables.counts[buckets.NEXT_COMPONENT] += 1
        return label

    def component_of(self, number: int) -> int:
        """The label of a page present."""
        return int(self._tables.label[self._texts_of([number])[0]])

    def relabel(self, numbers: Iterable[int], component: int) -> None:
        """Merge: give all pages of a component (every one, since runs must not be mixed) the label of another one."""
        self._tables.label[self._texts_of(list(numbers))] = component
        self._note_label(component)

    def separate(self, numbers: Iterable[int], component: int) -> None:
        """Split: move these pages from their component to one with a fresh label."""
        pages_by_text: dict[int, list[int]] = {}
        leaving = list(dict.fromkeys(numbers))
        for text, number in zip(self._texts_of(leaving).tolist(), leaving, strict=True):
            pages_by_text.setdefault(text, []).append(number)
        for text, pages in pages_by_text.items():
            if len(pages) == self._copy_count(text):
                self._move_text(text, component)
            else:
                self._split_text(text, pages, component)
        self._note_label(component)

    def _move_text(self, text: int, component: int) -> None:
        buckets.leave_buckets(self._tables, text)
        self._tables.label[text] = component
        while not buckets.enter_buckets(self._tables, text):
            self._make_room()

    def _split_text(self, text: int, pages: list[int], component: int) -> None:
        self._make_rows(1, 0)
        self._make_slots(1)
        t = self._tables
        bare = bool(t.marks[text, buckets.BARE])
        while (piece := buckets.new_text(t, t.keys[text], t.content[text], bare, component)) < 0:
            self._make_room()
        self._move_pages(pages, piece)

    def _move_pages(self, pages: Iterable[int], text: int) -> None:
        for page in pages:
            while not buckets.move_page(self._tables, page, text):
                self._make_room()

    def _join_texts(self, texts: NDArray[np.int64]) -> None:
        """Join texts with one content whose components have merged, the smaller into the larger."""
        t, joined = self._tables, dict[int, int]()
        for text in map(int, texts):
            other = joined.setdefault(int(t.label[text]), text)
            if other == text:
                continue
            small, large = sorted((text, other), key=self._copy_count)
            self._move_pages(bucket_search.pages_of(t, np.array([small])).tolist(), large)
            buckets.leave_buckets(t, small)
            buckets.free_text(t, small)
            self._cache.place[small] = 0
            joined[int(t.label[large])] = large

    # ---- searches

    def queries(self, signatures: Sequence[PageSignature]) -> list[Query]:
        """Pages prepared for any index with the same threshold."""
        minhashes = np.frombuffer(b"".join([page.minhash for page in signatures]), dtype="<u4")
        if len(minhashes) != len(signatures) * self.permutations:
            raise ValueError(f"this index takes one MinHash of {self.permutations} permutations per page")
        contents = content_words([page.content_hash for page in signatures])
        sets = np.frombuffer(b"".join([page.shingles for page in signatures]), dtype="<u8")
        sizes = [shingle_count(page.shingles) for page in signatures]
        words = framed.page_words(
            minhashes.reshape(len(signatures), -1), contents.ravel(), sets, np.array(sizes), self.bands, self.rows
        )
        head, end, made = framed.KEYS_AT + self.bands + 1, 0, []
        for page, size in zip(signatures, sizes, strict=True):
            start, end = end, end + head + size
            made.append(Query(page, words[start:end]))
        return made

    def candidates(self, query: Query) -> NDArray[np.int64]:
        """Pages present that share a band or the content hash, ascending; including the page itself if it is
        present."""
        found: NDArray[np.int64] = framed.candidates_in(self._arrays(), query.words)
        return found

    def candidates_batch(
        self, content_hashes: Sequence[bytes], minhashes: NDArray[np.uint32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(starts, numbers): the candidates of the q-th page are numbers[starts[q] : starts[q + 1]], ascending."""
        starts, numbers = bucket_search.candidate_pages(self._tables, *self._keys(content_hashes, minhashes))
        return _int64(starts), _int64(numbers)

    def similarities(self, query: Query, numbers: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Exact Jaccard similarity to each of these pages present; 1.0 for an equal content hash, without a fetch."""
        pages, own = self._present(numbers), _sets(query.signature.shingles)
        found, row, arrays = np.empty(len(pages)), 0, self._arrays()
        while (row := framed.similarities_in(arrays, pages, row, query.words, found)) < len(pages):
            text = int(self._texts_of(pages[row : row + 1])[0])
            found[row] = max(0.0, similarity_at_least(own, self._fetch(text), 0, 1))
            row += 1
        self._compared += len(pages)
        return found

    def matching(self, query: Query, after: int = -1, candidates_max: int = ALL) -> Matching:
        """All pages present with similarity ≥ τ, or those among the first candidates after a number, ascending."""
        (looked, last), *rows = framed.matching_in(self._arrays(), query.words, after, candidates_max).tolist()
        self._compared += int(looked)
        pages = []
        for page, similarity in rows:
            number = int(page)
            if similarity != similarity:  # NaN: its set was not cached
                similarity = self._similarity(query, number)
            if similarity >= 0.0:
                pages.append((number, similarity))
        return Matching(pages, int(looked), int(last))

    def _similarity(self, query: Query, number: int) -> float:
        """The similarity to a page whose set must be fetched; -1.0 below τ."""
        self.fetches += 1
        shingles = _sets(self._shingles_of(number))
        similarity: float = framed.compare_in(self._arrays(), query.words, number, shingles)
        return similarity

    def matches_among(self, query: Query, numbers: NDArray[np.int64]) -> list[tuple[int, float]]:
        """The pages among these, all present, that are candidates of a page and match it."""
        t, texts = self._tables, self._texts_of(numbers)
        head = framed.KEYS_AT + self.bands + 1
        share = np.any(t.keys[texts] == query.words[framed.KEYS_AT : head], axis=1)
        found = ((number, self._similarity(query, number)) for number in numbers[share].tolist())
        return [(number, similarity) for number, similarity in found if similarity >= 0.0]

    @property
    def components_met(self) -> int:
        """How often the last search for one match per component met a component: up to once per component and band."""
        return int(self._walk.place[bucket_search.MET])

    def meets_many(self, query: Query, many: int) -> bool:
        """Whether one of a page's buckets has at least `many` texts; copies count as one text."""
        return bool(framed.meets_many(self._arrays(), query.words, many))

    def matches(self, signature: PageSignature) -> list[Match]:
        """All pages present with similarity ≥ τ, ascending by number."""
        _, pages, similarities = self.matches_batch([signature])
        labels = self._tables.label[self._texts_of(pages)]
        return list(map(Match._make, zip(pages.tolist(), similarities.tolist(), labels.tolist(), strict=True)))

    def matches_batch(
        self, signatures: Sequence[PageSignature]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """(queries, numbers, similarities) of all matches of many pages, by query and number; several times as fast.

        To find all pairs of a stream, insert a batch, then search for it, and keep the matches with a smaller number
        than the page.
        """
        t, empty = self._tables, np.zeros(0, dtype=np.int64)
        if not signatures:
            return empty, empty, np.zeros(0, dtype=np.float64)
        minhashes = np.frombuffer(b"".join([page.minhash for page in signatures]), dtype="<u4")
        hashes = [page.content_hash for page in signatures]
        keys, contents, bare = self._keys(hashes, minhashes.reshape(len(signatures), -1))
        queries, texts, similarities = bucket_search.candidate_text_lists(t, keys, contents, bare)
        sets = _sets(b"".join([page.shingles for page in signatures]))
        self._verify(queries, texts, similarities, sets, set_starts(signatures))
        rows, pages = bucket_search.matched_pages(t, similarities, texts)
        order = np.lexsort((pages, queries[rows]))
        return queries[rows][order], pages[order], similarities[rows][order]

    def _verify(
        self,
        queries: NDArray[np.int64],
        texts: NDArray[np.int64],
        similarities: NDArray[np.float64],
        sets: NDArray[np.uint64],
        starts: NDArray[np.int64],
    ) -> None:
        """Replace every NaN in `similarities` by the exact value, or by -1.0 below τ."""
        bucket_search.remember_own(self._cache, queries, texts, similarities, sets, starts)
        self._compared += int(np.count_nonzero(np.isnan(similarities)))
        pairs, own_sets = (queries, texts), (sets, starts)
        rows = bucket_search.rows_in_reach(self._cache, *pairs, *own_sets, *self._ratio, similarities)
        at, verify = 0, bucket_search.verify
        while (at := verify(self._cache, *pairs, rows, at, *own_sets, *self._ratio, similarities)) < len(rows):
            row = rows[at]
            own = sets[starts[queries[row]] : starts[queries[row] + 1]]
            similarities[row] = similarity_at_least(own, self._fetch(int(texts[row])), *self._ratio)
            at += 1

    def first_match_per_component(self, query: Query, order_key: int, except_component: int = -1) -> list[Match]:
        """One match in every component that has any, ascending by component, without `except_component`.

        Within a component the candidates are examined up to the first match, from a pseudo-random position determined
        by `order_key` (a hash of the page's identity): so the forest has no hubs, and a clique costs one comparison,
        not one per member. All candidates of a component without a match are examined.
        """
        key, words = order_key & ORDER_KEY_MASK, query.words
        while (found := framed.search_in(self._arrays(), words, key, except_component)) < 0:
            if found == bucket_search.JOIN_TEXTS:
                self._join_texts(self._texts_with(content_words([query.signature.content_hash])[0]))
            elif found == bucket_search.MAKE_ROOM:
                self._make_walk()
            else:
                found = self._walk_on(words, key)
                break
        return self._found(found) if found else []

    def _walk_on(self, words: NDArray[np.uint64], key: int) -> int:
        """Run a search for one match per component to its end, fetching the sets that it needs."""
        found = bucket_search.FETCH
        while found == bucket_search.FETCH:
            shingles = self._read(int(self._walk.place[bucket_search.WANTED]))
            found = framed.walk_on(self._arrays(), words, key, shingles)
        return found

    def _make_walk(self) -> None:
        """Make twice the room that the search wants."""
        wanted, self._frame = 2 * int(self._walk.place[bucket_search.WANTED]), None
        enlarge(self._walk.found, wanted)
        enlarge(self._walk.met, wanted)

    def _found(self, count: int) -> list[Match]:
        """The results of the last search for one match per component."""
        rows = self._walk.found[:count].tolist()
        matches = [Match(int(page), value, int(label)) for page, value, label in rows]
        return sorted(matches, key=lambda row: row[2]) if count > 1 else matches

    def _copy_count(self, text: int) -> int:
        t = self._tables
        return int(t.runs[t.marks[text, buckets.COPIES], buckets.EXTENT]) >> buckets.CAPACITY_BITS

    def _present(self, numbers: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Page numbers as an array; KeyError if one is not present."""
        pages = np.asarray(numbers, dtype=np.int64)
        for number in pages.tolist():
            self._check_present(number)
        return pages

    def _texts_of(self, numbers: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        t, pages = self._tables, self._present(numbers)
        return _int64(t.runs[t.page_place[pages, 0, buckets.RUN], buckets.OWNER])

    def _fetch(self, text: int) -> NDArray[np.uint64]:
        """A text's shingle set, from the cache or fetched."""
        if is_cached(self._cache, text):
            return _uint64(cached_set(self._cache, text).copy())
        return self._read(text)

    def _read(self, text: int) -> NDArray[np.uint64]:
        """Fetch a text's shingle set."""
        t = self._tables
        first = int(t.cells[t.runs[t.marks[text, buckets.COPIES], buckets.CELL]])
        shingles = _sets(self._shingles_of(first))
        self.fetches += 1
        framed.remember_in(self._arrays(), text, shingles)
        return shingles

    # ---- keys and checks

    def _keys(
        self, content_hashes: Sequence[bytes], minhashes: NDArray[np.uint32]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.bool_]]:
        """Per page: the key of every column, the content hash as two words, and whether the page has no shingles."""
        rows = np.array(minhashes, dtype=np.uint32, ndmin=2)
        if rows.shape != (len(content_hashes), self.permutations):
            raise ValueError(
                f"{len(content_hashes)} content hashes and MinHashes of shape {rows.shape}: "
                f"this index takes one MinHash of {self.permutations} permutations per content hash"
            )
        contents = content_words(content_hashes)
        keys, bare = bucket_search.page_keys(rows, contents, self.bands, self.rows)
        return keys, contents, bare

    def _check_new(self, numbers: NDArray[np.int64]) -> None:
        if len(numbers) and (numbers.min() < 0 or numbers.max() > NUMBER_MAX):
            raise ValueError(f"page numbers must be 0 … {NUMBER_MAX}, not {numbers.min()} … {numbers.max()}")
        known = numbers[numbers < len(self._tables.page_place)]
        present = known[self._tables.page_place[known, 0, buckets.RUN] != 0]
        if len(present):
            raise ValueError(f"page {present[0]} is already present: remove it before inserting it again")
        if len(numbers) > 1 and len(np.unique(numbers)) < len(numbers):
            raise ValueError("a batch has a page number twice: keep the last of the two pages")

    def _check_present(self, number: int) -> None:
        if number not in self:
            raise KeyError(f"page {number} is not in the index")

    def _note_label(self, component: int) -> None:
        counts = self._tables.counts
        counts[buckets.NEXT_COMPONENT] = max(int(counts[buckets.NEXT_COMPONENT]), component + 1)

    # ---- growth

    def _make_rows(self, texts: int, number: int) -> None:
        """Make room for more texts, and for page numbers up to `number`."""
        t, self._frame = self._tables, None
        wanted = int(t.counts[buckets.TEXT_TOP]) + texts
        for array in (t.keys, t.place, t.label, t.content, t.marks, self._cache.place):
            enlarge(array, wanted)
        enlarge(t.page_place, number + 1)

    def _make_room(self) -> None:
        """Enlarge runs and cells after a kernel ran out of one of them."""
        t, self._frame = self._tables, None
        enlarge(t.runs, int(t.counts[buckets.RUN_TOP]) + ROWS_MIN)
        enlarge(t.cells, len(t.cells) + 1)
        if len(t.cells) > buckets.CELLS_MAX:
            raise BadSetting(f"the buckets of this partition exceed {buckets.CELLS_MAX} cells: use more partitions")

    def _make_slots(self, texts: int) -> None:
        """Make room for more texts in every hash table; large band tables are enlarged one by one."""
        t, due, self._frame = self._tables, 0, None
        used = t.counts[buckets.USED :]
        wanted = int(used[:-1].max()) + texts
        if t.counts[buckets.STAYING]:
            due = max(1, texts * self.bands // BATCH_PAGES)
        elif wanted > LOAD_MAX * t.slots.shape[1]:
            slots = np.zeros((self.bands, larger_table(t.slots.shape[1], wanted)), dtype=np.uint64)
            self._tables = t._replace(slots=slots, slots_before=t.slots)
            t.counts[buckets.STAYING] = self.bands
            due = 1 if t.slots.shape[1] > SLOTS_AT_ONCE_MAX else self.bands
        if due:
            self._migrate(due)
        if used[-1] + texts > LOAD_MAX * len(t.content_slots):
            content_slots = np.zeros(larger_table(len(t.content_slots), int(used[-1]) + texts), dtype=np.uint64)
            buckets.copy_slots(t.content_slots, content_slots)
            self._tables = self._tables._replace(content_slots=content_slots)

    def _migrate(self, due: int) -> None:
        """Move `due` bands to the larger tables, the last first, and remove them from the smaller array."""
        t, self._frame = self._tables, None
        staying = int(t.counts[buckets.STAYING])
        for band in range(staying - 1, max(0, staying - due) - 1, -1):
            buckets.copy_slots(t.slots_before[band], t.slots[band])
            t.counts[buckets.STAYING] = band
        t.slots_before.resize((int(t.counts[buckets.STAYING]), t.slots_before.shape[1]), refcheck=False)


def larger_table(slots: int, wanted: int) -> int:
    """The number of slots of the next larger hash table."""
    return max(int(slots * SLOTS_GROWTH), int(wanted / LOAD_MAX) + 1)


def empty_tables(columns: int) -> Tables:
    """The arrays of an index without pages."""
    counts = np.zeros(buckets.USED + columns, dtype=np.int64)
    counts[buckets.TEXT_FREE] = -1
    counts[buckets.RUN_TOP] = counts[buckets.CELL_TOP] = 1
    return Tables(
        slots=np.zeros((columns - 1, SLOTS_MIN), dtype=np.uint64),
        slots_before=np.zeros((0, SLOTS_MIN), dtype=np.uint64),
        content_slots=np.zeros(SLOTS_MIN, dtype=np.uint64),
        keys=np.zeros((0, columns), dtype=np.uint64),
        place=np.zeros((0, columns, 2), dtype=np.int32),
        label=np.zeros(0, dtype=np.int64),
        content=np.zeros((0, 2), dtype=np.uint64),
        marks=np.zeros((0, 3), dtype=np.int32),
        runs=np.zeros((ROWS_MIN, 4), dtype=np.int32),
        cells=np.zeros(ROWS_MIN, dtype=np.int32),
        page_place=np.zeros((0, 1, 2), dtype=np.int32),
        counts=counts,
    )


def empty_walk() -> bucket_search.Walk:
    """Room for the matches of one search, reused by the next."""
    place, met = np.zeros(bucket_search.PLACES, dtype=np.int64), np.zeros((ROWS_MIN, 4), dtype=np.int64)
    return bucket_search.Walk(place, np.zeros((ROWS_MIN, 3)), met)


def enlarge(array: NDArray[np.generic], rows: int) -> None:
    """Give an array at least `rows` rows, new ones zero, in place: the allocator remaps memory instead of copying."""
    if rows > len(array):
        more = max(rows, ROWS_MIN, int(len(array) * ROWS_GROWTH))
        array.resize((more, *array.shape[1:]), refcheck=False)


def content_words(content_hashes: Sequence[bytes]) -> NDArray[np.uint64]:
    """Content hashes as two 64-bit words each."""
    joined = b"".join(content_hashes)
    if len(joined) != CONTENT_HASH_BYTES * len(content_hashes):
        raise ValueError(f"a content hash is {CONTENT_HASH_BYTES} bytes")
    return np.frombuffer(joined, dtype="<u8").reshape(-1, 2).astype(np.uint64)


def set_starts(signatures: Sequence[PageSignature]) -> NDArray[np.int64]:
    """Where each page's shingles start in the concatenation of all, and where the last ones end."""
    sizes = [shingle_count(page.shingles) for page in signatures]
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)))


def _sets(shingles: NDArray[np.uint64] | bytes) -> NDArray[np.uint64]:
    """Shingles as a new writable array: kernels are compiled for one array type."""
    view = np.frombuffer(shingles, dtype="<u8") if isinstance(shingles, bytes) else shingles
    return view.astype(np.uint64)


def _int64(values: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(values, dtype=np.int64)


def _uint64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return np.asarray(values, dtype=np.uint64)
