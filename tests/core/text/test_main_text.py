"""Main text: what the model keeps and leaves on generated pages of many kinds, and that no verdict rests on a scrap."""

from __future__ import annotations

import random
import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from dustream.core.text import main_model, scan_model
from dustream.core.text.one_pass import MAIN, OWN, READ, SCORES, one_pass, scan_blocks
from dustream.core.text.scan import scan
from dustream.core.text.scan_blocks import WORDS
from dustream.core.text.scan_features import FEATURES, LEVELS, MARGIN, OWN_FEATURES, SAMPLE_BYTES
from dustream.core.text.scan_main import REQUIRED_ROOM, choose
from dustream.core.text.scan_tables import FIRST_WEIGHT, word_weights
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.text.shingles import common_shingles, jaccard
from dustream.core.text.signature import sign, sign_page

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


WIDE_MENU = "".join(f'<li><a href="/{n}">{SITE.phrase(3)}</a></li>' for n in range(300))


def small_page(body: str, entry: str = "") -> str:
    """A few words beside a menu of a thousand."""
    return f"<html lang=en><body><nav><ul>{WIDE_MENU}{entry}</ul></nav><div class=body>{body}</div></body>"


def reference(name: str) -> str:
    return f"<h1>{name}</h1><p>Returns the graph of the {name}, with its nodes and edges.</p>"


ENTRY = '<li><a href="/new">a new entry of the menu</a></li>'


def test_small_pages_beside_a_wide_menu_are_compared_by_their_scraps_too() -> None:
    house, tower = small_page(reference("house")), small_page(reference("tower"))
    assert scan(house).required == b"house\nReturns the graph of the house, with its nodes and edges."
    full = [scan(each, mode="full").text for each in (house, tower)]
    assert jaccard(*(shingle_array(sign(text).shingles) for text in full)) > NEAR
    sets = [shingle_array(sign_page(each).shingles) for each in (house, tower)]
    assert common_shingles(*sets) == 0  # so neither is contained in the other
    assert similarity(house, house.replace("<li>", "<li class=entry>")) == 1.0
    assert 1.0 > similarity(house, small_page(reference("house"), ENTRY)) > NEAR


def test_a_scrap_that_is_on_every_page_leaves_the_visible_text_to_decide() -> None:
    def index(w: Words, entry: str = "") -> str:
        links = "".join(f'<li><a href="{w.word()}.html">{w.phrase(4)}</a></li>' for _ in range(300))
        return (
            f"<html lang=en><body><nav><ul>{links}{entry}</ul></nav><div class=body>{reference('house')}</div></body>"
        )

    one, other = index(Words("one")), index(Words("other"))
    assert scan(one).required == scan(other).required != b""
    assert similarity(one, other) < 0.1
    assert similarity(one, index(Words("one"), ENTRY)) > NEAR


@pytest.mark.parametrize("start", ["<header><h1>{}</h1></header>", "<h1>{}</h1>", "<div class=top><h1>{}</h1></div>"])
@pytest.mark.parametrize("body", ["<p>{}</p>", "<article><h2>Delivery</h2><p>{}</p></article>"])
def test_where_a_menu_is_most_of_the_main_text_the_headline_counts(start: str, body: str) -> None:
    """What these pages say beside is the same on all of them."""
    sentence = "Orders are sent on the next day, and returned goods are taken back."

    def item(name: str, entry: str = "") -> str:
        menu = f"<nav><ul>{WIDE_MENU}{entry}</ul></nav>"
        return f"<html lang=en><body>{start.format(name)}{menu}<div class=body>{body.format(sentence)}</div></body>"

    assert scan(item("camera")).required == b"camera"
    assert similarity(item("camera"), item("drill")) == 0.0
    assert similarity(item("camera"), item("camera", ENTRY)) > NEAR


def test_a_text_is_signed_with_what_its_page_requires() -> None:
    for entry in ("", "<li>cafe\u0301 au lait</li>"):  # not in composed form, so it is signed a second time
        given = small_page(reference("house"), entry)
        found = scan(given)
        assert sign_page(given) == sign(found.utf8, "en", found.required)
        assert sign_page(given).content_hash != sign(found.utf8).content_hash
    assert scan(page(ARTICLE)).required == b""


