"""The picture of a demo: messages by place over time, and below it the circuit of each tenant.

SVG without a text: texts stand beside it in HTML, so that they keep their size on a narrow page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from sandbox.demo.labels import Box, place

Sample = Mapping[str, Any]

_WIDTH, _HEIGHT = 720, 200

# The lines' top has so much room above it.
_ROOM = 16

_MOST_TICKS = 6
# A label in the middle of its tick would be cut off so near to an end, as a share of the width.
_EDGE = 0.04
_STEPS_SECONDS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 1800)

# A name beside a line as a share of the plot, on a telephone, where it takes most: pixels of a
# letter, of the swatch before it, and of the plot.
_LETTER, _SWATCH, _LINE_HIGH = 7, 30, 18
_PLOT_WIDE, _PLOT_HIGH = 260, 240

# By place: name, colour and pattern. Seen on a light page and on a dark one, and told apart by eyes
# that do not tell the colours apart.
_LINES: Mapping[str, tuple[str, str, str]] = {
    "delivered": ("delivered", "#2f9e44", "solid"),
    "main": ("main queue", "#868e96", "dotted"),
    "dlq": ("DLQ", "#f08c00", "solid"),
    "waiting_room": ("waiting room", "#1c7ed6", "dashed"),
    "parking_lot": ("parked", "#c2255c", "dashed"),
}
_DASHES = {"solid": "", "dashed": ' stroke-dasharray="9 4"', "dotted": ' stroke-dasharray="2 4"'}

_OUTAGE, _OUTAGE_NAME = "#e03131", "the outage"

# What the states of a circuit mean for the letters; all that is not drawn is closed.
_CIRCUITS: Mapping[str, tuple[str, str]] = {
    "OPEN": ("circuit open: messages wait", "#7048e8"),
    "HALF_OPEN": ("half open: one canary goes first", "#e599f7"),
}

STYLE = """
.chart { display: grid; grid-template-columns: max-content 1fr; gap: .25rem .6rem; margin: 0;
  font-size: .85rem; }
.chart svg { width: 100%; display: block; print-color-adjust: exact; }
.plot { position: relative; } .plot svg { height: 15rem; } .lane svg { height: 1.3rem; }
.plot > span { position: absolute; padding: 0 .3rem; white-space: nowrap; line-height: 18px;
  font-size: .8rem; text-shadow: 0 0 3px Canvas, 0 0 3px Canvas; }
