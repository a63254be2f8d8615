"""URL rules: planted rules found, Lei's Figure 9 and other speeds, updates, and a huge site. Lei's tables are in
rules_lei.py, DustBuster's in rules_dust.py, rules as a crawler uses them in rules_deploy.py.

Real sites come from the folder that DUSTREAM_DATA names; without it only generated sites are measured, and this says
so. Times are CPU seconds of this run: only their ratios mean anything. Each part writes bench/results/rules_PART.json.

    python bench/rules.py                all of it; Figure 9 goes to docs/img
    python bench/rules.py --quick        fewer generated sites, no huge site; nothing is written
    python bench/rules.py --only huge    one part (planted, speed, updates, huge)
"""

from __future__ import annotations

import argparse
import io
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import zstandard
from line_chart import line_chart
from pages import data_folder
from result_files import Table, write_result
from rules_huge import huge
from rules_updates import updates_part

from dustream.core.rules import fanout
from dustream.core.rules.candidates import CandidateSettings, candidate_rules
from dustream.core.rules.dustbuster import LoggedUrl, dust_rules
from dustream.core.rules.evidence import Operations
from dustream.core.rules.learn import LearnSettings, SiteUrl, by_site, learn_site, tree_proposals
from dustream.core.rules.normalize import Normalizer, SiteRules
from dustream.core.rules.pattern_tree import build_pattern_tree
from dustream.core.rules.rewrite import pattern_rewrite, rewrite_of, rule_id
from dustream.core.rules.scores import Score, micro_average, score
from dustream.core.rules.selection import select_by_graph, select_naively
from dustream.core.rules.training import KnownUrl, TrainingSet, training_set
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import Rewrite, RuleSet, UrlRule
from dustream.streams.generate.planted_sites import big_site, mislabelled, planted_site, sectioned_site

TRAINED_SHARE = 5  # one in five
DRAWS = 5
REAL_TABLES = {
    "networkx": "D_url_digest_networkx_doc",
    "kafka": "D_url_digest_kafka_site",
    "dolphinscheduler": "D_url_digest_dolphinscheduler_2022-12-11",
    "flink": "D_url_digest_flink_web",
}
SITE_URLS_MIN = 30
SAMPLED_URLS_MIN = 1_000
HUGE_URLS = 3_000_000
UPDATED_URLS = (30_000, 100_000, 300_000)
DOCS = Path(__file__).resolve().parents[1] / "docs"


class Site(NamedTuple):
    """A site with known clusters: what methods learn from, and what they are scored on."""

    name: str
    training: TrainingSet
    known: Known


class Deployed(NamedTuple):
    """What one method made of one site."""

    raw: int
    qualified: int
    rewrites: list[Rewrite]
    seconds: float


Result = TypeVar("Result")
Method = Callable[[Site, CandidateSettings], Deployed]


# ---------------------------------------------------------------- sites


def _rows(name: str) -> list[list[str]]:
    folder = data_folder()
    assert folder is not None
    with (folder / f"{name}.tsv.zst").open("rb") as file:
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file)
        return [line.rstrip("\n").split("\t") for line in io.TextIOWrapper(reader, "utf-8")]


Known = tuple[SiteUrl, ...]
Draw = Callable[[SiteUrl], str]


def by_url(entry: SiteUrl) -> str:
    """The paper's: "we randomly select 20 % samples", and samples are URLs."""
    return entry.url


def by_cluster(entry: SiteUrl) -> str:
    return str(entry.cluster)


@cache
def real_lists() -> dict[str, Known]:
    lists = {name: tuple(SiteUrl(row[0], row[1]) for row in _rows(table)[1:]) for name, table in REAL_TABLES.items()}
    rows = _rows("D_clueweb12_url_neardup_groups")[1:]
    entries = [SiteUrl(row[1], row[1] if row[0] == "-1" else row[0]) for row in rows]
    for site, known in by_site(entries):
        if len(known) >= SITE_URLS_MIN and len({entry.cluster for entry in known}) < len(known):
            lists[f"clueweb12 {site}"] = tuple(known)
    return lists


