"""Pages from templates: what a message says is never taken for a part of the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from math import log
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ..operations.words import clock, count, duration, printable, size

_FOLDER = Path(__file__).parent / "templates"


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "clock": clock, "count": count, "duration": duration, "lines": _lines, "bytes": size,
        "ago": _ago, "points": _points, "heat": heat,
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
    return "" if at is None else f"{duration((now - at).total_seconds())} ago"


def heat(number: int, most: int) -> int:
    """The step of colour of one number among others, from 0 for none to 5 for `most`.

    A step stands for as many times the one before, so that one large number leaves the small ones
    apart.
    """
    return 1 + min(4, int(5 * log(1 + number) / log(1 + most))) if number else 0


def _points(values: Sequence[float], width: int, height: int) -> str:
    """The points of a line in a drawing so large, from 0 to the largest value."""
    most = max(values, default=0) or 1
    step = width / max(1, len(values) - 1)
    return " ".join(
        f"{number * step:.1f},{height - value / most * height:.1f}"
        for number, value in enumerate(values)
    )
