"""An index of one partition of the terms, in arrays: finds pages that share a term.

A pair (page, container) is a *candidate* by a term if the page asks with it, the container posts it and has at least as
many shingles. For a shingle, the container must also post at least half of the shingles that the page asks with, as
estimated by masks of 128 bits. A term that more pages have than its cap is *common* and makes no candidates: it is
boilerplate, and the cap bounds the number of a page's candidates.

The candidates by each term are a function of the pages posted, not of their order. `post` and `unpost` return the
changes, +1 and -1 for each pair and term, including those of a term that becomes common or stops being so.

Terms up to their cap are hash chains in arrays. Common terms are dictionaries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dustream.core.containment.sketch import ASK, CODE, POST, Terms
from dustream.core.kernels.arrays import copy_into
from dustream.core.kernels.compile import inner, kernel
from dustream.core.kernels.hash_slots import home

TERM_CAP, CODE_CAP = 64, 16

Numbers = NDArray[np.int64]
Changes = NDArray[np.int64]
"""A row for each change: the page, the container, and +1 or -1."""

Links = NDArray[np.int32]
Kinds = NDArray[np.uint8]
Masks = NDArray[np.uint64]

_NONE = -1
_NEXT, _OWNER = 0, 1  # columns of a link


@inner
def _bits(word: np.uint64) -> int:
    count = 0
    while word:
        word &= word - np.uint64(1)
        count += 1
    return count


@inner
def _is_candidate(sizes: Links, masks: Masks, page: int, asks: int, container: int, posts: int) -> bool:
    if not asks & ASK or not posts & POST or sizes[container] < sizes[page]:
        return False
    if asks & CODE:
        return True
    asked = _bits(masks[page, 0]) + _bits(masks[page, 1])
    common = _bits(masks[page, 0] & masks[container, 2]) + _bits(masks[page, 1] & masks[container, 3])
    return 2 * common >= asked


@inner
def _note(found: Numbers, count: int, page: int, container: int, sign: int) -> Numbers:
    if count == len(found):
        larger = np.empty((2 * count, 3), dtype=np.int64)
        for row in range(count):
            copy_into(larger[row], found[row])
        found = larger
    found[count, 0], found[count, 1], found[count, 2] = page, container, sign
    return found


@inner
def _note_both(
    ids: Numbers, sizes: Links, masks: Masks, one: int, one_kind: int, other: int, other_kind: int, sign: int,
    found: Numbers, count: int,
) -> tuple[Numbers, int]:  # fmt: skip
    if _is_candidate(sizes, masks, one, one_kind, other, other_kind):
        found = _note(found, count, ids[one], ids[other], sign)
        count += 1
    if _is_candidate(sizes, masks, other, other_kind, one, one_kind):
        found = _note(found, count, ids[other], ids[one], sign)
        count += 1
    return found, count


@inner
def _note_all(
    ids: Numbers, sizes: Links, masks: Masks, owners: Links, kinds: Kinds, members: int, sign: int, found: Numbers,
    count: int,
) -> tuple[Numbers, int]:  # fmt: skip
    """All candidates among the first `members` pages that share a term."""
    for i in range(members):
        for j in range(i):
            found, count = _note_both(
                ids, sizes, masks, owners[i], kinds[i], owners[j], kinds[j], sign, found, count
            )  # fmt: skip
    return found, count


@kernel
def candidate_pairs(
    sizes: Links, masks: Masks, owners: Links, terms: Terms, kinds: Kinds, order: Numbers, term_cap: int, code_cap: int
) -> Numbers:
    """The candidates among all pages at once, as an index has them once all are posted: per candidate and term the
    page's number × the number of pages + the container's. `owners` has the page of each term, `order` the terms
    ascending."""
    found, count, start = np.empty(1024, dtype=np.int64), 0, 0
    while start < len(order):
        end = start + 1
        while end < len(order) and terms[order[end]] == terms[order[start]]:
            end += 1
        if end - start <= (code_cap if kinds[order[start]] & CODE else term_cap):
            if count + (end - start) ** 2 > len(found):
                larger = np.empty(2 * (count + (end - start) ** 2), dtype=np.int64)
                copy_into(larger, found[:count])
                found = larger
            for one in order[start:end]:
                for other in order[start:end]:
                    page, container = owners[one], owners[other]
                    if one != other and _is_candidate(sizes, masks, page, kinds[one], container, kinds[other]):
                        found[count] = np.int64(page) * len(sizes) + container
                        count += 1
        start = end
    return found[:count]


@kernel
def _link_in(
    heads: Links, links: Links, link_terms: Terms, link_kinds: Kinds, free: int, ids: Numbers, sizes: Links,
    masks: Masks, owners: Links, terms: Terms, kinds: Kinds, term_cap: int, code_cap: int,
) -> tuple[int, Numbers, Terms]:  # fmt: skip
    """Link owners under terms. Returns the first free link, the changes, and the terms that became common."""
    found, count = np.empty((64, 3), dtype=np.int64), 0
    full, full_count = np.empty(terms.size, dtype=np.uint64), 0
    room = max(term_cap, code_cap) + 1
    met, met_kinds = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.uint8)
    for i in range(terms.size):
        term, cap = terms[i], code_cap if kinds[i] & CODE else term_cap
        slot = home(term, len(heads))
        members, link = 0, heads[slot]
        while link != _NONE and members <= cap:
            if link_terms[link] == term:
                met[members], met_kinds[members] = links[link, _OWNER], link_kinds[link]
                members += 1
            link = links[link, _NEXT]
        if members < cap:
            for j in range(members):
                found, count = _note_both(
                    ids, sizes, masks, owners[i], kinds[i], met[j], met_kinds[j], 1, found, count
                )  # fmt: skip
        elif members == cap:
            found, count = _note_all(ids, sizes, masks, met, met_kinds, members, -1, found, count)
            full[full_count] = term
            full_count += 1
        link, free = free, links[free, _NEXT]
        links[link, _OWNER], link_terms[link], link_kinds[link] = owners[i], term, kinds[i]
        links[link, _NEXT], heads[slot] = heads[slot], link
    return free, found[:count], full[:full_count]


@kernel
def _link_out(
    heads: Links, links: Links, link_terms: Terms, link_kinds: Kinds, free: int, ids: Numbers, sizes: Links,
    masks: Masks, pages: Numbers, terms: Terms, owners: Links,
) -> tuple[int, Numbers]:  # fmt: skip
    """Unlink pages from terms that are not common. Returns the first free link and the changes; fills `owners`."""
    found, count = np.empty((64, 3), dtype=np.int64), 0
    for i in range(terms.size):
        term, slot = terms[i], home(terms[i], len(heads))
        before, link, mine, mine_before = _NONE, heads[slot], _NONE, _NONE
        while link != _NONE:
            if link_terms[link] == term and ids[links[link, _OWNER]] == pages[i]:
                mine, mine_before = link, before
            before, link = link, links[link, _NEXT]
        owners[i] = links[mine, _OWNER]
        link = heads[slot]
        while link != _NONE:
            if link != mine and link_terms[link] == term:
                found, count = _note_both(
                    ids, sizes, masks, owners[i], link_kinds[mine], links[link, _OWNER], link_kinds[link], -1, found,
                    count,
                )  # fmt: skip
            link = links[link, _NEXT]
        free = _unlink(heads, links, free, slot, mine, mine_before)
    return free, found[:count]


@kernel
def _unlink(heads: Links, links: Links, free: int, slot: int, link: int, before: int) -> int:
    if before == _NONE:
        heads[slot] = links[link, _NEXT]
    else:
        links[before, _NEXT] = links[link, _NEXT]
    links[link, _OWNER], links[link, _NEXT] = _NONE, free
    return link


@kernel
def _take_chain(
    heads: Links, links: Links, link_terms: Terms, link_kinds: Kinds, free: int, term: np.uint64, owners: Links,
    kinds: Kinds,
) -> tuple[int, int]:  # fmt: skip
    """Unlink all owners of a term. Returns the first free link and the number of owners."""
    slot, count = home(term, len(heads)), 0
    before, link = _NONE, heads[slot]
    while link != _NONE:
        after = links[link, _NEXT]
        if link_terms[link] == term:
            owners[count], kinds[count] = links[link, _OWNER], link_kinds[link]
            count += 1
            free = _unlink(heads, links, free, slot, link, before)
        else:
            before = link
        link = after
    return free, count


@kernel
def _rehash(heads: Links, links: Links, link_terms: Terms, used: int) -> int:
    """Chain the first `used` links again and all others as free. Returns the first free link."""
    for link in range(used):
        slot = home(link_terms[link], len(heads))
        links[link, _NEXT], heads[slot] = heads[slot], link
    for link in range(used, len(links)):
        links[link, _OWNER], links[link, _NEXT] = _NONE, link + 1
    return used


def summed(changes: Changes) -> Changes:
    """One row for each pair, ascending, with the sum of its changes; none where that is 0."""
    if not len(changes):
        return changes
    rows = changes[np.lexsort((changes[:, 1], changes[:, 0]))]
    is_first = np.ones(len(rows), dtype=np.bool_)
    is_first[1:] = (rows[1:, 0] != rows[:-1, 0]) | (rows[1:, 1] != rows[:-1, 1])
    sums = np.add.reduceat(rows[:, 2], np.flatnonzero(is_first))
    pairs = rows[is_first]
    pairs[:, 2] = sums
    changed: Changes = pairs[sums != 0]
    return changed


class CandidateIndex:
    """The index of one task. Pages are identified by ids; a page's terms must be distinct."""

    def __init__(self, term_cap: int = TERM_CAP, code_cap: int = CODE_CAP) -> None:
        self._term_cap = term_cap
        self._code_cap = code_cap
        self._ids = np.empty(0, dtype=np.int64)
        self._sizes = np.empty(0, dtype=np.int32)
        self._masks = np.empty((0, 4), dtype=np.uint64)
        self._free_owners: list[int] = []
        self._used_links = 0
        self._free_link = 0
        self._make_links(1_024)
        self._common: dict[int, dict[int, int]] = {}  # by term and id: the owner's number and the flags, packed

    def post(self, ids: Numbers, sizes: Links, masks: Masks, counts: Links, terms: Terms, kinds: Kinds) -> Changes:
        """Add pages, with `counts[i]` terms each."""
        owners = np.repeat(self._new_owners(ids, sizes, masks), counts)
        is_rare = self._put_common(owners, terms, kinds)
        owners, terms, kinds = owners[is_rare], terms[is_rare], kinds[is_rare]  # always copies: one array layout
        self._make_room(terms.size)
        self._free_link, found, full = _link_in(
            self._heads, self._links, self._link_terms, self._link_kinds, self._free_link, self._ids, self._sizes,
            self._masks, owners, terms, kinds, self._term_cap, self._code_cap,
        )  # fmt: skip
        self._used_links += terms.size
        for term in full.tolist():
            self._set_common(term, max(self._term_cap, self._code_cap) + terms.size)
        return found

    def unpost(self, pages: Numbers, terms: Terms) -> Changes:
        """Remove pages: `terms` are all terms that they were posted with, `pages` the page of each."""
        changes, owners = [], set[int]()
        is_rare = np.array([term not in self._common for term in terms.tolist()], dtype=np.bool_)
        for page, term in zip(pages[~is_rare].tolist(), terms[~is_rare].tolist(), strict=True):
            owner, change = self._remove_common(term, page)
            owners.add(owner)
            changes.append(change)
        pages, terms = pages[is_rare], terms[is_rare]
        linked = np.empty(terms.size, dtype=np.int32)
        self._free_link, found = _link_out(
            self._heads, self._links, self._link_terms, self._link_kinds, self._free_link, self._ids, self._sizes,
            self._masks, pages, terms, linked,
        )  # fmt: skip
        self._used_links -= terms.size
        self._free_owners += sorted(owners | set(linked.tolist()))
        return np.concatenate([found, *changes])

    def _new_owners(self, ids: Numbers, sizes: Links, masks: Masks) -> Links:
        lacking = ids.size - len(self._free_owners)
        if lacking > 0:
            known = self._ids.size
            more = max(lacking, known, 64)
            self._ids = np.concatenate([self._ids, np.zeros(more, dtype=np.int64)])
            self._sizes = np.concatenate([self._sizes, np.zeros(more, dtype=np.int32)])
            self._masks = np.concatenate([self._masks, np.zeros((more, 4), dtype=np.uint64)])
            self._free_owners[:0] = range(known + more - 1, known - 1, -1)
        owners = np.array([self._free_owners.pop() for _ in range(ids.size)], dtype=np.int32)
        self._ids[owners], self._sizes[owners], self._masks[owners] = ids, sizes, masks
        return owners

    # Common terms

    def _put_common(self, owners: Links, terms: Terms, kinds: Kinds) -> NDArray[np.bool_]:
        """Record the common ones among the terms. Returns a mask of the others."""
        is_rare = np.ones(terms.size, dtype=np.bool_)
        for i, term in enumerate(terms.tolist() if self._common else ()):
            pages = self._common.get(term)
            if pages is not None:
                pages[int(self._ids[owners[i]])] = int(owners[i]) << 3 | int(kinds[i])
                is_rare[i] = False
        return is_rare

    def _set_common(self, term: int, pages_max: int) -> None:
        owners, kinds = np.empty(pages_max, dtype=np.int32), np.empty(pages_max, dtype=np.uint8)
        self._free_link, count = _take_chain(
            self._heads, self._links, self._link_terms, self._link_kinds, self._free_link, np.uint64(term), owners,
            kinds,
        )  # fmt: skip
        self._used_links -= count
        packed = (owners[:count].astype(np.int64) << 3 | kinds[:count]).tolist()
        self._common[term] = dict(zip(self._ids[owners[:count]].tolist(), packed, strict=True))

    def _remove_common(self, term: int, page: int) -> tuple[int, Changes]:
        """Remove a page from a common term. Returns the page's owner number and the changes."""
        pages = self._common.get(term)
        if pages is None:  # it was common until an earlier page of this call was removed
            return self._remove_rare(term, page)
        packed = pages.pop(page)
        owner, kind = packed >> 3, packed & 7
        if len(pages) > (self._code_cap if kind & CODE else self._term_cap):
            return owner, np.empty((0, 3), dtype=np.int64)
        del self._common[term]
        left = np.array(list(pages.values()), dtype=np.int64)
        owners, kinds = (left >> 3).astype(np.int32), (left & 7).astype(np.uint8)
        self._make_room(owners.size)
        self._free_link, found, _ = _link_in(
            self._heads, self._links, self._link_terms, self._link_kinds, self._free_link, self._ids, self._sizes,
            self._masks, owners, np.full(owners.size, term, dtype=np.uint64), kinds, self._term_cap, self._code_cap,
        )  # fmt: skip
        self._used_links += owners.size
        return owner, found

    def _remove_rare(self, term: int, page: int) -> tuple[int, Changes]:
        owner = np.empty(1, dtype=np.int32)
        self._free_link, found = _link_out(
            self._heads, self._links, self._link_terms, self._link_kinds, self._free_link, self._ids, self._sizes,
            self._masks, np.array([page]), np.array([term], dtype=np.uint64), owner,
        )  # fmt: skip
        self._used_links -= 1
        return int(owner[0]), found

    # Room

    def _make_links(self, size: int) -> None:
        self._links = np.empty((size, 2), dtype=np.int32)
        self._link_terms = np.empty(size, dtype=np.uint64)
        self._link_kinds = np.empty(size, dtype=np.uint8)
        self._heads = np.full(size, _NONE, dtype=np.int32)
        self._free_link = _rehash(self._heads, self._links, self._link_terms, 0)

    def _make_room(self, links: int) -> None:
        used, size = self._used_links, len(self._links)
        if used + links <= size:
            return
        in_use = self._links[:, _OWNER] != _NONE
        owners, terms, kinds = self._links[in_use, _OWNER], self._link_terms[in_use], self._link_kinds[in_use]
        while size < used + links:
            size *= 2
        self._make_links(size)
        self._links[:used, _OWNER], self._link_terms[:used], self._link_kinds[:used] = owners, terms, kinds
        self._free_link = _rehash(self._heads, self._links, self._link_terms, used)
