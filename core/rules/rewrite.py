"""A rule as something that rewrites URLs: in one pass over the URL's pairs, or by one search for a substring.

No regular expression is ever run: those in a rule are for people and for exports. So a rule costs time linear in the
URL, whoever wrote it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from dustream.core.errors import BadInput
from dustream.core.kernels.compile import kernel
from dustream.core.kernels.hash_slots import Ints
from dustream.core.rules.candidates import Candidate
from dustream.core.rules.evidence import Operations
from dustream.core.rules.growth import ABSENT, ANY, DIGITS, IS, SOME, Kinds
from dustream.core.rules.pattern_tree import KEYS_KEPT_MAX, TEST_OF_KIND, PatternTree, url_position
from dustream.core.rules.training import TrainingSet
from dustream.core.rules.url_regex import substring_regex
from dustream.core.urls.keys import OPAQUE, Keys, compose, composer, index_of, is_named, keys_and_values
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, Rewrite, SubstringRewrite

TESTS_MAX: Final = 1_024
TEXT_CHARS_MAX: Final = 4_096
WRITERS_KEPT_MAX: Final = 1_024
"""Sets of keys for which a rule is kept worked out."""
ALL_ROWS_MAX: Final = 512
"""Up to so many rows are looked at sooner than it is found out which of them have a rare value."""

_KEY: Final = re.compile(r"(?:scheme|userinfo|port|ext|#|(?:host|path)_\d{1,4}|[?;][^\x00-\x1f]*)", re.ASCII)
_KIND_OF_TEST: Final[dict[str, int]] = {test: kind for kind, test in TEST_OF_KIND.items()}


class Pattern(NamedTuple):
    """Tests over the keys of a training set: what kind of value each must have, which one, and which it must not be."""

    kinds: list[int]
    codes: list[int]
    excluded: tuple[tuple[int, int], ...] = ()


class ValueTests(NamedTuple):
    """Tests on the values of URLs whose keys are known, by the place of the key; last places first: scheme and host are
    the same on most URLs of a site."""

    fixed: tuple[tuple[int, str], ...] = ()
    digits: tuple[int, ...] = ()
    unless: tuple[tuple[int, frozenset[str]], ...] = ()

    def passed_by(self, values: Sequence[str]) -> bool:
        for place, value in self.fixed:
            if values[place] != value:
                return False
        for place in self.digits:
            if not values[place].isdecimal():
                return False
        return not self.unless or all(values[place] not in excluded for place, excluded in self.unless)


class Taken(NamedTuple):
    """A URL with its keys and values (decompose.py)."""

    url: str
    keys: Keys
    values: Sequence[str]

    @classmethod
    def apart(cls, url: str) -> Taken:
        return cls(url, *keys_and_values(url))


class Writer(Protocol):
    """What a rule makes of URLs with one set of keys that pass the tests; for all others it does nothing."""

    @property
    def tests(self) -> ValueTests: ...
    def write(self, taken: Taken) -> Taken:
        """In standard form again; the same URL if nothing changes."""


class Rewriter(Protocol):
    """A rule that can be run."""

    def apply(self, url: str) -> str | None:
        """What it makes of a URL, in standard form; None if it leaves it as it is."""

    def writer_of(self, keys: Keys) -> Writer | None:
        """For URLs with exactly these keys; None: it applies to none of them."""


class PatternRewriter:
    """Tests by key, then writes. Both are worked out once for each set of keys."""

    def __init__(self, rewrite: PatternRewrite) -> None:
        self._tests = {test.key: test for test in rewrite.tests}
        self._needed = sum(test.test in ("is", "digits", "some") for test in rewrite.tests)
        self._writes = rewrite.writes
        self._open = rewrite.open
        self._writers: dict[Keys, PatternWriter | None] = {}

    def apply(self, url: str) -> str | None:
        taken = Taken.apart(url)
        writer = self.writer_of(taken.keys)
        if writer is None or not writer.tests.passed_by(taken.values):
            return None
        after = writer.write(taken).url
        return None if after == url else after

    def writer_of(self, keys: Keys) -> PatternWriter | None:
        if keys not in self._writers:
            if len(self._writers) >= WRITERS_KEPT_MAX:
                self._writers.clear()
            tests = self._tests_of(keys)
            self._writers[keys] = None if tests is None else pattern_writer(keys, tests, self._writes)
        return self._writers[keys]

    def keys_after(self, keys: Keys) -> Keys | None:
        """The keys of what it makes of URLs with these keys, before that is brought into standard form."""
        if self._tests_of(keys) is None:
            return None
        return _keys_of(_sources(keys, self._writes)[0])

    def _tests_of(self, keys: Keys) -> ValueTests | None:
        tests = [self._tests.get(key) for key in keys]
        if keys[0] == OPAQUE:
            return None
        if any((test is None and not self._open) or (test is not None and test.test == "absent") for test in tests):
            return None
        asked = [(place, test) for place, test in enumerate(tests) if test is not None]
        if sum(test.test in ("is", "digits", "some") for _, test in asked) != self._needed:
            return None
        return ValueTests(
            tuple((place, test.value) for place, test in reversed(asked) if test.test == "is"),
            tuple(place for place, test in asked if test.test == "digits"),
            tuple((place, frozenset(test.unless)) for place, test in asked if test.unless),
        )


class PatternWriter(NamedTuple):
    """New keys, and for each the place of its value among the old values and `constants` after them.

    `direct`: what it makes is in standard form and need not be taken apart again.
    """

    tests: ValueTests
    keys: Keys
    places: Callable[[Sequence[str]], tuple[str, ...]]
    constants: tuple[str, ...]
    compose: Callable[..., str]
    direct: bool

    def write(self, taken: Taken) -> Taken:
        values = self.places((*taken.values, *self.constants))
        url = self.compose(*values)
        if self.direct:
            return Taken(url, self.keys, values)
        return Taken.apart(standard_form(url))


def pattern_writer(keys: Keys, tests: ValueTests, writes: Sequence[KeyWrite]) -> PatternWriter | None:
    """The writes for URLs with these keys; None if no URL would come out."""
    sources, constants = _sources(keys, writes)
    after = _keys_of(sources)
    if after is None:
        return None
    places = [sources[key] for key in after]
    compose = composer(after)
    direct = _is_in_place(keys, writes) and _is_read_back(after, places, len(keys), constants)
    return PatternWriter(tests, after, itemgetter(*places), tuple(constants), compose, direct)


def _sources(keys: Keys, writes: Sequence[KeyWrite]) -> tuple[dict[str, int], list[str]]:
    """For each key after the writes the place of its value among the old values and the constants behind them; and the
    constants."""
    place_of = {key: place for place, key in enumerate(keys)}
    sources = dict(place_of)
    constants: list[str] = []
    for write in writes:
        source = place_of.get(write.value) if write.op == "copy" else None
        if write.op == "set":
            source = len(keys) + len(constants)
            constants.append(write.value)
        if source is None:
            sources.pop(write.key, None)
        else:
            sources[write.key] = source
    return sources, constants


def _keys_of(sources: dict[str, int]) -> Keys | None:
    """In the order of a URL; None if they make none."""
    after = tuple(sorted(sources, key=_place))
    return after if "scheme" in sources and _is_whole(after) else None


def _is_in_place(keys: Keys, writes: Sequence[KeyWrite]) -> bool:
    """Whether values are only set where they stand, and query keys dropped."""
    return all(
        write.key[0] == "?"
        if write.op == "drop"
        else write.op == "set" and write.key in keys and _is_plain(write, keys)
        for write in writes
    )


def _is_plain(write: KeyWrite, keys: Keys) -> bool:
    """Whether the value cannot make another kind of URL of the values beside it: numbers can become an address, another
    scheme another default port."""
    if write.key not in keys:
        return False
    if write.key == "scheme":
        return "port" not in keys
    if write.key.startswith("host_"):
        return any(character.isalpha() for character in write.value)
    return _place(write.key) >= _place("path_0")


def _is_read_back(after: Keys, places: list[int], kept: int, constants: list[str]) -> bool:
    """Whether the constants, among values that stay what and where they were, stay in their places and in form."""
    values = ["x" if place < kept else constants[place - kept] for place in places]
    url = composer(after)(*values)
    return keys_and_values(url) == (after, values) and standard_form(url) == url


class SubstringRewriter:
    """One search and one replacement, whatever the keys."""

    tests: Final = ValueTests()

    def __init__(self, rewrite: SubstringRewrite) -> None:
        self._rewrite = rewrite

    def apply(self, url: str) -> str | None:
        after = replaced(self._rewrite, url)
        standard = None if after is None else standard_form(after)
        return None if standard == url else standard

    def writer_of(self, keys: Keys) -> SubstringRewriter:
        return self

    def write(self, taken: Taken) -> Taken:
        after = replaced(self._rewrite, taken.url)
        return taken if after is None else Taken.apart(standard_form(after))


def replaced(rule: SubstringRewrite, url: str) -> str | None:
    """The URL with the first occurrence replaced, or None."""
    if not url.startswith(rule.scope):
        return None
    if rule.at_start or rule.at_end:
        at = len(url) - len(rule.find) if rule.at_end else 0
        if at < 0 or not url.startswith(rule.find, at) or (rule.at_start and at != 0):
            return None
    else:
        at = url.find(rule.find)
    if at < 0:
        return None
    after = url[:at] + rule.put + url[at + len(rule.find) :]
    return after if after != url else None


def rewriter(rewrite: Rewrite) -> Rewriter:
    """The runnable form of a rule; BadInput if the rule cannot be meant (it may come from anywhere)."""
    check_rewrite(rewrite)
    return PatternRewriter(rewrite) if isinstance(rewrite, PatternRewrite) else SubstringRewriter(rewrite)


def check_rewrite(rewrite: Rewrite) -> None:
    """Refuse what would loop, grow without bound, or break URLs apart."""
    if isinstance(rewrite, SubstringRewrite):
        if not rewrite.find or rewrite.find == rewrite.put:
            raise BadInput("a substring rule needs something to find, and something else to put there")
        if max(len(rewrite.find), len(rewrite.put), len(rewrite.scope)) > TEXT_CHARS_MAX:
            raise BadInput(f"a substring rule is limited to {TEXT_CHARS_MAX} characters")
        return
    if len(rewrite.tests) > TESTS_MAX or len(rewrite.writes) > TESTS_MAX or not rewrite.writes:
        raise BadInput(f"a pattern rule has 1 to {TESTS_MAX} writes and at most {TESTS_MAX} tests")
    parts: list[KeyTest | KeyWrite] = [*rewrite.tests, *rewrite.writes]
    for part in parts:
        if not _is_key(part.key) or len(part.value) > TEXT_CHARS_MAX:
            raise BadInput(f"{part.key[:80]!r} is no key of a URL, or its value is too long")
    for write in rewrite.writes:
        if write.op == "set" and not _fits(write.key, write.value):
            raise BadInput(f"{write.value[:80]!r} cannot stand under {write.key[:80]!r} in a URL")


@lru_cache(maxsize=KEYS_KEPT_MAX)
def _is_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def is_allowed(rewrite: Rewrite) -> bool:
    """Whether a rule may be learned. https never becomes http. A host that may be any is never rewritten: hosts that
    were not seen may have other pages. A value is never replaced without its key: `=197` may be a session or a page."""
    if isinstance(rewrite, SubstringRewrite):
        is_value = rewrite.find.startswith("=") or rewrite.put.startswith("=")
        return not is_value and ("https:" not in rewrite.find or "https:" in rewrite.put)
    test_of = {test.key: test for test in rewrite.tests}
    for write in rewrite.writes:
        test = test_of.get(write.key)
        if write.key == "scheme" and write.value == "http" and (test is None or test.value != "http"):
            return False
        is_host = write.key.startswith("host_")
        if is_host and ((test is None and rewrite.open) or (test is not None and test.test not in ("is", "absent"))):
            return False
    return True


def rule_id(site: str, rewrite: Rewrite) -> str:
    """The same rewrite on the same site always has the same id."""
    data = msgspec.json.encode((site, rewrite), order="deterministic")
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def pattern_rewrite(tree: PatternTree, rule: Candidate) -> PatternRewrite:
    """A candidate of the tree as a rewrite: what its source pattern demands, and what changes."""
    node = tree.node(rule.source)
    return rewrite_of(tree.training, Pattern(node.kinds.tolist(), node.codes.tolist(), node.excluded), rule.operations)


def _excluded_texts(training: TrainingSet, kind: int, codes: list[int]) -> tuple[str, ...]:
    """Those of the excluded values that the test would otherwise pass."""
    if kind == IS:
        return ()
    return tuple(sorted(training.text(code) for code in codes if kind != DIGITS or training.decimal[code]))


def rewrite_of(training: TrainingSet, pattern: Pattern, operations: Operations) -> PatternRewrite:
    """From a pattern over the site's keys and operations on them."""
    keys, text = training.keys, training.text
    kinds, codes, excluded = pattern
    all_copied, all_fixed = operations.copied.tolist(), operations.fixed.tolist()
    tests, writes = [], []
    for k in sorted(range(len(keys)), key=lambda k: url_position(keys[k])):
        if kinds[k] != ABSENT:
            value = text(codes[k]) if kinds[k] == IS else ""
            unless = _excluded_texts(training, kinds[k], [code for key, code in excluded if key == k])
            tests.append(KeyTest(keys[k], TEST_OF_KIND[int(kinds[k])], value, unless))
        copied, fixed = all_copied[k], all_fixed[k]
        if copied == k or (copied < 0 and kinds[k] <= IS and fixed == codes[k]):
            continue
        if copied >= 0:
            writes.append(KeyWrite(keys[k], "copy", keys[copied]))
        else:
            writes.append(KeyWrite(keys[k], "set", text(fixed)) if fixed else KeyWrite(keys[k], "drop"))
    return PatternRewrite(tuple(tests), tuple(writes))


