"""Discarded letters come back to where they were parked: all of each, once, whatever fails."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from deadletter.aws.objects import S3RunObjects
from deadletter.aws.replay_runs import DynamoDBReplayPlans, DynamoDBReplayRuns, plan_partition
from deadletter.aws.replay_tickets import DynamoDBTickets, ticket_key
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.contract import (
    DAY,
    DISCARDED,
    PARKED_LANE,
    REPORT_DAYS,
    ROWS_KEPT,
    Partition,
    Reason,
)
from deadletter.message import stamp as stamps
from deadletter.message.letter import Attribute, Letter, from_api
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.waiting_room import FOREVER, SHARDS, RoomUnavailable
from deadletter.replay.bringing_back import restored_copy
from deadletter.replay.machine import replay_event
from deadletter.replay.objects import (
    DiscardedLetter,
    NotADiscardedLetter,
    ObjectsUnavailable,
    discarded_letter,
    discarded_name,
)
from deadletter.replay.plan import DISCARD, DISCARDED_LETTERS, RESTORE, ReplayPlan
from deadletter.replay.run import ReplayRun, RunState, RunsUnavailable, aborted, held
from deadletter.replay.ticket import ReplayOutcome, TicketsUnavailable
from deadletter.routing.router import RouterUnavailable
from deadletter.routing.selection import Selection
from deadletter.testing.fakes import client_error
from tests.each_row import each_row
from tests.replay.test_forgetting import execute, steps_of
from tests.simulation.stage import Stage, with_
from tests.tables import BUCKET, LETTERS, waiting_room

DISCARDS = ReplayPlan(
    pipeline="orders",
    source="parking:default",
    destination=DISCARD,
    canary=(),
    ramp=(1.0,),
    rate=100.0,
    who="ann",
    why="one wrong line",
)
RESTORES = ReplayPlan(
    pipeline="orders",
    source=DISCARDED_LETTERS,
    destination=RESTORE,
    who="bob",
    why="they were needed",
)
LARGE = 5_000


def letters_of_all_kinds(number: int) -> dict[str, Any]:
    """How a producer sends its n-th letter: small and large, with attributes of all types."""
    attributes: dict[str, Any] = {
        "text": {"DataType": "String", "StringValue": f"wörd {number}"},
        "bytes": {"DataType": "Binary.gzip", "BinaryValue": bytes(range(number % 200))},
        "amount": {"DataType": "Number.float", "StringValue": f"{number}.50"},
    }
    body = {"tenantId": "ab"[number % 2], "n": number, "pad": "ü" * (LARGE * (number % 5 == 0))}
    trace = {"DataType": "String", "StringValue": f"Root=1-{number:08x}-{number:024x}"}
    return {
        "body": json.dumps(body, ensure_ascii=number % 3 == 0),
        "MessageAttributes": dict(list(attributes.items())[: number % 4]),
        "MessageSystemAttributes": {"AWSTraceHeader": trace},
    }


def parked(stage: Stage, number: int) -> dict[str, Letter]:
    """So many letters in the parking queue, by their origins, as SQS hands them out."""
    stage.add_rule("stop", pattern='{"body": {"n": [{"exists": true}]}}', action="QUARANTINE")
    for n in range(number):
        sent = letters_of_all_kinds(n)
        group = {"MessageGroupId": f"g{max(0, n - 9)}", "MessageDeduplicationId": f"{n}"}
        stage.put(sent.pop("body"), **sent, **(group if stage.pipeline.fifo else {}))
    stage.fail()
    while stage.bodies(stage.dlq):
        stage.clock.advance(60)
        stage.run()
    letters = [from_api(message) for message in stage.take(stage.parking, 30)]
    stage.clock.advance(60)
    assert len(letters) == number
    return {str(origin(letter)): letter for letter in letters}


def origin(letter: Letter) -> str:
    mark = stamps.parse(letter.attributes[stamps.NAME].value)
    assert mark is not None
    return mark.origin


def room(stage: Stage) -> DynamoDBWaitingRoom:
    return waiting_room(stage, fifo=stage.pipeline.fifo)


def in_parking_lot(stage: Stage) -> list[ReceivedLetter]:
    """The letters in lane `parked`."""
    own = room(stage)
    entries = [e for s in range(SHARDS) for e in own.due(PARKED_LANE, s, FOREVER, 1_000)]
    contents = own.read(entries, stage.clock())
    assert not contents.broken
    return list(contents.letters)


def objects(stage: Stage, run: str) -> S3RunObjects:
    s3: Any = stage.s3
    return S3RunObjects(s3, BUCKET, "orders", run)


def copies(stage: Stage, run: str) -> list[str]:
    return [stored.name for stored in objects(stage, run).listed(DISCARDED)]


def contents(stage: Stage, run: str) -> dict[str, bytes]:
    found = objects(stage, run)
    return {name: found.get(name) or b"" for name in copies(stage, run)}


def without_receives(letter: Letter) -> Letter:
    """What the producer and SQS said of it; each look changes how often it was received."""
    system = {name: value for name, value in letter.system.items() if "Receive" not in name}
    return Letter("", letter.body, letter.attributes, system)


def discarded(stage: Stage, number: int, **changes: Any) -> tuple[dict[str, Letter], ReplayRun]:
    """Letters that were parked and that a run has thrown away."""
    letters = parked(stage, number)
    run = execute(stage, replace(DISCARDS, **changes))
    assert (run.state, run.counts.get("DISCARDED")) == (RunState.DONE, number)
    assert in_parking_lot(stage) == []
    assert stage.bodies(stage.parking) == []
    return letters, run


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "FIFO"])
def test_a_hundred_of_a_hundred_letters_come_back_as_they_were(fifo: bool) -> None:
    stage = Stage(with_(Stage().pipeline, fifo=fifo))
    letters, run = discarded(stage, 100)
    assert len(copies(stage, run.id)) == 100
    after = execute(stage, RESTORES)
    assert (after.state, after.messages) == (RunState.DONE, 100)
    assert {name: n for name, n in after.counts.items() if n} == {"RESTORED": 100}
    back = in_parking_lot(stage)
    assert len(back) == 100
    for received in back:
        assert received.stamp is not None
        was = letters[received.stamp.origin]
        assert without_receives(received.letter) == without_receives(was)
        assert received.home == "parking:default"
        before = stamps.parse(was.attributes[stamps.NAME].value)
        assert before is not None
        for name in ("reason", "because", "rule", "at", "attempt", "first_sent", "sender", "run"):
            assert getattr(received.stamp, name) == getattr(before, name), name
    assert Counter(r.stamp.reason for r in back if r.stamp) == {Reason.QUARANTINED: 100}
    # They are moved, not doubled.
    assert copies(stage, run.id) == []


def test_letters_are_restored_once_and_can_be_released_then() -> None:
    stage = Stage()
    _, run = discarded(stage, 12)
    kept = contents(stage, run.id)
    assert {json.loads(data)["home"] for data in kept.values()} == {"parking:default"}
    assert execute(stage, RESTORES).counts["RESTORED"] == 12
    again = execute(stage, replace(RESTORES, why="typed twice"))
    assert (again.state, again.messages) == (RunState.DONE, 0)
    assert len(in_parking_lot(stage)) == 12
    stage.remove_rule("stop")
    released = execute(
        stage, ReplayPlan(pipeline="orders", source="parking:default", canary=(), ramp=(1.0,))
    )
    assert released.counts["DELIVERED"] == 12
    assert len(stage.bodies(stage.main)) == 12
    # A late worker of the discard stores its copies again.
    for name, data in kept.items():
        objects(stage, run.id).put(name, data)
    late = execute(stage, replace(RESTORES, why="typed a third time"))
    assert (late.messages, in_parking_lot(stage)) == (0, [])
    assert copies(stage, run.id) == []
    # Nor has a body been stored that no item names.
    s3: Any = stage.s3
    assert not s3.list_objects_v2(Bucket=BUCKET, Prefix="waiting/").get("Contents")


def test_that_a_letter_is_back_is_on_record_for_longer_than_any_copy_is_kept() -> None:
    stage = Stage()
    discarded(stage, 1)
    execute(stage, RESTORES)
    [row] = [row for row in stage.dynamodb.items(LETTERS) if row["pk"]["S"].endswith("#restored")]
    assert row["by"] == {"S": RESTORES.run_id}
    assert float(row["ttl"]["N"]) >= stage.clock() + (REPORT_DAYS + 1) * DAY


def test_what_a_late_worker_of_the_discard_deletes_is_not_the_restored_letter() -> None:
    """It deletes the item and the body by the id that the letter had."""
    stage = Stage()
    _, run = discarded(stage, 10)
    old = [name.removeprefix(DISCARDED).removesuffix(".json") for name in copies(stage, run.id)]
    execute(stage, RESTORES)
    names = {received.letter.message_id for received in in_parking_lot(stage)}
    assert names == {restored_copy(run.id, copy) for copy in old}
    assert not names & set(old)


def test_letters_are_restored_long_after_their_rows_have_expired() -> None:
    stage = Stage()
    _, run = discarded(stage, 5)
    stage.clock.advance(1.5 * ROWS_KEPT)
    for row in stage.dynamodb.items(LETTERS):
        if "ttl" in row and float(row["ttl"]["N"]) < stage.clock():
            key = {name: row[name] for name in ("pk", "sk")}
            stage.dynamodb.delete_item(TableName=LETTERS, Key=key)
    assert not [*tickets(stage, run.id).all()]
    assert execute(stage, RESTORES).counts["RESTORED"] == 5
    assert len(in_parking_lot(stage)) == 5


@each_row(
    ("chosen", "number"),
    [
        (Selection(tenants=("a",)), 6),
        (Selection(reasons=(Reason.QUARANTINED,)), 12),
        (Selection(reasons=(Reason.POISON,)), 0),
        (Selection(pattern={"body": {"n": [3, 4]}}), 2),
        (Selection(where="n == `7`"), 1),
        (Selection(until=1.0), 0),
    ],
)
def test_a_filter_chooses_letters_as_in_the_parking_lot(chosen: Selection, number: int) -> None:
    stage = Stage()
    _, run = discarded(stage, 12)
    after = execute(stage, replace(RESTORES, selection=chosen))
    assert after.messages == number == len(in_parking_lot(stage))
    assert len(copies(stage, run.id)) == 12 - number


def test_a_letter_is_restored_by_the_id_of_its_first_life_or_of_the_discarded_copy() -> None:
    stage = Stage()
    letters, _ = discarded(stage, 6)
    first, second = list(letters)[:2]
    ids = (first, letters[second].message_id)
    execute(stage, replace(RESTORES, selection=Selection(ids=ids)))
    assert {r.stamp.origin for r in in_parking_lot(stage) if r.stamp} == {first, second}


def test_only_letters_that_a_person_has_counted_come_back() -> None:
    stage = Stage()
    letters, _ = discarded(stage, 6)
    counted = list(letters)[:4]
    plan = replace(RESTORES, counted=4)
    client: Any = stage.dynamodb
    starts = DynamoDBReplayPlans(client, LETTERS, "orders", stage.clock)
    starts.store(plan, counted)
    assert execute(stage, plan).messages == 4
    assert {r.stamp.origin for r in in_parking_lot(stage) if r.stamp} == set(counted)


def test_the_letters_of_one_run_come_back_and_those_of_another_stay_away() -> None:
    stage = Stage()
    _, first = discarded(stage, 3)
    _, second = discarded(stage, 4, why="another")
    execute(stage, replace(RESTORES, source=f"{DISCARDED_LETTERS}:{second.id}"))
    assert len(in_parking_lot(stage)) == 4
    assert (len(copies(stage, first.id)), len(copies(stage, second.id))) == (3, 0)


def tickets(stage: Stage, run: str) -> DynamoDBTickets:
    client: Any = stage.dynamodb
    return DynamoDBTickets(
        client,
        LETTERS,
        pipeline="orders",
        run=run,
        clock=stage.clock,
        in_parallel=lambda calls: [call() for call in calls],
    )


def test_a_copy_whose_letter_was_not_discarded_brings_back_nothing() -> None:
    """A run that is cut off between copy and ticket leaves the letter to the parking lot."""
    stage = Stage()
    _, run = discarded(stage, 2)
    client: Any = stage.dynamodb
    [one, other] = tickets(stage, run.id).all()
    tickets(stage, run.id)._table.change(
        tickets(stage, run.id)._key(one.origin, one.copy), {"fate": str(ReplayOutcome.LEFT)}
    )
    execute(stage, RESTORES)
    assert [r.stamp.origin for r in in_parking_lot(stage) if r.stamp] == [other.origin]
    assert copies(stage, run.id) == [discarded_name(one.copy)]
    # Nor while the run has not said what became of it.
    runs = DynamoDBReplayRuns(client, LETTERS, "orders", stage.clock)
    stored = runs.read(run.id)
    assert stored is not None
    runs.change(stored, replace(stored, state=RunState.ABORTED, generation=stored.generation + 1))
    tickets(stage, run.id)._table.delete(tickets(stage, run.id)._key(one.origin, one.copy))
    execute(stage, replace(RESTORES, why="again"))
    assert len(in_parking_lot(stage)) == 1


def cut_off_between_copy_and_ticket(stage: Stage) -> ReplayRun:
    """A run whose first letter is discarded, and whose worker was killed in front of the second."""
    parked(stage, 2)
    plan = replace(DISCARDS, canary=(1,))
    put, stored = stage.s3.put_object, 0

    def killed(**request: Any) -> Any:
        nonlocal stored
        answer = put(**request)
        stored += f"/{DISCARDED}" in request["Key"]
        if stored == 2:
            raise Struck
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage.s3, "put_object", killed)
        with pytest.raises(Struck):
            execute(stage, plan)
    assert len(copies(stage, plan.run_id)) == 2
    client: Any = stage.dynamodb
    runs = DynamoDBReplayRuns(client, LETTERS, "orders", stage.clock)
    run = runs.read(plan.run_id)
    assert run is not None
    runs.change(run, aborted(run, at=stage.clock(), by="ann", because="wrong letters"))
    stage.clock.advance(600)
    return run


@each_row("fault", [None, "crash before", "crash after", "refused", "answer lost"])
def test_a_letter_that_an_aborted_run_has_left_comes_back_no_second_time(fault: str | None) -> None:
    """Its copy outlives the rows that say so: 90 days and 45."""
    stage = Stage()
    run = cut_off_between_copy_and_ticket(stage)
    if fault is not None:
        with struck(stage.s3, "delete_object", 1, fault) as strikes:
            try:
                execute(stage, replace(DISCARDS, canary=(1,)))
            except Struck:
                assert in_parking_lot(stage) == []
            assert strikes()
    assert execute(stage, replace(DISCARDS, canary=(1,))).state is RunState.ABORTED
    fates = {ticket.fate: ticket.copy for ticket in tickets(stage, run.id).all()}
    assert set(fates) == {ReplayOutcome.DISCARDED, ReplayOutcome.LEFT}
    assert copies(stage, run.id) == [discarded_name(fates[ReplayOutcome.DISCARDED])]
    stage.clock.advance(1.5 * ROWS_KEPT)
    stage.dynamodb.expire(LETTERS, lambda: False)
    assert not [*tickets(stage, run.id).all()]
    assert execute(stage, RESTORES).counts["RESTORED"] == 1
    back = [r.stamp.origin for r in in_parking_lot(stage) if r.stamp]
    assert len(back) == len(set(back)) == 2


def damage(stage: Stage, key: tuple[str, str], name: str) -> str:
    """Make an attribute of a row one that no code of ours writes; returns the row's name."""
    partition, sort = key
    client: Any = stage.dynamodb
    client.update_item(
        TableName=LETTERS,
        Key={"pk": {"S": partition}, "sk": {"S": sort}},
        UpdateExpression="SET #name = :garbage",
        ExpressionAttributeNames={"#name": name},
        ExpressionAttributeValues={":garbage": {"S": "garbage"}},
    )
    return f"{partition} {sort}"


