"""Lei's Tables 1 to 4 and Figures 10 to 12, under the paper's own conditions and under ours.

Methods learn from 20 % of a site, drawn by chance, at most 100,000 URLs (section 6.1), and are scored on all its URLs.
The paper draws "samples", which may be URLs or whole clusters: generated sites are learned from both. Real sites come
from the folder that DUSTREAM_DATA names, small ones are learned from all their URLs; generated ones have 24,000 to
3,000,000 URLs, 63 % of them duplicates, and rules that are partly wrong (rules_sites.py).

*the paper's*: o_min .5 on the symmetric overlap (eq. 6), σ_min .5, the false-positive filter (5.2.3) and nothing else.
*ours*: also one-sided overlap, and a rule needs three common clusters, three URLs and a tenth of those it reaches.

    python bench/rules_lei.py             half an hour, nearly all for the two largest sites (--urls-max)
    python bench/rules_lei.py real        one part: generated, real
    python bench/rules_lei.py --quick     small sites alone, few thresholds; nothing is written
    python bench/rules_lei.py --learn     what `dustream learn` applies on generated sites; nothing is written
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections import Counter
from collections.abc import Callable

from line_chart import line_chart
from pages import data_folder
from result_files import Table, write_result
from rules import DOCS, Deployed, Draw, Known, Site, by_cluster, by_dustream, by_fanout, by_tree, by_url, real_sites
from rules_sites import SiteSize, site_urls

from dustream.core.rules.candidates import CandidateSettings
from dustream.core.rules.landing import LandingSettings
from dustream.core.rules.normalize import SiteRules
from dustream.core.rules.pattern_tree import build_pattern_tree
from dustream.core.rules.rewrite import rule_id
from dustream.core.rules.scores import Score, micro_average, score
from dustream.core.rules.training import KnownUrl, training_set
from dustream.core.urls.sites import site_of
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import UrlRule

TRAINED_ONE_IN = 5
TRAINED_MAX = 100_000
DRAWS = 3
SIZES = [SiteSize(n, urls) for n, urls in enumerate([24_000, 24_000, 48_000, 48_000, 100_000, 350_000, 3_000_000])]
SWEPT_URLS_MAX = 30_000
LARGEST_URLS = 3_000_000
FPR_STEPS = (*(i / 100 for i in range(11)), *(i / 10 for i in range(2, 10)))

OURS = CandidateSettings()
PAPERS = CandidateSettings(
    coverage_min=2.0,
    common_clusters_min=1,
    support_min=1,
    support_share_min=0.0,
    landing=LandingSettings(wrong_share_max=1.0, unknown_share_max=1.0),
)

Method = Callable[[Site, float], Deployed]


def _with(method: Callable[[Site, CandidateSettings], Deployed], settings: CandidateSettings) -> Method:
    return lambda site, fpr_max: method(site, settings._replace(fpr_max=fpr_max))


SWEPT: dict[str, Method] = {
    "fan-out-5 + naive": _with(by_fanout(5), PAPERS),
    "fan-out-10 + naive": _with(by_fanout(10), PAPERS),
    "tree + naive, the paper's": _with(by_tree(graph=False), PAPERS),
    "tree + graph, the paper's": _with(by_tree(graph=True), PAPERS),
}
METHODS: dict[str, Method] = {
    **SWEPT,
    "tree + graph, ours": _with(by_tree(graph=True), OURS),
    "rounds + DustBuster, all rules": _with(by_dustream(applied=False), OURS),
    "of these, what dustream learn applies": _with(by_dustream(applied=True), OURS),
}


def generated(known: Known, name: str, drawn_by: Draw) -> Site:
    drawn = [e for e in known if zlib.crc32(drawn_by(e).encode()) % TRAINED_ONE_IN == 0]
    step = max(1, -(-len(drawn) // TRAINED_MAX))
    kept = drawn if step == 1 else [e for e in drawn if zlib.crc32(f"{drawn_by(e)} kept".encode()) % step == 0]
    return Site(name, training_set(KnownUrl(e.url, e.cluster) for e in kept), known)


_SCORES: dict[tuple[object, ...], Score] = {}


def scored(site: Site, deployed: Deployed, draw: int) -> Score:
    """Many thresholds lead to the same rules."""
    key = (site.name, len(site.known), draw, tuple(deployed.rewrites))
    if key not in _SCORES:
        rules = [
            UrlRule(id=rule_id("", each), rewrite=each, pattern="", replacement="", stage="active", learner="tree")
            for each in deployed.rewrites
        ]
        run = SiteRules(site_of(site.known[0].url), rules)
        _SCORES[key] = score((run.apply(standard_form(entry.url))[0], entry.cluster) for entry in site.known)
    return _SCORES[key]


# ---------------------------------------------------------------- tables


def table_1(kinds: dict[str, list[Known]]) -> Table:
    rows: list[list[object]] = [
        [
            "Lei et al., 200 sites",
            "24,147 / 3,000,000 / 352,106",
            "158 / 976,862 / 92,365",
            "2 / 314,465 / 3.8",
            "63.4%",
        ]
    ]
    for name, lists in kinds.items():
        sizes = [len(known) for known in lists]
        clusters = [Counter(entry.cluster for entry in known) for known in lists]
        repeated = [[size for size in each.values() if size > 1] for each in clusters]
        in_one = [size for each in repeated for size in each]
        share = 1 - sum(map(len, clusters)) / sum(sizes)
        found = [_spread(sizes), _spread(list(map(len, repeated))), _spread(in_one)]
        rows.append([f"{name}, {len(lists)} sites", *found, f"{share:.1%}"])
    columns = ["min / max / average", "URLs in a site", "duplicate clusters in a site", "URLs in a duplicate cluster",
               "duplicate ratio"]  # fmt: skip
    return Table("Table 1: the sites", columns, rows)


def _spread(values: list[int]) -> str:
    average = sum(values) / len(values)
    return f"{min(values):,} / {max(values):,} / {average:,.1f}".replace(".0", "")


def table_2(kinds: dict[str, list[Site]]) -> Table:
    rows: list[list[object]] = [["Lei et al.", "8 / 634 / 105", "3 / 16 / 6", "<1 / 257 / 22"]]
    for name, sites in kinds.items():
        nodes, heights, seconds = [], [], []
        for site in sites:
            start = time.process_time()
            tree = build_pattern_tree(site.training)
            nodes.append(len(tree.nodes))
            seconds.append(time.process_time() - start)
            heights.append(tree.height)
        shown = f"{min(seconds):.3f} / {max(seconds):.3f} / {sum(seconds) / len(seconds):.3f}"
        rows.append([name, _spread(nodes), _spread(heights), shown])
    return Table("Table 2: pattern trees", ["min / max / average", "nodes", "height", "seconds"], rows)


def tables_3_and_4(name: str, draws: list[list[Site]]) -> Table:
    """Rules are counted per draw, rates over all of them."""
    rows: list[list[object]] = []
    for method_name, method in METHODS.items():
        found: list[tuple[Deployed, Score]] = []
        for number, draw in enumerate(draws):
            for site in draw:
                deployed = method(site, 0.05)
                found.append((deployed, scored(site, deployed, number)))
        raw, qualified = (sum(getattr(d, part) for d, _ in found) for part in ("raw", "qualified"))
        micro = micro_average(each for _, each in found)
        macro = sum(each.compression_rate for _, each in found) / len(found)
        count = len(draws)
        rows.append([
            method_name, round(raw / count), round(qualified / count), f"{qualified / max(1, raw):.1%}",
            round(sum(len(d.rewrites) for d, _ in found) / count), f"{micro.compression_rate:.2%}", f"{macro:.2%}",
            f"{micro.dup_reduction_rate:.1%}", f"{micro.false_positive_rate:.3%}",
            round(sum(d.seconds for d, _ in found) / len(found), 4),
        ])  # fmt: skip
        print(" ", *rows[-1], flush=True)
    columns = ["", "raw", "qualified", "rate", "deployed", "compression (micro)", "macro", "dup-reduction",
               "false positives", "s a site"]  # fmt: skip
    return Table(f"Tables 3 and 4: {name}", columns, rows)


Curves = dict[str, dict[str, list[float]]]
"""By figure and method: the rate at each threshold."""


def figures(name: str, sites: list[Site], steps: tuple[float, ...]) -> tuple[list[Table], Curves]:
    """By fpr_max: the qualified rate, and compression and dup-reduction as micro and macro averages."""
    found: Curves = {part: {m: [] for m in SWEPT} for part in ("10", "11a", "11b", "12a", "12b")}
    for step in steps:
        for method_name, method in SWEPT.items():
            deployed = [method(site, step) for site in sites]
            scores = [scored(site, each, 0) for site, each in zip(sites, deployed, strict=True)]
            micro = micro_average(scores)
            rates = {
                "10": sum(d.qualified for d in deployed) / max(1, sum(d.raw for d in deployed)),
                "11a": micro.compression_rate,
                "11b": sum(s.compression_rate for s in scores) / len(scores),
                "12a": micro.dup_reduction_rate,
                "12b": sum(s.dup_reduction_rate for s in scores) / len(scores),
            }
            for part, rate in rates.items():
                found[part][method_name].append(rate)
        print(f"  {name}: fpr_max {step}", flush=True)
    titles = {"10": "Figure 10: qualified rate", "11a": "Figure 11 a: compression (micro)",
              "12a": "Figure 12 a: dup-reduction (micro)"}  # fmt: skip
    tables = [
        Table(f"{title}, {name}", ["fpr_max", *SWEPT],
              [[f"{step:g}", *(f"{found[part][m][i]:.1%}" for m in SWEPT)] for i, step in enumerate(steps)])
        for part, title in titles.items()
    ]  # fmt: skip
    return tables, found


def draw_figures(found: Curves, steps: tuple[float, ...]) -> None:
    titles = {
        "10": "Figure 10: qualified rate, %", "11a": "Figure 11 a: compression, micro-average, %",
        "11b": "Figure 11 b: compression, macro-average, %", "12a": "Figure 12 a: dup-reduction, micro-average, %",
        "12b": "Figure 12 b: dup-reduction, macro-average, %",
    }  # fmt: skip
    for part, title in titles.items():
        shown = [i for i, step in enumerate(steps) if part == "10" or step <= 0.1]
        series = {name: [100 * rates[i] for i in shown] for name, rates in found[part].items()}
        chart = line_chart(title, "fpr_max", [f"{steps[i]:g}" for i in shown], series)
        (DOCS / "img" / f"rules-figure-{part}.svg").write_text(chart)


def generated_part(quick: bool, steps: tuple[float, ...], urls_max: int) -> list[Table]:
    sizes = SIZES[:2] if quick else [size for size in SIZES if size.urls <= urls_max]
    lists = {f"site{size.number}.com": tuple(site_urls(size)) for size in sizes}
    made = [generated(known, name, by_cluster) for name, known in lists.items()]
    for method in METHODS.values():
        method(made[0], 0.05)  # compiles what is timed
    small = [site for site in made if len(site.known) <= SWEPT_URLS_MAX]
    curves, found = figures("generated sites", small, steps)
    if not quick:
        draw_figures(found, steps)
    by_urls = [generated(known, name, by_url) for name, known in lists.items() if len(known) < LARGEST_URLS]
    name = "generated sites, learned from one URL in five"
    drawn_by_url = tables_3_and_4(name, [by_urls])
    drawn_by_cluster = tables_3_and_4("generated sites, learned from one cluster in five", [made])
    kinds = {"generated": made}
    return [table_1({"generated": list(lists.values())}), table_2(kinds), drawn_by_cluster, drawn_by_url, *curves]


def learn_part(urls_max: int) -> None:
    """The last row of Tables 3 and 4 of the generated sites, learned from clusters and from URLs, site by site."""
    method = METHODS["of these, what dustream learn applies"]
    found: dict[str, list[Score]] = {"one cluster in five": [], "one URL in five": []}
    for size in SIZES:
        if size.urls > urls_max:
            continue
        known = tuple(site_urls(size))
        for (name, scores), drawn_by in zip(found.items(), (by_cluster, by_url), strict=True):
            if drawn_by is by_cluster or size.urls < LARGEST_URLS:
                site = generated(known, f"site{size.number}.com", drawn_by)
                scores.append(scored(site, method(site, 0.05), 0))
                print(f"  {size.urls:,} URLs, {name}: false positives {scores[-1].false_positive_rate:.2%}", flush=True)
    for name, scores in found.items():
        micro = micro_average(scores)
        rates = f"dup-reduction {micro.dup_reduction_rate:.1%}, false positives {micro.false_positive_rate:.3%}"
        print(f"generated sites, learned from {name}: compression {micro.compression_rate:.2%}, {rates}")


def real_part(quick: bool, steps: tuple[float, ...], urls_max: int) -> list[Table]:
    draws = [real_sites(number=number) for number in range(1 if quick else DRAWS)]
    for method in METHODS.values():
        method(draws[0][0], 0.05)
    whole = tables_3_and_4("real sites, learned from one URL in five", draws)
    known = [site.known for site in draws[0]]
    return [table_1({"real": known}), table_2({"real": draws[0]}), whole, *figures("real sites", draws[0], steps)[0]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("generated", "real"), help="both, if none is named")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--urls-max", type=int, default=LARGEST_URLS, metavar="N", help="generated sites up to this size"
    )
    parser.add_argument("--learn", action="store_true", help="only what `dustream learn` applies on generated sites")
    options = parser.parse_args()
    if options.learn:
        learn_part(options.urls_max)
        return
    steps = FPR_STEPS[:11:5] if options.quick else FPR_STEPS
    parts = {"generated": generated_part, "real": real_part}
    if data_folder() is None:
        print("Real sites were not measured: DUSTREAM_DATA names no folder.")
        del parts["real"]
    for name in parts if options.part is None else parts.keys() & {options.part}:
        tables = parts[name](options.quick, steps, options.urls_max)
        for table in tables:
            print(f"\n{table.title}\n{table.markdown()}")
        if not options.quick:
            part = f"{name} --urls-max {options.urls_max}" if name == "generated" else name
            write_result(f"rules_lei_{name}", tables, f"python bench/rules_lei.py {part}")


if __name__ == "__main__":
    main()