def coded_rewrite(training: TrainingSet, rewrite: PatternRewrite) -> tuple[Pattern, Operations] | None:
    """A rewrite in the numbers of a training set (the way back from `rewrite_of`); None if no URL of it can match."""
    key_of = {key: k for k, key in enumerate(training.keys)}
    code_of = training.code_of
    kinds, codes = [ANY if rewrite.open else ABSENT] * len(key_of), [0] * len(key_of)
    excluded = []
    for test in rewrite.tests:
        k, code = key_of.get(test.key), code_of.get(test.value, 0)
        if k is None or (test.test == "is" and not code):
            if test.test in ("absent", "any"):
                continue
            return None
        kinds[k] = _KIND_OF_TEST[test.test]
        codes[k] = code if test.test == "is" else 0
        excluded += [(k, code_of[value]) for value in test.unless if value in code_of]
    copied = np.arange(len(key_of), dtype=np.int32)
    fixed = np.zeros(len(key_of), np.int32)
    for write in rewrite.writes:
        k = key_of.get(write.key)
        source = key_of.get(write.value, -1) if write.op == "copy" else -1
        code = code_of.get(write.value, 0) if write.op == "set" else 0
        if k is None or (write.op == "set" and not code):
            if write.op == "set":
                return None  # no known URL has what it writes
            continue
        copied[k], fixed[k] = source, code
    return Pattern(kinds, codes, tuple(excluded)), Operations(copied, fixed)


