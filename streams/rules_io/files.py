"""Rule files: the rule sets of several sites as JSON, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from dustream.core.errors import BadInput, BadSetting, UnreadableInput
from dustream.core.rules.rewrite import check_rewrite
from dustream.schemas.rules import RULE_SET_VERSION, RuleFile, RuleSet

Message = TypeVar("Message", RuleSet, RuleFile)

FILE_BYTES_MAX = 256 * 1024 * 1024


class _RuleFileVersion(msgspec.Struct):
    v: int | None = None


def read_rules(path: Path) -> list[RuleSet]:
    """The rule sets of a file, or of the folder of a run; every rule is checked: files may come from anywhere."""
    if path.is_dir():
        path = path / "rules.jsonl"
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise UnreadableInput(f"{path} is larger than {FILE_BYTES_MAX} bytes: it is no rule file")
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror}. `dustream learn` writes rule files") from None
    try:
        rule_sets = _rule_sets(path, data)
    except msgspec.DecodeError as error:
        raise UnreadableInput(f"{path} is no rule file: {error}. `dustream learn` writes rule files") from None
    for rules in rule_sets:
        for rule in rules.rules:
            try:
                check_rewrite(rule.rewrite)
            except BadInput as error:
                raise UnreadableInput(f"{path}: rule {rule.id} of {rules.site}: {error}") from None
    return rule_sets


def _rule_sets(path: Path, data: bytes) -> list[RuleSet]:
    """From a rule file, or one rule set a line: the rules.jsonl of a run, or records of `url.rules`, which may
    have a site several times. The newest version counts."""
    first, _, rest = data.partition(b"\n")
    if path.suffix == ".jsonl" or (rest.strip() and first.rstrip().endswith(b"}")):
        rule_sets = [_checked(path, line, RuleSet) for line in data.splitlines() if line.strip()]
        return list({rules.site: rules for rules in sorted(rule_sets, key=lambda each: each.version)}.values())
    return list(_checked(path, data, RuleFile).sites)


def _checked(path: Path, data: bytes, kind: type[Message]) -> Message:
    version = msgspec.json.decode(data, type=_RuleFileVersion).v
    if version is None:
        raise UnreadableInput(f"{path} is no rule file: it has no version `v`. `dustream learn` writes rule files")
    if not 1 <= version <= RULE_SET_VERSION:
        raise UnreadableInput(
            f"{path} has rule schema version {version}, this program knows 1 to {RULE_SET_VERSION}: learn it anew"
        )
    return msgspec.json.decode(data, type=kind)


def write_rules(path: Path, rule_sets: list[RuleSet]) -> None:
    """Written beside the file, then moved over it."""
    data = msgspec.json.format(msgspec.json.encode(RuleFile(sites=tuple(rule_sets))), indent=1)
    partial = path.with_name(path.name + ".partial")
    make_folder_of(path)
    try:
        partial.write_bytes(data + b"\n")
        os.replace(partial, path)
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be written: {error.strerror}") from None


def make_folder_of(path: Path) -> None:
    """Checked before learning, which may take an hour."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadSetting(
            f"{path.parent} cannot be made: {error.strerror}. Name another place for {path.name}"
        ) from None
    if path.is_dir():
        raise BadSetting(f"{path} is a folder: name a file in it")
