"""The life of a rule. Only active rules are applied.

    learned ──► candidate ──► shadow ──► active ──► revoked
                 too little    predicts, applied;    applied no more; learned again it starts over as
                 evidence      is not    precision   a candidate or shadow, and has to prove twice as much
                               applied   is watched  as the time before

A prediction: a page arrives whose URL the rule would rewrite to a known URL, or that URL arrives later. It is right if
both are in one group, wrong if not, or if that URL redirects or is gone. What a page told is told anew when its group
changes, so that a group still forming does not count against a rule for good. Older predictions fade: a rule is judged
by what the site is now. An active rule that is not learned any more goes back to shadow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from dustream.schemas.rules import UrlRule


class LifeSettings(NamedTuple):
    """When rules rise and fall."""

    shadow_support_min: int = 5
    active_right_min: int = 5
    active_precision_min: float = 0.95
    revoked_precision_below: float = 0.9
    revoked_wrong_min: int = 3
    predictions_max: int = 200
    revocations_counted_max: int = 6
    rules_kept_max: int = 200


def precision(rule: UrlRule) -> float:
    """The share of its predictions that came true; 1 where there were none."""
    total = rule.right + rule.wrong
    return rule.right / total if total else 1.0


def scored(rule: UrlRule, right: int, wrong: int, settings: LifeSettings) -> UrlRule:
    """With more predictions (or fewer, where one is taken back). Beyond the limit all count half."""
    right, wrong = max(0, rule.right + right), max(0, rule.wrong + wrong)
    if right + wrong > settings.predictions_max:
        right, wrong = right // 2, wrong // 2
    return replace(rule, right=right, wrong=wrong)


def reviewed(rule: UrlRule, settings: LifeSettings) -> UrlRule:
    """The rule at the stage that its record has earned."""
    if rule.stage == "candidate" and rule.support >= settings.shadow_support_min:
        rule = replace(rule, stage="shadow")
    if rule.stage == "shadow":
        needed = settings.active_right_min << min(rule.revocations, settings.revocations_counted_max)
        if rule.right >= needed and precision(rule) >= settings.active_precision_min:
            return replace(rule, stage="active")
    failing = rule.wrong >= settings.revoked_wrong_min and precision(rule) < settings.revoked_precision_below
    if rule.stage == "active" and failing:
        return replace(rule, stage="revoked", revocations=rule.revocations + 1)
    return rule


def relearned(before: Iterable[UrlRule], learned: Iterable[UrlRule], settings: LifeSettings) -> tuple[UrlRule, ...]:
    """The rules after learning again: those learned, in their order, with their record; then what is remembered."""
    known = {rule.id: rule for rule in before}
    rules = [_carried_on(known.pop(rule.id, None), rule, settings) for rule in learned]
    rules += [
        replace(rule, stage="shadow") if rule.stage == "active" else rule
        for rule in known.values()
        if rule.stage in ("active", "revoked")
    ]
    return tuple(rules[: settings.rules_kept_max])


def _carried_on(before: UrlRule | None, learned: UrlRule, settings: LifeSettings) -> UrlRule:
    fresh = reviewed(replace(learned, stage="candidate"), settings)
    if before is None:
        return fresh
    if before.stage == "revoked":
        return replace(fresh, revocations=before.revocations)
    stage = before.stage if before.stage != "candidate" else fresh.stage
    return replace(learned, stage=stage, right=before.right, wrong=before.wrong, revocations=before.revocations)
