"""The row of causes keeps its promises on every backend, whatever many processes write to it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from deadletter.aws.causes import DynamoDBCauses, to_json
from deadletter.aws.circuits import DynamoDBCircuits
from deadletter.aws.clients import ConsumerClients
from deadletter.aws.wiring.consuming import consumer_for
from deadletter.contract import CAUSES_ROW
from deadletter.failure.causes import (
    BUCKETS,
    HOLD,
    CausesUnavailable,
    FailedTry,
    Second,
    bucket_of,
)
from deadletter.message.letter import from_api, to_event
from deadletter.testing.fakes import client_error
from tests.aws.backends import Aws
from tests.aws.failing import Failing
from tests.each_row import each_row
from tests.simulation.stage import Stage
from tests.tables import CIRCUITS, create_circuits_table

NOW = 1_800_000_000
CAUSE = "0123456789abcdef"
KEY = {"pipeline": {"S": "orders"}, "circuit_key": {"S": CAUSES_ROW}}

_ids = itertools.count()


def process(dynamodb: Any) -> DynamoDBCauses:
    """The causes as one more process sees them."""
    return DynamoDBCauses(dynamodb, CIRCUITS, "orders", lambda: f"token {next(_ids)}")


@pytest.fixture
def dynamodb(aws: Aws) -> Any:
    create_circuits_table(aws.dynamodb)
    return aws.dynamodb


def failures(number: int, at: int = NOW, first: int = 0, total: int | None = None) -> Second:
    letters = range(first, first + number)
    failed = tuple(FailedTry(CAUSE, "KeyError", letter) for letter in letters)
    return Second(at, number if total is None else total, failed)


def healthy_hour(causes: DynamoDBCauses) -> None:
    causes.count([Second(NOW - 1_800, 100)], NOW - 1_800)


def item(dynamodb: Any) -> dict[str, Any]:
    answer = dynamodb.get_item(TableName=CIRCUITS, Key=KEY, ConsistentRead=True)
    return dict(answer.get("Item", {}))


def test_what_one_process_counts_another_reads(dynamodb: Any) -> None:
    healthy_hour(process(dynamodb))
    counted, begun = process(dynamodb).count([failures(5, total=7)], NOW)
    assert begun == ()
    assert counted == process(dynamodb).read()
    assert counted.totals == {bucket_of(NOW - 1_800): 100, bucket_of(NOW): 7}
    assert counted.counts == {CAUSE: {bucket_of(NOW): 5}}
    assert counted.stretch is not None
    assert (counted.stretch.failures, counted.stretch.error_type) == (5, "KeyError")


def test_the_consumer_library_counts_in_the_row_of_its_pipeline() -> None:
    stage = Stage()
    sqs: Any = stage.consumer_sqs
    store: Any = stage.dynamodb
    clients = ConsumerClients(sqs=sqs, sending=sqs, dynamodb=store)
    consumer = consumer_for(
        stage.pipeline,
        stage.resources,
        clients,
        stage.world,
        handle=lambda _: None,
        count_metric=lambda *_: None,
    )
    stage.put()
    records = [
        to_event(from_api(message), receipt_handle="r", source_arn="arn:aws:sqs:x:1:orders")
        for message in stage.take(stage.main)
    ]
    assert consumer.process(records, deadline=stage.clock() + 30).failed == ()
    keys = [row["circuit_key"]["S"] for row in stage.dynamodb.items(CIRCUITS)]
    assert CAUSES_ROW in keys


def test_without_a_row_nothing_is_known(dynamodb: Any) -> None:
    assert process(dynamodb).read().held(NOW) == {}


def test_the_row_is_no_circuit(dynamodb: Any) -> None:
    healthy_hour(process(dynamodb))
    circuits = DynamoDBCircuits(dynamodb, CIRCUITS, "orders")
    assert circuits.keys() == []
    assert circuits.troubled() == []


def test_many_processes_begin_one_hold(dynamodb: Any) -> None:
    healthy_hour(process(dynamodb))
    # Each knows the row as it was when it last wrote.
    processes = [process(dynamodb) for _ in range(10)]
    began = []
    for first, causes in enumerate(processes * 3):
        known, begun = causes.count([failures(1, first=first)], NOW)
        began += begun
    assert began == [CAUSE]
    assert known.hold_of(CAUSE, NOW) is not None
    assert process(dynamodb).read().hold_of(CAUSE, NOW + 599) is not None


def test_a_letter_that_fails_again_renews_the_hold_that_the_row_has(dynamodb: Any) -> None:
    healthy_hour(process(dynamodb))
    process(dynamodb).count([failures(25)], NOW)
    later = NOW + 300
    again = process(dynamodb)
    again.read()
    again.count([Second(later, 0, again=frozenset({CAUSE}))], later)
    hold = process(dynamodb).read().hold_of(CAUSE, later)
    assert hold is not None
    assert hold.until == later + HOLD


def test_totals_are_added_whoever_else_writes(dynamodb: Any) -> None:
    first, second = process(dynamodb), process(dynamodb)
    first.count([failures(1)], NOW)
    second.count([Second(NOW, 10)], NOW)
    first.count([failures(1, first=1)], NOW)
    assert process(dynamodb).read().totals == {bucket_of(NOW): 12}


def test_successes_end_the_lead_of_a_cause(dynamodb: Any) -> None:
    process(dynamodb).count([failures(5)], NOW)
    known, _ = process(dynamodb).count([Second(NOW + 1, 5)], NOW + 1)
    assert known.stretch is None
    assert known.totals == {bucket_of(NOW): 10}


def test_in_good_times_a_write_is_one_request(dynamodb: Any) -> None:
    calls: list[str] = []

    class Counted:
        def update_item(self, **options: Any) -> Any:
            calls.append("update_item")
            assert "ConditionExpression" not in options
            return dynamodb.update_item(**options)

    causes = process(Counted())
    for minute in range(3):
        causes.count([Second(NOW + 60 * minute, 30)], NOW + 60 * minute)
    assert calls == ["update_item"] * 3


def test_a_write_whose_answer_was_lost_is_not_repeated(dynamodb: Any) -> None:
    """The SDK repeats it, and finds its own token."""

    class Repeating:
        def update_item(self, **options: Any) -> Any:
            dynamodb.update_item(**options)
            return dynamodb.update_item(**options)

    known, _ = process(Repeating()).count([failures(3)], NOW)
    assert known.totals == {bucket_of(NOW): 3}
    assert known.counts == {CAUSE: {bucket_of(NOW): 3}}


def test_stale_totals_leave_the_row(dynamodb: Any) -> None:
    causes = process(dynamodb)
    for number in range(3 * BUCKETS):
        known, _ = causes.count([Second(NOW + 300 * number, 1)], NOW + 300 * number)
    assert len(known.totals) <= BUCKETS + 1
    assert process(dynamodb).read().totals == known.totals


def test_a_person_decides_whoever_counts_meanwhile(dynamodb: Any) -> None:
    healthy_hour(process(dynamodb))
    process(dynamodb).count([failures(30)], NOW)
    operator, consumer = process(dynamodb), process(dynamodb)
    operator.read()
    consumer.count([failures(1, first=99)], NOW)
    mended = operator.change(lambda causes: causes.mending(CAUSE, "arn:me", "fixed", NOW), NOW)
    assert (mended.held(NOW), mended.counts) == ({}, {})
    after, begun = consumer.count([failures(1, first=100)], NOW)
    assert (after.holds[CAUSE].mended_by, after.held(NOW), begun) == ("arn:me", {}, ())


@each_row(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        '{"holds": {"a": 1}}',
        '{"holds": {"a": {"since": 1, "until": 2, "error_type": ""}}}',
        '{"holds": {"a": {"since": 1, "until": Infinity, "error_type": ""}}}',
        '{"holds": {"a": {"since": 1, "until": 1e999, "error_type": ""}}}',
        '{"parked": {"a": {"until": "soon", "by": "", "reason": ""}}}',
        '{"stretch": {"cause": "a"}}',
        '{"counts": {"a": {"b": 1}}}',
        f'{{"counts": {{"a": {{"5": {10**4_000}}}}}}}',
        f'{{"stretch": {{"cause": "a", "since": 1, "failures": {10**400}, "others": 0,'
        '"messages": [1], "error_type": ""}}',
        "[" * 100_000,
    ],
)
def test_a_malformed_row_says_nothing_and_is_written_anew(dynamodb: Any, text: str) -> None:
    if not text:
        odd = {"causes": {"N": "1"}, "n_x": {"S": "1"}, "n_5": {"S": "x"}}
        odd |= {f"n_{'1' * 5_000}": {"N": "1"}, "n_6": {"N": str(10**16)}, "n_7": {"N": "-1"}}
        dynamodb.put_item(TableName=CIRCUITS, Item={**KEY, **odd})
    else:
        dynamodb.put_item(TableName=CIRCUITS, Item={**KEY, "causes": {"S": text}})
    assert process(dynamodb).read().held(NOW) == {}
    known, _ = process(dynamodb).count([failures(2)], NOW)
    assert known.counts == {CAUSE: {bucket_of(NOW): 2}}
    assert process(dynamodb).read() == known


@pytest.mark.parametrize(
    "error",
    [
        client_error("UpdateItem", "ProvisionedThroughputExceededException", "slow down"),
        ReadTimeoutError(endpoint_url="https://aws"),
    ],
    ids=str,
)
def test_a_table_that_does_not_answer_says_so(error: Exception) -> None:
    causes = process(Failing(error))
    for call in (
        causes.read,
        lambda: causes.count([failures(1)], NOW),
        lambda: causes.count([Second(NOW, 1)], NOW),
        lambda: causes.change(lambda same: same, NOW),
    ):
        with pytest.raises(CausesUnavailable):
            call()


def test_the_row_of_a_healthy_pipeline_is_one_write_unit(dynamodb: Any) -> None:
    """DynamoDB charges a write by the KB of the whole row."""
    causes = process(dynamodb)
    for minute in range(90):
        at = NOW + 60 * minute
        # One message in twenty is poison, of two kinds.
        known, _ = causes.count([failures(8, at, first=minute, total=300)], at)
    values = {name: next(iter(value.values())) for name, value in item(dynamodb).items()}
    size = sum(len(name) + len(str(value)) for name, value in values.items())
    assert size < 1_024, (size, to_json(known))
