"""The web page: server-rendered views of a source."""

from __future__ import annotations

from typing import Any


def page_routes(service: Any) -> list[Any]:
    return []
