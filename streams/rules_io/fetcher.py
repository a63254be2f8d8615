"""A polite fetcher of single pages, to validate rules with.

Only http and https; robots.txt is obeyed (RFC 9309: a site whose robots.txt cannot be had is left alone, one that has
none is open); one request to a host at a time, with a pause between them; redirects are followed a few times, each
checked like the first URL; bodies are read up to a limit. Addresses that are not public are refused unless allowed: a
list of URLs from elsewhere must not make this machine ask its own network. A page is fetched once.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import socket
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

import aiohttp
import numpy as np
import numpy.typing as npt
from aiohttp.abc import AbstractResolver, ResolveResult

from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.text.shingles import jaccard
from dustream.core.text.signature import sign_page
from dustream.core.urls.standard import standard_form

USER_AGENT: Final = "dustream"
ROBOTS_BYTES_MAX: Final = 500 * 1024
CRAWL_DELAY_S_MAX: Final = 30.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class FetchLimits(NamedTuple):
    """How politely, and how much at most. `delay_s`: between two requests to one host; robots.txt may ask for more."""

    delay_s: float = 1.0
    timeout_s: float = 20.0
    bytes_max: int = 5 * 1024 * 1024
    redirects_max: int = 5
    user_agent: str = USER_AGENT
    allows_private: bool = False


@dataclass(frozen=True)
class FetchedPage:
    """A digest of the body, and the shingles of its main text, if it has any."""

    digest: bytes
    shingles: npt.NDArray[np.uint64]

    def is_alike(self, other: FetchedPage, threshold: float) -> bool:
        """Whether both show one page: the same bytes, or nearly the same text."""
        if self.digest == other.digest:
            return True
        return (
            len(self.shingles) > 0 and len(other.shingles) > 0 and jaccard(self.shingles, other.shingles) >= threshold
        )


@dataclass
class FetchCounts:
    """How many requests succeeded, failed or were not allowed."""

    fetched: int = 0
    failed: int = 0
    refused: int = 0


class _Refused(Exception):
    """Refused by robots.txt, or because the address is not public."""


class _PublicResolver(AbstractResolver):
    """Resolves names to public addresses only; the checked address is the one connected to."""

    def __init__(self, allows_private: bool) -> None:
        self._inner = aiohttp.ThreadedResolver()
        self._allows_private = allows_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        if not self._allows_private and not all(_is_public(each["host"]) for each in found):
            raise OSError(f"{host} is not on the public network")
        return found

    async def close(self) -> None:
        await self._inner.close()


@dataclass
class _Host:
    """One request at a time, the next one not before `next_at_s` (the event loop's clock)."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_at_s: float = 0.0


class Fetcher:
    """Gives pages, each fetched once. Made by `fetcher`."""

    def __init__(self, session: aiohttp.ClientSession, limits: FetchLimits) -> None:
        self._session, self._limits = session, limits
        self._hosts: dict[str, _Host] = defaultdict(_Host)
        self._robots: dict[str, asyncio.Task[RobotFileParser]] = {}
        self._pages: dict[str, asyncio.Task[FetchedPage | None]] = {}
        self.counts = FetchCounts()

    async def fetch(self, url: str) -> FetchedPage | None:
        """None if it cannot be had: refused, failed, or no answer with status 200."""
        if url not in self._pages:
            self._pages[url] = asyncio.ensure_future(self._fetch(url))
        return await self._pages[url]

    async def _fetch(self, url: str) -> FetchedPage | None:
        try:
            for _ in range(self._limits.redirects_max + 1):
                status, location, body, content_type = await self._asked(url)
                if status in _REDIRECTS and location:
                    url = standard_form(urljoin(url, location))
                    continue
                if status != 200:
                    break
                self.counts.fetched += 1
                return _page(body, content_type)
        except _Refused:
            self.counts.refused += 1
            return None
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            pass
        self.counts.failed += 1
        return None

    async def _asked(self, url: str) -> tuple[int, str, bytes, str]:
        """Status, location, body and content type of one URL, if it may be asked for."""
        self._check(url)
        robots = await self._robots_of(url)
        if not robots.can_fetch(self._limits.user_agent, url):
            raise _Refused
        delay_s = float(robots.crawl_delay(self._limits.user_agent) or 0)
        return await self._get(url, min(max(self._limits.delay_s, delay_s), CRAWL_DELAY_S_MAX), self._limits.bytes_max)

    def _check(self, url: str) -> None:
        """Checks addresses; names are checked when they are resolved."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise _Refused
        if not self._limits.allows_private and _is_address(parts.hostname) and not _is_public(parts.hostname):
            raise _Refused

    async def _get(self, url: str, delay_s: float, bytes_max: int) -> tuple[int, str, bytes, str]:
        host = self._hosts[urlsplit(url).netloc]
        async with host.lock:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(max(0.0, host.next_at_s - loop.time()))
            try:
                async with self._session.get(url, allow_redirects=False) as answer:
                    body = await _read(answer, bytes_max) if answer.status == 200 else b""
                    head = answer.headers
                    return answer.status, head.get("Location", ""), body, head.get("Content-Type", "")
            finally:
                host.next_at_s = loop.time() + delay_s

    async def _robots_of(self, url: str) -> RobotFileParser:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._robots:
            self._robots[origin] = asyncio.ensure_future(self._read_robots(f"{origin}/robots.txt"))
        return await self._robots[origin]

    async def _read_robots(self, url: str) -> RobotFileParser:
        found = RobotFileParser(url)
        found.modified()  # else nothing may be fetched
        try:
            for _ in range(self._limits.redirects_max + 1):
                self._check(url)
                status, location, body, _ = await self._get(url, self._limits.delay_s, ROBOTS_BYTES_MAX)
                if status not in _REDIRECTS or not location:
                    break
                url = urljoin(url, location)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, _Refused):
            status, body = 503, b""
        if status == 200:
            found.parse(body.decode("utf-8", "replace").splitlines())
        else:
            found.parse(["User-agent: *", "Disallow:" if 400 <= status < 500 else "Disallow: /"])
        return found


@asynccontextmanager
async def fetcher(limits: FetchLimits) -> AsyncIterator[Fetcher]:
    timeout = aiohttp.ClientTimeout(total=limits.timeout_s)
    connector = aiohttp.TCPConnector(resolver=_PublicResolver(limits.allows_private))
    headers = {"User-Agent": limits.user_agent}
    async with aiohttp.ClientSession(timeout=timeout, connector=connector, headers=headers) as session:
        yield Fetcher(session, limits)


def _page(body: bytes, content_type: str) -> FetchedPage:
    is_text = not content_type or content_type.startswith(("text/", "application/xhtml"))
    stored = sign_page(body, content_type=content_type or None).shingles if is_text else b""
    shingles = shingle_array(stored)
    return FetchedPage(hashlib.blake2b(body, digest_size=16).digest(), shingles)


async def _read(answer: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    body = bytearray()
    async for piece in answer.content.iter_chunked(64 * 1024):
        body += piece
        if len(body) >= bytes_max:
            break
    return bytes(body[:bytes_max])


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_public(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_global
    except ValueError:
        return False
