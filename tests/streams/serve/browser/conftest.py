"""One Chromium for all tests of this folder. Without it they cannot run: the end of the run says so, loudly, and with
CI=true it is a failure."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from chromium import missing_tools, open_browser
from selenium import webdriver

NOT_RUN = "NOT RUN, no browser"


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    if missing := missing_tools():
        reason = f"{', '.join(missing)} not found: install chromium and chromium-driver (Debian: make browser-tools)"
        if os.environ.get("CI") == "true":
            raise RuntimeError(reason)
        pytest.skip(f"{NOT_RUN}: {reason}")
    driver = open_browser()
    yield driver
    driver.quit()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    missed = [report for report in terminalreporter.getreports("skipped") if NOT_RUN in str(report.longrepr)]
    if not missed:
        return
    terminalreporter.section("tests in a real browser that did NOT run", red=True, bold=True)
    for report in missed:
        terminalreporter.write_line(f"NOT RUN {report.nodeid}", red=True)
    terminalreporter.write_line(str(missed[0].longrepr[2]).partition(f"{NOT_RUN}: ")[2], red=True)
