"""The web page: server-rendered, readable without scripts, which its policy forbids."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

from aiohttp import web

from dustream.core.errors import BadEvent, BadSetting, Unavailable
from dustream.core.urls.identity import page_identity
from dustream.streams.serve import views
from dustream.streams.serve.decide_here import Decider, preview, read_decision
from dustream.streams.serve.guard import Refusal
from dustream.streams.serve.lookups import Lookups, NotFound
from dustream.streams.serve.render import POLICY, VIEWS, fragment, page, served_link
from dustream.streams.serve.serving import HEADERS, Busy, Serving

HTML_HEADERS = HEADERS | {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "Content-Type": "text/html; charset=utf-8",
}
REFRESH_S = 2

View = Callable[[web.Request], Awaitable[web.StreamResponse]]


def page_routes(serving: Serving, decider: Decider) -> list[web.RouteDef]:
    """All pages. Those that read rows run in threads."""
    pages = _Pages(serving, decider)
    return [
        web.get("/", pages.guarded(pages.overview)),
        web.get("/groups", pages.guarded(pages.groups)),
        web.get("/group", pages.guarded(pages.group)),
        web.get("/pair", pages.guarded(pages.pair)),
        web.get("/threshold", pages.guarded(pages.threshold)),
        web.get("/rules", pages.guarded(pages.rules)),
        web.get("/tree", pages.guarded(pages.tree)),
        web.get("/url", pages.guarded(pages.url)),
        web.get("/decide", pages.guarded(pages.decide)),
        web.post("/decide", pages.guarded(pages.preview)),
        web.post("/decide/apply", pages.guarded(pages.apply)),
    ]


class _Pages:
    def __init__(self, serving: Serving, decider: Decider) -> None:
        self._serving = serving
        self._decider = decider

    @property
    def _lookups(self) -> Lookups:
        return self._serving.lookups

    def guarded(self, view: View) -> View:
        """Errors of a view as a page for people."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return await view(request)
            except (BadEvent, BadSetting) as error:
                return self._problem(Refusal(400, "This cannot be answered", str(error)))
            except NotFound as error:
                return self._problem(Refusal(404, "Not known", str(error)))
            except Unavailable as error:
                return self._problem(Refusal(503, "Not available now", f"{error}: reload in a moment"))
            except Busy:
                return self._problem(Refusal(503, "Busy", "many slow requests are under way: reload in a moment"))

        return handle

    def _problem(self, problem: Refusal) -> web.Response:
        return self._page("problem.html", problem.title, "", status=problem.status, problem=problem)

    def _page(
        self,
        template: str,
        title: str,
        current: str,
        *,
        status: int = 200,
        asked_url: str = "",
        refresh_s: int = 0,
        **context: Any,
    ) -> web.Response:
        lookups = self._lookups
        shared = {
            "digest": lookups.digest,
            "settings": lookups.source.settings,
            "can_decide": lookups.source.is_state,
            "form_key": self._decider.form_key,
        }
        body = fragment(template, served_link, is_live=True, **shared, **context)
        text = page(
            body,
            title=title,
            views=VIEWS,
            current=current,
            is_live=True,
            asked_url=asked_url,
            refresh_s=refresh_s,
            policy="",
            name=lookups.source.path.name,
            seen=lookups.source.seen(),
            digest=lookups.digest,
        )
        return web.Response(status=status, body=text.encode(errors="replace"), headers=HTML_HEADERS)

    async def overview(self, request: web.Request) -> web.StreamResponse:
        context = await self._serving.slow.run(lambda: views.overview(self._lookups))
        return self._page("overview.html", "Overview", "Overview", **context)

    async def groups(self, request: web.Request) -> web.StreamResponse:
        q, by = request.query.get("q", "").strip(), views.group_order(request.query.get("by", ""))
        if "://" in q:
            raise web.HTTPSeeOther(served_link("group", page_identity(q)))
        start = _number(request, "start")
        context = await self._serving.slow.run(lambda: views.groups(self._lookups, by, q, start))
        more = context["next_start"]
        next_page = "" if more is None else "/groups?" + urlencode({"q": q, "by": by, "start": more})
        return self._page("groups.html", "Groups", "Groups", next_page=next_page, **context)

    async def group(self, request: web.Request) -> web.StreamResponse:
        name, start = request.query.get("id", ""), _number(request, "start")
        context = await self._serving.slow.run(lambda: views.group(self._lookups, name, start))
        more = context["next_start"]
        next_page = "" if more is None else "/group?" + urlencode({"id": name, "start": more})
        return self._page("group.html", f"Group {context['found'].group}", "Groups", next_page=next_page, **context)

    async def pair(self, request: web.Request) -> web.StreamResponse:
        one, other = request.query.get("a", ""), request.query.get("b", "")
        context = await self._serving.slow.run(lambda: views.pair(self._lookups, one, other))
        return self._page("pair.html", "Two URLs", "", asked_url=one, **context)

    async def threshold(self, request: web.Request) -> web.StreamResponse:
        try:
            chosen = float(request.query.get("t", "0.95"))
        except ValueError:
            raise BadSetting("a threshold is a number from 0 to 1") from None
        if not 0 <= chosen <= 1:
            raise BadSetting("a threshold is a number from 0 to 1")
        with_sample = request.query.get("sample") == "yes"
        context = await self._serving.slow.run(lambda: views.threshold(self._lookups, chosen, with_sample=with_sample))
        return self._page("threshold.html", "Threshold", "Threshold", **context)

    async def rules(self, request: web.Request) -> web.StreamResponse:
        site, tried = request.query.get("site", "").strip(), request.query.get("u", "").strip()
        context = await self._serving.slow.run(lambda: views.rules(self._lookups, site, tried))
        return self._page("rules.html", f"Rules of {context['site']}" if site else "Rules", "Rules", **context)

    async def tree(self, request: web.Request) -> web.StreamResponse:
        site = request.query.get("site", "")

        def draw() -> dict[str, Any]:
            from dustream.streams.serve.tree_view import tree

            return tree(self._lookups, site)

        return self._page("tree.html", f"Pattern tree of {site}", "Rules", **await self._serving.slow.run(draw))

    async def url(self, request: web.Request) -> web.StreamResponse:
        asked = request.query.get("u", "")
        context = await self._serving.slow.run(lambda: views.url(self._lookups, asked))
        return self._page("url.html", context["answer"].url, "", asked_url=asked, **context)

    # Decisions

    async def decide(self, request: web.Request) -> web.StreamResponse:
        decisions = await self._serving.slow.run(self._lookups.source.decisions)
        return self._page(
            "decide.html",
            "Decide",
            "Decide",
            refresh_s=REFRESH_S if self._decider.is_busy else 0,
            message=self._decider.message,
            decisions=decisions,
            name_asked=request.query.get("name", ""),
        )

    async def preview(self, request: web.Request) -> web.StreamResponse:
        decision = read_decision(await self._form(request))
        context = await self._serving.slow.run(lambda: preview(self._lookups, decision))
        return self._page("preview.html", "Preview", "Decide", **context)

    async def apply(self, request: web.Request) -> web.StreamResponse:
        self._decider.start(read_decision(await self._form(request)))
        raise web.HTTPSeeOther("/decide")

    async def _form(self, request: web.Request) -> dict[str, str]:
        """The fields of a form of ours: sent by this origin, and with the key that only our pages have."""
        if not self._lookups.source.is_state:
            raise BadSetting("a --once result keeps no state: decisions need a run without --once")
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            raise BadSetting("the form was sent by another site")
        fields = await request.post()
        given = {name: value for name, value in fields.items() if isinstance(value, str)}
        if not hmac.compare_digest(given.get("key", "").encode(), self._decider.form_key.encode()):
            raise BadSetting("the form is out of date: go back to Decide and send it again")
        return given


def _number(request: web.Request, name: str) -> int:
    text = request.query.get(name, "0")
    if not text.isdecimal() or len(text) > 9:
        raise BadSetting(f"{name} is a number")
    return int(text)
