"""The state machine of replay runs, executed in moto with the real steps; only letters are told."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import (
    WaitFunction,
)
from moto.stepfunctions.parser.utils import TMP_THREADS

from deadletter.aws.replay_runs import StepFunctionsReplays
from deadletter.contract import DAY
from deadletter.replay.care import START_SECONDS, STUCK_SECONDS, Care, RunsKeeper, is_stuck
from deadletter.replay.judge import RunEvidence
from deadletter.replay.machine import (
    APPROVAL_DAYS,
    BadStep,
    Frozen,
    ReplaySetup,
    ReplaySteps,
    Taken,
    replay_event,
)
from deadletter.replay.plan import ApprovalAnswer, ReplayPlan, RunApproval
from deadletter.replay.run import ReplayRun, RunRefused, RunState, RunSum, aborted, held, resumed
from deadletter.replay.ticket import ReplayOutcome
from deadletter.testing.clock import Clock
from tests.statemachines.conftest import REGION, ROLE, client, history
from tests.statemachines.test_graph import ROOT

DEFINITION = ROOT / "statemachines" / "replay.asl.json"
PLAN = ReplayPlan(pipeline="orders", canary=(1, 2, 5, 20), rate=10.0, who="ada", why="fixed")
ID = PLAN.run_id

# More than Retry allows.
MORE_THAN_RETRIES = 4

Act = Callable[["Stage"], None]


class RunsInMemory:
    """The items of runs, and each change of them."""

    def __init__(self) -> None:
        self.items: dict[str, ReplayRun] = {}
        self.states: list[RunState] = []

    def read(self, run: str) -> ReplayRun | None:
        return self.items.get(run)

    def all(self) -> tuple[ReplayRun, ...]:
        return tuple(self.items.values())

    def create(self, run: ReplayRun) -> ReplayRun:
        return self.items.setdefault(run.id, run)

    def change(self, before: ReplayRun, after: ReplayRun) -> None:
        if self.items[before.id].generation != before.generation:
            raise RunRefused("changed meanwhile")
        if after.state is not before.state:
            self.states.append(after.state)
        self.items[before.id] = after


@dataclass
class Stage:
    """One run of so many letters. `acts` are done before the step that they are keyed by, once
    each; `broken` says how often a step raises; `outcome` is what becomes of a letter."""

    clock: Clock
    letters: int = 60
    replay: ReplayPlan = PLAN
    runs: RunsInMemory = field(default_factory=RunsInMemory)
    acts: dict[str, list[Act]] = field(default_factory=dict)
    broken: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[ReplayOutcome] = field(default_factory=Counter)
    outcome: Callable[[int], ReplayOutcome] = lambda _number: ReplayOutcome.RECOVERED
    metrics: Counter[str] = field(default_factory=Counter)
    took: list[str] = field(default_factory=list)
    workers: list[tuple[int, int]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    lasted: list[float] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    passes: list[Taken] = field(default_factory=list)
    lost: int = 0
    unwell: str = ""
    became: list[str] = field(default_factory=list)
    approve_above: int | None = None
    moves: bool = True
    token: str = ""
    answer: ApprovalAnswer | None = None
    asked: bool | None = None
    left: int = 0
    states: list[str] = field(default_factory=list)

    def build(self) -> None:
        trust = {
            "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}}]
        }
        client("iam").create_role(RoleName="any", AssumeRolePolicyDocument=json.dumps(trust))
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("nothing.py", "")
        arn = client("lambda").create_function(
            FunctionName="replay",
            Runtime="python3.13",
            Role=ROLE,
            Handler="nothing.handler",
            Code={"ZipFile": packed.getvalue()},
        )["FunctionArn"]
        self.text = DEFINITION.read_text().replace("${ReplayFunctionArn}", arn)
        self.deploy("replay", self.text)
        self.outcomes[ReplayOutcome.OPEN] = self.letters
        self.store(ReplayRun(id=self.replay.run_id, pipeline="orders", created=self.clock()))

    def deploy(self, name: str, text: str) -> None:
        self.machine = client("stepfunctions").create_state_machine(
            name=name, definition=text, roleArn=ROLE
        )["stateMachineArn"]
        self.executions = StepFunctionsReplays(lambda: client("stepfunctions"), self.machine)

    def store(self, run: ReplayRun) -> None:
        self.runs.items[run.id] = run

    @property
    def run(self) -> ReplayRun:
        return self.runs.items[self.replay.run_id]

    @property
    def steps(self) -> ReplaySteps:
        return ReplaySteps(
            ReplaySetup(
                moves=self.moves,
                runs=self.runs,
                plans=self,
                executions=self.executions,
                evidence=lambda _run, _plan: RunEvidence(
                    outcomes=dict(self.outcomes), unwell=self.unwell
                ),
                snapshot=lambda *_: self.passes.pop(0) if self.passes else Taken(True),
                freeze=lambda *_: Frozen(self.letters, "hash"),
                work=self._work,
                leave=self._leave,
                reconcile=lambda *_: RunSum(
                    {outcome.name: number for outcome, number in self.outcomes.items()}, self.lost
                ),
                clock=self.clock,
                approve_above=self.approve_above,
            )
        )

    # The plans.

    def plan(self, run: str) -> ReplayPlan | None:
        return self.replay if run in self.runs.items else None

    def keep_answer(self, _run: str, answer: ApprovalAnswer) -> None:
        self.answer = answer

    def keep_asked(self, _run: str, *, asked: bool) -> None:
        self.asked, self.answer = asked, None

    def approval(self, _run: str) -> RunApproval:
        return RunApproval(self.asked, self.answer)

    def keep_token(self, _run: str, token: str) -> None:
        self.token = token

    # What the steps do.

    def _work(
        self, run: ReplayRun, plan: ReplayPlan, worker: int, of: int, deadline: float
    ) -> Mapping[str, Any]:
        self.workers.append((worker, of))
        self.lasted.append(deadline - self.clock())
        share = run.allowance if run.state is RunState.CANARY else 25
        sent = min(share, self.outcomes[ReplayOutcome.OPEN])
        for number in range(sent):
            self.outcomes[ReplayOutcome.OPEN] -= 1
            self.outcomes[self.outcome(number)] += 1
        if run.state is RunState.CANARY:
            self.store(replace(self.run, allowance=run.allowance - sent))
        self.clock.now = max(self.clock.now, deadline)
        self.sent.append(sent)
        return {"sent": sent}

    def _leave(self, *_arguments: Any) -> bool:
        self.left = self.outcomes.pop(ReplayOutcome.OPEN, 0)
        self.outcomes[ReplayOutcome.LEFT] += self.left
        return True

    def invoke(self, body: Any, answer: dict[str, str]) -> bytes:
        """What moto's Lambda does instead of nothing: take the step."""
        event = json.loads(body or "{}")
        step = event["step"]
        self.took.append(step)
        for act in self.acts.pop(step, []):
            act(self)
        try:
            if self.broken[step] > 0:
                self.broken[step] -= 1
                raise RuntimeError("as planted")
            return json.dumps(self.steps.take(replay_event(event), self.clock() + 900)).encode()
        # Whatever a function raises, Lambda makes an answer of it.
        except Exception as error:
            answer["x-amz-function-error"] = "Unhandled"
            said = {"errorMessage": str(error), "errorType": type(error).__name__}
            return json.dumps(said).encode()

    # What a test does and looks at.

    def execute(self, run: ReplayRun | None = None) -> str:
        """Have an execution run to its end, the present one unless given; returns its status."""
        # A start adds the execution's own thread; those of its states follow, and end before it.
        before, run = len(TMP_THREADS), run or self.run
        self.executions.start(run)
        for thread in TMP_THREADS[before : before + 1]:
            thread.join(60)
        return self.status(run.execution)

    def status(self, name: str) -> str:
        arn = self.machine.replace(":stateMachine:", ":execution:") + f":{name}"
        entered = [event for event in history(arn) if event["type"].endswith("StateEntered")]
        self.states = [event["stateEnteredEventDetails"]["name"] for event in entered]
        return str(client("stepfunctions").describe_execution(executionArn=arn)["status"])

    def care(self, *waiting: str) -> Care:
        """One minute of the watch, and the executions that it starts, to their ends."""
        before = len(TMP_THREADS)
        keeper = RunsKeeper(
            pipeline="orders",
            runs=self.runs,
            executions=self.executions,
            clock=self.clock,
            count_metric=lambda name, number: self.metrics.update({name: number}),
        )
        care = keeper.care(waiting)
        for thread in TMP_THREADS[before : before + 1]:
            thread.join(60)
        assert care.failed == ()
        return care


