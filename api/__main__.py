"""`python -m dustream`: the command."""

from __future__ import annotations

import sys

from dustream.streams.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
