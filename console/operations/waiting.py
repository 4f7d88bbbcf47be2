"""Letters that wait outside SQS: what waits where, and why."""

from __future__ import annotations

from deadletter.contract import (
    DUE_LANE,
    PARKED_LANE,
    circuit_lane,
    dedicated_lane,
    delay_lane,
    rule_lane,
    run_lane,
)


def waits_for(lane: str) -> str:
    """What the letters of a lane wait for, in words."""
    name = lane.partition(":")[2]
    for prefix, words in (
        (rule_lane(""), f"rule {name} to end, or to let them go"),
        (delay_lane(""), f"the delay that rule {name} gave them"),
        (circuit_lane(""), f"circuit {name} to close"),
        (run_lane(""), f"run {name}"),
        (dedicated_lane(""), f"the schedule of dedicated DLQ {name}, or a person"),
    ):
        if lane.startswith(prefix):
            return words
    return {
        DUE_LANE: "their backoff",
        PARKED_LANE: "a person: they are parked",
    }.get(lane, "something that this version of dlq does not know")


def way_out(lane: str, pipeline: str) -> str | None:
    """The command that takes letters out of a lane that no time opens; None for any other."""
    name = lane.partition(":")[2]
    if lane.startswith(run_lane("")):
        return f"dlq run abort {name}"
    if lane.startswith(dedicated_lane("")):
        return f"dlq retry --auto --in dedicated:{name} -p {pipeline}"
    return f"dlq retry --in parked --all -p {pipeline}" if lane == PARKED_LANE else None
