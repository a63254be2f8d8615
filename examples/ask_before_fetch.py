"""A crawler that skips URLs whose content it already has.

    python examples/ask_before_fetch.py result < frontier.txt

Takes the URL rules from the result folder of a run, or from a rules file of `dustream learn`, and prints the URLs of
the frontier that are worth fetching. A small share of the others is fetched as well: a rule that is never tried can
never be found wrong.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Iterator

import dustream

CHECKED_SHARE = 0.02  # of the URLs that rules would skip


def worth_fetching(frontier: Iterable[str], rules: dustream.RuleBook) -> Iterator[str]:
    seen = set()
    for url in frontier:
        key = rules.normalize(url)  # a key to compare by, not an address: fetch the URL itself
        if key not in seen or is_checked(url):
            yield url
        seen.add(key)


def is_checked(url: str) -> bool:
    """A fixed sample by the URL's hash, the same in every crawl."""
    return zlib.crc32(url.encode()) < CHECKED_SHARE * 2**32


def main(rules: str) -> None:
    for url in worth_fetching((line.strip() for line in sys.stdin), dustream.RuleBook.load(rules)):
        print(url)


if __name__ == "__main__":
    main(sys.argv[1])
