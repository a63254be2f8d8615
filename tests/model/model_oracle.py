"""What must come out, computed from scratch: from the events in log order, with nothing of the processors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from model_world import SHARE, THRESHOLD, History, site_of

from dustream.core.containment.sketch import code_terms
from dustream.core.pages.small_changes import ByAnchor
from dustream.core.text.repeatability import repeatability
from dustream.core.winners import Markets
from dustream.schemas.pages import Crawl, Decision, PageDecision, PairDecision


@dataclass(frozen=True)
class Page:
    """A URL's last state. `content` is the version that counts: the anchor, if that stands for a later one."""

    version: int
    first_seen: int
    found: int = -1
    kind: str = "unknown"
    since: int = 0
    content: int = -1
    latest: int = -1
    target: str = ""
    popularity: float | None = None
    canonical: str = "none"
    popularity_at: int = -1
    revisit: Crawl | None = None

    @property
    def first_seen_ms(self) -> int:
        return self.first_seen


@dataclass(frozen=True)
class Fetched:
    """A fetch that brought a content; None: a revisit, which brought one that is not passed on."""

    version: int
    content: int | None
    digest: str


def last_pages(history: History) -> dict[str, Page]:
    pages: dict[str, Page] = {}
    fetched: dict[str, list[Fetched]] = {}
    for event in history.events:
        if not isinstance(event, Crawl):
            continue
        page = pages.get(event.url) or Page(event.version, event.version)
        if event.popularity is not None and event.version > page.popularity_at:
            page = replace(page, popularity=event.popularity, popularity_at=event.version)
        if event.kind in ("content", "revisit") and event.version != page.found:
            content = int(event.via) if event.kind == "content" else None
            fetched.setdefault(event.url, []).append(Fetched(event.version, content, event.digest))
        page = replace(page, version=max(page.version, event.version))
        if event.kind != "seen" and event.version > page.found:
            page = _after(history, replace(page, found=event.version, canonical=event.canonical), event)
        pages[event.url] = page
    return {url: _with_what_was_found(page, fetched) for url, page in pages.items()}


def _after(history: History, page: Page, event: Crawl) -> Page:
    if event.kind == "content":
        return _with_content(history, page, int(event.via))
    if event.kind == "revisit":
        return replace(page, kind="unknown", revisit=event, target="")
    if page.revisit is None and (event.kind, event.target or "") == (page.kind, page.target):
        return page
    since, target = event.version, event.target or ""
    return replace(page, kind=event.kind, since=since, content=-1, latest=-1, target=target, revisit=None)


def _with_what_was_found(page: Page, fetched: dict[str, list[Fetched]]) -> Page:
    if page.revisit is None:
        return page if page.kind != "unknown" else replace(page, since=page.first_seen)
    assert page.revisit.target is not None
    content = found_content(fetched.get(page.revisit.target, []), page.found, page.revisit.digest)
    page = replace(page, since=page.found)
    return page if content is None else replace(page, kind="content", content=content, latest=content)


def found_content(fetched: list[Fetched], time: int, digest: str) -> int | None:
    """The content whose first fetch has the digest; else the last new one, if nothing says that it was another."""
    first: dict[int | None, Fetched] = {}
    last: dict[int | None, Fetched] = {}
    for each in sorted(fetched, key=lambda each: each.version):
        first.setdefault(each.content, each)
        if each.content not in last or last[each.content].version < each.version:
            last[each.content] = each
    named = [content for content, each in first.items() if digest and each.digest == digest and content is not None]
    if named:
        return min(named, key=lambda content: first[content].version)
    begun = [content for content, each in first.items() if each.version <= time]
    newest = max(begun, key=lambda content: first[content].version, default=None)
    if newest is None:
        return None
    others = [content for content in begun if content != newest]
    if any(last[content].version >= first[newest].version for content in others):
        return None
    is_another = time > last[newest].version and digest and last[newest].digest not in ("", digest)
    return None if is_another else newest


def _with_content(history: History, page: Page, content: int) -> Page:
    if page.kind == "content" and page.revisit is None:
        distance = history.small_changes.distance if isinstance(history.small_changes, ByAnchor) else 0.0
        near = 1 - history.contents.similar[page.content][content] <= distance
        if content == page.latest or (distance and near):
            return replace(page, latest=content)
    since = page.found
    return replace(page, kind="content", since=since, content=content, latest=content, target="", revisit=None)


