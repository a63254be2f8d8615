"""The settings that decide the outcome. They are kept in the state: another outcome needs another state."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from dustream.core.errors import BadSetting
from dustream.core.sites.processor import SITE_PAGES_MIN, SITE_SHARE_MAX
from dustream.core.text.code_parameters import DEFAULT_PARAMETERS, CodeParameters
from dustream.core.text.extractors import CodesFor, ExtractorName, TextSource
from dustream.core.winners import Market, Markets
from dustream.schemas.signature import SIGNATURE_VERSION

PARTITIONS_MAX = 4_096


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As in a TOML file given with --config; every field has a default."""

    threshold: Annotated[
        float, Meta(description="pages at least this similar (Jaccard of shingles) are duplicates")
    ] = 0.9
    text: Annotated[Literal["main", "full"], Meta(description="compare the main text, or all text of a page")] = "main"
    extractor: Annotated[
        ExtractorName, Meta(description="who reads the text out of a page: our scanner, or resiliparse")
    ] = "scan"
    partitions: Annotated[int, Meta(description="partitions of every processor")] = 8
    small_changes: Annotated[
        Literal["anchor", "representative"],
        Meta(
            description="who decides that a changed page keeps its place: its own anchor, or its group's winner (Zhu)"
        ),
    ] = "anchor"
    anchor_distance: Annotated[
        float, Meta(description="a page that changes no more than this (Jaccard distance) keeps its place; 0: exact")
    ] = 0.0
    group_size_max: Annotated[int, Meta(description="a group beyond this is held back, with an alarm")] = 100_000
    site_share_max: Annotated[
        float, Meta(description="a site that would lose more than this share of its pages to others is held; 1: never")
    ] = SITE_SHARE_MAX
    site_pages_min: Annotated[int, Meta(description="a site with fewer pages than this is never held")] = SITE_PAGES_MIN
    containment: Annotated[
        Literal["off", "cjk", "all"],
        Meta(description="look for pages contained in longer ones: of Chinese, Japanese, Korean, or of all languages"),
    ] = "all"
    containment_share: Annotated[
        float, Meta(description="a page is contained in a longer one that has this share of its shingles")
    ] = 0.8
    containment_winner: Annotated[
        Literal["longer", "criteria"],
        Meta(description="of two pages that contain each other the longer one is kept, or the better by the criteria"),
    ] = "longer"
    feature_codes: Annotated[
        CodesFor, Meta(description="pages whose feature code (Guo) also proposes containers: CJK, all, or none")
    ] = "cjk"
    feature_code: Annotated[CodeParameters, Meta(description="the parameters of feature codes")] = DEFAULT_PARAMETERS
    markets: Annotated[tuple[Market, ...], Meta(description="winner orders; the first decides `role`")] = (Market(),)

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise BadSetting(f"threshold {self.threshold} makes no sense: choose one between 0 and 1, such as 0.9")
        if not 1 <= self.partitions <= PARTITIONS_MAX:
            raise BadSetting(f"partitions {self.partitions} must be from 1 to {PARTITIONS_MAX}")
        if not 0 <= self.anchor_distance < 1:
            raise BadSetting(f"anchor_distance {self.anchor_distance} must be from 0 (exact) to less than 1")
        if self.anchor_distance and self.small_changes != "anchor":
            raise BadSetting("anchor_distance has no meaning with small_changes representative: leave one of them out")
        if self.group_size_max < 2:
            raise BadSetting(f"group_size_max {self.group_size_max} must be at least 2")
        if not 0 < self.site_share_max <= 1:
            raise BadSetting(f"site_share_max {self.site_share_max} must be above 0 and at most 1 (1: never held)")
        if self.site_pages_min < 1:
            raise BadSetting(f"site_pages_min {self.site_pages_min} must be at least 1")
        if not 0 < self.containment_share <= 1:
            raise BadSetting(f"containment_share {self.containment_share} must be above 0 and at most 1, such as 0.8")
        Markets(self.markets)

    @property
    def text_source(self) -> TextSource:
        codes = "off" if self.containment == "off" else self.feature_codes
        return TextSource(self.text, self.extractor, codes, self.feature_code)

    def fingerprint(self) -> str:
        """Equal for settings that give equal states."""
        data = msgspec.json.encode((SIGNATURE_VERSION, self), order="deterministic")
        return hashlib.blake2b(data, digest_size=8).hexdigest()


def differing(known: dict[str, Any], wanted: Settings) -> list[str]:
    """What stored settings were, where they are not those wanted."""
    now = msgspec.json.decode(msgspec.json.encode(wanted))  # as they are stored: lists for tuples
    return [f"{name} was {known.get(name)}" for name in now if known.get(name) != now[name]]


def parse_settings(values: dict[str, Any]) -> Settings:
    """Settings from a decoded configuration file; BadSetting names what is wrong."""
    try:
        return msgspec.convert(values, Settings)
    except msgspec.ValidationError as error:
        known = ", ".join(Settings.__struct_fields__)
        raise BadSetting(f"the configuration is wrong: {error}. Known settings: {known}") from error
