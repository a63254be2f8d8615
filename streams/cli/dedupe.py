"""`dustream dedupe`: remove the near-duplicates of a corpus; and its stages as commands of their own."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dustream.streams.cli.arguments import at_least_one, count

if TYPE_CHECKING:
    from dustream.streams.dedupe.filtered import Output
    from dustream.streams.dedupe.settings import DedupeSettings
    from dustream.streams.dedupe.stages import DedupeSummary

LARGE_CLUSTER = 10_000
BARS = {
    "sign": "reading and signing",
    "match": "comparing",
    "resolve": "choosing",
    "filter": "writing rows",
    "index": "writing the index",
}

DESCRIPTION = """\
Remove the near-duplicates of a corpus: any rows that have a text. No URLs are needed, and no state is kept.

INPUT is one or more files, folders, patterns, or - for JSON lines on standard input: Parquet, Arrow (also folders
that Hugging Face `save_to_disk` wrote), JSON lines, CSV with a header; plain, gzip or zstd. In a folder, files are told
by their names (.parquet, .arrow, .jsonl, .ndjson, .json, .csv, .tsv).

Every row gets a verdict: unique, winner (kept for its cluster), duplicate (dropped for its winner), or not_compared
(no text, too short …: kept, with the reason). The exact Jaccard similarity of a duplicate to its winner is at least
--threshold. Its relation is `exact` if the texts are equal byte by byte, `same_tokens` if they are equal up to case,
white space and whatever else --tokens ignores, else `near`.

Written to --out:
  verdicts.parquet  one row per input row: file, row, id, role, cluster, winner (its id), winner_file, winner_row,
                    similarity, relation, reason. row counts from 0 in its file, blank lines left out. cluster is the
                    number of its first row, counted from 0 over the rows of --against, then those of all inputs
  summary.json      counts, settings, inputs, and references, whose names are those of no input
  kept/ dropped/ annotated/   the data, if asked for, file by file as the input

Exit status 0: done. 1: nothing could be read, or it failed. 2: wrong settings. 3: done, but inputs that could not be
read to their end were left out; they are named.

The stages can be run as commands of their own, on several machines: dustream dedupe sign, match, resolve, filter
(each has --help). A file with such a name is written as ./sign.
"""

EXAMPLES = """\
examples:
  dustream dedupe corpus/ --out result --write-kept
  dustream dedupe 'shards/*.jsonl.zst' --out result --id meta.id --text body --prefer score:desc --prefer longest
  dustream dedupe new/ --against old/ --out result --write-kept
  dustream dedupe june/ --against-state index --save-index index --out june-result --write-kept
  zcat rows.jsonl.gz | dustream dedupe - --out result --tokens code
