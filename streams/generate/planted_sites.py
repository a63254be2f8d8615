"""Generated sites whose rewrite rules are known, because they were planted. Deterministic: a site is its number.

A site has sections, each in a directory of its own with keys that matter (page, colour, language) and one kind of
duplicate URL; some sites also answer on two hosts or schemes. For every planted rule there are fresh pairs: URLs of
pages that no learner has seen, with the URL they duplicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from dustream.core.rules.learn import SiteUrl

PAGES_PER_SECTION = 120
FRESH_PAGES = 25


class Draw:
    """A small generator of pseudo-random numbers, the same on every machine (splitmix64)."""

    def __init__(self, seed: int) -> None:
        self._state = (seed * 0x9E3779B97F4A7C15 + 1) & 0xFFFFFFFFFFFFFFFF

    def below(self, limit: int) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        x = self._state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return (x ^ (x >> 31)) % limit

    def hex(self, digits: int) -> str:
        return f"{self.below(16**digits):0{digits}x}"

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def choice(self, items: list[str]) -> str:
        return items[self.below(len(items))]


Variants = Callable[[Draw, str], list[str]]
"""Other URLs of the page at the path."""


@dataclass(frozen=True)
class PlantedKind:
    """How a section's pages are addressed (by number), and which other URLs lead to the same page."""

    name: str
    path: Callable[[int], str]
    variants: Variants


def _with(path: str, extra: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}{extra}"


TOPICS = ["red", "green", "blue", "black"]
KINDS = [
    PlantedKind("session", lambda i: f"view.php?id={i}&page={i % 3}", lambda d, p: [_with(p, f"sid={d.hex(12)}")]),
    PlantedKind("tracking", lambda i: f"{i}/story.html", lambda d, p: [_with(p, f"utm_source={d.choice(TOPICS)}")]),
    PlantedKind("print view", lambda i: f"item?id={i}&color={TOPICS[i % 4]}", lambda d, p: [_with(p, "print=1")]),
    PlantedKind("two parameters", lambda i: f"t?n={i}", lambda d, p: [_with(p, f"s={d.hex(8)}"), _with(p, f"s={d.hex(8)}&ref={d.choice(TOPICS)}")]),  # noqa: E501
    PlantedKind("mirror directory", lambda i: f"m1/{i}/page", lambda d, p: [p.replace("m1/", f"m{2 + d.below(3)}/")]),
    PlantedKind("directory index", lambda i: f"d{i}/", lambda d, p: [p + "index.html"]),
    PlantedKind("trailing slash", lambda i: f"a{i}", lambda d, p: [p + "/"]),
    PlantedKind("query to path", lambda i: f"show/{i}", lambda d, p: [p.replace("show/", "show.php?pageid=")]),
    PlantedKind("version alias", lambda i: f"v{1 + i % 3}/topic{i // 3}.html", lambda d, p: [p.replace("v3/", "latest/")] if "v3/" in p else []),  # noqa: E501
    PlantedKind("extension", lambda i: f"n{i}.html", lambda d, p: [p.replace(".html", ".php")]),
    PlantedKind("print directory", lambda i: f"article/{i}", lambda d, p: [p.replace("article/", "print/article/")]),
    PlantedKind("path parameter", lambda i: f"cart/{i}.do?lang={'en' if i % 2 else 'de'}", lambda d, p: [p.replace(".do", f".do;jsessionid={d.hex(10)}")]),  # noqa: E501
]  # fmt: skip
SITE_WIDE = ["none", "www", "scheme", "none"]


@dataclass(frozen=True)
class PlantedRule:
    """Its name and (duplicate URL, main URL) pairs of pages that are not among the known ones."""

    name: str
    fresh: list[tuple[str, str]]


@dataclass(frozen=True)
class PlantedSite:
    """Everything about a generated site. `fresh_clusters`: the clusters of all fresh URLs."""

    site: str
    known: list[SiteUrl]
    rules: list[PlantedRule]
    fresh_clusters: dict[str, str]


def planted_site(number: int, pages: int = PAGES_PER_SECTION, duplicates_percent: int = 60) -> PlantedSite:
    """The site of a number: two to four sections, and for every second site a duplicate host or scheme."""
    draw = Draw(number)
    site = f"site{number}.com"
    wide = SITE_WIDE[number % len(SITE_WIDE)]
    known: dict[str, str] = {}
    fresh: dict[str, str] = {}
    rules: list[PlantedRule] = []
    for order in range(2 + number % 3):
        kind = KINDS[(number * 5 + order * 7) % len(KINDS)]
        section = f"{'https' if wide == 'scheme' else 'http'}://{site}/s{order}{kind.name[0]}/"
        for i in range(1, pages + 1):
            _add(known, draw, kind, section, i, wide, duplicates_percent)
        pairs: list[tuple[str, str]] = []
        for i in range(pages + 1, pages + 1 + FRESH_PAGES * (3 if kind.name == "version alias" else 1)):
            main = section + kind.path(i)
            variants = [section + variant for variant in kind.variants(draw, kind.path(i))]
            fresh |= dict.fromkeys([main, *variants], f"{order}/{i}")
            pairs += [(variant, main) for variant in variants]
        rules.append(PlantedRule(f"{site}: {kind.name}", pairs))
    if wide != "none":
        pairs = [(_moved(url, wide), url) for url in list(fresh)[:FRESH_PAGES]]
        fresh |= {moved: fresh[url] for moved, url in pairs}
        rules.append(PlantedRule(f"{site}: {wide}", pairs))
    return PlantedSite(site, [SiteUrl(url, cluster) for url, cluster in known.items()], rules, fresh)


