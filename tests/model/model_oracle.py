"""What must come out, computed from scratch: from the events in log order, with nothing of the processors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from model_world import THRESHOLD, History

from dustream.core.winners import Markets
from dustream.schemas.pages import Breaker


@dataclass(frozen=True)
class Page:
    """A URL's last state. `content` is the version that counts: the anchor, if that stands for a later one."""

    version: int
    first_seen: int
    kind: str = "unknown"
    since: int = 0
    content: int = -1
    latest: int = -1
    target: str = ""
    popularity: float | None = None
    released: bool = False


def last_pages(history: History) -> dict[str, Page]:
    pages: dict[str, Page] = {}
    for event in history.events:
        known = pages.get(event.url)
        if isinstance(event, Breaker):
            if known is not None:
                pages[event.url] = replace(known, released=event.released)
            continue
        if known is not None and event.version <= known.version:
            continue
        page = known or Page(event.version, event.version)
        popularity = page.popularity if event.popularity is None else event.popularity
        page = replace(page, version=event.version, popularity=popularity)
        if event.kind == "content":
            page = _with_content(history, page, int(event.via))
        elif event.kind != "seen" and (event.kind, event.target or "") != (page.kind, page.target):
            page = Page(
                page.version,
                page.first_seen,
                event.kind,
                page.version,
                target=event.target or "",
                popularity=popularity,
                released=page.released,
            )
        pages[event.url] = page
    return pages


def _with_content(history: History, page: Page, content: int) -> Page:
    if page.kind == "content":
        near = 1 - history.contents.similar[page.content][content] <= history.anchor_distance
        if content == page.latest or (history.anchor_distance and near):
            return replace(page, latest=content)
    return replace(page, kind="content", since=page.version, content=content, latest=content, target="")


def components(history: History, pages: dict[str, Page]) -> list[set[str]]:
    left = {url for url, page in pages.items() if page.kind == "content"}
    found = []
    while left:
        waiting = [left.pop()]
        component = set(waiting)
        while waiting:
            similar = history.contents.similar[pages[waiting.pop()].content]
            near = {url for url in left if similar[pages[url].content] >= THRESHOLD}
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
        key = names.keys(url, page.first_seen, page.popularity, "")[market]
        assert len(key) == order.width
        return key, page.first_seen, url

    chosen: list[str] = []
    winner_of = {}
    for url in sorted(urls, key=place):
        similar = history.contents.similar[pages[url].content]
        better = next((each for each in chosen if similar[pages[each].content] >= THRESHOLD), None)
        winner_of[url] = better or url
        if better is None:
            chosen.append(url)
    return winner_of


def expected(history: History) -> tuple[dict[str, dict[str, Any]], list[set[str]], list[dict[str, str]]]:
    """Every URL's status but for its version; the groups; per market each page's winner."""
    pages = last_pages(history)
    groups = components(history, pages)
    markets = range(len(history.markets))
    winner_of: list[dict[str, str]] = [{} for _ in markets]
    group_of, held = {}, {}
    for urls in groups:
        eldest = min((pages[url].first_seen, url) for url in urls)[1]
        is_held = len(urls) > history.limits.group_size and not pages[eldest].released
        group_of |= dict.fromkeys(urls, (eldest, len(urls)))
        held |= dict.fromkeys(urls, is_held)
        for market in markets:
            winner_of[market] |= winners(history, pages, market, urls)
    statuses = {}
    for url, page in pages.items():
        if page.kind == "content":
            views = [_content(history, pages, url, winner_of[m][url], group_of[url][1], held[url]) for m in markets]
            statuses[url] = views[0] | {"group": group_of[url][0]} | _markets(history, views)
        elif page.kind == "gone":
            statuses[url] = {"role": "gone"}
        elif page.kind == "redirect":
            statuses[url] = _redirect(history, pages, url, winner_of, group_of)
        if url in statuses:
            statuses[url]["since"] = page.since
    return statuses, groups, winner_of


def _content(history: History, pages: dict[str, Page], url: str, winner: str, size: int, held: bool) -> dict[str, Any]:
    if winner == url:
        return {"role": "unique" if size == 1 else "winner", "winner": url}
    one, other = pages[url].content, pages[winner].content
    similarity = history.contents.similar[one][other]
    relation = "exact" if one == other else "near"
    return {"role": "held" if held else "duplicate", "winner": winner, "relation": relation, "similarity": similarity}


def _markets(history: History, views: list[dict[str, Any]]) -> dict[str, Any]:
    if len(views) == 1:
        return {}
    return {"markets": {market.name: view for market, view in zip(history.markets, views, strict=True)}}


def _redirect(
    history: History,
    pages: dict[str, Page],
    url: str,
    winner_of: list[dict[str, str]],
    group_of: dict[str, tuple[str, int]],
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
    return status | views[0] | {"group": group_of[at][0]} | _markets(history, views)
