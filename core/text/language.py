"""A text's language, as a primary subtag (BCP 47: "zh" of "zh-Hans-CN"); "" where it is unknown.

By script where that decides; then by function words, which is cheap because the tokens are hashed anyway; then, for
texts without any (tables, code, other languages), by letter statistics.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray
from resiliparse.parse.lang import detect_fast

from dustream.core.kernels.compile import kernel
from dustream.core.kernels.hash_slots import find_key, key_table
from dustream.core.text.function_words import FUNCTION_WORDS
from dustream.core.text.tokens import hash_of_word, token_hashes

# The start of a text is enough, and the detector's cost grows with it (about 45 µs for this many).
SAMPLE_CHARS = 600
SAMPLE_BYTES = 4 * SAMPLE_CHARS
SAMPLE_TOKENS = 300
TAGS_CACHED_MAX = 1024

# Above this out-of-place rank the detector's answers are mostly wrong (its documentation says 1,200).
RANK_MAX = 1200

# A text is in a language if at least this many and this share of its tokens are function words of it, and no other
# language has more than this share of as many (the cost in agreement: docs/explanation/signatures.md).
WORDS_MIN = 6
WORDS_SHARE_MIN = 0.08
RUNNER_UP_SHARE_MAX = 0.75

# A script used by one language only is better evidence than letter statistics. Order matters: Japanese and Korean pages
# contain Han characters, too.
_SCRIPTS = {
    "ja": ((0x3041, 0x30FF),),
    "ko": ((0xAC00, 0xD7A3), (0x1100, 0x11FF)),
    "zh": ((0x3400, 0x4DBF), (0x4E00, 0x9FFF)),
    "th": ((0x0E01, 0x0E5B),),
    "lo": ((0x0E81, 0x0EDF),),
    "km": ((0x1780, 0x17FF),),
    "my": ((0x1000, 0x109F),),
}
_SCRIPTS_END = 0xD7A4
_SCRIPT_LANGUAGES = tuple(_SCRIPTS)
_NO_SCRIPT = len(_SCRIPTS)
_SCRIPT_SHARE_MIN = 0.1

_SUBTAG = re.compile(r"\s*([A-Za-z]{2,3})(?![A-Za-z0-9])")

LANGUAGES = tuple(FUNCTION_WORDS)

Chars = NDArray[np.uint32]


@lru_cache(maxsize=TAGS_CACHED_MAX)
def primary_subtag(tag: str) -> str:
    """ "zh-CN", "zh_TW" → "zh"; "" for what is no language tag ("x-default", "english")."""
    match = _SUBTAG.match(tag)
    return match[1].lower() if match else ""


def detect_language(text: str | bytes, tokens: NDArray[np.uint64] | None = None) -> str:
    """The language of a text; `tokens` are its hashed tokens, where they are known already."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if tokens is None:
        tokens = token_hashes(data)
    by_words = language_of_tokens(tokens, tokens.size, *word_table(), len(LANGUAGES))
    utf8 = np.frombuffer(data, dtype=np.uint8)
    return language_of(utf8, may_have_script(utf8), by_words)


def language_of(data: NDArray[np.uint8], has_script: bool, by_words: int) -> str:
    """The language of a text in UTF-8, given the results of `may_have_script` and `language_of_tokens`."""
    lang = script_language(chars_of(_sample(data))) if has_script else ""
    return lang or (LANGUAGES[by_words] if by_words >= 0 else _by_letters(_sample(data)))


def _sample(data: NDArray[np.uint8]) -> str:
    return data[:SAMPLE_BYTES].tobytes().decode("utf-8", "ignore")[:SAMPLE_CHARS]


@kernel
def may_have_script(data: NDArray[np.uint8]) -> bool:
    """Whether the sample has a lead byte of the scripts of `script_language`; most texts do not."""
    has = False
    for i in range(min(SAMPLE_BYTES, data.size)):
        has |= 0xE0 <= data[i] <= 0xED and data[i] != 0xE2  # E2: dashes, quotes, arrows
    return has


def chars_of(text: str) -> Chars:
    """The characters of a text as numbers."""
    return np.frombuffer(bytearray(text.encode("utf-32-le", "surrogatepass")), dtype=np.uint32)


def script_language(sample: Chars) -> str:
    """The language of the sample's script, "" if several languages use that script."""
    number = _script_of(sample, _script_table())
    return _SCRIPT_LANGUAGES[number] if number >= 0 else ""


@kernel
def _script_of(sample: Chars, scripts: NDArray[np.uint8]) -> int:
    counts = np.zeros(_NO_SCRIPT + 1, dtype=np.int64)
    for char in sample:
        counts[scripts[char] if char < _SCRIPTS_END else _NO_SCRIPT] += 1
    for number in range(_NO_SCRIPT):
        if counts[number] > _SCRIPT_SHARE_MIN * sample.size:
            return number
    return -1


@cache
def _script_table() -> NDArray[np.uint8]:
    """By character, the number of its script."""
    table = np.full(_SCRIPTS_END, _NO_SCRIPT, dtype=np.uint8)
    for number, ranges in enumerate(_SCRIPTS.values()):
        for first, last in ranges:
            table[first : last + 1] = number
    return table


def _by_letters(sample: str) -> str:
    if not sample.strip():
        return ""
    lang, rank = detect_fast(sample, cutoff=RANK_MAX)
    return "" if lang == "unknown" or rank > RANK_MAX else str(lang)


@cache
def word_table() -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """The function words, and a bit for each language that has the word."""
    languages: dict[int, int] = {}
    for number, words in enumerate(FUNCTION_WORDS.values()):
        for token in map(hash_of_word, words.split()):
            languages[token] = languages.get(token, 0) | 1 << number
    return key_table(languages, np.uint32, slots_per_entry=4)


@kernel
def language_of_tokens(
    tokens: NDArray[np.uint64], token_count: int, keys: NDArray[np.uint64], languages: NDArray[np.uint32], count: int
) -> int:
    """The number of the language with the most function words among the first tokens; -1 if none stands out."""
    hits = np.zeros(count, dtype=np.int64)
    sampled = min(token_count, SAMPLE_TOKENS)
    for i in range(sampled):
        token = tokens[i]
        slot = find_key(keys, token)
        if keys[slot] == token:
            for language in range(count):
                hits[language] += (languages[slot] >> np.uint32(language)) & np.uint32(1)
    best, most, second = -1, 0, 0
    for language in range(count):
        if hits[language] > most:
            best, most, second = language, hits[language], most
        elif hits[language] > second:
            second = hits[language]
    if most < max(WORDS_MIN, WORDS_SHARE_MIN * sampled) or second > RUNNER_UP_SHARE_MAX * most:
        return -1
    return best
