"""A THROTTLE rule lets its letters go at its rate, whoever sends them.

The real redriver and router on the in-memory AWS: the workers of a run take turns whenever one of
them waits, and a run that crashes makes no call any more, as a killed process.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from greenlet import getcurrent, greenlet

from deadletter.aws.clients import Clients
from deadletter.aws.wiring.moving import redriver_for
from deadletter.aws.wiring.world import World
from deadletter.redrive.redriver import Redriver
from deadletter.routing.router import Router
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import RetryPolicy
from tests.simulation.scheduler import Crash
from tests.simulation.stage import Stage
from tests.simulation.test_rule_edits import ACME, MINUTE, dead, lanes

SLOW = {**ACME, "action": "THROTTLE", "rate": 1}
TEN_MINUTES = 600


class Mortal:
    """A client that raises Crash once its process is dead, and may kill it after a number of calls.

    Every call passes here; `when` says which of them ends the process.
    """

    def __init__(self, client: Any, stage: CrowdedStage) -> None:
        self._client = client
        self._stage = stage

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)

        def guarded(*args: Any, **options: Any) -> Any:
            if self._stage.is_dead:
                raise Crash
            answer = call(*args, **options)
            if name == "send_message_batch" and self._stage.crash_at <= self._stage.clock():
                self._stage.is_dead, self._stage.crash_at = True, float("inf")
                self._stage.crashes += 1
                raise Crash
            return answer

        return guarded if callable(call) else call


class CrowdedStage(Stage):
    """A stage on which the workers of a run work side by side."""

    is_dead = False
    crash_at = float("inf")
    crashes = 0

    @property
    def clients(self) -> Clients:
        sqs: Any = Mortal(self.redriver_sqs, self)
        dynamodb: Any = Mortal(self.dynamodb, self)
        return replace(super().clients, sqs=sqs, sending=sqs, dynamodb=dynamodb, journal=dynamodb)

    @property
    def world(self) -> World:
        return replace(super().world, wait=self.wait)

    def wait(self, seconds: float) -> None:
        """Let seconds pass: a worker lets the others go on meanwhile."""
        if self.is_dead:
            raise Crash
        parent = getcurrent().parent
        if parent is None:
            self.clock.advance(seconds)
        else:
            parent.switch(self.clock() + seconds)

    def side_by_side(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        results: list[Any] = [None] * len(calls)

        def carry_out(number: int) -> None:
            results[number] = calls[number]()

        numbers = itertools.count()
        waiting: list[Any] = []
        for number in range(len(calls)):
            worker = greenlet(carry_out, getcurrent())
            heapq.heappush(waiting, (self.clock(), next(numbers), worker, (number,)))
        while waiting:
            until, _, worker, arguments = heapq.heappop(waiting)
            self.clock.now = max(self.clock.now, until)
            awake = worker.switch(*arguments)
            if not worker.dead:
                heapq.heappush(waiting, (awake, next(numbers), worker, ()))
        return results

    def redriver(self, home: str = "dlq", router: Router | None = None) -> Redriver:
        return redriver_for(
            self.pipeline,
            self.resources,
            self.clients,
            self.world,
            home=home,
            router=router or self.router,
            in_parallel=self.side_by_side,
        )

    def runs(self, until: float) -> None:
        """The scheduled runs, one a minute, up to a time."""
        while self.clock() < until:
            began = self.clock()
            try:
                self.run(seconds=55)
            except Crash:
                self.is_dead = False
            self.clock.now = max(self.clock(), began + MINUTE)


@pytest.fixture
def stage() -> CrowdedStage:
    stage = CrowdedStage()
    stage.pipeline = replace(stage.pipeline, workers=4)
    return stage


def sent(stage: Stage) -> int:
    return len(stage.bodies(stage.main))


def throttled(stage: CrowdedStage, letters: int, **columns: Any) -> None:
    """Letters in the lane of a THROTTLE rule, and the first run that lets some of them go."""
    stage.add_rule("slow", **{**SLOW, **columns})
    dead(stage, {"a": letters})
    stage.runs(stage.clock() + 2 * MINUTE)
    assert lanes(stage) == Counter({"rule:slow": letters - sent(stage)})


@pytest.mark.parametrize("crash", [20, pytest.param(200, marks=pytest.mark.nightly)])
def test_one_letter_a_second_is_600_in_ten_minutes_with_four_workers_and_a_crash(
    stage: CrowdedStage, crash: int
) -> None:
    throttled(stage, 900)
    before = sent(stage)
    stage.crash_at = stage.clock() + crash
    stage.runs(stage.clock() + TEN_MINUTES)
    assert stage.crashes == 1
    assert sent(stage) - before == pytest.approx(600, abs=10)
    assert len(set(stage.stamps(stage.main))) == sent(stage)


def test_the_rate_is_for_all_runs_together_and_never_exceeded_by_more_than_what_is_saved(
    stage: CrowdedStage,
) -> None:
    throttled(stage, 900)
    began, before = stage.clock(), sent(stage)
    times: list[tuple[float, int]] = []
    original = stage.wait

    def wait(seconds: float) -> None:
        times.append((stage.clock(), sent(stage) - before))
        original(seconds)

    stage.wait = wait  # type: ignore[method-assign]
    stage.runs(began + TEN_MINUTES)
    assert len(times) > 300
    for earlier, (start, fewer) in enumerate(times):
        for end, more in times[earlier:]:
            assert more - fewer <= 3 * (end - start) + 6 + 4


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "letters"), [(0.1, 60), pytest.param(5, 3_000, marks=pytest.mark.nightly)]
)
def test_other_rates_are_kept_too(stage: CrowdedStage, rate: float, letters: int) -> None:
    throttled(stage, letters + 700, rate=rate)
    before = sent(stage)
    stage.runs(stage.clock() + TEN_MINUTES)
    assert sent(stage) - before == pytest.approx(letters, rel=0.02)


def test_other_letters_do_not_wait_for_a_throttled_lane(stage: CrowdedStage) -> None:
    throttled(stage, 300)
    for _ in range(500):
        stage.put('{"tenantId": "other"}', stage.dlq)
    before = sent(stage)
    stage.runs(stage.clock() + MINUTE)
    assert sent(stage) - before >= 500 + 30


def test_a_lane_without_letters_saves_nothing_up(stage: CrowdedStage) -> None:
    throttled(stage, 20)
    stage.runs(stage.clock() + 5 * MINUTE)
    assert lanes(stage) == {}
    stage.runs(stage.clock() + 10 * MINUTE)
    before = sent(stage)
    dead(stage, {"b": 300})
    stage.runs(stage.clock() + 3 * MINUTE)
    assert 100 <= sent(stage) - before <= 185


def test_letters_leave_at_once_when_the_rule_is_removed(stage: CrowdedStage) -> None:
    throttled(stage, 300)
    stage.remove_rule("slow")
    stage.runs(stage.clock() + MINUTE)
    assert lanes(stage) == {}
    assert sent(stage) == 300


def test_a_throttled_letter_waits_for_its_backoff_too(stage: CrowdedStage) -> None:
    waits = RetryPolicy(Backoff(base=600, factor=1, cap=600, floor=600), max_attempts=3)
    stage.pipeline = replace(stage.pipeline, policy=waits)
    throttled(stage, 20, rate=10)
    assert sent(stage) == 0
    stage.add_rule("other", tenantId="x", action="HOLD")
    stage.runs(stage.clock() + 7 * MINUTE)
    assert sent(stage) == 0
    stage.runs(stage.clock() + 4 * MINUTE)
    assert sent(stage) == 20
