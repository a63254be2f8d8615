"""Random worlds for the model: contents whose match graph takes the shapes that are hard, and histories of crawls."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from dustream.core.pages.small_changes import ByAnchor, ByRepresentative, SmallChanges
from dustream.core.tier2.containers import ContainerOrder, criteria_first, longer_first
from dustream.core.winners import Market
from dustream.schemas.pages import Crawl, Decision, PageDecision, PairDecision
from dustream.schemas.signature import SIGNATURE_VERSION, PageSignature

THRESHOLD = 0.8
SHARE = 0.75
_CODE_STOCK = "".join(chr(0x4E00 + number) for number in range(64))
SHAPES = ("sparse", "dense", "chain", "hub", "cliques")
_MULTIPLIERS = np.random.default_rng(1).integers(1, 1 << 63, 128, dtype=np.uint64) | np.uint64(1)


def _minhash(elements: NDArray[np.uint64]) -> bytes:
    hashed = (elements[None, :] * _MULTIPLIERS[:, None]) >> np.uint64(32)
    return hashed.min(axis=1).astype("<u4").tobytes()


def _spread(element: int) -> int:
    """Elements stand for hashed shingles: spread them over 64 bits."""
    return (element + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF


class Contents:
    """Shingle sets by number, their signatures and exact similarities."""

    def __init__(self, rng: random.Random, count: int, shape: str, *, with_minhash: bool) -> None:
        sets: list[set[int]] = []
        for number in range(count):
            sets.append(_part_or_whole(rng, sets) or _shape_set(rng, shape, number))
        self._codes = [_random_code(rng) for _ in range(count)]
        self.sets = [frozenset(_spread(element) for element in each) for each in sets]
        self.signatures = [self._signature(number, with_minhash) for number in range(count)]
        self.similar = [[_jaccard(one, other) for other in self.sets] for one in self.sets]

    def _signature(self, number: int, with_minhash: bool) -> PageSignature:
        elements = np.array(sorted(self.sets[number]), dtype=np.uint64)
        minhash = _minhash(elements) if with_minhash else b""
        content_hash = number.to_bytes(16, "big")
        shingles = elements.astype("<u8").tobytes()
        return PageSignature(SIGNATURE_VERSION, content_hash, shingles, minhash, (), 0, "en", self._codes[number])

    def __len__(self) -> int:
        return len(self.sets)


def _part_or_whole(rng: random.Random, sets: list[set[int]]) -> set[int]:
    """Often a content that contains an earlier one, or is a part of it, with some elements of its own."""
    if not sets or rng.random() < 0.6:
        return set()
    known = sorted(rng.choice(sets))
    own = {9_000 + rng.randrange(50) for _ in range(rng.choice((0, 1, 2, 6, 12)))}
    return set(known if rng.random() < 0.5 else known[: len(known) * 3 // 4]) | own


def _random_code(rng: random.Random) -> str:
    """Pieces of one text, so that many are in one another; some contents have none."""
    start, chars = rng.randrange(12), rng.choice((0, 0, 8, 9, 12, 16, 24, 40))
    return _CODE_STOCK[start : start + chars]


def _shape_set(rng: random.Random, shape: str, number: int) -> set[int]:
    length = 18
    if shape == "chain":  # each matches the next: windows that slide by one of 18
        return set(range(number * 2, number * 2 + length))
    if shape == "hub":  # leaves match the hub of their family, and each other only just not
        family, place = divmod(number, 6)
        hub = set(range(family * 1000, family * 1000 + length))
        return hub | {family * 1000 + 100 + 10 * place + extra for extra in range(4 if place else 0)}
    families = {"sparse": 8, "dense": 1, "cliques": 4}[shape]
    family = rng.randrange(families) * 1000
    base = set(range(family, family + length))
    changes = rng.choice((0, 1, 1, 2, 3)) if shape != "cliques" else rng.choice((0, 0, 1))
    for _ in range(changes):
        base.discard(family + rng.randrange(length))
        base.add(family + 100 + rng.randrange(6))
    return base | {family + 500 + extra for extra in range(rng.choice((0, 0, 0, 1, 3)))}


def _jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    return len(one & other) / len(one | other)


Event = Crawl | Decision | PageDecision | PairDecision


class AskEverybody:
    """A page's home follows from its smallest shingle; everybody is probed."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def route(self, shingles: NDArray[np.uint64], tie: int = 0, lang: str = "") -> tuple[int, tuple[int, ...]]:
        home = int(shingles[0] >> np.uint64(7)) % self.partitions
        return home, tuple(partition for partition in range(self.partitions) if partition != home)


