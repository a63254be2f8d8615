"""`dustream rules`: show, score, export and import URL rules."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dustream.streams.cli.rule_options import add_fetching, validated

if TYPE_CHECKING:
    from dustream.core.rules.learn import SiteUrl
    from dustream.core.rules.normalize import Normalizer
    from dustream.schemas.rules import RuleSet, UrlRule

SITES_NAMED_MAX: Final = 20
DIFFERENCES_SHOWN_MAX: Final = 10

DESCRIPTION = """\
Rules are in a JSON file written by `dustream learn`, or in the --out folder of a run.

  dustream rules show rules.json                     what each rule does, with its evidence and URLs for and against
  dustream rules score rules.json urls.tsv           how much it compresses URLs whose clusters are known, and how often
                                                     it is wrong (compression, dup-reduction and false-positive rate)
  dustream rules validate rules.json urls.tsv --out proven.json
                                                     fetches pages and what rules make of them
  dustream rules export rules.json --format nutch    for Nutch, AdGuard ($removeparam), ClearURLs or Scrapy
  dustream rules import list.txt --format adguard --out rules.json
  dustream rules tree urls.tsv --site example.com    the pattern tree of a site; --svg FILE draws it
"""

SHOW_DESCRIPTION = """\
Each rule as what URLs look like before and after it, with its evidence; those that save most URLs first.

  /docs/<version>/<*> → /docs/latest/<*> on https://x.com
  drop ?sid in https://x.com/<*>[/<**>]

  <*>        one part of a URL: a label of the host, a directory, a name, a value
  <number>   one that is a number; <version>: one that is a version in all examples; <not a|b>: none of these
  <**>       any text, several parts of it too
  [...]      may be missing
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "rules",
        help="show, score, export and import URL rules; show pattern trees",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    show = actions.add_parser(
        "show",
        help="what each rule does, those that save most URLs first",
        description=SHOW_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    show.add_argument("rules", type=Path, metavar="FILE")
    show.add_argument("--site", help="only this site")
    score = actions.add_parser("score", help="compression, dup-reduction and false-positive rate on known clusters")
    score.add_argument("rules", type=Path, metavar="FILE")
    score.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="as for learn; if only sizes are known, whether they are equal"
    )
    score.add_argument("--shadows", action="store_true", help="also apply candidates and shadows")
    score.add_argument("--host", metavar="URL", help="for access logs, as for learn")
    validate = actions.add_parser(
        "validate",
        help="fetch pages and what rules make of them",
        description="Fetch some of the known URLs that each rule changes, and what it makes of them. Rules whose"
        " outcomes are other pages, or cannot be fetched, become shadows; those that hold become active.",
    )
    validate.add_argument("rules", type=Path, metavar="FILE")
    validate.add_argument(
        "inputs", nargs="*", metavar="INPUT", help="known URLs, as for learn; else the rules' examples"
    )
    validate.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write the rules (JSON)")
    validate.add_argument("--host", metavar="URL", help="for access logs, as for learn")
    validate.add_argument(
        "--refutation", type=float, default=0.05, metavar="SHARE", help="of outcomes that may be other pages (0.05)"
    )
    validate.add_argument("--pages-min", type=int, default=5, metavar="N", help="pages that prove a rule (5)")
    add_fetching(validate, is_always=True)
    export = actions.add_parser("export", help="for other programs")
    export.add_argument("rules", type=Path, metavar="FILE")
    export.add_argument("--format", required=True, choices=("nutch", "adguard", "clearurls", "scrapy"))
    export.add_argument("--out", type=Path, metavar="FILE", help="instead of standard output")
    export.add_argument(
        "--check",
        nargs="+",
        metavar="INPUT",
        help="with nutch: known URLs, as for learn; says which of them the export does not bring to their normal form",
    )
    imported = actions.add_parser("import", help="from other programs, as candidates")
    imported.add_argument("input", type=Path, metavar="FILE")
    imported.add_argument("--format", required=True, choices=("nutch", "adguard", "clearurls"))
    imported.add_argument("--out", type=Path, required=True, metavar="FILE", help="rule file to write or add to")
    imported.add_argument("--active", action="store_true", help="make them active at once, without evidence")
    tree = actions.add_parser("tree", help="the pattern tree of a site, as text or picture")
    tree.add_argument("inputs", nargs="+", metavar="INPUT", help="as for learn")
    tree.add_argument("--site", help="which site; default: the one with the most URLs")
    tree.add_argument("--svg", type=Path, metavar="FILE", help="draw it")
    tree.add_argument("--host", metavar="URL", help="for access logs, as for learn")
    for each in (show, score, validate, export, imported, tree):
        each.add_argument("--json", action="store_true", help="JSON instead of text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    actions = {
        "show": _show, "score": _score, "validate": _validate, "export": _export, "import": _import, "tree": _tree
    }  # fmt: skip
    return actions[args.action](args)


