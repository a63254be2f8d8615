"""The life of a rule. Only active rules are applied.

    learned ──► candidate ──► shadow ──► active ──► revoked ──► active …
                 too little    predicts, applied;    applied no more; predicts on, and has
                 evidence      is not    precision   to prove twice as much as the time before
                               applied   is watched

One URL in four, by its hash, is kept from the learner. For the rules they are the pages that arrive: what a rule
predicts for such a URL comes true if the URL meets its duplicates, does not if it lands wrong, and stays unsettled if
its target is unknown (landing.py). Predictions are counted in the order in which the crawler fetched the pages, and
older ones fade: a rule is judged by what the site is now. All URLs that it changes, those that the learner has seen
among them, are its evidence: a rule that leads too many of them to unknown or wrong URLs is not active, whatever came
true.

An operator may decide on a rule. An accepted one begins its life active, and is revoked as any other if its
predictions fail. A rejected one is never active. A pinned one always is, also if it is not learned any more.

So the life of a rule is a function of what is known of the site and of the latest decision, and of nothing else: not of
the moments at which the site was learned, nor of the groups that pages had in between.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from dustream.core.kernels.hash_slots import Hashes, Ints
from dustream.core.rules.evidence import EvidenceIndex, rewritten_hashes
from dustream.core.rules.landing import (
    MEETS,
    UNCOUNTED,
    UNKNOWN,
    WRONG,
    Landing,
    LandingSettings,
    counted,
    evidence_of,
    row_ways,
    saved,
)
from dustream.core.rules.rewrite import coded_rewrite, matching_rows, rewriter
from dustream.core.rules.training import TrainingSet
from dustream.schemas.rules import RuleVerdict, SubstringRewrite, UrlRule

HELD_OUT_ONE_IN: Final = 4
AGAINST_MAX: Final = 3


class LifeSettings(NamedTuple):
    """When rules rise and fall. A rule is revoked if its precision drops, or if `revoked_unknown_times` as many of its
    predictions are unsettled as a rule may have that becomes active."""

    shadow_support_min: int = 5
    active_right_min: int = 5
    revoked_precision_below: float = 0.9
    revoked_failed_min: int = 3
    revoked_unknown_times: float = 2.0
    predictions_max: int = 100
    revocations_counted_max: int = 6


def predicted(rule: UrlRule) -> Landing:
    """What became of its predictions."""
    return Landing(rule.right, rule.unsettled, rule.wrong)


def precision(rule: UrlRule) -> float:
    """The share of its settled predictions that came true; 1 where there were none."""
    total = rule.right + rule.wrong
    return rule.right / total if total else 1.0


def _is_failing(rule: UrlRule, settings: LifeSettings, landing: LandingSettings) -> bool:
    """Whether too many predictions are wrong, or lead to unknown URLs."""
    predictions = predicted(rule)
    unknown_max = settings.revoked_unknown_times * landing.unknown_allowed(predictions.rewrites) * predictions.rewrites
    is_wrong = predictions.wrong >= settings.revoked_failed_min and precision(rule) < settings.revoked_precision_below
    return is_wrong or (predictions.unknown >= settings.revoked_failed_min and predictions.unknown > unknown_max)


def scored(rule: UrlRule, way: int, settings: LifeSettings) -> UrlRule:
    """With one more prediction. Beyond the limit all count half."""
    counts = [rule.right + (way == MEETS), rule.unsettled + (way == UNKNOWN), rule.wrong + (way == WRONG)]
    if sum(counts) > settings.predictions_max:
        counts = [count // 2 for count in counts]
    return replace(rule, right=counts[0], unsettled=counts[1], wrong=counts[2])


def is_of_one_page(rule: UrlRule) -> bool:
    """Whether all that is known of a rule is one page under many URLs: an error page that is sent with status 200 is
    just that, and its rule would skip all other pages."""
    return rule.pages == 1


def reviewed(rule: UrlRule, settings: LifeSettings, landing: LandingSettings) -> UrlRule:
    """The rule at the stage that its record has earned."""
    if rule.stage == "candidate" and rule.support >= settings.shadow_support_min:
        rule = replace(rule, stage="shadow")
    if rule.stage in ("shadow", "revoked"):
        needed = settings.active_right_min << min(rule.revocations, settings.revocations_counted_max)
        proven = rule.right >= needed and predicted(rule).is_safe(landing)
        if proven and evidence_of(rule).is_known(landing) and not is_of_one_page(rule):
            return replace(rule, stage="active")
    if rule.stage == "active" and _is_failing(rule, settings, landing):
        return replace(rule, stage="revoked", revocations=rule.revocations + 1, right=0, wrong=0, unsettled=0)
    return rule


class RuleRecord(NamedTuple):
    """How all known URLs land that a rule changes, and how many need not be fetched; how each of them lands that the
    learner has not seen, oldest first by the time at which it was decided; and a few that land wrong."""

    evidence: Landing
    predictions: list[int]
    saved: int = 0
    against: tuple[tuple[str, str], ...] = ()


def lived(
    rule: UrlRule,
    known: RuleRecord,
    settings: LifeSettings,
    landing: LandingSettings,
    verdict: RuleVerdict | None = None,
) -> UrlRule:
    """The rule with its evidence, after its predictions, and after an operator's decision on it."""
    meets, unknown, wrong = known.evidence
    rule = replace(rule, support=meets, unknown=unknown, false_positives=wrong, saved=known.saved)
    rule = replace(rule, against=known.against)
    is_accepted = verdict == "accept"
    rule = replace(rule, stage="active" if is_accepted else "candidate", right=0, wrong=0, unsettled=0, revocations=0)
    rule = reviewed(rule, settings, landing)
    for way in known.predictions:
        rule = reviewed(scored(rule, way, settings), settings, landing)
    unsafe = evidence_of(rule).reason(landing)
    if rule.stage == "active" and unsafe and not is_accepted:
        rule = replace(rule, stage="shadow")
    return decided(replace(rule, reason=_reason(rule, unsafe) if rule.stage == "shadow" else ""), verdict)


