"""What a site is."""

from __future__ import annotations

import pytest

from dustream.core.urls.sites import site_of


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
