"""Addresses: how a site writes its URLs, and the rules by which one page gets several of them.

Each rule is a named function from a page's own address to another address of the same page (DUST in the sense of
Bar-Yossef et al. and Lei et al.); the truth file names the rule of each URL, so that rule learners can be judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dustream.streams.generate.draws import Draws
from dustream.streams.generate.languages import vocabulary

DOMAINS = (
    ("com", 40),
    ("org", 14),
    ("net", 10),
    ("de", 8),
    ("co.uk", 6),
    ("com.cn", 5),
    ("info", 4),
    ("ru", 4),
    ("co.jp", 3),
    ("github.io", 3),
    ("edu", 3),
)
STYLES = ("docs", "dated", "query", "story", "titled")
SESSION_KEYS = ("sid", "PHPSESSID", "session_id")
BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Address:
    """A URL in parts. `number` is the page's own number on its site."""

    scheme: str
    host: str
    path: str
    query: str
    number: int

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}{self.path}" + (f"?{self.query}" if self.query else "")

    def with_parameter(self, parameter: str) -> Address:
        return replace(self, query=f"{self.query}&{parameter}" if self.query else parameter)


@dataclass(frozen=True)
class SiteAddresses:
    """How one site writes its URLs."""

    host: str
    mirror_host: str
    style: str
    sections: tuple[str, ...]
    session_key: str
    print_by_path: bool
    version: str

    def page(self, number: int, draws: Draws) -> Address:
        """The address of a page in the site's own style."""
        section, slug = draws.pick(self.sections), slug_of(draws)
        path, query = _PATHS[self.style](self, section, slug, number, draws)
        return Address("https", self.host, path, query, number)

    def plain(self, path: str, query: str = "") -> Address:
        return Address("https", self.host, path, query, 0)


def site_addresses(draws: Draws, serial: str, style: str) -> SiteAddresses:
    """The addresses of a new site. `serial` makes its host unlike any other."""
    name = f"{_latin_words(draws, 1)[0]}-{serial}"
    domain = draws.weighted(DOMAINS)
    www = domain != "github.io" and draws.chance(750)
    return SiteAddresses(
        host=f"www.{name}.{domain}" if www else f"{name}.{domain}",
        mirror_host=draws.pick((f"mirror.{name}.{domain}", f"{name}-{draws.pick(('mirror', 'copy'))}.net")),
        style=style,
        sections=tuple(_latin_words(draws, draws.between(3, 7))),
        session_key=draws.pick(SESSION_KEYS),
        print_by_path=draws.chance(500),
        version=f"v{draws.between(1, 6)}.{draws.below(10)}",
    )


def base36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = BASE36[digit] + digits
        if number == 0:
            return digits


def slug_of(draws: Draws) -> str:
    return "-".join(_latin_words(draws, draws.between(2, 4)))


def slugs_of(draws: Draws, count: int) -> list[str]:
    """Many slugs of two words at once."""
    words = vocabulary("en").words
    picked = draws.array_below(len(words), 2 * count).tolist()
    return [f"{words[picked[i]]}-{words[picked[i + 1]]}" for i in range(0, 2 * count, 2)]


def _latin_words(draws: Draws, count: int) -> list[str]:
    """Made-up words in ASCII letters, whatever the site's language: most sites transliterate."""
    words = vocabulary("en")
    return [words.words[draws.between(words.common_count, words.size - 1)] for _ in range(count)]


def _docs(site: SiteAddresses, section: str, slug: str, number: int, draws: Draws) -> tuple[str, str]:
    return f"/docs/{site.version}/{section}/{slug}-{number}.html", ""


def _dated(site: SiteAddresses, section: str, slug: str, number: int, draws: Draws) -> tuple[str, str]:
    return f"/{draws.between(2009, 2024)}/{draws.between(1, 12):02}/{slug}-{number}/", ""


def _query(site: SiteAddresses, section: str, slug: str, number: int, draws: Draws) -> tuple[str, str]:
    return f"/{section}/article.php", f"cat={draws.between(1, 40)}&id={number}"


def _story(site: SiteAddresses, section: str, slug: str, number: int, draws: Draws) -> tuple[str, str]:
    return f"/{section}/story_{number}", ""


def _titled(site: SiteAddresses, section: str, slug: str, number: int, draws: Draws) -> tuple[str, str]:
    return f"/{section.title()}/{slug.title()}-{number}", ""


_PATHS: dict[str, Callable[[SiteAddresses, str, str, int, Draws], tuple[str, str]]] = {
    "docs": _docs,
    "dated": _dated,
    "query": _query,
    "story": _story,
    "titled": _titled,
}


def _session(site: SiteAddresses, address: Address, draws: Draws) -> Address:
    return address.with_parameter(f"{site.session_key}={draws.below(1 << 63):016x}")


def _tracking(site: SiteAddresses, address: Address, draws: Draws) -> Address:
    source = draws.pick(("newsletter", "twitter", "facebook", "rss", "partner"))
    campaign = f"{draws.pick(('spring', 'launch', 'weekly'))}{draws.below(10_000)}"
    return address.with_parameter(f"utm_source={source}&utm_medium=link&utm_campaign={campaign}")


def _print(site: SiteAddresses, address: Address, draws: Draws) -> Address:
    if site.print_by_path:
        return replace(address, path=f"/print/{address.number}", query="")
    return address.with_parameter("print=1")


def _mirror(site: SiteAddresses, address: Address, draws: Draws) -> Address:
    return replace(address, host=site.mirror_host)


def _scheme(site: SiteAddresses, address: Address, draws: Draws) -> Address:
    return replace(address, scheme="http")


def _www(site: SiteAddresses, address: Address, draws: Draws) -> Address:
    bare = address.host.removeprefix("www.")
    return replace(address, host=bare if bare != address.host else f"www.{bare}")


def _alias(site: SiteAddresses, address: Address, draws: Draws) -> Address:
    return replace(address, path=address.path.replace(f"/{site.version}/", "/latest/", 1))


def _index(site: SiteAddresses, address: Address, draws: Draws) -> Address:
    return replace(address, path=f"{address.path}index.html")


def _slash(site: SiteAddresses, address: Address, draws: Draws) -> Address:
    return replace(address, path=address.path.rstrip("/"))


def _parameter_order(site: SiteAddresses, address: Address, draws: Draws) -> Address:
    return replace(address, query="&".join(reversed(address.query.split("&"))))


def _id_path(site: SiteAddresses, address: Address, draws: Draws) -> Address:
    return replace(address, path=address.path.replace(f"_{address.number}", ""), query=f"id={address.number}")


def _case(site: SiteAddresses, address: Address, draws: Draws) -> Address:
    return replace(address, path=address.path.lower())


RULES: dict[str, Callable[[SiteAddresses, Address, Draws], Address]] = {
    "session": _session,
    "tracking": _tracking,
    "print": _print,
    "mirror": _mirror,
    "scheme": _scheme,
    "www": _www,
    "alias": _alias,
    "index": _index,
    "slash": _slash,
    "parameter_order": _parameter_order,
    "id_path": _id_path,
    "case": _case,
}
RULES_OF_ANY_STYLE = ("session", "print", "mirror", "tracking", "scheme", "www")
RULES_OF_STYLE = {
    "docs": ("alias",),
    "dated": ("index", "slash"),
    "query": ("parameter_order",),
    "story": ("id_path",),
    "titled": ("case",),
}
ADDRESSES_PER_RULE_MAX = {"session": 4, "tracking": 3}
"""Only these rules give more than one further address of a page."""
