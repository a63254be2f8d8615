"""Makes the generated sites importable: the benchmark uses the same ones."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
