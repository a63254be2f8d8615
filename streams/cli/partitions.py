"""`dustream partitions`: build a partition map from input and show how evenly it spreads the pages."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dustream.core.tier2.partition_map import Balance, PartitionMap
    from dustream.streams.page_sample import PageSample

SAMPLE_PAGES_DEFAULT = 20_000
SAMPLE_PAGES_PER_PARTITION = 6_000  # chance then moves a partition's load by little more than 1 %
SAMPLE_PAGES_MAX = 1_000_000

DESCRIPTION = """\
Build a partition map from a sample of pages: the home partition of each page, and the partitions that may hold near
duplicates of it. Prints the load of each partition, the imbalance factor (fullest over mean) and the mean number of
partitions a page contacts (its own included), measured on the sample. Other pages spread as evenly as chance allows:
with n sample pages for each partition, loads differ by about 1/sqrt(n). `dustream run --partition-map` uses the map.

Kinds: ours, which loses no pair at Jaccard >= tau; zhu1, zhu2 and zhu3, the grids of Zhu et al., for comparison.
"""
EXAMPLES = """\
examples:
  dustream partitions crawl.warc.gz --partitions 64 --picture map.svg
  dustream partitions 'crawl/*.jsonl.zst' --partitions 16 --tau 0.8 --out map.bin
  dustream partitions crawl.warc.gz --kind zhu3 --rho 1.2 --json
  dustream partitions crawl.warc.gz --kind zhu3 --intervals 16 --packing spread
"""


def add_parser(subparsers: Any) -> None:
    from dustream.streams.cli.run import add_field_map

    parser = subparsers.add_parser(
        "partitions",
        help="build a partition map and show its balance",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="file, folder or pattern, as for `dustream run`")
    parser.add_argument("--partitions", type=int, default=8, metavar="P", help="number of partitions (default 8)")
    parser.add_argument("--tau", type=float, default=0.9, metavar="T", help="similarity threshold (default 0.9)")
    parser.add_argument("--kind", choices=("ours", "zhu1", "zhu2", "zhu3"), default="ours", help="default ours")
    parser.add_argument("--rho", type=float, default=1.1, help="Zhu's interval enlarging factor (default 1.1)")
    parser.add_argument(
        "--intervals",
        type=int,
        default=32,
        metavar="N",
        help="intervals in each dimension of Zhu's grids (default 32; 0: as few as give each partition a cell)",
    )
    parser.add_argument(
        "--packing",
        choices=("morton", "spread"),
        default="morton",
        help="how the cells of Zhu's grids become partitions: runs of equal load along the Morton order, which keeps "
        "neighbours together (default), or the heaviest first, each to the emptiest partition",
    )
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help=f"sample size; pages are chosen by the hash of their URL (default {SAMPLE_PAGES_DEFAULT}, or "
        f"{SAMPLE_PAGES_PER_PARTITION} for each partition where that is more)",
    )
    add_field_map(parser)
    parser.add_argument("--text", choices=("main", "full"), default="main", help="main text of a page, or all of it")
    parser.add_argument("--extractor", choices=("scan", "resiliparse"), help="extractor of the text")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the map to this file")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw lengths, cuts and loads")
    parser.add_argument("--describe", action="store_true", help="print every cut")
    parser.add_argument("--json", action="store_true", help="print numbers as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.core.errors import BadSetting
    from dustream.core.tier2.partition_map import build_map, map_to_bytes, measure_balance
    from dustream.core.tier2.points import require_partitions, tau_parts

    require_partitions(args.partitions)
    tau_parts(args.tau)
    if args.sample is not None and not 1 <= args.sample <= SAMPLE_PAGES_MAX:
        raise BadSetting(f"--sample {args.sample}: choose from 1 to {SAMPLE_PAGES_MAX} pages")
    sample = _read_sample(args, args.sample or sample_size(args.partitions))
    if len(sample.batch) == 0:
        raise BadSetting(f"no page with content among {sample.read} records: a map needs pages to be built from")
    partition_map = build_map(
        sample.batch, args.partitions, args.tau, args.kind, args.rho, args.intervals, args.packing
    )
    balance = measure_balance(partition_map, sample.batch)
    if args.out is not None:
        _write(args.out, map_to_bytes(partition_map))
    if args.picture is not None:
        from dustream.streams.partition_picture import draw_partition_map

        _write(args.picture, draw_partition_map(partition_map, sample.batch.length, balance).encode())
    print(
        _as_json(args, sample, partition_map, balance) if args.json else _as_text(args, sample, partition_map, balance)
    )
    return 0


def sample_size(partitions: int) -> int:
    """Sample pages for a map that is even on unseen pages, too: the error of a cut falls with the sample's size."""
    return min(max(SAMPLE_PAGES_DEFAULT, SAMPLE_PAGES_PER_PARTITION * partitions), SAMPLE_PAGES_MAX)


