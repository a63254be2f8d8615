"""Pages of which it is known what their main text is, and how extractors are scored on them.

- segments: pieces of text of a page that people chose as belonging to the main text, or as not belonging to it;
- articles: the body as people marked it;
- documentation: the body element of the site's templates.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from pages import read_jsonl_zst
from publicsuffixlist import PublicSuffixList

from dustream.core.text.tokens import explain_tokens

SEGMENTS, ARTICLES = "F_segments_to_keep_and_leave", "E_articles_with_truth"
MANY_SITES = "C_pages_multisite"
# The start tag of the body element, by template, the innermost last: what comes first in this order is taken.
BODIES = {
    "A_networkx_doc": (
        r'<article class="bd-article"', r'<main class="[^"]*bd-content"', r'<div itemprop="articleBody"',
        r'<div role="main"', r'<div class="body"',
    ),
    "A_kafka_site": (
        r'<main role="main"', r'<div class="contentContainer"', r'<div class="p-content"',
        r'<div class="content documentation',
    ),
    "A_dolphinscheduler_zh_en": (r'<div class="doc-content', r'<div itemprop="articleBody"'),
    "B_recrawl_flink": (
        r'<article class="markdown', r'<div class="page-content', r'<div class="markdown', r'<div class="col-sm-9',
    ),
}  # fmt: skip
DOCUMENTATION_ONE_IN = {
    "A_networkx_doc": 83,
    "A_kafka_site": 83,
    "A_dolphinscheduler_zh_en": 15,
    "B_recrawl_flink": 271,
}
# A headline before the body element, where other templates of the same site have it inside.
_HEADLINE_BEFORE = re.compile(
    r'<div class="header">(?:(?!<div class="contentContainer").)*<div class="contentContainer"[^>]*>\Z', re.S
)
MARK = "qqbodyboundaryqq"


class Truth(NamedTuple):
    """A page and what is known of it; what is not known is empty."""

    collection: str
    site: str
    page: bytes
    kept: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    body: str = ""


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def site_of(url: str) -> str:
    """The registrable domain; some pages have file names that begin with it."""
    if url.startswith("hard::"):
        url = "http://" + re.split(r"-|\.html", url[6:])[0]
    if (archived := re.match(r"https?://web\.archive\.org/web/\d+/(.*)", url)) is not None:
        url = archived[1]
    host = (urlsplit(url.strip()).hostname or "").removeprefix("www.")
    return str(_suffixes().privatesuffix(host) or host)


def _rows(folder: Path, name: str, keep_one_in: int = 1) -> Iterator[dict[str, Any]]:
    for line in islice(read_jsonl_zst(folder / f"{name}.jsonl.zst"), 0, None, keep_one_in):
        yield msgspec.json.decode(line)


def segments(folder: Path) -> Iterator[Truth]:
    for row in _rows(folder, SEGMENTS):
        page = base64.b64decode(row["body"])
        yield Truth(SEGMENTS, site_of(row["url"]), page, tuple(row["with"]), tuple(row["without"]))


def articles(folder: Path) -> Iterator[Truth]:
    for row in _rows(folder, ARTICLES):
        yield Truth(ARTICLES, site_of(row["url"]), row["html"].encode("utf-8", "replace"), body=row["article"])


def many_sites(folder: Path) -> Iterator[Truth]:
    """Nothing is known of these but what other extractors agree on."""
    for row in _rows(folder, MANY_SITES):
        if row.get("html"):
            yield Truth(MANY_SITES, site_of(row.get("url") or ""), row["html"].encode("utf-8", "replace"))


def documentation(folder: Path, name: str, keep_one_in: int | None = None) -> Iterator[Truth]:
    """Pages with a body element, spread over all versions of a site."""
    for row in _rows(folder, name, keep_one_in or DOCUMENTATION_ONE_IN[name]):
        page = row.get("html") or ""
        if (place := body_range(page, name)) is not None:
            yield Truth(name, name, page.encode("utf-8", "replace"), body=page[place[0] : place[1]])


def body_range(page: str, name: str) -> tuple[int, int] | None:
    """Where the content of the body element starts and ends."""
    for start in BODIES[name]:
        if (found := re.search(start + r"[^>]*>", page)) is not None:
            tag = re.match(r"<(\w+)", found[0])
            depth = 1
            assert tag is not None
            for each in re.finditer(rf"<(/?){tag[1]}\b[^>]*>", page[found.end() :]):
                depth += -1 if each[1] else 1
                if depth == 0:
                    return found.end(), found.end() + each.start()
            return None
    return None


def body_with_headline(truth: Truth) -> str:
    """The body element, and the headline if the template has it right before that element."""
    page = truth.page.decode()
    before = page[: page.index(truth.body)]
    headline = _HEADLINE_BEFORE.search(before)
    return (before[headline.start() :] if headline else "") + truth.body


def marked(truth: Truth) -> bytes:
    """A page with blocks of their own where its body element starts and ends."""
    page = truth.page.decode()
    start = page.index(truth.body)
    end = start + len(truth.body)
    mark = f"<p>{MARK}</p>"
    return (page[:start] + mark + page[start:end] + mark + page[end:]).encode()


# --- scores


def plain(text: str) -> str:
    return " ".join(text.split())


class Score(NamedTuple):
    precision: float
    recall: float
    f1: float


def scored(right: float, found: float, known: float) -> Score:
    precision, recall = right / max(found, 1e-9), right / max(known, 1e-9)
    return Score(precision, recall, 2 * precision * recall / max(precision + recall, 1e-9))


def segment_score(texts: list[str], truths: list[Truth]) -> Score:
    """Of all segments together: those to keep that are in the text, and those to leave that are not."""
    kept = left = known = 0
    for text, truth in zip(texts, truths, strict=True):
        found = plain(text)
        kept += sum(plain(segment) in found for segment in truth.kept)
        left += sum(plain(segment) in found for segment in truth.left)
        known += len(truth.kept)
    return scored(kept, kept + left, known)


def quad_shingles(text: str) -> set[tuple[str, ...]]:
    words = explain_tokens(text)
    return {tuple(words[i : i + 4]) for i in range(len(words) - 3)}


def shingle_score(texts: list[str], bodies: list[str]) -> Score:
    """The means over pages of precision, recall and F1 of 4-token shingles."""
    scores = []
    for text, body in zip(texts, bodies, strict=True):
        found, known = quad_shingles(text), quad_shingles(body)
        scores.append(scored(len(found & known), len(found), len(known)) if known else Score(1.0, 1.0, 1.0))
    return Score(*(sum(values) / len(values) for values in zip(*scores, strict=True)))
