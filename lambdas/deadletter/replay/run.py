"""The state of a replay run, and every change that it may go through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol


class RunState(StrEnum):
    """Where a run stands."""

    PLANNED = "PLANNED"
    MOVING = "MOVING"
    """The snapshot is being taken: letters move into the run's custody."""
    WAITING_APPROVAL = "WAITING_APPROVAL"
    CANARY = "CANARY"
    RUNNING = "RUNNING"
    HELD = "HELD"
    """Nothing is sent until a person resumes or aborts the run."""
    ABORTED = "ABORTED"
    """What is left leaves the run's custody, to `leave_to`."""
    DONE = "DONE"
    BROKEN = "BROKEN"
    """The sum of the outcomes is not the snapshot: a person has to look."""


SENDING = frozenset({RunState.CANARY, RunState.RUNNING})
"""The states in which letters may be sent."""

LIVE = frozenset(RunState) - {RunState.ABORTED, RunState.DONE, RunState.BROKEN}
"""The states in which a letter of the run that dies again comes back to it."""


class BadRunRow(Exception):
    """A row of a run cannot be read; the text names it. Its run is held for a person."""


def bad_run_row(row: str) -> BadRunRow:
    """The error about a row, by its name."""
    return BadRunRow(f"a row cannot be read: {row}")


class RunRefused(Exception):
    """The run does not go through this change now; the message says why, and what is possible."""


class RunsUnavailable(Exception):
    """The runs, or what one of them needs, gave no answer; Step Functions repeats a step."""


class BadRun(RunsUnavailable, BadRunRow):
    """The item of a run cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRun:
    """One replay run, as its item says. All times are epoch seconds.

    generation   grows by one with each change: a grant names the generation it was read with
    resume_to    the state that a held run goes back to
    step         the place in the plan's canary steps, then in its ramp
    allowance    letters that may still be sent in CANARY
    rate, burst  letters per second now, and at once
    paid         when the letters granted so far are paid for
    counted      letters that the plan has counted; None if they were not counted one by one
    messages     letters of the manifest; None before the snapshot is frozen
    manifest     the manifest's hash
    counts       letters by outcome, as last added up
    restart      how often its execution was lost and started again
    step_began   when its step began; 0 until the machine has begun it
    known_before, failed_before  known and failed tries when its step began: a step is judged
                 by its own
    started      when the present execution was started
    resumed_at   when a person last resumed it: ordering keys that had stopped before go on
    resumed_in   the generation that this began: tickets of earlier ones are of tries before it
    because      why it was held, aborted or broken
    by           the person or the function that changed it last
    approved_by  who approved it; empty if nobody did
    left         whether nothing is in the run's lane any more, after its end
    told         the state that was announced last; empty if none was
    """

    id: str
    pipeline: str
    state: RunState = RunState.PLANNED
    generation: int = 0
    resume_to: RunState = RunState.CANARY
    step: int = 0
    allowance: int = 0
    rate: float = 0.0
    burst: int = 1
    paid: float = 0.0
    counted: int | None = None
    messages: int | None = None
    manifest: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    restart: int = 0
    created: float = 0.0
    started: float = 0.0
    changed: float = 0.0
    step_began: float = 0.0
    known_before: int = 0
    failed_before: int = 0
    expires: float = 0.0
    resumed_at: float = 0.0
    resumed_in: int = 0
    leave_to: str = "parked"
    because: str = ""
    by: str = ""
    approved_by: str = ""
    left: bool = False
    told: str = ""

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def may_send(self) -> bool:
        return self.state in SENDING

    @property
    def execution(self) -> str:
        """The name of its execution; Step Functions keeps a name taken for 90 days."""
        return f"{self.id}-{self.restart}"


_STOPS = frozenset({RunState.HELD, RunState.ABORTED, RunState.BROKEN})

_NEXT: Mapping[RunState, frozenset[RunState]] = {
    RunState.PLANNED: frozenset({RunState.MOVING, RunState.HELD, RunState.ABORTED}),
    RunState.MOVING: _STOPS | {RunState.WAITING_APPROVAL, RunState.CANARY},
    RunState.WAITING_APPROVAL: frozenset({RunState.CANARY, RunState.ABORTED}),
    RunState.CANARY: _STOPS | SENDING | {RunState.WAITING_APPROVAL, RunState.DONE},
    RunState.RUNNING: _STOPS | {RunState.WAITING_APPROVAL, RunState.RUNNING, RunState.DONE},
    RunState.HELD: SENDING | {RunState.PLANNED, RunState.MOVING, RunState.ABORTED},
    RunState.ABORTED: frozenset({RunState.ABORTED, RunState.BROKEN}),
    RunState.DONE: frozenset({RunState.BROKEN}),
    RunState.BROKEN: frozenset({RunState.ABORTED}),
}


def moved_to(
    run: ReplayRun, state: RunState, *, at: float, by: str, because: str = ""
) -> ReplayRun:
    """The run in its next state, one generation later.

    Raises RunRefused if this state cannot follow the present one.
    """
    if state not in _NEXT[run.state]:
        allowed = ", ".join(sorted(_NEXT[run.state])) or "none"
        raise RunRefused(
            f"run {run.id} is {run.state} and cannot become {state}: next are {allowed}"
        )
    resume_to = run.state if state is RunState.HELD else run.resume_to
    return replace(
        run,
        state=state,
        generation=run.generation + 1,
        resume_to=resume_to,
        changed=at,
        by=by,
        because=because,
    )


def held(run: ReplayRun, *, at: float, by: str, because: str) -> ReplayRun:
    """The run with nothing sent from now on. Raises RunRefused."""
    return moved_to(run, RunState.HELD, at=at, by=by, because=because)


def resumed(run: ReplayRun, *, at: float, by: str, because: str = "") -> ReplayRun:
    """The run where it was held; its step begins anew. Raises RunRefused."""
    if run.state is not RunState.HELD:
        raise RunRefused(f"run {run.id} is {run.state}: only a HELD run can be resumed")
    after = moved_to(run, run.resume_to, at=at, by=by, because=because)
    return replace(after, step_began=0.0, resumed_at=at, resumed_in=after.generation)


def aborted(
    run: ReplayRun, *, at: float, by: str, because: str, leave_to: str = "parked"
) -> ReplayRun:
    """The run with its end decided: what is left goes to `leave_to`. Raises RunRefused."""
    if run.state is RunState.ABORTED:
        raise RunRefused(f"run {run.id} is ABORTED already")
    return replace(
        moved_to(run, RunState.ABORTED, at=at, by=by, because=because),
        leave_to=leave_to,
        left=False,
    )


@dataclass(frozen=True, slots=True)
class RunSum:
    """The sum of a run: letters by the outcome's name, and those of the snapshot that have none."""

    counts: Mapping[str, int]
    unaccounted: int = 0
    report: Mapping[str, Any] = field(default_factory=dict)


class ReplayRuns(Protocol):
    """The items of a pipeline's runs. Raises RunsUnavailable."""

    def read(self, run: str) -> ReplayRun | None:
        """One run, read consistently; None if there is none with this id."""

    def all(self) -> tuple[ReplayRun, ...]:
        """All runs of the pipeline that are remembered."""

    def change(self, before: ReplayRun, after: ReplayRun) -> None:
        """Store `after` in place of `before`.

        Raises RunRefused if the run has another generation meanwhile. The same change stored
        twice has the effect of once: the answer to the first may have been lost.
        """
