"""Containment: which pages contain the entries of a partition, in every market.

Rules:
- A page can be contained in a page that has at least `share_min` of its shingles, at least as many shingles, and is
  better in the order: more shingles, and of equally many the better by the winner criteria (or by these alone, as
  configured).
- Only a kept page can contain others: a winner in the stars that is not contained itself.
- Of the pages that can contain it, a page is contained in the one with the largest share of it; of several, in the
  best.
Evaluated from the best page to the worst, these rules have one solution, whatever the order of arrival.

Implementation:
- Entries that are winners in some market are *posted* to the index of terms (core/containment), under a serial that is
  never reused. The index proposes candidates: pairs that share a term, with the number of terms they share. Posting is
  delayed until the task is at rest or many entries wait: most new pages turn out to be duplicates, and terms common.
- A new candidate is *weighed*: its page's shingles are sent to the container's home, which answers with the exact share
  and the container's standing: its keys in the orders, and the markets in which it is kept. If the share is enough, the
  page *depends* on the container and is notified when that standing changes. Otherwise the pair is *rejected* for good,
  because contents do not change under a serial. Rejected pairs are most of all, so they have no rows: after the task is
  opened, one that is proposed again is weighed again. A pair with the same home needs no messages.
- The page's record in `pages` is notified of its container, and answers in which markets the page is dropped for it:
  only where the page is alone in its group.
A term of more than a bounded number of pages proposes nothing, so a page has few candidates and few dependents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from dustream.core.containment.rows import PostedPages, home_of, page_id, serial_of
from dustream.core.containment.sketch import SHINGLES_MIN, Sketch, page_sketches
from dustream.core.processor import Send, Table, TaskState
from dustream.core.text.repeatability import common_chars_min, repeatability
from dustream.core.text.shingle_bytes import shingle_count
from dustream.core.tier2.rows import (
    CandidateRow,
    ContainerRow,
    DependentRow,
    SerialRow,
    VertexRow,
    won_markets,
)
from dustream.core.tier2.vertices import Vertices
from dustream.core.tier2.weighing import common_with, portions
from dustream.core.vertex import url_of
from dustream.schemas.containment import Post, Unpost
from dustream.schemas.pages import Contained, Verdict
from dustream.schemas.signature import PageSignature
from dustream.schemas.tier2 import ContainmentDropped, Propose, Release, Stands, Weigh, Weighed, Weight

WAITING_MAX = 2_000  # entries that may wait to be posted while pages keep arriving
SKETCHED_AT_ONCE = 64  # pages whose shingles are copied together
WEIGHED_AT_ONCE = 1_024  # containers whose shingles are copied together
_NEXT_SERIAL = "next"

ContainerOrder = Callable[[int, bytes], bytes]
"""(shingles, key in the winner order) → the key in the order of containers; the smaller is better."""


def longer_first(shingles: int, key: bytes) -> bytes:
    """More shingles are better; of equally long pages, the better by the winner criteria."""
    return (0xFFFFFFFF - shingles).to_bytes(4, "big") + key


def criteria_first(shingles: int, key: bytes) -> bytes:
    """The winner criteria alone: a page is not dropped for a longer one that is worse by them."""
    return key


class ContainmentRules(NamedTuple):
    """Settings of the search. `partitions`: of the index of terms. `languages`: only pages in these; None: all."""

    partitions: int
    share_min: float
    order: ContainerOrder = longer_first
    languages: frozenset[str] | None = None
    shingles_min: int = SHINGLES_MIN
    waiting_max: int = WAITING_MAX


TABLES = {
    "candidates": CandidateRow,
    "dependents": DependentRow,
    "containers": ContainerRow,
    "serials": SerialRow,
}


class Containers:
    """The entries of one partition. Candidates and dependents are also kept in memory: there are few."""

    def __init__(self, state: TaskState, markets: int, vertices: Vertices, rules: ContainmentRules) -> None:
        self._partition = state.partition
        self._markets = markets
        self._vertices = vertices
        self._rules = rules
        self._candidate_rows: Table[CandidateRow] = state.table("candidates")
        self._dependent_rows: Table[DependentRow] = state.table("dependents")
        self._container_rows: Table[ContainerRow] = state.table("containers")
        self._serial_rows: Table[SerialRow] = state.table("serials")
        next_serial = self._serial_rows.get(_NEXT_SERIAL)
        self._next_serial = 1 if next_serial is None else next_serial.serial
        self._numbers: dict[int, int] = {}  # by serial
        self._candidates: dict[int, dict[int, CandidateRow]] = {}  # by the page's serial and the container's id
        self._rejected: dict[int, dict[int, int]] = {}  # likewise: the number of terms they share
        self._dependents: dict[int, set[int]] = {}  # by the container's serial: ids of pages
        self._waiting: set[int] = set()  # winners not posted yet
        self._unposted: dict[int, list[int]] = {}  # serials to withdraw, by partition of the terms
        self._proposed: list[Propose] = []  # in this step
        self._undecided: set[int] = set()  # serials of pages whose containers changed in this step
        self._out: list[Send] = []
        for number in vertices.numbers():
            row = vertices.row(number)
            if row.post:
                self._numbers[row.post] = number
            elif row.entry and won_markets(row):
                self._waiting.add(number)
        for key, candidate in self._candidate_rows.scan():
            self._candidates.setdefault(int(key[:12], 16), {})[int(key[12:], 16)] = candidate
        for key, _ in self._dependent_rows.scan():
            self._dependents.setdefault(int(key[:12], 16), set()).add(int(key[12:], 16))

    # Posting

    def drain(self, *, at_rest: bool = False) -> list[Send]:
        """At the end of a step: apply proposals and changes of the stars, decide the pages concerned, post waiting
        entries if it is time, return the messages."""
        if self._proposed:
            self._apply_proposals()
        changed, self._vertices.changed = sorted(self._vertices.changed), set()
        for number in changed:
            self._follow(number)
        undecided, self._undecided = sorted(self._undecided), set()
        for serial in undecided:
            self._decide(self._vertices.row(self._numbers[serial]))
        if self._waiting and (at_rest or len(self._waiting) >= self._rules.waiting_max):
            self._post_waiting()
        unposted, self._unposted = self._unposted, {}
        for partition, serials in sorted(unposted.items()):
            unpost = Unpost(self._partition, np.array(serials, dtype="<i8").tobytes())
            self._out.append(Send("containment", partition, unpost))
        out, self._out = self._out, []
        return out

    def _follow(self, number: int) -> None:
        """Apply a new vertex, or a change of its stars."""
        row = self._vertices.row(number)
        is_winner = won_markets(row) != 0
        if row.post and is_winner:
            self._notify_dependents(row)
            self._undecided.add(row.post)
        elif row.post:
            self._withdraw(number, row)
            self._vertices.put(number, replace(row, post=0))
        elif is_winner:
            self._waiting.add(number)
        else:
            self._waiting.discard(number)

    def _post_waiting(self) -> None:
        posted: list[tuple[int, int, Sketch]] = []  # serial, shingles, sketch
        waiting = sorted(self._waiting)
        for start in range(0, len(waiting), SKETCHED_AT_ONCE):
            posted += self._serials_for(waiting[start : start + SKETCHED_AT_ONCE])
        self._waiting.clear()
        if posted:
            self._keep_serial()
            self._out += self._posts(posted)

    def _serials_for(self, numbers: list[int]) -> Iterator[tuple[int, int, Sketch]]:
        """Give serials to the pages among these that are looked at."""
        each = [(number, self._vertices.content(number)) for number in numbers]
        looked_at = [(number, content) for number, content in each if self._is_looked_at(content)]
        sketches = page_sketches([content for _, content in looked_at])
        for (number, content), sketch in zip(looked_at, sketches, strict=True):
            serial, self._next_serial = self._next_serial, self._next_serial + 1
            self._numbers[serial] = number
            self._vertices.put(number, replace(self._vertices.row(number), post=serial))
            yield serial, shingle_count(content.shingles), sketch

    def _keep_serial(self) -> None:
        self._serial_rows.put(_NEXT_SERIAL, SerialRow(self._next_serial))

    def _is_looked_at(self, content: PageSignature) -> bool:
        languages = self._rules.languages
        return shingle_count(content.shingles) >= self._rules.shingles_min and (
            languages is None or content.lang in languages
        )

    def _posts(self, posted: list[tuple[int, int, Sketch]]) -> Iterator[Send]:
        """One message per partition of the terms."""
        serials = np.array([serial for serial, _, _ in posted], dtype="<i8")
        sizes = np.array([size for _, size, _ in posted], dtype="<i4")
        masks = np.array([sketch.masks for _, _, sketch in posted], dtype="<u8")
        owners = np.repeat(np.arange(len(posted)), [sketch.terms.size for _, _, sketch in posted])
        terms = np.concatenate([sketch.terms for _, _, sketch in posted])
        kinds = np.concatenate([sketch.kinds for _, _, sketch in posted])
        partitions = self._partitions_of(terms)
        for partition in np.unique(partitions).tolist():
            here = partitions == partition
            pages, counts = np.unique(owners[here], return_counts=True)
            part = PostedPages(
                serials[pages], sizes[pages], masks[pages], counts.astype("<i4"), terms[here], kinds[here]
            )
            yield Send("containment", int(partition), Post(self._partition, part.postings()))

    def _partitions_of(self, terms: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return terms % np.uint64(self._rules.partitions)

    def leave(self, number: int, row: VertexRow) -> None:
        """Remove a vertex."""
        self._waiting.discard(number)
        if row.post:
            self._withdraw(number, row, is_gone=True)

    def _withdraw(self, number: int, row: VertexRow, *, is_gone: bool = False) -> None:
        """Withdraw a posted page with its candidates and dependents. Proposals still on their way name a serial that no
        longer exists."""
        serial = row.post
        content = self._vertices.content(number)
        # the sketch depends on the content alone, so its terms are not stored
        (sketch,) = page_sketches([content])
        for partition in set(self._partitions_of(sketch.terms).tolist()):
            self._unposted.setdefault(partition, []).append(serial)
        del self._numbers[serial]
        self._undecided.discard(serial)
        for container in list(self._candidates.get(serial, ())):
            self._drop_candidate(serial, container)
        self._rejected.pop(serial, None)
        for page in self._dependents.pop(serial, ()):
            self._dependent_rows.delete(_pair_key(serial, page))
        sent = self._container_rows.get(_key(serial))
        if sent is not None:
            self._container_rows.delete(_key(serial))
            for market, verdict in enumerate(sent.verdicts):
                if verdict is not None and not is_gone:
                    self._notify_page(row, market, None)

    # Candidates

    def propose(self, message: Propose) -> None:
        """Note pairs that share terms, or no longer do. The partitions of the terms propose the same pairs, so those of
        a step are applied together."""
        self._proposed.append(message)

    def _apply_proposals(self) -> None:
        proposed, self._proposed = self._proposed, []
        new: dict[tuple[int, int], dict[int, int]] = {}  # by page and the containers' home: terms by container
        for page, container, change in _summed(proposed):
            serial = serial_of(page)
            if change and serial in self._numbers and not self._change_candidate(serial, container, change):
                new.setdefault((serial, home_of(container)), {})[container] = change
        here: list[Weigh] = []
        for (serial, home), terms in new.items():
            content = self._vertices.content(self._numbers[serial])
            containers = tuple([serial_of(container) for container in terms])
            weigh = Weigh(page_id(self._partition, serial), containers, content.shingles, content.code)
            if home == self._partition:
                here.append(weigh)
            else:
                for container, shared in terms.items():
                    self._put_candidate(serial, container, CandidateRow(shared))
                self._out.append(Send("tier2", home, weigh))
        for weigh, weights in self._weights(here):
            serial = serial_of(weigh.page)
            terms = new[serial, self._partition]
            for weight in weights:
                self._take_weight(serial, weight, terms[weight.container])

    def _change_candidate(self, serial: int, container: int, change: int) -> bool:
        """Returns False for a new candidate, which the caller has weighed."""
        rejected = self._rejected.get(serial)
        if rejected is not None and container in rejected:
            rejected[container] += change
            if rejected[container] <= 0:
                del rejected[container]
            return True
        candidates = self._candidates.get(serial)
        known = None if candidates is None else candidates.get(container)
        if known is None:
            return change < 0  # rejected before the task was opened
        if known.terms + change > 0:
            self._put_candidate(serial, container, replace(known, terms=known.terms + change))
        else:
            self._drop_candidate(serial, container)
            if self._is_enough(known):
                self._undecided.add(serial)
        return True

    def _put_candidate(self, serial: int, container: int, row: CandidateRow) -> None:
        self._candidates.setdefault(serial, {})[container] = row
        self._candidate_rows.put(_pair_key(serial, container), row)

    def _drop_candidate(self, serial: int, container: int) -> None:
        self._forget_candidate(serial, container)
        release, home = Release(serial_of(container), page_id(self._partition, serial)), home_of(container)
        if home == self._partition:  # at once: a message could arrive after the pair is weighed again here
            self.release(release)
        else:
            self._out.append(Send("tier2", home, release))

    def _forget_candidate(self, serial: int, container: int) -> None:
        mine = self._candidates[serial]
        del mine[container]
        if not mine:
            del self._candidates[serial]
        self._candidate_rows.delete(_pair_key(serial, container))

    def weigh(self, messages: Sequence[Weigh]) -> None:
        """At the containers' home: compute their shares of the pages, and report their standing."""
        for message, weights in self._weights(messages):
            if weights:
                self._out.append(Send("tier2", home_of(message.page), Weighed(serial_of(message.page), weights)))

    def _weights(self, messages: Sequence[Weigh]) -> Iterator[tuple[Weigh, tuple[Weight, ...]]]:
        for some in portions(messages, [len(message.containers) for message in messages], WEIGHED_AT_ONCE):
            yield from zip(some, self._weights_of(some), strict=True)

    def _weights_of(self, messages: Sequence[Weigh]) -> Iterator[tuple[Weight, ...]]:
        """The weights of the containers still posted."""
        places: dict[int, int] = {}  # of the containers' sets, by serial
        present = [[serial for serial in message.containers if serial in self._numbers] for message in messages]
        members = [[places.setdefault(serial, len(places)) for serial in serials] for serials in present]
        contents = [self._vertices.content(self._numbers[serial]) for serial in places]
        found = iter(
            common_with(
                [message.shingles for message in messages],
                [common_chars_min(shingle_count(message.shingles), self._rules.share_min) for message in messages],
                [content.shingles for content in contents],
                members,
            )
        )
        for message, serials, here in zip(messages, present, members, strict=True):
            each = zip(serials, here, found, strict=False)
            yield tuple([self._weight(message, serial, contents[place], common) for serial, place, common in each])

    def _weight(self, message: Weigh, serial: int, content: PageSignature, common: int) -> Weight:
        own = page_id(self._partition, serial)
        if common < 0:
            return Weight(own, 0.0)
        share = common / shingle_count(message.shingles)
        self._dependents.setdefault(serial, set()).add(message.page)
        self._dependent_rows.put(_pair_key(serial, message.page), DependentRow())
        row = self._vertices.row(self._numbers[serial])
        code_share = repeatability(message.code, content.code) if message.code and content.code else None
        return Weight(own, share, code_share, row.vertex, *self._standing(row, content))

    def weighed(self, message: Weighed) -> None:
        page, candidates = message.page, self._candidates.get(message.page, {})
        for weight in message.weights:
            known = candidates.get(weight.container)
            if known is not None:
                if weight.share < self._rules.share_min:
                    self._forget_candidate(page, weight.container)
                self._take_weight(page, weight, known.terms)

    def _take_weight(self, page: int, weight: Weight, terms: int) -> None:
        """Reject a candidate or depend on it."""
        if weight.share < self._rules.share_min:
            self._rejected.setdefault(page, {})[weight.container] = terms
        else:
            measured = weight.share, weight.code_share, weight.vertex, weight.orders, weight.kept
            self._put_candidate(page, weight.container, CandidateRow(terms, *measured))
            self._undecided.add(page)

    def stands(self, message: Stands) -> None:
        """Apply a change of a container's standing."""
        for page in message.pages:
            known = self._candidates.get(page, {}).get(message.container)
            if known is not None and self._is_enough(known):
                row = replace(known, orders=message.orders, kept=message.kept)
                self._put_candidate(page, message.container, row)
                self._undecided.add(page)

    def release(self, message: Release) -> None:
        """Remove a page that no longer depends on this container."""
        pages = self._dependents.get(message.container)
        if pages is not None and message.page in pages:
            pages.remove(message.page)
            if not pages:
                del self._dependents[message.container]
            self._dependent_rows.delete(_pair_key(message.container, message.page))

    # Decisions

    def _decide(self, row: VertexRow) -> None:
        """Notify the page of its containers, where these changed."""
        serial = row.post
        sent = self._container_rows.get(_key(serial))
        before = sent.verdicts if sent is not None else (None,) * self._markets
        candidates = [each for each in self._candidates.get(serial, {}).values() if self._is_enough(each)]
        if not candidates and sent is None:
            return
        orders, _ = self._standing(row, self._vertices.content(self._numbers[serial]))
        verdicts = tuple(
            _best(candidates, market, orders[market]) if row.stars[market].winner else None
            for market in range(self._markets)
        )
        for market, (was, now) in enumerate(zip(before, verdicts, strict=True)):
            if was != now:
                self._notify_page(row, market, now)
        if any(verdicts):
            self._container_rows.put(_key(serial), ContainerRow(row.vertex, verdicts))
        elif sent is not None:
            self._container_rows.delete(_key(serial))

    def _is_enough(self, candidate: CandidateRow) -> bool:
        return candidate.share is not None and candidate.share >= self._rules.share_min

    def _notify_page(self, row: VertexRow, market: int, verdict: Verdict | None) -> None:
        self._out.append(Send("pages", url_of(row.vertex), Contained(row.vertex, market, verdict)))

    def dropped(self, message: ContainmentDropped) -> None:
        """Apply the markets in which a page is dropped as contained."""
        number = self._vertices.number(message.vertex)
        if number is None:
            return
        row = replace(self._vertices.row(number), dropped=message.markets)
        self._vertices.put(number, row)
        if row.post:
            self._notify_dependents(row)

    def _standing(self, row: VertexRow, content: PageSignature) -> tuple[tuple[bytes, ...], int]:
        """The page's keys in the orders, and the markets in which it is kept."""
        shingles = shingle_count(content.shingles)
        orders = tuple([self._rules.order(shingles, star.key) for star in row.stars])
        return orders, won_markets(row) & ~row.dropped

    def _notify_dependents(self, row: VertexRow) -> None:
        dependents = self._dependents.get(row.post)
        if not dependents:
            return
        orders, kept = self._standing(row, self._vertices.content(self._numbers[row.post]))
        by_home: dict[int, list[int]] = {}
        for page in sorted(dependents):
            by_home.setdefault(home_of(page), []).append(serial_of(page))
        own = page_id(self._partition, row.post)
        for home, pages in by_home.items():
            stands = Stands(tuple(pages), own, orders, kept)
            if home == self._partition:  # at once, as its pages are weighed and released
                self.stands(stands)
            else:
                self._out.append(Send("tier2", home, stands))


