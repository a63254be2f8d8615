"""The commands, through their own door: files in, files and text out, errors that say what to do."""

from __future__ import annotations

import argparse
import gzip
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from dustream.core.errors import BadSetting, UnreadableInput
from dustream.core.rules.normalize import Normalizer
from dustream.core.settings import Settings
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, RuleSet, UrlRule
from dustream.streams.cli import learn, normalize, rules
from dustream.streams.cli.run import describe_rules
from dustream.streams.generate.planted_sites import planted_site
from dustream.streams.job import RunRequest, run_job
from dustream.streams.rules_io.files import read_rules, write_rules
from dustream.streams.rules_io.imports import import_rules
from dustream.streams.rules_io.inputs import read_known_urls


def run(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers()
    for command in (learn, normalize, rules):
        command.add_parser(subparsers)
    args = parser.parse_args(argv)
    code: int = args.run(args)
    return code


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rules") / "urls.tsv"
    planted = planted_site(0)
    path.write_text("url\tcluster\n" + "".join(f"{entry.url}\t{entry.cluster}\n" for entry in planted.known))
    return path


@pytest.fixture(scope="module")
def learned(table: Path) -> Path:
    out = table.with_name("rules.json")
    assert run("learn", str(table), "--out", str(out)) == 0
    return out


def test_learn_tells_what_it_found(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = table.with_name("again.json")
    run("learn", str(table), "--out", str(out))
    said = capsys.readouterr().out
    assert "site0.com: " in said
    assert "drop ?sid" in said
    run("learn", str(table), "--out", str(out), "--json")
    sites = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [site["site"] for site in sites] == ["site0.com"]
    assert read_rules(out)[0].site == "site0.com"


def test_normalize_answers_line_by_line(
    learned: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "HTTP://site0.com/s0s/view.php?id=999&page=0&sid=abc123abc123"
    normal = "http://site0.com/s0s/view.php?id=999&page=0"
    for arguments, expected in (([], normal), (["--explain"], "drop ?sid"), (["--json"], f'"normalized":"{normal}"')):
        stdin = io.TextIOWrapper(io.BytesIO(f"{url}\nno url\n".encode()))
        monkeypatch.setattr("sys.stdin", stdin)
        run("normalize", "--rules", str(learned), *arguments)
        said = capsys.readouterr().out
        assert expected in said
        assert "no url" in said
        assert said.count("\n") == 2 or "--explain" in arguments


def test_normalize_takes_urls_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    run("normalize", "HTTP://Site.com:80/a/../b", "http://site.com/#top")
    assert capsys.readouterr().out == "http://site.com/b\nhttp://site.com/\n"


def test_a_run_learns_rules_that_normalize_and_show_can_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages, out = tmp_path / "pages.jsonl", tmp_path / "result"
    lines = []
    for i in range(60):
        text = " ".join(f"word{(i * 37 + j * j) % 9973}" for j in range(60))
        for session in ("", f"&sid=s{i}"):
            url = f"http://shop.com/view?id={i}{session}"
            lines.append(json.dumps({"url": url, "fetched_at": "2024-05-01T00:00:00Z", "text": text}))
    pages.write_text("\n".join(lines))
    summary = run_job(RunRequest([str(pages)], out, out / "state", Settings(partitions=2), jobs=1))
    assert summary.rules == {"active": 1}
    for source in (["--state", str(out)], ["--rules", str(out)], ["--rules", str(out / "rules.jsonl")]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"http://shop.com/view?id=999&sid=x\n")))
        run("normalize", *source)
        assert capsys.readouterr().out == "http://shop.com/view?id=999\n"
    run("rules", "show", str(out))
    told = capsys.readouterr().out
    assert "  drop ?sid in http://shop.com/view?id=<number>\n      active, 1 of 1 in order, by tree, id " in told
    assert told.count("      for     http://shop.com/view?id=") == 3 and "against" not in told
    asked = b"http://shop.com/view?id=999&sid=x\nhttp://shop.com/view?id=7&sid=x\nHTTP://shop.com/other\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(asked)))
    run("normalize", "--state", str(out), "--json")
    fetched = [json.loads(line)["fetch"] for line in capsys.readouterr().out.splitlines()]
    assert fetched == ["http://shop.com/view?id=999&sid=x", "http://shop.com/view?id=7", "http://shop.com/other"]


def test_normalize_takes_the_folder_of_a_run_without_state(
    learned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "once"
    out.mkdir()
    (rules,) = read_rules(learned)
    (out / "rules.jsonl").write_bytes(msgspec.json.encode(rules))
    before, _ = next(rule for rule in rules.rules if rule.stage == "active").examples[0]
    for arguments in ([], ["--explain"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(before.encode())))
        assert run("normalize", "--state", str(out), *arguments) == 0
        said = capsys.readouterr().out
        assert said.splitlines()[0] == Normalizer([rules]).normalize(before) != before
    assert "a key to compare by, not known to exist: fetch the URL it is from" in said
    assert "meet their duplicates, 0 unknown, 0 wrong\n      for     " in said


def test_score_and_show(learned: Path, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("rules", "score", str(learned), str(table), "--json")
    rates = json.loads(capsys.readouterr().out)
    assert rates["false_positive_rate"] == 0
    assert rates["dup_reduction_rate"] > 0.95
    run("rules", "show", str(learned))
    assert "->" in capsys.readouterr().out


def test_tree_as_text_and_picture(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("rules", "tree", str(table))
    assert "path_0=s0s" in capsys.readouterr().out
    run("rules", "tree", str(table), "--svg", str(tmp_path / "tree.svg"))
    assert ElementTree.fromstring((tmp_path / "tree.svg").read_text()).tag.endswith("svg")


def test_a_large_tree_says_what_it_does_not_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "wide.tsv"
    rows = [f"http://x.com/d{i}/e{j}/{k}\t{i} {j} {k}" for i in range(20) for j in range(25) for k in range(20)]
    table.write_text("\n".join(["url\tcluster", *rows]) + "\n")
    run("rules", "tree", str(table), "--svg", str(tmp_path / "tree.svg"))
    run("rules", "tree", str(table))
    last = capsys.readouterr().out.splitlines()[-1].strip()
    assert last.startswith("… and ")
    drawn = ElementTree.fromstring((tmp_path / "tree.svg").read_text())
    assert [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")][-1] == last


def test_the_tree_of_an_access_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(ACCESS)
    run("rules", "tree", str(log), "--host", "http://x.com")
    assert capsys.readouterr().out.startswith("x.com: 1 node, height 1\n")


def test_folders_of_pictures_and_exports_are_made_or_refused(learned: Path, table: Path, tmp_path: Path) -> None:
    for command, name in (
        (("rules", "tree", str(table), "--svg"), "tree.svg"),
        (("rules", "export", str(learned), "--format", "nutch", "--out"), "rules.xml"),
    ):
        run(*command, str(tmp_path / "new" / name))
        assert (tmp_path / "new" / name).stat().st_size
        with pytest.raises(BadSetting, match="is a folder"):
            run(*command, str(tmp_path))


def test_learn_tells_which_rules_too_few_pages_speak_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = tmp_path / "few.tsv", tmp_path / "rules.json"
    rows = [f"http://x.com/{i}?sid={j}\t{i}" for i in range(4) for j in range(3)]
    table.write_text("\n".join(["url\tcluster", *rows]) + "\n")
    run("learn", str(table), "--out", str(out))
    assert "(shadow, not applied: 4 different pages support it, 5 are needed)" in capsys.readouterr().out
    assert [rule.stage for rule in read_rules(out)[0].rules] == ["shadow"]
    run("learn", str(table), "--out", str(out), "--pages-min", "4")
    assert "not applied" not in capsys.readouterr().out
    assert [rule.stage for rule in read_rules(out)[0].rules] == ["active"]
    with pytest.raises(BadSetting, match="--pages-min is at least 2"):
        run("learn", str(table), "--out", str(out), "--pages-min", "1")


def test_learn_says_how_many_urls_are_beyond_its_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = tmp_path / "long.tsv", tmp_path / "rules.json"
    keys = "&".join(f"k{i}=1" for i in range(10_000))
    rows = [f"http://x.com/{'x' * 100_000}\t1", f"http://x.com/?{keys}\t2", "http://x.com/\t3"]
    table.write_text("\n".join(["url\tcluster", *rows]) + "\n")
    assert run("learn", str(table), "--out", str(out)) == 0
    assert "2 URLs of too many characters (over 2048) or keys" in capsys.readouterr().err


def test_exports_can_be_read_back(learned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("rules", "export", str(learned), "--format", "nutch")
    nutch = ElementTree.fromstring(capsys.readouterr().out)
    patterns = {regex.findtext("pattern") for regex in nutch}
    assert len(patterns) == sum(rule.stage == "active" for rule in read_rules(learned)[0].rules) > 0
    run("rules", "export", str(learned), "--format", "scrapy")
    assert "NormalUrlDupeFilter" in capsys.readouterr().out


def test_of_several_versions_of_a_site_the_newest_counts(learned: Path, tmp_path: Path) -> None:
    (rules,) = read_rules(learned)
    told = [msgspec.structs.replace(rules, version=2), msgspec.structs.replace(rules, rules=(), version=1)]
    consumed = tmp_path / "consumed.jsonl"
    consumed.write_bytes(b"\n".join(map(msgspec.json.encode, told)))
    assert read_rules(consumed) == told[:1]


def test_import_adds_candidates_that_are_not_applied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text(
        "! comment\n||shop.com^$removeparam=ref\n||shop.com/a/$removeparam=x\n||shop.com^$removeparam=/re/\n"
    )
    out = tmp_path / "rules.json"
    run("rules", "import", str(listed), "--format", "adguard", "--out", str(out))
    run("rules", "import", str(listed), "--format", "adguard", "--out", str(out))
    assert [rule.stage for rule in read_rules(out)[0].rules] == ["candidate", "candidate"]
    assert "1 were not understood" in capsys.readouterr().err


CDXJ = b'com,x)/a 20240101000000 {"url": "http://x.com/a", "digest": "AAA", "status": "200", "length": "10"}\n'
CDX = b" CDX N b a m s k r M S V g\nk 20240101000000 http://x.com/a text/html 200 AAA - - 10 0 f\n"
ACCESS = b'1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET /a?b=1 HTTP/1.1" 200 203 "-" "agent"\n'


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"url\tdigest\tsize\nhttp://x.com/a\tAAA\t7\n", ("http://x.com/a", "AAA", -1, False)),
        (b"group\turl\n-1\thttp://x.com/a\n", ("http://x.com/a", "alone http://x.com/a", -1, False)),
        (b"url\tsize\tstatus\nhttp://x.com/a\t7\t200\n", ("http://x.com/a", None, 7, False)),
        (b"http://x.com/a\t5\n", ("http://x.com/a", "5", -1, False)),
        (b'{"url":"http://x.com/a","role":"redirect","group":"g"}\n', ("http://x.com/a", "g", -1, True)),
        (b'{"url":"http://x.com/a","role":"unique","group":null}\n', ("http://x.com/a", "http://x.com/a", -1, False)),
        (b'{"url":"http://x.com/a","role":"content","cluster":"c1"}\n', ("http://x.com/a", "c1", -1, False)),
        (b'{"url":"http://x.co","role":"content","cluster":null}\n', ("http://x.co", "alone http://x.co", -1, False)),
        (b'{"url":"http://x.com/a","role":"redirect","cluster":"c1"}\n', ("http://x.com/a", None, -1, True)),
        (b'{"url":"http://x.com/a","role":"duplicate","digest":"AAA"}\n', ("http://x.com/a", "AAA", -1, False)),
        (b'{"url":"http://x.com/a","status":404}\n', ("http://x.com/a", None, -1, True)),
        (CDXJ, ("http://x.com/a", "AAA", -1, False)),
        (CDX, ("http://x.com/a", "AAA", -1, False)),
        (b"k 20240101000000 http://x.com/a text/html 302 AAA - - 10 0 f\n", ("http://x.com/a", None, -1, True)),
        (ACCESS, ("http://x.com/a?b=1", None, 203, False)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_inputs(content: bytes, expected: tuple[str, str | None, int, bool], packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(gzip.compress(content) if packed else content)
    (entry,) = read_known_urls(str(path), "http://x.com").urls
    assert (entry.url, entry.cluster, entry.size_min, entry.avoid) == expected


@pytest.mark.parametrize("content", [b"hello\n", b"url\tname\nhttp://x.com/\ta\n", ACCESS, b"\x1f\x8b\x08broken"])
def test_bad_inputs_say_what_to_do(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(content)
    with pytest.raises(UnreadableInput, match=r"give a run|name one so|--host|mend it"):
        read_known_urls(str(path))


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b'{"v":99,"sites":[]}',
        b"not json",
        b'{"v":1,"sites":[{"site":"x.com","version":1,"rules":[{"id":"a","pattern":"","replacement":"","stage":"active",'
        b'"learner":"dust","rewrite":{"type":"substring","scope":"","find":"","put":"x"}}]}]}',
    ],
)
def test_rule_files_of_other_versions_or_with_hostile_rules_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_bytes(content)
    with pytest.raises(UnreadableInput):
        read_rules(path)


def test_a_hostile_nutch_file_is_refused() -> None:
    with pytest.raises(UnreadableInput):
        import_rules("nutch", '<!DOCTYPE x [<!ENTITY a "b">]><regex-normalize/>')
    found = import_rules("nutch", "<r><regex><pattern>(a+)+$</pattern><substitution>x</substitution></regex></r>")
    assert (found.rule_sets, len(found.skipped)) == ([], 1)


NUTCH = "<r><regex><pattern>{}</pattern><substitution>$1</substitution></regex></r>"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("clearurls", r"^https?:\/\/x\.com" + r"\/a" * 40 + "!"),
        ("clearurls", "a" * 100_000),
        ("clearurls", "a." * 50_000),
        ("adguard", "||x.com^$" + "a," * 100_000 + "x"),
        ("adguard", "||x" * 100_000),
        ("nutch", NUTCH.format(r"^http://x\.com/" + r"(\d+)/" * 30_000 + "$")),
        ("nutch", NUTCH.format("(" * 20_000 + "a" + ")*" * 20_000)),
    ],
)
def test_hostile_lists_are_read(kind: str, text: str) -> None:
    """A pattern that can match in several ways would take seconds to years; bench/limits.py measures it."""
    if kind == "clearurls":
        text = json.dumps({"providers": {"x": {"urlPattern": text, "rules": ["ref"]}}})
    found = import_rules(kind, text)
    assert (found.rule_sets, len(found.skipped)) == ([], 1)


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        (r"^https?:\/\/(?:www\.)?x\.com\/a\/b", "http://x.com/a/b?ref=1"),
        (r"^https?://x\.co\.uk/a\.b", "http://x.co.uk/a.b?ref=1"),
        (r"^https?:\/\/(?:[a-z0-9-]+\.)*?x\.com", "http://x.com/c?ref=1"),
    ],
)
def test_providers_that_name_a_host_and_directories_are_understood(pattern: str, url: str) -> None:
    text = json.dumps({"providers": {"x": {"urlPattern": pattern, "rules": ["ref"]}}})
    found = import_rules("clearurls", text, "active")
    assert Normalizer(found.rule_sets).normalize(url) == url.split("?")[0]


def test_a_run_tells_the_versions_of_a_site_in_one_line(tmp_path: Path) -> None:
    """Rules that replace values of one key are told together, whatever their number; others by themselves."""

    def rule(name: str, support: int, becomes: str, *tests: KeyTest) -> UrlRule:
        rewrite = PatternRewrite(tests, (KeyWrite("path_0", "set", becomes),))
        return UrlRule(
            id=name, rewrite=rewrite, pattern="", replacement="", stage="active", learner="tree", support=support,
            examples=((f"http://site.com/{name}/a", f"http://site.com/{becomes}/a"),),
        )  # fmt: skip

    rules = [rule(f"v{i}", 100 - i, "v99", KeyTest("path_0", "is", f"v{i}")) for i in range(20)]
    rules.append(rule("stable", 500, "v99", KeyTest("path_0", "is", "stable")))
    rules.append(rule("any", 7, "x", KeyTest("path_0", "some")))
    (tmp_path / "rules.jsonl").write_bytes(
        msgspec.json.encode(RuleSet(site="site.com", version=1, rules=tuple(rules))) + b"\n"
    )
    lines = describe_rules(tmp_path).splitlines()
    assert lines[2].startswith("  site.com: path_0: stable → v99, v0 → v99, v1 → v99, ")
    assert lines[2].endswith(", v10 → v99 and 9 more")
    assert lines[3:5] == ["      http://site.com/stable/a", "   -> http://site.com/v99/a"]
    assert lines[5] == "  site.com: /<*> → /x"


def test_what_stands_for_an_ignored_part_exists_where_the_evidence_is(tmp_path: Path) -> None:
    """Most URLs are under /api/, but only the manuals have duplicates: their number becomes another number."""
    rows = [f"http://x.com/api/{i}/page{i}.html\tapi {i}" for i in range(200)]
    rows += [f"http://x.com/{number}/manual/p{i}.html\tmanual {i}" for number in range(20, 26) for i in range(12)]
    table, out = tmp_path / "urls.tsv", tmp_path / "rules.json"
    table.write_text("\n".join(["url\tcluster", *rows]) + "\n")
    assert run("learn", str(table), "--out", str(out), "--method", "tree") == 0
    known = {row.split("\t")[0] for row in rows}
    [rule_set] = read_rules(out)
    assert rule_set.rules
    assert all(after in known for rule in rule_set.rules for _, after in rule.examples)


SIZES = "url\tsize\n" + "".join(
    f"http://x.com/t{i}\t{1000 + i}\nhttp://x.com/t{i}?print=1\t{1000 + i}\n" for i in range(40)
)


def test_rules_by_size_are_told_and_validated_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = tmp_path / "sizes.tsv", tmp_path / "rules.json"
    table.write_text(SIZES)
    assert run("learn", str(table), "--out", str(out)) == 0
    said = capsys.readouterr().out
    assert "80 URLs, only their sizes are known" in said
    assert "  drop ?print=1 at the end in http://x.com/<**> (shadow, not applied: equal sizes are no proof)\n" in said
    assert "by dust: rewrites 40: 40 of one size, 0 of another" in said
    assert "1 rule by sizes alone not applied" in said
    assert [rule.stage for rule in read_rules(out)[0].rules] == ["shadow"]
    assert run("rules", "show", str(out)) == 0
    said = capsys.readouterr().out
    assert "rewrites 40: 40 of one size, 0 of another" in said
    assert "shadow (equal sizes are no proof), 1 of 1 in order" in said
    assert run("rules", "score", str(out), str(table)) == 0
    assert "0 of 0 pairs" in capsys.readouterr().out
    assert run("rules", "score", str(out), str(table), "--shadows") == 0
    said = capsys.readouterr().out
    assert "Only sizes are known" in said
    assert "0 of 40 pairs" in said
    table.write_text(SIZES.replace("t7?print=1\t1007", "t7?print=1\t9999"))
    assert run("rules", "score", str(out), str(table), "--shadows", "--json") == 0
    scored = json.loads(capsys.readouterr().out)
    assert (scored["by"], scored["pairs"], scored["pairs_of_other_sizes"]) == ("size", 40, 1)


def test_score_needs_something_to_score_by(tmp_path: Path, learned: Path) -> None:
    table = tmp_path / "gone.tsv"
    table.write_text("url\tsize\tstatus\nhttp://x.com/a\t1\t404\n")
    with pytest.raises(UnreadableInput, match="give clusters"):
        run("rules", "score", str(learned), str(table))


def test_learn_says_how_many_lines_are_about_how_many_urls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "cdx.tsv"
    lines = [f"http://x.com/{i % 5}\td{i % 5}\t{'None' if i % 2 else '200'}" for i in range(50)]
    table.write_text("\n".join(["url\tdigest\tstatus", *lines, "http://x.com/e\td\t500"]) + "\n")
    assert run("learn", str(table), "--out", str(tmp_path / "rules.json")) == 0
    said = capsys.readouterr()
    assert "from 5 URLs in 51 lines" in said.out
    assert "1 of 51 lines describe no page" in said.err


def test_rules_are_scored_by_the_clusters_of_a_generated_web(
    learned: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = tmp_path / "web.truth.jsonl"
    rows = [line.split("\t") for line in table.read_text().splitlines()[1:]]
    lines = [{"kind": "truth", "v": 1}, *({"url": url, "role": "content", "cluster": c} for url, c in rows)]
    truth.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run("rules", "score", str(learned), str(table), "--json")
    run("rules", "score", str(learned), str(truth), "--json")
    by_table, by_truth = capsys.readouterr().out.splitlines()
    assert by_truth == by_table


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"url":"http://x.com/a","title":"t"}\n{"url":"http://x.com/b","status":404}\n', "one of cluster"),
        (b'{"address":"http://x.com/a","cluster":"1"}\n', "none of the 1 lines"),
        (b"url\tcluster\n/a\t1\n", "absolute URL"),
    ],
)
def test_learn_says_what_an_input_does_not_tell(content: bytes, said: str, tmp_path: Path) -> None:
    path, out = tmp_path / "input", tmp_path / "rules.json"
    path.write_bytes(content)
    with pytest.raises(UnreadableInput, match=said):
        run("learn", str(path), "--out", str(out))
    assert not out.exists()


