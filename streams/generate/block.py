"""A block: some dozen sites that are planned together, because copies, mirrors and redirects reach no further.

Blocks are independent of each other, so a web of any size is generated in the memory of one block. A block is planned
as families of pages; each page carries its fetches; the log is the fetches of all pages in order of position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dustream.streams.generate.draws import Draws
from dustream.streams.generate.history import (
    HISTORIES,
    Fetch,
    FetchKind,
    Step,
    Window,
    disturbed,
    final_state,
    life,
    once,
    text_at,
)
from dustream.streams.generate.prose import Library, Text
from dustream.streams.generate.site import Site, plan_site
from dustream.streams.generate.truth import PageTruth, Role
from dustream.streams.generate.urls import ADDRESSES_PER_RULE_MAX, RULES, Address, base36, slug_of

BLOCK_PAGES_MAX = 4096
SITE_PAGES_MIN = 24
SECONDS_PER_PAGE = 4
BLOCK_PAGES_FOR_TIME_MIN = 100
"""A tiny web still takes some minutes, so that its pages have time to change."""
LOG_START_S = 1_600_000_000
REDIRECT_HOPS_MAX = 8

COPY_WORDS_MIN = 80
"""Shorter texts are copied exactly or not at all: one changed word would bring them near the threshold."""
NEAR_ONCE_PER_MILLE, NEAR_MANY_PER_MILLE = 30, 20
COPIES_MAX = 6
POOL_TEXTS_MAX = 48

FAMILIES = (
    ("article", 780),
    ("near", 60),
    ("republished", 20),
    ("related", 40),
    ("grey", 8),
    ("chain", 8),
    ("severed_chain", 3),
    ("boilerplate", 8),
    ("empty", 3),
    ("redirect", 14),
    ("moved", 10),
    ("meta_refresh", 4),
    ("redirect_chain", 6),
    ("redirect_loop", 4),
    ("redirect_dead", 4),
    ("redirect_unknown", 4),
    ("rejected", 4),
)
RULE_PER_MILLE = 330
BREAKAGE_PER_MILLE = 30
CHARSET_LIE_PER_MILLE = 30
POPULARITY_PER_MILLE = 300
REDIRECT_STATUSES = (301, 301, 302, 307, 308)
BAD_TIMES: tuple[str | int, ...] = ("yesterday", "99999999-01-01T00:00:00Z", -(10**17), 10**18)


@dataclass(frozen=True, eq=False)
class PlannedPage:
    """A URL, where it comes from, and all that happens to it."""

    url: str
    site: Site
    family: str
    fetches: list[Fetch]
    rule: str | None = None
    of: str | None = None
    breakage: int | None = None
    charset_lie: bool = False
    popularity: float | None = None
    bad_time: str | int | None = None


@dataclass(eq=False)
class CopiedText:
    """A text that others copy, and how many copies it may still get."""

    text: Text
    copies_left: int
    near_per_mille: int


class PlannedBlock:
    """Plans `pages` URLs. `self.pages` is the result; the rest is what planning needs to know."""

    def __init__(self, seed: int, index: int, pages: int, markup_bytes: int) -> None:
        self.index = index
        self.pages: list[PlannedPage] = []
        self.draws = Draws(seed, "block", index)
        self.library = Library(Draws(seed, "library", index))
        start_s = LOG_START_S + index * BLOCK_PAGES_MAX * SECONDS_PER_PAGE
        self.window = Window(start_s, max(pages, BLOCK_PAGES_FOR_TIME_MIN) * SECONDS_PER_PAGE)
        self._sources: dict[str, list[CopiedText]] = {}
        first = index == 0
        self._families_due = [name for name, _ in FAMILIES] if first else []
        self._histories_due = [steps for steps, _ in HISTORIES] if first else []
        self._pages_max = pages
        self._plan(markup_bytes)

    def events(self) -> Iterator[tuple[PlannedPage, Fetch]]:
        """The block's log, in order. Ties are broken by planning order, which is fixed."""
        log = [(fetch.position_s, number, page, fetch) for number, (page, fetch) in enumerate(self._fetches())]
        log.sort(key=lambda entry: entry[:2])
        for _, _, page, fetch in log:
            yield page, fetch

    def truths(self) -> list[PageTruth]:
        """The state of every URL after the whole log."""
        finals = {page.url: final_state(page.fetches) for page in self.pages if page.family != "rejected"}
        return [self._truth(page, finals) for page in self.pages]

    def _fetches(self) -> Iterator[tuple[PlannedPage, Fetch]]:
        for page in self.pages:
            for fetch in page.fetches:
                yield page, fetch

    def _truth(self, page: PlannedPage, finals: dict[str, Fetch]) -> PageTruth:
        if page.family == "rejected":
            return PageTruth(url=page.url, role="rejected", family=page.family)
        final, target = _followed(finals, page.url)
        redirects = finals[page.url].kind in ("redirect", "meta_refresh")
        text = final.text if final is not None else None
        role: Role = "redirect" if redirects else "gone" if finals[page.url].kind == "gone" else "content"
        return PageTruth(
            url=page.url,
            role=role,
            family=page.family,
            rule=page.rule,
            of=page.of,
            cluster=f"c{self.index}.{text.cluster}" if text is not None else None,
            exact=f"x{self.index}.{text.exact}" if text is not None and not redirects else None,
            grey=_is_grey(page, role, text),
            target=target if redirects and text is not None else None,
        )

    def _plan(self, markup_bytes: int) -> None:
        index = 0
        while self._room > 0:
            site = plan_site(self.draws, index, base36(self.index * BLOCK_PAGES_MAX + index), markup_bytes)
            SitePlan(self, site, self._site_pages()).fill()
            index += 1

    def _site_pages(self) -> int:
        """Few sites are large."""
        low, high = self.draws.weighted((((30, 90), 50), ((90, 250), 35), ((250, 600), 15)))
        return min(self.draws.between(low, high), max(SITE_PAGES_MIN, self._pages_max // 12), self._room)

    @property
    def _room(self) -> int:
        return self._pages_max - len(self.pages)

    def next_family(self) -> str:
        """Each kind once at the start of the web, then by weight."""
        return self._families_due.pop(0) if self._families_due else self.draws.weighted(FAMILIES)

    def put_off(self, family: str) -> None:
        """A family that the site at hand cannot have yet comes later, if it is one that must come."""
        if self.index == 0 and family not in {page.family for page in self.pages}:
            self._families_due.append(family)

    def next_history(self) -> tuple[Step, ...]:
        return self._histories_due.pop(0) if self._histories_due else self.draws.weighted(HISTORIES)

    def source(self, language: str) -> CopiedText | None:
        """A text of this language that may be copied."""
        sources = [source for source in self._sources.get(language, []) if source.copies_left > 0]
        return self.draws.pick(sources) if sources else None

    def offer(self, text: Text) -> None:
        """Let others copy a text: many with small edits, or one with a larger edit (see prose.py for the distances)."""
        sources = self._sources.setdefault(text.language.code, [])
        if text.words < COPY_WORDS_MIN or text.grey:
            return
        many = self.draws.chance(500)
        sources.append(
            CopiedText(text, COPIES_MAX if many else 1, NEAR_MANY_PER_MILLE if many else NEAR_ONCE_PER_MILLE)
        )
        del sources[:-POOL_TEXTS_MAX]


def _is_grey(page: PlannedPage, role: Role, text: Text | None) -> bool:
    """Whether nothing can be said about the page's cluster: at the threshold, or readable only by guessing."""
    if text is None:
        return page.family == "empty" and role == "content"
    return text.grey or (page.charset_lie and role == "content")


def _followed(finals: dict[str, Fetch], url: str) -> tuple[Fetch | None, str]:
    """Where a URL leads in the end; None when it is nowhere: a loop, a death, a page never fetched."""
    for _ in range(REDIRECT_HOPS_MAX):
        final = finals.get(url)
        if final is None or final.target is None:
            return final, url
        url = final.target
    return None, url


class SitePlan:
    """Fills one site of a block with families of pages."""

    def __init__(self, block: PlannedBlock, site: Site, pages_max: int) -> None:
        self._block = block
        self._site = site
        self._pages_max = pages_max
        self._urls: set[str] = set()
        self._numbers = 0
        self._targets: list[str] = []
        self._draws, self._library, self._window = block.draws, block.library, block.window

    def fill(self) -> None:
        while self._room > 0:
            family = self._block.next_family()
            if not _PLANS[family](self, family):
                self._block.put_off(family)
                self._article("article")

    @property
    def _room(self) -> int:
        return self._pages_max - len(self._urls)

    def _address(self) -> Address:
        self._numbers += 1
        return self._site.addresses.page(self._numbers, self._draws)

    def _life(self, steps: tuple[Step, ...], text: Text) -> list[Fetch]:
        return life(steps, text, self._draws, self._window, self._library, self._site.prose)

    def _add(
        self,
        url: str,
        family: str,
        fetches: list[Fetch],
        rule: str | None = None,
        of: str | None = None,
        bad_time: str | int | None = None,
    ) -> None:
        """Add a page, as long as there is room and the URL is new."""
        if self._room <= 0 or url in self._urls:
            return
        draws = self._draws
        page = PlannedPage(
            url,
            self._site,
            family,
            fetches,
            breakage=draws.below(1 << 16) if draws.chance(BREAKAGE_PER_MILLE) else None,
            charset_lie=self._may_lie(family) and draws.chance(CHARSET_LIE_PER_MILLE),
            popularity=draws.between(1, 4000) / 8 if draws.chance(POPULARITY_PER_MILLE) else None,
            rule=rule,
            of=of,
            bad_time=bad_time,
        )
        self._urls.add(url)
        self._block.pages.append(page)

    def _may_lie(self, family: str) -> bool:
        """A link of a chain that nobody can read would leave two chains, or not: chains tell their charset truly."""
        return self._site.charset is not None and family not in ("chain", "severed_chain")

    def _page(self, family: str, text: Text, steps: tuple[Step, ...]) -> None:
        """A page of its own, and its further addresses by the site's rules."""
        address = self._address()
        fetches = self._life(steps, text)
        self._add(address.url, family, disturbed(fetches, self._draws, self._library, self._site.prose))
        if fetches[-1].kind != "gone":
            self._targets.append(address.url)
        for rule in self._site.rules:
            if self._draws.chance(RULE_PER_MILLE):
                self._further_addresses(rule, address, family, fetches)

    def _further_addresses(self, rule: str, address: Address, family: str, fetches: list[Fetch]) -> None:
        for _ in range(self._draws.between(1, ADDRESSES_PER_RULE_MAX.get(rule, 1))):
            url = RULES[rule](self._site.addresses, address, self._draws).url
            time_s = self._window.first_fetch_s(self._draws) + self._window.length_s * 2 // 10
            seen = Fetch(time_s, time_s, "content", text_at(fetches, time_s))
            self._add(url, family, [seen], rule=rule, of=address.url)

    def _article(self, family: str) -> bool:
        text = self._library.new(self._site.language, self._site.prose.draft())
        self._page(family, text, self._block.next_history())
        self._block.offer(text)
        return True

    def _copy(self, family: str) -> bool:
        """A text from elsewhere: as it is, with small edits, with passages of its own, or at the threshold."""
        source = self._block.source(self._site.language.code)
        if source is None:
            return False
        text = source.text
        if family == "near":
            text = self._library.near(text, source.near_per_mille)
            source.copies_left -= 1
        elif family == "grey":
            text = self._library.grey(text)
        elif family == "related":
            text = self._library.related(text, self._site.prose)
        steps = self._block.next_history()
        self._page(family, text, tuple(step for step in steps if step != "edit"))
        return True

    def _chain(self, family: str) -> bool:
        """Pagination or a calendar: neighbours are near duplicates, the ends are not."""
        pages = self._draws.between(9, 14) if family == "severed_chain" else self._draws.between(5, 10)
        if self._room < pages:
            return False
        texts = self._library.windows(self._site.prose, pages)
        dead = range(pages // 2 - 1, pages // 2 + 2) if family == "severed_chain" else range(0)
        if dead:
            texts[dead.stop :] = self._library.regrouped(texts[dead.stop :])
        stem = slug_of(self._draws)
        for number, text in enumerate(texts):
            address = self._site.addresses.plain(f"/{stem}/", f"page={number + 1}")
            steps: tuple[Step, ...] = ("gone",) if number in dead else ()
            self._add(address.url, family, self._life(steps, text))
        return True

    def _boilerplate(self, family: str) -> bool:
        """A log-in page, or a search that found nothing, under many addresses: a template with a few words."""
        text = self._library.new(self._site.language, self._site.prose.draft_of(self._draws.between(24, 60)))
        name = self._draws.pick(("login", "search", "notfound"))
        for _ in range(self._draws.between(3, 9)):
            address = self._site.addresses.plain(f"/{name}", f"q={slug_of(self._draws)}")
            self._add(address.url, family, once(self._draws, self._window, "content", text))
        return True

    def _empty(self, family: str) -> bool:
        self._add(self._address().url, family, once(self._draws, self._window, "empty"))
        return True

    def _redirect(self, family: str) -> bool:
        """A redirect to a page of the site, by status or by meta refresh."""
        if not self._targets:
            return False
        kind: FetchKind = "meta_refresh" if family == "meta_refresh" else "redirect"
        target = self._draws.pick(self._targets)
        self._add(self._old_url(), family, once(self._draws, self._window, kind, target=target))
        return True

    def _moved(self, family: str) -> bool:
        """A page that had content of its own, and later redirects to its new address."""
        if self._room < 2:
            return False
        text = self._library.new(self._site.language, self._site.prose.draft())
        target = self._address().url
        first = once(self._draws, self._window, "content", text)[0]
        time_s = first.fetched_at_s + 1 + self._draws.below(self._window.length_s // 4)
        self._add(target, "article", once(self._draws, self._window, "content", text))
        self._add(self._old_url(), family, [first, Fetch(time_s, time_s, "redirect", target=target)])
        return True

    def _redirect_chain(self, family: str) -> bool:
        hops = self._draws.between(2, 4)
        if not self._targets or self._room < hops:
            return False
        target = self._draws.pick(self._targets)
        for _ in range(hops):
            url = self._old_url()
            self._add(url, family, once(self._draws, self._window, "redirect", target=target))
            target = url
        return True

    def _redirect_loop(self, family: str) -> bool:
        hops = self._draws.between(2, 3)
        if self._room < hops:
            return False
        urls = [self._old_url() for _ in range(hops)]
        for url, target in zip(urls, [*urls[1:], urls[0]], strict=True):
            self._add(url, family, once(self._draws, self._window, "redirect", target=target))
        return True

    def _redirect_dead(self, family: str) -> bool:
        """A redirect to a page that has died."""
        if self._room < 2:
            return False
        target = self._address().url
        text = self._library.new(self._site.language, self._site.prose.draft())
        self._add(target, "article", self._life(("gone",), text))
        self._add(self._old_url(), family, once(self._draws, self._window, "redirect", target=target))
        return True

    def _redirect_unknown(self, family: str) -> bool:
        """A redirect to a page that is never fetched."""
        self._add(self._old_url(), family, once(self._draws, self._window, "redirect", target=self._address().url))
        return True

    def _rejected(self, family: str) -> bool:
        """An event that cannot be used: no URL (once in a web), a relative URL, an absurd time."""
        text = self._library.new(self._site.language, self._site.prose.draft())
        fetches = once(self._draws, self._window, "content", text)
        absolute = self._address().url
        if self._block.index == 0 and not any(page.url == "" for page in self._block.pages):
            self._add("", family, fetches)
        elif self._draws.chance(500):
            self._add(absolute.removeprefix("https:/"), family, fetches)
        else:
            self._add(absolute, family, fetches, bad_time=self._draws.pick(BAD_TIMES))
        return True

    def _old_url(self) -> str:
        self._numbers += 1
        return self._site.addresses.plain(f"/old/{slug_of(self._draws)}-{self._numbers}").url


_PLANS: dict[str, Callable[[SitePlan, str], bool]] = {
    "article": SitePlan._article,
    "near": SitePlan._copy,
    "republished": SitePlan._copy,
    "related": SitePlan._copy,
    "grey": SitePlan._copy,
    "chain": SitePlan._chain,
    "severed_chain": SitePlan._chain,
    "boilerplate": SitePlan._boilerplate,
    "empty": SitePlan._empty,
    "redirect": SitePlan._redirect,
    "moved": SitePlan._moved,
    "meta_refresh": SitePlan._redirect,
    "redirect_chain": SitePlan._redirect_chain,
    "redirect_loop": SitePlan._redirect_loop,
    "redirect_dead": SitePlan._redirect_dead,
    "redirect_unknown": SitePlan._redirect_unknown,
    "rejected": SitePlan._rejected,
}