@pytest.fixture
def stage(mocked: Any, monkeypatch: pytest.MonkeyPatch) -> Stage:
    mocked.reset()
    staged = Stage(Clock())

    def wait(_self: Any, env: Any, wait_seconds: int) -> None:
        staged.waits.append(wait_seconds)
        staged.clock.advance(wait_seconds)
        for act in staged.acts.pop("wait", []):
            act(staged)

    def invoke(
        _self: Any, _name: Any, _qualifier: Any, body: Any, _headers: Any, answer: Any
    ) -> bytes:
        return staged.invoke(body, answer)

    monkeypatch.setattr(WaitFunction, "_wait_interval", wait)
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=staged.clock.advance))
    monkeypatch.setattr(LambdaSimpleBackend, "invoke", invoke)
    monkeypatch.setattr(lambda_eval_utils, "boto_client_for", lambda service, **_: client(service))
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    staged.build()
    return staged


def test_a_run_goes_through_canaries_and_ramp_to_its_report(stage: Stage) -> None:
    assert stage.execute() == "SUCCEEDED"
    assert stage.runs.states == [
        *(RunState.MOVING, RunState.CANARY, RunState.RUNNING, RunState.DONE),
    ]
    assert stage.states[-1] == "Done"
    assert stage.run.left
    assert stage.outcomes[ReplayOutcome.RECOVERED] == 60
    # Four canaries, and what is left in two steps of the ramp.
    assert stage.took.count("work") == 6


