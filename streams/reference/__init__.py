"""docs/reference, written from the code: `python -m dustream.streams.reference docs/reference`.

Commands come from argparse, fields from the message types, topics from the topology, metrics from their help texts, and
the Python API from `dustream.__all__`. `tests/docs/test_reference.py` fails when a page is out of date.
"""

from __future__ import annotations

from dustream.streams.reference.api import api_page
from dustream.streams.reference.commands import commands_page
from dustream.streams.reference.fields import messages_page, result_files_page, settings_page
from dustream.streams.reference.http import http_page
from dustream.streams.reference.kafka import metrics_page, topics_page

PAGES = {
    "commands.md": commands_page,
    "settings.md": settings_page,
    "messages.md": messages_page,
    "result-files.md": result_files_page,
    "topics.md": topics_page,
    "metrics.md": metrics_page,
    "http.md": http_page,
    "python.md": api_page,
}
"""File name and what writes its text."""

NOTICE = "<!-- Written by `make reference`. Edit the code it describes, not this page. -->\n\n"


def reference_pages() -> dict[str, str]:
    """File name and text of every generated page."""
    return {name: NOTICE + page() for name, page in PAGES.items()}
