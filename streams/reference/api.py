"""The Python API: `dustream.__all__` with signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import dustream
from dustream.core import errors
from dustream.streams.reference.markdown import block, docstring

ERRORS_END = """\
`str(error)` says what is wrong and what to do. Commands print it and end with exit status 1, or 2 for a `BadSetting`.
"""
MESSAGES = ("CrawlEvent", "DuplicateStatus", "RuleSet", "UrlRule")


def api_page() -> str:
    names = [name for name in dustream.__all__ if name != "__version__"]
    things = {name: getattr(dustream, name) for name in names}
    functions = [name for name in names if inspect.isfunction(things[name])]
    failures = [name for name in names if inspect.isclass(things[name]) and issubclass(things[name], Exception)]
    classes = [name for name in names if name not in {*functions, *failures, *MESSAGES}]
    parts = ["# Python API\n", docstring(dustream).rstrip() + "\n", "## Functions\n"]
    for name in functions:
        parts += [
            f"### {name}\n",
            block(f"dustream.{name}{_signature(things[name])}", "python"),
            docstring(things[name]),
        ]
    parts.append("## Classes\n")
    for name in classes:
        parts += [f"### {name}\n", docstring(things[name]), *_members(things[name])]
    links = ", ".join(f"`{name}`" for name in MESSAGES)
    parts += ["## Messages\n", f"{links} have the fields listed in [messages](messages.md).\n"]
    parts += ["## Errors\n", block(inspect.cleandoc(errors.__doc__ or "").split("\n\n", 1)[1])]
    parts.append(ERRORS_END)
    return "\n".join(parts)


def _members(kind: type) -> Iterator[str]:
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property) or hasattr(member, "attrname"):
            text = docstring(member.fget if isinstance(member, property) else member)
            yield f"**`.{name}`** {text}".rstrip() + "\n"
        elif isinstance(member, classmethod):
            written = f"{kind.__name__}.{name}{_signature(getattr(kind, name))}"
            yield f"**`{written}`**\n\n{docstring(member.__func__)}".rstrip() + "\n"
        elif inspect.isfunction(member):
            yield f"**`.{name}{_signature(member)}`**\n\n{docstring(member)}".rstrip() + "\n"
    fields = getattr(kind, "__struct_fields__", ())
    if shown := [name for name in fields if not name.startswith("_")]:
        yield f"Fields: {', '.join(f'`{name}`' for name in shown)}.\n"


def _signature(function: Any) -> str:
    """As it is written in the source, without `self`."""
    signature = inspect.signature(function)
    shown, starred = [], False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        shown.append(_parameter(parameter))
    result = signature.return_annotation
    return f"({', '.join(shown)})" + ("" if result is signature.empty else f" -> {_annotation(result)}")


def _parameter(parameter: inspect.Parameter) -> str:
    text = "**" * (parameter.kind is parameter.VAR_KEYWORD) + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    return text if parameter.default is parameter.empty else f"{text} = {parameter.default!r}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else str(getattr(annotation, "__name__", annotation))
