"""`normalize(url)`: the standard steps, then the site's active rules, one pass over them in order.

The outcome is a fixed point: normalizing it again changes nothing. Rule sets are made so that one pass gets there;
rules from elsewhere may need more, or lead in a circle. Then a bounded number of passes follows, a circle ends at its
smallest URL, and where no end is in sight the URL keeps its standard form. Each of these is a fixed point, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from dustream.core.rules.rewrite import Taken, Writer, rewriter
from dustream.core.rules.wording import describe
from dustream.core.urls.keys import Keys, keys_and_values
from dustream.core.urls.sites import site_of
from dustream.core.urls.standard import explain_standard_form, standard_form
from dustream.schemas.rules import RuleSet, UrlRule

PASSES_MAX: Final = 10
RULES_PER_SITE_MAX: Final = 1_000
RULED_URL_CHARS_MAX: Final = 8_192
"""Rules are applied to URLs up to this length; longer ones only go through the standard steps."""

STRUCTURES_MAX: Final = 4_096
"""Sets of keys whose rules are remembered."""

_ORIGIN: Final = re.compile(r"[a-z]+://[^/?#]*")


class Step(NamedTuple):
    """What changed a URL, and into what: a standard step by its name, or a rule."""

    by: str | UrlRule
    url: str

    @property
    def name(self) -> str:
        return self.by if isinstance(self.by, str) else describe(self.by)

    @property
    def rule(self) -> str:
        """The rule's id; empty for standard steps."""
        return "" if isinstance(self.by, str) else self.by.id


class Explanation(NamedTuple):
    """How a URL became its normal form."""

    url: str
    normalized: str
    site: str
    steps: tuple[Step, ...]


class _Ready(NamedTuple):
    """A rule, ready to run on URLs with one set of keys."""

    rank: int
    rule: UrlRule
    writer: Writer


class _Choice(NamedTuple):
    """For URLs with one set of keys: by the value of one key, the rules that may apply. `place`: of the key among the
    pairs; −1: it does not distinguish rules, and all are in `others`."""

    place: int
    by_value: dict[str, list[_Ready]]
    others: list[_Ready]

    def add(self, ready: _Ready) -> None:
        """A rule behind all others."""
        value = dict(ready.writer.tests.fixed).get(self.place)
        if value is None:
            for possible in (*self.by_value.values(), self.others):
                possible.append(ready)
        else:
            self.by_value.setdefault(value, list(self.others)).append(ready)


