"""`cluster.updates`: which URLs of a site share a group, for the rule learner (by site)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from dustream.schemas.rules import Rewrite, RuleVerdict
from dustream.schemas.status import Relation, Role

CLUSTER_UPDATE_VERSION = 1


class ClusterMember(Struct, frozen=True, omit_defaults=True):
    """One URL whose status changed, with fields as in its DuplicateStatus. A page that is gone has the role `gone`."""

    url: str
    version: tuple[int, int]
    group: str | None
    role: Role
    winner: str | None = None
    relation: Relation | None = None
    since: Annotated[int, Meta(description="time of the fetch that brought what the page is now, in milliseconds")] = 0
    canonical: Annotated[str | None, Meta(description="the other page of its site that it names as canonical")] = None
    similarity: Annotated[
        float | None,
        Meta(
            description="exact Jaccard similarity to the winner; of a contained page: the exact share of its shingles "
            "that the winner has"
        ),
    ] = None
    changed: Annotated[bool, Meta(description="whether the URL had another content or role before `since`")] = False


class DecidedRule(Struct, frozen=True, omit_defaults=True):
    """An operator's decision on a rule of the site."""

    rewrite: Annotated[Rewrite, Meta(description="the rule")]
    version: Annotated[int, Meta(description="time of the decision in milliseconds; the latest counts")]
    verdict: Annotated[RuleVerdict | None, Meta(description="null: the decision is withdrawn")] = None


class ClusterUpdate(Struct, frozen=True, kw_only=True):
    """Changes of one site's pages since the last update."""

    site: Annotated[str, Meta(description="registrable domain; private suffixes are sites of their own")]
    members: Annotated[tuple[ClusterMember, ...], Meta(description="bounded number of changed URLs")]
    v: Annotated[int, Meta(description="schema version")] = CLUSTER_UPDATE_VERSION
    decisions: Annotated[tuple[DecidedRule, ...], Meta(description="operators' decisions on rules")] = ()
