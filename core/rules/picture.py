"""The pattern tree for people: as text, and as a picture (SVG, one line per node, bars for volumes)."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final, NamedTuple

from dustream.core.rules.pattern_tree import Node, PatternTree, node_pattern

LINES_MAX: Final = 400
LABEL_CHARS_MAX: Final = 90
_LINE_PX: Final = 18
_INDENT_PX: Final = 16
_BAR_PX: Final = 120
_MORE: Final = "… and {} nodes more"


class _Line(NamedTuple):
    node: Node
    label: str
    duplicates: int


def tree_text(tree: PatternTree, lines_max: int = LINES_MAX) -> str:
    """One line per node: URLs, how many of them have duplicates, and what its pattern adds to that of its parent."""
    lines = [
        f"{line.node.volume:>8} {line.duplicates:>8}  {'  ' * line.node.depth}{line.label}"
        for line in _lines(tree, lines_max)
    ]
    more = [f"{'':>17}  {_MORE.format(left)}" for left in _left(tree, lines_max)]
    return "\n".join([f"{'urls':>8} {'in dups':>8}  pattern", *lines, *more])


def tree_svg(tree: PatternTree, lines_max: int = LINES_MAX) -> str:
    """The same as a picture."""
    lines = list(_lines(tree, lines_max))
    most = max((line.node.volume for line in lines), default=1)
    body = [_svg_line(i, line, most) for i, line in enumerate(lines)]
    below = _LINE_PX * (len(lines) + 1)
    body += [f'<text x="{_BAR_PX + 80}" y="{below}">{_MORE.format(left)}</text>' for left in _left(tree, lines_max)]
    height = _LINE_PX * (len(body) + 1)
    size = f'width="1200" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *body, "</svg>\n"])


def _left(tree: PatternTree, lines_max: int) -> list[int]:
    """How many nodes are not shown, if any."""
    return [len(tree.nodes) - lines_max] if len(tree.nodes) > lines_max else []


def _svg_line(i: int, line: _Line, most: int) -> str:
    y = _LINE_PX * (i + 1)
    width = max(1, _BAR_PX * line.node.volume // most)
    marked = width * line.duplicates // max(1, line.node.volume)
    x = _BAR_PX + 80 + _INDENT_PX * line.node.depth
    return (
        f'<rect x="4" y="{y - 10}" width="{width}" height="10" fill="#cfd8dc"/>'
        f'<rect x="4" y="{y - 10}" width="{marked}" height="10" fill="#e57373"/>'
        f'<text x="{_BAR_PX + 70}" y="{y}" text-anchor="end">{line.node.volume}</text>'
        f'<text x="{x}" y="{y}">{escape(line.label)}</text>'
    )


def _lines(tree: PatternTree, lines_max: int) -> Iterator[_Line]:
    known = tree.training.repeated
    shown: dict[int, dict[str, str]] = {-1: {}}
    for node in tree.nodes[:lines_max]:
        pattern = dict(node_pattern(tree, node))
        above = shown[node.parent]
        new = [f"{key.rstrip('=')}={value}" for key, value in pattern.items() if above.get(key) != value]
        gone = [f"no {key.rstrip('=')}" for key in above if key not in pattern]
        shown[node.id] = pattern
        label = "  ".join(new + gone)
        label = label if len(label) <= LABEL_CHARS_MAX else label[: LABEL_CHARS_MAX - 1] + "…"
        yield _Line(node, label, int(known[tree.rows(node)].sum()))
