"""The promise, under every fault that the simulator knows."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from deadletter.routing.judgement import Case
from deadletter.settings.backoff import Backoff
from tests.simulation import planted
from tests.simulation.scheduler import EVERYWHERE, Fault
from tests.simulation.search import AT_NIGHT, DAY, FIRST, SCHEDULES, play_all, played, seeds
from tests.simulation.simulator import (
    CONSUMED,
    TURNS,
    WORKLOADS,
    Shape,
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

PARTS = 20 if AT_NIGHT else 2
# Each call is struck by each kind of fault at night, and by one kind of three by day, in turn:
# three calls in a row have them all.
EVERY = 1 if AT_NIGHT else 3


def of_a_sort() -> range:
    """The schedules of each of the other sorts."""
    return seeds(DAY // 4, 250)


def by_day(workloads: Iterable[str], *chosen: str) -> list[Any]:
    """All workloads; but for the chosen, the smallest, at night only."""
    return [
        name if name in chosen else pytest.param(name, marks=pytest.mark.nightly)
        for name in workloads
    ]


def faults_at(call: int) -> Sequence[Fault]:
    """The kinds of faults that strike this call."""
    return EVERYWHERE[call % EVERY :: EVERY]


def strike_each_call(placed: Callable[[Mapping[int, Fault]], int]) -> None:
    """Play a workload once for each call and each fault that strikes it."""
    faults = [{at: fault} for at in range(placed({})) for fault in faults_at(at)]
    play_all(placed, faults, "fault at call")


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_no_random_schedule_breaks_a_promise(part: int) -> None:
    """Each seed is one schedule: `make sim SEED=n` replays it with its log."""
    play_all(simulate, seeds(DAY, SCHEDULES, part=part, parts=PARTS))


@pytest.mark.nightly
def test_no_promise_is_broken_by_redrivers_that_fall_asleep() -> None:
    play_all(drowsy, of_a_sort())


@pytest.mark.nightly
def test_no_promise_is_broken_by_redrivers_struck_between_send_and_delete() -> None:
    counts: Counter[str] = Counter()
    for simulation in played(interrupted, of_a_sort()):
        counts.update(simulation.witness.counts)
    assert counts[PUBLISHED] >= counts[EXTRA]
    if AT_NIGHT:  # The proof is not of easy weather: letters were delivered twice.
        assert counts[EXTRA] > 20


def test_no_possible_duplicate_is_counted_of_what_never_left() -> None:
    for seed in range(10):
        unreachable(seed)


@pytest.mark.nightly
def test_no_promise_is_broken_by_redrivers_whose_sends_never_leave() -> None:
    counts: Counter[str] = Counter()
    for simulation in played(unreachable, of_a_sort()):
        counts.update(simulation.witness.counts)
        struck = [line[3] for line in simulation.scheduler.log if line[3]]
        counts["never left"] += struck.count(Fault.NO_CONNECTION)
    assert counts[PUBLISHED] >= counts[EXTRA]
    if AT_NIGHT:  # The proof is not of easy weather.
        assert counts["never left"] > 100
        assert counts[EXTRA] > 0


@pytest.mark.nightly
def test_no_promise_is_broken_by_rescues_beside_ordinary_runs() -> None:
    lanes: Counter[str] = Counter()
    for simulation in played(rescued, of_a_sort()):
        lanes.update(simulation.witness.rescued)
    if AT_NIGHT:  # The proof is not of easy weather: letters did go into each kind of lane.
        assert min(lanes["due"], lanes["parked"], lanes["dedicated:slow"]) > 10


@pytest.mark.nightly
def test_no_promise_is_broken_by_consumers_that_are_often_struck() -> None:
    runs = [simulation.witness.effects for simulation in played(crowded, of_a_sort())]
    if AT_NIGHT:
        # The proof is not of easy weather: effects were repeated, each for a fault, and
        # duplicates were spared.
        assert sum(run.repeated for run in runs) > 5
        assert sum(run.spared for run in runs) > 100
        assert sum(run.parked_by_consumers for run in runs) > 120


@pytest.mark.parametrize("known", [True, False])
def test_a_consumer_parks_a_letter_at_once_if_its_cause_is_known(known: bool) -> None:
    """Else it dies first: the simulators play both."""
    simulation = Simulation(1, Shape(kinds=("refused",), known_causes=known), lambda *_: None)
    simulation.run()
    assert simulation.witness.effects.parked_by_consumers == 1
    assert (simulation._lives["refused0"] == 0) is known


@pytest.mark.long
@pytest.mark.parametrize(
    "workload", by_day(CONSUMED, "one is processed at once", "the key is the origin's")
)
def test_no_single_fault_at_any_call_of_a_consumer_breaks_a_promise(workload: str) -> None:
    strike_each_call(partial(place, CONSUMED[workload], on="consumer"))


@pytest.mark.long
@pytest.mark.parametrize("workload", by_day(WORKLOADS, "one letter goes back"))
def test_no_single_fault_at_any_call_breaks_a_promise(workload: str) -> None:
    strike_each_call(partial(place, WORKLOADS[workload]))


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("workload", list(WORKLOADS)[:4])
def test_no_two_faults_in_the_first_calls_break_a_promise(workload: str) -> None:
    shape = WORKLOADS[workload]
    calls = min(30, place(shape, {}))
    pairs = itertools.combinations(range(calls), 2)
    every = list(itertools.product(pairs, itertools.product(Fault, repeat=2)))
    # All take an hour: each night draws others.
    drawn = Random(FIRST).sample(every, min(4_000, len(every)))
    play_all(lambda case: place(shape, dict(zip(*case, strict=True))), drawn, "calls and faults")


@pytest.mark.long
def test_the_same_seed_gives_the_same_log() -> None:
    for seed in range(3):
        first, second = (
            Simulation(seed, shape_of(seed), random_plan(seed)).run() for _ in range(2)
        )
        assert first.scheduler.log == second.scheduler.log, seed


class Counted(Simulation):
    """A schedule that counts the turns that it needs after its faults."""

    needed = 0
    allowed = 0

    def _turns(self) -> int:
        self.allowed = super()._turns()
        return self.allowed

    def _healing_turn(self, turn: int) -> Callable[[], None]:
        self.needed = turn + 1
        return super()._healing_turn(turn)


def after_the_faults(*kinds: str, fifo: bool = True) -> Counted:
    """A schedule without faults, in which each letter waits as long as any may."""
    longest = Backoff(base=4_000, factor=1, cap=4_000, floor=4_000)
    shape = Shape(fifo=fifo, kinds=kinds, backoff=longest, library=True, keyed=False)
    return Counted(1, shape, lambda *_: None).run()


def test_letters_behind_others_of_their_group_have_time_to_be_tried_one_after_the_other() -> None:
    group = after_the_faults("flaky", "echo", "flaky", "echo", "flaky")
    assert TURNS < group.needed <= group.allowed
    simulate(266_035_029)


@pytest.mark.parametrize(("kinds", "fifo"), [(("flaky",), True), (("flaky",) * 5, False)])
def test_letters_that_are_behind_no_other_have_no_more_time(
    kinds: tuple[str, ...], fifo: bool
) -> None:
    alone = after_the_faults(*kinds, fifo=fifo)
    assert alone.needed <= alone.allowed == TURNS


@pytest.mark.parametrize("fifo", [True, False])
def test_letters_that_never_leave_are_stuck(fifo: bool) -> None:
    with (
        planted.BUGS["a delay starts over when it has been served"](),
        # And counts from then, as without a ledger.
        patch.object(Case, "since_death", 0.0),
        pytest.raises(Broken, match="stuck"),
    ):
        after_the_faults("flaky", "flaky", "flaky", fifo=fifo)


@pytest.mark.long
@pytest.mark.nightly
def test_some_schedules_do_make_duplicates_and_count_them() -> None:
    """Faults that no tool can undo are among those tried: the proof is not of easy weather."""
    runs = [simulate(seed) for seed in range(100)]
    assert sum(run.witness.counts[EXTRA] for run in runs) > 0
    assert sum(run.witness.counts[BY_SQS] for run in runs) > 0
