"""What Nutch does with an export, in Java, is what `normalize` does; what it cannot do is named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from dustream.core.rules.learn import SiteUrl, learn_site
from dustream.core.rules.normalize import Normalizer
from dustream.core.rules.rewrite import rule_id
from dustream.core.urls.standard import standard_form
from dustream.schemas.rules import KeyTest, KeyWrite, PatternRewrite, Rewrite, RuleSet, SubstringRewrite, UrlRule
from dustream.streams.cli import main
from dustream.streams.generate.planted_sites import planted_site
from dustream.streams.rules_io.exports import nutch_differences, to_nutch
from dustream.streams.rules_io.files import write_rules

HARNESS = Path(__file__).with_name("RegexNormalize.java")


def in_java(export: Path, urls: list[str]) -> list[str]:
    done = subprocess.run(
        ["java", str(HARNESS), str(export)], input="\n".join(urls), capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def rule_set(site: str, *rewrites: Rewrite) -> RuleSet:
    rules = [
        UrlRule(id=rule_id(site, each), rewrite=each, pattern="", replacement="", stage="active", learner="dust")
        for each in rewrites
    ]
    return RuleSet(site=site, version=1, rules=tuple(rules))


def everything(number: int) -> tuple[RuleSet, list[str]]:
    """All rules of a planted site, as if they were proven, and its URLs."""
    planted = planted_site(number)
    rules = [replace(rule, stage="active") for rule in learn_site(planted.site, planted.known).rules]
    return RuleSet(site=planted.site, version=1, rules=tuple(rules)), [entry.url for entry in planted.known]


def test_java_makes_of_urls_what_normalize_makes_of_them(tmp_path: Path) -> None:
    sites = [everything(number) for number in range(8)]
    sets = [rules for rules, _ in sites]
    exported, path = to_nutch(sets), tmp_path / "regex-normalize.xml"
    path.write_text(exported.text)
    left_out = {rule.id for rule in exported.left_out}
    kept = [replace(rules, rules=tuple(r for r in rules.rules if r.id not in left_out)) for rules in sets]
    assert len(left_out) < 0.2 * sum(len(rules.rules) for rules in sets)
    urls = [standard_form(url) for _, urls in sites for url in urls]
    normalizer = Normalizer(kept)
    normal = [normalizer.normalize(url) for url in urls]
    assert in_java(path, urls) == normal and sum(a != b for a, b in zip(urls, normal, strict=True)) > 1_000


REPEATED = SubstringRewrite("http://x.com/", "/feed/feed", "/feed")
HOME = SubstringRewrite("http://x.com/", "/index.html", ".html", at_end=True)
ANYWHERE = SubstringRewrite("", "//www.", "//")
TEN_GROUPS = PatternRewrite(
    (KeyTest("scheme", "is", "http"), KeyTest("host_0", "is", "com"), KeyTest("host_1", "is", "x"),
     *(KeyTest(f"path_{i}", "some") for i in range(11))),
    (KeyWrite("path_1", "set", "0"),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("rewrite", "urls"),
    [
        (REPEATED, ["http://x.com/a/feed/feed/feed/feed", "http://x.com/feed/feed/b", "http://x.com/feed"]),
        (HOME, ["http://x.com/index.html", "http://x.com/a/index.html", "http://x.com/index.html/index.html"]),
        (ANYWHERE, ["http://www.x.com/a", "http://www.y.com/a", "http://y.com/?u=http://www.x.com/", "http://www.xx.com/"]),
        (TEN_GROUPS, ["http://x.com/" + "/".join("abcdefghijk"), "http://x.com/a/b"]),
    ],
)  # fmt: skip
def test_repeated_text_home_pages_other_sites_and_many_groups(
    rewrite: Rewrite, urls: list[str], tmp_path: Path
) -> None:
    rules = rule_set("x.com", rewrite)
    path = tmp_path / "regex-normalize.xml"
    path.write_text(to_nutch([rules]).text)
    normal = [Normalizer([rules]).normalize(url) for url in urls]
    assert in_java(path, urls) == normal != urls
    assert list(nutch_differences([rules], urls)) == []


def test_what_differs_and_what_is_left_out_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = PatternRewrite(
        (KeyTest("host_1", "is", "x"), KeyTest("?sid=", "some")), (KeyWrite("?sid=", "drop"),), open=True
    )
    path, urls = tmp_path / "rules.json", tmp_path / "urls.tsv"
    write_rules(path, [rule_set("x.com", REPEATED, odd)])
    often = "http://x.com/a" + "/feed" * 12
    urls.write_text(f"url\tcluster\n{often}\t1\nhttp://x.com/b\t2\n")
    assert main.main(["rules", "export", str(path), "--format", "nutch", "--check", str(urls)]) == 0
    said = capsys.readouterr().err
    assert "nutch cannot hold this rule: drop ?sid in <**>.x" in said
    assert f"of {often}, normalize http://x.com/a/feed" in said and "1 of 2 URLs differ in nutch" in said
    assert main.main(["rules", "export", str(path), "--format", "adguard", "--check", str(urls)]) == 2
    assert "--check is for --format nutch" in capsys.readouterr().err


def test_a_learned_rule_of_one_site_leaves_other_sites_alone(tmp_path: Path) -> None:
    known = [SiteUrl(f"http://{www}x.com/{i}", str(i)) for i in range(40) for www in ("", "www.")]
    rules = RuleSet(site="x.com", version=1, rules=learn_site("x.com", known).rules)
    path = tmp_path / "regex-normalize.xml"
    path.write_text(to_nutch([rules]).text)
    urls = ["http://www.y.com/3", "http://y.com/3", "http://x.com.y.com/3", "http://www.x.org/3"]
    assert in_java(path, urls) == urls
    assert len(set(in_java(path, ["http://x.com/77", "http://www.x.com/77"]))) == 1
