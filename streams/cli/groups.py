"""`dustream groups`: the largest groups, those changed last, those held; pages that contain others."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dustream.streams.cli.state_option import add_state_or_application, asked_service, open_asked
from dustream.streams.cli.terminal import print_json, shown

if TYPE_CHECKING:
    from dustream.streams.questions.contained_list import ContainerAnswer
    from dustream.streams.questions.group_list import GroupAnswer
    from dustream.streams.questions.state import ReadableState

DESCRIPTION = """\
List groups of near-duplicate pages: the largest, or those changed last, with their winners, their sites and the weakest
match that connects them. A group's size counts pages with content; redirects to them are counted separately.

A group changes when one of its pages gets new content, by the times in the log. Of a group of more than 10,000 pages
the first 10,000 are read for winners, sites and matches.

A page that is a part of a longer one (relation `contained`) stays in its own group. It is listed with the group whose
winner contains it; --contained lists all pages that contain others, whether or not they have near duplicates.
"""

EXAMPLES = """\
examples:
  dustream groups --state result
  dustream groups --state result --by changed --top 5
  dustream groups --state result --site example.com --json
  dustream groups --state result --held
  dustream groups --state result --contained
  dustream groups --held --bootstrap 127.0.0.1:9092
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "groups",
        help="list the largest groups, those changed last, or those held",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_state_or_application(parser)
    parser.add_argument("--top", type=int, default=20, metavar="N", help="how many (default 20)")
    parser.add_argument("--by", choices=("size", "changed"), default="size", help="order (default: size)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--held", action="store_true", help="only groups that are held")
    which.add_argument("--contained", action="store_true", help="pages that contain others, those with most first")
    parser.add_argument("--site", metavar="SITE", help="only groups with a page of this site, such as example.com")
    parser.add_argument("--market", metavar="M", help="market whose winners are shown (default: the first)")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.core.errors import BadSetting
    from dustream.core.urls.sites import site_of
    from dustream.streams.questions.contained_list import list_containers
    from dustream.streams.questions.group_list import GroupRequest, list_groups
    from dustream.streams.questions.one_page import market_number

    if args.top < 1:
        raise BadSetting(f"--top {args.top}: use 1 or more")
    site = None if args.site is None else site_of(args.site)
    request = GroupRequest(top=args.top, by=args.by, held=args.held, site=site, market=args.market)
    nothing = "no such groups" if args.held or args.site else "no groups: no two pages are similar enough"
    service = asked_service(args)
    if service is not None:
        if args.contained:
            raise BadSetting("--contained needs the state itself: use --state")
        _tell(service.groups(request), describe, args.json, nothing)
        return 0
    with open_asked(args) as state, _progress() as on_progress:
        if args.contained:
            number = market_number(state, args.market)
            containers = list_containers(state, number, args.top, site, on_progress)
            _tell(containers, describe_container, args.json, _nothing_contained(state))
        else:
            _tell(list_groups(state, request, on_progress), describe, args.json, nothing)
    return 0


def _tell(answers: Sequence[Any], described: Callable[[Any], str], as_json: bool, nothing: str) -> None:
    for answer in answers:
        print_json(answer) if as_json else print(described(answer))
    if not answers and not as_json:
        print(nothing)


def _nothing_contained(state: ReadableState) -> str:
    """Why the list may be empty."""
    looked_at = {
        "off": "containment was not looked for: run with --containment all",
        "cjk": "no page in Chinese, Japanese or Korean is contained in another; others: run with --containment all",
        "all": "no page is contained in another",
    }
    return looked_at[state.settings.containment]


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    if not sys.stderr.isatty():
        yield lambda rows: None
        return
    from tqdm import tqdm

    with tqdm(unit=" rows", unit_scale=True, leave=False, delay=0.5) as bar:

        def on_progress(rows: int) -> None:
            bar.update(rows - bar.n)

        yield on_progress


def describe(group: GroupAnswer) -> str:
    """A group for people."""
    from dustream.streams.questions.criteria import time_shown

    redirects = f" and {group.redirects:,} redirects" if group.redirects else ""
    lines = [
        f"{shown(group.group)}{'  HELD' if group.held else ''}",
        f"  size        {group.size:,} pages{redirects}",
        f"  changed     {time_shown(group.changed)}",
    ]
    winners = [f"  winner      {shown(url)}" for url in group.winners]
    lines += [*winners, *_more(group.winner_count - len(winners), "winners")]
    sites = ", ".join(f"{shown(site)} {count:,}" for site, count in group.sites.items())
    others = group.site_count - len(group.sites)
    lines.append(f"  sites       {sites}{f' and {others:,} more' if others else ''}")
    if group.weakest_link is not None:
        lines.append(f"  weakest     {group.weakest_link:.4f}")
    lines += _contained_lines(group)
    if group.members_read < group.size:
        lines.append(f"  looked at   the first {group.members_read:,} pages")
    return "\n".join(lines)


def describe_container(answer: ContainerAnswer) -> str:
    """A page that contains others, for people."""
    return "\n".join([shown(answer.container), *_contained_lines(answer)])


def _contained_lines(answer: GroupAnswer | ContainerAnswer) -> list[str]:
    pages = [f"  contains    {shown(page.url)} (share {page.share:.4f})" for page in answer.contained]
    return [*pages, *_more(answer.contained_count - len(pages), "pages")]


def _more(count: int, what: str) -> list[str]:
    return [f"              and {count:,} more {what}"] if count else []
