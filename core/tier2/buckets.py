"""The arrays behind the similarity index: band buckets, the runs inside them, and their free lists.

- A **text** is the unit of comparison: the pages present with one content hash, in one component. They are its
*copies*.
- A **column** is a band; the last column is the content hash, so exact copies are found the same way.
- A **bucket** is all texts with the same key in a column. Most hold one text: then the slot names that text.
- A **run** is the part of a bucket that belongs to one component, stored as an array. A search for one match per
  component can start anywhere in a run, whatever its size.

Invariants:
1. All texts of a run are in one component. The converse does not hold: components that merge leave several runs, which
   the next search joins, the shorter into the longer. So merging costs nothing here, and a text moves O(log n) times.
2. A slot is tag << 32 | reference, 0 if empty; the tag is the upper half of the key. Its home is tag · capacity / 2^32:
   a table is nearly sorted by tag, and enlarging it accesses memory sequentially, without reading keys.
3. A text alone in its bucket has place RUN = 0; run 0 and cell 0 are never used. A page not present has place RUN = 0.

Kernels that run out of room return False (or -1) and change nothing; the caller enlarges the arrays and calls again.

Functions called once per column take plain arrays, those called once per text take `Tables`: numba counts every access
to an array inside a tuple with two atomic operations, which costs ten times as much as a lookup.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.arrays import copy_into
from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.hash_slots import after

# Columns of `runs`. The run of a text's copies is not in a bucket: its OWNER is the text.
CELL, EXTENT, NEXT, PREVIOUS, OWNER = 0, 1, 2, 3, 3

# The last axis of `place` and `page_place`.
RUN, AT = 0, 1

# Columns of `marks`: the run of a text's copies, the last query that met it, whether it has no shingles (so no bands).
COPIES, SEEN, BARE = 0, 1, 2

# Fields of `counts`; from FREE_CELLS on the first free block by exponent, from USED on the slots in use by column.
STAYING, RUN_TOP, RUN_FREE, CELL_TOP, TEXT_TOP, TEXT_FREE, TEXTS, PAGES, NEXT_COMPONENT, QUERY, FREE_CELLS = range(11)
USED = FREE_CELLS + 32

# A run's capacity is a power of two; its exponent is the low 5 bits of EXTENT, its size the rest.
CAPACITY_BITS = 5
CAPACITY_MASK = (1 << CAPACITY_BITS) - 1
TEXTS_MAX = 1 << (31 - CAPACITY_BITS)  # 67,108,864
CELLS_MAX = (1 << 31) - 1
QUERIES_MAX = (1 << 31) - 1  # then SEEN is reset

# How many runs of a bucket an insertion examines for one of its component; then it starts a new run, joined later.
RUNS_TRIED_MAX = 8

EMPTY = np.uint64(0)
HALF = np.uint64(32)
LOWER = np.uint64(0xFFFF_FFFF)
ONE = np.uint64(1)

Ints = NDArray[np.int64]
Shorts = NDArray[np.int32]
Words = NDArray[np.uint64]


class Tables(NamedTuple):
    """All arrays of the index; `texts`, `pages` … denote capacities."""

    slots: Words  # (bands, slots)
    slots_before: Words  # (bands, slots): the first counts[STAYING] bands, not migrated yet
    content_slots: Words  # of the last column; near copies share band slots, but not content slots
    keys: Words  # (texts, columns)
    place: Shorts  # (texts, columns, 2): the run, and the index in it
    label: Ints  # (texts): component; of a free text, the next free one
    content: Words  # (texts, 2): content hash
    marks: Shorts  # (texts, 3)
    runs: Shorts  # (runs, 4): cell, extent, next, previous
    cells: Shorts  # members of all runs; a free block's first cell names the next free one
    page_place: Shorts  # (pages, 1, 2)
    counts: Ints


# ---- slots


@kernel
def home(slot: np.uint64, capacity: int) -> int:
    """The preferred index of the slot."""
    return int(np.int64(((slot >> HALF) * np.uint64(capacity)) >> HALF))


@kernel
def table_of(slots: Words, slots_before: Words, content_slots: Words, counts: Ints, column: int) -> Words:
    """The column's slots, before or after its migration to the larger array."""
    if column == slots.shape[0]:
        return content_slots
    table: Words = slots_before[column] if column < counts[STAYING] else slots[column]
    return table


