"""Signatures: the compiled pass against plain Python, datasketch, the golden bytes, and the laws."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dustream.core.text import minhash, shingles, tokens
from dustream.core.text.extractors import TextSource
from dustream.core.text.language import detect_language, primary_subtag
from dustream.core.text.permutations import ADDENDS, MULTIPLIERS
from dustream.core.text.scan import scan
from dustream.core.text.shingle_bytes import shingle_array, shingle_count
from dustream.core.text.signature import minhash_array, sign, sign_page
from dustream.schemas.signature import SIGNATURE_VERSION, PageSignature

GOLDEN = Path(__file__).parents[2] / "golden" / "signature"
MASK = 0xFFFFFFFFFFFFFFFF
WORDS = st.lists(st.sampled_from(["a", "b", "c", "dog", "Émile", "中", "文", "ไทย", "слово"]), max_size=80)


def oracle_shingles(token_hashes: list[int]) -> list[int]:
    padded = token_hashes + [0x27D4EB2F165667C5] * 4
    found = set()
    for i in range(len(token_hashes)):
        h = 0
        for token in padded[i : i + 5]:
            h = (((h << 29) | (h >> 35)) & MASK) ^ token
            h = (h * 0x9E3779B185EBCA87) & MASK
        h = ((h ^ (h >> 33)) * 0xFF51AFD7ED558CCD) & MASK
        h = ((h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53) & MASK
        h ^= h >> 33
        found.add((padded[i] >> 52 << 52) | (h & ((1 << 52) - 1)))
    return sorted(found)


def oracle_minhash(shingle_set: list[int]) -> list[int]:
    lowest = [0xFFFFFFFF] * 128
    for shingle in shingle_set:
        h = shingle & 0xFFFFFFFF
        h = ((h ^ (h >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
        h = ((h ^ (h >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
        h ^= h >> 16
        lowest = [min(low, (a * h + b) & 0xFFFFFFFF) for low, a, b in zip(lowest, MULTIPLIERS, ADDENDS, strict=True)]
    return lowest


@settings(max_examples=150)
@given(WORDS)
def test_compiled_pass_equals_plain_python(words: list[str]) -> None:
    text = " ".join(words)
    signature = sign(text)
    expected = oracle_shingles(tokens.token_hashes(text).tolist())
    assert shingle_array(signature.shingles).tolist() == expected
    assert minhash_array(signature).tolist() == oracle_minhash(expected)
    assert signature.token_count == len(tokens.explain_tokens(text))
    assert sum(signature.lengths) == len(expected) == shingle_count(signature.shingles)


@pytest.mark.parametrize("count", [1, 4, 5, 100, 5_000, 200_000])
@pytest.mark.parametrize("vocabulary", [1, 2, 50, 100_000])
def test_sorting_whatever_the_distribution(count: int, vocabulary: int) -> None:
    stream = np.random.default_rng(count).integers(0, vocabulary, count).astype(np.uint64)
    hashes = stream * np.uint64(0x9E3779B97F4A7C15)
    windows = np.empty(count, dtype=np.uint64)
    shingles.windows_into(
        np.append(hashes, np.zeros(shingles.SHINGLE_TOKENS, dtype=np.uint64)), count, windows, shingles.NO_SEED
    )
    assert np.array_equal(shingles.distinct_shingles(hashes), np.unique(windows))


@settings(max_examples=100)
@given(WORDS, WORDS)
def test_jaccard_is_that_of_the_sets(a: list[str], b: list[str]) -> None:
    sets = [shingle_array(sign(" ".join(words)).shingles) for words in (a, b)]
    left, right = (set(values.tolist()) for values in sets)
    expected = len(left & right) / len(left | right) if left | right else 1.0
    assert shingles.jaccard(*sets) == expected


def test_length_vector_follows_first_tokens() -> None:
    table = np.zeros(tokens.BUCKETS, dtype=np.uint8)
    table[int(tokens.token_hashes("b")[0]) >> 52] = 1
    assert shingles.length_vector(shingle_array(sign("a b c b d").shingles), table).tolist() == [3, 2]
    assert shingles.DEFAULT_TABLE.max() == 2
    assert np.bincount(shingles.DEFAULT_TABLE).min() > 1300  # about a third each


def test_datasketch_computes_the_same_and_agrees() -> None:
    from datasketch import MinHash

    a, b = (sign(" ".join(f"w{i}" for i in range(first, first + 400))) for first in (0, 40))
    sketches = [minhash.to_datasketch(signature) for signature in (a, b)]
    estimate = minhash.minhash_jaccard(minhash_array(a), minhash_array(b))
    assert sketches[0].jaccard(sketches[1]) == estimate
    assert abs(estimate - shingles.jaccard(shingle_array(a.shingles), shingle_array(b.shingles))) < 0.12
    own = MinHash(128, seed=1, hashfunc=lambda shingle: shingle & 0xFFFFFFFF)
    own.update_batch(shingle_array(a.shingles).tolist())
    assert own.jaccard(sketches[0]) == 1.0
    assert np.array_equal(own.permutations, sketches[0].permutations)


def test_three_of_four_hundred_chinese_characters() -> None:
    rng = random.Random(7)
    for _ in range(20):
        page = [chr(rng.randrange(0x4E00, 0x9FA5)) for _ in range(400)]
        changed = list(page)
        for place in rng.sample(range(400), 3):
            changed[place] = "變"
        a, b = (shingle_array(sign("".join(text)).shingles) for text in (page, changed))
        assert shingles.jaccard(a, b) >= 0.9


def test_nothing_to_compare_is_recognisable() -> None:
    for text in ("", " \n", "?! … —", b""):
        signature = sign(text)
        assert (signature.token_count, signature.shingles, signature.lengths) == (0, b"", (0, 0, 0))
        assert signature == sign("")
        assert set(minhash_array(signature).tolist()) == {0xFFFFFFFF}


BLOCKS = st.lists(st.lists(st.sampled_from(["alpha", "beta", "中文", "delta"]), min_size=1, max_size=8), min_size=1)


@settings(max_examples=50)
@given(BLOCKS, st.sampled_from(["div", "section", "p"]), st.sampled_from(["b", "i", "span class=x"]))
def test_markup_only_changes_keep_the_content_hash(blocks: list[list[str]], block: str, inline: str) -> None:
    plain = "".join(f"<p>{' '.join(words)}</p>" for words in blocks)
    name = inline.split()[0]
    dressed = "\n\n".join(
        f"<{block} id=b{i}>\n  " + " ".join(f"<{inline}>{word}</{name}>" for word in words) + f"<!-- {i} --></{block}>"
        for i, words in enumerate(blocks)
    )
    full = TextSource("full")
    a, b = (sign_page(f"<html lang=en><body>{body}</body></html>", source=full) for body in (plain, dressed))
    assert a.content_hash == b.content_hash
    assert a == b


# --- golden bytes: generate_golden.py writes them anew, which takes a new SIGNATURE_VERSION


def golden(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))


def fingerprint(signature: PageSignature) -> dict[str, object]:
    """The hash of the signature's bytes, and enough of its parts to see which one moved."""
    return {
        "bytes_blake2b": hashlib.blake2b(msgspec.msgpack.encode(signature), digest_size=16).hexdigest(),
        "content_hash": signature.content_hash.hex(),
        "token_count": signature.token_count,
        "lengths": list(signature.lengths),
        "first_shingles": [f"{shingle:016x}" for shingle in shingle_array(signature.shingles)[:3]],
        "first_minhashes": minhash_array(signature)[:3].tolist(),
    }


