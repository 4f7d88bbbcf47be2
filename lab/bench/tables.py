"""The tables of the stacks, as the benchmarks need them in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deadletter.testing.fakes import MemoryDynamoDB


def create_tables(dynamodb: MemoryDynamoDB) -> None:
    for name, keys, index in (
        ("letters", ("pk", "sk"), ("lanes", "lane", "due")),
        ("rules", ("pipeline", "rule_id"), None),
        ("circuits", ("pipeline", "circuit_key"), ("troubled", "troubled")),
    ):
        attributes = (*keys, *(index or ())[1:])
        indexes = (
            {
                "GlobalSecondaryIndexes": [
                    {
                        "IndexName": index[0],
                        "KeySchema": _schema(index[1:]),
                        "Projection": {"ProjectionType": "KEYS_ONLY"},
                    }
                ]
            }
            if index
            else {}
        )
        described: dict[str, Any] = {
            "KeySchema": _schema(keys),
            "AttributeDefinitions": [
                {"AttributeName": key, "AttributeType": "N" if key == "due" else "S"}
                for key in attributes
            ],
            **indexes,
        }
        dynamodb.create_table(TableName=name, BillingMode="PAY_PER_REQUEST", **described)


def _schema(keys: Sequence[str]) -> list[dict[str, str]]:
    return [
        {"AttributeName": key, "KeyType": kind}
        for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)
    ]
