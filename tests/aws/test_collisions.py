"""The row of collisions on every backend."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.aws.circuits import DynamoDBCircuits
from deadletter.aws.collisions import DynamoDBCollisions
from deadletter.contract import COLLISIONS_ROW
from deadletter.processing.collisions import WINDOW, CollisionsUnavailable, KnownCollisions
from deadletter.testing.clock import START
from deadletter.testing.fakes.errors import client_error
from tests.aws.backends import Aws
from tests.tables import CIRCUITS, create_circuits_table

MINUTE = int(START // 60)


def store(aws: Aws) -> DynamoDBCollisions:
    return DynamoDBCollisions(aws.dynamodb, CIRCUITS, "orders")


@pytest.fixture
def row(aws: Aws) -> DynamoDBCollisions:
    create_circuits_table(aws.dynamodb)
    return store(aws)


def test_a_pipeline_without_a_row_has_no_collisions(row: DynamoDBCollisions) -> None:
    assert row.read() is None


def test_the_first_write_begins_the_first_day_and_no_later_one_does(
    aws: Aws, row: DynamoDBCollisions
) -> None:
    assert row.count({}, (), START) == KnownCollisions(START)
    assert store(aws).count({}, (), START + 99).since == START
    assert row.read() == KnownCollisions(START)


def test_processes_add_to_the_counts_of_a_minute(aws: Aws, row: DynamoDBCollisions) -> None:
    row.count({MINUTE: (10, 2)}, ("body.at",), START)
    known = store(aws).count({MINUTE: (5, 0), MINUTE + 1: (3, 3)}, (), START + 60)
    assert known.counts == {MINUTE: (15, 2), MINUTE + 1: (3, 3)}
    assert known.paths == ("body.at",)
    assert known.in_window(START + 60) == (18, 5)
    assert row.read() == known


def test_the_row_keeps_no_more_than_a_window(row: DynamoDBCollisions) -> None:
    for number in range(40):
        known = row.count({MINUTE + number: (1, 1)}, (), START + 60 * number)
    assert len(known.counts) <= WINDOW / 60 + 2
    assert known.in_window(START + 39 * 60) == (10, 10)


def test_parking_is_stopped_once_and_for_longer(row: DynamoDBCollisions) -> None:
    row.count({}, (), START)
    assert row.stop(START + 600, START)
    assert not row.stop(START + 600, START)
    assert not row.stop(START + 900, START + 300)
    known = row.read()
    assert known is not None
    assert known.stopped_until == START + 900
    assert known.is_stopped(START + 899)
    assert not known.is_stopped(START + 900)
    assert row.stop(START + 2_000, START + 1_400)


def test_the_row_is_no_circuit(aws: Aws, row: DynamoDBCollisions) -> None:
    row.count({}, (), START)
    assert DynamoDBCircuits(aws.dynamodb, CIRCUITS, "orders").keys() == []


def test_a_malformed_row_says_nothing(aws: Aws, row: DynamoDBCollisions) -> None:
    aws.dynamodb.put_item(
        TableName=CIRCUITS,
        Item={
            "pipeline": {"S": "orders"},
            "circuit_key": {"S": COLLISIONS_ROW},
            "since": {"S": "x"},
            "paths": {"S": "[1, {"},
            "n_x": {"N": "1"},
            "n_5": {"S": "1"},
            f"n_{'1' * 5_000}": {"N": "1"},
            "n_6": {"N": str(10**16)},
        },
    )
    assert row.read() == KnownCollisions(0.0)


@pytest.mark.parametrize("call", ["read", "count", "stop"])
def test_a_table_without_an_answer_is_said(call: str) -> None:
    class Away:
        def __getattr__(self, name: str) -> Any:
            def refuse(**_: Any) -> Any:
                raise client_error(name, "ThrottlingException", "no", status=400)

            return refuse

    client: Any = Away()
    away = DynamoDBCollisions(client, CIRCUITS, "orders")
    with pytest.raises(CollisionsUnavailable):
        {
            "read": away.read,
            "count": lambda: away.count({}, (), START),
            "stop": lambda: away.stop(START, START),
        }[call]()
