"""What happens to a page over time: fetches, updates small and large, deaths and returns, late and repeated events."""

from __future__ import annotations

from typing import Literal, NamedTuple

from dustream.streams.generate.draws import Draws
from dustream.streams.generate.prose import Library, Prose, Text

FetchKind = Literal["content", "empty", "unchanged", "gone", "redirect", "meta_refresh"]
Step = Literal["same", "unchanged", "edit", "rewrite", "gone"]

EDIT_PER_MILLE = 15
"""A small edit touches at most this share of the shingles, so that copies of the text before it stay above τ."""

HISTORIES: tuple[tuple[tuple[Step, ...], int], ...] = (
    ((), 700),
    (("same",), 60),
    (("unchanged",), 35),
    (("edit",), 50),
    (("rewrite",), 40),
    (("same", "edit"), 15),
    (("rewrite", "unchanged"), 15),
    (("gone",), 40),
    (("same", "gone"), 10),
    (("gone", "same"), 20),
    (("gone", "rewrite"), 15),
)
"""What follows the first fetch, and how often of 1000. `same`: only the time in the navigation has changed."""

LATE_PER_MILLE = 15
REPEATED_PER_MILLE = 12


class Window(NamedTuple):
    """The time in which a part of the web is crawled: first fetches in the first 60 %, then everything else."""

    start_s: int
    length_s: int

    def first_fetch_s(self, draws: Draws) -> int:
        return self.start_s + draws.below(self.length_s * 6 // 10)


class Fetch(NamedTuple):
    """One event of a page. The log is in order of `position_s`; the newest `fetched_at_s` tells the page's state."""

    position_s: int
    fetched_at_s: int
    kind: FetchKind
    text: Text | None = None
    target: str | None = None


def once(
    draws: Draws, window: Window, kind: FetchKind, text: Text | None = None, target: str | None = None
) -> list[Fetch]:
    """A page that is fetched a single time."""
    time_s = window.first_fetch_s(draws)
    return [Fetch(time_s, time_s, kind, text, target)]


def life(
    steps: tuple[Step, ...], text: Text, draws: Draws, window: Window, library: Library, prose: Prose
) -> list[Fetch]:
    """The fetches of a page that starts as `text` and goes through the steps."""
    fetches = once(draws, window, "content", text)
    for step in steps:
        last = fetches[-1]
        left_s = window.start_s + window.length_s - last.fetched_at_s
        time_s = last.fetched_at_s + 1 + draws.below(left_s // 2)
        text = _next_text(step, text, library, prose)
        if step in ("gone", "unchanged"):
            fetches.append(Fetch(time_s, time_s, "gone" if step == "gone" else "unchanged"))
        else:
            fetches.append(Fetch(time_s, time_s, "content", text))
    return fetches


def _next_text(step: Step, text: Text, library: Library, prose: Prose) -> Text:
    if step == "edit":
        return library.near(text, EDIT_PER_MILLE)
    if step == "rewrite":
        return library.new(text.language, prose.draft())
    return text


def disturbed(fetches: list[Fetch], draws: Draws, library: Library, prose: Prose) -> list[Fetch]:
    """The same history as a real log delivers it: now and then an outdated fetch arrives late, or an event twice."""
    last = max(fetch.position_s for fetch in fetches)
    disturbances = []
    if draws.chance(LATE_PER_MILLE):
        fetched_at_s = min(fetch.fetched_at_s for fetch in fetches) - 1 - draws.below(3600)
        text = library.new(prose.language, prose.draft())
        late = Fetch(last + 1 + draws.below(600), fetched_at_s, "content", text)
        disturbances.append(late if draws.chance(750) else late._replace(kind="gone", text=None))
    if draws.chance(REPEATED_PER_MILLE):
        repeated = draws.pick(fetches)
        disturbances.append(repeated._replace(position_s=last + 1 + draws.below(600)))
    return fetches + disturbances


def text_at(fetches: list[Fetch], time_s: int) -> Text:
    """What other addresses of the page showed at that time: its newest text until then, or its first."""
    texts = [fetch for fetch in fetches if fetch.text is not None]
    known = [fetch for fetch in texts if fetch.fetched_at_s <= time_s] or texts[:1]
    text = max(known, key=lambda fetch: fetch.fetched_at_s).text
    assert text is not None
    return text


def final_state(fetches: list[Fetch]) -> Fetch:
    """The newest fetch that tells anything new."""
    return max((f for f in fetches if f.kind != "unchanged"), key=lambda fetch: fetch.fetched_at_s)
