"""The state of a replay run: which changes it may go through, and what each of them leaves."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product

import pytest

from deadletter.replay.run import ReplayRun, RunRefused, RunState, aborted, held, moved_to, resumed
from tests.each_row import each_row

P, M, W, C, R, H, A, D, B = RunState

# Each state, and those that may follow it.
FOLLOWING = {
    P: {M, H, A},
    M: {W, C, H, A, B},
    W: {C, A},
    C: {W, C, R, H, A, D, B},
    R: {W, R, H, A, D, B},
    H: {P, M, C, R, A},
    A: {A, B},
    D: {B},
    B: {A},
}


def run_in(state: RunState) -> ReplayRun:
    return ReplayRun(
        id="r",
        pipeline="orders",
        state=state,
        generation=7,
        resume_to=RunState.RUNNING,
        step_began=5.0,
        left=True,
        because="earlier",
        by="bob",
    )


def test_a_run_begins_with_nothing_sent_granted_or_known() -> None:
    run = asdict(ReplayRun(id="r", pipeline="orders"))
    assert {name: value for name, value in run.items() if value} == {
        "id": "r",
        "pipeline": "orders",
        "state": P,
        "resume_to": C,
        "burst": 1,
        "leave_to": "parked",
    }


def test_a_run_goes_from_each_state_to_those_that_follow_it_and_to_no_other() -> None:
    for before, after in product(RunState, RunState):
        if after not in FOLLOWING[before]:
            with pytest.raises(RunRefused, match=f"is {before} and cannot become {after}"):
                moved_to(run_in(before), after, at=9.0, by="ada")
            continue
        run = moved_to(run_in(before), after, at=9.0, by="ada", because="now")
        assert (run.state, run.generation, run.changed) == (after, 8, 9.0)
        assert (run.by, run.because) == ("ada", "now")
        assert run.resume_to is (before if after is RunState.HELD else RunState.RUNNING)
        assert moved_to(run_in(before), after, at=9.0, by="ada").because == ""


@each_row(
    ("state", "live", "sends"),
    [
        *((state, True, False) for state in (P, M, W, H)),
        *((state, True, True) for state in (C, R)),
        *((state, False, False) for state in (A, D, B)),
    ],
)
def test_a_run_is_live_until_its_end_and_sends_in_two_states(
    state: RunState, live: bool, sends: bool
) -> None:
    assert (run_in(state).is_live, run_in(state).may_send) == (live, sends)


@each_row("state", [P, M, C, R])
def test_a_held_run_resumes_where_it_was_and_its_step_begins_anew(state: RunState) -> None:
    stopped = held(run_in(state), at=8.0, by="ada", because="wait")
    assert (stopped.state, stopped.because, stopped.generation) == (H, "wait", 8)
    run = resumed(stopped, at=9.0, by="ann", because="mended")
    assert (run.state, run.step_began, run.resumed_at, run.resumed_in) == (state, 0.0, 9.0, 9)
    assert (run.generation, run.by, run.because) == (9, "ann", "mended")
    assert resumed(stopped, at=9.0, by="ann").because == ""


@each_row("state", [state for state in RunState if state is not H])
def test_only_a_held_run_can_be_resumed(state: RunState) -> None:
    with pytest.raises(RunRefused, match="only a HELD run can be resumed"):
        resumed(run_in(state), at=9.0, by="ann")


def test_a_run_is_aborted_once_and_then_leaves_its_lane() -> None:
    run = aborted(run_in(C), at=9.0, by="ann", because="wrong letters", leave_to="schedule")
    assert (run.state, run.leave_to, run.left) == (A, "schedule", False)
    assert (run.because, run.changed, run.generation) == ("wrong letters", 9.0, 8)
    assert aborted(run_in(C), at=9.0, by="ann", because="").leave_to == "parked"
    with pytest.raises(RunRefused, match="is ABORTED already"):
        aborted(run, at=9.0, by="ann", because="wrong letters")
