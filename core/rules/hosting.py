"""Shared hosting: many hosts under one site, each with contents of its own.

Each user of a blog or shop host has their own URLs and pages. So the rules of such a site are learned host by host. A
site with few hosts, or with hosts that show the same pages, is learned as a whole."""

from __future__ import annotations

from typing import Final

import numpy as np

from dustream.core.kernels.hash_slots import numbered
from dustream.core.rules.training import TrainingSet, row_hashes

HOSTS_MIN: Final = 16
"""Hosts with several pages, from which on a site counts as shared."""
HOST_PAGES_MIN: Final = 3
SPREAD_SHARE_MAX: Final = 0.1
"""Share of the pages with several URLs that are on several hosts, up to which hosts have contents of their own."""


def is_shared(training: TrainingSet) -> bool:
    """Whether the site is one of many hosts with contents of their own."""
    keys = [k for k, key in enumerate(training.keys) if key.startswith("host_")]
    hosts, firsts = numbered(row_hashes(training.values[keys]))
    if len(firsts) < HOSTS_MIN:
        return False
    known = training.clusters >= 0
    clusters, hosts = training.clusters[known], hosts[known]
    pages, on = np.unique(np.stack((clusters, hosts)), axis=1)
    if np.count_nonzero(np.bincount(on) >= HOST_PAGES_MIN) < HOSTS_MIN:
        return False
    urls = np.bincount(clusters)
    spread = np.bincount(pages, minlength=len(urls))
    return bool(np.count_nonzero(spread > 1) <= SPREAD_SHARE_MAX * np.count_nonzero(urls > 1))
