"""The containment processor: finds pages that share a term, so that one may contain the other. By partition of terms.

Tier 2 posts the pages that are not duplicates, and is notified of pairs that become candidates or stop being so. It
measures the pairs and decides (core/tier2/containers.py). All state is a function of the pages posted, not their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from dustream.core.containment.candidate_index import CODE_CAP, TERM_CAP, CandidateIndex, Changes, summed
from dustream.core.containment.rows import SERIAL_BITS, PostedPages, page_id, row_key, without
from dustream.core.processor import Send, Table, TaskState
from dustream.schemas.containment import ContainmentMessage, Post, Postings, Unpost
from dustream.schemas.tier2 import Propose

PAIRS_MAX = 10_000  # in one message

TABLES: dict[str, Any] = {"posted": Postings}


class ContainmentProcessor:
    """One task of `containment`. The index is derived from the table."""

    def __init__(self, *, term_cap: int = TERM_CAP, code_cap: int = CODE_CAP) -> None:
        self._caps = term_cap, code_cap

    def open(self, state: TaskState) -> None:
        self._posted: Table[Postings] = state.table("posted")
        self._index = CandidateIndex(*self._caps)
        for key, row in self._posted.scan():
            self._index_pages(int(key[:3], 16), PostedPages.of(row))

    def process(self, state: TaskState, messages: Sequence[ContainmentMessage]) -> list[Send]:
        changes: list[Changes] = []
        for message in messages:
            if isinstance(message, Post):
                pages = PostedPages.of(message.postings)
                self._keep(message.home, pages)
                changes.append(self._index_pages(message.home, pages))
            else:
                changes += self._unpost(message)
        return list(_proposals(np.concatenate(changes))) if changes else []

    def _index_pages(self, home: int, pages: PostedPages) -> Changes:
        ids = pages.serials | home << SERIAL_BITS
        return self._index.post(ids, pages.sizes, pages.masks, pages.counts, pages.terms, pages.kinds)

    def _keep(self, home: int, pages: PostedPages) -> None:
        first = 0
        for key, same in groupby(pages.row_keys(home)):
            end = first + sum(1 for _ in same)
            known, part = self._posted.get(key), pages.part(first, end)
            self._posted.put(key, (part if known is None else PostedPages.of(known).joined(part)).postings())
            first = end

    def _unpost(self, message: Unpost) -> list[Changes]:
        """Remove pages. Pages without a term in this partition are not known here."""
        pages: list[int] = []
        terms: list[bytes] = []
        for serial in np.frombuffer(message.serials, dtype="<i8").tolist():
            key = row_key(message.home, serial)
            known = self._posted.get(key)
            cut = None if known is None else without(known, serial)
            if cut is not None:
                pages += [page_id(message.home, serial)] * (len(cut.terms) // 8)
                terms.append(cut.terms)
                if cut.left.serials:
                    self._posted.put(key, cut.left)
                else:
                    self._posted.delete(key)
        if not pages:
            return []
        return [self._index.unpost(np.array(pages, dtype=np.int64), np.frombuffer(b"".join(terms), dtype="<u8"))]


def _proposals(changes: Changes) -> Iterator[Send]:
    """One message per tier-2 partition, with the sum of the changes of each pair."""
    pairs = summed(changes)
    homes = pairs[:, 0] >> SERIAL_BITS
    for home in np.unique(homes).tolist():
        mine = pairs[homes == home]
        for start in range(0, len(mine), PAIRS_MAX):
            columns = mine[start : start + PAIRS_MAX].T
            yield Send("tier2", home, Propose(*(column.tobytes() for column in columns)))
