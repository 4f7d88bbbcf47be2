"""What a person has to do by hand, how long that takes, and at what hour.

Times are minutes since the outage began. What is done before it is done the day before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.alarms import SHORT_MINUTE

# As assumed: from opening the laptop until the thing is done. It is not measured.
MINUTES_AN_ACT = 5

# As assumed, in minutes after midnight: the outage begins at 03:00, people work from 9 to 17.
OUTAGE_BEGINS = 3 * 60
WORK_BEGINS, WORK_ENDS = 9 * 60, 17 * 60

DAY = 24 * 60

DAY_BEFORE = float(WORK_ENDS - DAY - OUTAGE_BEGINS)
MORNING = float(WORK_BEGINS - OUTAGE_BEGINS)

IN_SHORT = (
    f"As assumed: {MINUTES_AN_ACT} minutes an act, the outage from {OUTAGE_BEGINS // 60:02}:00 on,"
    f" work from {WORK_BEGINS // 60:02}:00 on.\nA minute is {SHORT_MINUTE:.0f} seconds of this run."
)

ASSUMED = (
    f"Each act of a person counts {MINUTES_AN_ACT} minutes, an assumption, not measured. The"
    f" outage begins at {OUTAGE_BEGINS // 60:02}:00, and people work from {WORK_BEGINS // 60:02}:00"
    f" to {WORK_ENDS // 60}:00. In each way a person looks through the hopeless messages in the"
    " morning, which is one act, however many they are. Being woken, falling asleep again and all"
    " that is set up once (the deployment, the loop) are not counted."
)

BY_DAY = "by day"


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that a person does, *at* so many minutes after the outage began."""

    at: float
    what: str

    @property
    def hour(self) -> str:
        """The time of the day, as a clock shows it."""
        hours, minutes = divmod(int(self.at + OUTAGE_BEGINS) % DAY, 60)
        return f"{hours:02}:{minutes:02}"

    @property
    def is_at_night(self) -> bool:
        return not WORK_BEGINS <= (self.at + OUTAGE_BEGINS) % DAY <= WORK_ENDS


def minutes_of(acts: Sequence[Act]) -> int:
    """A person's minutes."""
    return MINUTES_AN_ACT * len(acts)


def at_night(acts: Sequence[Act]) -> Sequence[Act]:
    """The acts that someone has to be awake for."""
    return [act for act in acts if act.is_at_night]


def hours_of(acts: Sequence[Act]) -> str:
    """When a person is woken: each hour of the night once, or `by day`."""
    hours = dict.fromkeys(act.hour for act in sorted(at_night(acts), key=lambda act: act.at))
    return " ".join(hours) or (BY_DAY if acts else "-")


def acts_of_run(
    timeline: Sequence[Mapping[str, Any]],
    began: float,
    rang: Collection[str],
    *,
    parked: int,
) -> list[Act]:
    """What the demo's own run asked of a person, by what it wrote down.

    An alarm that rang woke a person at the earliest hour that it may have rung: the run does not
    keep which it was. *began* is when the outage did, in seconds of the run, as in *timeline*.
    """
    typed = [(moment["at"] - began, moment["text"]) for moment in timeline if moment.get("person")]
    return [
        *(Act(DAY_BEFORE if at <= 0 else at / SHORT_MINUTE, text) for at, text in typed),
        *(Act(0.0, f"{alarm} rang") for alarm in rang),
        *([Act(MORNING, "reads what is parked, and why")] if parked else []),
    ]
