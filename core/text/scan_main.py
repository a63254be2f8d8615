"""Which blocks of a page are its main text.

Shallow block features (Kohlschütter et al. 2010: length and link density of a block and its neighbours) and the tree of
containers: their tags, the words of their classes, and how much prose they hold. A class name is believed only as far
as the text does not say otherwise: what holds most of a page's prose is no side bar, whatever it is called.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dustream.core.text.compiled import inner
from dustream.core.text.scan_blocks import CONTAINER, END, KINDS, LINK_BYTES, PARENT, ROLES, START
from dustream.core.text.scan_memory import borrowed
from dustream.core.text.scan_tables import CONCEALED, KIND, ROLE, Int

# A block is prose from this length on, if no more than this part of it is links. Bytes, not characters: a Chinese
# character says about as much as three letters, and takes three bytes.
PROSE_BYTES_MIN = 80
PARAGRAPH_BYTES_MIN = 40
PROSE_LINK_SHARE_MAX = 0.33
# What a byte of short text weighs beside prose where names are judged: pages of few words have a main text, too.
SHORT_WEIGHT = 0.5
SPARSE_SHARE_MAX = 0.5  # prose below this part of the text so weighed: the page is of the short kind
LINK_SHARE_MAX = 0.5  # a block above it is a list of links

# A page of which so little is left is a list of links (an index, an overview), and its links are what it says.
LIST_SHARE_MAX = 0.25
LIST_BYTES_MAX = 400
LINK_WEIGHT, NO_LINK_WEIGHT = 1.0, 0.0

# Which names are believed. Where all of them together leave hardly anything of a page, they mean something else there:
# on a forum all is comments, and "bottom" may be the article. Its skip link alone would make it the next page's copy.
NO_NAMES, STRONG_NAMES, ALL_NAMES = range(3)
CHOSEN_SHARE_MIN = 0.125  # of the text outside links
CHOSEN_BYTES_MIN = (0, 400, 800)  # by what is believed: a short post with many comments is still the post
TEXT_BYTES_MIN = 400  # a page with less outside links is a list of them
ONLY_LINKS = 0.0  # a name that is not believed puts out what has no text but links

HEADING, TOP_HEADING, SECOND_HEADING = KIND["HEADING"], KIND["TOP_HEADING"], KIND["SECOND_HEADING"]
PREFORMATTED = KIND["PREFORMATTED"]
PARAGRAPH = KIND["PARAGRAPH"]
LEAF = PARAGRAPH | KIND["LIST_ITEM"] | KIND["DESCRIPTION"] | HEADING | PREFORMATTED

ATTACHED = KIND["DESCRIPTION"] | KIND["LIST_ITEM"] | PREFORMATTED

# The elements that are boilerplate by definition.
BOILERPLATE = ROLE["BOILERPLATE"]
# Parts that are boilerplate however much they hold, as long as some prose is left.
STRONG = ROLE["COMMENT"] | ROLE["CONSENT"]
REST_BYTES_MIN = 150
# Parts that are boilerplate unless they hold much of the prose; more of it, where enough is left without such parts.
WEAK = (
    ROLE["NAVIGATION"] | ROLE["FOOTER"] | ROLE["ASIDE"] | ROLE["FORM"] | ROLE["ADVERT"] | ROLE["SHARE"]
    | ROLE["RELATED"] | ROLE["NOTICE"] | ROLE["HEADER"] | ROLE["BYLINE"] | ROLE["CAPTION"]
    | CONCEALED
)  # fmt: skip
WEAK_SHARE_MAX = 0.4
WEAK_SHARE_MAX_WITH_REST = 0.65
REST_SHARE_MIN = 0.3
CENTRAL = ROLE["MAIN"] | ROLE["ARTICLE"]
# The main text is looked for where this part of the prose is; less will do in an element that says it is central.
DOMINANT_SHARE_MIN = 0.75
CENTRAL_SHARE_MIN = 0.5


@inner
def _is_prose(length: int, link_bytes: int) -> bool:
    return length >= PROSE_BYTES_MIN and link_bytes <= PROSE_LINK_SHARE_MAX * length


@inner
def _weigh(
    blocks: NDArray[np.int32], containers: NDArray[np.int32], link_weight: float, prose: NDArray[np.int64],
    weighed: NDArray[np.int64],
) -> None:  # fmt: skip
    """Bytes of prose in each container itself, links by weight; and of all text, where short text has its weight."""
    for i in range(containers.shape[0]):
        prose[i] = weighed[i] = 0
    for i in range(blocks.shape[0]):
        length, container = blocks[i, END] - blocks[i, START], blocks[i, CONTAINER]
        size = length - (1.0 - link_weight) * blocks[i, LINK_BYTES]
        is_heading = containers[container, KINDS] & HEADING != 0
        if _is_prose(length, blocks[i, LINK_BYTES]) and not is_heading:
            prose[container] += np.int64(size)
            weighed[container] += np.int64(size)
        else:
            weighed[container] += np.int64(size * SHORT_WEIGHT)


@inner
def _sum_up(
    sizes: NDArray[np.int64], containers: NDArray[np.int32], is_out: NDArray[np.bool_], sums: NDArray[np.int64]
) -> None:
    """Of each container the bytes in it and in those inside it; what is out does not count."""
    for i in range(containers.shape[0]):
        sums[i] = 0 if is_out[i] else sizes[i]
    for i in range(containers.shape[0] - 1, 0, -1):
        sums[containers[i, PARENT]] += sums[i]


@inner
def _total(sizes: NDArray[np.int64], is_out: NDArray[np.bool_], count: int) -> int:
    total = 0
    for i in range(count):
        total += 0 if is_out[i] else sizes[i]
    return total


@inner
def _put_out(
    containers: NDArray[np.int32], prose: NDArray[np.int64], weak_share_max: float, rest_bytes_min: Int,
    is_out: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Which containers are boilerplate, by their own role or that of one around them."""
    is_out[0] = False
    for i in range(1, containers.shape[0]):
        roles = containers[i, ROLES]
        is_strong = roles & STRONG != 0 and prose[0] - prose[i] >= min(rest_bytes_min, prose[0])
        is_weak = roles & WEAK != 0 and roles & CENTRAL == 0 and prose[i] <= weak_share_max * prose[0]
        is_out[i] = is_out[containers[i, PARENT]] or roles & BOILERPLATE != 0 or is_strong or is_weak


