"""The inputs of `learn`: URLs with their clusters, digests, canonical links or sizes.

    a run's --out folder, status.jsonl      groups as a run found them; redirects and dead pages too
    TSV with a header                       url, and one of cluster, group, digest (…sha1, checksum), canonical or size
    TSV without                             url and cluster; or pairs of URLs: the page and its rel=canonical link, and
                                            if there is a third column, what the link is: canonical, refresh, redirect
    JSONL                                   the same names as keys; also role and status (the truth of a generated web)
    CDX, CDXJ                               url, digest and size; redirects and errors by status
    access log (common, combined)           paths with sizes; --host says which host they are on

Plain or compressed with gzip or zstd.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin

import msgspec

from dustream.core.errors import BadSetting, UnreadableInput
from dustream.core.rules.learn import SiteUrl
from dustream.core.urls.standard import parse
from dustream.streams.readers.sources import BrokenSource, open_source, read_content

LINE_BYTES_MAX: Final = 1 << 20

CLUSTER_NAMES: Final = ("cluster", "group", "digest", "content_digest", "sha1", "checksum", "hash")
LABEL_NAMES: Final = tuple(name for name in CLUSTER_NAMES if name != "group")
"""Those that a run's own status lines do not have."""
LINK_KINDS: Final = ("canonical", "refresh", "redirect")
"""Of pairs of URLs: what the link from one to the other is."""
SIZE_NAMES: Final = ("size", "bytes", "length")
_NO_CLUSTER: Final = frozenset({"", "-", "-1", "null", "None"})
_ACCESS: Final = re.compile(
    rb'\S+ \S+ .{1,256}? \[[^\]]{1,64}\] "([A-Z]{3,10}) ([^" ]+)(?: HTTP/[0-9.]+)?" (\d{3}) (\d+|-)'
)
_CDX_LETTERS: Final = {7: "NbamskS", 9: "NbamskrVg", 10: "NbamskrMVg", 11: "NbamskrMSVg"}
_CDXJ: Final = re.compile(rb"\S+ \d{4,17} \{")
_CDX: Final = re.compile(rb"\S+ \d{14} \S+ \S+ \S+ \S+")


class LearnerInput(NamedTuple):
    """The URLs of an input, its number of lines, and how many of them describe no page."""

    urls: list[SiteUrl]
    lines: int
    unread: int


Parse = Callable[[bytes], SiteUrl | None]


def read_known_urls(path: str, host: str | None = None) -> LearnerInput:
    """All URLs of an input. Raises UnreadableInput, with what to do, if it is in none of the formats."""
    named = Path(path)
    if named.is_dir():
        if not (named / "status.jsonl").exists():
            raise UnreadableInput(f"{path} has no status.jsonl: name the --out folder of a run, or a file")
        path = str(named / "status.jsonl")
    lines = _lines(path)
    first = next(lines, None)
    if first is None:
        return LearnerInput([], 0, 0)
    parse_line, is_header = _parser(path, first, host)
    found: dict[str, SiteUrl] = {}
    read = unread = 0
    for line in lines if is_header else _chained(first, lines):
        entry = parse_line(line)
        read += 1
        if entry is None:
            unread += 1
        else:
            found[entry.url] = _merged(found.get(entry.url), entry)
    _check_told(path, found.values(), read)
    return LearnerInput(list(found.values()), read, unread)


def _check_told(path: str, found: Collection[SiteUrl], lines: int) -> None:
    if not found:
        raise UnreadableInput(
            f"none of the {lines} lines of {path} describes a page: each needs an absolute URL under the name url, and"
            f" {', '.join(CLUSTER_NAMES)} or size"
        )
    if not all(entry.avoid for entry in found) and not any(map(_tells, found)):
        raise UnreadableInput(
            f"{path} has URLs, but nothing says which show the same page: each line needs one of"
            f" {', '.join(CLUSTER_NAMES)}, canonical or size. `dustream run` finds it out from pages"
        )


