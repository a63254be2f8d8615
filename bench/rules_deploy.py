"""URL rules as a crawler uses them: learned from a part of a list, applied to the rest.

The crawler has fetched the URLs that rules are learned from: 10, 20 or 50 % of a list, drawn URL by URL as Lei does, or
of manuals, all but the newest version. Of the rest it fetches a URL unless one with the same normal form was fetched
before. Counted over all lists and draws:

    rewritten      URLs of the rest that active rules change
    no such URL    of those, how many become a URL that the whole list does not have
    saved          URLs of the rest that are not fetched
    lost           contents of the list of which no URL is fetched

Real lists come from the folder that DUSTREAM_DATA names; without it generated sites are measured, and this says so.

    python bench/rules_deploy.py
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from pages import data_folder
from result_files import Table, write_result
from rules import Known, real_lists

from dustream.core.rules.landing import LandingSettings
from dustream.core.rules.learn import LearnSettings, learn_site
from dustream.core.rules.normalize import SiteRules
from dustream.core.urls.sites import site_of
from dustream.core.urls.standard import standard_form
from dustream.streams.generate.planted_sites import planted_site

SHARES = (10, 20, 50)
DRAWS = 3
URLS_MIN = 200
GENERATED = 12
NEWEST = {"networkx": "/networkx-3.4.2/", "kafka": "/39/", "dolphinscheduler": "/3.1.2/"}


class Outcome(NamedTuple):
    active: int
    rewritten: int
    no_such_url: int
    saved: int
    lost: int
    contents: int


SETTINGS = {
    "anywhere": LearnSettings().with_landing(LandingSettings(wrong_share_max=1, unknown_share_max=1)),
    "lands, all URLs known": LearnSettings().with_landing(LandingSettings(known_share=1)),
    "lands": LearnSettings(),
}
"""Any rule that five pages speak for; rules that land if the list is taken for the whole site; what `learn` does."""


def sample(known: Known, percent: int, draw: int) -> Known:
    return tuple(entry for entry in known if zlib.crc32(f"{draw} {entry.url}".encode()) % 100 < percent)


def but_newest(name: str, known: Known) -> Known:
    return tuple(entry for entry in known if NEWEST[name] not in entry.url)


def deployed(known: Known, drawn: Known, settings: LearnSettings) -> Outcome:
    """One list, and what is learned from."""
    cluster_of = {standard_form(entry.url): entry.cluster for entry in known}
    site = site_of(next(iter(cluster_of)))
    rules = learn_site(site, drawn, settings=settings).rules
    run = SiteRules(site, rules)
    first = {standard_form(entry.url) for entry in drawn}
    normal = {url: run.apply(url)[0] for url in cluster_of}
    keys = {normal[url] for url in first}
    contents = {cluster_of[url] for url in first}
    rest = sorted(set(cluster_of) - first)
    saved = 0
    for url in rest:
        saved += normal[url] in keys
        if normal[url] not in keys:
            keys.add(normal[url])
            contents.add(cluster_of[url])
    rewritten = [url for url in rest if normal[url] != url]
    return Outcome(
        active=sum(rule.stage == "active" for rule in rules),
        rewritten=len(rewritten),
        no_such_url=sum(normal[url] not in cluster_of for url in rewritten),
        saved=saved,
        lost=len(set(cluster_of.values()) - contents),
        contents=len(set(cluster_of.values())),
    )


def row(name: str, outcomes: Iterable[Outcome]) -> list[str | int | float]:
    total = Outcome(*map(sum, zip(*outcomes, strict=True)))
    missing = total.no_such_url / max(1, total.rewritten)
    return [name, *total[:5], f"{missing:.2%}", f"{total.lost / total.contents:.3%}"]


def main() -> int:
    if data_folder() is None:
        print("DUSTREAM_DATA names no folder of real lists: generated sites only")
        lists: dict[str, Known] = {f"site {n}": tuple(planted_site(n).known) for n in range(GENERATED)}
    else:
        lists = {name: known for name, known in real_lists().items() if len(known) >= URLS_MIN}
    parts: dict[str, list[tuple[Known, Known]]] = {
        f"{percent} %": [(known, sample(known, percent, draw)) for known in lists.values() for draw in range(DRAWS)]
        for percent in SHARES
    }
    manuals = [name for name in NEWEST if name in lists]
    if manuals:
        parts["all but the newest version"] = [(lists[name], but_newest(name, lists[name])) for name in manuals]
    tables = []
    columns = ["learned from, rules", "active", "rewritten", "no such URL", "saved", "lost", "no such URL", "lost"]
    for part, pairs in parts.items():
        rows = [
            row(f"{part}, {name}", [deployed(known, drawn, settings) for known, drawn in pairs])
            for name, settings in SETTINGS.items()
        ]
        tables.append(Table(f"Learned from {part}: {len(pairs)} times", columns, rows))
        print(f"\n{tables[-1].title}\n\n{tables[-1].markdown()}", flush=True)
    print(f"\n{write_result('rules_deploy', tables)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
