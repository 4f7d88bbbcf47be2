"""Puts rows of a restored table back where they are missing.

    python -m tools.rows_back deadletter-rules-restored deadletter-rules
    python -m tools.rows_back deadletter-messages-restored deadletter-messages --with 8f1 --write

A row that the table has is left as it is. Without `--write` nothing is written, and the keys of
the rows that would be are printed. `--with` takes rows only whose key has that text: a letter's id.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Row = Mapping[str, Any]


def key_names(client: DynamoDBClient, table: str) -> list[str]:
    """The key attributes of a table."""
    schema = client.describe_table(TableName=table)["Table"]["KeySchema"]
    return [part["AttributeName"] for part in schema]


def rows(client: DynamoDBClient, table: str) -> Iterator[Row]:
    """All rows of a table."""
    for page in client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
        yield from page["Items"]


def missing(
    client: DynamoDBClient, source: str, target: str, having: str
) -> Iterator[tuple[Row, Row]]:
    """Key and row of what *source* has and *target* has not, if *having* stands in the key."""
    names = key_names(client, target)
    for row in rows(client, source):
        key = {name: row[name] for name in names}
        if having not in shown(key):
            continue
        answer = client.get_item(TableName=target, Key=key, ConsistentRead=True)
        if "Item" not in answer:
            yield key, row


def put_back(client: DynamoDBClient, target: str, key: Row, row: Row) -> bool:
    """Write a row; False if the table has one under that key by now."""
    try:
        client.put_item(
            TableName=target,
            Item=row,
            ConditionExpression="attribute_not_exists(#key)",
            ExpressionAttributeNames={"#key": next(iter(key))},
        )
    except client.exceptions.ConditionalCheckFailedException:
        return False
    return True


def shown(key: Row) -> str:
    """A key for a person: the texts of its attributes."""
    return " ".join(str(value) for attribute in key.values() for value in attribute.values())


def main(arguments: Sequence[str]) -> int:
    """Print the keys of the rows that are missing, and with --write put these rows back."""
    parser = argparse.ArgumentParser(prog="python -m tools.rows_back", description=__doc__)
    parser.add_argument("source", help="the restored table")
    parser.add_argument("target", help="the table of the app")
    parser.add_argument("--with", dest="having", default="", help="only keys with this text")
    parser.add_argument("--write", action="store_true", help="write them")
    given = parser.parse_args(arguments)
    client = boto3.client("dynamodb")
    count = 0
    for key, row in missing(client, given.source, given.target, given.having):
        if given.write and not put_back(client, given.target, key, row):
            continue
        count += 1
        print(shown(key))
    done = "put back" if given.write else "missing: type it again with --write"
    print(f"{count} {'row' if count == 1 else 'rows'} {done}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ClientError as error:
        sys.exit(str(error))
