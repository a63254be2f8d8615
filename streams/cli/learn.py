"""`dustream learn`: URL rules from URLs whose duplicates are known."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dustream.core.rules.learn import LearnedSite, LearnSettings

DESCRIPTION = """\
Learn, site by site, how the duplicate URLs of a site are made, and write rules that rewrite them to one URL each.

  dustream learn result --out rules.json                 from the groups that a run found (its --out folder)
  dustream learn urls.tsv --out rules.json               from a table: url, and cluster, digest, canonical or size
  dustream learn index.cdxj --out rules.json             from a CDX index: digests are enough, no pages needed
  dustream learn access.log --host https://www.x.com --out rules.json
                                                         from an access log: sizes are all there is

Then:  dustream rules show rules.json;  dustream rules score rules.json other.tsv;
       dustream normalize --rules rules.json < urls.txt
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "learn",
        help="learn URL rewrite rules from known duplicates",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="a run's --out folder, TSV, JSONL, CDX, CDXJ or access log"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write the rules (JSON)")
    parser.add_argument(
        "--method",
        choices=("both", "tree", "dust", "fanout"),
        default="both",
        help="pattern tree, DustBuster, or both (default); fanout is the baseline for comparison",
    )
    parser.add_argument(
        "--fpr-max", type=float, default=0.05, metavar="RATE", help="false-positive rate allowed (0.05)"
    )
    parser.add_argument(
        "--label-noise", type=float, default=0.0, metavar="SHARE", help="share of URLs in a wrong cluster, if known (0)"
    )
    parser.add_argument(
        "--pages-min",
        type=int,
        default=5,
        metavar="N",
        help="a rule that fewer pages speak for is written as a shadow: it is not applied (5; at least 2)",
    )
    parser.add_argument(
        "--unknown-max",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="a rule that leads more of its URLs to where nothing is known is a shadow (0.05)",
    )
    parser.add_argument(
        "--wrong-max",
        type=float,
        default=0.02,
        metavar="SHARE",
        help="a rule that leads more of its URLs to other pages is a shadow (0.02)",
    )
    parser.add_argument(
        "--known-share",
        type=float,
        metavar="SHARE",
        help="share of a site's URLs that the input has, if it is a sample of them (estimated from each site's URLs)",
    )
    parser.add_argument(
        "--host", metavar="URL", help="for access logs: where the paths live, as https://www.example.com"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per site")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dustream.core.rules.learn import by_site, learn_site
    from dustream.core.rules.training import KEYS_PER_URL_MAX, URL_CHARS_MAX
    from dustream.schemas.rules import RuleSet
    from dustream.streams.cli.terminal import counted, number_of
    from dustream.streams.rules_io.files import make_folder_of, write_rules
    from dustream.streams.rules_io.inputs import read_known_urls

    settings = _settings(args)
    make_folder_of(args.out)
    known, lines, unread = [], 0, 0
    for path in args.inputs:
        found = read_known_urls(path, args.host)
        known += found.urls
        lines += found.lines
        unread += found.unread
    if unread:
        print(
            f"dustream: {unread} of {lines} lines told nothing about a page and were left out"
            " (no absolute URL, not GET, or an answer that is neither page, redirect nor dead end)",
            file=sys.stderr,
        )
    rule_sets, left_out = [], 0
    for site, urls in counted(list(by_site(known)), "sites"):
        learned = learn_site(site, urls, args.method, settings)
        if learned.rules:
            rule_sets.append(RuleSet(site=site, version=1, rules=learned.rules))
        left_out += learned.urls_left_out
        _report(learned, args.json)
    write_rules(args.out, rule_sets)
    if left_out:
        print(
            f"dustream: {number_of(left_out, 'URL')} of too many characters (over {URL_CHARS_MAX}) or keys"
            f" (over {KEYS_PER_URL_MAX}, or rare ones) taught nothing",
            file=sys.stderr,
        )
    if not args.json:
        rules = [rule for rule_set in rule_sets for rule in rule_set.rules]
        held = sum(rule.stage != "active" for rule in rules)
        learned_rules = f"{number_of(len(rules), 'rule')} for {number_of(len(rule_sets), 'site')}"
        print(f"{learned_rules}, from {number_of(len(known), 'URL')} in {number_of(lines, 'line')}: {args.out}")
        hints = sum(rule.evidence == "size" for rule in rules)
        if hints:
            print(f"{number_of(hints, 'rule')} by sizes alone not applied: equal sizes are a hint, no proof")
        if held > hints:
            print(
                f"{number_of(held - hints, 'rule')} of them not applied: fewer than {args.pages_min} pages speak for"
                f" each (--pages-min), or more than {args.unknown_max:.0%} of the URLs lead to where nothing is known"
                f" (--unknown-max), or more than {args.wrong_max:.0%} to other pages (--wrong-max)"
            )
    return 0


def _settings(args: argparse.Namespace) -> LearnSettings:
    from dustream.core.errors import BadSetting
    from dustream.core.rules.candidates import CandidateSettings
    from dustream.core.rules.joined import PAGES_MIN
    from dustream.core.rules.landing import LandingSettings
    from dustream.core.rules.learn import LearnSettings

    known_share = 1.0 if args.known_share is None else args.known_share
    if not 0 <= args.unknown_max <= 1 or not 0 <= args.wrong_max <= 1 or not 0 < known_share <= 1:
        raise BadSetting("--unknown-max and --wrong-max are from 0 to 1, --known-share from above 0 to 1")
    if not 0 <= args.fpr_max <= 1 or not 0 <= args.label_noise < 0.5:
        raise BadSetting("--fpr-max is from 0 to 1, --label-noise from 0 to below 0.5")
    if args.pages_min < PAGES_MIN:
        raise BadSetting(
            "--pages-min is at least 2: one page under many URLs may be an error page sent with status 200"
        )
    landing = LandingSettings(args.wrong_max, args.unknown_max, args.known_share)
    candidates = CandidateSettings(fpr_max=args.fpr_max, landing=landing)
    settings = LearnSettings(candidates=candidates, active_pages_min=args.pages_min)
    return settings.with_label_noise(args.label_noise)


def _report(learned: LearnedSite, as_json: bool) -> None:
    import msgspec

    from dustream.core.rules.rewrite import describe, evidence_words
    from dustream.streams.cli.terminal import shown

    if as_json:
        counts = learned.counts._asdict()
        print(msgspec.json.encode({"site": learned.site, **counts, "rules": learned.rules}).decode())
    elif learned.rules:
        pages = learned.counts.clusters
        known = f"{pages} different pages" if pages else "only their sizes are known"
        print(f"{learned.site}: {learned.counts.urls} URLs, {known}")
        for rule in learned.rules:
            held = "" if rule.stage == "active" else f" ({rule.stage}: not applied)"
            print(f"  {evidence_words(rule):>28}  [{rule.learner}] {shown(describe(rule.rewrite))}{held}")