class ByLength:
    """Pages by length; only lengths within the threshold's ratio can match."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def route(self, shingles: NDArray[np.uint64], tie: int = 0, lang: str = "") -> tuple[int, tuple[int, ...]]:
        home = len(shingles) % self.partitions
        low, high = int(len(shingles) * THRESHOLD), int(len(shingles) / THRESHOLD) + 1
        return home, tuple(sorted({length % self.partitions for length in range(low, high + 1)} - {home}))


@dataclass(frozen=True)
class Limits:
    """Tiny ones, so that small histories cut everything that can be cut."""

    transfer_rows: int
    groups_work: int
    stars_work: int
    followers_told: int
    redirect_hops: int
    group_size: int
    site_pages_told: int
    site_pages: int
    site_share: float
    waiting: int = 2_000
    term_cap: int = 64
    code_cap: int = 16


@dataclass(frozen=True)
class History:
    """One case: what is fed, and on what settings."""

    seed: int
    contents: Contents
    partitions: dict[str, int]
    partition_map: AskEverybody | ByLength
    markets: tuple[Market, ...]
    small_changes: SmallChanges
    limits: Limits
    real_index: bool
    container_order: ContainerOrder
    events: list[Event] = field(repr=False)


def random_history(seed: int, *, big: bool = False, real_index: bool = False, representative: bool = False) -> History:
    rng = random.Random(seed)
    url_count = rng.randint(20, 60) if big else rng.randint(4, 22)
    partition_max = 8 if big else rng.choice((1, 3, 8))
    partitions = {name: rng.randint(1, partition_max) for name in ("pages", "tier2", "groups", "sites")}
    partitions["containment"] = 1 + seed % partition_max
    contents = Contents(rng, rng.randint(3, max(4, url_count)), rng.choice(SHAPES), with_minhash=real_index)
    tier2_map = rng.choice((AskEverybody, ByLength))(partitions["tier2"])
    markets = rng.choice((_ONE_MARKET, _ONE_MARKET, _BY_AGE, _TWO_MARKETS))
    anchor_distance = rng.choice((0.0, 0.0, 0.1, 0.3))
    small_changes = ByRepresentative(THRESHOLD) if representative else ByAnchor(anchor_distance)
    limits = rng.choice((_tiny, _small, _large))
    events = _random_events(rng, url_count, len(contents), rng.randint(url_count, 4 * url_count))
    if not isinstance(small_changes, ByAnchor) or small_changes.distance:  # what a page had is then a matter of its way
        events = [event for event in events if not (isinstance(event, Crawl) and event.kind == "revisit")]
    if representative:  # whether a page passes a split hangs on a similarity that depends on timing
        events = [event for event in events if not (isinstance(event, Decision) and event.pass_from)]
    order = (longer_first, criteria_first)[seed // 3 % 2]
    caps = {"term_cap": (1, 2, 3, 64)[seed // 5 % 4], "code_cap": (1, 2, 16)[seed // 11 % 3]}
    containment = {"waiting": (1, 4, 2_000)[seed // 7 % 3], **caps}
    settings = markets, small_changes, dataclasses.replace(limits(rng), **containment), real_index
    return History(seed, contents, partitions, tier2_map, *settings, order, events)


_ONE_MARKET = (Market(criteria=("canonical", "popularity", "static", "url_hash")),)
_BY_AGE = (Market(criteria=("static",)),)  # then by name: first seen, URL
_TWO_MARKETS = (Market(criteria=("url_hash",)), Market(name="second", criteria=("popularity", "url_length")))


def _tiny(rng: random.Random) -> Limits:
    work = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 3), 1
    share = rng.choice((0.2, 0.5, 1.0))
    return Limits(*work, rng.choice((2, 4)), rng.choice((2, 4, 99)), rng.randint(1, 2), rng.randint(1, 4), share)


def _small(rng: random.Random) -> Limits:
    work = rng.randint(3, 9), rng.randint(4, 20), rng.randint(4, 20), 3
    return Limits(*work, 8, rng.choice((3, 99)), 3, rng.choice((1, 5)), rng.choice((0.3, 1.0)))


def _large(rng: random.Random) -> Limits:
    return Limits(500, 5_000, 2_000, 1_000, 16, 10_000, 1_000, 3, rng.choice((0.3, 1.0)))


def _random_events(rng: random.Random, url_count: int, content_count: int, count: int) -> list[Event]:
    """Mostly in order; some events come late, some twice, some with a time stamp that is taken."""
    urls = [f"http://{'ab'[number % 2]}.example/{'?' * (number % 3 == 0)}{number}" for number in range(url_count)]
    version = dict.fromkeys(urls, 0)
    revisits = rng.choice((0, 0.1, 0.3))
    redirects, deaths = rng.choice((0, 0.1, 0.4)), rng.choice((0.1, 0.3))
    events: list[Event] = []
    for number in range(count):
        url = urls[number] if number < url_count and rng.random() < 0.7 else rng.choice(urls)
        version[url] += rng.randint(0, 1) if rng.random() < 0.05 else 1 + rng.randrange(3)
        if rng.random() < revisits:
            events.append(Crawl(url, version[url], "revisit", target=rng.choice([u for u in urls if u != url])))
        else:
            events.append(_random_event(rng, url, version[url], urls, redirects, deaths))
    for number in range(len(events)):
        if rng.random() < 0.05:
            events.append(rng.choice(events))
        if rng.random() < 0.1:
            other = rng.randrange(len(events))
            events[number], events[other] = events[other], events[number]
    for number in range(rng.choice((0, 4, 10))):
        events.insert(rng.randrange(len(events)), _random_decision(rng, rng.choice(urls), 1 + number // 2))
    pairs = [rng.sample(urls, 2) for _ in range(rng.choice((0, 1, 2, 4)))]
    for number in range(4 * len(pairs)):
        one, other = rng.sample(rng.choice(pairs), 2)
        same = PairDecision(one, 1 + number // 2, other, rng.random() < 0.7)
        events.insert(rng.randrange(len(events)), same)
    return [_with_content(event, content_count, rng) for event in events]


def _random_event(
    rng: random.Random, url: str, version: int, urls: list[str], redirects: float, deaths: float
) -> Crawl:
    popularity = rng.choice((1.0, 5.0, 100.0)) if rng.random() < 0.1 else None
    kind = rng.random()
    if kind < redirects:
        return Crawl(url, version, "redirect", target=rng.choice([*urls, "http://nowhere.example/"]))
    if kind < redirects + deaths:
        return Crawl(url, version, "gone")
    if kind > 0.95:
        return Crawl(url, version, "seen", popularity=popularity)
    named = f"{url}#{rng.choice('ab')}"  # another page: whether it is known does not matter
    canonical = rng.choice(("self", "none", named))
    return Crawl(url, version, "content", popularity=popularity, canonical=canonical)


def _random_decision(rng: random.Random, url: str, version: int) -> Decision | PageDecision:
    """On a page, a site or a group; a group may be split at a similarity that contents of the world really have."""
    if rng.random() < 0.4:
        return PageDecision(url, version, rng.random() < 0.7)
    if rng.random() < 0.3:
        return Decision(url, version, "site", rng.choice((0.0, None)))
    return Decision(url, version, "group", rng.choice((0.0, 0.0, None, 0.9, 1.0)))


def site_of(url: str) -> str:
    return url.split("/")[2]


def _with_content(event: Event, content_count: int, rng: random.Random) -> Event:
    """Contents are numbers (in `via`) until the network turns them into signatures. Some payloads have digests."""
    if not isinstance(event, Crawl) or event.kind not in ("content", "revisit"):
        return event
    content = str(rng.randrange(content_count))
    digest = rng.choice(("", "", "", "", f"{content} as usual", f"{content} with another clock"))
    return replace(event, digest=digest, via=content if event.kind == "content" else "http")
