"""Powertools' batch processing with DeadletterProcessor."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from deadletter.consumer import Permanent, dependency, runtime
from deadletter.consumer.powertools import DeadletterProcessor, NotProcessed
from deadletter.settings.pipeline import Pipeline
from deadletter.testing import Letterbox
from deadletter.testing.letterbox import VISIBILITY


def handler_of(
    record_handler: Callable[..., Any], processor: DeadletterProcessor | None = None
) -> Callable[[Any, Any], Any]:
    chosen = processor or DeadletterProcessor(event_type=EventType.SQS)

    def handler(event: Any, context: Any) -> Any:
        return process_partial_response(
            event=event, record_handler=record_handler, processor=chosen, context=context
        )

    return handler


def fail_on(*bodies: str, error: type[Exception] = ValueError) -> Callable[[SQSRecord], str]:
    def record_handler(record: SQSRecord) -> str:
        if record.body in bodies:
            raise error(f"cannot do {record.body}")
        return record.body

    return record_handler


def test_only_one_line_changes_for_users_of_powertools(letterbox: Letterbox) -> None:
    for body in ("good", "bad"):
        letterbox.send(body)
    run = letterbox.run(handler_of(fail_on("bad")))
    assert letterbox.waiting == ["bad"]
    [failure] = letterbox.ledger(run.returned[0]).failures
    assert failure.error_type == "ValueError"
    assert letterbox.metrics == {"Processed": 1, "ProcessingFailure": 1}


def test_an_async_record_handler_has_processed_nothing(letterbox: Letterbox) -> None:
    async def record_handler(record: SQSRecord) -> None:
        raise AssertionError("a coroutine that is not awaited does not run")

    letterbox.send("a")
    letterbox.run(handler_of(record_handler))
    assert letterbox.waiting == ["a"]


def test_each_record_is_claimed_before_and_marked_done_after(letterbox: Letterbox) -> None:
    seen: list[list[str]] = []

    def record_handler(record: SQSRecord) -> None:
        items = letterbox.dynamodb.items("messages")
        seen.append(sorted(item["status"]["S"] for item in items))

    for body in ("a", "b"):
        letterbox.send(body)
    letterbox.run(handler_of(record_handler))
    assert seen == [["CLAIMED"], ["CLAIMED", "DONE"]]


def test_the_record_handler_may_take_the_context(letterbox: Letterbox) -> None:
    seen: list[Any] = []

    def record_handler(record: SQSRecord, lambda_context: Any) -> None:
        seen.append((record.body, lambda_context.get_remaining_time_in_millis()))

    letterbox.send("x")
    letterbox.run(handler_of(record_handler))
    assert seen == [("x", 30_000)]


def test_the_processors_hooks_are_called_as_by_powertools(letterbox: Letterbox) -> None:
    class Noting(DeadletterProcessor):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[tuple[str, Any]] = []

        def success_handler(self, record: Any, result: Any) -> Any:
            self.seen.append(("good", result))
            return super().success_handler(record, result)

        def failure_handler(self, record: Any, exception: Any) -> Any:
            self.seen.append(("bad", exception[0]))
            return super().failure_handler(record, exception)

    noting = Noting()
    for body in ("a", "b"):
        letterbox.send(body)
    letterbox.run(handler_of(fail_on("b"), noting))
    assert sorted(noting.seen, key=str) == [("bad", ValueError), ("good", "a")]
    assert len(noting.success_messages) == len(noting.fail_messages) == 1


def test_a_duplicate_is_a_success_without_a_result(letterbox: Letterbox) -> None:
    processor = DeadletterProcessor()
    seen: list[str] = []
    message_id = letterbox.send("x")
    handler = handler_of(lambda record: seen.append(record.body), processor)
    event: Any = None

    def first(batch: Any, context: Any) -> Any:
        nonlocal event
        event = batch
        return handler(batch, context)

    letterbox.run(first)
    handler(event, letterbox.context())
    assert seen == ["x"]
    assert processor.response() == {"batchItemFailures": []}
    assert len(processor.success_messages) == 1
    assert message_id


def test_a_parked_message_is_a_failure_that_the_response_does_not_name(
    letterbox: Letterbox,
) -> None:
    processor = DeadletterProcessor(raise_on_entire_batch_failure=True)
    letterbox.send("x")
    handler = handler_of(fail_on("x", error=Permanent), processor)
    with pytest.raises(BatchProcessingError):
        letterbox.run(handler)
    # A new cause of failure parks no first receive.
    letterbox.clock.advance(VISIBILITY)
    assert letterbox.run(handler).returned == ()
    assert len(letterbox.parked) == len(processor.fail_messages) == 1


def test_a_batch_that_fails_entirely_raises_only_with_the_option(letterbox: Letterbox) -> None:
    letterbox.send("x")
    assert letterbox.run(handler_of(fail_on("x"))).returned
    letterbox.clock.advance(1000)
    processor = DeadletterProcessor(raise_on_entire_batch_failure=True)
    with pytest.raises(BatchProcessingError):
        letterbox.run(handler_of(fail_on("x"), processor))


def test_a_probe_always_gets_a_response(letterbox: Letterbox) -> None:
    processor = DeadletterProcessor(raise_on_entire_batch_failure=True)
    letterbox.send("x")
    run = letterbox.run(handler_of(fail_on("x", error=TimeoutError), processor), permit="p")
    assert run.response["deadletter"]["circuits"] == {"test": "failure"}


def test_a_replay_run_always_gets_a_response(letterbox: Letterbox) -> None:
    processor = DeadletterProcessor(raise_on_entire_batch_failure=True)
    message_id = letterbox.send("x")
    run = letterbox.run(handler_of(fail_on("x"), processor), replay="r9")
    assert run.response["deadletter"] == {"run": "r9", "outcomes": {message_id: "failed"}}


def test_fifo_needs_no_separate_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Letterbox(Pipeline("test", fifo=True))
    monkeypatch.setattr(runtime, "current_runtime", lambda: box.runtime)
    processor = DeadletterProcessor()
    for body in ("first", "second"):
        box.send(body, group="g")
    box.send("other", group="h")
    box.run(handler_of(fail_on("first"), processor))
    assert sorted(box.waiting) == ["first", "second"]
    assert [exception[0] for exception in processor.exceptions] == [ValueError, NotProcessed]


def test_a_message_that_its_model_refuses_is_a_schema_failure(letterbox: Letterbox) -> None:
    pydantic = pytest.importorskip("pydantic")
    from aws_lambda_powertools.utilities.parser.models import SqsRecordModel

    class Order(pydantic.BaseModel):  # type: ignore[name-defined,misc]
        order_id: int

    class OrderRecord(SqsRecordModel):
        body: pydantic.Json[Order]

    processor = DeadletterProcessor(model=OrderRecord)
    letterbox.send({"order_id": 7})
    letterbox.send({"order_id": "Rumpelstiltskin"})
    seen: list[int] = []
    handler = handler_of(lambda record: seen.append(record.body.order_id), processor)
    letterbox.run(handler)
    letterbox.clock.advance(VISIBILITY)
    letterbox.run(handler)
    assert seen == [7]
    [parked] = letterbox.parked
    assert json.loads(parked.body) == {"order_id": "Rumpelstiltskin"}
    assert "schema" in str(parked.stamp.because)


def test_switched_off_it_behaves_as_powertools_batch_processor(
    letterbox: Letterbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "current_runtime", lambda: runtime.runtime_from("off"))
    for body in ("good", "bad"):
        letterbox.send(body)
    letterbox.run(handler_of(fail_on("bad")))
    assert letterbox.waiting == ["bad"]
    assert letterbox.dynamodb.items("messages") == []


def test_another_event_source_is_refused() -> None:
    with pytest.raises(ValueError, match=r"allowed: EventType\.SQS"):
        DeadletterProcessor(event_type=EventType.KinesisDataStreams)


def test_the_processor_takes_a_teams_word(letterbox: Letterbox) -> None:
    processor = DeadletterProcessor(dependency_errors=ValueError)
    message_id = letterbox.send("x")
    letterbox.run(handler_of(fail_on("x"), processor))
    assert letterbox.ledger(message_id).last.blame == "dependency"
    with pytest.raises(TypeError, match="ignored_errors is 'x'; allowed"):
        DeadletterProcessor(ignored_errors="x")  # type: ignore[arg-type]


def test_a_record_handler_may_name_its_dependencies(letterbox: Letterbox) -> None:
    shipped: list[str] = []

    def record_handler(record: SQSRecord) -> None:
        with dependency("bank"):
            shipped.append(record.body)

    letterbox.set_circuit("OPEN", "dependency/bank")
    letterbox.send("a")
    run = letterbox.run(handler_of(record_handler))
    assert (shipped, letterbox.waiting) == ([], ["a"])
    assert letterbox.ledger(run.returned[0]).failures[0].circuit == "dependency/bank"
    assert letterbox.metrics == {"RefusedWhileOpen": 1}
    letterbox.set_circuit("CLOSED", "dependency/bank")
    letterbox.clock.advance(120)
    letterbox.run(handler_of(record_handler))
    assert (shipped, letterbox.waiting) == (["a"], [])


def test_records_are_handled_at_the_same_time(letterbox: Letterbox) -> None:
    barrier = threading.Barrier(3, timeout=5)

    def record_handler(record: SQSRecord) -> str:
        barrier.wait()
        if record.body == "bad":
            raise ValueError("no")
        return record.body

    processor = DeadletterProcessor(event_type=EventType.SQS, concurrency=3)
    for body in ("a", "bad", "b"):
        letterbox.send(body)
    letterbox.run(handler_of(record_handler, processor))
    assert letterbox.waiting == ["bad"]
    succeeded: list[Any] = processor.success_messages
    assert sorted(message["body"] for message in succeeded) == ["a", "b"]
    failed: list[Any] = processor.fail_messages
    assert [message.body for message in failed] == ["bad"]


@pytest.mark.parametrize("concurrency", [0, 65, "2"])
def test_another_concurrency_is_refused_when_the_module_is_loaded(concurrency: Any) -> None:
    with pytest.raises(ValueError, match="allowed: a whole number from 1 to 64"):
        DeadletterProcessor(concurrency=concurrency)