def test_no_letter_is_in_an_execution_only_words_and_numbers(stage: Stage) -> None:
    stage.execute()
    events = client("stepfunctions").get_execution_history(
        executionArn=stage.machine.replace(":stateMachine:", ":execution:") + f":{ID}-0"
    )["events"]
    inputs = [
        event["stateEnteredEventDetails"]["input"]
        for event in events
        if "Entered" in str(event["type"]) and "stateEnteredEventDetails" in event
    ]
    for text in inputs:
        assert set(json.loads(text)) <= {"run", "step", "failure", "approval"}


def test_a_source_that_another_function_drains_is_tried_again(stage: Stage) -> None:
    stage.passes = [Taken(False, busy=True), Taken(False), Taken(True)]
    assert stage.execute() == "SUCCEEDED"
    assert stage.took.count("snapshot") == 3
    assert stage.waits == [15]


def test_an_empty_snapshot_ends_at_once(stage: Stage) -> None:
    stage.letters = 0
    stage.outcomes.clear()
    assert stage.execute() == "SUCCEEDED"
    assert stage.runs.states[-1] is RunState.DONE
    assert "work" not in stage.took


def test_a_fast_run_has_several_workers_and_each_has_its_number(stage: Stage) -> None:
    stage.replay = replace(PLAN, rate=310.0, canary=())
    stage.store(replace(stage.runs.items.pop(ID), id=stage.replay.run_id))
    assert stage.execute() == "SUCCEEDED"
    assert sorted(set(stage.workers)) == [(number, 4) for number in range(4)]


