"""Searches over the bucket arrays: all candidates of a page, or one match per component.

Shingle sets are stored elsewhere. A kernel that needs a set that is not cached returns the text; the caller fetches the
set and calls again with it, and the kernel resumes where it stopped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.arrays import ascending, copy_into, largest, stable_order
from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.mix64 import mix64
from dustream.core.similarity import similarity_at_least
from dustream.core.tier2.bands import band_keys, without_shingles
from dustream.core.tier2.buckets import (
    CELL,
    COPIES,
    EMPTY,
    NEXT,
    NEXT_COMPONENT,
    OWNER,
    PAGES,
    QUERY,
    RUN,
    SEEN,
    STAYING,
    TEXT_TOP,
    USED,
    Ints,
    Shorts,
    Tables,
    Words,
    add_copy,
    begin_query,
    find_slot,
    join_runs,
    new_text,
    run_in,
    run_size,
    table_of,
    text_in,
    texts_with_content,
)
from dustream.core.tier2.odd_sketch import odd_sketch
from dustream.core.tier2.shingle_cache import (
    ShingleCache,
    cached_set,
    is_cached,
    is_in_ring,
    is_ruled_out,
    remember,
    set_in_ring,
)

# Return values of a search for one match per component that must be resumed; other values are the number of matches.
FETCH = -1  # fetch the set of the text in place[WANTED], then resume the walk
JOIN_TEXTS = -2  # texts with one content are in one component now: join them, then search again
MAKE_ROOM = -3  # make room for place[WANTED] rows in `Walk`, then search again
NO_TEXT = -1

# The load factor of hash tables is at most this.
LOAD_MAX = 0.75

# Columns of `met`: where a query met a component, one row per run, or per text alone in its bucket (MET_RUN is 0).
MET_COMPONENT, MET_RUN, MET_TEXT, MET_COLUMN = range(4)

# Fields of `Walk.place`: the rows [ROW, END) of the current component, its longest run, the step along its runs, the
# run whose turn it is, the number of matches so far, how many of them (the first ones) are exact copies, the excluded
# component, what is wanted to resume, the rows of `Walk.met`, and the comparisons of all searches.
ROW, END, LONGEST, STEP, TURN, FOUND, COPIES_FOUND, EXCEPT, WANTED, MET, COMPARED = range(11)
PLACES = 11

# Columns of `Walk.found`; page numbers and components are integers below 2^53, so a double represents them exactly.
FOUND_PAGE, FOUND_SIMILARITY, FOUND_COMPONENT = range(3)


class Walk(NamedTuple):
    """The state of a search for one match per component, and its results."""

    place: Ints
    found: NDArray[np.float64]  # (matches, 3)
    met: Ints  # (runs, 4): the components met, kept while a set is fetched


@kernel
def content_key(content: Words) -> np.uint64:
    """The key of the last column: the content hash."""
    return np.uint64(content[0] ^ (content[1] * np.uint64(0x9E3779B97F4A7C15)))


@kernel
def page_keys(minhashes: NDArray[np.uint32], contents: Words, bands: int, rows: int) -> tuple[Words, NDArray[np.bool_]]:
    """Per page: the key of every column, and whether it has no shingles."""
    keys = np.empty((len(minhashes), bands + 1), dtype=np.uint64)
    of_bands = band_keys(minhashes, bands, rows)
    for page in range(len(minhashes)):
        copy_into(keys[page], of_bands[page])
        keys[page, bands] = content_key(contents[page])
    return keys, without_shingles(minhashes)


@kernel
def insert_pages(
    t: Tables,
    start: int,
    end: int,
    pages: Ints,
    keys: Words,
    contents: Words,
    bare: NDArray[np.bool_],
    components: Ints,
) -> int:
    """Insert the pages [start, end). Returns where it stopped: before `end` if the arrays must grow."""
    for row in range(start, end):
        if not insert_one(t, pages[row], keys[row], contents[row], bare[row], components[row]):
            return row
    return end


@inner
def insert_one(t: Tables, page: int, keys: Words, content: Words, bare: bool, label: int) -> bool:
    """Returns False if the arrays must grow."""
    counts = t.counts
    text = text_to_join(t, keys[-1], content, label)
    if text < 0:
        component = label if label >= 0 else counts[NEXT_COMPONENT]
        text = new_text(t, keys, content, bare, component)
        if text < 0:
            return False
        counts[NEXT_COMPONENT] = max(counts[NEXT_COMPONENT], component + 1)
    if not add_copy(t, page, text):
        return False
    counts[PAGES] += 1
    return True


@inner
def insert_page(t: Tables, page: int, keys: Words, content: Words, bare: bool, label: int) -> bool:
    """Insert one page, unless an array must grow or be migrated first."""
    counts = t.counts
    if page >= len(t.page_place) or counts[TEXT_TOP] >= len(t.label) or counts[STAYING]:
        return False
    used = counts[USED:]
    if used[-1] + 1 > LOAD_MAX * len(t.content_slots) or largest(used[:-1]) + 1 > LOAD_MAX * t.slots.shape[1]:
        return False
    return bool(insert_one(t, page, keys, content, bare, label))


@inner
def candidates_of(t: Tables, keys: Words, content: Words, bare: bool) -> Ints:
    """The candidate pages of one page, ascending."""
    slots = band_slots(t, keys.reshape((1, len(keys))), np.full(1, bare))
    return pages_of(t, candidate_texts(t, slots[0], keys[-1], content)[0])


@inner
def meets_texts(t: Tables, keys: Words, bare: bool, many: int) -> bool:
    """Whether one of the page's buckets has at least `many` texts."""
    slots, before, content_slots, counts = t.slots, t.slots_before, t.content_slots, t.counts
    text_keys, runs, cells = t.keys, t.runs, t.cells
    for column in range(0 if bare else len(keys) - 1):
        table = table_of(slots, before, content_slots, counts, column)
        index = find_slot(table, text_keys, runs, cells, column, keys[column])
        run, met = run_in(table[index]) if index >= 0 else 0, 0
        while run and met < many:
            met += run_size(runs, run)
            run = int(np.int64(runs[run, NEXT]))
        if met >= many:
            return True
    return False


