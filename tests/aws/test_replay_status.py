"""The status of a run's letters is stored by the part, and read by the shard."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.run_letters import DynamoDBStatuses
from deadletter.replay.manifest import PartStatus
from deadletter.replay.run import BadRunRow
from tests.aws.backends import Aws
from tests.tables import LETTERS, create_messages_table


@pytest.fixture
def statuses(aws: Aws) -> DynamoDBStatuses:
    create_messages_table(aws.dynamodb)
    return DynamoDBStatuses(
        aws.dynamodb, LETTERS, pipeline="orders", run="run1", clock=lambda: 1_800_000_000.0
    )


def test_a_shard_has_its_own_parts(statuses: DynamoDBStatuses) -> None:
    parts = {0: PartStatus("rr s", "0010"), 12: PartStatus("u", "2")}
    statuses.write(1, parts)
    statuses.write(3, {0: PartStatus(" ", "0")})
    assert statuses.read(1) == parts
    assert statuses.read(2) == {}


def test_a_later_status_replaces_the_earlier_one(statuses: DynamoDBStatuses) -> None:
    statuses.write(1, {0: PartStatus("s", "0")})
    statuses.write(1, {0: PartStatus("r", "1")})
    assert statuses.read(1) == {0: PartStatus("r", "1")}


def test_what_a_row_knows_is_never_taken_back(statuses: DynamoDBStatuses) -> None:
    statuses.write(1, {0: PartStatus("rus", "020")})
    statuses.write(1, {0: PartStatus("  rr", "0001")})
    assert statuses.read(1) == {0: PartStatus("rurr", "0201")}


def test_two_writers_of_a_row_lose_nothing(statuses: DynamoDBStatuses, aws: Aws) -> None:
    class Interrupted:
        """A table whose row another process writes between our reading and our writing."""

        def __init__(self) -> None:
            self.is_written = False

        def __getattr__(self, name: str) -> Any:
            if name == "put_item" and not self.is_written:
                self.is_written = True
                statuses.write(1, {0: PartStatus("r", "0")})
            return getattr(aws.dynamodb, name)

    client: Any = Interrupted()
    DynamoDBStatuses(
        client, LETTERS, pipeline="orders", run="run1", clock=lambda: 1_800_000_000.0
    ).write(1, {0: PartStatus(" d", "00")})
    assert statuses.read(1) == {0: PartStatus("rd", "00")}


def test_a_malformed_row_is_no_status(statuses: DynamoDBStatuses, aws: Aws) -> None:
    DynamoDBTable(aws.dynamodb, LETTERS).change(("orders#run#run1#status", "1#000000"), {"x": 1})
    with pytest.raises(BadRunRow, match="orders#run#run1#status 1#000000"):
        statuses.read(1)