def test_a_step_of_the_ramp_is_judged_sooner_than_what_follows_it(stage: Stage) -> None:
    stage.letters = 150
    stage.replay = replace(PLAN, canary=(1,), ramp=(0.5, 1.0), ramp_seconds=45.0)
    stage.outcomes[ReplayOutcome.OPEN] = 150
    stage.store(replace(stage.runs.items.pop(ID), id=stage.replay.run_id))
    assert stage.execute() == "SUCCEEDED"
    canary, ramp, *after = map(round, stage.lasted)
    assert (canary, ramp, set(after)) == (20, 45, {120})


def test_a_worker_that_fails_is_tolerated(stage: Stage) -> None:
    """The next step takes what it left: on AWS no other worker is stopped for it."""
    stage.broken.update(work=MORE_THAN_RETRIES)
    assert stage.execute() == "SUCCEEDED"
    assert stage.run.state is RunState.DONE
    assert stage.outcomes[ReplayOutcome.RECOVERED] == 60


def test_a_canary_that_fails_holds_the_run_until_a_person_resumes_it(stage: Stage) -> None:
    stage.outcome = lambda _number: ReplayOutcome.PARKED

    def resume(stage: Stage) -> None:
        stage.outcome = lambda _number: ReplayOutcome.RECOVERED
        assert stage.run.because.startswith("1 of 1 failed")
        stage.runs.change(stage.run, resumed(stage.run, at=stage.clock(), by="ada"))

    stage.acts["wait"] = [resume]
    assert stage.execute() == "SUCCEEDED"
    assert stage.runs.states[2:4] == [RunState.HELD, RunState.CANARY]
    assert stage.outcomes[ReplayOutcome.PARKED] == 1
    assert stage.run.state is RunState.DONE


DOWN = "the health URL answers HTTP 503"


def resume_twice(stage: Stage) -> None:
    """A person resumes a held run at once, and then after the page is green again."""

    def resume(stage: Stage, unwell: str) -> None:
        stage.became.append(stage.run.because)
        stage.unwell = unwell
        stage.runs.change(stage.run, resumed(stage.run, at=stage.clock(), by="ada"))

    def first(stage: Stage) -> None:
        resume(stage, DOWN)
        stage.acts["wait"] = [lambda stage: resume(stage, "")]

    stage.acts["wait"] = [first]


def test_a_health_url_that_is_red_at_the_start_holds_the_run_before_it_takes_a_letter(
    stage: Stage,
) -> None:
    stage.unwell = DOWN
    resume_twice(stage)
    assert stage.execute() == "SUCCEEDED"
    assert stage.runs.states[:5] == [
        *(RunState.HELD, RunState.PLANNED, RunState.HELD, RunState.PLANNED, RunState.MOVING)
    ]
    assert stage.became == [f"the dependency is down: {DOWN}"] * 2
    assert stage.outcomes[ReplayOutcome.RECOVERED] == 60


@pytest.mark.parametrize(("steps", "sent"), [(1, 1), (3, 8), (5, 53)])
def test_a_health_url_that_turns_red_holds_the_run_in_the_canary_and_in_mid_run(
    stage: Stage, steps: int, sent: int
) -> None:
    """After that step nothing is sent. A person who resumes the run finds it HELD again, once."""
    work = stage._work

    def turn_red(*arguments: Any) -> Mapping[str, Any]:
        done = work(*arguments)
        if stage.took.count("work") == steps:
            stage.unwell = DOWN
            resume_twice(stage)
        return done

    stage._work = turn_red  # type: ignore[method-assign] - the page turns red while it works
    assert stage.execute() == "SUCCEEDED"
    assert stage.runs.states.count(RunState.HELD) == 2
    assert stage.became == [f"the dependency is down: {DOWN}"] * 2
    assert stage.outcomes[ReplayOutcome.RECOVERED] == 60
    works = [at for at, step in enumerate(stage.took) if step == "work"]
    # Judged red, red again after the resume, and green: three looks before the next work.
    assert stage.took[works[steps - 1] : works[steps]].count("judge") >= 3
    assert sum(stage.sent[:steps]) == sent


