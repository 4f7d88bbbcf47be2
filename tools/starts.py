"""Whether the starts of many pipelines fit into an account that runs few functions at once.

    python -m tools.starts

Each pipeline's redriver and watch start once a minute. A start that finds all places taken waits in
Lambda's queue and is tried again after 1, 2, 4 … seconds; after a minute it is dropped (the next
one comes). A simulation: the seconds of a run are assumed, nothing was measured on AWS.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

MINUTE = 60.0

# Of a pipeline, each minute: the redriver and the watch.
STARTS = 2

# Lambda's first wait after a throttle; it doubles.
FIRST_WAIT = 1.0


@dataclass(frozen=True, slots=True)
class Crowd:
    """What became of the starts: how many ran, were throttled first, and were dropped."""

    ran: int
    waited: int
    dropped: int


def simulate(phases: Sequence[float], *, places: int, seconds: float, minutes: int = 5) -> Crowd:
    """Start once a minute at each of `phases` (seconds in the minute); a run takes `seconds`."""
    # When it is tried, its number, when it was due, and how long it waits after a throttle.
    tries = [
        (phase + minute * MINUTE, number, phase + minute * MINUTE, FIRST_WAIT)
        for minute in range(minutes)
        for number, phase in enumerate(phases)
    ]
    heapq.heapify(tries)
    ends: list[float] = []
    ran = waited = dropped = 0
    while tries:
        now, number, due, wait = heapq.heappop(tries)
        while ends and ends[0] <= now:
            heapq.heappop(ends)
        if len(ends) < places:
            heapq.heappush(ends, now + seconds)
            ran += 1
            waited += now > due
        elif now + wait - due > MINUTE:
            dropped += 1
        else:
            heapq.heappush(tries, (now + wait, number, due, 2 * wait))
    return Crowd(ran, waited, dropped)


def spread(pipelines: int, seed: int = 0) -> list[float]:
    """Seconds in the minute at which schedules were created, each at its own moment."""
    random = Random(seed)  # noqa: S311 - repeatable, not secret
    return [random.uniform(0, MINUTE) for _ in range(STARTS * pipelines)]


def together(pipelines: int) -> list[float]:
    """The same second for all."""
    return [0.0] * (STARTS * pipelines)


def rows() -> list[str]:
    """A table in Markdown: a hundred pipelines, 10 places and 1,000."""
    lines = [
        "| 100 pipelines start | functions at once | a run takes | wait | dropped |",
        "|---|---|---|---|---|",
    ]
    for title, phases in (("spread", spread(100)), ("all in one second", together(100))):
        for places in (10, 1000):
            for seconds in (1.0, 2.0):
                crowd = simulate(phases, places=places, seconds=seconds)
                due = crowd.ran + crowd.dropped
                lines.append(
                    f"| {title} | {places:,} | {seconds:.0f} s | {crowd.waited / due:.0%} |"
                    f" {crowd.dropped / due:.0%} |"
                )
    return lines


def main() -> None:
    """Print the table."""
    print("\n".join(rows()))


if __name__ == "__main__":
    main()
