"""Generated pages of kinds that collections of articles lack, with the body known: references of programs, shops,
results, directories, lyrics, forums, indexes. They teach the model that tables, lists, links and short lines can be the
main text, and what is around it.

Names of classes, the order of parts and their markup are drawn anew for each page, so that no template is learned.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from main_text_truth import Truth

GENERATED = "generated"
SYLLABLES = [
    "ba",
    "be",
    "bo",
    "da",
    "de",
    "di",
    "fa",
    "fe",
    "ga",
    "go",
    "ha",
    "he",
    "ka",
    "ke",
    "ki",
    "la",
    "le",
    "li",
    "lo",
    "ma",
    "me",
    "mi",
    "mo",
    "na",
    "ne",
    "no",
    "pa",
    "pe",
    "ra",
    "re",
    "ri",
    "ro",
    "sa",
    "se",
    "si",
    "so",
    "ta",
    "te",
    "ti",
    "to",
]
CONTENT_NAMES = [
    "content",
    "main",
    "page-body",
    "wrapper",
    "container",
    "col-9",
    "document",
    "inner",
    "box",
    "primary",
    "section",
    "panel",
    "block",
]
AROUND_NAMES = [
    "nav",
    "menu",
    "top",
    "header",
    "sidebar",
    "footer",
    "bottom",
    "links",
    "toc",
    "bar",
    "subnav",
    "col-3",
    "widget",
    "box",
    "block",
    "legal",
]
LABELS = [
    "Home",
    "About",
    "Contact",
    "Help",
    "Search",
    "Index",
    "Tree",
    "Package",
    "Class",
    "Deprecated",
    "Login",
    "Register",
    "News",
    "Shop",
    "Cart",
    "Imprint",
    "Privacy",
]


class Writer:
    """Words, sentences and elements, drawn from one source of chance."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.common = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 2))) for _ in range(60)]
        self.rare = ["".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(400)]

    def word(self) -> str:
        return self.rng.choice(self.common if self.rng.random() < 0.5 else self.rare)

    def phrase(self, low: int, high: int) -> str:
        return " ".join(self.word() for _ in range(self.rng.randint(low, high)))

    def sentence(self) -> str:
        text = self.phrase(5, 18).capitalize()
        if self.rng.random() < 0.5:
            text += ", " + self.phrase(3, 9)
        return text + self.rng.choice(("." if self.rng.random() < 0.9 else "!", "."))

    def prose(self, low: int, high: int) -> str:
        return " ".join(self.sentence() for _ in range(self.rng.randint(low, high)))

    def said(self) -> str:
        return self.phrase(2, 30) if self.rng.random() < 0.5 else self.prose(1, 3)

    def described(self) -> str:
        return self.phrase(1, 14) if self.rng.random() < 0.5 else self.link(self.word())

    def link(self, text: str) -> str:
        return f'<a href="{self.word()}.html">{text}</a>'

    def names(self, pool: list[str]) -> str:
        if self.rng.random() < 0.25:
            return ""
        name = " ".join(self.rng.sample(pool, self.rng.randint(1, 2)))
        return f' {self.rng.choice(("class", "class", "id"))}="{name}"'

    def element(self, tags: str, content: str, pool: list[str] | None = None) -> str:
        tag = self.rng.choice(tags.split())
        return f"<{tag}{self.names(pool) if pool else ''}>{content}</{tag}>"

    def heading(self, tags: str) -> str:
        tag, text = self.rng.choice(tags.split()), self.phrase(1, 5).title()
        if self.rng.random() < 0.3:
            text = f'<a href="#{self.word()}">{text}</a>'
        return f"<{tag}>{text}</{tag}>"

    def menu(self, low: int, high: int) -> str:
        labels = [
            self.rng.choice(LABELS) if self.rng.random() < 0.5 else self.phrase(1, 4).title()
            for _ in range(self.rng.randint(low, high))
        ]
        links = [self.link(label) for label in labels]
        if self.rng.random() < 0.7:
            return "<ul>" + "".join(f"<li>{link}</li>" for link in links) + "</ul>"
        return self.rng.choice((" | ", " ", " &nbsp; ")).join(links)

    def wrapped(self, content: str) -> str:
        """In none to three containers that mean nothing."""
        for _ in range(self.rng.choice((0, 0, 1, 1, 2, 3))):
            name = self.names(["block", "details", "summary", "list", "member", "box", "row", "section", "inheritance"])
            start, end = self.rng.choice(
                (
                    ("<div", "</div>"),
                    ("<section", "</section>"),
                    ("<ul><li", "</li></ul>"),
                    ("<div><div", "</div></div>"),
                )
            )
            content = f"{start}{name}>{content}{end}"
        return content

    def table(self, rows: int, columns: int, cell: Callable[[int], str]) -> str:
        if self.rng.random() < 0.4:
            cells = (
                f'<div class="col-{column}">{cell(column)}</div>' for _ in range(rows) for column in range(columns)
            )
            return f"<div{self.names(['grid', 'table', 'summary-table', 'data'])}>" + "".join(cells) + "</div>"
        head = "<tr>" + "".join(f"<th>{self.phrase(1, 2)}</th>" for _ in range(columns)) + "</tr>"
        lines = (
            "<tr>" + "".join(f"<td>{cell(column)}</td>" for column in range(columns)) + "</tr>" for _ in range(rows)
        )
        return (
            f"<table{self.names(['data', 'summary', 'table', 'memberSummary', 'specs'])}>"
            + head
            + "".join(lines)
            + "</table>"
        )


