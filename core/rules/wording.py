"""A rule as people read it: what URLs look like before and after.

    /docs/<version>/<*> → /docs/latest/<*> on https://x.com
    drop ?sid in https://x.com/<*>[/<**>][?page=<number>]
    /docs/<**>.html → /docs/<**>/index.html on https://x.com

    <*>         one part of a URL: a label of the host, a directory, a name, a value
    <number>    one that is a number; <version>: one that is a version in all examples
    <not a|b>   one that is none of these
    <**>        any text, several parts of it too
    [...]       may be missing

If a rule moves parts, they are numbered: /<*1>/<*2> → /<*2>/<*1>.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from dustream.core.rules.landing import evidence_of
from dustream.core.rules.url_regex import settled_writes
from dustream.core.urls.keys import decompose, index_of
from dustream.schemas.rules import KeyTest, PatternRewrite, SubstringRewrite, UrlRule

UNLESS_SHOWN_MAX: Final = 3

_ANY_TEXT: Final = "<**>"
_VERSION: Final = re.compile(r"(?:[A-Za-z]+-)?v?\d+(?:\.\d+)+\S*", re.ASCII)
_NOT: Final = re.compile(r"<not [^<>]*?(?: (\d+))?>")
_ORIGIN: Final = re.compile(r"[a-z]+://[^/?#<\[]+(?=/)")


def describe(rule: UrlRule) -> str:
    """A rule in one line."""
    if isinstance(rule.rewrite, SubstringRewrite):
        return _substring_words(rule.rewrite, [before for before, _ in rule.examples])
    return _Template(rule.rewrite, [dict(decompose(before)) for before, _ in rule.examples]).words()


def evidence_words(rule: UrlRule) -> str:
    """What becomes of the URLs that a rule changes (landing.py)."""
    landing = evidence_of(rule)
    fetched = ""
    if rule.fetched_right + rule.fetched_wrong:
        fetched = f"; fetched: {rule.fetched_right} right, {rule.fetched_wrong} wrong"
    if rule.evidence == "size":
        return f"rewrites {landing.rewrites}: {landing.meets} of one size, {landing.wrong} of another{fetched}"
    pages = ", all of one page" if rule.pages == 1 else ""
    return f"rewrites {landing.rewrites}: {landing.words}{pages}{fetched}"


def _arrow(before: str, after: str) -> str:
    """Both, with the origin once at the end where it stays."""
    origin = _ORIGIN.match(before)
    if origin and _ORIGIN.match(after) and after.startswith(f"{origin[0]}/"):
        return f"{before[origin.end() :]} → {after[origin.end() :]} on {origin[0]}"
    return f"{before} → {after}"


# ---------------------------------------------------------------- substring rules


def _substring_words(rewrite: SubstringRewrite, urls: Sequence[str]) -> str:
    head, tail = _around(rewrite, urls)
    if not rewrite.put and not rewrite.at_start:
        end = " at the end" if rewrite.at_end else ""
        return f"drop {rewrite.find}{end} in {rewrite.scope or ''}{_ANY_TEXT}"
    return _arrow(head + rewrite.find + tail, head + rewrite.put + tail)


def _around(rewrite: SubstringRewrite, urls: Sequence[str]) -> tuple[str, str]:
    """What stands before and after the text that is found."""
    scope, find = rewrite.scope, rewrite.find
    tail = "" if rewrite.at_end else _ANY_TEXT
    if rewrite.at_start:
        return "", tail
    at = scope.find(find)
    if at >= 0:
        return scope[:at], scope[at + len(find) :] + tail
    starts = {url.find(find) for url in urls if find in url}
    if len(starts) == 1 and (at := starts.pop()) < len(scope) and scope[at:] == find[: len(scope) - at]:
        return scope[:at], tail
    if scope.endswith("/") and find.startswith("/"):
        return f"{scope}{_ANY_TEXT}", tail
    return scope + _ANY_TEXT, tail


# ---------------------------------------------------------------- rules by keys


def _plain(value: str) -> str:
    """What it is not need not be said twice."""
    return _NOT.sub(lambda found: f"<*{found[1] or ''}>", value)


class _Template:
    """A rule by keys, and the pairs of its examples."""

    def __init__(self, rewrite: PatternRewrite, examples: Sequence[dict[str, str]]) -> None:
        self._tests = {test.key: test for test in rewrite.tests if test.test != "absent"}
        self._writes = {write.key: write for write in settled_writes(rewrite)}
        self._is_open = rewrite.open
        self._examples = examples
        wild = [key for key, test in self._tests.items() if test.test != "is"]
        is_moved = any(write.op == "copy" for write in self._writes.values())
        self._numbers = {key: str(number) for number, key in enumerate(wild, 1)} if is_moved else {}

    def words(self) -> str:
        before = {key: self._value(test) for key, test in self._tests.items()}
        if all(write.op == "drop" and key[0] == "?" for key, write in self._writes.items()):
            kept = {key: value for key, value in before.items() if key not in self._writes}
            dropped = ", ".join(self._dropped(key) for key in self._writes)
            return f"drop {dropped} in {self._text(kept)}" if kept else f"drop {dropped} everywhere"
        return _arrow(self._text(before), self._text(self._after(before)))

    def _after(self, before: dict[str, str]) -> dict[str, str]:
        after = {key: _plain(value) for key, value in before.items()}
        for key, write in self._writes.items():
            if write.op == "drop":
                after.pop(key, None)
            else:
                after[key] = write.value if write.op == "set" else _plain(before.get(write.value, ""))
        return after

    def _dropped(self, key: str) -> str:
        test = self._tests.get(key)
        return key.rstrip("=") if test is None or test.test in ("some", "any") else f"{key}{self._value(test)}"

    def _value(self, test: KeyTest) -> str:
        if test.test == "is":
            return test.value
        number = self._numbers.get(test.key, "")
        if test.unless:
            more = "|…" if len(test.unless) > UNLESS_SHOWN_MAX else ""
            return f"<not {'|'.join(test.unless[:UNLESS_SHOWN_MAX])}{more}{number and ' ' + number}>"
        if test.test == "digits":
            return f"<number{number}>"
        values = [pairs[test.key] for pairs in self._examples if test.key in pairs]
        is_version = len(values) > 0 and all(map(_VERSION.fullmatch, values))
        return f"<version{number}>" if is_version else f"<*{number}>"

    def _text(self, values: dict[str, str]) -> str:
        """URL text; nothing is said of what has no test where that may be anything."""
        scheme = values.get("scheme", "")
        start = "http(s)://" if scheme.startswith("<") else f"{scheme}://" if scheme else ""
        user = self._piece("userinfo", values, "", "@")
        text = start + user + self._host(values) + self._piece("port", values, ":", "") + self._path(values)
        text += self._piece("ext", values, ".", "") + self._named(values, ";", ";")
        return text + self._named(values, "?", "&") + self._piece("#", values, "#", "")

    def _piece(self, key: str, values: dict[str, str], before: str, after: str) -> str:
        if key not in values:
            return ""
        piece = f"{before}{values[key]}{after}"
        return f"[{piece}]" if self._may_be_missing(key) else piece

    def _may_be_missing(self, key: str) -> bool:
        return key in self._tests and self._tests[key].test == "any" and key not in self._set_keys()

    def _set_keys(self) -> set[str]:
        return {key for key, write in self._writes.items() if write.op != "drop"}

    def _host(self, values: dict[str, str]) -> str:
        keys = sorted((key for key in values if key.startswith("host_")), key=index_of, reverse=True)
        text = "".join(self._piece(key, values, "", "" if key == "host_0" else ".") for key in keys)
        return f"{_ANY_TEXT}.{text}" if self._is_open and text else text

    def _path(self, values: dict[str, str]) -> str:
        """Several parts in a row that may be missing and that stay as they are stand as one."""
        pieces: list[str] = []
        run = 0
        for key in sorted((key for key in values if key.startswith("path_")), key=index_of):
            test = self._tests.get(key)
            is_plain = test is not None and test.test == "any" and not test.unless and key not in self._writes
            run = run + 1 if is_plain and not self._numbers else 0
            if run > 1:
                pieces[-1] = f"[/{_ANY_TEXT}]"
            else:
                pieces.append(self._piece(key, values, "/", ""))
        return "".join(pieces)

    def _named(self, values: dict[str, str], mark: str, separator: str) -> str:
        """Query keys or path parameters: first those that must be there."""
        keys = [key for key in values if key[0] == mark]
        keys.sort(key=self._may_be_missing)
        text = ""
        for key in keys:
            piece = (separator if text else mark) + key[1:].partition(" #")[0] + values[key]
            text += f"[{piece}]" if self._may_be_missing(key) else piece
        return text
