"""The work that one rule may cause on one letter, in counted steps.

No clock: a rule alone and in a book, a fast and a slow machine give the same answer. A step takes
about 0.1 µs on the machine on which the figures of docs/rules.md were measured.
"""

from __future__ import annotations

from typing import Final

STEPS: Final = 250_000
"""Steps that a rule may cause on one letter: for its comparisons, and again for combining them
in arrays of objects."""

CHARACTERS_PER_STEP: Final = 200
"""Comparisons of one character in a step."""


class TooCostly(Exception):
    """A rule would cause more work on a letter than it may."""


class Work:
    """The steps that a rule has left on one letter to combine its fields in arrays."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = STEPS

    def spend(self, steps: int) -> None:
        """Take these steps; raises TooCostly if fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise TooCostly
