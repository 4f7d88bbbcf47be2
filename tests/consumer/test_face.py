"""What a team's Lambda handler does with the consumer library around it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.wiring.consuming import NotRegistered, look_up
from deadletter.consumer import Permanent, Skip, Transient, consume, consumer, runtime
from deadletter.contract import Category
from deadletter.settings.backoff import Backoff
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from deadletter.testing import Context, Letterbox
from deadletter.testing.fakes.errors import client_error
from deadletter.testing.letterbox import VISIBILITY
from tests.each_row import each_row


def raising(error: BaseException | None) -> Any:
    def each(_: Any) -> None:
        if error is not None:
            raise error

    return consumer(each)


def test_a_wrapped_function_is_a_lambda_handler(letterbox: Letterbox) -> None:
    seen: list[Any] = []

    @consumer
    def handler(record: dict[str, Any]) -> None:
        """Ships an order."""
        seen.append(json.loads(record["body"]))

    letterbox.send({"orderId": 7})
    run = letterbox.run(handler)
    assert seen == [{"orderId": 7}]
    assert run.response == {"batchItemFailures": []}
    assert letterbox.waiting == []
    assert handler.__doc__ == "Ships an order."
    assert letterbox.metrics == {"Processed": 1}


def test_a_function_call_does_the_same(letterbox: Letterbox) -> None:
    letterbox.send("x")
    assert letterbox.run(lambda event, context: consume(event, context, len)).acknowledged


def test_a_failure_stays_in_its_queue_and_is_in_the_ledger(letterbox: Letterbox) -> None:
    message_id = letterbox.send("x")
    run = letterbox.run(raising(Transient("the shop is closed", status=503, retry_after=60)))
    assert run.returned == (message_id,)
    [failure] = letterbox.ledger(message_id).failures
    assert (failure.category, failure.http_status) == (Category.TRANSIENT, 503)
    assert (failure.queue, failure.receive) == ("test-main", 1)
    assert letterbox.waiting == ["x"]


def test_a_message_comes_back_after_its_retry_after(letterbox: Letterbox) -> None:
    message_id = letterbox.send("x")
    letterbox.run(raising(Transient(retry_after=60)))
    letterbox.clock.advance(59)
    assert letterbox.run(raising(None)).received == ()
    letterbox.clock.advance(2)
    assert letterbox.run(raising(None)).acknowledged == (message_id,)


def test_a_permanent_failure_of_a_new_cause_is_parked_at_its_second_receive(
    letterbox: Letterbox,
) -> None:
    message_id = letterbox.send("x")
    letterbox.run(raising(Permanent("no such product")))
    assert letterbox.parked == []
    letterbox.clock.advance(VISIBILITY)
    letterbox.run(raising(Permanent("no such product")))
    [parked] = letterbox.parked
    assert (parked.body, parked.stamp.origin, parked.stamp.reason) == ("x", message_id, "PERMANENT")
    assert letterbox.waiting == letterbox.dead == []
    assert letterbox.metrics["MessageMovedToParkingLot"] == 1


def test_a_redriven_message_that_is_processed_is_recovered(letterbox: Letterbox) -> None:
    origin = letterbox.send("x")
    letterbox.max_receive_count = 1
    letterbox.run(raising(ValueError()))
    letterbox.redrive("x", origin=origin, attempt=2)
    letterbox.run(raising(None))
    row = letterbox.ledger(origin)
    assert (row.recovered_attempt, row.recovered_at) == (2, letterbox.clock())
    assert letterbox.metrics["RedriveSuccess"] == 1
    assert json.loads(letterbox.lines[-1])["AttemptsBeforeRecovery"] == [2]


def test_a_message_that_is_sent_twice_is_processed_once(letterbox: Letterbox) -> None:
    letterbox.settings = replace(letterbox.settings, idempotency_key="body.orderId")
    seen: list[str] = []
    for body in ({"orderId": 7}, {"orderId": 7}, {"orderId": 8}):
        letterbox.send(body)
    letterbox.run(consumer(lambda record: seen.append(record["body"])))
    assert sorted(seen) == ['{"orderId": 7}', '{"orderId": 8}']
    assert letterbox.metrics["dedup.skip"] == 1


def test_five_failures_end_in_the_dlq_and_are_in_the_ledger(letterbox: Letterbox) -> None:
    letterbox.settings = replace(letterbox.settings, retry=Backoff(base=0, floor=0))
    message_id = letterbox.send("x")
    for _ in range(6):
        letterbox.run(raising(ValueError("why")))
        letterbox.clock.advance(1)
    assert letterbox.dead == ["x"]
    # The others failed alike.
    assert [failure.receive for failure in letterbox.ledger(message_id).failures] == [1]


@pytest.mark.parametrize("error", [Skip("done long ago"), None])
def test_a_skipped_message_is_acknowledged(letterbox: Letterbox, error: Exception | None) -> None:
    letterbox.send("x")
    assert letterbox.run(raising(error)).returned == ()


def test_a_canary_is_recognized_by_its_client_context(letterbox: Letterbox) -> None:
    letterbox.send("x")
    run = letterbox.run(raising(TimeoutError()), permit="owner")
    assert run.response["deadletter"]["circuits"] == {"test": "failure"}


def test_a_fifo_group_waits_for_its_first_message(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Letterbox(Pipeline("test", fifo=True))
    monkeypatch.setattr(runtime, "current_runtime", lambda: box.runtime)
    for body in ("first", "second"):
        box.send(body, group="g")
    box.send("other", group="h")

    @consumer
    def handler(record: dict[str, Any]) -> None:
        if record["body"] == "first":
            raise TimeoutError

    box.run(handler)
    assert sorted(box.waiting) == ["first", "second"]


def test_each_failure_is_a_line_of_json_without_the_message(letterbox: Letterbox) -> None:
    letterbox.send("Rumpelstiltskin")
    letterbox.run(raising(ValueError("no such name: Rumpelstiltskin")))
    [failure, metrics, of_category] = map(json.loads, letterbox.lines)
    assert failure["level"] == "WARNING"
    assert (failure["pipeline"], failure["error_type"]) == ("test", "ValueError")
    assert metrics["ProcessingFailure"] == 1
    assert (of_category["category"], of_category["FailuresByCategory"]) == ("transient", 1)
    assert "Rumpelstiltskin" not in str(letterbox.lines)


def test_the_metrics_are_one_line_of_the_embedded_format(letterbox: Letterbox) -> None:
    letterbox.send("x")
    letterbox.run(raising(None))
    assert list(map(json.loads, letterbox.lines)) == [
        {
            "_aws": {
                "Timestamp": int(letterbox.clock() * 1000),
                "CloudWatchMetrics": [
                    {
                        "Namespace": "Deadletter",
                        "Dimensions": [["app", "pipeline"]],
                        "Metrics": [{"Name": "Processed", "Unit": "Count"}],
                    }
                ],
            },
            "app": "test",
            "pipeline": "test",
            "Processed": 1,
        }
    ]


def test_pending_metrics_are_reported_once(letterbox: Letterbox) -> None:
    letterbox.runtime.pending_metrics["CircuitTripped"] += 1
    for _ in range(2):
        letterbox.send("x")
        letterbox.run(raising(None))
    assert letterbox.metrics == {"Processed": 2, "CircuitTripped": 1}


@pytest.mark.parametrize("event", [{}, {"Records": None}, {"Records": {}}, [], None])
def test_an_event_without_sqs_records_is_refused(letterbox: Letterbox, event: Any) -> None:
    with pytest.raises(ValueError, match="allowed: the event of an SQS queue"):
        consume(event, letterbox.context(), len)


def test_without_a_context_the_claim_lasts_as_long_as_lambda_allows(letterbox: Letterbox) -> None:
    letterbox.send("x")
    letterbox.run(lambda event, _: consume(event, None, len))
    [row] = [item for item in letterbox.dynamodb.items("messages") if "until" in item]
    assert float(row["until"]["N"]) == letterbox.clock() + 905


# The environment variable.


@each_row("value", [None, "", "orders", "Off", "a/b/c", "deadletter/", "a b/c"])
def test_a_variable_that_names_no_pipeline_is_refused(value: str | None) -> None:
    with pytest.raises(BadSettings, match=r"DEADLETTER .*allowed: <app>/<pipeline>.*or off"):
        runtime.runtime_from(value)


def test_the_environment_is_not_read_before_the_first_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DEADLETTER", raising=False)
    runtime.current_runtime.cache_clear()
    handler = consumer(len)
    with pytest.raises(BadSettings, match="is not set"):
        handler({"Records": []}, None)
    # It is read again, so a repair takes effect.
    monkeypatch.setenv("DEADLETTER", "off")
    assert handler({"Records": []}, None) == {"batchItemFailures": []}
    runtime.current_runtime.cache_clear()


def test_failures_are_still_partial_and_logged_when_switched_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEADLETTER", "off")
    runtime.current_runtime.cache_clear()
    records = [{"messageId": "m1", "body": "a"}, {"messageId": "m2", "body": "b"}]

    @consumer
    def handler(record: dict[str, Any]) -> None:
        if record["body"] == "b":
            raise ValueError("no")

    assert handler({"Records": records}, None) == {"batchItemFailures": [{"itemIdentifier": "m2"}]}
    runtime.current_runtime.cache_clear()
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["message_id"] == "m2"


# The registration.


class Ssm:
    """Parameters, and the names that were read."""

    def __init__(self, parameters: dict[str, Any], fails: str = "") -> None:
        self.parameters, self.fails = parameters, fails
        self.asked: list[str] = []

    def get_parameters(self, *, Names: list[str]) -> Any:  # noqa: N803
        if self.fails:
            raise client_error("GetParameters", self.fails, "no")
        self.asked += Names
        parameters = [
            {"Name": name, "Value": json.dumps(self.parameters[name])}
            for name in Names
            if name in self.parameters
        ]
        return {"Parameters": parameters}


APP = {"messages_table": "messages", "circuits_table": "circuits", "rules_table": "rules"}
ORDERS = {
    "main_url": "https://sqs/orders",
    "parking": {"default": "https://sqs/parking"},
    "pipeline": {"name": "orders", "idempotency_key": "body.orderId"},
    "trusted_senders": ["AROA"],
    "circuit_machine": "arn:aws:states:eu-west-1:111122223333:stateMachine:shop-orders-circuit",
}


def test_two_parameters_register_a_pipeline() -> None:
    ssm: Any = Ssm({"/shop/app": APP, "/shop/pipelines/orders": ORDERS})
    pipeline, resources = look_up(ssm, "shop", "orders")
    assert ssm.asked == ["/shop/app", "/shop/pipelines/orders"]
    assert pipeline == Pipeline("orders", idempotency_key="body.orderId")
    assert (resources.messages_table, resources.circuits_table) == ("messages", "circuits")
    assert (resources.main_url, resources.parking) == (ORDERS["main_url"], ORDERS["parking"])
    assert resources.trusted_senders == ("AROA",)


def test_a_missing_parameter_and_a_missing_permission_are_named() -> None:
    nothing: Any = Ssm({"/shop/app": APP})
    with pytest.raises(NotRegistered, match="no parameter /shop/pipelines/orders"):
        look_up(nothing, "shop", "orders")
    denied: Any = Ssm({}, "AccessDeniedException")
    with pytest.raises(NotRegistered, match=r"AccessDeniedException.*/policies/orders/consumer"):
        look_up(denied, "shop", "orders")


@each_row(
    ("app", "own"),
    [
        ([], ORDERS),
        ({}, ORDERS),
        (APP, {}),
        (APP, {**ORDERS, "pipeline": None}),
        (APP, {**ORDERS, "pipeline": {"unknown": 1}}),
        (APP, {**ORDERS, "parking": []}),
        (APP, {**ORDERS, "main_url": ""}),
        (APP, {**ORDERS, "trusted_senders": "AROA"}),
    ],
)
def test_an_invalid_registration_consumes_nothing(app: Any, own: Any) -> None:
    ssm: Any = Ssm({"/shop/app": app, "/shop/pipelines/orders": own})
    with pytest.raises(BadSettings):
        look_up(ssm, "shop", "orders")


def test_the_fixtures_context_follows_the_clock(letterbox: Letterbox) -> None:
    context: Context = letterbox.context()
    letterbox.clock.advance(29)
    assert context.get_remaining_time_in_millis() == 1000


class WarehouseBusy(Exception):
    """A class of a team."""


@pytest.mark.parametrize(
    ("error", "blame"), [(WarehouseBusy(), "dependency"), (TimeoutError(), "neither")]
)
@pytest.mark.parametrize("form", ["decorator", "call"])
def test_a_team_says_what_its_errors_mean(
    letterbox: Letterbox, form: str, error: Exception, blame: str
) -> None:
    said: dict[str, Any] = {"dependency_errors": WarehouseBusy, "ignored_errors": (TimeoutError,)}

    def each(_: Any) -> None:
        raise error

    message_id = letterbox.send("x")
    if form == "decorator":
        letterbox.run(consumer(**said)(each))
    else:
        letterbox.run(lambda event, context: consume(event, context, each, **said))
    assert letterbox.ledger(message_id).last.blame == blame


def test_a_word_of_another_kind_is_refused_when_the_module_is_loaded() -> None:
    with pytest.raises(TypeError, match="dependency_errors is 'Busy'; allowed: an exception class"):
        consumer(dependency_errors="Busy")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="ignored_errors is 7; allowed"):
        consume({"Records": []}, None, len, ignored_errors=7)  # type: ignore[arg-type]
