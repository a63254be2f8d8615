"""The one parser of URLs. Standard form, keys, sites and identities are built on it.

    https://user@www.example.com:81/shop?id=7#top

    split_url         https | user@www.example.com:81 | /shop | id=7 | top
    split_authority   user | www.example.com | 81
    host_of           www.example.com
    url_parts         as `urllib.parse.urlsplit`, for any text

Nothing is validated or changed: absent is None, which is not the same as empty. Patterns have disjoint character
classes between fixed delimiters, so time is linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import Final, cast
from urllib.parse import SplitResult, urlsplit

# RFC 3986, appendix B, for URLs with a scheme and an authority.
_ORIGIN: Final = r"([A-Za-z][A-Za-z0-9+.\-]*)://([^/?#]*)"
_URL: Final = re.compile(_ORIGIN + r"([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_START: Final = re.compile(_ORIGIN)
# The last @ ends the userinfo. The atomic group prevents backtracking: thousands of @ would take seconds.
_AUTHORITY: Final = re.compile(r"(?>(?:(.*)@)?)(\[[^\]]*\]|[^:]*)(?::(\d*))?", re.DOTALL | re.ASCII)

SplitUrl = tuple[str, str, str, str | None, str | None]
"""Scheme, authority, path, query, fragment. A plain tuple: it is made for every URL."""
Authority = tuple[str | None, str, str | None]
"""Userinfo, host, port; an IPv6 address keeps its brackets."""


def split_url(text: str) -> SplitUrl | None:
    """The components; None if the text is not `scheme://…`."""
    found = _URL.fullmatch(text)
    return None if found is None else cast("SplitUrl", found.groups())


def split_authority(authority: str) -> Authority | None:
    """The parts of an authority; None if what follows the host is no port."""
    found = _AUTHORITY.fullmatch(authority)
    return None if found is None else cast("Authority", found.groups())


def host_of(url: str) -> str | None:
    """The host of a URL, also of one with an impossible port; None if the text is not `scheme://…`."""
    found = _START.match(url)
    if found is None:
        return None
    host = found[2].rpartition("@")[2]
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]


def url_parts(url: str) -> SplitResult:
    """As `urlsplit`, three times as fast for common URLs, and without errors."""
    found = _URL.fullmatch(url)
    if found is not None and found[1] in ("http", "https") and url.isprintable():
        authority = found[2]
        if authority.isascii() and "[" not in authority and "]" not in authority:
            return SplitResult._make(found.groups(""))
    try:
        return urlsplit(url)
    except ValueError:  # an invalid host, such as http://[: the whole URL is its path
        return SplitResult("", "", url, "", "")
