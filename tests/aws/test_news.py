"""News of the watch on the strict clients: what is read, put and remembered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from deadletter.aws.cause_entries import DynamoDBCauseEntries
from deadletter.aws.events import EventBus
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.metrics import recovered_letters
from deadletter.contract import DAY, MINUTE, Category, EventType
from deadletter.failure.failure import Failure
from deadletter.failure.ledger import LedgerUnavailable
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.figures import Count, Figure
from deadletter.testing.clock import Clock
from deadletter.testing.fakes.errors import client_error
from deadletter.watch.news import MOST_REFUSED, MOST_TOLD, PAGE, RecoveredUnread, look_at_causes
from tests.aws.test_watch import Stage, one_by_one, remember_a_run
from tests.events.emitted import problems
from tests.tables import LETTERS

REGION = "eu-west-1"


@dataclass
class PutEvents:
    """EventBridge, that keeps what it takes; `fails` says that it takes nothing."""

    clock: Clock = field(default_factory=Clock)
    fails: bool = False
    asked: int = 0
    taken: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def put_events(self, *, Entries: list[dict[str, Any]]) -> Any:  # noqa: N803 - boto3's name
        self.asked += 1
        if self.fails:
            raise client_error("PutEvents", "AccessDeniedException", "no")
        for entry in Entries:
            assert entry["Source"] == "deadletter"
            detail = json.loads(entry["Detail"])
            assert problems(entry["DetailType"], detail) == []
            self.taken.append((entry["DetailType"], detail))
        return {"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}

    @property
    def types(self) -> list[str]:
        return [event_type for event_type, _ in self.taken]


class Announced(Stage):
    """The stage of the watch's tests, with a bus, and letters that fail."""

    def __init__(self) -> None:
        self.events = PutEvents()
        bus: Any = self.events
        pipeline = Pipeline(name="orders", consumer_library=True)
        super().__init__(pipeline, EventBus(bus, "shop", lambda: self.clock()))
        self.events.clock = self.clock
        self.ledger = DynamoDBLedger(self.dynamodb, LETTERS, "orders", self.clock, 9e5)

    def fail(self, origin: str, fingerprint: str = "a") -> None:
        failure = Failure(
            at=self.clock(),
            attempt=0,
            category=Category.TRANSIENT,
            error_type="HTTPError",
            message="a secret of the message",
            http_status=503,
            fingerprint=fingerprint,
        )
        self.ledger.failed(origin, failure)

    def die(self) -> None:
        self.sqs.send_message(QueueUrl=self.resources.dlq_url, MessageBody='{"secret": 1}')

    def counts(self) -> dict[str, float]:
        return {name: value for (name, source), value in self.minute().items() if source is None}


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Announced:
    def recovered(*_: Any) -> int:
        return 0

    monkeypatch.setattr("deadletter.aws.metrics.recovered_letters", recovered)
    return Announced()


def test_a_cause_that_appears_is_on_the_bus_in_that_minute_and_never_again(
    stage: Announced,
) -> None:
    for number in range(3):
        stage.fail(f"letter-{number}")
    stage.minute()
    assert stage.events.taken == []  # they are tried again: none is dead
    stage.die()
    for _ in range(5):
        stage.minute()
        stage.watch = stage.new_watch()
    [(event_type, detail)] = stage.events.taken
    assert event_type == EventType.CAUSE_APPEARED
    assert (detail["cause"], detail["messages"], detail["http_status"]) == ("a", 3, 503)
    assert (detail["app"], detail["pipeline"], detail["version"]) == ("shop", "orders", 1)
    assert detail["sample"].startswith("letter-")
    assert "secret" not in json.dumps(stage.events.taken)


