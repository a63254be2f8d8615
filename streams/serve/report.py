"""`dustream report`: the views of the web page in one static file that needs no server and no network."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from dustream.core.errors import BadEvent
from dustream.schemas.status import DuplicateStatus
from dustream.streams.questions.texts import TextAnswer
from dustream.streams.serve import views
from dustream.streams.serve.digest import GroupOrder
from dustream.streams.serve.lookups import Lookups, NotFound
from dustream.streams.serve.render import REPORT_POLICY, fragment, page

GROUPS_PER_ORDER = 20
MEMBERS_SHOWN_MAX = 50
DIFFERENCES_MAX = 20  # texts are read again from the inputs, which takes time
RULED_SITES_MAX = 50
CHOSEN_THRESHOLD = 0.95

_SECTIONS = (
    ("Overview", "#overview"),
    ("Groups", "#groups"),
    ("Threshold", "#threshold"),
    ("Rules", "#rules"),
    ("Decisions", "#decisions"),
    ("Each group", "#each-group"),
)


def write_report(lookups: Lookups) -> str:
    """The text of the file."""
    return _Report(lookups).text()


class _Report:
    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        listed = [each.group for order in views.ORDERS for each in lookups.digest.groups[order][:GROUPS_PER_ORDER]]
        self._anchors = {group: f"group-{number}" for number, group in enumerate(dict.fromkeys(listed))}
        self._differences = 0

    def _link(self, view: str, *values: str) -> str:
        """Only groups in this file have an address."""
        return f"#{self._anchors[values[0]]}" if view == "group" and values[0] in self._anchors else ""

    def _fragment(self, template: str, **context: Any) -> Markup:
        lookups = self._lookups
        shared = {
            "digest": lookups.digest,
            "settings": lookups.source.settings,
            "can_decide": False,
            "form_key": "",
        }
        return fragment(template, self._link, is_live=False, **shared, **context)

    def text(self) -> str:
        lookups = self._lookups
        parts = [
            self._section("overview", self._fragment("overview.html", **views.overview(lookups))),
            self._section("groups", *(self._groups(order) for order in views.ORDERS)),
            self._section(
                "threshold",
                self._fragment("threshold.html", **views.threshold(lookups, CHOSEN_THRESHOLD, with_sample=True)),
            ),
            self._section("rules", self._fragment("rules.html", **views.rules(lookups, "", "")), *self._site_rules()),
            self._section("decisions", self._fragment("decisions.html", decisions=lookups.source.decisions())),
            self._section("each-group", *map(self._group, self._anchors)),
        ]
        return page(
            Markup("\n").join(parts),
            title=f"Report of {lookups.source.path.name}",
            views=_SECTIONS,
            current="",
            is_live=False,
            asked_url="",
            refresh_s=0,
            policy=REPORT_POLICY,
            name=lookups.source.path.name,
            seen=lookups.source.seen(),
            digest=lookups.digest,
        )

    @staticmethod
    def _section(name: str, *parts: Markup) -> Markup:
        return Markup('<section id="{}">{}</section>').format(name, Markup("\n").join(parts))

    def _groups(self, order: GroupOrder) -> Markup:
        context = views.groups(self._lookups, order, "", 0)
        context["groups"] = context["groups"][:GROUPS_PER_ORDER]
        return self._fragment("groups.html", **context | {"next_page": ""})

    def _group(self, group: str) -> Markup:
        try:
            context = views.group(self._lookups, group, 0)
        except (NotFound, BadEvent):  # it changed while the report is written
            return Markup("")
        members = context["members"]
        shown = {
            "anchor": self._anchors[group],
            "members": members[:MEMBERS_SHOWN_MAX],
            "left_out": context["found"].left_out + max(0, len(members) - MEMBERS_SHOWN_MAX),
            "text": self._difference(members),
            "next_page": "",
        }
        return self._fragment("group.html", **context | shown)

    def _difference(self, members: list[DuplicateStatus]) -> TextAnswer | None:
        """Of the texts of the page least similar to its winner, and of the winner."""
        measured = [each for each in members if each.similarity is not None and each.winner]
        worst = min(measured, key=lambda each: (each.similarity or 0.0, each.url), default=None)
        if worst is None or not self._lookups.source.is_state or self._differences >= DIFFERENCES_MAX:
            return None
        self._differences += 1
        return self._lookups.source.texts(worst.url, worst.winner or "")

    def _site_rules(self) -> list[Markup]:
        sites = sorted(self._lookups.digest.ruled_sites.items(), key=lambda item: (-item[1], item[0]))
        return [
            self._fragment("rules.html", **views.rules(self._lookups, site, "")) for site, _ in sites[:RULED_SITES_MAX]
        ]
