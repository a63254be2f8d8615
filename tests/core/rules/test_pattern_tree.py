"""The worked examples of Lei et al., and the laws of tree, candidates and selection."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dustream.core.rules.candidates import Candidate, CandidateSettings, candidate_rules, duplicate_nodes, overlap
from dustream.core.rules.evidence import Evidence, Operations
from dustream.core.rules.growth import entropy, salient_count
from dustream.core.rules.landing import LandingSettings
from dustream.core.rules.normalize import SiteRules
from dustream.core.rules.pattern_tree import PatternTree, build_pattern_tree, node_pattern, node_regex
from dustream.core.rules.rewrite import pattern_rewrite, rule_id
from dustream.core.rules.scores import score
from dustream.core.rules.selection import chained, find_circle, select_by_graph, select_naively, stable_distribution
from dustream.core.rules.shares import ClusterShares
from dustream.core.rules.training import KnownUrl, TrainingSet, training_set
from dustream.schemas.rules import UrlRule

SMALL = CandidateSettings(support_min=2, common_clusters_min=2, landing=LandingSettings(1, 1))


def learned(training: TrainingSet, options: CandidateSettings = SMALL) -> SiteRules:
    tree = build_pattern_tree(training)
    rules = select_by_graph(tree, candidate_rules(tree, options).qualified, options)
    return SiteRules("example.com", [_active(pattern_rewrite(tree, rule)) for rule in rules])


def _active(rewrite) -> UrlRule:  # type: ignore[no-untyped-def]
    return UrlRule(id=rule_id("", rewrite), rewrite=rewrite, pattern="", replacement="", stage="active", learner="tree")


# Figure 3: eight duplicates, K3 and K5 are irrelevant.
FIGURE_3 = [f"http://example.com/a?k2=b&k3={k3}&k4=c&k5={k5}" for k3, k5 in
            ["ex", "fy", "gz", "hw", "pm", "pn", "qm", "qn"]]  # fmt: skip


@pytest.mark.parametrize("missing", [None, *range(8)])
def test_figure_3_also_with_any_url_missing(missing: int | None) -> None:
    urls = [url for i, url in enumerate(FIGURE_3) if i != missing]
    others = [KnownUrl(f"http://example.com/a?k2=x{i}&k3=e&k4=c&k5=m", f"other {i}") for i in range(3)]
    rules = learned(training_set([*(KnownUrl(url, "same") for url in urls), *others]))
    assert {rules.apply(url)[0] for url in FIGURE_3} == {"http://example.com/a?k2=b&k4=c"}
    assert len({rules.apply(other.url)[0] for other in others}) == 3


# Figure 4: ?pageid=… in A, /…/display in B; the archive mirrors and the session do not matter.
def figure_4() -> list[KnownUrl]:
    known = []
    for page in ("10", "21", "35", "46"):
        for mirror in ("archive", "archive3"):
            known.append(KnownUrl(f"http://example.com/{mirror}/show?pageid={page}", page))
            known.append(KnownUrl(f"http://example.com/{mirror}/{page}/display?sid={mirror}{page}x", page))
            known.append(KnownUrl(f"http://example.com/{mirror}/{page}/display?sid={mirror}{page}y", page))
    return known


def test_figure_4_patterns() -> None:
    tree = build_pattern_tree(training_set(figure_4()))
    patterns = [dict(node_pattern(tree, node)) for node in tree.nodes]
    common = {"scheme": "http", "host_0": "com", "host_1": "example", "path_0": "*"}
    assert {**common, "path_1": "show", "?pageid=": "*"} in patterns
    assert {**common, "path_1": "*", "path_2": "display", "?sid=": "*"} in patterns
    assert any(r"/display(?:\?sid=" in node_regex(tree, node) for node in tree.nodes)


@pytest.mark.parametrize("missing", [None, 0, 5, 7])
def test_figure_4_rule_applies_to_pages_never_seen(missing: int | None) -> None:
    known = [entry for i, entry in enumerate(figure_4()) if i != missing]
    rules = learned(training_set(known), SMALL._replace(o_min=0.3))  # of so few URLs one is much of a duplicate rate
    new = [
        "http://example.com/archive/show?pageid=99",
        "http://example.com/archive3/show?pageid=99",
        "http://example.com/archive/99/display?sid=abc",
        "http://example.com/archive3/99/display?sid=def",
    ]
    assert len({rules.apply(url)[0] for url in new}) == 1
    assert len({rules.apply(url.replace("99", "98"))[0] for url in new} | {rules.apply(url)[0] for url in new}) == 2


def test_figure_4_operations() -> None:
    """Figure 4 c the other way round, from pages under archive3: one key is replaced, one kept, the session dropped;
    and the mirror is ignored, though it has that value on both sides: the fake replace."""
    tree = build_pattern_tree(training_set(figure_4()))
    patterns = [dict(node_pattern(tree, node)) for node in tree.nodes]
    [found] = [
        rule
        for rule in candidate_rules(tree, SMALL).qualified
        if (patterns[rule.source]["path_0"], patterns[rule.target]["path_1"]) == ("archive3", "show")
    ]
    key = {name: i for i, name in enumerate(tree.training.keys)}
    copied, fixed = found.operations
    assert copied[key["?pageid="]] == key["path_1"]
    assert (copied[key["path_1"]], tree.training.text(fixed[key["path_1"]])) == (-1, "show")
    assert (copied[key["?sid="]], fixed[key["?sid="]]) == (-1, 0)
    assert copied[key["path_0"]] == -1


@pytest.mark.parametrize(("common", "is_found"), [(4, False), (24, False), (25, True), (50, True)])
def test_nodes_are_duplicate_from_half_of_their_urls_on(common: int, is_found: bool) -> None:
    """Algorithm 2 with o_min .5, as the paper has it."""
    known = [KnownUrl(f"http://example.com/{d}/p{i}", i if i < common else (d, i)) for d in "ab" for i in range(50)]
    tree = build_pattern_tree(training_set(known))
    options = SMALL._replace(coverage_min=2.0)
    found = duplicate_nodes(tree, ClusterShares(tree), np.full(len(tree.nodes), -1), options)
    assert found == ([(1, 2), (2, 1)] if is_found else [])


def test_salient_values_stand_before_the_largest_drop() -> None:
    assert salient_count(np.array([900, 800, 700, 20, 19, 18, 1]), 3000) == 3
    assert salient_count(np.array([500, 480, 470]), 1450) == 3
    assert salient_count(np.array([2, 2, 1, 1]), 6) == 0
    assert salient_count(np.array([7, 7, 6, 6, 5, 5]), 36) == 6
    assert salient_count(np.array([7, 7, 6, 6, 5, 5, 5]), 41) == 0


def test_entropy_and_overlap_by_hand() -> None:
    assert entropy(np.array([2, 2])) == pytest.approx(np.log(2))
    assert entropy(np.array([4])) == 0
    assert overlap(3, 2, 6, 4) == 0.5


def test_scores_by_hand() -> None:
    """Six URLs in three clusters become three URLs, one of them by mistake."""
    found = score([("x", 1), ("x", 1), ("x", 2), ("y", 2), ("z", 3), ("z", 3)])
    assert found.compression_rate == 0.5
    assert (found.support_pairs, found.false_positive_pairs) == (3 + 1, 2)
    assert found.false_positive_rate == 0.5
    assert found.dup_reduction_rate == 1.0
    assert score([("x", 1), ("y", 1), ("z", 2)]).dup_reduction_rate == 0.0
    assert score([]).compression_rate == 0.0


def three_directories() -> PatternTree:
    """A root with three leaves: a (60 URLs), b (50), c (40)."""
    urls = [f"http://example.com/{directory}/x" for directory in "abc"]
    known = [
        KnownUrl(f"{url}?i={i}", (url, i)) for url, count in zip(urls, (60, 50, 40), strict=True) for i in range(count)
    ]
    tree = build_pattern_tree(training_set(known))
    assert [node.volume for node in tree.nodes] == [150, 60, 50, 40]
    return tree


def rule_between(source: int, target: int, false_positive_pairs: int = 0) -> Candidate:
    copied = np.arange(6, dtype=np.int32)
    evidence = Evidence(10, false_positive_pairs, 3, 0, 0, 3, 3)
    return Candidate(source, target, Operations(copied, np.zeros(6, np.int32)), evidence)


def test_the_random_walk_by_hand() -> None:
    """Eq. 7: weights are 1 − fpr, rows add up to 1, volumes flow until they rest; what has no way out keeps all."""
    tree = three_directories()

    def rest(*rules: Candidate) -> object:
        return pytest.approx(stable_distribution(tree, list(rules)), abs=1e-5)

    assert rest(rule_between(2, 1), rule_between(3, 1)) == {1: 150, 2: 0, 3: 0}
    # Two thirds of b take the rule with fpr 0, one third the one with fpr .5.
    assert rest(rule_between(2, 1), rule_between(2, 3, false_positive_pairs=5)) == {
        1: 60 + 100 / 3,
        2: 0,
        3: 40 + 50 / 3,
    }
    # A descendant also leads to its ancestor: half of b goes to the root at once, half by way of a.
    assert rest(rule_between(2, 1), rule_between(0, 0)) == {0: 150 + 60 + 50, 1: 0, 2: 0}
    # In a circle of two the energy comes to rest, shared.
    assert rest(rule_between(1, 2), rule_between(2, 1)) == {1: 55, 2: 55}


def test_chains_become_one_rule() -> None:
    """Figure 8 d, e: set path_0 to b, then copy it to path_1 and drop ?i, is one rule that does all of it."""
    keep, none = np.arange(3, dtype=np.int32), np.zeros(3, np.int32)
    first = Operations(np.array([-1, 1, 2], np.int32), np.array([7, 0, 0], np.int32))
    second = Operations(np.array([0, 0, -1], np.int32), none)
    joined = chained(first, second)
    assert joined.copied.tolist() == [-1, -1, -1]
    assert joined.fixed.tolist() == [7, 7, 0]
    assert chained(Operations(keep, none), second).copied.tolist() == [0, 0, -1]


def test_what_leads_over_another_node_is_deployed_as_one_rule() -> None:
    """Figure 8 d, e: of the rules a → b and b → c the first becomes a → c."""
    forms = ("http://example.com/a/{}", "http://example.com/b/x/{}", "http://example.com/c/y/z/{}.html")
    tree = build_pattern_tree(training_set(KnownUrl(form.format(i), i) for i in range(40) for form in forms))
    directories = [dict(node_pattern(tree, node)).get("path_0") for node in tree.nodes]
    links = {
        (directories[rule.source], directories[rule.target]): rule for rule in candidate_rules(tree, SMALL).qualified
    }
    chain = [links["a", "b"], links["b", "c"]]
    first, second = sorted(select_by_graph(tree, chain, SMALL), key=lambda rule: directories[rule.source] or "")
    assert (first.source, first.target) == (links["a", "b"].source, links["b", "c"].target)
    assert second == links["b", "c"]
    alone = SiteRules("example.com", [_active(pattern_rewrite(tree, first))])
    assert alone.apply("http://example.com/a/99")[0] == "http://example.com/c/y/z/99.html"


def test_overfitted_rules_are_removed() -> None:
    """Half of the pages ignore `v`, on the others it decides the content: no rule may cover both."""
    known = [
        KnownUrl(f"http://example.com/p?id={i}&v={v}", i if i < 20 else (i, v)) for i in range(40) for v in range(3)
    ]
    tree = build_pattern_tree(training_set(known))
    for rule in candidate_rules(tree).qualified:
        assert rule.evidence.false_positive_rate <= 0.05


def test_nothing_leads_to_urls_that_redirect_or_are_gone() -> None:
    known = [
        KnownUrl(f"http://example.com/{kind}/{i}", i, avoid=kind == "old") for i in range(30) for kind in ("old", "new")
    ]
    rules = learned(training_set(known))
    assert rules.apply("http://example.com/old/77")[0] == "http://example.com/new/77"
    assert rules.apply("http://example.com/new/77")[0] == "http://example.com/new/77"


def test_a_node_of_dead_urls_is_no_destination_however_popular() -> None:
    """Both living directories have their duplicates in the dead one."""
    dead = [KnownUrl(f"http://example.com/new/x/{i}.html", i, avoid=True) for i in range(60)]
    living = [KnownUrl(f"http://example.com/{'old' if i < 30 else 'alt/y/z'}/{i}", i) for i in range(60)]
    rules = learned(training_set([*dead, *living]))
    for url in ("http://example.com/old/77", "http://example.com/alt/y/z/77"):
        assert rules.apply(url)[0] == url


WORDS = st.sampled_from(["a", "b", "c", "1", "2", "3"])
KNOWN = st.lists(
    st.builds(
        lambda parts, query, cluster: KnownUrl(
            "http://example.com/" + "/".join(parts) + ("?" + "&".join(f"{k}={v}" for k, v in query) if query else ""),
            cluster,
        ),
        st.lists(WORDS, max_size=3),
        st.lists(st.tuples(st.sampled_from(["id", "s"]), WORDS), max_size=2),
        st.integers(0, 8),
    ),
    max_size=80,
)
LAX = CandidateSettings(support_min=1, common_clusters_min=1, fpr_max=0.9)


def assert_none_of_figure_7(tree: PatternTree, rules: list[Candidate]) -> None:
    sources = [rule.source for rule in rules]
    assert len(sources) == len(set(sources))
    nodes = [tree.nodes[source] for source in sources]
    assert not any(tree.is_ancestor(a, b) for a in nodes for b in nodes)
    assert find_circle(tree, rules) == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(KNOWN)
def test_cases_a_b_c_of_figure_7_never_remain(known: list[KnownUrl]) -> None:
    tree = build_pattern_tree(training_set(known))
    candidates = candidate_rules(tree, LAX).qualified
    for rules in (select_by_graph(tree, candidates, LAX), select_naively(tree, candidates)):
        assert_none_of_figure_7(tree, rules)


NESTED = [
    KnownUrl(f"http://example.com/{a}/{b}/x?i={i}", (a, b, i)) for a in "abc" for b in "de" for i in range(20 + ord(b))
]
LINKS = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 10), st.integers(1, 30)),
    max_size=20,
    unique_by=lambda link: link[:2],
)


@settings(max_examples=300)
@given(LINKS)
def test_cases_a_b_c_of_figure_7_never_remain_whatever_the_candidates(links: list[tuple[int, int, int, int]]) -> None:
    """Any rules between the nine nodes of a tree of three levels, with any evidence."""
    tree = build_pattern_tree(training_set(NESTED))
    assert [node.parent for node in tree.nodes] == [-1, 0, 1, 1, 1, 0, 5, 5, 5]
    keep = Operations(np.arange(len(tree.training.keys), dtype=np.int32), np.zeros(len(tree.training.keys), np.int32))
    candidates = [
        Candidate(source, target, keep, Evidence(10, false_pairs, gain, 0, 0, gain, gain))
        for source, target, false_pairs, gain in links
        if source == target or not related(tree, source, target)
    ]
    for rules in (select_by_graph(tree, candidates, LAX), select_naively(tree, candidates)):
        assert_none_of_figure_7(tree, rules)
        assert bool(rules) == bool(candidates) or any(rule.source != rule.target for rule in candidates)


def related(tree: PatternTree, a: int, b: int) -> bool:
    return tree.is_ancestor(tree.nodes[a], tree.nodes[b]) or tree.is_ancestor(tree.nodes[b], tree.nodes[a])


@settings(max_examples=40)
@given(KNOWN)
def test_tree_is_a_partition_and_order_free(known: list[KnownUrl]) -> None:
    tree = build_pattern_tree(training_set(known))
    for node in tree.nodes:
        children = [tree.nodes[child] for child in node.children]
        if children:
            assert sorted(row for child in children for row in tree.rows(child)) == sorted(tree.rows(node))
    other = build_pattern_tree(training_set(sorted(set(known), key=lambda entry: entry.url, reverse=True)))
    assert len({entry.url for entry in known}) < len(set(known)) or [node_pattern(tree, n) for n in tree.nodes] == [
        node_pattern(other, n) for n in other.nodes
    ]


@pytest.mark.parametrize(
    "known",
    [
        [],
        [KnownUrl("http://example.com/", 1)],
        [KnownUrl(f"http://example.com/{i}", i) for i in range(50)],
        [KnownUrl(f"http://example.com/{i}", None) for i in range(50)],
        [KnownUrl("http://example.com/?" + "k=1&" * 5000, 1), KnownUrl("no url", 2), KnownUrl("http:///x", 2)],
        [KnownUrl("http://example.com/?" + "&".join(f"k{i}{j}=1" for j in range(30)), i) for i in range(50)],
    ],
)
def test_sites_without_anything_to_learn(known: list[KnownUrl]) -> None:
    tree = build_pattern_tree(training_set(known))
    assert select_by_graph(tree, candidate_rules(tree).qualified) == []


def test_a_site_where_all_are_duplicates_gets_one_rule() -> None:
    rules = learned(training_set([KnownUrl(f"http://example.com/x?id={i}", 1) for i in range(50)]))
    assert rules.apply("http://example.com/x?id=77")[0] == "http://example.com/x"
