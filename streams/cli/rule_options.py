"""Options of rule learning, by the settings they stand for, and of fetching pages to validate rules."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dustream.streams.cli.arguments import count, seconds

if TYPE_CHECKING:
    from dustream.core.rules.parameters import RuleParameters
    from dustream.schemas.rules import RuleSet
    from dustream.streams.rules_io.validation import ValidationSettings

N_DEFAULT = 20


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """One option for each field of RuleParameters, with its description and default."""
    from msgspec.inspect import LiteralType, Metadata, StructType, type_info

    from dustream.core.rules.parameters import RuleParameters

    group = parser.add_argument_group(
        "parameters", "Those of the papers, with their values; also [rules] of a --config."
    )
    struct = type_info(RuleParameters)
    assert isinstance(struct, StructType)
    for field in struct.fields:
        assert isinstance(field.type, Metadata) and field.type.extra_json_schema is not None
        kind, default = field.type.type, field.default
        is_choice = isinstance(kind, LiteralType)
        text = str(field.type.extra_json_schema["description"]).replace("%", "%%")
        group.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=type(default) if default is not None else int,
            choices=kind.values if isinstance(kind, LiteralType) else None,
            default=default,
            metavar=None if is_choice else "SHARE" if isinstance(default, float) else "N",
            help=text if default is None else f"{text} ({default})",
        )


def parameters_of(args: argparse.Namespace) -> RuleParameters:
    """BadSetting says which is wrong."""
    from dustream.core.rules.parameters import RuleParameters

    return RuleParameters(**{name: getattr(args, name) for name in RuleParameters.__struct_fields__})


def add_fetching(parser: argparse.ArgumentParser, is_always: bool = False) -> None:
    group = parser.add_argument_group(
        "fetching",
        "Pages are fetched politely: robots.txt is obeyed, one request at a time to a host, with a pause between them."
        " An outcome that cannot be fetched speaks against the rule.",
    )
    group.add_argument(
        "--validate-fetch",
        type=count,
        default=N_DEFAULT if is_always else 0,
        metavar="N",
        help="fetch up to N pages for each rule, and what it makes of them: rules whose outcomes are other pages become"
        " shadows, those that hold become active" + (f" ({N_DEFAULT})" if is_always else " (0: fetch nothing)"),
    )
    group.add_argument(
        "--fetch-delay", type=seconds, default=1.0, metavar="S", help="seconds between requests to a host (1)"
    )
    group.add_argument("--fetch-timeout", type=seconds, default=20.0, metavar="S", help="seconds for one page (20)")
    group.add_argument(
        "--user-agent", default="dustream", metavar="NAME", help="by which robots.txt and servers know it (dustream)"
    )
    group.add_argument(
        "--allow-private", action="store_true", help="also hosts that are not on the public network, such as localhost"
    )


def validated(
    args: argparse.Namespace, rule_sets: list[RuleSet], urls: Mapping[str, Iterable[str]], settings: ValidationSettings
) -> list[RuleSet]:
    """The rule sets after fetching, with a progress bar if a person is looking; says what became of the requests."""
    import sys

    from dustream.streams.cli.terminal import number_of
    from dustream.streams.rules_io.fetcher import FetchLimits
    from dustream.streams.rules_io.validation import validate_rules

    limits = FetchLimits(
        delay_s=args.fetch_delay,
        timeout_s=args.fetch_timeout,
        user_agent=args.user_agent,
        allows_private=args.allow_private,
    )
    total = sum(len(rules.rules) for rules in rule_sets)
    bar: Any = None
    if sys.stderr.isatty():
        from tqdm import tqdm

        bar = tqdm(total=total, unit=" rules", desc="validating", leave=False, delay=1)
    found = validate_rules(rule_sets, urls, settings, limits, bar.update if bar else lambda: None)
    if bar:
        bar.close()
    counts = found.counts
    print(
        f"dustream: {number_of(counts.fetched, 'page')} fetched to validate {number_of(total, 'rule')},"
        f" {counts.failed:,} failed, {counts.refused:,} not allowed (robots.txt, or no public address)",
        file=sys.stderr,
    )
    return found.rule_sets