def _read_sample(args: argparse.Namespace, pages_max: int) -> PageSample:
    from tqdm import tqdm

    from dustream.core.settings import Settings
    from dustream.core.text.extractors import TextSource
    from dustream.streams.page_sample import sample_pages
    from dustream.streams.readers import parse_field_map

    source = TextSource(args.text, args.extractor or Settings().extractor)
    with tqdm(unit=" pages", disable=args.json or not sys.stderr.isatty(), leave=False) as bar:

        def show(read: int) -> None:
            bar.update(read - bar.n)

        jobs = os.cpu_count() or 1
        return sample_pages(args.inputs, pages_max, source, jobs, parse_field_map(args.map), show)


def _write(path: Path, content: bytes) -> None:
    """Atomic: a reader never sees half a map."""
    from dustream.core.errors import BadSetting

    partial = path.with_name(path.name + ".part")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise BadSetting(f"{path} cannot be written: {error.strerror}") from error


def _as_text(args: argparse.Namespace, sample: PageSample, partition_map: PartitionMap, balance: Balance) -> str:
    from dustream.core.tier2.partition_map import chance_imbalance, map_id

    pages = len(sample.batch)
    highest = max(int(balance.load.max()), 1)
    lines = [
        f"{pages} pages in the sample, of {sample.read} records, {sample.unusable} without usable content, "
        f"{sample.passed_over} passed over by the hash of their URL",
        f"map {map_id(partition_map)}: {args.kind}, {args.partitions} partitions, tau {args.tau}",
        "",
        "partition    pages  compared there",
    ]
    for number, (load, visits) in enumerate(zip(balance.load.tolist(), balance.visits.tolist(), strict=True)):
        lines.append(f"{number:9d} {load:8d} {visits:15d}  {'#' * round(40 * load / highest)}")
    lines += [
        "",
        f"imbalance factor (fullest / mean): {balance.imbalance_factor:.3f}",
        f"  by chance, on as many new pages: {chance_imbalance(args.partitions, pages, pages):.3f}",
        f"partitions contacted per page:     {balance.contacts_mean:.2f} mean, {balance.contacts_max} at most",
        f"communication avoided:             {balance.communication_avoided:.1%}",
    ]
    lines += [f"map written to {args.out}"] if args.out is not None else []
    lines += [f"picture drawn in {args.picture}"] if args.picture is not None else []
    lines += ["", partition_map.describe()] if args.describe else []
    return "\n".join(lines)


def _as_json(args: argparse.Namespace, sample: PageSample, partition_map: PartitionMap, balance: Balance) -> str:
    import msgspec

    from dustream.core.tier2.partition_map import chance_imbalance, map_id

    pages = len(sample.batch)
    report = {
        "map": map_id(partition_map),
        "kind": args.kind,
        "partitions": args.partitions,
        "tau": args.tau,
        "records_read": sample.read,
        "unusable": sample.unusable,
        "passed_over": sample.passed_over,
        "sample_pages": pages,
        "load": balance.load.tolist(),
        "visits": balance.visits.tolist(),
        "imbalance_factor": balance.imbalance_factor,
        "imbalance_factor_by_chance": chance_imbalance(args.partitions, pages, pages),
        "contacts_mean": balance.contacts_mean,
        "contacts_max": balance.contacts_max,
        "communication_avoided": balance.communication_avoided,
    }
    return msgspec.json.encode(report).decode()
