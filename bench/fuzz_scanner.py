"""Mutated pages through the scanner and the signature, compiled with numba's bounds checks.

    python bench/fuzz_scanner.py [--pages 100000] [--seed 11]

Pages are cut, spliced, bit-flipped, nested and mixed with other encodings. An index outside an array ends the run with
an IndexError; it says "no crash" otherwise. Real pages are taken from the folder DUSTREAM_DATA, else generated ones.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

import numpy as np
from numba import config, njit
from tqdm import tqdm

PAGE_BYTES_MAX = 100_000
NESTS = (
    b"<div>",
    b"<table>",
    b"<b>",
    b"<svg>",
    b"<!--",
    b"<p a='",
    b"<a href=x>",
    b"<ul><li>",
    b"&amp",
    b"<p class=nav>",
)
CHARSETS = ("utf-16", "gb18030", "cp1251", "utf-8")
SIGNS = (b"<", b">", b"&", b"</", b"<!--", b"-->", b"\0", b"'", b'"', b"=", b"\xff", b"\xc2", b"]]>", b"<![CDATA[")


def mutated(pages: list[bytes], rng: random.Random) -> bytes:
    """A page cut, spliced, flipped, nested, and mixed with other encodings, up to six times."""
    page = bytearray(rng.choice(pages))
    for _ in range(rng.randint(1, 6)):
        kind, at, other = rng.randrange(7), rng.randrange(len(page) + 1), rng.choice(pages)
        if kind == 0:
            del page[at:]
        elif kind == 1:
            del page[at : at + rng.randint(1, 400)]
        elif kind == 2:
            page[at:at] = other[rng.randrange(len(other) + 1) :][:1000]
        elif kind == 3 and page:
            page[at % len(page)] ^= 1 << rng.randrange(8)
        elif kind == 4:
            page[at:at] = rng.choice(NESTS) * rng.randint(1, 600)
        elif kind == 5:
            page[at:at] = rng.choice(SIGNS)
        else:
            page[at:at] = "Zürich 東京 Москва".encode(rng.choice(CHARSETS), "replace")
    return bytes(page)


def some_pages() -> list[bytes]:
    from pages import data_folder, sample_pages

    from dustream.streams.generate import generate

    generated = [event.html.encode() for event in generate(pages=200, seed=3) if event.html]
    real = [(page.html or "").encode() for page in sample_pages(300)[1]] if data_folder() else []
    return [page for page in generated + real if len(page) < PAGE_BYTES_MAX]


@njit
def _beyond(array: np.ndarray, at: int) -> int:
    return array[at]


def check_that_bounds_are_checked() -> None:
    """Both where numba checks, and where vectors check for themselves."""
    from dustream.core.text.scan_vectors import WIDTH, equal_mask

    few = np.zeros(WIDTH - 1, dtype=np.uint8)
    for read in (lambda: _beyond(few, WIDTH), lambda: equal_mask(few, np.uint64(0), np.uint8(0))):
        try:
            read()
        except IndexError:
            continue
        raise SystemExit("bounds are not checked: NUMBA_BOUNDSCHECK=1 must be set before numba is imported")


def try_page(page: bytes, rng: random.Random) -> None:
    from dustream.core.errors import BadEvent
    from dustream.core.text.extractors import DEFAULT_SOURCE
    from dustream.core.text.one_pass import scan_blocks
    from dustream.core.text.scan import scan
    from dustream.core.text.signature import page_signer, sign

    scan_blocks(page)
    try:
        given = page if rng.random() < 0.5 else page.decode("utf-8", "surrogateescape")
        found = page_signer(DEFAULT_SOURCE, with_text=True)(given, None, "en")
    except BadEvent:
        return
    found.utf8.decode()
    assert sign(found.utf8, "en", scan(given).required) == found.signature


def fuzz(count: int, seed: int) -> None:
    check_that_bounds_are_checked()
    rng, pages, size = random.Random(seed), some_pages(), 0
    try_page(pages[0], rng)
    started = time.process_time()
    for _ in tqdm(range(count), unit="pages", disable=not sys.stderr.isatty()):
        page = mutated(pages, rng)
        size += len(page)
        try_page(page, rng)
    seconds = time.process_time() - started
    print(f"{count} mutated pages, {size / 1e6:.0f} MB, bounds checked: no crash, {seconds:.0f} s")


def with_bounds_checks() -> int:
    """Once more, in a process and with a cache of its own that has the checks."""
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": cache}
        return subprocess.run([sys.executable, "-W", "ignore", __file__, *sys.argv[1:]], env=env).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=100_000, help="how many mutated pages (default 100,000)")
    parser.add_argument("--seed", type=int, default=11, help="which ones")
    args = parser.parse_args()
    if not getattr(config, "BOUNDSCHECK", None):
        return with_bounds_checks()
    fuzz(args.pages, args.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
