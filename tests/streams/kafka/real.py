"""A worker of the real pipeline: BOOTSTRAP NAME DATA PARTITIONS [SESSION_TIMEOUT_S [SERVE_PORT [TOKEN]]]."""

from __future__ import annotations

import sys
from pathlib import Path

from dustream.core.settings import Settings
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.service import Service, run_service
from dustream.streams.kafka.worker_log import configure_log
from dustream.streams.kafka.worker_options import WorkerOptions
from dustream.streams.kafka_serve.server import ServeOptions, address_of, lookup_service


def main() -> None:
    bootstrap, name, data, partitions = sys.argv[1:5]
    session_timeout_s = float(sys.argv[5]) if len(sys.argv) > 5 else 4.0
    serving = read_serving(sys.argv[6:])
    address = "" if serving is None else serving.address
    options = WorkerOptions(Path(data), session_timeout_s=session_timeout_s, address=address)
    cluster, application, settings = KafkaCluster(bootstrap), Application(name), Settings(partitions=int(partitions))
    configure_log("info", as_json=False)
    run_service(
        Service(cluster, application, settings, options, lookup_service(cluster, application, settings, serving))
    )


def read_serving(arguments: list[str]) -> ServeOptions | None:
    if not arguments:
        return None
    host, port, token = "127.0.0.1", int(arguments[0]), arguments[1] if len(arguments) > 1 else None
    return ServeOptions(host, port, token, 1e9, address_of(host, port, None))


if __name__ == "__main__":
    main()
