"""`dustream breaker`: what the circuit breaker holds, and operators' decisions about it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dustream.schemas.crawl import CrawlEvent
    from dustream.streams.engine.alarms import AlarmLine

DESCRIPTION = """\
The circuit breaker holds groups that are too large, and sites that would lose most of their pages to winners on other
sites. Pages that would be dropped get the role `held` and are kept. A hold ends by itself when its condition no longer
applies.

  list     what is held now
  release  let NAME pass: a group (by its id, a URL) or a site (by its name)
  split    let a group pass, but only pages at least --pass-from similar to their winner become duplicates; its other
           pages are kept
  hold     withdraw the decision about NAME: the circuit breaker decides again
  log      the decisions in force, as events: give them to `dustream run` with the same inputs for the same result

A decision applies to the name from now on; a later one replaces it. With --state it is applied at once, and if --state
is the folder of a run, its results are written again. Without --state it is published to the application on Kafka.
"""

EXAMPLES = """\
examples:
  dustream breaker list --state result
  dustream breaker release mirror.example --state result
  dustream breaker split https://shop.example/item?id=1 --pass-from 0.98 --state result
  dustream breaker hold mirror.example --name dustream
  dustream breaker log --state result > decisions.jsonl
  dustream run crawl.warc.gz decisions.jsonl --out again
"""


def add_parser(subparsers: Any) -> None:
    from dustream.streams.cli.topics import add_cluster

    parser: argparse.ArgumentParser = subparsers.add_parser(
        "breaker",
        help="list what the circuit breaker holds, and release or split it",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("list", "release", "split", "hold", "log"))
    parser.add_argument("target", nargs="?", metavar="NAME", help="a group's id (a URL), or a site")
    parser.add_argument("--pass-from", type=float, metavar="S", help="of split: similarity to the winner, as in 0.98")
    parser.add_argument("--state", type=Path, metavar="DIR", help="state or result folder of a run (else: Kafka)")
    add_cluster(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.core.errors import BadSetting

    if args.action in ("list", "log"):
        if args.target is not None:
            raise BadSetting(f"`breaker {args.action}` takes no NAME")
        return _list(args) if args.action == "list" else _log(args)
    event = decision_event(args.action, args.target, args.pass_from)
    if args.state is not None:
        _decide_here(args, event)
    else:
        publish_decision(args, event, f"{args.action} {args.target}")
    return 0


def decision_event(action: str, target: str | None, pass_from: float | None) -> CrawlEvent:
    """The event of a decision taken now."""
    from datetime import UTC, datetime

    import msgspec

    from dustream.core.errors import BadEvent, BadSetting
    from dustream.core.events import check_event
    from dustream.core.urls.sites import site_of
    from dustream.schemas.crawl import CrawlEvent

    if target is None:
        raise BadSetting(f"name what to {action}: a group's id (a URL) or a site, as in `dustream breaker list`")
    is_group = "://" in target
    if not is_group and site_of(target) != target:
        raise BadSetting(f"{target!r} is neither a URL nor a site: did you mean {site_of(target) or 'http://…'!r}?")
    fields = {
        "url": target if is_group else f"http://{target}/",
        "fetched_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "decision": f"{action}_{'group' if is_group else 'site'}",
        "pass_from": pass_from,
    }
    try:
        event = msgspec.convert(fields, CrawlEvent)
        check_event(event)
    except msgspec.ValidationError:
        raise BadSetting("only a group can be split: name it by its id, a URL") from None
    except BadEvent as error:
        raise BadSetting(f"{error} (--pass-from)" if "pass_from" in str(error) else str(error)) from None
    return event


def _decide_here(args: argparse.Namespace, event: CrawlEvent) -> None:
    from dustream.schemas.wire import encode
    from dustream.streams.cli.terminal import shown
    from dustream.streams.decisions import decide
    from dustream.streams.questions.state import state_folder

    folder = state_folder(args.state)
    before = _known(args.state, event)
    decide(folder, event, args.state if folder != args.state else None)
    if before.remark:
        print(f"dustream: {shown(before.remark)}: the decision stands, for when there is", file=sys.stderr)
    if args.json:
        print(encode(event).decode())
        return
    after = _known(args.state, event)
    changes = _role_changes(before.roles, after.roles)
    print(f"{args.action} {args.target}: {changes} ({before.held:,} pages of it were held, now {after.held:,})")
    if folder == args.state:
        print("the result files are unchanged: run `dustream run` with the same --state to update them")


class _Known(NamedTuple):
    """What a state knows of a decision's name."""

    roles: dict[str, str]
    """Of the URLs of the group or site."""
    remark: str
    """That there is no such, if so."""

    @property
    def held(self) -> int:
        return sum(role == "held" for role in self.roles.values())


