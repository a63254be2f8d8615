"""A site of 3,000,000 URLs through the rules processor as a run has it: RocksDB, commits, a bounded sample.

Generated URLs, no pages; the time of making them is not counted. What was learned on the way is compared with what is
learned from scratch from the same sample, chosen anew: the URLs with the lowest hashes of all.
"""

from __future__ import annotations

import hashlib
import resource
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from pathlib import Path

from result_files import Table

from dustream.core.pipeline import UPDATES, pipeline
from dustream.core.processor import Send
from dustream.core.rules.known_site import RulesSettings, SiteUrlRow, learned_rules
from dustream.core.rules.normalize import Normalizer
from dustream.core.rules.scores import score
from dustream.core.settings import Settings
from dustream.schemas.cluster import ClusterMember, ClusterUpdate
from dustream.streams.embedded.engine import EmbeddedEngine
from dustream.streams.engine.feed import Feed
from dustream.streams.engine.results import read_rule_sets
from dustream.streams.generate.planted_sites import big_site_urls
from dustream.streams.store.rocks import RocksStore

SITE = "example.com"
CHUNK = 512
FRESH = 20_000


class HugeSite:
    """The URLs of the site, as updates that say what page each has; counts the seconds it takes to make them, and keeps
    the sample that the processor should have kept."""

    def __init__(self, urls: int, sample_max: int) -> None:
        self._urls = urls
        self._sample_max = sample_max
        self.seconds = 0.0
        self._lowest: dict[tuple[str, str], SiteUrlRow] = {}
        self._bound = "~"  # above all hexadecimal digits

    def feeds(self) -> Iterator[Feed]:
        made = enumerate(islice(big_site_urls(), self._urls))
        while True:
            start = time.process_time()
            members = [self._member(number, url, page) for number, (url, page) in islice(made, CHUNK)]
            self.seconds += time.process_time() - start
            if not members:
                return
            yield Feed([Send(UPDATES, SITE, ClusterUpdate(site=SITE, members=tuple(members)))])

    def _member(self, number: int, url: str, page: str) -> ClusterMember:
        hashed = hashlib.blake2b(url.encode(), digest_size=8).hexdigest()
        if hashed < self._bound:
            self._lowest[hashed, url] = SiteUrlRow(url, (number, 0), page, False, number)
            if len(self._lowest) > 2 * self._sample_max:
                self._lowest = dict(sorted(self._lowest.items(), key=itemgetter(0))[: self._sample_max])
                self._bound = max(self._lowest)[0]
        return ClusterMember(url, (number, 0), page, "duplicate", winner=page, since=number)

    def sample(self) -> list[SiteUrlRow]:
        return [row for _, row in sorted(self._lowest.items(), key=itemgetter(0))[: self._sample_max]]


def huge(urls: int) -> list[Table]:
    settings = RulesSettings()
    site = HugeSite(urls, settings.sample_max)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        store = RocksStore(Path(folder))
        start = time.process_time()
        EmbeddedEngine(pipeline(Settings()), store).run(site.feeds())
        seconds = time.process_time() - start - site.seconds
        peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rule_sets = list(read_rule_sets(store))
        store.close()
    start = time.process_time()
    from_scratch = learned_rules(SITE, site.sample(), settings)
    learning = time.process_time() - start
    published = rule_sets[0].rules if rule_sets else ()
    active = sum(rule.stage == "active" for rule in published)
    normalizer = Normalizer(rule_sets)
    fresh = islice(big_site_urls(seed=8), FRESH)
    found = score((normalizer.normalize(url), page) for url, page in fresh)
    if published != from_scratch:
        raise SystemExit("what was learned on the way differs from what is learned from scratch")
    rows: list[list[object]] = [
        ["cluster updates, sample and learning", f"{seconds:.1f} s, {1e6 * seconds / urls:.1f} µs a URL"],
        ["learning from scratch from the same sample, with the same rules", f"{learning:.1f} s"],
        ["peak memory", f"{peak_kb / 1024:.0f} MB, {before_kb / 1024:.0f} MB of it before"],
        ["rules", f"{len(published)}, {active} of them active"],
        [f"on {FRESH:,} URLs never seen: compression", f"{found.compression_rate:.1%}"],
        ["dup-reduction", f"{found.dup_reduction_rate:.1%}"],
        ["false positives", f"{found.false_positive_rate:.3%}"],
    ]
    return [Table(f"A site of {urls:,} URLs, of which at most {settings.sample_max:,} are kept", ["", ""], rows)]
