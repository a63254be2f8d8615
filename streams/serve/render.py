"""Templates. Values are escaped everywhere. The policy of a page allows its own style, by its hash, and nothing else:
no script runs, and nothing is loaded."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dustream.core.rules.wording import describe, evidence_words
from dustream.streams.engine.alarms import describe_alarm
from dustream.streams.questions.criteria import time_shown

Link = Callable[..., str]
"""The address of a view of something; empty if there is none."""

_ENVIRONMENT = Environment(
    loader=PackageLoader("dustream.streams.serve"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _time(version_ms: int | None) -> str:
    return "" if not version_ms else time_shown(version_ms)


def _enumerated(items: Iterable[Any]) -> list[tuple[int, Any]]:
    return list(enumerate(items))


def _total(position: int | list[int]) -> str:
    """Records included; on Kafka, the offsets of all partitions together."""
    return f"{sum(position) if isinstance(position, list) else position:,}"


_ENVIRONMENT.filters["enumerated"] = _enumerated
_ENVIRONMENT.filters["total"] = _total
_ENVIRONMENT.globals |= {
    "time": _time,
    "alarm": describe_alarm,
    "described": describe,
    "evidence_of": evidence_words,
}
_loader = _ENVIRONMENT.loader
assert _loader is not None
STYLE = Markup(_loader.get_source(_ENVIRONMENT, "style.css")[0])
_STYLE_HASH = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'"
"""Of served pages, together with frame-ancestors, which only a header may have."""
REPORT_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'none'; base-uri 'none'"

VIEWS = (
    ("Overview", "/"),
    ("Groups", "/groups"),
    ("Threshold", "/threshold"),
    ("Rules", "/rules"),
    ("Decide", "/decide"),
)

_LINKS = {
    "url": ("/url", ("u",)),
    "group": ("/group", ("id",)),
    "pair": ("/pair", ("a", "b")),
    "rules": ("/rules", ("site",)),
    "tree": ("/tree", ("site",)),
    "decide": ("/decide", ()),
}


def served_link(view: str, *values: str) -> str:
    """Of a view that the server has."""
    path, names = _LINKS[view]
    return f"{path}?{urlencode(dict(zip(names, values, strict=True)))}" if values else path


def compile_templates() -> None:
    """At the start, so that the first view does not wait for it."""
    for name in _ENVIRONMENT.list_templates(extensions=["html"]):
        _ENVIRONMENT.get_template(name)


def fragment(template: str, link: Link, *, is_live: bool, **context: Any) -> Markup:
    """The body of a view."""
    text = _ENVIRONMENT.get_template(template).render(link=link, is_live=is_live, **context)
    return Markup(text)


def page(body: Markup, **context: Any) -> str:
    """A whole page around a body."""
    return _ENVIRONMENT.get_template("page.html").render(body=body, style=STYLE, **context)
