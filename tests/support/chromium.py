"""A real Chromium, driven by selenium. Debian: `make browser-tools` installs it."""

from __future__ import annotations

import shutil
from pathlib import Path

import axe_core_python
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

TOOLS = ("chromium", "chromedriver")
AXE = Path(axe_core_python.__file__).parent / "axe.min.js"


def missing_tools() -> list[str]:
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def open_browser() -> webdriver.Chrome:
    """Without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.add_argument("--window-size=1100,900")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
