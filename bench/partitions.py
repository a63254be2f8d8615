"""Partition maps: Zhu et al.'s Figures 4 and 5, recall against exact pairs, and ours beside theirs.

    python bench/partitions.py [--generated N] [--quick]

Real pages come from the folder that DUSTREAM_DATA names; without it those tables are left out, and the report says so.
All is counted, except the time to build a map. On real pages, maps come from one half and are measured on the other.
On the generated web, the sample is drawn from the web and maps are measured on all of it; samples of other pages stand
beside. Figure 6 is bench/speedup.py's. Tables go to bench/results/partitions.json, plots to docs/img/, in a few minutes
of processor time, over two processes; with --quick plots go to bench/out/ and tables are only printed.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from line_chart import line_chart
from numba import njit
from numpy.typing import NDArray
from pages import REAL_FILES, data_folder, family, real_pages
from result_files import Table, write_result

from dustream.core.errors import BadEvent
from dustream.core.partitioning import tie_of
from dustream.core.settings import Settings
from dustream.core.text.extractors import extractor
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.text.signature import sign
from dustream.core.text.tokens import hash_stream, text_bytes
from dustream.core.tier2.cut_learning import SAMPLE_PAGES_PER_PARTITION_MIN, learn_lossless_map
from dustream.core.tier2.cut_tree import LosslessMap
from dustream.core.tier2.partition_map import (
    PartitionMap,
    build_map,
    chance_imbalance,
    default_map,
    imbalance_factor,
    map_to_bytes,
)
from dustream.core.tier2.points import PointBatch, batch_of, count_by_table
from dustream.core.tier2.sub_dictionaries import Mask, bucket_profile, principal_components
from dustream.core.tier2.zhu_map import ONE_CELL, Packing, hashed_sub_dictionaries, learn_zhu_map, measure_variation
from dustream.streams.generate.bulk import shingle_sets
from dustream.streams.generate.draws import mix64

HERE = Path(__file__).resolve().parent
COMMAND = "python bench/partitions.py"
TAU = 0.9
PARTITION_COUNTS = (2, 4, 8, 16, 32, 64)
RHOS = (1.0, 1.1, 1.2, 1.3)
RHOS_TRIED = (*RHOS, 1.5, 2.0, 3.0, 5.0)
WEB_SEED, OTHER_WEB_SEED = 7, 99
SAMPLE_SHARE = 0.4  # of the generated web
SAMPLE_STEPS = (20, 2)  # smaller samples: every so many-th page of that one
FIRST_PAGES = 8_000
GRIDS_TRIED: tuple[tuple[int, Packing], ...] = (
    (ONE_CELL, "spread"), (16, "spread"), (16, "morton"), (32, "spread"), (32, "morton"), (64, "morton"),
)  # fmt: skip
ZHU_CHUNKS = 5  # of the generated chunks one in so many is run past Zhu's maps, which take most of the time


class Kind(NamedTuple):
    """A way to build a map. Zhu's paper does not say how many intervals a dimension has and which cells of the grid
    share a machine: several readings."""

    name: str
    dimensions: int  # 0: ours
    intervals: int = ONE_CELL
    packing: Packing = "spread"

    def build(self, sample: PointBatch, partitions: int, rho: float = 1.1) -> PartitionMap:
        if self.dimensions == 0:
            return build_map(sample, partitions, TAU)
        return learn_zhu_map(sample, partitions, TAU, self.dimensions, rho, self.intervals, self.packing)


OURS = Kind("ours", 0)
ZHU_3_BEST = Kind("Zhu 3-D, 32 intervals, Morton", 3, 32, "morton")
KINDS = (
    Kind("Zhu 1-D", 1),
    Kind("Zhu 3-D, one cell", 3),
    Kind("Zhu 3-D, 16 intervals, spread", 3, 16, "spread"),
    Kind("Zhu 2-D, 32 intervals, Morton", 2, 32, "morton"),
    Kind("Zhu 3-D, 16 intervals, Morton", 3, 16, "morton"),
    ZHU_3_BEST,
    OURS,
)


class Points(NamedTuple):
    """Pages by what each kind of map looks at: the shingles for ours, Zhu's length vectors in 1, 2 and 3 dimensions."""

    batches: tuple[PointBatch, PointBatch, PointBatch, PointBatch]
    family: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.batches[0])

    def seen_by(self, kind: Kind) -> PointBatch:
        return self.batches[kind.dimensions]

    def take(self, pages: NDArray[np.int64]) -> Points:
        ours = self.batches[0].take(pages)
        zhus = [_with_lengths(ours, one.token_lengths[pages]) for one in self.batches[1:]]
        return Points((ours, zhus[0], zhus[1], zhus[2]), self.family[pages])


