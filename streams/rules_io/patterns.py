"""Rules from regular expressions of the forms in which we write them (`core.rules.rewrite.as_regex`); none is ever run.

    ^http://x\\.com/(\\d+)/([^/?&;#]*)\\?sid=(\\d+)$  →  http://x.com/$1/$2     a rule by keys
    ^(?=http://x\\.com/a/)(.*?)/print(.*)$          →  $1$2                    a substring rule under a directory
    http://x\\.com/index\\.html                      →  http://x.com/           plain text

Rules with optional keys are exported in longer forms (url_regex.py), which are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from dustream.core.urls.keys import OPAQUE, decompose
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, Rewrite, SubstringRewrite

_ESCAPED: Final = re.compile(r"\\([^A-Za-z0-9])")
_SPECIAL: Final = re.compile(r"[\\^$.|?*+()\[\]{}]")
_GROUP: Final = re.compile(r"\((?:\\d\+|\[\^/\?&;#\]\*)\)")
_AROUND: Final = re.compile(
    r"\^(?:\(\?=(?P<scope>[^()]*)\))?(?P<head>\(\.\*\??\))?(?P<find>[^()]+?)(?P<tail>\(\.\*\))?\$"
)
_PUT_PIECE: Final = re.compile(r"\\(.)|\$(\d)")
PATTERN_CHARS_MAX: Final = 8_192
_HOLE: Final = "q{}zq"
"""Stands for a group in a text that is then taken apart as a URL: anything that may stand in any part of one."""


class PatternRule(NamedTuple):
    """A rule, and a URL or the beginning of one that determines its site."""

    rewrite: Rewrite
    where: str


def rule_of_pattern(pattern: str, substitution: str) -> PatternRule | None:
    """None if the pattern is of no form that is understood. Groups in the substitution are written as $1."""
    if len(pattern) + len(substitution) > PATTERN_CHARS_MAX:
        return None
    around = _AROUND.fullmatch(pattern)
    if around and (around["scope"] or around["head"] or around["tail"]):
        return _substring_rule(around, substitution)
    if pattern.startswith("^") and pattern.endswith("$") and not pattern.endswith("\\$"):
        return _rule_by_keys(pattern[1:-1], substitution)
    find, put = _plain(pattern), _plain_put(substitution, {})
    if not find or put is None or find in put:
        return None
    return PatternRule(SubstringRewrite("", find, put), find)


def _substring_rule(around: re.Match[str], substitution: str) -> PatternRule | None:
    head, tail = bool(around["head"]), bool(around["tail"])
    groups = [group for group in (head, tail) if group]
    marks = {number: f"\x01{number}" for number in range(1, len(groups) + 1)}
    put, find, scope = _plain_put(substitution, marks), _plain(around["find"]), _plain(around["scope"] or "")
    if put is None or find is None or scope is None:
        return None
    before, after = ("\x011" if head else ""), (f"\x01{len(groups)}" if tail else "")
    if not put.startswith(before) or not put.endswith(after) or put.count("\x01") != len(groups):
        return None
    put = put[len(before) : len(put) - len(after)]
    if find in put:
        return None
    rewrite = SubstringRewrite(scope, find, put, at_start=not head, at_end=not tail)
    return PatternRule(rewrite, scope or (find if not head else ""))


def _rule_by_keys(body: str, substitution: str) -> PatternRule | None:
    groups = _GROUP.findall(body)
    marks = {number: _HOLE.format(number) for number in range(1, len(groups) + 1)}
    literals = [_plain(literal) for literal in _GROUP.split(body)]
    put = _plain_put(substitution, marks)
    if put is None or None in literals or any(hole in body + substitution for hole in marks.values()):
        return None
    found = "".join(str(literal) + marks.get(number, "") for number, literal in enumerate(literals, 1))
    before, after = dict(decompose(found)), dict(decompose(put))
    whole = {hole: group for hole, group in zip(marks.values(), groups, strict=True) if hole in before.values()}
    if OPAQUE in before or OPAQUE in after or len(whole) < len(groups) or "host_0" not in before:
        return None
    tests = [_test(key, value, whole) for key, value in before.items()]
    writes = tuple(_writes(before, after, set(whole)))
    return PatternRule(PatternRewrite(tuple(tests), writes), found) if writes else None


def _test(key: str, value: str, groups: dict[str, str]) -> KeyTest:
    if value not in groups:
        return KeyTest(key, "is", value)
    return KeyTest(key, "digits" if groups[value] == r"(\d+)" else "some")


def _writes(before: dict[str, str], after: dict[str, str], holes: set[str]) -> Iterator[KeyWrite]:
    key_of = {value: key for key, value in before.items() if value in holes}
    for key in before:
        if key not in after:
            yield KeyWrite(key, "drop")
    for key, value in after.items():
        if before.get(key) != value:
            yield KeyWrite(key, "copy", key_of[value]) if value in holes else KeyWrite(key, "set", value)


def _plain(pattern: str) -> str | None:
    """The text that a pattern without anything special stands for."""
    return None if _SPECIAL.search(_ESCAPED.sub("", pattern)) else _ESCAPED.sub(r"\1", pattern)


def _plain_put(substitution: str, marks: dict[int, str]) -> str | None:
    """The substitution with marks for its groups; None if it names one that is not there."""
    if any(found[2] and int(found[2]) not in marks for found in _PUT_PIECE.finditer(substitution)):
        return None
    return _PUT_PIECE.sub(lambda found: marks[int(found[2])] if found[2] else found[1], substitution)
