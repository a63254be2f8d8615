"""Suggestions for a URL that is not known: other spellings of it, and similar URLs of its site."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from itertools import islice

from dustream.streams.questions.state import ReadableState

SUGGESTIONS_MAX = 3
NEIGHBOURS_READ_MAX = 500  # per folder, from the page's own up to that of the host
LIKENESS_MIN = 0.6
_INDEX_PAGE = re.compile(r"/index\.\w{3,5}$")


def near_urls(state: ReadableState, url: str) -> list[str]:
    """Known URLs similar to this one, the most likely first."""
    return near_urls_among(url, lambda each: state.status(each) is not None, state.urls)


def near_urls_among(url: str, is_known: Callable[[str], bool], urls: Callable[[str], Iterator[str]]) -> list[str]:
    """The same among other URLs; `urls` gives those with a prefix, in order."""
    found = [each for each in _spellings(url) if is_known(each)]
    for meant in (url, _other_scheme(url)):
        for folder in _folders(meant):
            if len(found) < SUGGESTIONS_MAX:
                found += [each for each in _neighbours(urls(folder), meant, folder) if each not in found]
    return found[:SUGGESTIONS_MAX]


def _neighbours(urls: Iterator[str], url: str, folder: str) -> list[str]:
    """Among the first URLs in a folder, those whose rest is similar to this one's."""
    rests = {each[len(folder) :]: each for each in islice(urls, NEIGHBOURS_READ_MAX)}
    rest = url[len(folder) :]
    equal = [each for each in rests if each.casefold() == rest.casefold()]
    return [rests[each] for each in equal or get_close_matches(rest, rests, SUGGESTIONS_MAX, LIKENESS_MIN)]


def _spellings(url: str) -> Iterator[str]:
    """Slash, index page, scheme, www and case: the usual typos, each alone and with the other scheme."""
    seen = {url}
    for spelling in (url, *_path_spellings(url)):
        for each in (spelling, _other_scheme(spelling), _other_www(spelling), _other_www(_other_scheme(spelling))):
            if each not in seen:
                seen.add(each)
                yield each


def _path_spellings(url: str) -> list[str]:
    base, mark, query = url.partition("?")
    slash = base[:-1] if base.endswith("/") else base + "/"
    bases = [slash, _INDEX_PAGE.sub("/", base), base.rstrip("/") + "/index.html", base.lower()]
    return [each + mark + query for each in bases] + ([base] if query else [])


def _other_scheme(url: str) -> str:
    return "http" + url[5:] if url.startswith("https:") else "https" + url[4:]


def _other_www(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest[4:] if rest.startswith('www.') else 'www.' + rest}"


def _folders(url: str) -> Iterator[str]:
    """The folders that contain a page, the innermost first, up to that of the host."""
    folder = url.partition("?")[0]
    while (folder := folder[: folder.rstrip("/").rfind("/") + 1]).count("/") >= 3:
        yield folder