def real_sites(drawn_by: Draw = by_url, number: int = 0) -> list[Site]:
    """What methods learn from: a fifth; all of it on sites so small that a fifth would hold nothing."""
    sites = []
    for name, known in real_lists().items():
        whole = len(known) < SAMPLED_URLS_MIN
        chosen = (e for e in known if whole or zlib.crc32(f"{number} {drawn_by(e)}".encode()) % TRAINED_SHARE == 0)
        sites.append(Site(name, training_set(KnownUrl(e.url, e.cluster) for e in chosen), known))
    return sites


def _whole(name: str, known: Iterable[SiteUrl]) -> Site:
    known = tuple(known)
    return Site(name, training_set(KnownUrl(e.url, e.cluster) for e in known), known)


# ---------------------------------------------------------------- methods


def by_fanout(fan_out: int) -> Method:
    def method(site: Site, settings: CandidateSettings) -> Deployed:
        start = time.process_time()
        found = fanout.fanout_rules(site.training, fan_out, settings)
        chosen = fanout.select_naively(found.qualified)
        seconds = time.process_time() - start
        return Deployed(found.raw, len(found.qualified), [_fanout_rewrite(site, rule) for rule in chosen], seconds)

    return method


def _fanout_rewrite(site: Site, rule: fanout.FanoutRule) -> Rewrite:
    import numpy as np

    copied = np.arange(len(site.training.keys), dtype=np.int32)
    fixed = np.zeros(len(copied), np.int32)
    copied[rule.key], fixed[rule.key] = -1, rule.value
    return rewrite_of(site.training, fanout.pattern_of(rule), Operations(copied, fixed))


def by_tree(graph: bool) -> Method:
    def method(site: Site, settings: CandidateSettings) -> Deployed:
        start = time.process_time()
        tree = build_pattern_tree(site.training)
        found = candidate_rules(tree, settings)
        chosen = select_by_graph(tree, found.qualified, settings) if graph else select_naively(tree, found.qualified)
        seconds = time.process_time() - start
        return Deployed(found.raw, len(found.qualified), [pattern_rewrite(tree, rule) for rule in chosen], seconds)

    return method


def by_dustream(applied: bool) -> Method:
    """Rounds of trees, then DustBuster. `applied`: only what `dustream learn` applies at once, no shadows."""

    def method(site: Site, settings: CandidateSettings) -> Deployed:
        clusters = [None if c < 0 else str(c) for c in site.training.clusters.tolist()]
        known = [SiteUrl(url, cluster) for url, cluster in zip(site.training.urls, clusters, strict=True)]
        start = time.process_time()
        learned = learn_site(_registered(site), known, settings=LearnSettings(candidates=settings))
        seconds = time.process_time() - start
        rewrites = [rule.rewrite for rule in learned.rules if rule.stage == "active" or not applied]
        return Deployed(learned.counts.raw, learned.counts.proposed, rewrites, seconds)

    return method


METHODS: dict[str, Method] = {
    "fan-out-5 + naive": by_fanout(5),
    "fan-out-10 + naive": by_fanout(10),
    "tree + naive": by_tree(graph=False),
    "tree + graph": by_tree(graph=True),
    "rounds + DustBuster": by_dustream(applied=False),
    "dustream learn": by_dustream(applied=True),
}


def _registered(site: Site) -> str:
    from dustream.core.urls.sites import site_of

    return site_of(site.known[0].url)


def scored(site: Site, rewrites: Iterable[Rewrite]) -> Score:
    return _scored(_registered(site), site.known, tuple(rewrites))


@cache
def _scored(site: str, known: Known, rewrites: tuple[Rewrite, ...]) -> Score:
    """Many draws and most thresholds lead to the same rules."""
    rules = [
        UrlRule(id=rule_id("", each), rewrite=each, pattern="", replacement="", stage="active", learner="tree")
        for each in rewrites
    ]
    run = SiteRules(site, rules)
    return score((run.apply(standard_form(entry.url))[0], entry.cluster) for entry in known)


