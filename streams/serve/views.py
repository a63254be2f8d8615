"""What the views show: from the lookups, the values that the templates need."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, get_args

from dustream.core.urls.identity import page_identity
from dustream.core.urls.sites import site_of
from dustream.schemas.status import DuplicateStatus, is_kept
from dustream.streams.questions.group_list import GroupAnswer, GroupRequest
from dustream.streams.questions.page_sizes import PageSizes
from dustream.streams.serve.digest import (
    GROUP_ORDERS,
    GROUPS_LISTED_MAX,
    SIMILARITY_STEPS,
    UNRELATED_NAMES_MIN,
    GroupBrief,
    GroupOrder,
    last_name,
    nearest_pairs,
    would_keep,
)
from dustream.streams.serve.lookups import Lookups, NotFound
from dustream.streams.serve.source import FoundGroup

PAGE_ROWS = 50
PICTURE_WIDTH, PICTURE_HEIGHT = 640, 140
SITE_GROUPS_MAX = 200
MEMBERS_READ_MAX = 1_000
MEMBERS_PER_PAGE = 200
KEPT_SHOWN_MAX = 10
SITES_SHOWN_MAX = 500
THRESHOLDS = (0.8, 0.85, 0.9, 0.925, 0.95, 0.96, 0.97, 0.98, 0.99)

LOWER_THRESHOLDS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85)
SAMPLE_PAIRS_SHOWN_MAX = 10

ORDERS: dict[GroupOrder, str] = {
    "size": "Largest first",
    "changed": "Changed last first",
    "lowest": "Lowest inner similarity first",
    "different": "Most different URLs first",
}
ABOUT: dict[GroupOrder, str] = {
    "size": "",
    "changed": "By the time of the fetch that brought the newest content.",
    "lowest": "Pages that are least similar to their winner: wrong merges are found here first.",
    "different": "One text under many unrelated URLs is often an error page, a login page or an empty template.",
}


def group_order(text: str) -> GroupOrder:
    return next((order for order in get_args(GroupOrder) if order == text), "size")


def overview(lookups: Lookups) -> dict[str, Any]:
    digest, source = lookups.digest, lookups.source
    return {
        "avoidable": digest.roles.get("duplicate", 0) + digest.roles.get("redirect", 0),
        "rejected": source.rejected(),
        "inputs": source.inputs(),
        "load": source.tier2_load(),
        "last_run": source.last_run(),
        "now": source.workers(),
        "similarities": list(_similarity_rows(digest.similarities)),
        "lengths": None if digest.sizes is None or not digest.sizes.bars else _length_picture(digest.sizes),
    }


def _length_picture(sizes: PageSizes) -> dict[str, Any]:
    """Places in a picture of PICTURE_WIDTH by PICTURE_HEIGHT; lengths by their logarithm."""
    scale, most = PICTURE_WIDTH / math.log1p(sizes.bars[-1].below), max(bar.pages for bar in sizes.bars)
    bars = [
        (scale * math.log1p(bar.least), scale * math.log1p(bar.below), PICTURE_HEIGHT * bar.pages / most, bar)
        for bar in sizes.bars
        if bar.pages
    ]
    ticks = [10**power for power in range(8) if 10**power < sizes.bars[-1].below]
    return {
        "bars": bars,
        "cuts": [scale * math.log1p(cut) for cut in sizes.cuts],
        "ticks": [(scale * math.log1p(tick), tick) for tick in ticks],
        "width": PICTURE_WIDTH,
        "height": PICTURE_HEIGHT,
        "most": most,
    }


def _similarity_rows(counts: list[int]) -> Iterator[tuple[str, int]]:
    """By hundredths, from the first that occurs."""
    step = SIMILARITY_STEPS // 100
    hundredths = [sum(counts[start : start + step]) for start in range(0, SIMILARITY_STEPS, step)]
    hundredths[-1] += counts[SIMILARITY_STEPS]
    first = next((number for number, count in enumerate(hundredths) if count), len(hundredths))
    for number in range(first, len(hundredths)):
        yield f"{number / 100:.2f}–{(number + 1) / 100:.2f}", hundredths[number]


def groups(lookups: Lookups, by: GroupOrder, q: str, start: int) -> dict[str, Any]:
    """Groups in an order; with a search text, the largest of a site, or those whose id contains it."""
    listed = lookups.digest.groups[by]
    found = listed
    if q and "." in q and site_of(q) == q:
        request = GroupRequest(top=SITE_GROUPS_MAX, by="size", site=q)
        found = sorted(map(_brief, lookups.source.groups(request)), key=GROUP_ORDERS[by])
    elif q:
        found = [each for each in listed if q.casefold() in each.group.casefold()]
    return {
        "q": q,
        "by": by,
        "orders": ORDERS,
        "about": ABOUT,
        "groups": found[start : start + PAGE_ROWS],
        "next_start": start + PAGE_ROWS if start + PAGE_ROWS < len(found) else None,
        "page_rows": PAGE_ROWS,
        "is_cut": len(listed) == GROUPS_LISTED_MAX,
        "listed_max": GROUPS_LISTED_MAX,
    }


def _brief(answer: GroupAnswer) -> GroupBrief:
    return GroupBrief(
        answer.group,
        answer.size,
        answer.winner_count,
        int(answer.held),
        answer.redirects,
        answer.changed,
        answer.weakest_link or 1.0,
        answer.site_count,
        len({last_name(url) for url in (answer.group, *answer.winners)}),
    )


def group(lookups: Lookups, name: str, start: int) -> dict[str, Any]:
    found = lookups.source.group(page_identity(name), MEMBERS_READ_MAX)
    if found is None:
        raise NotFound(f"there is no group {name}: a group's id is the URL of one of its pages")
    kept = [each for each in found.members if is_kept(each.role)]
    members = sorted(found.members, key=_member_order)
    return {
        "found": found,
        "anchor": "group",
        "kept": kept[:KEPT_SHOWN_MAX],
        "kept_left_out": max(0, len(kept) - KEPT_SHOWN_MAX),
        "winners": sum(each.role == "winner" for each in found.members),
        "members": members[start : start + MEMBERS_PER_PAGE],
        "next_start": start + MEMBERS_PER_PAGE if start + MEMBERS_PER_PAGE < len(members) else None,
        "left_out": found.left_out,
        "unrelated": unrelated_names(found),
        "text": None,
    }


def _member_order(status: DuplicateStatus) -> tuple[bool, float, str]:
    """Kept pages first, then the least similar ones; redirects last."""
    similarity = 0.0 if is_kept(status.role) and status.role != "held" else status.similarity
    return status.role == "redirect", 1.0 if similarity is None else similarity, status.url


def unrelated_names(found: FoundGroup) -> int:
    """How many different names the URLs of a group have, if they are so many that it is suspicious."""
    names = {last_name(each.url) for each in found.members if each.role != "redirect"}
    pages = sum(each.role != "redirect" for each in found.members)
    return len(names) if len(names) >= UNRELATED_NAMES_MIN and 2 * len(names) >= pages else 0


def threshold(lookups: Lookups, chosen: float, *, with_sample: bool) -> dict[str, Any]:
    digest, tau = lookups.digest, lookups.source.settings.threshold
    chosen = round(min(1.0, max(tau, chosen)) * SIMILARITY_STEPS) / SIMILARITY_STEPS
    near = sum(digest.similarities)
    steps = sorted({each for each in (*THRESHOLDS, chosen) if each >= tau})
    below, above = nearest_pairs(digest, chosen)
    rows = [(each, near - would_keep(digest, each), would_keep(digest, each)) for each in steps]
    sample = lookups.source.lower_sample() if with_sample else None
    return {
        "chosen": chosen,
        "rows": rows,
        "below": below,
        "above": above,
        "sample": sample,
        "sample_rows": []
        if sample is None
        else [(each, sample.share(each)) for each in LOWER_THRESHOLDS if each < tau],
        "nearest": [] if sample is None else sample.nearest[:SAMPLE_PAIRS_SHOWN_MAX],
        "can_sample": lookups.source.is_state and lookups.source.workers() is None,
    }


def rules(lookups: Lookups, site_asked: str, tried: str) -> dict[str, Any]:
    """The rules of a site; without one, the sites that have rules."""
    site = site_of(site_asked) if site_asked else ""
    found = lookups.rule_set(site)
    sites = sorted(lookups.digest.ruled_sites.items(), key=lambda item: (-item[1], item[0]))
    return {
        "site": site,
        "facts": lookups.source.site(site) if site else None,
        "rules": () if found is None else found.rules,
        "tried": tried,
        "normal": lookups.normalize(lookups.seen(), tried) if tried else None,
        "sites": sites[:SITES_SHOWN_MAX],
    }


def url(lookups: Lookups, text: str) -> dict[str, Any]:
    seen, identity = lookups.seen(), page_identity(text)
    status = lookups.source.status(identity)
    return {
        "decided": None if status is None else status.decided,
        "answer": lookups.source.page(identity, None),
        "advice": lookups.decide(seen, identity),
        "normal": lookups.normalize(seen, identity),
    }


def pair(lookups: Lookups, one: str, other: str) -> dict[str, Any]:
    a, b = page_identity(one), page_identity(other)
    return {"answer": lookups.source.pair(a, b, None), "text": lookups.source.texts(a, b)}
