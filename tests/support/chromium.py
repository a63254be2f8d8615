"""A real Chromium, driven by selenium. Debian: `make browser-tools` installs it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import axe_core_python
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.ui import WebDriverWait

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


def text_of(browser: webdriver.Chrome) -> str:
    """In one step: a page may be reloading itself."""
    return str(browser.execute_script("const main = document.querySelector('main'); return main ? main.innerText : ''"))


def follow(browser: webdriver.Chrome, by: str, what: str) -> None:
    """Click a link or button, and wait for the page that it leads to."""
    with next_page(browser):
        browser.find_element(by, what).click()


@contextmanager
def next_page(browser: webdriver.Chrome) -> Iterator[None]:
    """Wait for the page that the block leads to."""
    page = browser.find_element(By.TAG_NAME, "html")
    yield
    # while a page goes, Chromium may say that its nodes are in no document instead of that they are stale
    wait = WebDriverWait(browser, 30, ignored_exceptions=(WebDriverException,))
    wait.until(expected_conditions.staleness_of(page))


def violations(browser: webdriver.Chrome) -> list[str]:
    browser.execute_script(AXE.read_text())
    found = browser.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})"
        ".then(result => done(result.violations), error => done([{id: String(error), nodes: [{html: ''}]}]))"
    )
    return [f"{each['id']}: {each['nodes'][0]['html'][:120]}" for each in found]
