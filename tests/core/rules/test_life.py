"""The rules processor and the life of rules, with the four traps by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rules_task import MemoryTable, Task, crawl_sessions

from dustream.core.rules import known_site
from dustream.core.rules.evidence import EvidenceIndex
from dustream.core.rules.known_site import is_held_out
from dustream.core.rules.landing import MEETS, UNKNOWN, WRONG, Landing, LandingSettings
from dustream.core.rules.learn import LearnSettings, SiteUrl, learn_site
from dustream.core.rules.life import LifeSettings, RuleRecord, lived, record, reviewed
from dustream.core.rules.normalize import Normalizer
from dustream.core.rules.processor import RulesProcessor
from dustream.core.rules.training import KnownUrl, training_set
from dustream.schemas.cluster import ClusterMember, ClusterUpdate
from dustream.schemas.rules import RuleSet, UrlRule
from dustream.streams.generate.planted_sites import planted_site


def sample(urls: MemoryTable, site: str, sample_max: int) -> list[Any]:
    """What rules are made from: the URLs of a site with the lowest hashes."""
    return [row for _, row in urls.scan(f"{site} ")][:sample_max]


def test_a_rule_becomes_active_only_after_predictions_came_true() -> None:
    task = Task()
    crawl_sessions(task, 0, 8, "http://shop.com/buy")
    assert task.stages("shop.com") == {"shadow"}
    assert task.normalize("http://shop.com/buy?id=999&sid=x") == "http://shop.com/buy?id=999&sid=x"
    crawl_sessions(task, 8, 60, "http://shop.com/buy")
    assert task.stages("shop.com") == {"active"}
    assert task.normalize("http://shop.com/buy?id=999&sid=x") == "http://shop.com/buy?id=999"


def test_one_page_under_many_urls_makes_no_active_rule() -> None:
    task = Task()
    for i in range(60):
        task.arrive(f"http://shop.com/item/{i}.html", "sold out", "winner" if i == 0 else "duplicate")
    task.rest()
    assert task.stages("shop.com") == {"shadow"}
    known = [SiteUrl(f"http://shop.com/item/{i}.html", "sold out") for i in range(60)]
    one = learn_site("shop.com", known).rules
    assert {(rule.stage, rule.pages) for rule in one} == {("shadow", 1)}
    more = [SiteUrl(f"http://shop.com/buy?id={i}&sid={j}", f"item {i}") for i in range(20) for j in range(3)]
    assert {rule.stage for rule in learn_site("shop.com", more).rules} == {"active"}


def test_predictions_are_made_for_urls_that_the_learner_has_not_seen() -> None:
    task = Task()
    crawl_sessions(task, 0, 60)
    rule = task.rule_sets["shop.com"].rules[0]
    held_out = [i for i in range(60) if is_held_out(f"http://shop.com/view?id={i}&sid=s{i}")]
    assert (rule.right, rule.wrong) == (len(held_out), 0)
    assert not any(is_held_out(before) for before, _ in rule.examples)


def test_trap_a_redirect_target_is_never_rewritten_back_to_its_source() -> None:
    task = Task()
    for i in range(120):
        task.arrive(f"http://news.com/old/{i}", f"g{i}", "redirect")
        task.arrive(f"http://news.com/new/{i}", f"g{i}", "winner")
    task.rest()
    assert "active" in task.stages("news.com")
    assert task.normalize("http://news.com/new/5") == "http://news.com/new/5"
    assert task.normalize("http://news.com/old/777") == "http://news.com/new/777"


def test_trap_a_rule_of_one_path_does_not_break_another() -> None:
    """`v` is noise under /forum/ and the product under /shop/."""
    task = Task()
    for i in range(150):
        for v in (1, 2):
            task.arrive(f"http://both.com/forum/t?id={i}&v={v}", f"forum {i}")
            task.arrive(f"http://both.com/shop/t?id={i}&v={v}", f"shop {i} {v}", "unique")
    task.rest()
    one, two = (task.normalize(f"http://both.com/forum/t?id=999&v={v}") for v in (1, 2))
    assert one == two
    one, two = (task.normalize(f"http://both.com/shop/t?id=999&v={v}") for v in (1, 2))
    assert one != two


def test_trap_a_revoked_rule_recovers_when_the_site_does() -> None:
    task = Task()
    crawl_sessions(task, 0, 1200)
    assert task.stages("shop.com") == {"active"}
    rule = task.rule_sets["shop.com"].rules[0].id
    for i in range(1200, 1255):  # the site breaks: sessions show other content
        task.arrive(f"http://shop.com/view?id={i}", f"a{i}", "unique")
        task.arrive(f"http://shop.com/view?id={i}&sid=s{i}", f"b{i}", "unique")
    task.rest()
    assert {r.stage for r in task.rule_sets["shop.com"].rules if r.id == rule} == {"revoked"}
    assert task.normalize("http://shop.com/view?id=999&sid=x") == "http://shop.com/view?id=999&sid=x"
    crawl_sessions(task, 1255, 2600)
    recovered = next(r for r in task.rule_sets["shop.com"].rules if r.id == rule)
    assert (recovered.stage, recovered.revocations) == ("active", 1)


def test_trap_users_of_github_io_share_no_rules() -> None:
    task = Task()
    crawl_sessions(task, 0, 80, "https://alice.github.io/view")
    assert task.normalize("https://alice.github.io/view?id=999&sid=x") == "https://alice.github.io/view?id=999"
    assert task.normalize("https://bob.github.io/view?id=999&sid=x") == "https://bob.github.io/view?id=999&sid=x"
    assert set(task.rule_sets) == {"alice.github.io"}


def test_learning_as_it_goes_equals_learning_from_scratch_on_the_same_sample() -> None:
    task = Task(sample_max=150)
    crawl_sessions(task, 0, 100)
    crawl_sessions(task, 100, 300)
    rows = sample(task.table("rule_urls"), "shop.com", 150)
    assert len(rows) == 150
    shown = [SiteUrl(row.url, row.cluster) for row in rows if not is_held_out(row.url)]
    scratch = learn_site("shop.com", shown, "tree")
    assert [rule.id for rule in scratch.rules] == [rule.id for rule in task.rule_sets["shop.com"].rules] != []


def test_a_huge_site_is_kept_as_a_bounded_sample_that_does_not_depend_on_order() -> None:
    samples = []
    for order in (1, -1):
        task = Task(sample_max=100, relearn_changes_min=10_000)
        for i in list(range(1000))[::order]:
            task.arrive(f"http://huge.com/{i}", f"g{i}", "unique")
            assert len(task.table("rule_urls").rows) <= 111
        samples.append([row.url for row in sample(task.table("rule_urls"), "huge.com", 100)])
    assert samples[0] == samples[1]
    assert len(samples[0]) == 100


def test_of_a_huge_site_the_sample_is_known_to_be_one() -> None:
    """Most targets are not in the sample, though they exist."""
    task = Task(sample_max=400, relearn_changes_min=10_000)
    crawl_sessions(task, 0, 1000)
    (rule,) = task.rule_sets["shop.com"].rules
    assert rule.unknown > 100
    assert rule.stage == "active"


def test_old_versions_and_repeats_change_nothing() -> None:
    task = Task()
    crawl_sessions(task, 0, 60)
    before = {name: dict(table.rows) for name, table in task.tables.items()}
    stale = ClusterMember("http://shop.com/view?id=1", (0, 0), "elsewhere", "unique")
    repeat = ClusterMember("http://shop.com/view?id=1", (10**9, 0), "http://shop.com/view1", "winner", since=3)
    assert task.processor.process(task, [ClusterUpdate(site="shop.com", members=(stale, repeat))]) == []
    assert before == {name: table.rows for name, table in task.tables.items()}


def test_the_outcome_depends_neither_on_order_nor_on_batches_restarts_and_rests() -> None:
    known = planted_site(1).known
    members = [ClusterMember(e.url, (2, 0), e.cluster, "duplicate", since=5 * (i % 7)) for i, e in enumerate(known)]
    early = [ClusterMember(m.url, (1, 0), f"still alone {m.url}", "unique", since=m.since) for m in members[::3]]
    one, other = Task(), Task(relearn_changes_min=200, relearn_share=0.5)
    one._publish(one.processor.process(one, [ClusterUpdate(site="site1.com", members=tuple(members))]))
    one.rest()
    updates = [ClusterUpdate(site="site1.com", members=(member,)) for member in early + members[::-1]]
    for start in range(0, len(updates), 77):
        other._publish(other.processor.process(other, updates[start : start + 77]))
        if start % 2:
            other.rest()
        other.processor = RulesProcessor(other.settings)
        other.processor.open(other)
    other.rest()
    assert other.sent > one.sent == 1
    assert one.rule_sets["site1.com"].rules == other.rule_sets["site1.com"].rules != ()


@pytest.mark.parametrize("items", [30, 150])
def test_both_learners_work_at_rest_and_the_tree_alone_on_the_way(items: int) -> None:
    task = Task(relearn_changes_min=2 * items)
    for i in range(items):  # parts within a segment: nothing that a tree of keys and values could tell
        task.arrive(f"http://shop.com/{'abc'[i % 3]}-item{i}", f"page {i}", "winner")
        task.arrive(f"http://shop.com/{'abc'[i % 3]}-print-item{i}", f"page {i}")
    row = task.table("rule_sites").get("shop.com")
    assert (row.changes, row.learned_urls, task.rule_sets) == (0, 2 * items, {})
    task.processor = RulesProcessor(task.settings)  # whoever takes over must know that there is more to learn
    task.processor.open(task)
    task.rest()
    assert {rule.learner for rule in task.rule_sets["shop.com"].rules} == {"dust"}
    assert task.normalize("http://shop.com/a-print-item999") == "http://shop.com/a-item999"
    sent = task.sent
    task.rest()
    assert task.sent == sent


def test_if_the_input_is_known_to_end_a_site_is_learned_at_rest_only() -> None:
    waiting, learning = Task(learns_on_the_way=False), Task()
    for task in (waiting, learning):
        for i in range(60):
            task.arrive(f"http://shop.com/view?id={i}", f"page {i}", "winner")
            task.arrive(f"http://shop.com/view?id={i}&sid=s{i}", f"page {i}")
    assert waiting.sent == 0 < learning.sent
    for task in (waiting, learning):
        task.rest()
    assert waiting.sent == 1
    assert waiting.rule_sets["shop.com"].rules == learning.rule_sets["shop.com"].rules != ()


def test_what_is_kept_in_memory_between_rests_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, forgetful, littered = Task(), Task(kept_urls_max=20), Task()
    for task in (plain, forgetful, littered):
        monkeypatch.setattr(known_site, "LEFTOVERS_MAX", -1_000_000 if task is littered else 1_000)
        for start in range(0, 60, 20):
            for shop in ("one.com", "two.com", "three.com"):
                crawl_sessions(task, start, start + 20, f"http://{shop}/view")
        task.arrive("http://one.com/view?id=1", "elsewhere", "unique")
        task.rest()
    assert plain.rule_sets == forgetful.rule_sets == littered.rule_sets
    assert [rules.version for rules in plain.rule_sets.values()] == [4, 3, 3]


def test_at_rest_only_sites_with_changes_are_learned() -> None:
    task = Task()
    crawl_sessions(task, 0, 60)
    sent = task.sent
    task.rest()
    assert task.sent == sent
    assert task.table("rule_sites").get("shop.com").changes == 0


def test_rules_that_are_gone_are_published_as_none() -> None:
    task = Task()
    crawl_sessions(task, 0, 60)
    for i in range(60):
        task.arrive(f"http://shop.com/view?id={i}&sid=s{i}", f"other {i}", "unique")
    task.rest()
    assert task.rule_sets["shop.com"].rules == ()


def _rule(**fields: Any) -> UrlRule:
    learned = learn_site(
        "x.com", [SiteUrl(f"http://x.com/a?id={i}{s}", str(i)) for i in range(9) for s in ("", "&s=1")]
    )
    from msgspec.structs import replace

    return replace(learned.rules[0], **fields)


def _reviewed(**fields: Any) -> str:
    return reviewed(_rule(**fields), LifeSettings(), LandingSettings()).stage


def test_each_revocation_doubles_what_a_rule_must_prove() -> None:
    assert _reviewed(stage="shadow", right=5) == "active"
    assert _reviewed(stage="shadow", right=5, revocations=1) == "shadow"
    assert _reviewed(stage="shadow", right=10, revocations=1) == "active"
    assert _reviewed(stage="shadow", right=50, wrong=5) == "shadow"
    assert _reviewed(stage="active", right=50, wrong=4) == "active"
    assert _reviewed(stage="active", right=20, wrong=4) == "revoked"
    assert _reviewed(stage="candidate", support=4) == "candidate"


def test_what_leads_nowhere_makes_no_active_rule() -> None:
    assert _reviewed(stage="shadow", right=50, unsettled=5) == "shadow"
    assert _reviewed(stage="shadow", right=50, unknown=50) == "shadow"
    assert _reviewed(stage="active", right=20, unsettled=4) == "revoked"


def _lived(told: list[int], support: int = 50, wrong: int = 0, **fields: Any) -> UrlRule:
    return lived(_rule(**fields), RuleRecord(Landing(support, 0, wrong), told), LifeSettings(), LandingSettings())


def test_old_predictions_fade() -> None:
    rule = _lived([MEETS] * 300 + [WRONG] * 40)
    assert rule.right + rule.wrong <= 100
    assert (rule.stage, rule.revocations) == ("revoked", 1)


def test_life_is_told_by_predictions_alone() -> None:
    stages = [_lived(told, stage="active", right=99).stage for told in ([], [MEETS] * 5)]
    assert stages == ["shadow", "active"]
    assert _lived([], support=4).stage == "candidate"
    fallen = [MEETS] * 5 + [WRONG] * 3
    assert _lived(fallen).stage == "revoked"
    assert _lived([*fallen, *[MEETS] * 9]).stage == "revoked"
    assert _lived([*fallen, *[MEETS] * 10]).stage == "active"


def test_a_rule_falls_when_too_many_predictions_lead_nowhere() -> None:
    assert _lived([MEETS] * 20 + [UNKNOWN] * 2).stage == "active"
    assert _lived([MEETS] * 20 + [UNKNOWN] * 3).stage == "revoked"


def test_evidence_against_counts_whatever_came_true() -> None:
    assert _lived([MEETS] * 20, support=98, wrong=2).stage == "active"
    assert _lived([MEETS] * 20, support=97, wrong=3).stage == "shadow"


def test_a_target_that_redirects_speaks_against_a_rule() -> None:
    known = training_set(KnownUrl(f"http://x.com/a?id={i}{s}", i, avoid=not s) for i in range(9) for s in ("", "&s=1"))
    held_out = np.ones(known.size, np.bool_)
    since = np.arange(known.size, dtype=np.int32)
    against = tuple((f"http://x.com/a?id={i}&s=1", f"http://x.com/a?id={i}") for i in range(3))
    assert record(_rule(), EvidenceIndex(known), since, held_out) == (Landing(0, 0, 9), [WRONG] * 9, 0, against)


def test_in_a_run_a_rule_is_active_only_if_it_lands() -> None:
    """All items have a print view; then items without one and print views without an item come."""
    task = Task()
    for i in range(160):
        task.arrive(f"http://shop.com/item/{i}", f"page {i}", "winner")
        task.arrive(f"http://shop.com/print/{i}", f"page {i}")
    task.rest()
    assert task.stages("shop.com") == {"active"}
    for i in range(160):
        task.arrive(f"http://shop.com/item/{1000 + i}", f"item {i}", "unique")
        task.arrive(f"http://shop.com/print/{2000 + i}", f"old item {i}", "unique")
    task.rest()
    rule = task.rule_sets["shop.com"].rules[0]
    assert rule.stage != "active"
    assert (rule.support, rule.unknown, rule.false_positives) == (160, 160, 0)
    assert rule.unsettled > 0


def test_learning_survives_wrong_labels() -> None:
    from dustream.streams.generate.planted_sites import mislabelled

    planted = planted_site(0)
    noisy = learn_site(planted.site, mislabelled(planted.known, 10), settings=LearnSettings().with_label_noise(0.1))
    normalizer = Normalizer([RuleSet(site=planted.site, version=1, rules=noisy.rules)])
    for rule in planted.rules:
        found = sum(normalizer.normalize(a) == normalizer.normalize(b) for a, b in rule.fresh)
        assert found >= 0.95 * len(rule.fresh), rule.name
