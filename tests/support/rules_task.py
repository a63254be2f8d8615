"""One task of the rules processor on tables in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dustream.core.processor import Send
from dustream.core.rules.known_site import RulesSettings
from dustream.core.rules.normalize import Normalizer
from dustream.core.rules.processor import TABLES, RulesProcessor
from dustream.core.urls.sites import site_of
from dustream.schemas.cluster import ClusterMember, ClusterUpdate
from dustream.schemas.rules import RuleSet
from dustream.schemas.status import Role


class MemoryTable:
    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        return self.rows.get(key)

    def put(self, key: str, row: Any) -> None:
        self.rows[key] = row

    def delete(self, key: str) -> None:
        self.rows.pop(key, None)

    def scan(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        return iter([(key, self.rows[key]) for key in sorted(self.rows, key=str.encode) if key.startswith(prefix)])


class Task:
    """One task of the rules processor, and the newest rule set per site."""

    def __init__(self, **settings: Any) -> None:
        self.partition = 0
        self.tables = {name: MemoryTable() for name in TABLES}
        self.settings = RulesSettings(**{"relearn_changes_min": 40, **settings})
        self.processor = RulesProcessor(self.settings)
        self.processor.open(self)
        self.rule_sets: dict[str, RuleSet] = {}
        self.sent = 0
        self.clock = 0

    def table(self, name: str) -> Any:
        return self.tables[name]

    def arrive(self, url: str, group: str | None, role: Role = "duplicate") -> None:
        self.clock += 1
        site = site_of(url)
        member = ClusterMember(url, (self.clock, 0), group, role, since=self.clock)
        self._publish(self.processor.process(self, [ClusterUpdate(site=site, members=(member,))]))

    def rest(self) -> None:
        self._publish(self.processor.at_rest(self))

    def _publish(self, sends: list[Send]) -> None:
        for send in sends:
            assert (send.topic, send.key) == ("url.rules", send.message.site)
            assert send.message.version > (self.rule_sets[send.key].version if send.key in self.rule_sets else 0)
            self.rule_sets[str(send.key)] = send.message
            self.sent += 1

    def normalize(self, url: str) -> str:
        return Normalizer(self.rule_sets.values()).normalize(url)

    def stages(self, site: str) -> set[str]:
        return {rule.stage for rule in self.rule_sets[site].rules}

    def records(self) -> dict[str, list[tuple[str, str, int, int]]]:
        return {
            site: [(rule.id, rule.stage, rule.right, rule.wrong) for rule in rules.rules]
            for site, rules in self.rule_sets.items()
        }


def crawl_sessions(task: Task, start: int, end: int, host: str = "http://shop.com/view") -> None:
    for i in range(start, end):
        task.arrive(f"{host}?id={i}", f"{host}{i}", "winner")
        task.arrive(f"{host}?id={i}&sid=s{i}", f"{host}{i}")
    task.rest()