class Work(NamedTuple):
    """What a map makes partitions do with these pages."""

    load: NDArray[np.int64]
    visits: NDArray[np.int64]

    def without(self, part: Work) -> Work:
        return Work(self.load - part.load, self.visits - part.visits)

    @property
    def imbalance(self) -> float:
        return imbalance_factor(self.load)

    @property
    def contacts(self) -> float:
        return float(self.visits.sum() / self.load.sum())

    @property
    def communication_avoided(self) -> float:
        """Figure 5: of the sends that comparing all with all needs, those not made."""
        return 1 - (self.contacts - 1) / (len(self.load) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--generated", type=int, default=1_000_000, help="pages of the generated web (default a million)"
    )
    parser.add_argument("--quick", action="store_true", help="every eighth real page, 50,000 generated ones")
    args = parser.parse_args()
    folder = HERE / "out" if args.quick else HERE.parent / "docs"
    report = Report(folder)
    report.say("# Partition maps: results\n")
    report.say(f"Written by `{COMMAND}{' --quick' if args.quick else ''}`. Similarity threshold {TAU}.")
    report.say("Contacts count the home. *Unseen*: pages that were not in the sample the map was built from.")
    with ProcessPoolExecutor(2) as pool:
        parts = [pool.submit(bench_generated, folder, 50_000 if args.quick else args.generated)]
        if data_folder() is None:
            report.say("\nNo real pages: DUSTREAM_DATA is not set. Not run: all tables on real pages, recall on them.")
        else:
            parts.insert(0, pool.submit(bench_real_pages, folder, 8 if args.quick else 1))
        for part in parts:
            report.say("\n".join(part.result().lines))
            report.tables += part.result().tables
    if not args.quick:
        write_result("partitions", report.tables)
    print("\n".join(report.lines))


