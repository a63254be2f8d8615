"""Which roles are kept: one function says it, and the published schema says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

from dustream.schemas.status import Role, is_kept

ROOT = Path(__file__).parents[2]


def test_what_the_breaker_holds_is_kept() -> None:
    assert {role for role in get_args(Role) if is_kept(role)} == {"unique", "winner", "held"}


def test_the_published_schema_names_the_kept_roles() -> None:
    schema = json.loads((ROOT / "schemas/json/DuplicateStatus.v1.json").read_text())
    described = schema["$defs"]["DuplicateStatus"]["properties"]["role"]["description"].partition(";")[0]
    named = {role for role in get_args(Role) if f"`{role}`" in described}
    assert named == {role for role in get_args(Role) if is_kept(role)}