def _known(path: Path, event: CrawlEvent) -> _Known:
    """Reads all statuses: the URLs of a site or group are not adjacent in the store."""
    from dustream.core.urls.identity import page_identity
    from dustream.core.urls.sites import site_of
    from dustream.streams.engine.results import StoredResults
    from dustream.streams.questions.state import state_folder
    from dustream.streams.store.extent import open_to_read

    is_group, name = (event.decision or "").endswith("_group"), page_identity(event.url)
    store = open_to_read(state_folder(path))
    try:
        statuses = StoredResults(store).statuses()
        if is_group:
            found = [each for each in statuses if each.group == name or each.url == name]
        else:
            found = [each for each in statuses if site_of(each.url) == site_of(name)]
    finally:
        store.close()
    roles: dict[str, str] = {each.url: each.role for each in found if not is_group or each.group == name}
    if roles:
        return _Known(roles, "")
    if not is_group:
        return _Known({}, f"no site {site_of(name)} is known")
    elsewhere = next((f", {name} is in the group {each.group}" for each in found if each.group), "")
    return _Known({}, f"there is no group {name}{elsewhere}")


def _role_changes(before: dict[str, str], after: dict[str, str]) -> str:
    """As in: 12 held → 12 duplicate."""
    from collections import Counter

    changes = Counter((before[url], after[url]) for url in before.keys() & after.keys() if before[url] != after[url])
    told = [f"{count:,} {old} → {count:,} {new}" for (old, new), count in sorted(changes.items())]
    return ", ".join(told) or "no role changed"


def publish_decision(args: argparse.Namespace, event: CrawlEvent, words: str) -> None:
    """Publish a decision to the application on Kafka."""
    from dustream.schemas.wire import encode
    from dustream.streams.cli.topics import read_application
    from dustream.streams.kafka.publish import Publisher

    cluster, application = read_application(args)
    publisher = Publisher(cluster, application, single=True)
    publisher.publish(event)
    publisher.flush()
    print(encode(event).decode() if args.json else f"{words}: published to {application.name}")


def _list(args: argparse.Namespace) -> int:
    import msgspec

    from dustream.streams.cli.terminal import shown
    from dustream.streams.engine.alarms import describe_alarm

    lines = _held(args.state) if args.state is not None else _held_on_kafka(args)
    for line in lines:
        print(msgspec.json.encode(line).decode() if args.json else shown(describe_alarm(line)))
    if not lines and not args.json:
        print("nothing is held")
    return 0


def _held(state: Path) -> list[AlarmLine]:
    from dustream.streams.engine.alarms import count_alarms
    from dustream.streams.questions.state import state_folder
    from dustream.streams.store.extent import open_to_read

    store = open_to_read(state_folder(state))
    try:
        return count_alarms(store)
    finally:
        store.close()


def _held_on_kafka(args: argparse.Namespace) -> list[AlarmLine]:
    from dustream.streams.cli.topics import read_application
    from dustream.streams.engine.alarms import count_alarms
    from dustream.streams.kafka.outcome import collect
    from dustream.streams.store.memory import MemoryStore

    store = MemoryStore()
    collect(*read_application(args), store)
    return count_alarms(store)


def _log(args: argparse.Namespace) -> int:
    from dustream.core.errors import BadSetting
    from dustream.schemas.wire import encode
    from dustream.streams.questions.decision_list import read_decisions
    from dustream.streams.questions.state import EmbeddedState

    if args.state is None:
        raise BadSetting(
            "on Kafka decisions stand in the crawl topic, where replays find them; give --state for a run's"
        )
    with EmbeddedState(args.state) as state:
        for event in read_decisions(state):
            print(encode(event).decode())
    return 0
