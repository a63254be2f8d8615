"""URL rules: learn them, load them, follow them, apply them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dustream.core.errors import BadInput
from dustream.core.rules.normalize import Explanation, Normalizer
from dustream.schemas.rules import RuleSet

if TYPE_CHECKING:
    from dustream.streams.kafka.rule_topic import RuleTopic

FOLLOW_INTERVAL_S = 5.0


class RuleBook:
    """The URL rules of several sites.

    >>> book = RuleBook()
    >>> book.normalize("HTTP://Example.com:80/a/../b")
    'http://example.com/b'

    A normal form that rules made is a key to compare URLs by, not an address: it may not exist. Fetch the original URL,
    and skip a URL whose normal form is that of a page you have.
    """

    def __init__(self, rule_sets: Iterable[RuleSet] = ()) -> None:
        self._sites = {rules.site: rules for rules in rule_sets}
        self._normalizer = Normalizer(self._sites.values())
        self._topic: RuleTopic | None = None
        self._read_at = 0.0

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RuleBook:
        """From a rules file, or from the result folder of a run."""
        from dustream.streams.rules_io.files import read_rules

        return cls(read_rules(Path(path)))

    @classmethod
    def follow(cls, bootstrap: str | None = None, name: str = "dustream") -> RuleBook:
        """From the rules topic of an application on Kafka. `normalize` and `explain` look for new rules every few
        seconds; `refresh` looks at once. Use it in a `with` block, or call `close`."""
        from dustream.streams.kafka.application import Application
        from dustream.streams.kafka.cluster import read_cluster
        from dustream.streams.kafka.rule_topic import RuleTopic

        book = cls()
        book._topic = RuleTopic(read_cluster(bootstrap), Application(name))
        book.refresh()
        return book

    def __enter__(self) -> RuleBook:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop following a topic. The rules stay."""
        if self._topic is not None:
            self._topic.close()
            self._topic = None

    def refresh(self) -> None:
        """Read what has been written to the topic since; without a topic, nothing happens."""
        if self._topic is None:
            return
        self._read_at = time.monotonic()
        new = list(self._topic.read())
        if new:
            self._sites |= {rules.site: rules for rules in new}
            self._normalizer = Normalizer(self._sites.values())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a rules file, which `dustream normalize --rules` and `RuleBook.load` read."""
        from dustream.streams.rules_io.files import write_rules

        write_rules(Path(path), list(self._sites.values()))

    def __iter__(self) -> Iterator[RuleSet]:
        return iter(self._sites.values())

    def __len__(self) -> int:
        """How many sites have rules."""
        return len(self._sites)

    def rules(self, site: str) -> RuleSet | None:
        """The rules of a site such as `example.com`."""
        return self._sites.get(site)

    def normalize(self, url: str) -> str:
        """The key under which all URLs of the same content are known, as far as the rules know."""
        self._look()
        return self._normalizer.normalize(url)

    def explain(self, url: str) -> Explanation:
        """The same, with every step that changed something."""
        self._look()
        return self._normalizer.explain(url)

    def _look(self) -> None:
        if self._topic is not None and time.monotonic() - self._read_at >= FOLLOW_INTERVAL_S:
            self.refresh()


def normalize(url: str, rules: RuleBook | str | os.PathLike[str] | None = None) -> str:
    """The normal form of a URL: the standard steps, then the active rules of its site.

    Without rules only the steps that are safe on every site are taken. To normalize many URLs, load a RuleBook once.

    >>> normalize("HTTPS://Example.com:443/a/./b#part")
    'https://example.com/a/b'
    """
    if rules is None or isinstance(rules, RuleBook):
        return (rules or RuleBook()).normalize(url)
    return RuleBook.load(rules).normalize(url)


def learn(urls: Iterable[Mapping[str, Any] | tuple[str, Any]], *, pages_min: int = 5) -> RuleBook:
    """Learn URL rules from URLs whose contents are known.

    Each item is a pair of a URL and the cluster or digest of its content, or a dict with `url` and one of `cluster`,
    `digest` or `size` (other names: `dustream learn --help`). A rule is active only if at least `pages_min` pages
    speak for it and its rewrites lead to known duplicates; the others are kept as shadows.

    >>> urls = [(f"https://example.com/{kind}/{page}{sid}", f"{kind} {page}")
    ...     for kind in "abc" for page in range(20) for sid in ("", f"?sid={page}7", f"?sid={page}9")]
    >>> book = learn(urls)
    >>> book.normalize("https://example.com/a/99?sid=1234")
    'https://example.com/a/99'
    """
    from dustream.core.rules.learn import LearnSettings, by_site, learn_site
    from dustream.streams.rules_io.inputs import known_url

    known = []
    for number, item in enumerate(urls):
        fields = item if isinstance(item, Mapping) else dict(zip(("url", "cluster"), item, strict=True))
        found = known_url(fields)
        if found is None:
            raise BadInput(f"item {number} tells of no page: it needs an absolute url, and a cluster, digest or size")
        known.append(found)
    settings = LearnSettings(active_pages_min=pages_min)
    learned = (learn_site(site, entries, settings=settings) for site, entries in by_site(known))
    return RuleBook(RuleSet(site=each.site, version=1, rules=each.rules) for each in learned if each.rules)
