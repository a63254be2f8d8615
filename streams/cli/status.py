"""`dustream status`: what a URL is."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from dustream.streams.cli.state_option import (
    add_state_or_application,
    asked_service,
    open_state,
    read_asked_application,
)
from dustream.streams.cli.terminal import print_json, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from dustream.schemas.lookup import UrlStatus
    from dustream.schemas.status import DuplicateStatus, MarketStatus

DESCRIPTION = """\
Show the role, group and winner of URLs, and the similarity to the winner; with several markets, for each of them.
`dustream why URL` explains it.

--state reads the state of a run; --url asks a `dustream serve`; --bootstrap (or DUSTREAM_BOOTSTRAP) asks an application
on Kafka.
"""

EXAMPLES = """\
examples:
  dustream status https://example.com/page --state result
  dustream status https://example.com/a https://example.com/b --state result --json
  dustream status https://example.com/page --url http://127.0.0.1:8321
  dustream status https://example.com/page --bootstrap 127.0.0.1:9092
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "status",
        help="show the role of a URL: unique, winner, duplicate, held, redirect or gone",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("urls", nargs="+", metavar="URL")
    add_state_or_application(parser)
    parser.add_argument(
        "--json", action="store_true", help="one JSON object per line; the role of an unknown URL is `unknown`"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.core.urls.identity import page_identity

    urls = list(map(page_identity, args.urls))
    service = asked_service(args)
    if service is not None:
        known = {each.url: _served(each) for each in service.statuses(urls) if each.role != "unknown"}
        return _tell_all(urls, known, lambda url: _unknown(url, args.service, []), args.json)
    if args.state is None:
        return _tell_all(urls, _find_on_kafka(args, urls), lambda url: _unknown(url, args.name, []), args.json)
    from dustream.streams.questions.near_urls import near_urls

    with open_state(args.state) as state:
        found = {url: status for url in urls if (status := state.status(url)) is not None}
        return _tell_all(urls, found, lambda url: _unknown(url, str(args.state), near_urls(state, url)), args.json)


def _served(found: UrlStatus) -> DuplicateStatus:
    """A status of the service, which does not count versions."""
    import msgspec

    from dustream.schemas.status import DuplicateStatus

    fields = msgspec.to_builtins(found)
    return msgspec.convert(fields | {"version": (found.since or 0, 0)}, DuplicateStatus)


def _find_on_kafka(args: argparse.Namespace, urls: list[str]) -> dict[str, DuplicateStatus]:
    from dustream.streams.kafka.client import Client

    read_asked_application(args)
    return Client(args.bootstrap, args.name).find(urls)


def _tell_all(urls: list[str], found: dict[str, DuplicateStatus], unknown: Callable[[str], str], as_json: bool) -> int:
    for url in urls:
        if url not in found:
            print(unknown(url), file=sys.stderr)
            if as_json:
                print_json({"url": url, "role": "unknown"})
        elif as_json:
            print_json(found[url])
        else:
            print(describe(found[url]))
    return 0 if len(found) == len(set(urls)) else 1


def _unknown(url: str, where: str, near: list[str]) -> str:
    meant = f"; known are {shown(', '.join(near))}" if near else ""
    return f"dustream: {shown(url)} is not known in {where}{meant}"


def describe(status: DuplicateStatus) -> str:
    """A status for people."""
    from dustream.streams.questions.criteria import time_shown
    from dustream.streams.questions.one_page import DECIDED, PROBLEMS

    kept = " (kept)" if status.role == "held" else ""
    lines = [shown(status.url), f"  role        {status.role}{kept}"]
    if status.target is not None:
        lines.append(f"  leads to    {shown(status.target)}")
    if status.problem is not None:
        lines.append(f"  problem     {PROBLEMS[status.problem]}")
    if status.decided is not None:
        lines.append(f"  decided     {DECIDED[status.decided]}")
    if status.markets is not None:
        lines += [f"  in market   {shown(name)}: {_verdict(status.url, each)}" for name, each in status.markets.items()]
    elif status.winner is not None and status.winner != status.url:
        lines.append(f"  winner      {_winner(status)}")
    if status.group is not None:
        lines.append(f"  group       {shown(status.group)}")
    lines.append(f"  since       {time_shown(status.since)}")
    return "\n".join(lines)


def _verdict(url: str, verdict: MarketStatus) -> str:
    if verdict.winner is None or verdict.winner == url:
        return verdict.role
    return f"{verdict.role}, winner {_winner(verdict)}"


def _winner(verdict: DuplicateStatus | MarketStatus) -> str:
    measure = "share" if verdict.relation == "contained" else "similarity"
    similarity = "" if verdict.similarity is None else f", {measure} {verdict.similarity:.4f}"
    return f"{shown(verdict.winner or '')} ({verdict.relation}{similarity})"
