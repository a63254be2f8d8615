"""`import dustream`: what it costs, what it lists, and that the command agrees with it."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys

import dustream
from dustream.core import errors

HEAVY = ("numba", "llvmlite", "numpy", "pyarrow", "rocksdict", "faust", "aiokafka", "confluent_kafka", "datasketch")


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, dustream; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(code) == "[]"


def test_reading_a_page_loads_no_engine() -> None:
    engines = ("pyarrow", "rocksdict", "faust", "confluent_kafka")
    code = f"import sys, dustream; dustream.extract('<p>a'); print([n for n in {engines} if n in sys.modules])"
    assert python(code) == "[]"


def test_every_listed_name_is_there_and_nothing_else_is_shown() -> None:
    assert sorted(dustream.__all__) == dir(dustream)
    assert all(getattr(dustream, name) is not None for name in dustream.__all__)


def test_every_error_is_public() -> None:
    tree = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
    assert tree <= set(dustream.__all__)


def test_an_unknown_name_is_no_attribute() -> None:
    assert not hasattr(dustream, "nothing_of_that_name")


def test_the_command_has_the_version_of_the_package() -> None:
    shown = python("from dustream.streams.cli.main import main; main(['--version'])")
    assert shown == f"dustream {dustream.__version__}"


def test_help_lists_the_public_names() -> None:
    text = pydoc.plain(pydoc.render_doc(dustream))
    assert all(name in text for name in dustream.__all__ if name != "__version__")
    assert "_MODULE_OF" not in text


def test_annotations_reach_a_type_checker() -> None:
    from importlib.resources import files

    assert files("dustream").joinpath("py.typed").is_file()


def test_the_package_can_be_run() -> None:
    command = [sys.executable, "-m", "dustream", "--version"]
    assert (
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
        == f"dustream {dustream.__version__}\n"
    )