"""

SIGN = """\
Stage 1: sign shards, one folder of signatures each in WORK. Shards that are signed already are left as they are, so any
part may be repeated, and several machines may sign into one WORK. All options that decide the outcome are given here.
With --root CORPUS, files have the same names in the results as with `dustream dedupe CORPUS`.
"""

MATCH = """\
Stage 2: find matches within a share of the buckets of all signatures in WORK. Run all shares from 1/N to N/N, in any
order, on any machine. A share that is done already is left as it is.
"""

RESOLVE = """\
Stage 3: join the matches of all shares to clusters, choose the winners, and write verdicts.parquet and summary.json.
The outcome is that of `dustream dedupe` on the same inputs in the order of their paths, to the byte, if the shards were
signed with --root.
"""

FILTER = """\
Stage 4: write the rows by the verdicts in OUT, shard by shard. --partition I/N writes one share of the shards.
"""


class DedupeParser(argparse.ArgumentParser):
    """`dedupe INPUT…`, or `dedupe STAGE …`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.stages: dict[str, argparse.ArgumentParser] = {}

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """An unknown option is an error here, so that the usage shown is that of this command."""
        if args and args[0] in self.stages:
            return self.stages[args[0]].parse_args(args[1:], namespace), []
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def add_parser(subparsers: Any) -> None:
    formatted: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    usual, subparsers._parser_class = subparsers._parser_class, DedupeParser
    parser: DedupeParser = subparsers.add_parser(
        "dedupe",
        help="remove the near-duplicates of a corpus",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        **formatted,
    )
    subparsers._parser_class = usual
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="file, folder, pattern, or - for standard input")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the results go (not needed with --dry-run)")
    _add_settings(parser)
    _add_against(parser)
    _add_outputs(parser)
    parser.add_argument("--json-lines", action="store_true", help="write verdicts.jsonl, too")
    parser.add_argument("--dry-run", action="store_true", help="say what would go, and write nothing")
    parser.add_argument("--force", action="store_true", help="overwrite earlier results in --out")
    parser.add_argument(
        "--jobs",
        type=at_least_one,
        default=os.cpu_count() or 1,
        metavar="N",
        help="threads or processes (default: all cores)",
    )
    parser.add_argument(
        "--work-dir",
        type=Path,
        metavar="DIR",
        help="where work files go (default: OUT/work); they need about 8 bytes for each word of the corpus. They are "
        "removed at the end. After an interrupt they stay only if this option is given: then the same command goes on "
        "from the shards that are signed",
    )
    _add_shown(parser)
    parser.set_defaults(run=run)
    for name, text, add, command in (
        ("sign", SIGN, _add_sign, run_sign),
        ("match", MATCH, _add_match, run_match),
        ("resolve", RESOLVE, _add_resolve, run_resolve),
        ("filter", FILTER, _add_filter, run_filter),
    ):
        stage = argparse.ArgumentParser(prog=f"{parser.prog} {name}", description=text, **formatted)
        add(stage)
        stage.set_defaults(run=command)
        parser.stages[name] = stage


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--text", default="text", metavar="COLUMN", help="column with the text, or a nested name a.b")
    parser.add_argument(
        "--id", metavar="COLUMN", help="column by which rows are known, of any type (default: file and row number)"
    )
    parser.add_argument(
        "--threshold", type=float, default=0.9, metavar="T", help="similarity that makes a duplicate (default 0.9)"
    )
    parser.add_argument(
        "--prefer",
        action="append",
        metavar="WHICH",
        help="which row of a cluster wins: first (default), last, longest, shortest (in tokens), COLUMN:asc or "
        "COLUMN:desc; several options in order. Rows without a value come last; the first in the input decides a tie",
    )
    parser.add_argument(
        "--tokens",
        choices=("words", "characters", "code", "raw"),
        default="words",
        help="what shingles are made of: words in small letters, and characters of scripts without spaces (words); "
        "all characters, small, white space as one (characters); words and every other visible character, for code and "
        "formulas (code); all characters as they are (raw)",
    )
    parser.add_argument(
        "--ngram",
        type=at_least_one,
        default=0,
        metavar="K",
        help="tokens in a shingle (default 5; characters and raw: 9)",
    )
    parser.add_argument(
        "--min-tokens", type=count, default=1, metavar="N", help="rows of fewer tokens are not compared (default 1)"
    )
    parser.add_argument("--keep-case", action="store_true", help="capital letters count (code and raw: always)")
    parser.add_argument(
        "--fold-chinese",
        action="store_true",
        help="traditional Chinese characters count as their simplified forms (needs dustream[chinese])",
    )


def _add_against(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--against", action="append", default=[], metavar="INPUT", help="drop rows that these inputs have; they stay"
    )
    parser.add_argument(
        "--against-state",
        action="append",
        type=Path,
        default=[],
        metavar="DIR",
        help="the same, by a saved index or the state of a run",
    )
    parser.add_argument(
        "--only-against", action="store_true", help="compare rows with --against only, not with each other"
    )
    parser.add_argument(
        "--save-index",
        type=Path,
        metavar="DIR",
        help="write the signatures of the rows that are kept, for --against-state; an index that is there grows",
    )


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--write-kept", action="store_true", help="write the rows that are kept to OUT/kept, as the input has them"
    )
    parser.add_argument("--write-dropped", action="store_true", help="write the others to OUT/dropped")
    parser.add_argument(
        "--annotate",
        action="store_true",
        help="write all rows to OUT/annotated, with the columns dedupe_role, dedupe_cluster, dedupe_winner, "
        "dedupe_similarity, dedupe_relation and dedupe_reason; columns of these names are replaced",
    )


