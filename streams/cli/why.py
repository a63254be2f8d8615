"""`dustream why`: why a URL has its role, and how two URLs relate."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dustream.streams.cli.state_option import add_state_or_application, asked_service, open_asked
from dustream.streams.cli.terminal import BOLD, GREEN, RED, painted, print_json, searching, shown

if TYPE_CHECKING:
    from dustream.streams.questions.criteria import CriterionDecision
    from dustream.streams.questions.evidence import EvidencePath
    from dustream.streams.questions.one_page import PageAnswer
    from dustream.streams.questions.state import ReadableState
    from dustream.streams.questions.texts import TextAnswer
    from dustream.streams.questions.two_pages import PairAnswer
    from dustream.streams.questions.word_diff import Run, WordDiff
    from dustream.streams.serve.answers import WhyAnswer

LINKS_SHOWN_MAX = 12

_LABELS = {"versions": "compared", "verdicts": "verdict"}

DESCRIPTION = """\
Explain the role of a URL: the fetch that decided it, the winner and the exact similarity to it, the criterion by which
the winner won, the group, the matches that link the two, and a diff of their texts.

With two URLs, show how they relate; if they are not duplicates, why not: similarity below the threshold, lengths,
partitions that never meet, nothing to compare.

A state keeps no texts: they are read again from the inputs of the run, and checked against their hash.

--url asks a `dustream serve`. --bootstrap (or DUSTREAM_BOOTSTRAP) asks an application on Kafka: its changelogs are read
first, which takes as long as the recovery of a worker, and texts are not compared.
"""

EXAMPLES = """\
examples:
  dustream why https://example.com/page?ref=1 --state result
  dustream why https://example.com/a https://example.com/b --state result
  dustream why https://example.com/page --state result --market mobile --json
  dustream why https://example.com/page --bootstrap 127.0.0.1:9092
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "why",
        help="explain the role of a URL, or how two URLs relate",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("url", metavar="URL")
    parser.add_argument("other", metavar="URL", nargs="?", help="compare the first URL with this one")
    add_state_or_application(parser)
    parser.add_argument("--market", metavar="M", help="market whose verdict is explained (default: the first)")
    parser.add_argument("--no-text", action="store_true", help="do not read the texts again")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.core.urls.identity import page_identity
    from dustream.streams.questions.one_page import ask_page
    from dustream.streams.questions.two_pages import ask_pair

    url = page_identity(args.url)
    service = asked_service(args)
    if service is not None:
        other = None if args.other is None else page_identity(args.other)
        return _tell_served(args, service.why(url, other, args.market, text=not args.no_text))
    with open_asked(args) as state:
        if args.other is not None:
            pair = ask_pair(state, url, page_identity(args.other), args.market)
            _tell(state, args, pair, describe_pair(pair), (pair.one.url, pair.other.url))
            return _exit_status(pair.one, pair.other)
        page = ask_page(state, url, args.market)
        _tell(state, args, page, describe_page(page), None if page.winner is None else (page.url, page.winner))
        return _exit_status(page)


def _exit_status(*pages: PageAnswer) -> int:
    return 1 if {page.role for page in pages} & {"unknown", "rejected"} else 0


def _tell_served(args: argparse.Namespace, served: WhyAnswer) -> int:
    """Print the answer of a service."""
    import msgspec

    pair, page = served.pair, served.page
    words = describe_pair(pair) if pair is not None else "" if page is None else describe_page(page)
    if args.json:
        print_json({**msgspec.to_builtins(pair or page), "text": served.text})
    else:
        print(words if served.text is None else f"{words}\n{describe_text(served.text)}")
    pages = (page,) if pair is None else (pair.one, pair.other)
    return _exit_status(*(each for each in pages if each is not None))


def _tell(
    state: ReadableState,
    args: argparse.Namespace,
    answer: PageAnswer | PairAnswer,
    words: str,
    pair: tuple[str, str] | None,
) -> None:
    """Print the answer at once, then the diff, which takes longer."""
    import msgspec

    if not args.json:
        print(words, flush=True)
    text = None if args.no_text or pair is None else _texts(state, *pair)
    if args.json:
        print_json({**msgspec.to_builtins(answer), "text": text})
    elif text is not None:
        print(describe_text(text))


def _texts(state: ReadableState, one_url: str, other_url: str) -> TextAnswer | None:
    """None if there are not two contents to compare."""
    from dustream.streams.questions.pages import content_page, known_page
    from dustream.streams.questions.texts import compare_texts

    found = [known_page(state, url) for url in (one_url, other_url)]
    one, other = (None if page is None else content_page(state, page) for page in found)
    if one is None or other is None or one.url == other.url:
        return None
    return compare_texts(state, one, other, searching)


def describe_page(answer: PageAnswer) -> str:
    """All about one URL, for people."""
    lines = [painted(shown(answer.url), BOLD), f"  is          {shown(answer.words)}"]
    lines += _fetch_lines(answer)
    if answer.problem is not None or len(answer.way) > 1:
        lines += [f"  leads to    {shown(url)}" for url in answer.way]
    if answer.similarity is not None and answer.winner is not None:
        lines.append(f"  winner      {shown(answer.winner)}")
        if answer.relation == "contained":
            lines.append(f"  share       {answer.similarity:.4f} of its shingles are in the winner")
        else:
            lines.append(f"  similarity  {answer.similarity:.4f} to the winner")
    if answer.decision is not None:
        lines.append(f"  decided by  {_decision(answer.decision)} (market {shown(answer.market)})")
    if answer.group is not None:
        held = ", held" if answer.group.held else ""
        lines.append(f"  group       {shown(answer.group.id)}, {answer.group.size:,} pages{held}")
        lines += [f"    with      {shown(url)}" for url in answer.group.others if url != answer.winner]
    if answer.evidence is not None:
        lines += _evidence_lines(answer.evidence)
    lines += _history_lines(answer)
    for record in answer.rejected:
        lines.append(f"  rejected    record {record.position} of {shown(record.source)}: {shown(record.reason)}")
    lines += [f"  known is    {shown(url)}" for url in answer.near_urls]
    return "\n".join(lines)


