"""What only the memory clients do: limits that no emulator has, and AWS's rarer moods on demand.

Tables of scenes, as in the contract suites: each a plain sentence and its steps.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from deadletter.aws.table import absent
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import (
    Consumed,
    MemoryLambda,
    client_error,
)
from tests.aws import dynamodb_steps as db
from tests.aws.differences import DIFFERENCES
from tests.aws.dynamodb_steps import KB, KEY, n, s
from tests.aws.memory_steps import (
    LambdaStep,
    account,
    bodies,
    caller,
    cannot_resurrect,
    counted,
    echo,
    fails,
    filled,
    filling,
    in_lane,
    invoked,
    lane,
    left,
    malformed,
    payload,
    redeliver,
    resurrect,
    same_message,
    settle,
    source,
    table_size,
    take,
    turned_away,
    unsent,
    was_read,
    written,
)
from tests.aws.rows import cases, error_of, row
from tests.aws.sqs_steps import (
    Scene,
    Step,
    at,
    carries,
    delete,
    group,
    hide,
    holds,
    play,
    queue,
    receive,
    send,
    text,
    wait,
)
from tests.each_row import each_row

MIB = KB * KB


def scenario(sentence: str, steps: Sequence[Any], **options: Any) -> Any:
    """A row of steps, played by memory clients that are made with these options."""
    return row(sentence, steps, options)


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


def test_a_simulator_can_raise_what_aws_would() -> None:
    error = client_error("SendMessage", "ThrottlingException", "Rate exceeded", status=400)
    assert isinstance(error, ClientError)
    assert error.operation_name == "SendMessage"
    assert error.response["Error"]["Code"] == "ThrottlingException"


# fmt: off


# SQS.

TEN = [send(letter) for letter in "abcdefghij"]
FIFO_QUEUE = queue("orders.fifo")
AGAIN = receive("body", VisibilityTimeout=0)
TYPED = {"a": {"stringValue": "x"}}

SQS = [
    *(scenario(f"arguments of a wrong shape are refused: {what}",
          [malformed(operation, **arguments), left()])
      for what, operation, arguments in cases([
        ("a body that is a number", "send_message", {"MessageBody": 5}),
        ("a delay that is a text", "send_message", {"MessageBody": "x", "DelaySeconds": "5"}),
        ("a delay that is a fraction", "send_message", {"MessageBody": "x", "DelaySeconds": 1.5}),
        ("None as a delay", "send_message", {"MessageBody": "x", "DelaySeconds": None}),
        ("None as attributes", "send_message", {"MessageBody": "x", "MessageAttributes": None}),
        ("None as a group", "send_message", {"MessageBody": "x", "MessageGroupId": None}),
        ("a misspelled value", "send_message", {"MessageBody": "x", "MessageAttributes": TYPED}),
        ("an unknown member of an entry", "send_message_batch",
         {"Entries": [{"Id": "1", "MessageBody": "x", "Delay": 1}]}),
        ("an entry without a body", "send_message_batch", {"Entries": [{"Id": "1"}]}),
        ("an id that is a number", "send_message_batch",
         {"Entries": [{"Id": 1, "MessageBody": "x"}]}),
        ("a limit that is a text", "receive_message", {"MaxNumberOfMessages": "10"}),
        ("None as a handle", "delete_message", {"ReceiptHandle": None}),
        ("an entry without a handle", "delete_message_batch", {"Entries": [{"Id": "1"}]}),
    ])),
    scenario("a short poll waits for nothing, and a long poll waits without sleeping",
        [send("late", DelaySeconds=15), receive(), receive(WaitTimeSeconds=10),
         receive("late", WaitTimeSeconds=10)]),
    scenario("a long poll can be the default of a queue",
        [queue(ReceiveMessageWaitTimeSeconds="20"), receive(), receive(WaitTimeSeconds=0),
         holds(lambda scene: scene.aws.clock.now == Clock().now + 20)]),
    scenario("without random, messages come first in first out", [*TEN, receive(*"abcdefghij")]),
    scenario("with random, messages come in any order but each once",
        [*TEN, take(WaitTimeSeconds=1),
         holds(lambda scene: sorted(bodies(scene)) == [*"abcdefghij"] != bodies(scene))],
        seed=1),
    scenario("with random, a short poll may miss what is there",
        [*TEN, holds(lambda scene: {len(scene.aws.receive(scene.url, VisibilityTimeout=0))
                                    for _ in range(100)} == set(range(11)))], seed=1),
    scenario("with random, a group still keeps its order",
        [FIFO_QUEUE, *(group(name, name + number) for number in "123" for name in "abc"),
         take(WaitTimeSeconds=1), holds(lambda scene: sorted(bodies(scene)) != bodies(scene)),
         holds(lambda scene: all([body for body in bodies(scene) if body[0] == name]
                                 == [name + number for number in "123"] for name in "abc"))],
        seed=1),
    scenario("a deleted message can come back",
        [send(), receive("body"), cannot_resurrect, delete(), resurrect, receive("body"),
         holds(same_message), carries(ApproximateReceiveCount="2")]),
    scenario("a message that came back expires once",
        [queue(MessageRetentionPeriod="60"), send(), receive("body"), delete(), resurrect,
         wait(61), left()]),
    scenario("a FIFO message never comes back",
        [FIFO_QUEUE, group("g", "x"), receive("x"), delete(), cannot_resurrect]),
    scenario("a message in flight can be delivered twice, and only the last handle counts",
        [send(), receive("body"), redeliver, receive("body"), holds(same_message),
         holds(lambda scene: scene.handle(0) != scene.handle(1)),
         delete(0), left("in flight"), delete(1), left()]),
    scenario("a timeout that has just ended can be taken up again",
        [send(), receive("body", VisibilityTimeout=5), wait(6), hide(60), receive()]),
    scenario("a redrive policy can be taken away",
        [queue("dead"), source("main", "dead", "1"),
         lambda scene: scene.aws.sqs.set_queue_attributes(
             QueueUrl=scene.url, Attributes={"RedrivePolicy": ""}),
         send(), AGAIN, AGAIN, AGAIN,
         holds(lambda scene: "RedrivePolicy" not in scene.aws.sqs.get_queue_attributes(
             QueueUrl=scene.url, AttributeNames=["All"])["Attributes"])]),
    scenario("a batch shows a message once while others move away",
        [queue("dead"), source("main", "dead"), send("bad"), receive("bad", VisibilityTimeout=0),
         send("good"), receive("good", VisibilityTimeout=0), at("dead"), receive("bad")]),
    scenario("a dead-letter queue counts its own receives",
        [queue("last"), source("middle", "last"), source("first", "middle"), send(),
         AGAIN, receive(), at("middle"), AGAIN, receive(), at("last"), receive("body")]),
    scenario("a message stays if its dead-letter queue is gone",
        [queue("dead"), source("main", "dead"),
         lambda scene: scene.aws.sqs.delete_queue(QueueUrl=scene.urls["dead"]),
         send(), AGAIN, AGAIN, AGAIN]),
]


@each_row(("steps", "options"), SQS)
def test_sqs(steps: Sequence[Step], options: dict[str, Any]) -> None:
    play(account(**options), steps)


def test_the_same_history_gives_the_same_answers() -> None:
    def history() -> list[Any]:
        scene = Scene(account(seed=7))
        for number in range(30):
            send(str(number), DelaySeconds=number % 3)(scene)
            wait(1)(scene)
            take(VisibilityTimeout=number % 5)(scene)
        return [scene.received, scene.aws.sqs.snapshot()]

    assert history() == history()


def test_each_sender_has_its_own_id_on_the_same_queues() -> None:
    scene = Scene(account())
    redriver = scene.aws.sqs.as_sender("AROAREDRIVER:run")
    send("from outside")(scene)
    redriver.send_message(QueueUrl=scene.url, MessageBody="from us")
    take()(scene)
    first, second = (message["Attributes"]["SenderId"] for message in scene.received)
    assert first != second == "AROAREDRIVER:run"


def test_a_snapshot_shows_every_message_and_its_state() -> None:
    scene, attribute = Scene(account()), {"a": text()}
    for step in (
        send("held", MessageAttributes=attribute, MessageGroupId="g"), take(VisibilityTimeout=10),
        send("seen"), queue("other"), send("delayed", DelaySeconds=10),
    ):
        step(scene)
    messages = scene.aws.sqs.snapshot()
    assert [(m.queue, m.message_id, m.body, m.state) for m in messages] == [
        ("orders", "id-1", "held", "in flight"),
        ("orders", "id-2", "seen", "visible"),
        ("other", "id-3", "delayed", "delayed"),
    ]
    held = messages[0]
    assert (held.attributes, held.group, held.receive_count) == (attribute, "g", 1)
    for step in (wait(10), left("visible", "visible", "visible"), wait(345_600), left()):
        step(scene)


def test_a_long_life_leaves_no_litter() -> None:
    """Timers, groups and tokens of deleted messages don't pile up: a benchmark sends millions."""
    scene = Scene(account())
    FIFO_QUEUE(scene)
    for number in map(str, range(1_000)):
        scene.aws.clock.advance(10)
        group(number, number)(scene)
        receive(number, VisibilityTimeout=43_200)(scene)
        delete()(scene)
    inside = scene.aws.sqs._queues["orders.fifo"]
    assert len(inside.hidden.heap) + len(inside.ages.heap) < 200
    assert len(inside.sent_tokens) <= 30
    assert not inside.groups