@inner
def slot_of_run(key: np.uint64, run: int) -> np.uint64:
    """A slot that refers to the first run of a bucket: an even reference."""
    return ((key >> HALF) << HALF) | np.uint64(run << 1)


@inner
def slot_of_text(key: np.uint64, text: int) -> np.uint64:
    """A slot that refers to a lone text: an odd reference."""
    return ((key >> HALF) << HALF) | np.uint64((text << 1) | 1)


@inner
def run_in(slot: np.uint64) -> int:
    """The first run of the bucket; 0 if there is only one text."""
    return 0 if slot & ONE else int(np.int64((slot & LOWER) >> ONE))


@inner
def text_in(runs: Shorts, cells: Shorts, slot: np.uint64) -> int:
    """Some text of the bucket."""
    if slot & ONE:
        return int(np.int64((slot & LOWER) >> ONE))
    return int(np.int64(cells[runs[run_in(slot), CELL]]))


@inner
def find_slot(table: Words, keys: Words, runs: Shorts, cells: Shorts, column: int, key: np.uint64) -> int:
    """The index of the key's slot, or -1 - (index of the empty slot where it would go)."""
    index = home(key, len(table))
    while table[index] != EMPTY:
        if table[index] >> HALF == key >> HALF and keys[text_in(runs, cells, table[index]), column] == key:
            return index
        index = after(index, len(table))
    return -1 - index


@inner
def clear_slot(table: Words, hole: int) -> None:
    """Linear probing without tombstones: later slots move back if their home allows (Knuth 6.4, algorithm R)."""
    capacity, index = len(table), hole
    while True:
        index = after(index, capacity)
        if table[index] == EMPTY:
            break
        distance = (index - home(table[index], capacity) + capacity) % capacity
        if distance >= (index - hole + capacity) % capacity:
            table[hole] = table[index]
            hole = index
    table[hole] = EMPTY


@kernel
def copy_slots(smaller: Words, larger: Words) -> None:
    """Fill a larger, empty table."""
    for slot in smaller:
        if slot != EMPTY:
            index = home(slot, len(larger))
            while larger[index] != EMPTY:
                index = after(index, len(larger))
            larger[index] = slot


# ---- cells and runs


@inner
def take_cells(cells: Shorts, counts: Ints, exponent: int) -> int:
    """A block of 2^exponent cells, or -1."""
    block = int(counts[FREE_CELLS + exponent])
    if block:
        counts[FREE_CELLS + exponent] = cells[block]
        return block
    block = int(counts[CELL_TOP])
    if block + (1 << exponent) > len(cells):
        return -1
    counts[CELL_TOP] += 1 << exponent
    return block


@inner
def free_cells(cells: Shorts, counts: Ints, block: int, exponent: int) -> None:
    """Free a block."""
    cells[block] = counts[FREE_CELLS + exponent]
    counts[FREE_CELLS + exponent] = block


@inner
def take_run(runs: Shorts, cells: Shorts, counts: Ints) -> int:
    """An empty run of one cell that is not in a bucket, or -1."""
    run = int(counts[RUN_FREE])
    if not run and counts[RUN_TOP] >= len(runs):
        return -1
    block = take_cells(cells, counts, 0)
    if block < 0:
        return -1
    if run:
        counts[RUN_FREE] = runs[run, NEXT]
    else:
        run = int(counts[RUN_TOP])
        counts[RUN_TOP] += 1
    runs[run, CELL], runs[run, EXTENT], runs[run, NEXT], runs[run, PREVIOUS] = block, 0, 0, 0
    return run


@inner
def free_run(runs: Shorts, cells: Shorts, counts: Ints, run: int) -> None:
    """Free a run and its cells."""
    free_cells(cells, counts, int(np.int64(runs[run, CELL])), int(np.int64(runs[run, EXTENT] & CAPACITY_MASK)))
    runs[run, NEXT] = counts[RUN_FREE]
    counts[RUN_FREE] = run


@inner
def run_size(runs: Shorts, run: int) -> int:
    """Members of a run."""
    return int(np.int64(runs[run, EXTENT])) >> CAPACITY_BITS


