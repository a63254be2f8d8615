"""One real broker for all tests of this folder. Without Java and Maven they cannot run: the end of the run says so,
loudly, and with CI=true it is a failure. DUSTREAM_TEST_BROKER names the --data folder of a broker that runs already,
to save its start."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from not_run import name_missed, skip_or_fail

from dustream.streams.kafka.broker import Broker, BrokerFailed, free_port, require_tools
from dustream.streams.kafka.cluster import KafkaCluster
from dustream.streams.warm_up import warm_up

NOT_RUN = "NOT RUN, no broker"


def pytest_configure() -> None:
    """Told to stop, as `make test` does when it is interrupted, leave no broker behind. mutations.py takes a care away
    here, and toy.py in its workers."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if without := os.environ.get("DUSTREAM_TOY_WITHOUT"):
        from mutants import mutate

        mutate(without)


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """The kernels are compiled once, before the first test: not in it, nor by several workers at the same time."""
    warm_up()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if kept := os.environ.get("DUSTREAM_TEST_BROKER"):
        yield Broker(Path(kept))
        return
    try:
        require_tools()
    except BrokerFailed as error:
        skip_or_fail(NOT_RUN, str(error))
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    broker.start(free_port())
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def cluster(broker: Broker) -> KafkaCluster:
    running = broker.running()
    assert running is not None
    return KafkaCluster(running.bootstrap)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    name_missed(terminalreporter, NOT_RUN, "tests on a real Kafka broker that did NOT run")
