"""What a site is."""

from __future__ import annotations

import pytest
from publicsuffixlist import PSLFILE, PublicSuffixList, encode_idn

from dustream.core.urls.sites import site_of, site_of_host


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("http://www.example.co.uk/x", "example.co.uk"),
        ("https://a.github.io/x", "a.github.io"),
        ("https://b.github.io/x", "b.github.io"),
        ("https://github.io/", "github.io"),
        ("http://192.0.2.1:8080/", "192.0.2.1"),
        ("http://[2001:DB8::1]:80/", "[2001:db8::1]"),
        ("http://intranet/", "intranet"),
        ("http://a.b.unknown/", "b.unknown"),
        ("WWW.Example.COM.", "example.com"),
        ("http://user:p@www.example.com/", "example.com"),
        ("http://www.bücher.example.com/", "example.com"),
        ("http://www.straße.de/", "xn--strae-oqa.de"),
        ("http://strasse.de/", "strasse.de"),
        ("mailto:x@example.com", ""),
        ("http:///x", ""),
        ("", ""),
        ("http://" + "a." * 5000 + "com/", ""),
    ],
)
def test_site(url: str, site: str) -> None:
    assert site_of(url) == site


def test_site_is_by_the_whole_public_suffix_list() -> None:
    whole = PublicSuffixList()
    with open(PSLFILE, encoding="utf-8") as lines:
        rules = [line.split()[0] for line in lines if line.strip() and not line.startswith("//")]
    assert len(rules) > 5_000
    for rule in rules:
        suffix = encode_idn(rule.lstrip("!").replace("*", "any"))
        for host in (suffix, f"site.{suffix}", f"www.site.{suffix}"):
            assert site_of_host(host) == (whole.privatesuffix(host) or host)
