"""`dustream topics`: the topics of an application, and the options that name the application and its cluster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dustream.core.settings import Settings
    from dustream.core.topology import Topology
    from dustream.streams.kafka.application import Application
    from dustream.streams.kafka.cluster import KafkaCluster
    from dustream.streams.kafka.topics import TopicPlans

DESCRIPTION = """\
Create, describe or check the topics of an application: its crawl topic, the topics between stages, the public outputs
and the changelogs of its state.

  create    create missing topics; existing ones must fit
  describe  print the topology and every topic as it should be
  check     compare topics and settings with those on the cluster

Partitions and the partition map cannot be changed later: choose at least as many partitions as the workers you will
ever need. The map is stored on the maps topic, and all workers use it.
"""

EXAMPLES = """\
examples:
  dustream topics create
  dustream topics create --name trial --partitions 16 --replication 3
  dustream partitions sample.warc.gz --partitions 16 --out cells.map; dustream topics create --partition-map cells.map
  dustream topics check --input-topic crawler.fetched
"""


def add_parser(subparsers: Any) -> None:
    from dustream.streams.cli.run import add_partition_map, add_settings

    parser: argparse.ArgumentParser = subparsers.add_parser(
        "topics",
        help="create, describe or check the Kafka topics",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("create", "describe", "check"))
    add_cluster(parser)
    add_settings(parser)
    add_partition_map(parser)
    parser.add_argument(
        "--replication", type=int, default=-1, metavar="N", help="replicas of each topic (default: the cluster's)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Which cluster, which application, and where its input comes from."""
    add_application(parser)
    parser.add_argument(
        "--input-topic", metavar="TOPIC", help="read crawl events from this topic (default: NAME.crawl.pages)"
    )


def add_application(parser: argparse.ArgumentParser) -> None:
    """Which cluster and which application."""
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="the Kafka cluster (default: DUSTREAM_BOOTSTRAP, or 127.0.0.1:9092)"
    )
    parser.add_argument(
        "--name", default="dustream", metavar="NAME", help="the application: prefix of its topics (default: dustream)"
    )


def read_application(args: argparse.Namespace) -> tuple[KafkaCluster, Application]:
    """The cluster, which must answer, and the application."""
    from dustream.streams.kafka.application import Application
    from dustream.streams.kafka.cluster import read_cluster, require_answer

    cluster = read_cluster(args.bootstrap)
    require_answer(cluster)
    return cluster, Application(args.name, args.input_topic)


def run(args: argparse.Namespace) -> int:
    from dustream.streams.cli.run import read_map, read_settings
    from dustream.streams.cli.terminal import number_of
    from dustream.streams.kafka.assembly import planned_topology
    from dustream.streams.kafka.maps import create_application
    from dustream.streams.kafka.topics import plan_topics

    cluster, application = read_application(args)
    settings = read_settings(args)
    topology = planned_topology(settings, cluster, application)
    plans = plan_topics(topology, application)
    if args.action == "create":
        partition_map = read_map(args.partition_map)
        created = create_application(cluster, application, topology, settings, partition_map, args.replication)
        there = len(plans.plans) - len(created)
        _print(args, {"created": created}, f"{number_of(len(created), 'topic')} created, {there} were there")
        return 0
    if args.action == "describe":
        _describe(args, topology, plans)
        return 0
    return _check(args, cluster, application, settings, plans)


def _check(
    args: argparse.Namespace, cluster: KafkaCluster, application: Application, settings: Settings, plans: TopicPlans
) -> int:
    from dustream.core.errors import StateMismatch
    from dustream.streams.kafka.maps import require_settings
    from dustream.streams.kafka.topics import check_topics, describe_problems

    findings = check_topics(cluster, plans)
    problems, text = [finding.problem for finding in findings if finding.problem], describe_problems(findings)
    if not problems:  # else its maps topic may not be where the settings are looked for
        try:
            require_settings(cluster, application, settings)
        except StateMismatch as error:
            problems, text = [str(error)], str(error)
    _print(args, {"problems": problems}, text or f"all {len(findings)} topics are as they should be")
    return 1 if problems else 0


def _describe(args: argparse.Namespace, topology: Topology, plans: Any) -> None:
    import msgspec

    _print(args, msgspec.to_builtins(plans.plans), topology.describe() + "\n\n" + plans.describe())


def _print(args: argparse.Namespace, value: Any, text: str) -> None:
    import msgspec

    print(msgspec.json.encode(value).decode() if args.json else text)
