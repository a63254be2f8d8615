"""`dustream worker`: run the pipeline on Kafka."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dustream.streams.cli.arguments import port, seconds

if TYPE_CHECKING:
    from dustream.streams.kafka_serve.server import ServeOptions

PROCESSORS = ("intake", "pages", "tier2", "groups", "sites", "containment", "rules")  # known without loading them

DESCRIPTION = """\
Process the application's partitions until stopped. Start any number of workers on any number of machines: they share
the partitions. Every event counts exactly once, whatever is killed.

With --serve-port, the worker answers the lookups of `dustream serve` and shows its web page, over the state of all
workers: what another one holds is asked of it. To be reached from other machines (--serve-host) it needs a token, the
same for all workers.

--data holds a copy of the state, which is rebuilt from Kafka if it is lost; each worker needs its own. SIGTERM (or
Ctrl-C) ends running batches and stops.
"""

EXAMPLES = """\
examples:
  dustream worker --data /var/lib/dustream/1
  dustream worker --data /var/lib/dustream/2 --processors intake
  dustream worker --data /var/lib/dustream/3 --serve-port 8321     # http://127.0.0.1:8321/ is the web page
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
    _add_serving(parser)
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


def _add_serving(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--serve-port", type=port, metavar="N", help="serve lookups and the web page on this port")
    parser.add_argument(
        "--serve-host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to serve them on (default 127.0.0.1: only this machine)",
    )
    parser.add_argument(
        "--serve-address",
        metavar="URL",
        help="where other workers reach them (default: http://ADDRESS:N of --serve-host and --serve-port)",
    )
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="file with the token that clients must send")
    parser.add_argument(
        "--rate", type=float, default=50_000, metavar="N", help="lookups a second that one client may make (50000)"
    )


def run(args: argparse.Namespace) -> int:
    from dustream.streams.cli.run import read_settings
    from dustream.streams.kafka.application import Application
    from dustream.streams.kafka.cluster import read_cluster
    from dustream.streams.kafka.service import Service, run_service
    from dustream.streams.kafka.worker_log import configure_log
    from dustream.streams.kafka.worker_options import WorkerOptions
    from dustream.streams.kafka_serve.server import lookup_service

    processors, serving = read_processors(args.processors), read_serving(args)
    configure_log(args.log_level, as_json=args.json)
    options = WorkerOptions(
        data=args.data or Path.home() / ".local" / "share" / "dustream" / "worker" / args.name,
        processors=processors,
        health_port=args.health_port,
        health_host=args.health_host,
        address="" if serving is None else serving.address,
        session_timeout_s=args.session_timeout,
        drain_timeout_s=args.drain_timeout,
    )
    cluster, settings = read_cluster(args.bootstrap), read_settings(args)
    application = Application(args.name, args.input_topic)
    lookups = lookup_service(cluster, application, settings, serving)
    run_service(Service(cluster, application, settings, options, lookups))
    return 0


def read_serving(args: argparse.Namespace) -> ServeOptions | None:
    """How to serve lookups; None without --serve-port."""
    from dustream.core.errors import BadSetting
    from dustream.streams.kafka_serve.server import ServeOptions, address_of
    from dustream.streams.serve.guard import read_token, require_token

    if args.serve_port is None:
        return None
    if args.rate <= 0:
        raise BadSetting(f"--rate {args.rate:g} makes no sense: use more than 0")
    token = None if args.token_file is None else read_token(args.token_file)
    require_token("--serve-host", args.serve_host, token)
    address = address_of(args.serve_host, args.serve_port, args.serve_address)
    return ServeOptions(args.serve_host, args.serve_port, token, args.rate, address)


def read_processors(text: str) -> tuple[str, ...]:
    """The processors named; empty means all. BadSetting for an unknown name."""
    from dustream.core.errors import BadSetting

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if unknown := sorted(set(names) - set(PROCESSORS)):
        raise BadSetting(f"--processors: no such processor as {', '.join(unknown)}. There are {', '.join(PROCESSORS)}")
    return names