@inner
def resize_run(runs: Shorts, cells: Shorts, counts: Ints, run: int, exponent: int) -> bool:
    """Move a run's members to a block of 2^exponent cells; their order stays."""
    block = take_cells(cells, counts, exponent)
    if block < 0:
        return False
    size, before = run_size(runs, run), int(np.int64(runs[run, CELL]))
    for at in range(size):
        cells[block + at] = cells[before + at]
    free_cells(cells, counts, before, int(np.int64(runs[run, EXTENT] & CAPACITY_MASK)))
    runs[run, CELL], runs[run, EXTENT] = block, size << CAPACITY_BITS | exponent
    return True


@inner
def reserve(runs: Shorts, cells: Shorts, counts: Ints, run: int, more: int) -> bool:
    """Make room for `more` members."""
    exponent = int(np.int64(runs[run, EXTENT] & CAPACITY_MASK))
    enough, wanted = exponent, run_size(runs, run) + more
    while (1 << enough) < wanted:
        enough += 1
    return enough == exponent or bool(resize_run(runs, cells, counts, run, enough))


@kernel
def append(runs: Shorts, cells: Shorts, counts: Ints, place: Shorts, column: int, run: int, member: int) -> bool:
    """Append a member to a run."""
    if not reserve(runs, cells, counts, run, 1):
        return False
    size = run_size(runs, run)
    cells[runs[run, CELL] + size] = member
    runs[run, EXTENT] += 1 << CAPACITY_BITS
    place[member, column, RUN], place[member, column, AT] = run, size
    return True


@inner
def detach(runs: Shorts, cells: Shorts, counts: Ints, place: Shorts, column: int, member: int) -> int:
    """Remove a member from its run; the last member takes its index. Returns the remaining size."""
    run, at = int(np.int64(place[member, column, RUN])), place[member, column, AT]
    size, block = run_size(runs, run) - 1, int(np.int64(runs[run, CELL]))
    last = cells[block + size]
    cells[block + at] = last
    place[last, column, AT] = at
    place[member, column, RUN] = 0
    runs[run, EXTENT] -= 1 << CAPACITY_BITS
    exponent = int(np.int64(runs[run, EXTENT] & CAPACITY_MASK))
    if size and exponent > 1 and size <= 1 << (exponent - 2):
        # Shrink to a half at a quarter: a run with a size around a power of two is not copied each time.
        resize_run(runs, cells, counts, run, exponent - 1)
    return size


@inner
def chain_after(runs: Shorts, head: int, run: int) -> None:
    """Insert a run as the second of its bucket, so that the slot does not change."""
    following = runs[head, NEXT]
    runs[run, NEXT], runs[run, PREVIOUS] = following, head
    runs[head, NEXT] = run
    if following:
        runs[following, PREVIOUS] = run


# ---- buckets


@inner
def unchain(
    table: Words, keys: Words, runs: Shorts, cells: Shorts, counts: Ints, column: int, key: np.uint64, run: int
) -> int:
    """Remove a run from its bucket and free it. Returns a run that is left. Its first cell must still contain a text of
    the bucket, by which the key is found."""
    previous, following = int(np.int64(runs[run, PREVIOUS])), int(np.int64(runs[run, NEXT]))
    if not previous:
        table[find_slot(table, keys, runs, cells, column, key)] = slot_of_run(key, following)
    else:
        runs[previous, NEXT] = following
    if following:
        runs[following, PREVIOUS] = previous
    free_run(runs, cells, counts, run)
    return previous if previous else following


@inner
def pair_up(
    table: Words,
    keys: Words,
    place: Shorts,
    label: Ints,
    runs: Shorts,
    cells: Shorts,
    counts: Ints,
    column: int,
    index: int,
    text: int,
) -> bool:
    """Add a second text to the bucket of a single text: to the same run if they are in one component."""
    resident = text_in(runs, cells, table[index])
    run = take_run(runs, cells, counts)
    if run < 0:
        return False
    if label[resident] == label[text]:
        other = run
        enough = reserve(runs, cells, counts, run, 2)
    else:
        other = take_run(runs, cells, counts)
        enough = other >= 0
    if not enough:
        free_run(runs, cells, counts, run)
        return False
    append(runs, cells, counts, place, column, run, resident)
    append(runs, cells, counts, place, column, other, text)
    if other != run:
        chain_after(runs, run, other)
    table[index] = slot_of_run(keys[text, column], run)
    return True