def _tells(entry: SiteUrl) -> bool:
    return entry.cluster is not None or entry.size_min >= 0 or bool(entry.canonical)


def _merged(before: SiteUrl | None, entry: SiteUrl) -> SiteUrl:
    """Several lines about one URL: the last says what it is, sizes span all of them."""
    if before is None or before.size_min < 0 or entry.size_min < 0:
        return entry
    return entry._replace(size_min=min(before.size_min, entry.size_min), size_max=max(before.size_max, entry.size_max))


def _parser(path: str, first: bytes, host: str | None) -> tuple[Parse, bool]:
    if first.lstrip().startswith(b"{"):
        return _from_json, False
    if _ACCESS.match(first):
        if host is None:
            raise UnreadableInput(
                f"{path} is an access log: say which host it is of, as --host https://www.example.com"
            )
        if parse(host) is None:
            raise BadSetting(f"--host {host!r} is no address of a site: write it as https://www.example.com")
        return lambda line: _from_access(line, host), False
    if _CDXJ.match(first):
        return _from_cdxj, False
    if first.lstrip().startswith(b"CDX "):
        letters = first.split()[1:]
        return lambda line: _from_cdx(line, [letter.decode() for letter in letters]), True
    if _CDX.match(first) and len(first.split()) in _CDX_LETTERS:
        return lambda line: _from_cdx(line, list(_CDX_LETTERS.get(len(line.split()), ""))), False
    columns = first.decode("utf-8", "replace").rstrip("\r\n").lower().split("\t")
    if "url" in columns:
        return _tsv_parser(path, columns), True
    if len(columns) == 2 and "://" in columns[0]:
        return _tsv_parser(path, ["url", "canonical" if "://" in columns[1] else "cluster"]), False
    if len(columns) == 3 and all("://" in column for column in columns[:2]) and columns[2] in LINK_KINDS:
        return _tsv_parser(path, ["url", "link", "kind"]), False
    raise UnreadableInput(
        f"{path} is in no format that rules can be learned from: give a run's --out folder, a TSV with a header line "
        "(url and cluster, digest, canonical or size), JSONL with the same names, CDX, CDXJ, or an access log"
    )


def _tsv_parser(path: str, columns: list[str]) -> Parse:
    place = {name: i for i, name in enumerate(columns)}
    cluster = next((place[name] for name in CLUSTER_NAMES if name in place), None)
    if cluster is None:
        cluster = next(
            (i for i, name in enumerate(columns) if name.endswith(("sha1", "sha256", "md5", "digest"))), None
        )
    size = next((place[name] for name in SIZE_NAMES if name in place), None)
    if cluster is None and size is None and "canonical" not in place and "link" not in place:
        raise UnreadableInput(f"{path} has no column named {', '.join(CLUSTER_NAMES)}, canonical or size: name one so")

    def cell(cells: list[str], name: str) -> str | None:
        return cells[place[name]] if name in place else None

    def parse(line: bytes) -> SiteUrl | None:
        cells = line.decode("utf-8", "replace").rstrip("\r\n").split("\t")
        if len(cells) < len(columns):
            return None
        if "kind" in place and "link" in place:
            return _linked(*cells[:3])
        return _entry(
            cells[place["url"]],
            None if cluster is None else cells[cluster],
            None if size is None else cells[size],
            cell(cells, "status"),
            cell(cells, "canonical"),
        )

    return parse


def _from_json(line: bytes) -> SiteUrl | None:
    try:
        fields = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return known_url(fields) if isinstance(fields, dict) else None


def known_url(fields: Mapping[str, Any]) -> SiteUrl | None:
    """A URL from named fields; None if they have none."""
    if not isinstance(fields.get("url"), str):
        return None
    if "role" in fields:
        return _from_labelled(fields) if any(name in fields for name in LABEL_NAMES) else _from_status(fields)
    cluster = next((fields[name] for name in CLUSTER_NAMES if fields.get(name) is not None), None)
    size = next((fields[name] for name in SIZE_NAMES if fields.get(name) is not None), None)
    return _entry(fields["url"], cluster, size, fields.get("status"), fields.get("canonical"))


