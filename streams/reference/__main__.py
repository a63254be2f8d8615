"""Write the generated pages of docs/reference into a folder."""

from __future__ import annotations

import sys
from pathlib import Path

from dustream.streams.reference import reference_pages


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m dustream.streams.reference FOLDER", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    for name, text in reference_pages().items():
        (folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