@inner
def enter_bucket(
    table: Words,
    keys: Words,
    place: Shorts,
    label: Ints,
    runs: Shorts,
    cells: Shorts,
    counts: Ints,
    column: int,
    text: int,
) -> bool:
    """Insert a text into its bucket of a column."""
    key = keys[text, column]
    index = find_slot(table, keys, runs, cells, column, key)
    if index < 0:
        table[-1 - index] = slot_of_text(key, text)
        place[text, column, RUN] = 0
        counts[USED + column] += 1
        return True
    head = run_in(table[index])
    if not head:
        return bool(pair_up(table, keys, place, label, runs, cells, counts, column, index, text))
    run = head
    for _ in range(RUNS_TRIED_MAX):
        if label[cells[runs[run, CELL]]] == label[text]:
            return bool(append(runs, cells, counts, place, column, run, text))
        run = int(np.int64(runs[run, NEXT]))
        if not run:
            break
    run = take_run(runs, cells, counts)
    if run < 0:
        return False
    append(runs, cells, counts, place, column, run, text)
    chain_after(runs, head, run)
    return True


@inner
def leave_bucket(
    table: Words, keys: Words, place: Shorts, runs: Shorts, cells: Shorts, counts: Ints, column: int, text: int
) -> None:
    """Remove a text from its bucket; a bucket left with one text frees its run."""
    key, run = keys[text, column], int(np.int64(place[text, column, RUN]))
    if not run:
        clear_slot(table, find_slot(table, keys, runs, cells, column, key))
        counts[USED + column] -= 1
        return
    if not detach(runs, cells, counts, place, column, text):
        run = unchain(table, keys, runs, cells, counts, column, key, run)
    if not runs[run, NEXT] and not runs[run, PREVIOUS] and run_size(runs, run) == 1:
        last = int(np.int64(cells[runs[run, CELL]]))
        table[find_slot(table, keys, runs, cells, column, key)] = slot_of_text(key, last)
        place[last, column, RUN] = 0
        free_run(runs, cells, counts, run)


@inner
def join_runs(
    table: Words,
    keys: Words,
    place: Shorts,
    runs: Shorts,
    cells: Shorts,
    counts: Ints,
    column: int,
    one: int,
    other: int,
) -> int:
    """Join two runs of a bucket, now in one component, the shorter into the longer. Returns it, or -1 without room."""
    longer, shorter = (one, other) if run_size(runs, one) >= run_size(runs, other) else (other, one)
    size, block = run_size(runs, shorter), int(np.int64(runs[shorter, CELL]))
    if not reserve(runs, cells, counts, longer, size):
        return -1
    for at in range(size):
        append(runs, cells, counts, place, column, longer, int(np.int64(cells[block + at])))
    unchain(table, keys, runs, cells, counts, column, keys[cells[block], column], shorter)
    return longer


@inner
def bucket_texts(runs: Shorts, cells: Shorts, slot: np.uint64) -> Ints:
    """All texts of a bucket."""
    run = run_in(slot)
    if not run:
        return np.full(1, text_in(runs, cells, slot), dtype=np.int64)
    count, link = 0, run
    while link:
        count += run_size(runs, link)
        link = int(np.int64(runs[link, NEXT]))
    texts, filled = np.empty(count, dtype=np.int64), 0
    while run:
        block = int(np.int64(runs[run, CELL]))
        for at in range(run_size(runs, run)):
            texts[filled] = cells[block + at]
            filled += 1
        run = int(np.int64(runs[run, NEXT]))
    return texts


# ---- texts


@kernel
def enter_buckets(t: Tables, text: int) -> bool:
    """Insert a text into all its buckets, or none. A bare text is only in the last column: it equals its copies."""
    slots, before, content_slots, counts = t.slots, t.slots_before, t.content_slots, t.counts
    keys, place, label, runs, cells = t.keys, t.place, t.label, t.runs, t.cells
    first = keys.shape[1] - 1 if t.marks[text, BARE] else 0
    for column in range(first, keys.shape[1]):
        table = table_of(slots, before, content_slots, counts, column)
        if not enter_bucket(table, keys, place, label, runs, cells, counts, column, text):
            for entered in range(first, column):
                table = table_of(slots, before, content_slots, counts, entered)
                leave_bucket(table, keys, place, runs, cells, counts, entered, text)
            return False
    return True


