"""The scanner: lexical rules of HTML, head, blocks, main text, and input that is wrong or hostile."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from collections import defaultdict
from html.entities import html5
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resiliparse.extract.html2text import extract_plain_text

from dustream.core.errors import BadEvent
from dustream.core.text import scan_entities, scan_tables
from dustream.core.text.extract import extract
from dustream.core.text.extracted import TextMode
from dustream.core.text.one_pass import scan_blocks
from dustream.core.text.scan import head_of, scan
from dustream.core.text.scan_blocks import TAG
from dustream.core.urls.canonical import canonical_of
from dustream.streams.generate import generate, truth

TESTS = Path(__file__).parent


def full(page: str) -> str:
    return scan(page, mode="full").text


# --- names and references


def test_the_reference_table_is_that_of_the_standard() -> None:
    known = scan_tables.named_references()
    assert {name + ";": chars for name, (chars, _) in known.items()} == {k: v for k, v in html5.items() if k[-1] == ";"}
    assert {name for name, (_, is_bare) in known.items() if is_bare} == {k for k in html5 if k[-1] != ";"}


def test_the_reference_table_is_generated() -> None:
    program = [sys.executable, str(TESTS / "generate_scan_entities.py")]
    assert subprocess.run(program, capture_output=True, text=True, check=True).stdout == Path(
        scan_entities.__file__
    ).read_text(encoding="utf-8")


def test_no_two_names_share_a_hash() -> None:
    keys, values = scan_tables.name_tables()
    words = {word for words in scan_tables._WORD_ROLES.values() for word in words.split()}
    words |= {*scan_tables._NEGATIONS.split(), *scan_tables.word_weights()}
    groups = (*scan_tables._KINDS.values(), *scan_tables._TAG_ROLES.values())
    tags = {tag for group in groups for tag in group.split()}
    expected = len(words) + len(tags) + len(scan_tables.ATTRIBUTES) + len(scan_tables.named_references())
    assert (keys != 0).sum() == expected and len(values) == len(keys)


def test_every_named_reference() -> None:
    found = {name: full(f"<p>x&{name}</p>") for name in html5}
    assert found == {name: "x" + chars.strip(" \t\n\xa0") for name, chars in html5.items()}


REFERENCE_TEXT = st.lists(
    st.sampled_from([
        "&", "amp", "lt", "notin", "not", "it", ";", "#", "x", "80", "41", "0", "D800", "110000", "9999999999999999",
        "A", "=", " ", "copy", "eacute", "CounterClockwiseContourIntegral", "nGt", "é", "&#", "&#x", "X",
    ]),
    max_size=12,
)  # fmt: skip


def visible(text: str) -> str:
    return " ".join(text.replace("\0", "").split())


@settings(max_examples=500)
@given(REFERENCE_TEXT)
def test_references_are_those_of_the_standard_library(pieces: list[str]) -> None:
    text = "".join(pieces)
    # html.unescape drops the few code points the standard calls errors and keeps; they are not made here.
    assert visible(full(f"<p>{text}")) == visible(html.unescape(text))


@pytest.mark.parametrize(
    ("value", "expected"),
    [("?a=1&copy=2", "?a=1&copy=2"), ("?a&amp;b", "?a&b"), ("&copy;x", "©x"), ("&copy", "©"), ("&copyx", "&copyx"),
     ("&#x41;b&lt", "Ab<"), ("&notit;", "&notit;")],
)  # fmt: skip
def test_references_in_attributes(value: str, expected: str) -> None:
    assert scan(f'<link rel=canonical href="{value}">').canonical == expected


# --- lexical rules

LEXICAL = {
    "tags": ("<p>a<b>b</b>c<p>d", "abc\nd"),
    "attribute_quoting": ("<p a='>' b=\">\" c=x>y", "y"),
    "unquoted_value": ("<a href=/x/>y</a>z", "yz"),
    "equals_sign_first": ('<p =">x', "x"),
    "quote_in_name": ('<p a"b>c', "c"),
    "slashes": ("<p/ a/b/>c<br/>d", "c\nd"),
    "lone_brackets": ("a < b <3 <> c >d", "a < b <3 <> c >d"),
    "comment": ("a<!-- <p> -- > -->b", "ab"),
    "short_comments": ("a<!-->b<!--->c<!---->d", "abcd"),
    "comment_bang": ("a<!-- x --!>b", "ab"),
    "comment_unclosed": ("a<!-- b -- c", "a"),
    "bogus_comments": ("a<!x>b<?php x ?>c</ x>d</>e<!>f", "abcdef"),
    "doctype": ("<!DOCTYPE html PUBLIC 'x'>a", "a"),
    "cdata_in_html": ("a<![CDATA[b>c]]>d", "ac]]>d"),
    "cdata_in_svg": ("<svg><text>a<![CDATA[<b>&amp;]]>c</text></svg>", "a<b>&amp;c"),
    "script": ("a<script>'</p>'<p>b</script>c", "ac"),
    "script_in_comment_in_script": ("a<script><!-- <script>x</script> y --></script>b", "ab"),
    "script_comment_closed_at_once": ("a<script><!--><script></script>b", "ab"),
    "script_end_needs_its_name": ("a<script>x</scripty>y</script >b", "ab"),
    "style_unclosed": ("a<style>b", "a"),
    "title_is_raw": ("<title><b>x</b></title>a", "a"),
    "textarea_is_raw": ("<textarea><b>&lt;</textarea>c", "<b><\nc"),
    "xmp_is_raw": ("<xmp><b>&lt;</xmp>c", "<b>&lt;\nc"),
    "noscript_iframe_template": ("a<noscript>b</noscript><iframe>c</iframe><template>d<p>e</template>f", "a\nf"),
    "plaintext": ("<plaintext>a</plaintext><b>&amp;", "a</plaintext><b>&amp;"),
    "svg_title": ("a<svg><title>x</title></svg>b", "ab"),
    "tag_unclosed": ("a<p title='b", "a"),
    "end_of_page_in_tag": ("a</", "a</"),
    "capitals": ("<P>a<SCRIPT>b</SCRIPT>c</P>d", "ac\nd"),
    "nul": ("a\0b<p\0>c", "abc"),
    "blanks": ("<p> a \n\t b&nbsp; &#32;c\u00a0 </p>", "a b c"),
    "line_breaks": ("a<br>b<br><br>c</br>d", "a\nb\nc\nd"),
    "preformatted": ("<pre>\na\n  b\r\nc </pre>d", "a\n  b\nc\nd"),
    "cells": ("<table><tr><td>a<td>b<tr><td>c</table>d", "a\nb\nc\nd"),
    "lists": ("<ul><li>a<li>b<ul><li>c</ul></ul>", "a\nb\nc"),
    "hidden": ("a<p hidden>b</p><span hidden>d</span>e<div style='display:none'>f</div>", "a\ne\nf"),
    "misnested": ("<b><p>a</b>b</p>c", "ab\nc"),
    "custom_elements": ("<x-y>a</x-y>b", "ab"),
    "option": ("<select><option>a<option>b</select>c", "a\nb\nc"),
}


@pytest.mark.parametrize("name", sorted(LEXICAL))
def test_lexical_rules(name: str) -> None:
    page, expected = LEXICAL[name]
    assert full(page) == expected


# --- head

ARTICLE = "<p>" + "This is the article that people came for, and it goes on for a while. " * 8 + "</p>"
PAGE = f"""<!doctype html><html lang="en-GB"><head><title> A  title
 &amp; here </title><meta charset="utf-8"><meta name=ROBOTS content="NoIndex, follow">
