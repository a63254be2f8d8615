"""One conversion of host names, for identities, normalised URLs and sites alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dustream.core.urls.hosts import ascii_host
from dustream.core.urls.identity import page_identity
from dustream.core.urls.sites import site_of
from dustream.core.urls.standard import standard_form


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("straße.de", "xn--strae-oqa.de"),
        ("STRAẞE.de", "xn--strae-oqa.de"),
        ("Βόλος.gr", "xn--nxasmm1c.gr"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("bu\u0308cher.example", "xn--bcher-kva.example"),
        ("日本語。ＪＰ", "xn--wgv71a119e.jp"),
        ("so\u00adft.example", "soft.example"),
        ("a_b.ü.example", "a_b.xn--tda.example"),
        ("☃.net", "xn--n3h.net"),
    ],
)
def test_identity_normal_form_and_site_agree(host: str, expected: str) -> None:
    assert ascii_host(host) == expected
    assert page_identity(f"http://{host}/") == f"http://{expected}/" == standard_form(f"http://{host}/")
    assert site_of(f"http://{host}/") == site_of(f"http://{expected}/")


@pytest.mark.parametrize("host", ["a／b.example", "a\ufffdb.example", "ａ＠b.example", "a：80"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(UnicodeError):
        ascii_host(host)


@given(st.text(min_size=1, max_size=20))
def test_once_in_ascii_a_host_stays_as_it_is(host: str) -> None:
    try:
        once = ascii_host(host)
    except UnicodeError:
        return
    assert once.isascii() and ascii_host(once) == once
