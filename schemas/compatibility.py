"""Whether a change to a published schema breaks programs that read or write the old one."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def breaking_changes(old: Schema, new: Schema) -> list[str]:
    """Descriptions of what breaks when `new` replaces `old`; empty if nothing does.

    Old data must stay valid (no new required field, no narrower type), and fields that old readers rely on must stay
    (no field removed, no required field made optional).
    """
    return _compare(old, new, old.get("$defs", {}), new.get("$defs", {}), "", set())


def _compare(old: Any, new: Any, old_defs: Schema, new_defs: Schema, at: str, seen: set[str]) -> list[str]:
    old, new = _resolve(old, old_defs), _resolve(new, new_defs)
    if at.count("/") > 20 or at in seen:
        return []
    seen.add(at)
    found = [
        f"{at or 'message'}: no longer accepts {kind}"
        for kind in sorted(_accepts(old, old_defs) - _accepts(new, new_defs))
    ]
    old_fields, new_fields = old.get("properties", {}), new.get("properties", {})
    found += [f"{at}/{name}: removed" for name in old_fields if name not in new_fields]
    old_required, new_required = set(old.get("required", ())), set(new.get("required", ()))
    found += [f"{at}/{name}: required now" for name in sorted(new_required - old_required)]
    found += [f"{at}/{name}: optional now, readers rely on it" for name in sorted(old_required - new_required)]
    for name in old_fields:
        if name in new_fields:
            found += _compare(old_fields[name], new_fields[name], old_defs, new_defs, f"{at}/{name}", seen)
    if "items" in old and "items" in new and isinstance(old["items"], dict) and isinstance(new["items"], dict):
        found += _compare(old["items"], new["items"], old_defs, new_defs, f"{at}[]", seen)
    if "prefixItems" in old and old["prefixItems"] != new.get("prefixItems"):
        found.append(f"{at}: another tuple")
    return found


def _resolve(schema: Any, defs: Schema) -> Schema:
    while isinstance(schema, dict) and "$ref" in schema:
        schema = defs[schema["$ref"].rsplit("/", 1)[1]]
    return schema if isinstance(schema, dict) else {}


def _accepts(schema: Schema, defs: Schema) -> set[str]:
    """The types that a schema accepts, or its values if they are listed."""
    if "anyOf" in schema:
        return set().union(*(_accepts(_resolve(each, defs), defs) for each in schema["anyOf"]))
    if "enum" in schema:
        return {repr(value) for value in schema["enum"]}
    kind = schema.get("type")
    kinds = set(kind) if isinstance(kind, list) else {kind} if kind else set()
    return kinds | ({"integer"} if "number" in kinds else set())
