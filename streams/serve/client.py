"""Asks a lookup service: what `dustream status`, `why` and `groups` do with --url."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from dustream.core.errors import BadSetting, DustreamError
from dustream.schemas.lookup import URLS_PER_REQUEST_MAX, ErrorAnswer, UrlsAnswer, UrlStatus
from dustream.streams.questions.group_list import GroupAnswer, GroupRequest
from dustream.streams.serve.answers import GroupsAnswer, WhyAnswer

TIMEOUT_S = 60.0

Answer = TypeVar("Answer")


class ServiceFailure(DustreamError):
    """The service does not answer, or refuses."""


class LookupClient:
    """A client of one service."""

    def __init__(self, base: str, token: str | None = None) -> None:
        if urlsplit(base).scheme not in ("http", "https"):
            raise BadSetting(f"--url {base} is no address: use http://HOST:PORT, as `dustream serve` prints it")
        self._base = base.rstrip("/")
        self._headers = {"Content-Type": "application/json"} | (
            {} if token is None else {"Authorization": f"Bearer {token}"}
        )

    def statuses(self, urls: list[str]) -> list[UrlStatus]:
        found: list[UrlStatus] = []
        for start in range(0, len(urls), URLS_PER_REQUEST_MAX):
            body = json.dumps({"urls": urls[start : start + URLS_PER_REQUEST_MAX]}).encode()
            found += self._ask("/v1/urls", UrlsAnswer, body).statuses
        return found

    def why(self, one: str, other: str | None, market: str | None, *, text: bool) -> WhyAnswer:
        asked = {"a": one, "b": other, "market": market, "text": "yes" if text else "no"}
        return self._ask(f"/v1/why?{_query(asked)}", WhyAnswer)

    def groups(self, request: GroupRequest) -> list[GroupAnswer]:
        asked = {
            "top": str(request.top),
            "by": request.by,
            "held": "yes" if request.held else "no",
            "site": request.site,
            "market": request.market,
        }
        return self._ask(f"/v1/groups?{_query(asked)}", GroupsAnswer).groups

    def _ask(self, path: str, kind: type[Answer], body: bytes | None = None) -> Answer:
        request = urllib.request.Request(self._base + path, data=body, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return msgspec.json.decode(response.read(), type=kind)
        except urllib.error.HTTPError as error:
            raise ServiceFailure(f"{self._base}: {_detail(error)}") from None
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            raise ServiceFailure(f"{self._base} does not answer ({reason}): is `dustream serve` running?") from None
        except msgspec.MsgspecError as error:
            raise ServiceFailure(f"{self._base} is not a lookup service of this version ({error})") from None


def _query(asked: Mapping[str, str | None]) -> str:
    return urlencode({name: value for name, value in asked.items() if value is not None})


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return msgspec.json.decode(error.read(), type=ErrorAnswer).detail
    except (msgspec.MsgspecError, OSError):
        return f"HTTP status {error.code}"
