"""How long `status`, `why` and `groups` take on a state of a million pages: `python bench/questions.py [--pages N]`.

The state's rows are written directly, as the engine would: 4 of 10 pages in groups of four, a tenth of all in one chain
in which every page matches its two neighbours, the rest alone. Signatures are short, and equal within a group: no
answer reads many of them. Commands run in processes of their own; their processor seconds and peak memory count,
start-up included.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from result_files import Table, write_result

from dustream.core.groups.rows import EdgeRow, GroupRow, MembershipRow
from dustream.core.pages.rows import PageRow
from dustream.core.pipeline import pipeline
from dustream.core.settings import Settings
from dustream.core.text.signature import sign
from dustream.core.tier2.rows import StarRow, VertexRow, row_key
from dustream.core.topology import partition_of
from dustream.core.vertex import END, group_key, vertex_name
from dustream.schemas.pages import Standing, Verdict
from dustream.schemas.status import DuplicateStatus
from dustream.streams.embedded.engine import View
from dustream.streams.engine.states import open_state
from dustream.streams.engine.tables import TaskTables

SITES = 5_000
GROUP_PAGES = 4
WRITE_PAGES = 10_000
SIMILARITY = 0.95


class Filler:
    """Writes pages, their vertices and their groups into a fresh state."""

    def __init__(self, path: Path) -> None:
        self._settings = Settings()
        self._store = open_state(path, self._settings)
        specs = pipeline(self._settings).processors
        count = self._settings.partitions
        self._tasks = {spec.name: [TaskTables(self._store, spec, n) for n in range(count)] for spec in specs}
        self._statuses = View("duplicate.status", compacted=True, store=self._store)
        self._signature = sign("")
        self._numbers = [0] * count

    def add(self, number: int, members: range) -> None:
        """A page, and if it is the first of its group, the group."""
        if number == members[0]:
            self._signature = sign(f"a few words only, the same of all pages of group {number}")
        name, eldest = vertex(number), vertex(members[0])
        owner, alone = group_key(0, eldest), len(members) == 1
        standing, verdict = Standing(url(members[0]), alone), Verdict(url(members[0]), SIMILARITY, False)
        home = number % self._settings.partitions
        self._table("pages", url(number), "pages").put(
            url(number),
            PageRow(1 + number, 1 + number, "content", 1 + number, home=home, owner=None if alone else owner,
                    standing=standing, verdicts=(verdict,), origin=f"0:{number}:-1"),
        )  # fmt: skip
        self._compared(number, name, home)
        role = "unique" if alone else "winner" if number == members[0] else "duplicate"
        status = DuplicateStatus(
            url=url(number),
            version=(1 + number, 1),
            role=role,
            since=1 + number,
            group=url(members[0]),
            winner=url(members[0]),
            relation="near" if role == "duplicate" else None,
            similarity=SIMILARITY if role == "duplicate" else None,
        )
        self._statuses.append(url(number), status)
        if not alone:
            self._member(number, members, name, owner)

    def _compared(self, number: int, name: str, home: int) -> None:
        row = VertexRow(name, True, home, (), self._signature.content_hash, (StarRow(name.encode()),))
        local, self._numbers[home] = self._numbers[home], self._numbers[home] + 1
        self._tasks["tier2"][home].table("vertices").put(row_key(local), row)
        self._tasks["tier2"][home].table("contents").put(row_key(local), self._signature)

    def _member(self, number: int, members: range, name: str, owner: str) -> None:
        if number == members[0]:
            row = GroupRow(size=len(members), eldest=name, standing=Standing(url(number), False))
            self._table("groups", owner, "groups").put(owner, row)
        self._table("groups", owner, "memberships").put(f"{owner}{END}{name}", MembershipRow(1))
        for other in (each for each in (number - 1, number + 1) if each in members):
            self._table("groups", owner, "edges").put(f"{owner}{END}{name}{END}{vertex(other)}", EdgeRow(SIMILARITY))

    def _table(self, processor: str, key: str, name: str) -> object:
        return self._tasks[processor][partition_of(key, self._settings.partitions)].table(name)

    def write(self) -> None:
        for task in (task for tasks in self._tasks.values() for task in tasks):
            task.accept()
            self._store.write(task.drain())
        self._store.write(self._statuses.drain())

    def close(self) -> None:
        self.write()
        self._store.close()


def url(number: int) -> str:
    return f"https://site{number % SITES}.example/folder/page-{number}.html"


def vertex(number: int) -> str:
    return vertex_name(1 + number, url(number), 1 + number)


def groups_of(pages: int) -> Iterator[range]:
    """A chain, groups of four, and pages alone."""
    chain, grouped = pages // 10, pages // 2
    yield range(chain)
    for start in range(chain, grouped, GROUP_PAGES):
        yield range(start, min(start + GROUP_PAGES, grouped))
    for number in range(grouped, pages):
        yield range(number, number + 1)


def fill(path: Path, pages: int) -> None:
    filler = Filler(path)
    written = 0
    for members in groups_of(pages):
        for number in members:
            filler.add(number, members)
            written += 1
            if written % WRITE_PAGES == 0:
                filler.write()
    filler.close()


ASKED = """
import sys
from dustream.streams.cli.main import main
main(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak.split()[1], file=sys.stderr)
"""


def ask(*arguments: str) -> tuple[float, float]:
    """Processor seconds and peak MB of a command. The process tells its peak itself: what the system tells of a child
    counts its parent's memory, too."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", ASKED, *arguments], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, int(done.stderr.split()[-1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    pages = parser.parse_args().pages
    last, far = url(pages // 10 - 1), url(pages // 20)
    questions = {
        "status of a page": ("status", far),
        "why a page of a group of four": ("why", url(pages // 2 - 1), "--no-text"),
        "why two pages that are not alike": ("why", url(pages - 1), url(pages - 2), "--no-text"),
        "why the ends of the chain are in one group": ("why", url(0), last, "--no-text"),
        "why, of a page never seen": ("why", f"{url(7)}x", "--no-text"),
        "groups by size": ("groups",),
        "groups by change": ("groups", "--by", "changed"),
        "groups of a site": ("groups", "--site", "site7.example"),
    }
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        fill(Path(folder), pages)
        print(f"state of {pages:,} pages written in {time.process_time() - started:.0f} s")
        rows = []
        for name, arguments in questions.items():
            took = [ask(*arguments, "--state", folder, "--json") for _ in range(3)]
            rows.append([name, round(min(each[0] for each in took), 2), round(max(each[1] for each in took))])
            print(*rows[-1], sep="\t", flush=True)
    if pages == parser.get_default("pages"):
        title = "questions on a state of a million pages: processor seconds and peak memory of the command"
        write_result("questions", [Table(title, ["question", "s", "MB"], rows)])


if __name__ == "__main__":
    main()
