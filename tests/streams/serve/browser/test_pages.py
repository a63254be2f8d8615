"""Every view in a real Chromium: what it shows, hostile content, keyboard, contrast, a phone's width."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from chromium import follow, next_page, text_of, violations
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from served import Served
from served_web import EVIL, HOSTILE_URL

from dustream.core.urls.identity import page_identity
from dustream.streams.cli.main import main

A, B, C = "https://a.example/chain", "https://b.example/chain?middle=1", "https://c.example/chain/end"
EVIL_PLAIN, EVIL_URL = "https://evil.example/plain", page_identity(HOSTILE_URL)

VIEWS: dict[str, tuple[str, dict[str, str]]] = {
    "overview": ("/", {}),
    "groups": ("/groups", {}),
    "different": ("/groups", {"by": "different"}),
    "group": ("/group", {"id": A}),
    "pair": ("/pair", {"a": A, "b": C}),
    "threshold": ("/threshold", {"t": "0.95"}),
    "sample": ("/threshold", {"sample": "yes"}),
    "all rules": ("/rules", {}),
    "rules": ("/rules", {"site": "shop.example", "u": "https://shop.example/a/5?sid=1"}),
    "tree": ("/tree", {"site": "shop.example"}),
    "url": ("/url", {"u": B}),
    "unknown": ("/url", {"u": "https://nobody.example/"}),
    "decide": ("/decide", {}),
    "hostile group": ("/group", {"id": EVIL_PLAIN}),
    "hostile pair": ("/pair", {"a": EVIL_PLAIN, "b": EVIL_URL}),
    "hostile url": ("/url", {"u": EVIL_URL}),
    "problem": ("/url", {"u": "<script>alert(5)</script>"}),
}


def address(base: str, view: str) -> str:
    path, asked = VIEWS[view]
    return f"{base}{path}" + (f"?{urlencode(asked)}" if asked else "")


def look(browser: webdriver.Chrome, server: Served, view: str) -> str:
    browser.get(address(server.base, view))
    return text_of(browser)


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        ("overview", ["339\nURLs known", "110 of 110 pages would go to winners elsewhere", "web.jsonl", "0.90–0.91"]),
        (
            "overview",
            ["Lengths of pages", "lengths at which the partition map cuts", "are duplicates and need no room"],
        ),
        ("groups", ["https://soft.example/ant", "an error or login page?"]),
        ("different", ["Most different URLs first", "https://soft.example/ant"]),
        ("group", [f"Group {A}", "0.9048", "redirect", "compare"]),
        (
            "pair",
            ["in one group, but neither is a duplicate", "below the threshold 0.9", "words in common", "chain20"],
        ),
        ("threshold", ["near-duplicates dropped", "0.950 (chosen)", "Take a sample"]),
        ("sample", ["The figures come from a sample", f"0.8182 {A} and {C}", "0.80"]),
        ("all rules", ["shop.example", "active"]),
        ("rules", ["for it:", "https://shop.example/a/5", "Normal form: https://shop.example/a/5, known."]),
        ("tree", ["Made from its 90 URLs"]),
        ("url", [f"a duplicate of {A}", "skip: duplicate", "similarity\n0.9048", "record 1 of", "static: no query"]),
        ("url", ["History", "present", "Not a duplicate"]),
        ("unknown", ["not known", "fetch: new"]),
        ("decide", ["site mirror-of-it.example", "Release", "Decisions in force"]),
        ("problem", ["This cannot be answered", "<script>"]),
    ],
)
def test_every_view_shows_what_is_known(browser: webdriver.Chrome, served: Served, view: str, shown: list[str]) -> None:
    text = look(browser, served, view)
    assert [each for each in shown if each not in text] == []


@pytest.mark.parametrize("view", [name for name in VIEWS if name not in ("hostile pair", "tree")])
def test_once_result_has_the_same_views(browser: webdriver.Chrome, once_served: Served, view: str) -> None:
    assert len(look(browser, once_served, view)) > 30


@pytest.mark.parametrize("view", ["hostile group", "hostile pair", "hostile url", "groups", "problem"])
def test_hostile_content_is_shown_and_does_nothing(browser: webdriver.Chrome, served: Served, view: str) -> None:
    """No dialog opens, no element is made of it, nothing is requested."""
    browser.get_log("browser")
    text = look(browser, served, view)
    assert browser.find_elements(By.CSS_SELECTOR, "script, img, iframe, b, object, main style") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert [each["message"] for each in browser.get_log("browser") if "Failed to load" not in each["message"]] == []
    if view == "hostile pair":
        shown = "".join(text.replace("\u202e", "").split())  # the difference is in words, with spaces between them
        assert EVIL.replace("\u202e", "").replace(" ", "") in shown and "<b>evil50</b>javascript:alert(4)" in shown
        assert [each.text for each in browser.find_elements(By.TAG_NAME, "ins")] != []
    if view in ("hostile group", "hostile url"):
        assert EVIL_URL in text and "{{7*7}}" in text
    links = [each.get_attribute("href") or "" for each in browser.find_elements(By.TAG_NAME, "a")]
    assert [link for link in links if not link.startswith(("http://", "https://"))] == []


def test_policy_stops_a_script_that_got_in(browser: webdriver.Chrome, served: Served) -> None:
    look(browser, served, "overview")
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.gotIn = 1'; document.body.append(s)"
    )
    assert browser.execute_script("return window.gotIn") is None


def test_links_of_hostile_urls_lead_to_what_is_known_of_them(browser: webdriver.Chrome, served: Served) -> None:
    look(browser, served, "hostile group")
    follow(browser, By.PARTIAL_LINK_TEXT, "<script>alert('url')")
    assert browser.find_element(By.TAG_NAME, "h1").text == EVIL_URL


def test_search_by_url_by_site_and_by_part(browser: webdriver.Chrome, served: Served) -> None:
    for typed, shown in ((B, f"Group {A}"), ("soft.example", "https://soft.example/ant"), ("ANT", "soft.example/ant")):
        look(browser, served, "groups")
        field = browser.find_element(By.ID, "group-search")
        field.clear()  # Chromium may fill in what was typed before
        with next_page(browser):
            field.send_keys(typed, Keys.ENTER)
        assert shown in text_of(browser)


def test_lookup_by_keyboard_alone(browser: webdriver.Chrome, served: Served) -> None:
    """The first stop skips to the content; the field of the URL comes after the views."""
    look(browser, served, "overview")
    active = browser.switch_to.active_element
    active.send_keys(Keys.TAB)
    assert browser.switch_to.active_element.text == "Skip to the content"
    for _ in range(6):
        browser.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.switch_to.active_element.get_attribute("name") == "u"
    browser.switch_to.active_element.send_keys(B, Keys.ENTER)
    assert browser.find_element(By.TAG_NAME, "h1").text == B


def test_threshold_is_chosen_by_a_slider(browser: webdriver.Chrome, served: Served) -> None:
    look(browser, served, "threshold")
    browser.find_element(By.ID, "threshold").send_keys(Keys.END)
    follow(browser, By.XPATH, "//button[.='Show']")
    assert "1.000 (chosen)" in text_of(browser)


def test_changed_words_are_marked_side_by_side(browser: webdriver.Chrome, served: Served) -> None:
    look(browser, served, "pair")
    removed = [each.text for each in browser.find_elements(By.TAG_NAME, "del")]
    added = [each.text for each in browser.find_elements(By.TAG_NAME, "ins")]
    assert removed[0] == "chain20" and added[0] == "changed0" and len(removed) == len(added) == 8
    drawn = browser.find_element(By.CSS_SELECTOR, "svg.path")
    assert drawn.get_attribute("aria-label") == "2 matches between the two pages; the weakest has similarity 0.9048"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", list(VIEWS))
def test_contrast_names_and_structure(browser: webdriver.Chrome, served: Served, view: str, scheme: str) -> None:
    """All rules of axe for WCAG 2 A and AA."""
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    look(browser, served, view)
    assert violations(browser) == []


@pytest.mark.parametrize("view", [name for name in VIEWS if name != "tree"])
def test_fits_a_phone(browser: webdriver.Chrome, served: Served, view: str) -> None:
    """Nothing but tables, which scroll by themselves, is wider than the screen."""
    metrics = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        look(browser, served, view)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture
def deciding(result: Path, tmp_path: Path) -> Iterator[Served]:
    """A copy, which decisions may change."""
    with Served(Path(shutil.copytree(result, tmp_path / "out"))) as server:
        yield server


def test_split_with_preview_and_undo(browser: webdriver.Chrome, deciding: Served) -> None:
    """The page below the similarity is kept on its own; then it is a duplicate again."""
    look(browser, deciding, "decide")
    browser.find_element(By.ID, "decide-name").send_keys(A)
    Select(browser.find_element(By.ID, "decide-action")).select_by_value("split")
    browser.find_element(By.ID, "decide-from").send_keys("0.95")
    follow(browser, By.XPATH, "//button[.='Preview']")
    assert "1 of its 3 pages are less than 0.95 similar" in text_of(browser)
    follow(browser, By.XPATH, "//button[.='Apply']")
    _await_text(browser, deciding, "of it were held")
    assert deciding.get("/v1/url", u=B).json["role"] in ("winner", "unique")
    assert f"split {A} from 0.95" in text_of(browser)
    follow(browser, By.XPATH, "//button[starts-with(., 'Undo')]")
    follow(browser, By.XPATH, "//button[.='Apply']")
    _await_text(browser, deciding, "of it were held")
    assert deciding.get("/v1/url", u=B).json["role"] == "duplicate"


def test_not_a_duplicate_from_the_page_of_a_url_with_preview_and_undo(
    browser: webdriver.Chrome, deciding: Served
) -> None:
    look(browser, deciding, "url")
    follow(browser, By.XPATH, "//button[starts-with(., 'Not a duplicate')]")
    assert "The page is kept, although it matches its winner." in text_of(browser)
    assert violations(browser) == []
    follow(browser, By.XPATH, "//button[.='Apply']")
    _await_text(browser, deciding, f"not-duplicate {B}: duplicate of {A} → winner")
    assert f"not a duplicate: {B}" in text_of(browser)
    assert violations(browser) == []
    answer = deciding.get("/v1/url", u=B).json
    assert (answer["role"], answer["decided"]) == ("winner", "not_duplicate")
    assert "an operator decided that it is not a duplicate" in look(browser, deciding, "url")
    follow(browser, By.XPATH, "//button[starts-with(., 'Undo')]")
    assert "The decision is withdrawn" in text_of(browser)
    follow(browser, By.XPATH, "//button[.='Apply']")
    _await_text(browser, deciding, f"undo {B}: winner → duplicate of {A}")
    assert deciding.get("/v1/url", u=B).json["role"] == "duplicate"
    assert "Decisions in force\n\nNone." in text_of(browser)


def test_two_pages_are_the_same_from_their_page_with_preview_and_undo(
    browser: webdriver.Chrome, deciding: Served
) -> None:
    one, other = "https://shop.example/a/5", "https://shop.example/a/6"
    browser.get(f"{deciding.base}/pair?{urlencode({'a': one, 'b': other})}")
    follow(browser, By.XPATH, "//button[starts-with(., 'Same')]")
    assert "The two pages match from now on, whatever their texts" in text_of(browser)
    assert violations(browser) == []
    follow(browser, By.XPATH, "//button[.='Apply']")
    _await_text(browser, deciding, f"same {one} {other}: ")
    assert f"same: {one} and {other}" in text_of(browser)
    assert violations(browser) == []
    answers = [deciding.get("/v1/url", u=url).json for url in (one, other)]
    dropped = next(each for each in answers if each["relation"] == "decided")
    assert {dropped["url"], dropped["winner"]} == {one, other}
    browser.get(f"{deciding.base}/pair?{urlencode({'a': one, 'b': other})}")
    assert "that they are the same" in text_of(browser)
    follow(browser, By.XPATH, "//button[starts-with(., 'Undo')]")
    assert "The decision is withdrawn" in text_of(browser)
    follow(browser, By.XPATH, "//button[.='Apply']")
    _await_text(browser, deciding, f"undo {one} {other}: ")
    assert deciding.get("/v1/url", u=dropped["url"]).json["relation"] != "decided"


def test_a_hostile_page_is_decided_and_listed(browser: webdriver.Chrome, deciding: Served) -> None:
    look(browser, deciding, "decide")
    browser.find_element(By.ID, "decide-page").send_keys(HOSTILE_URL)
    follow(browser, By.XPATH, "//button[.='Preview' and ../input[@value='not_duplicate']]")
    follow(browser, By.XPATH, "//button[.='Apply']")
    _await_text(browser, deciding, "not a duplicate:")
    assert EVIL_URL in text_of(browser)
    assert browser.find_elements(By.CSS_SELECTOR, "script, img, iframe, b, object, main style") == []


def test_rules_are_rejected_pinned_and_left_to_themselves_again(browser: webdriver.Chrome, deciding: Served) -> None:
    new = "https://shop.example/a/77?sid=1"

    def choose(button: str, told: str) -> None:
        look(browser, deciding, "rules")
        follow(browser, By.XPATH, f"//button[starts-with(., '{button}')]")
        follow(browser, By.XPATH, "//button[.='Apply']")
        _await_text(browser, deciding, told)

    def normal() -> str:
        return str(deciding.get("/v1/normalize", u=new).json["normalized"])

    ruled = normal()
    assert ruled != new
    choose("Reject", "active → shadow (an operator rejected it)")
    assert "reject a rule of shop.example" in text_of(browser) and normal() == new
    assert "rejected" in look(browser, deciding, "rules") and violations(browser) == []
    choose("Pin", "shadow (an operator rejected it) → active")
    assert normal() == ruled
    choose("Undo", "active, as before")
    choose("Accept", "active, as before")
    assert "accepted" in look(browser, deciding, "rules") and normal() == ruled


def test_a_rule_that_is_not_there_is_refused(deciding: Served) -> None:
    key = re.search(r'name="key" value="([^"]+)"', deciding.get("/decide").text)
    assert key is not None
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for fields in (
        {"action": "pin", "name": "shop.example", "rule": "../../etc"},
        {"action": "release", "name": "shop.example", "rule": "12"},
        {"action": "not_duplicate", "name": "no url"},
        {"action": "same", "name": A},
        {"action": "same", "name": A, "other": f"{A}#here"},
        {"action": "release", "name": A, "other": B},
    ):
        body = urlencode({"key": key[1], **fields}).encode()
        assert deciding.send("POST", "/decide", body, form).status == 400


def test_form_of_another_site_is_refused(deciding: Served) -> None:
    """Without the key of our forms, or from another origin."""
    key = re.search(r'name="key" value="([^"]+)"', deciding.get("/decide").text)
    assert key is not None
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = urlencode({"action": "release", "name": "mirror-of-it.example"})
    for fields, origin in ((body, None), (f"{body}&key=guess", None), (f"{body}&key={key[1]}", "https://evil.example")):
        headers = form | ({} if origin is None else {"Origin": origin})
        for path in ("/decide", "/decide/apply"):
            assert deciding.send("POST", path, fields.encode(), headers).status == 400
    assert (
        deciding.send("POST", "/decide", f"{body}&key={key[1]}".encode(), form | {"Origin": deciding.base}).status
        == 200
    )


def test_release_with_preview_and_undo(browser: webdriver.Chrome, deciding: Served) -> None:
    """The decision is applied to the state, listed, and withdrawn again."""
    held = "https://mirror-of-it.example/page/3"
    assert deciding.get("/v1/url", u=held).json["role"] == "held"
    look(browser, deciding, "decide")
    follow(browser, By.XPATH, "//button[starts-with(., 'Release')]")
    assert "110 held pages become duplicates" in text_of(browser)
    assert deciding.get("/v1/url", u=held).json["role"] == "held"
    follow(browser, By.XPATH, "//button[.='Apply']")
    _await_text(browser, deciding, "110 held → 110 duplicate")
    assert deciding.get("/v1/url", u=held).json["role"] == "duplicate"
    assert "Nothing is held." in text_of(browser)
    follow(browser, By.XPATH, "//button[starts-with(., 'Undo')]")
    follow(browser, By.XPATH, "//button[.='Apply']")
    _await_text(browser, deciding, "110 duplicate → 110 held")
    assert deciding.get("/v1/url", u=held).json["role"] == "held"


def _await_text(browser: webdriver.Chrome, server: Served, text: str) -> None:
    deadline = time.monotonic() + 120
    while text not in text_of(browser):
        assert time.monotonic() < deadline, text_of(browser)
        time.sleep(0.5)
        look(browser, server, "decide")


@pytest.mark.parametrize("kind", ["result", "once_result"])
def test_report_works_offline(
    browser: webdriver.Chrome, request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """One file, nothing requested, every view, every link within it leads somewhere, hostile content does nothing."""
    out = tmp_path / "report.html"
    assert main(["report", "--state", str(request.getfixturevalue(kind)), "--out", str(out)]) == 0
    browser.get(out.as_uri())
    text = text_of(browser)
    for shown in (
        "Overview",
        "Lowest inner similarity first",
        "Threshold",
        "Rules of shop.example",
        f"Group {A}",
        EVIL_URL,
    ):
        assert shown in text
    assert kind == "once_result" or "changed0" in text
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.find_elements(By.CSS_SELECTOR, "script, img, iframe, form, b") == []
    dead = browser.execute_script(
        "return [...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.hash.slice(1))"
        ".filter(id => !document.getElementById(id))"
    )
    assert dead == []
    assert [each for each in violations(browser) if not each.startswith("page-has-heading-one")] == []
