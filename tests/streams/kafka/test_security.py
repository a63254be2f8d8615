"""Everything over SASL and TLS, with settings from the environment, on a broker with a certificate of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dustream.schemas.crawl import CrawlEvent
from dustream.streams.cli.main import main
from dustream.streams.kafka.broker import Broker, free_port
from dustream.streams.kafka.client import Client

STORE_PASSWORD = "only-for-this-test"
USER, PASSWORD = "crawler", "pa55-of-the-crawler"
WAIT_S_MAX = 300.0


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A key store for the broker, and the certificate in it for those who are to trust it."""
    store, certificate = folder / "broker.p12", folder / "ca.pem"
    access = ["-alias", "broker", "-keystore", str(store), "-storepass", STORE_PASSWORD]
    whose = ["-dname", "CN=localhost", "-ext", "SAN=ip:127.0.0.1,dns:localhost", "-validity", "2"]
    make = ["keytool", "-genkeypair", *access, "-storetype", "PKCS12", "-keyalg", "RSA", "-keysize", "2048", *whose]
    subprocess.run(make, check=True, capture_output=True)
    subprocess.run(
        ["keytool", "-exportcert", "-rfc", *access, "-file", str(certificate)], check=True, capture_output=True
    )
    return store, certificate


def listeners(port: int, secure_port: int, store: Path) -> dict[str, str]:
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    open_to_us = f"PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure_port}"
    return {
        "listeners": f"{open_to_us},CONTROLLER://127.0.0.1:{port + 1}",
        "advertised.listeners": open_to_us,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": login,
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
    }


@pytest.fixture(scope="module")
def environment(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What a user sets to reach a broker that wants a password over TLS."""
    folder = tmp_path_factory.mktemp("secure")
    store, certificate = make_certificate(folder)
    port, secure_port = free_port(), free_port()
    secure = Broker(folder / "kafka", listeners(port, secure_port, store))
    secure.start(port)
    secret = folder / "password"
    secret.write_text(PASSWORD + "\n")
    yield {
        "DUSTREAM_BOOTSTRAP": f"127.0.0.1:{secure_port}",
        "DUSTREAM_SECURITY_PROTOCOL": "SASL_SSL",
        "DUSTREAM_SASL_MECHANISM": "PLAIN",
        "DUSTREAM_SASL_USERNAME": USER,
        "DUSTREAM_SASL_PASSWORD_FILE": str(secret),
        "DUSTREAM_SSL_CA": str(certificate),
    }
    secure.stop()


@pytest.fixture(autouse=True)
def as_user(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def test_events_become_statuses_over_sasl_and_tls(tmp_path: Path) -> None:
    assert main(["topics", "create", "--partitions", "1"]) == 0
    with Client() as client:
        client.publish(CrawlEvent(url="https://example.org/a", text="one of a kind"))
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "dustream.streams.cli.main", "worker", "--partitions", "1"]
        worker = subprocess.Popen([*command, "--data", str(tmp_path / "data")], stdout=log, stderr=log)
    try:
        assert wait_for_role(worker, tmp_path / "log") == "unique"
    finally:
        worker.terminate()
        worker.wait(60)
    assert PASSWORD not in (tmp_path / "log").read_text()


def wait_for_role(worker: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + WAIT_S_MAX
    while (status := Client().status("https://example.org/a")) is None:
        assert worker.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)
    return status.role


@pytest.mark.parametrize(
    "wrong", [{"DUSTREAM_SASL_PASSWORD_FILE": "/dev/null"}, {"DUSTREAM_SSL_CA": "/dev/null"}, {"DUSTREAM_SSL_CA": ""}]
)
def test_who_does_not_fit_is_told_so(
    wrong: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    assert main(["topics", "check"]) in (1, 2)
    shown = capsys.readouterr().err
    assert shown.startswith("dustream: ") and PASSWORD not in shown
    assert "ssl" in shown.lower(), "why the broker does not answer is told"
