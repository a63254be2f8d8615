"""Names. A vertex is one content of one URL: (URL, epoch). The epoch is the version that brought the content.

A vertex's name sorts by (first seen, URL, epoch), so the eldest member of a group is its smallest name:

    first seen, 12 hex digits of ms | URL | space | epoch, hex

Two vertices of one epoch differ in their turn: the content of a revisit may turn out to be another one as more of the
revisited page's history arrives, and a page gets another vertex when an operator decides that it is the same as another
page. Then `.turn` follows, which counts from 0; 0 is omitted.

A group key is (counter, vertex): the counter of the vertex's membership when the group was created. It is never reused.
URLs must not contain the character NUL: it terminates names in row keys.
"""

from __future__ import annotations

FIRST_SEEN_MS_MAX = (1 << 48) - 1  # the year 10889
FIRST_SEEN_DIGITS = 12
END = "\0"


def vertex_name(first_seen_ms: int, url: str, epoch: int, turn: int = 0) -> str:
    return f"{min(max(first_seen_ms, 0), FIRST_SEEN_MS_MAX):012x}{url} {content_name(epoch, turn)}"


def content_name(epoch: int, turn: int) -> str:
    """The last part of a vertex's name."""
    return f"{epoch:x}.{turn:x}" if turn else f"{epoch:x}"


def url_of(vertex: str) -> str:
    return vertex[FIRST_SEEN_DIGITS : vertex.rindex(" ")]


def epoch_of(vertex: str) -> int:
    return int(vertex[vertex.rindex(" ") + 1 :].partition(".")[0], 16)


def first_seen_of(vertex: str) -> int:
    return int(vertex[:FIRST_SEEN_DIGITS], 16)


def group_key(counter: int, vertex: str) -> str:
    return f"{counter:x} {vertex}"
