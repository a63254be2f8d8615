"""A made-up site with rules of both learners. To learn it runs all of their compiled code: compiles it, or loads it."""

from __future__ import annotations

from typing import Final

from dustream.core.rules.known_site import RulesSettings, SiteUrlRow, learned_rules

ITEMS_TO_LEARN_FROM: Final = 40  # of each kind


def learn_some_rules() -> None:
    """Of a site whose pages have a session in their URLs, or are mirrored in another directory, for the pattern tree;
    or have a word within a part of the path, for DustBuster. Some have changed."""
    sessions = [
        SiteUrlRow(f"https://site.example/{kind}/item.html?id={item}&session={session}", (session, 0), f"{kind} {item}")
        for kind in ("article", "product", "review")
        for item in range(ITEMS_TO_LEARN_FROM)
        for session in range(item * 5, item * 5 + 3)
    ]
    words = [
        SiteUrlRow(f"https://site.example/{kind}{word}-item{item}", (item, 0), f"{kind} {item} in words")
        for kind in "abc"
        for item in range(ITEMS_TO_LEARN_FROM)
        for word in ("", "-print")
    ]
    mirrored = [
        SiteUrlRow(f"https://site.example/{path}/{item}", (item, 0), f"copy {item}", since=item, changed=item % 2 > 0)
        for item in range(ITEMS_TO_LEARN_FROM)
        for path in ("docs/topic", f"mirror/of{item % 7}")
    ]
    copies = [
        SiteUrlRow(url, (item, 0), f"copied {item}", since=item, changed=item % 8 == 0)
        for item in range(ITEMS_TO_LEARN_FROM)
        for url in (
            f"https://site.example/view/{item}/{item % 3}",
            f"https://site.example/archive.php?document={item}",
            f"https://mirror{item % 3}.site.example/list/{item}.html",
            f"https://mirror{item % 2}.site.example/list/{item}.html",
        )
    ]
    learned_rules("site.example", sessions + words + mirrored + copies, RulesSettings())
