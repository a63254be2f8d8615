"""Memory of `dustream run --once` by the number of pages.

    python bench/crawl_memory.py 100000 1000000 5000000 [--jobs 2] [--folder /tmp/dustream-crawl]

Pages of 120 random words on sites of 1,000 URLs; every fifth URL is a print version of the page before, with another
word. Memory is the peak of all processes together, read every 50 ms.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import numpy as np
from random_words import COPY_EVERY, ROW_BYTES, ROW_WORDS, random_rows
from result_files import Table, write_result
from watched import watched

BIN = Path(sys.executable).parent
PAGES_PER_SITE = 1_000
PAGES_AT_ONCE = 50_000


def write_pages(path: Path, count: int) -> None:
    draws = np.random.default_rng(1)
    with path.open("wb") as file:
        for start in range(0, count, PAGES_AT_ONCE):
            size = min(PAGES_AT_ONCE, count - start)
            texts = random_rows(draws, size)
            for row in range(size):
                text = texts[ROW_BYTES * row : ROW_BYTES * (row + 1)]
                file.write(b'{"url": "%s", "html": "<p>%s"}\n' % (url_of(start + row).encode(), text))


def url_of(number: int) -> str:
    site, page = divmod(number, PAGES_PER_SITE)
    item, query = (page - 1, "?print=1") if page % COPY_EVERY == COPY_EVERY - 1 else (page, "")
    return f"https://www.site-{site}.example/section-{item // 100}/an-article-of-some-length-{item}.html{query}"


def measured(count: int, jobs: int, folder: Path) -> list[object]:
    pages, out = folder / "pages.jsonl", folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    write_pages(pages, count)
    command = [str(BIN / "dustream"), "run", str(pages), "--once", "--out", str(out), "--jobs", str(jobs), "--quiet"]
    found = watched(command)
    if found.status:
        sys.exit(f"dustream failed: {found.output}")
    pages.unlink()
    return [count, found.seconds, 1e6 * found.seconds / count, found.peak_mb, found.anonymous_mb]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", type=int, nargs="*", metavar="PAGES", default=[100_000, 1_000_000, 5_000_000])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/dustream-crawl"))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    fixed = measured(1, args.jobs, args.folder)
    rows: list[list[object]] = [[*fixed, ""]]
    for count in args.counts:
        row = measured(count, args.jobs, args.folder)
        rows.append([*row, (int(row[-1]) - int(fixed[-1])) * (1 << 20) // count])
        print(rows[-1], flush=True)
    columns = ["pages", "s", "µs a page", "peak MB", "of it not mapped MB", "not mapped, bytes a page"]
    title = f"`dustream run --once`, {args.jobs} jobs, pages of {ROW_WORDS} words"
    print(write_result("crawl_memory", [Table(title, columns, rows)]))


if __name__ == "__main__":
    main()