@kernel
def leave_buckets(t: Tables, text: int) -> None:
    """Remove a text from all its buckets."""
    slots, before, content_slots, counts = t.slots, t.slots_before, t.content_slots, t.counts
    keys, place, runs, cells = t.keys, t.place, t.runs, t.cells
    for column in range(keys.shape[1] - 1 if t.marks[text, BARE] else 0, keys.shape[1]):
        table = table_of(slots, before, content_slots, counts, column)
        leave_bucket(table, keys, place, runs, cells, counts, column, text)


@inner
def take_text(t: Tables) -> int:
    """A new text with an empty run for its copies, or -1."""
    counts = t.counts
    text = int(counts[TEXT_FREE])
    if text < 0 and counts[TEXT_TOP] >= len(t.label):
        return -1
    copies = take_run(t.runs, t.cells, counts)
    if copies < 0:
        return -1
    if text >= 0:
        counts[TEXT_FREE] = t.label[text]
    else:
        text = int(counts[TEXT_TOP])
        counts[TEXT_TOP] += 1
    t.marks[text, COPIES] = copies
    t.runs[copies, OWNER] = text
    counts[TEXTS] += 1
    return text


@kernel
def free_text(t: Tables, text: int) -> None:
    """Free a text that has no copies and is in no bucket."""
    free_run(t.runs, t.cells, t.counts, int(np.int64(t.marks[text, COPIES])))
    t.label[text] = t.counts[TEXT_FREE]
    t.counts[TEXT_FREE] = text
    t.counts[TEXTS] -= 1


@kernel
def new_text(t: Tables, keys: Words, content: Words, bare: bool, component: int) -> int:
    """A text in all its buckets, without copies yet; -1 if there is no room."""
    text = take_text(t)
    if text < 0:
        return -1
    copy_into(t.keys[text], keys)
    copy_into(t.content[text], content)
    t.label[text] = component
    t.marks[text, BARE], t.marks[text, SEEN] = bare, 0
    if not enter_buckets(t, text):
        free_text(t, text)
        return -1
    return text


@kernel
def texts_with_content(t: Tables, key: np.uint64, content: Words) -> Ints:
    """The texts with this content hash, one per component (several of one component only until they are joined)."""
    column, hashes = t.keys.shape[1] - 1, t.content
    index = find_slot(t.content_slots, t.keys, t.runs, t.cells, column, key)
    if index < 0:
        return np.empty(0, dtype=np.int64)
    texts, count = bucket_texts(t.runs, t.cells, t.content_slots[index]), 0
    for text in texts:
        if hashes[text, 0] == content[0] and hashes[text, 1] == content[1]:
            texts[count] = text
            count += 1
    return texts[:count]


@inner
def add_copy(t: Tables, page: int, text: int) -> bool:
    """Make a page a copy of a text."""
    return bool(append(t.runs, t.cells, t.counts, t.page_place, 0, int(np.int64(t.marks[text, COPIES])), page))


@kernel
def move_page(t: Tables, page: int, text: int) -> bool:
    """Make a page a copy of another text with the same content."""
    if not reserve(t.runs, t.cells, t.counts, int(np.int64(t.marks[text, COPIES])), 1):
        return False
    detach(t.runs, t.cells, t.counts, t.page_place, 0, page)
    return bool(add_copy(t, page, text))


@inner
def remove_page(t: Tables, page: int) -> int:
    """Remove a page, and its text with the last copy. Returns the text if it was removed, else -1."""
    text = int(np.int64(t.runs[t.page_place[page, 0, RUN], OWNER]))
    t.counts[PAGES] -= 1
    if detach(t.runs, t.cells, t.counts, t.page_place, 0, page):
        return -1
    leave_buckets(t, text)
    free_text(t, text)
    return text


@inner
def begin_query(counts: Ints, marks: Shorts) -> int:
    """A number for SEEN that no text has."""
    if counts[QUERY] == QUERIES_MAX:
        marks[:, SEEN] = 0
        counts[QUERY] = 0
    counts[QUERY] += 1
    return int(counts[QUERY])
