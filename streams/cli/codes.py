"""`dustream codes`: the feature codes by which containers are proposed."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dustream.core.text.extractors import TextSource
    from dustream.core.text.feature_code import FeatureCode
    from dustream.schemas.crawl import CrawlEvent
    from dustream.streams.readers import Item
    from dustream.streams.readers.field_map import FieldMap

PARAGRAPH_CHARS_SHOWN = 60

DESCRIPTION = """\
Print the feature code of each page (Guo et al.): a short string of the characters beside anchors, which are punctuation
marks. Only long paragraphs count ("units": 300 characters, or 3/4 of the page), so text around an article does not
change its code. Pages whose codes have runs in common are compared by their shingles.

Each page's paragraphs are listed, of its first 1,000 characters; units are marked with *. Spaces, control characters
and icons (private-use characters) do not count and are left out. "taken from" says how the code was made:
  units           characters beside the anchors of each unit
  paragraph_ends  no unit, many paragraphs: first and last character of the first five and the last five
  anchors         no unit, few paragraphs: characters beside anchors, of all paragraphs as one
  beginning       too few anchors: the first 20 characters
"""
EXAMPLES = """\
examples:
  dustream codes crawl.warc.gz | less
  dustream codes pages.jsonl --url https://example.com/article
  dustream codes 'crawl/*.jsonl.zst' --json > codes.jsonl
"""


def add_parser(subparsers: Any) -> None:
    from dustream.streams.cli.run import add_field_map

    parser: argparse.ArgumentParser = subparsers.add_parser(
        "codes",
        help="show the feature codes of pages",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="file, folder, pattern, or - for standard input")
    parser.add_argument("--url", action="append", default=[], help="only pages of this URL (may be repeated)")
    add_field_map(parser)
    parser.add_argument("--text", choices=("main", "full"), default="main", help="main text of a page, or all of it")
    parser.add_argument("--extractor", choices=("scan", "resiliparse"), default="scan", help="who reads the text")
    parser.add_argument("--json", action="store_true", help="one JSON object per page")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.core.text.extractors import TextSource
    from dustream.streams.readers import Rejection, parse_field_map

    source, wanted = TextSource(args.text, args.extractor), frozenset(args.url)
    shown_pages = rejected = 0
    for item in _items(args.inputs, parse_field_map(args.map)):
        if isinstance(item, Rejection):
            rejected += 1
        elif not wanted or item.event.url in wanted:
            was_shown, was_rejected = _show(item.event, source, args.json)
            shown_pages, rejected = shown_pages + was_shown, rejected + was_rejected
    if rejected:
        print(f"dustream: {rejected} records could not be used; `dustream run` says why", file=sys.stderr)
    if not shown_pages:
        print("dustream: no page with a text among the inputs" + (" has that URL" if wanted else ""), file=sys.stderr)
    return 0 if shown_pages else 1


def _items(inputs: list[str], field_map: FieldMap | None) -> Iterator[Item]:
    """All items of the inputs, with a progress bar if the pages are not printed to a terminal."""
    from tqdm import tqdm

    from dustream.streams.readers import open_inputs

    quiet = sys.stdout.isatty() or not sys.stderr.isatty()
    with tqdm(unit=" records", disable=quiet, leave=False) as bar:
        for opened in open_inputs(inputs, field_map=field_map):
            for item in opened:
                yield item
                bar.update()


def _show(event: CrawlEvent, source: TextSource, as_json: bool) -> tuple[bool, bool]:
    """Print a page's code: (shown, rejected). Both are false for a record that is no page."""
    from dustream.core.errors import BadEvent
    from dustream.core.events import check_event
    from dustream.core.intake import text_of
    from dustream.core.text.feature_code import feature_code
    from dustream.streams.cli.terminal import print_json

    try:
        checked = check_event(event)
        text = text_of(event, source) if checked.finding.kind == "content" else None
    except BadEvent:
        return False, True
    if text is None:
        return False, False
    found = feature_code(text)
    if as_json:
        print_json(_as_object(checked.url, found))
    else:
        print(_as_text(checked.url, found))
    return True, False


def _as_object(url: str, found: FeatureCode) -> dict[str, Any]:
    paragraphs = [{"text": each.text, "chars": len(each.text), "is_unit": each.is_unit} for each in found.paragraphs]
    return {
        "url": url,
        "code": found.code,
        "chars": len(found.code),
        "taken_from": found.way,
        "anchors_of": found.language or "other",
        "paragraphs": paragraphs,
    }


def _as_text(url: str, found: FeatureCode) -> str:
    from dustream.streams.cli.terminal import BOLD, painted, shown

    if not found.code:
        return f"{painted(shown(url), BOLD)}\n  no visible text, no code\n"
    anchors = f"anchors of {found.language}" if found.language else "general anchors"
    lines = [
        painted(shown(url), BOLD),
        f"  code        {shown(found.code)}  ({len(found.code)} characters)",
        f"  taken from  {found.way}, {anchors}",
    ]
    for each in found.paragraphs:
        cut = "…" if len(each.text) > PARAGRAPH_CHARS_SHOWN else ""
        lines.append(
            f"  {'*' if each.is_unit else ' '} {len(each.text):4d}  {shown(each.text[:PARAGRAPH_CHARS_SHOWN])}{cut}"
        )
    return "\n".join(lines) + "\n"
