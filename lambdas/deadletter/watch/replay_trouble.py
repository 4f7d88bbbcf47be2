"""Whether a replay run is broken, or loses its executions again and again."""

from __future__ import annotations

from collections.abc import Iterator

from deadletter.contract import MINUTE
from deadletter.signals.troubles import Seen, TroubleKind
from deadletter.watch.observation import ReplaysState
from deadletter.watch.row import ReplaysRow

LOST_WITHIN = 15.0 * MINUTE
"""Seconds within which a run may lose one execution: it is started again, and goes on."""

MOST_LOST = 2
"""Executions that a run loses within LOST_WITHIN until a person is called."""


def with_replays(row: ReplaysRow, state: ReplaysState | None, now: float) -> ReplaysRow:
    """The row after a look at the runs; without one only time passes."""
    restarted = () if state is None else state.restarted
    runs = (*row.lost, *(run for run in restarted if run not in row.lost))
    lost = {
        run: tuple(
            at
            for at in (*row.lost.get(run, ()), *((now,) if run in restarted else ()))
            if now - at < LOST_WITHIN
        )[-MOST_LOST:]
        for run in runs
    }
    return ReplaysRow(
        broken=row.broken if state is None else state.broken,
        lost={run: times for run, times in lost.items() if times},
        moved_at=now if state is not None and state.moving else row.moved_at,
    )


def replay_troubles(row: ReplaysRow) -> Iterator[Seen]:
    """The runs that need a person, each once."""
    for run, times in row.lost.items():
        if len(times) >= MOST_LOST and run not in row.broken:
            lost: dict[str, str | float] = {"run": run, "times": len(times)}
            yield Seen(TroubleKind.RUN_LOST, lost | {"within": LOST_WITHIN})
    for run in row.broken:
        yield Seen(TroubleKind.RUN_BROKEN, {"run": run})
