"""A small line chart as SVG: several series over counts that double, or other steps."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

NAMESPACE = "http://www.w3.org/2000/svg"
WIDTH, HEIGHT = 500, 280
LEFT, RIGHT, TOP, BOTTOM = 50, 130, 34, 40
COLOURS = ("#8c8c8c", "#d1762c", "#5a9367", "#b58fc2", "#b0a030", "#4472a8")


def line_chart(title: str, x_label: str, xs: Sequence[int | str], series: dict[str, list[float]]) -> str:
    """x steps are equal: for counts that double, a logarithmic axis."""
    highest = max(max(values) for values in series.values()) * 1.05 or 1.0
    step = (WIDTH - LEFT - RIGHT) / max(len(xs) - 1, 1)

    def point(at: int, value: float) -> tuple[float, float]:
        return LEFT + at * step, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / highest

    parts = [_text(LEFT, 18, title), _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_label, "middle")]
    parts += [_text(point(at, 0)[0], HEIGHT - BOTTOM + 16, str(x), "middle") for at, x in enumerate(xs)]
    for tick in range(5):
        x, y = point(0, highest * tick / 4)
        parts.append(f'<line x1="{x:.0f}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(_text(x - 5, y + 4, f"{highest * tick / 4:.3g}", "end"))
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (point(at, value) for at, value in enumerate(values)))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(WIDTH - RIGHT + 8, TOP + 14 + 16 * number, name, colour=colour))
    head = f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *parts, "</svg>\n"])


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
