"""Messages as boto3 receives them are refused by the Lambda face, before any is processed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import EventType, process_partial_response

from deadletter.consumer import consume, consumer, handle, runtime
from deadletter.consumer.powertools import DeadletterProcessor
from deadletter.testing import Letterbox

Face = Callable[[list[Any], Callable[[Any], object]], object]


def _powertools(records: list[Any], each: Callable[[Any], object]) -> object:
    return process_partial_response(
        event={"Records": records},
        record_handler=each,
        processor=DeadletterProcessor(event_type=EventType.SQS),
        context=None,  # type: ignore[arg-type]  # as a container that has none
    )


FACES: dict[str, Face] = {
    "consumer": lambda records, each: consumer(each)({"Records": records}, None),
    "consume": lambda records, each: consume({"Records": records}, None, each),
    "handle": lambda records, each: handle(records, None, each),
    "powertools": _powertools,
}


@pytest.fixture(params=["on", "off"])
def box(request: Any, letterbox: Letterbox, monkeypatch: pytest.MonkeyPatch) -> Letterbox:
    """The letterbox, with the library on, and with DEADLETTER=off."""
    if request.param == "off":
        off = runtime.runtime_from("off")
        monkeypatch.setattr(runtime, "current_runtime", lambda: off)
    return letterbox


def received(box: Letterbox) -> list[Any]:
    return list(box.sqs.receive_message(QueueUrl=box.main, MaxNumberOfMessages=10)["Messages"])


@pytest.mark.parametrize("face", FACES)
def test_raw_messages_are_refused_and_none_is_processed(box: Letterbox, face: str) -> None:
    for body in ("a", "b"):
        box.send(body)
    seen: list[Any] = []
    with pytest.raises(ValueError, match=r"MessageId.*allowed: .*messageId.*consumer\.poll"):
        FACES[face](received(box), seen.append)
    assert seen == []
    assert sorted(box.waiting) == ["a", "b"]


@pytest.mark.parametrize("face", FACES)
def test_one_raw_message_among_records_is_enough(box: Letterbox, face: str) -> None:
    record = {"messageId": "m1", "receiptHandle": "r1", "body": "a", "attributes": {}}
    seen: list[Any] = []
    with pytest.raises(ValueError, match=r"records\[1\]"):
        FACES[face]([record, {"MessageId": "m2", "Body": "b", "ReceiptHandle": "r2"}], seen.append)
    assert seen == []


def test_an_answer_of_receive_message_is_no_event(box: Letterbox) -> None:
    with pytest.raises(ValueError, match=r"allowed: the event of an SQS queue.*consumer\.poll"):
        consume({"Messages": []}, None, len)


def delete_what_is_not_named(box: Letterbox, each: Callable[[Any], object]) -> None:
    """The loop that a team writes first."""
    messages = received(box)
    failed = consume({"Records": messages}, None, each)["batchItemFailures"]
    named = {failure["itemIdentifier"] for failure in failed}
    for message in messages:
        if message["MessageId"] not in named:
            box.sqs.delete_message(QueueUrl=box.main, ReceiptHandle=message["ReceiptHandle"])


def test_a_loop_that_deletes_what_is_not_named_deletes_nothing_unprocessed(box: Letterbox) -> None:
    box.send("a")
    with pytest.raises(ValueError, match="MessageId"):
        delete_what_is_not_named(box, lambda _: 1 / 0)
    assert box.waiting == ["a"]


def test_a_record_of_lambda_without_an_id_gives_the_whole_batch_back(box: Letterbox) -> None:
    """Lambda takes an empty id for a failed batch; what was processed is not processed again."""
    response = consume({"Records": [{"body": "a"}]}, None, lambda _: 1 / 0)
    assert response == {"batchItemFailures": [{"itemIdentifier": ""}]}
