"""`dustream codes` as people type it."""

from __future__ import annotations

import json
import subprocess
import sys

PRINTED = (
    "系统采用的特征码提取算法是基于语法获取特征的方法。这种方法将网页内容看成字符流，"
    "以一些标点符号和常用汉字作为锚点，从网页内容中抽取文字作为网页特征码。"
)


def codes(stdin: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "dustream.streams.cli.main", "codes", "-", *options]
    return subprocess.run(command, input=stdin, capture_output=True)


def line(url: str, **fields: object) -> bytes:
    return json.dumps({"url": url, "fetched_at": "2024-05-01T00:00:00Z", **fields}).encode() + b"\n"


def test_code_units_and_paragraphs() -> None:
    html = f"<html><body><article><h1>短文</h1><p>{PRINTED}</p></article></body></html>"
    done = codes(line("https://a.example/1", html=html), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["code"] == "系法这流以点从码" and found["chars"] == 8
    assert (found["taken_from"], found["anchors_of"]) == ("units", "zh")
    assert [(each["text"], each["is_unit"]) for each in found["paragraphs"]] == [("短文", False), (PRINTED, True)]


def test_for_people() -> None:
    shown = codes(line("https://a.example/1", text=PRINTED)).stdout.decode()
    assert "code        系法这流以点从码  (8 characters)" in shown
    assert "taken from  units, anchors of zh" in shown
    assert f"*   {len(PRINTED)}  系统采用" in shown


def test_one_url_of_many() -> None:
    lines = line("https://a.example/1", text=PRINTED) + line("https://a.example/2", text="别的")
    done = codes(lines, "--url", "https://a.example/2", "--json")
    assert json.loads(done.stdout)["url"] == "https://a.example/2"


def test_pages_without_text_and_broken_records() -> None:
    lines = line("https://a.example/1", text="") + b"no JSON\n" + line("https://a.example/2", status=404)
    done = codes(lines)
    assert done.returncode == 0
    assert "no visible text" in done.stdout.decode() and "a.example/2" not in done.stdout.decode()
    assert b"1 records could not be used" in done.stderr


def test_nothing_to_show_is_said() -> None:
    done = codes(line("https://a.example/1", text=PRINTED), "--url", "https://b.example/")
    assert done.returncode == 1 and b"has that URL" in done.stderr
