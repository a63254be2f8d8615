"""URL rules as a crawler uses them: learned from a part of a list, applied to the rest.

The crawler has fetched the URLs that rules are learned from (10, 20 or 50 % of a list, drawn URL by URL as Lei does).
Of the rest it fetches a URL unless one with the same normal form was fetched before. Counted over all lists and draws:

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
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "rules"))

from pages import data_folder
from planted_sites import planted_site
from result_files import Table, write_result
from rules import Known, real_lists

from dustream.core.rules.landing import LandingSettings
from dustream.core.rules.learn import LearnSettings, learn_site
from dustream.core.rules.normalize import SiteRules
from dustream.core.urls.sites import site_of
from dustream.core.urls.standard import standard_form

SHARES = (10, 20, 50)
DRAWS = 3
URLS_MIN = 200
GENERATED = 12


class Outcome(NamedTuple):
    active: int
    rewritten: int
    no_such_url: int
    saved: int
    lost: int
    contents: int


def settings_of(percent: int) -> dict[str, LearnSettings]:
    """Any rule that five pages speak for; rules that land; the same, if the learner is told that it has a sample."""
    known_share = LandingSettings(known_share=percent / 100)
    return {
        "anywhere": LearnSettings().with_landing(LandingSettings(wrong_share_max=1, unknown_share_max=1)),
        "lands": LearnSettings(),
        "lands, known share told": LearnSettings().with_landing(known_share),
    }


def deployed(known: Known, percent: int, draw: int, settings: LearnSettings) -> Outcome:
    """One list, one draw."""
    cluster_of = {standard_form(entry.url): entry.cluster for entry in known}
    site = site_of(next(iter(cluster_of)))
    drawn = [entry for entry in known if zlib.crc32(f"{draw} {entry.url}".encode()) % 100 < percent]
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
    tables = []
    columns = ["learned from, rules", "active", "rewritten", "no such URL", "saved", "lost", "no such URL", "lost"]
    for percent in SHARES:
        rows = []
        for name, settings in settings_of(percent).items():
            outcomes = [deployed(known, percent, draw, settings) for known in lists.values() for draw in range(DRAWS)]
            rows.append(row(f"{percent} %, {name}", outcomes))
        tables.append(Table(f"Learned from {percent} % of {len(lists)} lists, {DRAWS} draws", columns, rows))
        print(f"\n{tables[-1].title}\n\n{tables[-1].markdown()}", flush=True)
    print(f"\n{write_result('rules_deploy', tables)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