def test_a_run_that_is_aborted_sends_nothing_more_and_its_letters_leave(stage: Stage) -> None:
    def abort(stage: Stage) -> None:
        after = aborted(stage.run, at=stage.clock(), by="ada", because="wrong letters")
        stage.runs.change(stage.run, after)

    stage.acts["work"] = [lambda _stage: None]
    stage.acts["judge"] = [lambda stage: stage.acts.update(judge=[abort])]
    assert stage.execute() == "SUCCEEDED"
    assert stage.run.state is RunState.ABORTED
    assert (stage.run.by, stage.run.left) == ("ada", True)
    assert stage.left == stage.outcomes[ReplayOutcome.LEFT] > 0
    assert (
        stage.states[-4:] == ["Reconcile", "Route", "Judge", "Route"] or stage.states[-1] == "Done"
    )


def test_a_sum_that_is_not_the_snapshot_breaks_the_run_and_pages(stage: Stage) -> None:
    stage.lost = 2
    assert stage.execute() == "SUCCEEDED"
    assert stage.run.state is RunState.BROKEN
    assert stage.run.because == "2 of 60 messages have no outcome"
    assert stage.care().broken == (ID,)
    assert stage.metrics == {}
    # A person has seen it, and has it parked what is left.
    after = aborted(stage.run, at=stage.clock(), by="ada", because="seen")
    stage.runs.change(stage.run, after)
    stage.metrics.clear()
    stage.clock.advance(START_SECONDS)
    stage.care()
    assert (stage.run.state, stage.run.left) == (RunState.ABORTED, True)
    assert stage.metrics == {"ReplayRestarted": 1}


# Approval.


def answer(stage: Stage, **words: Any) -> None:
    client("stepfunctions").send_task_success(taskToken=stage.token, output=json.dumps(words))


def asked(stage: Stage, act: Act) -> None:
    """Have something done once the token is kept."""
    keep = stage.keep_token

    def kept(run: str, token: str) -> None:
        keep(run, token)
        act(stage)

    stage.keep_token = kept  # type: ignore[method-assign] - a person sees the token here


def test_no_approval_is_asked_for_as_many_letters_as_need_none(stage: Stage) -> None:
    stage.approve_above = stage.letters
    asked(stage, lambda stage: answer(stage, approved=True, by="grace", because=""))
    assert stage.execute() == "SUCCEEDED"
    assert RunState.WAITING_APPROVAL not in stage.runs.states


def test_an_approved_run_goes_on_and_remembers_who_and_why(stage: Stage) -> None:
    stage.approve_above = 59
    words = {"approved": True, "by": "grace", "because": "the fix is out"}
    asked(stage, lambda stage: answer(stage, **words))
    assert stage.execute() == "SUCCEEDED"
    assert stage.runs.states[1:3] == [RunState.WAITING_APPROVAL, RunState.CANARY]
    assert stage.answer == ApprovalAnswer(True, "grace", "the fix is out")
    assert stage.run.state is RunState.DONE


def test_a_refused_run_sends_nothing(stage: Stage) -> None:
    stage.approve_above = 59
    asked(stage, lambda stage: answer(stage, approved=False, by="grace", because="not today"))
    assert stage.execute() == "SUCCEEDED"
    assert stage.run.state is RunState.ABORTED
    assert (stage.run.by, stage.run.because) == ("grace", "not today")
    assert stage.answer == ApprovalAnswer(False, "grace", "not today")
    assert "work" not in stage.took
    assert stage.left == 60


def test_an_approval_that_nobody_gives_lapses(stage: Stage) -> None:
    stage.approve_above = 59
    # moto waits by the real clock: a day that lasts a second.
    stage.deploy("hasty", stage.text.replace(str(APPROVAL_DAYS * DAY), "1"))
    assert stage.execute() == "SUCCEEDED"
    assert "Lapse" in stage.states
    assert stage.run.state is RunState.ABORTED
    assert stage.run.because == "nobody approved it within 1 day"
    assert "work" not in stage.took


