"""A worker of the real pipeline: BOOTSTRAP NAME DATA PARTITIONS [SESSION_TIMEOUT_S]."""

from __future__ import annotations

import sys
from pathlib import Path

from dustream.core.settings import Settings
from dustream.streams.kafka.application import Application
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.kafka.service import Service, run_service
from dustream.streams.kafka.worker_log import configure_log
from dustream.streams.kafka.worker_options import WorkerOptions


def main() -> None:
    bootstrap, name, data, partitions = sys.argv[1:5]
    session_timeout_s = float(sys.argv[5]) if len(sys.argv) > 5 else 4.0
    options = WorkerOptions(Path(data), session_timeout_s=session_timeout_s)
    configure_log("info", as_json=False)
    run_service(Service(KafkaCluster(bootstrap), Application(name), Settings(partitions=int(partitions)), options))


if __name__ == "__main__":
    main()
