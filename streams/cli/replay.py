"""`dustream replay`: a historical log into a fresh application."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dustream.streams.cli.arguments import count

if TYPE_CHECKING:
    from dustream.core.topology import Topology
    from dustream.streams.kafka.application import Application
    from dustream.streams.kafka.cluster import KafkaCluster

POLL_S = 1.0

DESCRIPTION = """\
Process a historical log in a fresh application with its own topics and state, perhaps with other settings. The running
application is not touched; compare the two before you switch over.

The log is the crawl topic of --name (or --input-topic), all of it or a part: --since and --until are times at which
records were written, --offsets are PARTITION:FROM-TO. With INPUT, it is read from files instead.
"""

EXAMPLES = """\
examples:
  dustream replay --into trial --threshold 0.85
  dustream replay --into trial --since 2026-01-01 --until 2026-02-01 --fresh
  dustream replay --into trial --offsets 0:0-5000 --offsets 1:0-5000
  dustream replay --from files --into trial 'crawl/*.warc.gz' --config other.toml
  dustream replay --into trial --partition-map cells.map
  dustream compare dustream trial
"""


def add_parser(subparsers: Any) -> None:
    from dustream.streams.cli.run import add_field_map, add_partition_map, add_settings
    from dustream.streams.cli.topics import add_cluster

    parser: argparse.ArgumentParser = subparsers.add_parser(
        "replay",
        help="process a historical log in a fresh application",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="files instead of the crawl topic")
    parser.add_argument("--into", required=True, metavar="NAME", help="the fresh application")
    add_cluster(parser)
    add_settings(parser)
    add_partition_map(parser)
    add_field_map(parser)
    parser.add_argument(
        "--from",
        choices=("topic", "files"),
        dest="log",
        help="what to replay: the crawl topic, or INPUT (default: the files if any are named)",
    )
    parser.add_argument("--since", metavar="TIME", help="records written at or after this time (RFC 3339, or a day)")
    parser.add_argument("--until", metavar="TIME", help="records written before this time")
    parser.add_argument("--offsets", action="append", default=[], metavar="P:FROM-TO", help="only these offsets")
    parser.add_argument("--fresh", action="store_true", help="delete what an earlier replay into NAME left")
    parser.add_argument(
        "--workers", type=count, default=1, metavar="N", help="workers to start; 0: only publish (default 1)"
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="local state of the workers (default: a temporary folder)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the files of `dustream run` here")
    parser.add_argument("--json", action="store_true", help="print counts as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.core.errors import BadSetting
    from dustream.streams.cli.topics import read_application
    from dustream.streams.kafka.replay import parse_moment

    args.since, args.until = parse_moment("--since", args.since), parse_moment("--until", args.until)
    cluster, source = read_application(args)
    if args.into == args.name:
        raise BadSetting("--into must name another application than the one replayed")
    if args.log is not None and (args.log == "files") != bool(args.inputs):
        raise BadSetting("--from files needs INPUT, and --from topic takes none")
    if args.inputs and (args.since is not None or args.until is not None or args.offsets):
        raise BadSetting("--since, --until and --offsets choose records of the crawl topic: they do not go with files")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # workers end with us
    try:
        _replay(args, cluster, source)
    except KeyboardInterrupt:
        print(f"dustream: interrupted; to replay into {args.into} again, add --fresh", file=sys.stderr)
        return 130
    return 0


def _replay(args: argparse.Namespace, cluster: KafkaCluster, source: Application) -> None:
    import tempfile

    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dustream-replay-") as temporary:
        data = args.data or Path(temporary)
        target, topology, fed = _feed(args, cluster, source, data)
        if args.workers:
            _work(args, cluster, target, topology, data)
            _report(args, cluster, target, fed, time.monotonic() - started, Path(temporary))
        else:
            _tell_next(args, target, fed)


def _tell_next(args: argparse.Namespace, target: Application, fed: str) -> None:
    import json
    import shlex

    command = shlex.join(["dustream", "worker", "--name", target.name, *_settings(args)])
    print(json.dumps({"into": target.name, "fed": fed, "next": command}) if args.json else f"{fed} fed; now: {command}")


def _feed(
    args: argparse.Namespace, cluster: KafkaCluster, source: Application, data: Path
) -> tuple[Application, Topology, str]:
    from dustream.streams.cli.run import read_map, read_settings
    from dustream.streams.kafka.application import CRAWL_PAGES, Application
    from dustream.streams.kafka.assembly import planned_topology, with_input_partitions
    from dustream.streams.kafka.replay import copy_log, parse_offsets, plan_stretches, prepare
    from dustream.streams.kafka.topics import partition_counts
    from dustream.streams.readers import expand_paths

    target, settings, partition_map = Application(args.into), read_settings(args), read_map(args.partition_map)
    topology = planned_topology(settings, cluster, target)
    if args.inputs:
        expand_paths(args.inputs)  # fails on a missing file before anything is created
        prepare(cluster, target, topology, settings, partition_map, fresh=args.fresh)
        return target, topology, f"{_publish(args, cluster, target, data / 'published'):,} events"
    log = source.topic(CRAWL_PAGES)
    stretches = plan_stretches(cluster, log, args.since, args.until, parse_offsets(args.offsets))
    topology = with_input_partitions(topology, partition_counts(cluster)[log])
    prepare(cluster, target, topology, settings, partition_map, fresh=args.fresh)
    bar = _bar(args, sum(stretch.end - stretch.start for stretch in stretches), "feeding")
    copied = copy_log(cluster, log, stretches, target, bar.update)
    bar.close()
    return target, topology, f"{copied:,} records"


def _publish(args: argparse.Namespace, cluster: KafkaCluster, target: Application, progress: Path) -> int:
    """Publish the files; how many events."""
    from dustream.core.errors import UnreadableInput
    from dustream.streams.cli.publish import publish_shown

    done = publish_shown(args, cluster, target, progress)
    if done.unread and not done.events:
        raise UnreadableInput(f"nothing to replay into {target.name}: name other files, and add --fresh")
    return done.events


def _work(args: argparse.Namespace, cluster: KafkaCluster, target: Application, topology: Topology, data: Path) -> None:
    """Run workers until there is nothing left to do."""
    import subprocess

    from dustream.core.errors import DustreamError
    from dustream.streams.kafka.settled import unsettled

    options = ["--bootstrap", cluster.bootstrap, "--name", target.name, "--log-level", "warning", *_settings(args)]
    command = [sys.executable, "-m", "dustream.streams.cli.main", "worker", *options]
    workers = [subprocess.Popen([*command, "--data", str(data / f"worker-{number}")]) for number in range(args.workers)]
    bar = _bar(args, None, "working")
    try:
        while left := unsettled(cluster, target, topology):
            bar.set_description("to do: " + ", ".join(f"{count:,} {topic}" for topic, count in sorted(left.items())))
            if any(worker.poll() is not None for worker in workers):
                raise DustreamError("a worker ended before it was finished: see above")
            time.sleep(POLL_S)
    finally:
        bar.close()
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()


def _settings(args: argparse.Namespace) -> list[str]:
    from dustream.streams.cli.run import SETTING_OPTIONS

    names = ("config", *SETTING_OPTIONS)
    given = [(name.replace("_", "-"), getattr(args, name)) for name in names if getattr(args, name) is not None]
    return [text for name, value in given for text in (f"--{name}", str(value))]


def _report(
    args: argparse.Namespace, cluster: KafkaCluster, target: Application, fed: str, seconds: float, temporary: Path
) -> None:
    import msgspec

    from dustream.streams.kafka.outcome import export
    from dustream.streams.store.rocks import RocksStore

    store = RocksStore(temporary / "outcome")
    outcome = export(cluster, target, store, args.out or temporary / "out")
    store.close()
    if args.json:
        print(msgspec.json.encode({"into": target.name, "seconds": round(seconds, 3), **outcome._asdict()}).decode())
        return
    roles = ", ".join(f"{count:,} {role}" for role, count in outcome.roles.items())
    print(f"{fed} replayed into {target.name} in {seconds:.1f} s: {roles}; {outcome.groups:,} groups")
    print(f"state hash {outcome.state_hash}; next: dustream compare {args.name} {target.name}")


def _bar(args: argparse.Namespace, total: int | None, text: str) -> Any:
    from tqdm import tqdm

    return tqdm(total=total, desc=text, leave=False, disable=args.quiet or not sys.stderr.isatty())
