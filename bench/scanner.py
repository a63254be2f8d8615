"""The scanner beside the parsers: quality, speed, robustness. `python bench/scanner.py [--mutated N]`

Real pages and the public tests of HTML parsers come from the folder DUSTREAM_DATA (default: ../shared/data beside the
repository); without it pages are generated, and what cannot be run on them is named. Times are CPU times of one run on
one core; ratios are what counts. Speed, main text and stability on real pages are written to
bench/results/scanner.json.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from fuzz_scanner import mutated
from main_text_peers import PEERS
from main_text_stages import main_text_stages
from main_text_truth import (
    articles,
    body_with_headline,
    documentation,
    quad_shingles,
    scored,
    segment_score,
    segments,
    shingle_score,
)
from numba import njit
from pages import data_folder, read_jsonl_zst, sample_pages
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree
from result_files import Table, write_result

from dustream.core.errors import BadEvent
from dustream.core.events import check_event
from dustream.core.intake import take_in
from dustream.core.text.encoding import decode
from dustream.core.text.extract import extract
from dustream.core.text.extractors import TextSource
from dustream.core.text.one_pass import MAIN, READ, SIGN, one_pass, scan_blocks
from dustream.core.text.scan import scan
from dustream.core.text.scan_blocks import END, START
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.text.shingles import distinct_shingles, jaccard
from dustream.core.text.signature import sign, sign_page
from dustream.core.text.tokens import hash_stream, text_bytes
from dustream.core.text.utf8 import is_utf8, utf8_of
from dustream.schemas.crawl import CrawlEvent

SITES = ("A_networkx_doc", "A_kafka_site", "A_dolphinscheduler_zh_en", "C_pages_multisite")
PAGES_PER_SITE = 150
BODY_PAIRS_ONE_IN, BODY_PAIRS_PAGES = {SITES[0]: 17, SITES[1]: 17, SITES[2]: 3}, 1200
TAKE_IN_PAGES = 600
# Spread over all versions of a site, which are in the order of time; of many sites, every page.
AGREEMENT_ONE_IN = {SITES[0]: 60, SITES[1]: 60, SITES[2]: 12, SITES[3]: 1}
STAGES_ONE_IN = {SITES[0]: 200, SITES[1]: 200, SITES[2]: 37, SITES[3]: 16}
OPTIONS = {"links": False, "list_bullets": False, "alt_texts": False}
# HTML, section 15.3.3: what is displayed as a block, and what stands like one.
BLOCKS = (
    "address,article,aside,blockquote,br,button,caption,center,dd,details,dialog,dir,div,dl,dt,fieldset,figcaption,figure,"
    "footer,form,h1,h2,h3,h4,h5,h6,header,hgroup,hr,legend,li,main,menu,nav,ol,optgroup,option,p,pre,section,select,"
    "summary,table,tbody,td,textarea,tfoot,th,thead,tr,ul"
)
HIDDEN = "script,style,noscript,template,iframe,title,audio,video,canvas,[hidden]"


def html_pages(folder: Path, name: str, count: int | None, keep_one_in: int = 1) -> list[str]:
    lines = islice(read_jsonl_zst(folder / f"{name}.jsonl.zst"), 0, None, keep_one_in)
    rows = (msgspec.json.decode(line) for line in lines)
    return [row["html"] for row in islice((row for row in rows if row.get("html")), count)]


def us_per_page(function: Callable[[Any], Any], pages: list[Any], rounds: int = 3) -> float:
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        for page in pages:
            function(page)
        best = min(best, time.process_time() - started)
    return best / len(pages) * 1e6


def resiliparse_main(page: str) -> str:
    return str(extract_plain_text(HTMLTree.parse(page), main_content=True, comments=False, **OPTIONS))


def resiliparse_full(page: str) -> str:
    return str(extract_plain_text(HTMLTree.parse(page), main_content=False, **OPTIONS))


def resiliparse_with_fields(page: str) -> str:
    """Buttons and labels, which readers see, and the values of input fields, which the scanner leaves out."""
    return str(extract_plain_text(HTMLTree.parse(page), main_content=False, form_fields=True, **OPTIONS))


def selectolax_full(page: str) -> str:
    """With a line of its own for every piece of text, as it is used most: words that are partly bold fall apart."""
    return _selectolax(page, "\n")


def selectolax_blocks(page: str) -> str:
    """With lines where browsers have them: around blocks, and nowhere else."""
    return _selectolax(page, "", BLOCKS)


def _selectolax(page: str, separator: str, broken: str = "") -> str:
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(page)
    for node in tree.css(HIDDEN):
        node.decompose()
    if tree.body is None:
        return ""
    for node in tree.body.css(broken) if broken else ():
        if node.tag != "body":
            node.insert_before("\n")
            node.insert_after("\n")
    return str(tree.body.text(separator=separator))


JUDGES = (selectolax_blocks, resiliparse_full, selectolax_full, resiliparse_with_fields)


def bare_pass(page: np.ndarray) -> int:
    """What any reader of bytes must do: look at each once."""
    angles = 0
    for byte in page:
        angles += byte == 0x3C
    return angles


def print_speed(collections: dict[str, list[str]]) -> dict[str, Any]:
    measured: dict[str, Any] = {}
    print("speed: µs a page, one core; MB a second; resiliparse's parse + main text as a multiple of scan + main")
    bare = njit(bare_pass)
    for name, pages in collections.items():
        utf8 = [page.encode("utf-8", "replace") for page in pages]
        arrays = [np.frombuffer(page, dtype=np.uint8) for page in utf8]
        size = sum(map(len, utf8)) / len(utf8)
        blocks, main, signed = (
            us_per_page(lambda page, task=task: one_pass(page, task), arrays)
            for task in (READ, READ | MAIN, READ | MAIN | SIGN)
        )
        whole = us_per_page(scan, pages)
        theirs = us_per_page(resiliparse_main, pages, 1)
        floor = us_per_page(bare, arrays)
        measured[name] = {
            "kb": size / 1e3, "read_us": blocks, "main_us": main - blocks, "sign_us": signed - main, "scan_us": whole,
            "resiliparse_us": theirs, "bare_pass_us": floor,
        }  # fmt: skip
        print(
            f"  {name:26} {size / 1e3:6.1f} KB  scan {blocks:5.0f} + main {main - blocks:4.1f} + sign "
            f"{signed - main:4.1f}  scan() {whole:5.0f}  "
            f"resiliparse {theirs:5.0f} = {theirs / main:4.1f}×, {theirs / whole:4.1f}× of scan()  scan() "
            f"{size / whole:5.0f} MB/s, bare pass {size / floor:6.0f} MB/s = {whole / floor:4.1f}×"
        )
    return measured


def best_us(function: Callable[[Any], Any], items: list[Any], rounds: int = 10) -> float:
    """The mean of the shortest times of each: what others do on the machine lengthens some rounds, hardly all."""
    best = [float("inf")] * len(items)
    for _ in range(rounds):
        for i, item in enumerate(items):
            started = time.perf_counter()
            function(item)
            best[i] = min(best[i], time.perf_counter() - started)
    return sum(best) / len(items) * 1e6


def is_good(event: CrawlEvent) -> bool:
    """The generated web has events that are refused."""
    try:
        check_event(event)
    except BadEvent:
        return False
    return True


def print_take_in() -> None:
    what, events = sample_pages(TAKE_IN_PAGES)
    events = [event for event in events if event.url.startswith("http") and is_good(event)]
    pages = [event.html or "" for event in events]
    found = [scan(page) for page in pages]
    stages = {
        "take in": best_us(lambda event: take_in([event], TextSource()), events),
        "check the event": best_us(check_event, events),
        "str to UTF-8": best_us(utf8_of, pages),
        "scan()": best_us(scan, pages),
        "sign": best_us(lambda page: sign(page.utf8, page.lang), found),
    }
    size = sum(map(len, pages)) / len(pages)
    print(f"take in, the shortest of 10 rounds for each of {what}, {size / 1e3:.0f} KB a page: µs a page")
    print("  " + "  ".join(f"{stage} {us:.1f}" for stage, us in stages.items()))


MAIN_TEXT: dict[str, Callable[[bytes], str]] = {
    "scan": lambda page: scan(page).text,
    **PEERS,
    "scan, full text": lambda page: scan(page, mode="full").text,
}


def visible(markup: str) -> str:
    return scan(markup, mode="full").text


def print_main_text_quality(folder: Path) -> dict[str, Any]:
    """Each extractor on pages whose main text is known. The scanner's model has learned from these pages: what it does
    on pages of sites that it has not seen says `bench/train_main_text.py`."""
    chosen, marked = list(segments(folder)), list(articles(folder))
    found: dict[str, Any] = {}
    for name, extract_main in MAIN_TEXT.items():
        found[name] = {
            "segments": segment_score([extract_main(truth.page) for truth in chosen], chosen)._asdict(),
            "articles": shingle_score([extract_main(t.page) for t in marked], [t.body for t in marked])._asdict(),
        }
        for site in SITES[:3]:
            found[name][site] = body_score(list(documentation(folder, site)), extract_main)
    print(
        "main text: precision, recall, F1 of chosen segments, and of 4-token shingles of articles; recall of the body"
    )
    print("element of documentation, and share from outside it")
    for name, scores in found.items():
        print(f"  {name:16} " + "  ".join(" ".join(f"{v:.3f}" for v in each.values()) for each in scores.values()))
    return found


def body_score(truths: list[Any], extract_main: Callable[[bytes], str]) -> dict[str, float]:
    recalls, outside = [], []
    for truth in truths:
        known, found = quad_shingles(visible(truth.body)), quad_shingles(extract_main(truth.page))
        score = scored(len(known & found), len(found), len(known))
        if known:
            recalls.append(score.recall)
            outside.append(1 - score.precision if found else 0.0)
    return {"body_recall": sum(recalls) / len(recalls), "from_outside": sum(outside) / len(outside)}


def shingle_set(text: str) -> Any:
    return distinct_shingles(hash_stream(text_bytes(text))[0])


def print_full_text_agreement(folder: Path) -> None:
    print("full text: 5-shingle Jaccard with the parsers'")
    everywhere: dict[str, list[float]] = {}
    for name, keep_one_in in AGREEMENT_ONE_IN.items():
        pages = html_pages(folder, name, None, keep_one_in)
        ours = [shingle_set(scan(page, mode="full").text) for page in pages]
        theirs = {judge.__name__: [shingle_set(judge(page)) for page in pages] for judge in JUDGES}
        found = {judge: agreement(ours, sets) for judge, sets in theirs.items()}
        found["the first two"] = agreement(*list(theirs.values())[:2])
        for judge, values in found.items():
            print_agreement(f"{name:26} {len(pages):5} pages  {judge:24}", values)
            everywhere.setdefault(judge, []).extend(values)
    for judge, values in everywhere.items():
        print_agreement(f"{'all of them':26} {len(values):5} pages  {judge:24}", values)


def agreement(some: list[Any], others: list[Any]) -> list[float]:
    return [jaccard(one, other) for one, other in zip(some, others, strict=True)]


def print_agreement(what: str, values: list[float]) -> None:
    values = sorted(values)
    tenth, median = values[len(values) // 10], values[len(values) // 2]
    print(f"  {what} median {median:.3f}  10th percentile {tenth:.3f}")


# --- do pages keep their content hash, and do pairs stay pairs

EXTRACTORS: dict[str, Callable[[str], str]] = {
    "scan main": lambda page: scan(page).text,
    "resiliparse main": lambda page: extract(page).text,
    "scan full": lambda page: scan(page, mode="full").text,
    "selectolax full": selectolax_full,
}
STABLE_BYTES_MIN = 200  # on a page with less text than an advert, the advert is the text
BODY_END = re.compile(r"</body\s*>", re.I)
MENU_ITEM = re.compile(r"(<(?:nav|header)\b[^>]*>.*?<li\b)", re.I | re.S)
ADVERT = (
    '<div class="advertisement"><a href="https://ads.example/c?{n}">Save {n} % on all running shoes this week, '
    "free delivery for new customers, order until midnight</a></div>"
)
STAMP = '<div class="footer">Page generated 2024-05-{n:02} 12:{n:02}:07 in 0.{n:03} s, {n}1 visitors online</div>'


def with_menu_item(page: str, n: int) -> str:
    """One more entry in the first menu of the page's own navigation; unchanged where it has none marked as such."""
    return MENU_ITEM.sub(
        rf'<ul><li><a href="/new-{n}">New section number {n} of the site</a></li></ul>\1', page, count=1
    )


