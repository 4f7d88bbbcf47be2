"""The steps of a replay run, as its state machine calls them one after the other.

Every step reads the run's item and answers where the execution goes next, so that a step may
be repeated, and a lost execution be continued by a new one from any state. Each change of the
run is one conditional write; a change that another process has overtaken is judged again.

Each change is announced at least once. The run's item says which state was announced last
(`told`): a step announces its own change at once, and the watch what people have changed, and what
was refused before.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from deadletter.contract import DAY, EventType
from deadletter.redrive.waiting_room import SHARDS
from deadletter.replay.judge import BY, PENDING_WAIT, ReplayNext, RunEvidence, judged
from deadletter.replay.plan import ApprovalAnswer, ReplayPlan, RunApproval
from deadletter.replay.run import (
    BadRunRow,
    ReplayRun,
    ReplayRuns,
    RunRefused,
    RunState,
    RunSum,
    RunsUnavailable,
    aborted,
    held,
    moved_to,
)
from deadletter.replay.ticket import ReplayOutcome
from deadletter.signals.figures import Count

MOST_LOOPS = 300
"""Rounds after which a new execution goes on: a history holds at most 25,000 events."""

WORKER_RATE = 80.0
"""Letters per second that one worker can send: a faster run is spread over several. Measured are
91 where each request takes 10 ms."""

CANARY_STEP = 20.0
RUNNING_STEP = 120.0
"""Seconds of one step of work. Between two steps the run is judged; a worker that meets many
failures ends its step early. A step's beginning and end cost some seconds of its pace."""

UNACCOUNTED = "UNACCOUNTED"
"""Beside the outcomes in the counts of a run: letters of the snapshot without an outcome."""

BAD_ROW_WAIT = 300
"""Seconds until a run is looked at again that a row of its own keeps from going on."""

SNAPSHOT_WAIT = 15
"""Seconds until a source that another function moves letters from is tried again."""

APPROVAL_DAYS = 1
"""Days until an approval lapses, as the state machine counts them."""


class BadStep(ValueError):
    """The event is no step of a replay run; the message names the field."""


class ReplayPlans(Protocol):
    """The plans of runs, and what belongs to their approval. Raises RunsUnavailable."""

    def plan(self, run: str) -> ReplayPlan | None:
        """The stored plan of a run, or None. Who may plan runs can write it: whether it is
        the plan that was started is seen by its id."""

    def approval(self, run: str) -> RunApproval:
        """What is on record about the run's approval."""

    def keep_asked(self, run: str, *, asked: bool) -> None:
        """Keep whether a person has to approve the run."""

    def keep_token(self, run: str, token: str) -> None:
        """Keep the token of the task that waits for the run's approval, in place of an older."""

    def keep_answer(self, run: str, answer: ApprovalAnswer) -> None:
        """Keep who approved or refused the run: its item will say who changed it last."""


class ReplayExecutions(Protocol):
    """The executions of a pipeline's runs. Raises RunsUnavailable."""

    def start(self, run: ReplayRun) -> None:
        """Start the run's present execution, unless it was started before."""

    def running(self) -> Container[str]:
        """The names of the running executions."""

    def answer(self, token: str) -> None:
        """Let the execution go on that waits with this token, if it still waits."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a pass of the snapshot has done: whether the source is empty of chosen letters, and
    whether another function had the source."""

    done: bool
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Frozen:
    """The snapshot: its letters, and the hash of its manifest."""

    messages: int
    manifest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySetup:
    """Everything that the steps are given. Deadlines are epoch seconds.

    moves         whether the pipeline's mode lets us move letters
    evidence      what is known about a run that may send, or is about to begin
    snapshot      one pass over the source
    freeze        the frozen snapshot; None if it takes another pass
    work          one worker's step, of so many workers: what it did, for the log
    leave         empties the run's lane; whether nothing is left in it
    reconcile     adds up the outcomes and stores the report
    forget        erases all else that is kept of the letters of a run that forgets; whether
                  nothing is left
    announcer     announces each change of the run's state; None if nobody is told
    approve_above  more letters a person has to approve, whatever the plan says
    """

    moves: bool
    runs: ReplayRuns
    plans: ReplayPlans
    executions: ReplayExecutions
    evidence: Callable[[ReplayRun, ReplayPlan], RunEvidence]
    snapshot: Callable[[ReplayRun, ReplayPlan, float], Taken]
    freeze: Callable[[ReplayRun, ReplayPlan, float], Frozen | None]
    work: Callable[[ReplayRun, ReplayPlan, int, int, float], Mapping[str, Any]]
    leave: Callable[[ReplayRun, ReplayPlan, float], bool]
    reconcile: Callable[[ReplayRun, ReplayPlan, float], RunSum]
    clock: Callable[[], float]
    forget: Callable[[ReplayRun, ReplayPlan, float], bool] = lambda _run, _plan, _deadline: True
    approve_above: int | None = None
    announcer: RunAnnouncer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayEvent:
    """One call by the state machine.

    loops     the rounds of this execution
    token     of the task that waits for an approval
    approval  what the person's command answered; None if it wrote its answer into the run
    """

    run: str
    step: str
    execution: str
    loops: int = 0
    worker: int = 0
    workers: int = 1
    token: str = ""
    approval: ApprovalAnswer | None = None


