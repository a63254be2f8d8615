"""Settings, messages and result files, field by field, from their types."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from dustream.core.pipeline import TOPICS
from dustream.core.settings import Settings
from dustream.schemas.wire import PUBLIC
from dustream.streams.cli.run import SETTING_OPTIONS
from dustream.streams.engine.alarms import AlarmLine
from dustream.streams.engine.results import GroupLine, GroupMember, StatusLine
from dustream.streams.job import RunSummary
from dustream.streams.reference.markdown import block, docstring, sentence, table

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", bytes: "base64 string", type(None): "null"}

SETTINGS_INTRODUCTION = """\
# Settings

These settings decide the outcome. Write them into a TOML file and give it with `--config` to `dustream run`, `worker`,
`topics create` or `replay`, or pass them to `dustream.open` as keyword arguments. Options of a command override the
file. A state, and an application on Kafka, keep the settings they were made with: to change one, start a fresh state
(`--state`) or replay into a new application (`dustream replay`).

"""

SUMMARY_FIELDS = {
    "events": "Events taken in since the state was made.",
    "events_now": "Events taken in by this run.",
    "pages": "URLs with a status.",
    "kept": "URLs in `keep.txt`.",
    "roles": "URLs by role.",
    "relations": "Duplicates by their relation to the winner.",
    "groups": "Groups of more than one URL.",
    "largest_group": "URLs in the largest group.",
    "rejected": "Lines in `rejected.jsonl`.",
    "rejected_by_reason": "All rejected records by reason, numbers and names left out.",
    "truncated": "Fetches of pages over 8 MiB, of which the first 8 MiB were compared.",
    "fetches": "Fetches by what they did: `new`, `changed`, `unchanged`, `gone`, `redirect`, `late`, `repeated` …",
    "tier2": "Pages in each tier-2 partition, the fullest over the mean, and pages that changed their partition; null "
    "with `--once`.",
    "sizes": "With `--once`: pages with content, their bytes, the bytes of duplicates, and pages by length; null with "
    "a state, which has the size of each page.",
    "rules": "URL rules by stage.",
    "held_groups": "Groups that the circuit breaker holds.",
    "held_sites": "Sites that the circuit breaker holds.",
    "alarms": "The first 10 lines of `alarms.jsonl`.",
    "ignored": "Events that say nothing about their page (failed fetches …), by reason.",
    "skipped": "Records that are no page (images, scripts …), by reason.",
    "refused": "Inputs of which nothing could be read.",
    "seconds": "Duration of this run.",
    "seconds_per_stage": "Seconds by stage, by the clock; signing adds up over its processes.",
    "messages": "Messages handled by each processor.",
    "pages_per_second": "Events of this run over its duration.",
    "peak_memory_mb": "Peak memory of the process, and of the one that compares pages.",
    "settings": "The settings of the state.",
    "state_hash": "Hash over `status.jsonl`, `groups.jsonl` and `rules.jsonl`: equal outcomes have equal hashes.",
}

STATUS_VERSION = "`fetched_at` in milliseconds of the fetch that brought the present content."
GROUP_FIELDS = {
    "group": "The group's id: the URL of its earliest member.",
    "size": "URLs in the group.",
    "winners": "URLs with the role `winner`, or the one page that redirects lead to.",
    "kept": "URLs to keep: the winners, and the held pages.",
    "members": f"One object per URL: {', '.join(f'`{name}`' for name in GroupMember.__struct_fields__)}.",
}
ALARM_FIELDS = {
    "kind": "What is held.",
    "name": "The group's id, or the site.",
    "pages": "Pages of the group or site.",
    "held": "Those of them that are held.",
    "lost": "Of a site: pages whose winner, in the first market, is on another site.",
}


def settings_page() -> str:
    return "\n".join(
        [
            SETTINGS_INTRODUCTION,
            table(("setting", "option", "type", "default", "meaning"), map(_setting_row, _fields(Settings))),
            "Markets and winner criteria: [choose winners](../howto/choose-winners.md).\n",
            *(part for name, kind in _tables() for part in (f"## The table `[{name}]`\n", _field_table(kind))),
            "## All settings with their defaults\n",
            block(_defaults_toml(), "toml"),
        ]
    )


def _tables() -> Iterator[tuple[str, type[Struct]]]:
    """The settings that are tables of their own."""
    return ((field.name, type(field.default)) for field in _fields(Settings) if isinstance(field.default, Struct))


def _setting_row(field: msgspec.structs.FieldInfo) -> tuple[str, ...]:
    option = f"`--{field.name.replace('_', '-')}`" if field.name in SETTING_OPTIONS else ""
    kind, meaning = _described(Settings, field.name)
    default = "" if isinstance(field.default, Struct | tuple) else _value(field.default)
    return f"`{field.name}`", option, _type_name(kind), default, sentence(meaning)


def _defaults_toml() -> str:
    """A configuration file that changes nothing."""
    settings = Settings()
    lines = [f"{name} = {_toml(getattr(settings, name))}" for name in _plain_names(settings)]
    for table_name, _ in _tables():
        values = getattr(settings, table_name)
        lines += ["", f"[{table_name}]", *(f"{name} = {_toml(getattr(values, name))}" for name in _plain_names(values))]
    [market] = settings.markets
    lines += ["", "[[markets]]"]
    lines += [f"{name} = {_toml(getattr(market, name))}" for name in market.__struct_fields__]
    unused = ("preferred_tlds", "first_seen_step_days")  # refused unless their criteria are named
    return "\n".join(line for line in lines if not line.startswith(unused))


def _plain_names(settings: Struct) -> Iterator[str]:
    values = ((name, getattr(settings, name)) for name in settings.__struct_fields__)
    return (name for name, value in values if isinstance(value, str | int | float))


def _toml(value: Any) -> str:
    return msgspec.json.encode(value).decode().replace(",", ", ")


def messages_page() -> str:
    topics = {topic.message: topic.name for topic in TOPICS}
    parts = [
        "# Messages\n",
        "Public messages are JSON objects. Readers ignore unknown fields and refuse unknown schema versions (`v`). The "
        "JSON Schemas are in [schemas/json](../../schemas/json).\n",
    ]
    for kind, version in PUBLIC.items():
        parts += [f"## {kind.__name__}\n", f"Topic `{topics[kind]}`, schema version {version}.\n", docstring(kind)]
        parts.append(_field_table(kind))
        for inner in _inner_structs(kind):
            parts += [f"### {inner.__name__}\n", docstring(inner), _field_table(inner)]
    return "\n".join(parts)


def result_files_page() -> str:
    status = {name: _described_status(name) for name in StatusLine.__struct_fields__} | {"version": STATUS_VERSION}
    summary = [(f"`{name}`", SUMMARY_FIELDS[name]) for name in RunSummary.__struct_fields__]
    return "\n".join(
        [
            "# Result files\n",
            "`dustream run --out DIR` writes these files. Each appears complete or not at all. Lines are ordered by "
            "URL, group or site, so equal outcomes give equal files.\n",
            "## status.jsonl\n\nOne line per URL.\n",
            _named_table(StatusLine, status),
            "## groups.jsonl\n\nOne line per group of more than one URL.\n",
            _named_table(GroupLine, GROUP_FIELDS),
            "## keep.txt\n\nThe URLs to keep, one a line: roles `unique`, `winner` and `held`.\n",
            "## rules.jsonl\n\nOne [RuleSet](messages.md#ruleset) per site that has rules.\n",
            "## alarms.jsonl\n\nOne line per group or site that the circuit breaker holds.\n",
            _named_table(AlarmLine, ALARM_FIELDS),
            "## rejected.jsonl\n\nOne [DeadLetter](messages.md#deadletter) per record that could not be used: the "
            "first 10,000 of each input. One more line per reason, with position -1, counts the others.\n",
            "## summary.json\n",
            table(("field", "meaning"), summary),
        ]
    )


def _described_status(name: str) -> str:
    from dustream.schemas.status import DuplicateStatus

    return sentence(_described(DuplicateStatus, name)[1])


def _named_table(kind: type[Struct], meanings: dict[str, str]) -> str:
    hints = get_type_hints(kind)
    rows = [(f"`{name}`", _type_name(hints[name]), meanings[name]) for name in kind.__struct_fields__]
    return table(("field", "type", "meaning"), rows)


def _field_table(kind: type[Struct]) -> str:
    rows = []
    for field in _fields(kind):
        hint, meaning = _described(kind, field.name)
        if field.default is not msgspec.NODEFAULT:
            default = _value(field.default)
        else:
            default = "" if field.default_factory is not msgspec.NODEFAULT else "required"
        rows.append((f"`{field.name}`", _type_name(hint), default, sentence(meaning)))
    return table(("field", "type", "default", "meaning"), rows)


def _fields(kind: type[Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _described(kind: type[Struct], name: str) -> tuple[Any, str]:
    """The type of a field without its annotations, and its description."""
    hint = get_type_hints(kind, include_extras=True)[name]
    if get_origin(hint) is not Annotated:
        return hint, ""
    inner, *notes = get_args(hint)
    return inner, next((note.description or "" for note in notes if isinstance(note, Meta)), "")


def _type_name(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type_name(arguments[0])
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_type_name, sorted(arguments, key=lambda each: each is type(None))))
    if origin is dict:
        return f"object of {_type_name(arguments[1])}"
    if origin is tuple and arguments[-1] is not Ellipsis:
        return f"[{', '.join(map(_type_name, arguments))}]"
    if origin in (list, tuple):
        return f"list of {_type_name(arguments[0])}"
    return str(getattr(hint, "__name__", hint))


def _inner_structs(kind: type[Struct]) -> list[type[Struct]]:
    """The structs that fields of a message hold, at any depth, in order."""
    found: list[type[Struct]] = []

    def look(hint: Any) -> None:
        if isinstance(hint, type) and issubclass(hint, Struct) and hint not in found:
            found.append(hint)
            for inner in get_type_hints(hint).values():
                look(inner)
        for argument in get_args(hint):
            look(argument)

    for hint in get_type_hints(kind).values():
        look(hint)
    return found


def _value(value: Any) -> str:
    return f"`{msgspec.json.encode(value).decode()}`"
