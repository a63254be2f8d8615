"""Operators' decisions on rules: accepted, rejected, pinned, withdrawn."""

from __future__ import annotations

from itertools import permutations

import pytest
from rules_task import Task, crawl_sessions

from dustream.core.rules.processor import RulesProcessor
from dustream.schemas.cluster import ClusterUpdate, DecidedRule
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, Rewrite, RuleVerdict, UrlRule

SITE = "shop.com"
_DECIDED: tuple[tuple[int, RuleVerdict | None], ...] = ((5, "pin"), (7, "accept"), (7, "reject"), (7, None))
HOST = "http://shop.com/buy"
TRIED, SHORT = f"{HOST}?id=999&sid=x", f"{HOST}?id=999"


def crawled(pages: int) -> Task:
    task = Task()
    crawl_sessions(task, 0, pages, HOST)
    return task


def decide(task: Task, rewrite: Rewrite, version: int, verdict: RuleVerdict | None) -> None:
    update = ClusterUpdate(site=SITE, members=(), decisions=(DecidedRule(rewrite, version, verdict),))
    task._publish(task.processor.process(task, [update]))
    task.rest()


def only_rule(task: Task) -> UrlRule:
    (rule,) = task.rule_sets[SITE].rules
    return rule


def test_an_accepted_shadow_is_applied_and_undone() -> None:
    task = crawled(8)
    rule = only_rule(task)
    assert (rule.stage, rule.decision) == ("shadow", None) and task.normalize(TRIED) == TRIED
    decide(task, rule.rewrite, 5, "accept")
    assert (only_rule(task).stage, only_rule(task).decision, only_rule(task).id) == ("active", "accept", rule.id)
    assert task.normalize(TRIED) == SHORT
    decide(task, rule.rewrite, 6, None)
    assert only_rule(task) == rule and task.normalize(TRIED) == TRIED


def test_an_accepted_rule_is_revoked_when_predictions_fail() -> None:
    task = crawled(8)
    rule = only_rule(task)
    decide(task, rule.rewrite, 5, "accept")
    for i in range(100, 400):  # now the parameter matters
        task.arrive(f"http://shop.com/buy?id={i}", f"plain{i}", "winner")
        task.arrive(f"http://shop.com/buy?id={i}&sid=s{i}", f"other{i}", "winner")
    task.rest()
    assert all(each.stage != "active" for each in task.rule_sets[SITE].rules)


def test_a_rejected_rule_is_never_active_also_after_relearning() -> None:
    task = crawled(60)
    rule = only_rule(task)
    assert rule.stage == "active"
    decide(task, rule.rewrite, 5, "reject")
    rejected = only_rule(task)
    assert (rejected.stage, rejected.decision, rejected.reason) == ("shadow", "reject", "an operator rejected it")
    assert task.normalize(TRIED) == TRIED
    crawl_sessions(task, 60, 200, HOST)
    assert {each.stage for each in task.rule_sets[SITE].rules if each.id == rule.id} == {"shadow"}
    assert task.normalize(TRIED) == TRIED


def test_a_pinned_rule_stays_whatever_the_evidence_and_says_so() -> None:
    task = crawled(60)
    rule = only_rule(task)
    decide(task, rule.rewrite, 5, "pin")
    assert (only_rule(task).stage, only_rule(task).reason) == ("active", "")
    for i in range(60):  # all its pairs turn out to differ
        task.arrive(f"http://shop.com/buy?id={i}&sid=s{i}", f"other{i}", "winner")
    task.rest()
    (pinned,) = [each for each in task.rule_sets[SITE].rules if each.id == rule.id]
    assert pinned.stage == "active" and pinned.reason.startswith("pinned; without that it would be ")
    assert pinned.false_positives == 60 and task.normalize(TRIED) == SHORT
    decide(task, rule.rewrite, 6, None)
    assert rule.id not in {each.id for each in task.rule_sets[SITE].rules} and task.normalize(TRIED) == TRIED


@pytest.mark.parametrize("pages", [0, 1])
def test_a_rule_is_pinned_before_its_site_is_known(pages: int) -> None:
    task, rewrite = Task(), _drop_sid()
    if pages:
        task.arrive("http://shop.com/buy?id=1&sid=2", "http://shop.com/buy?id=1&sid=2", "unique")
    decide(task, rewrite, 5, "pin")
    assert task.normalize(TRIED) == SHORT
    assert only_rule(task).learner == "imported"


def _drop_sid() -> PatternRewrite:
    tests = (KeyTest("host_0", "is", "com"), KeyTest("host_1", "is", "shop"), KeyTest("?sid=", "some"))
    return PatternRewrite(tests, (KeyWrite("?sid=", "drop"),), open=True)


def test_the_latest_decision_counts_in_any_order_and_after_a_restart() -> None:
    """Of two with one timestamp the more careful one, whichever comes first."""
    rewrite = only_rule(crawled(60)).rewrite
    outcomes = []
    for order in permutations(_DECIDED):
        task = Task()
        for number, (version, verdict) in enumerate(order):
            decide(task, rewrite, version, verdict)
            crawl_sessions(task, 15 * number, 15 * number + 15, HOST)
            task.processor = RulesProcessor(task.settings)
            task.processor.open(task)
        outcomes.append(task.rule_sets[SITE].rules)
    assert all(each == outcomes[0] for each in outcomes)
    assert (outcomes[0][0].decision, outcomes[0][0].stage) == ("reject", "shadow")


def test_decisions_of_one_batch_are_as_those_of_many() -> None:
    rewrite = only_rule(crawled(60)).rewrite
    decided = [DecidedRule(rewrite, version, verdict) for version, verdict in _DECIDED]
    one_by_one = [ClusterUpdate(site=SITE, members=(), decisions=(each,)) for each in decided]
    batches = (
        [[ClusterUpdate(site=SITE, members=(), decisions=tuple(decided))]],
        [one_by_one],
        [[e] for e in one_by_one],
    )
    outcomes = []
    for updates in batches:
        task = Task()
        for batch in updates:
            task._publish(task.processor.process(task, batch))
        crawl_sessions(task, 0, 60, HOST)
        outcomes.append(task.rule_sets[SITE].rules)
    assert outcomes[0] == outcomes[1] == outcomes[2] and outcomes[0][0].decision == "reject"