class Report:
    """Text for the terminal, tables about these `pages` for the result file, and where pictures go."""

    def __init__(self, folder: Path, pages: str = "") -> None:
        self.pages = pages
        self.folder = folder
        self.images = folder / "img"
        self.images.mkdir(parents=True, exist_ok=True)
        self.lines: list[str] = []
        self.tables: list[Table] = []

    def say(self, text: str = "") -> None:
        self.lines.append(text)

    def table(self, title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
        columns, rows = list(head), [list(row) for row in rows]
        self.tables.append(Table(f"{self.pages}: {title}", columns, rows))
        self.say(f"\n### {title}\n")
        self.say("| " + " | ".join(columns) + " |")
        self.say("|" + "---|" * len(columns))
        for row in rows:
            self.say("| " + " | ".join(row) + " |")


def bench_real_pages(folder: Path, keep_one_in: int) -> Report:
    report = Report(folder, "Real pages")
    collections = {}
    for name in REAL_FILES:
        progress(f"real: reading {name}")
        collections[name] = read_collection(name, keep_one_in)
    together = join(list(collections.values()))
    half = together.batches[0].tie % 2 == 0
    sample, unseen = together.take(np.flatnonzero(half)), together.take(np.flatnonzero(~half))
    report.say(f"\n## {len(together)} real pages: maps from a random half, figures on the other\n")
    report.say("Four collections: three documentation sites in many versions, one in Chinese and English, and single")
    report.say("pages of 1,341 hosts.")
    progress("real: maps")
    maps = {kind: {p: kind.build(sample.seen_by(kind), p) for p in PARTITION_COUNTS} for kind in KINDS}
    work = {
        kind: {p: work_of(one, [unseen.seen_by(kind)]) for p, one in by_count.items()}
        for kind, by_count in maps.items()
    }
    report_figures(report, work, "real", "unseen pages", halves_floors(len(sample), len(unseen)))
    report_ten_datasets(report, {kind: maps[kind][64] for kind in KINDS}, tenths(unseen))
    progress("real: exact pairs, recall")
    bench_recall(report, together, sample, maps[OURS][64])
    progress("real: samples")
    bench_real_samples(report, collections, together)
    bench_default_map(report, {**collections, "together": together})
    bench_sub_dictionaries(report, sample.batches[0], unseen.batches[0])
    bench_split_by_hash(report, maps, unseen.batches[0])
    return report


def report_figures(
    report: Report,
    work: dict[Kind, dict[int, Work]],
    name: str,
    measured_on: str,
    floors: dict[str, Callable[[int], float]],
) -> None:
    """`floors`: what chance alone gives at a number of partitions, by name."""
    figures: list[tuple[str, str, Callable[[Work], float], str]] = [
        (f"Figure 4: load imbalance factor, {measured_on}", "figure-4", lambda w: w.imbalance, ".3f"),
        ("Figure 5: communication avoided", "figure-5", lambda w: w.communication_avoided, ".1%"),
        ("Partitions contacted per page", "", lambda w: w.contacts, ".2f"),
    ]
    for title, file, value, form in figures:
        rows = [[kind.name, *(format(value(work[kind][p]), form) for p in PARTITION_COUNTS)] for kind in work]
        if file == "figure-4":
            rows += [
                [f"chance alone: {text}", *(f"{of(p):.3f}" for p in PARTITION_COUNTS)] for text, of in floors.items()
            ]
        report.table(title, ["map", *(str(p) for p in PARTITION_COUNTS)], rows)
        if file:
            series = {kind.name: [value(work[kind][p]) for p in PARTITION_COUNTS] for kind in work}
            image = f"partitions-{name}-{file}.svg"
            (report.images / image).write_text(line_chart(title, "partitions", PARTITION_COUNTS, series))
            report.say(f"\n![{title}](img/{image})")


def halves_floors(sample_pages: int, pages: int) -> dict[str, Callable[[int], float]]:
    """Page by page: near duplicates, which come together, are left out of account."""
    return {
        "these pages": lambda partitions: chance_imbalance(partitions, pages),
        "these pages, and a sample that places the cuts": lambda partitions: chance_imbalance(
            partitions, pages, sample_pages
        ),
    }


def drawn_floor(partitions: int, pages: int, sample_pages: int) -> float:
    """A sample drawn from the pages places the cuts: chance is in which were drawn, 1/sample − 1/pages for each page.

    Clusters of near duplicates do not matter, because they are not drawn as clusters.
    """
    return chance_imbalance(partitions, sample_pages * pages // max(pages - sample_pages, 1))


def others_floor(partitions: int, pages: int, sample_pages: int, cluster_size: float) -> float:
    """A sample of other pages. A cluster comes or does not come as a whole, and lies in one partition nearly always: as
    much chance as with fewer pages, by the number of pages in the cluster of a page."""
    return chance_imbalance(partitions, int(pages / cluster_size), int(sample_pages / cluster_size))


def read_collection(name: str, keep_one_in: int) -> Points:
    sets: list[NDArray[np.uint64]] = []
    tokens: list[NDArray[np.uint64]] = []
    urls: list[str] = []
    langs: list[str] = []
    read = extractor(Settings().extractor)
    for page in islice(real_pages(name), 0, None, keep_one_in):
        try:
            found = read(page.html or "")
            signature = sign(found.utf8)
        except BadEvent:
            continue
        sets.append(shingle_array(signature.shingles))
        tokens.append(hash_stream(text_bytes(found.text))[0])
        urls.append(page.url)
        langs.append(signature.lang)
    token_start = np.cumsum(np.array([0, *(len(one) for one in tokens)], np.int64))
    families = np.array([zlib.crc32(family(url).encode()) for url in urls], np.int64)
    return points_of(
        batch_of(sets, [tie_of(url) for url in urls], langs), np.concatenate(tokens), token_start, families
    )


def points_of(
    batch: PointBatch, words: NDArray[np.uint64], word_start: NDArray[np.int64], families: NDArray[np.int64]
) -> Points:
    """Zhu's lengths count words with repeats, by the bucket of each."""
    zhus = [_with_lengths(batch, count_by_table(words, word_start, hashed_sub_dictionaries(d), d)) for d in (1, 2, 3)]
    return Points((batch, zhus[0], zhus[1], zhus[2]), families)


def _with_lengths(batch: PointBatch, lengths: NDArray[np.int64], languages: bool = False) -> PointBatch:
    """Languages are left out unless asked for: the paper measures English pages, and they cost recall."""
    return PointBatch(batch.shingles, batch.start, batch.tie, batch.lang if languages else None, lengths)


def join(parts: list[Points]) -> Points:
    batch = join_batches([one.batches[0] for one in parts])
    zhus = [_with_lengths(batch, np.concatenate([one.batches[d].token_lengths for one in parts])) for d in (1, 2, 3)]
    return Points((batch, zhus[0], zhus[1], zhus[2]), np.concatenate([one.family for one in parts]))


def join_batches(batches: list[PointBatch]) -> PointBatch:
    return PointBatch(
        np.concatenate([one.shingles for one in batches]),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate([one.length for one in batches]))]),
        np.concatenate([one.tie for one in batches]),
        tuple(lang for one in batches for lang in one.lang or [""] * len(one)),
    )


