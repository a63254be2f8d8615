"""Rules in the formats that crawlers and filters already read. Only active rules are exported.

    nutch      regex-normalize.xml of Nutch's urlnormalizer-regex: all rules that one pattern can say
    adguard    filter list with $removeparam: rules that do nothing but drop query keys
    clearurls  ClearURLs providers: the same
    scrapy     settings for the duplicate filter in rules_io/scrapy.py: all rules, exactly

Each export says which rules its format cannot hold, and is never wider than the rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

import msgspec

from dustream.core.rules.normalize import Normalizer
from dustream.core.rules.rewrite import as_regex, rewriter
from dustream.core.rules.url_regex import UrlRegex, url_pattern, url_regex
from dustream.core.rules.wording import describe
from dustream.core.urls.keys import compose, index_of
from dustream.core.urls.sites import site_of
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import KeyTest, PatternRewrite, Rewrite, RuleSet, SubstringRewrite, UrlRule

NUTCH_PASSES: Final = 5
KEY_NOT_ADDRESS: Final = "A rewritten URL is a key to compare URLs by, not an address: it may not exist."

_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]+")
"""Names of query keys in which filters find nothing to interpret."""


class Export(NamedTuple):
    """The text of an export, and the rules that are not in it."""

    text: str
    left_out: list[UrlRule]


def to_nutch(rule_sets: Iterable[RuleSet]) -> Export:
    lines = ['<?xml version="1.0"?>', f"<!-- {KEY_NOT_ADDRESS} -->"]
    lines += [f"<!-- Text that occurs more than {NUTCH_PASSES} times in a URL is not replaced everywhere. -->"]
    lines += ["<regex-normalize>"]
    left_out: list[UrlRule] = []
    for rules in rule_sets:
        regexes, without = nutch_regexes(rules)
        left_out += without
        for regex in regexes:
            lines += [
                "<regex>",
                f"  <pattern>{escape(regex.pattern)}</pattern>",
                f"  <substitution>{escape(_java_replacement(regex.replacement))}</substitution>",
                "</regex>",
            ]
    return Export("\n".join([*lines, "</regex-normalize>", ""]), left_out)


def nutch_regexes(rules: RuleSet) -> tuple[list[UrlRegex], list[UrlRule]]:
    """The patterns that Nutch applies to URLs of a site, each once and in this order; and the rules left out.

    `normalize` repeats the rules until nothing changes. One pass is enough for rules by keys, but a substring may be
    there again, so where such rules are, all of them follow each other several times.
    """
    active = list(_active(rules))
    found = [(rule, _regex(rules.site, rule)) for rule in active]
    regexes = [regex for _, regex in found if regex is not None]
    passes = NUTCH_PASSES if any(isinstance(rule.rewrite, SubstringRewrite) for rule in active) else 1
    return regexes * passes, [rule for rule, regex in found if regex is None]


class Difference(NamedTuple):
    """A URL that an export does not bring to its normal form."""

    url: str
    normal: str
    exported: str


def nutch_differences(rule_sets: Iterable[RuleSet], urls: Iterable[str]) -> Iterator[Difference]:
    """The URLs, in Nutch's standard form, for which Nutch and `normalize` differ. Patterns are held
    against these URLs as Java does it: they mean the same in Java and in Python."""
    sets = list(rule_sets)
    normalizer = Normalizer(sets)
    compiled = {
        rules.site: [(re.compile(regex.pattern), regex.replacement) for regex in nutch_regexes(rules)[0]]
        for rules in sets
    }
    for url in map(standard_form, urls):
        exported = url
        for pattern, replacement in compiled.get(site_of(url), ()):
            exported = pattern.sub(replacement, exported)
        if exported != (normal := normalizer.normalize(url)):
            yield Difference(url, normal, exported)


def _regex(site: str, rule: UrlRule) -> UrlRegex | None:
    """In the form that comes back as it was where that says the same, else in one that no import understands; none that
    does not do to the rule's own examples what the rule does. Other programs try a pattern on the URLs of all sites."""
    short = UrlRegex(*as_regex(rule.rewrite))
    if isinstance(rule.rewrite, SubstringRewrite):
        short = _within_host(rule.rewrite, short)
    is_short = isinstance(rule.rewrite, SubstringRewrite) or _is_plain(rule.rewrite)
    if is_short and _does_the_same(short, rule):
        return _of_site(site, rule.rewrite, short)
    regex = None if isinstance(rule.rewrite, SubstringRewrite) else url_regex(rule.rewrite)
    return _of_site(site, rule.rewrite, regex) if regex is not None and _does_the_same(regex, rule) else None