def _from_status(fields: Mapping[str, Any]) -> SiteUrl:
    """A line of a run's status.jsonl. What is similar to one winner is a cluster: a group is linked by chains."""
    role = fields["role"]
    named = [fields[name] for name in ("winner", "group") if isinstance(fields.get(name), str)]
    is_open = role in ("gone", "held") or fields.get("problem") == "content_unknown"
    known = None if is_open else named[0] if named else None if role == "redirect" else fields["url"]
    return SiteUrl(fields["url"], known, avoid=role in ("redirect", "gone"), canonical=fields.get("canonical") or "")


def _from_labelled(fields: Mapping[str, Any]) -> SiteUrl | None:
    """A role and a cluster or digest, as in the truth of a generated web: the cluster counts, the role says what is no
    page. A page without one is alone."""
    role, url = fields["role"], fields["url"]
    if role not in ("redirect", "gone", "rejected"):
        label = next((fields[name] for name in LABEL_NAMES if fields.get(name) is not None), "")
        return _entry(url, label, None, None)
    return None if role == "rejected" or "://" not in url else SiteUrl(url, avoid=True)


def _from_cdxj(line: bytes) -> SiteUrl | None:
    brace = line.find(b"{")
    return None if brace < 0 else _from_json(line[brace:])


def _from_cdx(line: bytes, letters: list[str]) -> SiteUrl | None:
    cells = dict(zip(letters, line.decode("utf-8", "replace").split(), strict=False))
    return _entry(cells.get("a", ""), cells.get("k"), cells.get("S"), cells.get("s"))


def _from_access(line: bytes, host: str) -> SiteUrl | None:
    found = _ACCESS.match(line)
    if found is None or found[1] != b"GET":
        return None
    url = urljoin(host, found[2].decode("utf-8", "replace"))
    return _entry(url, None, found[4].decode(), found[3].decode())


def _linked(url: str, link: str, kind: str) -> SiteUrl | None:
    """A pair of URLs: the page names the other one as canonical, or leads to it."""
    if "://" not in url or kind not in LINK_KINDS:
        return None
    return SiteUrl(url, canonical=link, avoid=kind != "canonical")


def _entry(url: str, cluster: Any, size: Any, status: Any, canonical: Any = None) -> SiteUrl | None:
    """None for lines without a URL, and for answers that are neither a page, a redirect nor an error."""
    if "://" not in url:
        return None
    code = str(status) if status is not None else "200"
    if code in ("-", "", "None", "null"):  # indexes say so of records that revisit a page
        code = "200"
    if code in ("301", "302", "303", "307", "308", "404", "410"):
        return SiteUrl(url, avoid=True)
    if not code.startswith("2"):
        return None
    size_bytes = int(size) if size is not None and str(size).isdecimal() else -1
    named = None if cluster is None else str(cluster)
    if named in _NO_CLUSTER:
        named = f"alone {url}"
    size_bytes = size_bytes if named is None else -1
    return SiteUrl(url, named, size_bytes, size_bytes, canonical=str(canonical or ""))


def _lines(path: str) -> Iterator[bytes]:
    source = open_source(path)
    rest = b""
    try:
        for piece in read_content(source):
            rest += piece
            *lines, rest = rest.split(b"\n")
            yield from (line for line in lines if line.strip() and len(line) <= LINE_BYTES_MAX)
            if len(rest) > LINE_BYTES_MAX:
                raise UnreadableInput(f"{path} has a line of more than {LINE_BYTES_MAX} bytes: it is no list of URLs")
        if rest.strip():
            yield rest
    except BrokenSource as error:
        raise UnreadableInput(f"{path} {error}: mend it, or learn from what comes before the break") from None
    finally:
        source.close()


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