def replay_event(data: Mapping[str, Any]) -> ReplayEvent:
    """The step in a function's event. Raises BadStep."""
    for name in ("run", "step", "execution"):
        if not isinstance(data.get(name), str) or not data[name]:
            raise BadStep(f"{name} must be text")
    worker = data.get("worker") or {}
    loops = data.get("loops", 0)
    if not isinstance(worker, Mapping) or not isinstance(loops, int):
        raise BadStep("worker must be an object, and loops a whole number")
    return ReplayEvent(
        run=data["run"],
        step=data["step"],
        execution=data["execution"],
        loops=loops,
        worker=int(worker.get("number", 0)),
        workers=int(worker.get("of", 1)),
        token=str(data.get("token", "")),
        approval=_answer(data.get("approval")),
    )


def _answer(said: Any) -> ApprovalAnswer | None:
    if not isinstance(said, Mapping) or not isinstance(said.get("approved"), bool):
        return None
    by, because = (str(said.get(name, "")) for name in ("by", "because"))
    return ApprovalAnswer(said["approved"], by, because)


def _continued(
    event: ReplayEvent,
    to: ReplayNext,
    run: ReplayRun | None,
    *,
    wait_seconds: int = 1,
    workers: int = 1,
) -> Mapping[str, Any]:
    """What the execution continues with: words and numbers, nothing from a letter."""
    return {
        "next": str(to),
        "state": str(run.state) if run else "",
        "wait_seconds": wait_seconds,
        "loops": event.loops,
        "workers": [{"number": number, "of": workers} for number in range(workers)],
    }


@dataclass(frozen=True, slots=True)
class ReplaySteps:
    """Takes the steps of the runs of one pipeline."""

    setup: ReplaySetup

    def take(self, event: ReplayEvent, deadline: float) -> Mapping[str, Any]:
        """Take one step, until `deadline` at the latest. Returns the execution's next step."""
        try:
            return self._take(event, deadline)
        except BadRunRow as error:
            if not self._is_held(event.run, str(error)):
                raise
            if event.step == "work":
                return {"stopped": str(error)}
            run = self.setup.runs.read(event.run)
            return _continued(event, ReplayNext.WAIT, run, wait_seconds=BAD_ROW_WAIT)

    def _is_held(self, run_id: str, because: str) -> bool:
        """Hold a run because of a bad row of its own; False if it is live no more."""
        run = self.setup.runs.read(run_id)
        if run is None or not run.is_live:
            return False
        if run.state is not RunState.HELD:
            with suppress(RunRefused):
                after = held(run, at=self.setup.clock(), by=BY, because=because)
                _change(self.setup, run, after)
        return True

    def _take(self, event: ReplayEvent, deadline: float) -> Mapping[str, Any]:
        setup = self.setup
        if event.step != "work" and event.step not in _STEPS:
            known = ", ".join(_STEPS)
            raise BadStep(f"step {event.step!r} is unknown; allowed are work, {known}")
        run = setup.runs.read(event.run)
        if run is None:
            # A run that was never stored, or whose rows have expired, has ended.
            return _continued(event, ReplayNext.DONE, None)
        plan = setup.plans.plan(event.run)
        if plan is not None and plan.run_id != run.id:
            plan = None
        approval = setup.plans.approval(event.run) if run.may_send else RunApproval()
        step = _Step(setup, event, run, plan or ReplayPlan(pipeline=run.pipeline), deadline)
        if event.step == "work":
            return step.work(may_begin=plan is not None and approval.allows)
        if event.execution != run.execution:
            if event.token:
                setup.executions.answer(event.token)
            return step.to(ReplayNext.HAND_OVER)
        try:
            if plan is None and run.is_live:
                # What it holds can leave without a plan.
                return step.abort("the stored plan is not the one that was started")
            if run.may_send and not approval.allows:
                return step.ask()
            return _STEPS[event.step](step)
        except RunRefused:
            # A person or another process has changed the run meanwhile.
            return step.to(ReplayNext.WAIT)


