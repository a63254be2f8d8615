"""A small web for the lookup service: the planted one, with hostile markup, a rule, a soft 404 and a mirror."""

from __future__ import annotations

from planted_pages import WEB, event, prose

SESSIONS = 30

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e&amp;'\"{{7*7}}"
HOSTILE_URL = "https://evil.example/<script>alert('url')</script>?q=\"><img src=x onerror=alert(3)>&b={{7*7}}"


def _hostile() -> list[dict[str, object]]:
    """Markup in URLs and texts. The texts are plain, so that nothing removes the markup before it is shown."""
    text = prose("evil")
    return [
        event("evil.example/plain") | {"text": text.replace("evil50 ", f"{EVIL} ")},
        event("evil.example/")
        | {"url": HOSTILE_URL, "text": text.replace("evil50 ", "<b>evil50</b> javascript:alert(4) ")},
    ]


def _ruled() -> list[dict[str, object]]:
    """A site on which ?sid= makes no difference: an active rule."""
    return [
        event(f"shop.example/{kind}/{page}{sid}") | {"text": prose(f"{kind}{page}x")}
        for kind in "abc"
        for page in range(SESSIONS // 3)
        for sid in ("", f"?sid={page}7", f"?sid={page}9")
    ]


def _soft_404() -> list[dict[str, object]]:
    """One text under unrelated URLs."""
    return [
        event(f"soft.example/{name}") | {"text": prose("missing")}
        for name in ("ant", "bee", "cat", "dog", "eel", "fox")
    ]


def _mirror() -> list[dict[str, object]]:
    """Almost all of its pages are those of another site: the site is held."""
    pages = [
        (f"{name}.example/page/{number}", prose(f"mirrored{number}x"))
        for number in range(110)
        for name in ("orig", "mirror-of-it")
    ]
    return [event(url) | {"text": text} for url, text in pages]


WEB_SERVED = [*WEB, *_hostile(), *_ruled(), *_soft_404(), *_mirror()]