@inner
def similarities_to(
    t: Tables, cache: ShingleCache, pages: Ints, start: int, shingles: Words, content: Words, found: NDArray[np.float64]
) -> int:
    """Exact similarities to pages present, from row `start` up to the first whose set is not cached. Returns its
    row."""
    place, runs, contents = t.page_place, t.runs, t.content
    for row in range(start, len(pages)):
        text = int(np.int64(runs[place[pages[row], 0, RUN], OWNER]))
        if contents[text, 0] == content[0] and contents[text, 1] == content[1]:
            found[row] = 1.0
        elif not is_cached(cache, text):
            return row
        else:
            found[row] = max(0.0, similarity_at_least(shingles, cached_set(cache, text), 0, 1))
    return len(pages)


@inner
def matching_pages(
    t: Tables,
    cache: ShingleCache,
    candidates: Ints,
    shingles: Words,
    content: Words,
    sketch: Words,
    numerator: int,
    denominator: int,
    after: int,
    candidates_max: int,
) -> NDArray[np.float64]:
    """Among the first `candidates_max` candidates after a number, those that reach the ratio, with their exact
    similarities; NaN where the set is not cached. The first row holds the number of candidates examined, and the last
    of them if there are more."""
    start = int(np.searchsorted(candidates, after, side="right"))
    looked = int(min(len(candidates) - start, candidates_max))
    found, count = np.empty((1 + looked, 2)), 1
    found[0, 0], found[0, 1] = looked, candidates[start + looked - 1] if start + looked < len(candidates) else -1
    place, runs, contents = t.page_place, t.runs, t.content
    ring, cached, head = cache.ring, cache.place, cache.head[0]
    for page in candidates[start : start + looked]:
        text = int(np.int64(runs[place[page, 0, RUN], OWNER]))
        if contents[text, 0] == content[0] and contents[text, 1] == content[1]:
            similarity = 1.0
        elif not is_in_ring(ring, cached, head, text):
            similarity = np.nan
        elif is_ruled_out(ring, cached, head, text, sketch, numerator, denominator):
            continue
        else:
            similarity = similarity_at_least(shingles, set_in_ring(ring, cached, text), numerator, denominator)
        if not similarity < 0.0:
            found[count, 0], found[count, 1] = page, similarity
            count += 1
    return found[:count]


