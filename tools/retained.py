"""What failed and destroyed stacks have left behind: shows it, or takes it over and deploys.

    python -m tools.retained
    python -m tools.retained --import

Tables, queues and buckets stay behind, with fixed names: a new stack cannot make them. With
`--import`, stacks whose first deployment was rolled back are deleted, which deletes nothing of
that; then CloudFormation takes over what is there (`cdk import`), and `cdk deploy --all` makes the
rest. Stacks that are deployed are deployed as usual. Without it, nothing is changed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
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

# A stack that never was: it can be neither updated nor made again, only deleted.
ROLLED_BACK = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED")

# Of a stack without any resource: it does not exist, or waits for its first change set.
EMPTY = ("", "DELETE_COMPLETE", "REVIEW_IN_PROGRESS")


@dataclass(frozen=True, slots=True)
class RetainedResource:
    """A resource that its stack leaves behind, by its id in the template."""

    logical_id: str
    kind: str
    name: str


def templates(assembly: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The stacks of a synthesis by their names, with their templates."""
    artifacts = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    for id_, artifact in artifacts.items():
        if artifact["type"] == "aws:cloudformation:stack":
            properties = artifact["properties"]
            template = json.loads((assembly / properties["templateFile"]).read_text())
            yield properties.get("stackName", id_), template


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


def status(stack: str, session: boto3.Session) -> str:
    """The status of a stack; empty if there is none."""
    try:
        answer = session.client("cloudformation").describe_stacks(StackName=stack)
    except ClientError as error:
        if "does not exist" in error.response["Error"]["Message"]:
            return ""
        raise
    return str(answer["Stacks"][0]["StackStatus"])


def left_behind(assembly: Path, session: boto3.Session) -> dict[str, dict[str, dict[str, str]]]:
    """By stack, what is in the account and belongs to no stack."""
    found = {}
    for stack, template in templates(assembly):
        if status(stack, session) in (*EMPTY, *ROLLED_BACK) and (
            left := mapping(template, session)
        ):
            found[stack] = left
    return found


def delete_rolled_back(stack: str, session: boto3.Session) -> None:
    """Delete a stack whose first deployment failed, and which may be protected all the same."""
    if status(stack, session) not in ROLLED_BACK:
        return
    print(f"{stack} was rolled back in its first deployment: it is deleted.", file=sys.stderr)
    client = session.client("cloudformation")
    client.update_termination_protection(StackName=stack, EnableTerminationProtection=False)
    client.delete_stack(StackName=stack)
    client.get_waiter("stack_delete_complete").wait(StackName=stack)


def take_over(assembly: Path, session: boto3.Session) -> None:
    """Have CloudFormation take over what is left behind, and deploy all stacks."""
    for stack, _ in templates(assembly):
        delete_rolled_back(stack, session)
    for stack, left in left_behind(assembly, session).items():
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(left, file)
            file.flush()
            cdk("import", stack, "--force", f"--resource-mapping={file.name}", f"--app={assembly}")
    cdk("deploy", "--all", f"--app={assembly}")


def cdk(*words: str) -> None:
    """Type a command of the CDK; raises CalledProcessError if it fails."""
    npx = shutil.which("npx") or "npx"
    subprocess.run([npx, "cdk", *words], check=True)


def main(arguments: Sequence[str]) -> int:
    """Print what is left behind, or take it over; exit with 1 if the CDK does."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.retained",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--import", dest="takes_over", action="store_true", help="take it over, and deploy"
    )
    parser.add_argument("--assembly", type=Path, help="templates; else they are synthesized")
    given = parser.parse_args(arguments)
    session = boto3.Session()
    try:
        if given.assembly is None:
            cdk("synth", "--quiet")
        assembly = given.assembly or Path("cdk.out")
        if given.takes_over:
            take_over(assembly, session)
        else:
            print(json.dumps(left_behind(assembly, session), indent=2))
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
