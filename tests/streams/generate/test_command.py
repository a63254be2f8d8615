"""`dustream generate`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dustream.core.errors import BadSetting
from dustream.streams.cli import generate


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    generate.add_parser(parser.add_subparsers())
    args = parser.parse_args(["generate", *arguments])
    return args.run(args)


def test_summary_names_the_files_and_the_next_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "web.jsonl.zst"
    assert run("--pages", "300", "--seed", "2", "--out", str(out)) == 0
    printed = capsys.readouterr().out
    assert "300 URLs" in printed
    assert str(out) in printed and str(tmp_path / "web.truth.jsonl.zst") in printed
    assert f"dustream run {out}" in printed


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "web.jsonl"
    assert run("--pages", "300", "--out", str(out), "--markup-bytes", "1000", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["web"]["pages"] == 300
    assert facts["events_file_bytes"] == facts["events_plain_bytes"] == out.stat().st_size


def test_a_place_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadSetting, match="is a file, not a folder: name another"):
        run("--out", str(tmp_path / "file" / "web.jsonl"))


def test_declaring_the_command_imports_nothing_heavy() -> None:
    program = (
        "import sys; import dustream.streams.cli.generate; print({'numpy', 'numba', 'msgspec'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
