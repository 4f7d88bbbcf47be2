"""What an adapter says of a refused call: the action and the resource, never the service's text."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.parsers import ResponseParserError
from botocore.response import StreamingBody

from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.aws.consumer_function import LambdaConsumer, LambdaDelivery
from deadletter.aws.errors import refusal
from deadletter.aws.event_source import LambdaMappings
from deadletter.aws.executions import StepFunctionsExecutions
from deadletter.aws.functions import LambdaRouter, LambdaRunStarter, start_rescue
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.lease import DynamoDBLease
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.metrics import CloudWatchHeartbeats, oldest_message
from deadletter.aws.objects import S3RunObjects
from deadletter.aws.queue import SqsQueue, queue_state
from deadletter.aws.rules import DynamoDBRules
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.aws.watch_store import DynamoDBWatchStore
from deadletter.circuit.state import CircuitPolicy, CircuitsUnavailable
from deadletter.circuit.transitions import CanaryVerdict
from deadletter.failure.ledger import LedgerUnavailable, RecordsUnavailable
from deadletter.message.confirmation import Confirmation
from deadletter.message.envelope import QueueTraits, seal
from deadletter.message.letter import Letter
from deadletter.message.queue import QueueUnavailable, ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.outage.executions import ExecutionsUnavailable
from deadletter.outage.mapping import MappingUnavailable
from deadletter.pace.run import RunPaid, rate_of
from deadletter.redrive.journal import Intent, JournalUnavailable
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.redriver_setup import RunNotStarted
from deadletter.redrive.report import Report
from deadletter.redrive.source_memory import SourceMemory
from deadletter.redrive.waiting_room import RoomUnavailable, WaitingRoomEntry
from deadletter.replay.carriers import DirectAnswer
from deadletter.replay.objects import ObjectsUnavailable
from deadletter.routing.router import RouterUnavailable
from deadletter.rules.rulebook import RulesUnavailable
from deadletter.testing.clock import Clock
from deadletter.watch.first_heartbeat import HeartbeatRefused
from deadletter.watch.row import WatchRow
from deadletter.watch.watch import RescueUnavailable
from tests.aws.failing import Denied
from tests.each_row import each_row

URL = "https://sqs.eu-west-1.amazonaws.com/111122223333/orders-dlq"
INTENT = Intent("slot", "run", 1, 100.0, ())
LETTER = Letter("id", "{}")
RECEIVED = ReceivedLetter(LETTER, "handle", 100.0)
LEDGER_UPDATE = "dynamodb:UpdateItem on messages"
ENTRY = WaitingRoomEntry("id", json.dumps(["orders#message#id", "message", None]), "due", 0, 5.0)


denied: Any = Denied()
clock = Clock()


def queue(notes: list[str] | None = None) -> SqsQueue:
    note = (lambda _: None) if notes is None else notes.append
    return SqsQueue(denied, URL, clock, note_refusal=note)


def room() -> DynamoDBWaitingRoom:
    return DynamoDBWaitingRoom(
        client=denied,
        table="messages",
        s3=denied,
        bucket="bodies",
        pipeline="orders",
        fifo=False,
        clock=clock,
    )


def breaker() -> DynamoDBBreaker:
    return DynamoDBBreaker(
        client=denied,
        table="circuits",
        pipeline="orders",
        policy=CircuitPolicy(),
        clock=clock,
        random=Random(1),
        new_id=lambda: "id",
    )


def journal() -> DynamoDBJournal:
    return DynamoDBJournal(denied, "messages", "orders", 100)


def ledger() -> DynamoDBLedger:
    return DynamoDBLedger(denied, "messages", "orders", clock, 100)


def lease() -> DynamoDBLease:
    return DynamoDBLease(denied, "messages", "orders", "dlq", 1.0)


def watch_store() -> DynamoDBWatchStore:
    return DynamoDBWatchStore(denied, "messages", "orders")


REFUSED: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: queue().traits, QueueUnavailable, "sqs:GetQueueAttributes on orders-dlq"),
    (lambda: queue().depth(), QueueUnavailable, "sqs:GetQueueAttributes on orders-dlq"),
    (lambda: queue().receive(1, 1, 0), QueueUnavailable, "sqs:ReceiveMessage on orders-dlq"),
    (lambda: journal().read(), JournalUnavailable, "dynamodb:Query on messages"),
    (lambda: journal().write(INTENT, None), JournalUnavailable, "dynamodb:PutItem on messages"),
    (lambda: journal().mark(INTENT), JournalUnavailable, "dynamodb:UpdateItem on messages"),
    (lambda: journal().erase(INTENT), JournalUnavailable, "dynamodb:DeleteItem on messages"),
    (lambda: lease().acquire("a", 1, 2), LeaseUnavailable, "dynamodb:UpdateItem on messages"),
    (lambda: lease().read(), LeaseUnavailable, "dynamodb:BatchGetItem on messages"),
    (
        lambda: lease().give_back("a", RunPaid(rate_of(1.0), 0), Report("orders", "dlq", ""), 1),
        LeaseUnavailable,
        "dynamodb:UpdateItem on messages",
    ),
    (
        lambda: lease().record(SourceMemory(looks=1)),
        LeaseUnavailable,
        "dynamodb:UpdateItem on messages",
    ),
    (lambda: watch_store().read(), LeaseUnavailable, "dynamodb:Query on messages"),
    (
        lambda: watch_store().write(WatchRow(first_at=1.0, ran_at=1.0)),
        LeaseUnavailable,
        "dynamodb:UpdateItem on messages",
    ),
    (lambda: queue_state(denied, URL), QueueUnavailable, "sqs:GetQueueAttributes on orders-dlq"),
    (
        lambda: oldest_message(denied, "main", 1.0),
        QueueUnavailable,
        "cloudwatch:GetMetricData on main",
    ),
    (
        lambda: start_rescue(denied, "redrive", "dlq"),
        RescueUnavailable,
        "lambda:InvokeFunction on redrive",
    ),
    (lambda: room().lanes(), RoomUnavailable, "dynamodb:Query on messages"),
    (lambda: room().count("due"), RoomUnavailable, "dynamodb:Query on messages"),
    (lambda: room().look("parked", 5), RoomUnavailable, "dynamodb:Query on messages"),
    (lambda: room().first_due("due"), RoomUnavailable, "dynamodb:Query on messages"),
    (lambda: room().find([RECEIVED]), RoomUnavailable, "dynamodb:BatchGetItem on messages"),
    (lambda: room().waits(["g"], "dlq"), RoomUnavailable, "dynamodb:Query on messages"),
    (lambda: room().due("due", 0, 5, 1), RoomUnavailable, "dynamodb:Query on messages"),
    (lambda: room().read([ENTRY], 9), RoomUnavailable, "dynamodb:BatchGetItem on messages"),
    (lambda: breaker().read(["orders"]), CircuitsUnavailable, "dynamodb:BatchGetItem on circuits"),
    (lambda: breaker().troubled(), CircuitsUnavailable, "dynamodb:Query on circuits"),
    (lambda: ledger().rows(["a"]), LedgerUnavailable, "dynamodb:BatchGetItem on messages"),
    (
        lambda: ledger().count_matches({"a": 1}),
        RecordsUnavailable,
        "dynamodb:UpdateItem on messages",
    ),
    (
        lambda: DynamoDBRules(denied, "rules", "messages", clock).items("orders"),
        RulesUnavailable,
        "dynamodb:Query on rules",
    ),
    (
        lambda: LambdaRouter(denied, "orders-route").decide([]),
        RouterUnavailable,
        "lambda:InvokeFunction on orders-route",
    ),
    (
        lambda: LambdaRunStarter(lambda: denied, "orders-redrive").start({"shard": 2}),
        RunNotStarted,
        "lambda:InvokeFunction on orders-redrive",
    ),
]


@each_row(("call", "kind", "what"), REFUSED, ids=[row[2] for row in REFUSED])
def test_a_refused_call_names_its_action_and_its_resource(
    call: Callable[[], object], kind: type[Exception], what: str
) -> None:
    with pytest.raises(kind) as refused:
        call()
    assert str(refused.value) == f"AccessDeniedException for {what}"


def test_a_queue_notes_refusals_that_raise_no_error() -> None:
    notes: list[str] = []
    sealed = seal(LETTER, Stamp("id", 0, 1), QueueTraits(fifo=False), 0)
    queue(notes).send([sealed])
    queue(notes).delete([(RECEIVED, Confirmation("id", "elsewhere"))])
    queue(notes).make_visible(["handle"])
    assert notes == [
        f"AccessDeniedException for sqs:{action} on orders-dlq"
        for action in ("SendMessage", "DeleteMessage", "ChangeMessageVisibility")
    ]


def test_an_answer_that_does_not_come_names_the_service() -> None:
    late = ReadTimeoutError(endpoint_url="https://dynamodb?X-Amz-Signature=secret")
    assert refusal(late, "dynamodb", "messages") == "ReadTimeoutError for dynamodb on messages"


class FailedFunction:
    """A router's function that ends with an error."""

    def __init__(self, failure: Any) -> None:
        self._payload = json.dumps(failure).encode()

    def invoke(self, **_: Any) -> Any:

        body = StreamingBody(io.BytesIO(self._payload), len(self._payload))
        return {"FunctionError": "Unhandled", "Payload": body}


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (
            {
                "errorType": "RouterUnavailable",
                "errorMessage": "AccessDeniedException for dynamodb:Query on rules",
            },
            "AccessDeniedException for dynamodb:Query on rules",
        ),
        ({"errorType": "KeyError", "errorMessage": "'a word of a letter'"}, "KeyError"),
        ({"errorMessage": "Task timed out"}, "no reason given"),
        (["x"], "no reason given"),
    ],
)
def test_a_router_that_fails_says_why_without_a_word_of_a_letter(failure: Any, why: str) -> None:
    client: Any = FailedFunction(failure)
    with pytest.raises(RouterUnavailable) as refused:
        LambdaRouter(client, "orders-route").decide([])
    assert str(refused.value) == f"function orders-route failed: {why}"


