"""What `dustream why` says of the criterion that decided."""

from __future__ import annotations

from dustream.core.pages.rows import PageRow
from dustream.core.winners import Market
from dustream.streams.questions.criteria import decision
from dustream.streams.questions.pages import KnownPage


def test_a_canonical_link_that_decides_is_told() -> None:
    old = KnownPage("https://a.example/1.0/x", PageRow(1, 1, "content", canonical="other", popularity=1e6))
    stable = KnownPage("https://a.example/stable/x", PageRow(2, 2, "content", canonical="self"))
    said = decision(Market(), old, stable)
    assert (said.criterion, said.better) == ("canonical", stable.url)
    assert said.better_value == "names itself as canonical"
    assert said.worse_value == "names another page of its site as canonical"