def test_a_watch_whose_row_could_not_be_written_tells_its_news_again(
    stage: Announced, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.fail("one")
    stage.die()

    def refuse(*_: Any) -> None:
        raise LeaseUnavailable("throttled")

    with monkeypatch.context() as patch:
        patch.setattr("deadletter.aws.watch_store.DynamoDBWatchStore.write", refuse)
        stage.minute()
        # This process remembers.
        stage.minute()
    assert stage.events.types == ["CauseAppeared"]
    stage.watch = stage.new_watch()
    stage.minute()
    assert stage.events.types == ["CauseAppeared"] * 2


def test_a_bus_that_refuses_is_counted_and_asked_again_and_no_page(stage: Announced) -> None:
    for number in range(5):
        stage.fail(f"letter-{number}", f"cause-{number}")
    stage.die()
    stage.events.fails = True
    counts = stage.counts()
    assert counts[Count.EVENT_REFUSED] == stage.events.asked == MOST_REFUSED
    assert counts[Figure.REDRIVE_STALLED] == 0
    for _ in range(3):
        remember_a_run(stage)
        assert stage.counts()[Figure.REDRIVE_STALLED] == 0
    stage.events.fails = False
    assert Count.EVENT_REFUSED not in stage.counts()
    assert stage.events.types == ["CauseAppeared"] * 5


def test_one_minute_tells_only_so_many_news_and_the_next_one_the_others(stage: Announced) -> None:
    for number in range(MOST_TOLD + 3):
        stage.fail(f"letter-{number}", f"cause-{number}")
    stage.die()
    stage.minute()
    assert len(stage.events.taken) == MOST_TOLD
    stage.minute()
    assert len({detail["cause"] for _, detail in stage.events.taken}) == MOST_TOLD + 3
    assert len(stage.events.taken) == MOST_TOLD + 3


def test_an_index_that_cannot_be_read_is_counted_and_no_page(
    stage: Announced, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: Any, **__: Any) -> Any:
        raise LedgerUnavailable("no")

    stage.die()
    monkeypatch.setattr(DynamoDBCauseEntries, "page", unavailable)
    for _ in range(4):
        remember_a_run(stage)
        counts = stage.counts()
        assert counts[Count.NEWS_UNREAD] == 1
        assert counts[Figure.REDRIVE_STALLED] == 0


def test_news_cost_nothing_while_a_pipeline_is_idle_and_what_the_watch_says_else(
    stage: Announced,
) -> None:
    stage.minute()

    def cost() -> float:
        before = stage.dynamodb.consumed.read_units
        remember_a_run(stage)
        stage.minute()
        return float(stage.dynamodb.consumed.read_units - before)

    idle = cost()
    # One more than without a consumer's library: the causes that dominate.
    assert idle == 4
    for number in range(200):
        stage.fail(f"letter-{number}", f"cause-{number % 4}")
    # A busy main queue is no reason to read causes.
    stage.sqs.send_message(QueueUrl=stage.resources.main_url, MessageBody="{}")
    assert cost() == idle
    stage.die()
    assert 4 <= cost() - idle <= 24
    assert stage.events.types == ["CauseAppeared"] * 4


def test_parked_letters_are_on_the_bus(stage: Announced) -> None:
    for _ in range(3):
        stage.sqs.send_message(QueueUrl=stage.resources.parking["default"], MessageBody="{}")
    stage.minute()
    [(event_type, detail)] = stage.events.taken
    assert event_type == EventType.MESSAGES_PARKED
    assert (detail["queue"], detail["count"], detail["messages"]) == ("default", 3, 3)


def test_letters_that_expire_soon_are_on_the_bus_once(stage: Announced) -> None:
    stage.sqs.send_message(QueueUrl=stage.resources.dedicated["slow"], MessageBody="{}")
    stage.minute()
    assert stage.events.taken == []
    stage.clock.advance(3.6 * DAY)
    for _ in range(3):
        stage.minute()
    soon = [detail for event_type, detail in stage.events.taken if "Soon" in event_type]
    assert [detail["source"] for detail in soon] == ["slow"]
    assert soon[0]["messages"] == 1


def test_recovered_letters_are_asked_for_while_letters_are_dead(
    stage: Announced, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def recovered(_client: Any, *rest: Any) -> int:
        asked.append(rest)
        return 4

    monkeypatch.setattr("deadletter.aws.metrics.recovered_letters", recovered)
    stage.watch = stage.new_watch()
    for _ in range(30):
        stage.minute()
    assert asked == []
    stage.die()
    for _ in range(30):
        stage.minute()
    assert len(asked) == 2
    assert stage.events.types == ["MessagesRecovered"] * 2
    assert stage.events.taken[0][1]["count"] == 4


# What CloudWatch is asked.


def test_cloudwatch_is_asked_for_the_sum_of_the_pipeline_s_own_metric() -> None:
    client = boto3.client("cloudwatch", region_name=REGION)
    stat = {
        "Metric": {
            "Namespace": "Deadletter",
            "MetricName": "RedriveSuccess",
            "Dimensions": [
                {"Name": "app", "Value": "shop"},
                {"Name": "pipeline", "Value": "orders"},
            ],
        },
        "Period": MINUTE,
        "Stat": "Sum",
    }
    with Stubber(client) as stub:
        stub.add_response(
            "get_metric_data",
            {"MetricDataResults": [{"Values": [2.0, 3.0]}]},
            {
                "MetricDataQueries": [{"Id": "figure", "MetricStat": stat}],
                "StartTime": ANY,
                "EndTime": ANY,
            },
        )
        assert recovered_letters(client, "shop", "orders", 0.0, 600.0) == 5
        stub.add_response("get_metric_data", {"MetricDataResults": [{"Values": []}]})
        assert recovered_letters(client, "shop", "orders", 0.0, 600.0) == 0
        stub.add_client_error("get_metric_data", "AccessDenied")
        with pytest.raises(RecoveredUnread, match="AccessDenied"):
            recovered_letters(client, "shop", "orders", 0.0, 600.0)


# How causes are read.


def test_many_letters_of_one_cause_hide_no_other_and_are_not_all_read(stage: Announced) -> None:
    for number in range(8 * PAGE * 4):
        stage.fail(f"letter-{number}", "big")
    stage.fail("last", "small")
    stage.fail("first", "a-small-one")
    stage.fail("no-cause", "")
    before = stage.dynamodb.consumed.read_units
    look = look_at_causes(DynamoDBCauseEntries(stage.dynamodb, LETTERS, "orders"), one_by_one)
    assert look.is_whole
    assert set(look.causes) == {"big", "small", "a-small-one"}
    assert (look.causes["small"].messages, look.causes["small"].is_at_least) == (1, False)
    assert look.causes["small"].sample == "last"
    big = look.causes["big"]
    assert big.is_at_least
    assert 8 * PAGE <= big.messages < 8 * PAGE * 3
    assert stage.dynamodb.consumed.read_units - before < 100
