"""What tests of several parts use."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent

settings.register_profile("no deadline", deadline=None)  # a busy machine is no failure
settings.load_profile("no deadline")

# A shell starts commands in the background with Ctrl-C ignored, which the commands that tests start would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests get their markers by where they are."""
    for item in items:
        for folder, marker in (("streams/kafka", "kafka"), ("model", "model")):
            if item.path.is_relative_to(TESTS / folder):
                item.add_marker(marker)
