"""HTML around the text: heads with styles and scripts, menus, side bars, advertisements and footers.

What does not change from page to page is written once per site; a page is then a few pieces put together. Layouts
differ as those of real sites do (HTML5 elements, nested `div`, tables), and the main text is the same in all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dustream.streams.generate.draws import Draws
from dustream.streams.generate.prose import Prose, Text
from dustream.streams.generate.urls import SiteAddresses, slugs_of

VARIANTS = 4
"""Side bars and advertisements of a site: pages take turns."""


@dataclass(frozen=True)
class Chrome:
    """The unchanging parts of a site's pages."""

    name: str
    head: str
    menu: str
    side_bars: tuple[str, ...]
    advertisements: tuple[str, ...]
    footer: str
    script: str


@dataclass(frozen=True)
class Rendering:
    """What a single rendering adds: the time in the page's navigation, and which side bar and advertisement it got."""

    stamp: str
    variant: int


def chrome(site: SiteAddresses, prose: Prose, draws: Draws, markup_bytes: int) -> Chrome:
    """The parts of a site, about `markup_bytes` in all: half of it styles and scripts, as on real pages."""
    name = " ".join(word.title() for word in prose.words(draws, 2))
    links_bytes = markup_bytes * 3 // 10
    return Chrome(
        name=name,
        head=f"<style>{_styles(draws, markup_bytes * 3 // 10)}</style>",
        menu=_links(site, prose, draws, links_bytes),
        side_bars=tuple(_side_bar(site, prose, draws, links_bytes // 2) for _ in range(VARIANTS)),
        advertisements=tuple(_advertisement(prose, draws) for _ in range(VARIANTS)),
        footer=f"<p>&copy; {draws.between(2012, 2024)} {name}. {' '.join(prose.words(draws, 14))}</p>"
        f"<ul>{_links(site, prose, draws, links_bytes // 5)}</ul>",
        script=f"<script>{_script(draws, markup_bytes * 2 // 10)}</script>",
    )


def _styles(draws: Draws, size_bytes: int) -> str:
    values = draws.array_below(1 << 24, size_bytes // 60 + 1).tolist()
    return "\n".join(
        f".c{v % 997} .m{v % 89}{{margin:{v % 31}px {v % 17}px;padding:{v % 9}px;color:#{v:06x}}}" for v in values
    )


def _script(draws: Draws, size_bytes: int) -> str:
    values = draws.array_below(1 << 30, size_bytes // 48 + 1).tolist()
    settings = ",".join(f'{{"slot":{v % 4096},"key":"k{v:x}","weight":{v % 100}}}' for v in values)
    return f"window.settings=[{settings}];window.settings.forEach(function(s){{if(s.weight<1){{s.off=true}}}});"


def _links(site: SiteAddresses, prose: Prose, draws: Draws, size_bytes: int) -> str:
    count = size_bytes // 90 + 3
    labels = prose.words(draws, 2 * count)
    slugs = slugs_of(draws, count)
    return "\n".join(
        f'<li class="item"><a href="https://{site.host}/{draws.pick(site.sections)}/{slugs[i]}">'
        f"{labels[2 * i]} {labels[2 * i + 1]}</a></li>"
        for i in range(count)
    )


def _side_bar(site: SiteAddresses, prose: Prose, draws: Draws, size_bytes: int) -> str:
    return f"<h3>{' '.join(prose.words(draws, 2))}</h3><ul>{_links(site, prose, draws, size_bytes)}</ul>"


def _advertisement(prose: Prose, draws: Draws) -> str:
    number = draws.below(1 << 20)
    return (
        f'<a href="https://ads.invalid/c?{number}"><img src="https://ads.invalid/b{number}.gif" alt="" width="300" '
        f'height="250"></a><span>{" ".join(prose.words(draws, 6))}</span>'
    )


def _semantic(site: Chrome, text: Text, frame: Rendering) -> str:
    return f"""<!DOCTYPE html>
<html lang="{text.language.code}"><head><meta charset="utf-8"><title>{text.title_html} | {site.name}</title>
{site.head}</head><body>
<header class="header"><nav class="navigation"><span>{site.name} {frame.stamp}</span><ul>{site.menu}</ul></nav></header>
<main><article><h1>{text.title_html}</h1>
{text.body_html}
</article></main>
<aside class="sidebar">{site.side_bars[frame.variant]}</aside>
<div class="advertisement">{site.advertisements[frame.variant]}</div>
<footer class="footer">{site.footer}</footer>
{site.script}</body></html>
"""


def _blog(site: Chrome, text: Text, frame: Rendering) -> str:
    return f"""<!DOCTYPE html>
<html lang="{text.language.code}"><head><meta charset="utf-8"><title>{text.title_html} - {site.name}</title>
{site.head}{site.script}</head><body class="single single-post">
<div id="page" class="hfeed"><div id="navigation" class="nav"><div class="menu">
<span>{frame.stamp}</span><ul>{site.menu}</ul></div></div>
<div id="content" class="site-content"><div class="post hentry"><h1 class="entry-title">{text.title_html}</h1>
<div class="entry-content">{text.body_html}</div></div></div>
<div id="sidebar" class="sidebar widget-area">{site.side_bars[frame.variant]}
<div class="ads">{site.advertisements[frame.variant]}</div></div>
<div id="footer" class="footer">{site.footer}</div></div></body></html>
"""


def _portal(site: Chrome, text: Text, frame: Rendering) -> str:
    return f"""<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml"><head><meta http-equiv="Content-Type" content="text/html; charset=utf-8" />
<title>{text.title_html}_{site.name}</title>
{site.head}</head><body><div class="wrap"><div class="nav" id="nav"><ul><li>{frame.stamp}</li>
{site.menu}</ul></div>
<div class="advert">{site.advertisements[frame.variant]}</div>
<div class="main"><div class="article" id="article"><h1>{text.title_html}</h1>
<div class="text" id="text">{text.body_html}</div></div></div>
<div id="sidebar" class="sidebar">{site.side_bars[frame.variant]}</div>
<div id="footer" class="footer">{site.footer}</div></div>
{site.script}</body></html>
"""


def _table(site: Chrome, text: Text, frame: Rendering) -> str:
    return f"""<HTML><HEAD><TITLE>{site.name}: {text.title_html}</TITLE>
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=utf-8">{site.head}</HEAD>
<BODY BGCOLOR="#ffffff"><TABLE WIDTH="100%"><TR><TD COLSPAN="3" CLASS="navigation" ID="nav"><DIV CLASS="nav">
<UL><LI>{frame.stamp}
{site.menu}</UL></DIV></TD></TR>
<TR><TD CLASS="sidebar"><DIV ID="sidebar" CLASS="sidebar">{site.side_bars[frame.variant]}</DIV></TD>
<TD CLASS="content" ID="content"><H1>{text.title_html}</H1>
{text.body_html}
</TD><TD CLASS="ads"><DIV CLASS="advertisement">{site.advertisements[frame.variant]}</DIV></TD></TR>
<TR><TD COLSPAN="3" CLASS="footer"><DIV ID="footer" CLASS="footer">{site.footer}</DIV></TD></TR></TABLE>
{site.script}</BODY></HTML>
"""


def print_layout(site: Chrome, text: Text, frame: Rendering) -> str:
    """The print version: the text, and next to nothing around it."""
    return f"""<!DOCTYPE html>
<html lang="{text.language.code}"><head><meta charset="utf-8"><title>{text.title_html}</title>
<style>body{{width:18cm}}</style></head><body onload="window.print()">
<div class="content"><h1>{text.title_html}</h1>
{text.body_html}
</div><div id="footer" class="footer"><p>{site.name} {frame.stamp}</p></div></body></html>
"""


def empty_layout(site: Chrome, frame: Rendering) -> str:
    """A page whose main part came out empty: menus and footer only."""
    return f"""<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>{site.name}</title>{site.head}</head><body>
<nav class="navigation"><span>{frame.stamp}</span><ul>{site.menu}</ul></nav>
<main><div id="app"></div></main><footer class="footer">{site.footer}</footer>{site.script}</body></html>
"""


def meta_refresh(target: str) -> str:
    """A page that only sends the reader elsewhere."""
    return (
        f'<!DOCTYPE html><html><head><meta http-equiv="refresh" content="0; url={target}"><title>Moved</title></head>'
        f'<body><p>Moved to <a href="{target}">{target}</a></p></body></html>'
    )


LAYOUTS: tuple[Callable[[Chrome, Text, Rendering], str], ...] = (_semantic, _blog, _portal, _table)


def _unclosed(html: str) -> str:
    return html.replace("</p>", "").replace("</li>", "").replace("</body></html>", "")


def _misnested(html: str) -> str:
    return html.replace("<p>", "<p><b></p><p></b>", 3).replace("</h1>", "</h1></span></font>")


def _stray_bytes(html: str) -> str:
    return html.replace("<body", "<body =\x01 class='x' class=\"y\" <", 1).replace("<li ", "<li \x00")


def _cut_short(html: str) -> str:
    """The connection broke in the footer."""
    return html[: html.lower().rfind("footer") + 12]


BREAKAGES: tuple[Callable[[str], str], ...] = (_unclosed, _misnested, _stray_bytes, _cut_short)
"""Ways in which real HTML is broken; none of them touches the main text."""
