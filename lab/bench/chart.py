"""Line charts side by side as SVG, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, MARGIN = 420, 300, 48
COLOURS = ("#1f6feb", "#d29922", "#2da44e", "#cf222e", "#8250df", "#57606a")


@dataclass(frozen=True, slots=True)
class Curve:
    """A name, and points from left to right."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Chart:
    """A title, and lines; points that are not above zero are left out."""

    title: str
    lines: Sequence[Curve]


def charts(drawn: Sequence[Chart]) -> str:
    """The charts in one picture."""
    width = WIDTH * max(1, len(drawn))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}"'
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{HEIGHT}" fill="white"/>',
    ]
    for place, chart in enumerate(drawn):
        parts += [f'<g transform="translate({place * WIDTH},0)">', *_chart(chart), "</g>"]
    return "\n".join((*parts, "</svg>", ""))


def _chart(chart: Chart) -> list[str]:
    parts = [f'<text x="{MARGIN}" y="18" font-size="13">{escape(chart.title)}</text>']
    lines = [
        Curve(line.name, [point for point in line.points if min(point) > 0]) for line in chart.lines
    ]
    points = [point for line in lines for point in line.points]
    if not points:
        return [*parts, f'<text x="{MARGIN}" y="60">not measured</text>']
    x = _scale([at for at, _ in points], MARGIN, WIDTH - 16)
    y = _scale([value for _, value in points], HEIGHT - 34, 34)
    for at in sorted({at for at, _ in points}):
        parts.append(f'<text x="{x(at):.1f}" y="{HEIGHT - 16}">{at:g}</text>')
    for value in {min(value for _, value in points), max(value for _, value in points)}:
        parts.append(f'<text x="4" y="{y(value):.1f}">{value:.3g}</text>')
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in line.points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        parts += [
            f'<circle cx="{x(at):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>'
            for at, value in line.points
        ]
        parts.append(
            f'<text x="{MARGIN + 6}" y="{36 + 13 * number}" fill="{colour}">'
            f"{escape(line.name)}</text>"
        )
    return parts


def _scale(values: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    low, high = math.log(min(values)), math.log(max(values))
    span = high - low or 1.0

    def place(value: float) -> float:
        return start + (math.log(value) - low) / span * (end - start)

    return place