def signature(w: Writer) -> str:
    """A line of a program, some of its types linked."""
    words = [w.link(word) if w.rng.random() < 0.4 else word for word in w.phrase(2, 7).split()]
    return " ".join(words) + "(" + ", ".join(w.word() for _ in range(w.rng.randint(0, 3))) + ")"


def article(w: Writer) -> str:
    """Paragraphs, some with headings between."""
    parts = [w.heading("h1")] + (
        [w.element("p", w.sentence(), ["lead", "intro", "teaser"])] if w.rng.random() < 0.3 else []
    )
    for _ in range(w.rng.randint(1, 10)):
        parts += [w.heading("h2 h3")] if w.rng.random() < 0.2 else []
        parts.append(w.element("p", w.prose(1, 6)))
    return "".join(parts)


def reference(w: Writer) -> str:
    """Classes, members, descriptions, code; hardly a sentence."""
    parts = [
        w.element(
            "div header p", w.element("div p", w.link(w.phrase(1, 3))) + w.heading("h1 h2"), ["header", "title", "top"]
        )
    ]
    parts += [w.wrapped(w.link(w.word()) + w.element("div p", w.word())), w.wrapped(w.element("pre div", signature(w)))]
    for _ in range(w.rng.randint(1, 5)):
        section, kind = [w.heading("h2 h3")], w.rng.random()
        if kind < 0.4:
            section.append(
                w.table(
                    w.rng.randint(1, 12),
                    w.rng.randint(2, 3),
                    lambda c: w.phrase(1, 9) if c > 1 else signature(w) if w.rng.random() < 0.6 else w.link(w.word()),
                )
            )
        elif kind < 0.5:  # names of a program, one below the other
            section.append(w.table(w.rng.randint(2, 14), 1, lambda _: w.link(w.word().upper())))
        elif kind < 0.6:
            terms = (
                f"<dt>{w.element('code b span', w.phrase(1, 4))}</dt><dd>{w.described()}</dd>"
                for _ in range(w.rng.randint(1, 8))
            )
            section.append("<dl>" + "".join(terms) + "</dl>")
        elif kind < 0.8:
            section += [
                w.wrapped(
                    w.heading("h3 h4 h5") + w.element("pre div", signature(w)) + w.element("div p", w.phrase(2, 15))
                )
                for _ in range(w.rng.randint(1, 8))
            ]
        else:
            section.append(w.element("code div p", ", ".join(w.link(w.word()) for _ in range(w.rng.randint(3, 14)))))
        parts.append(w.wrapped("".join(section)))
    if w.rng.random() < 0.3:
        parts.append(w.element("p div", w.prose(1, 2)))
    return "".join(parts)


def manual(w: Writer) -> str:
    parts = [w.heading("h1"), w.element("p", w.prose(1, 3))]
    for _ in range(w.rng.randint(1, 6)):
        parts += [w.heading("h2 h3"), w.wrapped(w.element("p", w.prose(1, 4)))]
        if w.rng.random() < 0.5:
            parts.append("<pre>" + "\n".join(w.phrase(1, 6) for _ in range(w.rng.randint(1, 12))) + "</pre>")
        if w.rng.random() < 0.4:
            parts.append("<ul>" + "".join(f"<li>{w.phrase(1, 12)}</li>" for _ in range(w.rng.randint(2, 9))) + "</ul>")
    return "".join(parts)


