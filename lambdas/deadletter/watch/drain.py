"""When the DLQ will be empty, and where its depth goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from deadletter.contract import HOUR, MINUTE, WatchDefaults
from deadletter.signals.troubles import Seen, TroubleKind
from deadletter.watch.queues import LONGEST_GAP
from deadletter.watch.row import DrainRow

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


TARGET = 2.0 * HOUR
"""Seconds within which the DLQ is to be empty. A queue that needs longer is noticed by customers,
and what it needs is more `rate`, or a fix: it is said long before the first letter is old."""

LEAST = 10
"""Letters below which there is no rate: SQS counts approximately, and one letter more or less
would be a tenth."""

STILL = 0.01
"""The share by which the second five looks have to be below the first: less is not told from the
noise of SQS's counts, and would promise an end that lies days ahead."""

MOST_APART = 5.0 * MINUTE
"""Seconds between two runs beyond which ten looks see less than two of them, and so no rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainTime:
    """When the DLQ will be empty.

    seconds   from the last look; None if it does not become emptier, or if that is not known
    fewer     letters a second by which it became emptier, arrivals deducted; None if not known
    looks     how many looks in a row saw letters in it while runs could work
    """

    seconds: float | None = None
    fewer: float | None = None
    looks: int = 0

    @property
    def is_late(self) -> bool:
        """Whether the target is missed at the measured rate. What is not known is not late."""
        return self.fewer is not None and (self.seconds is None or self.seconds > TARGET)


def drain_time(row: DrainRow) -> DrainTime:
    """When the DLQ will be empty, as far as ten looks in a row tell."""
    looks = len(row.depths)
    if looks < LOOKS:
        return DrainTime(looks=looks)
    half = LOOKS // 2
    first, last = sum(row.depths[:half]) / half, sum(row.depths[half:]) / half
    between = (sum(row.times[half:]) - sum(row.times[:half])) / half
    if first < LEAST or between <= 0:
        return DrainTime(looks=looks)
    fewer = (first - last) / between
    if last > first * (1 - STILL):
        return DrainTime(fewer=fewer, looks=looks)
    return DrainTime(seconds=max(0.0, row.depths[-1] / fewer), fewer=fewer, looks=looks)


def with_look(
    row: DrainRow,
    depth: int,
    alarms: WatchDefaults,
    *,
    runs_can_work: bool,
    emptied_at: float | None,
    now: float,
) -> DrainRow:
    """The row after a look at the DLQ.

    Looks from before a run has emptied it (`emptied_at`), or from a time in which no letter could
    go back, say nothing of when it will be empty.
    """
    looks = [*zip(row.times, row.depths, strict=False), (now, depth)] if depth else []
    if not runs_can_work or (row.times and now - row.times[-1] > LONGEST_GAP):
        looks = looks[-1:] if runs_can_work else []
    looks = [(at, seen) for at, seen in looks[-LOOKS:] if emptied_at is None or at >= emptied_at]
    after = DrainRow(
        times=tuple(at for at, _ in looks),
        depths=tuple(seen for _, seen in looks),
        deep=row.deep + 1 if depth > alarms.depth else 0,
    )
    late = row.late + 1 if drain_time(after).is_late else 0
    return DrainRow(times=after.times, depths=after.depths, deep=after.deep, late=late)


def depth_troubles(row: DrainRow, letters: int, alarms: WatchDefaults) -> Iterator[Seen]:
    """Why the depth of the DLQ needs a person: nothing if it does not."""
    if row.deep >= alarms.depth_looks:
        yield Seen(TroubleKind.DEEP, {"messages": letters, "most": alarms.depth})
    if row.late < alarms.depth_looks:
        return
    facts: dict[str, str | float] = {"looks": LOOKS, "messages": letters}
    seconds = drain_time(row).seconds
    if seconds is None:
        yield Seen(TroubleKind.NOT_EMPTIER, facts)
    else:
        yield Seen(TroubleKind.EMPTY_LATE, facts | {"seconds": seconds})
