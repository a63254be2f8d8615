"""Deduplication of a corpus: any rows with a text, out of core, in stages with files between them.

sign → match → resolve → filter. `job` runs them one after the other in a work folder; each is also a command of its
own (docs/explanation/corpora.md).
"""