def before_body_end(page: str, piece: str) -> str:
    ends = [found.start() for found in BODY_END.finditer(page)] or [len(page)]
    return page[: ends[-1]] + piece + page[ends[-1] :]


STABLE_CHANGES: dict[str, Callable[[str, int], str]] = {
    "navigation": with_menu_item,
    "advert": lambda page, n: before_body_end(page, ADVERT.format(n=n)),
    "time stamp": lambda page, n: before_body_end(page, STAMP.format(n=n)),
}


def content_hash(text: str) -> bytes:
    return hash_stream(text_bytes(text))[1]


def print_stability(pages: list[str]) -> dict[str, Any]:
    measured: dict[str, Any] = {}
    print("stability: share of pages that keep their content hash when only this changes (one day to another)")
    pages = [page for page in pages if len(scan(page, mode="full").utf8) >= STABLE_BYTES_MIN]
    for kind, change in STABLE_CHANGES.items():
        pairs = [(change(page, 3), change(page, 17)) for page in pages]
        pairs = [(before, after) for before, after in pairs if before != after]
        measured[kind] = {"pages": len(pairs)}
        for name, read in EXTRACTORS.items():
            kept = sum(content_hash(read(before)) == content_hash(read(after)) for before, after in pairs)
            measured[kind][name] = kept / len(pairs)
        shares = (f"{name} {share:.3f}" for name, share in measured[kind].items() if name != "pages")
        print(f"  {kind:12} {len(pairs)} pages: " + "  ".join(shares))
    return measured


