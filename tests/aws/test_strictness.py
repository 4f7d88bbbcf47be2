"""What only the memory clients do: limits that no emulator has, and AWS's rarer moods on demand."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError
from botocore.session import get_session

from deadletter.testing.clock import Clock
from deadletter.testing.fakes import (
    Consumed,
    MemoryDynamoDB,
    MemoryLambda,
    MemoryS3,
    MemorySqs,
    client_error,
)
from tests.aws.differences import DIFFERENCES
from tests.aws.rows import refusal

KB = 1024


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sqs(clock: Clock) -> MemorySqs:
    return MemorySqs(clock, counted())


@pytest.fixture
def dynamodb(clock: Clock) -> MemoryDynamoDB:
    return letters(clock)


@pytest.fixture
def functions(clock: Clock) -> MemoryLambda:
    return MemoryLambda(clock, counted())


def counted() -> Callable[[], str]:
    count = itertools.count(1)
    return lambda: f"id-{next(count)}"


def queue(sqs: MemorySqs, name: str = "orders", **attributes: str) -> str:
    if name.endswith(".fifo"):
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true", **attributes}
    return str(sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])


def send(sqs: MemorySqs, url: str, *texts: str, **arguments: Any) -> list[str]:
    return [
        sqs.send_message(QueueUrl=url, MessageBody=text, **arguments)["MessageId"] for text in texts
    ]


def receive(sqs: MemorySqs, url: str, **arguments: Any) -> list[dict[str, Any]]:
    answer = sqs.receive_message(**{"QueueUrl": url, "MaxNumberOfMessages": 10, **arguments})
    return list(answer.get("Messages", []))


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


# The table of differences.


def differences_of(marks: Iterable[Any]) -> Iterator[str]:
    """The differences that a test's marks name, or those of its rows."""
    for mark in marks:
        if mark.name == "difference":
            yield mark.args[0]
        elif mark.name == "parametrize":
            for values in mark.args[1]:
                yield from differences_of(getattr(values, "marks", ()))


def test_every_difference_is_shown_by_a_test_and_every_mark_is_in_the_table() -> None:
    """A difference that no test uses would never be found out."""
    suites = [
        import_module(f"tests.aws.{path.stem}")
        for path in Path(__file__).parent.glob("test_*_contract.py")
    ]
    tests = [test for suite in suites for test in vars(suite).values()]
    shown = [name for test in tests for name in differences_of(getattr(test, "pytestmark", ()))]
    assert set(shown) == set(DIFFERENCES)


@pytest.mark.parametrize(
    ("client", "service"),
    [(MemorySqs, "sqs"), (MemoryDynamoDB, "dynamodb"), (MemoryS3, "s3"), (MemoryLambda, "lambda")],
)
def test_the_clients_have_the_exceptions_of_the_service_model(client: Any, service: str) -> None:
    known = {shape.name for shape in get_session().get_service_model(service).error_shapes}
    assert client.exceptions._names <= known
    assert client.exceptions.ClientError is ClientError
    with pytest.raises(AttributeError):
        _ = client.exceptions.NoSuchThing


def test_a_simulator_can_raise_what_aws_would() -> None:
    error = client_error("SendMessage", "ThrottlingException", "Rate exceeded", status=400)
    assert isinstance(error, ClientError)
    assert error.operation_name == "SendMessage"
    assert error.response["Error"]["Code"] == "ThrottlingException"


# boto3 refuses malformed arguments before anything is sent.


