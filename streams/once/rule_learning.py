"""Rules of all sites at once, on all cores: sites are learned independently of each other."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection

import msgspec
from msgspec.structs import replace

from dustream.core.pipeline import RULES
from dustream.core.rules.known_site import RulesSettings
from dustream.core.rules.learn import LearnSettings
from dustream.core.rules.processor import RulesProcessor
from dustream.core.settings import Settings
from dustream.schemas.cluster import ClusterUpdate
from dustream.schemas.rules import RuleSet
from dustream.streams.engine.signing import end_with_parent
from dustream.streams.engine.worker_server import interrupts_ignored, worker_context
from dustream.streams.once.alone import run_to_rest

URLS_MIN = 5_000  # fewer are learned from sooner by one process than it takes to start others

_ENCODER = msgspec.msgpack.Encoder()
_UPDATES = msgspec.msgpack.Decoder(list[ClusterUpdate])
_RULE_SETS = msgspec.msgpack.Decoder(list[RuleSet])


def learn_rules(updates: list[ClusterUpdate], settings: Settings, jobs: int) -> list[RuleSet]:
    """The rules of every site that has any."""
    here, *elsewhere = _shares(updates, jobs)
    learners = [_Learner(share, settings) for share in elsewhere]
    found = list(_learned(here, settings))
    for learner in learners:
        found += learner.rule_sets()
    return found


def _shares(updates: list[ClusterUpdate], jobs: int) -> list[list[ClusterUpdate]]:
    """Whole sites, so that each share has about as many URLs as the others."""
    if jobs == 1 or sum(len(update.members) for update in updates) < URLS_MIN:
        return [updates]
    sites: dict[str, list[ClusterUpdate]] = {}
    urls: dict[str, int] = {}
    for update in updates:
        sites.setdefault(update.site, []).append(update)
        urls[update.site] = urls.get(update.site, 0) + len(update.members)
    shares: list[list[ClusterUpdate]] = [[] for _ in range(jobs)]
    loads = [0] * jobs
    for site in sorted(sites, key=lambda each: (-urls[each], each)):
        least = loads.index(min(loads))
        shares[least] += sites[site]
        loads[least] += urls[site]
    return [share for share in shares if share]


def _learned(updates: list[ClusterUpdate], settings: Settings) -> Iterator[RuleSet]:
    learn = LearnSettings.of(settings.rules)
    processor = RulesProcessor(RulesSettings(relearn_changes_min=sys.maxsize, learn=learn))  # learns at rest only
    newest = {send.message.site: send.message for send in run_to_rest(settings, RULES, updates, processor)}
    for rules in newest.values():
        if rules.rules:
            yield replace(rules, version=1)


class _Learner:
    """A process that learns the rules of its share of the sites."""

    def __init__(self, updates: list[ClusterUpdate], settings: Settings) -> None:
        self._updates, self._settings = updates, settings
        self._connection, theirs = multiprocessing.Pipe(duplex=False)
        self._process = worker_context().Process(
            target=_learn_in_worker, args=(_ENCODER.encode(updates), settings, theirs), daemon=True
        )
        with interrupts_ignored():
            self._process.start()
        theirs.close()

    def rule_sets(self) -> list[RuleSet]:
        """Waits for them. If the process has failed, they are learned here, where a failure can be reported."""
        try:
            return _RULE_SETS.decode(self._connection.recv_bytes())
        except (EOFError, OSError):
            return list(_learned(self._updates, self._settings))
        finally:
            self._connection.close()
            self._process.join()


def _learn_in_worker(updates: bytes, settings: Settings, connection: Connection) -> None:
    end_with_parent()
    connection.send_bytes(_ENCODER.encode(list(_learned(_UPDATES.decode(updates), settings))))
