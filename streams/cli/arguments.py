"""Arguments that several commands take in the same form."""

from __future__ import annotations

import argparse

PORT_MAX = 65_535


def port(text: str) -> int:
    """A port to listen on."""
    if not text.isdecimal() or not 0 < int(text) <= PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text} is no port: a number from 1 to {PORT_MAX}")
    return int(text)


def count(text: str) -> int:
    """A number from 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no number from 0")
    return int(text)


def at_least_one(text: str) -> int:
    """A number from 1."""
    if not count(text):
        raise argparse.ArgumentTypeError(f"{text} is no number from 1")
    return int(text)


def seconds(text: str) -> float:
    """A duration above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds above 0")
    return value
