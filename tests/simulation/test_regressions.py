"""Faults of the engine that were found once: each is one schedule, told as a story."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import ReadTimeoutError

from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.queue import SqsQueue
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.settings.pipeline import Pipeline
from tests.simulation.stage import Stage, attribute, prompt_policy
from tests.simulation.test_redriver import FIFO, fail_fifo, numbers, put_fifo, slow_policy

Hook = Callable[[dict[str, Any], Callable[..., Any]], Any]
SLOW = Pipeline(
    "orders",
    policy=slow_policy(3_600),
    context={"tenantId": "body.tenantId"},
    workers=1,
    dedicated=("slow",),
)


class Hooked:
    """A client one of whose methods goes through a hook the first time it is called."""

    def __init__(self, real: Any, method: str, hook: Hook) -> None:
        self._real, self._method, self._hook, self._done = real, method, hook, False

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name != self._method or self._done:
            return real

        def call(**options: Any) -> Any:
            self._done = True
            return self._hook(options, real)

        return call


def refuses(options: dict[str, Any], real: Callable[..., Any]) -> Any:
    failed = [
        {"Id": entry["Id"], "SenderFault": True, "Code": "Nope", "Message": ""}
        for entry in options["Entries"]
    ]
    return {"Successful": [], "Failed": failed}


def takes_effect_and_says_nothing(options: dict[str, Any], real: Callable[..., Any]) -> Any:
    real(**options)
    raise ReadTimeoutError(endpoint_url="https://sqs")


def leave_tokens(stage: Stage, tokens: int, rate: float) -> None:
    """The last run spent its burst: this one gets its letters through a few at a time."""
    stage.pipeline = replace(stage.pipeline, fixed_rate=rate)
    stage.dynamodb.update_item(
        TableName="messages",
        Key={"pk": {"S": "orders#lease"}, "sk": {"S": "dlq"}},
        UpdateExpression="SET #limit = :limit, paid = :paid",
        ExpressionAttributeNames={"#limit": "limit"},
        ExpressionAttributeValues={
            ":limit": {"N": str(rate)},
            ":paid": {"N": str(stage.clock() - tokens / rate)},
        },
    )


def test_a_group_that_could_not_go_on_in_one_chunk_does_not_go_on_in_the_next() -> None:
    # Five letters of this size fill a router request, so eight make two chunks of one hand.
    stage = Stage(FIFO)
    for number in range(8):
        stage.put(
            f'{{"n": {number}, "x": "{"x" * 900_000}"}}',
            MessageGroupId="g",
            MessageDeduplicationId=str(number),
        )
    fail_fifo(stage)
    stage.redriver_sqs = Hooked(stage.redriver_sqs, "send_message_batch", refuses)  # type: ignore[assignment]
    stage.run()
    assert stage.bodies(stage.main) == []
    stage.run(asked=True)
    assert [body[:8] for body in numbers(stage, stage.main)] == [
        f'{{"n": {number},' for number in range(8)
    ]


def test_a_group_that_could_not_go_on_in_the_waiting_room_does_not_go_on_behind_itself() -> None:
    stage = Stage(replace(FIFO, policy=slow_policy(3_600)))
    for number in range(6):
        put_fifo(stage, "g", number)
    fail_fifo(stage)
    stage.run()
    stage.clock.advance(3_601)
    leave_tokens(stage, 2, rate=1.0)
    stage.redriver_sqs = Hooked(stage.redriver_sqs, "send_message_batch", refuses)  # type: ignore[assignment]
    stage.run()
    assert stage.bodies(stage.main) == []


def test_a_send_without_an_answer_does_not_end_a_run_that_empties_the_room_bit_by_bit() -> None:
    stage = Stage(SLOW)
    for number in range(60):
        stage.put(f'{{"n": {number}}}')
    stage.fail()
    stage.run()
    stage.clock.advance(3_601)
    leave_tokens(stage, 5, rate=10.0)
    stage.redriver_sqs = Hooked(  # type: ignore[assignment]
        stage.redriver_sqs, "send_message_batch", takes_effect_and_says_nothing
    )
    doubled = 0
    for _ in range(5):
        doubled += stage.run().counts.get("PossibleDuplicate", 0)
        stage.clock.advance(60)
    assert stage.waiting() == []
    # Nothing was sent twice that had not been sent without an answer.
    assert 0 < len(stage.bodies(stage.main)) - 60 <= doubled


def test_a_journal_that_is_down_for_the_room_gives_lease_and_letters_back() -> None:
    stage = Stage(SLOW)
    stage.put()
    stage.fail()
    stage.run()
    stage.clock.advance(3_601)
    stage.put()
    stage.fail()
    real_query = stage.dynamodb.query
    down = [True]

    def query(**options: Any) -> Any:
        if down[0] and "#journal" in str(options):
            raise ReadTimeoutError(endpoint_url="https://dynamodb")
        return real_query(**options)

    stage.dynamodb.query = query  # type: ignore[method-assign]
    report = stage.run()
    assert report.stopped == "the journal gave no answer: ReadTimeoutError for dynamodb on messages"
    down[0] = False
    report = stage.run()
    assert report.stopped == "the source is empty"
    assert report.decisions == {"REDRIVE": 1, "HOLD": 1}


def test_an_expired_letter_under_a_hold_is_looked_at_daily_and_not_each_minute() -> None:
    stage = Stage()
    stage.add_rule("wait", tenantId="a", action="HOLD")
    stage.put()
    stage.fail()
    stage.run()
    stage.clock.advance(13 * 86_400)
    assert stage.run().decisions == {"HOLD": 1}
    stage.clock.advance(60)
    assert stage.run().decisions == {}


def test_a_limit_on_a_rule_holds_within_a_chunk() -> None:
    stage = Stage()
    stage.add_rule("q", tenantId="a", action="QUARANTINE", max_matches=3)
    for _ in range(10):
        stage.put()
    stage.fail()
    assert stage.run().decisions == {"PARK:QUARANTINED": 3, "REDRIVE": 7}


def test_a_forged_stamp_on_a_letter_without_room_for_ours_is_not_believed_later() -> None:
    stage = Stage()
    # The forged one stands for an attempt.
    stage.pipeline = replace(stage.pipeline, policy=prompt_policy(3))
    forged = '{"origin":"somebody","attempt":0,"first_sent":9999999999999}'
    room = 1024 * 1024 - len("Redrive") - len("String") - len(forged)
    body = '{"tenantId": "a", "x": ""}'
    body = body[:-2] + "x" * (room - len(body)) + body[-2:]
    stage.put(body, MessageAttributes={"Redrive": attribute(forged)})
    for _ in range(2):
        stage.fail()
        assert stage.run().decisions == {"REDRIVE": 1}
        stage.clock.advance(6)
    stage.fail()
    assert stage.run().decisions == {"PARK:RETRIES_EXHAUSTED": 1}


def test_one_message_with_an_odd_circuit_key_does_not_stop_the_others() -> None:
    stage = Stage()
    stage.pipeline = replace(stage.pipeline, circuit_key="body.endpoint")
    for endpoint in ("", "x" * 3_000, "https://a"):
        stage.put(f'{{"tenantId": "a", "endpoint": "{endpoint}"}}')
    stage.fail()
    assert stage.run().decisions == {"REDRIVE": 3}


def test_a_deeply_nested_pattern_stops_no_letter() -> None:
    stage = Stage()
    stage.add_rule("deep", action="HOLD", pattern='{"body":' * 600 + "[1]" + "}" * 600)
    stage.put()
    stage.fail()
    report = stage.run()
    assert report.decisions == {"REDRIVE": 1}
    assert report.counts["RuleInvalid"] == 1


def test_a_letter_let_out_of_the_room_behind_our_back_is_not_moved_again() -> None:
    # It went into the room, and the run was killed before it could mark or delete anything.
    stage = Stage(SLOW)
    stage.put()
    stage.fail()
    with (
        patch.object(DynamoDBJournal, "mark", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        stage.run()
    assert len(stage.waiting()) == len(stage.bodies(stage.dlq)) == 1
    stage.clock.advance(3_590)
    find = DynamoDBWaitingRoom.find

    def let_out_first(self: Any, letters: Any) -> Any:
        stage.clock.advance(15)
        with patch.object(DynamoDBWaitingRoom, "find", find):
            stage.dynamodb.delete_item(
                TableName="messages", Key={"pk": {"S": "orders#lease"}, "sk": {"S": "dlq"}}
            )
            stage.run()
        assert stage.waiting() == []
        return find(self, letters)

    with patch.object(DynamoDBWaitingRoom, "find", let_out_first):
        stage.run()
    assert len(stage.bodies(stage.main)) == 1
    assert stage.bodies(stage.dlq) == []
    assert stage.waiting() == []


def test_a_copy_that_comes_back_from_the_dead_in_the_same_run_is_only_deleted() -> None:
    # One letter a chunk: when it comes back, the next letter's intent stands over its mark.
    stage = Stage(Pipeline("orders", policy=prompt_policy(), workers=1, fixed_rate=0.1))
    copies = [stage.put(f'"{number}"', url=stage.dlq) for number in range(3)]
    delete = SqsQueue.delete
    gone: list[str] = []

    def then_one_comes_back(self: Any, letters: Any) -> Any:
        undeleted = delete(self, letters)
        gone.extend(taken.letter.message_id for taken, _ in letters)
        if len(gone) == 2:
            stage.sqs.resurrect(gone[0])
        return undeleted

    with patch.object(SqsQueue, "delete", then_one_comes_back):
        stage.run()
    assert sorted(set(gone)) == sorted(copies)
    assert len(gone) == 4
    assert stage.bodies(stage.main) == ['"0"', '"1"', '"2"']
    assert stage.bodies(stage.dlq) == []
