"""`dustream learn`: URL rules from URLs whose duplicates are known."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dustream.streams.cli.rule_options import add_fetching, add_parameters, parameters_of, validated

if TYPE_CHECKING:
    from dustream.core.rules.learn import LearnSettings, SiteCounts, SiteUrl
    from dustream.schemas.rules import RuleSet, UrlRule

DESCRIPTION = """\
Learn URL rewrite rules for each site from URLs whose duplicates are known, and write them to a file.

  dustream learn result --out rules.json                 from the groups that a run found (its --out folder)
  dustream learn urls.tsv --out rules.json               from a table: url, and cluster, digest, canonical or size
  dustream learn index.cdxj --out rules.json             from a CDX index: digests are enough, no pages needed
  dustream learn access.log --host https://www.x.com --out rules.json
                                                         from an access log: sizes are all there is
  dustream learn access.log --host https://www.x.com --validate-fetch 20 --out rules.json
                                                         and pages are fetched to prove the rules

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
        "--label-noise", type=float, default=0.0, metavar="SHARE", help="share of URLs in a wrong cluster, if known (0)"
    )
    parser.add_argument(
        "--pages-min",
        type=int,
        default=5,
        metavar="N",
        help="a rule supported by fewer pages is a shadow, which is not applied (5; at least 2)",
    )
    parser.add_argument(
        "--known-share",
        type=float,
        metavar="SHARE",
        help="share of a site's URLs that the input has, if it is a sample of them (estimated from each site's URLs)",
    )
    parser.add_argument(
        "--host", metavar="URL", help="for access logs: scheme and host of the paths, as https://www.example.com"
    )
    parser.add_argument(
        "--fan-out",
        type=int,
        default=10,
        metavar="N",
        help="of --method fanout: values that a key must take for a wildcard; smaller: subtler rules, and more (10)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per site")
    add_fetching(parser)
    add_parameters(parser)
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
            f"dustream: {unread} of {lines} lines describe no page and were left out"
            " (no absolute URL, not GET, or an answer that is neither page, redirect nor dead end)",
            file=sys.stderr,
        )
    sites = dict(by_site(known))
    rule_sets, counts, left_out = [], {}, 0
    for site, urls in counted(list(sites.items()), "sites"):
        learned = learn_site(site, urls, args.method, settings)
        left_out += learned.urls_left_out
        if learned.rules or args.json:
            counts[site] = learned.counts
        if learned.rules:
            rule_sets.append(RuleSet(site=site, version=1, rules=learned.rules))
    if args.validate_fetch and rule_sets:
        rule_sets = _validated(args, rule_sets, sites, settings)
    rules_of = {rules.site: rules.rules for rules in rule_sets}
    for site, seen in counts.items():
        _report(site, seen, rules_of.get(site, ()), args.json)
    write_rules(args.out, rule_sets)
    if left_out:
        print(
            f"dustream: {number_of(left_out, 'URL')} of too many characters (over {URL_CHARS_MAX}) or keys"
            f" (over {KEYS_PER_URL_MAX}, or rare ones) taught nothing",
            file=sys.stderr,
        )
    if not args.json:
        read = f"from {number_of(len(known), 'URL')} in {number_of(lines, 'line')}"
        _summarize(args, [rule for rules in rule_sets for rule in rules.rules], len(rule_sets), read)
    return 0


def _validated(
    args: argparse.Namespace, rule_sets: list[RuleSet], sites: dict[str, list[SiteUrl]], settings: LearnSettings
) -> list[RuleSet]:
    from dustream.streams.rules_io.validation import ValidationSettings

    urls = {site: [entry.url for entry in entries if not entry.avoid] for site, entries in sites.items()}
    how = ValidationSettings(args.validate_fetch, args.refutation, args.pages_min, landing=settings.landing)
    return validated(args, rule_sets, urls, how)


def _summarize(args: argparse.Namespace, rules: list[UrlRule], sites: int, read: str) -> None:
    from dustream.streams.cli.terminal import number_of

    print(f"{number_of(len(rules), 'rule')} for {number_of(sites, 'site')}, {read}: {args.out}")
    held = [rule for rule in rules if rule.stage != "active"]
    hints = sum(rule.evidence == "size" for rule in held)
    if hints:
        print(
            f"{number_of(hints, 'rule')} by sizes alone not applied: equal sizes are a hint, no proof"
            " (--validate-fetch N fetches pages)"
        )
    if len(held) > hints:
        print(
            f"{number_of(len(held) - hints, 'rule')} of them not applied: fewer than {args.pages_min} pages support"
            f" each (--pages-min), or more than {args.unknown_max:.0%} of its URLs or pages lead to unknown URLs"
            f" (--unknown-max), or more than {args.wrong_max:.0%} to other pages (--wrong-max)"
        )


def _settings(args: argparse.Namespace) -> LearnSettings:
    from dustream.core.errors import BadSetting
    from dustream.core.rules.joined import PAGES_MIN
    from dustream.core.rules.learn import LearnSettings

    known_share = 1.0 if args.known_share is None else args.known_share
    if not 0 < known_share <= 1 or not 0 <= args.label_noise < 0.5:
        raise BadSetting("--known-share is from above 0 to 1, --label-noise from 0 to below 0.5")
    if args.fan_out < 2:
        raise BadSetting("--fan-out is at least 2: a key with one value is no wildcard")
    if args.pages_min < PAGES_MIN:
        raise BadSetting(
            "--pages-min is at least 2: one page under many URLs may be an error page sent with status 200"
        )
    settings = LearnSettings.of(parameters_of(args))
    settings = settings.with_landing(settings.landing._replace(known_share=args.known_share))
    settings = settings._replace(fan_out=args.fan_out, active_pages_min=args.pages_min)
    return settings.with_label_noise(args.label_noise)


def _report(site: str, counts: SiteCounts, rules: tuple[UrlRule, ...], as_json: bool) -> None:
    import msgspec

    from dustream.core.rules.wording import describe, evidence_words
    from dustream.streams.cli.rule_text import example_lines
    from dustream.streams.cli.terminal import shown

    if as_json:
        print(msgspec.json.encode({"site": site, **counts._asdict(), "rules": rules}).decode())
    else:
        known = f"{counts.clusters} different pages" if counts.clusters else "only their sizes are known"
        print(f"{site}: {counts.urls} URLs, {known}")
        for rule in rules:
            why = f": {rule.reason}" if rule.reason else ""
            held = "" if rule.stage == "active" else f" ({rule.stage}, not applied{why})"
            print(f"  {shown(describe(rule))}{held}")
            print(f"      by {rule.learner}: {evidence_words(rule)}")
            print("\n".join(example_lines(rule)))