@inner
def text_to_join(t: Tables, key: np.uint64, content: Words, component: int) -> int:
    """The text with this content in this component (-1: in any), or -1."""
    label = t.label
    for text in texts_with_content(t, key, content):
        if component < 0 or label[text] == component:
            return int(np.int64(text))
    return -1


@kernel
def pages_of(t: Tables, texts: Ints) -> Ints:
    """The pages of these texts, ascending."""
    runs, cells, marks = t.runs, t.cells, t.marks
    count = 0
    for text in texts:
        count += run_size(runs, int(np.int64(marks[text, COPIES])))
    pages, filled = np.empty(count, dtype=np.int64), 0
    for text in texts:
        run = int(np.int64(marks[text, COPIES]))
        block = int(np.int64(runs[run, CELL]))
        for at in range(run_size(runs, run)):
            pages[filled] = cells[block + at]
            filled += 1
    return ascending(pages)


@kernel
def matched_pages(t: Tables, similarities: NDArray[np.float64], texts: Ints) -> tuple[Ints, Ints]:
    """(rows, pages): every page of the texts with a similarity that is not -1.0, and its text's row."""
    runs, cells, marks, count = t.runs, t.cells, t.marks, 0
    for row in range(len(texts)):
        if similarities[row] >= 0.0:
            count += run_size(runs, int(np.int64(marks[texts[row], COPIES])))
    rows, pages, filled = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64), 0
    for row in range(len(texts)):
        run = int(np.int64(marks[texts[row], COPIES]))
        block = int(np.int64(runs[run, CELL]))
        for at in range(run_size(runs, run) if similarities[row] >= 0.0 else 0):
            rows[filled], pages[filled] = row, cells[block + at]
            filled += 1
    return rows, pages


@inner
def add_bucket(
    runs: Shorts, cells: Shorts, marks: Shorts, slot: np.uint64, query: int, found: Ints, count: int
) -> tuple[Ints, int]:
    """Append the texts of a bucket that the query has not met yet to the `count` texts found."""
    run = run_in(slot)
    block = int(np.int64(runs[run, CELL]))
    size = run_size(runs, run) if run else 1
    while size:
        if count + size > len(found):
            found = np.concatenate((found[:count], np.empty(count + 2 * size, dtype=np.int64)))
        for at in range(block, block + size):
            text = int(np.int64(cells[at])) if run else text_in(runs, cells, slot)
            found[count] = text
            count += marks[text, SEEN] != query
            marks[text, SEEN] = query
        run = int(np.int64(runs[run, NEXT])) if run else 0
        block, size = int(np.int64(runs[run, CELL])), run_size(runs, run) if run else 0
    return found, count


@inner
def band_slots(t: Tables, keys: Words, bare: NDArray[np.bool_]) -> Words:
    """Per query and band the slot of its bucket, EMPTY if there is none. It runs band by band: the table of one band
    fits the processor's cache, the tables of all do not."""
    slots, before, content_slots, counts = t.slots, t.slots_before, t.content_slots, t.counts
    text_keys, runs, cells = t.keys, t.runs, t.cells
    found = np.zeros((len(keys), keys.shape[1] - 1), dtype=np.uint64)
    for column in range(keys.shape[1] - 1):
        table = table_of(slots, before, content_slots, counts, column)
        for row in range(len(keys)):
            index = -1 if bare[row] else find_slot(table, text_keys, runs, cells, column, keys[row, column])
            if index >= 0:
                found[row, column] = table[index]
    return found


@inner
def candidate_texts(t: Tables, slots: Words, content_key: np.uint64, content: Words) -> tuple[Ints, int]:
    """The texts with the query's content hash, then those in the slots of its bands; and the number of the former."""
    counts, marks, runs, cells = t.counts, t.marks, t.runs, t.cells
    query = begin_query(counts, marks)
    found = texts_with_content(t, content_key, content)
    copies = count = len(found)
    for text in found:
        marks[text, SEEN] = query
    for slot in slots:
        if slot != EMPTY:
            found, count = add_bucket(runs, cells, marks, slot, query, found, count)
    return found[:count], copies


