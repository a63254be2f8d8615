"""Scrapy, with the settings that are exported, fetches original URLs and skips those with a normal form it has seen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from dustream.core.rules.rewrite import rule_id
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, RuleSet, UrlRule
from dustream.streams.cli import main
from dustream.streams.rules_io.files import write_rules

SPIDER = """
import runpy, sys
from scrapy.crawler import CrawlerProcess
from scrapy import Request, Spider

class Shop(Spider):
    name = "shop"
    async def start(self):
        for url in sys.argv[2:]:
            yield Request(url)
    def parse(self, response):
        yield {"url": response.url}

settings = {k: v for k, v in runpy.run_path(sys.argv[1]).items() if k.isupper()}
process = CrawlerProcess({**settings, "LOG_LEVEL": "WARNING", "TELNETCONSOLE_ENABLED": False})
process.crawl(Shop)
process.start()
"""


@pytest.fixture
def served() -> Iterator[tuple[int, list[str]]]:
    """The port of a server, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<p>page</p>")

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1], asked
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_scrapy_fetches_the_original_url_and_compares_normal_forms(
    served: tuple[int, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port, asked = served
    tests = (
        KeyTest("scheme", "is", "http"), KeyTest("host_0", "is", "127.0.0.1"), KeyTest("port", "some"),
        KeyTest("path_0", "is", "view"), KeyTest("?id=", "digits"), KeyTest("?sid=", "some"),
    )  # fmt: skip
    rewrite = PatternRewrite(tests, (KeyWrite("?sid=", "drop"),))
    rule = UrlRule(
        id=rule_id("127.0.0.1", rewrite), rewrite=rewrite, pattern="", replacement="", stage="active", learner="tree"
    )
    rules, settings, spider = tmp_path / "rules.json", tmp_path / "settings.py", tmp_path / "spider.py"
    write_rules(rules, [RuleSet(site="127.0.0.1", version=1, rules=(rule,))])
    assert main.main(["rules", "export", str(rules), "--format", "scrapy", "--out", str(settings)]) == 0
    spider.write_text(SPIDER)
    paths = ["/view?id=1&sid=a", "/view?id=1&sid=b", "/view?id=2&sid=a", "/view?id=1", "/other?sid=a", "/other?sid=b"]
    urls = [f"http://127.0.0.1:{port}{path}" for path in paths]
    done = subprocess.run(
        [sys.executable, str(spider), str(settings), *urls], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    pages = [path for path in asked if path != "/robots.txt"]
    first = {path.split("id=")[1][0] for path in pages if path.startswith("/view")}
    assert len(pages) == 4 and first == {"1", "2"} and set(pages) <= set(paths)
    assert set(pages) >= {"/view?id=2&sid=a", "/other?sid=a", "/other?sid=b"}
