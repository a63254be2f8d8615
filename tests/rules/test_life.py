"""The rules processor and the life of rules, with the four traps by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planted_sites import planted_site

from dustream.core.rules.learn import LearnSettings, SiteUrl, learn_site
from dustream.core.rules.life import LifeSettings, relearned, reviewed, scored
from dustream.core.rules.normalize import Normalizer
from dustream.core.rules.processor import RulesProcessor, RulesSettings, sample
from dustream.core.sites import site_of
from dustream.schemas.cluster import ClusterMember, ClusterUpdate
from dustream.schemas.rules import RuleSet, UrlRule
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
        self.tables = {"rule_sites": MemoryTable(), "rule_urls": MemoryTable(), "rule_waiting": MemoryTable()}
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
        update = ClusterUpdate(site=site, members=(ClusterMember(url, (self.clock, 0), group, role),))
        for send in self.processor.process(self, [update]):
            assert (send.topic, send.key) == ("url.rules", site)
            self.rule_sets[site] = send.message
            self.sent += 1

    def normalize(self, url: str) -> str:
        return Normalizer(self.rule_sets.values()).normalize(url)

    def stages(self, site: str) -> set[str]:
        return {rule.stage for rule in self.rule_sets[site].rules}


def crawl_sessions(task: Task, start: int, end: int, host: str = "http://shop.com/view") -> None:
    for i in range(start, end):
        task.arrive(f"{host}?id={i}", f"{host}{i}", "winner")
        task.arrive(f"{host}?id={i}&sid=s{i}", f"{host}{i}")


def test_a_rule_becomes_active_only_after_predictions_came_true() -> None:
    task = Task()
    crawl_sessions(task, 0, 20)
    assert task.stages("shop.com") == {"shadow"}
    assert task.normalize("http://shop.com/view?id=999&sid=x") == "http://shop.com/view?id=999&sid=x"
    crawl_sessions(task, 20, 60)
    assert task.stages("shop.com") == {"active"}
    assert task.normalize("http://shop.com/view?id=999&sid=x") == "http://shop.com/view?id=999"


def test_trap_a_redirect_target_is_never_rewritten_back_to_its_source() -> None:
    task = Task()
    for i in range(120):
        task.arrive(f"http://news.com/old/{i}", f"g{i}", "redirect")
        task.arrive(f"http://news.com/new/{i}", f"g{i}", "winner")
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
    one, two = (task.normalize(f"http://both.com/forum/t?id=999&v={v}") for v in (1, 2))
    assert one == two
    one, two = (task.normalize(f"http://both.com/shop/t?id=999&v={v}") for v in (1, 2))
    assert one != two


def test_trap_a_revoked_rule_recovers_when_the_site_does() -> None:
    task = Task()
    crawl_sessions(task, 0, 80)
    rule = task.rule_sets["shop.com"].rules[0].id
    for i in range(80, 140):  # the site breaks: sessions show other content
        task.arrive(f"http://shop.com/view?id={i}", f"a{i}", "unique")
        task.arrive(f"http://shop.com/view?id={i}&sid=s{i}", f"b{i}", "unique")
    assert {r.stage for r in task.rule_sets["shop.com"].rules if r.id == rule} == {"revoked"}
    for i in range(80, 140):  # it was an outage: the same pages come back in one group
        task.arrive(f"http://shop.com/view?id={i}", f"c{i}", "winner")
        task.arrive(f"http://shop.com/view?id={i}&sid=s{i}", f"c{i}")
    crawl_sessions(task, 140, 300)
    recovered = next(r for r in task.rule_sets["shop.com"].rules if r.id == rule)
    assert (recovered.stage, recovered.revocations) == ("active", 1)


def test_trap_users_of_github_io_share_no_rules() -> None:
    task = Task()
    crawl_sessions(task, 0, 80, "https://alice.github.io/view")
    assert task.normalize("https://alice.github.io/view?id=999&sid=x") == "https://alice.github.io/view?id=999"
    assert task.normalize("https://bob.github.io/view?id=999&sid=x") == "https://bob.github.io/view?id=999&sid=x"
    assert set(task.rule_sets) == {"alice.github.io"}


def test_learning_as_it_goes_equals_learning_from_scratch_on_the_same_sample() -> None:
    task = Task()
    crawl_sessions(task, 0, 100)
    urls = task.table("rule_urls")
    scratch = learn_site("shop.com", sample(urls, "shop.com", task.settings.sample_max))
    learned = [rule.id for rule in task.rule_sets["shop.com"].rules if rule.stage != "revoked"]
    assert [rule.id for rule in scratch.rules] == learned


def test_a_huge_site_is_kept_as_a_bounded_sample_that_does_not_depend_on_order() -> None:
    samples = []
    for order in (1, -1):
        task = Task(sample_max=100, relearn_changes_min=10_000)
        for i in list(range(1000))[::order]:
            task.arrive(f"http://huge.com/{i}", f"g{i}", "unique")
            assert len(task.table("rule_urls").rows) <= 111
        samples.append([entry.url for entry in sample(task.table("rule_urls"), "huge.com", 100)])
    assert samples[0] == samples[1]
    assert len(samples[0]) == 100


def test_predictions_wait_for_pages_that_arrive_later() -> None:
    task = Task()
    crawl_sessions(task, 0, 20)
    for i in range(20, 60):
        task.arrive(f"http://shop.com/view?id={i}&sid=s{i}", f"g{i}")
        task.arrive(f"http://shop.com/view?id={i}", f"g{i}", "winner")
    assert task.stages("shop.com") == {"active"}
    assert task.table("rule_waiting").rows == {}


def test_old_versions_and_repeats_change_nothing() -> None:
    task = Task()
    crawl_sessions(task, 0, 60)
    before = {name: dict(table.rows) for name, table in task.tables.items()}
    stale = ClusterMember("http://shop.com/view?id=1", (0, 0), "elsewhere", "unique")
    repeat = ClusterMember("http://shop.com/view?id=1", (10**9, 0), "http://shop.com/view1", "winner")
    assert task.processor.process(task, [ClusterUpdate(site="shop.com", members=(stale, repeat))]) == []
    assert before == {name: table.rows for name, table in task.tables.items()}


def test_the_outcome_does_not_depend_on_batches_or_restarts() -> None:
    known = planted_site(1).known[:300]
    members = [ClusterMember(e.url, (i, 0), e.cluster, "duplicate") for i, e in enumerate(known)]
    updates = [ClusterUpdate(site="site1.com", members=(member,)) for member in members]
    one, other = Task(), Task()
    for update in updates:
        one.processor.process(one, [update])
    for start in range(0, len(updates), 77):
        other.processor.process(other, updates[start : start + 77])
        other.processor = RulesProcessor(other.settings)
        other.processor.open(other)
    assert one.table("rule_sites").rows == other.table("rule_sites").rows
    assert one.table("rule_urls").rows == other.table("rule_urls").rows


def _rule(**fields: Any) -> UrlRule:
    learned = learn_site(
        "x.com", [SiteUrl(f"http://x.com/a?id={i}{s}", str(i)) for i in range(9) for s in ("", "&s=1")]
    )
    from msgspec.structs import replace

    return replace(learned.rules[0], **fields)


def test_each_revocation_doubles_what_a_rule_must_prove() -> None:
    life = LifeSettings()
    assert reviewed(_rule(stage="shadow", right=5), life).stage == "active"
    assert reviewed(_rule(stage="shadow", right=5, revocations=1), life).stage == "shadow"
    assert reviewed(_rule(stage="shadow", right=10, revocations=1), life).stage == "active"
    assert reviewed(_rule(stage="shadow", right=50, wrong=5), life).stage == "shadow"
    assert reviewed(_rule(stage="active", right=50, wrong=4), life).stage == "active"
    assert reviewed(_rule(stage="active", right=20, wrong=4), life).stage == "revoked"
    assert reviewed(_rule(stage="candidate", support=4), life).stage == "candidate"


def test_old_predictions_fade() -> None:
    life = LifeSettings()
    rule = _rule(right=200, wrong=0)
    for _ in range(60):
        rule = scored(rule, 0, 1, life)
    assert rule.right + rule.wrong <= 200
    assert (
        reviewed(scored(_rule(stage="active", right=rule.right, wrong=rule.wrong), 0, 0, life), life).stage == "revoked"
    )


def test_what_is_not_learned_any_more_is_not_applied_and_revocations_are_remembered() -> None:
    life = LifeSettings()
    active, revoked, shadow = (
        _rule(stage="active"),
        _rule(id="r", stage="revoked", revocations=2),
        _rule(id="s", stage="shadow"),
    )
    assert [rule.stage for rule in relearned([active, revoked, shadow], [], life)] == ["shadow", "revoked"]
    again = relearned([revoked], [_rule(id="r", support=50)], life)
    assert [(rule.stage, rule.revocations) for rule in again] == [("shadow", 2)]


def test_learning_survives_wrong_labels() -> None:
    from planted_sites import mislabelled

    planted = planted_site(0)
    noisy = learn_site(planted.site, mislabelled(planted.known, 10), settings=LearnSettings().with_label_noise(0.1))
    normalizer = Normalizer([RuleSet(site=planted.site, version=1, rules=noisy.rules)])
    for rule in planted.rules:
        found = sum(normalizer.normalize(a) == normalizer.normalize(b) for a, b in rule.fresh)
        assert found >= 0.95 * len(rule.fresh), rule.name
