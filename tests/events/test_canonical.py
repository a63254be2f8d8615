"""What a page's rel=canonical link says about the page: from markup to the winner order."""

from __future__ import annotations

import pytest

from dustream.core.intake import take_in
from dustream.core.text.extractors import TextSource
from dustream.core.urls.canonical import canonical_class
from dustream.schemas.crawl import CrawlEvent

DEEP = "https://docs.example.org/2.8/a/b.html"


@pytest.mark.parametrize(
    ("url", "link", "expected"),
    [
        (DEEP, "", "none"),
        (DEEP, DEEP, "self"),
        (DEEP, "b.html", "self"),
        (DEEP, "HTTPS://Docs.Example.org:443/2.8/a/b.html#top", "self"),
        (DEEP, "/2.8/%61/b.html", "self"),
        ("https://a.example/%e4 b", "https://a.example/%E4%20b", "self"),
        (DEEP, "/stable/a/b.html", "other"),
        (DEEP, "https://www.example.org/stable/a/b.html", "other"),
        (DEEP, "http://docs.example.org/2.8/a/b.html", "other"),
        (DEEP + "?sid=1", DEEP, "other"),
        # another site
        (DEEP, "https://other.example.net/2.8/a/b.html", "none"),
        ("https://a.github.io/x", "https://b.github.io/x", "none"),
        # the front page, from a page that is none
        (DEEP, "/", "none"),
        (DEEP, "https://docs.example.org", "none"),
        ("https://a.example/index.html", "/", "other"),
        ("https://a.example/?lang=en", "/", "other"),
        (DEEP, "/?page=b", "other"),
        # malformed
        (DEEP, "https://docs.example.org/stable//a/b.html", "none"),
        ("https://a.example/x//y?z", "https://a.example/x//y", "other"),
        (DEEP, "{{ page.url }}", "none"),
        (DEEP, "https://docs.example.org/${path}", "none"),
        (DEEP, "https://docs.example.org/a b", "none"),
        (DEEP, "https://", "none"),
        (DEEP, "javascript:void(0)", "none"),
        (DEEP, "#", "none"),
    ],
)
def test_what_a_link_says_about_its_page(url: str, link: str, expected: str) -> None:
    assert canonical_class(url, link) == expected


@pytest.mark.parametrize("extractor", ["scan", "resiliparse"])
@pytest.mark.parametrize("content", ["html", "body", "latin"])
def test_intake_carries_it(extractor: str, content: str) -> None:
    link = '<link rel="canonical" href="/stable/b.html?x=1&amp;y=é">'
    page = f"<html><head>{link}</head><body><p>some text of a page, with é</p></body></html>"
    fields = {
        "html": {"html": page},
        "body": {"body": page.encode()},
        "latin": {"body": page.encode("latin-1"), "content_type": "text/html; charset=latin-1"},
    }[content]
    for url, expected in ((DEEP, "other"), ("https://docs.example.org/stable/b.html?x=1&y=é", "self")):
        [crawl] = take_in([CrawlEvent(url=url, **fields)], TextSource("main", extractor, "off")).crawls
        assert crawl.canonical == expected


def test_a_page_given_as_text_names_none() -> None:
    [crawl] = take_in([CrawlEvent(url=DEEP, text="some words")], TextSource("main", "scan", "off")).crawls
    assert crawl.canonical == "none"