def pages_at_epochs(history: History, pages: dict[str, Page], epochs: dict[str, int]) -> dict[str, Page]:
    """The pages with the contents that tier 2 knows of them: those of these epochs."""
    brought: dict[tuple[str, int], int] = {}
    for event in history.events:
        if isinstance(event, Crawl) and event.kind == "content":
            brought.setdefault((event.url, event.version), int(event.via))
    return {
        url: replace(page, since=epochs[url], content=brought[url, epochs[url]]) if page.kind == "content" else page
        for url, page in pages.items()
    }


def decided_pairs(history: History) -> set[tuple[str, str]]:
    """Pairs of URLs, in both orders, whose latest decision says that they are the same; of those of one time, one that
    withdraws it counts."""
    words: dict[tuple[str, str], tuple[int, bool]] = {}
    for event in history.events:
        if isinstance(event, PairDecision):
            for pair in ((event.url, event.other), (event.other, event.url)):
                words[pair] = max(words.get(pair, (-1, True)), (event.version, not event.same))
    return {pair for pair, (_, withdrawn) in words.items() if not withdrawn}


def _is_match(history: History, pages: dict[str, Page], same: set[tuple[str, str]], one: str, other: str) -> bool:
    similarity = history.contents.similar[pages[one].content][pages[other].content]
    return similarity >= THRESHOLD or (one, other) in same


def components(history: History, pages: dict[str, Page]) -> list[set[str]]:
    same = decided_pairs(history)
    left = {url for url, page in pages.items() if page.kind == "content"}
    found = []
    while left:
        waiting = [left.pop()]
        component = set(waiting)
        while waiting:
            one = waiting.pop()
            near = {url for url in left if _is_match(history, pages, same, one, url)}
            left -= near
            component |= near
            waiting += near
        found.append(component)
    return found


def winners(history: History, pages: dict[str, Page], market: int, urls: set[str]) -> dict[str, str]:
    """Greedy stars of one component: in winner order, each is its own winner or has the best winner that matches it."""
    order = Markets(history.markets).orders[market]
    names = Markets(history.markets)

    def place(url: str) -> tuple[bytes, int, str]:
        page = pages[url]
        key = names.keys(url, page, "")[market]
        assert len(key) == order.width
        return key, page.first_seen, url

    chosen: list[str] = []
    winner_of = {}
    same = decided_pairs(history)
    for url in sorted(urls, key=place):
        better = next((each for each in chosen if _is_match(history, pages, same, url, each)), None)
        winner_of[url] = better or url
        if better is None:
            chosen.append(url)
    return winner_of


@dataclass(frozen=True)
class Expected:
    """Every URL's status but for its version; the groups; per market each page's winner; group ids and sites held."""

    statuses: dict[str, dict[str, Any]]
    groups: list[set[str]]
    winner_of: list[dict[str, str]]
    held: set[str]


@dataclass(frozen=True)
class Group:
    """What a page's group means for it."""

    name: str
    size: int
    held: bool
    pass_from: float


