"""When an edit of a rule is in force, and what a router pays to keep its rules fresh."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.aws.edits import DynamoDBBookVersions
from deadletter.aws.rules import DynamoDBRules
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryDynamoDB, client_error
from tests.tables import LETTERS, RULES, create_tables

RULES_IN_THE_BOOK = 10_000
HOURS_A_MONTH = 720
DOLLARS_A_READ_UNIT = 0.125e-6
"""On demand in us-east-1, as of November 2026."""


class Table:
    """A rules table, and a router that looks at its rules each second."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.dynamodb = MemoryDynamoDB(self.clock)
        create_tables(self.dynamodb)
        self.client: Any = self.dynamodb
        self.rules = DynamoDBRules(self.client, RULES, LETTERS, self.clock)

    def type_rule(self, pipeline: str = "orders") -> None:
        item = {"pipeline": {"S": pipeline}, "rule_id": {"S": "stop"}, "action": {"S": "HOLD"}}
        self.dynamodb.put_item(TableName=RULES, Item=item)

    def seconds_until_in_force(self) -> float:
        began = self.clock()
        while not self.rules.items("orders"):
            self.clock.advance(1)
            assert self.clock() - began <= 3_600
        return self.clock() - began


@pytest.mark.parametrize("pipeline", ["orders", "*"])
def test_an_edit_that_the_checker_has_noted_is_in_force_within_seconds(pipeline: str) -> None:
    table = Table()
    assert not table.rules.items("orders")
    table.type_rule(pipeline)
    DynamoDBBookVersions(table.client, LETTERS).write(pipeline, "1")
    assert table.seconds_until_in_force() <= 5


def test_an_edit_that_no_checker_notes_is_in_force_within_ten_minutes() -> None:
    table = Table()
    assert not table.rules.items("orders")
    table.clock.advance(60)
    table.rules.items("orders")
    table.type_rule()
    assert 300 < table.seconds_until_in_force() <= 600


def test_without_versions_the_rules_are_read_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Table()

    def denied(**_options: Any) -> None:
        raise client_error("BatchGetItem", "AccessDeniedException", "not allowed")

    monkeypatch.setattr(table.dynamodb, "batch_get_item", denied)
    assert not table.rules.items("orders")
    table.type_rule()
    assert table.seconds_until_in_force() <= 5


def test_ten_thousand_rules_stay_fresh_for_less_than_a_dollar_a_month() -> None:
    clock = Clock()
    dynamodb = MemoryDynamoDB(clock)
    create_tables(dynamodb)
    for number in range(RULES_IN_THE_BOOK):
        columns = {
            "pipeline": "orders",
            "rule_id": f"stop-tenant-{number}",
            "tenantId": f"tenant-{number}",
            "action": "QUARANTINE",
            "reason": "their webhook answers 500 since the migration",
            "created_by": "ann@example.com",
            "status": "VALID",
            "checked_at": "2026-11-21T03:04:05Z",
            "version": "0123456789abcdef",
        }
        item = {name: {"S": text} for name, text in columns.items()}
        dynamodb.put_item(TableName=RULES, Item=item)
    client: Any = dynamodb
    rules = DynamoDBRules(client, RULES, LETTERS, clock)
    before = dynamodb.consumed
    began = clock()
    # A letter is judged each second, for an hour.
    while clock() < began + 3_600:
        assert len(rules.items("orders")) == RULES_IN_THE_BOOK
        clock.advance(1)
    units = (dynamodb.consumed - before).read_units
    assert 0.1 < units * HOURS_A_MONTH * DOLLARS_A_READ_UNIT <= 1
