"""Rules from the formats that filters and crawlers use, as far as they can be understood without running any pattern.

    adguard    ||host/path$removeparam=name
    clearurls  providers with plain parameter names, under the directories that they name
    nutch      patterns that are plain text, or of the forms in which our rules are exported (patterns.py)

They come in as candidates: learning and scoring decide whether they become active.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from dustream.core.errors import BadInput, UnreadableInput
from dustream.core.rules.given import rule_of
from dustream.core.rules.rewrite import check_rewrite
from dustream.core.urls.keys import decompose
from dustream.core.urls.sites import site_of
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, Rewrite, RuleSet, RuleStage, UrlRule
from dustream.streams.rules_io.patterns import rule_of_pattern

TEXT_CHARS_MAX: Final = 64 * 1024 * 1024

_REMOVEPARAM: Final = re.compile(r"\|\|([^\s$^/|*]+)((?:/[^\s$^|*]*)?)\^?\$(?:[^,\s]*,)*removeparam=([A-Za-z0-9_.\-]+)")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_\-]+")
_CLEAR_ANYWHERE: Final = ("", "/", r"\/", "(?=[/?]|$)")
# What they are held against may be hostile. Nothing is tried in more than one way: quantifiers are possessive, and a
# host is looked for once in every run of characters that hosts are made of.
_CLEAR_HOST: Final = re.compile(
    r"(?<![a-z0-9\-.\\])[.\\]*+((?:[a-z0-9\-]++\\?+\.)++[a-z]{2,24}+)(?![a-z0-9\-])", re.IGNORECASE
)
_CLEAR_PATH: Final = re.compile(r"((?:\\?+/(?:[A-Za-z0-9_%~.\-]|\\(?!/))++)++)")


class Import(NamedTuple):
    """Rule sets by site, and what could not be understood, line by line."""

    rule_sets: list[RuleSet]
    skipped: list[str]


class _Provider(msgspec.Struct):
    urlPattern: str = ""
    rules: list[str] = []


class _Providers(msgspec.Struct):
    providers: dict[str, _Provider]


def import_rules(kind: str, text: str, stage: RuleStage = "candidate") -> Import:
    """The rules of a text in one of the formats."""
    if len(text) > TEXT_CHARS_MAX:
        raise UnreadableInput(f"more than {TEXT_CHARS_MAX} characters: this is no list of rules")
    skipped: list[str] = []
    found = {"adguard": _adguard, "clearurls": _clearurls, "nutch": _nutch}[kind](text, skipped)
    sites: dict[str, dict[str, UrlRule]] = defaultdict(dict)
    for site, rewrite in found:
        rule = rule_of(site, rewrite, stage)
        sites[site][rule.id] = rule
    rule_sets = [RuleSet(site=site, version=1, rules=tuple(rules.values())) for site, rules in sorted(sites.items())]
    return Import(rule_sets, skipped)


def _drop(host: str, path: str, name: str) -> PatternRewrite:
    """Drop one query key on a host, under a directory, whatever else the URL has."""
    tests = [KeyTest(key, "is", value) for key, value in decompose(f"x://{host}{path}") if key != "scheme" and value]
    tests.append(KeyTest(f"?{name}=", "some"))
    return PatternRewrite(tuple(tests), (KeyWrite(f"?{name}=", "drop"),), open=True)


def _adguard(text: str, skipped: list[str]) -> Iterator[tuple[str, Rewrite]]:
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith(("!", "[")):
            continue
        found = _REMOVEPARAM.fullmatch(line)
        site = site_of(found[1]) if found else ""
        if found is None or not site:
            skipped.append(line[:200])
        else:
            yield site, _drop(found[1].lower(), found[2], found[3])


def _clearurls(text: str, skipped: list[str]) -> Iterator[tuple[str, Rewrite]]:
    try:
        providers = msgspec.json.decode(text, type=_Providers).providers
    except msgspec.DecodeError as error:
        raise UnreadableInput(f"this is no ClearURLs file: {error}") from None
    for name, provider in providers.items():
        host = _CLEAR_HOST.search(provider.urlPattern)
        named = host[1].replace("\\", "").lower() if host else ""
        site, path = site_of(named), _clear_path(provider.urlPattern[host.end() :] if host else "")
        for rule in provider.rules:
            plain = rule.replace("\\", "")
            if not site or path is None or not _PLAIN_NAME.fullmatch(plain):
                skipped.append(f"{name}: {rule}"[:200])
            else:
                yield site, _drop(named, path, plain)


def _clear_path(pattern: str) -> str | None:
    """The directories that a provider's pattern demands behind the host; None if it demands anything else: the rule
    would be wider than the provider."""
    if pattern in _CLEAR_ANYWHERE:
        return ""
    path = _CLEAR_PATH.fullmatch(pattern)
    return path[1].replace("\\", "") if path else None


def _nutch(text: str, skipped: list[str]) -> Iterator[tuple[str, Rewrite]]:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise UnreadableInput("document types and entities are refused: remove them from the file")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise UnreadableInput(f"this is no regex-normalize.xml: {error}") from None
    for regex in root.iter("regex"):
        pattern, put = regex.findtext("pattern") or "", regex.findtext("substitution") or ""
        rule = rule_of_pattern(pattern, put)
        site = site_of(rule.where) if rule else ""
        if rule is None or not site or not _is_sound(rule.rewrite):
            skipped.append(f"{pattern} -> {put}"[:200])
        else:
            yield site, rule.rewrite


def _is_sound(rewrite: Rewrite) -> bool:
    try:
        check_rewrite(rewrite)
    except BadInput:
        return False
    return True
