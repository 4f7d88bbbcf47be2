"""What the redriver's function does for a person beside its runs, in real tables."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from deadletter.aws import replay_edits
from deadletter.aws.clients import Clients
from deadletter.aws.objects import S3RunObjects
from deadletter.aws.replay_runs import DynamoDBReplayRuns
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.aws.wiring.moving import answer_request
from deadletter.aws.wiring.world import World
from deadletter.contract import run_lane
from deadletter.message.letter import Attribute, Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import WaitingRoomEntry, shard_of
from deadletter.replay.edit_request import EditRequest, accepted
from deadletter.replay.run import ReplayRun, RunState
from deadletter.routing.decision import Hold
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from tests.aws.backends import Aws
from tests.tables import LETTERS, create_messages_table

RUN = "4f0c1b2a3d4e5f60"
SECRET = "4111-x"
LETTER = Letter(
    "copy-1",
    json.dumps({"card": SECRET, "text": "Grüße, \u65e5\u672c"}, ensure_ascii=False),
    {"n": Attribute("Number.float", "1.50"), "b": Attribute("Binary", b"\x00\xff\x80")},
    {"SentTimestamp": "1790000000000", "SequenceNumber": "18849496460467696128"},
)
GROUPED = replace(LETTER, system={**LETTER.system, "MessageGroupId": "customer-7"})


class Function:
    """The redriver's function of one pipeline, and what is in its waiting room."""

    def __init__(self, aws: Aws, *, fifo: bool) -> None:
        aws.s3.create_bucket(
            Bucket="messages-bucket",
            CreateBucketConfiguration={"LocationConstraint": "eu-central-1"},
        )
        create_messages_table(aws.dynamodb)
        self.aws, self.pipeline = aws, Pipeline("orders", fifo=fifo)
        self.runs = DynamoDBReplayRuns(aws.dynamodb, LETTERS, "orders", aws.clock)
        self.objects = S3RunObjects(aws.s3, "messages-bucket", "orders", RUN)
        self.room = DynamoDBWaitingRoom(
            client=aws.dynamodb, table=LETTERS, s3=aws.s3, bucket="messages-bucket",
            pipeline="orders", fifo=fifo, clock=aws.clock,
        )  # fmt: skip
        self.run = self.runs.create(
            ReplayRun(id=RUN, pipeline="orders", state=RunState.HELD, generation=3)
        )

    def ask(self, **event: Any) -> Any:
        nothing = cast(Any, None)
        aws = self.aws
        answer = answer_request(
            self.pipeline,
            Resources(messages_table=LETTERS, messages_bucket="messages-bucket"),
            Clients(nothing, nothing, aws.dynamodb, aws.dynamodb, aws.s3, nothing),
            World(aws.clock, lambda _: None, str, Random(1)),
            event,
        )
        assert SECRET not in json.dumps(answer)
        return answer

    def admit(self, letter: Letter, lane: str) -> WaitingRoomEntry:
        received = ReceivedLetter(letter, "", 0.0)
        order = Order(received, Hold(lane, 4e9, "test"), Stamp("first", run=RUN, decision="HOLD"))
        assert self.room.admit([order])
        place = json.dumps([*self.room.key(received)])
        shard = shard_of(letter, self.pipeline.fifo)
        return WaitingRoomEntry(letter.message_id, place, lane, shard, 4e9)

    def edit(self, entry: WaitingRoomEntry, letter: Letter, body: str, **facts: Any) -> str:
        """Store the request for an edit; returns the name of its record."""
        request = EditRequest(
            run=RUN, generation=3, place=cast(Any, tuple(json.loads(entry.place))),
            shard=entry.shard, origin="first", before=letter, after=replace(letter, body=body),
            accept=False, by="arn:ann", because="a test", at=self.aws.clock(),
        )  # fmt: skip
        request = replace(request, **facts)
        self.objects.put(request.record, request.to_bytes())
        return request.record

    def sent(self, entry: WaitingRoomEntry) -> Letter:
        """The letter as it would be sent now."""
        [received] = self.room.read([entry], 0.0).letters
        return received.letter


@pytest.fixture(params=[False, True], ids=["standard", "fifo"])
def function(aws: Aws, request: pytest.FixtureRequest) -> Function:
    return Function(aws, fifo=request.param)


def of(function: Function) -> Letter:
    return GROUPED if function.pipeline.fifo else LETTER


