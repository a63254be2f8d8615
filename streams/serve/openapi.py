"""The OpenAPI description of the lookup service, from the table of endpoints."""

from __future__ import annotations

from typing import Any

from dustream.schemas.lookup import ErrorAnswer
from dustream.schemas.wire import json_schemas
from dustream.streams.serve.endpoints import ENDPOINTS, Endpoint

_REF = "#/components/schemas/{name}"
_ERRORS = {
    "400": "a parameter is wrong",
    "401": "a token is needed",
    "404": "there is no such group or site",
    "412": "fewer records, with all that follows, are included than min_position asks for",
    "413": "the request is too large",
    "421": "the Host header names another server",
    "429": "too many requests",
    "503": "too many slow requests are under way; or a task is moving to another worker, or recovering",
}


def openapi() -> dict[str, Any]:
    """OpenAPI 3.1."""
    types = [each.answer_type for each in ENDPOINTS] + [each.asked for each in ENDPOINTS] + [ErrorAnswer]
    _, components = json_schemas(types, _REF)
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, components)
    from importlib.metadata import version

    asked = {each.asked.__name__ for each in ENDPOINTS if each.method == "GET"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "dustream", "version": version("dustream")},
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in asked},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: Endpoint, components: dict[str, Any]) -> dict[str, Any]:
    errors = {
        status: {
            "description": text,
            "content": {"application/problem+json": {"schema": {"$ref": _REF.format(name="ErrorAnswer")}}},
        }
        for status, text in _ERRORS.items()
        if status != "404" or endpoint.not_found
    }
    operation: dict[str, Any] = {
        "operationId": endpoint.path.removeprefix("/v1/").replace("/", "_").replace("{", "by_").replace("}", ""),
        "summary": endpoint.summary,
        "responses": {
            "200": {"description": endpoint.summary, "content": {"application/json": {"schema": _answer(endpoint)}}},
            **errors,
        },
    }
    if endpoint.method == "POST":
        schema = {"$ref": _REF.format(name=endpoint.asked.__name__)}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    else:
        operation["parameters"] = _parameters(endpoint, components[endpoint.asked.__name__])
    return operation


def _answer(endpoint: Endpoint) -> dict[str, str]:
    return {"$ref": _REF.format(name=endpoint.answer_type.__name__)}


def _parameters(endpoint: Endpoint, schema: dict[str, Any]) -> list[dict[str, Any]]:
    parameters = []
    for name, found in schema["properties"].items():
        in_path = "{" + name + "}" in endpoint.path
        described = dict(found)
        description = described.pop("description", name)
        parameters.append(
            {
                "name": name,
                "in": "path" if in_path else "query",
                "required": name in schema.get("required", ()),
                "description": description,
                "schema": _without_null(described),
            }
        )
    return parameters


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter is given or left out, never null."""
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return options[0] if len(options) == 1 else {key: value for key, value in schema.items() if key != "default"}
