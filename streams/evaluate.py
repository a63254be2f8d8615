"""Evaluates a run on a generated web: its statuses against the truth.

Pairs are counted, not enumerated: with n_cg pages of true cluster c in group g, the pairs that are together in both
are Σ C(n_cg, 2), those of the run Σ_g C(n_g, 2), those of the truth Σ_c C(n_c, 2).

Counted are pages with content at the end of the log. Grey pages (too near the threshold to call, or unreadable as
declared) are left out on both sides before counting, so a pair with a grey page is neither right nor wrong; a wrong
merger that a grey page causes between two other clusters does count. A page that the run does not know, or whose role
is gone, is alone. Redirects are judged by the group of the page at which they end. A cluster is lost if none of its
pages, grey ones included, is kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from dustream.core.errors import BadInput
from dustream.schemas.status import Role, is_kept
from dustream.streams.generate.truth import TRUTH_VERSION, PageTruth

EXAMPLES_MAX = 5
URLS_PER_EXAMPLE_MAX = 4
WRITE_AGAIN = "write it again with dustream generate"

ROLE_CLASS: dict[Role, str] = {
    "unique": "content",
    "winner": "content",
    "duplicate": "content",
    "held": "content",
    "redirect": "redirect",
    "gone": "gone",
}


class JudgedLine(Struct, frozen=True):
    """The fields of a line of status.jsonl that are evaluated."""

    url: str
    role: Role
    group: str | None = None


class _FirstLine(Struct, frozen=True):
    kind: str = ""
    v: int = 0


@dataclass(frozen=True)
class Disagreement:
    """A difference between run and truth. `what`: merged (clusters in one group), split, role, redirect."""

    what: str
    said: str
    urls: tuple[str, ...]
    pairs: int


@dataclass(frozen=True)
class Scores:
    """The scores. A ratio with denominator 0 is 1: if there was nothing to find, nothing was missed."""

    pages: int
    grey_left_out: int
    pairs_true: int
    pairs_said: int
    pairs_right: int
    clusters: int
    clusters_found: int
    kept: int
    clusters_lost: int
    roles_right: int
    redirects: int
    redirects_right: int
    unknown_urls: int
    found_by_rule: Mapping[str, tuple[int, int]]
    worst: tuple[Disagreement, ...]

    @property
    def precision(self) -> float:
        return _ratio(self.pairs_right, self.pairs_said)

    @property
    def recall(self) -> float:
        return _ratio(self.pairs_right, self.pairs_true)

    @property
    def role_accuracy(self) -> float:
        return _ratio(self.roles_right, self.pages)

    def summary(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "pages": self.pages,
            "precision": self.precision,
            "recall": self.recall,
            "role_accuracy": self.role_accuracy,
            "pairs_true": self.pairs_true,
            "pairs_said": self.pairs_said,
            "pairs_right": self.pairs_right,
            "clusters": self.clusters,
            "clusters_found": self.clusters_found,
            "kept": self.kept,
            "clusters_lost": self.clusters_lost,
            "redirects": self.redirects,
            "redirects_right": self.redirects_right,
            "grey_left_out": self.grey_left_out,
            "unknown_urls": self.unknown_urls,
            "found_by_rule": {rule: _ratio(*counts) for rule, counts in self.found_by_rule.items()},
            "worst": [
                {"what": worst.what, "said": worst.said, "urls": list(worst.urls), "pairs": worst.pairs}
                for worst in self.worst
            ],
        }


def score(status_lines: Iterable[bytes | str], truth_lines: Iterable[bytes | str]) -> Scores:
    """Compare the lines of a status file with those of a truth file."""
    truths = {truth.url: truth for truth in _read_truth(truth_lines)}
    statuses = {status.url: status for status in _read_statuses(status_lines)}
    counted = [truth for truth in truths.values() if truth.role == "content" and not truth.grey]
    group_of = {truth.url: _group(statuses.get(truth.url), truth.url) for truth in counted}
    cells = Counter((truth.cluster, group_of[truth.url]) for truth in counted)
    kept = [url for url in truths if url in statuses and is_kept(statuses[url].role)]
    redirects, redirect_errors = _redirects(truths, statuses)
    clusters, found = _clusters_found(cells)
    role_errors = [truth for truth in truths.values() if not _role_is_right(truth, statuses.get(truth.url))]
    return Scores(
        pages=len(truths),
        grey_left_out=sum(truth.grey for truth in truths.values()),
        pairs_true=_pairs(_summed(cells, 0)),
        pairs_said=_pairs(_summed(cells, 1)),
        pairs_right=_pairs(cells),
        clusters=clusters,
        clusters_found=found,
        kept=len(kept),
        clusters_lost=len({truth.cluster for truth in counted} - {truths[url].cluster for url in kept}),
        roles_right=len(truths) - len(role_errors),
        redirects=redirects,
        redirects_right=redirects - len(redirect_errors),
        unknown_urls=sum(url not in truths for url in statuses),
        found_by_rule=_found_by_rule(counted, group_of),
        worst=(
            *_worst_cells("merged", cells, 1, counted, group_of),
            *_worst_cells("split", cells, 0, counted, group_of),
            *(_role_disagreement(truth, statuses.get(truth.url)) for truth in role_errors[:EXAMPLES_MAX]),
            *redirect_errors[:EXAMPLES_MAX],
        ),
    )


def _read_truth(lines: Iterable[bytes | str]) -> Iterable[PageTruth]:
    decoder = msgspec.json.Decoder(PageTruth)
    first = True
    for number, line in enumerate(lines, start=1):
        try:
            if first:
                header = msgspec.json.decode(line, type=_FirstLine)
                if header.kind != "truth" or header.v != TRUTH_VERSION:
                    raise BadInput(f"not a truth file of version {TRUTH_VERSION}; {WRITE_AGAIN}")
                first = False
                continue
            yield decoder.decode(line)
        except msgspec.DecodeError as error:
            raise BadInput(f"truth line {number} cannot be read ({error}); {WRITE_AGAIN}") from error


def _read_statuses(lines: Iterable[bytes | str]) -> Iterable[JudgedLine]:
    decoder = msgspec.json.Decoder(JudgedLine)
    for number, line in enumerate(lines, start=1):
        try:
            yield decoder.decode(line)
        except msgspec.DecodeError as error:
            raise BadInput(
                f"status line {number} cannot be read ({error}); give a status.jsonl of dustream run"
            ) from error


def _group(status: JudgedLine | None, url: str) -> str:
    """The group of a URL in the run; a page unknown, gone or without a group is alone."""
    if status is None or status.group is None or status.role == "gone":
        return f"alone {url}"
    return status.group


Cells = Counter[tuple[str | None, str]]


def _summed(cells: Cells, side: int) -> Counter[str | None]:
    """Cell counts summed per cluster (side 0) or per group (side 1)."""
    sums: Counter[str | None] = Counter()
    for cell, count in cells.items():
        sums[cell[side]] += count
    return sums


def _pairs(counts: Mapping[object, int] | Counter[str | None] | Cells) -> int:
    return sum(count * (count - 1) // 2 for count in counts.values())


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _clusters_found(cells: Cells) -> tuple[int, int]:
    """Clusters of two or more pages, and how many of them share one group."""
    sizes = _summed(cells, 0)
    groups_per_cluster = Counter(cluster for cluster, _ in cells)
    shared = [cluster for cluster, size in sizes.items() if size > 1]
    return len(shared), sum(groups_per_cluster[cluster] == 1 for cluster in shared)


def _found_by_rule(counted: list[PageTruth], group_of: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """For each URL rule: how many of the URLs that show their page's text are in its group."""
    clusters = {truth.url: truth.cluster for truth in counted}
    found: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for truth in counted:
        if truth.rule is not None and truth.of in clusters and clusters[truth.of] == truth.cluster:
            found[truth.rule][0] += group_of[truth.url] == group_of[truth.of]
            found[truth.rule][1] += 1
    return {rule: (right, of) for rule, (right, of) in sorted(found.items())}


