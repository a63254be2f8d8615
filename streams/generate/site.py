"""A site: its language and words, its addresses and their rules, its layout and its encoding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dustream.streams.generate.draws import Draws
from dustream.streams.generate.languages import LANGUAGES, Language
from dustream.streams.generate.prose import Prose
from dustream.streams.generate.templates import LAYOUTS, Chrome, chrome
from dustream.streams.generate.urls import RULES_OF_ANY_STYLE, RULES_OF_STYLE, STYLES, SiteAddresses, site_addresses

TIME_FORMATS = ("seconds", "rfc3339", "cdx")
BODY_PER_MILLE = 200
"""Sites that are handed on as bytes, as fetched; half of them in a legacy encoding of their script."""


@dataclass(frozen=True)
class Site:
    """What the pages of one site have in common. `rules` are those by which its pages get more addresses."""

    language: Language
    addresses: SiteAddresses
    prose: Prose
    layout: int
    rules: tuple[str, ...]
    time_format: str
    charset: str | None
    charset_in_header: bool
    tells_language: bool
    chrome_key: int
    markup_bytes: int

    @cached_property
    def chrome(self) -> Chrome:
        return chrome(self.addresses, self.prose, Draws(self.chrome_key, "own"), self.markup_bytes)

    @cached_property
    def mirror_chrome(self) -> Chrome:
        """The mirror has a name, menus and advertisements of its own."""
        return chrome(self.addresses, self.prose, Draws(self.chrome_key, "mirror"), self.markup_bytes)

    @property
    def mirror_layout(self) -> int:
        return (self.layout + 1) % len(LAYOUTS)


def plan_site(draws: Draws, index: int, serial: str, markup_bytes: int) -> Site:
    """The site at this index of its block; styles and rules take turns, so that few sites show all of them."""
    language = draws.weighted([(language, language.weight) for language in LANGUAGES])
    style = STYLES[index % len(STYLES)]
    return Site(
        language=language,
        addresses=site_addresses(draws, serial, style),
        prose=Prose(language, Draws(draws.below(1 << 63), "prose")),
        layout=draws.below(len(LAYOUTS)),
        rules=_rules(draws, index, style),
        time_format=draws.pick(TIME_FORMATS),
        charset=_charset(draws, language),
        charset_in_header=draws.chance(600),
        tells_language=draws.chance(200),
        chrome_key=draws.below(1 << 63),
        markup_bytes=markup_bytes,
    )


def _rules(draws: Draws, index: int, style: str) -> tuple[str, ...]:
    count = len(RULES_OF_ANY_STYLE)
    first = index % count
    second = (first + 1 + draws.below(count - 1)) % count
    return (RULES_OF_ANY_STYLE[first], RULES_OF_ANY_STYLE[second], *RULES_OF_STYLE[style])


def _charset(draws: Draws, language: Language) -> str | None:
    if not draws.chance(BODY_PER_MILLE):
        return None
    return draws.pick(language.charsets) if draws.chance(500) else "utf-8"
