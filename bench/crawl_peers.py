"""What people use today to deduplicate a crawl, as commands: pages in JSON lines → a list of the URLs to keep.

    python bench/crawl_peers.py rensa|datasketch pages.jsonl keep.txt [--jobs 2]

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
LINES_A_TASK = 64


def shingles_of(text: str) -> set[str]:
    tokens = text.lower().split()
    return {" ".join(tokens[at : at + 5]) for at in range(max(1, len(tokens) - 4))} if tokens else set()


def page_of(line: bytes) -> tuple[str, str]:
    try:
        page = json.loads(line)
    except ValueError:
        return "", ""
    html = page.get("html") or base64.b64decode(page.get("body") or "").decode("utf-8", "replace")
    return page.get("url") or "", html


def rensa_page(line: bytes) -> tuple[str, Any]:
    from rensa import RMinHash
    from resiliparse.extract.html2text import extract_plain_text

    url, html = page_of(line)
    found = shingles_of(extract_plain_text(html, main_content=True))
    minhash = RMinHash(num_perm=PERMUTATIONS, seed=42)
    minhash.update(list(found))
    return url, minhash if found else None


def datasketch_page(line: bytes) -> tuple[str, Any]:
    from bs4 import BeautifulSoup
    from datasketch import MinHash

    warnings.simplefilter("ignore")
    url, html = page_of(line)
    found = shingles_of(BeautifulSoup(html, "html.parser").get_text(" "))
    minhash = MinHash(num_perm=PERMUTATIONS)
    minhash.update_batch([shingle.encode() for shingle in found])
    return url, minhash if found else None


def rensa_index() -> Any:
    from rensa import RMinHashLSH

    return RMinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_bands=BANDS)


def datasketch_index() -> Any:
    from datasketch import MinHashLSH

    return MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS)


PEERS: dict[str, tuple[Callable[[bytes], tuple[str, Any]], Callable[[], Any]]] = {
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
    with open(args.pages, "rb") as lines, open(args.keep, "w") as keep, multiprocessing.Pool(args.jobs) as pool:
        pages = map(read, lines) if args.jobs == 1 else pool.imap(read, lines, LINES_A_TASK)
        count = 0
        for url in kept(pages, make_index()):
            keep.write(url + "\n")
            count += 1
    print(f"{count} kept", file=sys.stderr)


if __name__ == "__main__":
    main()