<link rel="alternate canonical" href=" /right?a=1&amp;b "><meta http-equiv="Refresh" content="3; URL='/next'">
<script>var hidden = "secret";</script></head><body><nav><ul><li><a href=/>Home</a></li>
<li><a href=/c>Contact</a></li></ul></nav><main>{ARTICLE}<p>Second block of the article, and not a short one.</p></main>
<footer>Copyright</footer></body></html>"""


def test_head() -> None:
    found = scan(PAGE)
    assert (found.title, found.lang, found.canonical) == ("A title & here", "en-GB", "/right?a=1&b")
    assert (found.refresh_target, found.refresh_delay_s) == ("/next", 3.0)
    head = head_of(PAGE.encode())
    assert (head.charset, head.is_noindex) == ("utf-8", True)


@pytest.mark.parametrize(
    ("tags", "charset", "is_noindex"),
    [
        ("<meta http-equiv=Content-Type content='text/html; charset=gbk'>", "gbk", False),
        ("<meta http-equiv=content-type content=text/html><meta charset=big5>", "big5", False),
        ("<meta charset=big5><meta http-equiv=content-type content='text/html;charset=gbk'>", "big5", False),
        ("<meta http-equiv=content-type content='a/b;charset=gbk'><meta charset=big5>", "gbk", False),
        ("<meta name=robots content=NONE>", "", True),
        ("<meta name=robots content='index, follow'><meta name=robots content='noarchive,noindex'>", "", True),
        ("<meta name=robots content=noimageindex><meta name=description content=noindex>", "", False),
    ],
)
def test_charset_and_robots(tags: str, charset: str, is_noindex: bool) -> None:
    head = head_of(tags.encode())
    assert (head.charset, head.is_noindex) == (charset, is_noindex)


HEADS = [
    "<html lang=de><html lang=fr xml:lang=it>",
    "<html xml:lang=de>x",
    "<html lang=' '>",
    "<title>a</title><title>b</title>",
    "<svg><title>a</title></svg><title>b</title>",
    "<title>a",
    "<title>&lt;b&gt; </title>",
    "<link rel=canonical>",
    "<link rel=CANONICAL href=a><link rel=canonical href=b>",
    "<link rel=canonicals href=a>",
    "<base href='https://x.com/docs/'><link rel=canonical href=../a>",
    "<base target=_top><base href=/docs/><base href=/late/><link rel=canonical href=a>",
    "<link rel=canonical href=a><base href=b/>",
    "<base href='https://x.com/docs/'>",
    "<base href='http://['><link rel=canonical href=a>",
    "<link href=a rel=' x canonical '>",
    "<meta http-equiv=refresh content=5><meta http-equiv=refresh content='1;url=x'>",
    "<meta http-equiv=refresh>",
    "<meta http-equiv=refresh content='0;url=&quot;a b&quot;'>",
    "<meta http-equiv=refresh content='99999999;url=/late'>",
    "<!-- <title>x</title> --><title>y</title>",
    "<script><title>x</title></script>",
    "<p>x<link rel=canonical href=late>",
]


@pytest.mark.parametrize("page", HEADS)
def test_the_head_is_read_as_the_parser_reads_it(page: str) -> None:
    ours, theirs = scan(page), extract(page)
    for field in ("title", "lang", "canonical", "refresh_target", "refresh_delay_s"):
        assert getattr(ours, field) == getattr(theirs, field), field


def test_a_canonical_link_is_relative_to_the_base() -> None:
    link = "<link rel=canonical href=../a>"
    assert scan(f"<base href=https://x.com/docs/>{link}").canonical == "https://x.com/a"
    assert canonical_of("https://x.com/en/p", scan(f"<base href=/docs/new/>{link}").canonical) == "https://x.com/docs/a"


# --- main text


NAV = "<nav><ul>" + "".join(f"<li><a href=/{n}>Section {n}</a></li>" for n in range(8)) + "</ul></nav>"
PARAGRAPH = "<p>This is the article that people came for, and it goes on for a while. It has more to say.</p>"


def test_main_and_full_text() -> None:
    main, everything = scan(PAGE).text, full(PAGE)
    assert "article that people" in main and "Contact" not in main and "Copyright" not in main
    assert "article that people" in everything and "Contact" in everything and "Copyright" in everything
    assert "secret" not in everything
    assert main.splitlines()[-1] == "Second block of the article, and not a short one."


def test_without_main_text_the_full_text_is_taken() -> None:
    page = "<html><body><nav>Home</nav><footer>Only this</footer></body></html>"
    assert scan(page).text == full(page) == "Home\nOnly this"


@pytest.mark.parametrize(
    "boilerplate",
    [
        '<div class="site-nav"><p>{}</p></div>', '<div id="sidebar">{}</div>', "<footer><p>{}</footer>",
        '<div class="relatedPosts">{}</div>', '<section class="comments"><p>{}</p></section>', "<nav>{}</nav>",
        '<div class="cookie-consent"><div><p>{}</p></div></div>', "<ul><li><a href=/>{}</a></li></ul>",
        "<aside>{}</aside>", "<div style='x:y; DISPLAY : none'>{}</div>",
    ],
)  # fmt: skip
def test_boilerplate_is_left_out(boilerplate: str) -> None:
    around = boilerplate.format("These words are around the article on every page of the site, and nobody reads them.")
    page = f"<body>{NAV}{around}<div class=post><h1>News</h1>{PARAGRAPH * 8}</div>{around}<footer>Copyright</footer>"
    assert scan(page).text == "\n".join(["News"] + [re.sub("<.*?>", "", PARAGRAPH)] * 8)


def test_a_list_of_links_is_what_its_links_say() -> None:
    """Without its links, an index is its heading and the footer: the same as the next one's."""

    def index(topic: str) -> str:
        links = "".join(f"<li><a href='/{topic}/{n}'>{topic} number {n} and what it is for</a></li>" for n in range(40))
        footer = "<div class=footer>Copyright 2008 by the authors, last updated on the 3rd of May</div>"
        return f"<nav><a href=/>Home</a></nav><h1>Index</h1><ul>{links}</ul>{footer}"

    first, second = scan(index("functions")).text, scan(index("classes")).text
    assert first.count("functions number") == 40 and second.count("classes number") == 40
    assert "Home" not in first and "Copyright" not in first


