"""The demo acts at the right moment, and ends neither too early nor never."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from deadletter.circuit.state import Circuit, State
from sandbox.demo.events import HEALTHY, RECOVERING, REFUSING
from sandbox.demo.look import CLOSED, Look
from sandbox.demo.pipeline import COOLDOWN_SECONDS, DemoPipeline, Seated
from sandbox.demo.play import RUN_EVERY_SECONDS, RUN_LASTS_SECONDS, watch
from sandbox.demo.receiver import Visit
from sandbox.demo.script import (
    ScriptStep,
    canary_failed,
    circuit_closed,
    circuit_opened,
    only_waiting,
    steps,
    type_rule,
)
from sandbox.progress import STANDSTILL_SECONDS
from tests.each_row import each_row

OPENED = Circuit("birch/default", State.OPEN, generation=1, outage=1, opened_at=1.0)
REPORT = {"decisions": {"REDRIVE": 2, "HOLD": 1}}


class Watched:
    """Plays looks to a watch, the last of them for ever, and records what it does."""

    def __init__(
        self,
        looks: Sequence[Look],
        script: Sequence[ScriptStep] = (),
        standstill: float = STANDSTILL_SECONDS,
    ) -> None:
        self.runs: list[float] = []
        self.told: list[str] = []
        self.seen: list[Look] = []
        self._looks = list(looks)
        for look in watch(
            self._look,
            script,
            start_run=lambda: self.runs.append(self.seen[-1].at),
            tell=self.told.append,
            standstill=standstill,
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


def test_a_slow_machine_is_waited_for_longer():
    looks = [busy(0), busy(STANDSTILL_SECONDS), empty(200, 9), empty(201, 9)]
    assert len(Watched(looks, standstill=4 * STANDSTILL_SECONDS).seen) == 4


def test_a_run_is_started_only_when_the_last_has_ended_or_should_have():
    began = 30.0
    first = began + RUN_EVERY_SECONDS
    late = first + RUN_LASTS_SECONDS
    watched = Watched(
        [
            busy(began),
            busy(first),
            busy(first + RUN_EVERY_SECONDS),  # the first is still under way
            busy(late - 1),
            busy(late),  # it never said that it ended
            busy(late + 1, runs_ended=1),
            busy(late + RUN_EVERY_SECONDS, runs_ended=1),
            busy(late + began + STANDSTILL_SECONDS),
        ]
    )
    assert watched.runs == [first, late, late + RUN_EVERY_SECONDS]


def test_it_waits_for_the_report_of_the_run_under_way():
    first = RUN_EVERY_SECONDS
    looks = [
        busy(0),
        busy(first),
        empty(first + 1),
        empty(first + 2),
        empty(first + 3, 1),
        empty(9, 1),
    ]
    assert len(Watched(looks).seen) == 6


def test_no_run_is_started_when_nothing_is_left():
    assert Watched([empty(0), empty(RUN_EVERY_SECONDS + 1)]).runs == []


def test_steps_are_done_once_in_their_order_whatever_is_seen_sooner():
    done: list[str] = []

    def step(name: str, when: Callable[[Look], bool]) -> ScriptStep:
        return ScriptStep(when, lambda: done.append(name), name)

    watched = Watched(
        [busy(0), busy(1), busy(2), busy(STANDSTILL_SECONDS)],
        [
            step("at 1", lambda look: look.at >= 1),
            step("after 1", lambda look: True),
            step("never", lambda look: look.at > 1e6),
            step("after never", lambda look: True),
        ],
    )
    assert done == watched.told == ["at 1", "after 1"]


WAITS = [Seated("id", in_bucket=True)]


@each_row(
    ("look", "over"),
    [
        (Look(1, seated=WAITS), True),
        (Look(1, seated=WAITS, main=1), False),
        (Look(1, seated=WAITS, dlq=1), False),
        (Look(1, seated=[Seated("id", in_bucket=False)]), False),
        (Look(1), False),
    ],
    ids=["all wait", "main queue", "DLQ", "no snapshot", "nothing"],
)
def test_the_outage_is_not_over_before_all_else_has_settled_and_the_snapshot_waits(look, over):
    assert only_waiting(look) is over


def seen_circuit(circuit: Circuit) -> Look:
    return Look(1, circuits={RECOVERING: circuit})


def test_the_circuit_is_told_of_as_it_goes():
    failed = replace(OPENED, cooldown=COOLDOWN_SECONDS * 1.5)
    back = replace(failed, state=State.CLOSED, closed_at=2.0)
    stages = (circuit_opened, canary_failed, circuit_closed)
    assert [
        [stage(seen_circuit(circuit)) for stage in stages]
        for circuit in (CLOSED, replace(OPENED, cooldown=COOLDOWN_SECONDS), failed, back)
    ] == [
        [False, False, False],
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


@dataclass
class Stage:
    """Takes down what the script does."""

    done: list[str] = field(default_factory=list)

    def play(self, looks: Sequence[Look]) -> Watched:
        script = steps(
            later={"later"},
            send_later=lambda: self.done.append("sent more"),
            mend=lambda: self.done.append("mended"),
        )
        return Watched(looks, script)


OUTAGE = Look(
    1,
    seated=WAITS,
    visits=[visit(HEALTHY), visit(RECOVERING, status=503)],
    circuits={RECOVERING: replace(OPENED, cooldown=COOLDOWN_SECONDS * 1.5)},
)
GOES_ON = replace(OUTAGE, visits=[*OUTAGE.visits, visit(HEALTHY, digest="later")])


def test_the_outage_goes_on_until_the_healthy_tenant_has_taken_an_event_sent_in_it():
    stage = Stage()
    stage.play([OUTAGE, OUTAGE, empty(2, 9), empty(3, 9)])
    assert stage.done == ["sent more"]


def test_a_story_seen_in_one_look_is_told_in_its_order():
    stage = Stage()
    closed = replace(OPENED, state=State.CLOSED, cooldown=4.5, closed_at=2.0)
    watched = stage.play(
        [GOES_ON, replace(GOES_ON, circuits={RECOVERING: closed}), empty(2, 9), empty(3, 9)]
    )
    assert stage.done == ["sent more", "mended"]
    assert len(watched.told) == 5
    for tenant, role in (("aspen", "healthy"), ("birch", "down")):
        assert any(f"{tenant} ({role})" in line for line in watched.told)


class Pipeline:
    """Takes down what a person does to it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def add_rule(self, rule_id: str, **_columns: str) -> None:
        self.done.append(f"typed {rule_id}")


def test_a_person_types_one_rule_and_what_is_told_says_so():
    pipeline = Pipeline()
    told = type_rule(cast(DemoPipeline, pipeline))
    assert pipeline.done == ["typed quarantine-cedar"]
    assert "a person has typed rule quarantine-cedar" in told


def test_a_look_adds_up_the_decisions_of_all_runs():
    look = Look(1, reports=[REPORT, REPORT, {"decisions": {}}])
    assert look.decisions == {"HOLD": 2, "REDRIVE": 4}


def test_a_delivery_made_twice_settles_one_event():
    look = Look(1, parked=2, visits=[visit(HEALTHY), visit(HEALTHY), visit(REFUSING, status=422)])
    assert look.settled == 3
    assert look.answers(REFUSING) == {422: 1}
