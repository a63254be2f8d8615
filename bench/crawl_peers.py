"""What people use today to deduplicate a crawl, as commands: pages in JSON lines, or texts in Parquet → a list of the
URLs to keep.

    python bench/crawl_peers.py rensa|datasketch pages.jsonl|texts.parquet keep.txt [--jobs 2]

`rensa`: main text by resiliparse, MinHash and LSH by rensa. `datasketch`: text by BeautifulSoup, MinHash and LSH by
datasketch. Both compare sets of 5 words. With several jobs, processes extract and hash; one fills the index.
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

THRESHOLD = 0.9
PERMUTATIONS = 128
BANDS = 16
ROWS_A_TASK = 64


def shingles_of(text: str) -> set[str]:
    tokens = text.lower().split()
    return {" ".join(tokens[at : at + 5]) for at in range(max(1, len(tokens) - 4))} if tokens else set()


Row = bytes | tuple[str, str]
"""A line of JSON, or a URL and its text."""


def rows_of(path: str) -> Iterator[Row]:
    if not path.endswith(".parquet"):
        with open(path, "rb") as lines:
            yield from lines
        return
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches(columns=["url", "text"]):
        columns = batch.to_pydict()
        yield from zip(columns["url"], columns["text"], strict=True)


def text_of(row: Row, extract: Callable[[str], str]) -> tuple[str, str]:
    if isinstance(row, tuple):
        return row
    try:
        page = json.loads(row)
    except ValueError:
        return "", ""
    html = page.get("html") or base64.b64decode(page.get("body") or "").decode("utf-8", "replace")
    return page.get("url") or "", extract(html)


def rensa_page(row: Row) -> tuple[str, Any]:
    from rensa import RMinHash
    from resiliparse.extract.html2text import extract_plain_text

    url, text = text_of(row, lambda html: extract_plain_text(html, main_content=True))
    found = shingles_of(text)
    minhash = RMinHash(num_perm=PERMUTATIONS, seed=42)
    minhash.update(list(found))
    return url, minhash if found else None


def datasketch_page(row: Row) -> tuple[str, Any]:
    from bs4 import BeautifulSoup
    from datasketch import MinHash

    warnings.simplefilter("ignore")
    url, text = text_of(row, lambda html: BeautifulSoup(html, "html.parser").get_text(" "))
    found = shingles_of(text)
    minhash = MinHash(num_perm=PERMUTATIONS)
    minhash.update_batch([shingle.encode() for shingle in found])
    return url, minhash if found else None


def rensa_index() -> Any:
    from rensa import RMinHashLSH

    return RMinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_bands=BANDS)


def datasketch_index() -> Any:
    from datasketch import MinHashLSH

    return MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS)


PEERS: dict[str, tuple[Callable[[Row], tuple[str, Any]], Callable[[], Any]]] = {
    "rensa": (rensa_page, rensa_index),
    "datasketch": (datasketch_page, datasketch_index),
}


def kept(pages: Iterable[tuple[str, Any]], index: Any) -> Iterator[str]:
    """The URLs without a near-duplicate before them."""
    hashes: list[Any] = []
    for url, minhash in pages:
        if minhash is not None and any(minhash.jaccard(hashes[other]) >= THRESHOLD for other in index.query(minhash)):
            continue
        if minhash is not None:
            index.insert(len(hashes), minhash)
            hashes.append(minhash)
        yield url


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("pages")
    parser.add_argument("keep")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    read, make_index = PEERS[args.peer]
    with open(args.keep, "w") as keep, multiprocessing.Pool(args.jobs) as pool:
        rows = rows_of(args.pages)
        pages = map(read, rows) if args.jobs == 1 else pool.imap(read, rows, ROWS_A_TASK)
        count = 0
        for url in kept(pages, make_index()):
            keep.write(url + "\n")
            count += 1
    print(f"{count} kept", file=sys.stderr)


if __name__ == "__main__":
    main()
