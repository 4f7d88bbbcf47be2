"""Calls that are made at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class InParallel(Protocol):
    """Runs calls at the same time and returns their results in order."""

    def __call__(self, calls: Sequence[Callable[[], T]], /) -> list[T]:
        """An error of one call is raised when all have ended."""
