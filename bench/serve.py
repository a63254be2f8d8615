"""How many lookups `dustream serve` answers, and how long its pages take: `python bench/serve.py [--pages N]`.

The state is that of bench/questions.py. The load tool is wrk (Debian: apt install wrk), on the same machine: it asks
for known and unknown URLs by turns, one by one and in batches. Processor time is that of the server.
Pages are asked for 20 times each, one after the other; their time is that of the whole request.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import quote

from questions import fill, url
from result_files import Table, write_result

BATCH_URLS = 1_000
VIEW_REQUESTS = 20
TICK_S = 1 / os.sysconf("SC_CLK_TCK")

LUA_HEAD = """
local number, pages = 0, %d
local function address(n)
  if n %% 4 == 0 then return "https://new.example/page-" .. n end
  n = (n * 7919) %% pages
  return "https://site" .. (n %% 5000) .. ".example/folder/page-" .. n .. ".html"
end
done = function(summary, latency, requests)
  local e = summary.errors
  print(string.format('{"requests": %%d, "us": %%d, "p50": %%d, "p99": %%d, "errors": %%d}', summary.requests,
    summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""
LUA_SINGLE = """
request = function() number = number + 1; return wrk.format("GET", "%s?u=" .. address(number)) end
"""
LUA_BATCH = """
request = function()
  local urls = {}
  for i = 1, %d do number = number + 1; urls[i] = '"' .. address(number) .. '"' end
  local body = '{"urls": [' .. table.concat(urls, ",") .. "]}"
  return wrk.format("POST", "/v1/urls", {["Content-Type"] = "application/json"}, body)
end
"""


class Load(NamedTuple):
    """What wrk measured, and the processor time of the server."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float


class Server:
    """`dustream serve` in a process of its own."""

    def __init__(self, state: Path) -> None:
        command = [sys.executable, "-m", "dustream.streams.cli.main", "serve", "--state", str(state), "--port", "0"]
        started = time.monotonic()
        self._process = subprocess.Popen([*command, "--rate", "1e9"], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        found = re.match(r"http://([\d.]+):(\d+)/", self._process.stdout.readline())
        assert found is not None
        self.start_s = time.monotonic() - started
        self.host, self.port = found[1], int(found[2])

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_S

    def memory_mb(self) -> int:
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024

    def load(self, script: str, connections: int, seconds: int, lookups: int) -> Load:
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
            file.write(script)
            file.flush()
            before = self.cpu_s()
            command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", file.name]
            address = f"http://{self.host}:{self.port}/"
            said = subprocess.run([*command, address], capture_output=True, text=True, check=True).stdout
        found = json.loads(said.splitlines()[-1])
        assert found["errors"] == 0, said
        cpu_us = 1e6 * (self.cpu_s() - before) / (found["requests"] * lookups)
        per_second = 1e6 * found["requests"] * lookups / found["us"]
        return Load(per_second, found["p50"] / 1e3, found["p99"] / 1e3, cpu_us)

    def view_ms(self, path: str) -> tuple[float, float]:
        """The first request, and the median of the next."""
        return (took := [self.request_ms(path) for _ in range(VIEW_REQUESTS + 1)])[0], median(took[1:])

    def request_ms(self, path: str) -> float:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        started = time.monotonic()
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        took = 1e3 * (time.monotonic() - started)
        connection.close()
        assert response.status == 200, (path, response.status)
        return took

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=10, help="of each load")
    args = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed: apt install wrk")
    pages = args.pages
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), pages)
        server = Server(Path(folder))
        try:
            views = _views(server, pages)
            loads = _loads(server, pages, args.seconds)
            about = [["seconds to start", round(server.start_s, 1)], ["peak memory, MB", server.memory_mb()]]
        finally:
            server.stop()
    columns = ["load", "lookups a second", "p50, ms", "p99, ms", "processor time per lookup, µs"]
    tables = [
        Table(f"lookups on a state of {pages:,} pages, wrk and the server on one machine", columns, loads),
        Table(f"pages of a state of {pages:,} pages: ms", ["view", "first", "median of 20"], views),
        Table("the server", ["what", "value"], about),
    ]
    for table in tables:
        print(table.title, table.markdown(), sep="\n\n", end="\n\n")
    if pages == parser.get_default("pages"):
        write_result("serve", tables)


def _views(server: Server, pages: int) -> list[list[object]]:
    def asked(path: str, **values: str) -> str:
        return f"{path}?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in values.items())

    four, chain = url(pages // 10), url(0)
    views = {
        "overview": "/",
        "groups, lowest inner similarity first": "/groups?by=lowest",
        "a group of four": asked("/group", id=four),
        f"a group of {pages // 10:,}": asked("/group", id=chain),
        "one URL": asked("/url", u=url(pages // 10 + 1)),
        "why of two, no texts (/v1/why)": asked("/v1/why", a=four, b=url(pages // 10 + 3), text="no"),
        "threshold": "/threshold",
    }
    rows: list[list[object]] = []
    for name, path in views.items():
        first, later = server.view_ms(path)
        rows.append([name, round(first, 1), round(later, 1)])
    return rows


def _loads(server: Server, pages: int, seconds: int) -> list[list[object]]:
    head = LUA_HEAD % pages
    loads = {
        "GET /v1/url, 16 connections": (head + LUA_SINGLE % "/v1/url", 16, 1),
        "GET /v1/decide, 16 connections": (head + LUA_SINGLE % "/v1/decide", 16, 1),
        f"POST /v1/urls, {BATCH_URLS:,} URLs each, 2 connections": (head + LUA_BATCH % BATCH_URLS, 2, BATCH_URLS),
    }
    rows: list[list[object]] = []
    for name, (script, connections, lookups) in loads.items():
        load = server.load(script, connections, seconds, lookups)
        rows.append([name, round(load.per_second), round(load.p50_ms, 2), round(load.p99_ms, 2), round(load.cpu_us, 1)])
    return rows


if __name__ == "__main__":
    main()
