"""Rules learned in several processes are those of one."""

from __future__ import annotations

import os
import signal

import pytest

from dustream.core.settings import Settings
from dustream.schemas.cluster import ClusterMember, ClusterUpdate
from dustream.streams.once import rule_learning
from dustream.streams.once.rule_learning import learn_rules

SITES = 5


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
    alone = learn_rules(updates, Settings(), 1)
    assert len(alone) == SITES
    together = learn_rules(updates, Settings(), jobs)
    assert sorted(together, key=lambda rules: rules.site) == sorted(alone, key=lambda rules: rules.site)


def test_shares_are_whole_sites_of_about_equal_size(updates: list[ClusterUpdate]) -> None:
    shares = rule_learning._shares(updates, 2)
    sites = [{update.site for update in share} for share in shares]
    assert sites == [{"shop-4.example", "shop-1.example", "shop-0.example"}, {"shop-3.example", "shop-2.example"}]


def test_share_of_a_process_that_dies_is_learned_by_its_parent(
    updates: list[ClusterUpdate], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = learn_rules(updates, Settings(), 1)
    start = rule_learning._Learner.__init__

    def start_and_kill(learner: rule_learning._Learner, *args: object) -> None:
        start(learner, *args)  # type: ignore[arg-type]
        assert learner._process.pid is not None
        os.kill(learner._process.pid, signal.SIGKILL)

    monkeypatch.setattr(rule_learning._Learner, "__init__", start_and_kill)
    together = learn_rules(updates, Settings(), 2)
    assert sorted(together, key=lambda rules: rules.site) == sorted(alone, key=lambda rules: rules.site)
