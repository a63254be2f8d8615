"""Who may ask, and how much: the token, the Host header, requests per second."""

from __future__ import annotations

import binascii
import hmac
import ipaddress
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from dustream.core.errors import BadSetting

TOKEN_CHARS_MIN = 16
CLIENTS_MAX = 10_000
BURST_S = 2.0  # a client that was quiet may use the allowance of so many seconds at once


class Refusal(NamedTuple):
    """Why a request is not answered. `retry_after_s` 0: trying again does not help."""

    status: int
    title: str
    detail: str
    retry_after_s: int = 0


class Guard:
    """Checks every request. On loopback without a token, only requests that name this host are answered: otherwise a
    web page could have its own name resolve to 127.0.0.1, and read the answers (DNS rebinding)."""

    def __init__(
        self, *, host: str, token: str | None, rate: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        require_token("--host", host, token)
        self._token = None if token is None else token.encode()
        self._hosts = {"localhost", "127.0.0.1", "[::1]", host.lower(), f"[{host.lower()}]"}
        self._rate = rate
        self._clock = clock
        self._allowances: dict[str, tuple[float, float]] = {}

    def refusal(self, headers: Mapping[str, str], client: str) -> Refusal | None:
        if self._token is None:
            named = _host_name(headers.get("Host", ""))
            if named not in self._hosts:
                return Refusal(421, "Misdirected Request", f"this server is not {named}: use http://127.0.0.1")
        elif not hmac.compare_digest(_given_token(headers.get("Authorization", "")), self._token):
            return Refusal(401, "Unauthorized", "send the token: Authorization: Bearer TOKEN")
        return self.spend(client, 1)

    def spend(self, client: str, lookups: int) -> Refusal | None:
        """Count lookups of a client; refuse them while the client is over its allowance."""
        now = self._clock()
        left, at = self._allowances.get(client, (self._rate * BURST_S, now))
        left = min(self._rate * BURST_S, left + (now - at) * self._rate)
        if left < 0:
            self._allowances[client] = (left, now)
            detail = f"more than {self._rate:g} lookups a second from {client}: wait"
            return Refusal(429, "Too Many Requests", detail, 1 + int(-left / self._rate))
        if client not in self._allowances and len(self._allowances) >= CLIENTS_MAX:
            self._allowances.clear()
        self._allowances[client] = (left - lookups, now)
        return None


def require_token(option: str, host: str, token: str | None) -> None:
    """Other machines may ask only with a token."""
    if token is None and not is_loopback(host):
        raise BadSetting(
            f"{option} {host} is open to others: give a file with a secret token (--token-file FILE), or leave "
            f"{option} out to listen on this machine only"
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"the token file {path} cannot be read ({error})") from None
    if len(token) < TOKEN_CHARS_MIN or not token.isascii() or not token.isprintable() or " " in token:
        raise BadSetting(
            f"the token in {path} must be {TOKEN_CHARS_MIN} or more letters and digits: "
            "`openssl rand -hex 32` makes one"
        )
    return token


def _host_name(header: str) -> str:
    """The Host header without its port."""
    if header.startswith("["):
        return header.partition("]")[0].lower() + "]"
    return header.partition(":")[0].lower()


def _given_token(header: str) -> bytes:
    """Of `Bearer TOKEN`, or the password of `Basic`: what browsers send, with any user name."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode()
    if scheme.lower() == "basic":
        try:
            return b64decode(value, validate=True).partition(b":")[2]
        except binascii.Error:
            return b""
    return b""
