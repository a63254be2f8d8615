"""Writes the JSON Schema files of the public messages: `python -m dustream.streams.schema_files FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dustream.schemas.compatibility import breaking_changes
from dustream.schemas.wire import PUBLIC, json_schema


def schema_files() -> dict[str, str]:
    """File name and text for every public message."""
    return {
        f"{kind.__name__}.v{version}.json": json.dumps(json_schema(kind), indent=2, ensure_ascii=False) + "\n"
        for kind, version in PUBLIC.items()
    }


def write_schema_files(folder: Path) -> list[str]:
    """Write all files unless that would break readers or writers; returns what would break."""
    broken = []
    for name, text in schema_files().items():
        path = folder / name
        if path.exists():
            broken += [f"{name}{change}" for change in breaking_changes(json.loads(path.read_text()), json.loads(text))]
    if not broken:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in schema_files().items():
            (folder / name).write_text(text)
    return broken


def main() -> int:
    broken = write_schema_files(Path(sys.argv[1]))
    for change in broken:
        print(f"breaks readers or writers: {change}", file=sys.stderr)
    if broken:
        print("nothing written: keep the old field, or raise the message's schema version", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