def _show(args: argparse.Namespace) -> int:
    from dustream.core.errors import BadSetting
    from dustream.schemas.wire import encode
    from dustream.streams.rules_io.files import read_rules

    rule_sets = read_rules(args.rules)
    shown = [rules for rules in rule_sets if args.site in (None, rules.site)]
    if args.site is not None and not shown:
        sites = ", ".join(rules.site for rules in rule_sets[:SITES_NAMED_MAX])
        raise BadSetting(f"{args.rules} has no rules for the site {args.site!r}; its sites: {sites or 'none'}")
    for rules in sorted(shown, key=lambda each: (-sum(map(_saved, each.rules)), each.site)):
        print(encode(rules).decode() if args.json else _described(rules))
    if not shown:
        print(f"dustream: there are no rules in {args.rules}", file=sys.stderr)
    return 0


def _described(rules: RuleSet) -> str:
    """Those that save most come first; a number says when each is applied."""
    from dustream.core.rules.wording import describe, evidence_words
    from dustream.streams.cli.rule_text import example_lines
    from dustream.streams.cli.terminal import number_of, shown

    lines = [f"{rules.site}  (version {rules.version}, {number_of(len(rules.rules), 'rule')})"]
    for place, rule in sorted(enumerate(rules.rules, 1), key=lambda each: (-_saved(each[1]), each[0])):
        lines.append(f"  {shown(describe(rule))}")
        why = f" ({rule.reason})" if rule.reason else ""
        order = f"{place} of {len(rules.rules)} in order"
        lines.append(f"      {rule.stage}{why}, {order}, by {rule.learner}, id {rule.id}")
        lines.append(f"      saves {number_of(_saved(rule), 'URL')}; {evidence_words(rule)}")
        if rule.right + rule.unsettled + rule.wrong:
            lines.append(f"      predictions: {rule.right} right, {rule.unsettled} unknown, {rule.wrong} wrong")
        lines += example_lines(rule)
    return "\n".join(lines)


def _saved(rule: UrlRule) -> int:
    """Rule files of earlier versions have only the number of URLs that meet a duplicate."""
    return rule.saved or rule.support


def _score(args: argparse.Namespace) -> int:
    from msgspec.structs import replace

    from dustream.core.errors import UnreadableInput
    from dustream.core.rules.normalize import Normalizer
    from dustream.streams.rules_io.files import read_rules
    from dustream.streams.rules_io.inputs import read_known_urls

    rule_sets = read_rules(args.rules)
    if args.shadows:
        rule_sets = [
            replace(each, rules=tuple(replace(rule, stage="active") for rule in each.rules)) for each in rule_sets
        ]
    normalizer = Normalizer(rule_sets)
    known = [entry for path in args.inputs for entry in read_known_urls(path, args.host).urls]
    if any(entry.cluster is not None for entry in known):
        return _score_by_content(args, normalizer, known)
    sized = [entry for entry in known if entry.size_min >= 0]
    if not sized:
        raise UnreadableInput("nothing in the input is known to be a duplicate, nor of what size it is: give clusters")
    return _score_by_size(args, normalizer, sized)


