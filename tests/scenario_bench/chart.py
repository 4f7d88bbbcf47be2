"""The chart: goodput, and requests to a dead dependency, of every system in every scenario."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from tests.scenario_bench.summary import Row

COLOURS = {
    "none": "#9a9a9a",
    "native": "#4f4f4f",
    "powertools": "#d98e04",
    "deadletter": "#1f6feb",
}
BAR, GAP, LEFT, PANEL, TOP = 9, 10, 400, 300, 60
_MOST_DECADES = 5

PAGE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="12" y="22" font-size="15" font-weight="bold">{title}</text>
{body}
</svg>
"""


def chart(rows: Sequence[Row], title: str) -> str:
    """The chart as SVG."""
    parts = [_legend(rows)]
    right = LEFT + PANEL + 60
    parts.append(_text(LEFT, TOP - 8, "goodput (0 to 100 %)"))
    parts.append(_text(right, TOP - 8, "requests to a dead dependency (1 to 100,000, logarithmic)"))
    y = TOP
    for name in dict.fromkeys(row.scenario.name for row in rows):
        mine = [row for row in rows if row.scenario.name == name]
        middle = y + BAR * len(mine) / 2 + 4
        parts.append(_text(LEFT - 8, middle, mine[0].scenario.title, anchor="end"))
        for row in mine:
            colour = COLOURS.get(row.system, "#555555")
            share = row.middle("goodput")
            parts.append(_bar(LEFT, y, share * PANEL, colour, row.cell("goodput")))
            if row.has("dead_requests"):
                count = row.middle("dead_requests")
                decades = math.log10(max(1.0, count)) / _MOST_DECADES
                parts.append(_bar(right, y, decades * PANEL, colour, row.cell("dead_requests")))
            y += BAR
        y += GAP
    return PAGE.format(
        width=right + PANEL + 80, height=y + 10, title=escape(title), body="\n".join(parts)
    )


def _legend(rows: Sequence[Row]) -> str:
    systems = dict.fromkeys(row.system for row in rows)
    parts = []
    for at, system in enumerate(systems):
        x = LEFT + 130 * at
        colour = COLOURS.get(system, "#555555")
        parts.append(f'<rect x="{x}" y="28" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(x + 15, 37, system))
    return "\n".join(parts)


def _bar(x: float, y: float, length: float, colour: str, label: str) -> str:
    rect = (
        f'<rect x="{x}" y="{y}" width="{max(length, 1):.1f}" height="{BAR - 1}" fill="{colour}"/>'
    )
    return rect + _text(x + max(length, 1) + 4, y + BAR - 2, label, size=8)


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">'
        f"{escape(text)}</text>"
    )