def test_a_class_that_lies_is_not_believed() -> None:
    page = f'<body class="has-sidebar"><div class="no-sidebar"><div class="sidebar menu">{ARTICLE * 3}</div></div>'
    assert scan(page).text.count("people came for") == 24


@pytest.mark.parametrize(
    ("parts", "count"),
    [
        ("".join(f"<div class={name}>{PARAGRAPH * 4}</div>" for name in ("bottom", "related", "gallery")), 12),
        ("<h1>A question</h1>" + f"<div class=comment>{PARAGRAPH * 3}</div>" * 3, 9),
        (f"<div class=paywall>{PARAGRAPH * 8}</div>", 8),
    ],
)
def test_names_that_leave_hardly_anything_are_not_believed(parts: str, count: int) -> None:
    """Their skip link and terms of use would make all pages of such a site the same."""
    skip, terms = "<a href=#main>Skip to content</a>", "<p>Terms of use: what may be said here, and what may not.</p>"
    assert scan(f"<body>{NAV}{skip}{parts}{terms}").text.count("people came for") == count


def test_a_label_that_is_hidden_hides_no_text() -> None:
    fields = f"<div class='field field--label-hidden'>{PARAGRAPH}</div>" * 2
    assert scan(f"<body>{NAV}{fields}{PARAGRAPH * 8}<footer>Copyright</footer>").text.count("people came for") == 10