def expand(text: str) -> str:
    """Golden texts are written as they are, long ones as "N×unit"."""
    count, cross, unit = text.partition("×")
    return unit * int(count) if cross and count.isdigit() else text


def text_fingerprint(text: str) -> dict[str, object]:
    return fingerprint(sign(expand(text), "xx"))


def page_fingerprint(given: dict[str, Any]) -> dict[str, object]:
    """Of a golden page: its main and its full text, and the signature of each as a run makes it."""
    page: str | bytes = "".join(map(expand, given["page"]))
    if "charset" in given:
        page = ("\ufeff" * given.get("mark", False) + page).encode(given["charset"])
    content_type = given.get("content_type")
    return {
        mode: {"text": scan(page, content_type=content_type, mode=mode).text}
        | fingerprint(sign_page(page, content_type=content_type, source=TextSource(mode)))
        for mode in ("main", "full")
    }


@pytest.mark.parametrize("name", sorted(golden("texts")))
def test_golden_bytes_of_texts(name: str) -> None:
    assert text_fingerprint(golden("texts")[name]) == golden("signatures")[name]


@pytest.mark.parametrize("name", sorted(golden("pages")))
def test_golden_bytes_of_pages(name: str) -> None:
    assert page_fingerprint(golden("pages")[name]) == golden("page_signatures")[name]


