"""The steps of a replay run, one at a time: what each makes of the run, and where it sends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from deadletter.replay.judge import RunEvidence
from deadletter.replay.machine import (
    UNACCOUNTED,
    BadStep,
    Frozen,
    ReplayEvent,
    ReplaySetup,
    ReplaySteps,
    Taken,
    replay_event,
)
from deadletter.replay.plan import DISCARD, RESTORE, ApprovalAnswer, ReplayPlan, RunApproval
from deadletter.replay.run import ReplayRun, RunRefused, RunState, RunSum, bad_run_row, resumed
from deadletter.replay.ticket import ReplayOutcome
from deadletter.testing.clock import START, Clock
from tests.each_row import each_row

PLAN = ReplayPlan(pipeline="orders", canary=(1, 2), ramp=(0.5, 1.0), ramp_seconds=45.0)
YES, NO = ApprovalAnswer(True, "ada", "go"), ApprovalAnswer(False, "bob", "wrong letters")
OPEN = RunEvidence(outcomes={ReplayOutcome.OPEN: 100})


class Runs:
    """The items of runs; `overtaken` says that another process changes each of them first."""

    def __init__(self) -> None:
        self.items: dict[str, ReplayRun] = {}
        self.overtaken = False

    def read(self, run: str) -> ReplayRun | None:
        return self.items.get(run)

    def all(self) -> tuple[ReplayRun, ...]:
        return tuple(self.items.values())

    def change(self, before: ReplayRun, after: ReplayRun) -> None:
        if self.overtaken:
            raise RunRefused("changed meanwhile")
        self.items[after.id] = after


@dataclass
class Machine:
    """One run, and what its steps are given; `done` is what they have done, in its order."""

    state: RunState = RunState.PLANNED
    plan_: ReplayPlan | None = PLAN
    fields: Mapping[str, Any] = field(default_factory=dict)
    asked: bool | None = False
    answer_: ApprovalAnswer | None = None
    seen: RunEvidence | Exception = OPEN
    taken: Taken = field(default_factory=lambda: Taken(True))
    frozen: Frozen | None = field(default_factory=lambda: Frozen(100, "hash"))
    leaves: bool = True
    forgets: bool = True
    sum: RunSum = field(default_factory=lambda: RunSum({"RECOVERED": 100}))
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock, self.runs, self.done = Clock(), Runs(), list[Any]()
        self.id = PLAN.run_id if self.plan_ is None else self.plan_.run_id
        run = ReplayRun(id=self.id, pipeline="orders", state=self.state)
        self.runs.items[self.id] = self.before = replace(run, **self.fields)

    @property
    def run(self) -> ReplayRun:
        return self.runs.items[self.id]

    @property
    def generations(self) -> int:
        """How often the run has changed."""
        return self.run.generation - self.before.generation

    def take(self, step: str, *, seconds: float = 900.0, **event: Any) -> Mapping[str, Any]:
        named = {"run": self.id, "step": step, "execution": f"{self.id}-0", **event}
        return self.steps.take(ReplayEvent(**named), self.clock() + seconds)

    def next(self, step: str, **event: Any) -> Any:
        return self.take(step, **event)["next"]

    def _did(self, name: str, answer: Any) -> Callable[..., Any]:
        def do(*_: Any) -> Any:
            self.done.append(name)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return do

    def _work(self, _run: Any, _plan: Any, number: int, of: int, until: float) -> Any:
        return {"number": number, "of": of, "seconds": until - self.clock()}

    @property
    def steps(self) -> ReplaySteps:
        setup = ReplaySetup(
            moves=True,
            runs=self.runs,
            plans=self,
            executions=self,
            evidence=self._did("evidence", self.seen),
            snapshot=self._did("snapshot", self.taken),
            freeze=self._did("freeze", self.frozen),
            work=self._work,
            leave=self._did("leave", self.leaves),
            reconcile=self._did("reconcile", self.sum),
            forget=self._did("forget", self.forgets),
            clock=self.clock,
        )
        return ReplaySteps(replace(setup, **self.settings))

    # The plans, and what belongs to their approval.

    def plan(self, _run: str) -> ReplayPlan | None:
        return self.plan_

    def approval(self, _run: str) -> RunApproval:
        return RunApproval(self.asked, self.answer_)

    def keep_asked(self, _run: str, *, asked: bool) -> None:
        self.asked = asked

    def keep_token(self, _run: str, token: str) -> None:
        self.done.append(f"keep {token}")

    def keep_answer(self, _run: str, answer: ApprovalAnswer) -> None:
        self.answer_ = answer

    # The executions.

    def start(self, run: ReplayRun) -> None:
        self.done.append(f"start {run.restart}")

    def running(self) -> set[str]:
        return set()

    def answer(self, token: str) -> None:
        self.done.append(f"answer {token}")

    def announce(self, run: ReplayRun) -> None:
        self.done.append(f"announce {run.state}")


EVENT = {"run": "r", "step": "work", "execution": "r-0"}


@each_row(
    ("fields", "words"),
    [
        *(
            ({name: value}, f"{name} must be text")
            for name in ("run", "step", "execution")
            for value in (None, "", 7)
        ),
        ({"worker": [1]}, "worker must be an object"),
        ({"loops": "1"}, "loops a whole number"),
    ],
)
def test_an_event_that_is_no_step_is_refused(fields: Mapping[str, Any], words: str) -> None:
    with pytest.raises(BadStep, match=words):
        replay_event({**EVENT, **fields})


@each_row(
    ("said", "answer"),
    [
        (None, None),
        ("yes", None),
        ({"approved": "yes", "by": "ada"}, None),
        ({"approved": True, "by": "ada", "because": "go"}, YES),
        ({"approved": False}, ApprovalAnswer(False, "", "")),
    ],
)
def test_an_event_has_what_the_state_machine_says(said: Any, answer: ApprovalAnswer | None) -> None:
    assert replay_event({**EVENT, "approval": said}) == ReplayEvent(**EVENT, approval=answer)
    assert replay_event({**EVENT, "worker": {"number": 2, "of": 4}, "loops": 3, "token": "t"}) == (
        ReplayEvent(**EVENT, worker=2, workers=4, loops=3, token="t")
    )
    assert replay_event({**EVENT, "worker": {}}) == ReplayEvent(
        **EVENT, loops=0, worker=0, workers=1
    )


def test_a_step_that_is_unknown_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(BadStep, match=r"'dance' is unknown; allowed are work, preflight, .*leave"):
        Machine().take("dance")


def test_a_run_that_was_never_stored_has_ended() -> None:
    machine = Machine()
    machine.runs.items.clear()
    assert machine.take("judge", loops=7) == {
        "next": "done",
        "state": "",
        "wait_seconds": 1,
        "loops": 7,
        "workers": [{"number": 0, "of": 1}],
    }


@each_row(
    ("step", "state", "left"),
    [
        ("snapshot", RunState.HELD, False),
        ("freeze", RunState.HELD, False),
        ("approved", RunState.CANARY, False),
        ("approved", RunState.ABORTED, False),
        ("lapse", RunState.CANARY, False),
        ("reconcile", RunState.HELD, False),
        ("reconcile", RunState.PLANNED, False),
        ("leave", RunState.CANARY, False),
        ("leave", RunState.HELD, False),
        ("leave", RunState.BROKEN, False),
        ("leave", RunState.ABORTED, True),
        ("leave", RunState.DONE, True),
    ],
)
def test_a_step_that_the_run_is_past_does_nothing_and_the_run_is_judged(
    step: str, state: RunState, left: bool
) -> None:
    machine = Machine(state, fields={"left": left, "messages": 100})
    assert machine.take(step, approval=NO) == {
        "next": "judge",
        "state": str(state),
        "wait_seconds": 1,
        "loops": 0,
        "workers": [{"number": 0, "of": 1}],
    }
    assert (machine.run, machine.done) == (machine.before, [])


@each_row(
    ("step", "state", "next_"),
    [
        ("judge", RunState.RUNNING, {"next": "wait", "state": "HELD", "wait_seconds": 300}),
        ("work", RunState.RUNNING, {"stopped": "a row cannot be read: r"}),
    ],
)
def test_a_bad_row_of_a_run_holds_it_for_a_person(
    step: str, state: RunState, next_: Mapping[str, Any]
) -> None:
    bad = bad_run_row("r")
    machine = Machine(state, seen=bad, settings={"work": Machine()._did("", bad)})
    answer = machine.take(step)
    assert answer.items() >= next_.items()
    assert (machine.run.state, machine.run.because) == (RunState.HELD, str(bad))
    assert (machine.run.by, machine.run.changed) == ("replay", START)


def test_a_bad_row_changes_nothing_in_a_run_that_is_held_already_or_that_others_change() -> None:
    bad = bad_run_row("r")
    held = Machine(RunState.HELD, settings={"clock": Machine()._did("", bad)})
    assert held.take("judge")["wait_seconds"] == 300
    assert held.run == held.before
    overtaken = Machine(RunState.RUNNING, seen=bad)
    overtaken.runs.overtaken = True
    assert overtaken.next("judge") == "wait"
    assert overtaken.run == overtaken.before


@each_row("is_stored", [True, False])
def test_a_bad_row_of_a_run_that_has_ended_is_an_error(is_stored: bool) -> None:
    bad = bad_run_row("r")
    machine = Machine(RunState.ABORTED, settings={"leave": Machine()._did("", bad)})
    if not is_stored:
        machine.runs.items.clear()
        machine.settings = {"runs": _Lost(bad)}
    with pytest.raises(type(bad)):
        machine.take("leave")


class _Lost:
    """A run whose row is bad, and gone when it is read again."""

    def __init__(self, error: Exception) -> None:
        self._errors = [error]

    def read(self, _run: str) -> None:
        if self._errors:
            raise self._errors.pop()


def test_an_execution_that_is_not_the_runs_own_hands_over_and_leaves_no_question_open() -> None:
    machine = Machine(RunState.WAITING_APPROVAL)
    assert machine.next("approval", execution="older", token="t") == "hand over"
    assert machine.done == ["answer t"]
    assert machine.next("judge", execution="older") == "hand over"
    assert (machine.done, machine.run) == (["answer t"], machine.before)


def test_a_change_that_another_process_has_overtaken_is_judged_again_soon() -> None:
    machine = Machine(RunState.MOVING)
    machine.runs.overtaken = True
    assert machine.take("freeze").items() >= {"next": "wait", "wait_seconds": 1}.items()


@each_row(
    ("state", "next_", "after"),
    [
        (RunState.PLANNED, "leave", RunState.ABORTED),
        (RunState.RUNNING, "leave", RunState.ABORTED),
        (RunState.ABORTED, "leave", RunState.ABORTED),
        (RunState.BROKEN, "done", RunState.BROKEN),
    ],
)
def test_a_live_run_without_its_plan_or_in_a_pipeline_that_observes_is_aborted(
    state: RunState, next_: str, after: RunState
) -> None:
    for machine in (
        Machine(state, plan_=None),
        Machine(state, settings={"moves": False}),
    ):
        assert (machine.next("preflight"), machine.run.state) == (next_, after)
        assert machine.generations == (after is not state)
        assert (machine.run.by == "replay") == (after is not state)


def test_a_run_is_announced_in_each_step_that_may_change_it() -> None:
    machine = Machine(RunState.MOVING)
    machine.settings = {"announcer": machine}
    machine.take("freeze")
    machine.take("judge")
    machine.take("judge")
    assert [each for each in machine.done if each.startswith("announce")] == ["announce CANARY"] * 3


@each_row(
    ("taken", "next_", "wait"),
    [
        (Taken(True), "freeze", 1),
        (Taken(False, busy=True), "wait", 15),
        (Taken(False), "judge", 1),
    ],
)
def test_a_snapshot_is_frozen_once_its_source_has_no_chosen_letter(
    taken: Taken, next_: str, wait: int
) -> None:
    step = Machine(RunState.MOVING, taken=taken).take("snapshot")
    assert (step["next"], step["wait_seconds"]) == (next_, wait)


@each_row(
    ("letters", "plan", "settings", "asks"),
    [
        (100, PLAN, {}, False),
        (100, PLAN, {"approve_above": 100}, False),
        (101, PLAN, {"approve_above": 100}, True),
        (1, replace(PLAN, approve=True), {}, True),
        (0, replace(PLAN, approve=True), {}, False),
        (101, replace(PLAN, destination=RESTORE, approve=True), {"approve_above": 0}, False),
    ],
)
def test_a_person_is_asked_for_more_letters_than_the_settings_allow(
    letters: int, plan: ReplayPlan, settings: Mapping[str, Any], asks: bool
) -> None:
    frozen = Frozen(letters, "hash")
    machine = Machine(RunState.MOVING, plan, frozen=frozen, settings=settings, asked=None)
    machine.clock.advance(9.0)
    assert machine.next("freeze") == ("approval" if asks else "judge")
    run = machine.run
    assert run.state is (RunState.WAITING_APPROVAL if asks else RunState.CANARY)
    assert (run.messages, run.manifest, run.counts) == (letters, "hash", {"OPEN": letters})
    assert (run.by, run.changed, machine.generations) == ("replay", START + 9.0, 1)
    assert machine.asked is asks


@each_row(
    ("letters", "plan", "state"),
    [
        (3, replace(PLAN, hold=True), RunState.HELD),
        (3, replace(PLAN, hold=True, approve=True), RunState.WAITING_APPROVAL),
        (0, replace(PLAN, hold=True), RunState.CANARY),
    ],
)
def test_a_run_that_is_to_be_held_is_held_with_its_letters_and_goes_on_from_its_canary(
    letters: int, plan: ReplayPlan, state: RunState
) -> None:
    machine = Machine(RunState.MOVING, plan, frozen=Frozen(letters, "hash"), asked=None)
    machine.next("freeze")
    assert (machine.run.state, machine.run.messages) == (state, letters)
    if state is RunState.HELD:
        assert machine.asked is False
        assert resumed(machine.run, at=START, by="ada").state is RunState.CANARY


def test_a_freeze_that_needs_another_pass_changes_nothing() -> None:
    machine = Machine(RunState.MOVING, frozen=None)
    assert machine.next("freeze") == "freeze"
    assert machine.run == machine.before


@each_row(
    ("asked", "answer", "may_send"),
    [
        (False, None, True),
        (True, YES, True),
        (None, YES, True),
        (True, NO, False),
        (True, None, False),
        (None, None, False),
    ],
)
def test_a_run_sends_only_what_needs_no_approval_or_has_one(
    asked: bool | None, answer: ApprovalAnswer | None, may_send: bool
) -> None:
    machine = Machine(RunState.CANARY, asked=asked, answer_=answer)
    assert ("seconds" in machine.take("work")) is may_send
    assert machine.next("judge") == ("work" if may_send else "approval")
    assert (machine.run.state is RunState.WAITING_APPROVAL) is not may_send
    if not may_send:
        assert machine.run.because == "it may send, and no approval of it is on record"
        assert machine.generations == 1


@each_row(
    ("state", "answer", "wakes"),
    [
        (RunState.WAITING_APPROVAL, None, False),
        (RunState.WAITING_APPROVAL, YES, True),
        (RunState.ABORTED, None, True),
    ],
)
def test_a_question_that_has_an_answer_already_waits_for_none(
    state: RunState, answer: ApprovalAnswer | None, wakes: bool
) -> None:
    machine = Machine(state, asked=True, answer_=answer)
    assert machine.next("approval", token="t") == "judge"
    assert machine.done == ["keep t", *(["answer t"] if wakes else [])]


@each_row(
    ("step", "stored", "told", "state"),
    [
        ("approved", None, YES, RunState.CANARY),
        ("approved", None, NO, RunState.ABORTED),
        ("approved", YES, None, RunState.CANARY),
        ("approved", NO, None, RunState.ABORTED),
        ("approved", NO, YES, RunState.CANARY),
        ("approved", None, None, RunState.WAITING_APPROVAL),
        ("lapse", YES, None, RunState.CANARY),
        ("lapse", NO, None, RunState.ABORTED),
    ],
)
def test_an_answer_is_kept_and_becomes_the_runs_next_state(
    step: str, stored: ApprovalAnswer | None, told: ApprovalAnswer | None, state: RunState
) -> None:
    fields = {"step_began": 5.0}
    machine = Machine(RunState.WAITING_APPROVAL, fields=fields, asked=True, answer_=stored)
    machine.clock.advance(9.0)
    assert machine.next(step, approval=told) == "judge"
    run, answer = machine.run, told or stored
    assert (run.state, machine.answer_) == (state, answer)
    if answer is None:
        assert run == machine.before
        return
    assert (run.by, run.because, run.changed) == (answer.by, answer.because, START + 9.0)
    assert machine.generations == 1
    if answer.approved:
        assert (run.approved_by, run.step_began) == (answer.by, 0.0)
    else:
        assert (run.approved_by, run.leave_to) == ("", "parked")


def test_a_question_without_an_answer_lapses_after_a_day() -> None:
    machine = Machine(RunState.WAITING_APPROVAL, asked=True)
    assert machine.next("lapse") == "judge"
    assert machine.run.state is RunState.ABORTED
    assert machine.run.because == "nobody approved it within 1 day"


@each_row(
    ("state", "left", "loops", "hands_over"),
    [
        (RunState.CANARY, False, 299, False),
        (RunState.CANARY, False, 300, True),
        (RunState.HELD, True, 300, True),
        (RunState.ABORTED, False, 300, True),
        (RunState.ABORTED, True, 300, False),
    ],
)
def test_an_execution_of_three_hundred_rounds_is_followed_by_another_while_there_is_work(
    state: RunState, left: bool, loops: int, hands_over: bool
) -> None:
    machine = Machine(state, fields={"left": left})
    machine.clock.advance(9.0)
    step = machine.take("judge", loops=loops)
    assert ((step["next"] == "hand over"), step["loops"]) == (hands_over, loops + 1)
    assert ("start 1" in machine.done) is hands_over
    if hands_over:
        run = machine.run
        assert (run.restart, run.started, machine.generations) == (1, START + 9.0, 1)


@each_row(
    ("state", "looks"),
    [
        (RunState.PLANNED, True),
        (RunState.CANARY, True),
        (RunState.RUNNING, True),
        (RunState.MOVING, False),
        (RunState.WAITING_APPROVAL, False),
        (RunState.HELD, False),
        (RunState.ABORTED, False),
        (RunState.BROKEN, False),
    ],
)
def test_only_a_run_that_begins_or_may_send_is_looked_at(state: RunState, looks: bool) -> None:
    machine = Machine(state)
    machine.take("judge")
    assert machine.done == (["evidence"] if looks else [])


def test_the_counts_of_a_run_that_sends_are_kept_with_each_judgement() -> None:
    seen = RunEvidence(outcomes={ReplayOutcome.OPEN: 60, ReplayOutcome.RECOVERED: 40})
    began = {"step_began": START, "step": 3, "known_before": 40}
    machine = Machine(RunState.RUNNING, seen=seen, fields=began)
    assert machine.take("judge")["workers"] == [{"number": 0, "of": 1}]
    assert machine.run.counts == {"OPEN": 60, "RECOVERED": 40}
    assert machine.generations == 1
    machine.take("judge")
    assert machine.generations == 1


@each_row(
    ("state", "step", "seconds", "lasts"),
    [
        (RunState.CANARY, 0, 900.0, 20.0),
        (RunState.CANARY, 1, 900.0, 20.0),
        (RunState.RUNNING, 2, 900.0, 45.0),
        (RunState.RUNNING, 3, 900.0, 120.0),
        (RunState.RUNNING, 3, 50.0, 50.0),
    ],
)
def test_a_worker_works_until_the_run_is_to_be_judged(
    state: RunState, step: int, seconds: float, lasts: float
) -> None:
    machine = Machine(state, fields={"step": step})
    work = machine.take("work", worker=1, workers=3, seconds=seconds)
    assert work == {"number": 1, "of": 3, "seconds": lasts}


def test_a_worker_of_a_ramp_of_long_steps_ends_in_time_all_the_same() -> None:
    machine = Machine(RunState.RUNNING, replace(PLAN, ramp_seconds=600.0), fields={"step": 2})
    assert machine.take("work")["seconds"] == 120.0


@each_row(
    ("state", "plan", "execution", "words"),
    [
        (RunState.HELD, PLAN, None, "the run is HELD"),
        (RunState.RUNNING, PLAN, "older", f"its execution {PLAN.run_id}-0"),
        (RunState.RUNNING, None, None, "the run has no plan"),
        (RunState.RUNNING, replace(PLAN, why="another"), None, "the run has no plan"),
    ],
)
def test_a_worker_that_may_not_send_says_why(
    state: RunState, plan: ReplayPlan | None, execution: str | None, words: str
) -> None:
    machine = Machine(state)
    machine.plan_ = plan
    step = machine.take("work", execution=execution or f"{machine.id}-0")
    assert words in step["stopped"]
    assert machine.run == machine.before


@each_row(
    ("state", "missing", "before", "after", "left"),
    [
        (RunState.RUNNING, 0, {}, RunState.DONE, False),
        (RunState.CANARY, 0, {}, RunState.DONE, False),
        (RunState.RUNNING, 2, {}, RunState.BROKEN, False),
        # A sum that a person has seen is not told once more.
        (RunState.RUNNING, 2, {UNACCOUNTED: 2}, RunState.DONE, False),
        (RunState.RUNNING, 2, {UNACCOUNTED: 1}, RunState.BROKEN, False),
        (RunState.ABORTED, 0, {}, RunState.ABORTED, True),
        (RunState.ABORTED, 2, {}, RunState.BROKEN, False),
        (RunState.ABORTED, 2, {UNACCOUNTED: 2}, RunState.ABORTED, True),
        (RunState.BROKEN, 2, {UNACCOUNTED: 1}, RunState.BROKEN, False),
        (RunState.DONE, 0, {}, RunState.DONE, False),
    ],
)
def test_a_run_ends_with_the_sum_of_its_outcomes(
    state: RunState,
    missing: int,
    before: Mapping[str, int],
    after: RunState,
    left: bool,
) -> None:
    fields = {"messages": 100, "counts": before}
    machine = Machine(state, fields=fields, sum=RunSum({"RECOVERED": 100 - missing}, missing))
    machine.clock.advance(9.0)
    assert machine.next("reconcile") == "judge"
    run = machine.run
    assert (run.state, run.left, machine.generations) == (after, left, 1)
    assert run.counts == {"RECOVERED": 100 - missing, UNACCOUNTED: missing}
    if after is not state:
        assert (run.by, run.changed) == ("replay", START + 9.0)
        words = "2 of 100 messages have no outcome"
        assert run.because == (words if after is RunState.BROKEN else "")


def test_an_aborted_run_that_had_no_snapshot_has_nothing_to_add_up() -> None:
    machine = Machine(RunState.ABORTED)
    assert machine.next("reconcile") == "judge"
    assert (machine.run.left, machine.generations, machine.done) == (True, 1, [])


@each_row(
    ("forget", "forgets", "next_", "done"),
    [
        (False, False, "judge", ["reconcile"]),
        (True, True, "judge", ["reconcile", "forget"]),
        (True, False, "wait", ["reconcile", "forget"]),
    ],
)
def test_a_run_that_forgets_is_done_when_nothing_is_kept(
    forget: bool, forgets: bool, next_: str, done: list[str]
) -> None:
    plan = replace(PLAN, destination=DISCARD, forget=forget)
    machine = Machine(RunState.RUNNING, plan, fields={"messages": 100}, forgets=forgets)
    assert (machine.next("reconcile"), machine.done) == (next_, done)
    assert (machine.run.state is RunState.DONE) is (next_ == "judge")


@each_row(
    ("state", "leaves", "next_", "left"),
    [
        (RunState.ABORTED, False, "wait", False),
        (RunState.DONE, False, "wait", False),
        (RunState.ABORTED, True, "reconcile", False),
        (RunState.DONE, True, "judge", True),
    ],
)
def test_a_run_that_has_ended_leaves_its_lane(
    state: RunState, leaves: bool, next_: str, left: bool
) -> None:
    machine = Machine(state, leaves=leaves)
    step = machine.take("leave")
    assert (step["next"], machine.run.left, machine.generations) == (next_, left, left)
    assert step["wait_seconds"] == (1 if leaves else 5)
