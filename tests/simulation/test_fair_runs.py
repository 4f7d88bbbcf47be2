"""No lane keeps the others, or the DLQ, from their turn in a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.contract import circuit_lane
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive import openings
from deadletter.redrive.order import Order
from deadletter.redrive.redriver import Redriver
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.routing.decision import DUE, Hold
from deadletter.signals.figures import Count
from tests.simulation.stage import Stage, ids_from, in_turn, prompt_policy

MINUTE = 60.0


@pytest.fixture
def stage() -> Stage:
    return Stage()


def waiting(stage: Stage, lane: str, letters: int, seed: int = 7) -> None:
    """Letters in a lane, due already."""
    room = stage.redriver()._setup.room
    ids = ids_from(seed)
    sent = str(int(stage.clock() * 1000) - 60_000)
    orders = []
    for _ in range(letters):
        copy = ids()
        mail = Letter(copy, '{"tenantId": "a"}', {}, {"SentTimestamp": sent})
        received = ReceivedLetter(mail, "handle", 0)
        orders.append(Order(received, Hold(lane, 1.0, "waits"), Stamp(copy, 0, int(sent))))
    assert len(room.admit(orders)) == letters


def dead(stage: Stage, letters: int) -> None:
    for number in range(letters):
        stage.put(f'{{"tenantId": "dead", "n": {number}}}')
    stage.fail()


def sent(stage: Stage) -> Counter[str]:
    """How many letters went back to the main queue: of the DLQ and of the room."""
    bodies = stage.bodies(stage.main)
    return Counter("dlq" if "dead" in body else "room" for body in bodies)


def test_the_letters_of_the_dlq_are_received_beside_a_lane_that_fills_the_run(
    stage: Stage,
) -> None:
    waiting(stage, DUE, 3_000)
    dead(stage, 200)
    report = stage.run()
    assert report.stopped == "the pace allows no more before the deadline"
    assert sent(stage)["dlq"] == 200
    assert sent(stage)["room"] > 1_000


def test_the_lane_of_delays_has_its_turn_beside_a_hundred_lanes_of_circuits(stage: Stage) -> None:
    stage.pipeline = replace(stage.pipeline, fixed_rate=8.0)
    for number in range(100):
        waiting(stage, circuit_lane(f"endpoint{number:03}"), 40, seed=number)
    waiting(stage, DUE, 400, seed=1_000)
    dead(stage, 400)
    stage.run()
    left = Counter(item["lane"]["S"].split("|")[1].partition(":")[0] for item in stage.waiting())
    moved = sent(stage)
    total = moved.total()
    assert moved["dlq"] >= total / 3 - 50
    assert 400 - left[DUE] >= total / 3 - 50
    assert 4_000 - left["circuit"] >= total / 3 - 50


def test_every_lane_is_visited_within_a_few_runs_whatever_the_minute(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs every ten minutes, each with time to look into a tenth of the lanes."""
    lanes = 60
    monkeypatch.setattr(openings, "SHARDS", 1)
    monkeypatch.setattr("deadletter.redrive.waiting_room.SHARDS", 1)
    for number in range(lanes):
        waiting(stage, circuit_lane(f"endpoint{number:04}"), 1, seed=number)
    room = type(stage.redriver()._setup.room)
    original = room.due

    def slow(self: Any, *arguments: Any) -> Any:
        stage.clock.advance(openings.LANE_TOUR_SECONDS / (lanes / 10))
        return original(self, *arguments)

    monkeypatch.setattr(room, "due", slow)
    runs = 0
    while stage.waiting():
        runs += 1
        assert runs <= 15, f"{len(stage.waiting())} lanes were never visited"
        stage.run()
        stage.clock.advance(10 * MINUTE - stage.clock() % (10 * MINUTE))


def test_a_room_that_gives_no_answer_does_not_keep_the_dlq_from_its_turns(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lane in (DUE, circuit_lane("a"), circuit_lane("b")):
        waiting(stage, lane, 30)
    dead(stage, 30)

    def refuse(self: Any, *arguments: Any) -> Any:
        raise RoomUnavailable("ThrottlingException for dynamodb:BatchGetItem on messages")

    monkeypatch.setattr(type(stage.redriver()._setup.room), "read_in_parts", refuse)
    report = stage.run()
    assert report.counts[Count.ROOM_UNAVAILABLE] == 1
    assert report.trouble == "ThrottlingException for dynamodb:BatchGetItem on messages"
    assert not report.ended_well
    assert sent(stage) == {"dlq": 30}


def test_where_a_run_was_cut_the_next_one_goes_on(stage: Stage) -> None:
    stage.pipeline = replace(stage.pipeline, fixed_rate=0.5, policy=prompt_policy())
    for lane in (circuit_lane("a"), circuit_lane("b")):
        waiting(stage, lane, 50, seed=len(lane) + ord(lane[-1]))
    dead(stage, 50)
    for _ in range(6):
        stage.run()
        stage.clock.advance(5)
    left = Counter(item["lane"]["S"].split("|")[1] for item in stage.waiting())
    assert sent(stage)["dlq"] >= 40
    assert left[circuit_lane("a")] < 45
    assert left[circuit_lane("b")] < 45


@pytest.mark.parametrize(
    ("letters", "lane", "threads"), [(250, 0, 3), (5_000, 0, 16), (0, 9, 7), (250, 9, 9)]
)
def test_a_run_has_a_thread_for_each_chunk_and_each_shard(
    stage: Stage, letters: int, lane: int, threads: int
) -> None:
    """Nine letters lie in six shards of their lane."""
    stage.pipeline = replace(stage.pipeline, workers=16)
    waiting(stage, DUE, lane)
    for _ in range(letters):
        stage.put(url=stage.dlq)
    crews: list[int] = []

    def counting(calls: Sequence[Callable[[], Any]]) -> list[Any]:
        crews.append(sum(getattr(call, "__name__", "") == "work" for call in calls))
        return in_turn(calls)

    redriver = Redriver(replace(stage.redriver()._setup, in_parallel=counting))
    redriver.run(stage.clock() + 55)
    assert max(crews) == threads
