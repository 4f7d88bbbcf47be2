"""What a function gets from outside: clock, waiting, ids and randomness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class World:
    """The inputs that differ on each call.

    `clock` returns epoch seconds, `wait` waits for seconds, and `new_id` returns a unique text.
    """

    clock: Callable[[], float]
    wait: Callable[[float], None]
    new_id: Callable[[], str]
    random: Random


def in_threads(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run calls in parallel; returns their results in order.

    An exception of a call is raised after all calls have ended.
    """
    if len(calls) == 1:
        return [calls[0]()]
    with ThreadPoolExecutor(max_workers=max(1, min(len(calls), 16))) as pool:
        futures = [pool.submit(call) for call in calls]
    return [future.result() for future in futures]
