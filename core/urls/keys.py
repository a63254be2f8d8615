"""A URL as key–value pairs (Lei, Figure 2), and back. It is lossless: `compose(decompose(url)) == url` for any text.

    https://www.example.com:81/shop/show.php;v=2?id=7&id=8&new#top

    scheme https   host_0 com   host_1 example   host_2 www   port 81
    path_0 shop    path_1 show  ext php          ;v= 2
    ?id= 7         ?id= #2 8    ?new             # top

Host labels count from the right, so that `www.` adds a label instead of shifting all others. Directories and the file
name are path_0, path_1 …, the extension of the last one is `ext`. A query or path-parameter key includes its `=`: `k=`
and a bare `k` are two keys. Repeated keys are numbered. Text that is not `scheme://…`, or contains spaces or control
characters, is one value under `opaque`, which no rule changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from dustream.core.urls.parts import split_authority, split_url

Pair = tuple[str, str]
Decomposition = tuple[Pair, ...]
Keys = tuple[str, ...]

OPAQUE: Final = "opaque"
ORIGINS_CACHED_MAX: Final = 65_536
STRUCTURES_CACHED_MAX: Final = 1_024

_BLANK_OR_CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")
_IPV4: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}", re.ASCII)
_EXTENSION: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,7}", re.ASCII)
_INDEXED: Final = {part: tuple(f"{part}_{i}" for i in range(64)) for part in ("host", "path")}


def decompose(url: str) -> Decomposition:
    """The pairs of a URL, in URL order (host labels from right to left)."""
    return tuple(zip(*keys_and_values(url), strict=True))


def keys_and_values(url: str) -> tuple[Keys, list[str]]:
    """The same as two lists. URLs of one structure have equal keys, so work that depends on keys alone is done once."""
    found = split_url(url)
    if found is None or ((not url.isprintable() or " " in url) and _BLANK_OR_CONTROL.search(url)):
        return (OPAQUE,), [url]
    scheme, authority, path, query, fragment = found
    keys, origin = _origin(scheme, authority)
    values = [*origin]
    if path:
        keys += _add_path(values, path)
    if query is not None:
        keys += _add_named(values, "?", query.split("&"))
    if fragment is not None:
        keys += ("#",)
        values.append(fragment)
    return keys, values


def compose(pairs: Decomposition) -> str:
    """The URL of the pairs, which must be in URL order."""
    return composer(tuple([key for key, _ in pairs]))(*[value for _, value in pairs])


@lru_cache(maxsize=STRUCTURES_CACHED_MAX)
def composer(keys: Keys) -> Callable[..., str]:
    """A function that builds URLs with these keys, in URL order, from their values. Keys differ in their first letter,
    except path and port."""
    if keys and keys[0] == OPAQUE:
        return str
    scheme = userinfo = port = fragment = ""
    labels: list[str] = []
    path: list[str] = []
    query: list[str] = []
    for place, key in enumerate(keys):
        first, value = key[0], f"{{{place}}}"
        if first == "p" and key[1] == "a":
            path.append("/" + value)
        elif first == "h":
            labels.append(value)
        elif first == "?":
            query.append(_name(key) + value)
        elif first == "s":
            scheme = value
        elif first == "e":
            path.append("." + value)
        elif first == ";":
            path.append(";" + _name(key) + value)
        elif first == "u":
            userinfo = value + "@"
        elif first == "p":
            port = ":" + value
        else:
            fragment = "#" + value
    asked = "?" + "&".join(query) if query else ""
    return f"{scheme}://{userinfo}{'.'.join(reversed(labels))}{port}{''.join(path)}{asked}{fragment}".format


def indexed(part: str, index: int) -> str:
    """`host_0`, `path_3` …"""
    names = _INDEXED[part]
    return names[index] if index < len(names) else f"{part}_{index}"


def index_of(key: str) -> int:
    """The number of a host or path key."""
    return int(key[5:])


def is_named(key: str) -> bool:
    """Whether the key is a query key or path parameter, which can be dropped without leaving a gap."""
    return key[0] in "?;"


def _name(key: str) -> str:
    """The name of a query key or path parameter, without its mark and its repeat number, escaped for `str.format`."""
    end = key.find(" ")
    name = key[1:] if end < 0 else key[1:end]
    return name.replace("{", "{{").replace("}", "}}")


@lru_cache(maxsize=ORIGINS_CACHED_MAX)
def _origin(scheme: str, authority: str) -> tuple[Keys, tuple[str, ...]]:
    """The keys and values of scheme and authority; most URLs of a site share them."""
    pairs = [("scheme", scheme)]
    userinfo, host, port = split_authority(authority) or (None, authority, None)
    if userinfo is not None:
        pairs.append(("userinfo", userinfo))
    whole = host.startswith("[") or _IPV4.fullmatch(host)
    labels = [host] if whole else host.split(".")[::-1]
    pairs += zip(_numbered("host", len(labels)), labels, strict=True)
    if port is not None:
        pairs.append(("port", port))
    return tuple(key for key, _ in pairs), tuple(value for _, value in pairs)


def _add_path(values: list[str], path: str) -> Keys:
    """Append the values of the path, and return their keys."""
    segments = path[1:].split("/")
    last = segments[-1]
    if ";" not in last and "." not in last:
        values += segments
        return _numbered("path", len(segments))
    name, *parameters = last.split(";")
    stem, dot, extension = name.rpartition(".")
    has_extension = bool(dot and stem and _EXTENSION.fullmatch(extension))
    segments[-1] = stem if has_extension else name
    values += segments
    keys = _numbered("path", len(segments))
    if has_extension:
        values.append(extension)
        keys += ("ext",)
    return keys + _add_named(values, ";", parameters) if parameters else keys


@lru_cache(maxsize=STRUCTURES_CACHED_MAX)
def _numbered(part: str, count: int) -> Keys:
    return tuple(indexed(part, i) for i in range(count))


def _add_named(values: list[str], mark: str, pieces: list[str]) -> Keys:
    seen: dict[str, int] = {}
    keys = []
    for piece in pieces:
        end = piece.find("=") + 1 or len(piece)
        key = mark + piece[:end]
        repeats = seen[key] = seen.get(key, 0) + 1
        keys.append(key if repeats == 1 else f"{key} #{repeats}")
        values.append(piece[end:])
    return tuple(keys)
