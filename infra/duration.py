"""A length of time: whole seconds, or text such as 90s, 15m, 6h, 4d."""

from __future__ import annotations

import re

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_UNITS = {"d": DAY, "h": HOUR, "m": MINUTE, "s": 1}
# Nine digits of days are already longer than anything AWS accepts.
_WRITTEN = re.compile(r"(\d{1,9})([smhd])", re.ASCII)


def seconds(value: object) -> object:
    """The seconds that text such as "15m" stands for; anything else as it came."""
    if isinstance(value, str) and (written := _WRITTEN.fullmatch(value)):
        return int(written[1]) * _UNITS[written[2]]
    return value


def written(length: float) -> str:
    """The shortest text that `seconds` reads back: 900 is 15m, 90 is 90s."""
    for unit, size in _UNITS.items():
        if length and length % size == 0:
            return f"{length // size:g}{unit}"
    return f"{length:g}s"
