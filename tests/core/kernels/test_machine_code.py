"""Machine code on disk: what of it is used, and what is compiled again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

KERNELS = """
from typing import NamedTuple

from dustream.core.kernels.compile import kernel
from some_inner import plus


class {name}(NamedTuple):
    one: int
    other: int


@kernel
def added(pair: {name}) -> int:
    return plus(pair.one, pair.other)


def answer() -> int:
    return added({name}(1, {other}))
"""

INNER = """
from dustream.core.kernels.compile import inner


@inner
def plus(one: int, other: int) -> int:
    return one + other + {more}
"""

PROGRAM = """
import sys, some_kernels
print(some_kernels.answer(), "compiled" if "numba" in sys.modules else "from disk")
"""


def write(folder: Path, name: str = "Pair", other: int = 2, more: int = 0) -> None:
    modules = {"some_kernels": KERNELS.format(name=name, other=other), "some_inner": INNER.format(more=more)}
    for module, source in modules.items():
        path = folder / f"{module}.py"
        if not path.exists() or path.read_text() != source:
            path.write_text(source)


def answer(folder: Path, program: str = PROGRAM, **environment: str) -> str:
    code = {"NUMBA_CACHE_DIR": str(folder / "code")}
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=os.environ | code | environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def code_files(folder: Path) -> list[Path]:
    return sorted((folder / "code").rglob("*.kernel"))


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """A folder with kernels that are compiled."""
    write(tmp_path)
    assert answer(tmp_path) == "3 compiled"
    assert answer(tmp_path) == "3 from disk"
    return tmp_path


def test_code_for_a_class_that_is_there_no_more_is_compiled_again(known: Path) -> None:
    write(known, name="Couple", other=3)
    assert answer(known) == "4 compiled"
    assert answer(known) == "4 from disk"


def test_code_that_contains_a_changed_function_of_another_file_is_compiled_again(known: Path) -> None:
    write(known, more=10)
    assert answer(known) == "13 compiled"
    assert answer(known) == "13 from disk"
    assert len(code_files(known)) == 1


FIELDS = """
from typing import NamedTuple


class {name}(NamedTuple):
    {first}: int
    {second}: int
"""

READING = """
from typing import Any

from dustream.core.kernels.compile import kernel


@kernel
def one_of(pair: Any) -> int:
    return pair.one
"""

ASKING = """
import sys, some_kernels, some_fields
[kind] = [each for name, each in vars(some_fields).items() if name in ("Pair", "Couple")]
print(some_kernels.one_of(kind(1, 2)), "compiled" if "numba" in sys.modules else "from disk")
"""


def test_code_that_takes_a_changed_class_of_another_file_is_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "some_kernels.py").write_text(READING)
    expected = {("Pair", "one", "other"): "1", ("Pair", "other", "one"): "2", ("Couple", "other", "one"): "2"}
    for (name, first, second), found in expected.items():
        (tmp_path / "some_fields.py").write_text(FIELDS.format(name=name, first=first, second=second))
        assert answer(tmp_path, ASKING) == f"{found} compiled"
        assert answer(tmp_path, ASKING) == f"{found} from disk"


def test_code_of_a_function_that_moved_within_its_file_is_replaced(known: Path) -> None:
    module = known / "some_kernels.py"
    module.write_text("# a line more\n" + module.read_text())
    assert answer(known) == "3 compiled"
    assert answer(known) == "3 from disk"
    assert len(code_files(known)) == 1


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, lambda file: file.write_bytes(b"")])
def test_damaged_code_is_compiled_again(known: Path, damage: Callable[[Path], None]) -> None:
    [file] = code_files(known)
    damage(file)
    assert answer(known) == "3 compiled"
    assert answer(known) == "3 from disk"


def test_code_of_other_settings_of_numba_is_kept_apart(known: Path) -> None:
    assert answer(known, NUMBA_OPT="0") == "3 compiled"
    assert answer(known, NUMBA_OPT="0") == "3 from disk"
    assert answer(known) == "3 from disk"
    assert len(code_files(known)) == 2


def test_without_a_folder_to_write_to_every_process_compiles(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "code").write_text("a file, so that no folder can be made")
    assert answer(tmp_path) == answer(tmp_path) == "3 compiled"


def test_code_without_a_source_file_is_not_kept(tmp_path: Path) -> None:
    write(tmp_path)
    program = "exec(open('some_kernels.py').read()); import sys; print(answer(), 'numba' in sys.modules)"
    assert [answer(tmp_path, program) for _ in range(2)] == ["3 True"] * 2
    assert not code_files(tmp_path)