def _add(known: dict[str, str], draw: Draw, kind: PlantedKind, section: str, i: int, wide: str, percent: int) -> None:
    order = section.rsplit("/s", 1)[1][0]
    urls = [section + kind.path(i)]
    if draw.chance(percent):
        for _ in range(1 + draw.below(2)):
            urls += [section + variant for variant in kind.variants(draw, kind.path(i))]
    if wide != "none":
        urls += [_moved(url, wide) for url in urls if draw.chance(50)]
    known |= dict.fromkeys(urls, f"{order}/{i}")


def _moved(url: str, wide: str) -> str:
    return url.replace("http://", "http://www.") if wide == "www" else url.replace("https://", "http://")


def mislabelled(known: list[SiteUrl], percent: int, seed: int = 1) -> list[SiteUrl]:
    """The same URLs, with a share of them in the cluster of some other URL."""
    draw = Draw(seed)
    return [
        entry._replace(cluster=known[draw.below(len(known))].cluster) if draw.chance(percent) else entry
        for entry in known
    ]


def big_site(urls: int, seed: int = 7) -> list[SiteUrl]:
    """A site of many URLs as Lei's Table 1 has them: about 3.8 URLs per cluster, few very large clusters."""
    known: dict[str, str] = {}
    pages = ""
    for url, page in big_site_urls(seed):
        if len(known) >= urls and page != pages:
            break
        known[url] = pages = page
    return [SiteUrl(url, cluster) for url, cluster in known.items()]


def big_site_urls(seed: int = 7) -> Iterator[tuple[str, str]]:
    """Its URLs without end, page by page, each with its page; a few come twice."""
    draw = Draw(seed)
    for page in count(1):
        copies = 1 + draw.below(4) if draw.chance(97) else 20 + draw.below(60)
        copies = 1500 if page % 4000 == 0 else copies
        section = ("news", "shop", "forum", "wiki")[page % 4]
        for _ in range(copies):
            host = ("www", "m", "mirror1", "mirror2")[draw.below(4)]
            url = f"http://{host}.big.example.com/{section}/{page % 50}/show.php?id={page}&lang={TOPICS[page % 3]}"
            if draw.chance(70):
                url += f"&sid={draw.hex(8)}"
            if draw.chance(30):
                url += f"&ref={draw.choice(TOPICS)}"
            yield url, str(page)


def sectioned_site(urls: int) -> list[SiteUrl]:
    """A site of many URLs that no single rule settles: every section has a kind of duplicates of its own."""
    draw = Draw(11)
    known: dict[str, str] = {}
    page = 0
    while len(known) < urls:
        page += 1
        kind = KINDS[page % len(KINDS)]
        _add(known, draw, kind, f"http://site.com/s{page % len(KINDS)}{kind.name[0]}/", page, "none", 80)
    return [SiteUrl(url, cluster) for url, cluster in known.items()]


SHOP_URLS = [
    ("/item/{item}", 95),
    ("/print/{item}", 90),
    ("/item/{item}?sid={session}", 80),
    ("/item/{item}?ref={topic}", 60),
    ("/p/{item}/view", 90),
    ("/shop/item.php?id={item}", 95),
    ("/shop/print.php?id={item}", 85),
    ("/m/item/{item}", 90),
]
"""How a shop may address an item, and how many in a hundred items are met under such a URL in a crawl, at least."""


class ShopUrl(NamedTuple):
    """What the last fetch of a URL showed, since when, and whether the URL had another content before."""

    page: str
    since: int
    changed: bool


def shop_crawls(number: int, crawls: int = 4, changed_percent: int = 0) -> list[dict[str, ShopUrl]]:
    """What is known of a shop after each crawl, by URL. Each crawl finds as many new items as the first did, and more
    URLs of those known. Between crawls, `changed_percent` of the items change; URLs that a crawl does not meet keep the
    content of an earlier one."""
    draw = Draw(number)
    shop = "http://www.shop.com" if draw.chance(50) else "https://shop.com"
    items = 60 + draw.below(300)
    forms = [(form, min(100, percent + draw.below(12))) for form, percent in SHOP_URLS if draw.chance(50)]
    known: dict[str, ShopUrl] = {}
    editions = [0] * (items * crawls)
    after = []
    for crawl in range(crawls):
        for item in range(items * (crawl + 1)):
            editions[item] += changed_percent > 0 and draw.chance(changed_percent)
            met = [form for form, percent in forms if draw.chance(percent)]
            urls = [form.format(item=item, session=draw.hex(8), topic=draw.choice(TOPICS)) for form in met]
            pages = dict.fromkeys(urls, f"item {item}, edition {editions[item]}")
            if draw.chance(80):
                pages[f"/review/{item}"] = f"review {item}"
            for order in ("price", "name"):
                pages[f"/list/{item % 30}?page={item // 30}&sort={order}"] = f"list {item} by {order}"
            for url, page in pages.items():
                before = known.get(shop + url)
                if before is None or before.page != page:
                    known[shop + url] = ShopUrl(page, crawl * 10_000 + item, changed=before is not None)
        after.append(dict(known))
    return after