@pytest.mark.parametrize("name", ["header", "div", "section"])
def test_the_headline_is_kept_wherever_it_stands(name: str) -> None:
    byline = "<p class=byline>By A. Writer, 3 May</p>"
    page = f"<body>{NAV}<{name}><h1>Headline</h1>{byline}</{name}><article>{PARAGRAPH * 8}</article>"
    assert scan(page).text.splitlines()[0] == "Headline" and "Writer" not in scan(page).text


@pytest.mark.parametrize("page", ["", b"", "<html></html>", b"\xef\xbb\xbf", "<!-- only -->", "\0", "<title>t</title>"])
def test_empty_pages_are_empty(page: str | bytes) -> None:
    assert scan(page).text == ""


def test_plain_text_and_surrogates() -> None:
    assert scan(b"a < b\n<p> c", content_type="text/plain").text == "a < b\n<p> c"
    assert scan("<p>a\ud800b \0c\0d</p>").text == "a\ufffdb cd"


@pytest.mark.parametrize("charset", ["utf-8", "gb18030", "utf-16"])
def test_charsets(charset: str) -> None:
    page = "<html><body>近似重复网页检测,内容不长。</body></html>".encode(charset)
    assert scan(page, content_type=f"text/html; charset={charset}").text == "近似重复网页检测,内容不长。"


# --- the generated web: what was planted is found

UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff"
TOKEN = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")


def shingles(text: str) -> set[tuple[str, ...]]:
    words = (*TOKEN.findall(text.lower()), "", "", "", "")
    return {words[i : i + 5] for i in range(len(words) - 4)}


def jaccard(a: set[tuple[str, ...]], b: set[tuple[str, ...]]) -> float:
    return len(a & b) / len(a | b) if a or b else 1.0


@pytest.fixture(scope="module")
def web() -> dict[str, str]:
    """Pages of a small generated web that are as they were first fetched."""
    pages: dict[str, list[str]] = defaultdict(list)
    for event in generate(300, 5, markup_bytes=3_000):
        if event.html and event.status in (None, 200):
            pages[event.url].append(event.html)
    return {url: versions[0] for url, versions in pages.items() if len(versions) == 1}


def test_planted_clusters_are_found(web: dict[str, str]) -> None:
    truths = {page.url: page for page in truth(300, 5)}
    counted = [url for url in web if truths[url].role == "content" and not truths[url].grey]
    sets = {url: shingles(scan(web[url]).text) for url in counted if "chain" not in truths[url].family}
    pairs = list(combinations(sets, 2))
    within = [jaccard(sets[a], sets[b]) for a, b in pairs if truths[a].cluster == truths[b].cluster]
    across = [jaccard(sets[a], sets[b]) for a, b in pairs if truths[a].cluster != truths[b].cluster]
    assert len(within) > 50 and min(within) >= 0.9 and max(across) < 0.9


