"""The replay runs of a pipeline, and what a person may do with one: each is a single write."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.replay.plan import DISCARDED_LETTERS, ORIGINALS, ReplayPlan
from deadletter.replay.run import BadRun, ReplayRun, RunRefused, RunState, aborted, held, resumed
from deadletter.replay.ticket import TERMINAL, ReplayOutcome

from .app import DeployedPipeline
from .audit import Facts, IntendedChange, RecordedChange, recorded
from .errors import REFUSED, Cause, Problem, aws_errors, error_code
from .selection import unknown
from .session import Answer, Here, Session
from .watched import SeenTrouble, as_shown, bad_row
from .words import clock, count, moment, some

if TYPE_CHECKING:
    from deadletter.aws.objects import S3RunObjects

# A run's own execution writes its item every few seconds: a person's change must get through.
_TRIES = 8

_SHORTEST_PREFIX = 4

_PARKED, TO_SCHEDULE = LEAVE_TO = ("parked", "schedule")
"""Where the letters go that an aborted run leaves."""

_MOST_NAMED = 5
"""Letters that a sentence names."""

_ENDED = frozenset(outcome.name for outcome in TERMINAL)

FAILED = frozenset({ReplayOutcome.PARKED, ReplayOutcome.QUARANTINED, ReplayOutcome.UNKNOWN})
"""Outcomes of letters that were tried and not processed, as far as anything is known."""

PROCESSED = frozenset({ReplayOutcome.RECOVERED, ReplayOutcome.DUPLICATE})

IN_DOUBT = frozenset(
    {
        ReplayOutcome.UNKNOWN,
        ReplayOutcome.DELIVERED,
        ReplayOutcome.SENT,
        ReplayOutcome.MISSING,
    }
)
"""Outcomes of letters that may have been processed, for all that is known."""

OUTCOMES: Mapping[str, Collection[ReplayOutcome]] = {
    "failed": FAILED,
    "processed": PROCESSED,
    **{outcome.name.lower(): (outcome,) for outcome in ReplayOutcome},
}
"""What `-f outcome=` takes, and the outcomes that it means."""


def outcomes_of(names: Sequence[str]) -> set[ReplayOutcome]:
    """The outcomes that these words mean; Problem for an unknown one."""
    wanted: set[ReplayOutcome] = set()
    for name in names:
        if name.lower() not in OUTCOMES:
            raise Problem(unknown("outcome", name, list(OUTCOMES)), Cause.INPUT)
        wanted.update(OUTCOMES[name.lower()])
    return wanted


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """A replay run as its item says."""

    pipeline: Annotated[str, "name of the pipeline"]
    run: Annotated[str, "id of the run"]
    state: Annotated[
        str,
        "PLANNED, MOVING, WAITING_APPROVAL, CANARY, RUNNING, HELD, ABORTED, DONE or BROKEN",
    ]
    counted: Annotated[
        int | None, "messages that its plan has counted; null if not counted one by one"
    ]
    messages: Annotated[int | None, "its messages; null before they are taken"]
    ended: Annotated[int, "messages whose outcome is known"]
    counts: Annotated[Mapping[str, int], "messages by outcome, as last added up"]
    step: Annotated[int, "its step: canaries first, then shares of the rate; 0 is the first"]
    rate: Annotated[float, "messages per second that it may send now"]
    created: Annotated[datetime | None, "when it was started"]
    changed: Annotated[datetime | None, "when its state changed last"]
    expires: Annotated[datetime | None, "when it is aborted unless it has ended"]
    because: Annotated[str, "why it was held, aborted or broken; empty otherwise"]
    by: Annotated[str, "who changed it last; `replay` is its own execution"]
    leaves_to: Annotated[str, "where the rest of an aborted run goes: parked or schedule"]
    empty: Annotated[bool, "whether nothing is left in it after its end"]
    restarts: Annotated[int, "how often a new execution went on with it"]
    lost: Annotated[
        bool | None,
        "whether its execution has ended before the run; null if it was not looked up",
    ] = None
    approved_by: Annotated[str, "who approved it; empty without an approval"] = ""
    keeps_copies: Annotated[
        bool | None, "whether what it discards is kept; null if its plan was not read"
    ] = None


@dataclass(frozen=True, slots=True)
class ReplayList(Answer):
    """What `dlq run list` answers."""

    runs: Annotated[Sequence[ReplayRow], "live runs first, then the latest"]
    bad_rows: Annotated[Sequence[SeenTrouble], "rows of runs that cannot be read"]


@dataclass(frozen=True, slots=True)
class ReplayDetails(Answer):
    """How far a run is."""

    run: Annotated[ReplayRow, "the run"]
    source: Annotated[str, "where its messages come from"]
    destination: Annotated[str, "where they go"]
    who: Annotated[str, "who planned it"]
    why: Annotated[str, "the reason given"]
    full_rate: Annotated[float, "messages per second at full pace"]
    canary: Annotated[Sequence[int], "messages of each of the first steps"]
    steps: Annotated[int, "number of its steps"]
    waits_for: Annotated[str, "what it waits for, and what to type"]
    missed: Annotated[str, "counted messages that did not join, and what to type; else empty"]
    messages_per_second: Annotated[float, "ended messages per second since it was started"]
    ends_at: Annotated[datetime | None, "about when it ends at its rate; null if unknown"]


@dataclass(frozen=True, slots=True)
class ReplayChange(Answer):
    """What `dlq run hold`, `resume`, `abort`, `approve` and `reject` answer."""

    before: Annotated[ReplayRow, "the run as it was"]
    after: Annotated[ReplayRow, "the run as it is now"]


def row(run: ReplayRun, lost: bool | None = None, plan: ReplayPlan | None = None) -> ReplayRow:
    """A run as answers show it; `lost` is what `lost_runs` says of it."""
    return ReplayRow(
        pipeline=run.pipeline,
        run=run.id,
        state=str(run.state),
        counted=run.counted,
        messages=run.messages,
        ended=ended(run),
        counts=dict(run.counts),
        step=run.step,
        rate=run.rate,
        created=_time(run.created),
        changed=_time(run.changed),
        expires=_time(run.expires),
        because=run.because,
        by=run.by,
        leaves_to=run.leave_to,
        empty=run.left,
        restarts=run.restart,
        lost=lost,
        approved_by=run.approved_by,
        keeps_copies=None if plan is None else plan.keep_export,
    )


def ended(run: ReplayRun) -> int:
    """Letters of a run whose outcome is known, as last added up."""
    return sum(number for name, number in run.counts.items() if name in _ENDED)


def missed(run: ReplayRow) -> int:
    """Letters that the plan has counted and that the snapshot did not take."""
    if run.counted is None or run.messages is None:
        return 0
    return max(0, run.counted - run.messages)


def missed_says(switch: RunSwitch, run: ReplayRow) -> str:
    """How many counted messages a run did not take, and what to type; empty if it took all."""
    source = switch.plan.source
    if not (number := missed(run)):
        return ""
    counted = count(run.counted or 0, "message")
    if source.startswith(DISCARDED_LETTERS):
        return (
            f"{counted} were counted, and {run.messages or 0:,} are back. "
            f"The other {number:,} were back already, or their copies are gone or damaged. What "
            f"is left:\ndlq restore {quote(switch.plan.restored_run or 'RUN')} --dry-run"
        )
    if source.startswith(ORIGINALS):
        says = [f"{counted} were counted, and {run.messages or 0:,} made."]
        if no_room := _without_room(switch):
            more = len(no_room) - _MOST_NAMED
            named = ", ".join(no_room[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
            says.append(
                f"{count(len(no_room), 'message')} of them would have gone without the new key, "
                "which the consumer would have skipped: ten attributes, or the size, leave no room "
                f"for it. The originals stay, and nothing was sent: {named}. Have the producer "
                "send such a message anew."
            )
        if number > len(no_room):
            says.append(
                f"Of the other {number - len(no_room):,} no original is kept: it was forgotten, is "
                "damaged, or could not be read when it was taken. See\n"
                f"dlq status --pipeline {quote(run.pipeline)}"
            )
        return " ".join(says)
    joined = "none" if not run.messages else f"{run.messages:,}"
    return (
        f"{counted} were counted, and {joined} joined the run. The other "
        f"{number:,} had left {source} before the run took them, or automation would park them. "
        f"See where they are:\ndlq status --pipeline {quote(run.pipeline)}"
    )


def _without_room(switch: RunSwitch) -> Sequence[str]:
    """The letters that a run that repeats has not made, by the ids of their first lives: they would
    have gone without the new key that they were to get."""
    from deadletter.replay.names import NotAName, from_lines
    from deadletter.replay.objects import NO_ROOM

    with aws_errors():
        names = switch.objects.get(NO_ROOM)
    try:
        return [name.origin for name in from_lines(names or b"")]
    except NotAName as error:
        raise Problem(
            f"{NO_ROOM} of run {switch.id} can't be read: {error}", Cause.FAILED
        ) from error


def _time(at: float) -> datetime | None:
    return moment(at) if at else None


def list_runs(session: Session, pipelines: Sequence[str]) -> ReplayList:
    """All remembered runs of these pipelines, those that are live first."""
    app = session.app()
    runs: list[ReplayRun] = []
    lost: dict[str, bool | None] = {}
    bad: list[SeenTrouble] = []
    for pipeline in app.select(pipelines):
        rows: list[str] = []
        own = Here(session, app, pipeline).every_run(rows.append)
        bad += (as_shown(bad_row(app, pipeline.name, each, 0.0, session.now), {}) for each in rows)
        runs += own
        lost |= lost_runs(session, pipeline, own)
    runs.sort(key=lambda run: (not run.is_live, -run.created, run.id))
    shown = tuple(row(run, lost.get(run.id)) for run in runs)
    return ReplayList(**session.place, runs=shown, bad_rows=bad)


def lost_runs(
    session: Session, pipeline: DeployedPipeline, runs: Sequence[ReplayRun]
) -> dict[str, bool | None]:
    """Whether each run that needs an execution has none; None if that can't be looked up.

    A run that was started a minute ago may be missing from the list of executions.
    """
    from deadletter.aws.replay_runs import StepFunctionsReplays
    from deadletter.replay.care import START_SECONDS, needs_execution
    from deadletter.replay.run import RunsUnavailable

    now = session.now.timestamp()
    needy = [run for run in runs if needs_execution(run, ())]
    if not needy:
        return {}
    machine = StepFunctionsReplays(lambda: session.aws.stepfunctions, pipeline.replay_machine)
    try:
        running = machine.running()
    except RunsUnavailable:
        return dict.fromkeys((run.id for run in needy), None)
    return {
        run.id: run.execution not in running
        and now - max(run.started, run.created) >= START_SECONDS
        for run in needy
    }


def person(session: Session) -> str:
    """The caller as run items name people: the end of the ARN, such as `user/ann`."""
    return session.aws.caller.rpartition(":")[2]


class RunSwitch:
    """A replay run that a person names, by its id or the first characters of it.

    Without a pipeline it is looked for in all of them. Problem if it is unknown.
    """

    def __init__(self, session: Session, pipeline: str | None, run: str) -> None:
        self.session = session
        self.app = session.app()
        pipelines = self.app.select([pipeline] if pipeline is not None else [])
        self.here, self.before = _find([Here(session, self.app, each) for each in pipelines], run)
        self.pipeline = self.here.pipeline

    @property
    def id(self) -> str:
        return self.before.id

    @property
    def objects(self) -> S3RunObjects:
        """Its objects in the bucket."""
        return self.here.objects(self.id)

    @property
    def plan(self) -> ReplayPlan:
        """The plan of the run; Problem if it is gone or malformed."""
        from deadletter.settings.json_fields import BadSettings

        try:
            with aws_errors():
                plan = self.here.plans.plan(self.id)
        except BadSettings as error:
            raise Problem(
                f"The plan of run {self.id} can't be read ({error}): "
                "use the dlq of the version that is deployed.",
                Cause.FAILED,
            ) from error
        if plan is None:
            raise Problem(
                f"Run {self.id} has no plan: it was never started to its end. "
                f"Type\ndlq run abort {quote(self.id)}",
                Cause.FAILED,
            )
        return plan

    def must_be_resumable(self) -> None:
        """Problem with what is possible if the run can't go on: before a person is asked."""
        _allowed(resumed, self.before, "resumed")

    def must_be_abortable(self) -> None:
        """Problem with what is possible if the run can't be ended: before a person is asked."""
        _allowed(partial(aborted, because=""), self.before, "aborted")

    def read(self) -> ReplayRun:
        """The run as it is now."""
        with aws_errors():
            now = self.here.runs().read(self.id)
        return self.before if now is None else now

    def hold(self, because: str) -> ReplayChange:
        """Send nothing from now on."""
        change = partial(held, because=because or "a person holds it")
        with self._recorded("run hold", because, {"state": RunState.HELD}) as record:
            return self._change(record, change, "held", RunState.HELD)

    def resume(self, because: str) -> ReplayChange:
        """Go on where it was held."""
        with self._recorded("run resume", because, {}) as record:
            return self._change(record, partial(resumed, because=because), "resumed")

    def abort(self, because: str, leave_to: str) -> ReplayChange:
        """End the run; what it has in custody goes to `leave_to`."""
        after = {"state": RunState.ABORTED, "messages go to": leave_to}
        change = partial(aborted, because=because, leave_to=leave_to)
        with self._recorded("run abort", because, after) as record:
            return self._change(record, change, "aborted")

    def approve(self, because: str) -> ReplayChange:
        """Let the canaries begin."""
        self.must_wait()
        with self._recorded("run approve", because, {"state": RunState.CANARY}):
            return self._answer(approved=True, because=because)

    def reject(self, because: str) -> ReplayChange:
        """End the run before it has sent anything."""
        self.must_wait()
        after = {"state": RunState.ABORTED, "messages go to": _PARKED}
        with self._recorded("run reject", because, after):
            return self._answer(approved=False, because=because)

    def _recorded(
        self, command: str, why: str, after: Facts
    ) -> AbstractContextManager[RecordedChange]:
        before = _facts(row(self.before))
        change = IntendedChange(
            command, self.pipeline.name, f"run {self.id}", why, before, after or None
        )
        return recorded(self.session, self.app, change)

    def must_wait(self) -> None:
        """Problem unless the run waits for an approval."""
        if self.before.state is not RunState.WAITING_APPROVAL:
            raise Problem(
                f"Run {self.id} is {self.before.state}: only a run that is WAITING_APPROVAL can "
                f"be approved or rejected. {_possible(self.before)}",
                Cause.FAILED,
            )

    def _change(
        self,
        record: RecordedChange,
        change: Callable[..., ReplayRun],
        done: str,
        already: RunState | None = None,
    ) -> ReplayChange:
        """Stores a change, however often the run's own execution writes meanwhile."""
        session, by = self.session, person(self.session)
        before = self.before
        for _ in range(_TRIES):
            after = before
            if before.state is not already:
                after = _allowed(change, before, done, session.now.timestamp(), by)
                try:
                    with aws_errors():
                        self.here.runs().change(before, after)
                except RunRefused:
                    before = self.read()
                    continue
            if before.state is RunState.WAITING_APPROVAL:
                self._wake()
            changed = self._changed(before, after)
            record.done(_facts(changed.after))
            return changed
        raise Problem(
            f"Run {self.id} is being changed all the time: nothing was done. Try again.",
            Cause.FAILED,
        )

    def _changed(self, before: ReplayRun, after: ReplayRun) -> ReplayChange:
        return ReplayChange(**self.session.place, before=row(before), after=row(after))

    def _answer(self, *, approved: bool, because: str) -> ReplayChange:
        """Puts the answer on record and wakes the execution; that writes it into the run's item.

        A person who may approve need not be allowed to change the run. Returns the run as its
        execution writes it within seconds.
        """
        from deadletter.replay.machine import answered
        from deadletter.replay.plan import ApprovalAnswer

        answer = ApprovalAnswer(approved, person(self.session), because)
        after = answered(self.before, answer, self.session.now.timestamp())
        with aws_errors():
            self.here.plans.keep_answer(self.id, answer)
            token = self.here.plans.approval_token(self.id)
        if token is not None:
            self._send(token, asdict(answer))
        return self._changed(self.before, after)

    def _wake(self) -> None:
        """Wakes the execution of a run that was aborted while it waited for an approval.

        Who may not answer approvals leaves that to the watch, which starts a new execution.
        """
        from botocore.exceptions import ClientError

        try:
            with aws_errors():
                token = self.here.plans.approval_token(self.id)
            if token is not None:
                self._send(token, {})
        except ClientError as error:
            if error_code(error) not in REFUSED:
                raise

    def _send(self, token: str, answer: Mapping[str, Any]) -> None:
        from botocore.exceptions import ClientError

        try:
            self.session.aws.stepfunctions.send_task_success(
                taskToken=token, output=json.dumps(answer)
            )
        except ClientError as error:
            # It waits no longer: it has read the answer by itself.
            if error_code(error) not in _NO_TASK:
                raise


