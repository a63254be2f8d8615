"""`dustream serve`: the lookup service and the web page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dustream.streams.cli.state_option import add_state

DESCRIPTION = """\
Answer questions about a state over HTTP, and show it as a web page. The state may be in use by a run: answers follow it
within a second. The result folder of `run --once` is served as well, without matches, texts and decisions.

  http://127.0.0.1:8321/                   the web page
  http://127.0.0.1:8321/v1/openapi.json    the endpoints

For crawlers:
  GET  /v1/decide?u=URL     fetch, or skip: a known duplicate, or a rule leads to a page that is known
  GET  /v1/url?u=URL        role, group, winner, similarity
  POST /v1/urls             the same for up to 10,000 URLs: {"urls": [...]}
For people and programs:
  GET  /v1/why?a=URL&b=URL  /v1/groups  /v1/groups/ID  /v1/sites/SITE  /v1/rules/SITE  /v1/normalize?u=URL  /v1/stats

Every answer has `position`: the number of input records that it includes. A request with min_position=N is answered
with 412 if fewer are included.

The server listens on this machine only. With --host it needs a token, which clients send as `Authorization: Bearer
TOKEN` and browsers ask for as a password, with any user name. It has no TLS: put it behind a proxy that has.
"""

EXAMPLES = """\
examples:
  dustream serve --state result
  curl 'http://127.0.0.1:8321/v1/decide?u=https://example.com/page%3Fref=1'
  dustream serve --state result --host 0.0.0.0 --token-file token.txt
"""

PORT = 8321


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "serve",
        help="answer lookups over HTTP, and show the state as a web page",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_state(parser)
    parser.add_argument("--host", default="127.0.0.1", metavar="HOST", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=PORT, metavar="PORT", help=f"port ({PORT}; 0: any free one)")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="file with the token that clients must send")
    parser.add_argument(
        "--rate", type=float, default=50_000, metavar="N", help="lookups a second that one client may make (50000)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import asyncio
    import logging

    from dustream.core.errors import BadSetting
    from dustream.streams.serve.guard import Guard, read_token
    from dustream.streams.serve.lookups import Lookups
    from dustream.streams.serve.opening import open_source

    if args.rate <= 0:
        raise BadSetting(f"--rate {args.rate:g} makes no sense: use more than 0")
    token = None if args.token_file is None else read_token(args.token_file)
    guard = Guard(host=args.host, token=token, rate=args.rate)
    logging.basicConfig(format="dustream: %(message)s")
    source = open_source(args.state)
    try:
        return asyncio.run(_serve(Lookups(source), guard, args))
    finally:
        source.close()


async def _serve(lookups: Any, guard: Any, args: argparse.Namespace) -> int:
    import asyncio
    import signal

    from dustream.streams.serve.app import make_app, start_server

    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    runner = await start_server(make_app(lookups, guard), args.host, args.port)
    host, port = runner.addresses[0][:2]
    print(f"http://{f'[{host}]' if ':' in host else host}:{port}/ shows {args.state}; stop with Ctrl-C", flush=True)
    await stopped.wait()
    await runner.cleanup()
    return 0
