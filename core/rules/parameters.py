"""The parameters of rule learning: those of the papers, and which rules are applied. `[rules]` of a configuration, and
options of `dustream learn`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from dustream.core.errors import BadSetting

Selection = Literal["graph", "naive"]


class RuleParameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With the papers' values where they give any."""

    o_min: Annotated[
        float,
        Meta(description="Lei's o_min: nodes of the tree that share so much of their URLs' duplicates give a rule; "
             "higher: fewer candidates, sooner"),
    ] = 0.5  # fmt: skip
    sigma_min: Annotated[
        float,
        Meta(description="Lei's σ_min: a value is copied from the key that has it in more than this share of the "
             "duplicates; lower: more values are copied, and more of them by chance"),
    ] = 0.5  # fmt: skip
    fpr_max: Annotated[
        float, Meta(description="Lei's fpr_max: false positives allowed among the pairs that a rule brings together")
    ] = 0.05
    selection: Annotated[
        Selection, Meta(description="of rules that get in each other's way: by Lei's random walk, or the naive way")
    ] = "graph"
    substring_max: Annotated[
        int, Meta(description="DustBuster's S: longest substring that a rule may replace; longer takes longer")
    ] = 35
    bucket_max: Annotated[
        int | None,
        Meta(description="DustBuster's T: places with more substrings than this are ignored; unset: 6, or 11 "
             "where only sizes are known"),
    ] = None  # fmt: skip
    ms: Annotated[int, Meta(description="DustBuster's MS: instances that a rule needs to be looked at")] = 3
    mrd: Annotated[
        float,
        Meta(description="DustBuster's MRD: a wider rule is dropped if its support is larger than that of a rule "
             "within it by at most this share"),
    ] = 0.05  # fmt: skip
    mad: Annotated[int, Meta(description="DustBuster's MAD: or by at most so many instances")] = 1
    mw: Annotated[
        int, Meta(description="DustBuster's MW: rules that far apart in the order of support are not compared")
    ] = 1100
    validation_count: Annotated[int, Meta(description="DustBuster's N: URLs by which a rule is validated")] = 100
    refutation: Annotated[
        float, Meta(description="DustBuster's ε: a rule is refuted if more than this share of them become another page")
    ] = 0.05
    unknown_max: Annotated[
        float, Meta(description="a rule that leads more of its URLs to where nothing is known is a shadow")
    ] = 0.05
    wrong_max: Annotated[float, Meta(description="a rule that leads more of its URLs to other pages is a shadow")] = (
        0.02
    )

    def __post_init__(self) -> None:
        for name in ("o_min", "sigma_min", "fpr_max", "mrd", "refutation", "unknown_max", "wrong_max"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadSetting(f"{name} {getattr(self, name)} must be from 0 to 1")
        for name, least in (("substring_max", 1), ("ms", 1), ("mad", 0), ("mw", 1), ("validation_count", 1)):
            if getattr(self, name) < least:
                raise BadSetting(f"{name} {getattr(self, name)} must be at least {least}")
        if self.refutation == 0:
            raise BadSetting("refutation 0.0 must be above 0: with 0 every rule is refuted")
        if self.bucket_max is not None and self.bucket_max < 2:
            raise BadSetting(f"bucket_max {self.bucket_max} must be at least 2: one substring alone is no rule")


DEFAULT_PARAMETERS = RuleParameters()
