"""rel=canonical links as labels: from a list of pairs, beside clusters, and in a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dustream.core.rules.known_site import RulesSettings, SiteUrlRow, learned_rules
from dustream.core.rules.labels import with_canonical
from dustream.core.rules.learn import SiteUrl, learn_site, site_urls
from dustream.core.rules.normalize import SiteRules
from dustream.streams.cli.main import main
from dustream.streams.rules_io.files import read_rules

STABLE = "https://x.org/doc/stable/page{}.html"
OLD = "https://x.org/doc/{}/page{}.html"


def versions(pages: int = 30, link: str = STABLE) -> list[SiteUrl]:
    """Pages of two versions that name the stable one, which is not among them."""
    return [SiteUrl(OLD.format(v, i), canonical=link.format(i)) for v in ("1.0", "2.0") for i in range(pages)]


def rewritten(known: list[SiteUrl]) -> str:
    return SiteRules("x.org", learn_site("x.org", known).rules).apply(OLD.format("1.0", 7))[0]


def test_rules_are_learned_from_links_alone() -> None:
    assert rewritten(versions()) == STABLE.format(7)


@pytest.mark.parametrize(
    "link",
    [
        "https://x.org/doc/stable//page{}.html",
        "https://other.net/doc/stable/page{}.html",
        "https://x.org/",
        "{{{{ {} }}}}",
    ],
)
def test_links_that_are_not_relied_on_teach_nothing(link: str) -> None:
    assert rewritten(versions(link=link)) == OLD.format("1.0", 7)


def test_links_say_which_way_a_rule_goes() -> None:
    """By all other reasons `latest` would stand for the longer name."""
    pages = [("https://x.org/doc/latest/page{}.html", i) for i in range(30)]
    named = "https://x.org/doc/the-version-to-read/page{}.html"
    known = [SiteUrl(form.format(i), f"page {i}", canonical=named.format(i)) for form, i in pages]
    known += [SiteUrl(named.format(i), f"page {i}", canonical=named.format(i)) for i in range(30)]
    run = SiteRules("x.org", learn_site("x.org", known).rules)
    assert run.apply(pages[3][0].format(3))[0] == named.format(3)


def test_contents_that_differ_decide_against_links() -> None:
    """Old versions name the newest one as canonical and say something else."""
    known = [
        SiteUrl(OLD.format(v, i), f"{v} {i}", canonical=STABLE.format(i)) for v in ("1.0", "2.0") for i in range(30)
    ]
    known += [SiteUrl(STABLE.format(i), f"stable {i}") for i in range(30)]
    assert rewritten(known) == OLD.format("1.0", 7)


def test_a_page_named_by_different_contents_has_none() -> None:
    known = [
        SiteUrl(OLD.format(v, i), f"{v} {i}", canonical=STABLE.format(i)) for v in ("1.0", "2.0") for i in range(30)
    ]
    assert rewritten(known) == OLD.format("1.0", 7)


def test_a_run_learns_from_links() -> None:
    """Session ids, each page fetched once: without links nobody knows that the pages without them exist."""
    for links, expected in ((True, "https://x.org/p7"), (False, "https://x.org/p7?sid=7")):
        rows = [
            SiteUrlRow(f"https://x.org/p{i}?sid={i}", (1, 0), f"page {i}", since=i, canonical=f"https://x.org/p{i}")
            for i in range(200)
        ]
        known = rows if links else [SiteUrlRow(row.url, row.version, row.cluster, since=row.since) for row in rows]
        rules = learned_rules("x.org", known, RulesSettings())
        assert SiteRules("x.org", rules).apply("https://x.org/p7?sid=7")[0] == expected


def test_learn_reads_pairs_of_urls(tmp_path: Path) -> None:
    known = versions()
    pairs = "".join(f"{entry.url}\t{entry.canonical}\n" for entry in known)
    kinds = "".join(f"{entry.url}\t{entry.canonical}\tcanonical\n" for entry in known)
    headed = "url\tcanonical\n" + pairs
    for text in (pairs, kinds, headed):
        (tmp_path / "pairs.tsv").write_text(text)
        assert main(["learn", str(tmp_path / "pairs.tsv"), "--out", str(tmp_path / "rules.json")]) == 0
        [rules] = read_rules(tmp_path / "rules.json")
        assert SiteRules("x.org", rules.rules).apply(OLD.format("2.0", 3))[0] == STABLE.format(3)


ENTRIES = st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 3), st.booleans(), st.integers(-1, 9)), min_size=1)


@given(ENTRIES)
def test_known_clusters_stand(entries: list[tuple[int, int, bool, int]]) -> None:
    distinct = list({place: entry for entry in entries for place in entry[:1]}.values())
    places, clusters, avoid, canonical = (np.array(column) for column in zip(*distinct, strict=True))
    labels = with_canonical(places.astype(np.int64), clusters.astype(np.int32), avoid.astype(np.bool_), canonical)
    assert (labels.clusters[clusters >= 0] == clusters[clusters >= 0]).all()
    assert not set(labels.named.tolist()) & set(places.tolist())
    assert set(labels.named.tolist()) <= set(canonical.tolist())


@given(st.permutations(versions(6)))
def test_the_order_of_entries_does_not_matter(known: list[SiteUrl]) -> None:
    columns, expected = site_urls(known), site_urls(versions(6))
    urls = [columns.table.urls[place] for place in columns.places.tolist()]
    assert urls == [expected.table.urls[place] for place in expected.places.tolist()]
    assert columns.clusters.tolist() == expected.clusters.tolist()