def _facts(run: ReplayRow) -> Facts:
    """A run as the audit table keeps it."""
    leaves = {"messages go to": run.leaves_to} if run.state == RunState.ABORTED else {}
    return {"state": run.state, **leaves}


_NO_TASK = {"TaskDoesNotExist", "TaskTimedOut", "InvalidToken"}


def _allowed(
    change: Callable[..., ReplayRun], run: ReplayRun, done: str, at: float = 0.0, by: str = ""
) -> ReplayRun:
    try:
        return change(run, at=at, by=by)
    except RunRefused as error:
        raise Problem(
            f"Nothing was done: run {run.id} is {run.state} and can't be {done}. {_possible(run)}",
            Cause.FAILED,
        ) from error


def _possible(run: ReplayRun) -> str:
    """What a person may type for a run in this state."""
    words = {
        RunState.HELD: ("resume", "abort"),
        RunState.WAITING_APPROVAL: ("approve", "reject"),
        RunState.CANARY: ("hold", "abort"),
        RunState.RUNNING: ("hold", "abort"),
        RunState.MOVING: ("hold", "abort"),
        RunState.PLANNED: ("abort",),
        RunState.BROKEN: ("abort",),
    }.get(run.state, ())
    typed = quote(run.id)
    return "\n".join(("Type", *(f"dlq run {word} {typed}" for word in words), f"dlq show {typed}"))