def stub(w: Writer) -> str:
    """A page of a manual with next to nothing on it."""
    return (
        w.heading("h1")
        + w.element("p div pre", w.phrase(2, 12))
        + (w.element("p", w.sentence()) if w.rng.random() < 0.6 else "")
    )


def shop(w: Writer) -> str:
    price = f"{w.rng.randint(1, 999)}.{w.rng.randint(0, 99):02} EUR"
    specs = w.table(
        w.rng.randint(3, 14),
        2,
        lambda c: w.phrase(1, 3) if not c or w.rng.random() < 0.5 else f"{w.rng.randint(1, 900)} mm",
    )
    parts = [w.heading("h1 h2"), w.element("div p span", price, ["price", "offer"]), specs]
    return "".join(parts) + (w.element("div p", w.prose(1, 2), ["description", "text"]) if w.rng.random() < 0.5 else "")


def results(w: Writer) -> str:
    def cell(column: int) -> str:
        return f"{w.rng.randint(0, 5)} : {w.rng.randint(0, 5)}" if column == 2 else w.phrase(1, 2).title()

    return w.heading("h1 h2") + w.table(w.rng.randint(4, 30), 3, cell)


def directory(w: Writer) -> str:
    entries = (
        w.element(
            "li div p", f"{w.phrase(1, 3).title()}, {w.word()} {w.rng.randint(1, 99)}, {w.rng.randint(10000, 99999)}"
        )
        for _ in range(w.rng.randint(5, 40))
    )
    return w.heading("h1 h2") + w.element("ul div", "".join(entries), ["list", "entries", "results"])


def lyrics(w: Writer) -> str:
    verses = ("<br>".join(w.phrase(3, 8).capitalize() for _ in range(4)) for _ in range(w.rng.randint(2, 6)))
    return w.heading("h1 h2") + "".join(w.element("p div", verse) for verse in verses)


def forum(w: Writer) -> str:
    names = ["post", "post reply", "comment", "message", "reply", "entry"]
    name = w.rng.choice(names)
    posts = (f'<div class="{name}"><b>{w.word()}</b><div>{w.said()}</div></div>' for _ in range(w.rng.randint(2, 14)))
    return w.heading("h1 h2") + "".join(posts)


def comments(w: Writer) -> str:
    """What readers say below an article, which is not its text."""
    name = w.rng.choice(("comment", "comment-body", "reply", "response", "post"))
    said = "".join(
        f'<div class="{name}"><b>{w.word()}</b>{w.element("p div", w.said())}</div>'
        for _ in range(w.rng.randint(1, 12))
    )
    holder = w.rng.choice(("comments", "comment-list", "respond", "discussion", "responses"))
    return f'<div {w.rng.choice(("class", "id"))}="{holder}">{w.heading("h2 h3")}{said}</div>'


def index(w: Writer) -> str:
    links = [w.link(w.phrase(1, 6)) for _ in range(w.rng.randint(20, 150))]
    tags = w.rng.choice(
        (
            ("<ul>", "<li>", "</li>", "</ul>"),
            ("<table>", "<tr><td>", "</td></tr>", "</table>"),
            ("<div>", "<p>", "</p>", "</div>"),
        )
    )
    return w.heading("h1") + tags[0] + "".join(tags[1] + link + tags[2] for link in links) + tags[3]


BOILERPLATE_NAMES = [
    "site-nav",
    "menu",
    "sidebar",
    "footer",
    "related",
    "relatedPosts",
    "comments",
    "comment-list",
    "cookie-consent",
    "cookies",
    "share",
    "social",
    "newsletter",
    "subscribe",
    "promo",
    "advertisement",
    "author-bio",
    "byline",
    "meta",
    "tags",
    "widget",
    "popup",
    "modal",
    "login",
    "search",
    "breadcrumbs",
    "copyright",
]


