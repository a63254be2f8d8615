"""The parts of a URL, without a judgement on them."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

# http and https, a host in printable ASCII without brackets, nothing that `urlsplit` would take out.
_PLAIN_URL = re.compile(
    r"(https?)://([!\"$-.0->@-Z\\^-~]*)((?:/[^?#\t\r\n]*)?)(?:\?([^#\t\r\n]*))?(?:#([^\t\r\n]*))?\Z"
)


def url_parts(url: str) -> SplitResult:
    """As `urlsplit`, which takes four times as long, for the URLs that are as most are; never an error."""
    plain = _PLAIN_URL.match(url)
    if plain is not None:
        return SplitResult._make(plain.groups(""))
    try:
        return urlsplit(url)
    except ValueError:  # a host that is no host, such as http://[: the whole URL is its path
        return SplitResult("", "", url, "", "")
