"""ValidateRule (Bar-Yossef et al.): known URLs that a rule changes are fetched, and what it makes of them.

A URL that cannot be fetched is not counted; an outcome that cannot be fetched counts against the rule. A rule is
refuted if more than a share ε of the outcomes are wrong, and proven if the outcomes of enough different pages are
right. What is neither stays what it was. Sites are validated side by side, the rules of a site one after the other.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from dustream.core.rules.joined import PAGES_MIN
from dustream.core.rules.landing import LandingSettings, evidence_of
from dustream.core.rules.rewrite import rewriter
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import RuleSet, UrlRule
from dustream.streams.rules_io.fetcher import FetchCounts, Fetcher, FetchLimits, fetcher

SITES_AT_ONCE: Final = 16
EXAMPLES_MAX: Final = 3
ATTEMPTS_TIMES: Final = 3
"""URLs tried at most, of which some cannot be fetched, for each that is wanted."""

Pair = tuple[str, str]


class ValidationSettings(NamedTuple):
    """`pages_max`: the paper's N, pages fetched for a rule, and as many outcomes. `refutation`: its ε. `pages_min`:
    different pages whose outcomes must be right. `threshold`: pages at least this similar are alike."""

    pages_max: int = 20
    refutation: float = 0.05
    pages_min: int = 5
    threshold: float = 0.9
    landing: LandingSettings = LandingSettings()


class ValidationOutcome(NamedTuple):
    """Of one rule: right and wrong outcomes, and how many different pages the right ones show."""

    right: list[Pair]
    wrong: list[Pair]
    pages: int


class Validated(NamedTuple):
    rule_sets: list[RuleSet]
    counts: FetchCounts


def validate_rules(
    rule_sets: Sequence[RuleSet],
    urls: Mapping[str, Iterable[str]],
    settings: ValidationSettings,
    limits: FetchLimits,
    on_rule: Callable[[], None] = lambda: None,
) -> Validated:
    """The rule sets after validation. `urls`: the known ones, by site."""

    async def run() -> Validated:
        at_once = asyncio.Semaphore(SITES_AT_ONCE)
        async with fetcher(limits) as pages:

            async def of_site(rules: RuleSet) -> RuleSet:
                async with at_once:
                    found = []
                    for rule in rules.rules:
                        outcome = await _outcome(rule, urls.get(rules.site, ()), settings, pages)
                        found.append(validated(rule, outcome, settings))
                        on_rule()
                    return replace(rules, rules=tuple(found))

            return Validated(list(await asyncio.gather(*map(of_site, rule_sets))), pages.counts)

    return asyncio.run(run())


async def _outcome(
    rule: UrlRule, urls: Iterable[str], settings: ValidationSettings, pages: Fetcher
) -> ValidationOutcome:
    """Outcomes until either suffice."""
    right: list[Pair] = []
    wrong: list[Pair] = []
    shown: set[bytes] = set()
    for url, after in _changed(rule, urls)[: ATTEMPTS_TIMES * settings.pages_max]:
        if len(right) + len(wrong) >= settings.pages_max or len(wrong) > settings.refutation * settings.pages_max:
            break
        before = await pages.fetch(url)
        if before is None:
            continue
        target = await pages.fetch(after)
        if target is not None and before.is_alike(target, settings.threshold):
            right.append((url, after))
            shown.add(target.digest)
        else:
            wrong.append((url, after))
    return ValidationOutcome(right, wrong, len(shown))


def _changed(rule: UrlRule, urls: Iterable[str]) -> list[Pair]:
    """The known URLs that the rule changes, in an order independent of their text."""
    run = rewriter(rule.rewrite)
    known = {standard_form(url) for url in urls} | {url for url, _ in rule.examples}
    changed = [(url, after) for url in known if (after := run.apply(url)) is not None]
    return sorted(changed, key=lambda pair: hashlib.blake2b(pair[0].encode("utf-8", "surrogatepass")).digest())


def validated(rule: UrlRule, outcome: ValidationOutcome, settings: ValidationSettings) -> UrlRule:
    """The rule with its counts of fetched pages, and the stage that follows from them."""
    right, wrong = len(outcome.right), len(outcome.wrong)
    if right + wrong == 0:
        return rule
    rule = replace(rule, fetched_right=right, fetched_wrong=wrong)
    if wrong:
        rule = replace(rule, against=tuple((outcome.wrong + list(rule.against))[:EXAMPLES_MAX]))
    if wrong > settings.refutation * (right + wrong):
        return replace(rule, stage="shadow", reason=f"{wrong} of {right + wrong} fetched pages became another page")
    landing = evidence_of(rule)
    known_wrong = landing.wrong > settings.landing.wrong_allowed(landing.rewrites) * landing.rewrites
    is_hint = rule.evidence == "size"
    proven = right >= settings.pages_min and outcome.pages >= PAGES_MIN and (is_hint or not known_wrong)
    return replace(rule, stage="active", reason="") if proven else rule
