"""--state, for the commands that read a state, and --bootstrap and --name for an application on Kafka instead."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dustream.streams.kafka.application import Application
    from dustream.streams.kafka.cluster import KafkaCluster
    from dustream.streams.questions.state import EmbeddedState
    from dustream.streams.serve.client import LookupClient


def add_state(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "--state",
        type=Path,
        required=required,
        metavar="DIR",
        help="state or result (--out) folder of a run; may be in use by a run",
    )


def add_state_or_application(parser: argparse.ArgumentParser) -> None:
    from dustream.streams.cli.topics import add_application

    add_state(parser, required=False)
    parser.add_argument("--url", dest="service", metavar="URL", help="ask a `dustream serve`, as http://127.0.0.1:8321")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="of --url: file with the token of the service")
    add_application(parser)


def asked_service(args: argparse.Namespace) -> LookupClient | None:
    """The lookup service of --url, if it is given."""
    from dustream.core.errors import BadSetting

    if args.service is None:
        return None
    if args.state is not None:
        raise BadSetting("--state and --url are two places to ask: give one")
    from dustream.streams.serve.client import LookupClient
    from dustream.streams.serve.guard import read_token

    return LookupClient(args.service, None if args.token_file is None else read_token(args.token_file))


def open_state(path: Path) -> EmbeddedState:
    """The state to read; warns if a run is writing it."""
    from dustream.streams.questions.state import EmbeddedState

    state = EmbeddedState(path)
    if state.in_use:
        print(
            f"dustream: a run is writing {path}: this is its last committed state; ask again when it has finished",
            file=sys.stderr,
        )
    return state


@contextmanager
def open_asked(args: argparse.Namespace) -> Iterator[EmbeddedState]:
    """The state of --state, or that of the application on Kafka, read into a temporary folder."""
    if args.state is not None:
        with open_state(args.state) as state:
            yield state
        return
    import tempfile

    from dustream.streams.kafka.gathered import gather_state

    cluster, application = read_asked_application(args)
    with tempfile.TemporaryDirectory(prefix="dustream-state-") as folder:
        with _bar() as bar:
            gather_state(cluster, application, Path(folder), bar.update)
        with open_state(Path(folder)) as state:
            yield state


def read_asked_application(args: argparse.Namespace) -> tuple[KafkaCluster, Application]:
    """The application on Kafka to read if there is no --state."""
    import os

    from dustream.core.errors import BadSetting
    from dustream.streams.kafka.application import Application
    from dustream.streams.kafka.cluster import read_cluster, require_answer

    if args.bootstrap is None and "DUSTREAM_BOOTSTRAP" not in os.environ:
        raise BadSetting(
            "name the folder of a run with --state DIR, a service with --url, or a Kafka cluster with --bootstrap"
        )
    cluster = read_cluster(args.bootstrap)
    require_answer(cluster)
    return cluster, Application(args.name)


def _bar() -> Any:
    from tqdm import tqdm

    return tqdm(desc="reading the changelogs", unit=" rows", leave=False, disable=not sys.stderr.isatty())
