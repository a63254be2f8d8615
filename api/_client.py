"""The client of an application on Kafka."""

from __future__ import annotations

from dustream.streams.kafka.client import Client

__all__ = ["Client"]
