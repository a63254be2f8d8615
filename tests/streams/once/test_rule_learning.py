"""Rules learned in several processes are those of one."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dustream.core.pipeline import RULES
from dustream.core.processor import RestPart
from dustream.core.rules.processor import RulesProcessor, newest_rows
from dustream.core.settings import Settings
from dustream.schemas.cluster import ClusterMember, ClusterUpdate
from dustream.schemas.rules import RuleSet
from dustream.streams.engine.tables import TaskTables
from dustream.streams.once import rule_learning
from dustream.streams.once.alone import spec_of
from dustream.streams.once.rule_learning import RuleLearning, learn_parts, shares_of
from dustream.streams.store.memory import MemoryStore

SITES = 5


def learn_rules(updates: list[ClusterUpdate], jobs: int) -> list[RuleSet]:
    learning = RuleLearning(Settings(), jobs, len(updates))
    learning.start(updates)
    return sorted(learning.rule_sets(), key=lambda rules: rules.site)


def site_updates(site: int) -> list[ClusterUpdate]:
    """A shop where every page has a copy under a session id; in two messages."""
    name = f"shop-{site}.example"
    members = []
    for number in range(20 * (site + 1)):
        winner = f"https://{name}/item?id={number}"
        copy = f"{winner}&sid={number * 7}"
        members.append(ClusterMember(winner, (1, 0), winner, "winner", winner, since=1))
        members.append(ClusterMember(copy, (1, 0), winner, "duplicate", winner, "exact", since=1, similarity=1.0))
    half = len(members) // 2
    return [ClusterUpdate(site=name, members=tuple(some)) for some in (members[:half], members[half:])]


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> list[ClusterUpdate]:
    monkeypatch.setattr(rule_learning, "URLS_MIN", 1)
    return [update for site in range(SITES) for update in site_updates(site)]


@pytest.mark.parametrize("jobs", [2, 9])
def test_processes_learn_what_one_learns(updates: list[ClusterUpdate], jobs: int) -> None:
    alone = learn_rules(updates, 1)
    assert len(alone) == SITES
    assert learn_rules(updates, jobs) == alone


def test_shares_are_sites_of_about_equal_size_and_the_largest_comes_first() -> None:
    urls = {f"shop-{site}": 40 * (site + 1) for site in range(SITES)}
    assert shares_of(urls, 2) == [["shop-4", "shop-1", "shop-0"], ["shop-3", "shop-2"]]
    assert shares_of(urls, 16) == [[f"shop-{site}"] for site in reversed(range(SITES))]


@pytest.mark.parametrize("jobs", [2, 3])
def test_a_task_takes_what_processes_have_learned(updates: list[ClusterUpdate], jobs: int) -> None:
    """Also after more has come, which they have not seen."""
    tables = TaskTables(MemoryStore(), spec_of(Settings(), RULES), 0)
    task = RulesProcessor()
    task.open(tables)
    for some in (updates[::2], updates):
        task.process(tables, some)
        done = learn_parts(Settings(), jobs, task.parts_at_rest())
        assert done is not None and len(done) == SITES
        task.take_done(done)
        own = {site: rules.rules for site, rules in done.items()}
        assert {send.key: send.message.rules for send in task.at_rest(tables)} == own
        assert task.parts_at_rest() == [] and task.at_rest(tables) == []
    assert own == {rules.site: rules.rules for rules in learn_rules(updates, 1)}


def test_what_was_learned_before_more_came_is_not_taken(updates: list[ClusterUpdate]) -> None:
    tables = TaskTables(MemoryStore(), spec_of(Settings(), RULES), 0)
    task = RulesProcessor()
    task.open(tables)
    task.process(tables, updates[:1])
    task.take_done({})
    task.process(tables, updates)
    assert len(task.at_rest(tables)) == SITES


def test_one_large_site_is_learned_by_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [40 * (site + 1) for site in range(SITES)]  # 400 beside the largest
    parts = [RestPart(size, lambda: pytest.fail("is not read")) for size in sizes]
    monkeypatch.setattr(rule_learning, "URLS_MIN", 401)
    assert learn_parts(Settings(), 2, parts) is None
    assert learn_parts(Settings(), 2, []) is None


@pytest.mark.parametrize("killed", [1, 2])
def test_shares_of_processes_that_die_are_learned_by_others(updates: list[ClusterUpdate], killed: int) -> None:
    """By the other process, or by the parent if there is none left."""
    learning = RuleLearning(Settings(), 2, len(updates))
    for learner in learning._learners[:killed]:
        os.kill(learner.pid, signal.SIGKILL)
    learning.start(updates)
    found = sorted(learning.rule_sets(), key=lambda rules: rules.site)
    assert found == learn_rules(updates, 1)


def test_processes_end_when_they_are_not_needed(updates: list[ClusterUpdate]) -> None:
    learning = RuleLearning(Settings(), 2, len(updates))
    learning.close()
    assert [learner._process.is_alive() for learner in learning._learners] == [False, False]


PATHS = st.sampled_from(["a", "A/../a", "b", "b?", "c#top", "c"])
MEMBERS = st.builds(
    lambda path, version, role, since: ClusterMember(
        f"HTTP://shop.example:80/{path}", (version, 0), "http://shop.example/a", role, since=since
    ),
    PATHS, st.integers(1, 3), st.sampled_from(["winner", "duplicate", "gone", "held"]), st.integers(0, 2),
)  # fmt: skip


@given(st.lists(st.lists(MEMBERS, max_size=6), max_size=5))
def test_rows_are_those_that_the_processor_keeps(batches: list[list[ClusterMember]]) -> None:
    """Spellings of one URL, late and repeated messages included."""
    spec = spec_of(Settings(), RULES)
    tables, processor = TaskTables(MemoryStore(), spec, 0), RulesProcessor()
    processor.open(tables)
    processor.process(tables, [ClusterUpdate(site="shop.example", members=tuple(batch)) for batch in batches])
    kept = {row.url: row for _, row in tables.table("rule_urls").scan()}
    rows = newest_rows(member for batch in batches for member in batch)
    assert {row.url: row for row in rows} == kept