def near_pairs(sets: list[Any], threshold: float) -> set[tuple[int, int]]:
    """All pairs at the threshold, by length first and then one by one."""
    order = sorted((len(each), i) for i, each in enumerate(sets) if len(each))
    pairs = set()
    for place, (size, i) in enumerate(order):
        for longer, j in order[place + 1 :]:
            if size < threshold * longer:
                break
            if jaccard(sets[i], sets[j]) >= threshold:
                pairs.add((min(i, j), max(i, j)))
    return pairs


def print_pairs(folder: Path, threshold: float = 0.8) -> None:
    print(f"near-duplicate pairs at {threshold}: how many each finds, and how many of the scanner's it has, too")
    for name in SITES:
        pages = html_pages(folder, name, 300, 1 if name.startswith("C_") else 7)
        found = {
            each: near_pairs([shingle_set(read(page)) for page in pages], threshold)
            for each, read in EXTRACTORS.items()
        }
        ours = found["scan main"]
        said = (f"{each} {len(pairs)} (common {len(pairs & ours)})" for each, pairs in found.items())
        print(f"  {name:26} {len(pages)} pages: " + "  ".join(said))


def print_body_pairs(folder: Path, threshold: float = 0.9) -> dict[str, dict[str, Any]]:
    """Pairs by main text against pairs by the body element of the site's templates, with its headline; pages with an
    empty body are left out. The model has learned from some of these pages."""
    measured: dict[str, dict[str, Any]] = {}
    print(f"pairs at {threshold} by main text, against those by the body element: recall, precision")
    for site, one_in in BODY_PAIRS_ONE_IN.items():
        truths = list(islice(documentation(folder, site, one_in), BODY_PAIRS_PAGES))
        sets = [
            (shingle_set(visible(body_with_headline(truth))), shingle_array(sign_page(truth.page).shingles))
            for truth in truths
            if len(shingle_set(visible(truth.body)))
        ]
        body, main = (near_pairs(list(each), threshold) for each in zip(*sets, strict=True))
        recall, precision = len(body & main) / max(1, len(body)), len(body & main) / max(1, len(main))
        measured[site] = {"pages": len(sets), "pairs by body": len(body), "recall": recall, "precision": precision}
        print(
            f"  {site:26} {len(sets)} pages, {len(body)} pairs by body: recall {recall:.3f} precision {precision:.3f}"
        )
    return measured


