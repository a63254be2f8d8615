"""The settings that determine the outcome. They are stored in the state: other settings need another state."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from dustream.core.errors import BadSetting
from dustream.core.rules.parameters import DEFAULT_PARAMETERS as DEFAULT_RULES
from dustream.core.rules.parameters import RuleParameters
from dustream.core.sites.processor import SITE_PAGES_MIN, SITE_SHARE_MAX
from dustream.core.text.code_parameters import DEFAULT_PARAMETERS, CodeParameters
from dustream.core.text.extractors import CodesFor, ExtractorName, TextSource
from dustream.core.winners import Market, Markets
from dustream.schemas.signature import SIGNATURE_VERSION

PARTITIONS_MAX = 4_096


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings as in a TOML file given with --config; every field has a default."""

    threshold: Annotated[
        float, Meta(description="pages at least this similar (Jaccard of shingles) are duplicates")
    ] = 0.9
    text: Annotated[Literal["main", "full"], Meta(description="compare the main text, or all text of a page")] = "main"
    extractor: Annotated[
        ExtractorName, Meta(description="what extracts the text of a page: the built-in scanner, or resiliparse")
    ] = "scan"
    partitions: Annotated[int, Meta(description="partitions of every processor")] = 8
    small_changes: Annotated[
        Literal["anchor", "representative"],
        Meta(
            description="what a changed page is compared with to keep its vertex: its own anchor, or its winner (Zhu)"
        ),
    ] = "anchor"
    anchor_distance: Annotated[
        float, Meta(description="a page that changes no more than this (Jaccard distance) keeps its vertex; 0: exact")
    ] = 0.0
    group_size_max: Annotated[int, Meta(description="a larger group is held, with an alarm")] = 100_000
    site_share_max: Annotated[
        float, Meta(description="a site that would lose more than this share of its pages to others is held; 1: never")
    ] = SITE_SHARE_MAX
    site_pages_min: Annotated[int, Meta(description="a site with fewer pages than this is never held")] = SITE_PAGES_MIN
    containment: Annotated[
        Literal["off", "cjk", "all"],
        Meta(description="find pages contained in longer ones: Chinese, Japanese and Korean pages, or all pages"),
    ] = "all"
    containment_share: Annotated[
        float, Meta(description="a page is contained in a longer one that has at least this share of its shingles")
    ] = 0.8
    containment_winner: Annotated[
        Literal["longer", "criteria"],
        Meta(description="of two pages that contain each other, keep the longer, or the better by the criteria"),
    ] = "longer"
    feature_codes: Annotated[
        CodesFor, Meta(description="pages whose feature code (Guo) also finds containers: CJK, all, or none")
    ] = "cjk"
    feature_code: Annotated[CodeParameters, Meta(description="the parameters of feature codes")] = DEFAULT_PARAMETERS
    rules: Annotated[RuleParameters, Meta(description="how URL rules are learned, and which are applied")] = (
        DEFAULT_RULES
    )
    markets: Annotated[tuple[Market, ...], Meta(description="winner orders; the first decides `role`")] = (Market(),)

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise BadSetting(f"threshold {self.threshold} is not between 0 and 1: use for example 0.9")
        if not 1 <= self.partitions <= PARTITIONS_MAX:
            raise BadSetting(f"partitions {self.partitions} must be from 1 to {PARTITIONS_MAX}")
        if not 0 <= self.anchor_distance < 1:
            raise BadSetting(f"anchor_distance {self.anchor_distance} must be from 0 (exact) to less than 1")
        if self.anchor_distance and self.small_changes != "anchor":
            raise BadSetting("anchor_distance has no effect with small_changes representative: leave one of them out")
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
        """A hash, equal for settings that give equal states."""
        data = msgspec.json.encode((SIGNATURE_VERSION, self), order="deterministic")
        return hashlib.blake2b(data, digest_size=8).hexdigest()


def differing(known: dict[str, Any], wanted: Settings) -> list[str]:
    """The stored values of the settings that differ from those wanted."""
    now = msgspec.json.decode(msgspec.json.encode(wanted))  # in stored form: lists instead of tuples
    return [f"{name} was {known.get(name)}" for name in now if known.get(name) != now[name]]


def parse_settings(values: dict[str, Any]) -> Settings:
    """Settings from a decoded configuration file; raises BadSetting that names the error."""
    try:
        return msgspec.convert(values, Settings)
    except msgspec.ValidationError as error:
        known = ", ".join(Settings.__struct_fields__)
        raise BadSetting(f"the configuration is invalid: {error}. Known settings: {known}") from error
