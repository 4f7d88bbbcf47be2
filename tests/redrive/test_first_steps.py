"""The first runs over a DLQ that was deep before the deployment move few letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.outcomes import DynamoDBOutcomes
from deadletter.aws.wiring.stores import Stores
from deadletter.circuit.state import OutcomeCounts
from deadletter.contract import MINUTE, Mode
from deadletter.redrive.redriver import Redriver
from deadletter.redrive.source_memory import FIRST_STEPS, MANY, PAST, after_step, first_step
from deadletter.replay.plan import ReplayPlan
from deadletter.signals.figures import Figure
from tests.each_row import each_row
from tests.simulation.stage import Stage, in_turn

NO_CALLS = OutcomeCounts()


@pytest.fixture
def stage() -> Stage:
    stage = Stage(is_new=True)
    stage.pipeline = replace(stage.pipeline, fixed_rate=None, workers=4)
    return stage


def old(stage: Stage, letters: int) -> None:
    for _ in range(letters):
        stage.put(url=stage.dlq)


def moved(stage: Stage, runs: int, *, asked: bool = False) -> list[int]:
    """The letters that each of so many runs moves, a minute apart."""
    found = []
    for _ in range(runs):
        began = stage.clock()
        report = stage.redriver().run(began + 55, asked=asked)
        found.append(report.moved)
        stage.clock.advance(max(0.0, began + MINUTE - stage.clock()))
    return found


def test_the_steps_are_those_of_a_replay() -> None:
    assert ReplayPlan.__dataclass_fields__["canary"].default == FIRST_STEPS


@pytest.mark.parametrize("asked", [False, True])
def test_the_first_runs_over_many_old_letters_move_1_2_5_and_20(stage: Stage, asked: bool) -> None:
    old(stage, 500)
    assert moved(stage, 4, asked=asked) == [1, 2, 5, 20]
    assert sum(moved(stage, 2, asked=asked)) == 500 - 28
    # What comes later is no part of it.
    stage.clock.advance(MINUTE)
    old(stage, 300)
    assert moved(stage, 1, asked=asked) == [300]


def test_a_run_says_why_it_moved_so_few(stage: Stage) -> None:
    old(stage, 101)
    report = stage.redriver().run(stage.clock() + 55)
    assert report.stopped == (
        "the queue held over 100 messages before the first run: the first runs move 1, 2, 5 and"
        " 20, this one 1"
    )
    assert report.ended_well


def test_few_old_letters_go_at_once_and_many_new_ones_later_too(stage: Stage) -> None:
    old(stage, MANY)
    assert moved(stage, 1) == [MANY]
    old(stage, 300)
    assert moved(stage, 1) == [300]


def test_letters_that_come_after_a_first_run_over_an_empty_queue_are_not_old(stage: Stage) -> None:
    assert moved(stage, 1) == [0]
    old(stage, 300)
    assert moved(stage, 1) == [300]


@each_row("fifo", [False, True])
@each_row("workers", [1, 4, 16])
def test_no_worker_moves_letters_beyond_a_step(workers: int, fifo: bool) -> None:
    stage = Stage(replace(Stage().pipeline, workers=workers, fifo=fifo), is_new=True)
    for number in range(300):
        group = {"MessageGroupId": str(number), "MessageDeduplicationId": str(number)}
        stage.put(url=stage.dlq, **(group if fifo else {}))
    assert moved(stage, 4) == [1, 2, 5, 20]


def test_one_worker_makes_a_step_alone(stage: Stage) -> None:
    """Side by side, each would move as many before it sees what the others have moved."""
    old(stage, 300)
    at_once: list[int] = []

    def in_parallel(calls: Sequence[Callable[[], Any]]) -> list[Any]:
        at_once.append(len(calls))
        return in_turn(calls)

    setup = replace(stage.redriver()._setup, in_parallel=in_parallel)
    assert Redriver(setup).run(stage.clock() + 55).moved == 1
    assert set(at_once) == {1}


def test_what_was_observed_before_is_old_on_the_day_of_enforce(stage: Stage) -> None:
    old(stage, 300)
    stage.pipeline = replace(stage.pipeline, mode=Mode.OBSERVE)
    assert moved(stage, 3) == [0, 0, 0]
    stage.pipeline = replace(stage.pipeline, mode=Mode.ENFORCE)
    stage.redriver().run(stage.clock() + 55, dry_run=True)
    assert moved(stage, 2) == [1, 2]


def test_while_the_circuit_is_open_no_step_is_used_up(stage: Stage) -> None:
    old(stage, 300)
    stage.set_circuit("OPEN", "orders")
    assert moved(stage, 2) == [0, 0]
    stage.set_circuit("CLOSED", "orders")
    assert moved(stage, 1) == [1]


def test_a_step_whose_calls_failed_is_made_again(stage: Stage) -> None:
    dynamodb = stage.dynamodb
    outcomes = DynamoDBOutcomes(
        client=dynamodb,  # type: ignore[arg-type]
        table=stage.resources.circuits_table,
        pipeline="orders",
        policy=stage.pipeline.circuit,
        breaker=Stores(stage.pipeline, stage.resources, stage.clients, stage.world).breaker,
        outages=None,
        clock=stage.clock,
        count_metric=lambda *_: None,
    )

    def consumed(good: int, bad: int) -> None:
        outcomes.report("orders", OutcomeCounts(good=good, bad=bad, last_bad=0))

    old(stage, 300)
    found = []
    for good, bad in ((1, 0), (0, 2), (1, 1), (3, 2)):
        found += moved(stage, 1)
        consumed(good, bad)
        stage.clock.advance(MINUTE)
    assert found == [1, 2, 2, 5]


def test_a_run_that_moved_too_few_makes_its_step_again() -> None:
    assert after_step(2, 4) == 2
    assert after_step(2, 5) == 3
    assert after_step(PAST - 1, 20) == PAST
    assert after_step(PAST, 0) == PAST


def test_a_queue_that_has_become_short_has_no_steps_left() -> None:
    assert first_step(None, MANY, NO_CALLS) == PAST
    assert first_step(1, MANY, NO_CALLS) == PAST
    assert first_step(PAST, 10 * MANY, NO_CALLS) == PAST
    # An outage later is a matter of the circuit.
    assert first_step(PAST, 10 * MANY, OutcomeCounts(0, 9)) == PAST
    assert first_step(None, MANY + 1, OutcomeCounts(0, 9)) == 0


def test_letters_that_are_parked_count_as_moved(stage: Stage) -> None:
    """A mistake in the settings may park all of them."""
    for _ in range(300):
        stage.put("not JSON", url=stage.dlq)
    report = stage.redriver().run(stage.clock() + 55)
    assert report.counts[Figure.MOVED_TO_PARKING] == 1
