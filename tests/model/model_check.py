"""One history: run it, and hold what is left against the oracle."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from model_network import Network
from model_oracle import Page, expected, last_pages, pages_at_epochs
from model_world import SHARE, History, site_of

from dustream.core.containment.rows import PostedPages, page_id
from dustream.core.containment.sketch import sketch_of
from dustream.core.pages.rows import vertex_of
from dustream.core.pages.small_changes import ByRepresentative
from dustream.core.text.shingle_bytes import shingle_array
from dustream.core.vertex import group_key, url_of

_EMPTY_AT_REST = {
    "pages": ("dying", "parked"),
    "groups": ("searches", "reached", "frontier", "searching", "arrivals", "deferred"),
    "tier2": ("agenda", "repairs"),
    "sites": (),
    "containment": (),
}


def run_history(history: History) -> Network:
    network = Network(history)
    network.run()
    check(network)
    return network


def check(network: Network) -> None:
    """If representatives decide, which contents tier 2 knows depends on timing; all else follows from them."""
    pages = last_pages(network.history)
    _check_last_contents(network, pages)
    said = {url: _plain(status) for url, status in network.statuses.items()}
    if isinstance(network.history.small_changes, ByRepresentative):
        pages = pages_at_epochs(network.history, pages, _epochs(network))
    oracle = expected(network.history, pages)
    statuses = oracle.statuses
    if isinstance(network.history.small_changes, ByRepresentative):
        said, statuses = ({url: _unmeasured(each) for url, each in some.items()} for some in (said, statuses))
    wrong = {url: (said.get(url), status) for url, status in statuses.items() if said.get(url) != status}
    assert not wrong and said.keys() == statuses.keys(), f"statuses (said, expected): {dict(list(wrong.items())[:3])}"
    held = {key for key, alarm in network.alarms.items() if alarm.kind.endswith("_held")}
    assert held == oracle.held, "alarms"
    for url, member in network.told.items():
        last = network.statuses[url]
        assert (member.version, member.group, member.role) == (last.version, last.group, last.role), "cluster updates"
    for task in network.tasks.values():
        for table in _EMPTY_AT_REST[task.name]:
            assert not len(task.tables[table]), f"{task.name} has rows left in {table}"
    live = _check_pages_and_groups(network, oracle.groups)
    _check_tier2(network, live, oracle.winner_of)
    _check_sites(network)
    _check_containment(network)
    _check_homes(network)
    _check_revisits(network, live)


def _check_homes(network: Network) -> None:
    """Pages are counted at their tier-2 homes."""
    counted, true = Counter[int](), Counter[int]()
    for task in network.tasks.values():
        if task.name == "pages":
            counted.update({int(key): row.pages for key, row in task.tables["homes"].scan()})
            true.update(page.home for _, page in task.tables["pages"].scan() if page.kind == "content")
    assert +counted == true, "pages of tier-2 partitions"


def _check_last_contents(network: Network, last: dict[str, Page]) -> None:
    """Whatever stands for a page in tier 2, its record is of the last fetch."""
    for task in network.tasks.values():
        for url, page in task.tables["pages"].scan() if task.name == "pages" else ():
            assert page.consulted_count == 0 and not page.consulted, "a fetch that never came back"
            if page.kind == "content":
                latest = network.history.contents.signatures[last[url].latest]
                assert page.content_hash == latest.content_hash, "not the content of the last fetch"


def _epochs(network: Network) -> dict[str, int]:
    """The fetch that brought the content tier 2 knows of each page."""
    rows = [task.tables["pages"].scan() for task in network.tasks.values() if task.name == "pages"]
    return {url: page.epoch for each in rows for url, page in each}


def _unmeasured(status: dict[str, Any]) -> dict[str, Any]:
    """A representative measures the last content, tier 2 the one it knows: which of them spoke last is open."""
    plain = {name: value for name, value in status.items() if name not in ("similarity", "relation")}
    markets = {name: _unmeasured(each) for name, each in status.get("markets", {}).items()}
    return plain | {"markets": markets}


def _plain(status: Any) -> dict[str, Any]:
    fields = msgspec.to_builtins(status)
    markets = fields.get("markets")
    if markets:
        fields["markets"] = {name: _without_none(each) for name, each in markets.items()}
    return {name: value for name, value in _without_none(fields).items() if name not in ("url", "version", "v")}


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _check_pages_and_groups(network: Network, groups: list[set[str]]) -> set[str]:
    """The groups are the components; every membership is where its page thinks, and every edge has both ends."""
    owners: dict[str, str] = {}
    for task in network.tasks.values():
        if task.name == "groups":
            owners |= _check_groups_task(task.tables)
    live = set()
    for task in network.tasks.values():
        for url, page in task.tables["pages"].scan() if task.name == "pages" else ():
            assert page.spread_after is None and not page.parked_count and not page.unparking
            assert not page.entering
            if page.kind == "content":
                vertex = vertex_of(url, page)
                live.add(vertex)
                assert owners.get(vertex) == page.owner, "page and group disagree"
    assert owners.keys() <= live, "a membership of a dead vertex"
    by_owner: dict[str, set[str]] = {}
    for vertex in live:
        by_owner.setdefault(owners.get(vertex) or group_key(0, vertex), set()).add(url_of(vertex))
    assert sorted(map(sorted, by_owner.values())) == sorted(map(sorted, groups)), "groups"
    return live


def _check_groups_task(tables: dict[str, Any]) -> dict[str, str]:
    owners = {}
    members: dict[str, set[str]] = {}
    for key, _ in tables["memberships"].scan():
        group, vertex = key.split("\0")
        assert "\1" not in group, "a transfer that never landed"
        owners[vertex] = group
        members.setdefault(group, set()).add(vertex)
    assert members.keys() == {key for key, _ in tables["groups"].scan()}
    for key, row in tables["groups"].scan():
        assert row.size == len(members[key]) and not row.is_busy and not row.arriving
        assert row.eldest == min(members[key])
    for key, _ in tables["edges"].scan():
        group, one, other = key.split("\0")
        assert {one, other} <= members[group], "a half-edge is left"
        assert tables["edges"].get(f"{group}\0{other}\0{one}") is not None
    return owners


def _check_tier2(network: Network, live: set[str], winner_of: list[dict[str, str]]) -> None:
    entries = []
    for task in network.tasks.values():
        if task.name == "tier2":
            entries += _check_tier2_task(task.tables, live, winner_of)
    assert sorted(entries) == sorted(live), "not every live vertex is at home somewhere"


def _check_tier2_task(tables: dict[str, Any], live: set[str], winner_of: list[dict[str, str]]) -> list[str]:
    rows = {int(key, 16): row for key, row in tables["vertices"].scan()}
    assert {row.vertex for row in rows.values()} <= live, "a dead vertex is left"
    assert len(tables["contents"]) == len(rows)
    inverse = set()
    for number, row in rows.items():
        url = url_of(row.vertex)
        for market, star in enumerate(row.stars):
            is_winner = winner_of[market][url] == url
            assert star.winner == is_winner == star.flag_sent, "winner flag"
            if star.local is not None:
                inverse.add(f"{market:02x}{star.local.key.decode('latin-1')}\0{number:08x}")
            assert not (is_winner and star.remote), "a winner that is covered"
    assert inverse == {key for key, _ in tables["duplicates"].scan()}, "duplicates are not the inverse of local winners"
    edges = {(int(key[:8], 16), int(key[8:], 16)) for key, _ in tables["forest"].scan()}
    assert all(one < other and one in rows and other in rows for one, other in edges)
    assert len(edges) < max(1, len(rows)), "a forest has fewer edges than vertices"
    return [row.vertex for row in rows.values() if row.entry]


def _check_sites(network: Network) -> None:
    """The counts are those of the pages, and nobody is still to be told."""
    pages: Counter[str] = Counter()
    lost: set[str] = set()
    listed: set[str] = set()
    for task in network.tasks.values():
        if task.name == "pages":
            rows = dict(task.tables["pages"].scan())
            pages.update(site_of(url) for url, page in rows.items() if page.kind == "content")
            lost |= {url for url, page in rows.items() if page.lost}
            listed |= {key.split("\0")[1] for key, _ in task.tables["lost"].scan()}
            assert all(row.told_after is None for _, row in task.tables["site_holds"].scan())
    assert listed == lost
    for task in network.tasks.values():
        for site, row in task.tables["sites"].scan() if task.name == "sites" else ():
            assert row.pages == pages.pop(site, 0), "pages of a site"
    assert not pages


def _check_containment(network: Network) -> None:
    """The winners are posted, and nobody else; every candidate is weighed, and who is enough of one hears of it; pages
    know what was decided."""
    tier2 = {task.partition: task.tables for task in network.tasks.values() if task.name == "tier2"}
    posted: Counter[int] = Counter()
    for task in network.tasks.values():
        for key, row in task.tables["posted"].scan() if task.name == "containment" else ():
            pages = PostedPages.of(row)
            assert pages.counts.all() and pages.counts.sum() == pages.terms.size
            ids = [page_id(int(key[:3], 16), serial) for serial in pages.serials.tolist()]
            posted.update(dict(zip(ids, pages.counts.tolist(), strict=True)))
    expected: dict[int, int] = {}
    depends, dependents = set(), set()
    for partition, tables in tier2.items():
        for key, row in tables["vertices"].scan():
            is_posted = row.entry and any(star.winner for star in row.stars)
            assert is_posted == (row.post > 0), "not posted, or posted though a duplicate"
            if is_posted:
                content = tables["contents"].get(key)
                terms = sketch_of(shingle_array(content.shingles), content.code).terms
                expected[page_id(partition, row.post)] = terms.size
        for key, row in tables["candidates"].scan():
            assert row.share is not None, "a candidate that nobody weighed"
            assert row.share >= SHARE, "a rejected candidate has a row"
            depends.add((page_id(partition, int(key[:12], 16)), int(key[12:], 16)))
        for key, _ in tables["dependents"].scan():
            dependents.add((int(key[12:], 16), page_id(partition, int(key[:12], 16))))
    assert posted == expected, "the index"
    assert depends == dependents, "dependents are not the inverse of containers"


def _check_revisits(network: Network, live: set[str]) -> None:
    """Who asks is known where it asks, and nobody else; former contents are where their rows say, and no others."""
    asking, asked, named, kept = set(), set(), set(), set()
    for task in network.tasks.values():
        if task.name == "pages":
            counted: Counter[str] = Counter()
            for key, row in task.tables["askers"].scan():
                url, asker = key.split("\0")
                counted[url] += 1
                asked.add((url, asker, row.version))
            for url, page in task.tables["pages"].scan():
                assert page.asker_count == counted[url] and page.answers_after is None
                if page.revisit:
                    asking.add((page.revisit, url, page.found_at))
            named |= {row.name for _, row in task.tables["former"].scan() if row.name}
        elif task.name == "tier2":
            kept |= {name for name, _ in task.tables["former"].scan()}
    assert asking == asked, "who asks"
    assert kept == named - live, "former contents"
