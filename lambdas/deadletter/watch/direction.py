"""Whether the letters of a pipeline become more or fewer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LOOKS = 10
"""The looks at the depth that are compared: the last half with the first half."""

FLAT = 0.2
"""The share by which the halves may differ: SQS counts approximately."""

RISING: Final = "rising"
FALLING: Final = "falling"
LEVEL: Final = "flat"


def with_depth(depths: Sequence[int], depth: int) -> tuple[int, ...]:
    """The last depths after one more look."""
    return (*depths, depth)[-LOOKS:]


def direction(depths: Sequence[int]) -> str:
    """Where the depth goes: `rising`, `falling` or `flat`; empty if there were too few looks.

    The mean of the last half is compared with the mean of the first half: flat is within 20
    percent of it.
    """
    if len(depths) < LOOKS:
        return ""
    first, last = sum(depths[: LOOKS // 2]), sum(depths[-(LOOKS // 2) :])
    if last > first * (1 + FLAT):
        return RISING
    return FALLING if last < first * (1 - FLAT) else LEVEL
