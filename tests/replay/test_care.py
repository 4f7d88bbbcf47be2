"""The watch keeps replay runs going: which executions it starts, and what it says of the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from deadletter.replay.care import Care, RunsKeeper, is_stuck, needs_execution
from deadletter.replay.run import ReplayRun, RunRefused, RunState, RunsUnavailable
from deadletter.signals.figures import Count
from deadletter.testing.clock import START, Clock
from tests.each_row import each_row

LONG_AGO = START - 3_600.0


class Account:
    """The items of runs and their executions; `fails` has the error that each call answers."""

    def __init__(self, *runs: ReplayRun) -> None:
        self.items = {run.id: run for run in runs}
        self.names: set[str] = set()
        self.started: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.metrics: Counter[str] = Counter()
        self.clock = Clock()

    def _answers(self, call: str) -> None:
        if call in self.fails:
            raise self.fails[call]

    def read(self, run: str) -> ReplayRun | None:
        return self.items.get(run)

    def all(self) -> Sequence[ReplayRun]:
        self._answers("all")
        return tuple(self.items.values())

    def create(self, run: ReplayRun) -> ReplayRun:
        self._answers(f"create {run.id}")
        return self.items.setdefault(run.id, run)

    def change(self, before: ReplayRun, after: ReplayRun) -> None:
        self._answers(f"change {after.id}")
        self.items[after.id] = after

    def running(self) -> set[str]:
        self._answers("running")
        return self.names

    def start(self, run: ReplayRun) -> None:
        self._answers(f"start {run.id}")
        self.started.append(run.execution)

    def care(self, *waiting: str) -> Care:
        account: Any = self
        return RunsKeeper(
            pipeline="orders",
            runs=account,
            executions=account,
            clock=self.clock,
            count_metric=lambda name, number: self.metrics.update({name: number}),
        ).care(waiting)


def run(id_: str, state: RunState = RunState.RUNNING, **fields: Any) -> ReplayRun:
    known = {"created": LONG_AGO, "step_began": LONG_AGO, **fields}
    return ReplayRun(id=id_, pipeline="orders", state=state, **known)


def test_the_executions_that_are_lost_are_started_and_no_other() -> None:
    account = Account(
        run("lost", restart=2, generation=7),
        run("goes on"),
        run("new", created=START - 59.0),
        run("started", started=START - 59.0),
        run("held", RunState.HELD, created=START - 60.0),
        run("ended", RunState.DONE, left=True),
        run("leaving", RunState.DONE),
        run("letters", RunState.ABORTED, left=True),
        run("broken", RunState.BROKEN),
    )
    account.names = {"goes on-0"}
    care = account.care("letters", "broken")
    assert account.started == ["lost-3", "held-1", "leaving-1", "letters-1"]
    # A run that had ended is no lost one, though letters came back to its lane.
    assert care == Care(
        broken=("broken",),
        moving=("lost", "goes on", "new", "started"),
        restarted=("lost", "held", "leaving"),
    )
    lost = account.items["lost"]
    assert (lost.restart, lost.generation, lost.started) == (3, 8, START)
    assert not account.items["letters"].left
    assert account.metrics == {Count.REPLAY_RESTARTED: 4}


def test_of_runs_that_need_no_execution_none_is_looked_for() -> None:
    account = Account(run("ended", RunState.DONE, left=True))
    account.fails["running"] = RunsUnavailable("throttled")
    assert account.care() == Care()


def test_letters_of_a_run_whose_item_is_lost_leave_as_those_of_an_aborted_one() -> None:
    account = Account()
    assert account.care("b", "a") == Care(restarted=("a", "b"))
    lost = account.items["a"]
    assert (lost.state, lost.by, lost.because) == (RunState.ABORTED, "replay", "its item was lost")
    assert (lost.pipeline, lost.changed, account.started) == ("orders", START, ["a-1", "b-1"])


@each_row(
    ("fails", "failed", "restarted"),
    [
        ({"change a": RunRefused("changed meanwhile")}, (), ("b",)),
        ({"change a": RunsUnavailable("throttled")}, ("throttled",), ("b",)),
        ({"start a": RunsUnavailable()}, ("RunsUnavailable",), ("a", "b")),
        ({"running": RunsUnavailable("throttled")}, ("throttled",), ()),
        ({"create c": RunsUnavailable("a bad row")}, ("a bad row",), ("a", "b")),
        (
            {"create c": RunsUnavailable("bad"), "running": RunsUnavailable("no")},
            ("bad", "no"),
            (),
        ),
        (
            {"create c": RunsUnavailable("bad"), "start b": RunsUnavailable("no")},
            ("bad", "no"),
            ("a", "b"),
        ),
    ],
)
def test_what_fails_for_one_run_is_said_and_the_others_are_started(
    fails: dict[str, Exception], failed: tuple[str, ...], restarted: tuple[str, ...]
) -> None:
    account = Account(run("a"), run("b"))
    account.fails = fails
    care = account.care(*(["c"] if "create c" in fails else []))
    assert care == Care(moving=("a", "b"), restarted=restarted, failed=failed)


def test_runs_that_cannot_be_read_are_not_known() -> None:
    account = Account(run("a"))
    account.fails["all"] = RunsUnavailable("throttled")
    assert account.care("b") == Care(known=False, failed=("throttled",))


@each_row(
    ("state", "left", "waits", "needs"),
    [
        (RunState.PLANNED, True, False, True),
        (RunState.HELD, True, False, True),
        (RunState.ABORTED, False, False, True),
        (RunState.DONE, True, False, False),
        (RunState.DONE, True, True, True),
        (RunState.BROKEN, False, True, False),
    ],
)
def test_a_run_needs_an_execution_while_it_is_live_or_letters_are_in_its_lane(
    state: RunState, left: bool, waits: bool, needs: bool
) -> None:
    assert needs_execution(run("a", state, left=left), {"a"} if waits else {"b"}) is needs


@each_row(
    ("fields", "after", "stuck"),
    [
        ({"state": RunState.ABORTED}, 601.0, True),
        ({"state": RunState.ABORTED}, 600.0, False),
        ({"state": RunState.ABORTED, "left": True}, 601.0, False),
        ({"state": RunState.CANARY, "step_began": 0.0}, 601.0, True),
        ({"state": RunState.CANARY}, 601.0, False),
        ({"state": RunState.HELD, "step_began": 0.0}, 601.0, False),
    ],
)
def test_an_execution_that_ignores_a_decision_for_ten_minutes_is_stuck(
    fields: dict[str, Any], after: float, stuck: bool
) -> None:
    for name in ("changed", "started"):
        assert is_stuck(run("a", **fields, **{name: START}), START + after) is stuck


def test_a_run_with_a_stuck_execution_gets_another_one() -> None:
    account = Account(run("a", RunState.ABORTED, changed=LONG_AGO))
    account.names = {"a-0"}
    assert account.care().restarted == ("a",)