def test_a_ticket_that_cannot_be_read_costs_its_own_letter_only() -> None:
    stage, noted = Stage(), list[str]()
    _, run = discarded(stage, 5)
    [one, *_] = tickets(stage, run.id).all()
    row = damage(stage, ticket_key("orders", run.id, one.origin, one.copy), "fate")
    after = execute(stage, RESTORES, noted.append)
    assert (after.state, after.counts["RESTORED"]) == (RunState.DONE, 4)
    assert one.origin not in {r.stamp.origin for r in in_parking_lot(stage) if r.stamp}
    assert copies(stage, run.id) == [discarded_name(one.copy)]
    assert noted == [f"a row cannot be read: {LETTERS} {row}"]


def test_a_run_that_cannot_be_read_costs_those_letters_only_that_have_no_ticket() -> None:
    stage, noted = Stage(), list[str]()
    # More than are read together: the row is met twice.
    _, run = discarded(stage, 12)
    discarded(stage, 4, why="another")
    [one, *_] = tickets(stage, run.id).all()
    tickets(stage, run.id)._table.delete(tickets(stage, run.id)._key(one.origin, one.copy))
    row = damage(stage, (Partition.RUNS.of("orders"), run.id), "state")
    after = execute(stage, RESTORES, noted.append)
    assert (after.state, after.counts["RESTORED"]) == (RunState.DONE, 15)
    assert copies(stage, run.id) == [discarded_name(one.copy)]
    assert noted == [f"a row cannot be read: {LETTERS} {row}"]