def matching_rows(training: TrainingSet, pattern: Pattern) -> Ints:
    """The rows that pass the tests of a pattern."""
    kinds = np.array(pattern.kinds, np.int8)
    excluded = np.array([pair for pair in pattern.excluded if kinds[pair[0]] > IS], np.int32).reshape(-1, 2)
    codes, rows = np.array(pattern.codes, np.int32), _rarest_rows(training, pattern)
    matching: Ints = _matching_rows(training.values, training.decimal, kinds, codes, excluded, rows)
    return matching


def _rarest_rows(training: TrainingSet, pattern: Pattern) -> Ints:
    """The rows to look at: those with the rarest of the values that a pattern asks for; all rows if they are few."""
    rows = training.all_rows
    if len(rows) > ALL_ROWS_MAX:
        for key, kind in enumerate(pattern.kinds):
            if kind == IS:
                rows = min(rows, training.rows_with(key, pattern.codes[key]), key=len)
    return rows


@kernel
def _matching_rows(
    values: Ints, decimal: npt.NDArray[np.bool_], kinds: Kinds, codes: Ints, excluded: Ints, looked_at: Ints
) -> Ints:
    """Key by key over the rows that are left: after a few keys those are few."""
    rows = looked_at.copy()
    for key in range(len(kinds)):
        if kinds[key] == ANY:
            continue
        column, left = values[key], 0
        for row in rows:
            code = column[row]
            if kinds[key] <= IS:
                fits = code == codes[key]
            else:
                fits = code != 0 and (kinds[key] == SOME or decimal[code])
            rows[left] = row
            left += fits
        rows = rows[:left]
    for i in range(len(excluded)):
        rows = rows[values[excluded[i, 0]][rows] != excluded[i, 1]]
    return rows


