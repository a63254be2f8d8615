"""The model's modules import each other by name, here as in `python tests/model/run.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
