"""Drains in shards: how many, at which pace each, and which runs start which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from deadletter.contract import MOST_SHARDS
from deadletter.message.queue import Depth
from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPace, RunPaid
from deadletter.redrive import redriver as redriver_module
from deadletter.redrive import shards
from deadletter.redrive.redriver import DRAIN_ENDED, LEASE_HELD, Redriver, run_as_asked
from deadletter.redrive.report import Report
from deadletter.redrive.run_limits import DEADLINE_NEAR, PACE_USED_UP
from deadletter.redrive.shards import (
    ENOUGH_LETTERS,
    MOST_HOPS,
    DrainShard,
    RunNotStarted,
    hop_in,
    next_event,
    saved,
    shard_event,
    shard_in,
    shards_for,
)
from deadletter.redrive.source_memory import NO_DRAIN, Drain, SourceMemory
from tests.each_row import each_row
from tests.simulation.stage import Stage

MILLION = 1_000_000


# How many.


@each_row(
    ("letters", "rate", "shards"),
    [
        # A queue that one run empties needs no other.
        (ENOUGH_LETTERS - 1, 5_000.0, 1),
        # The default pace is far below what one run can do.
        (MILLION, 50.0, 1),
        (MILLION, 201.0, 2),
        (MILLION, 1_000.0, 5),
        (MILLION, 10_000.0, MOST_SHARDS),
        # Each has letters enough for a start of the function.
        (ENOUGH_LETTERS, 10_000.0, 2),
    ],
)
def test_a_drain_has_as_many_shards_as_depth_and_rate_are_worth(
    letters: int, rate: float, shards: int
) -> None:
    assert shards_for(letters, rate) == shards


def test_a_fifo_queue_has_one_shard() -> None:
    assert shards_for(MILLION, 5_000.0, fifo=True) == 1


# At which pace.


def test_what_other_shards_may_have_sent_is_not_saved() -> None:
    """The owner ended at 10 s; until 45 s three others of four may have been sending."""
    whole = Rate(4.0, 1_000.0)
    drain = Drain("d", 4, 45.0, 1.0, 250.0)
    # The second one was killed: the row is older than the drain.
    for left in (RunPaid(Rate(1.0, 250.0), 10.0), RunPaid(whole, 10.0)):
        assert saved(left, drain, whole, 30.0).free(30.0) == pytest.approx(20.0)
        assert saved(left, drain, whole, 60.0).free(60.0) == pytest.approx(35.0 + 4 * 15.0)
    left = RunPaid(whole, 10.0)
    assert saved(left, NO_DRAIN, whole, 60.0) == left
    assert saved(RunPaid(whole, 50.0), drain, whole, 60.0) == RunPaid(whole, 50.0)


# Events.


def test_an_event_of_a_shard_is_read_as_it_was_written() -> None:
    event = shard_event("dlq", Drain("run7", 3, 1.0, 1.0), 2)
    assert shard_in(event) == DrainShard("run7", 2)
    assert shard_in({}) is shard_in({"drain": "run7", "shard": 1}) is None
    assert shard_in({"drain": "run7", "shard": "2"}) is None
    assert hop_in(next_event("dlq", 3)) == 3
    assert hop_in({}) == hop_in({"hop": "x"}) == hop_in({"hop": -1}) == 0


# Whole runs.


class Starts:
    """Notes what is started, and can refuse."""

    def __init__(self, *, refused: bool = False) -> None:
        self.events: list[Mapping[str, Any]] = []
        self.refused = refused

    def start(self, event: Mapping[str, Any]) -> None:
        self.events.append(event)
        if self.refused:
            raise RunNotStarted("TooManyRequestsException for lambda:InvokeFunction on redrive")


@pytest.fixture
def starts() -> Starts:
    return Starts()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Queues of twenty letters are deep, and worth four shards."""
    monkeypatch.setattr(shards, "ENOUGH_LETTERS", 20)
    monkeypatch.setattr(redriver_module, "ENOUGH_LETTERS", 20)
    monkeypatch.setattr(shards, "LETTERS_A_SHARD", 1)
    monkeypatch.setattr(shards, "RATE_A_SHARD", 0.1)
    monkeypatch.setattr(shards, "MOST_SHARDS", 4)
    stage = Stage()
    stage.pipeline = replace(stage.pipeline, fixed_rate=4.0)
    return stage


