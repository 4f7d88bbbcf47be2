"""The app's tables, made in whatever answers to DynamoDB's API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.contract import CAUSES

LETTERS, RULES, CIRCUITS, BUCKET = "messages", "rules", "circuits", "bodies"

# Keys that are numbers.
NUMBERS = ("due", "happened", "id", "at")


def create_tables(dynamodb: Any) -> None:
    """Create the tables that one pipeline needs."""
    create_messages_table(dynamodb)
    create_keyed_table(dynamodb, RULES, ("pipeline", "rule_id"))
    create_circuits_table(dynamodb)


def create_messages_table(dynamodb: Any) -> None:
    create_keyed_table(
        dynamodb,
        LETTERS,
        ("pk", "sk"),
        {"lanes": ("lane", "due"), CAUSES.name: (CAUSES.partition, str(CAUSES.sort))},
        included={CAUSES.name: CAUSES.projected},
    )


def waiting_room(
    there: Any, *, bucket: str = BUCKET, pipeline: str = "orders", fifo: bool = False
) -> DynamoDBWaitingRoom:
    """The waiting room in what has tables (`dynamodb`), objects (`s3`) and a `clock`."""
    return DynamoDBWaitingRoom(
        client=there.dynamodb,
        table=LETTERS,
        s3=there.s3,
        bucket=bucket,
        pipeline=pipeline,
        fifo=fifo,
        clock=there.clock,
    )


def create_circuits_table(dynamodb: Any) -> None:
    create_keyed_table(dynamodb, CIRCUITS, ("pipeline", "circuit_key"), {"troubled": ("troubled",)})


def create_keyed_table(
    dynamodb: Any,
    name: str,
    keys: Sequence[str],
    indexes: Mapping[str, Sequence[str]] = MappingProxyType({}),
    *,
    whole: Sequence[str] = (),
    included: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Create a table with a partition key and perhaps a sort key, and indexes with theirs.

    The indexes in `whole` show every attribute, those in `included` the attributes named there,
    the others keys only. All keys are texts, except those in NUMBERS.
    """
    attributes = dict.fromkeys([*keys, *(key for index in indexes.values() for key in index)])
    described = [
        {
            "IndexName": index,
            "KeySchema": _schema(index_keys),
            "Projection": _projection(included.get(index), whole=index in whole),
        }
        for index, index_keys in indexes.items()
    ]
    dynamodb.create_table(
        TableName=name,
        KeySchema=_schema(keys),
        AttributeDefinitions=[
            {"AttributeName": key, "AttributeType": "N" if key in NUMBERS else "S"}
            for key in attributes
        ],
        **({"GlobalSecondaryIndexes": described} if described else {}),
        BillingMode="PAY_PER_REQUEST",
    )


def _projection(included: Sequence[str] | None, *, whole: bool) -> dict[str, Any]:
    if included is not None:
        return {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(included)}
    return {"ProjectionType": "ALL" if whole else "KEYS_ONLY"}


def _schema(keys: Sequence[str]) -> list[dict[str, str]]:
    return [
        {"AttributeName": key, "KeyType": kind}
        for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)
    ]
