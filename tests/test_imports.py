"""The architecture's import rules, checked over the source itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dustream.core.errors as anchor

ROOT = Path(anchor.__file__).parents[1]

FORBIDDEN = {
    "core": {"dustream.streams", "faust", "confluent_kafka", "aiokafka", "rocksdict", "io", "os", "pathlib", "socket",
             "subprocess", "tempfile", "shutil", "time", "random", "secrets", "uuid", "requests", "urllib.request",
             "http", "asyncio", "threading", "multiprocessing"},
    "schemas": {"dustream.core", "dustream.streams", "faust", "confluent_kafka", "os", "pathlib", "time", "random"},
}  # fmt: skip
ALLOWED = {"threading.local"}  # starts no thread: it keeps those of others apart
FORBIDDEN_CALLS = {"core": {"open", "hash", "print", "input"}, "schemas": {"open", "hash", "print"}}


def source_files(part: str) -> list[Path]:
    return sorted(path for path in (ROOT / part).rglob("*.py"))


def imported(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = {f"{node.module}.{alias.name}" for alias in node.names} - ALLOWED
            names |= parts | {node.module} if parts else parts
    return names


def violations(part: str, source: str) -> list[str]:
    tree = ast.parse(source)
    bad = [
        name for name in imported(tree) if any(name == rule or name.startswith(rule + ".") for rule in FORBIDDEN[part])
    ]
    calls = [node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return sorted(bad) + sorted(set(calls) & FORBIDDEN_CALLS[part])


@pytest.mark.parametrize("part", sorted(FORBIDDEN))
def test_part_imports_nothing_it_must_not(part: str) -> None:
    files = source_files(part)
    assert files, "the source was not found"
    found = {str(path.relative_to(ROOT)): bad for path in files if (bad := violations(part, path.read_text()))}
    assert found == {}


def test_the_rule_itself_catches_offenders() -> None:
    assert violations("core", "from dustream.streams import x\nimport os.path\nhash('a')") == [
        "dustream.streams", "dustream.streams.x", "os.path", "hash",
    ]  # fmt: skip
    assert violations("core", "from threading import local") == []
    assert violations("core", "from threading import Thread, local") == ["threading", "threading.Thread"]


def test_wheel_lists_every_package() -> None:
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    there = {
        ".".join(("dustream", *path.parent.relative_to(ROOT).parts))
        for part in ("core", "schemas", "streams")
        for path in (ROOT / part).rglob("__init__.py")
    }
    assert listed == there | {"dustream"}