def test_sqs_arguments_of_a_wrong_shape_are_refused(sqs: MemorySqs) -> None:
    url = queue(sqs)
    wrong: list[tuple[Any, dict[str, Any]]] = [
        (sqs.send_message, {"MessageBody": 5}),
        (sqs.send_message, {"MessageBody": "x", "DelaySeconds": "5"}),
        (sqs.send_message, {"MessageBody": "x", "DelaySeconds": 1.5}),
        (sqs.send_message, {"MessageBody": "x", "DelaySeconds": None}),
        (sqs.send_message, {"MessageBody": "x", "MessageAttributes": None}),
        (sqs.send_message, {"MessageBody": "x", "MessageGroupId": None}),
        (sqs.send_message, {"MessageBody": "x", "MessageAttributes": {"a": {"stringValue": "x"}}}),
        (sqs.send_message_batch, {"Entries": [{"Id": "1", "MessageBody": "x", "Delay": 1}]}),
        (sqs.send_message_batch, {"Entries": [{"Id": "1"}]}),
        (sqs.send_message_batch, {"Entries": [{"Id": 1, "MessageBody": "x"}]}),
        (sqs.receive_message, {"MaxNumberOfMessages": "10"}),
        (sqs.delete_message, {"ReceiptHandle": None}),
        (sqs.delete_message_batch, {"Entries": [{"Id": "1"}]}),
    ]
    for call, arguments in wrong:
        with pytest.raises(ParamValidationError):
            call(QueueUrl=url, **arguments)
    assert sqs.snapshot() == []


@pytest.mark.parametrize(
    "value",
    [{"N": 5}, {"S": 5}, {"S": None}, {"BOOL": "yes"}, {"X": "x"}, "x", {"L": "x"}, {"SS": "x"}],
)
def test_dynamodb_values_of_a_wrong_shape_are_refused(value: Any, dynamodb: MemoryDynamoDB) -> None:
    with pytest.raises(ParamValidationError):
        dynamodb.put_item(TableName="letters", Item={**KEY, "a": value})


# SQS.


def test_no_more_messages_than_the_limit_are_in_flight(clock: Clock) -> None:
    sqs = MemorySqs(clock, counted(), in_flight_limit=3)
    url = queue(sqs)
    send(sqs, url, "1", "2", "3", "4")
    assert len(receive(sqs, url, VisibilityTimeout=10)) == 3
    assert refusal(sqs.receive_message, QueueUrl=url) == "OverLimit"
    clock.advance(10)
    assert len(receive(sqs, url)) == 3


def test_a_fifo_queue_at_the_limit_just_shows_nothing(clock: Clock) -> None:
    sqs = MemorySqs(clock, counted(), in_flight_limit=1)
    url = queue(sqs, "orders.fifo")
    for group in "ab":
        send(sqs, url, group, MessageGroupId=group)
    assert bodies(receive(sqs, url)) == ["a"]
    assert receive(sqs, url) == []


def test_a_long_poll_waits_without_sleeping_and_looks_again(clock: Clock) -> None:
    sqs = MemorySqs(clock, counted(), on_wait=clock.advance)
    url = queue(sqs)
    send(sqs, url, "late", DelaySeconds=15)
    assert receive(sqs, url) == [], "a short poll waits for nothing"
    assert receive(sqs, url, WaitTimeSeconds=10) == []
    assert bodies(receive(sqs, url, WaitTimeSeconds=10)) == ["late"]


def test_a_long_poll_can_be_the_default_of_a_queue(clock: Clock) -> None:
    waits: list[float] = []
    sqs = MemorySqs(clock, counted(), on_wait=waits.append)
    url = queue(sqs, ReceiveMessageWaitTimeSeconds="20")
    receive(sqs, url)
    receive(sqs, url, WaitTimeSeconds=0)
    assert waits == [20]


def test_without_random_messages_come_first_in_first_out(sqs: MemorySqs) -> None:
    url = queue(sqs)
    send(sqs, url, *"abcdefghij")
    assert bodies(receive(sqs, url)) == list("abcdefghij")


def test_with_random_messages_come_in_any_order_but_each_once(clock: Clock) -> None:
    sqs = MemorySqs(clock, counted(), random=Random(1))
    url = queue(sqs)
    send(sqs, url, *"abcdefghij")
    found = bodies(receive(sqs, url, WaitTimeSeconds=1))
    assert sorted(found) == list("abcdefghij")
    assert found != sorted(found)


