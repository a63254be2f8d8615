"""Every command and option, from the parsers themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from dustream.streams.cli.main import build_parser
from dustream.streams.reference.markdown import block, sentence, table

INTRODUCTION = """\
# Commands

`dustream COMMAND --help` prints the same. Commands end with exit status 0 when they succeed, 1 when they fail, 2 for a
wrong setting or argument, 130 when interrupted; other statuses stand with their command.

| environment variable | used for |
| --- | --- |
| `DUSTREAM_BOOTSTRAP` | The Kafka cluster, if `--bootstrap` is not given. |
| `DUSTREAM_SECURITY_PROTOCOL` | `SSL`, `SASL_SSL` or `SASL_PLAINTEXT`. |
| `DUSTREAM_SASL_MECHANISM` | `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`. |
| `DUSTREAM_SASL_USERNAME`, `DUSTREAM_SASL_PASSWORD`, `DUSTREAM_SASL_PASSWORD_FILE` | SASL credentials. |
| `DUSTREAM_SSL_CA`, `DUSTREAM_SSL_CERT`, `DUSTREAM_SSL_KEY` | Files of the TLS connection. |
| `DUSTREAM_CACHE` | Where `dustream broker` keeps its jars, instead of `~/.cache/dustream`. |

"""


def commands_page() -> str:
    parser = build_parser()
    listed = [(f"[`{name}`](#dustream-{name})", sentence(text)) for name, text in _helps(parser)]
    parts = [INTRODUCTION + table(("command", "what it does"), listed)]
    for _, command in _subparsers(parser):
        parts.append(_section(command, "##"))
        parts += [_section(action, "###") for _, action in _subparsers(command)]
    return "\n".join(parts)


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()
    yield from getattr(parser, "stages", {}).items()


def _helps(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from ((each.dest, each.help or "") for each in action._choices_actions)


def _section(parser: argparse.ArgumentParser, heading: str) -> str:
    rows = [
        (_written(action), _default(action), sentence(action.help or ""))
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
    ]
    parts = [f"{heading} {parser.prog}\n"]
    parts += [block(text) for text in (parser.description, parser.epilog) if text]
    if rows:
        parts.append(table(("argument or option", "default", "meaning"), rows))
    return "\n".join(parts)


def _written(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else None
    value = metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper())
    if not action.option_strings:
        return f"`{value}`" if action.nargs not in ("+", "*") else f"`{value} …`"
    takes_value = action.nargs != 0
    return f"`{', '.join(action.option_strings)}{' ' + value if takes_value else ''}`"


def _default(action: argparse.Action) -> str:
    if action.required:
        return "required" if action.option_strings else ""
    if action.default in (None, False, argparse.SUPPRESS) or action.default == []:
        return ""
    if action.dest == "jobs":
        return "all cores"
    return f"`{action.default}`"