def test_a_run_that_was_aborted_before_it_was_asked_does_not_wait(stage: Stage) -> None:
    stage.approve_above = 59
    asked(
        stage,
        lambda stage: stage.runs.change(
            stage.run, aborted(stage.run, at=stage.clock(), by="ada", because="")
        ),
    )
    assert stage.execute() == "SUCCEEDED"
    assert stage.run.state is RunState.ABORTED
    assert stage.states[-1] == "Done"


def test_an_error_of_the_function_that_waits_for_a_token_is_tried_again(stage: Stage) -> None:
    """MiniStack swallows it and waits; moto and Step Functions do not."""
    stage.approve_above = 59
    stage.broken.update(approval=2)
    asked(stage, lambda stage: answer(stage, approved=True))
    assert stage.execute() == "SUCCEEDED"
    assert stage.took.count("approval") == 3
    assert stage.run.state is RunState.DONE


def test_an_approval_that_cannot_be_asked_ends_the_execution_and_not_the_run(stage: Stage) -> None:
    stage.approve_above = 59
    stage.broken.update(approval=MORE_THAN_RETRIES)
    assert stage.execute() == "FAILED"
    assert stage.run.state is RunState.WAITING_APPROVAL
    asked(stage, lambda stage: answer(stage, approved=True))
    stage.clock.advance(START_SECONDS)
    stage.care()
    assert stage.run.state is RunState.DONE


# Executions that are lost, and those that come too late.


STEPS = ("preflight", "snapshot", "freeze", "judge", "reconcile", "leave")


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_now_and_then_is_tried_again(stage: Stage, step: str) -> None:
    stage.broken.update({step: 2})
    assert stage.execute() == "SUCCEEDED"
    assert stage.run.state is RunState.DONE


@pytest.mark.parametrize("step", STEPS)
def test_a_lost_execution_is_continued_by_the_watch(stage: Stage, step: str) -> None:
    stage.broken.update({step: MORE_THAN_RETRIES})
    assert stage.execute() == "FAILED"
    assert stage.states[-1] == "RunLost"
    stage.clock.advance(START_SECONDS)
    assert stage.care().restarted == (ID,)
    assert (stage.run.restart, stage.run.state, stage.run.left) == (1, RunState.DONE, True)
    assert stage.metrics == {"ReplayRestarted": 1}
    assert stage.outcomes[ReplayOutcome.RECOVERED] == 60
    # What has ended is left alone.
    stage.clock.advance(START_SECONDS)
    stage.metrics.clear()
    stage.care()
    assert not stage.metrics


def test_an_execution_that_is_no_longer_the_runs_own_hands_over(stage: Stage) -> None:
    first = stage.run
    stage.store(replace(first, restart=1))
    assert stage.execute(first) == "SUCCEEDED"
    assert stage.states[-1] == "HandOver"
    assert stage.run == replace(first, restart=1)


def test_after_so_many_rounds_a_new_execution_goes_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deadletter.replay.machine.MOST_LOOPS", 3)
    before = len(TMP_THREADS)
    assert stage.execute() == "SUCCEEDED"
    assert stage.states[-1] == "HandOver"
    started = before + 1
    while started < len(TMP_THREADS):
        TMP_THREADS[started].join(60)
        started += 1
    assert stage.run.restart > 1
    assert (stage.run.state, stage.run.left) == (RunState.DONE, True)


def test_two_starts_of_one_run_are_one_execution(stage: Stage) -> None:
    stage.execute()
    stage.executions.start(replace(stage.run, restart=0))
    found = client("stepfunctions").list_executions(stateMachineArn=stage.machine)
    assert len([item for item in found["executions"] if item["name"] == f"{ID}-0"]) == 1


def test_an_unknown_run_ends_without_a_word(stage: Stage) -> None:
    assert stage.execute(ReplayRun(id="nobody", pipeline="orders")) == "SUCCEEDED"
    assert stage.states == ["Preflight", "Route", "Done"]


