"""The commands of the corpus tutorial, typed line by line, print what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "corpus.md"
END = "=== end of a command ==="


def commands() -> list[tuple[str, str]]:
    """Each command, and what it prints."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = part.partition("\n")
            found.append((command, printed))
    return found


def test_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    shown = commands()
    assert len(shown) > 10
    script = "".join(f"{command}\necho '{END}'\n" for command, _ in shown)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stderr == ""
    printed = done.stdout.split(END + "\n")[:-1]
    assert list(zip([command for command, _ in shown], printed, strict=True)) == shown
