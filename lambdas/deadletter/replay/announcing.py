"""Announces the states of replay runs, each change of a run at least once.

The run's item says which state was announced last (`told`). A step of the run announces its own
change at once; the watch announces what people have changed, and what was refused before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from deadletter.contract import DAY, EventType
from deadletter.replay.run import ReplayRun, ReplayRuns, RunRefused, RunsUnavailable
from deadletter.signals.figures import Count

SETTLES = 30.0
"""Seconds after a change in which the watch leaves its announcement to the run's own step."""

TRIES_FOR = float(DAY)
"""Seconds for which an announcement is tried again."""


class EventPut(Protocol):
    """Puts an event of the pipeline. Returns None, or why it was not accepted."""

    def __call__(self, event_type: EventType, detail: Mapping[str, Any]) -> str | None: ...


class RunAnnouncer:
    """Announces runs; never raises. `count_metric` counts a metric by its name."""

    def __init__(
        self, *, runs: ReplayRuns, put: EventPut, count_metric: Callable[[str, int], None]
    ) -> None:
        self._runs = runs
        self._put = put
        self._count_metric = count_metric

    def announce(self, run: ReplayRun) -> None:
        """Announce the run's state, unless it was announced before."""
        if run.told == run.state:
            return
        if self._put(EventType.REPLAY_STATE_CHANGED, run_detail(run)) is not None:
            self._count_metric(Count.EVENT_REFUSED, 1)
            return
        try:
            self._runs.change(run, replace(run, told=str(run.state)))
        except (RunRefused, RunsUnavailable):
            # The next look announces it once more, or the state that followed.
            return


def is_untold(run: ReplayRun, now: float) -> bool:
    """Whether the watch has to announce the run's state."""
    return run.told != run.state and SETTLES <= now - max(run.changed, run.created) <= TRIES_FOR


def run_detail(run: ReplayRun) -> dict[str, Any]:
    """The fields of the event; see `deadletter.events.schema`."""
    return {
        "run": run.id,
        "state": str(run.state),
        **({"before": run.told} if run.told else {}),
        "counts": {name: int(count) for name, count in run.counts.items()},
        **({} if run.letters is None else {"letters": run.letters}),
        "because": run.because,
        "by": run.by,
        "command": f"dlq show {run.id}",
    }
