"""Pictures of the web page for the docs: `python tests/support/screenshots.py FOLDER`. The web is generated."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from chromium import open_browser
from served import Served

from dustream.streams.cli.main import main as dustream

PAGES = 600


def pictures(server: Served) -> dict[str, str]:
    digest = server.lookups.digest
    pair = next(pair for pairs in digest.examples for pair in pairs)
    views: dict[str, tuple[str, dict[str, str]]] = {
        "overview": ("/", {}),
        "groups": ("/groups", {"by": "lowest"}),
        "pair": ("/pair", {"a": pair.url, "b": pair.winner}),
        "decide": ("/decide", {}),
        "rules": ("/rules", {"site": max(digest.ruled_sites, key=lambda name: (digest.ruled_sites[name], name))}),
    }
    return {name: f"{server.base}{path}?{urlencode(asked)}" for name, (path, asked) in views.items()}


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python tests/support/screenshots.py FOLDER", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        web, out = Path(folder) / "web.jsonl", Path(folder) / "crawl"
        dustream(["generate", "--pages", str(PAGES), "--seed", "1", "--out", str(web)])
        dustream(["run", str(web), "--out", str(out), "--quiet"])
        with Served(out) as server:
            browser = open_browser()
            for name, address in pictures(server).items():
                browser.set_window_size(1_000, 1_400 if name in ("pair", "decide") else 900)
                browser.get(address)
                browser.save_screenshot(f"{sys.argv[1]}/serve-{name}.png")
            browser.quit()
    return 0


if __name__ == "__main__":
    sys.exit(main())