@pytest.mark.parametrize("part", ["run", "runs"])
def test_rows_that_dynamodb_does_not_answer_for_are_read_again(part: str) -> None:
    """They are not taken for bad ones: no letter is passed over."""
    stage = Stage()
    letters, run = discarded(stage, 3)
    read = stage.dynamodb.batch_get_item
    asked = f"orders#{part}#{run.id}" if part == "run" else "orders#runs"
    refused = 0

    def throttled(**request: Any) -> Any:
        nonlocal refused
        keys = request["RequestItems"].get(LETTERS, {}).get("Keys", [])
        names = [key["pk"]["S"] for key in keys if key["sk"]["S"] != RESTORES.run_id]
        # Of the folder's tickets and its own row, not of what is back.
        if any(name.startswith(asked) and not name.endswith("restored") for name in names):
            refused += 1
            raise client_error("BatchGetItem", "ThrottlingException", "slow down", status=400)
        return read(**request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage.dynamodb, "batch_get_item", throttled)
        with pytest.raises(TicketsUnavailable if part == "run" else RunsUnavailable):
            execute(stage, RESTORES)
    assert refused
    assert in_parking_lot(stage) == []
    assert execute(stage, RESTORES).counts["RESTORED"] == len(letters)


def test_a_damaged_copy_stays_and_the_others_come_back() -> None:
    stage = Stage()
    _, run = discarded(stage, 5)
    torn, renamed, *_ = copies(stage, run.id)
    whole = contents(stage, run.id)[renamed]
    objects(stage, run.id).put(torn, whole[:-20])
    objects(stage, run.id).put(f"{DISCARDED}another.json", whole)
    assert execute(stage, RESTORES).messages == 4
    assert copies(stage, run.id) == sorted([torn, f"{DISCARDED}another.json"])