def expected(history: History, pages: dict[str, Page]) -> Expected:
    groups = components(history, pages)
    winner_of: list[dict[str, str]] = [{} for _ in history.markets]
    group_of: dict[str, Group] = {}
    for urls in groups:
        group_of |= dict.fromkeys(urls, _group(history, pages, urls))
        for market, winner in enumerate(winner_of):
            winner |= winners(history, pages, market, urls)
    kept = {url for url in pages if _is_kept(history, url)}
    kept_for = [_with_splits(history, pages, group_of, winner) for winner in winner_of]
    kept_for = [{url: url if url in kept else best for url, best in winner.items()} for winner in kept_for]
    candidates = containment_candidates(history, pages, winner_of)
    shares = [
        containers(history, pages, group_of, market, winner, candidates, kept)
        for market, winner in enumerate(winner_of)
    ]
    kept_for = [
        winner | {url: share[0] for url, share in each.items()} for winner, each in zip(kept_for, shares, strict=True)
    ]
    held_sites = [_held_sites(history, winner) for winner in kept_for]
    statuses = {}
    for url, page in pages.items():
        if page.kind == "content":
            sites = [site_of(url) in sites for sites in held_sites]
            each = zip(kept_for, shares, sites, strict=True)
            views = [
                _content(history, pages, url, winner[url], share.get(url), group_of[url], site)
                for winner, share, site in each
            ]
            statuses[url] = views[0] | {"group": group_of[url].name} | _markets(history, views)
            if url in kept:
                statuses[url]["decided"] = "not_duplicate"
            if page.canonical not in ("self", "none"):
                statuses[url]["canonical"] = page.canonical
        elif page.kind == "unknown":
            statuses[url] = {"role": "unique", "problem": "content_unknown"}
            statuses[url] |= _markets(history, [{"role": "unique"} for _ in history.markets])
        elif page.kind == "gone":
            statuses[url] = {"role": "gone"}
        elif page.kind == "redirect":
            statuses[url] = _redirect(history, pages, url, kept_for, group_of)
        if url in statuses:
            statuses[url]["since"] = page.since
    held = {group.name for group in group_of.values() if group.held}.union(*held_sites)
    return Expected(statuses, groups, winner_of, held)


def _last_word(history: History, on: str, name: str) -> float | None:
    """Of all decisions on a group or site the latest one counts, and of those of one time the most careful one."""
    words = [event for event in history.events if isinstance(event, Decision) and event.on == on]
    words = [word for word in words if name == (word.url if on == "group" else site_of(word.url))]
    last = max(words, key=lambda word: (word.version, 2.0 if word.pass_from is None else word.pass_from), default=None)
    return None if last is None else last.pass_from


def _is_kept(history: History, url: str) -> bool:
    """Of all decisions on a page the latest counts, and of those of one time the one that keeps it."""
    words = [event for event in history.events if isinstance(event, PageDecision) and event.url == url]
    return max(((word.version, word.kept) for word in words), default=(0, False))[1]


def _group(history: History, pages: dict[str, Page], urls: set[str]) -> Group:
    eldest = min((pages[url].first_seen, url) for url in urls)[1]
    word = _last_word(history, "group", eldest)
    return Group(eldest, len(urls), len(urls) > history.limits.group_size and word is None, word or 0.0)


def _with_splits(
    history: History, pages: dict[str, Page], group_of: dict[str, Group], winner_of: dict[str, str]
) -> dict[str, str]:
    """Winners, but for pages that are not similar enough to theirs in a group that was split, and not decided to be the
    same."""
    similar, same = history.contents.similar, decided_pairs(history)
    return {
        url: winner
        if (url, winner) in same or similar[pages[url].content][pages[winner].content] >= group_of[url].pass_from
        else url
        for url, winner in winner_of.items()
    }


@dataclass(frozen=True)
class Terms:
    """By what a page asks for containers, and can be found; and the bits of both in the masks of 128."""

    asks: set[Any]
    posts: set[Any]
    asked_bits: set[int]
    posted_bits: set[int]


def _terms(history: History, content: int) -> Terms:
    smallest = sorted(history.contents.sets[content], key=lambda shingle: shingle & (1 << 52) - 1)[:32]
    code = history.contents.signatures[content].code
    runs = [("code", int(run)) for run in code_terms(code)] if code else []
    asked_bits, posted_bits = {shingle & 127 for shingle in smallest[:8]}, {shingle & 127 for shingle in smallest}
    return Terms({*smallest[:8], *runs[:8]}, {*smallest, *runs}, asked_bits, posted_bits)


def containment_candidates(
    history: History, pages: dict[str, Page], winner_of: list[dict[str, str]]
) -> dict[tuple[str, str], float]:
    """Pairs (page, container) of winners in any market that share a term which is not common, and the exact share of
    the page that the container has, if it is enough. Every pair is tried."""
    posted = [url for url in winner_of[0] if any(winner[url] == url for winner in winner_of)]
    terms = {url: _terms(history, pages[url].content) for url in posted}
    counts = Counter(term for each in terms.values() for term in each.posts)
    found = {}
    for page in posted:
        mine, elements = terms[page], history.contents.sets[pages[page].content]
        for container in posted:
            others = history.contents.sets[pages[container].content]
            share = len(elements & others) / len(elements)
            is_enough = page != container and len(others) >= len(elements) and share >= SHARE
            if is_enough and any(_meets(history, mine, terms[container], term, counts[term]) for term in mine.asks):
                found[page, container] = share
    return found


