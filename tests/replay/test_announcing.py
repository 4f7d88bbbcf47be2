"""The announcer of replay runs on a strict DynamoDB and a bus: each change is told once or more."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deadletter.aws.events import EventBus
from deadletter.aws.replay_runs import DynamoDBReplayRuns
from deadletter.contract import DAY, EventType
from deadletter.replay.care import RunsKeeper
from deadletter.replay.machine import RunAnnouncer, is_untold, run_detail
from deadletter.replay.run import ReplayRun, RunState, RunsUnavailable, held, moved_to
from deadletter.signals.figures import Count
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryDynamoDB
from tests.aws.test_news import PutEvents
from tests.each_row import each_row
from tests.tables import LETTERS, create_tables


class Runs:
    """A run in DynamoDB, and its announcer."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.dynamodb: Any = MemoryDynamoDB(self.clock)
        create_tables(self.dynamodb)
        self.events = PutEvents()
        events: Any = self.events
        bus = EventBus(events, "shop", self.clock)
        self.metrics: Counter[str] = Counter()
        self.items = DynamoDBReplayRuns(self.dynamodb, LETTERS, "orders", self.clock)
        self.announcer = RunAnnouncer(
            runs=self.items,
            put=lambda event_type, detail: bus.put(event_type, "orders", detail),
            count_metric=lambda name, number: self.metrics.update({name: number}),
        )
        self.items.create(ReplayRun(id="r-1", pipeline="orders", created=self.clock(), by="ada"))

    @property
    def run(self) -> ReplayRun:
        run = self.items.read("r-1")
        assert run is not None
        return run

    def change(self, after: ReplayRun) -> None:
        self.items.change(self.run, after)


def test_a_run_s_state_is_announced_once_with_the_one_before() -> None:
    runs = Runs()
    runs.announcer.announce(runs.run)
    runs.announcer.announce(runs.run)
    runs.change(moved_to(runs.run, RunState.MOVING, at=runs.clock(), by="the run"))
    generation = runs.run.generation
    runs.announcer.announce(runs.run)
    runs.announcer.announce(runs.run)
    states = [(detail.get("before"), detail["state"]) for _, detail in runs.events.taken]
    assert states == [(None, "PLANNED"), ("PLANNED", "MOVING")]
    # A grant that was read before is still good.
    assert runs.run.generation == generation


def test_a_refused_announcement_is_counted_and_made_later_and_the_run_goes_on() -> None:
    runs = Runs()
    runs.events.fails = True
    runs.announcer.announce(runs.run)
    assert runs.metrics == {Count.EVENT_REFUSED: 1}
    assert runs.run.told == ""
    runs.events.fails = False
    runs.announcer.announce(runs.run)
    assert runs.run.told == "PLANNED"


def test_an_announcement_that_could_not_be_remembered_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = Runs()
    stale = runs.run
    runs.change(moved_to(runs.run, RunState.MOVING, at=runs.clock(), by="the run"))
    runs.announcer.announce(stale)
    assert runs.run.told == ""
    with monkeypatch.context() as patch:

        def refuse(*_: Any) -> None:
            raise RunsUnavailable("throttled")

        patch.setattr(runs.items, "change", refuse)
        runs.announcer.announce(runs.run)
    runs.announcer.announce(runs.run)
    assert [detail["state"] for _, detail in runs.events.taken] == ["PLANNED", "MOVING", "MOVING"]


def test_the_watch_announces_what_a_person_has_changed_and_leaves_the_run_s_own_step_time() -> None:
    runs = Runs()
    executions: Any = SimpleNamespace(running=lambda: {"r-1-0"})
    keeper = RunsKeeper(
        pipeline="orders",
        runs=runs.items,
        executions=executions,
        clock=runs.clock,
        count_metric=lambda *_: None,
        announcer=runs.announcer,
    )
    runs.change(moved_to(runs.run, RunState.MOVING, at=runs.clock(), by="the run"))
    runs.change(held(runs.run, at=runs.clock(), by="ada", because="wait for the fix"))
    keeper.care()
    assert runs.events.taken == []
    runs.clock.advance(35)
    for _ in range(3):
        keeper.care()
    [(event_type, detail)] = runs.events.taken
    assert event_type == EventType.RUN_STATE_CHANGED
    assert (detail["state"], detail["by"], detail["because"]) == ("HELD", "ada", "wait for the fix")


@each_row(
    ("created", "changed", "after", "is_announced"),
    [
        (0.0, 1_000.0, 29.0, False),
        (0.0, 1_000.0, 30.0, True),
        (1_000.0, 0.0, 29.0, False),
        (1_000.0, 0.0, 30.0, True),
        (0.0, 1_000.0, DAY, True),
        (0.0, 1_000.0, DAY + 1.0, False),
    ],
)
def test_the_watch_announces_a_change_from_half_a_minute_to_a_day_after_it(
    created: float, changed: float, after: float, is_announced: bool
) -> None:
    run = ReplayRun(
        id="r", pipeline="orders", state=RunState.DONE, created=created, changed=changed
    )
    assert is_untold(run, 1_000.0 + after) is is_announced
    assert not is_untold(replace(run, told="DONE"), 1_000.0 + after)


def test_an_announcement_says_what_is_known_of_the_run() -> None:
    run = ReplayRun(id="r", pipeline="orders", because="wait", by="ada", counts={"OPEN": 2})
    detail = {
        "run": "r",
        "state": "PLANNED",
        "counts": {"OPEN": 2},
        "because": "wait",
        "by": "ada",
        "command": "dlq show r",
    }
    assert run_detail(run) == detail
    known = replace(run, told="HELD", messages=0)
    assert run_detail(known) == {**detail, "before": "HELD", "messages": 0}