def test_with_random_a_short_poll_may_miss_what_is_there(clock: Clock) -> None:
    sqs = MemorySqs(clock, counted(), random=Random(1))
    url = queue(sqs)
    send(sqs, url, *"abcdefghij")
    counts = {len(receive(sqs, url, VisibilityTimeout=0)) for _ in range(100)}
    assert counts == set(range(11))


def test_with_random_a_group_still_keeps_its_order(clock: Clock) -> None:
    sqs = MemorySqs(clock, counted(), random=Random(1))
    url = queue(sqs, "orders.fifo")
    for number in "123":
        for group in "abc":
            send(sqs, url, group + number, MessageGroupId=group)
    found = bodies(receive(sqs, url, WaitTimeSeconds=1))
    assert found != sorted(found)
    for group in "abc":
        assert [text for text in found if text[0] == group] == [group + n for n in "123"]


def test_the_same_history_gives_the_same_answers() -> None:
    def history() -> list[Any]:
        clock = Clock()
        sqs = MemorySqs(clock, counted(), random=Random(7))
        url = queue(sqs)
        answers: list[Any] = []
        for number in range(30):
            send(sqs, url, str(number), DelaySeconds=number % 3)
            clock.advance(1)
            answers.append(receive(sqs, url, VisibilityTimeout=number % 5))
        return [answers, sqs.snapshot()]

    assert history() == history()


def test_each_sender_has_its_own_id_on_the_same_queues(sqs: MemorySqs) -> None:
    redriver = sqs.as_sender("AROAREDRIVER:run")
    url = queue(sqs)
    send(sqs, url, "from outside")
    send(redriver, url, "from us")
    first, second = receive(sqs, url, MessageSystemAttributeNames=["SenderId"])
    assert first["Attributes"]["SenderId"] != "AROAREDRIVER:run"
    assert second["Attributes"]["SenderId"] == "AROAREDRIVER:run"


def test_a_snapshot_shows_every_message_and_its_state(clock: Clock, sqs: MemorySqs) -> None:
    url, other = queue(sqs), queue(sqs, "other")
    attribute = {"a": {"StringValue": "x", "DataType": "String"}}
    send(sqs, url, "held", MessageAttributes=attribute, MessageGroupId="g")
    receive(sqs, url, VisibilityTimeout=10)
    send(sqs, url, "seen")
    send(sqs, other, "delayed", DelaySeconds=10)
    assert [(m.queue, m.message_id, m.body, m.state) for m in sqs.snapshot()] == [
        ("orders", "id-1", "held", "in flight"),
        ("orders", "id-2", "seen", "visible"),
        ("other", "id-3", "delayed", "delayed"),
    ]
    held = sqs.snapshot()[0]
    assert (held.attributes, held.group, held.receive_count) == (attribute, "g", 1)
    clock.advance(10)
    assert {m.state for m in sqs.snapshot()} == {"visible"}
    clock.advance(345_600)
    assert sqs.snapshot() == []


def test_a_deleted_message_can_come_back(sqs: MemorySqs) -> None:
    url = queue(sqs)
    (message_id,) = send(sqs, url, "zombie")
    (message,) = receive(sqs, url)
    with pytest.raises(KeyError):
        sqs.resurrect(message_id)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    sqs.resurrect(message_id)
    (again,) = receive(sqs, url, MessageSystemAttributeNames=["All"])
    assert again["MessageId"] == message_id
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"