# ---------------------------------------------------------------- planted rules


def planted_rules(count: int) -> list[Table]:
    """How many planted rules are found, on pages never seen; also with wrong labels."""
    rows: list[list[object]] = []
    for noise in (0, 10):
        found = total = 0
        scores = []
        for number in range(count):
            planted = planted_site(number)
            known = mislabelled(planted.known, noise) if noise else planted.known
            learned = learn_site(planted.site, known, settings=LearnSettings().with_label_noise(noise / 100))
            normalizer = Normalizer([RuleSet(site=planted.site, version=1, rules=learned.rules)])
            for rule in planted.rules:
                same = sum(normalizer.normalize(a) == normalizer.normalize(b) for a, b in rule.fresh)
                found += same >= 0.95 * len(rule.fresh)
                total += 1
            truth = [(e.url, e.cluster) for e in planted.known] + list(planted.fresh_clusters.items())
            scores.append(score((normalizer.normalize(url), cluster) for url, cluster in truth))
        micro = micro_average(scores)
        rates = f"{micro.false_positive_rate:.3%}", f"{micro.dup_reduction_rate:.1%}"
        rows.append([f"{noise} %", total, found, f"{found / total:.1%}", *rates])
    columns = ["wrong labels", "planted", "found", "found", "false positives", "dup-reduction"]
    return [Table(f"Planted rules of {count} generated sites, on pages never seen", columns, rows)]


# ---------------------------------------------------------------- speed


SPEED_URLS = 70_000
DUST_URLS = 17_742  # the list of Bar-Yossef et al.
SPEED_STEPS = (5_000, 10_000, 20_000, 40_000, SPEED_URLS)
SPEED_SITES = {"one rule settles it": big_site, "twelve sections, each with duplicates of its own": sectioned_site}


def speed(pictures: Path | None) -> list[Table]:
    rows = [_speed_of(name, make(SPEED_URLS)) for name, make in SPEED_SITES.items()]
    for site in real_sites() if data_folder() else ():
        if not site.name.startswith("clueweb12"):
            rows.append(_speed_of(site.name, list(site.known)))
    columns = ["site", "URLs", "clusters", "parsing, s", "whole tree, s", "tree + graph, s", "", "fan-out-10, s", "",
               "fan-out-5, s", "", "`learn`, tree, s"]  # fmt: skip
    known = big_site(SPEED_URLS)
    _, seconds = _timed(lambda: dust_rules(LoggedUrl(e.url, e.cluster) for e in known[:DUST_URLS]))
    others: list[list[object]] = [[f"DustBuster, {DUST_URLS:,} URLs", round(seconds, 2), "s"]]
    others += _normalize_speed(_whole("big", known), known)
    return [
        Table("Speed of learning, the fastest of three", columns, rows),
        Table("Other speeds", ["", "time", "unit"], others),
        figure_9(pictures),
    ]


def _best_of_three(method: Method, site: Site) -> Deployed:
    anew = (site._replace(training=replace(site.training)) for _ in range(3))
    return min((method(each, CandidateSettings()) for each in anew), key=lambda deployed: deployed.seconds)


def _speed_of(name: str, known: list[SiteUrl]) -> list[object]:
    """The fastest of three each; what a training set remembers is thrown away in between."""
    site, decomposing = _timed(lambda: _whole(name, known))
    _, whole_tree = _timed(lambda: build_pattern_tree(site.training).nodes)
    row: list[object] = [name, len(known), len({e.cluster for e in known}), decomposing, whole_tree]
    for method in (by_tree(graph=True), by_fanout(10), by_fanout(5)):
        found = _best_of_three(method, site)
        row += [found.seconds, _outcome(site, found)]
    _, learning = _timed(lambda: learn_site(_registered(site), known, "tree"))
    row.append(learning)
    print(" ", *row, flush=True)
    return row


