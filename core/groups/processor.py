"""The groups processor: keeps the connected components of the match graph. Keyed by group.

A group owns memberships, one per vertex, never copied. Rules (docs/explanation/protocol.md):
- An edge to a vertex of another group is a half-edge. Its pending join is sent to that vertex's group. Of the two
  groups, the one with the lower priority (lower rank, then a hash of the key) moves all its memberships to the other.
  Every half-edge has one pending join until both ends are in one group or one of them is dead.
- A request for a vertex that the group does not hold is returned to the vertex's home in `pages`.
- A vertex without a group enters the group of a vertex that it matches. If that vertex is no longer in the group, the
  membership returns to its home.
- A leave may split a group. The largest piece stays; the others move to fresh keys.
- If no edge connects the arrivals to the residents any more (the partner has left), the arrivals move on to a fresh
  key together.
- Members are notified of every move and of every change of the group's standing; each notice increments the
  membership's counter.

Work is done in jobs. A step processes a bounded number of rows and continues with a message to the same group. Messages
that arrive meanwhile are deferred, so other tasks see each job as one atomic change.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from dustream.core.groups.members import Members, arrival_place
from dustream.core.groups.rows import (
    ArrivalRow,
    ClearJob,
    DeferredRow,
    EdgeRow,
    FrontierRow,
    GroupRow,
    Job,
    LandJob,
    MarkRow,
    MembershipRow,
    MoveJob,
    ReachedRow,
    SearchJob,
    SearchRow,
    SplitJob,
    StandJob,
    SyncJob,
    UnlinkJob,
)
from dustream.core.groups.searches import Searches
from dustream.core.processor import Send, Table, TaskState, rows_after
from dustream.core.vertex import END, group_key, url_of
from dustream.schemas.groups import ContinueGroup, Create, Deliver, EdgeRecord, MembershipRecord, Transfer
from dustream.schemas.pages import Bounce, Dead, Edge, Enter, Hold, Join, Leave, Left, Returned, Route, Standing, Sync

WORK_MAX = 5_000  # rows in one step
SEED_ROWS = 10  # rows charged for starting one search
TRANSFER_ROWS_MAX = 500  # memberships and edges in one message
GROUP_SIZE_MAX = 1_000_000  # larger groups are held

TABLES: dict[str, Any] = {
    "groups": GroupRow,
    "memberships": MembershipRow,
    "edges": EdgeRow,
    "searches": SearchRow,
    "reached": ReachedRow,
    "frontier": FrontierRow,
    "searching": MarkRow,
    "arrivals": ArrivalRow,
    "deferred": DeferredRow,
}


@dataclass(slots=True)
class Group:
    """A group during a step."""

    key: str
    row: GroupRow
    jobs: list[Job]

    def set(self, **changes: Any) -> None:
        self.row = replace(self.row, **changes)


@dataclass
class TransferBatch:
    """The memberships and edges that one step of a split sends to one destination."""

    piece: SearchRow
    memberships: list[MembershipRecord] = field(default_factory=list)
    edges: list[EdgeRecord] = field(default_factory=list)
    gone: int = 0

    def add(self, membership: MembershipRecord, edges: list[EdgeRecord], gone: bool) -> None:
        self.memberships.append(membership)
        self.edges += edges
        self.gone += gone


def rank_of(size: int) -> int:
    """⌊log2 size⌋"""
    return size.bit_length() - 1


def priority(rank: int, key: str) -> tuple[int, int, str]:
    """Of two groups that an edge joins, the one with the higher priority stays: higher rank, then a hash of the key.

    The key itself would be a bad tie-breaker, since it begins with the time a page was first seen: all pages of a chain
    crawled in sequence would move towards their predecessor at once, which takes a quadratic number of moves. A random
    order needs few rounds."""
    return rank, zlib.crc32(key.encode()), key


class GroupsProcessor:
    """One task of `groups`."""

    def __init__(
        self,
        *,
        group_size_max: int = GROUP_SIZE_MAX,
        work_max: int = WORK_MAX,
        transfer_rows_max: int = TRANSFER_ROWS_MAX,
    ) -> None:
        self._group_size_max = group_size_max
        self._work_max = work_max
        self._transfer_rows_max = transfer_rows_max
        self._work = 0
        self._out: list[Send] = []
        self._requests: dict[type, Callable[[Group, Create | Deliver, MembershipRow], None]] = {
            Edge: self._edge,
            Join: self._join,
            Dead: self._dead,
            Leave: self._leave,
            Hold: self._hold,
            Enter: self._enter,
        }
        self._job_steps: dict[type, Callable[[Group, Any], Job | None]] = {
            MoveJob: self._move,
            LandJob: self._land,
            UnlinkJob: self._unlink,
            SearchJob: self._search,
            SplitJob: self._split,
            ClearJob: self._clear,
            StandJob: self._stand,
            SyncJob: self._sync,
        }

    def open(self, state: TaskState) -> None:
        self._groups: Table[GroupRow] = state.table("groups")
        self._members = Members(state)
        self._searches = Searches(state, self._members)
        self._arrivals: Table[ArrivalRow] = state.table("arrivals")
        self._deferred: Table[DeferredRow] = state.table("deferred")

    def process(self, state: TaskState, messages: Sequence[Any]) -> list[Send]:
        self._out = []
        for message in messages:
            self._receive(message)
        return self._out

    # Steps

    def _receive(self, message: Any) -> None:
        self._work = 0
        row = self._groups.get(message.group)
        group = Group(message.group, row or GroupRow(), list(row.jobs) if row else [])
        if isinstance(message, ContinueGroup):
            self._go_on(group)
        elif group.row.is_busy:
            self._defer(group, message)
            self._groups.put(group.key, group.row)
            return
        else:
            self._handle(group, message)
            self._run_jobs(group)
        self._close(group, row)

    def _close(self, group: Group, before: GroupRow | None) -> None:
        row = group.row
        if (group.jobs or row.jobs) and row.jobs != tuple(group.jobs):
            row = replace(row, jobs=tuple(group.jobs))
        is_busy = row.is_busy
        if is_busy:
            self._out.append(Send("groups", group.key, ContinueGroup(group.key)))
        if row.size or row.arriving or is_busy:
            if row is not before:
                self._groups.put(group.key, row)
        elif before is not None:
            self._groups.delete(group.key)

    def _go_on(self, group: Group) -> None:
        """Jobs first, then what was deferred, in order."""
        self._run_jobs(group)
        while not group.jobs and self._work < self._work_max and group.row.deferred_first < group.row.deferred_next:
            key = f"{group.key}{END}{group.row.deferred_first:012x}"
            deferred = self._deferred.get(key)
            assert deferred is not None
            self._deferred.delete(key)
            group.set(deferred_first=group.row.deferred_first + 1)
            self._work += 1
            self._handle(group, deferred.message)
            self._run_jobs(group)

    def _defer(self, group: Group, message: Any) -> None:
        self._deferred.put(f"{group.key}{END}{group.row.deferred_next:012x}", DeferredRow(message))
        group.set(deferred_next=group.row.deferred_next + 1)

    def _run_jobs(self, group: Group) -> None:
        while group.jobs and self._work < self._work_max:
            job = group.jobs.pop(0)
            rest = self._job_steps[type(job)](group, job)
            if rest is not None:
                group.jobs.insert(0, rest)

    def _room(self) -> int:
        """Rows that this step may still touch."""
        return max(1, self._work_max - self._work)

    def _handle(self, group: Group, message: Any) -> None:
        if isinstance(message, Deliver):
            self._deliver(group, message)
        elif isinstance(message, Transfer):
            self._transfer(group, message)
        else:
            self._create(group, message)

    # Requests

    def _create(self, group: Group, message: Create) -> None:
        self._members.put_membership(group.key, message.vertex, MembershipRow(0))
        group.set(size=1, eldest=message.vertex, standing=Standing(url_of(message.vertex), True))
        self._requests[type(message.request)](group, message, MembershipRow(0))

    def _deliver(self, group: Group, message: Deliver) -> None:
        membership = self._members.membership(group.key, message.vertex)
        if membership is None:
            bounce = Bounce(message.vertex, message.used, message.request)
            self._out.append(Send("pages", url_of(message.vertex), bounce))
        else:
            self._requests[type(message.request)](group, message, membership)

    def _edge(self, group: Group, message: Create | Deliver, membership: MembershipRow) -> None:
        vertex, edge = message.vertex, message.request
        assert isinstance(edge, Edge)
        if self._members.has_edge(group.key, vertex, edge.other):
            return  # local, or its join is pending
        self._members.link(group.key, vertex, edge.other, edge.similarity)
        if not self._members.holds(group.key, edge.other):
            self._send_join(group, EdgeRecord(vertex, edge.other, edge.similarity))

    def _send_join(self, group: Group, edge: EdgeRecord) -> None:
        join = Join(edge.vertex, group.row.rank, group.key, edge.similarity)
        self._out.append(Send("pages", url_of(edge.other), Route(edge.other, join)))

    def _join(self, group: Group, message: Create | Deliver, membership: MembershipRow) -> None:
        vertex, join = message.vertex, message.request
        assert isinstance(join, Join)
        if not self._members.has_edge(group.key, vertex, join.other):  # a returned join finds its edge
            self._members.link(group.key, vertex, join.other, join.similarity)
        if self._members.holds(group.key, join.other):
            return
        if priority(group.row.rank, group.key) < priority(join.rank, join.group):
            via = EdgeRecord(vertex, join.other, join.similarity)
            group.jobs.append(MoveJob(group.key, join.group, via, join.rank, False))
        else:
            back = Join(vertex, group.row.rank, group.key, join.similarity)
            self._out.append(Send("groups", join.group, Deliver(join.group, join.other, -1, back)))

    def _enter(self, group: Group, message: Create | Deliver, membership: MembershipRow) -> None:
        enter = message.request
        assert isinstance(enter, Enter)
        if not self._members.holds(group.key, enter.via):
            home = Returned(enter.other, Edge(enter.via, enter.similarity))
            self._out.append(Send("pages", url_of(enter.other), home))
            return
        self._members.link(group.key, enter.via, enter.other, enter.similarity)
        row = MembershipRow(0, enter.pass_from)
        self._members.put_membership(group.key, enter.other, row)
        if self._admit(group, enter.other, 1, 0):
            group.jobs.append(SyncJob())
        else:
            self._sync_membership(group, enter.other, row)

    def _dead(self, group: Group, message: Create | Deliver, membership: MembershipRow) -> None:
        assert isinstance(message.request, Dead)
        other = message.request.other
        if not self._members.holds(group.key, other):  # if it is here, its own leave is pending
            self._members.unlink(group.key, message.vertex, other)

    def _hold(self, group: Group, message: Create | Deliver, membership: MembershipRow) -> None:
        assert isinstance(message.request, Hold)
        self._members.put_membership(
            group.key, message.vertex, replace(membership, pass_from=message.request.pass_from)
        )
        group.jobs.append(StandJob())

    def _leave(self, group: Group, message: Create | Deliver, membership: MembershipRow) -> None:
        self._members.delete_membership(group.key, message.vertex)
        group.set(size=group.row.size - 1)
        self._out.append(Send("pages", url_of(message.vertex), Left(message.vertex)))
        group.jobs += [UnlinkJob(message.vertex), StandJob()]

    # Splits

    def _unlink(self, group: Group, job: UnlinkJob) -> Job | None:
        """Delete the edges of a vertex that has left. Fewer than two neighbours here: the group cannot split."""
        room = max(1, self._room() // SEED_ROWS)
        others = self._members.others_after(group.key, job.vertex, job.after, room)
        self._work += SEED_ROWS * len(others)
        for other in others:
            self._members.unlink(group.key, job.vertex, other)
        seeds = [other for other in others if self._members.holds(group.key, other)]
        finished, count = len(others) < room, job.seeds + len(seeds)
        if finished and count < 2:
            if job.after:  # edges were deleted in an earlier step, which may have started a search
                return self._clear(group, ClearJob())
            self._rank_again(group)
            return None
        for number, seed in enumerate(seeds, job.seeds):
            self._searches.start(group.key, number, seed)
        return SearchJob(count) if finished else replace(job, seeds=count, after=others[-1])

    def _search(self, group: Group, job: SearchJob) -> Job | None:
        """Searches take turns until at most one is unfinished. It stays if it is larger than every finished one."""
        while self._work < self._work_max:
            turns = self._searches.turns(group.key, job.turn, self._room())
            if not turns:
                if not job.searching:
                    return SplitJob(job.largest)
                job = replace(job, turn=-1)
                self._work += 1
            for number in turns:
                if not self._searches.is_searching(group.key, number):
                    continue  # it was merged into another search this round
                if job.searching == 1 and self._searches.size(group.key, number) > job.largest_size:
                    return ClearJob() if job.largest < 0 else SplitJob(number)
                if self._work >= self._work_max:
                    break
                job = self._take_turn(group.key, replace(job, turn=number))
        return job

    def _take_turn(self, key: str, job: SearchJob) -> SearchJob:
        searches, number = self._searches, job.turn
        searches.rows = 0
        job = replace(job, searching=job.searching - searches.advance(key, number, self._room()))
        if searches.is_finished(key, number) and searches.size(key, number) > job.largest_size:
            job = replace(job, largest=number, largest_size=searches.size(key, number))
        self._work += 1 + searches.rows
        return job

    def _split(self, group: Group, job: SplitJob) -> Job | None:
        """Send some memberships of the moving pieces, one batch per destination."""
        rows_max, rows = self._transfer_rows_max, 0
        batches: dict[int, TransferBatch] = {}
        reached = self._searches.some_reached(group.key, job.after, rows_max)
        for vertex, number in reached:
            gone = number == job.staying
            if not gone:
                if number not in batches:
                    batches[number] = TransferBatch(self._piece(group, number))
                membership, edges, gone = self._members.take_one(group.key, vertex, rows_max - rows - 1)
                batches[number].add(membership, edges, gone)
                rows += 1 + len(edges)
            if gone:
                self._searches.forget_vertex(group.key, vertex)
                job = replace(job, after=vertex)
            if not gone or rows >= rows_max:
                break
        for number, batch in batches.items():
            self._send_piece(group, number, batch)
        self._work += len(reached) + rows
        return job if reached else ClearJob()

    def _piece(self, group: Group, number: int) -> SearchRow:
        """A piece with its destination: a fresh key, named after its eldest vertex."""
        row = self._searches.row(group.key, number)
        if not row.destination:
            row = replace(row, destination=self._fresh_key(group.key, row.eldest))
            group.set(size=group.row.size - row.size)
        return row

    def _send_piece(self, group: Group, number: int, batch: TransferBatch) -> None:
        piece = batch.piece
        moved = piece.moved + batch.gone
        job = MoveJob(group.key, piece.destination, None, rank_of(piece.size), True, started=piece.moved > 0)
        self._send_memberships(group.key, job, batch.memberships, batch.edges, moved == piece.size)
        self._searches.put_row(group.key, number, replace(piece, moved=moved))

    def _clear(self, group: Group, job: ClearJob) -> Job | None:
        self._searches.rows = 0
        finished = self._searches.clear(group.key, self._room())
        self._work += self._searches.rows
        if not finished:
            return job
        self._rank_again(group)
        return None

    def _rank_again(self, group: Group) -> None:
        if group.row.size:
            group.set(rank=rank_of(group.row.size))

    def _fresh_key(self, place: str, vertex: str) -> str:
        membership = self._members.membership(place, vertex)
        assert membership is not None
        return group_key(membership.counter + 1, vertex)

    # Moving out

    def _move(self, group: Group, job: MoveJob) -> Job | None:
        vertices: Iterator[str]
        if job.place == group.key and group.row.size == 1:
            vertices = iter([group.row.eldest] if self._members.holds(group.key, group.row.eldest) else [])
        else:
            vertices = self._members.vertices(job.place)
        memberships, edges, finished = self._members.take(job.place, vertices, self._transfer_rows_max)
        self._work += len(memberships) + len(edges)
        self._send_memberships(group.key, job, memberships, edges, finished)
        if not finished:
            return replace(job, started=True)
        if job.place == group.key:
            group.set(size=0, rank=0, eldest="", standing=None)
        return None

    def _send_memberships(
        self, source: str, job: MoveJob, memberships: list[MembershipRecord], edges: list[EdgeRecord], last: bool
    ) -> None:
        transfer = Transfer(
            job.destination,
            source,
            not job.started,
            last,
            tuple(memberships),
            tuple(edges),
            job.via,
            job.rank,
            job.fresh,
        )
        self._out.append(Send("groups", job.destination, transfer))

    # Moving in

    def _transfer(self, group: Group, message: Transfer) -> None:
        if message.fresh:
            self._settle_down(group, message)
        elif message.first and message.last:
            self._arrive(group, message)
        else:
            self._stage(group, message)

    def _settle_down(self, group: Group, message: Transfer) -> None:
        """A fresh group has no residents and no other group knows its key: memberships are stored in it at once."""
        size = group.row.size + self._members.add(group.key, message.memberships, message.edges)
        self._work += len(message.memberships) + len(message.edges)
        group.set(size=size, arriving=0 if message.last else 1)
        if message.last:
            group.set(rank=max(message.rank, rank_of(size)), eldest=self._members.eldest(group.key))
            group.set(standing=self._standing(group.key, group.row.eldest, size))
            self._pass_on(group, message.via)
            group.jobs.append(SyncJob())

    def _arrive(self, group: Group, message: Transfer) -> None:
        """Handle a transfer that is one chunk."""
        if not self._joins(group.key, message):
            eldest = min(message.memberships, key=lambda membership: membership.vertex)
            destination = group_key(eldest.counter + 1, eldest.vertex)
            job = MoveJob(group.key, destination, message.via, rank_of(len(message.memberships)), True)
            self._send_memberships(group.key, job, list(message.memberships), list(message.edges), True)
            return
        self._work += len(message.memberships) + len(message.edges)
        added = self._members.add(group.key, message.memberships, message.edges)
        changed = self._admit(group, min(membership.vertex for membership in message.memberships), added, message.rank)
        self._pass_on(group, message.via)
        if changed:
            group.jobs.append(SyncJob())
        else:
            for membership in message.memberships:
                self._sync_membership(group, membership.vertex, MembershipRow(membership.counter, membership.pass_from))

    def _joins(self, key: str, message: Transfer) -> bool:
        """Whether an edge still joins the arrivals to the residents."""
        members = self._members
        if message.via is not None and members.holds(key, message.via.other):
            return True
        return any(members.holds(key, edge.other) for edge in message.edges) or any(
            members.has_edges(key, membership.vertex) for membership in message.memberships
        )

    def _admit(self, group: Group, eldest: str, added: int, rank: int) -> bool:
        """Add the arrivals to the group's size and rank, and return whether its standing changed."""
        size = group.row.size + added
        eldest = min(group.row.eldest, eldest)
        group.set(size=size, eldest=eldest, rank=max(group.row.rank, rank, rank_of(size)))
        return self._set_standing(group, self._standing(group.key, eldest, size))

    def _pass_on(self, group: Group, via: EdgeRecord | None) -> None:
        """Send the join of the edge that caused the move again, if its other end is not in this group."""
        if via is not None and not self._members.holds(group.key, via.other):
            self._send_join(group, via)

    def _stage(self, group: Group, message: Transfer) -> None:
        place = arrival_place(group.key, message.source)
        key = f"{group.key}{END}{message.source}"
        arrival = self._arrivals.get(key)
        size = arrival.size if arrival else 0
        self._arrivals.put(key, ArrivalRow(size + self._members.add(place, message.memberships, message.edges)))
        self._work += len(message.memberships) + len(message.edges)
        if arrival is None:
            group.set(arriving=group.row.arriving + 1)
        if message.last:
            group.jobs.append(LandJob(message.source, message.via, message.rank))

    def _land(self, group: Group, job: LandJob) -> Job | None:
        if not job.joined:
            return self._check_join(group, job)
        place = arrival_place(group.key, job.source)
        rows_max = self._room()
        memberships, edges, finished = self._members.take(place, self._members.vertices(place), rows_max)
        self._work += len(memberships) + len(edges)
        self._members.add(group.key, memberships, edges)
        if not job.sync_all:
            for membership in memberships:
                self._sync_membership(group, membership.vertex, MembershipRow(membership.counter, membership.pass_from))
        if not finished:
            return job
        self._pass_on(group, job.via)
        return SyncJob() if job.sync_all else None

    def _check_join(self, group: Group, job: LandJob) -> Job | None:
        place = arrival_place(group.key, job.source)
        if job.via is not None and self._members.holds(group.key, job.via.other):
            return self._let_in(group, job)
        room = self._room()
        rows = rows_after(self._members.memberships, place + END, job.checked, room)
        vertices = [key[len(place) + 1 :] for key, _ in rows]
        self._work += len(vertices)
        if any(self._touches(group.key, place, vertex) for vertex in vertices):
            return self._let_in(group, job)
        if len(rows) == room:
            return replace(job, checked=vertices[-1])
        return self._send_on(group, job)

    def _touches(self, key: str, place: str, vertex: str) -> bool:
        if self._members.has_edges(key, vertex):
            return True
        return any(self._members.holds(key, edge.other) for edge in self._members.edges(place, vertex))

    def _let_in(self, group: Group, job: LandJob) -> Job:
        place = arrival_place(group.key, job.source)
        arrival = self._end_arrival(group, job.source)
        size = group.row.size + arrival.size
        resident, arriving = group.row.eldest, self._members.eldest(place)
        eldest = min(resident, arriving)
        group.set(size=size, eldest=eldest, rank=max(group.row.rank, job.rank, rank_of(size)))
        standing = self._standing(group.key if eldest == resident else place, eldest, size)
        return replace(job, joined=True, sync_all=self._set_standing(group, standing))

    def _send_on(self, group: Group, job: LandJob) -> Job:
        arrival = self._end_arrival(group, job.source)
        place = arrival_place(group.key, job.source)
        destination = self._fresh_key(place, self._members.eldest(place))
        return MoveJob(place, destination, job.via, rank_of(arrival.size), True)

    def _end_arrival(self, group: Group, source: str) -> ArrivalRow:
        key = f"{group.key}{END}{source}"
        arrival = self._arrivals.get(key)
        assert arrival is not None
        self._arrivals.delete(key)
        group.set(arriving=group.row.arriving - 1)
        return arrival

    # Standing

    def _standing(self, place: str, eldest: str, size: int) -> Standing:
        """The group is held if it is too large and no operator has decided on its eldest member."""
        membership = self._members.membership(place, eldest)
        pass_from = None if membership is None else membership.pass_from
        return Standing(url_of(eldest), size == 1, size > self._group_size_max and pass_from is None, pass_from or 0.0)

    def _set_standing(self, group: Group, standing: Standing) -> bool:
        if standing == group.row.standing:
            return False
        group.set(standing=standing)
        return True

    def _stand(self, group: Group, job: StandJob) -> Job | None:
        if not group.row.size:
            return None
        if not self._members.holds(group.key, group.row.eldest):
            group.set(eldest=self._members.eldest(group.key))
        standing = self._standing(group.key, group.row.eldest, group.row.size)
        return SyncJob() if self._set_standing(group, standing) else None

    def _sync(self, group: Group, job: SyncJob) -> Job | None:
        prefix = group.key + END
        room = self._room()
        rows = rows_after(self._members.memberships, prefix, job.after, room)
        self._work += len(rows)
        for key, row in rows:
            self._sync_membership(group, key[len(prefix) :], row)
        return SyncJob(rows[-1][0][len(prefix) :]) if len(rows) == room else None

    def _sync_membership(self, group: Group, vertex: str, row: MembershipRow) -> None:
        row = replace(row, counter=row.counter + 1)
        self._members.put_membership(group.key, vertex, row)
        assert group.row.standing is not None
        sync = Sync(vertex, row.counter, group.key, group.row.standing, group.row.size)
        self._out.append(Send("pages", url_of(vertex), sync))
