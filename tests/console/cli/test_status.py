"""`dlq status`: what it reads, what it calls attention to, and that it fits a screen."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from console.cli.exit import Exit
from console.cli.output import TextTable
from console.cli.status import show
from console.operations import status
from console.operations.queue import QueueDepth
from deadletter.contract import Metric

NOW = datetime.now(UTC)


def answer(dlq: Any, *arguments: str) -> Any:
    done = dlq("status", "--json", *arguments)
    assert done.exit_code == Exit.DONE, done.output
    return json.loads(done.stdout)


def only_pipeline(dlq: Any) -> Any:
    (only,) = answer(dlq)["pipelines"]
    return only


def test_a_quiet_app_needs_no_attention(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", "invoices")
    done = dlq("status", "--check")
    assert done.exit_code == Exit.DONE
    assert "deadletter in account 123456789012, eu-west-1" in done.stdout
    assert "Nothing needs attention." in done.stdout


def test_depths_distinguish_visible_in_flight_and_delayed(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", dedicated=["tenant-a"])
    for _ in range(3):
        cloud.sqs.send_message(QueueUrl=cloud.urls["orders-dlq"], MessageBody="x")
    cloud.sqs.receive_message(QueueUrl=cloud.urls["orders-dlq"], VisibilityTimeout=60)
    cloud.sqs.send_message(QueueUrl=cloud.urls["orders-main"], MessageBody="x", DelaySeconds=60)
    cloud.sqs.send_message(QueueUrl=cloud.urls["orders-dlq-tenant-a"], MessageBody="x")
    pipeline = only_pipeline(dlq)
    assert pipeline["dlq"] == {"visible": 2, "in_flight": 1, "delayed": 0}
    assert pipeline["main"] == {"visible": 0, "in_flight": 0, "delayed": 1}
    assert pipeline["dedicated"]["tenant-a"]["visible"] == 1


def test_letters_of_the_waiting_room_are_counted_over_all_shards_of_a_lane(
    cloud: Any, dlq: Any
) -> None:
    cloud.deploy("orders", "invoices")
    cloud.waiting("orders", "due", 19)
    cloud.waiting("orders", "circuit:orders", 2)
    cloud.waiting("invoices", "due", 5)
    (orders,) = answer(dlq, "--pipeline", "orders")["pipelines"]
    assert orders["waiting"] == [
        {"lane": "circuit:orders", "letters": 2},
        {"lane": "due", "letters": 19},
    ]


def test_lanes_beyond_the_first_are_only_numbered(
    cloud: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "_MAX_LANES", 2)
    cloud.deploy("orders")
    for number in range(5):
        cloud.waiting("orders", f"circuit:{number}", 1)
    pipeline = only_pipeline(dlq)
    assert len(pipeline["waiting"]) == 2
    assert pipeline["lanes_not_counted"] == 3
    assert "and 3 more lanes, not counted" in dlq("status").stdout


def _age(cloud: Any, queue: str, seconds: float, minutes_ago: float) -> None:
    cloud.cloudwatch.put_metric_data(
        Namespace="AWS/SQS",
        MetricData=[
            {
                "MetricName": "ApproximateAgeOfOldestMessage",
                "Dimensions": [{"Name": "QueueName", "Value": queue}],
                "Timestamp": NOW - timedelta(minutes=minutes_ago),
                "Value": seconds,
            }
        ],
    )


def test_the_age_of_the_oldest_letter_is_the_latest_figure_of_cloudwatch(
    cloud: Any, dlq: Any
) -> None:
    cloud.deploy("orders")
    cloud.sqs.send_message(QueueUrl=cloud.urls["orders-dlq"], MessageBody="x")
    _age(cloud, "orders-dlq", 9_999, minutes_ago=8)
    _age(cloud, "orders-dlq", 7_500, minutes_ago=3)
    _age(cloud, "another-dlq", 1, minutes_ago=1)
    assert only_pipeline(dlq)["oldest_letter_seconds"] == 7_500
    assert "Oldest letter in the DLQ: 2 h 05 min" in dlq("status").stdout


def test_an_old_figure_is_not_used(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.sqs.send_message(QueueUrl=cloud.urls["orders-dlq"], MessageBody="x")
    _age(cloud, "orders-dlq", 7_500, minutes_ago=40)
    assert only_pipeline(dlq)["oldest_letter_seconds"] is None
    assert "Oldest letter in the DLQ: unknown" in dlq("status").stdout


def test_an_empty_dlq_has_no_oldest_letter_despite_a_late_figure(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    _age(cloud, "orders-dlq", 7_500, minutes_ago=3)
    assert "Oldest letter in the DLQ: none" in dlq("status").stdout


def test_the_last_run_that_had_work_is_told_with_its_counters(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    assert only_pipeline(dlq)["last_run"] is None
    cloud.ran("orders", NOW.timestamp() - 42.5, {Metric.REDRIVEN: 12, Metric.LEFT_IN_PLACE: 3})
    run = only_pipeline(dlq)["last_run"]
    assert (run["moved"], run["left"], run["failed"]) == (12, 3, 0)
    assert ", 12 moved, 0 failed; ended because the source is empty" in dlq("status").stdout
    assert dlq("status", "--check").exit_code == Exit.DONE


def test_a_run_that_failed_to_move_letters_needs_attention(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.ran("orders", NOW.timestamp() - 42.5, {Metric.REDRIVEN: 12, Metric.REDRIVE_FAILURE: 2})
    (item,) = answer(dlq)["attention"]
    assert item == {
        "pipeline": "orders",
        "kind": "LAST_RUN",
        "says": "the last busy run could not move 2 letters",
    }


def _circuit(cloud: Any, pipeline: str, state: str, open_until: datetime | None = None) -> None:
    until = {"open_until": {"N": str(open_until.timestamp())}} if open_until else {}
    key = {"pipeline": {"S": pipeline}, "circuit_key": {"S": pipeline}}
    cloud.put("circuits", {**key, "state": {"S": state}, **until})


def test_a_circuit_that_was_never_seen_is_closed(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    assert only_pipeline(dlq)["circuit"] == {"state": "CLOSED", "open_until": None}


@pytest.mark.parametrize(
    ("state", "minutes", "says"),
    [
        ("OPEN", 30, "the circuit is OPEN: no canary before "),
        ("OPEN", -1, "the circuit is OPEN, and its next canary is due"),
        ("OPEN", None, "the circuit is OPEN: nothing is re-driven while it is"),
        ("HALF_OPEN", None, "one letter is being tried"),
        ("ajar", None, "the circuit's record is not understood: its letters are held"),
    ],
)
def test_a_circuit_that_is_not_closed_needs_attention(
    cloud: Any, dlq: Any, state: str, minutes: float | None, says: str
) -> None:
    cloud.deploy("orders")
    until = NOW + timedelta(minutes=minutes) if minutes is not None else None
    _circuit(cloud, "orders", state, until)
    status_answer = answer(dlq)
    (item,) = status_answer["attention"]
    assert item["kind"] == "CIRCUIT"
    assert says in item["says"]
    known = status_answer["pipelines"][0]["circuit"]["state"]
    assert known == (state if state != "ajar" else "UNREADABLE")


def _alarm(cloud: Any, name: str, state: str = "ALARM") -> None:
    cloud.cloudwatch.put_metric_alarm(
        AlarmName=name,
        MetricName="Age",
        Namespace="Test",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        Statistic="Maximum",
        ComparisonOperator="GreaterThanThreshold",
    )
    cloud.cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason="test")


def test_alarms_come_first(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.park("orders", "POISON")
    _circuit(cloud, "orders", "OPEN")
    _alarm(cloud, "deadletter-orders-dlq-age")
    _alarm(cloud, "deadletter-orders-parked", state="OK")
    status_answer = answer(dlq)
    assert [item["kind"] for item in status_answer["attention"]] == ["ALARM", "CIRCUIT", "PARKED"]
    assert "deadletter-orders-dlq-age is in ALARM since" in status_answer["attention"][0]["says"]
    assert [alarm["name"] for alarm in status_answer["pipelines"][0]["alarms"]] == [
        "deadletter-orders-dlq-age"
    ]


def test_an_alarm_belongs_to_the_pipeline_with_the_longer_name(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", "orders-eu")
    _alarm(cloud, "deadletter-orders-eu-dlq-age")
    _alarm(cloud, "deadletter-staging-dlq-age")
    orders, orders_eu = answer(dlq)["pipelines"]
    assert orders["alarms"] == []
    assert len(orders_eu["alarms"]) == 1
    assert answer(dlq, "--pipeline", "orders")["attention"] == []


def test_parked_letters_need_attention_and_the_next_command_is_named(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", "invoices")
    cloud.park("orders", "POISON")
    cloud.park("orders", "EXPIRED")
    done = dlq("status")
    assert "orders  2 parked letters: see dlq parked list --pipeline orders" in done.stdout
    assert dlq("status", "--check").exit_code == Exit.ATTENTION
    assert dlq("status", "--check", "--pipeline", "invoices").exit_code == Exit.DONE


def test_unreadable_parts_are_named_and_the_rest_is_shown(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    cloud.sqs.delete_queue(QueueUrl=cloud.urls["orders-dlq"])
    cloud.dynamodb.delete_table(TableName="circuits")
    done = dlq("status", "--json")
    assert done.exit_code == Exit.ATTENTION
    status_answer = json.loads(done.stdout)
    assert [item["kind"] for item in status_answer["attention"]] == ["UNREAD", "UNREAD"]
    assert status_answer["attention"][0]["says"].startswith("the DLQ could not be read: ")
    (orders,) = status_answer["pipelines"]
    assert (orders["dlq"], orders["circuit"]) == (None, None)
    assert orders["main"]["visible"] == 0
    assert re.search(r"^DLQ +\? +\? +\?", dlq("status").stdout, re.MULTILINE)


def test_equal_sentences_about_several_pipelines_are_shown_once(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", "invoices")
    cloud.dynamodb.delete_table(TableName="circuits")
    assert dlq("status").stdout.count("could not be read") == 1
    assert "  invoices, orders  the circuit could not be read" in dlq("status").stdout


def test_an_observing_pipeline_says_that_it_moves_nothing(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", mode="observe")
    assert "mode observe (decides and reports, moves nothing)" in dlq("status").stdout
    cloud.deploy("invoices")
    assert "orders (observe)" in dlq("status").stdout


def test_a_bug_in_a_thread_is_reported_as_a_bug(
    cloud: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> QueueDepth:
        raise KeyError("x")

    monkeypatch.setattr(status, "depth", broken)
    cloud.deploy("orders")
    assert dlq("status").exit_code == Exit.BUG


def test_thirty_pipelines_fit_a_screen() -> None:
    now = datetime(2026, 11, 20, 3, 12, tzinfo=UTC)
    depth = QueueDepth(128_400, 1_000, 12)
    pipelines = tuple(
        status.PipelineStatus(
            name=f"pipeline-{number:02}",
            mode="enforce",
            fifo=False,
            main=depth,
            dlq=depth,
            parking={"default": QueueDepth(12, 0, 0)},
            dedicated={},
            oldest_letter_seconds=7_500,
            waiting=(),
            lanes_not_counted=0,
            circuit=status.CircuitStatus("HALF_OPEN", None),
            last_run={"at": now.timestamp() - 40, "moved": 3},
            alarms=(),
        )
        for number in range(30)
    )
    app_status = status.AppStatus("123456789012", "eu-west-1", "deadletter", now, (), pipelines)
    (table,) = (block for block in show(app_status) if isinstance(block, TextTable))
    widest = [
        max(len(cell_text(cell)) for cell in column) for column in zip(*table.rows, strict=True)
    ]
    assert sum(widest) + 2 * len(widest) <= 100
    assert len(table.rows) == 30


def cell_text(cell: Any) -> str:
    return cell if isinstance(cell, str) and not isinstance(cell, tuple) else str(cell[0])