def test_full_text_is_that_of_the_parser(web: dict[str, str]) -> None:
    options = {"links": False, "list_bullets": False, "alt_texts": False}
    pages = list(web.values())[:100]
    similar = sorted(jaccard(shingles(full(page)), shingles(extract_plain_text(page, **options))) for page in pages)
    assert similar[0] > 0.9 and similar[len(similar) // 2] > 0.98


# --- hostile input


def test_a_page_over_the_limit_is_refused() -> None:
    for page in ("<p>word</p>" * 1_000_000, "é" * 5_000_000):
        with pytest.raises(BadEvent, match="at most 8388608"):
            scan(page)


def test_full_text_is_what_is_written_not_what_can_be_clicked() -> None:
    page = (
        "<p>Some words of a page<button>Buy now</button> and more of them"
        "<select><option>one<option>two</select><label>Name</label>"
    )
    assert full(page) == "Some words of a page\nand more of them\nName"
    assert full("<div>Words<button>Menu</div><p>and words behind a button that is not closed") == (
        "Words\nand words behind a button that is not closed"
    )
    assert full("<p>one<button><p>two</p></button>three") == "one\nthree"
    assert full("<button>Accept</button><select><option>one</select>a") == "Accept\none\na"


CLASSES = st.lists(
    st.sampled_from(["nav", "main", "no-", "sidebar", "siteNav", " ", "comment", "x" * 30, "y" * 60, "é", "footer"]),
    max_size=8,
).map("".join)


@settings(max_examples=300)
@given(st.lists(CLASSES, min_size=1, max_size=6))
def test_roles_of_a_value_do_not_depend_on_what_came_before(values: list[str]) -> None:
    """They are remembered from tag to tag and from page to page; the last tag of a page is read past its end."""
    alone = [scan_blocks(f"<div class='{value}'>a</div>".encode()).containers[1, :TAG].tolist() for value in values]
    together = scan_blocks("".join(f"<div class='{value}'>a</div>" for value in values * 2).encode())
    assert together.containers[1:, :TAG].tolist() == alone * 2
    ends = [scan_blocks(f"<div id={value.replace(' ', '')}>".encode()).containers[1].tolist() for value in values]
    assert ends == [
        scan_blocks(f"<div id={value.replace(' ', '')}>{'b' * 40}".encode()).containers[1].tolist() for value in values
    ]


@pytest.mark.slow
def test_mutated_pages_stay_within_bounds() -> None:
    """With numba's bounds checks on, in a process of its own; compiled without optimisation, which is quicker."""
    env = os.environ | {"NUMBA_OPT": "0", "DUSTREAM_DATA": os.devnull}
    program = [sys.executable, str(TESTS.parents[2] / "bench" / "fuzz_scanner.py"), "--pages", "1000"]
    run = subprocess.run(program, capture_output=True, text=True, timeout=600, env=env)
    assert "1000 mutated pages" in run.stdout and "no crash" in run.stdout, run.stderr[-2000:]


@settings(max_examples=200)
@given(st.binary(max_size=80))
def test_any_bytes_give_text(page: bytes) -> None:
    scan(page).text.encode()
    scan_blocks(page)


# --- templates


TEMPLATE = "<h1>Architecture</h1><p>A stream is a log, and a table is its last state.</p>"
TEMPLATE_TEXT = "Architecture\nA stream is a log, and a table is its last state."


@pytest.mark.parametrize("mode", ["main", "full"])
@pytest.mark.parametrize("type_", ["text/x-handlebars-template", " TEXT/Template ", "text/html", "x-tmpl-mustache"])
def test_a_template_is_read_where_the_page_shows_next_to_nothing_else(type_: str, mode: TextMode) -> None:
    page = f'<script id=t type="{type_}">{TEMPLATE}</script><ul><li>Documentation</ul><script>show(t)</script>'
    assert TEMPLATE_TEXT in scan(page, mode=mode).text and "show" not in scan(page, mode=mode).text
    shown = "<p>" + "The page has a text that readers see without any script. " * 5 + "</p>"
    assert "Architecture" not in scan(page + shown, mode=mode).text


@pytest.mark.parametrize("type_", ["text/javascript", "module", "application/json", "text/css", "text/templates", ""])
def test_other_scripts_are_no_templates(type_: str) -> None:
    assert scan(f'<script type="{type_}">{TEMPLATE}</script><p>Documentation').text == "Documentation"


def test_what_a_template_leaves_open_does_not_hide_the_rest() -> None:
    page = "<script type=text/template><div><p>one</script><p>two<button>three</button>"
    assert scan(page).text == "one\ntwo\nthree"