# ---------------------------------------------------------------- for exports


def as_regex(rewrite: Rewrite) -> tuple[str, str]:
    """The rule as (regular expression, replacement) in the short form that imports read back. It does not match URLs
    that lack a key, or have their query keys in another order than the tests (url_regex.py does)."""
    if isinstance(rewrite, SubstringRewrite):
        return substring_regex(rewrite)
    groups: dict[str, int] = {}
    pieces = {}
    for test in rewrite.tests:
        if test.test == "is":
            pieces[test.key] = re.escape(test.value)
        else:
            groups[test.key] = len(groups) + 1
            pieces[test.key] = {"digits": r"(\d+)"}.get(test.test, "([^/?&;#]*)")
    pattern = _composed(pieces, escape=True)
    kept = {test.key: _back(test, groups) for test in rewrite.tests}
    for write in rewrite.writes:
        if write.op == "drop":
            kept.pop(write.key, None)
        elif write.op == "set":
            kept[write.key] = write.value
        else:
            source = next((test for test in rewrite.tests if test.key == write.value), None)
            kept[write.key] = _back(source, groups) if source else ""
    return f"^{pattern}$", _composed(kept, escape=False)


def _back(test: KeyTest, groups: dict[str, int]) -> str:
    return test.value if test.test == "is" else f"\\{groups[test.key]}"


