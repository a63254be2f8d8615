"""`normalize(url)`: the standard steps, then the site's active rules, one pass over them in order.

The outcome is a fixed point: normalizing it again changes nothing. Rule sets are made so that one pass gets there;
rules from elsewhere may need more, or lead in a circle. Then a bounded number of passes follows, a circle ends at its
smallest URL, and where no end is in sight the URL keeps its standard form. Each of these is a fixed point, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from dustream.core.rules.decompose import Decomposition, decompose
from dustream.core.rules.rewrite import Rewriter, describe, rewriter
from dustream.core.rules.standard import explain_standard_form, standard_form
from dustream.core.sites import site_of
from dustream.schemas.rules import RuleSet, UrlRule

PASSES_MAX: Final = 10
RULES_PER_SITE_MAX: Final = 1_000
RULED_URL_CHARS_MAX: Final = 8_192
"""Rules are applied to URLs up to this length; longer ones only go through the standard steps."""

_ORIGIN: Final = re.compile(r"[a-z]+://[^/?#]*")


class Step(NamedTuple):
    """What changed a URL, and into what. `rule` is the rule's id; empty for standard steps."""

    name: str
    url: str
    rule: str = ""


class Explanation(NamedTuple):
    """How a URL became its normal form."""

    url: str
    normalized: str
    site: str
    steps: tuple[Step, ...]


class SiteRules:
    """The active rules of one site, ready to run."""

    def __init__(self, site: str, rules: Iterable[UrlRule]) -> None:
        self.site = site
        active = [rule for rule in rules if rule.stage == "active"][:RULES_PER_SITE_MAX]
        self._rules: list[tuple[Rewriter, str, str]] = [
            (rewriter(rule.rewrite), describe(rule.rewrite), rule.id) for rule in active
        ]

    def apply(self, standard: str) -> tuple[str, list[Step]]:
        """From a URL in standard form to the fixed point, with what was done on the way."""
        if not self._rules or len(standard) > RULED_URL_CHARS_MAX:
            return standard, []
        url, steps = self._one_pass(standard)
        if url == standard:
            return standard, []
        seen = [standard]
        while url not in seen:
            if len(seen) > PASSES_MAX:
                return standard, []
            seen.append(url)
            url, more = self._one_pass(url)
            steps += more
        circle = seen[seen.index(url) :]
        end = min(circle, key=lambda each: (len(each), each))
        return end, steps[: _last_to(steps, end) + 1]

    def _one_pass(self, url: str) -> tuple[str, list[Step]]:
        steps: list[Step] = []
        pairs: Decomposition = ()
        for run, described, rule in self._rules:
            if not run.may_apply(url):
                continue
            pairs = pairs or decompose(url)
            after = run.apply(url, pairs)
            if after is None:
                continue
            after = standard_form(after)
            if after == url or not self._stays(url, after):
                continue
            url, pairs = after, ()
            steps.append(Step(described, url, rule))
        return url, steps

    def _stays(self, before: str, after: str) -> bool:
        """A rule never leads to another site, whatever it says."""
        if len(after) > RULED_URL_CHARS_MAX:
            return False
        origin = _ORIGIN.match(before)
        if origin and after.startswith(origin[0]) and after[origin.end() : origin.end() + 1] in ("/", "?", "#", ""):
            return True
        return site_of(after) == self.site


class Normalizer:
    """Rule sets by site. `normalize` is what crawlers call; `explain` tells how."""

    def __init__(self, rule_sets: Iterable[RuleSet] = ()) -> None:
        self._sites = {rules.site: SiteRules(rules.site, rules.rules) for rules in rule_sets}

    def normalize(self, url: str) -> str:
        """The URL by which all URLs of the same content are known, as far as the rules know."""
        standard = standard_form(url)
        if not self._sites:
            return standard
        rules = self._sites.get(site_of(standard))
        return standard if rules is None else rules.apply(standard)[0]

    def explain(self, url: str) -> Explanation:
        """The same, with every step that changed something."""
        steps = [Step(step.name, step.url) for step in explain_standard_form(url)]
        standard = standard_form(url)
        site = site_of(standard)
        rules = self._sites.get(site)
        normalized, more = (standard, []) if rules is None else rules.apply(standard)
        return Explanation(url, normalized, site, (*steps, *more))


def _last_to(steps: list[Step], url: str) -> int:
    return max((i for i, step in enumerate(steps) if step.url == url), default=-1)
