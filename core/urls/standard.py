"""The standard steps of `normalize`, safe on every site: RFC 3986 section 6.2, and the usual steps of crawlers.

Each step is a named function of a parsed URL; together they are idempotent. Site rules are learned from and applied to
URLs in standard form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from dustream.core.urls.hosts import ascii_host
from dustream.core.urls.parts import split_authority, split_url

URL_CHARS_MAX: Final = 65_536
"""Longer URLs are left unchanged, which bounds the work."""

_DEFAULT_PORTS: Final = {"http": "80", "https": "443", "ftp": "21"}
# A URL that no step changes. A segment that starts with a dot may be a dot segment.
_STANDARD: Final = re.compile(
    r"https?://[a-z0-9_\-]+(?:\.[a-z0-9_\-]+)*(?:/(?!\.)[A-Za-z0-9_~!$&'()*+,;=:@.\-]*)+"
    r"(?:\?[A-Za-z0-9_~!$&'()*+,;=:@.\-/?]+)?",
    re.ASCII,
)
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9\-._~!$&'()*+,;=:@/?%\[\]]", re.ASCII)
_REMOVED: Final = re.compile(r"[\t\n\r]")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_STRIPPED: Final = "".join(map(chr, range(0x21)))


class Parsed(NamedTuple):
    """The components of RFC 3986; None means absent, which is not the same as empty."""

    scheme: str
    userinfo: str | None
    host: str
    port: str | None
    path: str
    query: str | None
    fragment: str | None


def scheme_and_host_to_lower_case(url: Parsed) -> Parsed:
    return url._replace(scheme=url.scheme.lower(), host=_host_to_ascii(url.host))


def default_port_removed(url: Parsed) -> Parsed:
    return url._replace(port=None) if url.port in ("", _DEFAULT_PORTS.get(url.scheme)) else url


def escapes_in_one_form(url: Parsed) -> Parsed:
    """Hex digits in upper case; unreserved characters unescaped; unsafe characters escaped as UTF-8."""
    query = None if url.query is None else _one_form(url.query)
    return url._replace(path=_one_form(url.path), query=query)


def dot_segments_removed(url: Parsed) -> Parsed:
    """RFC 3986 section 5.2.4."""
    if "/." not in url.path:
        return url
    kept: list[str] = []
    segments = url.path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return url._replace(path="/" + "/".join(kept))


def empty_path_to_slash(url: Parsed) -> Parsed:
    return url if url.path else url._replace(path="/")


def empty_query_removed(url: Parsed) -> Parsed:
    return url._replace(query=None) if url.query == "" else url


def fragment_removed(url: Parsed) -> Parsed:
    """Except `#!`, which some sites use to address pages."""
    if url.fragment is None or not url.fragment.startswith("!"):
        return url._replace(fragment=None)
    return url._replace(fragment=_one_form(url.fragment))


STEPS: Final[tuple[Callable[[Parsed], Parsed], ...]] = (
    scheme_and_host_to_lower_case,
    default_port_removed,
    escapes_in_one_form,
    dot_segments_removed,
    empty_path_to_slash,
    empty_query_removed,
    fragment_removed,
)


class StandardStep(NamedTuple):
    """A step that changed the URL: its name and its result."""

    name: str
    url: str


def standard_form(url: str) -> str:
    """The URL after all standard steps."""
    if len(url) > URL_CHARS_MAX or _STANDARD.fullmatch(url):
        return url
    parsed = parse(url)
    if parsed is None:
        return _trimmed(url)
    for step in STEPS:
        parsed = step(parsed)
    return unparse(parsed)


def explain_standard_form(url: str) -> list[StandardStep]:
    """The steps that change the URL, in order."""
    if len(url) > URL_CHARS_MAX:
        return []
    done: list[StandardStep] = []
    trimmed = _trimmed(url)
    if trimmed != url:
        done.append(StandardStep("white_space_removed", trimmed))
    parsed = parse(url)
    for step in STEPS if parsed else ():
        assert parsed is not None
        after = step(parsed)
        if after != parsed:
            done.append(StandardStep(step.__name__, unparse(after)))
        parsed = after
    return done


def parse(url: str) -> Parsed | None:
    """The components, or None if the text is not `scheme://host…`."""
    found = split_url(_trimmed(url))
    if found is None:
        return None
    scheme, authority, path, query, fragment = found
    parts = split_authority(authority)
    return None if parts is None or not parts[1] else Parsed(scheme, *parts, path, query, fragment)


def unparse(url: Parsed) -> str:
    userinfo = "" if url.userinfo is None else url.userinfo + "@"
    port = "" if url.port is None else ":" + url.port
    query = "" if url.query is None else "?" + url.query
    fragment = "" if url.fragment is None else "#" + url.fragment
    return f"{url.scheme}://{userinfo}{url.host}{port}{url.path}{query}{fragment}"


def _trimmed(url: str) -> str:
    return _REMOVED.sub("", url).strip(_STRIPPED)


def _host_to_ascii(host: str) -> str:
    try:
        return ascii_host(host)
    except UnicodeError:
        return host.lower()


def _one_form(text: str) -> str:
    if "%" in text:
        text = _ESCAPE.sub(_escape_in_one_form, text)
    return _UNSAFE.sub(_escaped, text)


def _escape_in_one_form(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return character if character in _UNRESERVED else found[0].upper()


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))
