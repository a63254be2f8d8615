"""Why one URL of a page stands for the others, in this order:

    redirects       what redirects or is gone stands for nothing
    rel=canonical   as the winner order believes it: a page that names itself, then one that names none
    https           rather than http
    staying names   `latest`, `stable` and `current` stay when versions go by
    winner order    no query, fewer directories, a shorter text; of equals the lower hash

The first two are facts about pages, and hold for a rule if they hold for most of its pages. The others are read off the
texts that a rule exchanges, whatever the number of pages: a rule learned from few pages has the same direction as one
learned from many.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from dustream.core.rules.pattern_tree import url_position
from dustream.core.rules.training import Ranks
from dustream.core.winners import CANONICAL_PLACES
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, Rewrite, SubstringRewrite

ORDERS_KEPT_MAX: Final = 16_384
STAYING_NAMES: Final = frozenset({"latest", "stable", "current"})
_PARTS: Final = re.compile(r"[/?&=;:.]")


class TextOrder(NamedTuple):
    """Of what a rule finds or puts; the smaller stands for the other."""

    is_http: bool
    goes_by: bool
    has_query: bool
    depth: int
    length: int
    hashed: bytes


@lru_cache(maxsize=ORDERS_KEPT_MAX)
def text_order(text: str) -> TextOrder:
    return TextOrder(
        is_http=text.startswith("http:") or text == "http",
        goes_by=STAYING_NAMES.isdisjoint(_PARTS.split(text.lower())),
        has_query="?" in text,
        depth=text.count("/"),
        length=len(text),
        hashed=hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(),
    )


def rank_of(ranks: Ranks) -> int:
    """What most of the pages say of themselves; what says nothing of itself where there are none."""
    if len(ranks) == 0:
        return CANONICAL_PLACES["none"]
    return int(np.sort(ranks)[len(ranks) // 2])


def exchanged(rewrite: Rewrite) -> tuple[str, str] | None:
    """The texts that a rule exchanges, if the same rule can be written the other way round; else None."""
    if isinstance(rewrite, SubstringRewrite):
        return (rewrite.find, rewrite.put) if rewrite.put else None
    values = _exchanged_values(rewrite)
    if values is None:
        return None
    return _text((key, before) for key, before, _ in values), _text((key, after) for key, _, after in values)


def way_back(rewrite: Rewrite) -> Rewrite:
    """The rule the other way round; only of rules that exchange texts."""
    if isinstance(rewrite, SubstringRewrite):
        scope = rewrite.scope
        if rewrite.find in scope:
            scope = scope.replace(rewrite.find, rewrite.put, 1)
        return SubstringRewrite(scope, rewrite.put, rewrite.find, rewrite.at_start, rewrite.at_end)
    values = _exchanged_values(rewrite) or []
    tests = {test.key: test for test in rewrite.tests}
    for key, _, after in values:
        tests[key] = KeyTest(key, "absent") if after is None else KeyTest(key, "is", after)
    in_order = sorted(tests.values(), key=lambda test: url_position(test.key))
    return PatternRewrite(
        tuple(test for test in in_order if test.test != "absent" or rewrite.open),
        tuple(KeyWrite(key, "drop") if before is None else KeyWrite(key, "set", before) for key, before, _ in values),
        rewrite.open,
    )


def _exchanged_values(rewrite: PatternRewrite) -> list[tuple[str, str | None, str | None]] | None:
    """The keys that a rule writes, each with its value before and after (None: absent); None if any may have several
    values."""
    tested = {test.key: test for test in rewrite.tests}
    values: list[tuple[str, str | None, str | None]] = []
    for write in rewrite.writes:
        test = tested.get(write.key, KeyTest(write.key, "any" if rewrite.open else "absent"))
        if write.op == "copy" or test.test not in ("is", "absent"):
            return None
        values.append(
            (write.key, test.value if test.test == "is" else None, write.value if write.op == "set" else None)
        )
    return values


def _text(values: Iterable[tuple[str, str | None]]) -> str:
    """As they stand in a URL, more or less."""
    marks = {"path": "/", "ext": "."}
    present = [(key, value) for key, value in values if value is not None]
    return " ".join((key if key[0] in "?;" else marks.get(key.partition("_")[0], "")) + value for key, value in present)