# DynamoDB.

FIRST = {"lane": s("due"), "note": s("1")}
ELEVEN = [db.action("Put", Item={**key, "x": s("x" * 399 * KB)}) for key in db.keys(11)]

DYNAMODB = [
    *(scenario(f"a value of a wrong shape is refused: {value}", [unsent(db.put(a=value))])
      for value in cases([
        {"N": 5}, {"S": 5}, {"S": None}, {"BOOL": "yes"}, {"X": "x"}, "x", {"L": "x"}, {"SS": "x"},
    ])),
    scenario("a batch of reads has no unknown members",
        [unsent(db.call("batch_get_item", RequestItems={"messages": {}})),
         unsent(db.batch_get([KEY], AttributesToGet=["pk"]))]),
    scenario("a check has a condition", [unsent(db.transact(db.action("ConditionCheck")))]),
    scenario("an index may lag behind its table, so a reader of the index has to look at the table",
        [db.put(**FIRST), in_lane(), settle, in_lane({**KEY, **FIRST}),
         db.put(**FIRST | {"note": s("2")}), in_lane({**KEY, **FIRST}),
         db.delete(), in_lane({**KEY, **FIRST}), settle, in_lane()], lagging_indexes=True),
    scenario("an index holds what it includes and no more",
        [db.put(**FIRST, other=s("x")), in_lane({**KEY, **FIRST}),
         db.refused(lane(Only=["other"]))]),
    # The names and values of the key have six bytes.
    *(scenario(f"a value has the size of the developer guide: {value}",
          [db.put(v=value), table_size(6 + 1 + size)])
      for value, size in cases([
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
    ])),
    scenario("a transaction holds four megabytes",
        [db.refused(db.transact(*ELEVEN)), db.answers(db.call("scan"), Items=[]),
         db.transact(*ELEVEN[:10])]),
]