def dead(stage: Stage, letters: int) -> None:
    for _ in range(letters):
        stage.put(url=stage.dlq)


def redriver(stage: Stage, starts: Starts | None, home: str = "dlq") -> Redriver:
    return Redriver(replace(stage.redriver(home)._setup, starter=starts))


def run(stage: Stage, starts: Starts | None, event: Mapping[str, Any] | None = None) -> Report:
    return run_as_asked(redriver(stage, starts), event or {}, stage.clock() + 55)


def memory(stage: Stage) -> SourceMemory:
    return stage.redriver()._setup.lease.read()


def test_the_owner_of_a_deep_queue_records_the_drain_and_starts_the_others(
    stage: Stage, starts: Starts
) -> None:
    dead(stage, 60)
    began = stage.clock()
    report = run(stage, starts)
    drain = memory(stage).drain
    assert report.shard == report.to_json()["shard"] == "1 of 4"
    assert drain == Drain(drain.id, 4, began + 55, rate=1.0, burst=10.0)
    shards = [event for event in starts.events if "shard" in event]
    assert shards == [shard_event("dlq", drain, number) for number in (2, 3, 4)]
    # A quarter of the burst, and of what comes in time.
    assert 10 <= report.moved <= 10 + 1.0 * 45


def test_a_shallow_queue_is_drained_by_one_run(stage: Stage, starts: Starts) -> None:
    dead(stage, 19)
    report = run(stage, starts)
    assert (report.moved, report.shard, starts.events) == (19, "", [])
    assert memory(stage).drain == NO_DRAIN
    assert memory(stage).emptied_at is not None


def test_without_a_starter_a_run_is_alone(stage: Stage) -> None:
    dead(stage, 300)
    report = run(stage, None)
    assert (report.stopped, report.shard) == (PACE_USED_UP, "")
    assert 40 <= report.moved <= 40 + 4 * 45


def test_a_start_that_is_refused_makes_the_drain_slower_and_is_reported(stage: Stage) -> None:
    dead(stage, 60)
    report = run(stage, Starts(refused=True))
    assert report.moved >= 10
    assert report.ended_well
    assert "lambda:InvokeFunction" in report.trouble


def test_shards_empty_the_queue_together(stage: Stage, starts: Starts) -> None:
    stage.pipeline = replace(stage.pipeline, fixed_rate=4.0)
    dead(stage, 60)
    began = stage.clock()
    reports = [run(stage, starts)]
    for event in starts.events[:3]:
        # As if they had run beside the owner.
        stage.clock.now = began
        reports.append(run(stage, starts, event))
    assert [report.shard for report in reports] == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"]
    assert all(report.moved for report in reports[:2])
    assert sum(report.moved for report in reports) == 60
    assert len(stage.bodies(stage.main)) == 60
    # None of them knows what the others had in hand.
    assert memory(stage).emptied_at is None


def test_a_shard_takes_its_share_of_the_rate_and_nothing_that_was_saved(
    stage: Stage, starts: Starts
) -> None:
    dead(stage, 120)
    began = stage.clock()
    run(stage, starts)
    stage.clock.now = began
    assert run(stage, starts, starts.events[0]).moved <= 1.0 * 45


def test_a_start_that_comes_late_or_twice_moves_nothing(stage: Stage, starts: Starts) -> None:
    dead(stage, 120)
    began = stage.clock()
    run(stage, starts)
    stage.clock.now = began + 55
    assert run(stage, starts, starts.events[0]).stopped == DRAIN_ENDED
    run(stage, starts)
    assert run(stage, starts, starts.events[0]).stopped == DRAIN_ENDED, "an older drain's"
    stage.clock.now = began + 56
    held = redriver(stage, starts)._setup.lease.of_shard(2)
    assert held.acquire("the first start", stage.clock(), memory(stage).drain.until)
    [again] = [event for event in starts.events[-4:] if event.get("shard") == 2]
    assert run(stage, starts, again).stopped == LEASE_HELD


