"""Rules are validated by fetching pages, politely, from a real server."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from dustream.core.errors import BadSetting
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, RuleSet, UrlRule
from dustream.streams.cli import main
from dustream.streams.rules_io.fetcher import FetchedPage, FetchLimits, fetcher
from dustream.streams.rules_io.files import read_rules
from dustream.streams.rules_io.validation import ValidationSettings, validate_rules

ROBOTS = "User-agent: *\nDisallow: /private/\n"
QUICK = FetchLimits(delay_s=0.001, timeout_s=0.5, allows_private=True)


class Site:
    """A shop whose /item/N and /print/N show one page, but for /print/ of numbers from 50; and what goes wrong."""

    def __init__(self, robots_status: int = 200) -> None:
        self.asked: list[tuple[float, str, str]] = []
        self._robots_status = robots_status
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(10)

    def _serve(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app)
        self._loop.run_until_complete(self._runner.setup())
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        self._loop.run_until_complete(site.start())
        self.port = self._runner.addresses[0][1]
        started.set()
        self._loop.run_forever()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((time.monotonic(), request.path_qs, request.headers["User-Agent"]))
        kind, _, rest = request.path[1:].partition("/")
        if request.path == "/robots.txt":
            return web.Response(text=ROBOTS, status=self._robots_status)
        if kind == "slow":
            await asyncio.sleep(2)
        if kind == "hop":
            raise web.HTTPFound(f"/hop/{int(rest) - 1}" if rest != "0" else "/item/1")
        if kind == "away":
            raise web.HTTPFound("ftp://127.0.0.1/x")
        if kind == "large":
            return web.Response(body=b"x" * 3_000_000)
        if kind not in ("item", "print", "ad", "slow", "private") or not rest.isdecimal():
            return web.Response(status=404)
        number = int(rest) + 1_000 * (kind == "print" and int(rest) >= 50)
        words = " ".join(f"word{number}x{i}" for i in range(200))
        advert = f"<p>{time.monotonic()}</p>" if kind == "ad" else ""
        return web.Response(text=f"<html><body><p>{words}</p>{advert}</body></html>", content_type="text/html")


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.stop()


def rule_from(site: Site, before: str, after: str, **fields: object) -> UrlRule:
    tests = (
        KeyTest("scheme", "is", "http"), KeyTest("host_0", "is", "127.0.0.1"), KeyTest("port", "is", str(site.port)),
        KeyTest("path_0", "is", before), KeyTest("path_1", "digits"),
    )  # fmt: skip
    rewrite = PatternRewrite(tests, (KeyWrite("path_0", "set", after),))
    given = {"stage": "shadow", "evidence": "size", **fields}
    return UrlRule(id=f"{before}-{after}", rewrite=rewrite, pattern="", replacement="", learner="dust", **given)  # type: ignore[arg-type]


def validated(site: Site, rule: UrlRule, numbers: range, limits: FetchLimits = QUICK, count: int = 20) -> UrlRule:
    urls = [f"{site.url}/{rule.id.partition('-')[0]}/{i}" for i in numbers]
    rules = RuleSet(site="127.0.0.1", version=1, rules=(rule,))
    found = validate_rules([rules], {"127.0.0.1": urls}, ValidationSettings(count), limits)
    return found.rule_sets[0].rules[0]


def test_a_rule_that_holds_becomes_active_and_one_that_does_not_a_shadow(site: Site) -> None:
    holds = validated(site, rule_from(site, "print", "item"), range(40))
    assert (holds.stage, holds.fetched_right, holds.fetched_wrong) == ("active", 20, 0)
    fails = validated(site, rule_from(site, "print", "item", stage="active", evidence="content"), range(50, 90))
    assert fails.stage == "shadow" and fails.fetched_wrong == len(fails.against) == 2
    assert fails.against[0][0].startswith(f"{site.url}/print/") and fails.against[0][1].startswith(f"{site.url}/item/")


def test_outcomes_that_cannot_be_fetched_speak_against_a_rule_and_pages_that_cannot_say_nothing(
    site: Site,
) -> None:
    nowhere = validated(site, rule_from(site, "item", "nowhere", stage="active"), range(20))
    assert (nowhere.stage, nowhere.fetched_right) == ("shadow", 0) and nowhere.fetched_wrong > 0
    too_slow = validated(site, rule_from(site, "item", "slow", stage="active"), range(20))
    assert too_slow.stage == "shadow"
    unheard = validated(site, rule_from(site, "nowhere", "item", stage="active"), range(20))
    assert (unheard.stage, unheard.fetched_right, unheard.fetched_wrong) == ("active", 0, 0)


def test_nearly_the_same_text_is_one_page_and_few_pages_prove_nothing(site: Site) -> None:
    assert validated(site, rule_from(site, "ad", "item"), range(9)).stage == "active"
    few = validated(site, rule_from(site, "print", "item"), range(4))
    assert (few.stage, few.fetched_right) == ("shadow", 4)


def test_robots_are_obeyed_and_requests_to_a_host_keep_their_distance(site: Site) -> None:
    refused = validated(site, rule_from(site, "item", "private", stage="active"), range(3))
    assert refused.stage == "shadow" and not any("/private/" in path for _, path, _ in site.asked)
    site.asked.clear()
    validated(site, rule_from(site, "print", "item"), range(5), QUICK._replace(delay_s=0.05, user_agent="tester"))
    times = [at for at, _, _ in site.asked]
    assert len(times) == 11 and min(b - a for a, b in pairwise(times)) >= 0.049
    assert {agent for _, _, agent in site.asked} == {"tester"}
    assert [path for _, path, _ in site.asked].count("/robots.txt") == 1


@pytest.mark.parametrize(("status", "is_open"), [(404, True), (403, True), (500, False)])
def test_without_robots_a_site_is_open_and_with_broken_ones_it_is_left_alone(status: int, is_open: bool) -> None:
    site = Site(status)
    try:
        assert (fetched(f"{site.url}/private/1", QUICK) is not None) == is_open
    finally:
        site.stop()


def fetched(url: str, limits: FetchLimits) -> FetchedPage | None:
    async def run() -> FetchedPage | None:
        async with fetcher(limits) as pages:
            return await pages.fetch(url)

    return asyncio.run(run())


def test_redirects_are_followed_within_limits_and_bodies_read_up_to_one(site: Site) -> None:
    item = fetched(f"{site.url}/item/1", QUICK)
    assert item is not None
    assert fetched(f"{site.url}/hop/3", QUICK) is not None
    assert fetched(f"{site.url}/hop/3", QUICK).digest == item.digest  # type: ignore[union-attr]
    assert fetched(f"{site.url}/hop/9", QUICK) is None
    assert fetched(f"{site.url}/away", QUICK) is None
    small = fetched(f"{site.url}/large", QUICK._replace(bytes_max=1_000))
    assert small is not None and small.digest != fetched(f"{site.url}/large", QUICK).digest  # type: ignore[union-attr]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_what_is_not_public_is_not_asked_unless_it_is_allowed(site: Site, host: str) -> None:
    url = f"http://{host}:{site.port}/item/1"
    assert fetched(url, QUICK._replace(allows_private=False)) is None and site.asked == []
    assert fetched(url, QUICK) is not None
    assert fetched("ftp://x.com/a", QUICK) is None


def test_learn_fetches_and_so_does_rules_validate(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, out, again = tmp_path / "sizes.tsv", tmp_path / "rules.json", tmp_path / "again.json"
    lines = [f"{site.url}/{kind}/{i}\t{1000 + i}" for i in range(40) for kind in ("item", "print")]
    table.write_text("\n".join(["url\tsize", *lines]) + "\n")
    polite = ["--fetch-delay", "0.001", "--allow-private"]
    learn = ["learn", str(table), "--out", str(out)]
    assert main.main(learn) == 0
    assert {rule.stage for rule in read_rules(out)[0].rules} == {"shadow"}
    assert "not applied: equal sizes are a hint, no proof (--validate-fetch N fetches pages)" in capsys.readouterr().out
    assert main.main(["rules", "validate", str(out), str(table), "--out", str(again), *polite, "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {"out": str(again), "stages": {"active": 1}}
    assert "pages fetched to validate 1 rule, 0 failed, 0 not allowed" in said.err
    assert main.main([*learn, "--validate-fetch", "10", *polite]) == 0
    said = capsys.readouterr()
    assert "fetched: 10 right, 0 wrong" in said.out and "not applied" not in said.out
    (rule,) = read_rules(out)[0].rules
    assert (rule.stage, rule.fetched_right, rule.evidence) == ("active", 10, "size")
    assert all(urlsplit(after).path.split("/")[1] in ("item", "print") for _, after in rule.examples)


def test_wrong_numbers_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["rules", "validate", "x", "--out", str(tmp_path / "y"), "--validate-fetch", "0"]) != 0
    assert "--validate-fetch is at least 1" in capsys.readouterr().err
    with pytest.raises(BadSetting, match="o_min"):
        from dustream.core.rules.parameters import RuleParameters

        RuleParameters(o_min=2)
