"""The embedded AWS, whose IAM is enforced, refuses the rows that the judge in memory refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from deadletter.aws.dynamodb import stored
from deadletter.contract import CAUSES, LANES, Partition
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryDynamoDB
from sandbox.server import ACCOUNT, REGION, Sandbox
from tests.infra.templates import Synthesis, filled
from tests.infra.test_hostile_rows import WRITES, attempts, partitions, statements_of
from tests.judge import Judged, listed
from tests.tables import create_keyed_table, create_tables

TABLE = "deadletter-messages"

# What a row could say: that it waits and where, whose it is, who sent it; and that it fails.
FACTS: dict[str, Any] = {
    "lane": "theirs|due|0", "due": 1, "copy": "a", "stamp": "{}", "message": b"{}",
    "object": "waiting/theirs/a", "plans": b"x", "own": "x", "causes": "theirs|0",
    "fingerprint": "enemy",
}  # fmt: skip

# DynamoDB refuses these without a placeholder.
RESERVED = {"copy", "object"}

CONSUMERS = ("theirs-consumer", "order-events-consumer", "orders consumer")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("sandbox")) as running:
        indexes = {
            LANES.name: ("lane", "due"),
            CAUSES.name: (CAUSES.partition, str(CAUSES.sort)),
        }
        create_keyed_table(running.client("dynamodb"), TABLE, ("pk", "sk"), indexes)
        yield running


def in_role(sandbox: Sandbox, app: Synthesis, role: str) -> Any:
    """A client of DynamoDB in a role with what the policy says of the messages table."""
    iam, name = sandbox.client("iam"), role.replace(" ", "-")
    said = [
        statement
        for statement in filled(statements_of(app, role))
        if any(f":table/{TABLE}" in each for each in listed(statement["Resource"]))
    ]
    here = json.dumps(said).replace("eu-west-1:111122223333", f"{REGION}:{ACCOUNT}")
    root = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
    trust = {"Effect": "Allow", "Principal": root, "Action": "sts:AssumeRole"}
    iam.create_role(
        RoleName=name,
        AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
    )
    document = json.dumps({"Version": "2012-10-17", "Statement": json.loads(here)})
    iam.put_role_policy(RoleName=name, PolicyName="rows", PolicyDocument=document)
    arn = f"arn:aws:iam::{ACCOUNT}:role/{name}"
    taken = sandbox.client("sts").assume_role(RoleArn=arn, RoleSessionName="enemy")["Credentials"]
    return boto3.client(
        "dynamodb",
        REGION,
        aws_access_key_id=taken["AccessKeyId"],
        aws_secret_access_key=taken["SecretAccessKey"],
        aws_session_token=taken["SessionToken"],
        endpoint_url=sandbox.endpoint,
        verify=sandbox.environment["AWS_CA_BUNDLE"],
    )


def ways(item: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The ways to write an attribute; the last one names it without a placeholder."""
    yield from attempts(item, [name])
    if name in RESERVED:
        return
    yield (
        "update_item",
        {
            "Key": stored({"pk": item["pk"], "sk": item["sk"]}),
            "UpdateExpression": f"SET {name} = :value",
            "ExpressionAttributeValues": stored({":value": item[name]}),
        },
    )


def is_taken(client: Any, table: str, method: str, request: dict[str, Any]) -> bool:
    if method == "batch_write_item":
        [writes] = request["RequestItems"].values()
        request = {"RequestItems": {table: writes}}
    else:
        request = {"TableName": table, **request}
    try:
        getattr(client, method)(**request)
    except ClientError as error:
        if "AccessDenied" not in error.response["Error"]["Code"]:
            raise
        return False
    return True


@pytest.mark.slow_because("each way to write each attribute, asked of an emulator and of the judge")
@pytest.mark.parametrize("role", [role for role, patterns in WRITES.items() if patterns])
def test_a_hostile_row_is_refused_by_iam_as_by_the_judge_in_memory(
    app: Synthesis, sandbox: Sandbox, role: str
) -> None:
    memory: Any = MemoryDynamoDB(Clock())
    create_tables(memory)
    judged, real = Judged(memory, statements_of(app, role)), in_role(sandbox, app, role)
    # A neighbour's row, and that of an own letter.
    others = [Partition.LEDGER.of("another", "x"), Partition.LETTER.of("theirs", "a")]
    own = [next(partitions(pattern)) for pattern in WRITES[role]]
    verdicts: dict[tuple[str, str, int], tuple[bool, bool]] = {}
    for partition in (*own, *others):
        item = {"pk": partition, "sk": "x", **FACTS}
        for name in FACTS:
            for way, (method, request) in enumerate(ways(item, name)):
                verdicts[partition, name, way] = (
                    is_taken(real, TABLE, method, request),
                    is_taken(judged, "messages", method, request),
                )
    differing = {asked: said for asked, said in verdicts.items() if said[0] != said[1]}
    assert differing == {}
    if role in CONSUMERS:
        written = {name for (_, name, _), (taken, _) in verdicts.items() if taken}
        # Its own failures, and its own claims; nothing that a lane, a stamp or a body is made of.
        assert written == {"causes", "fingerprint", "own"}
