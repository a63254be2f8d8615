"""Text and signatures: what each stage costs, and against what else one would take. `python bench/text.py`

Ratios are of one run, on one core, in CPU time (other processes on the machine matter less to it). Real pages come from
the folder DUSTREAM_DATA (default: ../shared/data beside the repository); without it, generated text is used and
what could not be run is named. On real pages the figures go to bench/results/text.json.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree
from result_files import Table, write_result

from dustream.core.text import minhash, page_guard, shingles, tokens
from dustream.core.text.encoding import decode
from dustream.core.text.extract import extract
from dustream.core.text.language import detect_language
from dustream.core.text.signature import sign

DATA = Path(os.environ.get("DUSTREAM_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
SITES = ("A_networkx_doc", "A_kafka_site", "A_dolphinscheduler_zh_en", "C_pages_multisite")
PAGES_PER_SITE = 150
WINDOW_SIZE_MAX = 2**27


def rows(name: str, count: int | None = None) -> Iterator[dict[str, Any]]:
    import zstandard

    with open(DATA / f"{name}.jsonl.zst", "rb") as file:
        reader = zstandard.ZstdDecompressor(max_window_size=WINDOW_SIZE_MAX).stream_reader(file)
        for line in itertools.islice(io.TextIOWrapper(reader, "utf-8"), count):
            yield json.loads(line)


def site_pages(name: str) -> list[str]:
    return [row["html"] for row in rows(name, PAGES_PER_SITE) if row.get("html")]


def generated_pages(count: int = 200, words: int = 700) -> list[str]:
    rng = random.Random(1)
    vocabulary = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(5000)]
    weights = [1 / (rank + 1) for rank in range(len(vocabulary))]
    return [
        "<html><body><main><p>" + " ".join(rng.choices(vocabulary, weights, k=words)) + "</p></main></body></html>"
        for _ in range(count)
    ]


def us_side_by_side(contenders: list[tuple[Callable[[Any], Any], list[Any]]], rounds: int = 5) -> list[float]:
    """µs per item of each (work, items): the best of some rounds, in which all take turns, after a warm-up."""
    best = [float("inf")] * len(contenders)
    for work, items in contenders:
        work(items[0])
    for _ in range(rounds):
        for place, (work, items) in enumerate(contenders):
            started = time.thread_time()
            for item in items:
                work(item)
            best[place] = min(best[place], (time.thread_time() - started) / len(items) * 1e6)
    return best


def us_per_item(work: Callable[[Any], Any], items: list[Any], rounds: int = 3) -> float:
    return us_side_by_side([(work, items)], rounds)[0]


WORD = re.compile(r"\w+")


def datasketch_signature(text: str) -> Any:
    """What people write: words by a regular expression, 5-word shingles as strings, 128 permutations."""
    from datasketch import MinHash

    words = WORD.findall(text.lower())
    sketch = MinHash(num_perm=128)
    sketch.update_batch({" ".join(words[i : i + 5]).encode() for i in range(max(1, len(words) - 4))})
    return sketch


@njit(cache=True)
def bare_pass(data: Any, classes: Any, multipliers: Any, addends: Any) -> Any:
    """The least one can do: ASCII-only words by a table, FNV token hashes, a 5-token window, 128 running minima per
    window. No Unicode, no shingle set, no content hash, no length vector."""
    lowest = np.full(128, 0xFFFFFFFF, dtype=np.uint32)
    window = np.zeros(5, dtype=np.uint64)
    h, length = np.uint64(0xCBF29CE484222325), 0
    for at in range(data.size + 1):
        if at < data.size and classes[data[at]]:
            h = (h ^ np.uint64(classes[data[at]])) * np.uint64(0x100000001B3)
            length += 1
        elif length:
            for j in range(4):
                window[j] = window[j + 1]
            window[4] = h
            mixed = np.uint64(0)
            for j in range(5):
                mixed = (mixed ^ window[j]) * np.uint64(0x9E3779B185EBCA87)
            value = np.uint32(mixed >> np.uint64(32))
            for j in range(128):
                lowest[j] = min(lowest[j], np.uint32(multipliers[j] * value + addends[j]))
            h, length = np.uint64(0xCBF29CE484222325), 0
    return lowest


def bare(data: bytes) -> Any:
    return bare_pass(np.frombuffer(data, dtype=np.uint8), CLASSES, minhash.MULTIPLIERS_32, minhash.ADDENDS_32)


CLASSES = np.array([b | 0x20 if chr(b).isalnum() or b >= 0x80 else 0 for b in range(256)], dtype=np.uint8)


def signature_speed(name: str, texts: list[str]) -> list[Any]:
    data = [text.encode() for text in texts]
    ours, floor, naive = us_side_by_side([(sign, texts), (bare, data), (datasketch_signature, texts)])
    count = sum(sign(text).token_count for text in texts) // len(texts)
    return [name, count, round(ours, 1), round(naive), round(naive / ours, 1), round(floor, 1), round(ours / floor, 2)]


SIGNATURE_COLUMNS = [
    "pages", "tokens", "sign, µs", "datasketch, µs", "as a multiple of ours", "bare pass, µs", "ours, of it"
]  # fmt: skip


def stages(pages: list[str]) -> dict[str, float]:
    """µs a page of each stage, with resiliparse as the parser."""
    bodies = [page.encode("utf-8", "replace") for page in pages]
    trees = [HTMLTree.parse(page) for page in pages]
    texts = [extract(page).text for page in pages]
    data = [tokens.text_bytes(text) for text in texts]
    streams = [tokens.hash_stream(item)[0] for item in data]
    sets = [shingles.distinct_shingles(stream) for stream in streams]
    options = {"links": False, "list_bullets": False, "main_content": True, "comments": False}
    return {
        "KB": sum(map(len, bodies)) / len(bodies) / 1000,
        "decode": us_per_item(decode, bodies),
        "guard": us_per_item(page_guard.check_page, bodies),
        "parse": us_per_item(HTMLTree.parse, pages),
        "main text": us_per_item(lambda tree: extract_plain_text(tree, **options), trees),
        "language": us_per_item(lambda pair: detect_language(*pair), list(zip(data, streams, strict=True))),
        "tokens + content hash": us_per_item(tokens.hash_stream, data),
        "shingle set": us_per_item(shingles.distinct_shingles, streams),
        "minhash": us_per_item(minhash.minhash, sets),
        "length vector": us_per_item(shingles.length_vector, sets),
    }


def stages_table(pages: dict[str, list[str]]) -> Table:
    found = {name: stages(site) for name, site in pages.items()}
    columns = ["pages", *next(iter(found.values()))]
    return Table("µs a page, by stage", columns, [[name, *map(round, each.values())] for name, each in found.items()])


def quad_shingles(text: str) -> set[tuple[str, ...]]:
    words = tokens.explain_tokens(text)
    return {tuple(words[i : i + 4]) for i in range(len(words) - 3)}


def selectolax_text(page: str) -> str:
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(page)
    for node in tree.css("script,style,noscript,template"):
        node.decompose()
    return tree.body.text(separator=" ") if tree.body else ""


def trafilatura_text(page: str) -> str:
    import trafilatura

    return trafilatura.extract(page, include_comments=False) or ""


EXTRACTORS: dict[str, Callable[[str], str]] = {
    "resiliparse main (ours)": lambda page: extract(page).text,
    "resiliparse full": lambda page: extract(page, mode="full").text,
    "selectolax full": selectolax_text,
    "trafilatura": trafilatura_text,
}


def extraction_quality(name: str, extractor: Callable[[str], str], articles: list[dict[str, Any]]) -> list[Any]:
    precision = recall = f1 = 0.0
    for row in articles:
        truth, found = quad_shingles(row["article"]), quad_shingles(extractor(row["html"]))
        common = len(found & truth)
        p, r = common / max(1, len(found)), common / max(1, len(truth))
        precision, recall, f1 = precision + p, recall + r, f1 + (2 * p * r / (p + r) if p + r else 0)
    cost = us_per_item(extractor, [row["html"] for row in articles], rounds=1)
    return [name, *(round(score / len(articles), 3) for score in (precision, recall, f1)), round(cost)]


def parser_speed(name: str, pages: list[str]) -> list[Any]:
    from selectolax.lexbor import LexborHTMLParser

    work = (HTMLTree.parse, LexborHTMLParser, EXTRACTORS["resiliparse full"], selectolax_text)
    return [name, *(round(us_per_item(each, pages)) for each in work)]


PARSER_COLUMNS = ["pages", "resiliparse", "selectolax", "resiliparse, with full text", "selectolax, with full text"]


def main() -> int:
    real = DATA.is_dir()
    pages = {name: site_pages(name) for name in SITES} if real else {"generated": generated_pages()}
    if not real:
        print(f"no data at {DATA} (set DUSTREAM_DATA): generated text instead; extraction quality was not measured")
    signed = [signature_speed(name, [extract(page).text for page in site]) for name, site in pages.items()]
    parsed = [parser_speed(name, site) for name, site in pages.items()]
    tables = [
        Table("text to signature", SIGNATURE_COLUMNS, signed),
        stages_table(pages),
        Table("parsers, µs a page", PARSER_COLUMNS, parsed),
    ]
    if real:
        articles = list(rows("E_articles_with_truth"))
        found = [extraction_quality(name, extractor, articles) for name, extractor in EXTRACTORS.items()]
        columns = ["extractor", "precision", "recall", "F1", "µs a page"]
        tables.append(Table("main text of 93 articles, 4-token shingles", columns, found))
    for table in tables:
        print(f"{table.title}\n\n{table.markdown()}\n")
    if real:
        write_result("text", tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
