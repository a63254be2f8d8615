"""One Chromium for all tests of this folder. Without it they cannot run: the end of the run says so, loudly, and with
CI=true it is a failure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import missing_tools, open_browser
from not_run import name_missed, skip_or_fail
from selenium import webdriver

NOT_RUN = "NOT RUN, no browser"


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    if missing := missing_tools():
        reason = f"{', '.join(missing)} not found: install chromium and chromium-driver (Debian: make browser-tools)"
        skip_or_fail(NOT_RUN, reason)
    driver = open_browser()
    yield driver
    driver.quit()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    name_missed(terminalreporter, NOT_RUN, "tests in a real browser that did NOT run")
