"""What SQS does, on every backend: a table of scenes, each a plain sentence and its steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.aws.backends import Aws
from tests.aws.rows import cases, differs, refusal, row
from tests.aws.sqs_steps import (
    Scene,
    Step,
    at,
    batch,
    carries,
    dead_letters,
    delete,
    depth,
    entry,
    fail,
    group,
    hide,
    holds,
    play,
    queue,
    receive,
    refused,
    refused_send,
    refused_step,
    send,
    text,
    wait,
)

MIB = 1_048_576
HALF = "x" * (MIB // 2)
HOUR = 3_600
ONE = {"MaxNumberOfMessages": 1}
TRACE = {"AWSTraceHeader": text("Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1")}

INVALID = "InvalidParameterValue"
CONTENTS = "InvalidMessageContents"
HANDLE = "ReceiptHandleIsInvalid"
ATTRIBUTE_VALUE = "InvalidAttributeValue"
SIMPLE = "AWS.SimpleQueueService."
TOO_LONG = f"{SIMPLE}BatchRequestTooLong"
EMPTY = f"{SIMPLE}EmptyBatchRequest"
TOO_MANY = f"{SIMPLE}TooManyEntriesInBatchRequest"
NOT_DISTINCT = f"{SIMPLE}BatchEntryIdsNotDistinct"
BAD_ID = f"{SIMPLE}InvalidBatchEntryId"

# fmt: off


# Sending one message.


def test_a_message_comes_back_as_it_was_sent(aws: Aws) -> None:
    attributes = {
        "tenant": text("t-1"),
        "weight": text("1.50", "Number.kg"),
        "blob": {"BinaryValue": b"\x00\xff", "DataType": "Binary.gif"},
    }
    scene, body = Scene(aws), "héllo\n\t☃"
    send(body, MessageAttributes=attributes)(scene)
    receive(body)(scene)
    (sent,), (message,) = scene.sent, scene.received
    assert message["MessageAttributes"] == attributes
    assert message["MessageId"] == sent["MessageId"]
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"] == "85228ced58e72529a1b215c337c4e42e"


def test_a_message_knows_when_and_by_whom_it_was_sent(aws: Aws) -> None:
    scene, sent_at = Scene(aws), aws.clock.now
    for step in (send(), wait(2), receive("body", VisibilityTimeout=1), wait(2), receive("body")):
        step(scene)
    found, again = (message["Attributes"] for message in scene.received)
    first = "ApproximateFirstReceiveTimestamp"
    assert int(found["SentTimestamp"]) == pytest.approx(sent_at * 1000, abs=1000)
    assert int(found[first]) == pytest.approx((sent_at + 2) * 1000, abs=1000)
    assert found["ApproximateReceiveCount"] == "1"
    assert found["SenderId"]
    assert "MessageGroupId" not in found
    assert again[first] == found[first]


SENDING = [
    row("a trace header travels beside the message",
        [send(MessageSystemAttributes=TRACE), receive("body"),
         carries(AWSTraceHeader=TRACE["AWSTraceHeader"]["StringValue"])]),
    row("a trace header travels in a batch too",
        [batch("send_message_batch", entry(MessageSystemAttributes=TRACE), failed=[]),
         receive("body"), carries(AWSTraceHeader=TRACE["AWSTraceHeader"]["StringValue"])],
        but="sqs-trace-header-in-a-batch"),
    row("a standard queue keeps the group of a message, and a group locks nothing there",
        [send("1", MessageGroupId="t-1"), send("2", MessageGroupId="t-1"), receive("1", **ONE),
         carries(MessageGroupId="t-1"), receive("2")]),
    row("ten attributes are allowed",
        [send(MessageAttributes={f"a.{n}": text() for n in range(10)}), receive("body"),
         holds(lambda scene: len(scene.received[0]["MessageAttributes"]) == 10)]),
    row("a message may fill a mebibyte with its attributes",
        [send("x" * (MIB - 8), MessageAttributes={"k": text("v")}), depth(1)]),
    row("attributes count into the size of a message",
        [refused_send(INVALID, MessageBody="x" * (MIB - 7), MessageAttributes={"k": text("v")})],
        but="sqs-size-with-attributes"),
    row("a body counts by its bytes",
        [queue(MaximumMessageSize="1024"), send("é" * 512),
         refused_send(INVALID, MessageBody="é" * 512 + "x")], but="sqs-size-in-bytes"),
    row("a queue may allow less than a mebibyte",
        [queue(MaximumMessageSize="1024"), send("x" * 1024),
         refused_send(INVALID, MessageBody="x" * 1025)]),
    row("a body is refused that is empty or has a character outside the XML set",
        [refused_send("MissingParameter", MessageBody=""),
         *(refused_send(CONTENTS, MessageBody=body) for body in ("a\x00b", "a\ufffe")), receive()],
        but="sqs-body"),
    row("a group is refused that has a space or 129 characters",
        [*(refused_send(INVALID, MessageGroupId=name) for name in ("a b", "x" * 129)), receive()],
        but="sqs-group-id"),
    *(row(f"a standard queue refuses {what}", [refused_send(code, **given), receive()], but=but)
      for what, given, code, but in [
        ("a delay of 901 s", {"DelaySeconds": 901}, INVALID, "sqs-long-delay"),
        ("a delay of -1 s", {"DelaySeconds": -1}, INVALID, "sqs-negative-delay"),
        ("a deduplication id", {"MessageDeduplicationId": "x"}, INVALID,
         "sqs-deduplication-id-on-standard"),
        ("a trace header of a wrong type",
         {"MessageSystemAttributes": {"AWSTraceHeader": text("1", "Number")}}, INVALID,
         "sqs-trace-header"),
    ]),
    *(row(f"an attribute is refused: {what}",
          [refused_send(INVALID, MessageAttributes=attributes) for attributes in wrong],
          but=f"sqs-{but}")
      for what, wrong, but in cases([
        ("eleven of them", [{str(n): text() for n in range(11)}], "ten-attributes"),
        ("a value that is empty or not of its type",
         [{"a": text("")}, {"a": {"BinaryValue": b"", "DataType": "Binary"}},
          {"a": text("x", "Number")}, {"a": text("x", "Binary")}, {"a": text("a\x01")}],
         "attribute-value"),
        ("no type, or one that is unknown or only begins like one",
         [{"a": text("x", kind)} for kind in ("", "Text", "Strings")], "attribute-type"),
        ("an empty name, or a name with a space", [{"": text()}, {"a b": text()}],
         "attribute-alphabet"),
        ("a name with a wrong period, a reserved beginning or 257 characters",
         [{name: text()} for name in (".a", "a.", "a..b", "AWS.a", "amazon.a", "x" * 257)],
         "attribute-name"),
    ])),
]

BATCHES = [
    row("a batch is refused that has no entries, more than ten, or wrong ids",
        [*(refused(code, "send_message_batch", Entries=[entry(name) for name in ids])
           for ids, code in [
            ([], EMPTY),
            ([str(n) for n in range(11)], TOO_MANY),
            (["1", "1"], NOT_DISTINCT),
            (["a b"], BAD_ID),
            (["x" * 81], BAD_ID),
           ]), receive()]),
    row("a batch may hold a mebibyte in total",
        [batch("send_message_batch", entry("1", HALF), entry("2", HALF), failed=[])]),
    row("a batch of more than a mebibyte is refused as a whole",
        [refused(TOO_LONG, "send_message_batch",
                 Entries=[entry("1", HALF), entry("2", HALF + "x")]), receive()]),
    row("the attributes count into the size of a batch",
        [refused(TOO_LONG, "send_message_batch",
                 Entries=[entry(n, HALF[4:], MessageAttributes={"k": text("v")}) for n in "12"])],
        but="sqs-size-with-attributes"),
    *(row(f"an entry of a batch fails by itself: {what}",
          [queue(MaximumMessageSize="1024"),
           batch("send_message_batch", entry("good"), entry("bad") | given, failed=[("bad", code)]),
           holds(lambda scene: len(scene.aws.receive(scene.url)) == 1)], but=f"sqs-{but}")
      for what, given, code, but in [
        ("a long delay", {"DelaySeconds": 901}, INVALID, "long-delay"),
        ("a forbidden character", {"MessageBody": "\x00"}, CONTENTS, "body"),
        ("eleven attributes", {"MessageAttributes": {str(n): text() for n in range(11)}}, INVALID,
         "ten-attributes"),
        ("too long", {"MessageBody": "x" * 1025}, INVALID, "entry-too-long"),
    ]),
]


# Receiving.


def seen(aws: Aws, sent: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """A message as a receive with these arguments shows it."""
    scene = Scene(aws)
    send(**sent)(scene)
    (message,) = aws.sqs.receive_message(QueueUrl=scene.url, **arguments)["Messages"]
    return dict(message)


def test_nothing_to_receive_is_an_answer_without_messages(aws: Aws) -> None:
    assert "Messages" not in aws.sqs.receive_message(QueueUrl=aws.queue())


def test_attributes_come_only_when_asked_for(aws: Aws) -> None:
    message = seen(aws, {"MessageAttributes": {"a": text()}})
    assert message.keys() == {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}


RECEIVING = [
    # A backend that accepts 21 s of waiting finds a message at once.
    *(row(f"a receive is refused: {what}",
          [send(), *(refused(code, "receive_message", **given) for given in wrong)], but=but)
      for what, wrong, code, but in cases([
        ("of no message, and of eleven", [{"MaxNumberOfMessages": n} for n in (0, 11)], INVALID,
         ""),
        ("21 s of waiting, and hiding for more than 12 h",
         [{"WaitTimeSeconds": 21}, {"VisibilityTimeout": 43_201}], INVALID, "sqs-longest-times"),
    ])),
    row("a received message is hidden for the time asked for",
        [send(), receive("body", VisibilityTimeout=100), depth(0, 1, 0), wait(99), receive(),
         wait(1), receive("body"), carries(ApproximateReceiveCount="2")]),
    row("a queue has its own visibility timeout",
        [queue(VisibilityTimeout="4"), send(), receive("body"), wait(2), receive(), wait(2),
         receive("body")]),
    row("a receive without visibility hides nothing",
        [send(), receive("body", VisibilityTimeout=0), receive("body")]),
    row("a message waits out its delay",
        [send(DelaySeconds=900), depth(0, 0, 1), wait(899), receive(), wait(1), depth(1),
         receive("body")]),
    row("a queue may delay all its messages",
        [queue(DelaySeconds="2"), send("slow"), send("fast", DelaySeconds=0), receive("fast"),
         wait(2), receive("slow")]),
    row("a message expires after the retention period",
        [queue(MessageRetentionPeriod="60"), send("old"), wait(59),
         receive("old", VisibilityTimeout=0), wait(2), receive(), depth(0)], but="sqs-retention"),
]

DELETING = [
    row("a deleted message is gone",
        [send(), receive("body", VisibilityTimeout=1), delete(), wait(2), receive()]),
    row("a deleted message can be deleted again",
        [send(), receive("body"), delete(), delete()], but="sqs-repeated-delete"),
    row("a message can be deleted after its timeout if it was not received again",
        [send(), receive("body", VisibilityTimeout=1), wait(2), delete(), receive()]),
    row("the handle of an earlier receive deletes nothing",
        [send(), receive("body", VisibilityTimeout=0), wait(1),
         receive("body", VisibilityTimeout=1),
         holds(lambda scene: scene.handle(0) != scene.handle(1)), delete(0), wait(2),
         receive("body")], but="sqs-stale-handle"),
    row("an unknown handle is refused",
        [refused(HANDLE, "delete_message", ReceiptHandle="garbage")]),
    row("a handle belongs to its queue",
        [send(), receive("body"), queue("other"), refused_step(HANDLE, delete())]),
    row("a handle expires after twelve hours",
        [send(), receive("body"), wait(12 * HOUR + 1), refused_step(INVALID, delete())],
        but="sqs-handle-expiry"),
    row("deletes of a batch fail by themselves",
        [send(), receive("body"),
         batch("delete_message_batch", {"Id": "good", "ReceiptHandle": 0},
               {"Id": "bad", "ReceiptHandle": "garbage"}, failed=[("bad", HANDLE)]), depth(0)]),
    *(row(f"a batch of deletes is refused: {what}",
          [refused(code, "delete_message_batch",
                   Entries=[{"Id": entry_id, "ReceiptHandle": "x"} for entry_id in ids])
           for ids, code in wrong], but=but)
      for what, wrong, but in [
        ("no delete, and an id twice", [([], EMPTY), (["1", "1"], NOT_DISTINCT)], ""),
        ("eleven deletes, and an empty id",
         [([str(n) for n in range(11)], TOO_MANY), ([""], BAD_ID)], "sqs-delete-batch"),
    ]),
]

VISIBILITY = [
    row("a message can be released at once",
        [send(), receive("body"), hide(0), depth(1), receive("body")]),
    row("a message can be held for longer",
        [send(), receive("body", VisibilityTimeout=4), wait(2), hide(4), wait(2), receive(),
         wait(2), receive("body")]),
    row("a message is held for twelve hours in total at most",
        [send(), receive("body", VisibilityTimeout=2 * HOUR), wait(HOUR), hide(11 * HOUR - 1),
         refused_step(INVALID, hide(11 * HOUR + 1))], but="sqs-twelve-hours-in-total"),
    row("the twelve hours count from the receive and not from the send",
        [send(), wait(13 * HOUR), receive("body", VisibilityTimeout=60), hide(120), wait(119),
         receive()], but="sqs-twelve-hours"),
    row("a visibility timeout of -1 s is refused",
        [send(), receive("body"), refused_step(INVALID, hide(-1))], but="sqs-negative-timeout"),
    row("a visibility timeout of more than 12 h is refused",
        [send(), receive("body"), refused_step(INVALID, hide(43_201))], but="sqs-longest-times"),
    row("a timeout that is too long fails its entry of a batch",
        [send(), receive("body"),
         batch("change_message_visibility_batch",
               {"Id": "0", "ReceiptHandle": 0, "VisibilityTimeout": 50_000},
               failed=[("0", INVALID)])], but="sqs-long-timeout-in-a-batch"),
    row("the visibility of a deleted message can not change",
        [send(), receive("body"), delete(), refused_step(INVALID, hide(10))],
        but="sqs-visibility-of-deleted"),
    row("the handle of an earlier receive changes nothing",
        [send(), receive("body", VisibilityTimeout=0), wait(1),
         receive("body", VisibilityTimeout=100), refused_step(INVALID, hide(0, nth=0)), receive()],
        but="sqs-stale-handle"),
    row("visibility changes in batches",
        [send(), receive("body"),
         batch("change_message_visibility_batch",
               {"Id": "good", "ReceiptHandle": 0, "VisibilityTimeout": 0},
               {"Id": "bad", "ReceiptHandle": "garbage", "VisibilityTimeout": 0},
               failed=[("bad", HANDLE)]), depth(1)]),
]


# The redrive policy.


def stays_who_it_was(scene: Scene) -> bool:
    (sent,), (letter,) = scene.sent, scene.received
    return bool(letter["MessageId"] == sent["MessageId"]) and letter["MessageAttributes"] == {
        "a": text()
    }


def redrive(target: str | None, count: int | None) -> Step:
    """Set a redrive policy whose target is a queue of the scene, or else a text."""

    def step(scene: Scene) -> None:
        policy: dict[str, Any] = {}
        if target is not None:
            known = target in scene.urls
            policy["deadLetterTargetArn"] = scene.aws.arn(scene.urls[target]) if known else target
        if count is not None:
            policy["maxReceiveCount"] = count
        scene.aws.sqs.set_queue_attributes(
            QueueUrl=scene.url, Attributes={"RedrivePolicy": json.dumps(policy)}
        )

    return step


def test_a_moved_message_keeps_the_time_of_its_send(aws: Aws) -> None:
    scene, sent_at = Scene(aws), aws.clock.now
    for step in (dead_letters(), send(), fail(3), at("dead"), receive("body")):
        step(scene)
    sent = scene.received[0]["Attributes"]["SentTimestamp"]
    assert int(sent) == pytest.approx(sent_at * 1000, abs=1000)


DEAD_LETTERS = [
    row("a message moves on the receive after the last allowed one",
        [dead_letters(), send(), fail(2), at("dead"), depth(0), at("main"), receive(), depth(0),
         at("dead"), depth(1)]),
    row("a moved message stays who it was, and its receives count over all queues",
        [dead_letters(),
         send(MessageAttributes={"a": text()}, MessageSystemAttributes=TRACE, MessageGroupId="t"),
         fail(3), at("dead"), receive("body"), holds(stays_who_it_was),
         carries(MessageGroupId="t", ApproximateReceiveCount="3",
                 AWSTraceHeader=TRACE["AWSTraceHeader"]["StringValue"])]),
    row("a moved message tells where it came from",
        [dead_letters(), send(), fail(3), at("dead"), receive("body"),
         holds(lambda scene: scene.received[0]["Attributes"]["DeadLetterQueueSourceArn"]
               == scene.aws.arn(scene.urls["main"]))], but="sqs-dead-letter-source"),
    row("a message that moves away makes room for the next",
        [dead_letters(1), send("bad"), fail(1), send("good"), receive("good", **ONE)]),
    row("the time in the main queue counts in the dead-letter queue",
        [dead_letters(MessageRetentionPeriod="100"), send(), wait(90), fail(3), at("dead"),
         receive("body", VisibilityTimeout=0), wait(10), receive()]),
    *(row(f"a redrive policy is refused: {what}",
          [queue("dlq"), queue("dlq.fifo"), queue(),
           *(refused_step(INVALID, redrive(*policy)) for policy in policies)], but=but)
      for what, policies, but in cases([
        ("a target that is no ARN, and a count beyond 1 to 1000",
         [("nowhere", 1), ("dlq", 0), ("dlq", 1001)],
         "sqs-redrive-policy sqs-redrive-policy-code"),
        ("no target, and no count", [(None, 1), ("dlq", None)], "sqs-redrive-policy-code"),
        ("a wrong type", [("dlq.fifo", 1)], "sqs-redrive-type"),
    ])),
]


# FIFO.

FIFO_QUEUE = queue("orders.fifo")

FIFO = [
    row("a group keeps its order and may come in one batch",
        [FIFO_QUEUE, group("g", "1", "2", "3"), receive("1", "2", "3")]),
    row("a message in flight locks its group and no other",
        [FIFO_QUEUE, group("g", "1", "2"), group("h", "3"), receive("1", **ONE), receive("3"),
         receive(), delete(0), receive("2")]),
    row("a failed message comes again before those behind it",
        [FIFO_QUEUE, group("g", "1", "2"), receive("1", **ONE, VisibilityTimeout=1), wait(2),
         receive("1", "2")]),
    row("a delayed message waits behind its group",
        [queue("orders.fifo", DelaySeconds="10"), group("g", "1"), wait(5), group("g", "2"),
         wait(5), receive("1", VisibilityTimeout=5), wait(6), receive("1", "2")]),
    row("releasing a message unlocks its group",
        [FIFO_QUEUE, group("g", "1", "2"), receive("1", **ONE), hide(0), receive("1", "2")]),
    row("a group is locked until its last message in flight is back",
        [FIFO_QUEUE, group("g", "1", "2", "3"), receive("1", "2", MaxNumberOfMessages=2),
         hide(0, nth=0), receive(), hide(0, nth=1), receive("1", "2", "3")]),
    row("messages of a FIFO queue carry their tokens",
        [FIFO_QUEUE, group("g", "1"), receive("1"),
         carries(MessageGroupId="g", MessageDeduplicationId="g-1"),
         holds(lambda scene: scene.received[0]["Attributes"]["SequenceNumber"]
               == scene.sent[0]["SequenceNumber"])]),
    row("sequence numbers grow",
        [FIFO_QUEUE, group("g", *"abcdefghij"), holds(lambda scene: numbers(scene)
         == sorted(set(numbers(scene))))], but="sqs-sequence-numbers"),
    row("a repeated send is accepted and not delivered",
        [FIFO_QUEUE, group("g", "1"), send("2", MessageGroupId="h", MessageDeduplicationId="g-1"),
         holds(lambda scene: scene.sent[0]["MessageId"] == scene.sent[1]["MessageId"]),
         holds(lambda scene: len(set(numbers(scene))) == 1), receive("1")],
        but="sqs-deduplication-answer"),
    row("a deduplication id is remembered after its message is deleted",
        [FIFO_QUEUE, group("g", "1"), receive("1"), delete(), group("g", "1"), receive()],
        but="sqs-deduplication-memory"),
    row("a deduplication id is forgotten after five minutes",
        [FIFO_QUEUE, group("g", "1"), receive("1"), delete(), wait(299), group("g", "1"), wait(2),
         receive(), group("g", "1"), receive("1")], but="sqs-deduplication-memory"),
    row("a FIFO queue refuses a message without its ids, or with a delay other than zero",
        [FIFO_QUEUE, refused_send("MissingParameter", MessageDeduplicationId="1"),
         refused_send(INVALID, MessageGroupId="g"),
         refused_send(INVALID, MessageGroupId="g", MessageDeduplicationId="1", DelaySeconds=1),
         send(MessageGroupId="g", MessageDeduplicationId="1", DelaySeconds=0), receive("body")]),
    row("a FIFO batch without a group is refused as a whole",
        [FIFO_QUEUE,
         refused(INVALID, "send_message_batch",
                 Entries=[entry("1", MessageGroupId="g", MessageDeduplicationId="1"),
                          entry("2", MessageDeduplicationId="2")]), receive()],
        but="sqs-fifo-batch"),
    row("a FIFO handle is good only while its message is in flight",
        [FIFO_QUEUE, group("g", "1"), receive("1", VisibilityTimeout=1), wait(2),
         refused_step(INVALID, delete()), receive("1")], but="sqs-handle-expiry"),
    row("a moved FIFO message starts its retention anew",
        [dead_letters(1, fifo=True, MessageRetentionPeriod="100"), group("g", "1"), wait(90),
         fail(2), wait(90), at("dead.fifo"), receive("1")], but="sqs-retention"),
    row("a failed FIFO message moves and frees its group",
        [dead_letters(1, fifo=True), group("g", "1", "2"),
         receive("1", **ONE, VisibilityTimeout=1), wait(2), receive("2"), at("dead.fifo"),
         receive("1"), carries(MessageGroupId="g")]),
    row("a moved FIFO message has its own id as its deduplication id",
        [dead_letters(1, fifo=True), group("g", "1"), fail(2), at("dead.fifo"), receive("1"),
         holds(lambda scene: scene.received[0]["Attributes"]["MessageDeduplicationId"]
               == scene.received[0]["MessageId"])], but="sqs-moved-deduplication-id"),
]


def numbers(scene: Scene) -> list[str]:
    return [answer["SequenceNumber"] for answer in scene.sent]


# Queues.


def test_a_queue_that_does_not_exist_has_an_error_of_its_own(aws: Aws) -> None:
    url = aws.queue()
    aws.sqs.delete_queue(QueueUrl=url)
    calls: list[tuple[Any, dict[str, Any]]] = [
        (aws.sqs.get_queue_url, {"QueueName": "orders"}),
        (aws.sqs.send_message, {"QueueUrl": url, "MessageBody": "x"}),
        (aws.sqs.receive_message, {"QueueUrl": url}),
        (aws.sqs.get_queue_attributes, {"QueueUrl": url, "AttributeNames": ["All"]}),
    ]
    for call, arguments in calls:
        assert refusal(call, **arguments) == f"{SIMPLE}NonExistentQueue"


def test_a_queue_is_created_again_only_as_it_is(aws: Aws) -> None:
    assert aws.queue(DelaySeconds="1") == aws.queue() == aws.queue(DelaySeconds="1")
    code = refusal(aws.sqs.create_queue, QueueName="orders", Attributes={"DelaySeconds": "2"})
    assert code == "QueueAlreadyExists"


@differs("sqs-queue-attribute-names")
def test_queue_attributes_come_only_when_asked_for(aws: Aws) -> None:
    url = aws.queue(VisibilityTimeout="7")
    assert "Attributes" not in aws.sqs.get_queue_attributes(QueueUrl=url)
    some = aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
    assert some["Attributes"] == {"VisibilityTimeout": "7"}
    everything = aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert everything["MaximumMessageSize"] == "1048576"
    assert everything["MessageRetentionPeriod"] == "345600"
    assert "RedrivePolicy" not in everything


QUEUES = [
    row("a queue can be found by name",
        [holds(lambda scene: scene.url
               == scene.aws.sqs.get_queue_url(QueueName="orders")["QueueUrl"])]),
    row("only a FIFO queue is called .fifo",
        [refused(INVALID, "create_queue", QueueName="a.fifo"),
         refused(INVALID, "create_queue", QueueName="a", Attributes={"FifoQueue": "true"})],
        but="sqs-fifo-name"),
    row("a queue attribute is refused that is out of its range",
        [refused(ATTRIBUTE_VALUE, "set_queue_attributes", Attributes={name: value})
         for name, value in [
            ("VisibilityTimeout", "43201"), ("DelaySeconds", "901"),
            ("MaximumMessageSize", "1023"), ("MaximumMessageSize", "1048577"),
            ("MessageRetentionPeriod", "59"),
         ]], but="sqs-queue-attributes"),
    row("a standard queue refuses an attribute of FIFO queues",
        [refused("InvalidAttributeName", "set_queue_attributes",
                 Attributes={"ContentBasedDeduplication": "true"})], but="sqs-fifo-attributes"),
    row("an unknown queue attribute is refused",
        [refused("InvalidAttributeName", "get_queue_attributes", AttributeNames=["Colour"])],
        but="sqs-queue-attribute-names"),
]

# fmt: on

TABLE = [
    *SENDING,
    *BATCHES,
    *RECEIVING,
    *DELETING,
    *VISIBILITY,
    *DEAD_LETTERS,
    *FIFO,
    *QUEUES,
]


@pytest.mark.parametrize("steps", TABLE)
def test_sqs(aws: Aws, steps: Sequence[Step]) -> None:
    play(aws, steps)
