"""A pattern rule as regular expressions that match the URLs it rewrites and no others, whatever the order of their
query keys.

    ^https://x\\.com  /([^/?#;]*?)  (?:(/[^/?#;]*?))?  …query

Keys that may be missing are groups of their own with what separates them, so that nothing is left of them where they
are missing. The query is runs of keys that are kept between runs of keys that are dropped; lookaheads say which must be
there and that none is there twice, so what follows them never has to be tried twice.

Rules that set or copy query keys, or test path parameters, ports, users, fragments or repeated keys, have no such form.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from dustream.core.urls.keys import index_of
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite

_PART: Final = re.compile(r"scheme|ext|(?:host|path)_\d+|\?[^ ]+")
_EXTENSION: Final = "[A-Za-z][A-Za-z0-9]{0,7}"
_NO_EXTENSION: Final = rf"(?![^?#]*[^/?#;]\.{_EXTENSION}(?:\?|$))"
_ANY_VALUE: Final = {"s": "[a-z]+", "h": "[^./?#:@]+", "p": "[^/?#;]*?", "e": _EXTENSION, "?": "[^&#]*"}
_ENDS: Final = {"s": ":", "h": r"\.|[/:]", "p": r"[/?#;.]|$", "e": r"\?|$", "?": "&|$"}


class UrlRegex(NamedTuple):
    """A pattern, and what becomes of what it matches, with \\1 … for its groups."""

    pattern: str
    replacement: str


def url_pattern(rewrite: PatternRewrite) -> str:
    """Matches the URLs that a rule by keys applies to; empty if no pattern says it."""
    front = _front(rewrite)
    query = _query(rewrite)
    return f"^{front.pattern}{_demands(query)}{_pairs(query)}$" if front else ""


def url_regexes(rewrite: PatternRewrite) -> list[UrlRegex]:
    """One where no query is left, and one where some is, as far as either can be; nothing if no pattern says it."""
    front = _front(rewrite)
    replacement = front.replacement() if front else None
    if front is None or replacement is None:
        return []
    written = {write.key for write in rewrite.writes}
    if any(write.op != "drop" and write.key[0] == "?" for write in rewrite.writes):
        return []
    kept = [test for test in _query(rewrite) if test.key not in written]
    dropped = [test for test in _query(rewrite) if test.key in written]
    regexes = []
    if not any(map(_is_required, kept)):
        regexes.append(UrlRegex(f"^{front.pattern}{_demands(dropped)}{_pairs(dropped)}$", replacement))
    if kept:
        runs, back = _runs(kept, dropped, front.groups)
        checked = f"{_demands(kept + dropped)}(?={_pairs(kept + dropped)}$)"
        regexes.append(UrlRegex(f"^{front.pattern}{checked}{runs}$", f"{replacement}?{back}"))
    return regexes


def _front(rewrite: PatternRewrite) -> _Front | None:
    tests = {test.key: test for test in rewrite.tests if test.test != "absent"}
    writes = {write.key: write for write in rewrite.writes}
    if rewrite.open or not all(_PART.fullmatch(key) for key in [*tests, *writes]):
        return None
    return _Front(tests, writes) if {"scheme", "host_0", "path_0"} <= set(tests) else None


def _query(rewrite: PatternRewrite) -> list[KeyTest]:
    return [test for test in rewrite.tests if test.key[0] == "?" and test.test != "absent"]


def _runs(kept: list[KeyTest], dropped: list[KeyTest], groups: int) -> tuple[str, str]:
    """The query as runs of kept keys in groups, and those groups."""
    one, other = _one_of(kept), _one_of(dropped)
    between = f"(?:&{other})*" if dropped else ""
    first = rf"\?(?:{other}&)*({one}(?:&{one})*)" if dropped else rf"\?({one}(?:&{one})*)"
    runs = first + f"{between}((?:&{one})*)" * (len(kept) - 1) + between
    return runs, "".join(f"\\g<{groups + number}>" for number in range(1, len(kept) + 1))


def _demands(query: list[KeyTest]) -> str:
    """What must be there, and that nothing is there twice; one key alone cannot be."""
    if len(query) < 2:
        return ""
    needed = "".join(rf"(?=.*[?&]{_pair(test)}(?:&|$))" for test in query if _is_required(test))
    return needed + "".join(rf"(?!.*[?&]{_repeat(test)}.*&{_repeat(test)})" for test in query)


def _pairs(query: list[KeyTest]) -> str:
    """A query of these keys in any order, or none if all may be missing."""
    if not query:
        return ""
    more = f"(?:&{_one_of(query)}){{0,{len(query) - 1}}}" if len(query) > 1 else ""
    return rf"(?:\?{_one_of(query)}{more})" + ("" if any(map(_is_required, query)) else "?")


def _one_of(query: list[KeyTest]) -> str:
    return f"(?:{'|'.join(map(_pair, query))})" if len(query) > 1 else "".join(map(_pair, query))


def _pair(test: KeyTest) -> str:
    name = test.key[1:]
    return re.escape(name) + (_value(test) if name.endswith("=") else "")


def _repeat(test: KeyTest) -> str:
    name = test.key[1:]
    return re.escape(name) + ("" if name.endswith("=") else "(?=&|$)")


def _is_required(test: KeyTest) -> bool:
    return test.test != "any"


def _value(test: KeyTest) -> str:
    if test.test == "is":
        return re.escape(test.value)
    kind = test.key[0]
    unless = f"(?!(?:{'|'.join(map(re.escape, test.unless))})(?:{_ENDS[kind]}))" if test.unless else ""
    return unless + ("[0-9]+" if test.test == "digits" else _ANY_VALUE[kind])


class _Front:
    """Scheme, host and path: the pattern, and by key what of it is kept."""

    def __init__(self, tests: dict[str, KeyTest], writes: dict[str, KeyWrite]) -> None:
        self._tests, self._writes = tests, writes
        self._kept: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self.groups = 0
        self.pattern = self._piece("scheme") + self._host() + self._path()

    def _host(self) -> str:
        """Labels count from the right; those that may be missing are the leftmost."""
        pattern = ""
        for key in sorted(_parts(self._tests, "host_"), key=index_of, reverse=True):
            pattern += self._piece(key)
            pattern = f"(?:{pattern})?" if self._tests[key].test == "any" else pattern
        return pattern

    def _path(self) -> str:
        keys = sorted(_parts(self._tests, "path_"), key=index_of)
        pieces = [self._piece(key) for key in keys]
        pattern = ""
        for key, piece in zip(reversed(keys), reversed(pieces), strict=True):
            pattern = f"(?:{piece}{pattern})?" if self._tests[key].test == "any" else piece + pattern
        if "ext" not in self._tests:
            return rf"{_NO_EXTENSION}{pattern}(?=\?|$)"
        extension = "(?<=[^/])" + self._piece("ext")
        return f"{pattern}(?:{extension})?" + r"(?=\?|$)" if self._tests["ext"].test == "any" else pattern + extension

    def _piece(self, key: str) -> str:
        test, (before, after) = self._tests[key], _around(key)
        if test.test == "is":
            self._values[key] = test.value.replace("\\", r"\\")
            self._kept[key] = f"{before}{self._values[key]}{after}"
            return re.escape(f"{before}{test.value}{after}")
        self.groups += 1
        back = f"\\g<{self.groups}>"
        if test.test == "any":
            self._kept[key] = back
            return f"({re.escape(before)}{_value(test)}{re.escape(after)})"
        self._kept[key], self._values[key] = f"{before}{back}{after}", back
        return f"{re.escape(before)}({_value(test)}){re.escape(after)}"

    def replacement(self) -> str | None:
        """None if a part is written of which it is not sure that there is one before it."""
        kept = dict(self._kept)
        for key, write in self._writes.items():
            copied = self._values.get(write.value)
            value = copied if write.op == "copy" else write.value.replace("\\", r"\\")
            if write.op == "drop":
                kept.pop(key, None)
            elif value is None:
                return None
            else:
                before, after = _around(key)
                kept[key] = f"{before}{value}{after}"
        return self._put_together(kept)

    def _put_together(self, kept: dict[str, str]) -> str | None:
        text = kept.get("scheme", "")
        for part, order in (("host_", -1), ("path_", 1)):
            numbers = sorted(index_of(key) for key in _parts(kept, part))
            changed = [index_of(key) for key in _parts(self._writes, part)]
            sure = {index_of(key) for key in _parts(kept, part) if self._is_sure(key)}
            if not numbers or numbers != list(range(len(numbers))):
                return None
            if changed and not set(range(max(changed))) <= sure:
                return None
            if any(self._writes[f"{part}{n}"].op == "drop" and n < len(numbers) for n in changed):
                return None
            text += "".join(kept[f"{part}{n}"] for n in numbers[::order])
        return text + kept.get("ext", "") if "scheme" in kept else None

    def _is_sure(self, key: str) -> bool:
        return key in self._writes or self._tests[key].test != "any"


def _parts(keys: dict[str, KeyTest] | dict[str, KeyWrite] | dict[str, str], part: str) -> list[str]:
    return [key for key in keys if key.startswith(part)]


def _around(key: str) -> tuple[str, str]:
    """What stands before and after a part of a URL."""
    if key == "scheme":
        return "", "://"
    if key.startswith("host_"):
        return "", "" if key == "host_0" else "."
    return ("/" if key.startswith("path_") else "."), ""