def test_a_plan_that_was_changed_after_the_start_is_not_run(stage: Stage) -> None:
    other = replace(PLAN, rate=1_000.0)
    stage.store(replace(stage.run, id=ID))
    plan: Any = lambda _run: other  # noqa: E731 - a port of one method
    stage.plan = plan  # type: ignore[method-assign] - another plan than the stored one
    assert stage.execute() == "SUCCEEDED"
    assert stage.run.state is RunState.ABORTED
    assert stage.run.because == "the stored plan is not the one that was started"


def test_an_unknown_answer_is_a_lost_execution(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "deadletter.replay.machine._continued",
        lambda *_, **__: {
            "next": "fly",
            "state": "",
            "wait_seconds": 1,
            "loops": 0,
            "workers": [],
        },
    )
    assert stage.execute() == "FAILED"
    assert stage.states == ["Preflight", "Route", "RunLost"]


def test_a_run_that_is_held_for_long_is_looked_at_every_five_minutes(stage: Stage) -> None:
    stage.store(
        held(
            replace(stage.run, state=RunState.CANARY, messages=60),
            at=stage.clock(),
            by="ada",
            because="",
        )
    )
    plan = replace(PLAN, expires=stage.clock() + 3_600)
    stage.replay = plan
    stage.runs.items[plan.run_id] = replace(stage.runs.items.pop(ID), id=plan.run_id)
    assert stage.execute() == "SUCCEEDED"
    assert max(stage.waits) == 300
    assert len(stage.waits) < 30
    assert stage.run.because == "the run has expired"
    assert "work" not in stage.took


def test_letters_of_a_run_whose_item_is_lost_leave_its_lane(stage: Stage) -> None:
    stage.runs.items.clear()
    stage.replay = replace(PLAN, pipeline="gone")
    run = stage.replay.run_id
    stage.care(run)
    assert (stage.run.state, stage.run.left, stage.left) == (RunState.ABORTED, True, 60)
    assert stage.run.because == "its item was lost"


def test_letters_that_come_back_after_the_end_leave_the_lane_too(stage: Stage) -> None:
    stage.execute()
    stage.outcomes[ReplayOutcome.OPEN] = 1
    stage.clock.advance(START_SECONDS)
    # An execution that starts for what came back is not one that was lost.
    assert stage.care(ID).restarted == ()
    assert stage.metrics["ReplayRestarted"] == 1
    assert stage.left == 1
    assert stage.run.state is RunState.DONE


def test_an_execution_that_still_waits_for_a_decision_that_was_made_is_replaced() -> None:
    """The person's command has written the run, and ended before it answered the token."""
    run = ReplayRun(id="r", pipeline="orders", changed=1_000.0)
    late = 1_001.0 + STUCK_SECONDS
    for state in (RunState.CANARY, RunState.ABORTED):
        assert is_stuck(replace(run, state=state), late)
        assert not is_stuck(replace(run, state=state, started=late - 1), late)
    assert not is_stuck(replace(run, state=RunState.CANARY, step_began=1_000.0), late)
    assert not is_stuck(replace(run, state=RunState.ABORTED, left=True), late)
    assert not is_stuck(replace(run, state=RunState.WAITING_APPROVAL), late)


# What a person who may write the run's item can't do.


def test_a_run_that_was_never_approved_asks_although_its_item_says_that_it_may_send(
    stage: Stage,
) -> None:
    """Who holds and resumes runs writes their items, and could give himself what he asked for."""
    stage.approve_above = 59
    stage.asked = True
    now = stage.clock()
    forged = replace(stage.run, state=RunState.CANARY, generation=4, messages=60, changed=now)
    stage.store(forged)
    asked(stage, lambda stage: answer(stage, approved=False, by="grace", because="who was that?"))
    assert stage.execute() == "SUCCEEDED"
    assert stage.runs.states == [RunState.WAITING_APPROVAL, RunState.ABORTED]
    assert "work" not in stage.took
    assert stage.run.by == "grace"


