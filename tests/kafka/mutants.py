"""The toy worker with one care taken away (see mutations.py)."""

from __future__ import annotations

from typing import Any

import dustream.streams.kafka.task as task_module
from dustream.streams.kafka.progress import Progress
from dustream.streams.kafka.task import Admission, Task
from dustream.streams.kafka.worker import Worker


def mutate(name: str) -> None:
    """Take the care away."""
    MUTANTS[name]()


def _without_marks() -> None:
    """A hole before a record is not seen (numbers of links are not looked at either)."""

    def admit(task: Task, records: Any) -> Admission:
        new = [record for record in records if record.offset >= task.progress.position]
        position = new[-1].offset + 1 if new else task.progress.position
        known = task.progress
        return Admission(new, Progress(known.fingerprint, position, known.received, known.sent), None)

    Task.admit = admit  # type: ignore[method-assign]


def _without_true_gaps() -> None:
    """Every jump of offsets is taken for a hole, as a comparison of offsets alone would."""
    original = Task.admit

    def admit(task: Task, records: Any) -> Admission:
        previous = task.progress.position
        marked = []
        for record in records:
            marked.append(record._replace(since=record.offset if record.offset > previous else record.since))
            previous = record.offset + 1
        return original(task, marked)

    Task.admit = admit  # type: ignore[method-assign]


def _without_tail() -> None:
    """A task at rest does not look whether its log has more."""

    async def check_ends(worker: Worker) -> None:
        for tp, task in list(worker._tasks.items()):
            await worker._rest(tp, task)

    Worker._check_ends = check_ends  # type: ignore[method-assign]


def _without_position() -> None:
    """The group's committed offset is believed, or the beginning of the log where there is none."""
    original = Task._load

    def load(task: Task) -> None:
        original(task)
        task.progress = Progress(task.progress.fingerprint, 0, {}, task.progress.sent)

    Task._load = load  # type: ignore[method-assign]


def _without_transaction() -> None:
    """Outputs go out in a transaction of their own, before state and position."""
    original = Task._transact

    async def transact(task: Task, prepared: Any) -> Any:
        outputs = [record for record in prepared.records if record.topic != task._changelog]
        rows = [record for record in prepared.records if record.topic == task._changelog]
        if outputs:
            assert task._producer is not None
            await task._producer.begin_transaction()
            for record in outputs:
                await task_module._write(task._producer, {(record.topic, record.partition): [record]})
            await task._producer.commit_transaction()
        return await original(task, prepared._replace(records=rows))

    Task._transact = transact  # type: ignore[method-assign]


def _without_fencing() -> None:
    """Each worker has transactional ids of its own, so nobody shuts out anybody."""
    import os

    from dustream.streams.kafka.application import Application

    original = Application.transactional_id
    Application.transactional_id = (  # type: ignore[method-assign]
        lambda application, processor, partition: f"{original(application, processor, partition)}-{os.getpid()}"
    )


def _without_dead_letters() -> None:
    """What makes a handler fail is dropped."""

    def one_by_one(task: Task, messages: Any, sources: Any) -> Any:
        task._undo()
        return [], []

    Task._one_by_one = one_by_one  # type: ignore[method-assign]


def _without_changelog() -> None:
    """State rows are kept on the local disk only."""
    original = Task._rows
    Task._rows = lambda task, changes, progress: original(task, [], progress)  # type: ignore[method-assign]


MUTANTS = {
    "marks": _without_marks,
    "true_gaps": _without_true_gaps,
    "tail": _without_tail,
    "position": _without_position,
    "transaction": _without_transaction,
    "fencing": _without_fencing,
    "dead_letters": _without_dead_letters,
    "changelog": _without_changelog,
}
