"""An edit of a rule is effective for the letters that wait because of it.

The real redriver and router on the in-memory AWS. Each test edits the table as a person does, lets
the scheduled runs follow, and looks where the letters are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.redrive.waiting_room import FOREVER, SHARDS, RoomUnavailable, WaitingRoomEntry
from deadletter.routing.router import Question, Router, RouterAnswer
from deadletter.testing.fakes import client_error
from tests.simulation.stage import Stage, with_
from tests.tables import LETTERS, waiting_room

HOUR = 3_600.0
MINUTE = 60.0

ACME = {"tenantId": "acme", "action": "HOLD"}
NARROW = {"tenantId": "acme", "pattern": '{"body": {"kind": ["b"]}}', "action": "HOLD"}


@pytest.fixture
def stage() -> Stage:
    return Stage()


def dead(stage: Stage, kinds: Mapping[str, int], tenant: str = "acme") -> None:
    """Letters of these kinds, as many of each, in the DLQ."""
    for kind, letters in kinds.items():
        for number in range(letters):
            body = json.dumps({"tenantId": tenant, "kind": kind, "n": number})
            stage.put(body, **_group(stage, kind, number))
    stage.fail()


def _group(stage: Stage, kind: str, number: int) -> dict[str, str]:
    if not stage.pipeline.fifo:
        return {}
    return {"MessageGroupId": "g", "MessageDeduplicationId": f"{kind}{number}"}


def runs(stage: Stage, minutes: int) -> None:
    """The scheduled runs of so many minutes."""
    for _ in range(minutes):
        stage.clock.advance(MINUTE)
        stage.run()


def kinds(bodies: Sequence[str]) -> Counter[str]:
    return Counter(json.loads(body)["kind"] for body in bodies)


def lanes(stage: Stage) -> Counter[str]:
    """How many letters wait in each lane."""
    return Counter(item["lane"]["S"].split("|")[1] for item in stage.waiting())


def held(stage: Stage, letters: Mapping[str, int]) -> None:
    """These letters of acme, held by the rule `stop`."""
    stage.add_rule("stop", **ACME)
    dead(stage, letters)
    runs(stage, 2)
    assert lanes(stage) == {"rule:stop": sum(letters.values())}


def test_letters_that_a_narrowed_rule_does_not_hold_any_more_leave_at_the_next_run(
    stage: Stage,
) -> None:
    held(stage, {"a": 30, "b": 20})
    stage.add_rule("stop", **NARROW)
    runs(stage, 1)
    assert kinds(stage.bodies(stage.main)) == {"a": 30}
    assert lanes(stage) == {"rule:stop": 20}
    runs(stage, 30)
    assert lanes(stage) == {"rule:stop": 20}


@pytest.mark.parametrize(
    "edit",
    [
        {"stop": {**ACME, "enabled": "false"}},
        {"stop": None},
        {"stop": {**ACME, "expires_at": 1_000_000_001}},
        {"stop": {**ACME, "mode": "shadow"}},
        {"fine": {"tenantId": "acme", "action": "DEFAULT", "priority": 1}},
    ],
    ids=["disabled", "removed", "ended", "shadow", "an exception before it"],
)
def test_letters_leave_whatever_the_edit_is_that_stops_holding_them(
    stage: Stage, edit: Mapping[str, Mapping[str, Any] | None]
) -> None:
    held(stage, {"a": 5})
    for rule_id, columns in edit.items():
        if columns is None:
            stage.remove_rule(rule_id)
        else:
            stage.add_rule(rule_id, **columns)
    runs(stage, 2)
    assert lanes(stage) == {}
    assert len(stage.bodies(stage.main)) == 5


def test_letters_leave_when_the_rule_ends_by_itself(stage: Stage) -> None:
    stage.add_rule("other", tenantId="other", action="HOLD", priority=1)
    stage.add_rule("stop", **ACME, expires_at=stage.clock() + HOUR)
    stage.add_rule("behind", **ACME, priority=200)
    dead(stage, {"a": 5})
    runs(stage, 2)
    assert lanes(stage) == {"rule:stop": 5}
    runs(stage, 62)
    assert lanes(stage) == {"rule:behind": 5}


def test_an_edit_that_makes_a_rule_invalid_sets_no_letter_free(stage: Stage) -> None:
    held(stage, {"a": 5})
    stage.add_rule("stop", **{**ACME, "action": "HOLDD"})
    runs(stage, 5)
    assert lanes(stage) == {"rule:stop": 5}
    stage.add_rule("stop", **NARROW)
    runs(stage, 1)
    assert lanes(stage) == {}


def test_letters_that_are_held_still_are_not_written_and_not_counted_again(stage: Stage) -> None:
    held(stage, {"b": 40})
    before = {item["copy"]["S"]: item for item in stage.waiting()}
    stage.add_rule("stop", **NARROW)
    stage.clock.advance(MINUTE)
    report = stage.run()
    assert {item["copy"]["S"]: item for item in stage.waiting()} == before
    assert report.counts.get("Held", 0) == 0
    assert report.ended_well
    assert not report.decisions


def test_a_hold_that_reaches_its_limit_sets_its_letters_free_as_if_it_were_disabled(
    stage: Stage,
) -> None:
    stage.add_rule("stop", **ACME, max_matches=3)
    dead(stage, {"a": 5})
    runs(stage, 3)
    assert lanes(stage) == {}
    assert len(stage.bodies(stage.main)) == 5


def test_a_rule_below_its_limit_does_not_lose_the_letters_that_it_has_counted(stage: Stage) -> None:
    stage.add_rule("stop", **ACME, max_matches=12)
    dead(stage, {"a": 10})
    runs(stage, 2)
    stage.add_rule("more", tenantId="other", action="HOLD")
    runs(stage, 3)
    assert lanes(stage) == {"rule:stop": 10}


class Counting:
    """A router that counts the letters that it is asked about."""

    def __init__(self, inner: Router) -> None:
        self.letters = 0
        self._inner = inner

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        self.letters += len(questions)
        return self._inner.decide(questions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_lane_is_reviewed_at_once_and_again_when_all_routers_have_the_rules(stage: Stage) -> None:
    held(stage, {"b": 20})
    runs(stage, 2)
    stage.add_rule("stop", **NARROW)
    asked = []
    for _ in range(5):
        stage.clock.advance(MINUTE)
        router: Any = Counting(stage.router)
        stage.run(router=router)
        asked.append(router.letters)
    assert asked == [20, 20, 0, 0, 0]


def test_a_letter_that_a_router_holds_by_the_rules_of_before_does_not_stay(stage: Stage) -> None:
    held(stage, {"a": 10})
    old = stage.router
    stage.add_rule("later", tenantId="x", action="HOLD")
    stage.clock.advance(MINUTE)
    old.decide([])
    stage.add_rule("stop", **NARROW)

    class Behind(Counting):
        """Judges by what it has read of the rules a moment ago."""

        def open_lanes(self, names: Sequence[str]) -> Any:
            return stage.router.open_lanes(names)

    behind: Any = Behind(old)
    stage.run(router=behind)
    assert lanes(stage) == {"rule:stop": 10}
    runs(stage, 1)
    assert lanes(stage) == {}


def test_a_lane_that_takes_several_runs_is_reviewed_to_its_end(stage: Stage) -> None:
    held(stage, {"a": 150, "b": 250})
    stage.add_rule("stop", **NARROW)

    class Slow(Counting):
        """Each answer takes seconds, so that a run has time for few of them."""

        def decide(self, questions: Sequence[Question]) -> RouterAnswer:
            stage.clock.advance(3)
            return super().decide(questions)

    left = []
    for _ in range(25):
        stage.clock.advance(MINUTE)
        slow: Any = Slow(stage.router)
        stage.run(router=slow)
        left.append(lanes(stage)["rule:stop"])
    assert left == sorted(left, reverse=True)
    assert 250 < left[0] < 400
    assert left[-1] == 250
    assert kinds(stage.bodies(stage.main)) == {"a": 150}


# Delays.


def delayed(stage: Stage, seconds: float, letters: int = 6) -> float:
    """Letters of acme that a rule delays; returns when they began to wait."""
    stage.add_rule("later", tenantId="acme", action="DELAYED_REDRIVE", delay_seconds=seconds)
    dead(stage, {"a": letters})
    stage.run()
    assert lanes(stage) == {"delay:later": letters}
    return stage.clock()


def due(stage: Stage) -> set[float]:
    return {float(item["due"]["N"]) for item in stage.waiting()}


def room_of(stage: Stage) -> DynamoDBWaitingRoom:
    return waiting_room(stage, pipeline=stage.pipeline.name, fifo=stage.pipeline.fifo)


def entries(room: DynamoDBWaitingRoom) -> list[WaitingRoomEntry]:
    """The letters that the rule `later` delays."""
    shards = (room.due("delay:later", shard, FOREVER, 10) for shard in range(SHARDS))
    return [entry for shard in shards for entry in shard]


def test_a_mistyped_delay_is_taken_back_and_counts_from_when_the_letters_began_to_wait(
    stage: Stage,
) -> None:
    began = delayed(stage, 20 * HOUR)
    runs(stage, 30)
    stage.add_rule("later", tenantId="acme", action="DELAYED_REDRIVE", delay_seconds=2 * HOUR)
    runs(stage, 1)
    assert all(abs(at - (began + 2 * HOUR)) <= 2 for at in due(stage))
    runs(stage, 80)
    assert lanes(stage) == {"delay:later": 6}
    runs(stage, 10)
    assert lanes(stage) == {}
    assert len(stage.bodies(stage.main)) == 6


def test_a_delay_that_is_made_longer_holds_the_letters_that_wait(stage: Stage) -> None:
    began = delayed(stage, HOUR)
    stage.add_rule("later", tenantId="acme", action="DELAYED_REDRIVE", delay_seconds=3 * HOUR)
    runs(stage, 2)
    assert all(abs(at - (began + 3 * HOUR)) <= 2 for at in due(stage))


def test_a_letter_that_is_due_already_is_not_made_to_wait_again(stage: Stage) -> None:
    delayed(stage, 20 * HOUR)
    room = room_of(stage)
    for entry in entries(room):
        assert room.recall(entry, stage.clock())
    stage.add_rule("later", tenantId="acme", action="DELAYED_REDRIVE", delay_seconds=30 * HOUR)
    runs(stage, 1)
    assert lanes(stage) == {}
    assert len(stage.bodies(stage.main)) == 6


def test_a_letter_that_is_called_back_while_its_lane_is_reviewed_leaves(stage: Stage) -> None:
    began = delayed(stage, 20 * HOUR)
    room = room_of(stage)
    called, *_ = entries(room)
    [received] = room.read([called], stage.clock()).letters
    assert room.recall(called, stage.clock())
    room.reschedule(received, called.lane, began + 30 * HOUR)
    runs(stage, 1)
    assert lanes(stage) == {"delay:later": 5}


def test_the_delay_of_a_rule_that_is_gone_is_over(stage: Stage) -> None:
    delayed(stage, 20 * HOUR)
    stage.remove_rule("later")
    runs(stage, 1)
    assert lanes(stage) == {}
    assert len(stage.bodies(stage.main)) == 6


def test_a_delay_that_became_a_hold_holds(stage: Stage) -> None:
    delayed(stage, 20 * HOUR)
    stage.add_rule("later", **ACME)
    runs(stage, 2)
    assert lanes(stage) == {"rule:later": 6}
    stage.add_rule("later", tenantId="acme", action="DELAYED_REDRIVE", delay_seconds=2 * HOUR)
    runs(stage, 2)
    assert lanes(stage) == {}, "the delay is served"


# FIFO.


def fifo_stage() -> Stage:
    return Stage(with_(Stage().pipeline, fifo=True))


def test_a_group_leaves_with_its_first_letter_and_in_order() -> None:
    stage = fifo_stage()
    stage.add_rule("stop", **ACME)
    for _ in range(3):
        dead(stage, {"a": 1})
    dead(stage, {"a": 4})
    runs(stage, 2)
    waiting = lanes(stage)["rule:stop"]
    assert waiting
    stage.add_rule("stop", **NARROW)
    runs(stage, 3)
    assert lanes(stage) == {}
    assert len(stage.bodies(stage.main)) == waiting


def test_a_group_whose_first_letter_is_held_stays_whole() -> None:
    stage = fifo_stage()
    stage.add_rule("stop", **ACME)
    dead(stage, {"b": 1, "a": 3})
    runs(stage, 2)
    waiting = lanes(stage)
    before = due(stage)
    stage.add_rule("stop", **NARROW)
    runs(stage, 4)
    assert lanes(stage) == waiting
    assert due(stage) == before


def test_the_review_of_a_lane_is_in_the_row_of_the_lane(stage: Stage) -> None:
    held(stage, {"a": 1})
    runs(stage, 3)
    [row] = [item for item in stage.dynamodb.items(LETTERS) if item["sk"] == {"S": "rule:stop"}]
    review = json.loads(row["review"]["S"])
    assert review["is_done"] is True
    assert len(review["edition"]) == 16


class Writes:
    """A table that counts the writes to letters in the waiting room."""

    def __init__(self, inner: Any) -> None:
        self.letters = 0
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        if name != "update_item":
            return call

        def update(**options: Any) -> Any:
            self.letters += "#message#" in options["Key"]["pk"]["S"]
            return call(**options)

        return update


def test_of_a_thousand_letters_those_set_free_leave_at_the_next_run_and_no_other_is_written(
    stage: Stage,
) -> None:
    stage.add_rule("stop", **ACME)
    dead(stage, {"a": 600, "b": 400})
    for _ in range(20):
        if lanes(stage)["rule:stop"] == 1_000:
            break
        runs(stage, 1)
    assert lanes(stage) == {"rule:stop": 1_000}
    stage.add_rule("stop", **NARROW)
    edit = stage.clock()
    table: Any = Writes(stage.dynamodb)
    stage.dynamodb = table
    runs(stage, 1)
    # The next run comes within a minute, and takes less than another.
    assert stage.clock() - edit < 2 * MINUTE
    assert kinds(stage.bodies(stage.main)) == {"a": 600}
    assert lanes(stage) == {"rule:stop": 400}
    runs(stage, 5)
    # Each letter that is set free is written once; the others never.
    assert table.letters == 600


@pytest.mark.parametrize("answered", [0, 1, 3])
def test_a_review_that_is_cut_off_in_a_group_is_done_again(
    answered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = fifo_stage()
    delayed(stage, 20 * HOUR, letters=4)
    room = room_of(stage)
    first = entries(room)[0]
    [received] = room.read([first], stage.clock()).letters[:1]
    update, calls = stage.dynamodb.update_item, 0

    def throttled(**request: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > answered:
            raise client_error("UpdateItem", "ThrottlingException", "slow down", status=400)
        return update(**request)

    monkeypatch.setattr(stage.dynamodb, "update_item", throttled)
    with pytest.raises(RoomUnavailable):
        room.reschedule(received, first.lane, stage.clock())
    # Reviews look at the first letter of a group: as long as it is not due, they come back.
    in_order = sorted(stage.waiting(), key=lambda item: item["sk"]["S"])
    assert float(in_order[0]["due"]["N"]) > stage.clock()