def decided(rule: UrlRule, verdict: RuleVerdict | None) -> UrlRule:
    """The rule after an operator's decision on it. A rejected one is never active; a pinned one always is, and says
    what speaks against it."""
    rule = replace(rule, decision=verdict)
    if verdict == "reject":
        return replace(rule, stage="shadow" if rule.stage == "active" else rule.stage, reason="an operator rejected it")
    if verdict == "pin" and rule.stage != "active":
        against = f"{rule.stage}: {rule.reason}" if rule.reason else rule.stage
        return replace(rule, stage="active", reason=f"pinned; without that it would be {against}")
    return rule


def _reason(rule: UrlRule, unsafe: str) -> str:
    """Why a rule is a shadow."""
    if unsafe or is_of_one_page(rule):
        return unsafe or "all its URLs show one page"
    return f"too few predictions came true: {rule.right}"


def record(rule: UrlRule, index: EvidenceIndex, since: Ints, held_out: npt.NDArray[np.bool_]) -> RuleRecord:
    """What the rule does to the known URLs.

    `since[row]` is the rank of a URL in the order of fetching, `held_out[row]`: whether it was kept from the learner.
    """
    known = index.training
    rows, becomes, landed = _rewritten_rows(rule, index)
    ways = row_ways(index, rows, becomes, landed)
    known_at = np.where(landed >= 0, np.maximum(since[rows], since[np.maximum(landed, 0)]), since[rows])
    is_predicted = held_out[rows] & (ways != UNCOUNTED)
    order = np.lexsort((rows[is_predicted], known_at[is_predicted]))
    run, wrong = rewriter(rule.rewrite), [known.urls[row] for row in rows[ways == WRONG][:AGAINST_MAX].tolist()]
    against = tuple((url, run.apply(url) or url) for url in wrong)
    return RuleRecord(counted(ways), ways[is_predicted][order].tolist(), saved(ways, becomes, landed >= 0), against)


def _rewritten_rows(rule: UrlRule, index: EvidenceIndex) -> tuple[Ints, Hashes, Ints]:
    """The rows that the rule changes, a hash of what each becomes, and the row of that; −1: it was never seen."""
    known = index.training
    if isinstance(rule.rewrite, SubstringRewrite):
        return _replaced_rows(rule.rewrite, known)
    coded = coded_rewrite(known, rule.rewrite)
    if coded is None:
        return np.zeros(0, np.int32), np.zeros(0, np.uint64), np.zeros(0, np.int32)
    pattern, operations = coded
    rows = matching_rows(known, pattern)
    becomes = rewritten_hashes(known, rows, operations)
    rows, becomes = rows[becomes != known.hashes[rows]], becomes[becomes != known.hashes[rows]]
    return rows, becomes, index.rows_at(becomes)


def _replaced_rows(rewrite: SubstringRewrite, known: TrainingSet) -> tuple[Ints, Hashes, Ints]:
    """URLs are in order: those in the rule's scope follow each other."""
    run = rewriter(rewrite)
    urls, row_of = known.urls, known.row_of
    numbers: dict[str, int] = {}
    changed = []
    for row in range(bisect_left(urls, rewrite.scope), _end_of(rewrite.scope, urls)):
        after = run.apply(urls[row]) if rewrite.find in urls[row] else None
        if after is not None:
            changed.append((row, numbers.setdefault(after, len(numbers)), row_of.get(after, -1)))
    rows, becomes, landed = np.array(changed, np.int64).reshape(-1, 3).T
    return rows.astype(np.int32), becomes.astype(np.uint64), landed.astype(np.int32)


def _end_of(scope: str, urls: Sequence[str]) -> int:
    """Where the URLs that begin with the scope end, in order."""
    return bisect_left(urls, scope + chr(sys.maxunicode))
