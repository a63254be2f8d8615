"""`dustream publish`: crawl events from files into Kafka."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dustream.streams.kafka.application import Application
    from dustream.streams.kafka.cluster import KafkaCluster
    from dustream.streams.kafka.publish import Published

DESCRIPTION = """\
Read crawled pages and publish them as crawl events. INPUT is as for `dustream run`.

Events are keyed by URL and packed, many to a record; --single publishes one JSON event a record, as other Kafka clients
do. If interrupted, run the same command again: it resumes (an event that arrives twice changes nothing).
"""

EXAMPLES = """\
examples:
  dustream publish crawl.warc.gz
  dustream publish 'crawl/*.jsonl.zst' --bootstrap kafka:9092 --name trial
  kcat -b 127.0.0.1:9092 -P -t dustream.crawl.pages < one-event-per-line.jsonl
"""


def add_parser(subparsers: Any) -> None:
    from dustream.streams.cli.run import add_field_map
    from dustream.streams.cli.topics import add_cluster

    parser: argparse.ArgumentParser = subparsers.add_parser(
        "publish",
        help="publish crawled pages to Kafka",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="file, folder, pattern, or - for standard input")
    add_cluster(parser)
    add_field_map(parser)
    parser.add_argument("--single", action="store_true", help="one event a record, as JSON")
    parser.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        help="where progress is kept (default: ~/.local/share/dustream/publish/NAME)",
    )
    parser.add_argument("--json", action="store_true", help="print counts as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import msgspec

    from dustream.streams.cli.terminal import say_unread
    from dustream.streams.cli.topics import read_application

    cluster, application = read_application(args)
    state = args.state or Path.home() / ".local" / "share" / "dustream" / "publish" / args.name
    done = publish_shown(args, cluster, application, state, single=args.single)
    if args.json:
        print(msgspec.json.encode(done).decode())
    else:
        print(
            f"{done.events:,} events in {done.records:,} records ({done.bytes_sent / 1e6:,.1f} MB), "
            f"{done.rejected:,} rejected"
        )
    unread = say_unread(done.unread)
    return 1 if unread and not done.events else unread


def publish_shown(
    args: argparse.Namespace, cluster: KafkaCluster, application: Application, state: Path, *, single: bool = False
) -> Published:
    """Publish the inputs with a progress bar; the counts."""
    from dustream.streams.cli.publish_bar import PublishBar
    from dustream.streams.kafka.publish import publish_files
    from dustream.streams.readers import parse_field_map

    bar = PublishBar(show=not args.quiet and sys.stderr.isatty())
    try:
        return publish_files(
            cluster,
            application,
            args.inputs,
            state,
            field_map=parse_field_map(args.map),
            single=single,
            listener=bar,
        )
    finally:
        bar.close()