def test_a_crashed_shard_is_taken_over_by_the_next_drain(stage: Stage, starts: Starts) -> None:
    dead(stage, 120)
    began = stage.clock()
    run(stage, starts)
    first = memory(stage).drain
    stage.clock.now = began
    lease = redriver(stage, starts)._setup.lease.of_shard(2)
    assert lease.acquire("killed", began, first.until) is not None
    stage.clock.now = first.until
    run(stage, starts)
    now = [event for event in starts.events if event.get("drain") == memory(stage).drain.id]
    stage.clock.now = first.until + 1
    report = run(stage, starts, now[0])
    assert (report.shard, report.moved > 0) == ("2 of 4", True)


def test_a_shard_waits_for_the_one_before_it_that_is_ending(stage: Stage, starts: Starts) -> None:
    dead(stage, 60)
    began = stage.clock()
    run(stage, starts)
    stage.clock.now = began
    lease = redriver(stage, starts)._setup.lease.of_shard(2)
    lease.acquire("ending", began, began + 5)
    assert run(stage, starts, starts.events[0]).moved


def test_a_shard_moves_nothing_while_the_circuit_is_open(stage: Stage, starts: Starts) -> None:
    dead(stage, 60)
    began = stage.clock()
    run(stage, starts)
    stage.clock.now = began
    stage.set_circuit("OPEN")
    assert run(stage, starts, starts.events[0]).stopped == "circuit orders is OPEN"


def test_an_owner_knows_of_shards_that_may_still_be_sending(stage: Stage, starts: Starts) -> None:
    """Its part of the rate is what theirs leave, though its own queue is shallow now."""
    lease = redriver(stage, starts)._setup.lease
    began = stage.clock()
    lease.record(SourceMemory(drain=Drain("before", 4, began + 50, 1.0, 10.0)))
    dead(stage, 19)
    report = run(stage, starts)
    assert (report.shard, starts.events) == ("1 of 4", [])
    assert stage.clock() - began >= (19 - 10) / 1.0
    assert memory(stage).emptied_at is None, "others may have messages in hand"


def test_fruitless_runs_start_no_shards(stage: Stage, starts: Starts) -> None:
    redriver(stage, starts)._setup.lease.record(SourceMemory(fruitless=1))
    dead(stage, 60)
    assert run(stage, starts, {"asked": True}).shard == ""


