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


def open_browser(*, width: int = 1100, height: int = 900, dark: bool = False, scripts: bool = True) -> webdriver.Chrome:
    """Without a window. `scripts` False: as for readers who have switched JavaScript off."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.add_argument(f"--window-size={width},{height}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if not scripts:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    if dark:
        media = [{"name": "prefers-color-scheme", "value": "dark"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    return driver