def _fetch_lines(answer: PageAnswer) -> list[str]:
    from dustream.streams.questions.criteria import time_shown

    if answer.since is None or answer.last_fetched is None:
        return []
    where = answer.decided_by
    source = "" if where is None else f", record {where.position} of {shown(where.source)}"
    lines = [f"  since       {time_shown(answer.since)}{source}"]
    if answer.last_fetched != answer.since:
        lines.append(f"  seen last   {time_shown(answer.last_fetched)}")
    return lines


def _history_lines(answer: PageAnswer) -> list[str]:
    """The contents of the URL, if it had more than one."""
    from dustream.streams.questions.criteria import time_shown

    if len(answer.history) < 2:
        return []
    lines = [f"  history     {len(answer.history):,} contents"]
    for each in answer.history:
        name = "present" if each.present else "former" if each.known else "not kept"
        lines.append(f"    {name:<9} {time_shown(each.first)} to {time_shown(each.last)}")
    return lines


def _decision(decision: CriterionDecision) -> str:
    return f"{decision.criterion}: {shown(decision.better_value)} before {shown(decision.worse_value)}"


def _evidence_lines(evidence: EvidencePath) -> list[str]:
    """All matches, or of many the first, the last and the weakest."""
    path, half = evidence.path, LINKS_SHOWN_MAX // 2
    weakest = path.index(evidence.weakest)
    kept = set(range(len(path))) if len(path) <= LINKS_SHOWN_MAX else {weakest}
    if len(path) > LINKS_SHOWN_MAX:
        kept |= {*range(half), *range(len(path) - half, len(path))}
    lines = [f"  evidence    {len(path):,} {'match links' if len(path) == 1 else 'matches link'} them"]
    before = -1
    for number in sorted(kept):
        if number > before + 1:
            lines.append(f"    …         {number - before - 1:,} more")
        link, before = path[number], number
        mark = "  weakest" if number == weakest and len(path) > 1 else ""
        lines.append(f"    {link.similarity:.4f}    {shown(link.one)} ~ {shown(link.other)}{mark}")
    return lines


def describe_pair(answer: PairAnswer) -> str:
    """Two URLs, for people."""
    lines = [
        painted(f"{shown(answer.one.url)} and {shown(answer.other.url)}", BOLD),
        f"  relation    {shown(answer.words)}",
    ]
    for page in (answer.one, answer.other):
        lines.append(f"  {shown(page.url)}")
        lines.append(f"    is        {shown(page.words)}")
    lines += [f"  {_LABELS.get(reason.code, 'because'):<10}  {shown(reason.words)}" for reason in answer.reasons]
    if answer.decision is not None and answer.same_group:
        better = shown(answer.decision.better)
        lines.append(f"  better      {better}, by {_decision(answer.decision)}")
    if answer.measures is not None and len(set(answer.measures.languages)) > 1:
        one, other = (language or "unknown" for language in answer.measures.languages)
        lines.append(f"  languages   {shown(one)} and {shown(other)}, which plays no part")
    if answer.evidence is not None:
        lines += _evidence_lines(answer.evidence)
    return "\n".join(lines)


def describe_text(answer: TextAnswer) -> str:
    """The diff of the texts, or counts where there are no texts."""
    if answer.diff is not None:
        note = [f"  main text   {shown(answer.note)}"] if answer.note else []
        return "\n".join([*note, _describe_diff(answer, answer.diff)])
    lines = ["  text        cannot be shown"]
    lines += [f"    {shown(reason)}" for reason in answer.missing]
    if answer.sizes is not None:
        sizes = answer.sizes
        lines.append(
            f"    known of it: {sizes.words[0]:,} and {sizes.words[1]:,} words, {sizes.shingles[0]:,} and "
            f"{sizes.shingles[1]:,} shingles, {sizes.common_shingles:,} in common"
        )
    return "\n".join(lines)


def _describe_diff(answer: TextAnswer, diff: WordDiff) -> str:
    if not diff.passages:
        return f"  text        the same {diff.words_same:,} words"
    lines = [
        f"  text        {diff.words_same:,} words in common",
        f"    [-…-]     {diff.words_removed:,} only in {shown(answer.one)}",
        f"    {{+…+}}     {diff.words_added:,} only in {shown(answer.other)}",
    ]
    lines += ["    " + " ".join(map(_run, passage)) for passage in diff.passages]
    if diff.passages_left_out:
        lines.append(f"    and {diff.passages_left_out:,} more passages")
    return "\n".join(lines)


def _run(run: Run) -> str:
    if run.kind == "removed":
        return painted(f"[-{shown(run.text)}-]", RED)
    if run.kind == "added":
        return painted(f"{{+{shown(run.text)}+}}", GREEN)
    return shown(run.text)