def _find(pipelines: Sequence[Here], text: str) -> tuple[Here, ReplayRun]:
    name = text.strip().lower()
    with aws_errors(), suppress(BadRun):
        for here in pipelines:
            run = here.runs().read(name) if name else None
            if run is not None:
                return here, run
    bad: list[str] = []
    known = [(here, run) for here in pipelines for run in here.every_run(bad.append)]

    def is_meant(id_: str) -> bool:
        return len(name) >= _SHORTEST_PREFIX and id_.startswith(name)

    # The row of a run is named by table, partition, and the id.
    if unread := [row for row in bad if is_meant(row.rpartition(" ")[2])]:
        says = f"Run {text} cannot be read: its row is {some(unread, _MOST_NAMED)}. See"
        raise Problem(f"{says}\ndlq run list", Cause.FAILED)
    matches = [(here, run) for here, run in known if is_meant(run.id)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise Problem(
            f"{count(len(matches), 'run')} begin with {text}: type more of the id.", Cause.INPUT
        )
    latest = sorted((run for _, run in known), key=lambda run: -run.created)[:5]
    names = ", ".join(f"{run.id} ({run.state})" for run in latest) or "no run yet"
    if bad:
        names += f", and {count(len(bad), 'row')} that cannot be read"
    raise Problem(
        f"There is no run {text!r}: it has {names}. All of them:\ndlq run list",
        Cause.ABSENT,
    )


def details(switch: RunSwitch, run: ReplayRun | None = None) -> ReplayDetails:
    """The run as it is now, with its plan."""
    session, plan = switch.session, switch.plan
    run = switch.read() if run is None else run
    lost = lost_runs(session, switch.pipeline, [run]).get(run.id)
    now = session.now.timestamp()
    spent = max(1.0, now - (run.started or run.created))
    speed = ended(run) / spent
    left = (run.messages or 0) - ended(run)
    sends = run.may_send and run.rate > 0 and left > 0
    return ReplayDetails(
        **session.place,
        run=row(run, lost, plan),
        source=plan.source,
        destination=plan.destination,
        who=plan.who,
        why=plan.why,
        full_rate=plan.rate,
        canary=plan.canary,
        steps=len(plan.canary) + len(plan.ramp),
        waits_for=_lost_says(run) if lost else waits_for(run, plan),
        missed=missed_says(switch, row(run)),
        messages_per_second=round(speed, 3),
        ends_at=moment(now + left / max(run.rate, 1e-9)) if sends else None,
    )


def is_at_rest(answer: ReplayDetails) -> bool:
    """Whether nothing more happens to a run by itself: it has ended, or waits for a person."""
    run = answer.run
    return run.state in IN_TROUBLE or run.empty or run.state == RunState.DONE


IN_TROUBLE = {RunState.HELD, RunState.BROKEN, RunState.WAITING_APPROVAL}
"""What a run waits in for a person."""

_BAR = 24
"""Characters of the bar that says how far a run is."""


def progress(answer: ReplayDetails) -> str:
    """A run on one line: its state, a bar, its outcomes, its pace, and when it ends."""
    run = answer.run
    parts = [run.state]
    if run.messages:
        share = min(1.0, run.ended / run.messages)
        full = int(share * _BAR)
        parts.append(f"[{'#' * full}{'.' * (_BAR - full)}]")
        parts.append(f"{run.ended:,} of {run.messages:,} ({share:.0%})")
    shown = {name: number for name, number in run.counts.items() if number and name != "OPEN"}
    parts += [", ".join(f"{number:,} {name.lower()}" for name, number in shown.items())]
    if run.state == RunState.CANARY:
        parts.append(f"canary {run.step + 1} of {len(answer.canary)}")
    if run.lost:
        parts.append("its execution has ended; the monitor starts the next one")
    elif answer.ends_at is not None:
        parts.append(f"{run.rate:g}/s, ends about {clock(answer.ends_at, answer.at)}")
    return "  ".join(filter(None, parts))


def _lost_says(run: ReplayRun) -> str:
    """What a run without an execution waits for, and what to type if that does not come."""
    return (
        "Its execution: the last one has ended before the run, and nothing is sent meanwhile. The "
        "monitor starts the next one within two minutes. If it does not, the first of these says "
        "why, and the second stops the run until that is repaired:\n"
        f"dlq status --pipeline {quote(run.pipeline)}\ndlq run hold {quote(run.id)}"
    )


def waits_for(run: ReplayRun, plan: ReplayPlan) -> str:
    """What a run waits for in a sentence, with what to type if it waits for a person."""
    return "\n".join(_waits_for(run, plan))


def _waits_for(run: ReplayRun, plan: ReplayPlan) -> Iterator[str]:
    sent = run.counts.get(ReplayOutcome.SENT.name, 0)
    match run.state:
        case RunState.PLANNED:
            yield "Its execution is about to start."
        case RunState.MOVING:
            yield "It takes its messages: they leave their places."
        case RunState.WAITING_APPROVAL:
            yield "A person has to approve it within a day, or to reject it:"
            yield f"dlq run approve {quote(run.id)}"
            yield f"dlq run reject {quote(run.id)}"
        case RunState.CANARY:
            letters = plan.canary[run.step] if run.step < len(plan.canary) else 0
            yield f"The outcomes of its canary of {count(letters, 'message')}."
        case RunState.RUNNING if sent:
            yield f"The outcomes of {count(sent, 'message')} that it has sent."
        case RunState.RUNNING:
            yield "Nothing: it goes on."
        case RunState.HELD:
            because = run.because or "no reason given"
            yield f"It is held: {because}. Nothing is sent. Go on, or end it:"
            yield f"dlq run resume {quote(run.id)}"
            yield f"dlq run abort {quote(run.id)}"
        case RunState.ABORTED if not run.left:
            place = "the parking queue" if run.leave_to == _PARKED else "the schedule"
            yield f"Its remaining messages go to {place}; none of them is sent by the run."
        case RunState.BROKEN:
            yield "A person: the sum of its outcomes is not all of it."
            yield f"dlq run abort {quote(run.id)}"
        case _:
            yield "Nothing: it has ended."