def _role_is_right(truth: PageTruth, status: JudgedLine | None) -> bool:
    """Rejected means that no status exists; unique, winner and duplicate are judged by the groups, not here."""
    if status is None:
        return truth.role == "rejected"
    return ROLE_CLASS.get(status.role) == truth.role


def _role_disagreement(truth: PageTruth, status: JudgedLine | None) -> Disagreement:
    found = "no status" if status is None else status.role
    return Disagreement("role", f"{found} instead of {truth.role} ({truth.family})", (truth.url,), 0)


def _redirects(truths: Mapping[str, PageTruth], statuses: Mapping[str, JudgedLine]) -> tuple[int, list[Disagreement]]:
    """Redirects that end at content, and those of them that are not in the group of the page where they end."""
    ending = [truth for truth in truths.values() if truth.target is not None and not truth.grey]
    errors = []
    for truth in ending:
        target = str(truth.target)
        group, target_group = _group(statuses.get(truth.url), truth.url), _group(statuses.get(target), target)
        if group != target_group:
            errors.append(Disagreement("redirect", f"{group} instead of {target_group}", (truth.url, target), 1))
    return len(ending), errors


def _worst_cells(
    what: str, cells: Cells, side: int, counted: list[PageTruth], group_of: Mapping[str, str]
) -> list[Disagreement]:
    """The groups with the most wrong pairs (side 1), or the clusters with the most missed ones (side 0)."""
    wrong = Counter({name: count * (count - 1) // 2 for name, count in _summed(cells, side).items()})
    for cell, count in cells.items():
        wrong[cell[side]] -= count * (count - 1) // 2
    worst = sorted((-pairs, str(name)) for name, pairs in wrong.items() if pairs > 0)[:EXAMPLES_MAX]
    examples: dict[str, dict[str | None, str]] = {name: {} for _, name in worst}
    for truth in counted:
        cell = (truth.cluster, group_of[truth.url])
        if str(cell[side]) in examples:
            examples[str(cell[side])].setdefault(cell[1 - side], truth.url)
    return [
        Disagreement(what, f"{what} {name}", tuple(examples[name].values())[:URLS_PER_EXAMPLE_MAX], -pairs)
        for pairs, name in worst
    ]