@each_row(("steps", "options"), DYNAMODB)
def test_dynamodb(steps: Sequence[db.Step], options: dict[str, Any]) -> None:
    db.play(account(**options), steps)


DUE, OTHER = {"lane": s("due")}, {"lane": s("other")}
FIVE = db.keys(5)
LARGE = filling(4 * KB + 1)
GONE = {"Key": {"pk": s("gone"), "sk": s("s")}}

CHARGES = [
    row("a kilobyte is one unit", [], filling(KB), written(1)),
    row("a byte more than a kilobyte is two units", [], filling(KB + 1), written(2)),
    row("a put counts the larger of old and new", [filling(KB + 1)], db.put(), written(2)),
    row("a put of the smallest item is one unit", [db.put()], db.put(), written(1)),
    row("a delete of nothing is one unit", [], db.delete(**GONE), written(1)),
    row("a write that its condition stops is charged too", [filling(3 * KB)],
        db.call("put_item", When=absent("pk")), written(3)),
    row("a refused request costs nothing", [], db.put(a=n("x")), Consumed()),
    row("an item that enters an index costs one more", [], db.put(**DUE), written(1 + 1)),
    row("an attribute outside the index costs nothing there", [db.put(**DUE)],
        db.put(**DUE, other=s("x")), written(1 + 0)),
    row("an attribute inside the index costs one more", [db.put(**DUE, other=s("x"))],
        db.put(**DUE, note=s("x")), written(1 + 1)),
    row("an item that moves in an index costs two more", [db.put(**DUE, note=s("x"))],
        db.put(**OTHER), written(1 + 2)),
    row("an item that leaves an index costs one more", [db.put(**OTHER)], db.put(), written(1 + 1)),
    row("a batch is one request", [], db.batch_write(*FIVE), written(5)),
    row("a transaction costs twice", [db.batch_write(*FIVE)],
        db.transact(*(db.action("Delete", Key=key) for key in FIVE)), written(2 * 5)),
    row("a consistent read is one unit for four kilobytes", [LARGE],
        db.call("get_item", ConsistentRead=True), was_read(2)),
    row("a read that is not consistent costs half", [LARGE], db.call("get_item"), was_read(1)),
    row("a read of nothing costs half a unit", [LARGE], db.call("get_item", **GONE),
        was_read(0.5)),
    row("a scan costs what it reads", [LARGE], db.call("scan"), was_read(1)),
]