def test_a_worker_sends_nothing_for_a_run_that_nobody_has_approved(stage: Stage) -> None:
    stage.asked = True
    stage.store(replace(stage.run, state=RunState.RUNNING, messages=60))
    event = {"step": "work", "run": ID, "execution": stage.run.execution}
    assert "approval" in stage.steps.take(replay_event(event), 900.0)["stopped"]
    stage.keep_answer(ID, ApprovalAnswer(True, "grace", "checked"))
    assert stage.steps.take(replay_event(event), 900.0) == {"sent": 25}


def test_a_worker_of_a_held_run_or_of_another_execution_sends_nothing(stage: Stage) -> None:
    stage.asked = False
    running = replace(stage.run, state=RunState.RUNNING, messages=60)
    stage.store(running)
    event = {"step": "work", "run": ID, "execution": "another"}
    assert "stopped" in stage.steps.take(replay_event(event), 900.0)
    stage.store(held(running, at=stage.clock(), by="ann", because="wait"))
    event = {"step": "work", "run": ID, "execution": stage.run.execution}
    assert "HELD" in stage.steps.take(replay_event(event), 900.0)["stopped"]
    assert stage.outcomes[ReplayOutcome.OPEN] == 60


def test_a_run_of_a_pipeline_that_only_observes_is_aborted_and_takes_no_letter(
    stage: Stage,
) -> None:
    stage.moves = False
    assert stage.execute() == "SUCCEEDED"
    assert stage.run.state is RunState.ABORTED
    assert "observe" in stage.run.because
    assert not {"snapshot", "work"} & set(stage.took)


def test_an_answer_on_record_counts_although_the_question_has_lapsed(stage: Stage) -> None:
    stage.asked, stage.answer = True, ApprovalAnswer(True, "grace", "checked")
    stage.store(replace(stage.run, state=RunState.WAITING_APPROVAL, messages=60))
    event = {"step": "lapse", "run": ID, "execution": stage.run.execution}
    stage.steps.take(replay_event(event), 900.0)
    assert (stage.run.state, stage.run.approved_by) == (RunState.CANARY, "grace")
    stage.answer = None
    stage.store(replace(stage.run, state=RunState.HELD))
    stage.steps.take(replay_event(event), 900.0)
    assert stage.run.state is RunState.HELD


def test_an_event_that_names_no_loops_is_the_first_of_them() -> None:
    event = {"step": "judge", "run": ID, "execution": "one"}
    assert (replay_event(event).loops, replay_event(event).worker) == (0, 0)
    with pytest.raises(BadStep, match="a whole number"):
        replay_event({**event, "loops": "1"})


@pytest.mark.parametrize("step", ["judge", "snapshot", "freeze", "work"])
def test_a_run_whose_plan_is_another_one_meanwhile_sends_nothing_more(
    stage: Stage, step: str
) -> None:
    stage.asked = False
    stage.store(replace(stage.run, state=RunState.RUNNING, messages=60))
    stage.plan = lambda _run: None  # type: ignore[method-assign] - as the store answers then
    event = {"step": step, "run": ID, "execution": stage.run.execution}
    stage.steps.take(replay_event(event), 900.0)
    assert stage.outcomes[ReplayOutcome.OPEN] == 60
    assert stage.run.state is (RunState.RUNNING if step == "work" else RunState.ABORTED)


def test_who_approved_a_run_stands_in_its_item_to_the_end(stage: Stage) -> None:
    stage.approve_above = 59
    asked(stage, lambda stage: answer(stage, approved=True, by="grace", because="checked"))
    stage.execute()
    assert (stage.run.state, stage.run.approved_by, stage.run.by) == (
        *(RunState.DONE, "grace", "replay"),
    )


def test_an_answer_that_came_before_its_question_is_found(stage: Stage) -> None:
    stage.approve_above = 59
    keep = stage.keep_asked

    def answered_at_once(run: str, *, asked: bool) -> None:
        keep(run, asked=asked)
        stage.keep_answer(run, ApprovalAnswer(True, "grace", "checked"))

    stage.keep_asked = answered_at_once  # type: ignore[method-assign] - a very fast person
    assert stage.execute() == "SUCCEEDED"
    assert stage.run.state is RunState.DONE
    assert stage.run.approved_by == "grace"
