"""The architecture's import rules, checked over the source itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dustream.core.errors as anchor

ROOT = Path(anchor.__file__).parents[1]
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"

KERNELS = "core/kernels"  # keeps machine code in files, and says how long compiling takes
FORBIDDEN = {
    "core": {"dustream.streams", "faust", "confluent_kafka", "aiokafka", "rocksdict", "io", "os", "pathlib", "socket",
             "subprocess", "tempfile", "shutil", "time", "random", "secrets", "uuid", "requests", "urllib.request",
             "http", "asyncio", "threading", "multiprocessing"},
    KERNELS: {"dustream.streams", "dustream.schemas", "faust", "confluent_kafka", "aiokafka", "rocksdict", "socket",
              "subprocess", "random", "secrets", "uuid", "requests", "urllib.request", "http", "asyncio"},
    "schemas": {"dustream.core", "dustream.streams", "faust", "confluent_kafka", "os", "pathlib", "time", "random"},
}  # fmt: skip
ALLOWED = {"threading.local"}  # starts no thread: it keeps those of others apart
FORBIDDEN_CALLS = {
    "core": {"open", "hash", "print", "input"},
    KERNELS: {"hash", "print", "input"},
    "schemas": {"open", "hash", "print"},
}


ARROWS = {
    "api": {"core", "core.once", "core.rules", "core.text", "core.urls", "schemas", "streams.cli",
            "streams.dedupe", "streams.embedded", "streams.kafka", "streams.questions", "streams.rules_io"},
    "core": {"core.containment", "core.groups", "core.kernels", "core.pages", "core.rules", "core.sites", "core.text",
             "core.tier2", "core.urls", "schemas"},
    "core.containment": {"core", "core.kernels", "core.text", "schemas"},
    "core.groups": {"core", "schemas"},
    "core.kernels": set(),
    "core.once": {"core", "core.containment", "core.kernels", "core.pages", "core.text", "core.tier2", "schemas"},
    "core.pages": {"core", "core.text", "schemas"},
    "core.rules": {"core", "core.kernels", "core.urls", "schemas"},
    "core.sites": {"core", "schemas"},
    "core.text": {"core", "core.kernels", "schemas"},
    "core.tier2": {"core", "core.containment", "core.kernels", "core.text", "schemas"},
    "core.urls": {"core"},
    "schemas": set(),
    "streams": {"core", "core.containment", "core.kernels", "core.once", "core.rules", "core.text", "core.tier2",
                "core.urls", "schemas", "streams.dedupe", "streams.embedded", "streams.engine", "streams.generate",
                "streams.kafka", "streams.once", "streams.questions", "streams.readers", "streams.store"},
    "streams.cli": {"core", "core.rules", "core.text", "core.tier2", "core.urls", "schemas", "streams",
                    "streams.dedupe", "streams.embedded", "streams.engine", "streams.generate", "streams.kafka",
                    "streams.kafka_serve", "streams.questions", "streams.readers", "streams.rules_io",
                    "streams.serve", "streams.store"},
    "streams.dedupe": {"core", "core.once", "core.text", "core.tier2", "core.urls", "schemas", "streams",
                       "streams.engine", "streams.questions", "streams.readers", "streams.store"},
    "streams.embedded": {"core", "core.kernels", "schemas", "streams.engine", "streams.store"},
    "streams.engine": {"core", "core.pages", "core.text", "core.tier2", "core.urls", "schemas", "streams",
                       "streams.readers", "streams.store"},
    "streams.generate": {"core", "core.kernels", "core.rules", "schemas", "streams"},
    "streams.kafka": {"core", "core.groups", "core.pages", "core.sites", "core.text", "core.tier2", "core.urls",
                      "schemas", "streams", "streams.engine", "streams.readers", "streams.store"},
    "streams.kafka_serve": {"core", "core.pages", "schemas", "streams.engine", "streams.kafka", "streams.questions",
                            "streams.serve"},
    "streams.once": {"core", "core.once", "core.pages", "core.rules", "core.urls", "schemas", "streams",
                     "streams.engine", "streams.store"},
    "streams.questions": {"core", "core.groups", "core.pages", "core.rules", "core.sites", "core.text", "core.tier2",
                          "core.urls", "schemas", "streams.engine", "streams.readers", "streams.store"},
    "streams.readers": {"core", "core.text", "core.urls", "schemas"},
    "streams.reference": {"core", "schemas", "streams", "streams.cli", "streams.engine", "streams.kafka",
                          "streams.serve"},
    "streams.rules_io": {"core", "core.rules", "core.text", "core.urls", "schemas", "streams.readers"},
    "streams.serve": {"core", "core.pages", "core.rules", "core.text", "core.urls", "schemas", "streams.engine",
                      "streams.questions", "streams.store"},
    "streams.store": {"core", "streams"},
}  # fmt: skip
"""Which package may import which. `core` and `streams` without a second part are the modules right in that folder."""


def package_of(name: str) -> str:
    """Of a module of ours, such as dustream.core.text.scan: core.text."""
    parts = name.split(".")[1:]
    if not parts or parts[0].startswith("_"):
        return "api"
    return ".".join(parts[:2]) if len(parts) > 1 and (ROOT / parts[0] / parts[1]).is_dir() else parts[0]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("dustream", *parts[1:])) if parts[0] == "api" else ".".join(("dustream", *parts))


def arrows() -> dict[str, set[str]]:
    """Which package imports which, now."""
    found: dict[str, set[str]] = {}
    for path in (file for part in ("api", "core", "schemas", "streams") for file in source_files(part)):
        here = package_of(module_name(path))
        nodes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom))
        there = {package_of(node.module) for node in nodes if node.module and node.module.startswith("dustream")}
        found.setdefault(here, set()).update(there - {here})
    return found


def test_packages_import_only_what_the_table_allows() -> None:
    """An arrow that nobody needs any more is taken out of the table, too."""
    assert arrows() == ARROWS


def test_the_table_in_the_docs_is_this_one() -> None:
    text = ARCHITECTURE.read_text().partition("| package | imports |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = (line.strip("| ").replace("`", "").split(" | ") for line in text.splitlines())
    assert {name: set(others.split(", ")) - {"nothing"} for name, others in rows} == ARROWS


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
    files = [path for path in source_files(part) if part == KERNELS or ROOT / KERNELS not in path.parents]
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
