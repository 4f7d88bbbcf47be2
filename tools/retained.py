"""What destroyed stacks have left behind, in the form in which `cdk import` takes it.

    python -m tools.retained Deadletter-Shared > retained.json
    npx cdk import Deadletter-Shared --force --resource-mapping retained.json

Reads the templates of the last synthesis (`cdk.out`) and asks the account which of the tables,
queues and buckets that a stack keeps are there. Nothing is changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

# By what CloudFormation knows a resource of each type, and the property with its name.
IDENTIFIERS = {
    "AWS::DynamoDB::Table": ("TableName", "TableName"),
    "AWS::SQS::Queue": ("QueueUrl", "QueueName"),
    "AWS::S3::Bucket": ("BucketName", "BucketName"),
}

KEPT = ("Retain", "RetainExceptOnCreate")

# What the services answer if there is no such resource.
MISSING = {
    "ResourceNotFoundException",
    "404",
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
}


@dataclass(frozen=True, slots=True)
class RetainedResource:
    """A resource that its stack leaves behind, by its id in the template."""

    logical_id: str
    kind: str
    name: str


def retained(template: Mapping[str, Any], account: str, region: str) -> Iterator[RetainedResource]:
    """The resources of a template that stay when its stack is deleted and can be taken over."""
    for logical_id, resource in template["Resources"].items():
        kind = resource["Type"]
        if kind in IDENTIFIERS and resource.get("DeletionPolicy") in KEPT:
            name = resource["Properties"].get(IDENTIFIERS[kind][1])
            if name is not None:
                yield RetainedResource(logical_id, kind, text(name, account, region))


def text(value: Any, account: str, region: str) -> str:
    """A name in a template: a text, or texts joined with the account and the region."""
    match value:
        case str():
            return value
        case {"Ref": "AWS::AccountId"}:
            return account
        case {"Ref": "AWS::Region"}:
            return region
        case {"Fn::Join": [between, parts]}:
            return str(between).join(text(part, account, region) for part in parts)
    raise ValueError(f"no name that this can read: {json.dumps(value)}")


def identifier(resource: RetainedResource, session: boto3.Session) -> str | None:
    """By what CloudFormation imports the resource; None if the account has none of that name."""
    try:
        match resource.kind:
            case "AWS::DynamoDB::Table":
                session.client("dynamodb").describe_table(TableName=resource.name)
            case "AWS::SQS::Queue":
                return session.client("sqs").get_queue_url(QueueName=resource.name)["QueueUrl"]
            case _:
                session.client("s3").head_bucket(Bucket=resource.name)
    except ClientError as error:
        if error.response["Error"]["Code"] in MISSING:
            return None
        raise
    return resource.name


def mapping(template: Mapping[str, Any], session: boto3.Session) -> dict[str, dict[str, str]]:
    """What `cdk import` is told: by logical id, the identifier of what is in the account."""
    account = session.client("sts").get_caller_identity()["Account"]
    found = {}
    for resource in retained(template, account, session.region_name):
        if (known_by := identifier(resource, session)) is not None:
            found[resource.logical_id] = {IDENTIFIERS[resource.kind][0]: known_by}
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the mapping; exit with 1 if there is nothing to import."""
    parser = argparse.ArgumentParser(prog="python -m tools.retained", description=__doc__)
    parser.add_argument("stack", help="name of the stack, such as Deadletter-Shared")
    parser.add_argument("--assembly", type=Path, default=Path("cdk.out"), help="the templates")
    given = parser.parse_args(arguments)
    template = json.loads((given.assembly / f"{given.stack}.template.json").read_text())
    found = mapping(template, boto3.Session())
    print(json.dumps(found, indent=2))
    if not found:
        print(f"Nothing of {given.stack} is left: deploy as usual.", file=sys.stderr)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
