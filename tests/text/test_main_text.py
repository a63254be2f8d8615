"""Main text: what the model keeps and leaves on generated pages of many kinds, and that no verdict rests on a scrap."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest

from dustream.core.text import main_model, scan_model
from dustream.core.text.one_pass import MAIN, READ, SCORES, one_pass, scan_blocks
from dustream.core.text.scan import scan
from dustream.core.text.scan_features import FEATURES, LEVELS
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.text.shingles import jaccard
from dustream.core.text.signature import sign_page

NEAR = 0.9
SYLLABLES = (
    "ba",
    "be",
    "bo",
    "da",
    "de",
    "di",
    "fa",
    "ga",
    "go",
    "ha",
    "ka",
    "ke",
    "la",
    "le",
    "li",
    "lo",
    "ma",
    "mi",
    "no",
)


class Words:
    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def word(self) -> str:
        return "".join(self._random.choices(SYLLABLES, k=self._random.randint(1, 3)))

    def phrase(self, count: int) -> str:
        return " ".join(self.word() for _ in range(count))

    def sentences(self, count: int) -> str:
        return " ".join(f"{self.phrase(9).capitalize()}, {self.phrase(5)}." for _ in range(count))


SITE = Words("what every page of the site has")
MENU = "<ul>" + "".join(f'<li><a href="/{n}">{SITE.phrase(2)}</a></li>' for n in range(12)) + "</ul>"
NAV = f'<div class="nav">{MENU}</div>'
FOOTER = f'<div class="footer">{MENU}<p>Copyright 2024 {SITE.phrase(4)}. All rights reserved.</p></div>'
TERMS = SITE.sentences(5)  # some seventy words


def page(body: str) -> str:
    return f"<html><body>{NAV}<div class=content>{body}</div>{FOOTER}</body></html>"


def similarity(first: str, second: str) -> float:
    a, b = sign_page(first, lang="en"), sign_page(second, lang="en")
    return 1.0 if a.content_hash == b.content_hash else jaccard(shingle_array(a.shingles), shingle_array(b.shingles))


# --- pages of one template that say different things


def shop(w: Words) -> str:
    rows = "".join(f"<tr><th>{w.phrase(2)}</th><td>{w.phrase(2)}</td></tr>" for _ in range(10))
    return f"<h1>{w.phrase(3)}</h1><p class=price>{len(w.word())}9.99 EUR</p><table>{rows}</table><p>{TERMS}</p>"


def results(w: Words) -> str:
    rows = "".join(f"<tr><td>{w.word()}</td><td>{w.word()}</td><td>{n} : 2</td></tr>" for n in range(12))
    return f"<h2>{w.phrase(2)}</h2><table>{rows}</table><p>{TERMS}</p>"


def directory(w: Words) -> str:
    entries = "".join(f"<li>{w.phrase(2)}, {w.word()} street {n}</li>" for n in range(15))
    return f"<h1>{w.phrase(1)}</h1><ul>{entries}</ul><p>{TERMS}</p>"


def lyrics(w: Words) -> str:
    verses = "".join("<p>" + "<br>".join(w.phrase(5) for _ in range(4)) + "</p>" for _ in range(4))
    return f"<h1>{w.phrase(3)}</h1>{verses}<div class=box><p>{TERMS}</p></div>"


def forum(w: Words) -> str:
    posts = "".join(f'<div class="post reply"><b>{w.word()}</b><p>{w.phrase(14)}</p></div>' for _ in range(6))
    return f"<h1>{w.phrase(4)}</h1>{posts}<div class=rules><h3>Rules</h3><p>{TERMS}</p></div>"


def release_index(w: Words) -> str:
    links = "".join(f'<li><a href="{w.word()}.html">{w.phrase(4)}</a></li>' for _ in range(150))
    return f"<h1>Release notes</h1><ul>{links}</ul>"


def enumeration(w: Words) -> str:
    rows = "".join(f"<tr><td><a href=#{n}>{w.word().upper()}</a></td></tr>" for n in range(8))
    methods = f"<table><tr><td>static {w.word()}</td><td>valueOf(String name)</td></tr></table>"
    return f"<h2>Enum {w.word()}</h2><ul><li><table>{rows}</table></li><li>{methods}</li></ul><p>{TERMS[:90]}.</p>"


def short_page(w: Words) -> str:
    return f"<h1>{w.phrase(2)}</h1><p>{w.phrase(8)}.</p>"


KINDS = (shop, results, directory, lyrics, forum, release_index, enumeration, short_page)


@pytest.mark.parametrize("kind", KINDS)
def test_pages_that_share_boilerplate_are_no_duplicates(kind) -> None:  # type: ignore[no-untyped-def]
    notice = f'<div class="notice">This documents an unmaintained version. {SITE.sentences(1)}</div>'
    for around in ("", notice):
        pages = [page(around + kind(Words(f"{kind.__name__} {n}"))) for n in range(4)]
        worst = max(similarity(first, second) for first, second in combinations(pages, 2))
        assert worst < NEAR, worst


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_page_is_about_is_in_its_text(kind) -> None:  # type: ignore[no-untyped-def]
    text, body = scan(page(kind(Words("one")))).text, kind(Words("one"))
    own = set(scan(f"<body>{body}", mode="full").text.replace(TERMS, "").replace(f"{TERMS[:90]}.", "").split())
    assert len(own & set(text.split())) >= 0.7 * len(own)


# --- names


ARTICLE = "".join(f"<p>{Words(f'paragraph {n}').sentences(4)}</p>" for n in range(6))
PART = f"<h2>{Words('part').phrase(3)}</h2><p>{Words('part').sentences(4)}</p><p>{Words('rest').sentences(3)}</p>"


@pytest.mark.parametrize(
    "attribute",
    [
        "id=in-more-detail", "id=the-comments-argument", "id=type-promotion", "id=related-work", "id=advertising",
        "id=4fad7130-94ad-4c1e-8ad1-52ad0c9e11ad", "class=c4ad71", "class=mw-3ads2", "id=sharing-data-between-threads",
    ],
)  # fmt: skip
@pytest.mark.parametrize("tag", ["section", "div"])
def test_words_in_ids_and_parts_of_words_do_not_delete_text(attribute: str, tag: str) -> None:
    plain = page(f"<h1>Manual</h1>{ARTICLE}<{tag}>{PART}</{tag}>{ARTICLE}")
    named = page(f"<h1>Manual</h1>{ARTICLE}<{tag} {attribute}>{PART}</{tag}>{ARTICLE}")
    assert scan(named).text == scan(plain).text and Words("rest").sentences(3) in scan(named).text


def test_a_heading_that_links_to_itself_is_no_link() -> None:
    def manual(heading: str) -> str:
        parts = "".join(
            heading.format(text=Words(f"h{n}").phrase(3), n=n) + f"<p>{Words(f'p{n}').sentences(2)}</p>"
            for n in range(8)
        )
        return page(f"<h1>Manual</h1>{parts}")

    linked, plain = manual('<h4><a href="#m{n}">{text}</a></h4>'), manual("<h4>{text}</h4>")
    assert scan(linked).text == scan(plain).text
    assert all(Words(f"h{n}").phrase(3) in scan(linked).text for n in range(8))


def test_a_heading_that_leads_elsewhere_is_a_link() -> None:
    found = scan_blocks(b"<h3><a href=/next>Next</a></h3><h3><a href='#here'>Here</a></h3>", READ | MAIN)
    assert found.blocks[:, 2].tolist() == [4, 0]


# --- scraps and boilerplate


def test_a_footer_is_not_the_main_text_of_a_small_page() -> None:
    footer = "<div class=footer>Previous topic: <a href=a>one</a>. Created using Sphinx 1.2.3 by the authors.</div>"
    text = scan(
        f"<body>{NAV}<div class=body><h1>Bonded graphs</h1><p>Returns the graph of bonds.</p></div>{footer}"
    ).text
    assert "Returns the graph of bonds" in text and "Bonded graphs" in text


@pytest.mark.parametrize("seed", range(6))
def test_the_page_does_not_stay_the_same_when_all_around_a_scrap_is_replaced(seed: int) -> None:
    """A sentence beside thousands of words that are links or labels."""

    def portal(n: int) -> str:
        w = Words(f"portal {seed} {n}")
        tiles = "".join(
            f'<div class=tile><a href="/{i}">{w.phrase(5)}</a><span>{w.word()}</span></div>' for i in range(80)
        )
        return f"<body><h1>Deals</h1><p>{Words('same').sentences(1)}</p><div class=grid>{tiles}</div></body>"

    assert similarity(portal(1), portal(2)) < 0.5


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("C", "C++"),
        ("C++", "C#"),
        ("✓", "✗"),
        ("★★★★★", "★☆☆☆☆"),
        ("-5", "5"),
        ("Rating: ★★★", "Rating: ★★☆"),
        ("+", "-"),
    ],
)
def test_symbols_count_where_they_are_all_of_a_text(first: str, second: str) -> None:
    assert similarity(f"<p>{first}</p>", f"<p>{second}</p>") < NEAR
    assert similarity(f"<p>{first}</p>", f"<div>{first}</div>") == 1.0


# --- the model


def test_the_model_asks_for_features_that_exist() -> None:
    found = scan_model.model()
    assert set(main_model.FEATURE_NAMES) <= set(FEATURES) and len(FEATURES) < 256
    assert found.questions.size * 4 == found.answers.size * 7  # seven questions of two bytes, eight answers
    assert found.questions[::2].max() < len(FEATURES)
    assert LEVELS <= 256 and abs(found.answers.astype(int)).reshape(-1, 8).max(1).sum() < 1 << 15  # no sum overflows


def test_compiled_scores_are_those_of_the_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked one by one, of the features of a page as the compiled pass left them in its last tile."""
    from dustream.core.text.one_pass import TILE_PART
    from dustream.core.text.scan_features import TILE

    html = page(forum(Words("scores")) + ARTICLE).encode()
    room = one_pass(np.frombuffer(html, dtype=np.uint8), READ | MAIN)
    count = len(scan_blocks(html, READ | MAIN).blocks)
    room = one_pass(np.frombuffer(html, dtype=np.uint8), READ | MAIN)
    tile, scores = room.parts[TILE_PART].reshape(-1, TILE), room.parts[SCORES]
    first = (count - 1) // TILE * TILE
    questions, answers = scan_model.model().questions.reshape(-1, 7, 2), scan_model.model().answers.reshape(-1, 8)
    for lane in range(count - first):
        totals = np.cumsum([answer_of(q, a, tile[:, lane]) for q, a in zip(questions, answers, strict=True)])
        assert scores[first + lane] in (totals[-1], totals[scan_model.EARLY_TREES - 1])


def answer_of(questions: np.ndarray, answers: np.ndarray, features: np.ndarray) -> int:
    node = 0
    for _ in range(3):
        feature, threshold = questions[node]
        node = 2 * node + 1 + int(features[feature] > threshold)
    return int(answers[node - 7])
