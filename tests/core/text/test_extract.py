"""Extraction: text, head, charsets, and input that is wrong or hostile."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resiliparse.parse.html import HTMLTree

from dustream.core.errors import BadEvent
from dustream.core.text.encoding import decode
from dustream.core.text.extract import extract
from dustream.core.text.page_scan import scan_page
from dustream.core.text.signature import sign_page

ARTICLE = "<p>" + "This is the article that people came for, and it goes on for a while. " * 8 + "</p>"
PAGE = f"""<!doctype html><html lang="en-GB"><head><title> A  title
 here </title><link rel="alternate canonical" href=" /right "><meta http-equiv="Refresh" content="3; URL='/next'">
<script>var hidden = "secret";</script></head><body><nav><ul><li><a href=/>Home</a></li>
<li><a href=/c>Contact</a></li></ul></nav><main>{ARTICLE}<p>Second block.</p></main>
<footer>Copyright</footer></body></html>"""


def test_head() -> None:
    found = extract(PAGE)
    assert (found.title, found.lang, found.canonical) == ("A title here", "en-GB", "/right")
    assert (found.refresh_target, found.refresh_delay_s) == ("/next", 3.0)


def test_main_and_full_text() -> None:
    main, full = extract(PAGE).text, extract(PAGE, mode="full").text
    assert "article that people" in main and "Contact" not in main
    assert "article that people" in full and "Contact" in full and "Copyright" in full
    assert "secret" not in full
    assert main.splitlines()[-1] == "Second block."


def test_without_main_text_the_full_text_is_taken() -> None:
    page = "<html><body><nav>Home</nav><footer>Only this</footer></body></html>"
    assert extract(page).text == extract(page, mode="full").text
    assert "Only this" in extract(page).text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("0;url=http://a/b", ("http://a/b", 0.0)),
        ("5", ("", 0.0)),
        ('1.5, url="x y"z', ("x y", 1.5)),
        (";URL=/q", ("/q", 0.0)),
        ("99999999;url=/late", ("/late", 86400.0)),
        ("", ("", 0.0)),
        ("abc;url=/no-time", ("", 0.0)),
        ("url=/no-time", ("", 0.0)),
        ("0urls=/no-separator", ("", 0.0)),
        ("99999999999;url=/many-digits", ("/many-digits", 86400.0)),
        ("1.2.3;url=/dots", ("/dots", 1.2)),
    ],
)
def test_meta_refresh(content: str, expected: tuple[str, float]) -> None:
    page = f"<meta http-equiv=refresh content='{content}'>x"
    found = extract(page)
    assert (found.refresh_target, found.refresh_delay_s) == expected


@pytest.mark.parametrize("page", ["", b"", "<html></html>", b"\xef\xbb\xbf", "<!-- only -->", "\0", "<title>t</title>"])
def test_empty_pages_are_empty(page: str | bytes) -> None:
    assert extract(page).text == ""
    assert sign_page(page).token_count == 0


def test_plain_text_is_taken_as_it_is() -> None:
    assert extract(b"a < b\n<p> c", content_type="text/plain").text == "a < b\n<p> c"


CHINESE = "<html><body>近似重复网页检测,内容不长。</body></html>"


@pytest.mark.parametrize(
    ("page", "content_type"),
    [
        (CHINESE.encode(), None),
        (CHINESE.encode(), "text/html; charset=iso-8859-1"),  # a lie
        (CHINESE.encode(), "text/html; charset=nonsense"),
        (CHINESE.encode(), "text/html; charset=base64"),  # a codec of Python's, but no charset
        (CHINESE.encode("gb18030"), "text/html; charset=GB2312"),
        (CHINESE.encode("gb18030"), "text/html; charset=utf-8"),  # a lie
        (CHINESE.replace("<html>", "<html><meta charset=gbk>").encode("gbk"), None),
        (CHINESE.encode("utf-16"), None),
        (CHINESE.encode("utf-16-le"), "text/html; charset=utf-16le"),
        (b"\xef\xbb\xbf" + CHINESE.encode(), "text/html; charset=big5"),
        (CHINESE.encode(), "text/html; charset=utf-16"),  # a lie
    ],
)
def test_charsets(page: bytes, content_type: str | None) -> None:
    assert extract(page, content_type=content_type).text == "近似重复网页检测,内容不长。"


def test_spoilt_bytes_spoil_only_themselves() -> None:
    page = ("<p>" + "Ünïcödé wörds, " * 20 + "</p>").encode()
    broken = page[:40] + b"\xff\xfe" + page[40:-6]
    text = decode(broken, "text/html; charset=utf-8")
    assert text.count("\ufffd") <= 3 and text.count("wörds") >= 18


@settings(max_examples=200)
@given(st.binary(max_size=80), st.sampled_from([None, "a/b; charset=utf-8", "a/b; charset=utf-16", "x;charset=euc-kr"]))
def test_any_bytes_give_text(page: bytes, content_type: str | None) -> None:
    extract(page, content_type=content_type).text.encode()
    sign_page(page, content_type=content_type)


def test_lone_surrogates_and_nuls() -> None:
    assert extract("<p>a\ud800b \0c\0d</p>").text.encode() == "a\ufffdb cd".encode()


def test_a_page_of_50_mb_is_refused() -> None:
    for page in ("<p>word</p>" * 5_000_000, b"<p>word</p>" * 5_000_000):
        with pytest.raises(BadEvent, match="page of 55000000 bytes: at most 8388608"):
            extract(page)


HOSTILE = {
    "nested": ("<div>" * 1_000_000, "nested more than 2000"),
    "nested_and_closed": ("<div>" * 500_000 + "x" + "</div>" * 500_000, "nested more than 2000"),
    "hidden_by_comments": ("<div><!--</div>-->" * 100_000, "nested more than 2000"),
    "hidden_by_quotes": ("<div title='</div>'>" * 100_000, "nested more than 2000"),
    "hidden_by_scripts": ("<div><script></div></script>" * 100_000, "nested more than 2000"),
    "hidden_by_scopes": ("<div><object></div>" * 100_000, "nested more than 2000"),
    "hidden_in_svg": ("<svg><style>" + "<g>" * 100_000, "nested more than 2000"),
    "lists": ("<ul><li>" * 200_000, "nested more than 2000"),
    "attributes": ("<p " + " ".join(f"a{i}='>'" for i in range(100_000)) + ">", "attributes: at most 4000"),
    "formatting": ("<p>" + "".join(f"<b c={i}>" for i in range(900)) + "</p>" + "<p>x" * 9_000, "formatting"),
    "list_items": ("<dd><li>" * 100_000, "nested more than 2000"),
    "paragraphs": ("<p>x</p>" * 1_000_000, "elements on"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_pages_are_refused_before_parsing(name: str) -> None:
    page, reason = HOSTILE[name]
    scan_page(b"", 1)
    with pytest.raises(BadEvent, match=reason):
        extract(page)


BORDERLINE = {
    "deep": "'<div>' * 1_990",
    "unclosed": "'<li>x' * 60_000",
    "anchors": "'<a name=x>x<br>' * 20_000",
    "small_and_deep": "'<div>' * 1_999",
    "attributes": "'<p ' + ' '.join(f'a{i}' for i in range(3_900)) + '>x'",
    "small_attributes": "'<p ' + ' '.join(f'a{i}' for i in range(7_000)) + '>x'",
    "brackets": "'<' * 8_000_000",
    "comments": "'<!--' * 2_000_000",
    "quotes": "'<a b=\"' * 3_000",
}


def test_what_is_just_within_the_limits_is_processed() -> None:
    """In a process of its own: a parser that crashes must not take the tests along."""
    program = "from dustream.core.text.extract import extract\n" + "".join(
        f"extract({page})\nprint({name!r}, flush=True)\n" for name, page in BORDERLINE.items()
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert run.stdout.split() == list(BORDERLINE), run.stderr[-500:]


TAGS = [
    "div",
    "span",
    "b",
    "i",
    "a",
    "p",
    "li",
    "dd",
    "ul",
    "table",
    "td",
    "tr",
    "select",
    "option",
    "optgroup",
    "object",
    "svg",
    "g",
    "math",
    "form",
    "script",
    "style",
    "title",
    "button",
    "h1",
    "font",
    "noscript",
    "ruby",
    "rt",
    "template",
    "caption",
    "textarea",
    "nobr",
    "body",
    "x-y",
]
SOUP_PIECES = st.one_of(
    st.sampled_from([f"<{name}>" for name in TAGS]),
    st.sampled_from([f"</{name}>" for name in TAGS]),
    st.sampled_from(["x", "<!--", "-->", "<br>", "<p a='", "'>", '"', "<", ">", "<![CDATA[", "]]>", '<div =">', "</"]),
)
SOUP = st.lists(SOUP_PIECES, max_size=120)


def depth_of(page: str) -> int:
    tree = HTMLTree.parse(page)
    deepest, level = 0, [tree.document]
    while level:
        level = [child for node in level for child in node.child_nodes if child.type == 1]
        deepest += bool(level)
    return deepest


# The same soups in every run: the bound is tested, not proved (docs/explanation/signatures.md); rare exceptions exist.
@settings(max_examples=400, derandomize=True)
@given(SOUP)
def test_the_scan_never_sees_less_than_the_parser(soup: list[str]) -> None:
    """Per element it counts, the parser may add those it does not count (html, body; tbody, tr, td, p, li inside)."""
    page = "".join(soup)
    assert depth_of(page) <= 5 * scan_page(page.encode(), 100_000).nesting + 8


@settings(max_examples=1000, derandomize=True)
@given(st.lists(SOUP_PIECES, min_size=2, max_size=7))
def test_nothing_that_is_repeated_escapes_the_scan(soup: list[str]) -> None:
    page = "".join(soup) * 100
    assert depth_of(page) <= 5 * scan_page(page.encode(), 100_000).nesting + 8