def _add_shown(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print summary.json instead of text")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def _settings(args: argparse.Namespace) -> DedupeSettings:
    from dustream.core.text.row_signing import TokenRules
    from dustream.streams.dedupe.settings import DedupeSettings

    return DedupeSettings(
        text=args.text,
        id=args.id,
        threshold=args.threshold,
        rules=TokenRules(args.tokens, args.ngram, args.keep_case, args.fold_chinese),
        min_tokens=args.min_tokens,
        prefer=tuple(args.prefer or ["first"]),
    )


def _outputs(args: argparse.Namespace) -> list[Output]:
    asked: list[tuple[Output, bool]] = [
        ("kept", args.write_kept), ("dropped", args.write_dropped), ("annotated", args.annotate),
    ]  # fmt: skip
    return [name for name, is_asked in asked if is_asked]


# The whole command


def run(args: argparse.Namespace) -> int:
    try:
        return _dedupe(args)
    except KeyboardInterrupt:
        kept = (
            "its work files were removed"
            if args.work_dir is None
            else f"the shards signed so far are in {args.work_dir}, the same command goes on from there"
        )
        print(f"dustream: interrupted; {kept}", file=sys.stderr)
        return 130


def _dedupe(args: argparse.Namespace) -> int:
    from dustream.core.errors import BadSetting, DustreamError
    from dustream.streams.dedupe.job import DedupeRequest, run_dedupe
    from dustream.streams.disk import describe

    if args.out is None and not args.dry_run:
        raise BadSetting("name a folder for the results with --out, or use --dry-run")
    if args.dry_run and (_outputs(args) or args.save_index or args.json_lines):
        raise BadSetting("--dry-run writes nothing: leave it out, or the options that write")
    request = DedupeRequest(
        inputs=args.inputs,
        out=None if args.dry_run else args.out,
        settings=_settings(args),
        against=args.against,
        against_state=args.against_state,
        only_against=args.only_against,
        save_index=args.save_index,
        outputs=_outputs(args),
        json_lines=args.json_lines,
        force=args.force,
        jobs=args.jobs,
        work_dir=args.work_dir,
    )
    watcher = _watcher(show_bar=not args.quiet and sys.stderr.isatty())
    _interrupt_at_sigterm()
    try:
        summary = run_dedupe(request, watcher)
    except OSError as error:
        kept = "" if args.work_dir is None else f"; the shards signed so far are kept in {args.work_dir}"
        raise DustreamError(describe(error, kept=kept)) from None
    finally:
        watcher.close()
    return _tell(summary, args)


def _interrupt_at_sigterm() -> None:
    import signal

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def _watcher(*, show_bar: bool) -> Any:
    from dustream.streams.cli.terminal import shown
    from dustream.streams.dedupe.job import DedupeWatcher

    class BarWatcher(DedupeWatcher):
        """A progress bar for each stage."""

        bar: Any = None

        def stage(self, name: str, total: int) -> None:
            self.close()
            if show_bar and total:
                from tqdm import tqdm

                self.bar = tqdm(total=total, desc=BARS[name], leave=False, delay=0.5)

        def step(self) -> None:
            if self.bar is not None:
                self.bar.update()

        def notice(self, text: str) -> None:
            self.close()
            print(f"dustream: {shown(text)}", file=sys.stderr)

        def close(self) -> None:
            if self.bar is not None:
                self.bar.close()
                self.bar = None

    return BarWatcher()


def _tell(summary: DedupeSummary, args: argparse.Namespace) -> int:
    import msgspec

    from dustream.streams.cli.terminal import say_unread

    if args.json:
        print(msgspec.json.encode(summary).decode())
    else:
        print(describe(summary, is_dry=getattr(args, "dry_run", False)))
    if not summary.compared:
        print(f"dustream: {summary.nothing_compared}", file=sys.stderr)
        return 1
    return say_unread([each.path for each in summary.unread])


def describe(summary: DedupeSummary, *, is_dry: bool = False) -> str:
    """The outcome, for people."""
    from dustream.streams.cli.terminal import number_of

    share = summary.dropped / summary.rows if summary.rows else 0.0
    relations = ", ".join(f"{number:,} {name}" for name, number in summary.relations.items())
    lines = [
        f"{number_of(summary.rows, 'row')} in {number_of(len(summary.inputs), 'file')}",
        f"  kept      {summary.kept:>12,}",
        f"  dropped   {summary.dropped:>12,}  {share:.1%}" + (f": {relations}" if relations else ""),
        f"  clusters  {summary.clusters:>12,}",
    ]
    if summary.reasons:
        reasons = ", ".join(f"{number:,} {name}" for name, number in summary.reasons.items())
        lines.append(f"  not compared, and kept: {reasons}")
    large = [(cluster, size) for cluster, size in summary.largest if size >= LARGE_CLUSTER]
    if is_dry:
        lines.append("  nothing was written")
    lines += [f"  large cluster: {size:,} rows like row {cluster:,}" for cluster, size in large]
    return "\n".join(lines)


# Stages


def _add_sign(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shards", nargs="+", metavar="SHARD", help="file, folder or pattern")
    parser.add_argument("--out", type=Path, required=True, metavar="WORK", help="folder of all stages")
    parser.add_argument(
        "--root",
        metavar="DIR",
        help="folder of the whole corpus: shards are named in the results by their paths below it (default: below the "
        "folder or pattern that is named; files of the same name then get the folders above as part of it)",
    )
    _add_settings(parser)
    parser.add_argument("--reference", action="store_true", help="as --against: these rows stay as they are")
    parser.add_argument("--jobs", type=at_least_one, default=1, metavar="N", help="threads or processes (default 1)")


def run_sign(args: argparse.Namespace) -> int:
    from dustream.core.errors import UnreadableInput
    from dustream.streams.cli.terminal import say_unread, shown
    from dustream.streams.dedupe.job import SignTask, left_out, sign_tasks
    from dustream.streams.dedupe.shards import below, find_shards, parts_of
    from dustream.streams.dedupe.signatures import folder_name
    from dustream.streams.dedupe.stages import SIGNATURES

    shards, settings = find_shards(args.shards), _settings(args)
    if args.root is not None:
        shards = below(args.root, shards)
    tasks = [
        SignTask(part, args.out / SIGNATURES / folder_name(part), settings, is_reference=args.reference)
        for shard in shards
        for part in parts_of(shard)
    ]
    unread = left_out(tasks, list(sign_tasks(tasks, args.jobs)))
    for each in unread:
        print(f"dustream: left out: {shown(each.reason)}", file=sys.stderr)
    if len(unread) == len(shards):
        raise UnreadableInput("nothing was signed")
    return say_unread([each.path for each in unread])


def _add_work(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("work", type=Path, metavar="WORK", help="the folder that `sign` wrote")
    parser.add_argument(
        "--against-state", action="append", type=Path, default=[], metavar="DIR", help="a saved index to compare with"
    )


def _add_match(parser: argparse.ArgumentParser) -> None:
    _add_work(parser)
    parser.add_argument("--partition", default="1/1", metavar="I/N", help="the share to compare (default 1/1: all)")


def run_match(args: argparse.Namespace) -> int:
    from dustream.streams.dedupe.stages import ComparedRows, match, open_corpus, parse_share

    compared = ComparedRows.of(open_corpus(args.work, args.against_state))
    list(match(args.work, compared, [parse_share(args.partition)]))
    return 0


def _add_resolve(parser: argparse.ArgumentParser) -> None:
    _add_work(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the results go")
    parser.add_argument("--only-against", action="store_true", help="compare rows with references only")
    parser.add_argument("--save-index", type=Path, metavar="DIR", help="write an index of the rows that are kept")
    parser.add_argument("--jobs", type=at_least_one, default=1, metavar="N", help="threads (default 1)")
    parser.add_argument("--json-lines", action="store_true", help="write verdicts.jsonl, too")
    parser.add_argument("--force", action="store_true", help="overwrite earlier results in --out")
    _add_shown(parser)


def run_resolve(args: argparse.Namespace) -> int:
    from dustream.streams.dedupe.index import save_index
    from dustream.streams.dedupe.job import check_new_index, check_out
    from dustream.streams.dedupe.stages import (
        ComparedRows,
        open_corpus,
        read_matches,
        resolve,
        summarize,
        write_summary,
    )
    from dustream.streams.dedupe.verdicts import write_verdicts
    from dustream.streams.folders import make_folder

    corpus = open_corpus(args.work, args.against_state)
    if args.save_index is not None:
        check_new_index(args.save_index, corpus.settings, args.out)
    check_out(args.out, [known.shard.path for known in corpus.shards if known.fingerprint], force=args.force)
    pairs = read_matches(args.work, corpus)
    verdicts = resolve(ComparedRows.of(corpus), pairs, only_references=args.only_against, jobs=args.jobs)
    summary = summarize(corpus, verdicts, [])
    make_folder(args.out)
    write_verdicts(corpus, verdicts, args.out, json_lines=args.json_lines)
    write_summary(summary, args.out)
    if args.save_index is not None:
        save_index(corpus, verdicts, args.save_index)
    return _tell(summary, args)


def _add_filter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder with verdicts.parquet")
    _add_outputs(parser)
    parser.add_argument("--partition", default="1/1", metavar="I/N", help="the share of the shards (default 1/1: all)")
    parser.add_argument("--jobs", type=at_least_one, default=1, metavar="N", help="threads or processes (default 1)")


def run_filter(args: argparse.Namespace) -> int:
    from dustream.core.errors import BadSetting
    from dustream.streams.dedupe.job import filter_shards, write_metadata
    from dustream.streams.dedupe.stages import parse_share, read_summary, shards_of

    outputs = _outputs(args)
    if not outputs:
        raise BadSetting("say what to write: --write-kept, --write-dropped, --annotate")
    summary, (part, parts) = read_summary(args.out), parse_share(args.partition)
    shards = shards_of(summary)[part::parts]
    for _ in filter_shards(shards, args.out, outputs, args.jobs):
        pass
    write_metadata(summary, sorted({os.path.dirname(shard.path) for shard in shards}), args.out, outputs)
    return 0
