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
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dustream.schemas.pages import Canonical
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, SubstringRewrite

STAYING_NAMES: Final = frozenset({"latest", "stable", "current"})
_PARTS: Final = re.compile(r"[/?&=;:.]")

Ranks = npt.NDArray[np.int8]
Rewrite = PatternRewrite | SubstringRewrite
RANK_OF_CANONICAL: Final[dict[Canonical, int]] = {"self": 0, "none": 1, "other": 2}
RANK_AVOIDED: Final = 3


def ranks_of(avoid: npt.NDArray[np.bool_]) -> Ranks:
    """Of pages of which only this is known: whether they redirect or are gone."""
    return np.where(avoid, RANK_AVOIDED, RANK_OF_CANONICAL["none"]).astype(np.int8)


class TextOrder(NamedTuple):
    """Of what a rule finds or puts; the smaller stands for the other."""

    is_http: bool
    goes_by: bool
    has_query: bool
    depth: int
    length: int
    hashed: bytes


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
        return RANK_OF_CANONICAL["none"]
    return int(np.sort(ranks)[len(ranks) // 2])


def exchanged(rewrite: Rewrite) -> tuple[str, str] | None:
    """The texts that a rule exchanges, if the same rule can be written the other way round; else None."""
    if isinstance(rewrite, SubstringRewrite):
        return (rewrite.find, rewrite.put) if rewrite.put else None
    tested = {test.key: test for test in rewrite.tests}
    if any(write.op != "set" or write.key not in tested or tested[write.key].test != "is" for write in rewrite.writes):
        return None
    return (
        " ".join(tested[write.key].value for write in rewrite.writes),
        " ".join(write.value for write in rewrite.writes),
    )


def way_back(rewrite: Rewrite) -> Rewrite:
    """The rule the other way round; only of rules that exchange texts."""
    if isinstance(rewrite, SubstringRewrite):
        scope = rewrite.scope
        if rewrite.find in scope or (rewrite.at_start and scope.startswith(rewrite.find)):
            scope = scope.replace(rewrite.find, rewrite.put, 1)
        return SubstringRewrite(scope, rewrite.put, rewrite.find, rewrite.at_start, rewrite.at_end)
    put = {write.key: write.value for write in rewrite.writes}
    found = {test.key: test.value for test in rewrite.tests}
    tests = tuple(KeyTest(t.key, "is", put[t.key]) if t.key in put else t for t in rewrite.tests)
    writes = tuple(KeyWrite(write.key, "set", found[write.key]) for write in rewrite.writes)
    return PatternRewrite(tests, writes, rewrite.open)