def work_of(partition_map: PartitionMap, batches: Iterable[PointBatch]) -> Work:
    load = np.zeros(partition_map.partitions, np.int64)
    visits = np.zeros(partition_map.partitions, np.int64)
    for batch in batches:
        homes, contacted = partition_map.routes(batch)
        load += np.bincount(homes, minlength=partition_map.partitions)
        visits += contacted.sum(axis=0)
    return Work(load, visits)


def _two(work: Work) -> list[str]:
    return [f"{work.imbalance:.3f}", f"{work.contacts:.2f}"]


def tenths(points: Points) -> list[Points]:
    return [points.take(np.flatnonzero(points.batches[0].tie // 2 % 10 == i)) for i in range(10)]


def report_ten_datasets(report: Report, maps: dict[Kind, PartitionMap], datasets: list[Points]) -> None:
    """Section 6.1: the coefficient of variation of the imbalance factor over datasets."""
    rows = []
    for kind, one in maps.items():
        found = [work_of(one, [points.seen_by(kind)]).imbalance for points in datasets]
        rows.append([kind.name, f"{np.mean(found):.3f}", f"{np.std(found) / np.mean(found):.2%}"])
    pages = sum(len(points) for points in datasets) // len(datasets)
    title = f"Ten unseen datasets of about {pages} pages, 64 partitions: imbalance factor"
    report.table(title, ["map", "mean", "CV"], rows)
    report.say(f"\nWith {pages // 64} pages to a partition, chance alone makes a perfect map's imbalance about")
    report.say(f"{chance_imbalance(64, pages):.2f}.")


def bench_recall(report: Report, pages: Points, sample: Points, ours: PartitionMap) -> None:
    """Pairs found by each map among all pairs of different pages at Jaccard ≥ τ; both directions must meet."""
    pairs = exact_pairs(pages.batches[0], TAU)
    our_work = work_of(ours, [pages.batches[0]])
    rows: list[list[str]] = []

    def add(name: str, rho: float | None, one: PartitionMap, batch: PointBatch) -> None:
        lost, work = lost_pairs(one, batch, pairs), work_of(one, [batch])
        ratio = f"{work.contacts / our_work.contacts:.2f}"
        rows.append([name, f"{rho:.3g}" if rho else "–", str(lost), _recall(lost, len(pairs)), *_two(work), ratio])

    add(OURS.name, None, ours, pages.batches[0])
    for kind in KINDS[:-1]:
        for rho in (*RHOS, median_rho(pages, kind.dimensions)):
            add(kind.name, rho, kind.build(sample.seen_by(kind), 64, rho), pages.seen_by(kind))
    learned_from, measured = (
        _with_lengths(points.batches[0], points.batches[3].token_lengths, languages=True) for points in (sample, pages)
    )
    add(f"{ZHU_3_BEST.name}, languages first", 1.1, ZHU_3_BEST.build(learned_from, 64), measured)
    head = ["map", "ρ", "pairs lost", "recall", "imbalance", "contacts", "contacts / ours"]
    report.table(
        f"Recall at 64 partitions: {len(pairs)} pairs of different shingle sets at Jaccard ≥ {TAU}", head, rows
    )
    report.say("\nThe last ρ of each map is the one section 4.2 gives for the median page:")
    rows = []
    for dimensions in (1, 2, 3):
        for quantile in (0.5, 0.9):
            found = measure_variation(pages.batches[dimensions].token_lengths, pages.batches[0].length, quantile)
            rows.append([f"{dimensions}", f"{quantile}", *(f"{value:.3f}" for value in found)])
    report.table("δ, ε and ρ by quantile over pages", ["N", "quantile", "δ", "ε", "ρ"], rows)
    bench_zhu_cells(report, pages, sample, pairs, our_work.contacts)


def bench_zhu_cells(
    report: Report, pages: Points, sample: Points, pairs: NDArray[np.int64], our_contacts: float
) -> None:
    """Section 4.1 maps "larger numbers of partitions" evenly to machines and leaves open how: several ways.

    For each the least ρ that loses no pair, as ours loses none.
    """
    rows = []
    for intervals, packing in GRIDS_TRIED:
        kind = Kind("", 3, intervals, packing)
        for rho in RHOS_TRIED:
            one = kind.build(sample.seen_by(kind), 64, rho)
            lost = lost_pairs(one, pages.seen_by(kind), pairs)
            if lost == 0 or rho == RHOS_TRIED[-1]:
                break
        work = work_of(one, [pages.seen_by(kind)])
        ratio = f"{our_contacts / work.contacts:.2f}"
        grid = [f"{intervals}" if intervals else "one cell for each partition", packing]
        rows.append([*grid, f"{work.imbalance:.3f}", f"{rho:.3g}", f"{lost}", f"{work.contacts:.2f}", ratio])
    head = ["intervals", "packing", "imbalance", "ρ", "pairs lost", "contacts", "ours contacts, of these"]
    report.table("Zhu 3-D at the recall of ours: the least ρ tried that loses no pair, or the greatest", head, rows)
    report.say(f"\nρ tried: {', '.join(f'{rho:g}' for rho in RHOS_TRIED)}. Ours contacts {our_contacts:.2f}.")


def median_rho(pages: Points, dimensions: int) -> float:
    lengths = pages.batches[dimensions].token_lengths
    return min(max(measure_variation(lengths, pages.batches[0].length, 0.5).rho, 1.0), 100.0)


def _recall(lost: int, pairs: int) -> str:
    return f"{1 - lost / max(pairs, 1):.4f}" if lost else "1.0000"


def lost_pairs(partition_map: PartitionMap, batch: PointBatch, pairs: NDArray[np.int64]) -> int:
    return count_lost(*partition_map.routes(batch), pairs)


def count_lost(homes: NDArray[np.int64], contacted: NDArray[np.bool_], pairs: NDArray[np.int64]) -> int:
    """Pairs that do not meet both ways, whoever comes last."""
    one, other = pairs[:, 0], pairs[:, 1]
    return int((~(contacted[one, homes[other]] & contacted[other, homes[one]])).sum())


def exact_pairs(batch: PointBatch, tau: float) -> NDArray[np.int64]:
    """All pairs of different sets at Jaccard ≥ τ: they share one of their (1 − τ)·a + 1 rarest shingles."""
    known: dict[bytes, int] = {}
    for page in range(len(batch)):
        known.setdefault(batch.shingles[batch.start[page] : batch.start[page + 1]].tobytes(), page)
    pages = np.array(sorted(known.values(), key=lambda page: (int(batch.length[page]), page)), np.int64)
    distinct = batch.take(pages[batch.length[pages] > 0])
    _, place, frequency = np.unique(distinct.shingles, return_inverse=True, return_counts=True)
    rank = np.empty(len(frequency), np.int64)
    rank[np.argsort(frequency, kind="stable")] = np.arange(len(frequency))
    ranked = rank[place]
    for page in range(len(distinct)):
        ranked[distinct.start[page] : distinct.start[page + 1]].sort()
    found = _prefix_pairs(ranked, distinct.start, len(frequency), tau)
    return pages[batch.length[pages] > 0][found]


@njit(cache=True)
def _prefix_pairs(ranked: NDArray[np.int64], start: NDArray[np.int64], ranks: int, tau: float) -> NDArray[np.int64]:
    """Sets come in ascending length, each as ascending ranks."""
    count = len(start) - 1
    prefix = np.zeros(count, np.int64)
    total = 0
    for page in range(count):
        length = start[page + 1] - start[page]
        prefix[page] = length - int(np.ceil(tau * length - 1e-9)) + 1
        total += prefix[page]
    first = np.full(ranks, -1, np.int64)
    following = np.full(total, -1, np.int64)
    owner = np.zeros(total, np.int64)
    seen = np.full(count, -1, np.int64)
    pairs = []
    entries = 0
    for page in range(count):
        length = start[page + 1] - start[page]
        for at in range(start[page], start[page] + prefix[page]):
            entry = first[ranked[at]]
            while entry >= 0:
                other = owner[entry]
                if start[other + 1] - start[other] < tau * length - 1e-9:
                    break  # lists run from long to short
                if seen[other] != page:
                    seen[other] = page
                    common = _common(ranked, start[page], start[page + 1], start[other], start[other + 1])
                    if common >= tau * (length + start[other + 1] - start[other] - common) - 1e-9:
                        pairs.append((page, other))
                entry = following[entry]
        for at in range(start[page], start[page] + prefix[page]):
            owner[entries], following[entries] = page, first[ranked[at]]
            first[ranked[at]] = entries
            entries += 1
    table = np.empty((len(pairs), 2), np.int64)
    for row in range(len(pairs)):
        table[row, 0], table[row, 1] = pairs[row]
    return table


@njit(cache=True)
def _common(ranked: NDArray[np.int64], at: int, end: int, other_at: int, other_end: int) -> int:
    common = 0
    while at < end and other_at < other_end:
        if ranked[at] == ranked[other_at]:
            common, at, other_at = common + 1, at + 1, other_at + 1
        elif ranked[at] < ranked[other_at]:
            at += 1
        else:
            other_at += 1
    return common


def bench_real_samples(report: Report, collections: dict[str, Points], together: Points) -> None:
    rows = []
    for name, points in {**collections, "together": together}.items():
        for split, number in (("page", points.batches[0].tie), ("family", points.family)):
            sample, unseen = (points.batches[0].take(np.flatnonzero(number % 2 == side)) for side in (0, 1))
            rows += [[name, split, *cells] for cells in sample_rows(sample, unseen, (8, 64))]
    head = ["collection", "halves by", *SAMPLE_HEAD]
    report.table("Sample and unseen side by side, ours: half of the pages, or half of the families", head, rows)
    report.say(
        "\nA family is a page in all its versions; unseen families are other pages altogether, and there are few."
    )


SAMPLE_HEAD = [
    "sample pages",
    "partitions",
    "imbalance, sample",
    "imbalance, unseen",
    "chance alone",
    "and the sample's",
    "contacts, sample",
    "contacts, unseen",
    "build, s",
]


def sample_rows(sample: PointBatch, unseen: PointBatch, counts: Iterable[int]) -> Iterator[list[str]]:
    for partitions in counts:
        if len(sample) >= partitions * SAMPLE_PAGES_PER_PARTITION_MIN:
            one, seconds = timed_map(sample, partitions)
            yield sample_row(len(sample), work_of(one, [sample]), work_of(one, [unseen]), seconds)


def sample_row(sample_pages: int, own: Work, others: Work, seconds: float) -> list[str]:
    pages, partitions = int(others.load.sum()), len(own.load)
    imbalances = [f"{work.imbalance:.3f}" for work in (own, others)]
    floors = [f"{chance_imbalance(partitions, pages, placed_by):.3f}" for placed_by in (0, sample_pages)]
    contacts = [f"{work.contacts:.2f}" for work in (own, others)]
    return [f"{sample_pages}", f"{partitions}", *imbalances, *floors, *contacts, f"{seconds:.1f}"]


def timed_map(sample: PointBatch, partitions: int) -> tuple[LosslessMap, float]:
    """Processor time, which neighbours on the machine disturb less than time on the wall."""
    before = time.process_time()
    one = learn_lossless_map(sample, partitions, TAU)
    return one, time.process_time() - before


def bench_default_map(report: Report, collections: dict[str, Points]) -> None:
    """What a run could have without a sample: the generic map, or one learned from the pages that come first."""
    rows = []
    for name, points in collections.items():
        batch = points.batches[0]
        works = [work_of(default_map(p, TAU), [batch]) for p in (8, 64)]
        first = build_map(batch.take(np.arange(min(FIRST_PAGES, len(batch) // 2))), 8, TAU)
        rows.append([name, str(len(points)), *_two(works[0]), *_two(works[1]), *_two(work_of(first, [batch]))])
    head = ["collection", "pages", "imbalance, P = 8", "contacts", "imbalance, P = 64", "contacts"]
    head += ["from the first pages: imbalance, P = 8", "contacts"]
    report.table("The default map, learned from nothing", head, rows)
    report.say(
        f"\nThe last columns: a map learned from the first {FIRST_PAGES} pages in the order of the file, or half of it."
    )


def bench_sub_dictionaries(report: Report, sample: PointBatch, unseen: PointBatch) -> None:
    """One table of N sub-dictionaries for the whole map, hashed or clustered, against one learned for each cut."""
    rows = []
    for dimensions in (3, 10):
        for name, table in (
            ("by hash", hashed_sub_dictionaries(dimensions)),
            ("clustered", clustered_sub_dictionaries(sample, dimensions)),
        ):
            masks: list[Mask] = [table == i for i in range(dimensions)]
            fixed = learn_lossless_map(sample, 64, TAU, lambda profile, learners, divide, own=masks: own)
            rows.append([f"N = {dimensions}, {name}", *_two(work_of(fixed, [unseen]))])
    learned = learn_lossless_map(sample, 64, TAU)
    rows.append(["one for each cut, learned", *_two(work_of(learned, [unseen]))])
    head = ["sub-dictionaries", "imbalance, unseen", "contacts, unseen"]
    report.table("Sub-dictionaries of the lossless map, 64 partitions", head, rows)
    report.say(f"\nThe map with one sub-dictionary for each cut has {len(map_to_bytes(learned)):,} bytes.")


def bench_split_by_hash(report: Report, maps: dict[Kind, dict[int, PartitionMap]], unseen: PointBatch) -> None:
    """A map for 32 partitions, each then halved by a hash of the URL: twice the sample pages to a cut."""
    homes, contacted = maps[OURS][32].routes(unseen)
    load = np.bincount(2 * homes + (unseen.tie >> 20) % 2, minlength=64)
    whole = work_of(maps[OURS][64], [unseen])
    rows = [
        ["64 cells", *_two(whole)],
        [
            "32 cells, each over two partitions by hash",
            f"{imbalance_factor(load):.3f}",
            f"{2 * contacted.sum(axis=1).mean():.2f}",
        ],
    ]
    head = ["partitions", "imbalance, unseen", "contacts, unseen"]
    report.table("Cells split by hash, 64 partitions", head, rows)


def clustered_sub_dictionaries(batch: PointBatch, clusters: int) -> NDArray[np.uint8]:
    """Buckets by k-means on their loadings in the leading components of the pages' bucket shares."""
    profile = bucket_profile(batch)
    pages = np.flatnonzero(batch.length > 0)[:: max(1, len(batch) // 4000)]
    components = principal_components(profile, pages, 12, 8).T
    loading = components / (np.linalg.norm(components, axis=1, keepdims=True) + 1e-12)
    centre = loading[np.linspace(0, len(loading) - 1, clusters).astype(int)]
    label = np.zeros(len(loading), np.int64)
    for _ in range(30):
        label = ((loading[:, None, :] - centre[None]) ** 2).sum(axis=2).argmin(axis=1)
        centre = np.array(
            [loading[label == i].mean(axis=0) if (label == i).any() else centre[i] for i in range(clusters)]
        )
    return label.astype(np.uint8)


class Tally:
    """A map's work and losses, added up over chunks of pages."""

    def __init__(self, partition_map: PartitionMap) -> None:
        self.map = partition_map
        self.work = Work(np.zeros(partition_map.partitions, np.int64), np.zeros(partition_map.partitions, np.int64))
        self.pairs = 0
        self.lost = 0

    def add(self, batch: PointBatch, pairs: NDArray[np.int64]) -> None:
        homes, contacted = self.map.routes(batch)
        load = np.bincount(homes, minlength=self.map.partitions)
        self.work = Work(self.work.load + load, self.work.visits + contacted.sum(axis=0))
        self.pairs += len(pairs)
        self.lost += count_lost(homes, contacted, pairs)


class Web(NamedTuple):
    """The generated web: how many pages, a sample drawn from it, and how many pages the cluster of a page has."""

    pages: int
    sample: Points
    cluster_size: float


class SampleTrial(NamedTuple):
    """A map of ours from one sample, what it does with that sample, and the processor time it took."""

    drawn_from: str
    sample_pages: int
    tally: Tally
    own: Work
    seconds: float


def bench_generated(folder: Path, count: int) -> Report:
    """A generated web with Zhu's lengths; maps from a sample of it, measured on all pages."""
    report = Report(folder, "Generated pages")
    progress(f"generated: a sample of {count} pages")
    web = draw_sample(count)
    sample = web.sample
    report.say(f"\n## {count} generated pages with Zhu's lengths: maps from {len(sample)} of them, drawn by hash\n")
    report.say(
        "Here Zhu's lengths count distinct shingles by their first word: the generated pages have no other words."
    )
    report.say(f"Ours is measured on all of the pages, Zhu's maps on every {ZHU_CHUNKS}th chunk of 8,192.")
    tallies = {
        kind: {p: Tally(kind.build(sample.seen_by(kind), p)) for p in PARTITION_COUNTS}
        for kind in KINDS
        if kind != OURS
    }
    ours = {p: sample_trial("these", sample.batches[0], p) for p in PARTITION_COUNTS}
    tallies[OURS] = {p: trial.tally for p, trial in ours.items()}
    others = other_samples(web)
    tally_generated(count, tallies, [trial.tally for trial in others])
    floors = {"which pages were drawn": lambda partitions: drawn_floor(partitions, count, len(sample))}
    works = {kind: {p: tally.work for p, tally in by_count.items()} for kind, by_count in tallies.items()}
    report_figures(report, works, "generated", "all pages", floors)
    report_planted(report, {kind: by_count[64] for kind, by_count in tallies.items()})
    datasets = [join([points for points, _ in generated_chunks(8192, seed=100 + i)]) for i in range(10)]
    report_ten_datasets(report, {kind: tallies[kind][64].map for kind in KINDS}, datasets)
    report_samples(report, web, [ours[8], ours[64], *others])
    return report


def draw_sample(count: int) -> Web:
    """By the hash of a page's number, which stands for its URL here."""
    parts: list[Points] = []
    first, squares = 0, 0
    for points, clusters in generated_chunks(count, WEB_SEED):
        numbers = np.arange(first + 1, first + len(points) + 1, dtype=np.uint64)
        parts.append(points.take(np.flatnonzero(mix64(numbers) < np.uint64(SAMPLE_SHARE * 2**64))))
        squares += int((np.unique(clusters, return_counts=True)[1] ** 2).sum())
        first += len(points)
    return Web(count, join(parts), squares / count)


def sample_trial(drawn_from: str, sample: PointBatch, partitions: int) -> SampleTrial:
    progress(f"generated: a map for {partitions} partitions from {len(sample)} of {drawn_from} pages")
    one, seconds = timed_map(sample, partitions)
    return SampleTrial(drawn_from, len(sample), Tally(one), work_of(one, [sample]), seconds)


def other_samples(web: Web) -> list[SampleTrial]:
    """Smaller ones, and one as large of another web."""
    own = web.sample.batches[0]
    trials = [sample_trial("these", own.take(np.arange(0, len(own), step)), 64) for step in SAMPLE_STEPS]
    other = join_batches([points.batches[0] for points, _ in generated_chunks(len(own), OTHER_WEB_SEED)])
    return [*trials, sample_trial("others", other, 64)]


def report_planted(report: Report, tallies: dict[Kind, Tally]) -> None:
    rows = [[kind.name, str(one.pairs), str(one.lost), _recall(one.lost, one.pairs)] for kind, one in tallies.items()]
    title = "Planted near duplicates, 64 partitions (Zhu's at ρ = 1.1)"
    report.table(title, ["map", "pairs", "pairs lost", "recall"], rows)


def report_samples(report: Report, web: Web, trials: list[SampleTrial]) -> None:
    head = ["sample drawn from", "sample pages", "partitions", "imbalance, sample", "imbalance, unseen"]
    head += ["imbalance, all", "chance alone, all", "contacts, all", "pairs lost", "build, s"]
    report.table(
        "The sample: drawn from these pages, or from others, ours", head, (trial_row(web, one) for one in trials)
    )
    report.say(
        f"\nThe cluster of near duplicates that a page belongs to has {web.cluster_size:.2f} pages in the mean. Such a"
    )
    report.say(
        "cluster comes together, and chance is counted so where the sample is of others. A sample of these pages is"
    )
    report.say("drawn page by page, and chance is in the drawing only.")


def trial_row(web: Web, trial: SampleTrial) -> list[str]:
    drawn = trial.drawn_from == "these"
    everyone, partitions = trial.tally.work, len(trial.own.load)
    unseen = everyone.without(trial.own) if drawn else everyone
    if drawn:
        floor = drawn_floor(partitions, web.pages, trial.sample_pages)
    else:
        floor = others_floor(partitions, web.pages, trial.sample_pages, web.cluster_size)
    imbalances = [f"{work.imbalance:.3f}" for work in (trial.own, unseen, everyone)]
    ends = [f"{floor:.3f}", f"{everyone.contacts:.2f}", f"{trial.tally.lost}", f"{trial.seconds:.1f}"]
    return [trial.drawn_from, f"{trial.sample_pages}", f"{partitions}", *imbalances, *ends]


def tally_generated(count: int, tallies: dict[Kind, dict[int, Tally]], others: list[Tally]) -> None:
    """Runs the generated web past every map."""
    for number, (points, clusters) in enumerate(generated_chunks(count, WEB_SEED)):
        near = neighbours_in_clusters(clusters)
        for kind, by_count in tallies.items():
            if kind == OURS or number % ZHU_CHUNKS == 0:
                for tally in by_count.values():
                    tally.add(points.seen_by(kind), near)
        for tally in others:
            tally.add(points.batches[0], near)
        if number % 10 == 0:
            progress(f"generated: page {number * len(points)} of {count}")


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def generated_chunks(count: int, seed: int) -> Iterator[tuple[Points, NDArray[np.int64]]]:
    for chunk in shingle_sets(count, seed):
        numbers = np.arange(chunk.first_page, chunk.first_page + len(chunk.offsets) - 1)
        ties = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
        batch = PointBatch(chunk.shingles, chunk.offsets.astype(np.int64), ties.astype(np.int64))
        yield points_of(batch, batch.shingles, batch.start, chunk.clusters), chunk.clusters


def neighbours_in_clusters(clusters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pages of one cluster, each with the next."""
    order = np.argsort(clusters, kind="stable")
    same = clusters[order[1:]] == clusters[order[:-1]]
    return np.stack([order[1:][same], order[:-1][same]], axis=1)


if __name__ == "__main__":
    main()
