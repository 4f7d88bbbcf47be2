"""The first runs of a queue that many letters were in before the deployment: few letters each.

What lies there has never been seen by today's consumer, and it may all fail in the same way. As
the canaries of a replay, 1, 2, 5 and 20 letters go first, a run each; then the pace finds itself.
"""

from __future__ import annotations

from deadletter.circuit.state import Circuit, CircuitPolicy, OutcomeCounts

FIRST_STEPS = (1, 2, 5, 20)
"""Letters that each of the first runs moves at most."""

PAST = len(FIRST_STEPS)
"""The step of a run that moves as many as its pace allows."""

MANY = 100
"""Letters up to which there are no steps: so few are soon tried, and soon counted."""


def first_step(known: int | None, letters: int, outcomes: OutcomeCounts) -> int:
    """The step of this run, of a queue with so many letters, in hand or not.

    `known` is what the last run has left, None before the first one: what is there then is older
    than the deployment. A step is made again if of the calls since it more failed than went well.
    """
    if letters <= MANY or known == PAST:
        return PAST
    if known is None:
        return 0
    return max(0, known - 1) if outcomes.bad > outcomes.good else known


def after_step(step: int, moved: int) -> int:
    """The step that the next run begins with."""
    return step + 1 if step < PAST and moved >= FIRST_STEPS[step] else step


def outcomes_since(
    circuit: Circuit, policy: CircuitPolicy, since: float, now: float
) -> OutcomeCounts:
    """The outcomes that a circuit has counted since a time (epoch seconds)."""
    buckets = [
        bucket for bucket in circuit.in_window(policy, now) if bucket.number * policy.bucket > since
    ]
    return OutcomeCounts(sum(each.good for each in buckets), sum(each.bad for each in buckets))