def test_golden_files_are_of_this_version() -> None:
    """Other bytes of the same version would meet those of an old state unnoticed."""
    assert golden("version") == {"signature_version": SIGNATURE_VERSION}


def test_a_second_process_does_not_compile() -> None:
    sign("warm up")
    program = "import sys, dustream; dustream.sign('x y z'); assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ), timeout=60)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [("zh-CN", "zh"), ("EN_us", "en"), (" de ", "de"), ("x-default", ""), ("english", ""), ("", ""), ("fil", "fil")],
)
def test_primary_subtag(tag: str, expected: str) -> None:
    assert primary_subtag(tag) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("This is a text in English about the pages which people read on the web every day of the year.", "en"),
        ("Dies ist ein deutscher Text über Seiten, die von den Menschen im Netz jeden Tag gelesen werden.", "de"),
        ("这是一个关于分布式系统的中文网页。", "zh"),
        ("これは分散システムについての日本語のページです。", "ja"),
        ("이것은 분산 시스템에 관한 한국어 페이지입니다.", "ko"),
        ("นี่คือหน้าเว็บภาษาไทย", "th"),
        ("Ceci est un texte en français sur les pages que des gens lisent tous les jours et qui sont en ligne.", "fr"),
        ("Este es un texto en español sobre las páginas que la gente lee todos los días y que están en la red.", "es"),
        ("Это текст на русском языке о страницах, которые люди читают в сети и о том, что они не всегда новые.", "ru"),
        ("Це текст українською мовою про сторінки, які люди читають у мережі та про те, що вони не завжди нові.", "uk"),
        ("Dette er en tekst på norsk om sider som folk leser på nettet, og hva de ikke har sett av det før nå.", "no"),
        ("", ""),
    ],
)
def test_detect_language(text: str, expected: str) -> None:
    assert detect_language(text) == expected


def test_little_words_decide_before_letters() -> None:
    """English words in a list of foreign names: letter statistics alone are led astray."""
    text = "The map of the Zürich, Łódź and Škocjan stations, and where you can change from the one to the other."
    assert detect_language(text.encode()) == "en"


def test_a_text_without_little_words_is_judged_by_its_letters() -> None:
    assert detect_language("Straßenbahnhaltestelle Verkehrsbetriebe Fahrgastinformation Störungsmeldungen") == "de"


@pytest.mark.parametrize(
    "tag",
    [
        'lang="en"', "lang=en-US", "lang='ZH_Hant_TW'", 'lang=" de "', 'lang="x-default"', 'lang="english"', 'lang=""',
        'lang="d&#101;"', 'lang="e1"', 'lang="fil"', 'lang="en&amp;"', 'xml:lang="fr"', 'lang="" xml:lang="fr"',
        'lang="q" xml:lang="fr"', f'lang="en-{"x" * 60}"', 'lang="en\0"', 'lang="é"', "",
    ],
)  # fmt: skip
@pytest.mark.parametrize("content", ["<p>some words", "<p>größere Wörter", "<meta http-equiv=refresh content=1><p>x y"])
def test_a_page_is_signed_in_one_call_as_it_is_read_and_then_signed(tag: str, content: str) -> None:
    page = f"<html {tag}>{content}"
    found = scan(page)
    for each in (page, page.encode()):
        assert sign_page(each) == sign(found.utf8, found.lang)
        assert sign_page(each, lang="it-IT") == sign(found.utf8, "it")


def test_language_of_a_page() -> None:
    body = "<p>This is a text in English about the pages which people read on the web every day of the year.</p>"
    assert sign_page(f"<html lang='fr-CA'>{body}").lang == "fr"
    assert sign_page(f"<html>{body}").lang == "en"
    assert sign_page(f"<html lang='fr-CA'>{body}", lang="nl").lang == "nl"