def _change(setup: ReplaySetup, before: ReplayRun, after: ReplayRun) -> None:
    if after != before:
        setup.runs.change(before, after)
    # After the change: a state is announced twice rather than never, and never too early.
    if setup.announcer is not None:
        setup.announcer.announce(after)


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of a run, which is as it was read at its beginning."""

    setup: ReplaySetup
    event: ReplayEvent
    run: ReplayRun
    plan: ReplayPlan
    deadline: float

    def to(self, to: ReplayNext, *, wait_seconds: int = 1) -> Mapping[str, Any]:
        """The execution goes on there, and the run is as it was."""
        return _continued(self.event, to, self.run, wait_seconds=wait_seconds)

    def changed(self, after: ReplayRun, to: ReplayNext) -> Mapping[str, Any]:
        """Store the run, and go on there."""
        _change(self.setup, self.run, after)
        return _continued(self.event, to, after)

    def abort(self, because: str, to: ReplayNext = ReplayNext.LEAVE) -> Mapping[str, Any]:
        after = aborted(self.run, at=self.setup.clock(), by=BY, because=because)
        _change(self.setup, self.run, after)
        return self.to(to)

    def preflight(self) -> Mapping[str, Any]:
        """Whether the run may begin at all; then it is judged."""
        if not self.setup.moves and self.run.is_live:
            return self.abort("the pipeline's mode is observe: it moves no messages")
        return self.judge()

    def snapshot(self) -> Mapping[str, Any]:
        if self.run.state is not RunState.MOVING:
            return self.to(ReplayNext.JUDGE)
        taken = self.setup.snapshot(self.run, self.plan, self.deadline)
        if taken.done:
            return self.to(ReplayNext.FREEZE)
        if taken.busy:
            return self.to(ReplayNext.WAIT, wait_seconds=SNAPSHOT_WAIT)
        return self.to(ReplayNext.JUDGE)

    def freeze(self) -> Mapping[str, Any]:
        run, plan = self.run, self.plan
        if run.state is not RunState.MOVING:
            return self.to(ReplayNext.JUDGE)
        frozen = self.setup.freeze(run, plan, self.deadline)
        if frozen is None:
            return self.to(ReplayNext.FREEZE)
        asks = bool(frozen.messages) and self._needs_approval(frozen)
        holds = bool(frozen.messages) and plan.hold and not asks
        state = RunState.WAITING_APPROVAL if asks else RunState.CANARY
        because = "it was planned so" if holds else ""
        state = RunState.HELD if holds else state
        after = moved_to(run, state, at=self.setup.clock(), by=BY, because=because)
        counts = {ReplayOutcome.OPEN.name: frozen.messages}
        after = replace(after, messages=frozen.messages, manifest=frozen.manifest, counts=counts)
        if holds:
            after = replace(after, resume_to=RunState.CANARY)
        self.setup.plans.keep_asked(run.id, asked=asks)
        return self.changed(after, ReplayNext.APPROVAL if asks else ReplayNext.JUDGE)

    def ask(self) -> Mapping[str, Any]:
        """A run that may send, and whose approval is nowhere on record, has to wait for one."""
        because = "it may send, and no approval of it is on record"
        now, state = self.setup.clock(), RunState.WAITING_APPROVAL
        after = moved_to(self.run, state, at=now, by=BY, because=because)
        return self.changed(after, ReplayNext.APPROVAL)

    def _needs_approval(self, frozen: Frozen) -> bool:
        if self.plan.restores:
            # Its letters are parked again, and nothing is sent.
            return False
        above = self.setup.approve_above
        return self.plan.approve or (above is not None and frozen.messages > above)

    def approval(self) -> Mapping[str, Any]:
        """Keep the token first: who approves after that finds it, who did before is seen."""
        plans, id_ = self.setup.plans, self.run.id
        plans.keep_token(id_, self.event.token)
        now = self.setup.runs.read(id_)
        waits = now is not None and now.state is RunState.WAITING_APPROVAL
        if not waits or plans.approval(id_).answer is not None:
            self.setup.executions.answer(self.event.token)
        return self.to(ReplayNext.JUDGE)

    def approved(self) -> Mapping[str, Any]:
        """Write the answer into the run; without an answer on record the run stays as it is."""
        run, plans, answer = self.run, self.setup.plans, self.event.approval
        if run.state is not RunState.WAITING_APPROVAL:
            return self.to(ReplayNext.JUDGE)
        if answer is not None:
            plans.keep_answer(run.id, answer)
        else:
            answer = plans.approval(run.id).answer
        if answer is not None:
            _change(self.setup, run, answered(run, answer, self.setup.clock()))
        return self.to(ReplayNext.JUDGE)

    def lapse(self) -> Mapping[str, Any]:
        if self.setup.plans.approval(self.run.id).answer is not None:
            # The person's command ended before it could wake this execution.
            return self.approved()
        if self.run.state is not RunState.WAITING_APPROVAL:
            return self.to(ReplayNext.JUDGE)
        return self.abort(f"nobody approved it within {APPROVAL_DAYS} day", ReplayNext.JUDGE)

    def judge(self) -> Mapping[str, Any]:
        setup, run, plan, now = self.setup, self.run, self.plan, self.setup.clock()
        event = replace(self.event, loops=self.event.loops + 1)
        if event.loops > MOST_LOOPS and (run.is_live or not run.left):
            after = restarted(run, now)
            _change(setup, run, after)
            setup.executions.start(after)
            return _continued(event, ReplayNext.HAND_OVER, after)
        is_looked_at = run.may_send or run.state is RunState.PLANNED
        evidence = setup.evidence(run, plan) if is_looked_at else RunEvidence()
        verdict = judged(run, plan, evidence, now)
        after = verdict.run
        if run.may_send:
            after = replace(after, counts=evidence.counts)
            if after != run and after.generation == run.generation:
                after = replace(after, generation=run.generation + 1)
        _change(setup, run, after)
        wait, workers = verdict.wait_seconds, workers_for(plan)
        return _continued(event, verdict.next, after, wait_seconds=wait, workers=workers)

    def work(self, *, may_begin: bool) -> Mapping[str, Any]:
        """A worker's step. One of an execution that has handed over does nothing."""
        run, plan, event = self.run, self.plan, self.event
        if not run.may_send or event.execution != run.execution:
            return {"stopped": f"the run is {run.state}, and its execution {run.execution}"}
        if not may_begin:
            return {"stopped": "the run has no plan, or no approval of it is on record"}
        is_ramp = run.step < len(plan.canary) + len(plan.ramp) - 1
        seconds = min(RUNNING_STEP, plan.ramp_seconds) if is_ramp else RUNNING_STEP
        if run.state is RunState.CANARY:
            seconds = CANARY_STEP
        until = min(self.deadline, self.setup.clock() + seconds)
        return self.setup.work(run, plan, event.worker, event.workers, until)

    def reconcile(self) -> Mapping[str, Any]:
        run, plan = self.run, self.plan
        if run.is_live and not run.may_send:
            return self.to(ReplayNext.JUDGE)
        now = self.setup.clock()
        if run.messages is None:
            # Aborted before there was a snapshot: nothing was sent, and all of it has left.
            return self._ended()
        sums = self.setup.reconcile(run, plan, self.deadline)
        counts = {**sums.counts, UNACCOUNTED: sums.unaccounted}
        if run.state in (RunState.BROKEN, RunState.DONE):
            after = replace(run, generation=run.generation + 1)
        elif sums.unaccounted and run.counts.get(UNACCOUNTED) != sums.unaccounted:
            because = f"{sums.unaccounted} of {run.messages} messages have no outcome"
            after = moved_to(run, RunState.BROKEN, at=now, by=BY, because=because)
        elif run.state is RunState.ABORTED:
            # A person who aborts a broken run has seen its sum.
            after = replace(run, left=True, generation=run.generation + 1)
        else:
            # The letters are gone. What this erases is erased before the run says that it is done.
            if plan.forgets and not self.setup.forget(run, plan, self.deadline):
                return self.to(ReplayNext.WAIT)
            after = moved_to(run, RunState.DONE, at=now, by=BY)
        return self.changed(replace(after, counts=counts), ReplayNext.JUDGE)

    def _ended(self) -> Mapping[str, Any]:
        """Nothing of the run is left; who ended it, and why, stays in its item."""
        after = replace(self.run, left=True, generation=self.run.generation + 1)
        return self.changed(after, ReplayNext.JUDGE)

    def leave(self) -> Mapping[str, Any]:
        run = self.run
        if run.is_live or run.left or run.state is RunState.BROKEN:
            return self.to(ReplayNext.JUDGE)
        if not self.setup.leave(run, self.plan, self.deadline):
            return self.to(ReplayNext.WAIT, wait_seconds=PENDING_WAIT)
        if run.state is RunState.ABORTED:
            return self.to(ReplayNext.RECONCILE)
        return self._ended()


