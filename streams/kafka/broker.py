"""A local Kafka broker for trials and tests: Apache Kafka's jars on the local Java, no Docker.

One node that is broker and controller (KRaft), reachable on loopback only. Its folder has all its files:

    server.properties   written at every start
    log/                the topics
    broker.log          the broker's log output
    broker.json         process id and ports while it runs
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from dustream.core.errors import DustreamError
from dustream.streams.folders import make_folder
from dustream.streams.kafka.cluster import REACH_TIMEOUT_S, KafkaCluster, answers

KAFKA_VERSION = "4.3.0"
DEFAULT_PORT = 9092
PORT_MIN, PORT_MAX = 20_000, 30_000
START_TIMEOUT_S = 90.0
START_POLL_S = 0.1
STOP_TIMEOUT_S = 20.0
EXEC_POLL_S = 0.005
EXEC_POLLS = 200
HEAP_MB_MAX = 512
# Each log has two index files of this size, empty at first and mapped into memory. Where the OS reads ahead by
# megabytes, the first access to one fills as much memory with zeros. A log starts a new segment when an index is full:
# at 89 MB.
INDEX_BYTES_MAX = 256 << 10
CLUSTER_ID = "ZHVzdHJlYW0tYnJva2VyMQ"  # 16 bytes in base64, Kafka's format; nodes of one folder never meet others
LOG_TAIL_BYTES = 2_000
PACKAGES = "Java 17 or newer and Maven (Debian: openjdk-17-jre-headless maven; macOS: brew install openjdk maven)"


class BrokerFailed(DustreamError):
    """The broker cannot be fetched or does not start."""


class RunningBroker(Struct, frozen=True):
    """broker.json."""

    pid: int
    port: int
    controller_port: int

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


def cache_folder() -> Path:
    """Where fetched jars are kept: DUSTREAM_CACHE, or ~/.cache/dustream."""
    return Path(os.environ.get("DUSTREAM_CACHE") or Path.home() / ".cache" / "dustream")


def default_data() -> Path:
    return Path.home() / ".local" / "share" / "dustream" / "broker"


def fetch_jars(say: Callable[[str], None] = lambda text: None) -> Path:
    """The folder with Kafka's jars, fetched by Maven on first use."""
    jars = cache_folder() / f"kafka-{KAFKA_VERSION}"
    if jars.is_dir():
        return jars
    require_tools()
    say(f"fetching Apache Kafka {KAFKA_VERSION} into {jars} (43 MB, once)")
    part = jars.with_name(f"{jars.name}.part-{os.getpid()}")
    command = ["mvn", "-B", "-q", "-f", str(Path(__file__).with_name("pom.xml")), "dependency:copy-dependencies",
               "-DincludeScope=runtime", f"-DoutputDirectory={part}"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(part, ignore_errors=True)
        raise BrokerFailed(f"Maven could not fetch Apache Kafka: {(done.stdout + done.stderr)[-LOG_TAIL_BYTES:]}")
    try:
        part.rename(jars)
    except OSError:  # another process was first
        shutil.rmtree(part, ignore_errors=True)
    return jars


def require_tools() -> None:
    """Raise BrokerFailed unless Java and Maven are installed."""
    if missing := [tool for tool in ("java", "mvn") if shutil.which(tool) is None]:
        raise BrokerFailed(
            f"{' and '.join(missing)} not found: install {PACKAGES}, "
            "or use a Kafka that runs elsewhere with --bootstrap HOST:PORT"
        )


@dataclass(frozen=True)
class Broker:
    """The broker of one folder. `more`: additional settings for server.properties."""

    data: Path
    more: Mapping[str, str] = field(default_factory=dict)

    def running(self) -> RunningBroker | None:
        """The broker's process, if it is alive."""
        try:
            known = msgspec.json.decode(self._state.read_bytes(), type=RunningBroker)
        except (OSError, msgspec.DecodeError):
            return None
        return known if self._is_ours(known.pid) else None

    def start(self, port: int | None = None, say: Callable[[str], None] = lambda text: None) -> RunningBroker:
        """Start the broker if it is not running, and return when it answers. BrokerFailed if it is on another port."""
        if (running := self.running()) is not None:
            if port not in (None, running.port):
                raise BrokerFailed(
                    f"the broker in {self.data} runs already, on port {running.port}: leave --port out to use it, "
                    "stop it first, or choose another --data"
                )
            if not self._answers_within(running, REACH_TIMEOUT_S):
                raise BrokerFailed(f"the broker in {self.data} runs but does not answer: stop it, and start it again")
            return running
        port = port or DEFAULT_PORT
        if not _is_free(port):
            raise BrokerFailed(f"port {port} is in use: choose another with --port")
        jars = fetch_jars(say)
        make_folder(self.data)
        controller_port = port + 1 if _is_free(port + 1) else free_port()
        self._properties.write_text(properties(self.data, port, controller_port, self.more))
        if not (self.data / "log" / "meta.properties").exists():
            self._format(jars)
        running = RunningBroker(self._launch(jars), port, controller_port)
        self._state.write_bytes(msgspec.json.encode(running))
        self._wait(running)
        return running

    def stop(self) -> bool:
        """Stop the broker; False if none is running."""
        running = self.running()
        if running is None:
            return False
        os.kill(running.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while self._is_ours(running.pid):
            _reap(running.pid)
            if time.monotonic() > deadline:
                os.kill(running.pid, signal.SIGKILL)
            time.sleep(0.05)
        self._state.unlink(missing_ok=True)
        return True

    def kill(self) -> None:
        """Kill the broker at once, like a power failure."""
        running = self.running()
        if running is None:
            raise BrokerFailed(f"no broker runs in {self.data}")
        os.kill(running.pid, signal.SIGKILL)
        while self._is_ours(running.pid) or not _is_free(running.port):  # its threads may live a moment longer
            _reap(running.pid)
            time.sleep(0.02)

    @property
    def _state(self) -> Path:
        return self.data / "broker.json"

    @property
    def _properties(self) -> Path:
        return self.data / "server.properties"

    def _format(self, jars: Path) -> None:
        command = [
            *_java(jars, heap_mb=256),
            "kafka.tools.StorageTool",
            "format",
            "-t",
            CLUSTER_ID,
            "-c",
            str(self._properties),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise BrokerFailed(f"{self.data} could not be prepared: {(done.stdout + done.stderr)[-LOG_TAIL_BYTES:]}")

    def _launch(self, jars: Path) -> int:
        with (self.data / "broker.log").open("ab") as log:
            command = [*_java(jars, heap_mb=HEAP_MB_MAX), "kafka.Kafka", str(self._properties)]
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            ).pid

    def _wait(self, running: RunningBroker) -> None:
        if not self._answers_within(running, START_TIMEOUT_S):
            tail = (self.data / "broker.log").read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
            self.stop()
            raise BrokerFailed(f"the broker did not start; {self.data / 'broker.log'} ends with:\n{tail}")

    def _answers_within(self, running: RunningBroker, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not answers(KafkaCluster(running.bootstrap), timeout_s=1.0):
            _reap(running.pid)
            if not self._is_ours(running.pid) or time.monotonic() > deadline:
                return False
            time.sleep(START_POLL_S)
        return True

    def _is_ours(self, pid: int) -> bool:
        """Whether the process is this folder's broker: the OS reuses process ids."""
        shown = _process(pid)
        return str(self._properties) in shown and not shown.startswith("Z")


def properties(data: Path, port: int, controller_port: int, more: Mapping[str, str]) -> str:
    """server.properties of a single node on loopback."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data / "log",
        "num.network.threads": 2,
        "num.io.threads": 3,
        "background.threads": 2,
        "log.index.size.max.bytes": INDEX_BYTES_MAX,
        "auto.create.topics.enable": "false",
        "num.partitions": 8,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
    }
    return "".join(f"{name}={value}\n" for name, value in (settings | dict(more)).items())


def free_port() -> int:
    """A free port of the loopback interface below the ephemeral range: the OS could assign a higher one to another
    connection before we listen."""
    ports = range(PORT_MIN, PORT_MAX, 2)
    for port in random.sample(ports, len(ports)):
        if _is_free(port) and _is_free(port + 1):
            return port
    raise BrokerFailed(f"no port from {PORT_MIN} to {PORT_MAX} is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _process(pid: int) -> str:
    """State (Z: ended, not yet waited for) and command line of a process; empty if there is none."""
    if not Path("/proc/self/stat").exists():
        asked = ["ps", "-ww", "-o", "stat=,command=", "-p", str(pid)]
        return subprocess.run(asked, capture_output=True, text=True).stdout
    for _ in range(EXEC_POLLS):  # small systems have no ps
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].strip()
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            return ""
        if command or state.startswith("Z"):
            return f"{state} {command}"
        time.sleep(EXEC_POLL_S)  # a process just started has no command line for a moment
    return ""


def _java(jars: Path, heap_mb: int) -> list[str]:
    if shutil.which("java") is None:
        require_tools()
    # The second compiler would take more processor time than the broker itself in its first minutes.
    options = [f"-Xmx{heap_mb}m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
               "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
               "-Dorg.slf4j.simpleLogger.showDateTime=true"]  # fmt: skip
    return ["java", *options, "-cp", f"{jars}/*"]


def _reap(pid: int) -> None:
    """Wait for a child that has ended; a broker started by another process is not our child."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
