r"""Patterns of URLs as regular expressions, for people and exports. Rules and trees never run them.

    ^https://x\.com/([^/?#]*)(?:/([^/?#;]*?))?(?:\.(html))?(?:\?id=[0-9]+)?$

`url_pattern` matches every URL that passes the tests, whatever the order of its query keys. Keys that may be missing
are groups of their own with what separates them, so that nothing is left of them where they are missing. The query is
runs of keys that are kept between runs of keys that are dropped; lookaheads say which must be there and that none is
there too often, so what follows them never has to be tried twice.

`url_regex` adds the replacement. It has none where one replacement does not say what a rule does: where query keys are
set that may be there already, or parts are written behind parts that may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from dustream.core.urls.keys import OPAQUE, index_of, keys_and_values
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, Rewrite, SubstringRewrite

_EXTENSION: Final = "[A-Za-z][A-Za-z0-9]{0,7}"
_NO_EXTENSION: Final = r"(?![^?#]*/[^/?#;]+\.(?:{})(?:;[^/?#]*)?(?:[?#]|$))"
_NO_PARAMETERS: Final = r"(?![^?#]*;[^/?#]*(?:[?#]|$))"
_ONE_LABEL_HOST: Final = r"\[[^\]/?#]*\]|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|"
_ANY_VALUE: Final = {
    "scheme": "[A-Za-z][A-Za-z0-9+.-]*",
    "userinfo": "[^/?#]*",
    "host": "[^./?#:@]*",
    "port": "[0-9]*",
    "ext": _EXTENSION,
    ";": "[^;/?#]*",
    "?": "[^&#]*",
    "#": ".*",
}
_ENDS: Final = {
    "scheme": ":",
    "userinfo": "@",
    "host": r"[.:/?#]|$",
    "port": "[/?#]|$",
    "path": rf"/|(?:\.{_EXTENSION})?(?:;[^/?#]*)?(?:[?#]|$)",
    "ext": "[?#;]|$",
    ";": "[;?#]|$",
    "?": "[&#]|$",
    "#": "$",
}
_AROUND: Final = {"scheme": ("", "://"), "userinfo": ("", "@"), "port": (":", ""), "ext": (".", ""), "#": ("#", "")}


class UrlRegex(NamedTuple):
    r"""A pattern, and what becomes of what it matches, with \g<1> … for its groups; no replacement: none says it."""

    pattern: str
    replacement: str


def rule_regex(rewrite: Rewrite) -> UrlRegex:
    """A pattern that matches the URLs a rule applies to, and the replacement if there is one that says the rest."""
    if isinstance(rewrite, SubstringRewrite):
        return substring_regex(rewrite)
    return url_regex(rewrite) or UrlRegex(url_pattern(rewrite.tests, rewrite.open), "")


def url_pattern(tests: Iterable[KeyTest], is_open: bool = False) -> str:
    """Matches the URLs that pass the tests. Keys without a test are absent; or anything, if it is open: then paths are
    not looked at, and the pattern may be wider than the tests."""
    parts = _Parts(tests)
    if OPAQUE in parts.tests:
        return r"^[\s\S]*$"
    if is_open:
        return _open_pattern(parts)
    query = parts.named("?")
    return f"^{_Front(parts, {}).pattern}{_demands(query)}{_pairs(query)}{_fragment(parts)}$"


def url_regex(rewrite: PatternRewrite) -> UrlRegex | None:
    """None if no pattern with one replacement does what the rule does."""
    parts = _Parts(rewrite.tests)
    writes = {write.key: write for write in settled_writes(rewrite)}
    if rewrite.open or OPAQUE in parts.tests or "#" in parts.tests or not {"scheme", "host_0"} <= set(parts.tests):
        return None
    query = parts.named("?")
    kept = [test for test in query if test.key not in writes]
    dropped = [test for test in query if test.key in writes]
    added = [write for key, write in writes.items() if key[0] == "?" and write.op != "drop"]
    if {*map(_name, kept)} & {*map(_name, dropped)} or any(write.key in parts.tests for write in added):
        return None
    front = _Front(parts, {key: write for key, write in writes.items() if key[0] != "?"})
    captured = "".join(front.captured(test) for test in query if _is_copied(test, writes.values()))
    replacement = front.replacement()
    values = [front.written(write) for write in added]
    if replacement is None or None in values:
        return None
    more = "&".join(f"{write.key[1:]}{value}" for write, value in zip(added, values, strict=True))
    start, bare = f"^{front.pattern}{captured}", f"{_demands(dropped)}{_pairs(dropped)}"
    if not kept:
        return UrlRegex(f"{start}{bare}$", replacement + (f"?{more}" if more else ""))
    is_sure = any(map(_is_required, kept))
    if more and not is_sure:
        return None
    mark = front.groups + (not is_sure)
    runs, back = _runs(kept, dropped, mark, is_marked=not is_sure)
    checked = f"{_demands(query)}(?={_pairs(query)}$)"
    if is_sure:
        return UrlRegex(f"{start}{checked}{runs}$", f"{replacement}?{back}{'&' * bool(more)}{more}")
    return UrlRegex(f"{start}(?:{bare}|{checked}{runs})$", f"{replacement}\\g<{mark}>{back}")


def settled_writes(rewrite: PatternRewrite) -> list[KeyWrite]:
    """The writes with those that copy from a key that no URL has as what they are: drops."""
    there = {test.key for test in rewrite.tests if test.test != "absent"}
    return [
        KeyWrite(write.key, "drop") if write.op == "copy" and write.value not in there and not rewrite.open else write
        for write in rewrite.writes
    ]


def substring_regex(rewrite: SubstringRewrite) -> UrlRegex:
    find, put = re.escape(rewrite.find), _literal(rewrite.put)
    scope = f"(?={re.escape(rewrite.scope)})" if rewrite.scope else ""
    if rewrite.at_start and rewrite.at_end:
        return UrlRegex(f"^{scope}{find}$", put)
    if rewrite.at_start:
        return UrlRegex(f"^{scope}{find}(.*)$", put + "\\g<1>")
    if rewrite.at_end:
        return UrlRegex(f"^{scope}(.*){find}$", "\\g<1>" + put)
    return UrlRegex(f"^{scope}(.*?){find}(.*)$", f"\\g<1>{put}\\g<2>")


def _is_copied(test: KeyTest, writes: Iterable[KeyWrite]) -> bool:
    return any(write.op == "copy" and write.value == test.key for write in writes)


class _Parts:
    """Tests by key, without those for absence. A scheme and a host are always there, and so is what comes before a part
    that must be there."""

    def __init__(self, tests: Iterable[KeyTest]) -> None:
        self.tests = {test.key: test for test in tests if test.test != "absent"}
        for part in ("host", "path"):
            numbered = self.numbered(part)
            last = max((index_of(test.key) for test in numbered if _is_required(test)), default=-1)
            sure = {"scheme", "host_0", *(test.key for test in numbered if index_of(test.key) < last)}
            for key in sure & set(self.tests):
                if not _is_required(self.tests[key]):
                    self.tests[key] = replace(self.tests[key], test="some")

    def numbered(self, part: str) -> list[KeyTest]:
        """Host labels or path parts, in the order of their numbers."""
        return [self.tests[key] for key in sorted(_numbered(self.tests, part), key=index_of)]

    def named(self, mark: str) -> list[KeyTest]:
        return [test for key, test in self.tests.items() if key[0] == mark]


def _open_pattern(parts: _Parts) -> str:
    labels = parts.numbered("host")
    known = labels if [index_of(test.key) for test in labels] == list(range(len(labels))) else []
    host = r"\.".join(_value(test) for test in reversed(known)) or "[^/?#:@]*"
    query = "".join(rf"(?=[^#]*[?&]{_pair(test)}(?:[&#]|$))" for test in parts.named("?") if _is_required(test))
    scheme = _value(parts.tests["scheme"]) if "scheme" in parts.tests else _ANY_VALUE["scheme"]
    return rf"^{query}{scheme}://(?:[^/?#]*[@.])?{host}(?::[0-9]*)?(?:[/?#].*)?$"


def _fragment(parts: _Parts) -> str:
    test = parts.tests.get("#")
    return "" if test is None else f"(?:#{_value(test)})" + ("" if _is_required(test) else "?")


def _runs(kept: list[KeyTest], dropped: list[KeyTest], groups: int, is_marked: bool) -> tuple[str, str]:
    """The query as runs of kept keys in groups, and those groups; the question mark in a group, too, if asked for."""
    one, other = _one_of(kept), _one_of(dropped)
    between = f"(?:&{other})*" if dropped else ""
    first = (r"(\?)" if is_marked else r"\?") + (f"(?:{other}&)*" if dropped else "") + f"({one}(?:&{one})*)"
    runs = first + f"{between}((?:&{one})*)" * (len(kept) - 1) + between
    return runs, "".join(f"\\g<{groups + number}>" for number in range(1, len(kept) + 1))


def _demands(query: list[KeyTest]) -> str:
    """What must be there, and that nothing is there too often; one key alone cannot be."""
    if len(query) < 2:
        return ""
    repeated = {_name(test) for test in query if " #" in test.key}
    once = [test for test in query if _name(test) not in repeated]
    needed = "".join(rf"(?=.*[?&]{_pair(test)}(?:[&#]|$))" for test in once if _is_required(test))
    alone = "".join(rf"(?!.*[?&]{_start(test)}.*&{_start(test)})" for test in once)
    return needed + alone + "".join(_repeats(query, name) for name in sorted(repeated))


def _repeats(query: list[KeyTest], name: str) -> str:
    """Of a key that may be there several times: what each of its values must be, and no more of them."""
    tests = sorted((test for test in query if _name(test) == name), key=_repeat_number)
    start = _start(tests[0])
    skip = rf"(?:(?!{start})[^&#]*&)*"
    asked = tests[: 1 + max((i for i, test in enumerate(tests) if _is_required(test)), default=-1)]
    needed = "&".join(f"{skip}{_pair(test)}" for test in asked)
    before = [f"{skip}{start}[^&#]*"] * (len(tests) + 1)
    never = ["&".join(before)]
    for i, test in enumerate(tests[len(asked) :], len(asked)):
        values = "|".join(map(re.escape, test.unless))
        never += ["&".join([*before[:i], f"{skip}{start}(?:{values})(?:[&#]|$)"])] if values else []
    return (rf"(?=\?{needed}(?:[&#]|$))" if asked else "") + "".join(rf"(?!\?{each})" for each in never)


def _pairs(query: list[KeyTest]) -> str:
    """A query of these keys in any order, or none if all may be missing."""
    if not query:
        return ""
    more = f"(?:&{_one_of(query)}){{0,{len(query) - 1}}}" if len(query) > 1 else ""
    return rf"(?:\?{_one_of(query)}{more})" + ("" if any(map(_is_required, query)) else "?")


def _one_of(query: list[KeyTest]) -> str:
    repeated = {_name(test) for test in query if " #" in test.key}
    pairs = [_start(test) + "[^&#]*" if _name(test) in repeated else _pair(test) for test in query]
    distinct = list(dict.fromkeys(pairs))
    return f"(?:{'|'.join(distinct)})" if len(distinct) > 1 else "".join(distinct)


def _name(test: KeyTest) -> str:
    """As it is written, without its mark and its repeat number."""
    return test.key[1:].partition(" #")[0]


def _repeat_number(test: KeyTest) -> int:
    return int(test.key.partition(" #")[2] or 1)


def _pair(test: KeyTest) -> str:
    return _start(test) + (_value(test) if _name(test).endswith("=") else "")


def _start(test: KeyTest) -> str:
    name = _name(test)
    return re.escape(name) + ("" if name.endswith("=") else "(?![^;/?#])" if test.key[0] == ";" else "(?![^&#])")


def _is_required(test: KeyTest) -> bool:
    return test.test != "any"


def _literal(text: str) -> str:
    """For a replacement."""
    return text.replace("\\", r"\\")


def _part(key: str) -> str:
    return key[0] if key[0] in "?;#" else key.partition("_")[0]


def _value(test: KeyTest, any_value: str = "") -> str:
    if test.test == "is":
        return re.escape(test.value)
    part = _part(test.key)
    unless = f"(?!(?:{'|'.join(map(re.escape, test.unless))})(?:{_ENDS[part]}))" if test.unless else ""
    return unless + ("[0-9]+" if test.test == "digits" else any_value or _ANY_VALUE[part])


class _Front:
    """Scheme, host and path: the pattern, and by key what of it is kept."""

    def __init__(self, parts: _Parts, writes: dict[str, KeyWrite]) -> None:
        self._parts, self._tests, self._writes = parts, parts.tests, writes
        self._kept: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self.groups = 0
        before = "".join(self._optional(key) for key in ("scheme", "userinfo"))
        self.pattern = before + self._host() + self._optional("port") + self._path() + self._parameters()

    def _optional(self, key: str) -> str:
        """A part that stands alone; nothing if there is no test for it."""
        if key not in self._tests:
            return ""
        piece = self._piece(self._tests[key])
        return piece if _is_required(self._tests[key]) else f"(?:{piece})?"

    def _host(self) -> str:
        """Labels count from the right; those that may be missing are the leftmost."""
        pattern = ""
        for test in reversed(self._parts.numbered("host")):
            any_value = f"(?:{_ONE_LABEL_HOST}{_ANY_VALUE['host']})" if test.key == "host_0" else ""
            pattern += self._piece(test, any_value)
            pattern = pattern if _is_required(test) else f"(?:{pattern})?"
        return pattern

    def _path(self) -> str:
        parts = self._parts.numbered("path")
        is_open_end = [i + 1 == len(parts) or not _is_required(parts[i + 1]) for i in range(len(parts))]
        wild_last = [is_last and _may_end_in_extension(test) for test, is_last in zip(parts, is_open_end, strict=True)]
        pieces = []
        for i, test in enumerate(parts):
            only_last = is_open_end[i] and i + 1 == len(parts)
            pieces.append(self._piece(test, "[^/?#;]*?" if only_last else "[^/?#]*?" if is_open_end[i] else "[^/?#]*"))
        pattern = ""
        for test, piece in zip(reversed(parts), reversed(pieces), strict=True):
            pattern = piece + pattern if _is_required(test) else f"(?:{piece}{pattern})?"
        extension = self._tests.get("ext")
        never = _EXTENSION if extension is None and any(wild_last) else ""
        if extension is not None and not _is_required(extension):
            never = "|".join(map(re.escape, extension.unless))
        guards = _NO_EXTENSION.replace("{}", never) if never else ""
        if any(wild_last[:-1]) and not self._parts.named(";"):
            guards = _NO_PARAMETERS + guards
        return guards + pattern + self._extension()

    def _extension(self) -> str:
        if "ext" not in self._tests:
            return ""
        extension = "(?<=[^/])" + self._piece(self._tests["ext"])
        return extension if _is_required(self._tests["ext"]) else f"(?:{extension})?"

    def _parameters(self) -> str:
        """Path parameters in any order, kept as they are."""
        tests = self._parts.named(";")
        if not tests:
            return ""
        needed = "".join(rf"(?=[^/?#]*;{_pair(test)}(?:[;?#]|$))" for test in tests if _is_required(test))
        starts = "|".join(dict.fromkeys(_start(test) for test in tests))
        run = f"(?:;(?:{starts})[^;/?#]*)*"
        if all(test.key in self._writes for test in tests):
            return needed + run
        self.groups += 1
        self._kept[";"] = f"\\g<{self.groups}>"
        return f"{needed}({run})"

    def captured(self, test: KeyTest) -> str:
        """A lookahead at the value of a query key that is written elsewhere."""
        if not _is_required(test) or " #" in test.key:
            return ""
        self.groups += 1
        self._values[test.key] = f"\\g<{self.groups}>"
        return rf"(?=\?(?:[^#]*?&)??{_start(test)}([^&#]*))"

    def written(self, write: KeyWrite) -> str | None:
        """What a write puts there, for a replacement; None if it is not sure that there is anything."""
        return self._values.get(write.value) if write.op == "copy" else _literal(write.value)

    def _piece(self, test: KeyTest, any_value: str = "") -> str:
        key, (before, after) = test.key, _around(test.key)
        if test.test == "is":
            self._values[key] = _literal(test.value)
            self._kept[key] = f"{before}{self._values[key]}{after}"
            return re.escape(f"{before}{test.value}{after}")
        self.groups += 1
        back, value = f"\\g<{self.groups}>", _value(test, any_value)
        if test.test == "any":
            self._kept[key] = back
            return f"({re.escape(before)}{value}{re.escape(after)})"
        self._kept[key], self._values[key] = f"{before}{back}{after}", back
        return f"{re.escape(before)}({value}){re.escape(after)}"

    def replacement(self) -> str | None:
        """None if a part is written of which it is not sure that there is one before it, or path parameters are."""
        kept = dict(self._kept)
        if any(key[0] == ";" and (write.op != "drop" or ";" in kept) for key, write in self._writes.items()):
            return None
        for key, write in self._writes.items():
            value = self.written(write)
            if value is None:
                return None
            if write.op == "drop":
                kept.pop(key, None)
            else:
                before, after = _around(key)
                kept[key] = f"{before}{value}{after}"
        return self._put_together(kept)

    def _put_together(self, kept: dict[str, str]) -> str | None:
        text = kept.get("scheme", "") + kept.get("userinfo", "")
        for part, order, behind in (("host", -1, "port"), ("path", 1, "ext")):
            numbers = sorted(map(index_of, _numbered(kept, part)))
            written = [write for key, write in self._writes.items() if key in _numbered(self._writes, part)]
            set_to = [index_of(write.key) for write in written if write.op != "drop"]
            sure = {n for n in numbers if self._is_sure(f"{part}_{n}")}
            if numbers != list(range(len(numbers))) or not numbers:
                return None
            # What is set needs all before it; nothing may be left behind a part that is dropped.
            if set_to and not set(range(max(set_to))) <= sure:
                return None
            if any(write.op == "drop" and index_of(write.key) < len(numbers) for write in written):
                return None
            text += "".join(kept[f"{part}_{n}"] for n in numbers[::order]) + kept.get(behind, "")
        return text + kept.get(";", "") if "scheme" in kept else None

    def _is_sure(self, key: str) -> bool:
        return key in self._writes or _is_required(self._tests[key])


def _may_end_in_extension(test: KeyTest) -> bool:
    """Whether a path part that a test lets through may be read as a name with an extension, or with parameters."""
    if test.test == "digits":
        return False
    return test.test != "is" or keys_and_values(f"x://x/{test.value}")[0][2:] != ("path_0",)


def _numbered(keys: Collection[str], part: str) -> list[str]:
    return [key for key in keys if key.startswith(f"{part}_")]


def _around(key: str) -> tuple[str, str]:
    """What stands before and after a part of a URL."""
    if key.startswith("host_"):
        return "", "" if key == "host_0" else "."
    return ("/", "") if key.startswith("path_") else _AROUND[key]
