"""`dustream decide`: operators' decisions on pages, on pairs of pages and on rules, and the list of all decisions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dustream.schemas.crawl import CrawlEvent
    from dustream.schemas.rules import Rewrite, RuleSet, UrlRule
    from dustream.schemas.status import DuplicateStatus

DESCRIPTION = """\
Decide on a page, on two pages or on a rule. Decisions are events: they apply from now on, also to pages and rules that
are not known yet; a later one on the same page, pair or rule replaces it.

  not-duplicate URL            keep the page, whatever it matches
  undo URL                     withdraw that: its matches decide again
  same URL OTHER               the two pages match, whatever their texts: the worse one in winner order is a duplicate
  undo URL OTHER               withdraw that: their texts decide again
  rule accept SITE RULE        apply the rule without waiting until it has proved itself; it is revoked as any other
  rule reject SITE RULE        never apply the rule
  rule pin SITE RULE           apply the rule whatever the evidence says, also if it is not learned any more
  rule undo SITE RULE          withdraw the decision on the rule
  list                         the decisions in force, also those of `dustream breaker`; with --json as events: give
                               them to `dustream run` with the same inputs for the same result

RULE is an id, as `dustream rules show` prints it. With --state a decision is applied at once, and if --state is the
folder of a run, its results are written again. Without --state it is published to the application on Kafka.
"""

EXAMPLES = """\
examples:
  dustream decide not-duplicate https://shop.example/item?id=7 --state result
  dustream decide undo https://shop.example/item?id=7 --state result
  dustream decide same https://shop.example/item?id=7 https://shop.example/thing/7 --state result
  dustream decide rule reject shop.example 5c1d0a8e2f3b4c6d --state result
  dustream decide rule pin shop.example 5c1d0a8e2f3b4c6d --name dustream
  dustream decide list --state result --json > decisions.jsonl
  dustream run crawl.warc.gz decisions.jsonl --out again
