"""The identity of a page: the one spelling of its URL that is used as its key."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urljoin

from dustream.core.errors import BadEvent
from dustream.core.urls.hosts import ascii_host
from dustream.core.urls.parts import split_authority, split_url

URL_BYTES_MAX: Final = 8192
EXCERPT_CHARS_MAX: Final = 80

# A URL that is already its own identity: most are.
_IDENTICAL: Final = re.compile(r"https?://[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_.])?/[\x21\x22\x24-\x7e]*", re.ASCII)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HOST: Final = re.compile(r"(?=.*[a-z0-9_])[a-z0-9._-]{1,253}\.?|\[[0-9a-f:.]{2,45}\]", re.ASCII)
_DEFAULT_PORT: Final = {"http": 80, "https": 443}


def page_identity(url: str) -> str:
    """The URL that identifies a page: absolute http(s) with a host, in one spelling.

    Only the equivalences that RFC 3986 sections 6.2.2 and 6.2.3 call safe and every server honours: surrounding white
    space and the fragment are removed, scheme and host become lower case, the default port is removed, an empty path
    becomes "/", a non-ASCII host becomes punycode. Learned rules do the rest (slashes, parameters, percent codes).
    """
    if _IDENTICAL.fullmatch(url) and len(url) <= URL_BYTES_MAX:
        return url
    text = url.strip()
    _check_characters(text)
    found = split_url(text)
    if found is None or found[0].lower() not in _DEFAULT_PORT:
        raise _no_page(text)
    scheme, authority, path, query, _ = found
    scheme, asked = scheme.lower(), "" if query is None else f"?{query}"
    tail = ((path or "/") + asked).rstrip()  # `strip` above did not reach blanks before the fragment
    identity = f"{scheme}://{_normal_authority(scheme, authority)}{tail}"
    _check_length(identity)
    return identity


def resolve_target(base: str, location: str) -> str:
    """The identity of a redirect's target; `location` is absolute or relative to `base` (RFC 3986 section 5)."""
    text = re.sub(r"[\t\r\n]", "", location).strip()  # as browsers do: folded headers contain them
    if not text:
        raise BadEvent("redirect without a target")
    if re.match(r"https?://", text, re.IGNORECASE):
        return page_identity(text)
    reference = text.partition("#")[0]
    try:
        joined = urljoin(base, reference)
    except ValueError as error:
        raise BadEvent(f"redirect target {excerpt(text)} is not a URL: {error}") from None
    if reference.endswith("?") and not joined.endswith("?"):  # urljoin drops an empty query, which servers can see
        joined += "?"
    return page_identity(joined)


def _check_characters(text: str) -> None:
    if not text:
        raise BadEvent("no URL")
    if len(text) > 4 * URL_BYTES_MAX:  # a cheap bound before any scan; the exact check follows on the identity
        raise BadEvent(f"URL longer than {URL_BYTES_MAX} bytes: {excerpt(text)}")
    if _CONTROL.search(text):
        raise BadEvent(f"URL with control characters: {excerpt(text)}")


def _no_page(text: str) -> BadEvent:
    """Why a text is no URL of a page."""
    found = _SCHEME.match(text)
    if found is None:
        return BadEvent(f"relative URL {excerpt(text)}: an absolute http or https URL is needed")
    scheme = found[1].lower()
    if scheme not in _DEFAULT_PORT:
        return BadEvent(f"URL with scheme {excerpt(scheme)}: only http and https are read ({excerpt(text)})")
    return BadEvent(f"URL without a host: {excerpt(text)}")


def _normal_authority(scheme: str, authority: str) -> str:
    userinfo, named, port = split_authority(authority) or (None, authority, None)
    if not named:
        raise BadEvent("URL without a host")
    host = _normal_host(named)
    if not _HOST.fullmatch(host):
        raise BadEvent(f"URL with an impossible host: {excerpt(named)}")
    user = "" if userinfo is None else f"{userinfo}@"
    return f"{user}{host}{_normal_port(scheme, port)}"


def _normal_port(scheme: str, digits: str | None) -> str:
    if not digits:
        return ""
    if len(digits) > 8 or int(digits) > 65535:
        raise BadEvent(f"URL with an impossible port: {excerpt(digits)}")
    return "" if int(digits) == _DEFAULT_PORT[scheme] else f":{int(digits)}"


def _normal_host(host: str) -> str:
    try:
        return ascii_host(host)
    except UnicodeError:
        raise BadEvent(f"URL with an impossible host: {excerpt(host)}") from None


def _check_length(identity: str) -> None:
    try:
        size = len(identity.encode())
    except UnicodeEncodeError:
        raise BadEvent(f"URL that is not valid Unicode: {excerpt(identity)}") from None
    if size > URL_BYTES_MAX:
        raise BadEvent(f"URL longer than {URL_BYTES_MAX} bytes: {excerpt(identity)}")


def excerpt(text: str) -> str:
    """The text quoted, printable and short, for terminals and reports."""
    shown = text if len(text) <= EXCERPT_CHARS_MAX else text[:EXCERPT_CHARS_MAX] + "…"
    return ascii(shown) if _CONTROL.search(shown) or not shown.isprintable() else repr(shown)
