"""The OpenAPI description, tested against the server with generated requests, good and bad."""

from __future__ import annotations

from typing import Any

import msgspec
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance, unsupported_method
from served import Served

from dustream.streams.serve.endpoints import ENDPOINTS
from dustream.streams.serve.openapi import openapi

EXAMPLES = 40

# Which texts are absolute URLs and which positions are reached is not in the description, and unknown methods are
# answered with 405 by the router.
EXCLUDED = [positive_data_acceptance, unsupported_method]


schema = schemathesis.openapi.from_dict(openapi())


@schema.parametrize()
@settings(max_examples=EXAMPLES, derandomize=True, suppress_health_check=list(HealthCheck))
def test_server_does_what_is_described(case: Any, served: Served) -> None:
    """Statuses, content types and bodies are those described; no request makes the server fail."""
    response = case.call(base_url=served.base)
    too_large = (
        [negative_data_rejection] if response.status_code == 413 else []
    )  # rejected, by a status it does not list
    case.validate_response(response, excluded_checks=EXCLUDED + too_large)


def test_every_endpoint_is_described(served: Served) -> None:
    assert served.get("/v1/openapi.json").body == msgspec.json.encode(openapi())
    paths = openapi()["paths"]
    assert {(each.method.lower(), each.path) for each in ENDPOINTS} == {
        (method, path) for path, methods in paths.items() for method in methods
    }
    issue = ["/v1/url", "/v1/urls", "/v1/decide", "/v1/groups/{id}", "/v1/why", "/v1/sites/{site}", "/v1/rules/{site}"]
    assert {*issue, "/v1/normalize", "/v1/stats"} <= paths.keys()


def test_every_answer_has_its_position() -> None:
    components = openapi()["components"]["schemas"]
    for endpoint in ENDPOINTS:
        assert {"position", "settled"} <= set(components[endpoint.answer_type.__name__]["required"]), endpoint.path