def test_a_message_that_came_back_expires_once(clock: Clock, sqs: MemorySqs) -> None:
    url = queue(sqs, MessageRetentionPeriod="60")
    (message_id,) = send(sqs, url, "zombie")
    (message,) = receive(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    sqs.resurrect(message_id)
    clock.advance(61)
    assert sqs.snapshot() == []


def test_a_fifo_message_never_comes_back(sqs: MemorySqs) -> None:
    url = queue(sqs, "orders.fifo")
    (message_id,) = send(sqs, url, "x", MessageGroupId="g")
    (message,) = receive(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    with pytest.raises(KeyError):
        sqs.resurrect(message_id)


def test_a_message_in_flight_can_be_delivered_twice(sqs: MemorySqs) -> None:
    url = queue(sqs)
    (message_id,) = send(sqs, url, "twice")
    (first,) = receive(sqs, url)
    sqs.redeliver(message_id)
    (second,) = receive(sqs, url)
    assert first["MessageId"] == second["MessageId"]
    assert first["ReceiptHandle"] != second["ReceiptHandle"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    assert len(sqs.snapshot()) == 1, "only the last handle counts"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"])
    assert sqs.snapshot() == []


def test_a_stale_handle_may_delete_all_the_same(clock: Clock) -> None:
    sqs = MemorySqs(clock, counted(), stale_deletes=lambda: True)
    url = queue(sqs)
    send(sqs, url, "x")
    (first,) = receive(sqs, url, VisibilityTimeout=0)
    receive(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    assert sqs.snapshot() == []


def test_a_timeout_that_has_just_ended_can_be_taken_up_again(clock: Clock, sqs: MemorySqs) -> None:
    url = queue(sqs)
    send(sqs, url, "x")
    (message,) = receive(sqs, url, VisibilityTimeout=5)
    clock.advance(6)
    receipt = message["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=60)
    assert receive(sqs, url) == []


def test_deduplication_can_be_a_matter_of_the_group(sqs: MemorySqs) -> None:
    url = queue(sqs, "orders.fifo", DeduplicationScope="messageGroup")
    for group in "aab":
        send(sqs, url, "same", MessageGroupId=group)
    assert len(receive(sqs, url)) == 2


def test_a_redrive_policy_can_be_taken_away(sqs: MemorySqs) -> None:
    dlq = queue(sqs, "dead")
    arn = sqs.get_queue_attributes(QueueUrl=dlq, AttributeNames=["QueueArn"])["Attributes"]
    policy = json.dumps({"deadLetterTargetArn": arn["QueueArn"], "maxReceiveCount": "1"})
    url = queue(sqs, RedrivePolicy=policy)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    send(sqs, url, "x")
    for _ in range(3):
        assert len(receive(sqs, url, VisibilityTimeout=0)) == 1
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert "RedrivePolicy" not in found


def with_policy(sqs: MemorySqs, name: str, target: str) -> str:
    """A queue whose messages may be received once."""
    found = sqs.get_queue_attributes(QueueUrl=target, AttributeNames=["QueueArn"])["Attributes"]
    policy = {"deadLetterTargetArn": found["QueueArn"], "maxReceiveCount": 1}
    return queue(sqs, name, RedrivePolicy=json.dumps(policy))


def test_a_batch_shows_a_message_once_while_others_move_away(sqs: MemorySqs) -> None:
    dlq = queue(sqs, "dead")
    url = with_policy(sqs, "orders", dlq)
    send(sqs, url, "bad")
    receive(sqs, url, VisibilityTimeout=0)
    send(sqs, url, "good")
    assert bodies(receive(sqs, url, VisibilityTimeout=0)) == ["good"]
    assert bodies(receive(sqs, dlq)) == ["bad"]


def test_a_dead_letter_queue_counts_its_own_receives(sqs: MemorySqs) -> None:
    last = queue(sqs, "last")
    middle = with_policy(sqs, "middle", last)
    first = with_policy(sqs, "first", middle)
    send(sqs, first, "x")
    for url in (first, middle):
        assert len(receive(sqs, url, VisibilityTimeout=0)) == 1
        assert receive(sqs, url) == []
    assert bodies(receive(sqs, last)) == ["x"]


def test_a_message_stays_if_its_dead_letter_queue_is_gone(sqs: MemorySqs) -> None:
    dlq = queue(sqs, "dead")
    arn = sqs.get_queue_attributes(QueueUrl=dlq, AttributeNames=["QueueArn"])["Attributes"]
    policy = json.dumps({"deadLetterTargetArn": arn["QueueArn"], "maxReceiveCount": 1})
    url = queue(sqs, RedrivePolicy=policy)
    sqs.delete_queue(QueueUrl=dlq)
    send(sqs, url, "x")
    for _ in range(3):
        assert len(receive(sqs, url, VisibilityTimeout=0)) == 1


def test_a_long_life_leaves_no_litter(clock: Clock, sqs: MemorySqs) -> None:
    """Timers, groups and tokens of deleted messages don't pile up: a benchmark sends millions."""
    url = queue(sqs, "orders.fifo")
    for number in range(1_000):
        clock.advance(10)
        send(sqs, url, str(number), MessageGroupId=str(number))
        (message,) = receive(sqs, url, VisibilityTimeout=43_200)
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    inside = sqs._queues["orders.fifo"]
    assert len(inside.hidden.heap) + len(inside.ages.heap) < 200
    assert len(inside.sent_tokens) <= 30
    assert not inside.groups


# DynamoDB.


def test_empty_placeholders_are_refused(dynamodb: MemoryDynamoDB) -> None:
    put = {"TableName": "letters", "Item": KEY, "ConditionExpression": "attribute_exists(pk)"}
    for member in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        assert refusal(dynamodb.put_item, **put, **{member: {}}) == "ValidationException"


def test_a_batch_of_reads_has_no_unknown_members(dynamodb: MemoryDynamoDB) -> None:
    for part in ({}, {"Keys": [KEY], "AttributesToGet": ["pk"]}):
        with pytest.raises(ParamValidationError):
            dynamodb.batch_get_item(RequestItems={"letters": part})


def test_a_transaction_has_no_unknown_members(dynamodb: MemoryDynamoDB) -> None:
    put = {"TableName": "letters", "Item": KEY, "ReturnValues": "ALL_OLD"}
    with pytest.raises(ParamValidationError):
        dynamodb.transact_write_items(TransactItems=[{"Put": put}])
    with pytest.raises(ParamValidationError):
        dynamodb.transact_write_items(
            TransactItems=[{"ConditionCheck": {"TableName": "letters", "Key": KEY}}]
        )


KEY = {"pk": {"S": "p"}}


def letters(clock: Clock, **options: Any) -> MemoryDynamoDB:
    dynamodb = MemoryDynamoDB(clock, **options)
    dynamodb.create_table(
        TableName="letters",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "lane", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
        GlobalSecondaryIndexes=[
            {
                "IndexName": "lanes",
                "KeySchema": [{"AttributeName": "lane", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["note"]},
            }
        ],
    )
    return dynamodb


def in_lane(dynamodb: MemoryDynamoDB) -> list[Any]:
    answer = dynamodb.query(
        TableName="letters",
        IndexName="lanes",
        KeyConditionExpression="lane = :l",
        ExpressionAttributeValues={":l": {"S": "due"}},
    )
    return list(answer["Items"])


def test_an_index_may_lag_behind_its_table(clock: Clock) -> None:
    dynamodb = letters(clock, lagging_indexes=True)
    item = {**KEY, "lane": {"S": "due"}, "note": {"S": "1"}}
    dynamodb.put_item(TableName="letters", Item=item)
    assert in_lane(dynamodb) == []
    dynamodb.settle()
    assert in_lane(dynamodb) == [item]
    dynamodb.put_item(TableName="letters", Item={**item, "note": {"S": "2"}})
    assert in_lane(dynamodb) == [item]
    dynamodb.delete_item(TableName="letters", Key=KEY)
    assert in_lane(dynamodb) == [item], "a reader of the index has to look at the table"
    dynamodb.settle()
    assert in_lane(dynamodb) == []


def test_an_index_holds_what_it_includes_and_no_more(dynamodb: MemoryDynamoDB) -> None:
    item = {**KEY, "lane": {"S": "due"}, "note": {"S": "1"}, "other": {"S": "x"}}
    dynamodb.put_item(TableName="letters", Item=item)
    del item["other"]
    assert in_lane(dynamodb) == [item]
    refused = {
        "TableName": "letters",
        "IndexName": "lanes",
        "KeyConditionExpression": "lane = :l",
        "ExpressionAttributeValues": {":l": {"S": "due"}},
    }
    assert refusal(dynamodb.query, **refused, ProjectionExpression="other") == "ValidationException"
    assert refusal(dynamodb.query, **refused, Select="ALL_ATTRIBUTES") == "ValidationException"


def spent(dynamodb: MemoryDynamoDB, call: Any, **arguments: Any) -> Consumed:
    before = dynamodb.consumed
    with suppress(ClientError):
        call(**arguments)
    return dynamodb.consumed - before


def text_item(size: int, **attributes: Any) -> dict[str, Any]:
    """An item of so many bytes in all."""
    fixed = {**KEY, **attributes}
    used = sum(len(name) + len(value["S"]) for name, value in fixed.items())
    return {**fixed, "x": {"S": "x" * (size - used - 1)}}


def test_writes_are_charged_by_the_kilobyte(dynamodb: MemoryDynamoDB) -> None:
    table = {"TableName": "letters"}
    put = dynamodb.put_item
    assert spent(dynamodb, put, **table, Item=text_item(KB)).write_units == 1
    assert spent(dynamodb, put, **table, Item=text_item(KB + 1)).write_units == 2
    assert spent(dynamodb, put, **table, Item=KEY).write_units == 2, "the larger of old and new"
    assert spent(dynamodb, put, **table, Item=KEY) == Consumed(write_requests=1, write_units=1)
    gone = {"pk": {"S": "gone"}}
    assert spent(dynamodb, dynamodb.delete_item, **table, Key=gone).write_units == 1


def test_a_write_that_its_condition_stops_is_charged_too(dynamodb: MemoryDynamoDB) -> None:
    dynamodb.put_item(TableName="letters", Item=text_item(3 * KB))
    stopped = spent(
        dynamodb,
        dynamodb.put_item,
        TableName="letters",
        Item=KEY,
        ConditionExpression="attribute_not_exists(pk)",
    )
    assert stopped == Consumed(write_requests=1, write_units=3)


def test_a_refused_request_costs_nothing(dynamodb: MemoryDynamoDB) -> None:
    refused = spent(
        dynamodb, dynamodb.put_item, TableName="letters", Item=KEY, ConditionExpression="("
    )
    assert refused == Consumed()


def test_an_index_is_charged_where_it_changes(dynamodb: MemoryDynamoDB) -> None:
    table = {"TableName": "letters"}
    put = dynamodb.put_item
    lane = {"lane": {"S": "due"}}
    assert spent(dynamodb, put, **table, Item={**KEY, **lane}).write_units == 1 + 1
    same = {**KEY, **lane, "other": {"S": "x"}}
    assert spent(dynamodb, put, **table, Item=same).write_units == 1 + 0
    noted = {**KEY, **lane, "note": {"S": "x"}}
    assert spent(dynamodb, put, **table, Item=noted).write_units == 1 + 1
    moved = {**KEY, "lane": {"S": "other"}}
    assert spent(dynamodb, put, **table, Item=moved).write_units == 1 + 2
    assert spent(dynamodb, put, **table, Item=KEY).write_units == 1 + 1


def test_a_batch_is_one_request_and_a_transaction_costs_twice(dynamodb: MemoryDynamoDB) -> None:
    puts = [{"PutRequest": {"Item": {"pk": {"S": str(number)}}}} for number in range(5)]
    batch = spent(dynamodb, dynamodb.batch_write_item, RequestItems={"letters": puts})
    assert batch == Consumed(write_requests=1, write_units=5)
    items = [{"Delete": {"TableName": "letters", "Key": {"pk": {"S": str(n)}}}} for n in range(5)]
    transaction = spent(dynamodb, dynamodb.transact_write_items, TransactItems=items)
    assert transaction == Consumed(write_requests=1, write_units=10)


def test_reads_are_charged_by_four_kilobytes_and_half_if_not_consistent(
    dynamodb: MemoryDynamoDB,
) -> None:
    dynamodb.put_item(TableName="letters", Item=text_item(4 * KB + 1))
    get = {"TableName": "letters", "Key": KEY}
    consistent = spent(dynamodb, dynamodb.get_item, **get, ConsistentRead=True)
    assert consistent == Consumed(read_requests=1, read_units=2)
    assert spent(dynamodb, dynamodb.get_item, **get).read_units == 1
    gone = {"TableName": "letters", "Key": {"pk": {"S": "gone"}}}
    assert spent(dynamodb, dynamodb.get_item, **gone).read_units == 0.5
    assert spent(dynamodb, dynamodb.scan, TableName="letters").read_units == 1


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": "é"}, 2),
        ({"N": "0"}, 1),
        ({"N": "100"}, 2),
        ({"N": "-12.5"}, 4),
        ({"B": b"123"}, 3),
        ({"BOOL": False}, 1),
        ({"NULL": True}, 1),
        ({"SS": ["ab", "c"]}, 3),
        ({"L": []}, 3),
        ({"L": [{"S": "a"}, {"S": "b"}]}, 3 + 2 * (1 + 1)),
        ({"M": {"ab": {"S": "c"}}}, 3 + 1 + 2 + 1),
    ],
)
def test_values_have_the_sizes_of_the_developer_guide(
    value: dict[str, Any], size: int, dynamodb: MemoryDynamoDB
) -> None:
    dynamodb.put_item(TableName="letters", Item={**KEY, "v": value})
    told = dynamodb.describe_table(TableName="letters")["Table"]
    assert told["TableSizeBytes"] == 3 + 1 + size
    dynamodb.update_item(
        TableName="letters",
        Key=KEY,
        UpdateExpression="SET w = :w",
        ExpressionAttributeValues={":w": value},
    )
    told = dynamodb.describe_table(TableName="letters")["Table"]
    assert told["TableSizeBytes"] == 3 + 2 * (1 + size)


def test_a_token_is_forgotten_after_ten_minutes(clock: Clock, dynamodb: MemoryDynamoDB) -> None:
    add = {
        "TableName": "letters",
        "Key": KEY,
        "UpdateExpression": "ADD n :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    for seconds in (0, 599, 2):
        clock.advance(seconds)
        dynamodb.transact_write_items(TransactItems=[{"Update": add}], ClientRequestToken="t")
    assert dynamodb.items("letters") == [{**KEY, "n": {"N": "2"}}]


def test_a_transaction_holds_four_megabytes(dynamodb: MemoryDynamoDB) -> None:
    items = [
        {
            "Put": {
                "TableName": "letters",
                "Item": {"pk": {"S": str(n)}, "x": {"S": "x" * 399 * KB}},
            }
        }
        for n in range(11)
    ]
    assert refusal(dynamodb.transact_write_items, TransactItems=items) == "ValidationException"
    assert dynamodb.items("letters") == []
    dynamodb.transact_write_items(TransactItems=items[:10])


def test_an_expression_has_at_most_four_kilobytes(dynamodb: MemoryDynamoDB) -> None:
    condition = " OR ".join(["attribute_exists(pk)"] * 200)
    refused = {"TableName": "letters", "Item": KEY, "ConditionExpression": condition}
    assert refusal(dynamodb.put_item, **refused) == "ValidationException"


# Lambda.


def payload(answer: dict[str, Any]) -> Any:
    return json.loads(answer["Payload"].read())


def test_a_registered_function_answers_an_invocation(clock: Clock) -> None:
    functions = MemoryLambda(clock, counted(), timeout=60)
    arn = functions.register(
        "route", lambda event, context: {"got": event, "in": context.function_name}
    )
    for name in ("route", arn):
        answer = functions.invoke(FunctionName=name, Payload=b'{"a": 1}')
        assert answer["StatusCode"] == 200
        assert "FunctionError" not in answer
        assert payload(answer) == {"got": {"a": 1}, "in": "route"}


def test_a_function_knows_its_time_and_its_caller(clock: Clock) -> None:
    functions = MemoryLambda(clock, counted(), timeout=60)

    def handler(event: Any, context: Any) -> Any:
        clock.advance(20)
        return [context.get_remaining_time_in_millis(), context.client_context.custom]

    functions.register("route", handler)
    caller = base64.b64encode(json.dumps({"custom": {"run": "1"}}).encode()).decode()
    answer = functions.invoke(FunctionName="route", ClientContext=caller)
    assert payload(answer) == [40_000, {"run": "1"}]


def test_a_function_that_raises_is_an_answer_with_an_error(functions: MemoryLambda) -> None:

    def handler(event: Any, context: Any) -> Any:
        raise LookupError("no rules")

    functions.register("route", handler)
    answer = functions.invoke(FunctionName="route")
    assert (answer["StatusCode"], answer["FunctionError"]) == (200, "Unhandled")
    assert payload(answer) == {"errorMessage": "no rules", "errorType": "LookupError"}


def test_an_asynchronous_invocation_runs_and_tells_nothing(functions: MemoryLambda) -> None:
    events: list[Any] = []
    functions.register("route", lambda event, context: events.append(event))
    answer = functions.invoke(FunctionName="route", InvocationType="Event", Payload=b"1")
    assert (answer["StatusCode"], answer["Payload"].read(), events) == (202, b"", [1])


def test_a_request_has_six_mebibytes_and_an_event_one(functions: MemoryLambda) -> None:
    functions.register("route", lambda event, context: len(event))

    def filled(size: int) -> bytes:
        return b'"' + b"x" * (size - 2) + b'"'

    for kind, largest in (("RequestResponse", 6 * KB * KB), ("Event", KB * KB)):
        functions.invoke(FunctionName="route", InvocationType=kind, Payload=filled(largest))
        with pytest.raises(ClientError) as caught:
            functions.invoke(FunctionName="route", InvocationType=kind, Payload=filled(largest + 1))
        response: Any = caught.value.response
        assert response["Error"]["Code"] == "RequestEntityTooLargeException"
        assert response["ResponseMetadata"]["HTTPStatusCode"] == 413


def test_an_answer_of_more_than_six_mebibytes_is_an_error_of_the_function(
    functions: MemoryLambda,
) -> None:
    functions.register("route", lambda event, context: "x" * event)
    largest = 6 * KB * KB + 100 - 2
    good = functions.invoke(FunctionName="route", Payload=str(largest))
    assert len(payload(good)) == largest
    bad = functions.invoke(FunctionName="route", Payload=str(largest + 1))
    assert bad["FunctionError"] == "Unhandled"
    assert payload(bad)["errorType"] == "Function.ResponseSizeTooLarge"


def test_a_client_context_has_3583_bytes(functions: MemoryLambda) -> None:
    functions.register("route", lambda event, context: None)

    def caller(filling: int) -> str:
        return base64.b64encode(b'{"custom": {}}' + b" " * filling).decode()

    assert len(caller(2_671)) == 3_580
    functions.invoke(FunctionName="route", ClientContext=caller(2_671))
    refused = {"FunctionName": "route", "ClientContext": caller(2_674)}
    assert refusal(functions.invoke, **refused) == "InvalidRequestContentException"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"FunctionName": "none"}, "ResourceNotFoundException"),
        ({"FunctionName": "route", "Payload": b"{"}, "InvalidRequestContentException"),
        ({"FunctionName": "route", "ClientContext": "{}"}, "InvalidRequestContentException"),
        (
            {"FunctionName": "route", "ClientContext": "e30=" * 900},
            "InvalidRequestContentException",
        ),
    ],
)
def test_invocations_that_are_refused(arguments: Any, code: str, functions: MemoryLambda) -> None:
    functions.register("route", lambda event, context: None)
    assert refusal(functions.invoke, **arguments) == code