@kernel
def candidate_pages(t: Tables, keys: Words, contents: Words, bare: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Per query its candidate pages: those of query q are pages[starts[q] : starts[q + 1]]."""
    starts, pages, count = np.zeros(len(keys) + 1, dtype=np.int64), np.empty(len(keys), dtype=np.int64), 0
    slots = band_slots(t, keys, bare)
    for row in range(len(keys)):
        found = pages_of(t, candidate_texts(t, slots[row], keys[row, -1], contents[row])[0])
        if count + len(found) > len(pages):
            pages = np.concatenate((pages[:count], np.empty(count + len(found), dtype=np.int64)))
        pages[count : count + len(found)] = found
        count += len(found)
        starts[row + 1] = count
    return starts, pages[:count]


@kernel
def candidate_text_lists(
    t: Tables, keys: Words, contents: Words, bare: NDArray[np.bool_]
) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """(queries, texts, similarities): the candidate texts of all queries, grouped by query; similarity 1.0 for equal
    content, NaN where it must be computed."""
    queries, texts, count = np.empty(len(keys), dtype=np.int64), np.empty(len(keys), dtype=np.int64), 0
    similarities, slots = np.empty(len(keys), dtype=np.float64), band_slots(t, keys, bare)
    for row in range(len(keys)):
        found, copies = candidate_texts(t, slots[row], keys[row, -1], contents[row])
        end = count + len(found)
        if end > len(texts):
            texts, queries = with_room(texts, count, end), with_room(queries, count, end)
            similarities = with_room(similarities, count, end)
        texts[count:end], queries[count:end] = found, row
        similarities[count : count + copies], similarities[count + copies : end] = 1.0, np.nan
        count = end
    return queries[:count], texts[:count], similarities[:count]


@inner
def with_room(values: NDArray[Any], count: int, wanted: int) -> NDArray[Any]:
    """A copy of the first `count` values, with twice the room wanted."""
    larger = np.empty(2 * wanted, dtype=values.dtype)
    larger[:count] = values[:count]
    return larger


@kernel
def remember_own(
    cache: ShingleCache, queries: Ints, texts: Ints, similarities: NDArray[np.float64], sets: Words, starts: Ints
) -> None:
    """Cache the shingles of queries that are present themselves: the other queries need not fetch them."""
    for row in range(len(texts)):
        if similarities[row] == 1.0 and not is_cached(cache, texts[row]):
            remember(cache, texts[row], sets[starts[queries[row]] : starts[queries[row] + 1]])


@kernel
def rows_in_reach(
    cache: ShingleCache,
    queries: Ints,
    texts: Ints,
    sets: Words,
    starts: Ints,
    numerator: int,
    denominator: int,
    similarities: NDArray[np.float64],
) -> Ints:
    """The rows that must be compared, grouped by text, so that each set is fetched once and read in memory order. For
    all other rows the similarity (NaN so far) becomes -1.0."""
    rows, count, query, sketch = np.empty(len(texts), dtype=np.int64), 0, -1, sets
    ring, place, head = cache.ring, cache.place, cache.head[0]
    for row in range(len(texts)):
        if np.isnan(similarities[row]):
            if queries[row] != query:
                query = queries[row]
                sketch = odd_sketch(sets[starts[query] : starts[query + 1]])
            if is_ruled_out(ring, place, head, texts[row], sketch, numerator, denominator):
                similarities[row] = -1.0
            else:
                rows[count] = row
                count += 1
    rows = rows[:count]
    return rows[stable_order(texts[rows])]


@kernel
def verify(
    cache: ShingleCache,
    queries: Ints,
    texts: Ints,
    rows: Ints,
    start: int,
    sets: Words,
    starts: Ints,
    numerator: int,
    denominator: int,
    similarities: NDArray[np.float64],
) -> int:
    """Similarities of queries to texts (-1.0 below the ratio) for the `rows` from `start` up to the first whose set is
    not cached. Returns where that is. The shingles of query q are sets[starts[q] : starts[q + 1]]."""
    ring, place, head = cache.ring, cache.place, cache.head[0]
    for at in range(start, len(rows)):
        row = rows[at]
        text = texts[row]
        if not is_in_ring(ring, place, head, text):
            return at
        own = sets[starts[queries[row]] : starts[queries[row] + 1]]
        similarities[row] = similarity_at_least(own, set_in_ring(ring, place, text), numerator, denominator)
    return len(rows)


@kernel
def components_met(t: Tables, keys: Words, bare: bool) -> Ints:
    """Runs and single texts in the query's band buckets, by component and column."""
    slots, before, content_slots, counts = t.slots, t.slots_before, t.content_slots, t.counts
    text_keys, label, runs, cells = t.keys, t.label, t.runs, t.cells
    met, count = np.empty((len(keys), 4), dtype=np.int64), 0
    for column in range(0 if bare else len(keys) - 1):
        table = table_of(slots, before, content_slots, counts, column)
        index = find_slot(table, text_keys, runs, cells, column, keys[column])
        if index < 0:
            continue
        run, text, more = run_in(table[index]), text_in(runs, cells, table[index]), True
        while more:
            if count == len(met):
                met = np.concatenate((met, np.empty_like(met)))
            if run:
                text = int(np.int64(cells[runs[run, CELL]]))
            met[count, 0], met[count, 1], met[count, 2], met[count, 3] = label[text], run, text, column
            count += 1
            run = int(np.int64(runs[run, NEXT])) if run else 0
            more = run != 0
    if not count:
        return met[:0]
    order = stable_order(met[:count, MET_COMPONENT])  # stable: columns stay in order
    return join_met_runs(t, met[order])


@inner
def join_met_runs(t: Tables, met: Ints) -> Ints:
    """Join the runs of a bucket whose components have merged; runs that do not fit the array stay separate."""
    kept = 0
    for row in range(len(met)):
        column = met[row, MET_COLUMN]
        last = met[kept - 1]
        if kept and met[row, MET_COMPONENT] == last[MET_COMPONENT] and column == last[MET_COLUMN]:
            table = table_of(t.slots, t.slots_before, t.content_slots, t.counts, column)
            joined = join_runs(
                table, t.keys, t.place, t.runs, t.cells, t.counts, column, last[MET_RUN], met[row, MET_RUN]
            )
            if joined >= 0:
                last[MET_RUN] = joined
                continue
        copy_into(met[kept], met[row])
        kept += 1
    return met[:kept]


@kernel
def text_at(runs: Shorts, cells: Shorts, met: Ints, row: int, step: int, order_key: np.uint64) -> int:
    """The step-th text of a run, counted from a position that depends on the query; -1 beyond its end."""
    run = met[row, MET_RUN]
    if not run:
        return int(met[row, MET_TEXT]) if step == 0 else -1
    size = run_size(runs, run)
    if step >= size:
        return -1
    start = int(np.int64(mix64(order_key + np.uint64(met[row, MET_COLUMN])) % np.uint64(size)))
    return int(np.int64(cells[runs[run, CELL] + (start + step) % size]))


@kernel
def is_settled(walk: Walk, component: int) -> bool:
    """Whether the component is excluded or matched by an exact copy. Components come in order, so one that was matched
    by the walk is not met again."""
    copies = walk.found[: walk.place[COPIES_FOUND], FOUND_COMPONENT]
    return bool(component == walk.place[EXCEPT] or np.any(copies == component))


@inner
def begin_component(runs: Shorts, met: Ints, walk: Walk) -> bool:
    """Advance to the next component that is not settled; False if there is none."""
    place = walk.place
    row = place[END]
    while row < len(met) and is_settled(walk, met[row, MET_COMPONENT]):
        row += 1
    if row == len(met):
        return False
    place[ROW], place[LONGEST], place[STEP], place[TURN] = row, 1, 0, 0
    component = met[row, MET_COMPONENT]
    while row < len(met) and met[row, MET_COMPONENT] == component:
        if met[row, MET_RUN]:
            place[LONGEST] = max(place[LONGEST], run_size(runs, met[row, MET_RUN]))
        row += 1
    place[END] = row
    return True


@inner
def next_text(
    runs: Shorts, cells: Shorts, marks: Shorts, met: Ints, place: Ints, query: int, order_key: np.uint64
) -> int:
    """The next text of the component that was not examined yet, one of each run in turn; NO_TEXT if none is left."""
    while place[STEP] < place[LONGEST]:
        text = text_at(runs, cells, met, place[ROW] + place[TURN], place[STEP], order_key)
        place[TURN] += 1
        if place[ROW] + place[TURN] == place[END]:
            place[TURN] = 0
            place[STEP] += 1
        if text >= 0 and marks[text, SEEN] != query:
            marks[text, SEEN] = query
            return text
    return NO_TEXT


@inner
def note_match(t: Tables, walk: Walk, text: int, similarity: float, order_key: np.uint64) -> None:
    """Record a match and finish its component. The query's key selects one of the exact copies, which avoids hubs."""
    copies, found = int(np.int64(t.marks[text, COPIES])), walk.found[walk.place[FOUND]]
    place = int(np.int64(order_key % np.uint64(run_size(t.runs, copies))))
    found[FOUND_PAGE] = t.cells[t.runs[copies, CELL] + place]
    found[FOUND_SIMILARITY], found[FOUND_COMPONENT] = similarity, t.label[text]
    walk.place[FOUND] += 1
    walk.place[STEP] = walk.place[LONGEST]


@inner
def note_copies(t: Tables, walk: Walk, texts: Ints, order_key: np.uint64) -> bool:
    """Record the texts with the query's content as matches; False if two of them are in one component."""
    for text in texts:
        if t.label[text] == walk.place[EXCEPT]:
            continue
        if is_settled(walk, t.label[text]):
            return False
        note_match(t, walk, text, 1.0, order_key)
        walk.place[COPIES_FOUND] += 1
    return True


@inner
def walk_components(
    t: Tables,
    cache: ShingleCache,
    walk: Walk,
    shingles: Words,
    sketch: Words,
    numerator: int,
    denominator: int,
    order_key: np.uint64,
    is_fetched: bool,
    fetched: Words,
) -> int:
    """Compare until every component has a match or is exhausted. Returns the number of matches, or FETCH."""
    runs, cells, marks, query, place = t.runs, t.cells, t.marks, t.counts[QUERY], walk.place
    met, other, key = walk.met[: place[MET]], fetched, mix64(order_key)
    text = place[WANTED] if is_fetched else NO_TEXT
    ring, cached, head = cache.ring, cache.place, cache.head[0]
    while True:
        if text < 0:
            text = next_text(runs, cells, marks, met, place, query, key)
            if text < 0:
                if not begin_component(runs, met, walk):
                    return int(place[FOUND])
                continue
            if is_ruled_out(ring, cached, head, text, sketch, numerator, denominator):
                place[COMPARED] += 1
                text = NO_TEXT
                continue
            if not is_in_ring(ring, cached, head, text):
                place[WANTED] = text
                return FETCH
            other = set_in_ring(ring, cached, text)
        similarity = similarity_at_least(shingles, other, numerator, denominator)
        place[COMPARED] += 1
        if similarity >= 0.0:
            note_match(t, walk, text, similarity, key)
        text = NO_TEXT


@inner
def search_components(
    t: Tables,
    cache: ShingleCache,
    walk: Walk,
    keys: Words,
    content: Words,
    bare: bool,
    shingles: Words,
    sketch: Words,
    numerator: int,
    denominator: int,
    order_key: np.uint64,
    except_component: int,
) -> int:
    """Search for one match per component. Returns the number of matches, or what is needed to resume."""
    texts, met = texts_with_content(t, keys[-1], content), components_met(t, keys, bare)
    place = walk.place
    place[:COMPARED] = 0
    place[EXCEPT], place[MET] = except_component, len(met)
    if len(texts) + len(met) > len(walk.found) or len(met) > len(walk.met):
        place[WANTED] = len(texts) + len(met)
        return MAKE_ROOM
    if not note_copies(t, walk, texts, mix64(order_key)):
        return JOIN_TEXTS
    if not len(met):
        return int(place[FOUND])
    for row in range(len(met)):
        copy_into(walk.met[row], met[row])
    begin_query(t.counts, t.marks)
    return int(walk_components(t, cache, walk, shingles, sketch, numerator, denominator, order_key, False, shingles))
