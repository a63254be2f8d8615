"""Names known to the scanner: tags, attributes, words of class and id values, character references.

One open-addressing table for all four; each domain has its own hash seed. A name is identified by its 64-bit hash
alone: the known names do not collide (a test checks), and an unknown name that does is merely misread.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from dustream.core.kernels.compile import inner
from dustream.core.kernels.hash_slots import find_key, key_table
from dustream.core.text.main_model import WORDS
from dustream.core.text.scan_entities import REFERENCES

# What a tag is. An element of a kind listed under BLOCK breaks lines and becomes a container.
_KINDS = {
    "BLOCK": (
        "address article aside blockquote button caption center dd details dialog dir div dl dt fieldset figcaption "
        "figure footer form frameset h1 h2 h3 h4 h5 h6 header hgroup hr legend li listing main menu nav noframes ol "
        "optgroup option p plaintext pre search section select summary table tbody td textarea tfoot th thead tr ul xmp"
    ),
    "VOID": (
        "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr"
    ),
    "RAW_TEXT": "script style xmp iframe noembed noframes noscript title textarea plaintext",
    "SHOWN_RAW_TEXT": "xmp textarea plaintext",
    "SCRIPT": "script",
    "TITLE": "title",
    "REFERENCED": "title textarea",  # raw text in which character references count
    "PLAINTEXT": "plaintext",
    "HIDDEN": "template datalist audio video canvas rp annotation annotation-xml",
    "ANCHOR": "a",
    "LINE_BREAK": "br",
    "HEADING": "h1 h2 h3 h4 h5 h6",
    "TOP_HEADING": "h1",
    "SECOND_HEADING": "h2",
    "PARAGRAPH": "p",
    "LIST_ITEM": "li",
    "DESCRIPTION": "dd dt",
    "CELL": "td th",
    "ROW": "tr",
    "ROW_GROUP": "tbody thead tfoot",
    "TABLE": "table",
    "OPTION": "option",
    "CONTROL": "button select",  # names an action, not content
    "PREFORMATTED": "pre listing xmp plaintext textarea",
    "FOREIGN": "svg math",
    # An end tag inside these does not close what is open outside ("has an element in scope").
    "SCOPE": "table td th caption template object applet marquee select",
    "FORMATTING": "a b big code em font i nobr s small strike strong tt u",
    "SOFT": "div address p",  # a list item is closed by the next one through these
    "UNSTACKED": "html head body",
    "ROOT": "html",
    "META": "meta",
    "LINK": "link",
    "BASE": "base",
}
KIND = {name: 1 << bit for bit, name in enumerate(_KINDS)}

# The role of a container, by its tag or by words of its class, id and role.
_TAG_ROLES = {
    "NAVIGATION": "nav menu",
    "HEADER": "header",
    "FOOTER": "footer",
    "ASIDE": "aside",
    "FORM": "form button select fieldset",
    "NOTICE": "dialog",
    "BOILERPLATE": "nav footer",  # the element itself, not a class that may mean anything
    "MAIN": "main",
    "ARTICLE": "article",
    "CAPTION": "figcaption figure",
    "LIST": "ul ol",
    "QUOTE": "blockquote",
    "SECTION": "section",
}
_WORD_ROLES = {
    "NAVIGATION": (
        "nav navbar navigation menu menus submenu breadcrumb breadcrumbs pagination pager toolbar sitemap topnav "
        "subnav navbox toctree skip skiplink"
    ),
    "HEADER": "header masthead topbar banner",
    "FOOTER": "footer foot bottom copyright colophon",
    "ASIDE": "sidebar sidebars aside widget widgets rail complementary rightcolumn leftcolumn sphinxsidebar",
    "FORM": "form login signin signup register search searchbox searchform",
    "COMMENT": "comment comments commentlist disqus respond reply replies livefyre discussion",
    "ADVERT": (
        "ad ads advert adverts advertisement advertising advertorial sponsor sponsored sponsors promo promos "
        "promotion promoted banner dfp adsense outbrain taboola teads affiliate"
    ),
    "SHARE": (
        "share sharing shares social socials sharedaddy addthis follow subscribe subscription newsletter newsletters "
        "facebook twitter pinterest whatsapp sociable"
    ),
    "RELATED": (
        "related recommended recommendation recommendations recirc recirculation trending popular mostread readmore "
        "morefrom similar upnext more latest teaser teasers"
    ),
    "CONSENT": "cookie cookies cookiebar consent gdpr onetrust",
    "NOTICE": "modal popup overlay lightbox dialog paywall hidden alertdialog",
    "BYLINE": (
        "byline author authors dateline timestamp pubdate meta metadata metas postmeta tag tags taglist category "
        "categories posted contributor bio credit credits"
    ),
    "CAPTION": "caption captions gallery slideshow thumb thumbnail thumbcaption image video player embed",
    "MAIN": "main",
    "ARTICLE": "articlebody storybody hentry",
    "CONTENT": "article content post story entry text body contents bodytext entrytext page blog",
}
# CONCEALED is "display: none" on the element itself: scripts show much of it later, so the full text has it.
ROLE = {name: 1 << bit for bit, name in enumerate(dict.fromkeys((*_TAG_ROLES, *_WORD_ROLES, "CONCEALED")))}
CONCEALED = ROLE["CONCEALED"]
# A class that says what an element has or lacks is no role of it: "no-sidebar", "has-menu", "label-hidden".
NEGATION = CONCEALED << 1
_NEGATIONS = "no has have with without not is toggle label"
# Words also have learned weights: one for the containers next to a block, one for those further up. Both are packed
# into one integer, so that they are added together: the first times this, plus the second.
FIRST_WEIGHT = 1 << 16

ATTRIBUTES = (
    "class", "id", "role", "href", "rel", "lang", "xml:lang", "http-equiv", "content", "name", "charset", "hidden",
    "style", "itemprop", "type",
)  # fmt: skip
ATTRIBUTE = {name: slot for slot, name in enumerate(ATTRIBUTES)}

# Types of scripts that hold markup, which other scripts show later (Handlebars, Mustache, Underscore, Angular, Vue …).
TEMPLATE_TYPES = (
    "text/template", "text/x-template", "text/html", "text/x-handlebars", "text/x-handlebars-template",
    "text/mustache", "text/x-mustache", "text/x-mustache-template", "application/mustache", "x-tmpl-mustache",
    "text/x-tmpl", "text/x-jquery-tmpl", "text/ng-template", "text/x-dot-template", "text/x-underscore-template",
    "text/x-kendo-template",
)  # fmt: skip

Int = int | np.int64  # compiled code knows one of them

TAG_DOMAIN, ATTRIBUTE_DOMAIN, WORD_DOMAIN, REFERENCE_DOMAIN = (
    0xCBF29CE484222325, 0x9AE16A3B2F90404F, 0xC3A5C85C97CB3127, 0xB492B66FBE98F273,
)  # fmt: skip
FNV_PRIME = 0x100000001B3
WORD_PRIME = 0x9E3779B185EBCA87
_ALL_BITS = 0xFFFFFFFFFFFFFFFF

TAG_ID_SHIFT = 32
# The second value of a reference: length of its characters in UTF-8, and this bit if it needs no semicolon.
BARE_REFERENCE = 8


@inner
def mix(h: np.uint64, byte: Int) -> np.uint64:
    """FNV-1a, one byte on."""
    return (h ^ np.uint64(byte)) * np.uint64(FNV_PRIME)


@inner
def mix_word(h: np.uint64, word: np.uint64) -> np.uint64:
    """Eight bytes on. For names of up to eight bytes it is a bijection: no two of a length share a hash."""
    h = (h ^ word) * np.uint64(WORD_PRIME)
    return h ^ (h >> np.uint64(32))


@inner
def slot_of(keys: NDArray[np.uint64], h: np.uint64) -> int:
    """Where the name of this hash stands; -1 if it is not known."""
    slot = find_key(keys, h)
    return slot if keys[slot] == h else -1


def name_hash(name: str, domain: int) -> int:
    """Of a tag or an attribute: eight bytes at a time."""
    data = name.encode()
    h = domain ^ len(data)
    for at in range(0, len(data), 8):
        h = ((h ^ int.from_bytes(data[at : at + 8], "little")) * WORD_PRIME) & _ALL_BITS
        h ^= h >> 32
    return h


def word_hash(word: str, domain: int) -> int:
    """Of a word of a class, or of a reference: byte by byte."""
    h = domain
    for byte in word.encode():
        h = ((h ^ byte) * FNV_PRIME) & _ALL_BITS
    return h


def _bits(groups: dict[str, str], bits: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for group, names in groups.items():
        for name in names.split():
            found[name] = found.get(name, 0) | bits[group]
    return found


def named_references() -> dict[str, tuple[str, bool]]:
    """Name → (characters, whether it needs no semicolon)."""
    items = REFERENCES.split()
    return {
        name.rstrip("!"): ("".join(chr(int(code, 16)) for code in codes.split("+")), name.endswith("!"))
        for name, codes in zip(items[::2], items[1::2], strict=True)
    }


def word_weights() -> dict[str, tuple[int, int]]:
    """Word → its weights for main text, on the containers next to a block and on those further up."""
    items = WORDS.split()
    return {word: (int(near), int(far)) for word, near, far in zip(items[::3], items[1::3], items[2::3], strict=True)}


def _entries() -> dict[int, tuple[int, int]]:
    entries = {}
    kinds, roles = _bits(_KINDS, KIND), _bits(_TAG_ROLES, ROLE)
    for tag, name in enumerate(sorted(kinds | roles), 1):
        entries[name_hash(name, TAG_DOMAIN)] = kinds.get(name, 0), roles.get(name, 0) | tag << TAG_ID_SHIFT
    for name, slot in ATTRIBUTE.items():
        entries[name_hash(name, ATTRIBUTE_DOMAIN)] = slot, 0
    word_roles, weights = _bits(_WORD_ROLES, ROLE) | dict.fromkeys(_NEGATIONS.split(), NEGATION), word_weights()
    for word in sorted(word_roles | weights):
        near, far = weights.get(word, (0, 0))
        entries[word_hash(word, WORD_DOMAIN)] = word_roles.get(word, 0), near * FIRST_WEIGHT + far
    for name, (chars, is_bare) in named_references().items():
        utf8 = chars.encode()
        value = int.from_bytes(utf8, "little"), len(utf8) | (BARE_REFERENCE if is_bare else 0)
        entries[word_hash(name, REFERENCE_DOMAIN)] = value
    return entries


@cache
def name_tables() -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """(hashes, two values each)."""
    return key_table(_entries(), np.int64, slots_per_entry=2)  # a larger table is slower: it leaves the cache