def figure_9(pictures: Path | None) -> Table:
    """The paper's is one bar a method; here by the size of the site, the sum over both kinds."""
    methods = {"fan-out-5": by_fanout(5), "fan-out-10": by_fanout(10), "tree + graph": by_tree(graph=True)}
    sites = [[_whole(name, make(urls)) for name, make in SPEED_SITES.items()] for urls in SPEED_STEPS]
    seconds = {
        name: [sum(_best_of_three(method, site).seconds for site in both) for both in sites]
        for name, method in methods.items()
    }
    if pictures is not None:
        steps = [f"{urls // 1000}k" for urls in SPEED_STEPS]
        chart = line_chart("Figure 9: seconds for two sites", "URLs a site", steps, seconds)
        (pictures / "rules-figure-9.svg").write_text(chart)
    rows: list[list[object]] = [[name, *times] for name, times in seconds.items()]
    columns = ["method", *(f"{urls:,} URLs" for urls in SPEED_STEPS)]
    return Table("Figure 9: seconds for two sites, by their URLs", columns, rows)


def _outcome(site: Site, deployed: Deployed) -> str:
    found = scored(site, deployed.rewrites)
    return f"{len(deployed.rewrites)} rules, compression {found.compression_rate:.1%}"


def _normalize_speed(site: Site, known: list[SiteUrl]) -> list[list[object]]:
    """Microseconds a URL."""
    tree = build_pattern_tree(site.training)
    _, proposals = tree_proposals(tree, CandidateSettings())
    rules = [
        UrlRule(id=str(i), rewrite=each.rewrite, pattern="", replacement="", stage="active", learner="tree")
        for i, each in enumerate(proposals)
    ]
    normalizer = Normalizer([RuleSet(site=_registered(site), version=1, rules=tuple(rules))])
    urls = [entry.url for entry in known[:20_000]]
    _, standard = _timed(lambda: [standard_form(url) for url in urls])
    _, ruled = _timed(lambda: [normalizer.normalize(url) for url in urls])
    times = {"`normalize`, standard steps": standard, f"`normalize`, {len(rules)} rules": ruled}
    try:
        from w3lib.url import canonicalize_url
    except ImportError:
        print("  w3lib is not installed: no comparison with canonicalize_url was made")
    else:
        _, times["w3lib `canonicalize_url`"] = _timed(lambda: [canonicalize_url(url) for url in urls])
    return [[name, round(1e6 * seconds / len(urls), 1), "µs a URL"] for name, seconds in times.items()]


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def speed_part(pictures: Path | None) -> list[Table]:
    for make in SPEED_SITES.values():
        _warm_up(_whole("small", make(2_000)))
    return speed(pictures)


def _warm_up(site: Site) -> None:
    build_pattern_tree(site.training).nodes  # noqa: B018  where one rule settles a site, its tree does not grow
    for method in METHODS.values():
        method(site, CandidateSettings())
    dust_rules(LoggedUrl(entry.url, entry.cluster) for entry in site.known)  # the trees may leave it nothing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=("planted", "speed", "updates", "huge"))
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="where Figure 9 goes (docs/img)")
    options = parser.parse_args()
    pictures = options.pictures or (None if options.quick else DOCS / "img")
    count = 12 if options.quick else 50
    parts: dict[str, Callable[[], list[Table]]] = {
        "planted": lambda: planted_rules(count),
        "speed": lambda: speed_part(pictures),
        "updates": lambda: updates_part(UPDATED_URLS[:1] if options.quick else UPDATED_URLS),
        "huge": lambda: huge(HUGE_URLS),
    }
    for name, part in parts.items():
        if options.only == name or (options.only is None and not (options.quick and name == "huge")):
            tables = part()
            for table in tables:
                print(f"\n{table.title}\n\n{table.markdown()}", flush=True)
            if not options.quick:
                write_result(f"rules_{name}", tables, f"python bench/rules.py --only {name}")


if __name__ == "__main__":
    main()
