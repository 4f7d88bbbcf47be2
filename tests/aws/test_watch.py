"""The watch on the strict clients in memory: what it reads, remembers, prints and starts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any, TypeVar

import boto3
import botocore
import pytest
from botocore.stub import Stubber

from console.operations.doctor import TESTED_BOTOCORE
from deadletter.aws.clients import WatchClients
from deadletter.aws.events import EventBus
from deadletter.aws.metrics import oldest_message
from deadletter.aws.queue import queue_state
from deadletter.aws.shared_look import why_edits_are_late
from deadletter.aws.waiting_room import DynamoDBLanes
from deadletter.aws.watch_store import DynamoDBWatchStore
from deadletter.aws.wiring.judging import watch_for
from deadletter.aws.wiring.world import World
from deadletter.contract import DAY, HOUR, MINUTE, WATCH_ROW
from deadletter.message.queue import Depth
from deadletter.routing.router import LaneAnswer, RouterAnswer
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.signals.figures import Figure
from deadletter.signals.troubles import Seen, TroubleKind
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryDynamoDB, MemorySqs
from deadletter.testing.fakes.lambda_ import MemoryLambda
from deadletter.watch.observation import MetricPoint, OldestMessage, metric_lines
from deadletter.watch.row import WatchRow
from deadletter.watch.watch import RuleCheckUnavailable
from tests.aws.failing import Denied
from tests.each_row import each_row
from tests.no_metrics import NoMetrics
from tests.tables import CIRCUITS, LETTERS, create_tables

T = TypeVar("T")


def one_by_one(calls: Sequence[Callable[[], T]]) -> list[T]:
    return [call() for call in calls]


class NoRules:
    """A router that knows no rule."""

    def decide(self, _questions: Any) -> RouterAnswer:
        return RouterAnswer(())

    def open_lanes(self, _lanes: Sequence[str]) -> LaneAnswer:
        return LaneAnswer(())


class Stage:
    """One pipeline with a DLQ, a dedicated DLQ and a parking queue, and its watch.

    With a `bus`, the watch announces its news there.
    """

    def __init__(self, pipeline: Pipeline | None = None, bus: EventBus | None = None) -> None:
        self.pipeline, self.bus = pipeline or Pipeline(name="orders"), bus
        self.clock = Clock()
        ids = iter(f"id-{number}" for number in range(10_000))
        self.sqs: Any = MemorySqs(self.clock, lambda: next(ids), random=Random(1))
        self.dynamodb: Any = MemoryDynamoDB(self.clock)
        create_tables(self.dynamodb)
        self.functions: Any = MemoryLambda(self.clock, lambda: next(ids))
        self.rescued: list[Any] = []
        self.functions.register("redrive", lambda event, _context: self.rescued.append(event))
        urls = {
            name: self.sqs.create_queue(QueueName=name)["QueueUrl"]
            for name in ("main", "dlq", "slow", "parking")
        }
        self.resources = Resources(
            main_url=urls["main"],
            dlq_url=urls["dlq"],
            dedicated={"slow": urls["slow"]},
            parking={"default": urls["parking"]},
            messages_table=LETTERS,
            circuits_table=CIRCUITS,
            redrive_function="redrive",
            redrive_every=300,
        )
        self.watch = self.new_watch()

    def new_watch(self) -> Any:
        world = World(
            clock=self.clock, wait=self.clock.advance, new_id=lambda: "id", random=Random(2)
        )
        outages: Any = None
        cloudwatch: Any = NoMetrics
        return watch_for(
            self.pipeline,
            replace(self.resources, circuit_machine="arn:aws:states:::stateMachine:none"),
            WatchClients(sqs=self.sqs, dynamodb=self.dynamodb, functions=self.functions),
            world,
            router=NoRules(),
            in_parallel=one_by_one,
            outages=outages or NoOutages(),
            bus=self.bus,
            cloudwatch=cloudwatch,
        )

    def minute(self) -> dict[tuple[str, str | None], float]:
        """One run; returns its figures by metric and source."""
        points = self.watch.run().points
        self.clock.advance(MINUTE)
        return {(point.metric, point.source): point.value for point in points}


class NoOutages:
    def start(self, key: str, generation: int, restart: int) -> None:
        raise AssertionError("no outage was lost")

    def running(self) -> frozenset[str]:
        return frozenset()


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_letters_that_were_received_three_times_keep_their_age(stage: Stage) -> None:
    stage.sqs.send_message(QueueUrl=stage.resources.dlq_url, MessageBody="{}")
    for _ in range(61):
        messages = stage.sqs.receive_message(
            QueueUrl=stage.resources.dlq_url, VisibilityTimeout=1, WaitTimeSeconds=1
        ).get("Messages", [])
        assert messages
        figures = stage.minute()
    assert figures[Figure.OLDEST_MESSAGE_AGE, "dlq"] == HOUR
    assert figures[Figure.MESSAGES, "dlq"] == 1


def test_the_row_says_with_which_botocore_it_ran(stage: Stage) -> None:
    stage.minute()
    row, _ = DynamoDBWatchStore(stage.dynamodb, LETTERS, "orders").read()
    assert row is not None
    assert row.botocore == botocore.__version__ == TESTED_BOTOCORE


def test_an_idle_minute_costs_what_the_module_says(stage: Stage) -> None:
    stage.minute()

    def cost(minutes: int) -> tuple[float, int]:
        before = stage.dynamodb.consumed
        for _ in range(minutes):
            assert set(stage.minute()) == {(Figure.REDRIVE_STALLED, None)}
            remember_a_run(stage)
        after = stage.dynamodb.consumed
        return after.read_units - before.read_units, after.write_units - before.write_units

    # Leases, lanes, circuits in trouble, the pipeline's own; the row. One unit more is the
    # run's, which this test writes.
    assert cost(10) == (30, 20)
    stage.dynamodb.put_item(
        TableName=LETTERS, Item={"pk": {"S": "orders#lanes"}, "sk": {"S": "due"}}
    )
    # And the lane of delays: its shards each minute, and their count once in ten minutes.
    assert cost(10) == (74, 20)


def remember_a_run(stage: Stage) -> None:
    stage.dynamodb.update_item(
        TableName=LETTERS,
        Key={"pk": {"S": "orders#lease"}, "sk": {"S": "dlq"}},
        UpdateExpression="SET ended_well_at = :now",
        ExpressionAttributeValues={":now": {"N": str(int(stage.clock()))}},
    )


def test_a_new_process_goes_on_from_the_row(stage: Stage) -> None:
    stage.sqs.send_message(QueueUrl=stage.resources.dlq_url, MessageBody="{}")
    stage.minute()
    stage.watch = stage.new_watch()
    assert stage.minute()[Figure.OLDEST_MESSAGE_AGE, "dlq"] == MINUTE


def test_a_rescue_is_an_asynchronous_run_of_the_redriver(stage: Stage) -> None:
    stage.sqs.send_message(QueueUrl=stage.resources.parking["default"], MessageBody="{}")
    stage.minute()
    assert stage.rescued == []
    # SQS keeps messages for four days by default.
    stage.clock.advance(3 * DAY)
    stage.minute()
    assert stage.rescued == [{"source": "parking:default", "rescue": True}]


def test_the_row_and_the_leases_are_read_at_once(stage: Stage) -> None:
    store = DynamoDBWatchStore(stage.dynamodb, LETTERS, "orders")
    assert store.read() == (None, {})
    seen = (Seen(TroubleKind.NO_RUN_YET, {"seconds": 60}, 1.5),)
    row = WatchRow(first_at=1.0, ran_at=2.0, seen=seen)
    store.write(row)
    stage.dynamodb.put_item(
        TableName=LETTERS,
        Item={"pk": {"S": "orders#lease"}, "sk": {"S": "dlq"}, "oldest": {"N": "7"}},
    )
    stored, memories = store.read()
    assert stored == row
    assert {source: memory.oldest for source, memory in memories.items()} == {"dlq": 7.0}


def test_a_damaged_row_is_a_first_minute(stage: Stage) -> None:
    store = DynamoDBWatchStore(stage.dynamodb, LETTERS, "orders")
    for state in ({"S": "{"}, {"N": "7"}):
        stage.dynamodb.put_item(
            TableName=LETTERS,
            Item={"pk": {"S": "orders#lease"}, "sk": {"S": WATCH_ROW}, "state": state},
        )
        assert store.read() == (None, {})


def test_the_first_letter_of_a_lane_is_found_in_any_shard(stage: Stage) -> None:
    lanes = DynamoDBLanes(stage.dynamodb, LETTERS, "orders")
    assert lanes.first_due("due") is None
    for shard, due in ((5, 30), (2, 20), (7, 40)):
        stage.dynamodb.put_item(
            TableName=LETTERS,
            Item={
                "pk": {"S": f"orders#message#{shard}"},
                "sk": {"S": "message"},
                "lane": {"S": f"orders|due|{shard}"},
                "due": {"N": str(due)},
            },
        )
    assert lanes.first_due("due") == 20
    assert lanes.count("due").messages == 3


def test_the_state_of_a_queue_has_all_its_messages(stage: Stage) -> None:
    for delay in (0, 0, 60):
        stage.sqs.send_message(
            QueueUrl=stage.resources.dlq_url, MessageBody="{}", DelaySeconds=delay
        )
    stage.sqs.receive_message(QueueUrl=stage.resources.dlq_url, WaitTimeSeconds=1)
    state = queue_state(stage.sqs, stage.resources.dlq_url)
    assert state.depth == Depth(1, 1, 1)
    assert state.retention == 4 * DAY
    assert state.created == int(stage.clock())


def test_points_of_one_time_and_source_are_one_line() -> None:
    points = [
        MetricPoint(Figure.REDRIVE_STALLED, 0, 60.0),
        MetricPoint(Figure.MESSAGES, 3, 60.0, "dlq"),
        MetricPoint(Figure.OLDEST_MESSAGE_AGE, 7.5, 60.0, "dlq"),
        MetricPoint(Figure.RULE_TROUBLE, 2, 60.0, everywhere=True),
        MetricPoint(Figure.CIRCUIT_TROUBLE, 0, 60.0),
        MetricPoint(Figure.CIRCUIT_TROUBLE, 1, 360.0),
    ]
    lines = metric_lines(points, app="shop", pipeline="orders")
    published = [json.loads(line) for line in lines]
    assert [
        (line["_aws"]["Timestamp"], line["pipeline"], line.get("source")) for line in published
    ] == [
        (60_000, "orders", None),
        (60_000, "orders", "dlq"),
        (60_000, "*", None),
        (360_000, "orders", None),
    ]
    dlq = published[1]
    [declared] = dlq["_aws"]["CloudWatchMetrics"]
    assert declared["Dimensions"] == [["app", "pipeline", "source"]]
    assert declared["Metrics"] == [
        {"Name": "Messages", "Unit": "Count"},
        {"Name": "OldestMessageAge", "Unit": "Seconds"},
    ]
    assert (dlq["app"], dlq["Messages"], dlq["OldestMessageAge"]) == ("shop", 3, 7.5)


class Ages:
    """CloudWatch's answer to one question, which is kept."""

    def __init__(self, *values: tuple[float, float]) -> None:
        self.values = values
        self.asked: list[dict[str, Any]] = []

    def get_metric_data(self, **question: Any) -> dict[str, Any]:
        self.asked.append(question)
        return {
            "MetricDataResults": [
                {
                    "Id": "age",
                    "Timestamps": [datetime.fromtimestamp(at, UTC) for at, _ in self.values],
                    "Values": [age for _, age in self.values],
                }
            ]
        }


