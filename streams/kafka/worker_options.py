"""How a worker runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dustream.streams.kafka.health import LOOPBACK

ROUND_BYTES = 4 << 20  # input records of one round, as stored
SESSION_TIMEOUT_S = 10.0
DRAIN_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker runs; no option changes the results."""

    data: Path
    processors: tuple[str, ...] = ()
    """Empty: all."""
    health_port: int | None = None
    health_host: str = LOOPBACK
    address: str = ""
    """Where other workers reach the lookup service of this one, as http://HOST:PORT; empty: it has none."""
    session_timeout_s: float = SESSION_TIMEOUT_S
    drain_timeout_s: float = DRAIN_TIMEOUT_S
    round_bytes: int = ROUND_BYTES
