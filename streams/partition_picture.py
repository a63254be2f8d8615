"""A picture of a partition map as SVG: page lengths, the cuts, and the load of each partition."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from dustream.core.partitioning import TIE_BITS
from dustream.core.tier2.cut_tree import BY_LENGTH, SHARE_UNITS, Cut, LosslessMap
from dustream.core.tier2.partition_map import Balance, PartitionMap, length_cuts

NAMESPACE = "http://www.w3.org/2000/svg"
WIDTH = 960
LEFT = 60
PLOT_WIDTH = WIDTH - LEFT - 36
PANEL_HEIGHT = 180
BARS = 120
TREE_LEVELS_MAX = 24
LEVEL_HEIGHT = 22
BLUE, ORANGE, GREEN, GREY, LIGHT_GREY = "#4472a8", "#d1762c", "#5a9367", "#777777", "#cccccc"


def draw_partition_map(partition_map: PartitionMap, lengths: NDArray[np.int64], balance: Balance) -> str:
    """One SVG document: length distribution with the cuts in it, the tree of cuts, loads and contacts."""
    heading = f"{partition_map.partitions} partitions, similarity threshold {partition_map.tau:g}"
    parts = [f'<g font-size="15" font-weight="bold">{_text(LEFT, 24, heading)}</g>']
    top = 64
    parts += _length_panel(lengths, length_cuts(partition_map), top)
    top += PANEL_HEIGHT + 70
    if isinstance(partition_map, LosslessMap) and partition_map.data.cuts:
        tree, height = _tree_panel(partition_map.data.cuts, balance.load, top)
        parts += tree
        top += height + 60
    parts += _load_panel(balance, top)
    height = top + PANEL_HEIGHT + 50
    head = f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *parts, "</svg>\n"])


def _length_panel(lengths: NDArray[np.int64], cuts: Sequence[int], top: int) -> list[str]:
    longest = max(int(lengths.max(initial=1)), 2)
    edges = np.expm1(np.linspace(0.0, np.log1p(longest + 1), BARS + 1))
    counts = np.histogram(lengths, edges)[0]
    bars = _bars(counts, top, BLUE)
    lines = [
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + PANEL_HEIGHT}" stroke="{ORANGE}" stroke-width="0.8"/>'
        for x in (LEFT + PLOT_WIDTH * np.log1p(cut) / np.log1p(longest + 1) for cut in cuts)
    ]
    ticks = [0, *(tick for power in range(7) for tick in (10**power, 3 * 10**power) if tick <= longest)]
    labels = [
        _text(
            LEFT + PLOT_WIDTH * np.log1p(tick) / np.log1p(longest + 1), top + PANEL_HEIGHT + 14, f"{tick:,}", "middle"
        )
        for tick in ticks
    ]
    title = f"Distinct shingles per page, {len(lengths):,} pages (bars), and length cuts (lines)"
    return [_text(LEFT, top - 10, title), *bars, *lines, *labels, *_axis(int(counts.max(initial=0)), top)]


def _tree_panel(cuts: Sequence[Cut], load: NDArray[np.int64], top: int) -> tuple[list[str], int]:
    """The cuts from the root down to the partitions; the width of a box is proportional to its pages."""
    title = "Cuts, from the first down: blue by length L, green by the share s of a sub-dictionary; grey: partitions. "
    parts = [_text(LEFT, top - 10, title + "Width: pages. What is less lies left; of ≤, ties in part")]
    scale = PLOT_WIDTH / max(int(load.sum()), 1)
    deepest = 0
    pending = [(0, 0, 0)]
    while pending:
        node, level, before = pending.pop()
        deepest = max(deepest, level)
        pages = _pages_under(cuts, node, load)
        parts.append(_tree_box(cuts, node, LEFT + before * scale, top + level * LEVEL_HEIGHT, pages * scale))
        if node >= 0 and level < TREE_LEVELS_MAX:
            cut = cuts[node]
            pending.append((cut.below, level + 1, before))
            pending.append((cut.above, level + 1, before + _pages_under(cuts, cut.below, load)))
    return parts, (deepest + 1) * LEVEL_HEIGHT


def _tree_box(cuts: Sequence[Cut], node: int, x: float, y: float, width: float) -> str:
    hint, label, colour = _box_words(cuts, node)
    box = (
        f'<rect x="{x:.1f}" y="{y}" width="{max(width - 1, 0.5):.1f}" height="{LEVEL_HEIGHT - 2}" '
        f'fill="{colour}"><title>{escape(hint)}</title></rect>'
    )
    ink = "#333333" if node < 0 else "white"
    return box + (_text(x + width / 2, y + 14, label, "middle", ink) if width > 6.5 * len(label) else "")


def _box_words(cuts: Sequence[Cut], node: int) -> tuple[str, str, str]:
    """(hint, label, colour) of a cut or a partition."""
    if node < 0:
        return f"partition {~node}", str(~node), LIGHT_GREY
    cut = cuts[node]
    relation = "≤" if cut.tie_below else "<"
    part = f", {cut.tie_below / 2**TIE_BITS:.0%} of those at the cut" if cut.tie_below else ""
    if cut.sub_dictionary == BY_LENGTH:
        return f"L {relation} {cut.coordinate}{part}", f"L {relation} {cut.coordinate}", BLUE
    share = f"{cut.coordinate / SHARE_UNITS:.2f}"
    return f"share of sub-dictionary {cut.sub_dictionary} {relation} {share}{part}", f"s {relation} {share}", GREEN


def _pages_under(cuts: Sequence[Cut], node: int, load: NDArray[np.int64]) -> int:
    pages = 0
    pending = [node]
    while pending:
        at = pending.pop()
        if at < 0:
            pages += int(load[~at])
        else:
            pending += [cuts[at].below, cuts[at].above]
    return pages


def _load_panel(balance: Balance, top: int) -> list[str]:
    """The pages that each partition stores, in front of those that it compares."""
    highest = int(balance.visits.max(initial=1))
    mean_y = top + PANEL_HEIGHT * (1 - float(balance.load.mean()) / max(highest, 1))
    title = (
        f"Partitions: pages stored (blue), pages compared there (grey), mean load (line); imbalance "
        f"{balance.imbalance_factor:.3f}, {balance.contacts_mean:.2f} partitions contacted per page"
    )
    line = f'<line x1="{LEFT}" x2="{LEFT + PLOT_WIDTH}" y1="{mean_y:.1f}" y2="{mean_y:.1f}" stroke="{ORANGE}"/>'
    visits, load = _bars(balance.visits, top, LIGHT_GREY, highest), _bars(balance.load, top, BLUE, highest)
    ends = [
        _text(LEFT, top + PANEL_HEIGHT + 14, "partition 0"),
        _text(LEFT + PLOT_WIDTH, top + PANEL_HEIGHT + 14, f"partition {len(balance.load) - 1}", "end"),
    ]
    return [_text(LEFT, top - 10, title), *visits, *load, line, *ends, *_axis(highest, top)]


def _bars(counts: NDArray[np.int64], top: int, colour: str, highest: int | None = None) -> list[str]:
    highest = max(int(counts.max(initial=0)) if highest is None else highest, 1)
    step = PLOT_WIDTH / len(counts)
    bars = []
    for at, count in enumerate(counts.tolist()):
        if count:
            height = PANEL_HEIGHT * count / highest
            bars.append(
                f'<rect x="{LEFT + at * step:.1f}" y="{top + PANEL_HEIGHT - height:.1f}" width="{step * 0.92:.1f}" '
                f'height="{height:.1f}" fill="{colour}"><title>{count}</title></rect>'
            )
    return bars


def _axis(highest: int, top: int) -> list[str]:
    bottom = top + PANEL_HEIGHT
    return [
        f'<line x1="{LEFT}" x2="{LEFT + PLOT_WIDTH}" y1="{bottom}" y2="{bottom}" stroke="{GREY}"/>',
        _text(LEFT - 6, top + 8, f"{highest:,}", "end"),
        _text(LEFT - 6, bottom, "0", "end"),
    ]


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