@inner
def _dominant(containers: NDArray[np.int32], prose: NDArray[np.int64]) -> int:
    """The innermost container that holds most of the prose."""
    chosen = 0
    for i in range(1, containers.shape[0]):
        if containers[i, KINDS] & LEAF or containers[i, PARENT] != chosen:
            continue
        least = CENTRAL_SHARE_MIN if containers[i, ROLES] & CENTRAL else DOMINANT_SHARE_MIN
        if prose[i] > 0 and prose[i] >= least * prose[chosen]:
            chosen = i
    return chosen


@inner
def _take_in(containers: NDArray[np.int32], root: int, is_out: NDArray[np.bool_], inside: NDArray[np.bool_]) -> None:
    """Which containers are the root or in it, and not boilerplate."""
    for i in range(root):
        inside[i] = False
    inside[root] = True
    for i in range(root + 1, containers.shape[0]):
        inside[i] = inside[containers[i, PARENT]] and not is_out[i]


@inner
def choose(
    blocks: NDArray[np.int32], containers: NDArray[np.int32], prose: NDArray[np.int64], weighed: NDArray[np.int64],
    sums: NDArray[np.int64], is_out: NDArray[np.bool_], inside: NDArray[np.bool_], chosen: NDArray[np.bool_],
) -> None:  # fmt: skip
    """For each block, whether it is main text, in `chosen`."""
    blocks, containers, prose, weighed = borrowed(blocks), borrowed(containers), borrowed(prose), borrowed(weighed)
    sums, is_out, inside, chosen = borrowed(sums), borrowed(is_out), borrowed(inside), borrowed(chosen)
    believed = ALL_NAMES
    _choose_by_names(blocks, containers, believed, prose, weighed, sums, is_out, inside, chosen)
    while _is_hardly_anything(blocks, chosen, CHOSEN_BYTES_MIN[believed]):
        believed -= 1
        _choose_by_names(blocks, containers, believed, prose, weighed, sums, is_out, inside, chosen)


