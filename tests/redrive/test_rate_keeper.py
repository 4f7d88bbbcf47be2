"""What a run does with a rate that finds itself: it looks, paces, and remembers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deadletter.circuit.state import Circuit, CircuitsUnavailable, OutcomeBucket, State
from deadletter.message.queue import Depth
from deadletter.pace.auto_rate import LOOK_SECONDS, QUICK_LOOK_SECONDS, AutoRate, Direction
from deadletter.pace.run import RunPace, RunPaid
from deadletter.redrive.report import Tally
from deadletter.redrive.shards import DrainOwner, RateKeeper
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.figures import Count, Figure
from deadletter.testing.clock import Clock
from tests.simulation.stage import Stage

EMPTY = Depth(0, 0, 0)


class Scene:
    """A keeper of one run, beside a circuit that others change."""

    def __init__(
        self, known: AutoRate | None = None, *, deep: bool = False, **settings: Any
    ) -> None:
        self.clock = Clock()
        self.pipeline = Pipeline("orders", **{"consumer_library": True, **settings})
        self.circuit = Circuit("orders")
        self.unreadable = False
        self.reads = 0
        self.tally = Tally()
        self.owner = DrainOwner(Stage().redriver()._setup)
        self.keeper = RateKeeper(
            self.pipeline,
            known,
            self.circuit,
            self,
            self.tally,
            self.clock,
            self.owner,
            deep=deep,
        )
        self.pace = RunPace(RunPaid(self.keeper.whole, 0.0), self.clock)

    def read(self, keys: Any) -> dict[str, Circuit]:
        self.reads += 1
        if self.unreadable:
            raise CircuitsUnavailable("denied")
        return dict.fromkeys(keys, self.circuit)

    def fails(self, good: int, bad: int) -> None:
        number = self.pipeline.circuit.bucket_of(self.clock())
        self.circuit = replace(self.circuit, buckets=(OutcomeBucket(number, good, bad),))

    def send(self, seconds: float, main: Depth = EMPTY, *, share: float = 1.0) -> float:
        """Letters go back at a share of the rate, then a look. Returns the rate of the bucket."""
        self.tally.count(Figure.REDRIVEN, round(self.pace.paid.rate.limit * seconds * share))
        self.clock.advance(seconds)
        self.keeper.look(main, self.pace)
        return self.pace.paid.rate.limit


def began(**settings: Any) -> Scene:
    scene = Scene(**settings)
    scene.keeper.look(EMPTY, scene.pace)
    return scene


def test_the_pace_follows_the_rate() -> None:
    scene = began()
    assert scene.pace.paid.rate.limit == 50.0
    assert [scene.send(10) for _ in range(5)] == [100.0, 200.0, 400.0, 500.0, 500.0]
    assert scene.keeper.rate.because == "it is the highest that is allowed"
    assert began(rate=20.0).pace.paid.rate.limit == 20.0


def test_a_pace_that_is_not_used_does_not_rise() -> None:
    scene = began()
    assert scene.send(10, share=0.5) == 50.0
    assert scene.keeper.rate.because == "fewer messages went back than it allows"


def test_letters_of_before_a_change_do_not_count_for_it() -> None:
    scene = began()
    assert scene.send(10) == 100.0
    assert scene.send(10, share=0.5) == 100.0


def test_outcomes_of_the_consumer_lower_the_pace_and_the_burst() -> None:
    scene = began()
    scene.fails(80, 20)
    assert scene.send(10) == 50.0
    scene.fails(140, 80)
    assert scene.send(10) == 25.0
    assert scene.pace.paid.rate.burst == 100.0
    # Since the last look; it were 36 % of all.
    assert scene.keeper.rate.because == "failures 50%"


def test_letters_that_come_back_lower_the_pace_no_further_than_to_its_start() -> None:
    scene = began(consumer_library=False)
    assert scene.send(10) == 100.0
    scene.tally.count(Count.REDRIVE_BOUNCED, 800)
    assert scene.send(10) == 50.0
    assert scene.keeper.rate.because == "messages that came back 53%"
    assert scene.send(60) == 50.0


def test_a_growing_main_queue_lowers_the_pace() -> None:
    scene = began()
    assert scene.send(10, Depth(501, 0, 0)) == 35.0
    assert scene.keeper.rate.because == "the main queue grows"


def test_delayed_letters_put_off_the_next_rise() -> None:
    scene = began()
    assert scene.send(10, Depth(0, 0, 500)) == 50.0
    assert scene.send(25, Depth(0, 0, 500)) == 100.0


def test_looks_are_seconds_apart_and_each_but_the_first_reads_the_circuit() -> None:
    scene = began()
    assert scene.reads == 0
    scene.send(LOOK_SECONDS - 1)
    assert (scene.reads, scene.keeper.rate.looked_at) == (0, scene.clock() - 4)
    scene.send(1)
    assert (scene.reads, scene.keeper.rate.looked_at) == (1, scene.clock())


def test_without_the_circuit_nothing_changes() -> None:
    scene = began()
    scene.unreadable = True
    assert scene.send(10, Depth(9_000, 0, 0)) == 50.0
    assert scene.tally.report("orders", "dlq", "x").trouble == "denied"
    scene.unreadable = False
    assert scene.send(10) == 100.0


def test_a_circuit_that_opened_lowers_the_pace_and_its_ramp_is_kept() -> None:
    clock = Clock()
    known = AutoRate(
        400.0, Direction.RISING, "x", changed_at=clock() - 60, looked_at=clock() - 30, waiting=0
    )
    scene = Scene(known)
    assert scene.pace.paid.rate.limit == 400.0
    scene.keeper.look(EMPTY, scene.pace)
    scene.circuit = Circuit("orders", State.CLOSED, closed_at=scene.clock() + 10)
    # A fifth of 50 letters a second: the first step of the ramp.
    assert scene.send(10) == pytest.approx(10.0)
    assert scene.keeper.rate.because == "the circuit was open"
    scene.clock.advance(60)
    assert scene.send(LOOK_SECONDS, share=0.0) == 50.0


def test_a_circuit_that_opens_while_a_run_works_leaves_it_one_letter() -> None:
    scene = began()
    scene.circuit = Circuit("orders", State.OPEN)
    scene.send(10)
    assert [scene.pace.take(9) for _ in range(2)] == [1, 0]
    assert 20 < scene.pace.seconds_until(1) < 1_000


def test_a_change_of_pace_gives_no_new_burst() -> None:
    scene = began()
    scene.pace.take(200)
    scene.send(10)
    assert scene.pace.paid.free(scene.clock()) == pytest.approx(200.0)
    scene.pace.take(200)
    scene.keeper.rate = replace(scene.keeper.rate, rate=5.0)
    scene.send(LOOK_SECONDS, share=0.0)
    assert scene.pace.paid.free(scene.clock()) <= 20.001


def test_above_the_first_rate_the_looks_are_closer() -> None:
    scene = began()
    assert scene.keeper.look(EMPTY, scene.pace) == LOOK_SECONDS
    assert scene.send(10) == 100.0
    assert scene.keeper.look(EMPTY, scene.pace) == QUICK_LOOK_SECONDS
    scene.send(QUICK_LOOK_SECONDS)
    assert scene.reads == 2
    scene.send(QUICK_LOOK_SECONDS - 1)
    assert scene.reads == 2


def test_a_dependency_that_breaks_down_between_two_looks_is_seen_at_the_next() -> None:
    scene = began()
    scene.fails(1_000, 0)
    assert scene.send(10) == 100.0
    scene.clock.advance(QUICK_LOOK_SECONDS)
    # Of all outcomes 5 % failed, of the latest 50 %.
    scene.fails(1_060, 60)
    scene.keeper.look(EMPTY, scene.pace)
    assert scene.keeper.rate.because == "failures 50%"
    assert scene.pace.paid.rate.limit == 50.0


def test_letters_of_a_deep_queue_are_delayed_less_the_faster_they_go() -> None:
    scene = began(deep=True)
    assert scene.pace.delay_share == pytest.approx(1 / 3)
    scene.send(10)
    assert scene.pace.delay_share == pytest.approx(1 / 6)
    shallow = began()
    shallow.send(10)
    assert shallow.pace.delay_share == 1.0
