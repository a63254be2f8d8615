"""`dustream run`: find the duplicates in files."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dustream.core.errors import UnreadableInput
    from dustream.core.settings import Settings
    from dustream.schemas.rules import UrlRule
    from dustream.streams.embedded.tasks import Opening
    from dustream.streams.engine.chunks import InputPlan
    from dustream.streams.job import RunProgress, RunSummary

RULES_SHOWN = 5
VALUES_SHOWN = 12
UNUSED_FETCHES = {
    "late": "late (a newer one was known)",
    "repeated": "repeated",
    "conflicting": "conflicting (another content at the same time)",
}
SETTING_OPTIONS = ("threshold", "text", "extractor", "partitions", "anchor_distance", "small_changes", "containment")

DESCRIPTION = """\
Find the near-duplicates in crawled pages and decide for each URL whether to keep it.

INPUT is one or more files, folders, patterns, or - for standard input: WARC, WET, ARC, WACZ, JSON lines, Parquet,
CDX, CDXJ; plain, gzip or zstd. The content decides the format.

Written to --out:
  status.jsonl    one line per URL: its role, group, winner and the similarity to it
  groups.jsonl    one line per group of more than one page
  keep.txt        the URLs to keep: unique pages, winners, and pages that are held
  alarms.jsonl    groups and sites held by the circuit breaker (see dustream breaker --help)
  rules.jsonl     one line per site: its URL rewrite rules (see `dustream rules show OUT`)
  rejected.jsonl  what could not be used, with file, offset and reason
  summary.json    counts, times, and a hash over the statuses, groups and rules

The state stays in OUT/state (or --state). After a kill, the same command resumes; with more inputs, it adds them to the
state.

Exit status 0: all inputs were read. 1: nothing could be read at all, or the run failed. 2: wrong settings. 3: done, but
nothing could be read of some inputs; they are named.

--once computes the final result directly and keeps no state: the same results, several times faster, for a corpus that
is deduplicated once. Pages cannot be added later, and `dustream why`, `status` and `groups` need a state.
"""

EXAMPLES = """\
examples:
  dustream run crawl.warc.gz --out result
  dustream run 'crawl/*.jsonl.zst' --out result --map fetched_at=t
  zcat pages.jsonl.gz | dustream run - --out result
  dustream run corpus/ --out result --once
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "run",
        help="find the duplicates in files of crawled pages",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="file, folder, pattern, or - for standard input")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the results go")
    add_field_map(parser)
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes that parse and sign pages (default: all cores); with 2 or more, another one compares them",
    )
    parser.add_argument(
        "--memory",
        type=int,
        metavar="MB",
        help="for caches, in all (default 224): shingle sets and RocksDB's blocks and write buffer; with --once, "
        "what is held before it is written to temporary files",
    )
    add_settings(parser)
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--state", type=Path, metavar="DIR", help="where the state is kept (default: OUT/state)")
    kept.add_argument("--once", action="store_true", help="keep no state: the same outcome, several times faster")
    add_partition_map(parser)
    parser.add_argument("--json", action="store_true", help="print summary.json instead of text")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=run)