def test_a_run_that_is_held_stops_within_a_few_letters_and_goes_on_later() -> None:
    stage = Stage()
    discarded(stage, 40)
    client: Any = stage.dynamodb
    runs = DynamoDBReplayRuns(client, LETTERS, "orders", stage.clock)
    put, puts = stage.dynamodb.transact_write_items, 0

    def counted(**request: Any) -> Any:
        nonlocal puts
        puts += 1
        if puts == 15:
            run = runs.read(RESTORES.run_id)
            assert run is not None
            runs.change(run, held(run, at=stage.clock(), by="ann", because="wait"))
        return put(**request)

    stage.dynamodb.transact_write_items = counted  # type: ignore[method-assign]  # counts
    starts = DynamoDBReplayPlans(client, LETTERS, "orders", stage.clock)
    starts.store(RESTORES, None)
    runs.create(ReplayRun(id=RESTORES.run_id, pipeline="orders", created=stage.clock()))
    for step in ("preflight", "snapshot"):
        event = {"run": RESTORES.run_id, "step": step, "execution": f"{RESTORES.run_id}-0"}
        steps_of(stage).take(replay_event(event), stage.clock() + 900)
    run = runs.read(RESTORES.run_id)
    assert run is not None
    assert run.state is RunState.HELD
    assert len(in_parking_lot(stage)) == 20