def _score_by_content(args: argparse.Namespace, normalizer: Normalizer, known: list[SiteUrl]) -> int:
    import msgspec

    from dustream.core.rules.scores import Normalized, landing, score
    from dustream.core.urls.standard import standard_form

    urls = [Normalized(standard_form(e.url), normalizer.normalize(e.url), e.cluster, e.avoid) for e in known]
    found = score((each.normalized, each.cluster) for each in urls if each.cluster is not None)
    landed = landing(urls)
    standard = len({each.url for each in urls if each.cluster is not None})
    rates = {
        "compression_rate": found.compression_rate,
        "dup_reduction_rate": found.dup_reduction_rate,
        "false_positive_rate": found.false_positive_rate,
    }
    if args.json:
        ways = {"rewrites": landed.rewrites, **landed._asdict()}
        print(msgspec.json.encode({**found._asdict(), "urls_standard": standard, **rates, **ways}).decode())
        return 0
    print(f"URLs                 {found.urls_before} -> {found.urls_after}  (standard steps alone: {standard})")
    print(f"compression rate     {found.compression_rate:.4f}")
    print(f"dup-reduction rate   {found.dup_reduction_rate:.4f}")
    pairs = f"{found.false_positive_pairs} of {found.support_pairs} pairs"
    print(f"false-positive rate  {found.false_positive_rate:.5f}  ({pairs})")
    print(f"rewrites             {landed.rewrites}: {landed.words}")
    return 0


def _score_by_size(args: argparse.Namespace, normalizer: Normalizer, known: list[SiteUrl]) -> int:
    import msgspec

    from dustream.core.rules.scores import size_score

    found = size_score((normalizer.normalize(entry.url), (entry.size_min, entry.size_max)) for entry in known)
    if args.json:
        rates = {"compression_rate": found.compression_rate}
        print(msgspec.json.encode({"by": "size", **found._asdict(), **rates}).decode())
        return 0
    print("Only sizes are known: equal sizes do not prove that URLs that become one are one page.")
    print(f"URLs                 {found.urls_before} -> {found.urls_after}")
    print(f"compression rate     {found.compression_rate:.4f}")
    print(f"of other sizes       {found.pairs_of_other_sizes} of {found.pairs} pairs that become one URL")
    return 0


def _validate(args: argparse.Namespace) -> int:
    from collections import Counter

    from dustream.core.errors import BadSetting
    from dustream.core.rules.learn import by_site
    from dustream.streams.cli.terminal import print_json
    from dustream.streams.rules_io.files import make_folder_of, read_rules, write_rules
    from dustream.streams.rules_io.inputs import read_known_urls
    from dustream.streams.rules_io.validation import ValidationSettings

    if args.validate_fetch < 1 or not 0 <= args.refutation < 1 or args.pages_min < 2:
        raise BadSetting("--validate-fetch is at least 1, --refutation from 0 to below 1, --pages-min at least 2")
    make_folder_of(args.out)
    before = read_rules(args.rules)
    sites = dict(by_site(entry for path in args.inputs for entry in read_known_urls(path, args.host).urls))
    urls = {site: [entry.url for entry in entries if not entry.avoid] for site, entries in sites.items()}
    settings = ValidationSettings(args.validate_fetch, args.refutation, args.pages_min)
    rule_sets = validated(args, before, urls, settings)
    write_rules(args.out, rule_sets)
    if args.json:
        stages = Counter(rule.stage for rules in rule_sets for rule in rules.rules)
        print_json({"out": str(args.out), "stages": dict(sorted(stages.items()))})
    else:
        print("\n".join(map(_described, rule_sets)))
    return 0


def _export(args: argparse.Namespace) -> int:
    import msgspec

    from dustream.core.errors import BadSetting
    from dustream.core.rules.wording import describe
    from dustream.streams.rules_io.exports import EXPORTS
    from dustream.streams.rules_io.files import make_folder_of, read_rules

    if args.out:
        make_folder_of(args.out)
    if args.check and args.format != "nutch":
        raise BadSetting("--check is for --format nutch: the other formats do to a URL what the rule does, or nothing")
    rule_sets = read_rules(args.rules)
    export = EXPORTS[args.format](rule_sets, args.rules.resolve())
    if args.out:
        args.out.write_text(export.text)
    elif not args.json:
        sys.stdout.write(export.text)
    if args.json:
        left_out = [rule.id for rule in export.left_out]
        print(msgspec.json.encode({"format": args.format, "text": export.text, "left_out": left_out}).decode())
    for rule in export.left_out:
        print(f"dustream: {args.format} cannot hold this rule: {describe(rule)}", file=sys.stderr)
    if args.format == "nutch":
        _say_differences(args, rule_sets)
    return 0


