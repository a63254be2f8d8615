"""Sites: the unit that shares URL rules.

A site is the registrable domain by the public suffix list, including private suffixes: `a.github.io` and `b.github.io`
are two sites, because different people write them.

    http://www.example.co.uk/x   example.co.uk
    https://user.github.io/      user.github.io
    http://192.0.2.1:8080/       192.0.2.1         an IP address is a site of its own, without its port
    http://[2001:db8::1]/        [2001:db8::1]
    http://intranet/             intranet          a single label, or a public suffix itself, is its own site
    http://a.b.unknown/          b.unknown         the last two labels: the default rule of the list
    mailto:x, no host            (empty)           no site, hence no rules
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Final

from publicsuffixlist import PublicSuffixList, encode_idn

from dustream.core.urls.hosts import ascii_host
from dustream.core.urls.parts import host_of

SITES_CACHED_MAX: Final = 65_536
HOST_CHARS_MAX: Final = 253
TOP_LABELS_CACHED_MAX: Final = 4_096

_IPV4: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}", re.ASCII)
_LABELS: Final = re.compile(r"[^\s/?#:@\[\]]+")


@lru_cache(maxsize=SITES_CACHED_MAX)
def site_of(url_or_host: str) -> str:
    """The site of an absolute URL, or of a bare host name; empty if there is none."""
    host = host_of(url_or_host)
    if host is None:
        host = url_or_host
    if host.startswith("[") and host.endswith("]"):
        return host.lower()
    if not _LABELS.fullmatch(host) or len(host) > HOST_CHARS_MAX:
        return ""
    return site_of_host(host.lower().rstrip("."))


@lru_cache(maxsize=SITES_CACHED_MAX)
def site_of_host(host: str) -> str:
    """The site of a lower-case host name or IPv4 address."""
    if _IPV4.fullmatch(host):
        return host
    ascii_host = _to_ascii(host)
    return _suffixes(ascii_host.rpartition(".")[2]).privatesuffix(ascii_host) or ascii_host


@lru_cache(maxsize=TOP_LABELS_CACHED_MAX)
def _suffixes(top_label: str) -> PublicSuffixList:
    """The rules for hosts that end in this label. Parsing the list as a whole takes longer than signing 500 pages, and
    a crawl meets few of its 1,500 top-level domains."""
    rules = _rules_by_top_label().get(top_label, [])
    encoded = [_encoded(rule) for rule in rules if not rule.isascii()]  # the library encodes all, which takes longer
    return PublicSuffixList(rules + encoded, accept_encoded_idn=False)


@lru_cache(maxsize=1)
def _rules_by_top_label() -> Mapping[str, list[str]]:
    """The lines of the public suffix list by the last label of their rules, in ASCII."""
    rules: dict[str, list[str]] = {}
    listed = files("publicsuffixlist").joinpath("public_suffix_list.dat").read_text("utf-8")
    for line in listed.splitlines(keepends=True):
        if line[0] not in "/\n":
            rules.setdefault(line.rstrip().rpartition(".")[2], []).append(line)
    return {label if label.isascii() else encode_idn(label): lines for label, lines in rules.items()}


def _encoded(rule: str) -> str:
    mark = "!" if rule.startswith("!") else ""
    return f"{mark}{encode_idn(rule.removeprefix(mark).rstrip())}"


def _to_ascii(host: str) -> str:
    try:
        return ascii_host(host)
    except UnicodeError:
        return host
