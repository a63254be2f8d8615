"""The dustream topology: processors, topics and tables. All engines are built from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dustream.core.containment.processor import TABLES as CONTAINMENT_TABLES
from dustream.core.containment.processor import ContainmentProcessor
from dustream.core.errors import BadSetting
from dustream.core.groups.processor import TABLES as GROUPS_TABLES
from dustream.core.groups.processor import GroupsProcessor
from dustream.core.pages.processor import TABLES as PAGES_TABLES
from dustream.core.pages.processor import PagesProcessor
from dustream.core.pages.small_changes import ByAnchor, ByRepresentative, SmallChanges
from dustream.core.rules.known_site import RulesSettings
from dustream.core.rules.learn import LearnSettings
from dustream.core.rules.processor import TABLES as RULES_TABLES
from dustream.core.rules.processor import RulesProcessor
from dustream.core.settings import Settings
from dustream.core.sites.processor import TABLES as SITES_TABLES
from dustream.core.sites.processor import SitesProcessor
from dustream.core.tier2.containers import ContainmentRules, criteria_first, longer_first
from dustream.core.tier2.crowded_index import CrowdedIndex
from dustream.core.tier2.partition_map import PartitionMap, default_map
from dustream.core.tier2.points import tau_parts
from dustream.core.tier2.processor import TABLES as TIER2_TABLES
from dustream.core.tier2.processor import Tier2Processor
from dustream.core.tier2.search_protocol import ShinglesOf
from dustream.core.topology import ProcessorSpec, TableSpec, Topic, Topology
from dustream.core.urls.sites import site_of
from dustream.core.winners import Markets
from dustream.schemas.alarms import Alarm
from dustream.schemas.cluster import ClusterUpdate
from dustream.schemas.containment import ContainmentMessage
from dustream.schemas.crawl import CrawlEvent
from dustream.schemas.dead_letter import DeadLetter
from dustream.schemas.groups import GroupsMessage
from dustream.schemas.pages import PagesMessage
from dustream.schemas.rules import RuleSet
from dustream.schemas.sites import SitesMessage
from dustream.schemas.status import DuplicateStatus
from dustream.schemas.tier2 import Tier2Message

CRAWL_PAGES = "crawl.pages"
PAGES, TIER2, GROUPS, SITES, RULES = "pages", "tier2", "groups", "sites", "rules"
CONTAINMENT = "containment"
STATUS, UPDATES, URL_RULES = "duplicate.status", "cluster.updates", "url.rules"
ALARMS, DEAD_LETTERS = "alarms", "dead.letters"

# For all tasks of one process together:
SHINGLE_CACHE_BYTES = 128 << 20
CJK_LANGUAGES = frozenset(("zh", "ja", "ko"))
RULE_URLS_KEPT = 1_000_000  # in memory, some 400 bytes each: a site that changes again is learned without reading them

TOPICS = (
    Topic(CRAWL_PAGES, "url", CrawlEvent, public=True, kept=False),
    Topic(PAGES, "url", PagesMessage),
    Topic(TIER2, "partition", Tier2Message),
    Topic(GROUPS, "group", GroupsMessage),
    Topic(SITES, "site", SitesMessage),
    Topic(CONTAINMENT, "partition", ContainmentMessage),
    Topic(STATUS, "url", DuplicateStatus, public=True, compacted=True),
    Topic(UPDATES, "site", ClusterUpdate),
    Topic(URL_RULES, "site", RuleSet, public=True, compacted=True),
    Topic(ALARMS, "group", Alarm, public=True, compacted=True),
    Topic(DEAD_LETTERS, "source", DeadLetter, public=True),
)


def pipeline(
    settings: Settings,
    partition_map: PartitionMap | None = None,
    shingle_cache_bytes: int = SHINGLE_CACHE_BYTES,
    *,
    input_ends: bool = False,
) -> Topology:
    """The topology for these settings; without a map learned from a sample, tier 2 uses the default map. `input_ends`:
    rules are learned at the end of the input, and not on the way."""
    cells = partition_map or default_map(settings.partitions, settings.threshold)
    require_fitting(cells, settings)
    markets = Markets(settings.markets)
    pages = partial(PagesProcessor, cells, markets, site_of, small_changes=_small_changes(settings))
    rules_of_containment = containment_rules(settings)
    search = partial(_search, settings, shingle_cache_bytes)
    tier2 = partial(Tier2Processor, markets, search, containment=rules_of_containment)
    groups = partial(GroupsProcessor, group_size_max=settings.group_size_max)
    count = settings.partitions
    sites = partial(SitesProcessor, count, share_max=settings.site_share_max, pages_min=settings.site_pages_min)
    learning = RulesSettings(
        learns_on_the_way=not input_ends,
        kept_urls_max=RULE_URLS_KEPT // count,
        learn=LearnSettings.of(settings.rules),
    )
    rules = partial(RulesProcessor, learning)
    pages_outputs = (TIER2, GROUPS, SITES, PAGES, STATUS, UPDATES, ALARMS)
    return Topology(
        topics=TOPICS,
        processors=(
            ProcessorSpec(PAGES, PAGES, pages_outputs, _specs(PAGES_TABLES), count, pages),
            ProcessorSpec(TIER2, TIER2, (PAGES, TIER2, CONTAINMENT), _specs(TIER2_TABLES), count, tier2),
            ProcessorSpec(GROUPS, GROUPS, (PAGES, GROUPS), _specs(GROUPS_TABLES), count, groups),
            ProcessorSpec(SITES, SITES, (PAGES, ALARMS), _specs(SITES_TABLES), count, sites),
            ProcessorSpec(CONTAINMENT, CONTAINMENT, (TIER2,), _specs(CONTAINMENT_TABLES), count, ContainmentProcessor),
            ProcessorSpec(RULES, UPDATES, (URL_RULES,), _specs(RULES_TABLES), count, rules),
        ),
    )


def require_fitting(partition_map: PartitionMap, settings: Settings) -> None:
    """Reject a map for another number of partitions or another threshold. Such a map would address partitions that do
    not exist, or lose pairs."""
    fits = partition_map.data.tau_parts == tau_parts(settings.threshold)
    if partition_map.partitions != settings.partitions or not fits:
        raise BadSetting(
            f"the partition map is for {partition_map.partitions} partitions and threshold {partition_map.tau}, the "
            f"settings are for {settings.partitions} and {settings.threshold}: run with --partitions "
            f"{partition_map.partitions} --threshold {partition_map.tau}, or build another map"
        )


def containment_rules(settings: Settings) -> ContainmentRules | None:
    """The rules of the containment search; None if it is off."""
    if settings.containment == "off":
        return None
    order = criteria_first if settings.containment_winner == "criteria" else longer_first
    languages = CJK_LANGUAGES if settings.containment == "cjk" else None
    return ContainmentRules(settings.partitions, settings.containment_share, order, languages)


def _small_changes(settings: Settings) -> SmallChanges:
    if settings.small_changes == "representative":
        return ByRepresentative(settings.threshold)
    return ByAnchor(settings.anchor_distance)


def _specs(tables: Mapping[str, Any]) -> tuple[TableSpec, ...]:
    return tuple(TableSpec(name, row) for name, row in tables.items())


def _search(settings: Settings, shingle_cache_bytes: int, shingles_of: ShinglesOf) -> CrowdedIndex:
    indexes = settings.partitions * (2 + len(settings.markets))  # per partition: entries, visitors, winners by market
    return CrowdedIndex(settings.threshold, shingles_of, shingle_cache_bytes_max=shingle_cache_bytes // indexes)
