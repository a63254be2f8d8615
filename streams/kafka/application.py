"""An application: one pipeline with its own topics, state and consumer group, identified by its name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dustream.core.errors import BadSetting

DEFAULT_NAME = "dustream"
CRAWL_PAGES = "crawl.pages"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True)
class Application:
    """The names of everything an application owns. `input_topic` may belong to another system."""

    name: str = DEFAULT_NAME
    input_topic: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadSetting(f"the name {self.name!r} is not allowed: use 1 to 64 letters, digits, - and _")

    def topic(self, name: str) -> str:
        """The name on the cluster of a topic in the topology."""
        if name == CRAWL_PAGES and self.input_topic is not None:
            return self.input_topic
        return f"{self.name}.{name}"

    def changelog(self, processor: str) -> str:
        return f"{self.name}.{processor}.changelog"

    def transactional_id(self, worker: str) -> str:
        """The id of a worker's producer. Opening a producer ends transactions left open under its id."""
        return f"{self.name}-worker-{worker}"

    @property
    def group(self) -> str:
        """The consumer group of the workers."""
        return f"{self.name}-workers"