def test_a_restore_that_runs_out_of_time_goes_on_in_its_next_step() -> None:
    stage = Stage()
    discarded(stage, 25)
    put = stage.dynamodb.transact_write_items

    def slow(**request: Any) -> Any:
        stage.clock.advance(100)
        return put(**request)

    stage.dynamodb.transact_write_items = slow  # type: ignore[method-assign]  # takes long
    after = execute(stage, RESTORES)
    assert (after.state, after.counts["RESTORED"]) == (RunState.DONE, 25)
    assert len(in_parking_lot(stage)) == 25


class Struck(BaseException):
    """The function is gone."""


def everywhere(stage: Stage) -> Counter[str]:
    """In how many places each letter is: in lane `parked`, or as a copy that can come back."""
    s3: Any = stage.s3
    found: Counter[str] = Counter(r.stamp.origin for r in in_parking_lot(stage) if r.stamp)
    back = {
        item["sk"]["S"] for item in stage.dynamodb.items(LETTERS) if "#restored" in item["pk"]["S"]
    }
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    for key in keys:
        if f"/{DISCARDED}" in key:
            data = json.loads(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
            if data["message"]["id"] not in back:
                found[data["stamp"]["origin"]] += 1
    return found


# What a step raises: the machine repeats it.
STORES = (
    RoomUnavailable,
    ObjectsUnavailable,
    RouterUnavailable,
    RunsUnavailable,
    TicketsUnavailable,
)
FAULTS = ("crash before", "crash after", "refused", "answer lost")
CALLS = ("transact_write_items", "put_object", "delete_object", "batch_get_item", "get_object")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", CALLS)
def test_whatever_call_fails_each_letter_is_somewhere_once_and_all_are_back_at_last(
    call: str, fault: str
) -> None:
    stage = Stage()
    letters, _ = discarded(stage, 11)
    client: Any = stage.s3 if "object" in call else stage.dynamodb
    for at in range(1, 60):
        with struck(client, call, at, fault) as strikes:
            try:
                execute(stage, RESTORES)
            except (Struck, *STORES):
                pass
        assert everywhere(stage) == dict.fromkeys(letters, 1), (call, fault, at)
        if not strikes():
            break
    run = execute(stage, RESTORES)
    assert (run.state, run.counts["RESTORED"], run.messages) == (RunState.DONE, 11, 11)
    assert sorted(r.stamp.origin for r in in_parking_lot(stage) if r.stamp) == sorted(letters)


class struck:  # noqa: N801 - it reads as a statement
    """A client whose n-th call of a name is struck; calling it says whether there was one."""

    def __init__(self, client: Any, call: str, at: int, fault: str) -> None:
        self._client, self._call, self._at, self._fault = client, call, at, fault
        self._made = 0

    def __enter__(self) -> Callable[[], bool]:
        inner = getattr(self._client, self._call)

        def made(**request: Any) -> Any:
            self._made += 1
            if self._made != self._at:
                return inner(**request)
            if self._fault == "crash before":
                raise Struck
            error = client_error(self._call, "ThrottlingException", "slow down", status=400)
            if self._fault == "refused":
                raise error
            inner(**request)
            raise Struck if self._fault == "crash after" else error

        setattr(self._client, self._call, made)
        return lambda: self._made >= self._at

    def __exit__(self, *_: object) -> None:
        delattr(self._client, self._call)


def test_two_restores_at_once_bring_each_letter_back_once() -> None:
    """The other one runs whole between the look of the first and its write."""
    stage = Stage()
    letters, _ = discarded(stage, 7)
    put, other = stage.dynamodb.transact_write_items, list[ReplayRun]()

    def between(**request: Any) -> Any:
        if not other:
            stage.dynamodb.transact_write_items = put  # type: ignore[method-assign]  # once
            other.append(execute(stage, replace(RESTORES, who="carol")))
        return put(**request)

    stage.dynamodb.transact_write_items = between  # type: ignore[method-assign]  # once
    first = execute(stage, RESTORES)
    assert (first.messages, other[0].messages) == (0, 7)
    assert sorted(r.stamp.origin for r in in_parking_lot(stage) if r.stamp) == sorted(letters)


# The plan of a restore, and the copy of a letter.


def test_only_who_may_throw_letters_away_may_have_them_restored() -> None:
    """A plan that stands where replays are planned is not believed."""
    stage = Stage()
    client: Any = stage.dynamodb
    key = plan_partition("orders", RESTORES.run_id, discards=False)
    item = {"pk": {"S": key}, "sk": {"S": "plan"}, "plan": {"S": RESTORES.to_text()}}
    client.put_item(TableName=LETTERS, Item=item)
    plans = DynamoDBReplayPlans(client, LETTERS, "orders", stage.clock)
    assert plans.plan(RESTORES.run_id) is None
    DynamoDBReplayPlans(client, LETTERS, "orders", stage.clock).store(RESTORES, None)
    assert plans.plan(RESTORES.run_id) == RESTORES


def test_a_restore_waits_for_no_approval() -> None:
    pipeline = Stage().pipeline
    stage = Stage(replace(pipeline, replay=replace(pipeline.replay, approve_above=1)))
    letters = parked(stage, 3)
    kept = objects(stage, "earlier")
    for each in letters.values():
        mark = stamps.parse(each.attributes[stamps.NAME].value)
        assert mark is not None
        copy = DiscardedLetter(
            letter=each, home="parking:default", stamp=mark, at=1, by="ann", because="x"
        )
        kept.put(discarded_name(each.message_id), copy.to_bytes())
    assert execute(stage, RESTORES).state is RunState.DONE
    assert len(in_parking_lot(stage)) == 3


MARK = stamps.Stamp("first", 2, 5, reason="POISON", run="r", ticket="t", decision="HOLD", base=2)
KEPT = DiscardedLetter(
    letter=Letter("copy", "{}", {"a": Attribute("Binary", b"\xff")}, {"SenderId": "x"}),
    home="parking:legal",
    stamp=MARK,
    at=7,
    by="ann",
    because="why",
)


def test_a_copy_is_read_as_it_was_written() -> None:
    assert discarded_letter("discarded/copy.json", KEPT.to_bytes()) == KEPT


@pytest.mark.parametrize("part", ["message", "stamp", "discarded"])
def test_a_copy_that_lacks_something_is_none(part: str) -> None:
    data: dict[str, Any] = json.loads(KEPT.to_bytes())
    del data[part]
    with pytest.raises(NotADiscardedLetter):
        discarded_letter("discarded/copy.json", json.dumps(data).encode())


def test_a_restored_copy_has_an_id_as_sqs_gives_them_and_always_the_same_one() -> None:
    name = restored_copy("run", "copy")
    assert str(UUID(name)) == name == restored_copy("run", "copy")
    assert name not in (restored_copy("another", "copy"), restored_copy("run", "another"))


def test_a_letter_that_was_never_parked_goes_to_the_first_parking_queue() -> None:
    assert KEPT.parked_in == "parking:legal"
    assert replace(KEPT, home="dlq").parked_in == "parking:default"


def test_the_letters_own_stamp_is_not_believed_where_it_says_something_else() -> None:
    def carrying(mark: stamps.Stamp) -> stamps.Stamp:
        letter = replace(KEPT.letter, attributes={stamps.NAME: stamps.attribute(mark)})
        return replace(KEPT, letter=letter).parked_stamp

    own = stamps.Stamp("first", reason="POISON", decision="PARK", because="3 times", at=6)
    assert (carrying(own).because, carrying(own).at) == ("3 times", 6)
    for other in (
        replace(own, origin="another"),
        replace(own, reason="EXPIRED"),
        replace(own, decision="REDRIVE"),
    ):
        assert (carrying(other).because, carrying(other).reason) == (None, "POISON")
