"""Lengths of time as people type them."""

from __future__ import annotations

import re

from .problem import Cause, Problem

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
# Nine digits of seconds are thirty years.
_WRITTEN = re.compile(r"(\d{1,9})\s*([smhd]?)", re.ASCII)


def seconds(text: str) -> int:
    """The seconds in "90s", "15m", "2h", "4d" or "900"; Problem for anything else."""
    written = _WRITTEN.fullmatch(text.strip().lower())
    if written is None:
        raise Problem(f"{text!r} is not a length of time: write 90s, 15m, 2h or 4d.", Cause.INPUT)
    return int(written[1]) * _UNITS[written[2]]