# Answers that cannot be read.


class Unreadable:
    """A client whose answers are cut off, or say nothing."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        def answer(**_: Any) -> Any:
            if self._error is not None:
                raise self._error
            return {}

        return answer


UNREADABLE: list[tuple[Callable[[Any], object], type[Exception]]] = [
    (lambda client: SqsQueue(client, URL, clock).depth(), QueueUnavailable),
    (lambda client: queue_state(client, URL), QueueUnavailable),
    (lambda client: LambdaRouter(client, "orders-route").decide([]), RouterUnavailable),
    (
        lambda client: DynamoDBLedger(client, "messages", "orders", clock, 1).rows(["a"]),
        LedgerUnavailable,
    ),
    (lambda client: DynamoDBJournal(client, "messages", "orders", 1).read(), JournalUnavailable),
    (lambda client: S3RunObjects(client, "bodies", "orders", "run").get("a"), ObjectsUnavailable),
    (
        lambda client: LambdaMappings(client, function="f", queue_arn="q", mapping_id="m").find(),
        MappingUnavailable,
    ),
    (
        lambda client: StepFunctionsExecutions(lambda: client, "machine", "orders").running(),
        ExecutionsUnavailable,
    ),
    (
        lambda client: CloudWatchHeartbeats(client, "app").shown("orders", 1.0, 2.0),
        HeartbeatRefused,
    ),
]


@pytest.mark.parametrize("error", [None, ResponseParserError("cut off")])
@pytest.mark.parametrize(("ask", "ours"), UNREADABLE)
def test_an_answer_that_cannot_be_read_is_like_one_that_is_lost(
    ask: Callable[[Any], object], ours: type[Exception], error: Exception | None
) -> None:
    with pytest.raises(ours):
        ask(Unreadable(error))


@pytest.mark.parametrize("error", [None, ResponseParserError("cut off")])
def test_what_was_sent_is_then_unknown(error: Exception | None) -> None:
    client: Any = Unreadable(error)
    envelope = seal(LETTER, Stamp("id"), QueueTraits(fifo=False))
    sent = SqsQueue(client, URL, clock, sending=client).send([envelope])
    assert sent.unknown == {"id"}
    consumer = LambdaConsumer(client, "orders-consumer")
    verdict = consumer.process(RECEIVED, "arn", "permit", "key").verdict
    assert verdict is CanaryVerdict.NO_ANSWER
    delivery = LambdaDelivery(client, "f", source_arn="arn", sender="AIDA", timeout=1.0)
    assert delivery.deliver([LETTER], "run") == DirectAnswer()
