"""A text's language, as a primary subtag (BCP 47: "zh" of "zh-Hans-CN"); "" where it is unknown."""

from __future__ import annotations

import re

from resiliparse.parse.lang import detect_fast

# The start of a text is enough, and the detector's cost grows with it (about 45 µs for this many).
SAMPLE_CHARS = 600

# Above this out-of-place rank the detector's answers are mostly wrong (its documentation says 1,200).
RANK_MAX = 1200

# A script that is one language's own says more than letter statistics. Order matters: Japanese and Korean pages
# contain Han characters, too.
_SCRIPTS = (
    ("ja", re.compile("[\u3041-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7a3\u1100-\u11ff]")),
    ("zh", re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("th", re.compile("[\u0e01-\u0e5b]")),
    ("lo", re.compile("[\u0e81-\u0edf]")),
    ("km", re.compile("[\u1780-\u17ff]")),
    ("my", re.compile("[\u1000-\u109f]")),
)
_SCRIPT_SHARE_MIN = 0.1

_SUBTAG = re.compile(r"\s*([A-Za-z]{2,3})(?![A-Za-z0-9])")


def primary_subtag(tag: str) -> str:
    """ "zh-CN", "zh_TW" → "zh"; "" for what is no language tag ("x-default", "english")."""
    match = _SUBTAG.match(tag)
    return match[1].lower() if match else ""


def detect_language(text: str) -> str:
    """By script where that decides, else by letter statistics of the first SAMPLE_CHARS characters."""
    sample = text[:SAMPLE_CHARS]
    if not sample.isascii():
        for lang, script in _SCRIPTS:
            if len(script.findall(sample)) > _SCRIPT_SHARE_MIN * len(sample):
                return lang
    if not sample.strip():
        return ""
    lang, rank = detect_fast(sample, cutoff=RANK_MAX)
    return "" if lang == "unknown" or rank > RANK_MAX else str(lang)
