"""What tests of several parts use."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests get their markers by where they are."""
    for item in items:
        for folder, marker in (("streams/kafka", "kafka"), ("model", "slow"), ("streams/embedded", "slow")):
            if item.path.is_relative_to(TESTS / folder):
                item.add_marker(marker)
