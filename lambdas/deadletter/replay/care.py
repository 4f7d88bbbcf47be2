"""Keeps replay runs going: the watch starts what was lost, and says which runs are broken."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from deadletter.replay.judge import BY
from deadletter.replay.machine import ReplayExecutions, RunAnnouncer, is_untold, restarted
from deadletter.replay.run import (
    SENDING,
    ReplayRun,
    ReplayRuns,
    RunRefused,
    RunState,
    RunsUnavailable,
)
from deadletter.signals.figures import Count

START_SECONDS = 60.0
"""How long a new execution may be missing from the list: its start may be under way, and
Step Functions lists running executions with a delay."""


MOVES = frozenset({RunState.MOVING, *SENDING})
"""The states in which a run moves letters: those of the room wait behind it."""

STUCK_SECONDS = 600.0
"""How long an execution may leave an approved or an aborted run as it is: it still waits for the
approval, because the person's command ended before it sent the answer."""


class CreatedRuns(ReplayRuns, Protocol):
    """The items of runs, to which one can be added. Raises RunsUnavailable."""

    def create(self, run: ReplayRun) -> ReplayRun:
        """Store a new run, unless there is one with its id. Returns the one that is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """What became of a pipeline's runs in one look at them; runs are named by their ids.

    known      whether the runs could be read
    broken     the runs that are BROKEN
    moving     the runs that move letters now
    restarted  the runs whose execution was lost, and is started again; not those that had ended
    failed     why a part of the look failed
    """

    known: bool = True
    broken: tuple[str, ...] = ()
    moving: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsKeeper:
    """Looks at all runs of a pipeline once a minute.

    `count_metric` counts a metric by its name; `announcer` announces changed runs.
    """

    pipeline: str
    runs: CreatedRuns
    executions: ReplayExecutions
    clock: Callable[[], float]
    count_metric: Callable[[str, int], None]
    announcer: RunAnnouncer | None = None

    def care(self, waiting: Iterable[str] = ()) -> Care:
        """Start lost executions anew.

        `waiting` are the runs in whose lanes letters wait. It never raises: the next minute
        tries again.
        """
        held = frozenset(waiting)
        try:
            runs = self.runs.all()
        except RunsUnavailable as error:
            return Care(known=False, failed=(_why(error),))
        self._announce(runs)
        care = Care(
            broken=tuple(run.id for run in runs if run.state is RunState.BROKEN),
            moving=tuple(run.id for run in runs if run.state in MOVES),
        )
        try:
            missing = sorted(held - {run.id for run in runs})
            unknown, unread = self._ended_runs(missing)
            care = replace(care, failed=unread)
            unfinished = [run for run in (*runs, *unknown) if needs_execution(run, held)]
            if not unfinished:
                return care
            return self._restart_lost(care, unfinished, self.executions.running())
        except RunsUnavailable as error:
            return replace(care, failed=(*care.failed, _why(error)))

    def _ended_runs(self, missing: Iterable[str]) -> tuple[list[ReplayRun], tuple[str, ...]]:
        """Runs whose items are lost, stored as ended, and why others are not: theirs are bad."""
        ended, unread = [], []
        for run in missing:
            try:
                ended.append(self.runs.create(self._ended(run)))
            except RunsUnavailable as error:
                unread.append(_why(error))
        return ended, tuple(unread)

    def _announce(self, runs: Iterable[ReplayRun]) -> None:
        if self.announcer is None:
            return
        now = self.clock()
        for run in runs:
            if is_untold(run, now):
                self.announcer.announce(run)

    def _ended(self, run: str) -> ReplayRun:
        """A run whose item is lost has ended: what it holds is parked."""
        because = "its item was lost"
        state, now = RunState.ABORTED, self.clock()
        return ReplayRun(
            id=run, pipeline=self.pipeline, state=state, changed=now, by=BY, because=because
        )

    def _restart_lost(self, care: Care, runs: Sequence[ReplayRun], running: Container[str]) -> Care:
        failed: list[str] = []
        lost: list[str] = []
        for run in runs:
            now = self.clock()
            is_running = run.execution in running and not is_stuck(run, now)
            if is_running or now - max(run.started, run.created) < START_SECONDS:
                continue
            try:
                # The restart number first: of two watches one starts the execution.
                after = replace(restarted(run, now), left=False)
                self.runs.change(run, after)
                if run.is_live or not run.left:
                    lost.append(run.id)
                self.executions.start(after)
                self.count_metric(Count.REPLAY_RESTARTED, 1)
            except RunRefused:
                continue
            except RunsUnavailable as error:
                failed.append(_why(error))
        return replace(care, restarted=tuple(lost), failed=(*care.failed, *failed))


def needs_execution(run: ReplayRun, waiting: Container[str]) -> bool:
    """Whether there is something to do for a run: it is live, or letters are left in its lane.

    A broken run waits for a person.
    """
    if run.state is RunState.BROKEN:
        return False
    return run.is_live or not run.left or run.id in waiting


def is_stuck(run: ReplayRun, now: float) -> bool:
    """Whether the run's execution does not know what a person has decided.

    A second execution is no harm: the first one sees that it is not the run's any more.
    """
    ignored = run.state is RunState.ABORTED or (run.may_send and not run.step_began)
    return ignored and not run.left and now - max(run.changed, run.started) > STUCK_SECONDS


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