def _composed(pieces: dict[str, str], escape: bool) -> str:
    """URL text with one placeholder per key, so that delimiters are escaped and patterns are not."""
    marks = {key: f"\x01{i}\x02" for i, key in enumerate(pieces)}
    if "scheme" not in pieces or not _is_whole(pieces):
        return " ".join(f"{key}{value}" for key, value in pieces.items())
    text = compose(tuple(sorted(marks.items(), key=lambda pair: _place(pair[0]))))
    text = re.escape(text) if escape else text
    for key, mark in marks.items():
        text = text.replace(re.escape(mark) if escape else mark, pieces[key])
    return text


# ---------------------------------------------------------------- pieces


def _place(key: str) -> tuple[int, int]:
    """For sorting: query keys and path parameters keep the order they have."""
    place, index, _ = url_position(key)
    return place, index


def _is_whole(keys: Collection[str]) -> bool:
    """Whether host labels and path parts are numbered without holes, and an extension has a file name."""
    for part in ("host_", "path_"):
        numbers = [index_of(key) for key in keys if key.startswith(part)]
        if len(numbers) != (max(numbers) + 1 if numbers else 0):
            return False
    has_path = "path_0" in keys
    return "host_0" in keys and (has_path or not any(key == "ext" or key[0] == ";" for key in keys))


def _fits(key: str, value: str) -> bool:
    """Whether a value stays within its part of the URL."""
    forbidden = {"?": "&#", ";": "/?#;", "#": ""}.get(key[0], "/?#")
    if key.startswith("host_"):
        forbidden += "@:" if not value.startswith("[") else ""
    return not any(c in forbidden or c <= " " or c == "\x7f" for c in value) and (
        is_named(key) or key != "scheme" or value.isalpha()
    )
