"""The Kafka cluster and its credentials, from --bootstrap and the environment.

DUSTREAM_BOOTSTRAP          host:port[,host:port…]                                   default 127.0.0.1:9092
DUSTREAM_SECURITY_PROTOCOL  PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL               default PLAINTEXT
DUSTREAM_SASL_MECHANISM     PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
DUSTREAM_SASL_USERNAME      and DUSTREAM_SASL_PASSWORD, or DUSTREAM_SASL_PASSWORD_FILE with the password in it
DUSTREAM_SSL_CA             file with the certificates to trust                      default: those of the system
DUSTREAM_SSL_CERT           and DUSTREAM_SSL_KEY: files with a client certificate and its key
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dustream.core.errors import BadSetting, DustreamError

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
REACH_TIMEOUT_S = 5.0


class Unreachable(DustreamError):
    """No broker answers."""


@dataclass(frozen=True)
class KafkaCluster:
    """The address of a cluster and the login. The password is not in the repr, and so not in logs."""

    bootstrap: str = DEFAULT_BOOTSTRAP
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise BadSetting(f"DUSTREAM_SECURITY_PROTOCOL must be one of {', '.join(PROTOCOLS)}")
        if self.uses_sasl and (self.mechanism not in MECHANISMS or not self.username or not self.password):
            raise BadSetting(
                f"{self.protocol} needs DUSTREAM_SASL_MECHANISM ({', '.join(MECHANISMS)}), DUSTREAM_SASL_USERNAME "
                "and DUSTREAM_SASL_PASSWORD or DUSTREAM_SASL_PASSWORD_FILE"
            )

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    def confluent(self, **settings: Any) -> dict[str, Any]:
        """Settings for a confluent-kafka client; underscores stand for dots."""
        known: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.protocol,
            "log_level": 0,
        }
        optional = {
            "ssl.ca.location": self.ca,
            "ssl.certificate.location": self.cert,
            "ssl.key.location": self.key,
            "sasl.mechanism": self.mechanism if self.uses_sasl else None,
            "sasl.username": self.username if self.uses_sasl else None,
            "sasl.password": self.password if self.uses_sasl else None,
        }
        known |= {name: value for name, value in optional.items() if value is not None}
        return known | {name.replace("_", "."): value for name, value in settings.items()}

    def aiokafka(self) -> dict[str, Any]:
        """Settings for an aiokafka client."""
        settings: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap.split(","),
            "security_protocol": self.protocol,
            "ssl_context": self.ssl_context(),
        }
        if self.uses_sasl:
            settings |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return settings

    def ssl_context(self) -> ssl.SSLContext | None:
        if not self.uses_tls:
            return None
        context = ssl.create_default_context(cafile=self.ca)
        if self.cert:
            context.load_cert_chain(self.cert, self.key)
        return context


def read_cluster(bootstrap: str | None, environment: Mapping[str, str] = os.environ) -> KafkaCluster:
    """The cluster of --bootstrap, or else of the environment."""
    password = environment.get("DUSTREAM_SASL_PASSWORD")
    if (file := environment.get("DUSTREAM_SASL_PASSWORD_FILE")) is not None:
        try:
            password = Path(file).read_text().rstrip("\n")
        except OSError as error:
            raise BadSetting(f"DUSTREAM_SASL_PASSWORD_FILE {file} cannot be read: {error.strerror}") from None
    return KafkaCluster(
        bootstrap=bootstrap or environment.get("DUSTREAM_BOOTSTRAP", DEFAULT_BOOTSTRAP),
        protocol=environment.get("DUSTREAM_SECURITY_PROTOCOL", "PLAINTEXT").upper(),
        mechanism=environment.get("DUSTREAM_SASL_MECHANISM"),
        username=environment.get("DUSTREAM_SASL_USERNAME"),
        password=password,
        ca=environment.get("DUSTREAM_SSL_CA"),
        cert=environment.get("DUSTREAM_SSL_CERT"),
        key=environment.get("DUSTREAM_SSL_KEY"),
    )


def nobody_listens(cluster: KafkaCluster) -> bool:
    """Whether every connection is refused. Kafka clients would retry until their timeout."""
    return all(_is_refused(place, REACH_TIMEOUT_S) for place in cluster.bootstrap.split(","))


def _is_refused(place: str, timeout_s: float) -> bool:
    host, _, port = place.strip().rpartition(":")
    if not host or not port.isdecimal():
        return False
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
    except ConnectionRefusedError:
        return True
    except (OSError, OverflowError):  # the client resolves hosts in its own way, and reports errors
        return False
    return False


def answers(cluster: KafkaCluster, timeout_s: float = REACH_TIMEOUT_S) -> bool:
    """Whether a broker of the cluster answers in time."""
    return why_silent(cluster, timeout_s) is None


def why_silent(cluster: KafkaCluster, timeout_s: float = REACH_TIMEOUT_S) -> str | None:
    """Why no broker of the cluster answers in time, if the client knows; None if one does."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    if nobody_listens(cluster):
        return "connection refused"
    errors: list[str] = []
    try:
        admin = AdminClient(cluster.confluent() | {"error_cb": lambda error: errors.append(error.str())})
        try:
            admin.list_topics(timeout=timeout_s)
        finally:
            admin.poll(0)  # calls the error callback
    except KafkaException as error:
        return errors[0] if errors else str(error.args[0].str())
    return None


def require_answer(cluster: KafkaCluster) -> None:
    """Raise Unreachable unless a broker answers."""
    if (reason := why_silent(cluster)) is not None:
        raise unreachable(cluster, reason)


def unreachable(cluster: KafkaCluster, reason: str) -> Unreachable:
    return Unreachable(
        f"no Kafka broker answers at {cluster.bootstrap} ({reason}): start one with `dustream broker start`, "
        "name another with --bootstrap or DUSTREAM_BOOTSTRAP, or correct the security settings in the environment"
    )
