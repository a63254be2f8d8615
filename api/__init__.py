"""Near-duplicate detection for web crawls and text corpora.

Compare two texts or pages:

>>> import dustream
>>> words = " ".join(map(str, range(100)))
>>> dustream.sign(words).jaccard(dustream.sign(f"<html><p>{words} and more"))
0.90...

Remove the near-duplicates of a corpus, a table or a data set:

>>> found = dustream.dedupe(["a text", "another text", "a text"])
>>> list(found.kept())
['a text', 'another text']

By task:

    sign, extract               the signature of a text or page; the title, language and main text of a page
    dedupe                      the near-duplicates of a corpus, a table or a data set
    dedupe_files                the same for files, out of core, as the command `dustream dedupe`
    open                        the groups of a crawl, kept up to date while pages arrive, change and die
    learn, RuleBook, normalize  URL rewrite rules: learned from duplicates, loaded, applied
    Client                      an application on Kafka: publish events, read statuses and rules
    DustreamError               the base of all errors; `str(error)` states what to do

`help(dustream.dedupe)` describes one of them. Everything listed here is public and typed. Everything else in the
package is internal and may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dustream._code_cache import choose_code_cache

if TYPE_CHECKING:
    from dustream._client import Client
    from dustream._deduped import Cluster, Deduped, PairReport, RecordVerdict, dedupe
    from dustream._deduped_files import DedupedFiles, dedupe_files
    from dustream._pages import Page, Signature, extract, sign
    from dustream._rules import RuleBook, learn, normalize
    from dustream._state import Added, State, open
    from dustream.core.errors import (
        BadEvent,
        BadInput,
        BadSetting,
        BrokenProgram,
        DiskFailure,
        DustreamError,
        Interrupted,
        StateMismatch,
        Unavailable,
        UnreadableInput,
    )
    from dustream.schemas.crawl import CrawlEvent
    from dustream.schemas.rules import RuleSet, UrlRule
    from dustream.schemas.status import DuplicateStatus, is_kept

    __version__: str

__all__ = [
    "Added",
    "BadEvent",
    "BadInput",
    "BadSetting",
    "BrokenProgram",
    "Client",
    "Cluster",
    "CrawlEvent",
    "Deduped",
    "DedupedFiles",
    "DiskFailure",
    "DuplicateStatus",
    "DustreamError",
    "Interrupted",
    "Page",
    "PairReport",
    "RecordVerdict",
    "RuleBook",
    "RuleSet",
    "Signature",
    "State",
    "StateMismatch",
    "Unavailable",
    "UnreadableInput",
    "UrlRule",
    "__version__",
    "dedupe",
    "dedupe_files",
    "extract",
    "is_kept",
    "learn",
    "normalize",
    "open",
    "sign",
]

_MODULES = {
    "dustream._client": ("Client",),
    "dustream._deduped": ("Cluster", "Deduped", "PairReport", "RecordVerdict", "dedupe"),
    "dustream._deduped_files": ("DedupedFiles", "dedupe_files"),
    "dustream._pages": ("Page", "Signature", "extract", "sign"),
    "dustream._rules": ("RuleBook", "learn", "normalize"),
    "dustream._state": ("Added", "State", "open"),
    "dustream.core.errors": (
        "BadEvent",
        "BadInput",
        "BadSetting",
        "BrokenProgram",
        "DiskFailure",
        "DustreamError",
        "Interrupted",
        "StateMismatch",
        "Unavailable",
        "UnreadableInput",
    ),
    "dustream.schemas.crawl": ("CrawlEvent",),
    "dustream.schemas.rules": ("RuleSet", "UrlRule"),
    "dustream.schemas.status": ("DuplicateStatus", "is_kept"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


choose_code_cache()


def __getattr__(name: str) -> Any:
    """Modules are imported when a name of theirs is first used: `import dustream` loads no compiled code."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("dustream")
    elif name in _MODULE_OF:
        from importlib import import_module

        value = getattr(import_module(_MODULE_OF[name]), name)
    else:
        raise AttributeError(f"module 'dustream' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