# --- the public tests of HTML parsers


# Where a test starts: the element whose content the rest is, and what opens it. A script's content nobody sees.
TOKENIZER_STATES = {
    "Data state": ("", ""),
    "RCDATA state": ("textarea", "<textarea>"),
    "RAWTEXT state": ("xmp", "<xmp>"),
    "PLAINTEXT state": ("plaintext", "<plaintext>"),
    "CDATA section state": ("", "<svg><text><![CDATA["),
}
NOT_SHOWN = {
    "script", "style", "noscript", "iframe", "title", "template", "svg", "math", "textarea", "xmp", "plaintext",
}  # fmt: skip


def tokenizer_cases(folder: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(file, state it starts in, test): a test may be one for several states."""
    for path in sorted((folder / "html5lib").glob("tokenizer_*.test")):
        for case in json.loads(path.read_text(encoding="utf-8")).get("tests", []):
            for state in case.get("initialStates", ["Data state"]):
                yield path.name, state, case


def expected_text(case: dict[str, Any]) -> str:
    """Characters of a test; tags are not text."""
    return "".join(token[1] for token in case["output"] if token[0] == "Character")


def left_out(state: str, case: dict[str, Any]) -> str:
    """Why a test says nothing about text; "" if it does."""
    if state not in TOKENIZER_STATES:
        return "inside a script"
    if case.get("doubleEscaped"):
        return "escaped lone surrogates and NULs"
    if any(token[0] == "StartTag" and token[1] in NOT_SHOWN for token in case["output"]):
        return "a start tag whose content is the tree's affair"
    if "<![CDATA[" in case["input"]:
        return "CDATA outside SVG"
    return ""


def unspaced(text: str) -> str:
    return "".join(text.replace("\0", "").split())


def print_tokenizer_tests(folder: Path) -> None:
    passed, failed, reasons = 0, [], dict[str, int]()
    for file, state, case in tokenizer_cases(folder):
        if reason := left_out(state, case):
            reasons[reason] = reasons.get(reason, 0) + 1
            continue
        element, opened = TOKENIZER_STATES[state]
        named = case.get("lastStartTag", "") if element else ""  # the tests call all raw text xmp
        page, expected = (
            re.sub(re.escape(named), element, text, flags=re.I) if named else text
            for text in (case["input"], expected_text(case))
        )
        found = unspaced(scan(opened + page, mode="full").text)
        if found == unspaced(expected):
            passed += 1
        else:
            failed.append((file, page, expected, found))
    print(f"html5lib tokenizer tests: {passed} of {passed + len(failed)} that concern text; left out: {reasons}")
    for file, page, expected, found in failed[:20]:
        print(f"  {file}: {page[:60]!r}: expected {expected[:60]!r}, found {found[:60]!r}")


def encoding_cases(folder: Path) -> Iterator[tuple[str, bytes, str]]:
    for path in sorted((folder / "html5lib").glob("encoding_*.dat")):
        for case in path.read_bytes().split(b"#data\n")[1:]:
            data, _, rest = case.partition(b"\n#encoding\n")
            yield path.name, data, rest.split(b"\n")[0].decode().strip()


def print_encoding_tests(folder: Path) -> None:
    """By what the text comes out as, its byte order mark aside: an ASCII page is the same text in either charset."""
    same, different = 0, []
    for file, data, name in encoding_cases(folder):
        if decode(data) == data.decode(name, "replace").removeprefix("\ufeff"):
            same += 1
        else:
            different.append((file, name, data, "is valid UTF-8" if is_utf8(data) else "is not UTF-8"))
    print(f"html5lib encoding tests: {same} of {same + len(different)} give the text of the expected charset")
    for file, name, data, what in different:
        print(f"  {file}: {name} expected, {what}: {data[:60]!r}")


# --- mutated pages, and large ones


def print_mutated(pages: list[bytes], count: int) -> None:
    rng = random.Random(11)
    started, size = time.process_time(), 0
    for _ in range(count):
        page = mutated(pages, rng)
        size += len(page)
        found = scan_blocks(page)
        assert all(found.blocks[:, START] < found.blocks[:, END]) and scan(page).utf8.count(b"\0") == 0
    print(f"{count} mutated pages, {size / 1e6:.0f} MB: no crash, {time.process_time() - started:.1f} s")


def print_large_pages() -> None:
    print("time by size: ns a byte at 1, 10 and 50 MB")
    pieces = ("<p>word</p>", "<div>", "<a href=x>", "<", "&amp;", "<!--", "<b><p></b>", "<div class='a b'>", "<ul><li>")
    for piece in pieces:
        costs = []
        for size in (1_000_000, 10_000_000, 50_000_000):
            page = piece.encode() * (size // len(piece))
            costs.append(us_per_page(scan_blocks, [page], 1) * 1e3 / size)
        print(f"  {piece:22}" + "".join(f"{cost:7.2f}" for cost in costs))


def table_of(title: str, first: str, measured: dict[str, dict[str, Any]]) -> Table:
    columns = list(next(iter(measured.values())))
    rows = [[name, *(each[key] for key in columns)] for name, each in measured.items()]
    return Table(title, [first, *columns], [[round(v, 4) if isinstance(v, float) else v for v in row] for row in rows])


def spread_pages(folder: Path) -> dict[str, list[bytes]]:
    """About 100 pages of each collection, spread over the versions of a site."""
    return {
        name: [page.encode("utf-8", "replace") for page in html_pages(folder, name, 100, one_in)]
        for name, one_in in STAGES_ONE_IN.items()
    }


def on_real_pages(folder: Path) -> list[str]:
    """All tables; some of the pages."""
    speed = print_speed({name: html_pages(folder, name, PAGES_PER_SITE) for name in SITES})
    print_take_in()
    stages = {name: main_text_stages(pages) for name, pages in spread_pages(folder).items()}
    quality = {
        name: {f"{where}: {measure}": value for where, each in scores.items() for measure, value in each.items()}
        for name, scores in print_main_text_quality(folder).items()
    }
    print_full_text_agreement(folder)
    stability = print_stability(
        [page for name in SITES for page in html_pages(folder, name, 100, 1 if name.startswith("C_") else 20)]
    )
    pairs = print_body_pairs(folder)
    write_result(
        "scanner",
        [
            table_of("speed, µs a page", "pages", speed),
            table_of("main text by stage, µs a page", "pages", stages),
            table_of("main text; the scanner has learned from these pages", "extractor", quality),
            table_of("share of pages that keep their content hash", "what changes", stability),
            table_of("pairs at .9 by main text, against those by the body element", "site", pairs),
        ],
    )
    print_pairs(folder)
    print_tokenizer_tests(folder)
    print_encoding_tests(folder)
    return [page for name in SITES for page in html_pages(folder, name, 30)]


def on_generated_pages() -> list[str]:
    """The tables that need no truth of people and no real sites; the pages."""
    from dustream.streams.generate import generate

    print("no real pages (set DUSTREAM_DATA): main text quality, agreement with parsers, near-duplicate pairs and the")
    print("public tests of HTML parsers were not run; the rest is of generated pages")
    pages = [event.html for event in generate(pages=200, seed=3) if event.html]
    print_speed({"generated": pages})
    print_take_in()
    print_stability(pages)
    return pages


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutated", type=int, default=2_000, help="how many mutated pages (default 2,000)")
    count = parser.parse_args().mutated
    folder = data_folder()
    if folder is None:
        some = on_generated_pages()
    else:
        some = on_real_pages(folder)
    print_large_pages()
    pages = [page.encode("utf-8", "replace") for page in some]
    print_mutated([page for page in pages if len(page) < 100_000], count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