def test_the_oldest_message_was_sent_its_age_before_the_newest_value() -> None:
    client: Any = Ages((1_000_060.0, 600.0), (1_000_120.0, 30.0), (1_000_000.0, 9000.0))
    assert oldest_message(client, "main", 1_000_200.0) == OldestMessage(1_000_090.0)
    [question] = client.asked
    [query] = question["MetricDataQueries"]
    assert query["MetricStat"]["Metric"] == {
        "Namespace": "AWS/SQS",
        "MetricName": "ApproximateAgeOfOldestMessage",
        "Dimensions": [{"Name": "QueueName", "Value": "main"}],
    }
    assert question["EndTime"].timestamp() == 1_000_200
    assert question["StartTime"].timestamp() == 1_000_200 - 3 * HOUR


def test_an_idle_queue_has_no_value() -> None:
    client: Any = Ages()
    assert oldest_message(client, "main", 1_000_200.0) == OldestMessage(None)


def test_the_question_is_one_that_cloudwatch_takes() -> None:
    client = boto3.client(
        "cloudwatch", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    with Stubber(client) as stub:
        stub.add_response("get_metric_data", {"MetricDataResults": []})
        assert oldest_message(client, "main", 1_000_200.0) == OldestMessage(None)


def test_the_thresholds_of_the_deployment_reach_the_watch(stage: Stage) -> None:
    stage.resources = replace(stage.resources, watch='{"parked_after":60}')
    stage.sqs.send_message(QueueUrl=stage.resources.parking["default"], MessageBody="{}")
    stage.watch = stage.new_watch()
    stage.minute()
    assert stage.minute()[Figure.PARKED_UNATTENDED, None] == 1


class CheckersMapping:
    """Lambda as it describes what feeds the rule checker: the rules table, and endpoints."""

    def __init__(self, *mappings: dict[str, str]) -> None:
        tables = "arn:aws:dynamodb:eu-west-1:111122223333:table"
        rules = f"{tables}/shop-rules/stream/2026-11-24T00:00:00.000"
        endpoints = f"{tables}/shop-endpoints/stream/2026-11-24T00:00:00.000"
        # Edits of rules are not late because those of endpoints are.
        others = {"State": "Disabled", "EventSourceArn": endpoints}
        self.mappings = [others, *({**mapping, "EventSourceArn": rules} for mapping in mappings)]

    def list_event_source_mappings(self, **options: str) -> dict[str, Any]:
        assert options == {"FunctionName": "shop-check-rules"}
        return {"EventSourceMappings": list(self.mappings)}


@each_row(
    ("mappings", "why"),
    [
        ([{"State": "Enabled", "LastProcessingResult": "OK"}], ""),
        ([{"State": "Enabled", "LastProcessingResult": "No records processed"}], ""),
        ([{"State": "Creating"}], ""),
        ([{"State": "Disabled"}], "the event source mapping of shop-check-rules is Disabled"),
        ([{"State": "Disabling"}], "the event source mapping of shop-check-rules is Disabling"),
        (
            [{"State": "Enabled", "LastProcessingResult": "PROBLEM: Function call failed"}],
            "shop-check-rules failed at its last batch of edits",
        ),
        ([], "no event source mapping feeds shop-check-rules"),
    ],
)
def test_edits_are_late_while_the_rule_checker_is_not_fed_or_fails(
    mappings: list[dict[str, str]], why: str
) -> None:
    client: Any = CheckersMapping(*mappings)
    assert why_edits_are_late(client, "shop") == why


def test_a_state_of_the_rule_checker_that_cannot_be_read_is_no_good_news() -> None:
    denied: Any = Denied()
    with pytest.raises(RuleCheckUnavailable):
        why_edits_are_late(denied, "shop")
