"""What is true of a generated web after its whole log has been read: one line per URL, after a line about the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

TRUTH_VERSION = 1

Role = Literal["content", "redirect", "gone", "rejected"]


class PageTruth(Struct, frozen=True, kw_only=True):
    """One URL at the end of the log.

    cluster: pages whose main texts are the same or near duplicates (Jaccard ≥ .9, through chains), and the redirects
    that end at them; None where there is no content. exact: pages with the very same main text.
    rule: the URL rule that made this address from the address `of`. grey: too near the threshold, or too dependent on
    how broken input is read, to count either way. target: where a redirect ends, if at content.
    """

    url: str
    role: Role
    family: str
    cluster: str | None = None
    exact: str | None = None
    rule: str | None = None
    of: str | None = None
    grey: bool = False
    target: str | None = None


class TruthHeader(Struct, frozen=True, kw_only=True, tag_field="kind", tag="truth"):
    """The first line of a truth file. Clusters and exact groups are counted from two pages on, grey pages left out."""

    v: int
    pages: int
    seed: int
    events: int
    threshold: float
    roles: Mapping[str, int]
    families: Mapping[str, int]
    rules: Mapping[str, int]
    grey: int
    clusters: int
    clustered_pages: int
    exact_groups: int


class TruthCounts:
    """Counts a web while it is written; bounded by the number of clusters within one block."""

    def __init__(self) -> None:
        self.events = 0
        self._pages = 0
        self._grey = 0
        self._roles: dict[str, int] = {}
        self._families: dict[str, int] = {}
        self._rules: dict[str, int] = {}
        self._clusters = 0
        self._clustered_pages = 0
        self._exact_groups = 0

    def add_block(self, truths: list[PageTruth]) -> None:
        """Count one block: clusters never reach beyond it."""
        for truth in truths:
            self._roles[truth.role] = self._roles.get(truth.role, 0) + 1
            self._families[truth.family] = self._families.get(truth.family, 0) + 1
            if truth.rule is not None:
                self._rules[truth.rule] = self._rules.get(truth.rule, 0) + 1
        self._pages += len(truths)
        self._grey += sum(truth.grey for truth in truths)
        counted = [truth for truth in truths if truth.role == "content" and not truth.grey]
        shared = _shared([truth.cluster for truth in counted])
        self._clusters += len(shared)
        self._clustered_pages += sum(shared)
        self._exact_groups += len(_shared([truth.exact for truth in counted]))

    def header(self, seed: int) -> TruthHeader:
        return TruthHeader(
            v=TRUTH_VERSION,
            pages=self._pages,
            seed=seed,
            events=self.events,
            threshold=0.9,
            roles=dict(sorted(self._roles.items())),
            families=dict(sorted(self._families.items())),
            rules=dict(sorted(self._rules.items())),
            grey=self._grey,
            clusters=self._clusters,
            clustered_pages=self._clustered_pages,
            exact_groups=self._exact_groups,
        )


def _shared(ids: list[str | None]) -> list[int]:
    """How many times each id occurs, of those that occur more than once."""
    counts: dict[str | None, int] = {}
    for name in ids:
        counts[name] = counts.get(name, 0) + 1
    return [count for count in counts.values() if count > 1]
