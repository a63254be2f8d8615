"""The Kafka engine with one care taken away (see mutations.py)."""

from __future__ import annotations

from typing import Any

from dustream.streams.kafka import assigned_tasks
from dustream.streams.kafka.assigned_tasks import AssignedTasks
from dustream.streams.kafka.hole_recovery import HoleRecovery
from dustream.streams.kafka.progress import TaskProgress
from dustream.streams.kafka.records import OutRecord
from dustream.streams.kafka.round import Round
from dustream.streams.kafka.task import Admission, KafkaTask
from dustream.streams.kafka.transactions import OffsetCommit, Transactions


def mutate(name: str) -> None:
    """Take the care away."""
    MUTANTS[name]()


def _without_marks() -> None:
    """A hole before a record is not seen (numbers of links are not looked at either)."""
    original = KafkaTask.admit

    def admit(task: KafkaTask, records: Any) -> Admission:
        return original(task, [record._replace(since=0) for record in records])

    KafkaTask.admit = admit  # type: ignore[method-assign]
    KafkaTask._is_new = lambda task, batch, record, received: True  # type: ignore[method-assign]


def _without_true_gaps() -> None:
    """Every jump of offsets is taken for a hole, as a comparison of offsets alone would."""
    original = KafkaTask.admit

    def admit(task: KafkaTask, records: Any) -> Admission:
        previous = task.progress.position
        marked = []
        for record in records:
            marked.append(record._replace(since=record.offset if record.offset > previous else record.since))
            previous = record.offset + 1
        return original(task, marked)

    KafkaTask.admit = admit  # type: ignore[method-assign]


def _without_tail() -> None:
    """A task that stands still does not look whether its log has more."""

    async def check_ends(holes: HoleRecovery) -> None:
        return

    HoleRecovery.check_ends = check_ends  # type: ignore[method-assign]


def _without_position() -> None:
    """The group's committed offset is believed, or the beginning of the log where there is none."""
    original = KafkaTask.load

    def load(task: KafkaTask) -> None:
        original(task)
        task.progress = TaskProgress(task.progress.fingerprint, 0, {}, task.progress.sent)

    KafkaTask.load = load  # type: ignore[method-assign]


def _without_transaction() -> None:
    """Outputs go out in a transaction of their own, before state and position."""
    original = Transactions.write

    async def write(transactions: Transactions, records: Any, positions: Any, who: Any) -> Any:
        outputs = {place: some for place, some in records.items() if not place[0].endswith(".changelog")}
        rows = {place: some for place, some in records.items() if place[0].endswith(".changelog")}
        if outputs:
            faults, transactions._faults = transactions._faults, lambda moment: None  # it is to be killed after them
            await original(transactions, outputs, {next(iter(positions)): (0, "")}, who)
            transactions._faults = faults
        return await original(transactions, rows, positions, who)

    Transactions.write = write  # type: ignore[method-assign]


def _without_fencing() -> None:
    """Positions are committed in nobody's name."""
    original = OffsetCommit.__init__

    def init(handler: Any, sender: Any, offsets: Any, who: Any) -> None:
        original(handler, sender, offsets, who._replace(generation=-1, member=""))

    OffsetCommit.__init__ = init  # type: ignore[method-assign]


def _without_former_owner() -> None:
    """A task is opened without looking whether its former owner has a transaction open."""

    async def outlast(task: KafkaTask, admin: Any) -> None:
        return

    KafkaTask._outlast_former_owner = outlast  # type: ignore[method-assign]


def _without_generations() -> None:
    """A task that comes back after others had it is believed to be as it was."""
    assigned_tasks._follows = lambda membership, before: True


def _without_leaving() -> None:
    """A task takes part in rounds until it is closed, whoever it was dealt to."""
    AssignedTasks.takes_part = lambda tasks, tp: tasks.is_open(tp) and tp not in tasks.resting  # type: ignore[method-assign]


def _without_order() -> None:
    """Tasks of one worker hand over to each other whatever waits in the log."""
    Round._is_direct = lambda round_, sender, to: to in round_._tasks  # type: ignore[method-assign]


def _without_work_left() -> None:
    """The group is not told that a task has more to do at rest."""
    original = Round.written

    def written(round_: Round) -> Any:
        found = original(round_)
        return found._replace(positions={place: (position, "") for place, (position, _) in found.positions.items()})

    Round.written = written  # type: ignore[method-assign]


def _without_dead_letters() -> None:
    """What makes a handler fail is dropped."""

    def one_by_one(task: KafkaTask, messages: Any, sources: Any) -> Any:
        task._undo()
        return [], []

    KafkaTask._one_by_one = one_by_one  # type: ignore[method-assign]


def _without_changelog() -> None:
    """State rows are kept on the local disk only."""
    original = KafkaTask.rows

    def rows(task: KafkaTask, changes: Any, progress: TaskProgress) -> list[OutRecord]:
        return original(task, [], progress)

    KafkaTask.rows = rows  # type: ignore[method-assign]


def _without_following() -> None:
    """The local copy does not wait for Kafka: it has what a transaction that fails would have written."""
    original = Round.written

    def written(round_: Round) -> Any:
        found = original(round_)
        for task, changes, _ in found.tasks:
            task._runtime.state.write(changes)
        return found

    Round.written = written  # type: ignore[method-assign]


MUTANTS = {
    "marks": _without_marks,
    "true_gaps": _without_true_gaps,
    "tail": _without_tail,
    "position": _without_position,
    "transaction": _without_transaction,
    "fencing": _without_fencing,
    "former_owner": _without_former_owner,
    "generations": _without_generations,
    "leaving": _without_leaving,
    "order": _without_order,
    "work_left": _without_work_left,
    "dead_letters": _without_dead_letters,
    "changelog": _without_changelog,
    "following": _without_following,
}