@inner
def _is_hardly_anything(blocks: NDArray[np.int32], chosen: NDArray[np.bool_], chosen_bytes_min: int) -> bool:
    """Whether so little is chosen that most of the page's text must have been put out."""
    text_bytes = 0
    for i in range(blocks.shape[0]):
        text_bytes += blocks[i, END] - blocks[i, START] - blocks[i, LINK_BYTES]
    least = min(np.float64(chosen_bytes_min), CHOSEN_SHARE_MIN * text_bytes)
    return bool(text_bytes >= TEXT_BYTES_MIN and _bytes_of(blocks, chosen) < least)


@inner
def _choose_by_names(
    blocks: NDArray[np.int32], containers: NDArray[np.int32], believed: int, prose: NDArray[np.int64],
    weighed: NDArray[np.int64], sums: NDArray[np.int64], is_out: NDArray[np.bool_], inside: NDArray[np.bool_],
    chosen: NDArray[np.bool_],
) -> None:  # fmt: skip
    count = containers.shape[0]
    _put_out_boilerplate(blocks, containers, NO_LINK_WEIGHT, believed, prose, weighed, sums, is_out)
    prose_bytes = _total(prose, is_out, count)
    is_sparse = prose_bytes == 0 or prose_bytes < SPARSE_SHARE_MAX * _total(weighed, is_out, count)
    _sum_up(weighed if is_sparse else prose, containers, is_out, sums)
    _take_in(containers, _dominant(containers, sums), is_out, inside)
    if is_sparse:
        _choose_of_sparse(blocks, containers, inside, is_out, chosen)
    else:
        _choose_of_prose(blocks, containers, inside, chosen)
    chosen_bytes = _bytes_of(blocks, chosen)
    if chosen_bytes < LIST_BYTES_MAX:
        _put_out_boilerplate(blocks, containers, LINK_WEIGHT, believed, prose, weighed, sums, is_out)
        _choose_of_list(blocks, is_out, chosen_bytes, chosen)