_STEPS: Mapping[str, Callable[[_Step], Mapping[str, Any]]] = {
    "preflight": _Step.preflight,
    "snapshot": _Step.snapshot,
    "freeze": _Step.freeze,
    "approval": _Step.approval,
    "approved": _Step.approved,
    "lapse": _Step.lapse,
    "judge": _Step.judge,
    "reconcile": _Step.reconcile,
    "leave": _Step.leave,
}


def workers_for(plan: ReplayPlan) -> int:
    """Workers of a run: as many as the plan says, and as its rate needs; a shard has one."""
    needed = -(-plan.rate // WORKER_RATE)
    return max(1, min(SHARDS, max(plan.workers, int(needed))))


def answered(run: ReplayRun, answer: ApprovalAnswer, now: float) -> ReplayRun:
    """The run that a person has approved, at the beginning of its step, or refused."""
    by, because = answer.by, answer.because
    if not answer.approved:
        return aborted(run, at=now, by=by, because=because)
    after = moved_to(run, RunState.CANARY, at=now, by=by, because=because)
    return replace(after, step_began=0.0, approved_by=by)


def restarted(run: ReplayRun, now: float) -> ReplayRun:
    """The run with a new execution, of which no grant and no step of the old one is valid."""
    return replace(run, restart=run.restart + 1, generation=run.generation + 1, started=now)


SETTLES = 30.0
"""Seconds after a change in which the watch leaves its announcement to the run's own step."""

TRIES_FOR = float(DAY)
"""Seconds for which an announcement is tried again."""


class EventPut(Protocol):
    """Puts an event of the pipeline. Returns None, or why it was not accepted."""

    def __call__(self, event_type: EventType, detail: Mapping[str, Any]) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAnnouncer:
    """Announces runs; never raises. `count_metric` counts a metric by its name."""

    runs: ReplayRuns
    put: EventPut
    count_metric: Callable[[str, int], None]

    def announce(self, run: ReplayRun) -> None:
        """Announce the run's state, unless it was announced before."""
        if run.told == run.state:
            return
        if self.put(EventType.RUN_STATE_CHANGED, run_detail(run)) is not None:
            self.count_metric(Count.EVENT_REFUSED, 1)
            return
        try:
            self.runs.change(run, replace(run, told=str(run.state)))
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
        **({} if run.messages is None else {"messages": run.messages}),
        "because": run.because,
        "by": run.by,
        "command": f"dlq show {run.id}",
    }
