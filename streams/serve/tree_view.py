"""The pattern tree of a site's URLs as a picture. It loads compiled code, which takes a second the first time."""

from __future__ import annotations

from typing import Any

import msgspec
from markupsafe import Markup

from dustream.core.rules.pattern_tree import build_pattern_tree
from dustream.core.rules.picture import tree_svg
from dustream.core.rules.training import KnownUrl, training_set
from dustream.core.urls.sites import site_of
from dustream.streams.serve.digest import CountedStatus
from dustream.streams.serve.lookups import Lookups, NotFound

URLS_READ_MAX = 20_000


def tree(lookups: Lookups, name: str) -> dict[str, Any]:
    """Reads all statuses: the URLs of a site are not adjacent."""
    site = site_of(name)
    known: list[KnownUrl] = []
    wanted, decoder = site.encode(), msgspec.json.Decoder(CountedStatus)
    for row in lookups.source.status_rows():
        if wanted in row and len(known) < URLS_READ_MAX:
            status = decoder.decode(row)
            if site_of(status.url) == site:
                avoid = status.role in ("redirect", "gone")
                known.append(KnownUrl(status.url, status.winner or status.url, avoid))
    if not known:
        raise NotFound(f"no page of the site {name} is known")
    picture = Markup(tree_svg(build_pattern_tree(training_set(known))))
    return {"site": site, "picture": picture, "urls_read": len(known), "urls_max": URLS_READ_MAX}
