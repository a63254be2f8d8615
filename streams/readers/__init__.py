"""Readers: files of crawled pages → crawl events. See docs/reference/inputs.md for what each format gives."""

from dustream.streams.readers.field_map import parse_field_map
from dustream.streams.readers.fingerprint import Fingerprint, change_since, fingerprint
from dustream.streams.readers.inputs import expand_paths, open_input, open_inputs
from dustream.streams.readers.records import (
    STRIPE_RECORDS,
    WHOLE,
    Border,
    Input,
    Item,
    Record,
    Rejection,
    Segment,
    Share,
    line_bytes_max,
)

__all__ = [
    "STRIPE_RECORDS",
    "WHOLE",
    "Border",
    "Fingerprint",
    "Input",
    "Item",
    "Record",
    "Rejection",
    "Segment",
    "Share",
    "change_since",
    "expand_paths",
    "fingerprint",
    "line_bytes_max",
    "open_input",
    "open_inputs",
    "parse_field_map",
]
