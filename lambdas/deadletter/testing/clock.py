"""The clock of all tests: time passes only when a test lets it."""

from __future__ import annotations

START = 1_790_000_000.0
"""Epoch seconds at which every test begins."""


class Clock:
    """Epoch seconds that pass only when a test lets them; called, it returns the time."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass."""
        self.now += seconds
