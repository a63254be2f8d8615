"""What a rule does to the training set, against a count over plain dictionaries."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.rules.evidence import Evidence, EvidenceIndex, Operations, supporting_pages
from dustream.core.rules.training import KnownUrl, TrainingSet, training_set

URLS = st.builds("http://example.com/{}/{}?v={}".format, st.sampled_from("ab"), st.integers(0, 4), st.integers(0, 3))
KNOWN = st.lists(st.builds(KnownUrl, URLS, st.sampled_from([None, "x", "y", "z"]), st.booleans()), min_size=1)


def plain_evidence(training: TrainingSet, rows: list[int], key: str) -> Evidence:
    """Of dropping a query key from these rows."""
    after = {row: training.urls[row].split("?")[0] if key else training.urls[row] for row in rows}
    row_of = {url: row for row, url in enumerate(training.urls)}
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows:
        groups[after[row]].append(row)
    for url in list(groups):
        if url in row_of and row_of[url] not in after:
            groups[url].append(row_of[url])
    clusters = training.clusters.tolist()
    counts = {url: Counter(clusters[row] for row in group if clusters[row] >= 0) for url, group in groups.items()}
    pairs = sum(count.total() * (count.total() - 1) // 2 for count in counts.values())
    alike = sum(n * (n - 1) // 2 for count in counts.values() for n in count.values())
    known = [row for row in rows if clusters[row] >= 0]
    changed = [row for row in rows if after[row] != training.urls[row]]
    met = sum(len(group) for group in groups.values()) - len(rows)
    return Evidence(
        support_pairs=pairs,
        false_positive_pairs=pairs - alike,
        support=sum(counts[after[row]][clusters[row]] > 1 for row in known),
        false_positives=sum(counts[after[row]].total() > counts[after[row]][clusters[row]] for row in known),
        forbidden=sum(
            row_of[after[row]] != row and bool(training.avoid[row_of[after[row]]])
            for row in rows
            if after[row] in row_of
        ),
        gain=len(rows) - (len(groups) - met),
        reached=sum(clusters.count(clusters[row]) > 1 for row in known),
        changed=len(changed),
        unknown=sum(
            clusters[row] < 0
            or (clusters[row_of[after[row]]] < 0 if after[row] in row_of else counts[after[row]].total() < 2)
            for row in changed
        ),
    )


@given(KNOWN, st.data())
@settings(max_examples=200)
def test_evidence_is_what_a_plain_count_says(known: list[KnownUrl], data: st.DataObject) -> None:
    extra = [KnownUrl(entry.url.split("?")[0], entry.cluster, entry.avoid) for entry in known[::2]]
    training = training_set([*known, *extra])
    rows = sorted(data.draw(st.sets(st.integers(0, training.size - 1), min_size=1)))
    copied = np.arange(len(training.keys), dtype=np.int32)
    copied[training.keys.index("?v=")] = -1
    operations = Operations(copied, np.zeros(len(copied), np.int32))
    index = EvidenceIndex(training)
    assert index.evidence(np.array(rows, np.int32), operations) == plain_evidence(training, rows, "v")
    supporting = set(index.supporting_rows(np.array(rows, np.int32), operations).tolist())
    by_count = plain_evidence(training, rows, "v")
    assert len(supporting) <= by_count.support
    assert all("?" in training.urls[row] and training.clusters[row] >= 0 for row in supporting)


def test_a_rule_has_no_credit_for_urls_that_it_leaves_alone() -> None:
    """Keys in another order make the same pairs of keys and values: no rule is needed to see that."""
    orders = [f"http://example.com/{i}?{query}" for i in range(9) for query in ("a=1&v=1", "v=1&a=1")]
    changed = [f"http://example.com/{i}?{query}" for i in (20, 21) for query in ("a=1", "a=1&v=2")]
    training = training_set(KnownUrl(url, url.split("?")[0]) for url in orders + changed)
    copied = np.arange(len(training.keys), dtype=np.int32)
    copied[training.keys.index("?v=")] = -1
    fixed = np.zeros(len(copied), np.int32)
    fixed[training.keys.index("?v=")] = training.code_of["1"]
    rows = np.array([row for row, url in enumerate(training.urls) if "v=1" in url], np.int32)
    assert EvidenceIndex(training).evidence(rows, Operations(copied, fixed))[:6] == (0, 0, 0, 0, 0, 0)
    dropped = EvidenceIndex(training).evidence(np.arange(training.size, dtype=np.int32), Operations(copied, fixed * 0))
    assert (dropped.support, dropped.gain) == (22, 11)


PLACES = 6
ENTRIES = st.lists(st.tuples(st.integers(0, PLACES - 1), st.integers(-1, 3)), min_size=1, max_size=30)


@given(ENTRIES, st.lists(st.integers(-1, PLACES - 1), min_size=PLACES, max_size=PLACES))
@settings(max_examples=300)
def test_pages_that_speak_are_what_a_plain_count_says(entries: list[tuple[int, int]], goes: list[int]) -> None:
    """A page speaks if URLs of it from two places come to one; what is at rest there already does not."""
    moved = [-1 if there == place else there for place, there in enumerate(goes)]
    came_from: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    for place, cluster in entries:
        if cluster >= 0:
            came_from[moved[place] if moved[place] >= 0 else place, cluster].add(place)
    supporters = {cluster for (_, cluster), places in came_from.items() if len(places) > 1}
    at, clusters = (np.array(column) for column in zip(*entries, strict=True))
    assert supporting_pages(at.astype(np.int64), clusters.astype(np.int32), np.array(moved, np.int64)) == len(
        supporters
    )