def _summed(messages: list[Propose]) -> Iterator[tuple[int, int, int]]:
    """The pairs proposed and the sum of their changes."""
    pages, containers, changes = (
        np.frombuffer(b"".join(column), dtype="<i8")
        for column in zip(*((each.pages, each.containers, each.changes) for each in messages), strict=True)
    )
    order = np.lexsort((containers, pages))
    pages, containers = pages[order], containers[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (pages[1:] != pages[:-1]) | (containers[1:] != containers[:-1])
    sums = np.add.reduceat(changes[order], np.flatnonzero(is_first)) if len(order) else changes
    return zip(pages[is_first].tolist(), containers[is_first].tolist(), sums.tolist(), strict=True)


def _best(candidates: list[CandidateRow], market: int, order: bytes) -> Verdict | None:
    """Of the containers that are kept in a market and better than `order`: the one with the largest share of the page,
    of equal ones the best."""
    kept = [(-each.share, each.orders[market], each) for each in candidates if each.kept >> market & 1 and each.share]
    better = [each for each in kept if each[1] < order]
    if not better:
        return None
    best = min(better, key=lambda each: each[:2])[2]
    assert best.share is not None
    return Verdict(url_of(best.container), best.share, exact=False, contained=True, code_share=best.code_share)


def _key(serial: int) -> str:
    return f"{serial:012x}"


def _pair_key(serial: int, other: int) -> str:
    return "%012x%016x" % (serial, other)  # noqa: UP031 (faster than a format string)