@each_row(("before", "step", "cost"), CHARGES)
def test_charges(before: Sequence[db.Step], step: db.Step, cost: Consumed) -> None:
    aws = account()
    db.play(aws, before)
    consumed = aws.dynamodb.consumed
    with suppress(ClientError):
        step(aws)
    assert aws.dynamodb.consumed - consumed == cost


# Lambda.

ARN = "arn:aws:lambda:us-east-1:123456789012:function:route"
ANSWER_LIMIT = 6 * MIB + 100 - 2
INVALID = "InvalidRequestContentException"

INVOCATIONS = [
    *(row(f"a registered function answers an invocation {how}", echo,
          [invoked({"got": {"a": 1}, "in": "route"}, FunctionName=name, Payload=b'{"a": 1}')])
      for how, name in (("by name", "route"), ("by ARN", ARN))),
    row("a function that raises is an answer with an error", fails,
        [invoked({"errorMessage": "no rules", "errorType": "LookupError"}, "Unhandled")]),
    row("an answer of six mebibytes is an answer", lambda event, context: "x" * event,
        [invoked(lambda answer: len(answer) == ANSWER_LIMIT, Payload=str(ANSWER_LIMIT))]),
    row("a larger answer is an error of the function", lambda event, context: "x" * event,
        [invoked(lambda answer: answer["errorType"] == "Function.ResponseSizeTooLarge",
                 "Unhandled", Payload=str(ANSWER_LIMIT + 1))]),
    row("a client context has 3583 bytes", echo,
        [invoked({"got": {}, "in": "route"}, ClientContext=caller(3_580)),
         turned_away(INVALID, ClientContext=caller(3_584))]),
    *(row(f"an invocation is refused: {what}", echo, [turned_away(code, **arguments)])
      for what, arguments, code in cases([
        ("unknown function", {"FunctionName": "none"}, "ResourceNotFoundException"),
        ("half a payload", {"Payload": b"{"}, INVALID),
        ("a client context that is not encoded", {"ClientContext": "{}"}, INVALID),
        ("a client context that is too long", {"ClientContext": "e30=" * 900}, INVALID),
    ])),
]


@pytest.fixture
def functions() -> MemoryLambda:
    return MemoryLambda(Clock(), counted())


@pytest.mark.parametrize(("handler", "steps"), INVOCATIONS)
def test_lambda(functions: MemoryLambda, handler: Any, steps: Sequence[LambdaStep]) -> None:
    assert functions.register("route", handler) == ARN
    for step in steps:
        step(functions)


def test_a_function_knows_its_time_and_its_caller() -> None:
    clock = Clock()
    functions = MemoryLambda(clock, counted(), timeout=60)

    def handler(event: Any, context: Any) -> Any:
        clock.advance(20)
        return [context.get_remaining_time_in_millis(), context.client_context.custom]

    functions.register("route", handler)
    caller = base64.b64encode(json.dumps({"custom": {"run": "1"}}).encode()).decode()
    answer = functions.invoke(FunctionName="route", ClientContext=caller)
    assert payload(answer) == [40_000, {"run": "1"}]


def test_an_asynchronous_invocation_runs_and_tells_nothing(functions: MemoryLambda) -> None:
    events: list[Any] = []
    functions.register("route", lambda event, context: events.append(event))
    answer = functions.invoke(FunctionName="route", InvocationType="Event", Payload=b"1")
    assert (answer["StatusCode"], answer["Payload"].read(), events) == (202, b"", [1])


@pytest.mark.parametrize(("kind", "largest"), [
    row("a request has six mebibytes", "RequestResponse", 6 * MIB),
    row("an event has one mebibyte", "Event", MIB),
])
def test_a_payload_has_a_largest_size(functions: MemoryLambda, kind: str, largest: int) -> None:
    functions.register("route", lambda event, context: len(event))
    functions.invoke(FunctionName="route", InvocationType=kind, Payload=filled(largest))
    larger = {"FunctionName": "route", "InvocationType": kind, "Payload": filled(largest + 1)}
    response = error_of(functions.invoke, **larger)
    assert response["Error"]["Code"] == "RequestEntityTooLargeException"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 413