def test_a_host_that_is_none_is_blamed(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(ACCESS)
    with pytest.raises(BadSetting, match="--host 'x' is no address"):
        run("learn", str(path), "--host", "x", "--out", str(tmp_path / "rules.json"))


def test_learn_makes_the_folder_or_refuses_before_it_learns(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder" / "rules.json"
    run("learn", str(table), "--out", str(out))
    assert read_rules(out)
    for place in (out / "rules.json", out.parent):
        with pytest.raises(BadSetting):
            run("learn", "no such input", "--out", str(place))


def test_show_says_what_is_not_there(learned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadSetting, match=r"no rules for the site 'nosuch\.com'; its sites: site0\.com"):
        run("rules", "show", str(learned), "--site", "nosuch.com")
    other = tmp_path / "other.jsonl"
    other.write_text('{"url":"http://x.com/"}\n')
    with pytest.raises(UnreadableInput, match="is no rule file"):
        run("rules", "show", str(other))
    other.write_text("")
    assert run("rules", "show", str(other)) == 0
    assert "there are no rules" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "text"), [("adguard", "<regex-normalize/>"), ("nutch", "<regex-normalize/>")])
def test_an_import_of_which_nothing_is_understood_writes_nothing(kind: str, text: str, tmp_path: Path) -> None:
    listed, out = tmp_path / "list", tmp_path / "rules.json"
    listed.write_text(text)
    with pytest.raises(UnreadableInput, match=f"understood as {kind}"):
        run("rules", "import", str(listed), "--format", kind, "--out", str(out))
    assert not out.exists()


def test_rules_are_shown_by_what_they_save(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rule(name: str, saved: int, support: int) -> UrlRule:
        rewrite = PatternRewrite((KeyTest("path_0", "is", name),), (KeyWrite("path_0", "set", "x"),))
        return UrlRule(
            id=name, rewrite=rewrite, pattern="", replacement="", stage="active", learner="tree", support=support,
            saved=saved, against=((f"http://a.com/{name}", "http://a.com/x"),),
        )  # fmt: skip

    few = RuleSet(site="few.com", version=1, rules=(rule("f", 3, 9),))
    many = RuleSet(site="many.com", version=1, rules=(rule("a", 5, 90), rule("b", 50, 60), rule("c", 0, 7)))
    path = tmp_path / "rules.json"
    write_rules(path, [few, many])
    run("rules", "show", str(path))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "→" in line or "version" in line] == [
        "many.com", "/b", "/c", "/a", "few.com", "/f",
    ]  # fmt: skip
    assert "      active, 2 of 3 in order, by tree, id b" in lines and "      saves 50 URLs; rewrites 60:" in str(lines)
    assert "      against http://a.com/b" in lines
