"""Pages from templates: what a message says is never taken for a part of the page.

The screens of `dlq ui`, and the pages that are one file: the report of a run, and the demo's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from math import log
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ..operations.words import clock, count, duration, here, printable, size

_HERE = Path(__file__).parent

_MOST_GAPS = 120
"""Gaps between more columns would be narrower than a pixel, and only make the colours pale."""


@cache
def _templates() -> Environment:
    made = Environment(
        # The style as well: a page that is one file includes it.
        loader=FileSystemLoader((_HERE / "templates", _HERE / "static")),
        extensions=("jinja2.ext.do",),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "clock": clock, "count": count, "duration": duration, "lines": _lines, "bytes": size,
        "ago": _ago, "points": _points, "heat": heat, "here": here, "number": _number,
        "share": "{:.1%}".format, "digits": "{:.5g}".format,
        "stacked": _stacked, "columns": _columns,
    }  # fmt: skip
    return made


def render(template: str, /, **data: Any) -> str:
    """A template, filled. A name that it does not know is an error, not an empty place."""
    return _templates().get_template(template).render(**data)


def _shown(value: Any) -> Any:
    """Text as a terminal would show it: what is invisible, or turns the line around, is named."""
    if value is None:
        return ""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _lines(text: str) -> Markup:
    """A text of several lines, each as `_shown`."""
    return Markup("\n").join(map(printable, text.splitlines()))


def _ago(at: datetime | None, now: datetime) -> str:
    return "" if at is None else f"{duration(now - at)} ago"


def heat(number: int, most: int) -> int:
    """The step of colour of one number among others, from 0 for none to 5 for `most`.

    A step stands for as many times the one before, so that one large number leaves the small ones
    apart.
    """
    return 1 + min(4, int(5 * log(1 + number) / log(1 + most))) if number else 0


def _number(value: Any) -> Any:
    """A number with its thousands apart; a text, and a number that is unknown, as they are."""
    return f"{value:,}" if isinstance(value, int) else value


def _stacked(numbers: Mapping[str, int], total: int = 0) -> Iterator[tuple[str, int, float, float]]:
    """Each number above 0 with its name, where it begins, and its share, of `total` or of all."""
    total, at = max(total, sum(numbers.values()), 1), 0.0
    for name, number in numbers.items():
        if number:
            yield name, number, at, number / total
            at += number / total


def _columns(
    stacks: Sequence[Mapping[str, int]],
) -> Iterator[tuple[int, str, int, float, float, float, float]]:
    """The parts of a column for each stack: its place, name, number, left, top, width and height.

    The last four are shares of the drawing.
    """
    most = max((sum(stack.values()) for stack in stacks), default=0)
    step = 1 / max(1, len(stacks))
    width = step * (0.96 if len(stacks) <= _MOST_GAPS else 1)
    for place, stack in enumerate(stacks):
        for name, number, at, share in _stacked(stack, most):
            yield place, name, number, place * step, 1 - at - share, width, share


def _points(values: Sequence[float], width: int, height: int) -> str:
    """The points of a line in a drawing so large, from 0 to the largest value."""
    most = max(values, default=0) or 1
    step = width / max(1, len(values) - 1)
    return " ".join(
        f"{number * step:.1f},{height - value / most * height:.1f}"
        for number, value in enumerate(values)
    )