def add_field_map(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="OURS=THEIRS",
        help="read a field under another name, as in fetched_at=t",
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """The options that decide the outcome, here or in --config."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings as TOML, winner criteria and markets too (docs/reference/settings.md); options override it",
    )
    parser.add_argument(
        "--threshold", type=float, metavar="T", help="Jaccard similarity that makes a duplicate (default 0.9)"
    )
    parser.add_argument(
        "--text", choices=("main", "full"), help="compare the main text of a page (default) or all of it"
    )
    parser.add_argument(
        "--extractor",
        choices=("scan", "resiliparse"),
        help="extractor of the text: our scanner (default), or resiliparse",
    )
    parser.add_argument("--partitions", type=int, metavar="P", help="partitions of every processor (default 8)")
    parser.add_argument(
        "--anchor-distance",
        type=float,
        metavar="D",
        help="a page within this Jaccard distance of the version that was last compared keeps its verdict without a "
        "search (default 0: every change is searched). The outcome is the same in every run; pairs within D of the "
        "threshold may be judged by an older version",
    )
    parser.add_argument(
        "--small-changes",
        choices=("anchor", "representative"),
        help="what a changed page must be close to in order to keep its verdict: its last compared version, by "
        "--anchor-distance (anchor, default), or the winner of its group (representative, as in Zhu et al.). With "
        "representatives the outcome depends on timing: runs may differ",
    )
    parser.add_argument(
        "--containment",
        choices=("all", "cjk", "off"),
        help="find pages that are a part of a longer one, such as reprints and excerpts: in any language (all, "
        "default), in Chinese, Japanese and Korean (cjk), or not at all (off). They are duplicates with the relation "
        "`contained` and stay in their own groups",
    )


def add_partition_map(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--partition-map",
        type=Path,
        metavar="FILE",
        help="partition map, written by `dustream partitions --out`; only for a fresh state",
    )


def read_settings(args: argparse.Namespace) -> Settings:
    """Defaults, then the configuration file, then the options."""
    import tomllib

    from dustream.core.errors import BadSetting
    from dustream.core.settings import parse_settings

    values: dict[str, Any] = {}
    if args.config is not None:
        try:
            values = tomllib.loads(args.config.read_text())
        except OSError as error:
            raise BadSetting(f"the configuration {args.config} cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadSetting(f"the configuration {args.config} is not TOML: {error}") from error
    for name in SETTING_OPTIONS:
        if getattr(args, name) is not None:
            values[name] = getattr(args, name)
    return parse_settings(values)


def run(args: argparse.Namespace) -> int:
    from dustream.streams.engine.worker_processes import start_server_for

    start_server_for(args.inputs, args.jobs)  # before the imports that take long
    import msgspec

    from dustream.streams.cli.terminal import say_unread
    from dustream.streams.job import MEMORY_MB, STATE_FOLDER, RunRequest, run_job
    from dustream.streams.readers import parse_field_map

    request = RunRequest(
        inputs=args.inputs,
        out=args.out,
        state=None if args.once else args.state or args.out / STATE_FOLDER,
        settings=read_settings(args),
        jobs=args.jobs,
        field_map=parse_field_map(args.map),
        partition_map=read_map(args.partition_map),
        memory_mb=MEMORY_MB if args.memory is None else args.memory,
    )
    watcher = TerminalWatcher(show_bar=not args.quiet and sys.stderr.isatty())
    for folder in filter(_is_result, map(Path, args.inputs)):
        print(f"dustream: {folder} looks like the results of a run: name what was crawled instead", file=sys.stderr)
    try:
        summary = run_job(request, watcher)  # type: ignore[arg-type]
    finally:
        watcher.close()
    if args.json:
        print(msgspec.json.encode(summary).decode())
    else:
        print(describe(summary, args.out, keeps_state=not args.once))
        print(describe_rules(args.out))
    return say_unread(summary.refused)


def _is_result(path: Path) -> bool:
    return (path / "status.jsonl").is_file() and (path / "summary.json").is_file()


def read_map(path: Path | None) -> bytes | None:
    from dustream.core.errors import BadSetting

    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise BadSetting(f"the partition map {path} cannot be read: {error.strerror}") from error


class TerminalWatcher:
    """A progress bar on the terminal, and messages on stderr."""

    def __init__(self, *, show_bar: bool) -> None:
        self._show_bar = show_bar
        self._bar: Any = None
        self._told_formats = False

    def inputs(self, plans: list[InputPlan]) -> None:
        for plan in plans:
            if plan.done:
                self._say(f"{plan.path}: already in the state, not read again")
            elif plan.start:
                self._say(f"{plan.path}: resuming at record {plan.start}")
        if self._show_bar:
            from tqdm import tqdm

            total = sum(plan.bytes_total for plan in plans if not plan.done)
            self._bar = tqdm(total=total or None, unit="B", unit_scale=True, unit_divisor=1024, leave=False)

    def opening(self, opening: Opening) -> None:
        if self._bar is not None:
            where = f"{opening.task} ({opening.number} of {opening.tasks})"
            self._bar.set_description(f"opening {where}, {opening.rows:,} rows read")

    def progress(self, progress: RunProgress) -> None:
        if self._bar is not None:
            self._bar.set_description(f"{progress.records} events")
            self._bar.update(progress.bytes_read - self._bar.n)

    def compiling(self) -> None:
        self._say("compiling the hot loops, once after an update: this may take a minute")

    def refused(self, path: str, error: UnreadableInput) -> None:
        from dustream.streams.readers.formats import FORMATS_READ

        text = str(error)
        self._say(f"refused: {text.removesuffix(FORMATS_READ) if self._told_formats else text}")
        self._told_formats = self._told_formats or text.endswith(FORMATS_READ)

    def passed_over(self, path: str) -> None:
        from dustream.streams.cli.terminal import shown

        self._say(f"{shown(path)}: not a regular file, skipped (name it to read it)")

    def notice(self, path: str, text: str) -> None:
        from dustream.streams.cli.terminal import shown

        self._say(f"{shown(path)}: {text}")

    def settling(self, stage: str) -> None:
        self._describe(f"all pages read: {stage}")

    def writing(self) -> None:
        self._describe("writing the results")

    def _describe(self, what: str) -> None:
        if self._bar is not None:
            self._bar.set_description(what)
            self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def _say(self, text: str) -> None:
        if self._bar is None:
            print(f"dustream: {text}", file=sys.stderr)
        else:
            self._bar.write(f"dustream: {text}", file=sys.stderr)


def describe(summary: RunSummary, out: Path, *, keeps_state: bool = True) -> str:
    """The summary for people."""
    roles = summary.roles
    held = f", {roles['held']:,} held" if roles.get("held") else ""
    lines = [
        f"{summary.events_now:,} events in {summary.seconds:.1f} s ({summary.pages_per_second:,.0f} a second, "
        f"{summary.peak_memory_mb:,} MB)",
        "",
        f"  {summary.pages:>9,} URLs known",
        f"  {summary.kept:>9,} to keep: {roles.get('unique', 0):,} unique, {roles.get('winner', 0):,} winners{held}",
    ]
    for role in ("duplicate", "redirect", "gone"):
        if roles.get(role):
            how = _relations(summary) if role == "duplicate" else ""
            lines.append(f"  {roles[role]:>9,} {role}{how}")
    lines.append(f"  {summary.groups:>9,} groups of more than one URL (largest {summary.largest_group:,})")
    if summary.rules:
        shown = ", ".join(f"{count:,} {stage}" for stage, count in summary.rules.items())
        lines.append(f"  {sum(summary.rules.values()):>9,} URL rules learned: {shown}")
    if unused := {way: summary.fetches[way] for way in UNUSED_FETCHES if summary.fetches.get(way)}:
        ways = ", ".join(f"{count:,} {UNUSED_FETCHES[way]}" for way, count in unused.items())
        lines.append(f"  {sum(unused.values()):>9,} more fetches changed nothing: {ways}")
    if summary.truncated:
        lines.append(f"  {summary.truncated:>9,} fetches of pages over 8 MiB, of which the first 8 MiB are compared")
    if summary.rejected:
        why = ", ".join(f"{count:,} {reason}" for reason, count in _most(summary.rejected_by_reason))
        lines.append(f"  {summary.rejected:>9,} rejected, see rejected.jsonl: {why}")
    for reasons, what in ((summary.ignored, "events ignored"), (summary.skipped, "records passed over")):
        if reasons:
            shown = ", ".join(f"{count:,} {reason}" for reason, count in _most(reasons))
            lines.append(f"  {sum(reasons.values()):>9,} {what}: {shown}")
    lines += _alarms(summary, out, keeps_state=keeps_state)
    files = "status.jsonl, groups.jsonl, keep.txt, rules.jsonl, alarms.jsonl, rejected.jsonl, summary.json"
    lines += ["", f"results in {out}: {files}"]
    return "\n".join(lines)


def _relations(summary: RunSummary) -> str:
    """How duplicates relate to their winners."""
    shown = {"exact": "exact", "near": "near", "decided": "decided", "contained": "contained in a longer page"}
    parts = [f"{summary.relations[name]:,} {words}" for name, words in shown.items() if summary.relations.get(name)]
    return f": {', '.join(parts)}"


def describe_rules(out: Path) -> str:
    """The active rules with the most support. Rules that replace values of one key are shown together: a site with many
    versions has one for each."""
    from dustream.core.rules.wording import describe as describe_rule
    from dustream.core.rules.wording import evidence_words
    from dustream.streams.rules_io.files import read_rules

    found = [(rules.site, rule) for rules in read_rules(out) for rule in rules.rules if rule.stage == "active"]
    if not found:
        return ""
    alike: dict[tuple[str, str], list[UrlRule]] = {}
    for site, rule in sorted(found, key=lambda each: (-each[1].support, each[0], each[1].id)):
        replaced = _replaced_value(rule)
        alike.setdefault((site, replaced[0] if replaced else rule.id), []).append(rule)
    lines = ["", f"URL rules in use, proven on URLs that were kept from the learner (all: dustream rules show {out}):"]
    for (site, key), rules in list(alike.items())[:RULES_SHOWN]:
        told = describe_rule(rules[0]) if len(rules) == 1 else f"{key}: {_replacements(rules)}"
        lines.append(f"  {site}: {told}")
        if len(rules) == 1:
            lines.append(f"      {evidence_words(rules[0])}")
        lines += [f"      {before}\n   -> {after}" for before, after in rules[0].examples[:1]]
    return "\n".join(lines)


def _replaced_value(rule: UrlRule) -> tuple[str, str, str] | None:
    """The key, the value and what it becomes, if that is all the rule does."""
    from dustream.schemas.rules import PatternRewrite

    if not isinstance(rule.rewrite, PatternRewrite) or len(rule.rewrite.writes) != 1:
        return None
    write = rule.rewrite.writes[0]
    values = [test.value for test in rule.rewrite.tests if test.key == write.key and test.test == "is"]
    return (write.key, values[0], write.value) if write.op == "set" and values else None


def _replacements(rules: list[UrlRule]) -> str:
    """Value by value, those with most URLs first; a value may become another one in each directory."""
    values = list(dict.fromkeys(f"{each[1]} → {each[2]}" for each in map(_replaced_value, rules) if each))
    more = f" and {len(values) - VALUES_SHOWN} more" if len(values) > VALUES_SHOWN else ""
    return ", ".join(values[:VALUES_SHOWN]) + more


def _alarms(summary: RunSummary, out: Path, *, keeps_state: bool) -> list[str]:
    if not summary.alarms:
        return []
    from dustream.streams.cli.terminal import number_of, shown
    from dustream.streams.engine.alarms import describe_alarm

    groups, sites = number_of(summary.held_groups, "group"), number_of(summary.held_sites, "site")
    lines = ["", f"ALARM: {groups} and {sites} held, not dropped"]
    lines += [f"  {shown(describe_alarm(line))}" for line in summary.alarms]
    release = f"dustream breaker release NAME --state {out}" if keeps_state else "run without --once, and release them"
    return [*lines, f"  look at them, then: {release} (see dustream breaker --help)"]


def _most(reasons: dict[str, int]) -> list[tuple[str, int]]:
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in ordered[4:])
    return ordered[:4] + ([("for other reasons", rest)] if rest else [])
