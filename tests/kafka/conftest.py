"""One real broker for all tests of this folder. Without Java and Maven they cannot run: they say so, and with CI=true
they fail. DUSTREAM_TEST_BROKER names the --data folder of a broker that runs already, to save its start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dustream.streams.kafka.broker import Broker, BrokerFailed, free_port, require_tools
from dustream.streams.kafka.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if kept := os.environ.get("DUSTREAM_TEST_BROKER"):
        yield Broker(Path(kept))
        return
    try:
        require_tools()
    except BrokerFailed as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NOT RUN, no broker: {error}")
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    broker.start(free_port())
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def cluster(broker: Broker) -> Cluster:
    running = broker.running()
    assert running is not None
    return Cluster(running.bootstrap)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [
        report for report in terminalreporter.getreports("skipped") if "NOT RUN, no broker" in str(report.longrepr)
    ]
    if skipped:
        terminalreporter.write_line(
            f"NOT RUN: {len(skipped)} tests on a real Kafka broker (Java and Maven are needed)", red=True
        )