def _say_differences(args: argparse.Namespace, rule_sets: list[RuleSet]) -> None:
    """Of the rules' own examples, and of the URLs to check by."""
    from dustream.streams.cli.terminal import number_of, shown
    from dustream.streams.rules_io.exports import nutch_differences
    from dustream.streams.rules_io.inputs import read_known_urls

    urls = {url for rules in rule_sets for rule in rules.rules for url, _ in rule.examples}
    for path in args.check or ():
        urls.update(entry.url for entry in read_known_urls(path).urls)
    found = list(nutch_differences(rule_sets, sorted(urls)))
    for each in found[:DIFFERENCES_SHOWN_MAX]:
        print(
            f"dustream: nutch makes {shown(each.exported)} of {shown(each.url)}, normalize {shown(each.normal)}",
            file=sys.stderr,
        )
    if found or args.check:
        print(f"dustream: {len(found):,} of {number_of(len(urls), 'URL')} differ in nutch", file=sys.stderr)


def _import(args: argparse.Namespace) -> int:
    import msgspec

    from dustream.core.errors import UnreadableInput
    from dustream.streams.rules_io.files import read_rules, write_rules
    from dustream.streams.rules_io.imports import import_rules

    try:
        text = args.input.read_text(errors="replace")
    except OSError as error:
        raise UnreadableInput(f"{args.input} cannot be read: {error.strerror}") from None
    found = import_rules(args.format, text, "active" if args.active else "candidate")
    if not found.rule_sets:
        first = f"; the first that is not understood: {found.skipped[0]}" if found.skipped else ""
        raise UnreadableInput(
            f"{args.input} has no rule that is understood as {args.format}{first}. Is it of another --format? Nothing"
            " was written"
        )
    before = read_rules(args.out) if args.out.exists() else []
    write_rules(args.out, _added(before, found.rule_sets))
    count = sum(len(rules.rules) for rules in found.rule_sets)
    if args.json:
        print(msgspec.json.encode({"rules": count, "sites": len(found.rule_sets), "skipped": found.skipped}).decode())
    else:
        from dustream.streams.cli.terminal import number_of

        print(f"{number_of(count, 'rule')} for {number_of(len(found.rule_sets), 'site')}: {args.out}")
        if found.skipped:
            print(f"dustream: {len(found.skipped)} were not understood, the first: {found.skipped[0]}", file=sys.stderr)
    return 0


def _added(before: list[RuleSet], more: list[RuleSet]) -> list[RuleSet]:
    """The new rules after the old ones; the same rule is not added twice."""
    from msgspec.structs import replace

    sites = {rules.site: rules for rules in before}
    for rules in more:
        there = sites.get(rules.site)
        if there is None:
            sites[rules.site] = rules
        else:
            known = {rule.id for rule in there.rules}
            new = tuple(rule for rule in rules.rules if rule.id not in known)
            sites[rules.site] = replace(there, version=there.version + bool(new), rules=there.rules + new)
    return [sites[site] for site in sorted(sites)]


def _tree(args: argparse.Namespace) -> int:
    import msgspec

    from dustream.core.errors import BadSetting
    from dustream.core.rules.learn import by_site
    from dustream.core.rules.pattern_tree import build_pattern_tree, node_regex
    from dustream.core.rules.picture import tree_svg, tree_text
    from dustream.core.rules.training import KnownUrl, training_set
    from dustream.streams.cli.terminal import number_of
    from dustream.streams.rules_io.files import make_folder_of
    from dustream.streams.rules_io.inputs import read_known_urls

    sites = dict(by_site(entry for path in args.inputs for entry in read_known_urls(path, args.host).urls))
    site = args.site or max(sites, key=lambda each: len(sites[each]), default="")
    if site not in sites:
        raise BadSetting(
            f"there is no site {site!r} in the input; its sites: {', '.join(list(sites)[:SITES_NAMED_MAX]) or 'none'}"
        )
    tree = build_pattern_tree(training_set(KnownUrl(each.url, each.cluster, each.avoid) for each in sites[site]))
    if args.svg:
        make_folder_of(args.svg)
        args.svg.write_text(tree_svg(tree))
    if args.json:
        for node in tree.nodes:
            row = {"id": node.id, "parent": node.parent, "urls": node.volume, "pattern": node_regex(tree, node)}
            print(msgspec.json.encode(row).decode())
    elif not args.svg:
        print(f"{site}: {number_of(len(tree.nodes), 'node')}, height {tree.height}")
        print(tree_text(tree))
    return 0
