"""Crawl events: identity, time, and what a fetch tells."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dustream.core.errors import BadEvent
from dustream.core.events import check_event, classify, fetched_at_s_max, is_page_type, parse_time_ms
from dustream.core.urls.identity import URL_BYTES_MAX, page_identity, resolve_target
from dustream.schemas.crawl import CrawlEvent

MAY_NOON_MS = 1_714_564_800_000  # 2024-05-01T12:00:00Z


@pytest.mark.parametrize(
    "value",
    [
        "2024-05-01T12:00:00Z",
        "2024-05-01t12:00:00z",
        "2024-05-01 12:00:00",
        "2024-05-01T12:00Z",
        "2024-05-01T14:00:00+02:00",
        "2024-05-01T06:30:00-0530",
        "  2024-05-01T12:00:00.000000Z ",
        "20240501120000",
        1_714_564_800,
        1_714_564_800.0,
    ],
)
def test_one_time_in_many_spellings(value: str | float) -> None:
    assert parse_time_ms(value) == MAY_NOON_MS


@pytest.mark.parametrize(
    ("value", "time_ms"),
    [
        (None, 0),
        ("", 0),
        (0, 0),
        ("1970-01-01T00:00:00Z", 0),
        ("2024", 1_704_067_200_000),
        ("2024-05", 1_714_521_600_000),
        ("2024-05-01", 1_714_521_600_000),
        ("2024-05-01T12:00:00.123987Z", MAY_NOON_MS + 123),
        ("2024-05-01T12:00:00.5Z", MAY_NOON_MS + 500),
        (1_714_564_800.25, MAY_NOON_MS + 250),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
    ],
)
def test_times(value: str | float | None, time_ms: int) -> None:
    assert parse_time_ms(value) == time_ms


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-1, "before 1970"),
        ("1969-12-31T23:59:59Z", "before 1970"),
        ("1970-01-01T00:00:00+01:00", "before 1970"),
        (float("nan"), "not a time"),
        (float("inf"), "not a time"),
        (True, "not a time"),
        (1_714_564_800_000, "not milliseconds"),
        (10**400, "beyond year 9999"),
        ("3024-05-01T12:00:00Z", "after the year 2100"),
        (fetched_at_s_max + 1, "after the year 2100"),
        ("2024-02-30T12:00:00Z", "no such day"),
        ("20241301000000", "no such day"),
        ("2024-05-01T25:00:00Z", "no such time of day"),
        ("1714564800", "not a time"),
        ("yesterday", "not a time"),
        ("２０２４-05-01", "not a time"),
        ("2024-05-01T12:00:00+2", "not a time"),
        ("9" * 100_000, "not a time"),
    ],
)
def test_absurd_times_are_refused_with_a_reason(value: str | float, reason: str) -> None:
    with pytest.raises(BadEvent, match=reason) as caught:
        parse_time_ms(value)
    assert len(str(caught.value)) < 1000


@given(
    st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(2099, 12, 30)),
    st.integers(-14 * 60, 14 * 60),
)
def test_time_agrees_with_the_standard_library(moment: datetime, offset_minutes: int) -> None:
    zoned = moment.replace(tzinfo=UTC).astimezone(timezone(timedelta(minutes=offset_minutes)))
    expected_ms = (moment - datetime(1970, 1, 1)) // timedelta(milliseconds=1)
    assert parse_time_ms(zoned.isoformat()) == expected_ms


@pytest.mark.parametrize(
    ("url", "identity"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTP://Example.COM:80?Q=A#part", "http://example.com/?Q=A"),
        ("https://example.com:443/A", "https://example.com/A"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com:/", "http://example.com/"),
        (" \thttp://example.com/a\n", "http://example.com/a"),
        ("http://user:Pass@Example.com/", "http://user:Pass@example.com/"),
        ("http://[2001:DB8::1]:8080/x", "http://[2001:db8::1]:8080/x"),
        ("http://BÜCHER.example/ü?ö", "http://xn--bcher-kva.example/ü?ö"),
        ("http://straße.de/", "http://xn--strae-oqa.de/"),
        ("http://例え。テスト/", "http://xn--r8jz45g.xn--zckzah/"),
        ("http://a.de/b/../c//d?x=1&&y#", "http://a.de/b/../c//d?x=1&&y"),
        ("http://a.de/b? #part", "http://a.de/b?"),
        ("http://a.de/%7Eu/?", "http://a.de/%7Eu/?"),
        ("http://my_host/a b", "http://my_host/a b"),
        ("http://a.de./", "http://a.de./"),
    ],
)
def test_identity_is_only_safe_syntax(url: str, identity: str) -> None:
    assert page_identity(url) == identity


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "no URL"),
        (" \n", "no URL"),
        ("/a/b", "relative URL"),
        ("//example.com/a", "relative URL"),
        ("example.com/a", "relative URL"),
        ("dns:example.com", "scheme 'dns'"),
        ("ftp://example.com/", "scheme 'ftp'"),
        ("javascript:alert(1)", "scheme 'javascript'"),
        ("http:/example.com/", "without a host"),
        ("http:///path", "without a host"),
        ("http://:80/", "without a host"),
        ("http://../", "impossible host"),
        ("http://a b/", "impossible host"),
        ("http://a%20b/", "impossible host"),
        ("http://[::1/", "impossible host"),
        ("http://a.de:99999/", "impossible port"),
        ("http://a.de/\0", "control characters"),
        ("http://a.de/\x1b[31m", "control characters"),
        ("http://a.de/a\nb", "control characters"),
        ("http://a.de/\ud800", "not valid Unicode"),
        ("http://a.de/" + "a" * URL_BYTES_MAX, "longer than"),
        ("http://a.de/" + "é" * (URL_BYTES_MAX // 2), "longer than"),
        ("http://a.de/" + "a" * 10_000_000, "longer than"),
    ],
)
def test_what_is_no_page_url_is_refused_with_a_reason(url: str, reason: str) -> None:
    with pytest.raises(BadEvent, match=re.escape(reason)) as caught:
        page_identity(url)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


url_texts = st.one_of(
    st.text(max_size=40),
    st.builds(
        "{}://{}{}{}".format,
        st.sampled_from(["http", "HTTPS", "hTTp"]),
        st.text(alphabet="aB.ß-_Éİ例:@[]%0129。", max_size=15),
        st.sampled_from(["", ":80", ":443", ":", ":8080"]),
        st.text(alphabet="/aB?#&=;%é \\", max_size=15),
    ),
)


@given(url_texts)
def test_identity_is_idempotent_and_fails_only_as_bad_event(url: str) -> None:
    try:
        identity = page_identity(url)
    except BadEvent:
        return
    assert page_identity(identity) == identity
    assert identity.startswith(("http://", "https://"))
    assert "#" not in identity


@given(url_texts, url_texts)
def test_resolving_gives_an_identity_or_a_bad_event(base: str, location: str) -> None:
    try:
        target = resolve_target(page_identity(base), location)
    except BadEvent:
        return
    assert page_identity(target) == target


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("https://B.de/x", "https://b.de/x"),
        ("//b.de/x", "http://b.de/x"),
        ("/x", "http://a.de/x"),
        ("x?y", "http://a.de/d/x?y"),
        ("?y", "http://a.de/d/e?y"),
        ("../x#f", "http://a.de/x"),
        (" /x\r\n\t y ", "http://a.de/x y"),
        ("/x?", "http://a.de/x?"),
        ("HTTP://a.de/x?", "http://a.de/x?"),
    ],
)
def test_targets_are_resolved_against_the_page(location: str, target: str) -> None:
    assert resolve_target("http://a.de/d/e?q", location) == target


@pytest.mark.parametrize("location", ["", " ", "mailto:a@b.de", "http://", "http://[bad/", "//[bad"])
def test_unusable_targets(location: str) -> None:
    with pytest.raises(BadEvent):
        resolve_target("http://a.de/", location)


PAGE = "http://a.de/x"


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"html": "<p>hi"}, "content"),
        ({"html": ""}, "content"),
        ({"text": "hi", "content_type": "application/pdf"}, "content"),
        ({"body": b"<p>hi"}, "content"),
        ({"body": b"<p>hi", "content_type": "Text/HTML; charset=x"}, "content"),
        ({"body": "<p>hi".encode("utf-16")}, "content"),
        ({"digest": "ABC"}, "content"),
        ({"status": 203, "html": "x"}, "content"),
        ({}, "skipped"),
        ({"status": 204}, "skipped"),
        ({"body": b"\x89PNG", "content_type": "image/png"}, "skipped"),
        ({"digest": "ABC", "content_type": "application/pdf"}, "skipped"),
        ({"body": b"PK\x03\x04\0\0\0"}, "skipped"),
        ({"status": 304}, "seen"),
        ({"revisit_of": "http://A.de:80/x#y"}, "seen"),
        ({"status": 404}, "gone"),
        ({"status": 410, "html": "gone"}, "gone"),
        ({"status": 404, "revisit_of": PAGE}, "gone"),
        ({"status": 403}, "failed"),
        ({"status": 429}, "failed"),
        ({"status": 500, "html": "oops"}, "failed"),
        ({"status": 206, "html": "part"}, "failed"),
        ({"status": 301}, "failed"),
        ({"status": 302, "redirect_to": "#top"}, "failed"),
        ({"status": 302, "redirect_to": "mailto:a@b.de"}, "failed"),
        ({"status": 0}, "failed"),
        ({"status": -5}, "failed"),
        ({"status": 999}, "failed"),
        ({"revisit_of": "urn:x"}, "failed"),
    ],
)
def test_what_a_fetch_tells(fields: dict[str, object], kind: str) -> None:
    finding = classify(CrawlEvent(url=PAGE, **fields))
    assert finding.kind == kind
    assert bool(finding.reason) == (kind in ("failed", "skipped"))
    assert finding.target is None


@pytest.mark.parametrize(
    ("fields", "target", "via"),
    [
        ({"status": 301, "redirect_to": "/y"}, "http://a.de/y", "http"),
        ({"status": 308, "redirect_to": "https://b.de"}, "https://b.de/", "http"),
        ({"status": 302, "redirect_to": "/y", "revisit_of": PAGE}, "http://a.de/y", "http"),
        ({"html": "<meta http-equiv=refresh>", "redirect_to": "y"}, "http://a.de/y", "meta"),
    ],
)
def test_what_leads_elsewhere(fields: dict[str, object], target: str, via: str) -> None:
    finding = classify(CrawlEvent(url=PAGE, **fields))
    assert (finding.kind, finding.target, finding.via) == ("redirect", target, via)


def test_what_another_page_had() -> None:
    finding = classify(CrawlEvent(url=PAGE, revisit_of="http://b.de/z", digest="sha1:abc"))
    assert (finding.kind, finding.target) == ("revisit", "http://b.de/z")


def test_check_event_gives_identity_and_version() -> None:
    event = CrawlEvent(url="HTTP://A.de", fetched_at="20240501120000", html="x")
    checked = check_event(event)
    assert (checked.url, checked.version, checked.finding.kind) == ("http://a.de/", MAY_NOON_MS, "content")
    assert checked.event is event


def test_unknown_schema_version_is_refused() -> None:
    with pytest.raises(BadEvent, match="schema version 2"):
        check_event(CrawlEvent(url=PAGE, v=2, html="x"))


def test_page_types() -> None:
    assert is_page_type(None)
    assert is_page_type("text/html,text/html")
    assert is_page_type("application/xhtml+xml;charset=utf-8")
    assert not is_page_type("text/css")
    assert not is_page_type("application/json")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"decision": "release_site"}, "without fetched_at"),
        ({"decision": "split_group", "fetched_at": 1}, "needs pass_from"),
        ({"decision": "hold_group", "fetched_at": 1, "pass_from": 0.9}, "has no pass_from"),
        ({"decision": "split_group", "fetched_at": 1, "pass_from": 0.0}, "not a similarity"),
    ],
)
def test_decisions_that_make_no_sense(fields: dict, complaint: str) -> None:
    with pytest.raises(BadEvent, match=complaint):
        check_event(CrawlEvent(url="http://a.example/", **fields))


def test_a_decision_is_no_fetch() -> None:
    event = CrawlEvent(url="http://a.example/", fetched_at=1, decision="release_group", status=404, html="<p>x")
    assert check_event(event).finding.kind == "decision"
