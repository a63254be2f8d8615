"""The class of a page's `rel=canonical` link: a criterion of the winner order.

    self    it names the page's own URL
    none    there is no link, or none that is trusted
    other   it names another page of its site, which is stored

The class depends on the page's URL and markup alone, not on whether the named page exists or what it names in turn. So
the winner order stays local and the outcome does not depend on the order of arrival.

A link is not trusted if it points to another site, if it points to the front page from a page that is not one
(templates with a fixed link do that), or if it is malformed: not an http(s) URL, a character not allowed in URLs, an
empty path segment (`/stable//index.html`) where the page's own URL has none.
"""

from __future__ import annotations

import re
from typing import Final

from dustream.core.errors import BadEvent
from dustream.core.urls.identity import resolve_target
from dustream.core.urls.parts import url_parts
from dustream.core.urls.sites import site_of
from dustream.core.urls.standard import standard_form

_NO_URL_HAS: Final = re.compile(r'[\s<>"{}|\\^`]')  # RFC 3986, appendix A: neither reserved nor unreserved
_FRONT_PAGE: Final = re.compile(r"/(?:(?:index|default|home|main)\.\w+)?", re.IGNORECASE)


def canonical_of(url: str, link: str) -> str:
    """`self`, `none`, or the other page that `link` names. `link`: as the page at `url` has it, "" if none."""
    if not link or link.startswith("#"):
        return "none"
    if link == url:
        return "self"
    try:
        target = resolve_target(url, link)
    except BadEvent:
        return "none"
    if standard_form(target) == standard_form(url):
        return "self"
    return target if _is_relied_on(url, link, target) else "none"


def _is_relied_on(url: str, link: str, target: str) -> bool:
    if _NO_URL_HAS.search(link.strip()) or site_of(target) != site_of(url):
        return False
    here, there = url_parts(url), url_parts(target)
    if "//" in there.path and "//" not in here.path:
        return False
    return there.path != "/" or bool(there.query) or _FRONT_PAGE.fullmatch(here.path) is not None
