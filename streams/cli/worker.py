"""`dustream worker`: run the pipeline on Kafka."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dustream.streams.cli.arguments import port, seconds

PROCESSORS = ("intake", "pages", "tier2", "groups", "sites", "containment", "rules")  # known without loading them

DESCRIPTION = """\
Process the application's partitions until stopped. Start any number of workers on any number of machines: they share
the partitions. Every event counts exactly once, whatever is killed.

--data holds a copy of the state, which is rebuilt from Kafka if it is lost; each worker needs its own. SIGTERM (or
Ctrl-C) ends running batches and stops.
"""

EXAMPLES = """\
examples:
  dustream worker --data /var/lib/dustream/1
  dustream worker --data /var/lib/dustream/2 --processors intake
  curl http://127.0.0.1:6070/ready; curl http://127.0.0.1:6070/metrics     (with --health-port 6070)
"""


def add_parser(subparsers: Any) -> None:
    from dustream.streams.cli.run import add_settings
    from dustream.streams.cli.topics import add_cluster

    parser: argparse.ArgumentParser = subparsers.add_parser(
        "worker",
        help="run the pipeline on Kafka",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_cluster(parser)
    add_settings(parser)
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="local copy of the state (default: ~/.local/share/dustream/worker/NAME)",
    )
    parser.add_argument(
        "--processors",
        default="",
        metavar="A,B",
        help=f"only these: {', '.join(PROCESSORS)} (default: all)",
    )
    parser.add_argument("--health-port", type=port, metavar="N", help="serve /live, /ready and /metrics on this port")
    parser.add_argument(
        "--health-host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to serve them on (default 127.0.0.1: only this machine)",
    )
    parser.add_argument(
        "--session-timeout",
        type=seconds,
        default=10.0,
        metavar="S",
        help="seconds without a heartbeat until a worker's partitions are reassigned (default 10)",
    )
    parser.add_argument(
        "--drain-timeout",
        type=seconds,
        default=20.0,
        metavar="S",
        help="seconds for running batches to end after SIGTERM (default 20)",
    )
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    parser.add_argument("--json", action="store_true", help="log as JSON lines")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.streams.cli.run import read_settings
    from dustream.streams.kafka.application import Application
    from dustream.streams.kafka.cluster import read_cluster
    from dustream.streams.kafka.service import Service, run_service
    from dustream.streams.kafka.worker_log import configure_log
    from dustream.streams.kafka.worker_options import WorkerOptions

    processors = read_processors(args.processors)
    configure_log(args.log_level, as_json=args.json)
    options = WorkerOptions(
        data=args.data or Path.home() / ".local" / "share" / "dustream" / "worker" / args.name,
        processors=processors,
        health_port=args.health_port,
        health_host=args.health_host,
        session_timeout_s=args.session_timeout,
        drain_timeout_s=args.drain_timeout,
    )
    service = Service(
        read_cluster(args.bootstrap), Application(args.name, args.input_topic), read_settings(args), options
    )
    run_service(service)
    return 0


def read_processors(text: str) -> tuple[str, ...]:
    """The processors named; empty means all. BadSetting for an unknown name."""
    from dustream.core.errors import BadSetting

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if unknown := sorted(set(names) - set(PROCESSORS)):
        raise BadSetting(f"--processors: no such processor as {', '.join(unknown)}. There are {', '.join(PROCESSORS)}")
    return names
