"""Whether nothing moves, and why: no run can do its work, or no message is consumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deadletter.contract import MAIN, MAIN_DLQ, MINUTE, Mode
from deadletter.redrive.source_memory import UNKNOWN, SourceMemory
from deadletter.routing.decision import DUE
from deadletter.signals.figures import Figure
from deadletter.signals.troubles import Seen, TroubleKind, is_throttled
from deadletter.watch.lane_figures import NO_LANE
from deadletter.watch.row import Failing, WatchRow
from deadletter.watch.watch_settings import WatchSettings

RULE_CHECKER = "rule checker"
"""A step whose failure is the app's: no run waits for it."""

ROUTER, LEASE = "router", "lease"
"""Steps of the watch whose failure stops runs too: asking the router, and reading the leases."""

FAILURES_THAT_STALL = {LEASE: 1, ROUTER: 2}
"""How often in a row a step fails until runs have stalled. Without the lease items nothing is
remembered, so the first failure counts; the alarm asks for three minutes itself."""

OTHER_FAILURES_THAT_STALL = 3
"""The same for all other steps. What the watch cannot see, it cannot page for."""

UNREAD_FOR = 5.0 * MINUTE
"""Seconds in which messages wait for a consumer whose mapping is disabled until it is a trouble: a
person disables it for a moment, too."""

LONGEST_RUN_ON = 15.0 * MINUTE
"""Seconds after its last run in which a failure is in a row with the one before."""


SHARED_FOR = 15.0 * MINUTE
"""Seconds in which a throttled table is the app's trouble alone: one page and not one of each
pipeline. Runs that really end badly have stalled all the same."""


def is_shared(failing: Failing) -> bool:
    """Whether a step fails of what all pipelines share: a table that is throttled.

    What is denied is a permission of the pipeline's own.
    """
    return is_throttled(failing.why) and " for dynamodb:" in failing.why


def failing_steps(row: WatchRow, failed: Mapping[str, str], now: float) -> dict[str, Failing]:
    """The steps that fail now, with how often they have in a row."""
    steps = {}
    for step, why in failed.items():
        before = row.failing.get(step)
        if before is None or now - row.ran_at > LONGEST_RUN_ON:
            steps[step] = Failing(now, 1, why)
        else:
            steps[step] = Failing(before.since, before.times + 1, why)
    return steps


_STEPS = {ROUTER: TroubleKind.ROUTER_DOWN, LEASE: TroubleKind.LEASE_UNREAD}


def stall(
    row: WatchRow,
    memories: Mapping[str, SourceMemory] | None,
    settings: WatchSettings,
    now: float,
) -> Iterator[Seen]:
    """Why no run can do its work; nothing if runs can, as far as the watch knows.

    `row` holds the steps that fail in this minute.
    """
    can_run = True
    for step, failing in row.failing.items():
        is_of_app = step == RULE_CHECKER or (
            is_shared(failing) and now - failing.since < SHARED_FOR
        )
        least = FAILURES_THAT_STALL.get(step, OTHER_FAILURES_THAT_STALL)
        if failing.times >= least and not is_of_app:
            can_run = False
            kind = _STEPS.get(step, TroubleKind.STEP_FAILED)
            yield Seen(kind, {"step": step, "why": failing.why})
    if memories is not None:
        memory = memories.get(MAIN_DLQ, UNKNOWN)
        # No watch, no complaint: the time before its first minute does not count.
        well_at = row.first_at if memory.ended_well_at is None else memory.ended_well_at
        if now - well_at > settings.stalls_after:
            can_run = False
            yield _last(memory, now - well_at, now)
    if can_run and settings.mode is Mode.ENFORCE:
        late = late_seconds(row, now)
        if late >= settings.alarms.room_late:
            yield Seen(TroubleKind.ROOM_LATE, {"seconds": late})


def unread_main_queue(row: WatchRow, consumer: str | None, now: float) -> Iterator[Seen]:
    """That a person has disabled the consumer's mapping and messages wait.

    `consumer` is the UUID of that mapping, empty if none is disabled, and None if nothing was
    asked: then it is as it was.
    """
    main = row.queues[MAIN]
    if main.filled_at is None or now - main.filled_at < UNREAD_FOR:
        return
    if consumer is None:
        yield from (each for each in row.seen if each.kind is TroubleKind.CONSUMER_DISABLED)
    elif consumer:
        yield Seen(TroubleKind.CONSUMER_DISABLED, {"uuid": consumer, "messages": main.letters})


def not_closed_at(row: WatchRow) -> float:
    """When the pipeline's circuit, or a named dependency's, was last seen open; else long ago."""
    level = row.levels.get(Figure.CIRCUIT_STATE)
    return 0.0 if level is None else level.positive_at


def late_seconds(row: WatchRow, now: float) -> float:
    """How long a letter of the lane of delays has been due while nothing kept it there.

    The circuits keep it while they are open, and a replay run while it moves letters.
    """
    due = row.lanes.get(DUE, NO_LANE).first_due
    if due is None:
        return 0.0
    return now - max(due, not_closed_at(row), row.replays.moved_at)


def _last(memory: SourceMemory, seconds: float, now: float) -> Seen:
    """What is known of the last run."""
    if memory.ended_at is None:
        return Seen(TroubleKind.NO_RUN_YET, {"seconds": seconds})
    if memory.ended_at == memory.ended_well_at:
        return Seen(TroubleKind.RUNS_SILENT, {"seconds": seconds})
    why = memory.trouble or memory.stopped or "no reason is known"
    facts: dict[str, str | float] = {"seconds": seconds, "ago": now - memory.ended_at}
    return Seen(TroubleKind.RUNS_FAIL, facts | {"why": why})
