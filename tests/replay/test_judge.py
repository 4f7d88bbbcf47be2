"""What a replay run does next, by its item, its plan and what is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deadletter.redrive.waiting_room import SHARDS
from deadletter.replay.judge import (
    ReplayNext,
    RunEvidence,
    RunVerdict,
    begun,
    judged,
)
from deadletter.replay.machine import workers_for
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import ReplayRun, RunState, aborted, held, moved_to, resumed
from deadletter.replay.ticket import ReplayOutcome
from tests.each_row import each_row

NOW = 1_800_000_000.0
PLAN = ReplayPlan(pipeline="orders", canary=(1, 2, 5, 20), rate=10.0)


def run_in(state: RunState, **fields: Any) -> ReplayRun:
    return ReplayRun(id="r", pipeline="orders", state=state, messages=1_000, **fields)


def evidence(
    *, recovered: int = 0, parked: int = 0, returned: int = 0, **fields: Any
) -> RunEvidence:
    """1,000 letters, of which so many have come to an end."""
    outcomes = {
        ReplayOutcome.RECOVERED: recovered,
        ReplayOutcome.PARKED: parked,
        ReplayOutcome.OPEN: 1_000 - recovered - parked,
    }
    return RunEvidence(outcomes=outcomes, returned=returned, **fields)


def canary(step: int, before: int = 0) -> ReplayRun:
    """A run at the beginning of a canary, with so many outcomes known by then."""
    run = run_in(RunState.CANARY, step_began=0.0)
    return begun(run, PLAN, evidence(recovered=before), step, NOW)


def ramp(step: int = 0, before: int = 28) -> ReplayRun:
    return canary(len(PLAN.canary) + step, before)


def judge(run: ReplayRun, seen: RunEvidence, after: float = 1.0) -> RunVerdict:
    return judged(run, PLAN, seen, NOW + after)


@each_row(
    ("run", "next_"),
    [
        (run_in(RunState.PLANNED), ReplayNext.SNAPSHOT),
        (run_in(RunState.MOVING), ReplayNext.SNAPSHOT),
        (run_in(RunState.WAITING_APPROVAL), ReplayNext.APPROVAL),
        (run_in(RunState.HELD, changed=NOW), ReplayNext.WAIT),
        (run_in(RunState.ABORTED), ReplayNext.LEAVE),
        (run_in(RunState.DONE), ReplayNext.LEAVE),
        (run_in(RunState.ABORTED, left=True), ReplayNext.DONE),
        (run_in(RunState.DONE, left=True), ReplayNext.DONE),
        (run_in(RunState.BROKEN), ReplayNext.DONE),
    ],
)
def test_each_state_has_a_next_step(run: ReplayRun, next_: ReplayNext) -> None:
    assert judge(run, evidence()).next is next_


def test_a_run_that_begins_moves_letters() -> None:
    assert judge(run_in(RunState.PLANNED), evidence()).run.state is RunState.MOVING


DOWN = "the health URL answers HTTP 503"


@each_row(
    ("seen", "because"),
    [
        ({"unwell": DOWN}, f"the dependency is down: {DOWN}"),
        ({"circuit": "OPEN"}, "the pipeline's circuit is OPEN"),
    ],
)
def test_a_run_takes_no_letter_into_custody_while_its_dependency_is_down(
    seen: dict[str, str], because: str
) -> None:
    verdict = judge(run_in(RunState.PLANNED), RunEvidence(**seen))
    assert (verdict.run.state, verdict.run.because) == (RunState.HELD, because)
    assert verdict.next is ReplayNext.WAIT
    again = resumed(verdict.run, at=NOW + 5, by="ann")
    assert judge(again, RunEvidence(**seen), 6).run.state is RunState.HELD
    assert judge(again, RunEvidence(), 6).run.state is RunState.MOVING


def test_an_expired_run_is_aborted_in_every_live_state() -> None:
    plan = replace(PLAN, expires=NOW)
    for state in (
        *(RunState.PLANNED, RunState.MOVING, RunState.WAITING_APPROVAL),
        *(RunState.HELD, RunState.CANARY, RunState.RUNNING),
    ):
        verdict = judged(run_in(state), plan, evidence(), NOW)
        assert (verdict.run.state, verdict.next) == (RunState.ABORTED, ReplayNext.LEAVE)
        assert verdict.run.leave_to == "parked"


def test_the_first_step_begins_when_nothing_was_sent() -> None:
    run = judge(run_in(RunState.CANARY), evidence()).run
    assert (run.step, run.allowance, run.rate) == (0, 1, 2.5)
    assert run.step_began > 0


def test_a_canary_waits_until_all_of_its_outcomes_are_known() -> None:
    run = canary(2, before=3)
    verdict = judge(run, evidence(recovered=7))
    assert (verdict.run, verdict.next) == (run, ReplayNext.WORK)
    after = judge(run, evidence(recovered=8)).run
    assert (after.step, after.allowance, after.known_before) == (3, 20, 8)
    assert after.generation == run.generation + 1


def test_a_canary_of_which_more_than_the_error_rate_fail_holds_the_run() -> None:
    run = canary(2, before=3)
    assert judge(run, evidence(recovered=6, parked=2)).run.state is RunState.CANARY
    verdict = judge(run, evidence(recovered=5, returned=3))
    assert verdict.run.state is RunState.HELD
    assert verdict.run.because == "3 of 5 failed: more than 40% of this step"
    assert verdict.next is ReplayNext.WAIT


def test_a_canary_that_can_only_fail_is_held_before_its_last_outcome() -> None:
    assert judge(canary(2, before=3), evidence(recovered=3, returned=3)).run.state is RunState.HELD


def test_failures_of_earlier_steps_do_not_count() -> None:
    before = evidence(recovered=3, parked=2)
    run = begun(run_in(RunState.CANARY), PLAN, before, 2, NOW)
    assert judge(run, evidence(recovered=5, parked=3)).run.state is RunState.CANARY


def test_an_unknown_outcome_is_a_failure_and_a_duplicate_is_none() -> None:
    unknown = RunEvidence(outcomes={ReplayOutcome.UNKNOWN: 1, ReplayOutcome.OPEN: 9})
    assert judge(canary(0), unknown).run.state is RunState.HELD
    duplicate = RunEvidence(outcomes={ReplayOutcome.DUPLICATE: 1, ReplayOutcome.OPEN: 9})
    assert judge(canary(0), duplicate).run.step == 1


def test_letters_that_a_rule_stopped_show_nothing_about_the_consumer() -> None:
    stopped = RunEvidence(outcomes={ReplayOutcome.QUARANTINED: 5, ReplayOutcome.OPEN: 9})
    assert judge(canary(0), stopped).run == canary(0)


def test_behind_the_canaries_the_rate_grows_in_shares() -> None:
    run = judge(canary(3, before=8), evidence(recovered=28)).run
    assert (run.state, run.step, run.rate, run.allowance) == (RunState.RUNNING, 4, 2.5, 0)
    run = judge(run, evidence(recovered=100), after=30).run
    assert run.rate == 2.5
    run = judge(run, evidence(recovered=100), after=62).run
    assert (run.step, run.rate) == (5, 5.0)
    run = judge(run, evidence(recovered=100), after=123).run
    assert (run.step, run.rate) == (6, 10.0)


def test_a_plan_without_other_words_goes_on_in_seven_careful_steps() -> None:
    plan = ReplayPlan(pipeline="orders")
    run = run_in(RunState.CANARY)
    steps = [begun(run, plan, RunEvidence(), step, NOW) for step in range(9)]
    assert [(step.state, step.allowance, step.rate) for step in steps] == [
        *((RunState.CANARY, letters, 1.25) for letters in (1, 2, 5, 20)),
        *((RunState.RUNNING, 0, rate) for rate in (1.25, 2.5, 5.0, 5.0, 5.0)),
    ]
    assert [step.step for step in steps] == [0, 1, 2, 3, 4, 5, 6, 6, 6]
    assert {step.burst for step in steps} == {10}


@each_row(
    ("state", "step", "known", "after", "is_over"),
    [
        (RunState.CANARY, 3, 19, 1.0, False),
        (RunState.CANARY, 3, 20, 1.0, True),
        (RunState.RUNNING, 4, 0, 59.0, False),
        (RunState.RUNNING, 4, 0, 60.0, True),
        (RunState.RUNNING, 5, 0, 60.0, True),
        (RunState.RUNNING, 6, 0, 60.0, False),
        (RunState.RUNNING, 6, 1, 59.0, False),
        (RunState.RUNNING, 6, 1, 60.0, True),
    ],
)
def test_a_canary_ends_with_its_last_outcome_and_a_share_of_the_rate_with_its_time(
    state: RunState, step: int, known: int, after: float, is_over: bool
) -> None:
    """The last share goes on while it has no outcome, so that a standstill is seen."""
    run = canary(step, before=8)
    assert run.state is state
    verdict = judge(run, evidence(recovered=8 + known), after=after)
    began_anew = verdict.run.step_began == NOW + after
    assert (began_anew, verdict.next) == (is_over, ReplayNext.WORK)


def test_with_the_last_share_only_the_counts_begin_anew() -> None:
    run = ramp(2)
    later = judge(run, evidence(recovered=500), after=61).run
    assert (later.step, later.rate, later.known_before) == (6, 10.0, 500)
    failing = evidence(recovered=500, returned=10)
    assert judged(later, PLAN, failing, NOW + 80).run.because.startswith("10 of 10 failed")


def test_a_ramp_is_judged_from_a_minimum_of_outcomes() -> None:
    assert judge(ramp(), evidence(recovered=28, parked=9)).run.state is RunState.RUNNING
    assert judge(ramp(), evidence(recovered=28, parked=10)).run.state is RunState.HELD


@each_row(
    ("seen", "words"),
    [
        (evidence(circuit="OPEN"), "the pipeline's circuit is OPEN"),
        (evidence(circuit="HALF_OPEN"), "the pipeline's circuit is HALF_OPEN"),
        (evidence(same_causes=10), "10 new dead messages"),
        (evidence(seconds_to_expiry=3_599.0), "SQS drops a message"),
        (evidence(collisions=1), "1 messages collided"),
        (evidence(backlog=20_001), "the main queue holds 20001 messages"),
        (
            evidence(seconds_to_expiry=600.0),
            "SQS drops a message of the pipeline's queues in 600 s",
        ),
        (evidence(seconds_to_expiry=-9.0), "SQS drops a message of the pipeline's queues in 0 s"),
    ],
)
def test_the_run_holds_itself(seen: RunEvidence, words: str) -> None:
    verdict = judge(canary(0), seen)
    assert verdict.run.state is RunState.HELD
    assert verdict.run.because.startswith(words)
    assert verdict.run.resume_to is RunState.CANARY


@each_row(
    "seen",
    [
        {},
        {"same_causes": 9},
        {"backlog": 10_000},
        {"seconds_to_expiry": 3_600.0},
        {"circuit": "CLOSED", "unwell": ""},
    ],
)
def test_a_run_goes_on_with_all_that_does_not_concern_it(seen: dict[str, Any]) -> None:
    assert judge(ramp(), evidence(recovered=28, **seen)) == RunVerdict(ramp(), ReplayNext.WORK)


@each_row("backlog", [10_001, 20_000])
def test_a_main_queue_that_is_behind_is_served_first(backlog: int) -> None:
    verdict = judge(ramp(), evidence(recovered=28, backlog=backlog))
    assert verdict == RunVerdict(ramp(), ReplayNext.WAIT, 30)


def test_letters_that_are_nowhere_break_the_run() -> None:
    missing = RunEvidence(outcomes={ReplayOutcome.MISSING: 2, ReplayOutcome.OPEN: 9})
    verdict = judge(ramp(), missing)
    assert (verdict.run.state, verdict.next) == (RunState.BROKEN, ReplayNext.RECONCILE)
    assert verdict.run.because.startswith("2 messages are neither in the run's lane nor on a")
    assert (verdict.run.by, verdict.run.changed) == ("replay", NOW + 1.0)


def test_a_resumed_step_begins_anew_with_its_whole_allowance() -> None:
    run = replace(canary(2, before=3), allowance=0)
    run = held(run, at=NOW, by="ada", because="3 of 5 failed")
    run = resumed(run, at=NOW, by="ada")
    verdict = judge(run, evidence(recovered=5, returned=3))
    assert (verdict.run.step, verdict.run.allowance) == (2, 5)
    assert (verdict.run.known_before, verdict.run.failed_before) == (8, 3)
    assert verdict.next is ReplayNext.WORK


def test_failures_of_tries_from_before_the_resume_do_not_hold_the_run_again() -> None:
    """They come back when the endpoint has been mended already."""
    after = replace(ramp(), resumed_at=NOW - 5)
    late = replace(evidence(recovered=38, returned=15), late=15)
    assert judge(after, late).run.state is RunState.RUNNING
    assert judge(after, replace(late, late=5)).run.state is RunState.HELD


def test_a_run_whose_letters_all_have_an_end_is_reconciled() -> None:
    done = RunEvidence(outcomes={ReplayOutcome.RECOVERED: 990, ReplayOutcome.QUARANTINED: 10})
    assert judge(canary(0), done).next is ReplayNext.RECONCILE
    assert judge(ramp(), done).next is ReplayNext.RECONCILE


def test_a_run_without_canaries_begins_with_the_ramp() -> None:
    plan = replace(PLAN, canary=(), ramp=())
    run = judged(run_in(RunState.CANARY), plan, evidence(), NOW).run
    assert (run.state, run.rate, run.step) == (RunState.RUNNING, 10.0, 0)


@each_row(
    ("rate", "workers", "number"),
    [(0.0, 0, 1), (5.0, 1, 1), (80.0, 1, 1), (81.0, 1, 2), (5.0, 3, 3), (10_000.0, 1, SHARDS)],
)
def test_a_run_has_the_workers_that_its_rate_needs_and_no_more_than_shards(
    rate: float, workers: int, number: int
) -> None:
    assert workers_for(replace(PLAN, rate=rate, workers=workers)) == number


def test_a_held_run_is_looked_at_less_often_the_longer_it_is_held() -> None:
    run = held(canary(0), at=NOW, by="ada", because="")
    waits = [judge(run, evidence(), after=seconds).wait_seconds for seconds in (0, 20, 100_000)]
    assert waits == [2, 10, 300]


def test_an_approved_run_begins_with_its_first_canary() -> None:
    run = moved_to(run_in(RunState.WAITING_APPROVAL), RunState.CANARY, at=NOW, by="ada")
    assert judge(run, evidence()).run.allowance == 1


def test_an_aborted_run_sends_nothing_more() -> None:
    run = aborted(canary(0), at=NOW, by="ada", because="wrong letters")
    assert judge(run, evidence()).next is ReplayNext.LEAVE


def test_allowance_that_a_lost_grant_used_up_is_given_again() -> None:
    """Only when nothing is under way, and the last step of work found no send either."""
    seen = evidence(recovered=4)
    run = replace(canary(2, before=3), allowance=0)
    assert judge(run, seen).run.allowance == 0
    run = replace(run, counts=seen.counts)
    after = judge(run, seen).run
    assert (after.allowance, after.step, after.known_before) == (4, 2, 3)
    assert after.generation == run.generation + 1
    sent = RunEvidence(outcomes={**seen.outcomes, ReplayOutcome.SENT: 1})
    assert judge(replace(run, counts=sent.counts), sent).run.allowance == 0
    whole = replace(run, allowance=4)
    assert judge(whole, seen).run == whole


def test_a_run_that_stands_still_is_held() -> None:
    """What waits behind failed letters of its keys would be looked at for ever."""
    seen = evidence(recovered=28)
    run = replace(ramp(2), counts=seen.counts)
    assert judge(run, seen, after=299).run == run
    assert judge(run, evidence(recovered=29), after=300).run.state is RunState.RUNNING
    known = evidence(recovered=29)
    assert judge(replace(run, counts=known.counts), known, after=300).run.state is RunState.RUNNING
    stopped = replace(seen, outcomes={**seen.outcomes, ReplayOutcome.STOPPED: 1})
    assert judge(run, stopped, after=300).run.state is RunState.RUNNING
    judgement = judge(run, seen, after=300)
    assert judgement.run.state is RunState.HELD
    assert judgement.run.because.startswith("nothing was sent in 300 s: 972 messages wait")
    sent = RunEvidence(outcomes={**seen.outcomes, ReplayOutcome.SENT: 1})
    assert judge(replace(run, counts=sent.counts), sent, after=300).run.state is RunState.RUNNING