@inner
def _put_out_boilerplate(
    blocks: NDArray[np.int32], containers: NDArray[np.int32], link_weight: float, believed: int,
    prose: NDArray[np.int64], weighed: NDArray[np.int64], sums: NDArray[np.int64], is_out: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Which containers are boilerplate, weak names being believed less where they would leave little."""
    _weigh(blocks, containers, link_weight, prose, weighed)
    for i in range(containers.shape[0]):
        is_out[i] = False
    _sum_up(weighed, containers, is_out, sums)
    weak_share_max = WEAK_SHARE_MAX_WITH_REST if believed == ALL_NAMES else ONLY_LINKS
    rest_bytes_min = sums[0] if believed == NO_NAMES else np.int64(REST_BYTES_MIN)
    _put_out(containers, sums, weak_share_max, rest_bytes_min, is_out)
    if believed == ALL_NAMES and _total(weighed, is_out, containers.shape[0]) < REST_SHARE_MIN * sums[0]:
        _put_out(containers, sums, WEAK_SHARE_MAX, rest_bytes_min, is_out)


@inner
def _bytes_of(blocks: NDArray[np.int32], chosen: NDArray[np.bool_]) -> int:
    size = 0
    for i in range(blocks.shape[0]):
        size += blocks[i, END] - blocks[i, START] if chosen[i] else 0
    return size


@inner
def _choose_of_list(
    blocks: NDArray[np.int32], is_out: NDArray[np.bool_], chosen_bytes: int, chosen: NDArray[np.bool_]
) -> None:
    """If the page is a list of links: all but boilerplate, links counting as text."""
    listed_bytes = 0
    for i in range(blocks.shape[0]):
        listed_bytes += 0 if is_out[blocks[i, CONTAINER]] else blocks[i, END] - blocks[i, START]
    if chosen_bytes < LIST_SHARE_MAX * listed_bytes:
        for i in range(blocks.shape[0]):
            chosen[i] = not is_out[blocks[i, CONTAINER]]


@inner
def _choose_of_sparse(
    blocks: NDArray[np.int32], containers: NDArray[np.int32], inside: NDArray[np.bool_], is_out: NDArray[np.bool_],
    chosen: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Of a page whose main text is mostly short, as in manuals of programs: all but links, else all but boilerplate."""
    first = -1
    for i in range(blocks.shape[0]):
        is_links = blocks[i, LINK_BYTES] > LINK_SHARE_MAX * (blocks[i, END] - blocks[i, START])
        chosen[i] = inside[blocks[i, CONTAINER]] and not is_links
        first = i if chosen[i] and first < 0 else first
    if first < 0:
        for i in range(blocks.shape[0]):
            chosen[i] = not is_out[blocks[i, CONTAINER]]
        return
    headline = _headline(blocks, containers, first)
    if headline >= 0 and not containers[blocks[first, CONTAINER], KINDS] & HEADING:
        chosen[headline] = True


@inner
def _is_long(blocks: NDArray[np.int32], containers: NDArray[np.int32], i: int) -> bool:
    """Whether a block is prose, or a paragraph that says so itself and has some length."""
    blocks, containers = borrowed(blocks), borrowed(containers)
    length, link_bytes = blocks[i, END] - blocks[i, START], blocks[i, LINK_BYTES]
    kind = containers[blocks[i, CONTAINER], KINDS]
    if kind & HEADING:
        return False
    if kind & PARAGRAPH and length >= PARAGRAPH_BYTES_MIN:
        return bool(link_bytes <= PROSE_LINK_SHARE_MAX * length)
    return _is_prose(length, link_bytes)


@inner
def _is_attached(blocks: NDArray[np.int32], containers: NDArray[np.int32], i: int, inside: NDArray[np.bool_]) -> bool:
    """Whether a block next to the prose goes with it however short it is: code, descriptions, list items."""
    container = blocks[i, CONTAINER]
    if not inside[container] or not containers[container, KINDS] & ATTACHED:
        return False
    return bool(blocks[i, LINK_BYTES] <= PROSE_LINK_SHARE_MAX * (blocks[i, END] - blocks[i, START]))


@inner
def _main_range(blocks: NDArray[np.int32], containers: NDArray[np.int32], inside: NDArray[np.bool_]) -> tuple[int, int]:
    """First and last block of the main text: the prose, and what is attached to its ends."""
    blocks, containers, inside = borrowed(blocks), borrowed(containers), borrowed(inside)
    first, last = blocks.shape[0], -1
    for i in range(blocks.shape[0]):
        if inside[blocks[i, CONTAINER]] and _is_long(blocks, containers, i):
            first, last = min(first, i), i
    while 0 < first <= last and _is_attached(blocks, containers, first - 1, inside):
        first -= 1
    while 0 <= last < blocks.shape[0] - 1 and _is_attached(blocks, containers, last + 1, inside):
        last += 1
    return first, last


@inner
def _headline(blocks: NDArray[np.int32], containers: NDArray[np.int32], first: int) -> int:
    """The last h1 before the main text, else the last h2; -1 if there is none.

    It is taken wherever it stands, a header of its own too, so that two layouts of an article give the same text.
    """
    second = -1
    for i in range(first - 1, -1, -1):
        kind = containers[blocks[i, CONTAINER], KINDS]
        if kind & TOP_HEADING:
            return i
        if kind & SECOND_HEADING and second < 0:
            second = i
    return second


@inner
def _choose_of_prose(
    blocks: NDArray[np.int32], containers: NDArray[np.int32], inside: NDArray[np.bool_], chosen: NDArray[np.bool_]
) -> None:
    """The headline, prose, and the short blocks between."""
    for i in range(blocks.shape[0]):
        chosen[i] = False
    first, last = _main_range(blocks, containers, inside)
    for i in range(first, last + 1):
        is_links = blocks[i, LINK_BYTES] > LINK_SHARE_MAX * (blocks[i, END] - blocks[i, START])
        chosen[i] = inside[blocks[i, CONTAINER]] and not is_links
    headline = _headline(blocks, containers, first)
    if headline >= 0:
        chosen[headline] = True


@inner
def join_into(
    text: NDArray[np.uint8], blocks: NDArray[np.int32], chosen: NDArray[np.bool_], joined: NDArray[np.uint8]
) -> int:
    """Write the chosen blocks, a line each, to `joined`, which has room for the text: their size."""
    text, blocks, chosen, joined = borrowed(text), borrowed(blocks), borrowed(chosen), borrowed(joined)
    out = np.uint64(0)  # unsigned: the compiler then copies whole vectors
    for i in range(blocks.shape[0]):
        if chosen[i]:
            first, length = np.uint64(blocks[i, START]), np.uint64(blocks[i, END] - blocks[i, START])
            for j in range(length):
                joined[out + np.uint64(j)] = text[first + np.uint64(j)]
            joined[out + length] = 0x0A
            out += length + np.uint64(1)
    return max(np.int64(0), np.int64(out) - np.int64(1))  # type: ignore[return-value]