class SiteRules:
    """The active rules of one site, ready to run.

    Most URLs match no rule, or one. So rules are found by what URLs have before any is tried: first by the keys of the
    URL, then by the value of the key that distinguishes most rules.
    """

    def __init__(self, site: str, rules: Iterable[UrlRule]) -> None:
        self.site = site
        active = [rule for rule in rules if rule.stage == "active"][:RULES_PER_SITE_MAX]
        self._rules = [(rewriter(rule.rewrite), rule) for rule in active]
        self._choices: dict[Keys, _Choice] = {}

    def add(self, rule: UrlRule) -> None:
        """One more active rule behind the others."""
        if len(self._rules) >= RULES_PER_SITE_MAX:
            return
        run, rank = rewriter(rule.rewrite), len(self._rules)
        self._rules.append((run, rule))
        if rank & (rank - 1) == 0:  # whenever there are twice as many, another key may distinguish them better
            self._choices.clear()
        for keys, choice in self._choices.items():
            writer = run.writer_of(keys)
            if writer is not None:
                choice.add(_Ready(rank, rule, writer))

    def apply(
        self, standard: str, apart: Callable[[str], tuple[Keys, Sequence[str]]] = keys_and_values
    ) -> tuple[str, list[Step]]:
        """From a URL in standard form to the fixed point, with what was done on the way."""
        if not self._rules or len(standard) > RULED_URL_CHARS_MAX:
            return standard, []
        steps: list[Step] = []
        taken = self._one_pass(Taken(standard, *apart(standard)), steps)
        seen = [standard]
        while taken.url not in seen:
            if len(seen) > PASSES_MAX:
                return standard, []
            seen.append(taken.url)
            taken = self._one_pass(taken, steps)
        if taken.url == seen[-1]:
            return taken.url, steps
        circle = seen[seen.index(taken.url) :]
        end = min(circle, key=lambda each: (len(each), each))
        return end, steps[: _last_to(steps, end) + 1]

    def _one_pass(self, taken: Taken, steps: list[Step]) -> Taken:
        """Adds what it does to the steps."""
        rank = -1
        while (changed := self._changed(taken, rank)) is not None:
            rank, rule, taken = changed
            steps.append(Step(rule, taken.url))
        return taken

    def _changed(self, taken: Taken, rank: int) -> tuple[int, UrlRule, Taken] | None:
        """By the first rule after that rank that changes the URL: its rank, the rule, and what it makes."""
        for ready in self._possible(taken):
            if ready.rank > rank and ready.writer.tests.passed_by(taken.values):
                after = ready.writer.write(taken)
                if after.url != taken.url and self._stays(taken.url, after.url):
                    return ready.rank, ready.rule, after
        return None

    def _possible(self, taken: Taken) -> list[_Ready]:
        """The rules that may apply, in order."""
        choice = self._choices.get(taken.keys)
        if choice is None:
            if len(self._choices) >= STRUCTURES_MAX:
                self._choices.clear()
            choice = self._choices[taken.keys] = self._choice(taken.keys)
        if choice.place < 0:
            return choice.others
        return choice.by_value.get(taken.values[choice.place], choice.others)

    def _choice(self, keys: Keys) -> _Choice:
        ready = [(rank, rule, run.writer_of(keys)) for rank, (run, rule) in enumerate(self._rules)]
        possible = [_Ready(rank, rule, writer) for rank, rule, writer in ready if writer is not None]
        asked = sorted({place for each in possible for place, _ in each.writer.tests.fixed})
        choices = [_choice_by(place, possible) for place in asked]
        return min([_Choice(-1, {}, possible), *choices], key=_rules_to_try)

    def _stays(self, before: str, after: str) -> bool:
        """A rule never leads to another site, whatever it says."""
        if len(after) > RULED_URL_CHARS_MAX:
            return False
        origin = _ORIGIN.match(before)
        if origin and after.startswith(origin[0]) and after[origin.end() : origin.end() + 1] in ("/", "?", "#", ""):
            return True
        return _site(after) == self.site


class Normalizer:
    """Rule sets by site. Crawlers call `normalize`; `explain` also returns the steps."""

    def __init__(self, rule_sets: Iterable[RuleSet] = ()) -> None:
        by_site: dict[str, list[UrlRule]] = {}
        for rules in rule_sets:
            by_site.setdefault(rules.site, []).extend(rules.rules)
        self._sites = {site: SiteRules(site, rules) for site, rules in by_site.items()}

    def normalize(self, url: str) -> str:
        """The URL by which all URLs of the same content are known, as far as the rules know."""
        standard = standard_form(url)
        if not self._sites:
            return standard
        rules = self._sites.get(_site(standard))
        return standard if rules is None else rules.apply(standard)[0]

    def explain(self, url: str) -> Explanation:
        """The same, with every step that changed something."""
        steps = [Step(step.name, step.url) for step in explain_standard_form(url)]
        standard = standard_form(url)
        site = _site(standard)
        rules = self._sites.get(site)
        normalized, more = (standard, []) if rules is None else rules.apply(standard)
        return Explanation(url, normalized, site, (*steps, *more))


def _choice_by(place: int, possible: list[_Ready]) -> _Choice:
    wanted = {ready.rank: dict(ready.writer.tests.fixed).get(place) for ready in possible}
    values = {value for value in wanted.values() if value is not None}
    by_value = {value: [ready for ready in possible if wanted[ready.rank] in (None, value)] for value in values}
    return _Choice(place, by_value, [ready for ready in possible if wanted[ready.rank] is None])


def _rules_to_try(choice: _Choice) -> float:
    """On average over the values that rules ask for, and any other."""
    return (len(choice.others) + sum(map(len, choice.by_value.values()))) / (1 + len(choice.by_value))


def _site(url: str) -> str:
    """By the origin alone, which many URLs share: it is remembered, whole URLs would not be."""
    origin = _ORIGIN.match(url)
    return site_of(origin[0] if origin else url)


def _last_to(steps: list[Step], url: str) -> int:
    return max((i for i, step in enumerate(steps) if step.url == url), default=-1)
