"""What differs each time it is asked: clock, waiting, ids, randomness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    pass


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class World:
    """Everything that is not the same each time it is asked.

    `clock` gives epoch seconds, `wait` lets seconds pass, `new_id` gives a text that
    nobody else has.
    """

    clock: Callable[[], float]
    wait: Callable[[float], None]
    new_id: Callable[[], str]
    random: Random


def in_threads(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run calls at the same time; what one of them raises is raised when all have ended."""
    if len(calls) == 1:
        return [calls[0]()]
    with ThreadPoolExecutor(max_workers=max(1, min(len(calls), 16))) as pool:
        futures = [pool.submit(call) for call in calls]
    return [future.result() for future in futures]
