"""One word, one meaning: class names are used once, and the glossary's words are those of the code."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import dustream
import dustream.core.errors as anchor

ROOT = Path(anchor.__file__).parents[1]
SOURCES = sorted(path for part in ("api", "core", "schemas", "streams") for path in (ROOT / part).rglob("*.py"))
COMPILED = {"kernel", "threaded_kernel", "inlined_kernel", "inner", "inlined", "merged", "intrinsic"}
PARAMETERS_MAX = 8
GLOSSARY = ROOT / "docs" / "explanation" / "glossary.md"


def defined_classes() -> list[str]:
    trees = (ast.parse(path.read_text()) for path in SOURCES)
    return [node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def glossary_words() -> list[str]:
    """Several words may share a line."""
    lines = re.findall(r"^\| \*\*(.+?)\*\* \|", GLOSSARY.read_text(), re.MULTILINE)
    return [word.strip() for line in lines for word in line.split(",")]


def test_no_class_name_is_used_twice() -> None:
    assert [name for name, count in Counter(defined_classes()).items() if count > 1] == []


def test_functions_have_at_most_eight_parameters() -> None:
    """Compiled functions are exempt: numba counts references to each array of a tuple at every access. Options of the
    public API are given by name and do not count."""
    long = [f"{path.name}: {function.name}" for path in SOURCES for function in _long_functions(path)]
    assert long == []


def _long_functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    nodes = ast.walk(ast.parse(path.read_text()))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [each for each in functions if _parameter_count(each) > PARAMETERS_MAX and not _is_compiled(each)]


def _parameter_count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    options = [] if function.name in dustream.__all__ else arguments.kwonlyargs
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *options)]
    return len([name for name in names if name not in ("self", "cls")])


def _is_compiled(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id in COMPILED for each in function.decorator_list)


def test_no_word_of_the_glossary_is_defined_twice() -> None:
    assert [word for word, count in Counter(glossary_words()).items() if count > 1] == []


def test_the_words_of_the_glossary_are_in_the_code() -> None:
    code = _spaced(" ".join(path.read_text() for path in SOURCES))
    missing = [word for word in glossary_words() if _spaced(word) not in code]
    assert len(glossary_words()) > 50 and missing == []


def _spaced(text: str) -> str:
    """Words as prose, identifiers and class names have them, written alike."""
    return re.sub(r"[-_\s]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)).lower()
