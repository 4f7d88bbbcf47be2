"""The demo acts at the right moment, and ends neither too early nor never."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from deadletter.circuit.state import Circuit, State
from sandbox.demo.events import HEALTHY, RECOVERING, REFUSING
from sandbox.demo.look import CLOSED, Look
from sandbox.demo.pipeline import Seated
from sandbox.demo.receiver import Visit
from sandbox.demo.script import (
    OUTAGE_SECONDS,
    ScriptStep,
    circuit_closed,
    circuit_opened,
    healthy_goes_on,
    outage_is_over,
    recovered,
    refused_again,
)
from sandbox.demo.watch import RUN_EVERY_SECONDS, RUN_LASTS_SECONDS, watch
from sandbox.progress import STANDSTILL_SECONDS

OPENED = Circuit("birch/default", State.OPEN, generation=1, outage=1, opened_at=1.0)
STAGES = (circuit_opened, healthy_goes_on, circuit_closed)
REPORT = {"decisions": {"REDRIVE": 2, "HOLD": 1}}


class Watched:
    """Plays looks to a watch, the last of them for ever, and records what it does."""

    def __init__(self, looks: Sequence[Look], steps: Sequence[ScriptStep] = ()) -> None:
        self.runs: list[float] = []
        self.told: list[str] = []
        self.seen: list[Look] = []
        self._looks = list(looks)
        for look in watch(
            self._look,
            steps,
            start_run=lambda: self.runs.append(self.seen[-1].at),
            tell=self.told.append,
        ):
            assert look is self.seen[-1]

    def _look(self) -> Look:
        assert len(self.seen) < 1000, "it would never end"
        self.seen.append(self._looks.pop(0))
        return self.seen[-1]


def busy(at: float, runs_ended: int = 0) -> Look:
    return Look(at, main=1, reports=[REPORT] * runs_ended)


def empty(at: float, runs_ended: int = 0) -> Look:
    return Look(at, reports=[REPORT] * runs_ended)


def visit(tenant: str, *, status: int = 200, attempt: int = 1, digest: str = "a") -> Visit:
    return Visit(tenant, digest, "id", attempt, status)


def test_it_ends_when_two_looks_in_a_row_find_nothing_on_its_way():
    watched = Watched([busy(0), empty(1), busy(2), empty(2.5), empty(2.9), busy(3)])
    assert len(watched.seen) == 5


@pytest.mark.parametrize(
    "look",
    [Look(1, main=1), Look(1, dlq=1), Look(1, seated=[Seated("id", in_bucket=False)])],
    ids=["main queue", "DLQ", "waiting room"],
)
def test_nothing_is_forgotten_anywhere(look):
    assert len(Watched([look, look, look, empty(2), empty(2)]).seen) == 5


def test_what_is_parked_is_not_on_its_way():
    assert len(Watched([Look(1, parked=9), Look(1, parked=9)]).seen) == 2


def test_it_ends_when_nothing_has_moved_for_long():
    long = STANDSTILL_SECONDS
    assert len(Watched([busy(0), busy(long - 1), busy(long), busy(1e9)]).seen) == 3


def test_it_goes_on_as_long_as_anything_moves():
    long = STANDSTILL_SECONDS - 1
    looks = [Look(number * long, main=number) for number in range(1, 10)]
    assert len(Watched([*looks, empty(802, 100), empty(803, 100)]).seen) == 11


def test_a_run_is_started_only_when_the_last_has_ended_or_should_have():
    first = RUN_EVERY_SECONDS
    late = first + RUN_LASTS_SECONDS
    watched = Watched(
        [
            busy(0),
            busy(first),
            busy(first + RUN_EVERY_SECONDS),  # the first is still under way
            busy(late - 1),
            busy(late),  # it never said that it ended
            busy(late + 1, runs_ended=1),
            busy(late + RUN_EVERY_SECONDS, runs_ended=1),
            busy(late + 1 + STANDSTILL_SECONDS),
        ]
    )
    assert watched.runs == [first, late, late + RUN_EVERY_SECONDS]


def test_it_waits_for_the_report_of_the_run_under_way():
    first = RUN_EVERY_SECONDS
    looks = [busy(first), empty(first + 1), empty(first + 2), empty(first + 3, 1), empty(9, 1)]
    assert len(Watched(looks).seen) == 5


def test_no_run_is_started_when_nothing_is_left():
    assert Watched([empty(0), empty(RUN_EVERY_SECONDS + 1)]).runs == []


def test_a_step_is_done_once_and_told_when_its_moment_has_come():
    done: list[str] = []

    def step(name: str, when: Callable[[Look], bool]) -> ScriptStep:
        return ScriptStep(when, lambda: done.append(name), name)

    watched = Watched(
        [busy(0), busy(1), busy(2), busy(STANDSTILL_SECONDS)],
        [step("never", lambda look: look.at > 1e6), step("at 1", lambda look: look.at >= 1)],
    )
    assert done == watched.told == ["at 1"]


def test_the_bad_tenant_is_quarantined_once_it_refuses_a_redriven_letter():
    first = visit(REFUSING, status=422)
    other = visit(RECOVERING, status=503, attempt=2)
    assert not refused_again(Look(9, visits=[first, other]))
    assert refused_again(Look(9, visits=[first, other, visit(REFUSING, status=422, attempt=2)]))


WAITS = [Seated("id", in_bucket=True)]


@pytest.mark.parametrize(
    ("at", "seated", "circuit", "over"),
    [
        (OUTAGE_SECONDS, WAITS, OPENED, True),
        (OUTAGE_SECONDS - 1, WAITS, OPENED, False),
        (OUTAGE_SECONDS, [Seated("id", in_bucket=False)], OPENED, False),
        (OUTAGE_SECONDS, [], OPENED, False),
        (OUTAGE_SECONDS, WAITS, CLOSED, False),
    ],
)
def test_the_outage_is_not_over_before_the_snapshot_waits_and_the_circuit_has_opened(
    at, seated, circuit, over
):
    assert outage_is_over(Look(at, seated=seated, circuit=circuit)) is over


def test_the_circuit_is_told_of_as_it_goes():
    back = replace(OPENED, state=State.CLOSED, closed_at=2.0)
    told = [
        [step(Look(1, visits=visits, circuit=circuit)) for step in STAGES]
        for circuit, visits in (
            (CLOSED, [visit(HEALTHY)]),
            (OPENED, []),
            (OPENED, [visit(HEALTHY), visit(RECOVERING, status=503)]),
            (OPENED, [visit(RECOVERING, status=503), visit(HEALTHY)]),
            (back, [visit(HEALTHY)]),
        )
    ]
    assert told == [
        [False, False, False],
        [True, False, False],
        [True, False, False],
        [True, True, False],
        [False, False, True],
    ]


def test_the_hold_ends_when_the_endpoint_that_was_down_takes_an_event():
    down = [visit(RECOVERING, status=503), visit(HEALTHY)]
    assert not recovered(Look(9, visits=down))
    assert recovered(Look(9, visits=[*down, visit(RECOVERING)]))


def test_a_look_adds_up_the_decisions_of_all_runs():
    look = Look(1, reports=[REPORT, REPORT, {"decisions": {}}])
    assert look.decisions == {"HOLD": 2, "REDRIVE": 4}


def test_a_delivery_made_twice_settles_one_event():
    look = Look(1, parked=2, visits=[visit(HEALTHY), visit(HEALTHY), visit(REFUSING, status=422)])
    assert look.settled == 3
    assert look.answers(REFUSING) == {422: 1}
