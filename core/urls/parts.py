"""The components of a URL, without validation."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

# http and https, a host in printable ASCII without brackets, no characters that `urlsplit` removes.
_PLAIN_URL = re.compile(
    r"(https?)://([!\"$-.0->@-Z\\^-~]*)((?:/[^?#\t\r\n]*)?)(?:\?([^#\t\r\n]*))?(?:#([^\t\r\n]*))?\Z"
)


def url_parts(url: str) -> SplitResult:
    """As `urlsplit`, four times as fast for common URLs, and without errors."""
    plain = _PLAIN_URL.match(url)
    if plain is not None:
        return SplitResult._make(plain.groups(""))
    try:
        return urlsplit(url)
    except ValueError:  # an invalid host, such as http://[: the whole URL is its path
        return SplitResult("", "", url, "", "")