"""

RULE_ACTIONS = ("accept", "reject", "pin", "undo")


def add_parser(subparsers: Any) -> None:
    from dustream.streams.cli.topics import add_cluster

    parser: argparse.ArgumentParser = subparsers.add_parser(
        "decide",
        help="decide that a page is not a duplicate, or that two are the same; accept, reject or pin a rule",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    keep = actions.add_parser("not-duplicate", help="keep a page, whatever it matches")
    same = actions.add_parser("same", help="two pages match, whatever their texts")
    undo = actions.add_parser("undo", help="withdraw the decision on a page or on two pages")
    for each in (keep, same, undo):
        each.add_argument("url", metavar="URL", help="the page")
    same.add_argument("other", metavar="OTHER", help="the other page")
    undo.add_argument("other", metavar="OTHER", nargs="?", help="the other page, to withdraw `same`")
    rule = actions.add_parser("rule", help="accept, reject or pin a rule, or withdraw that")
    rule.add_argument("verdict", choices=RULE_ACTIONS)
    rule.add_argument("site", metavar="SITE")
    rule.add_argument("rule", metavar="RULE", help="id of the rule")
    listed = actions.add_parser("list", help="the decisions in force")
    for each in (keep, same, undo, rule, listed):
        each.add_argument("--state", type=Path, metavar="DIR", help="state or result folder of a run (else: Kafka)")
        add_cluster(each)
        each.add_argument("--json", action="store_true", help="print events as JSON, one per line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.streams.cli.breaker import publish_decision

    if args.action == "list":
        return _list(args)
    event = _rule_event(args) if args.action == "rule" else _page_event(args)
    if args.state is not None:
        _decide_here(args, event)
    else:
        publish_decision(args, event, _words(args))
    return 0


def _words(args: argparse.Namespace) -> str:
    if args.action == "rule":
        return f"{args.verdict} rule {args.rule} of {args.site}"
    other = getattr(args, "other", None)
    return f"{args.action} {args.url}" + (f" {other}" if other is not None else "")


def _page_event(args: argparse.Namespace) -> CrawlEvent:
    if getattr(args, "other", None) is not None:
        return _event(args.url, "same" if args.action == "same" else "undo_same", other=args.other)
    return _event(args.url, "not_duplicate" if args.action == "not-duplicate" else "undo_page")


def _rule_event(args: argparse.Namespace) -> CrawlEvent:
    from dustream.core.errors import BadSetting

    rewrite = _known_here(args) if args.state is not None else _known_on_kafka(args)
    if rewrite is None:
        raise BadSetting(f"{args.site} has no rule {args.rule}: `dustream rules show` prints the ids of its rules")
    return _event(f"http://{args.site}/", f"{args.verdict}_rule", rewrite=rewrite)


def _event(url: str, name: str, *, rewrite: Rewrite | None = None, other: str | None = None) -> CrawlEvent:
    """A decision made now."""
    from datetime import UTC, datetime

    import msgspec

    from dustream.core.errors import BadEvent, BadSetting
    from dustream.core.events import check_event
    from dustream.schemas.crawl import CrawlEvent

    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    fields = {"url": url, "fetched_at": at, "decision": name, "rule": msgspec.to_builtins(rewrite), "same_as": other}
    event = msgspec.convert(fields, CrawlEvent)
    try:
        check_event(event)
    except BadEvent as error:
        raise BadSetting(str(error)) from None
    return event


def _find(rule_sets: Iterator[RuleSet], args: argparse.Namespace) -> UrlRule | None:
    """The last one: of a topic, the latest rule set of a site counts."""
    rules = (rule for each in rule_sets if each.site == args.site for rule in each.rules if rule.id == args.rule)
    found = None
    for found in rules:  # noqa: B007
        pass
    return found


def _known_here(args: argparse.Namespace) -> Rewrite | None:
    """Of the rules of a state, or of the decisions on them: a rejected rule may not be learned any more."""
    from dustream.streams.questions.state import EmbeddedState, task_table

    with EmbeddedState(args.state) as state:
        found = _find(state.rule_sets(), args)
        if found is not None:
            return found.rewrite
        decided = task_table(state, "rules", args.site, "rule_decisions").get(f"{args.site} {args.rule}")
        return None if decided is None else decided.rewrite


def _known_on_kafka(args: argparse.Namespace) -> Rewrite | None:
    from dustream.streams.cli.topics import read_application
    from dustream.streams.kafka.rule_topic import RuleTopic

    topic = RuleTopic(*read_application(args))
    try:
        found = _find(topic.read(), args)
    finally:
        topic.close()
    return None if found is None else found.rewrite


def _decide_here(args: argparse.Namespace, event: CrawlEvent) -> None:
    from dustream.schemas.wire import encode
    from dustream.streams.cli.terminal import shown
    from dustream.streams.decisions import decide
    from dustream.streams.questions.state import state_folder

    folder = state_folder(args.state)
    before = _subject(args, event)
    decide(folder, event, args.state if folder != args.state else None)
    if args.json:
        print(encode(event).decode())
        return
    after = _subject(args, event)
    print(shown(f"{_words(args)}: {before} → {after}" if before != after else f"{_words(args)}: {after}, as before"))
    if folder == args.state:
        print("the result files are unchanged: run `dustream run` with the same --state to update them")


def _subject(args: argparse.Namespace, event: CrawlEvent) -> str:
    """What the page, the two pages or the rule are now, in a few words."""
    from dustream.core.urls.identity import page_identity
    from dustream.streams.questions.state import EmbeddedState

    with EmbeddedState(args.state) as state:
        if event.rule is not None:
            rule = _find(state.rule_sets(), args)
            if rule is None:
                return "not learned"
            return f"{rule.stage} ({rule.reason})" if rule.reason else rule.stage
        urls = [event.url] if event.same_as is None else [event.url, event.same_as]
        return " and ".join([_page_words(state.status(page_identity(url))) for url in urls])


def _page_words(status: DuplicateStatus | None) -> str:
    if status is None:
        return "not known yet"
    is_own = status.winner in (None, status.url)
    return status.role if is_own else f"{status.role} of {status.winner}"


def _list(args: argparse.Namespace) -> int:
    from dustream.core.errors import BadSetting
    from dustream.schemas.wire import encode
    from dustream.streams.cli.terminal import shown
    from dustream.streams.questions.decision_list import is_withdrawal, read_decisions
    from dustream.streams.questions.state import EmbeddedState

    if args.state is None:
        raise BadSetting(
            "on Kafka decisions stand in the crawl topic, where replays find them; give --state for a run's"
        )
    with EmbeddedState(args.state) as state:
        events = list(read_decisions(state))
    for event in events:
        if args.json:
            print(encode(event).decode())
        elif not is_withdrawal(event):
            print(shown(describe_decision(event)))
    if not args.json and all(map(is_withdrawal, events)):
        print("no decision is in force")
    return 0


def describe_decision(event: CrawlEvent) -> str:
    """One line: when, what, on what."""
    from dustream.core.rules.given import rule_of
    from dustream.core.urls.sites import site_of

    action, _, kind = str(event.decision).partition("_")
    if event.rule is not None:
        rule = rule_of(site_of(event.url), event.rule)
        return f"{event.fetched_at}  {action} rule {rule.id} of {site_of(event.url)}: {rule.text}"
    if kind == "duplicate":
        return f"{event.fetched_at}  not a duplicate: {event.url}"
    if event.same_as is not None:
        return f"{event.fetched_at}  same: {event.url} and {event.same_as}"
    name = event.url if kind == "group" else site_of(event.url)
    below = f" below {event.pass_from:g}" if event.pass_from is not None else ""
    return f"{event.fetched_at}  {action} {kind} {name}{below}"
