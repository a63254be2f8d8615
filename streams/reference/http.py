"""The endpoints of `dustream serve`, from their table."""

from __future__ import annotations

from typing import Any

from dustream.streams.reference.markdown import sentence, table
from dustream.streams.serve.openapi import openapi

INTRODUCTION = """\
# HTTP endpoints

`dustream serve` answers these ([how to serve](../howto/serve.md)). `/v1/openapi.json` describes them for programs. All
answers are JSON; errors are `application/problem+json` (RFC 9457).

"""


def http_page() -> str:
    description = openapi()
    schemas = description["components"]["schemas"]
    parts = [INTRODUCTION]
    answers: dict[str, None] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            answer = _name(operation["responses"]["200"]["content"]["application/json"]["schema"])
            answers[answer] = None
            parts.append(f"## {method.upper()} {path}\n\n{sentence(operation['summary'])} Answer: `{answer}`.\n")
            parts.append(_parameters(operation, schemas))
    parts.append("## Answers\n")
    parts += [_answer(name, schemas[name]) for name in answers]
    return "\n".join(parts)


def _parameters(operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    if "requestBody" in operation:
        asked = schemas[_name(operation["requestBody"]["content"]["application/json"]["schema"])]
        rows = [
            (f"`{name}`", "body", _type(found), sentence(found.get("description", "")))
            for name, found in asked["properties"].items()
        ]
    else:
        rows = [
            (f"`{each['name']}`", each["in"], _type(each["schema"]), sentence(each["description"]))
            for each in operation["parameters"]
        ]
    return table(("parameter", "in", "type", "meaning"), rows)


def _answer(name: str, schema: dict[str, Any]) -> str:
    rows = [
        (f"`{field}`", _type(found), sentence(found.get("description", "")))
        for field, found in schema["properties"].items()
    ]
    return f"### {name}\n\n" + table(("field", "type", "meaning"), rows)


def _name(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _type(schema: dict[str, Any]) -> str:
    """As in the other pages: a name of JSON, the values, or the name of an object."""
    if "$ref" in schema:
        return f"`{_name(schema)}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items') or {})}" if schema.get("items") else "list"
    return str(schema.get("type", "any"))
