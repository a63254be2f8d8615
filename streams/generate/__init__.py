"""A web of any size that knows its own duplicates: crawl events for demos, tests and benchmarks, with ground truth."""

from dustream.streams.generate.files import WrittenWeb, read_lines, truth_path, write
from dustream.streams.generate.truth import TRUTH_VERSION, PageTruth, TruthHeader
from dustream.streams.generate.web import generate, truth

__all__ = [
    "TRUTH_VERSION",
    "PageTruth",
    "TruthHeader",
    "WrittenWeb",
    "generate",
    "read_lines",
    "truth",
    "truth_path",
    "write",
]
