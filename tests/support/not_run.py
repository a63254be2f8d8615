"""Tests that could not run because a tool is missing are named at the end, loudly; with CI=true they fail."""

from __future__ import annotations

import os

import pytest


def skip_or_fail(not_run: str, reason: str) -> None:
    if os.environ.get("CI") == "true":
        raise RuntimeError(reason)
    pytest.skip(f"{not_run}: {reason}")


def name_missed(reporter: pytest.TerminalReporter, not_run: str, title: str) -> None:
    """The tests skipped with this mark, and why."""
    missed = [report for report in reporter.getreports("skipped") if not_run in str(report.longrepr)]
    if not missed:
        return
    reporter.section(title, red=True, bold=True)
    for report in missed:
        reporter.write_line(f"NOT RUN {report.nodeid}", red=True)
    reporter.write_line(str(missed[0].longrepr[2]).partition(f"{not_run}: ")[2], red=True)