def _meets(history: History, page: Terms, container: Terms, term: Any, count: int) -> bool:
    if term not in container.posts:
        return False
    if isinstance(term, tuple):
        return count <= history.limits.code_cap
    return count <= history.limits.term_cap and 2 * len(page.asked_bits & container.posted_bits) >= len(page.asked_bits)


def containers(
    history: History,
    pages: dict[str, Page],
    group_of: dict[str, Group],
    market: int,
    winner_of: dict[str, str],
    candidates: dict[tuple[str, str], float],
    decided: set[str],
) -> dict[str, tuple[str, float]]:
    """By page that is alone in its group, and that nobody decided to keep: the best page kept that contains it, and the
    share it has of it."""
    names = Markets(history.markets)

    def place(url: str) -> tuple[bytes, int, str]:
        page = pages[url]
        key = names.keys(url, page, "")[market]
        return history.container_order(len(history.contents.sets[page.content]), key), page.first_seen, url

    kept: list[str] = []
    contained: dict[str, tuple[str, float]] = {}
    for url in sorted((url for url, winner in winner_of.items() if winner == url), key=place):
        better = [each for each in kept if (url, each) in candidates]  # from the best to the worst
        if group_of[url].size == 1 and better and url not in decided:
            best = max(better, key=lambda each: candidates[url, each])  # the first of several
            contained[url] = best, candidates[url, best]
        else:
            kept.append(url)
    return contained


def _held_sites(history: History, winner_of: dict[str, str]) -> set[str]:
    held = set()
    for site in {site_of(url) for url in winner_of}:
        mine = [url for url in winner_of if site_of(url) == site]
        lost = [url for url in mine if site_of(winner_of[url]) != site]
        too_many = len(mine) >= history.limits.site_pages and len(lost) > history.limits.site_share * len(mine)
        if too_many and _last_word(history, "site", site) is None:
            held.add(site)
    return held


def _content(
    history: History,
    pages: dict[str, Page],
    url: str,
    winner: str,
    contained: tuple[str, float] | None,
    group: Group,
    site_held: bool,
) -> dict[str, Any]:
    if winner == url:
        return {"role": "unique" if group.size == 1 else "winner", "winner": url}
    one, other = pages[url].content, pages[winner].content
    held = group.held or (site_held and site_of(winner) != site_of(url))
    by_text = "decided" if (url, winner) in decided_pairs(history) else "near"
    relation, similarity = "exact" if one == other else by_text, history.contents.similar[one][other]
    if contained is not None:
        relation, similarity = "contained", contained[1]
    status = {
        "role": "held" if held else "duplicate",
        "winner": winner,
        "relation": relation,
        "similarity": similarity,
    }
    codes = [history.contents.signatures[content].code for content in (one, other)]
    return status | ({"code_share": repeatability(*codes)} if contained is not None and all(codes) else {})


def _markets(history: History, views: list[dict[str, Any]]) -> dict[str, Any]:
    if len(views) == 1:
        return {}
    return {"markets": {market.name: view for market, view in zip(history.markets, views, strict=True)}}


def _redirect(
    history: History,
    pages: dict[str, Page],
    url: str,
    winner_of: list[dict[str, str]],
    group_of: dict[str, Group],
) -> dict[str, Any]:
    at, hops = url, 0
    while at in pages and pages[at].kind == "redirect":
        at, hops = pages[at].target, hops + 1
        if hops > history.limits.redirect_hops:
            return {"role": "redirect", "problem": "redirect_cut"}
    status: dict[str, Any] = {"role": "redirect", "target": at}
    if at not in group_of:
        gone = at in pages and pages[at].kind == "gone"
        return status | {"problem": "target_gone" if gone else "target_unknown"}
    views = [{"role": "redirect", "winner": winner[at], "relation": "redirect"} for winner in winner_of]
    return status | views[0] | {"group": group_of[at].name} | _markets(history, views)
