"""The picture of a partition map: how long pages are, where the cuts lie, and what each partition carries. SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from dustream.core.tier2.cut_tree import BY_LENGTH, SHARE_UNITS, Cut, LosslessMap
from dustream.core.tier2.partition_map import Balance, PartitionMap
from dustream.core.tier2.zhu_map import ZhuMap

NAMESPACE = "http://www.w3.org/2000/svg"
WIDTH = 960
LEFT = 60
PLOT_WIDTH = WIDTH - LEFT - 20
PANEL_HEIGHT = 180
BARS = 120
TREE_LEVELS_MAX = 12
LEVEL_HEIGHT = 22
BLUE, ORANGE, GREEN, GREY = "#4472a8", "#d1762c", "#5a9367", "#777777"


def draw_partition_map(partition_map: PartitionMap, lengths: NDArray[np.int64], balance: Balance) -> str:
    """One SVG document: length distribution with the cuts in it, the tree of cuts, loads and contacts."""
    parts: list[str] = []
    top = 30
    parts += _length_panel(lengths, _length_cuts(partition_map), top)
    top += PANEL_HEIGHT + 70
    if isinstance(partition_map, LosslessMap) and partition_map.data.cuts:
        tree, height = _tree_panel(partition_map.data.cuts, balance.load, top)
        parts += tree
        top += height + 60
    parts += _load_panel(balance, top)
    height = top + PANEL_HEIGHT + 50
    head = f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *parts, "</svg>\n"])


def _length_cuts(partition_map: PartitionMap) -> list[int]:
    """Lengths at which a map cuts; Zhu's are lengths in the first sub-dictionary times their number."""
    if isinstance(partition_map, LosslessMap):
        return sorted({cut.coordinate for cut in partition_map.data.cuts if cut.sub_dictionary == BY_LENGTH})
    if isinstance(partition_map, ZhuMap):
        data = partition_map.data
        return sorted({bound * data.dimensions for grid in data.grids for bound in grid.bounds[0][1:]})
    return []


def _length_panel(lengths: NDArray[np.int64], cuts: Sequence[int], top: int) -> list[str]:
    longest = max(int(lengths.max(initial=1)), 2)
    edges = np.expm1(np.linspace(0.0, np.log1p(longest + 1), BARS + 1))
    counts = np.histogram(lengths, edges)[0]
    bars = _bars(counts, top, BLUE)
    lines = [
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + PANEL_HEIGHT}" stroke="{ORANGE}" stroke-width="0.8"/>'
        for x in (LEFT + PLOT_WIDTH * np.log1p(cut) / np.log1p(longest + 1) for cut in cuts)
    ]
    ticks = [tick for tick in (0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 100_000, 1_000_000) if tick <= longest]
    labels = [
        _text(
            LEFT + PLOT_WIDTH * np.log1p(tick) / np.log1p(longest + 1), top + PANEL_HEIGHT + 14, f"{tick:,}", "middle"
        )
        for tick in ticks
    ]
    title = f"Distinct shingles per page, {len(lengths):,} pages (bars), and length cuts (lines)"
    return [_text(LEFT, top - 10, title), *bars, *lines, *labels, *_axis(int(counts.max(initial=0)), top)]


def _tree_panel(cuts: Sequence[Cut], load: NDArray[np.int64], top: int) -> tuple[list[str], int]:
    """The cuts from the root down; a box is as wide as the pages below it are many."""
    parts = [_text(LEFT, top - 10, "Cuts: blue by length, green by the share of a sub-dictionary; width = pages")]
    total = max(int(load.sum()), 1)
    deepest = 0
    pending = [(0, 0, 0)]
    while pending:
        node, level, before = pending.pop()
        pages = _pages_under(cuts, node, load)
        if level >= TREE_LEVELS_MAX or node < 0:
            continue
        cut = cuts[node]
        deepest = max(deepest, level)
        parts.append(
            _tree_box(cut, LEFT + PLOT_WIDTH * before / total, top + level * LEVEL_HEIGHT, PLOT_WIDTH * pages / total)
        )
        pending.append((cut.below, level + 1, before))
        pending.append((cut.above, level + 1, before + _pages_under(cuts, cut.below, load)))
    return parts, (deepest + 1) * LEVEL_HEIGHT


def _tree_box(cut: Cut, x: float, y: float, width: float) -> str:
    by_length = cut.sub_dictionary == BY_LENGTH
    label = f"L < {cut.coordinate}" if by_length else f"s < {cut.coordinate / SHARE_UNITS:.2f}"
    box = (
        f'<rect x="{x:.1f}" y="{y}" width="{max(width - 1, 0.5):.1f}" height="{LEVEL_HEIGHT - 2}" '
        f'fill="{BLUE if by_length else GREEN}" fill-opacity="0.75"><title>{escape(label)}</title></rect>'
    )
    return box + (_text(x + width / 2, y + 14, label, "middle", "white") if width > 7 * len(label) else "")


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
    """What each partition stores, in front of what it is asked to compare."""
    highest = int(balance.visits.max(initial=1))
    mean_y = top + PANEL_HEIGHT * (1 - float(balance.load.mean()) / max(highest, 1))
    title = (
        f"Partitions: pages stored (blue), pages compared there (grey), mean load (line); imbalance "
        f"{balance.imbalance_factor:.3f}, {balance.contacts_mean:.2f} partitions contacted per page"
    )
    line = f'<line x1="{LEFT}" x2="{LEFT + PLOT_WIDTH}" y1="{mean_y:.1f}" y2="{mean_y:.1f}" stroke="{ORANGE}"/>'
    visits, load = _bars(balance.visits, top, "#cccccc", highest), _bars(balance.load, top, BLUE, highest)
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
