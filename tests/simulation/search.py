"""Which random schedules the tests play: few by day, many at night, other ones for each commit.

The first seed is made of the commit, so runs differ, and each can be repeated: the failure names
the seed. SIM_FROM=n begins at another one. SIM_SCHEDULES=n is the night.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.simulation.effects import Broken

T = TypeVar("T")

DAY = 100
"""Random schedules of each simulator by day."""

SCHEDULES = int(os.environ.get("SIM_SCHEDULES", "0"))
AT_NIGHT = SCHEDULES > 0

SEEDS = 1_000_000


def first_seed() -> int:
    """The first seed, from the commit; 0 outside of a repository."""
    if named := os.environ.get("SIM_FROM"):
        return int(named)
    if (git := shutil.which("git")) is None:
        return 0
    head = subprocess.run(
        [git, "rev-parse", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return int(head.stdout[:12] or "0", 16) % SEEDS


FIRST = first_seed()


def seeds(day: int, night: int, *, part: int = 0, parts: int = 1) -> range:
    """The seeds of this run: `day` of them by day, `night` at night; or the part of them."""
    return range(FIRST + part, FIRST + (night if AT_NIGHT else day), parts)


def played(play: Callable[[Any], T], cases: Iterable[Any], of: str = "seed") -> Iterator[T]:
    """What each case comes to. A broken promise fails the test, and names the case."""
    for case in cases:
        try:
            yield play(case)
        except Broken as broken:
            pytest.fail(f"{of} {case}: {broken}")


def play_all(play: Callable[[Any], object], cases: Iterable[Any], of: str = "seed") -> None:
    """The same, where nothing is looked at."""
    for _ in played(play, cases, of):
        pass
