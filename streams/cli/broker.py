"""`dustream broker`: a Kafka broker on this machine, without Docker."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from dustream.streams.cli.arguments import port

DESCRIPTION = """\
Run an Apache Kafka broker on this machine, on loopback only: to try things out, and for tests.

Needs Java 17 and Maven; the jars are fetched once into ~/.cache/dustream (or DUSTREAM_CACHE).
For real work use a real cluster: every command takes --bootstrap HOST:PORT, or DUSTREAM_BOOTSTRAP.
"""

EXAMPLES = """\
examples:
  dustream broker start
  dustream broker start --data /tmp/kafka --port 29092
  dustream broker status --json
  dustream broker stop
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "broker",
        help="run a Kafka broker on this machine",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("start", "stop", "status"), help="start returns when the broker answers")
    parser.add_argument("--data", type=Path, metavar="DIR", help="its folder (default: ~/.local/share/dustream/broker)")
    parser.add_argument("--port", type=port, metavar="N", help="port to listen on (default 9092)")
    parser.add_argument("--json", action="store_true", help="print process id and address as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import json

    from dustream.streams.kafka.broker import Broker, default_data

    broker = Broker((args.data or default_data()).absolute())
    if args.action == "stop":
        stopped = broker.stop()
        print(json.dumps({"stopped": stopped}) if args.json else "stopped" if stopped else "no broker was running")
        return 0
    if args.action == "start":
        running = broker.start(args.port, lambda text: print(f"dustream: {text}", file=sys.stderr))
    elif (known := broker.running()) is None:
        print(json.dumps({"running": False}) if args.json else f"no broker runs in {broker.data}")
        return 1
    else:
        running = known
    if args.json:
        print(
            json.dumps({"running": True, "pid": running.pid, "bootstrap": running.bootstrap, "data": str(broker.data)})
        )
    else:
        print(f"Kafka runs on {running.bootstrap} (process {running.pid}, data in {broker.data})")
    return 0
