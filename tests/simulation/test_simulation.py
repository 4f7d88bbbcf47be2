"""The promise, under every fault that the simulator knows."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.simulation.scheduler import EVERYWHERE, Fault
from tests.simulation.simulator import (
    CONSUMED,
    WORKLOADS,
    Simulation,
    crowded,
    drowsy,
    interrupted,
    place,
    random_plan,
    rescued,
    shape_of,
    simulate,
    unreachable,
)
from tests.simulation.witness import BY_SQS, EXTRA, PUBLISHED, Broken

SCHEDULES = int(os.environ.get("SIM_SCHEDULES", "1000"))
# Schedules of each of the other sorts: 125, or 1,000 at night.
OF_A_SORT = min(1_000, SCHEDULES // 8)
PARTS = 20
# Each call is struck by each kind of fault at night, and by one kind of three in CI, in turn:
# three calls in a row have them all.
EVERY = 1 if SCHEDULES >= 10_000 else 3


def faults_at(call: int) -> Sequence[Fault]:
    """The kinds of faults that strike this call."""
    return EVERYWHERE[call % EVERY :: EVERY]


def test_no_promise_is_broken_in_the_first_schedules() -> None:
    for seed in range(100):
        simulate(seed)
    for seed in range(30):
        crowded(seed)
        rescued(seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_no_random_schedule_breaks_a_promise(part: int) -> None:
    """Each seed is one schedule: `make sim SEED=n` replays it with its log."""
    for seed in range(part, SCHEDULES, PARTS):
        try:
            simulate(seed)
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")


@pytest.mark.long
def test_no_promise_is_broken_by_redrivers_that_fall_asleep() -> None:
    for seed in range(OF_A_SORT):
        try:
            drowsy(seed)
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")


@pytest.mark.long
def test_no_promise_is_broken_by_redrivers_struck_between_send_and_delete() -> None:
    counts: Counter[str] = Counter()
    for seed in range(OF_A_SORT):
        try:
            counts.update(interrupted(seed).witness.counts)
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
    # The proof is not of easy weather: letters were delivered twice, each was published before.
    assert counts[PUBLISHED] >= counts[EXTRA] > OF_A_SORT / 5


def test_no_possible_duplicate_is_counted_of_what_never_left() -> None:
    for seed in range(10):
        unreachable(seed)


@pytest.mark.long
def test_no_promise_is_broken_by_redrivers_whose_sends_never_leave() -> None:
    counts: Counter[str] = Counter()
    for seed in range(OF_A_SORT):
        try:
            simulation = unreachable(seed)
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
        counts.update(simulation.witness.counts)
        struck = [line[3] for line in simulation.scheduler.log if line[3]]
        counts["never left"] += struck.count(Fault.NO_CONNECTION)
    # The proof is not of easy weather, and most is counted for a reason.
    assert counts["never left"] > OF_A_SORT
    assert counts[PUBLISHED] >= counts[EXTRA] > 0


@pytest.mark.long
def test_no_promise_is_broken_by_rescues_beside_ordinary_runs() -> None:
    lanes: Counter[str] = Counter()
    for seed in range(OF_A_SORT):
        try:
            lanes.update(rescued(seed).witness.rescued)
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
    # The proof is not of easy weather: letters did go into each kind of lane.
    assert min(lanes["due"], lanes["parked"], lanes["dedicated:slow"]) > OF_A_SORT / 10


@pytest.mark.long
def test_no_promise_is_broken_by_consumers_that_are_often_struck() -> None:
    runs = []
    for seed in range(OF_A_SORT):
        try:
            runs.append(crowded(seed).witness.effects)
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
    # The proof is not of easy weather: effects were repeated, each for a fault, and duplicates
    # were spared.
    assert sum(run.repeated for run in runs) > OF_A_SORT / 20
    assert sum(run.spared for run in runs) > OF_A_SORT


@pytest.mark.long
@pytest.mark.parametrize("workload", CONSUMED)
def test_no_single_fault_at_any_call_of_a_consumer_breaks_a_promise(workload: str) -> None:
    shape = CONSUMED[workload]
    for at in range(place(shape, {}, on="consumer")):
        for fault in faults_at(at):
            try:
                place(shape, {at: fault}, on="consumer")
            except Broken as broken:
                pytest.fail(f"{fault} at call {at}: {broken}")


SLOWEST = frozenset(
    {
        "parked letters are rescued",
        "two go unmarked",
        "a FIFO group is rescued beside a run",
        "a dedicated DLQ is rescued and runs",
        "two redrivers, and some letters wait",
    }
)
"""Workloads of seven seconds and more that resemble quicker ones: struck at night only."""


@pytest.mark.long
@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(name, marks=pytest.mark.nightly) if name in SLOWEST else name
        for name in WORKLOADS
    ],
)
def test_no_single_fault_at_any_call_breaks_a_promise(workload: str) -> None:
    shape = WORKLOADS[workload]
    for at in range(place(shape, {})):
        for fault in faults_at(at):
            try:
                place(shape, {at: fault})
            except Broken as broken:
                pytest.fail(f"{fault} at call {at}: {broken}")


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("workload", list(WORKLOADS)[:4])
def test_no_two_faults_in_the_first_calls_break_a_promise(workload: str) -> None:
    shape = WORKLOADS[workload]
    calls = min(30, place(shape, {}))
    for first, second in itertools.combinations(range(calls), 2):
        for faults, other in itertools.product(Fault, repeat=2):
            try:
                place(shape, {first: faults, second: other})
            except Broken as broken:
                pytest.fail(f"{faults} at call {first}, {other} at call {second}: {broken}")


@pytest.mark.long
def test_the_same_seed_gives_the_same_log() -> None:
    for seed in range(30):
        first, second = (
            Simulation(seed, shape_of(seed), random_plan(seed)).run() for _ in range(2)
        )
        assert first == second, seed


@pytest.mark.long
def test_some_schedules_do_make_duplicates_and_count_them() -> None:
    """Faults that no tool can undo are among those tried: the proof is not of easy weather."""
    runs = [simulate(seed) for seed in range(100)]
    assert sum(run.witness.counts[EXTRA] for run in runs) > 0
    assert sum(run.witness.counts[BY_SQS] for run in runs) > 0
