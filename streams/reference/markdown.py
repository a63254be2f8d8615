"""Markdown for the reference pages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

_EXAMPLE = re.compile(r"(?:^>>> .*\n(?:.+\n?)*)", re.M)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def block(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.strip(chr(10))}\n```\n"


def docstring(thing: object) -> str:
    """A docstring with its examples as code blocks."""
    text = inspect.cleandoc(inspect.getdoc(thing) or "")
    return _EXAMPLE.sub(lambda match: block(match[0], "pycon"), text + "\n") if text else ""


def sentence(text: str) -> str:
    """A help text as a sentence."""
    text = text.strip()
    first = text.partition(" ")[0]
    begun = text if "_" in first or "=" in first else text[:1].upper() + text[1:]
    return begun + ("" if not text or text.endswith((".", "?")) else ".")
