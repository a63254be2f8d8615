"""Every parameter of the papers is a setting and an option, and changes what is learned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dustream.core.errors import BadSetting
from dustream.core.rules.learn import LearnSettings, Method, SiteUrl, learn_site
from dustream.core.rules.parameters import RuleParameters
from dustream.core.settings import parse_settings
from dustream.schemas.rules import UrlRule
from dustream.streams.cli import main
from dustream.streams.generate.planted_sites import planted_site
from dustream.streams.rules_io.files import read_rules

SESSIONS = [SiteUrl(f"http://x.com/p/{i}", f"page{i}") for i in range(60)] + [
    SiteUrl(f"http://x.com/p/{i}?sid={i * 7}", f"page{i}" if i > 1 else f"another{i}") for i in range(60)
]
PRINTS = SESSIONS[:60] + [SiteUrl(f"http://x.com/p/{i}?print=1", SESSIONS[60 + i].cluster) for i in range(60)]
"""Two of 60 lead to another page."""


def known_of(site: int | list[SiteUrl]) -> list[SiteUrl]:
    return list(planted_site(site).known) if isinstance(site, int) else site


def rules_of(site: int | list[SiteUrl], method: Method, parameters: RuleParameters) -> list[UrlRule]:
    name = planted_site(site).site if isinstance(site, int) else "x.com"
    return list(learn_site(name, known_of(site), method, LearnSettings.of(parameters)).rules)


@pytest.mark.parametrize(
    ("name", "value", "site", "method"),
    [
        ("o_min", 0.95, 1, "tree"),
        ("sigma_min", 1.0, 0, "tree"),
        ("fpr_max", 0.0, SESSIONS, "tree"),
        ("selection", "naive", 2, "tree"),
        ("substring_max", 4, 2, "dust"),
        ("bucket_max", 2, 2, "dust"),
        ("ms", 60, 2, "dust"),
        ("mrd", 0.9, 2, "dust"),
        ("mad", 100, 2, "dust"),
        ("mw", 1, 2, "dust"),
        ("validation_count", 1, 2, "dust"),
        ("refutation", 0.001, PRINTS, "dust"),
        ("unknown_max", 1.0, 5, "tree"),
        ("wrong_max", 0.1, SESSIONS, "tree"),
    ],
)
def test_each_parameter_changes_what_is_learned(
    name: str, value: float | str, site: int | list[SiteUrl], method: Method
) -> None:
    default = rules_of(site, method, RuleParameters())
    assert default and rules_of(site, method, RuleParameters(**{name: value})) != default  # type: ignore[arg-type]


def test_options_are_the_parameters_and_fan_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = tmp_path / "urls.tsv", tmp_path / "rules.json"
    table.write_text("url\tcluster\n" + "".join(f"{entry.url}\t{entry.cluster}\n" for entry in SESSIONS))

    def stages(*options: str) -> list[str]:
        assert main.main(["learn", str(table), "--out", str(out), *options]) == 0
        return [rule.stage for rules in read_rules(out) for rule in rules.rules]

    assert stages("--method", "tree") == ["shadow"]
    assert stages("--method", "tree", "--wrong-max", "0.1") == ["active"]
    assert stages("--method", "tree", "--fpr-max", "0") == []
    table.write_text("url\tcluster\n" + "".join(f"{entry.url}\t{entry.cluster}\n" for entry in PRINTS))
    assert [len(stages("--method", "fanout", "--fan-out", number)) for number in ("59", "58")] == [0, 1]
    capsys.readouterr()
    for options, said in (
        (["--mrd", "7"], "mrd 7.0 must be from 0 to 1"), (["--fan-out", "1"], "--fan-out is at least 2"),
        (["--bucket-max", "1"], "bucket_max 1 must be at least 2"), (["--refutation", "0"], "refutation 0.0 must be"),
    ):  # fmt: skip
        assert main.main(["learn", str(table), "--out", str(out), *options]) == 2
        assert said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main.main(["learn", "--help"])
    told = capsys.readouterr().out
    assert all(f"--{name.replace('_', '-')} " in told for name in RuleParameters.__struct_fields__)


@pytest.mark.parametrize("once", [False, True])
def test_a_run_learns_by_the_parameters_of_its_configuration(tmp_path: Path, once: bool) -> None:
    pages = []
    for i in range(60):
        text = " ".join(f"w{i}x{n}" for n in range(60))
        for url in (f"http://shop.com/view?id={i}", f"http://shop.com/view?id={i}&sid=s{i}"):
            pages.append(json.dumps({"url": url, "fetched_at": "2024-05-01T00:00:00Z", "text": text}))
    crawl = tmp_path / "crawl.jsonl"
    crawl.write_text("\n".join(pages) + "\n")

    def learned(name: str, config: str) -> int:
        out, path = tmp_path / name, tmp_path / f"{name}.toml"
        path.write_text(config)
        way = ["--once"] if once else ["--jobs", "1"]
        assert main.main(["run", str(crawl), "--out", str(out), "--config", str(path), *way]) == 0
        return sum(len(rules.rules) for rules in read_rules(out))

    assert learned("default", "") == 1
    assert learned("strict", "[rules]\no_min = 1.0\nsigma_min = 1.0\nsubstring_max = 1\n") == 0


def test_a_configuration_with_a_wrong_parameter_is_refused() -> None:
    assert parse_settings({"rules": {"ms": 7}}).rules == RuleParameters(ms=7)
    for wrong in ({"ms": 0}, {"sigma": 1}, {"selection": "best"}):
        with pytest.raises(BadSetting):
            parse_settings({"rules": wrong})