def test_the_longest_scrap_is_cut_the_same_way_every_time() -> None:
    given = small_page(f"<h1>{Words('a headline').phrase(400)}</h1><p>Next to nothing, and yet a sentence.</p>")
    found = scan(given)
    assert len(found.required) <= REQUIRED_ROOM and sign_page(given) == sign(found.utf8, "en", found.required)


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


TEXTS = st.lists(st.text("aB1 .!,x;Zé9", min_size=1, max_size=200).map(str.strip).filter(bool), min_size=1, max_size=40)


@settings(max_examples=60)
@given(TEXTS)
def test_compiled_counts_are_those_of_the_text(texts: list[str]) -> None:
    """Of the first bytes of each block, which vectors count, 32 at once."""
    html = "".join(f"<p>{text}</p>" for text in texts).encode()
    found = scan_blocks(html, READ | MAIN)
    room = one_pass(np.frombuffer(html, dtype=np.uint8), READ | MAIN)
    stride = len(found.blocks) + 2 * MARGIN
    own = room.parts[OWN][: len(OWN_FEATURES) * stride].reshape(-1, stride)[:, MARGIN:-MARGIN]
    for block, (start, end) in enumerate(found.blocks[:, :2].tolist()):
        sample = found.text[start : min(end, start + SAMPLE_BYTES)].tobytes()
        count = sum(byte in b".!?" for byte in sample)
        assert own[OWN_FEATURES.index("sentence_ends"), block] == min(LEVELS - 1, count), sample


def cut(value: str) -> list[str]:
    words = (word for part in re.findall("[A-Za-z0-9]+", value) for word in re.split("(?<=[a-z])(?=[A-Z])", part))
    return [word.lower() for word in words]


NAMES = st.lists(
    st.sampled_from([*sorted(word_weights())[::9], "siteNav", "main-menu", "h2Title", "x", "_", " ", "ARTICLEbody"]),
    max_size=6,
).map(" ".join)


@settings(max_examples=100)
@given(NAMES, NAMES)
def test_the_weights_of_a_container_are_those_of_the_words_of_its_names(name: str, identity: str) -> None:
    html = f'<div class="{name}" id="{identity}">a</div>'.encode()
    weights = word_weights()
    words = [*cut(name), "".join(identity.lower().split())]
    near, far = (sum(weights.get(word, (0, 0))[i] for word in words) for i in (0, 1))
    assert scan_blocks(html).containers[1, WORDS] == near * FIRST_WEIGHT + far


def test_learned_words_decide_where_nothing_else_does() -> None:
    """The same page twice, with two names of one container."""
    box = f"<p>{Words('a box').sentences(2)}</p>"
    texts = [scan(page(f'{ARTICLE}<div class="{name}">{box}</div>')).text for name in ("newsletter", "content")]
    assert [Words("a box").sentences(2) in text for text in texts] == [False, True]


@njit
def _chosen(blocks, containers, scores):  # type: ignore[no-untyped-def]
    chosen = np.zeros(blocks.shape[0], dtype=np.bool_)
    choose(blocks, containers, scores, chosen)
    return chosen


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ([5.0, 0.0, 0.6, 5.0], [True, True, True, True]),  # between two blocks of main text, and not far below
        ([5.0, 0.0, -2.0, 0.0, 5.0], [True, False, False, False, True]),  # one of them is
        ([0.0, 5.0, 0.0], [False, True, False]),  # on one side only
        ([1.0, -1.5, -5.0], [True, True, False]),  # the model is sure of none
    ],
)
def test_what_stands_between_blocks_of_main_text_belongs_to_it(logits: list[float], expected: list[bool]) -> None:
    found = scan_blocks("".join(f"<p>{SITE.sentences(5)}</p>" for _ in logits).encode(), READ | MAIN)
    scores = np.array([main_model.SCALE * logit for logit in logits], dtype=np.int16)
    assert _chosen(found.blocks, found.containers, scores).tolist() == expected