def _within_host(rewrite: SubstringRewrite, regex: UrlRegex) -> UrlRegex:
    """Not where the host would become another one: /index.html → .html on the home page."""
    if not rewrite.find.startswith("/") or rewrite.put.startswith(("/", "?", "#")) or rewrite.at_start:
        return regex
    home = f"(?![a-z]+://[^/?#]*{re.escape(rewrite.find)}{'$' * rewrite.at_end})"
    return UrlRegex(regex.pattern.replace("^", f"^{home}", 1), regex.replacement)


def _of_site(site: str, rewrite: Rewrite, regex: UrlRegex) -> UrlRegex:
    """For URLs of that site alone, if the rule does not say so by itself."""
    if isinstance(rewrite, SubstringRewrite):
        is_said = site_of(rewrite.scope) == site and rewrite.scope.count("/") > 2
    else:
        labels = {test.key: test.value for test in rewrite.tests if test.test == "is"}
        is_said = all(labels.get(f"host_{n}") == label for n, label in enumerate(reversed(site.split("."))))
    if is_said:
        return regex
    here = rf"(?=[a-z]+://(?:[^/?#]*[.@])?{re.escape(site)}(?::[0-9]*)?(?:[/?#]|$))"
    return UrlRegex(regex.pattern.replace("^", f"^{here}", 1), regex.replacement)


def _is_plain(rewrite: PatternRewrite) -> bool:
    """Whether the rule has exactly one form of URL, but for the order of query keys: nothing may be missing, and no
    value may be mistaken for one with an extension."""
    tests = {test.key: test for test in rewrite.tests}
    last = max((key for key in tests if key.startswith("path_")), key=index_of, default="")
    has_end = "ext" in tests or (last in tests and tests[last].test in ("is", "digits"))
    said = all(test.test in ("is", "digits", "some") and not test.unless for test in rewrite.tests)
    return has_end and said and not rewrite.open and {"scheme", "host_0"} <= set(tests)


def _does_the_same(regex: UrlRegex, rule: UrlRule) -> bool:
    run = rewriter(rule.rewrite)
    try:
        made = [standard_form(re.sub(regex.pattern, regex.replacement, url)) for url, _ in rule.examples]
    except re.error:  # a rule file may hold any text
        return False
    return made == [run.apply(url) or url for url, _ in rule.examples]


def _java_replacement(replacement: str) -> str:
    """Java writes groups as $1 and needs other dollar signs and backslashes escaped; and digits behind a group, which
    it would take for a part of its number."""
    return re.sub(r"\\(?:(\d+)|g<(\d+)>|\\)(\d)?|[\\$]", _java, replacement)


def _java(found: re.Match[str]) -> str:
    group, digit = found[1] or found[2], found[3] or ""
    if group:
        return f"${group}" + (f"\\{digit}" if digit else "")
    return "\\" + found[0][0] + digit


def to_adguard(rule_sets: Iterable[RuleSet]) -> Export:
    lines, left_out = ["! Title: URL rules learned by dustream", f"! {KEY_NOT_ADDRESS}"], []
    for rules in rule_sets:
        for rule in _active(rules):
            host, pattern, names = _reach(rule)
            left_out += [] if names else [rule]
            # Slashes end a pattern, and without match-case it would hold for other URLs, too.
            where = f"||{host}^$" if host else "/{}/$match-case,".format(pattern.replace("/", r"\/"))
            lines += [f"{where}removeparam={name}" for name in names]
    return Export("\n".join([*lines, ""]), left_out)


