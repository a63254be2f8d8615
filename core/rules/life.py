"""The life of a rule. Only active rules are applied.

    learned ──► candidate ──► shadow ──► active ──► revoked ──► active …
                 too little    predicts, applied;    applied no more; predicts on, and has
                 evidence      is not    precision   to prove twice as much as the time before
                               applied   is watched

One URL in four, by its hash, is kept from the learner. For the rules they are the pages that arrive: what a rule
predicts for such a URL comes true if it and the URL it is rewritten to are in one group, and does not if they are in
two, or if that URL redirects or is gone. The predictions are told in the order in which the crawler fetched the pages,
and older ones fade: a rule is judged by what the site is now.

So the life of a rule is a function of what is known of the site, and of nothing else: not of the moments at which the
site was learned, nor of the groups that pages had in between.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from dustream.core.rules.evidence import EvidenceIndex, rewritten_hashes
from dustream.core.rules.hash_slots import Ints
from dustream.core.rules.rewrite import coded_rewrite, matching_rows, rewriter
from dustream.core.rules.training import TrainingSet
from dustream.schemas.rules import PatternRewrite, SubstringRewrite, UrlRule

HELD_OUT_ONE_IN: Final = 4


class LifeSettings(NamedTuple):
    """When rules rise and fall."""

    shadow_support_min: int = 5
    active_right_min: int = 5
    active_precision_min: float = 0.95
    revoked_precision_below: float = 0.9
    revoked_wrong_min: int = 3
    predictions_max: int = 100
    revocations_counted_max: int = 6


def precision(rule: UrlRule) -> float:
    """The share of its predictions that came true; 1 where there were none."""
    total = rule.right + rule.wrong
    return rule.right / total if total else 1.0


def scored(rule: UrlRule, right: bool, settings: LifeSettings) -> UrlRule:
    """With one more prediction. Beyond the limit all count half."""
    rights, wrongs = rule.right + right, rule.wrong + (not right)
    if rights + wrongs > settings.predictions_max:
        rights, wrongs = rights // 2, wrongs // 2
    return replace(rule, right=rights, wrong=wrongs)


def is_of_one_page(rule: UrlRule) -> bool:
    """Whether all that is known of a rule is one page under many URLs: an error page that is sent with status 200 is
    just that, and would have all that a site still has to say skipped."""
    return rule.pages == 1


def reviewed(rule: UrlRule, settings: LifeSettings) -> UrlRule:
    """The rule at the stage that its record has earned."""
    if rule.stage == "candidate" and rule.support >= settings.shadow_support_min:
        rule = replace(rule, stage="shadow")
    if rule.stage in ("shadow", "revoked"):
        needed = settings.active_right_min << min(rule.revocations, settings.revocations_counted_max)
        if rule.right >= needed and precision(rule) >= settings.active_precision_min and not is_of_one_page(rule):
            return replace(rule, stage="active")
    failing = rule.wrong >= settings.revoked_wrong_min and precision(rule) < settings.revoked_precision_below
    if rule.stage == "active" and failing:
        return replace(rule, stage="revoked", revocations=rule.revocations + 1, right=0, wrong=0)
    return rule


def lived(rule: UrlRule, predictions: Iterable[bool], settings: LifeSettings) -> UrlRule:
    """The rule after these predictions, oldest first."""
    rule = reviewed(replace(rule, stage="candidate", right=0, wrong=0, revocations=0), settings)
    for right in predictions:
        rule = reviewed(scored(rule, right, settings), settings)
    return rule


def predictions(rule: UrlRule, index: EvidenceIndex, since: Ints, held_out: npt.NDArray[np.bool_]) -> Iterator[bool]:
    """What the rule says of the URLs that the learner has not seen, by the time at which it could be told.

    `since[row]` is the rank of a URL in the order of fetching, `held_out[row]`: whether it was kept from the learner.
    """
    known = index.training
    rows, targets = _rewritten_rows(rule, index, held_out)
    tells = (known.clusters[rows] >= 0) & ((known.clusters[targets] >= 0) | known.avoid[targets])
    tells &= held_out[rows] & (rows != targets)
    rows, targets = rows[tells], targets[tells]
    right = (known.clusters[rows] == known.clusters[targets]) & ~known.avoid[targets]
    told_at = np.maximum(since[rows], since[targets])
    yield from right[np.lexsort((rows, told_at))].tolist()


def _rewritten_rows(rule: UrlRule, index: EvidenceIndex, asked: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """The rows that the rule rewrites to known URLs, and the rows of those; all that are asked for are among them."""
    known = index.training
    if isinstance(rule.rewrite, PatternRewrite):
        coded = coded_rewrite(known, rule.rewrite)
        if coded is None:
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        pattern, operations = coded
        rows = matching_rows(known, pattern)
        landed = index.rows_at(rewritten_hashes(known, rows, operations))
        return rows[landed >= 0], landed[landed >= 0]
    return _replaced_rows(rule.rewrite, known, asked)


def _replaced_rows(rewrite: SubstringRewrite, known: TrainingSet, asked: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Of the rows that are asked for. URLs are in order: those in the rule's scope follow each other."""
    run = rewriter(rewrite)
    urls, row_of = known.urls, known.row_of
    first = bisect_left(urls, rewrite.scope)
    pairs = []
    for row in (first + np.flatnonzero(asked[first : _end_of(rewrite.scope, urls)])).tolist():
        after = run.apply(urls[row]) if rewrite.find in urls[row] else None
        target = None if after is None else row_of.get(after)
        if target is not None:
            pairs.append((row, target))
    found = np.array(pairs, np.int32).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _end_of(scope: str, urls: Sequence[str]) -> int:
    """Where the URLs that begin with the scope end, in order."""
    return bisect_left(urls, scope + chr(sys.maxunicode))
