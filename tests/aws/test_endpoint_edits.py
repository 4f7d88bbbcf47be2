"""Changes of the endpoints table reach the audit table, whoever made them."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from deadletter.aws.clients import CheckClients
from deadletter.aws.dynamodb import plain, stored
from deadletter.aws.edits import DynamoDBEndpointHistory
from deadletter.aws.wiring.judging import edits_handler_for, is_of_endpoints
from deadletter.aws.wiring.world import World
from deadletter.rules.checker import CheckedBatch
from deadletter.settings.resources import Resources
from tests.aws.backends import Aws
from tests.tables import create_keyed_table

PREFIX = "deadletter/webhooks/"
KEYS = {"tenant": "acme", "endpoint": "default"}
ROW = {**KEYS, "url": "https://hooks.acme.example/in?token=hunter2", "enabled": True}


def record(old: Any, new: Any, sequence: str = "7") -> dict[str, Any]:
    images = {"OldImage": old, "NewImage": new}
    return {
        "eventID": f"e{sequence}",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_790_000_000,
            "SequenceNumber": sequence,
            "Keys": stored(KEYS),
            **{name: stored(image) for name, image in images.items() if image is not None},
        },
    }


@pytest.fixture(autouse=True)
def _table(aws: Aws) -> None:
    create_keyed_table(aws.dynamodb, "audit", ("pk", "sk"))


def history(client: Any) -> DynamoDBEndpointHistory:
    return DynamoDBEndpointHistory(client, "audit", lambda: 1_000.0, 86_400.0, secrets=PREFIX)


def rows(aws: Aws) -> list[dict[str, Any]]:
    found = map(plain, aws.dynamodb.scan(TableName="audit")["Items"])
    return sorted(found, key=lambda row: str(row["sk"]))


def test_a_change_is_kept_once_without_the_path_of_its_url(aws: Aws) -> None:
    moved = record(ROW, {**ROW, "url": "https://evil.example/in?token=hunter2"})
    for _ in range(2):
        assert history(aws.dynamodb).keep([moved]) == CheckedBatch(())
    [row] = rows(aws)
    assert row == {
        "pk": "#endpoints",
        "sk": f"01790000000#{'0' * 39}7",
        "endpoint": "acme/default",
        "event_id": "e7",
        # By these the index finds it.
        "pipeline": "*",
        "happened": 1_790_000_000,
        "old": {"url": "https://hooks.acme.example", "standing": "enabled", "secrets": []},
        "new": {"url": "https://evil.example", "standing": "enabled", "secrets": []},
        "ttl": 87_400,
    }
    assert "hunter2" not in str(row)


def test_the_changes_of_one_second_are_kept_in_their_order_and_pauses_are_not(aws: Aws) -> None:
    off = {**ROW, "enabled": False}
    paused = {**off, "throttled_until": 5}
    records = [
        record(None, ROW, "9"), record(ROW, off, "99"), record(off, paused, "100"),
        record(paused, None, "101"),
    ]  # fmt: skip
    assert history(aws.dynamodb).keep(records) == CheckedBatch(())
    assert [row["event_id"] for row in rows(aws)] == ["e9", "e99", "e101"]


class Refusing:
    """A table that does not take the second row."""

    def __init__(self) -> None:
        self.kept = 0

    def put_item(self, **_request: Any) -> None:
        self.kept += 1
        if self.kept == 2:
            refused: Any = {"Error": {"Code": "ThrottlingException", "Message": ""}}
            raise ClientError(refused, "PutItem")


def test_lambda_begins_again_with_the_change_that_could_not_be_kept() -> None:
    changes = [record(None, ROW, "1"), record(ROW, None, "2"), record(None, ROW, "3")]
    kept = history(Refusing()).keep(changes)
    assert kept == CheckedBatch((), "2", "ThrottlingException for dynamodb:PutItem on audit")


class Rules:
    """Tables that have to be asked for nothing but rows of the audit."""

    def __init__(self, client: Any) -> None:
        self.put_item = client.put_item


def test_the_function_keeps_edits_of_endpoints_and_does_not_judge_them(aws: Aws) -> None:
    client: Any = Rules(aws.dynamodb)
    handle = edits_handler_for(
        Resources(app="deadletter", audit_table="audit", audit_days=1),
        CheckClients(client, cast(Any, None), cast(Any, None)),
        World(lambda: 1_000.0, lambda _: None, str, Random(1)),
    )
    secret = {**ROW, "secrets": [f"{PREFIX}acme-1"]}
    assert handle([record(ROW, secret)]) == CheckedBatch(())
    [row] = rows(aws)
    assert (row["new"]["secrets"], row["ttl"]) == ([f"{PREFIX}acme-1"], 87_400)


def test_an_event_of_endpoints_is_told_from_one_of_rules() -> None:
    rule = {"dynamodb": {"Keys": stored({"pipeline": "orders", "rule_id": "r"})}}
    assert is_of_endpoints([record(None, ROW)])
    assert not is_of_endpoints([rule])
    assert not is_of_endpoints([])
