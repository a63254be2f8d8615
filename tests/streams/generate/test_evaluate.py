"""Scores on cases worked out by hand."""

from __future__ import annotations

import msgspec
import pytest

from dustream.core.errors import BadInput
from dustream.streams.evaluate import score
from dustream.streams.generate import PageTruth, truth

HEADER = b'{"kind":"truth","v":1}'


def page(url: str, cluster: str | None, role: str = "content", **more: object) -> bytes:
    return msgspec.json.encode(PageTruth(url=url, role=role, family="article", cluster=cluster, **more))


def status(url: str, group: str | None, role: str = "duplicate") -> bytes:
    return msgspec.json.encode({"url": url, "role": role, "group": group, "version": [1, 0], "similarity": 1.0})


TRUTH = [HEADER, page("a1", "a"), page("a2", "a"), page("a3", "a"), page("b1", "b"), page("b2", "b"), page("c1", "c")]


def statuses(**groups: str) -> list[bytes]:
    return [status(url, group) for url, group in groups.items()]


def test_all_right() -> None:
    scores = score(statuses(a1="x", a2="x", a3="x", b1="y", b2="y", c1="z"), TRUTH)
    assert (scores.precision, scores.recall, scores.role_accuracy) == (1.0, 1.0, 1.0)
    assert (scores.pairs_true, scores.pairs_said, scores.pairs_right) == (4, 4, 4)
    assert (scores.clusters, scores.clusters_found) == (2, 2)
    assert scores.worst == ()


def test_everything_alone_misses_all_pairs() -> None:
    scores = score(statuses(a1="1", a2="2", a3="3", b1="4", b2="5", c1="6"), TRUTH)
    assert (scores.precision, scores.recall) == (1.0, 0.0)
    assert scores.clusters_found == 0
    assert [(worst.what, worst.pairs, set(worst.urls)) for worst in scores.worst] == [
        ("split", 3, {"a1", "a2", "a3"}),
        ("split", 1, {"b1", "b2"}),
    ]


def test_all_wrong() -> None:
    truths = [HEADER, page("a1", "a"), page("a2", "a"), page("b1", "b"), page("b2", "b")]
    scores = score(statuses(a1="1", b1="1", a2="2", b2="2"), truths)
    assert (scores.precision, scores.recall, scores.clusters_found) == (0.0, 0.0, 0)


def test_a_cluster_is_lost_if_none_of_its_pages_is_kept() -> None:
    roles = {"a1": "winner", "a2": "duplicate", "b1": "held", "b2": "duplicate", "c1": "duplicate"}
    scores = score([status(url, "x", role) for url, role in roles.items()], TRUTH)
    assert (scores.kept, scores.clusters_lost) == (2, 1)


def test_two_clusters_merged() -> None:
    scores = score(statuses(a1="x", a2="x", a3="x", b1="x", b2="x", c1="z"), TRUTH)
    assert (scores.pairs_said, scores.pairs_right, scores.recall) == (10, 4, 1.0)
    assert scores.precision == 0.4
    assert scores.clusters_found == 2
    (worst,) = scores.worst
    assert (worst.what, worst.pairs, worst.urls) == ("merged", 6, ("a1", "b1"))


def test_one_page_left_out_of_its_group() -> None:
    scores = score(statuses(a1="x", a2="x", a3="w", b1="y", b2="y", c1="z"), TRUTH)
    assert (scores.precision, scores.recall) == (1.0, 0.5)
    assert (scores.clusters, scores.clusters_found) == (2, 1)


def test_grey_pages_count_neither_way() -> None:
    truths = [*TRUTH, page("g1", "a", grey=True), page("g2", "c", grey=True)]
    joined = score(statuses(a1="x", a2="x", a3="x", b1="y", b2="y", c1="z", g1="x", g2="y"), truths)
    apart = score(statuses(a1="x", a2="x", a3="x", b1="y", b2="y", c1="z", g1="q", g2="q"), truths)
    assert (joined.precision, joined.recall) == (apart.precision, apart.recall) == (1.0, 1.0)
    assert joined.grey_left_out == 2


def test_unknown_and_gone_pages_stand_alone() -> None:
    lines = [*statuses(a1="x", b1="y", b2="y", c1="z"), status("a2", "x", role="gone"), status("odd", "x")]
    scores = score(lines, TRUTH)
    assert scores.recall == 0.25
    assert scores.unknown_urls == 1
    assert scores.roles_right == 4


def test_roles() -> None:
    truths = [
        HEADER,
        page("d", None, role="gone"),
        page("r", None, role="redirect"),
        page("bad", None, role="rejected"),
    ]
    right = score([status("d", None, "gone"), status("r", None, "redirect")], truths)
    assert right.role_accuracy == 1.0
    wrong = score([status("d", None, "unique"), status("r", None, "gone"), status("bad", None, "unique")], truths)
    assert wrong.role_accuracy == 0.0
    assert {worst.what for worst in wrong.worst} == {"role"}


def test_redirects_are_judged_by_the_group_of_their_target() -> None:
    truths = [
        HEADER,
        page("a1", "a"),
        page("r1", "a", "redirect", target="a1"),
        page("r2", "a", "redirect", target="a1"),
    ]
    lines = [status("a1", "x", "winner"), status("r1", "x", "redirect"), status("r2", "y", "redirect")]
    scores = score(lines, truths)
    assert (scores.redirects, scores.redirects_right) == (2, 1)
    assert scores.pairs_true == 0


def test_recall_by_rule() -> None:
    truths = [
        HEADER,
        page("a", "a"),
        page("a?sid=1", "a", rule="session", of="a"),
        page("a?sid=2", "a", rule="session", of="a"),
        page("a/print", "b", rule="print", of="a"),
    ]
    scores = score([status("a", "x"), status("a?sid=1", "x"), status("a?sid=2", "y"), status("a/print", "z")], truths)
    assert scores.found_by_rule == {"session": (1, 2)}
    assert scores.summary()["found_by_rule"] == {"session": 0.5}


def test_truth_scored_against_itself_is_perfect() -> None:
    roles = {"content": "unique", "redirect": "redirect", "gone": "gone"}
    pages = list(truth(2_000, 1))
    lines = [status(p.url, p.cluster, roles[p.role]) for p in pages if p.role != "rejected"]
    scores = score(lines, [HEADER, *(msgspec.json.encode(p) for p in pages)])
    assert (scores.precision, scores.recall, scores.role_accuracy) == (1.0, 1.0, 1.0)
    assert scores.redirects == scores.redirects_right > 0
    assert scores.clusters == scores.clusters_found > 100
    assert msgspec.json.encode(scores.summary())


@pytest.mark.parametrize("first", [b'{"kind":"truth","v":99}', b'{"url":"a"}', b"not json"])
def test_a_file_that_is_no_truth_is_refused(first: bytes) -> None:
    with pytest.raises(BadInput, match="dustream generate"):
        score([], [first])


def test_a_broken_status_line_is_named() -> None:
    with pytest.raises(BadInput, match="status line 2"):
        score([status("a1", "x"), b"{"], TRUTH)