def test_a_lease_that_cannot_be_read_is_given_back(
    stage: Stage, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(stage, 60)

    def lost(*_: Any, **__: Any) -> int:
        raise RuntimeError("a bug")

    monkeypatch.setattr(shards, "shards_for", lost)
    with pytest.raises(RuntimeError):
        run(stage, starts)
    assert memory(stage).held_until == 0.0


# Going on.


def hops(starts: Starts) -> list[Mapping[str, Any]]:
    return [event for event in starts.events if "hop" in event]


def test_a_run_whose_time_was_too_short_starts_the_next_one(stage: Stage, starts: Starts) -> None:
    dead(stage, 120)
    assert run(stage, starts).stopped == PACE_USED_UP
    assert hops(starts) == [next_event("dlq", 1)]


def test_a_chain_of_runs_ends_before_lambda_takes_it_for_a_loop(
    stage: Stage, starts: Starts
) -> None:
    dead(stage, 120)
    run(stage, starts, {"hop": MOST_HOPS - 1})
    assert hops(starts) == [next_event("dlq", MOST_HOPS)]
    stage.clock.advance(60)
    run(stage, starts, {"hop": MOST_HOPS})
    assert len(hops(starts)) == 1
    # Each start is one more, and Lambda ends a chain of 16.
    assert MOST_HOPS + 2 < 16


def test_a_shallow_rest_waits_for_the_schedule(
    stage: Stage, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "MOST_SHARDS", 1)
    dead(stage, 230)
    report = run(stage, starts)
    assert report.stopped == PACE_USED_UP
    assert len(stage.bodies(stage.dlq)) < 20
    assert hops(starts) == []


def test_a_run_that_moved_nothing_does_not_go_on(stage: Stage, starts: Starts) -> None:
    dead(stage, 60)
    redriver(stage, starts)._setup.lease.record(SourceMemory())
    report = redriver(stage, starts).run(stage.clock() + 9)
    assert (report.stopped, report.moved) == (DEADLINE_NEAR, 0)
    assert hops(starts) == []


def test_a_run_does_not_go_on_when_a_rescue_waits_for_the_lease(
    stage: Stage, starts: Starts
) -> None:
    dead(stage, 120)
    wanted = stage.clock() + 300
    redriver(stage, starts)._setup.lease.record(SourceMemory(wanted_until=wanted))
    run(stage, starts)
    assert hops(starts) == []


def test_a_rescue_that_waits_for_the_lease_says_so(stage: Stage, starts: Starts) -> None:
    dead(stage, 5)
    lease = redriver(stage, starts)._setup.lease
    began = stage.clock()
    lease.acquire("another run", began, began + 20)
    report = redriver(stage, starts).rescue(began + 300)
    assert report.stopped == "the source is empty"
    assert memory(stage).wanted_until == began + 300


def test_a_rescue_waits_for_the_shards_of_a_drain(stage: Stage, starts: Starts) -> None:
    """A snapshot of a replay must find in place what the plan has counted, or its own move."""
    dead(stage, 5)
    began = stage.clock()
    drain = Drain("before", 4, began + 30, 0.25, 10.0)
    redriver(stage, starts)._setup.lease.record(SourceMemory(drain=drain))
    assert redriver(stage, starts).rescue(began + 20).stopped == LEASE_HELD
    assert memory(stage).held_until == 0.0
    assert stage.clock() < began + 20
    assert redriver(stage, starts).rescue(began + 300).stopped == "the source is empty"
    assert stage.clock() >= began + 30


# With `rate: auto`.


def auto(stage: Stage) -> Stage:
    stage.pipeline = replace(stage.pipeline, fixed_rate=None)
    return stage


def test_the_shards_go_on_at_the_pace_that_the_owner_has_come_to(
    stage: Stage, starts: Starts
) -> None:
    """The consumer fails: the owner halves its rate, and with it those of the others."""
    auto(stage)
    dead(stage, 60)
    owner = redriver(stage, starts)
    owner.run(stage.clock() + 55)
    began = memory(stage).drain
    known = memory(stage).auto_rate
    assert known is not None
    assert (began.of, began.rate, began.burst) == (4, known.rate / 4, 50.0)
    owner._owner.keep_pace(Rate(6.25, 50.0))
    assert memory(stage).drain == replace(began, rate=6.25)
    pace = RunPace(began.paid(stage.clock()), stage.clock)
    look = shards.following(owner._setup.lease, owner._tally, 50.0)
    assert look(Depth(0, 0, 0), pace) == 5.0
    assert pace.paid.rate == Rate(6.25, 50.0)
    # 25 a second together: letters of a deep queue are delayed less.
    assert pace.delay_share == pytest.approx(2 / 3)
    owner._owner.keep_pace(Rate(100.0, 50.0))
    assert look(Depth(0, 0, 0), pace) == 2.0


def test_a_shard_follows_the_owner_while_it_works(stage: Stage) -> None:
    auto(stage)
    dead(stage, 900)
    drain = Drain("d", 4, stage.clock() + 55, 12.5, 10.0)
    lease = stage.redriver()._setup.lease
    lease.record_drain(drain)

    def wait(seconds: float) -> None:
        """As long as the shard waits for its pace, the owner slows down."""
        lease.record_drain(replace(drain, rate=1.0))
        stage.clock.advance(seconds)

    shard = Redriver(replace(stage.redriver()._setup, wait=wait))
    assert 10 < shard.take_part(stage.clock() + 55, DrainShard("d", 2)).moved < 12.5 * 6 + 50


def test_the_rate_of_a_drain_is_that_of_all_its_shards(stage: Stage, starts: Starts) -> None:
    """The owner sends a quarter of it, and may raise it all the same."""
    auto(stage)
    dead(stage, 2_000)
    run(stage, starts)
    known = memory(stage).auto_rate
    assert known is not None
    assert known.rate > 50
    assert memory(stage).drain.rate == pytest.approx(known.rate / 4)
