"""Rules of many sites on all cores: sites are learned independently of each other."""

from __future__ import annotations

import multiprocessing
import threading
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain
from multiprocessing.connection import Connection

import msgspec
from msgspec import Struct

from dustream.core.processor import RestPart
from dustream.core.rules.example_site import learn_some_rules
from dustream.core.rules.known_site import RulesSettings, learned_rules
from dustream.core.rules.learn import LearnSettings
from dustream.core.rules.processor import SiteToLearn, newest_decisions, newest_rows
from dustream.core.settings import Settings
from dustream.schemas.cluster import ClusterMember, ClusterUpdate, DecidedRule
from dustream.schemas.rules import RuleSet
from dustream.streams.engine.feed import rare_collections
from dustream.streams.engine.worker_processes import follow_parent, interrupts_ignored, worker_context

URLS_MIN = 5_000  # fewer are learned from sooner by one process than it takes to start others; beside the largest site
SHARES_PER_LEARNER = 8  # how long a site takes is not known beforehand, so learners take one share after the other

_ENCODER = msgspec.msgpack.Encoder()
_RULE_SETS = msgspec.msgpack.Decoder(list[RuleSet])


class SitesShare(Struct, frozen=True, array_like=True):
    """Sites that are learned together: all updates of them, or what is known of them."""

    updates: list[ClusterUpdate] = []
    sites: list[SiteToLearn] = []


_SHARES = msgspec.msgpack.Decoder(SitesShare)


def learn_parts(settings: Settings, jobs: int, parts: list[RestPart]) -> dict[str, RuleSet] | None:
    """The rules of sites, by site; None if one process learns them as soon."""
    if sum(part.size for part in parts) - max((part.size for part in parts), default=0) < URLS_MIN:
        return None
    learning = RuleLearning(settings, jobs, URLS_MIN)
    try:
        learning.start_sites([(part.size, part.content()) for part in parts])
        return {rules.site: rules for rules in learning.rule_sets()}
    finally:
        learning.close()


class RuleLearning:
    """Learns rules in processes of their own while the caller does something else; with one job, in this process.

    The processes load compiled code as soon as the object is made.
    """

    def __init__(self, settings: Settings, jobs: int, urls: int) -> None:
        self._settings = settings
        are_wanted = jobs > 1 and urls >= URLS_MIN
        self._learners = [_Learner(settings) for _ in range(jobs)] if are_wanted else []
        self._shares: deque[SitesShare] = deque()

    @property
    def is_beside(self) -> bool:
        """Whether other processes learn."""
        return bool(self._learners)

    def start(self, updates: list[ClusterUpdate]) -> None:
        """Learn from these: all updates of all sites."""
        sites: dict[str, list[ClusterUpdate]] = {}
        urls: dict[str, int] = {}
        for update in updates:
            sites.setdefault(update.site, []).append(update)
            urls[update.site] = urls.get(update.site, 0) + len(update.members)
        shares = self._divided(urls)
        self._start([SitesShare(updates=[update for site in share for update in sites[site]]) for share in shares])

    def start_sites(self, sites: list[tuple[int, SiteToLearn]]) -> None:
        """Learn these sites; before each, the number of its URLs."""
        by_name = {each.site: each for _, each in sites}
        shares = self._divided({each.site: urls for urls, each in sites})
        self._start([SitesShare(sites=[by_name[site] for site in share]) for share in shares])

    def _divided(self, urls: dict[str, int]) -> list[list[str]]:
        return shares_of(urls, max(1, SHARES_PER_LEARNER * len(self._learners)))

    def _start(self, shares: list[SitesShare]) -> None:
        self._shares.extend(shares)
        for learner in self._learners:
            learner.start(self._shares)

    def rule_sets(self) -> list[RuleSet]:
        """The rules of every site that has any; waits for them. Shares of processes that failed are learned here, where
        a failure can be reported."""
        found: list[RuleSet] = []
        for learner in self._learners:
            found += learner.join(self._shares)
        while self._shares:
            found += _learned(self._shares.popleft(), self._settings)
        return found

    def close(self) -> None:
        """End the processes."""
        for learner in self._learners:
            learner.close()


def shares_of(urls: dict[str, int], count: int) -> list[list[str]]:
    """Sites in at most so many shares, each with about as many URLs as the others; the largest first."""
    shares: list[list[str]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for site in sorted(urls, key=lambda each: (-urls[each], each)):
        load, least = heappop(loads)
        shares[least].append(site)
        heappush(loads, (load + urls[site], least))
    return [shares[number] for _, number in sorted(loads, key=lambda each: (-each[0], each[1])) if shares[number]]


def _learned(share: SitesShare, settings: Settings) -> Iterator[RuleSet]:
    """The outcome of the rules processor at rest, site by site and without its tables."""
    learn = RulesSettings(learn=LearnSettings.of(settings.rules))
    for each in chain(_sites_in(share.updates), share.sites):
        if rules := learned_rules(each.site, each.rows, learn, each.decisions):
            yield RuleSet(site=each.site, version=1, rules=rules)


def _sites_in(updates: list[ClusterUpdate]) -> Iterator[SiteToLearn]:
    members: dict[str, list[ClusterMember]] = {}
    decided: dict[str, list[DecidedRule]] = {}
    for update in updates:
        if update.site:
            members.setdefault(update.site, []).extend(update.members)
            decided.setdefault(update.site, []).extend(update.decisions)
    for site in sorted(members):
        yield SiteToLearn(site, list(newest_rows(members.pop(site))), newest_decisions(site, decided[site]))


class _Learner:
    """A process that learns rules, and the thread that hands it one share after the other."""

    def __init__(self, settings: Settings) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        self._process = worker_context().Process(target=_learn_in_worker, args=(settings, theirs), daemon=True)
        with interrupts_ignored():
            self._process.start()
        theirs.close()
        self._found: list[RuleSet] = []
        self._failed: list[SitesShare] = []

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def start(self, shares: deque[SitesShare]) -> None:
        self._thread = threading.Thread(target=self._hand_out, args=(shares,), daemon=True)
        self._thread.start()

    def _hand_out(self, shares: deque[SitesShare]) -> None:
        while True:
            try:
                share = shares.popleft()
            except IndexError:
                return
            try:
                self._connection.send_bytes(_ENCODER.encode(share))
                self._found += _RULE_SETS.decode(self._connection.recv_bytes())
            except (EOFError, OSError):
                self._failed.append(share)
                return

    def join(self, shares: deque[SitesShare]) -> list[RuleSet]:
        """What it has found, once nothing is left to hand out; what it failed on goes back to the shares."""
        self._thread.join()
        shares.extend(self._failed)
        self.close()
        return self._found

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()


def _learn_in_worker(settings: Settings, connection: Connection) -> None:
    follow_parent()
    learn_some_rules()
    while True:
        try:
            share = _SHARES.decode(connection.recv_bytes())
        except EOFError:
            return
        with rare_collections():
            found = list(_learned(share, settings))
        connection.send_bytes(_ENCODER.encode(found))