.plot .down { top: 0; color: #e03131; color: light-dark(#c92a2a, #ff8787); }
.most { display: flex; flex-direction: column; justify-content: space-between; text-align: right; }
.ticks { position: relative; height: 1.5em; grid-column: 2; }
.ticks span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.ticks .edge { transform: none; }
polyline, line { vector-effect: non-scaling-stroke; }
.legend { display: flex; flex-wrap: wrap; gap: 0 1.2em; font-size: .9rem; }
.swatch { display: inline-block; width: 1.6em; height: .7em; margin-right: .4em;
  print-color-adjust: exact; }
.swatch.line { height: 0; border-top: 3px; vertical-align: .25em; }
@media (max-width: 40rem) { .chart { grid-template-columns: 3.8rem 1fr; }
  .lane svg { height: 2.6rem; } }
"""


def chart(
    samples: Sequence[Sample], outage: Mapping[str, float], names: Mapping[str, str]
) -> Iterator[str]:
    """Draw *samples*, with the outage shaded; *names* are the tenants as they are to be called."""
    first, last = samples[0]["at"], samples[-1]["at"]
    axis = _Axis(first, last)
    most = max(max(sample[name] for name in _LINES) for sample in samples) or 1
    yield '<figure class="chart">'
    yield f'<div class="most"><span>{most:,}</span><span>0</span></div>'
    yield f'<div class="plot">{_plot(samples, outage, axis, most)}'
    if outage:
        left = axis.share(outage["began"])
        yield f'<span class="down" style="left:{left:.1%}">{_OUTAGE_NAME}</span>'
    yield from _names(samples, outage, axis, most)
    yield "</div>"
    for tenant, name in names.items():
        states = [(sample["at"], sample["circuits"].get(tenant, "CLOSED")) for sample in samples]
        yield f'<div>{escape(name)}</div><div class="lane">{_lane(states, axis, name)}</div>'
    yield '<div class="ticks">'
    for at in axis.ticks():
        edge = ' class="edge"' if axis.share(at) < _EDGE else ""
        yield f'<span{edge} style="left:{axis.share(at):.1%}">{at:.0f} s</span>'
    yield "</div></figure>"
    yield '<p class="legend">'
    for title, colour in _CIRCUITS.values():
        yield f'<span><span class="swatch" style="background:{colour}"></span>{title}</span>'
    yield "</p>"


class _Axis:
    """Where the seconds from *first* to *last* are drawn."""

    def __init__(self, first: float, last: float) -> None:
        self._first = first
        self._last = last

    def share(self, at: float) -> float:
        """From 0 at the left end to 1 at the right one."""
        inside = min(max(at, self._first), self._last)
        return (inside - self._first) / ((self._last - self._first) or 1)

    def at(self, at: float) -> float:
        return self.share(at) * _WIDTH

    def ticks(self) -> Iterator[float]:
        """Round numbers of seconds, a few of them."""
        span = self._last - self._first
        steps = (step for step in _STEPS_SECONDS if span / step <= _MOST_TICKS)
        step = next(steps, _STEPS_SECONDS[-1])
        tick = -(-self._first // step) * step
        while tick <= self._last - span * _EDGE:
            yield tick
            tick += step


def _names(
    samples: Sequence[Sample], outage: Mapping[str, float], axis: _Axis, most: int
) -> Iterator[str]:
    """The name of each line, beside it."""
    top = _ROOM / _HEIGHT
    lines = {
        name: [(axis.share(each["at"]), 1 - each[name] / most * (1 - top)) for each in samples]
        for name in _LINES
    }
    wide = {
        name: (len(title) * _LETTER + _SWATCH) / _PLOT_WIDE for name, (title, *_) in _LINES.items()
    }
    high = _LINE_HIGH / _PLOT_HIGH
    taken = (
        [Box(axis.share(outage["began"]), 0, len(_OUTAGE_NAME) * _LETTER / _PLOT_WIDE, high)]
        if outage
        else []
    )
    for name, box in place(lines, wide, high, taken).items():
        title, colour, pattern = _LINES[name]
        side = f"right:{1 - box.right:.1%}" if box.to_left else f"left:{box.left:.1%}"
        style = f"border-top-style:{pattern};border-color:{colour}"
        yield (
            f'<span style="{side};top:{box.top:.1%}">'
            f'<span class="swatch line" style="{style}"></span>{title}</span>'
        )


def _plot(samples: Sequence[Sample], outage: Mapping[str, float], axis: _Axis, most: int) -> str:
    def up(number: float) -> float:
        return _HEIGHT - number / most * (_HEIGHT - _ROOM)

    parts = [f"<title>{_told(samples, outage)}</title>"]
    if outage:
        began = axis.at(outage["began"])
        ended = axis.at(outage.get("ended", samples[-1]["at"]))
        parts.append(
            f'<rect x="{began:.1f}" y="0" width="{ended - began:.1f}" height="{_HEIGHT}"'
            f' fill="{_OUTAGE}" fill-opacity=".15"/>'
        )
    for number in (0, most / 2, most):
        parts.append(
            f'<line x1="0" x2="{_WIDTH}" y1="{up(number):.1f}" y2="{up(number):.1f}"'
            ' stroke="currentColor" stroke-opacity=".25"/>'
        )
    for name, (_, colour, pattern) in _LINES.items():
        points = " ".join(f"{axis.at(each['at']):.1f},{up(each[name]):.1f}" for each in samples)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"'
            f"{_DASHES[pattern]}/>"
        )
    return _svg("".join(parts), _HEIGHT)


def _told(samples: Sequence[Sample], outage: Mapping[str, float]) -> str:
    """The picture in words."""
    last = samples[-1]
    ends = ", ".join(f"{last[name]:,} {title}" for name, (title, _, _) in _LINES.items())
    end = f"to {outage['ended']:.0f} seconds" if "ended" in outage else "on, without an end"
    when = f" The outage was from {outage['began']:.0f} {end}." if outage else ""
    return f"Messages by place over time. At the end: {ends}.{when}"


def _lane(states: Sequence[tuple[float, str]], axis: _Axis, name: str) -> str:
    """One tenant's circuit: a bar while it was not closed."""
    parts = [
        f"<title>{escape(_spoken(states, name))}</title>",
        f'<rect x="0" y="0" width="{_WIDTH}" height="10" fill="currentColor" fill-opacity=".08"/>',
    ]
    for began, ended, state in spells(states):
        if state in _CIRCUITS:
            left, right = axis.at(began), axis.at(ended)
            parts.append(
                f'<rect x="{left:.1f}" y="0" width="{max(1, right - left):.1f}" height="10"'
                f' fill="{_CIRCUITS[state][1]}"/>'
            )
    return _svg("".join(parts), 10)


def _spoken(states: Sequence[tuple[float, str]], name: str) -> str:
    spoken = [
        f"{state.replace('_', ' ').lower()} from {began:.0f} to {ended:.0f} seconds"
        for began, ended, state in spells(states)
        if state in _CIRCUITS
    ]
    return f"{name}: circuit {', '.join(spoken) or 'closed all the time'}"


def spells(states: Sequence[tuple[float, str]]) -> Sequence[tuple[float, float, str]]:
    """From when to when it was in which state, by looks at it; one lasts until the next look."""
    found: list[tuple[float, float, str]] = []
    for (at, state), (until, _) in pairwise(states):
        if found and found[-1][2] == state:
            found[-1] = (found[-1][0], until, state)
        else:
            found.append((at, until, state))
    return found


def _svg(parts: str, height: int) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" preserveAspectRatio="none" role="img">{parts}</svg>'
    )