def to_clearurls(rule_sets: Iterable[RuleSet]) -> Export:
    providers, left_out = {}, []
    for rules in rule_sets:
        for rule in _active(rules):
            host, pattern, names = _reach(rule)
            left_out += [] if names else [rule]
            if names:
                providers[f"{rules.site} {rule.id}"] = {
                    "urlPattern": rf"^https?://(?:[a-z0-9-]+\.)*?{re.escape(host)}(?=[/?]|$)" if host else pattern,
                    "completeProvider": False,
                    "rules": [re.escape(name) for name in names],
                    "referralMarketing": [],
                    "rawRules": [],
                    "exceptions": [],
                    "redirections": [],
                    "forceRedirection": False,
                }
    return Export(
        msgspec.json.format(msgspec.json.encode({"providers": providers}), indent=1).decode() + "\n", left_out
    )


def to_scrapy(rule_sets: Iterable[RuleSet], rules_path: Path) -> Export:
    lines = [
        "# settings.py: of requests with one normal form the first is fetched, from its own URL",
        f"# {KEY_NOT_ADDRESS}",
        f"DUSTREAM_RULES = {str(rules_path)!r}",
        'DUPEFILTER_CLASS = "dustream.streams.rules_io.scrapy.NormalUrlDupeFilter"',
    ]
    for rules in rule_sets:
        lines += [f"# {rules.site}: {describe(rule)}" for rule in _active(rules)]
    return Export("\n".join([*lines, ""]), [])


EXPORTS: Final[dict[str, Callable[[list[RuleSet], Path], Export]]] = {
    "nutch": lambda rule_sets, _: to_nutch(rule_sets),
    "adguard": lambda rule_sets, _: to_adguard(rule_sets),
    "clearurls": lambda rule_sets, _: to_clearurls(rule_sets),
    "scrapy": to_scrapy,
}


def _active(rules: RuleSet) -> Iterator[UrlRule]:
    return (rule for rule in rules.rules if rule.stage == "active")


class _Reach(NamedTuple):
    """Which query keys a filter removes, and where: on a host with all below it, or from URLs that match a pattern."""

    host: str = ""
    pattern: str = ""
    names: Sequence[str] = ()


def _reach(rule: UrlRule) -> _Reach:
    """Of a rule that drops query keys; without names if it does more than that, or a filter would do it elsewhere."""
    rewrite = rule.rewrite
    if not isinstance(rewrite, PatternRewrite):
        return _Reach()
    dropped = {write.key for write in rewrite.writes if write.op == "drop"}
    names = sorted(key[1:].rstrip("=") for key in dropped)
    kept = {test.key[1:].rstrip("=") for test in rewrite.tests if test.key[0] == "?" and test.key not in dropped}
    only_drops = len(dropped) == len(rewrite.writes) and all(key[0] == "?" for key in dropped)
    if not only_drops or kept & set(names) or not all(map(_NAME.fullmatch, names)):
        return _Reach()
    host, pattern = _whole_host(rewrite), url_pattern(rewrite.tests) if url_regex(rewrite) else ""
    holds = pattern and all(re.search(pattern, url) for url, _ in rule.examples)
    return _Reach(host, pattern, names) if host or holds else _Reach()


def _whole_host(rewrite: PatternRewrite) -> str:
    """The host, if the rule drops one key from whatever is there or below it."""
    labels = [(test.key, test.value) for test in rewrite.tests if test.test == "is" and test.key.startswith("host_")]
    asked = [KeyTest(write.key, "some") for write in rewrite.writes]
    if not rewrite.open or not labels or len(asked) > 1 or len(labels) + 1 != len(rewrite.tests):
        return ""
    return compose((("scheme", "x"), *labels))[4:] if asked[0] in rewrite.tests else ""