@pytest.mark.parametrize("length", [10, 9_000])
def test_an_edit_changes_the_body_byte_for_byte_and_nothing_else(
    function: Function, length: int
) -> None:
    letter = of(function)
    entry = function.admit(letter, run_lane(RUN))
    body = json.dumps({"card": "mended", "text": "ß\u2028" * length}, ensure_ascii=False)
    record = function.edit(entry, letter, body)
    assert function.ask(edit={"run": RUN, "records": [record]}) == {
        "edited": [record],
        "refused": {},
    }
    assert function.sent(entry) == replace(letter, body=body)
    kept = json.loads(function.objects.get(record) or b"")
    assert (kept["by"], kept["because"], kept["before"]["body"]) == (
        "arn:ann",
        "a test",
        letter.body,
    )


def test_each_edit_of_a_request_is_carried_out_or_refused_for_itself(function: Function) -> None:
    letter = of(function)
    entry = function.admit(letter, run_lane(RUN))
    old = function.edit(entry, letter, '{"a":1}', generation=2, at=1.0)
    lies = function.edit(entry, replace(letter, body='{"no":1}'), '{"a":2}', at=2.0)
    good = function.edit(entry, letter, '{"a":3}', at=3.0)
    again = function.edit(entry, letter, '{"a":4}', at=4.0)
    records = [old, lies, "edits/missing-1.json", good, again]
    answer = function.ask(edit={"run": RUN, "records": records})
    assert answer["edited"] == [good]
    assert answer["refused"] == {
        old: f"run {RUN} was changed meanwhile",
        lies: "the message was edited meanwhile: look at it again",
        "edits/missing-1.json": "it has no record",
        again: "the message was edited meanwhile: look at it again",
    }
    assert function.sent(entry).body == '{"a":3}'


def test_of_two_edits_at_once_the_later_one_is_refused(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = of(function)
    entry = function.admit(letter, run_lane(RUN))
    first, second = (function.edit(entry, letter, f'{{"a":{at}}}', at=float(at)) for at in (1, 2))
    asked: list[str] = []

    def meanwhile(*arguments: Any) -> Stamp:
        """Another person's edit is written behind the look of the first one."""
        if not asked:
            asked.append(second)
            answer = function.ask(edit={"run": RUN, "records": [second]})
            assert answer["edited"] == [second]
        return accepted(*arguments)

    monkeypatch.setattr(replay_edits, "accepted", meanwhile)
    answer = function.ask(edit={"run": RUN, "records": [first]})
    assert list(answer["refused"]) == [first]
    assert function.sent(entry).body == '{"a":2}'


def test_an_edit_keeps_to_the_run_that_holds_the_letter(function: Function) -> None:
    letter = of(function)
    entry = function.admit(letter, run_lane("another"))
    record = function.edit(entry, letter, '{"a":1}')
    answer = function.ask(edit={"run": RUN, "records": [record]})
    assert answer["refused"] == {record: "the message has left the run"}
    assert function.sent(entry) == letter


def test_no_answer_shows_a_letter_whatever_a_record_says(function: Function) -> None:
    letter = of(function)
    entry = function.admit(letter, run_lane(RUN))
    written = function.edit(entry, letter, '{"a":1}')
    request = json.loads(function.objects.get(written) or b"")
    for number, change in enumerate(
        [
            {"before": {**request["before"], "attributes": SECRET}},
            {"after": {**request["after"], "body": SECRET}},
            {"after": SECRET},
            {"place": [SECRET, SECRET]},
            {"run": SECRET},
            {"shard": SECRET},
        ]
    ):
        name = f"edits/hostile-{number}.json"
        function.objects.put(name, json.dumps({**request, **change}).encode())
        answer = function.ask(edit={"run": RUN, "records": [name]})
        assert list(answer["refused"]) == [name]
        assert function.sent(entry) == letter


def test_letters_are_called_back_and_those_of_runs_are_not(function: Function) -> None:
    letter = of(function)
    entry = function.admit(letter, "due")
    assert function.ask(recall=[[entry.place, "due"]]) == {"recalled": 1}
    [due] = function.room.due("due", entry.shard, function.aws.clock() + 1, 10)
    assert due.copy == letter.message_id
    # It has left the lane that is named.
    assert function.ask(recall=[[entry.place, "rule:x"]]) == {"recalled": 0}
    assert list(function.ask(recall=[[entry.place, run_lane(RUN)]])) == ["refused"]


def test_an_event_for_a_run_is_no_request(function: Function) -> None:
    for event in ({}, {"source": "dlq", "asked": True}, {"rescue": True}, {"hop": 3}):
        assert function.ask(**event) is None
