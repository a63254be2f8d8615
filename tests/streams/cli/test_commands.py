"""The commands as people type them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dustream.core.pipeline import pipeline
from dustream.core.settings import Settings
from dustream.streams.cli.main import main
from dustream.streams.cli.worker import PROCESSORS
from dustream.streams.kafka.assembly import INTAKE

ARTICLE = "The committee met on Tuesday. " + " ".join(f"Bridge {n} over river {n * 7}." for n in range(60))
OTHER = "Fresh bread needs patience. " + " ".join(f"Loaf {n} rises in {n * 11} minutes." for n in range(60))


def dustream(*arguments: object, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "dustream.streams.cli.main", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True)


def page(url: str, text: str, day: int = 1, **more: object) -> bytes:
    html = f"<html><body><main><h1>A page</h1><p>{text}</p></main></body></html>"
    return json.dumps({"url": url, "fetched_at": f"2024-05-{day:02d}T00:00:00Z", "html": html, **more}).encode() + b"\n"


def statuses(out: Path) -> dict[str, dict]:
    return {line["url"]: line for line in map(json.loads, (out / "status.jsonl").read_bytes().splitlines())}


@pytest.mark.parametrize("how", [[], ["--once"]])
def test_run_tells_what_each_page_is(how: list[str], tmp_path: Path) -> None:
    lines = [
        page("https://a.example/1", ARTICLE),
        page("https://b.example/copy", ARTICLE, 2),
        page("https://c.example/near", ARTICLE.replace("Tuesday", "Monday", 1), 3),
        page("https://d.example/other", OTHER),
        json.dumps({"url": "https://a.example/old", "status": 301, "redirect_to": "/1"}).encode() + b"\n",
        page("https://e.example/dead", OTHER),
        json.dumps({"url": "https://e.example/dead", "fetched_at": "2024-06-01T00:00:00Z", "status": 404}).encode()
        + b"\n",
        b"this is no JSON\n",
    ]
    done = dustream("run", "-", "--out", tmp_path / "out", "--json", *how, stdin=b"".join(lines))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "state").exists() != bool(how)
    summary = json.loads(done.stdout)
    assert summary["events"] == 8 and summary["rejected"] == 1 and summary["groups"] == 1
    known = statuses(tmp_path / "out")
    roles = {url.removeprefix("https://"): status["role"] for url, status in known.items()}
    group = [roles[name] for name in ("a.example/1", "b.example/copy", "c.example/near")]
    assert sorted(group) == ["duplicate", "duplicate", "winner"]
    assert roles["d.example/other"] == "unique"
    assert roles["a.example/old"] == "redirect"
    assert roles["e.example/dead"] == "gone"
    winner = next(url for url, status in known.items() if status["role"] == "winner")
    for status in known.values():
        if status["role"] == "duplicate":
            assert status["winner"] == winner and status["similarity"] >= 0.9
            assert status["relation"] == ("exact" if status["similarity"] == 1 else "near")
    assert known["https://a.example/old"]["target"] == "https://a.example/1"
    keep = (tmp_path / "out" / "keep.txt").read_text().split()
    assert keep == sorted([winner, "https://d.example/other"])
    [group_line] = map(json.loads, (tmp_path / "out" / "groups.jsonl").read_bytes().splitlines())
    assert group_line["size"] == 4 and group_line["winners"] == [winner]
    [rejected] = map(json.loads, (tmp_path / "out" / "rejected.jsonl").read_bytes().splitlines())
    assert rejected["position"] == 7 and rejected["source"] == "-"


def test_status_command(tmp_path: Path) -> None:
    dustream(
        "run", "-", "--out", tmp_path, stdin=page("https://a.example/1", ARTICLE) + page("https://b.example/", ARTICLE)
    )
    asked = dustream("status", "HTTPS://A.example/1#top", "--state", tmp_path, "--json")
    assert asked.returncode == 0
    assert json.loads(asked.stdout)["url"] == "https://a.example/1"
    unknown = dustream("status", "https://nowhere.example/", "--state", tmp_path)
    assert unknown.returncode == 1 and b"is not known" in unknown.stderr
    told = dustream("status", "https://nowhere.example/", "--state", tmp_path, "--json")
    assert told.returncode == 1 and json.loads(told.stdout) == {"url": "https://nowhere.example/", "role": "unknown"}


def test_new_input_adds_to_what_is_known(tmp_path: Path) -> None:
    dustream("run", "-", "--out", tmp_path, stdin=page("https://a.example/1", ARTICLE))
    assert statuses(tmp_path)["https://a.example/1"]["role"] == "unique"
    dustream("run", "-", "--out", tmp_path, stdin=page("https://b.example/2", ARTICLE))
    assert sorted(status["role"] for status in statuses(tmp_path).values()) == ["duplicate", "winner"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "nowhere.jsonl", "--out", "OUT"], "nowhere.jsonl"),
        (["run", "-", "--out", "OUT", "--threshold", "0"], "threshold"),
        (["run", "-", "--out", "OUT", "--partitions", "0"], "partitions"),
        (["run", "-", "--out", "OUT", "--jobs", "0"], "--jobs"),
        (["run", "-", "--out", "OUT", "--anchor-distance", "1"], "anchor_distance"),
        (["run", "-", "--out", "OUT", "--anchor-distance", "0.1", "--small-changes", "representative"], "leave one"),
        (["run", "-", "--out", "OUT", "--map", "when=t"], "when"),
        (["run", "-", "--out", "OUT", "--config", "nowhere.toml"], "nowhere.toml"),
        (["status", "https://a.example/", "--state", "OUT"], "no state"),
        (["worker", "--processors", "pages,grups"], "grups"),
        (["replay", "--into", "trial", "--since", "foo"], "--since foo"),
    ],
)
def test_errors_say_what_is_wrong(arguments: list[str], says: str, tmp_path: Path) -> None:
    given = [str(tmp_path / "out") if each == "OUT" else each for each in arguments]
    done = dustream(*given, stdin=b"")
    assert done.returncode in (1, 2)
    assert says in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "-", "--out", "TAKEN"],
        ["run", "-", "--out", "TAKEN", "--once"],
        ["run", "-", "--out", "TAKEN/below"],
        ["run", "-", "--out", "FREE", "--state", "TAKEN"],
        ["run", "-", "--out", "/dev/null/x"],
        ["demo", "--pages", "10", "--out", "TAKEN"],
    ],
)
def test_a_folder_that_cannot_be_made_is_an_error_told_in_a_line(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "TAKEN").write_text("a file")
    given = [str(tmp_path / each) if each.startswith(("TAKEN", "FREE")) else each for each in arguments]
    done = dustream(*given, stdin=page("https://a.example/1", ARTICLE))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and b"name another" in done.stderr


def test_the_processors_a_worker_names_are_those_of_the_pipeline() -> None:
    assert set(PROCESSORS) == {INTAKE, *(spec.name for spec in pipeline(Settings()).processors)}


def test_state_of_other_settings_is_refused_with_what_differs(tmp_path: Path) -> None:
    dustream("run", "-", "--out", tmp_path, stdin=page("https://a.example/1", ARTICLE))
    done = dustream("run", "-", "--out", tmp_path, "--threshold", "0.8", stdin=b"")
    assert done.returncode == 1
    assert b"threshold was 0.9" in done.stderr


def test_configuration_file_and_options(tmp_path: Path) -> None:
    config = tmp_path / "dustream.toml"
    config.write_text('threshold = 0.8\ntext = "full"\n')
    done = dustream(
        "run",
        "-",
        "--out",
        tmp_path / "out",
        "--config",
        config,
        "--threshold",
        "0.85",
        "--json",
        stdin=page("https://a.example/", OTHER),
    )
    assert json.loads(done.stdout)["settings"]["threshold"] == 0.85
    assert json.loads(done.stdout)["settings"]["text"] == "full"
    config.write_text("thresold = 0.8\n")
    wrong = dustream("run", "-", "--out", tmp_path / "out2", "--config", config, stdin=b"")
    assert wrong.returncode == 2 and b"thresold" in wrong.stderr


@pytest.mark.parametrize(
    ("options", "way"),
    [
        ([], "changed"),
        (["--anchor-distance", "0.2"], "settled_by_anchor"),
        (["--small-changes", "representative"], "settled_by_representative"),
    ],
)
def test_a_small_change_is_settled_as_the_settings_say(options: list[str], way: str, tmp_path: Path) -> None:
    pages = b"".join(page(f"https://a.example/{name}", ARTICLE) for name in ("1", "2"))
    dustream("run", "-", "--out", tmp_path, *options, stdin=pages)
    again = page("https://a.example/2", ARTICLE + " One more.", 2)
    done = dustream("run", "-", "--out", tmp_path, *options, "--json", stdin=again)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fetches"] == {"new": 2, way: 1}
    assert json.loads(done.stdout)["roles"] == {"duplicate": 1, "winner": 1}


@pytest.mark.slow
def test_the_summary_tells_how_pages_lie_in_tier_2(tmp_path: Path) -> None:
    pages = b"".join(page(f"https://a.example/{name}", f"{name} " * (40 + 3 * name)) for name in range(20))
    dustream("run", "-", "--out", tmp_path, "--partitions", "4", stdin=pages)
    before = json.loads((tmp_path / "summary.json").read_text())["tier2"]
    assert sum(before["pages"]) == 20 and len(before["pages"]) == 4 and before["remapped"] == 0
    again = b"".join(page(f"https://a.example/{name}", ARTICLE, 2) for name in range(20))
    dustream("run", "-", "--out", tmp_path, "--partitions", "4", stdin=again)
    after = json.loads((tmp_path / "summary.json").read_text())["tier2"]
    home = after["pages"].index(20)
    assert after == {"pages": after["pages"], "imbalance": 4.0, "remapped": 20 - before["pages"][home]}
    once = dustream("run", "-", "--out", tmp_path / "once", "--once", "--json", stdin=pages)
    assert json.loads(once.stdout)["tier2"] is None


def test_every_refused_input_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.bin"
    good.write_bytes(page("https://a.example/1", ARTICLE))
    bad.write_bytes(bytes(range(256)) * 20)
    done = dustream("run", good, bad, "--out", tmp_path / "out", "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["refused"] == [str(bad)]
    assert b"bad.bin" in done.stderr
    alone = dustream("run", bad, "--out", tmp_path / "out2")
    assert alone.returncode == 1 and b"bad.bin" in alone.stderr


def test_a_folder_of_which_nothing_can_be_read_is_an_error_and_the_formats_are_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a.bin", "b.bin"):
        (folder / name).write_bytes(bytes(range(256)) * 20)
    (folder / "c.jsonl").write_text("{'no': 'json'}\n")
    done = dustream("run", folder, "--out", tmp_path / "out")
    assert done.returncode == 1 and b"no input could be read" in done.stderr
    assert done.stderr.count(b"refused: ") == 2 and done.stderr.count(b"Formats read") == 1


def test_results_of_a_run_as_input_are_noticed(tmp_path: Path) -> None:
    dustream("run", "-", "--out", tmp_path / "out", stdin=page("https://a.example/1", ARTICLE))
    done = dustream("run", tmp_path / "out", "--out", tmp_path / "again")
    assert b"looks like the results of a run" in done.stderr


def test_compare_says_what_it_took_a_name_for(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    dustream("run", "-", "--out", tmp_path / "out", stdin=page("https://a.example/1", ARTICLE))
    typo = dustream("compare", tmp_path / "out", "nosuch", "--bootstrap", "127.0.0.1:1")
    assert typo.returncode == 2 and b"no file or folder nosuch, and as the name of an application" in typo.stderr
    empty = dustream("compare", tmp_path / "out", tmp_path / "empty")
    assert empty.returncode == 2 and b"no status.jsonl" in empty.stderr


@pytest.mark.slow
def test_map_learned_from_a_sample_gives_the_same_outcome(tmp_path: Path) -> None:
    web, cells = tmp_path / "web.jsonl", tmp_path / "map.bin"
    dustream("generate", "--pages", 300, "--out", web)
    built = dustream("partitions", web, "--partitions", 4, "--out", cells)
    assert built.returncode == 0, built.stderr
    plain = dustream("run", web, "--out", tmp_path / "plain", "--partitions", 4, "--json")
    mapped = dustream("run", web, "--out", tmp_path / "mapped", "--partitions", 4, "--partition-map", cells, "--json")
    assert mapped.returncode == 0, mapped.stderr
    assert json.loads(mapped.stdout)["state_hash"] == json.loads(plain.stdout)["state_hash"]
    other = dustream("run", web, "--out", tmp_path / "plain", "--partitions", 4, "--partition-map", cells)
    assert other.returncode == 1 and b"another partition map" in other.stderr
    wrong = dustream("run", web, "--out", tmp_path / "wrong", "--partitions", 8, "--partition-map", cells)
    assert wrong.returncode == 2 and b"--partitions 4" in wrong.stderr


def test_once_leaves_the_state_of_another_run_alone(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_bytes(page("https://a.example/1", ARTICLE))
    kept = dustream("run", tmp_path / "pages.jsonl", "--out", tmp_path / "out")
    assert kept.returncode == 0, kept.stderr
    again = dustream("run", tmp_path / "pages.jsonl", "--out", tmp_path / "out", "--once")
    assert again.returncode != 0 and b"use another --out" in again.stderr
    both = dustream("run", tmp_path / "pages.jsonl", "--out", tmp_path / "x", "--once", "--state", tmp_path / "y")
    assert both.returncode == 2 and b"not allowed with" in both.stderr


def test_after_once_there_is_nothing_to_ask(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_bytes(page("https://a.example/1", ARTICLE))
    assert dustream("run", tmp_path / "pages.jsonl", "--out", tmp_path / "out", "--once").returncode == 0
    asked = dustream("status", "https://a.example/1", "--state", tmp_path / "out")
    assert asked.returncode != 0 and b"--once keeps no state" in asked.stderr


def test_a_damaged_installation_is_one_line_and_no_page_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def take_in(*args: object) -> None:
        raise ModuleNotFoundError("No module named 'dustream.core.moved'")

    web = tmp_path / "web.jsonl"
    web.write_text('{"url": "http://a.example/", "fetched_at": "2026-01-01T00:00:00Z", "text": "one two three"}\n')
    command = ["run", str(web), "--out", str(tmp_path / "out"), "--jobs", "1", "--quiet"]
    with monkeypatch.context() as broken:
        broken.setattr("dustream.streams.engine.signing.take_in", take_in)
        assert main(command) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "No module named 'dustream.core.moved'" in said[0] and "*.kernel" in said[0]
    assert main(command) == 0
    assert (tmp_path / "out" / "rejected.jsonl").read_text() == ""
    assert len((tmp_path / "out" / "status.jsonl").read_text().splitlines()) == 1


def test_compile_leaves_nothing_for_a_run_to_compile(tmp_path: Path) -> None:
    (tmp_path / "crawl.jsonl").write_text('{"url": "https://a.example/", "html": "<p>some words of a page</p>"}\n')
    command = [sys.executable, "-m", "dustream"]
    done = subprocess.run([*command, "compile"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("done in ")
    subprocess.run([*command, "run", "crawl.jsonl", "--out", "result"], cwd=tmp_path, capture_output=True, check=True)
    assert "compile" not in json.loads((tmp_path / "result/summary.json").read_text())["seconds_per_stage"]


def test_command_does_not_import_the_others() -> None:
    program = "import sys; from dustream.streams.cli.main import main; main(['status', 'u', '--state', '/none'])"
    show = "print(*[name for name in sys.modules if name.startswith('dustream.streams.cli.')])"
    imported = subprocess.check_output([sys.executable, "-c", f"{program}; {show}"], text=True).split()
    assert "dustream.streams.cli.status" in imported
    assert not {"dustream.streams.cli.serve", "dustream.streams.cli.run"} & {*imported}


def test_command_that_does_not_exist_is_refused_with_all_that_do() -> None:
    done = dustream("runn")
    choices = done.stderr.replace(b"'", b"").partition(b"choose from ")[2]  # quoted up to Python 3.11
    assert done.returncode == 2 and {b"run", b"serve"} < set(choices.rstrip(b")\n").split(b", "))