def boilerplate(w: Writer) -> str:
    """A piece of prose that is around the main text, and says so by its name or its element."""
    text = w.sentence() if w.rng.random() < 0.6 else w.prose(1, 4)
    if w.rng.random() < 0.2:
        return w.element("aside footer nav", w.element("p div", text))
    if w.rng.random() < 0.1:
        return f'<div style="display:none"><p>{text}</p></div>'
    inner = w.element("p div span", text) if w.rng.random() < 0.7 else text
    tag, attribute = w.rng.choice(("div", "section", "div")), w.rng.choice(("class", "class", "id"))
    return f'<{tag} {attribute}="{w.rng.choice(BOILERPLATE_NAMES)}">{inner}</{tag}>'


KINDS = {
    "article": 5,
    "reference": 6,
    "manual": 2,
    "stub": 3,
    "shop": 2,
    "results": 1,
    "directory": 1,
    "lyrics": 1,
    "forum": 2,
    "index": 1,
}


def parts(kind: str, rng: random.Random) -> tuple[str, str, str]:
    """A page: what stands before its body, the body, and what stands behind."""
    w = Writer(rng)
    body = w.wrapped(globals()[kind](w))
    before = [w.element("div nav header", w.menu(3, 12), AROUND_NAMES) for _ in range(rng.randint(1, 2))]
    behind = [w.element("div footer p", rng.choice(("© 2021 ", "Copyright ", "")) + w.phrase(3, 12), AROUND_NAMES)]
    if rng.random() < 0.5:
        before.append(w.element("div aside nav", w.menu(5, 60), AROUND_NAMES))
    if rng.random() < 0.4:
        before.append(
            w.element("div p", w.prose(1, 2), ["notice", "banner", "alert", "announcement", "version-warning"])
        )
    if rng.random() < 0.6:
        behind.insert(
            0,
            w.element(
                "div p section aside",
                w.prose(2, 5),
                ["terms", "disclaimer", "rules", "shipping", "info", "note", "box"],
            ),
        )
    if rng.random() < 0.4:
        behind.insert(0, w.element("div nav", w.menu(2, 8), AROUND_NAMES))
    if kind == "article" and rng.random() < 0.4:
        behind.insert(0, comments(w))
    before += [boilerplate(w) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
    behind = [boilerplate(w) for _ in range(rng.choice((0, 0, 1, 1, 2)))] + behind
    tag = rng.choice(("main", "div", "div", "div", "article", "section"))
    names = w.names(CONTENT_NAMES if rng.random() < 0.95 else BOILERPLATE_NAMES)  # some names lie
    start, end = f"<{tag}{names}>", f"</{tag}>"
    if rng.random() < 0.5:
        behind.append(w.element("div footer ul", w.menu(3, 12), ["footer", "bottom", "links"]))
    head = f"<!doctype html><html><head><title>{w.phrase(1, 4)}</title></head><body>"
    if rng.random() < 0.2:
        return head + table_layout(w, before, start), body, end + "</td>" + table_end(w, behind)
    outer = rng.choice((("", ""), ("<div>", "</div>"), ('<div class="container">', "</div>")))
    return head + outer[0] + "".join(before) + start, body, end + "".join(behind) + outer[1] + "</body></html>"


def table_layout(w: Writer, before: list[str], start: str) -> str:
    """Of a page whose parts stand in the cells of a table: all up to the body."""
    cells = "".join(f"<td{w.names(AROUND_NAMES)}>{part}</td>" for part in before)
    return f"<table><tr>{cells}{w.rng.choice(('', '</tr><tr>'))}<td>{start}"


def table_end(w: Writer, behind: list[str]) -> str:
    advert = f'<td class="ads"><div class="advertisement">{w.phrase(2, 9)}</div></td>' if w.rng.random() < 0.5 else ""
    rows = "".join(f"<tr><td{w.names(AROUND_NAMES)}>{part}</td></tr>" for part in behind)
    return f"{advert}</tr>{rows}</table></body></html>"


def generated(count: int, seed: int) -> Iterator[Truth]:
    """Pages of all kinds, in turns."""
    rng = random.Random(seed)
    kinds = [kind for kind, weight in KINDS.items() for _ in range(weight)]
    for number in range(count):
        kind = kinds[number % len(kinds)]
        before, body, behind = parts(kind, random.Random(rng.random()))
        yield Truth(GENERATED, f"{kind}-{number}", (before + body + behind).encode(), body=body)
