"""What all pipelines share fails: it is asked for once, and pages once."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.shared_look import AppLook
from deadletter.contract import SHARED_ROW
from deadletter.signals.figures import Figure
from deadletter.testing.clock import Clock
from deadletter.testing.fakes.dynamodb import MemoryDynamoDB
from deadletter.watch.observation import SharedLook
from deadletter.watch.queues import mapping_is_due
from deadletter.watch.row import QueueRow, WatchRow
from tests.aws.test_watch import CheckersMapping, Denied
from tests.tables import create_tables
from tests.watch.minutes import BEGIN, Minutes

PIPELINES = [f"orders-{number}" for number in range(100)]
MINUTES = 30


class Asked:
    """Lambda and SQS as the rule checker's state is asked of them: how often, and what they say."""

    def __init__(self, functions: Any) -> None:
        self.calls: Counter[str] = Counter()
        self.functions, self.unchecked = functions, 0

    def list_event_source_mappings(self, **asked: Any) -> Any:
        self.calls["lambda"] += 1
        return self.functions.list_event_source_mappings(**asked)

    def get_queue_attributes(self, **_asked: Any) -> Any:
        self.calls["sqs"] += 1
        depths = ("Messages", "MessagesNotVisible", "MessagesDelayed")
        numbers = {f"ApproximateNumberOf{name}": "0" for name in depths}
        numbers["ApproximateNumberOfMessages"] = str(self.unchecked)
        return {
            "Attributes": {**numbers, "CreatedTimestamp": "1", "MessageRetentionPeriod": "1209600"}
        }


def watched(asked: Asked) -> list[dict[str, Any]]:
    """What the watches of a hundred pipelines see, minute by minute."""
    clock, seen = Clock(BEGIN), list[dict[str, Any]]()
    dynamodb = MemoryDynamoDB(clock)
    create_tables(dynamodb)
    client: Any = asked
    look = AppLook(
        dynamodb, "messages", client, client, app="shop", failures="https://sqs/f", clock=clock
    )
    for _ in range(MINUTES):
        minute: dict[str, Any] = {}
        for name in PIPELINES:
            clock.advance(0.5)
            minute[name] = look()
        clock.advance(10)
        seen.append(minute)
    return seen


def test_a_hundred_watches_ask_lambda_once_in_five_minutes() -> None:
    asked = Asked(CheckersMapping({"State": "Enabled"}))
    answers = watched(asked)
    assert asked.calls["lambda"] == MINUTES // 5
    assert asked.calls["sqs"] == MINUTES
    assert {look.late for minute in answers for look in minute.values()} == {""}


def test_a_rule_checker_that_refuses_for_half_an_hour_stalls_no_pipeline_and_pages_once() -> None:
    asked = Asked(Denied())
    answers = watched(asked)
    # Each minute one watch tries; all see that it fails.
    assert asked.calls["lambda"] == MINUTES
    last = set(answers[-1].values())
    assert {look.failed for look in last} <= {MINUTES, MINUTES - 1}
    for look in last:
        minutes = Minutes(shared=look)
        minutes.pass_minutes(5)
        assert minutes.value(Figure.REDRIVE_STALLED) == 0
        # Of the app: one alarm for the figures of all pipelines.
        [point] = minutes.points(Figure.SHARED_TROUBLE)
        assert (point.everywhere, point.value) == (True, 1)


THROTTLED = "ThrottlingException for dynamodb:Query on deadletter-messages"


def test_a_throttled_table_pages_once_for_all_pipelines_and_each_after_a_quarter_of_an_hour() -> (
    None
):
    minutes = Minutes(failed={"lease": THROTTLED, "rule checker": THROTTLED}, memories=None)
    minutes.pass_minutes(3)
    assert minutes.value(Figure.REDRIVE_STALLED) == 0
    [point] = minutes.points(Figure.SHARED_TROUBLE)
    assert (point.everywhere, point.value) == (True, 1)
    assert (
        minutes.why(Figure.SHARED_TROUBLE) == f"a table of all pipelines is throttled: {THROTTLED}"
    )
    minutes.pass_minutes(12)
    assert minutes.value(Figure.REDRIVE_STALLED) == 0
    minutes.pass_minutes(1)
    assert minutes.value(Figure.REDRIVE_STALLED) == 1
    minutes.failed.clear()
    minutes.pass_minutes(1)
    assert minutes.why(Figure.SHARED_TROUBLE) is None


def test_a_table_that_is_denied_is_the_pipelines_own_trouble() -> None:
    denied = "AccessDeniedException for dynamodb:Query on deadletter-messages"
    minutes = Minutes(failed={"lease": denied})
    minutes.pass_minutes(1)
    assert minutes.value(Figure.REDRIVE_STALLED) == 1
    minutes.pass_minutes(5)
    assert minutes.points(Figure.SHARED_TROUBLE) == []


def test_edits_that_were_not_checked_are_known_within_a_minute() -> None:
    asked = Asked(CheckersMapping({"State": "Enabled"}))
    asked.unchecked = 3
    first, *_ = watched(asked)
    assert SharedLook(undelivered=3).undelivered in {look.undelivered for look in first.values()}


NUMBERS = ("turn_ends", "mapping_at", "undelivered", "failed")


@pytest.mark.parametrize("value", ["", "nan", "inf", None, [], {"S": 1}, b"7", 10**30, -(10**30)])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_row_that_no_watch_has_written_blinds_none(name: str, value: Any) -> None:
    """The next look is taken within a minute, and overwrites it."""
    asked = Asked(CheckersMapping({"State": "Enabled"}))
    asked.unchecked = 3
    clock, client = Clock(BEGIN), cast("Any", asked)
    dynamodb = MemoryDynamoDB(clock)
    create_tables(dynamodb)
    look = AppLook(
        dynamodb, "messages", client, client, app="shop", failures="https://sqs/f", clock=clock
    )
    look()
    DynamoDBTable(dynamodb, "messages").change(("#lease", SHARED_ROW), {name: value})
    clock.advance(61)
    seen = look()
    assert (seen.undelivered, seen.failed, seen.late) == (3, 0, "")
    assert seen.turn_ends == clock() + 60
    clock.advance(301)
    asked.calls.clear()
    look()
    assert asked.calls["lambda"] == 1


@pytest.mark.parametrize(("letters", "most"), [(0, 0.2), (5, 0.9)])
def test_the_mappings_of_a_hundred_consumers_are_read_less_than_once_a_second(
    letters: int, most: float
) -> None:
    """Quiet, or with messages in all main queues; spread over the minutes."""
    row = WatchRow(first_at=1, ran_at=1, queues={"main": QueueRow(messages=letters)})
    by_minute = [
        sum(mapping_is_due(name, row, BEGIN + 60 * minute) for name in PIPELINES)
        for minute in range(20)
    ]
    shared = 1 / 5 + 1
    assert (sum(by_minute) / len(by_minute) + shared) / 60 <= most
    assert max(by_minute) < 2.5 * min(by_minute) + 10
