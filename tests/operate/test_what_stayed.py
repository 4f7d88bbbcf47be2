"""What `cdk import` is told about resources that stayed, and rows of restored tables put back.

Most of it is nightly, for a fake account takes seconds to come up.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from tools import retained, rows_back

ACCOUNT = "123456789012"
REGION = "us-east-1"

BUCKET_NAME = {
    "Fn::Join": ["", ["app-messages-", {"Ref": "AWS::AccountId"}, "-", {"Ref": "AWS::Region"}]]
}


def resource(kind: str, policy: str, **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "DeletionPolicy": policy, "Properties": properties}


TEMPLATE = {
    "Resources": {
        "Letters": resource("AWS::DynamoDB::Table", "Retain", TableName="app-messages"),
        "Gone": resource("AWS::DynamoDB::Table", "Retain", TableName="app-gone"),
        "Main": resource("AWS::SQS::Queue", "RetainExceptOnCreate", QueueName="app-main"),
        "Absent": resource("AWS::SQS::Queue", "RetainExceptOnCreate", QueueName="app-absent"),
        "Bodies": resource("AWS::S3::Bucket", "RetainExceptOnCreate", BucketName=BUCKET_NAME),
        "Topic": resource("AWS::SNS::Topic", "Retain", TopicName="app-alarms"),
        "Deleted": resource("AWS::SQS::Queue", "Delete", QueueName="app-deleted"),
        "Unnamed": resource("AWS::SQS::Queue", "Retain"),
    }
}

KEY = {
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ],
    "BillingMode": "PAY_PER_REQUEST",
}


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[boto3.Session]:
    """An account in which the stack's resources are, but for two."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        session = boto3.Session("key", "secret", region_name=REGION)
        session.client("dynamodb").create_table(TableName="app-messages", **KEY)
        session.client("sqs").create_queue(QueueName="app-main")
        session.client("sqs").create_queue(QueueName="app-deleted")
        session.client("s3").create_bucket(Bucket=f"app-messages-{ACCOUNT}-{REGION}")
        yield session


@pytest.mark.nightly
def test_what_is_there_is_named_as_cloudformation_knows_it(session: boto3.Session) -> None:
    [url] = session.client("sqs").list_queues(QueueNamePrefix="app-main")["QueueUrls"]
    assert retained.mapping(TEMPLATE, session) == {
        "Letters": {"TableName": "app-messages"},
        "Main": {"QueueUrl": url},
        "Bodies": {"BucketName": f"app-messages-{ACCOUNT}-{REGION}"},
    }


def test_a_name_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no name that this can read: .*Fn::GetAtt"):
        retained.text({"Fn::GetAtt": ["Main", "QueueName"]}, ACCOUNT, REGION)


def assembly(folder: Path, **stacks: Mapping[str, Any]) -> Path:
    """A synthesis of these stacks."""
    artifacts: dict[str, Any] = {"Tree": {"type": "cdk:tree", "properties": {}}}
    for name, template in stacks.items():
        (folder / f"{name}.template.json").write_text(json.dumps(template))
        properties = {"templateFile": f"{name}.template.json"}
        artifacts[name] = {"type": "aws:cloudformation:stack", "properties": properties}
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    return folder


class Stacks:
    """The stacks of an account as CloudFormation answers for them, and what is typed at the CDK."""

    def __init__(self, session: boto3.Session, **status: str) -> None:
        self._session = session
        self.status = status
        self.protected = set(status)
        self.typed: list[tuple[str, ...]] = []
        self.mappings: list[Any] = []
        self.region_name = session.region_name

    def client(self, service: Any) -> Any:
        return self if service == "cloudformation" else self._session.client(service)

    def describe_stacks(self, **asked: str) -> Any:
        name = asked["StackName"]
        if name not in self.status:
            message = f"Stack with id {name} does not exist"
            error = {"Code": "ValidationError", "Message": message}
            raise ClientError({"Error": error}, "DescribeStacks")
        return {"Stacks": [{"StackStatus": self.status[name]}]}

    def update_termination_protection(self, **asked: Any) -> None:
        assert asked["EnableTerminationProtection"] is False
        self.protected.discard(asked["StackName"])

    def delete_stack(self, **asked: str) -> None:
        name = asked["StackName"]
        assert name not in self.protected
        assert self.status[name] in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
        del self.status[name]

    def get_waiter(self, _: str) -> Stacks:
        return self

    def wait(self, **asked: str) -> None:
        assert asked["StackName"] not in self.status

    def type(self, *words: str) -> None:
        self.typed.append(tuple(word for word in words if "=" not in word))
        for word in words:
            if word.startswith("--resource-mapping="):
                self.mappings.append(json.loads(Path(word.partition("=")[2]).read_text()))


APP = {
    "Letters": {"TableName": "app-messages"},
    "Main": {"QueueUrl": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/app-main"},
    "Bodies": {"BucketName": f"app-messages-{ACCOUNT}-{REGION}"},
}


@pytest.mark.nightly
@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "gone"])
def test_a_stack_that_failed_is_deleted_and_what_it_left_is_taken_over(
    session: boto3.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    gone = {"Resources": {"Gone": TEMPLATE["Resources"]["Gone"]}}
    stacks: Any = Stacks(session, **({} if status == "gone" else {"App": status}))
    monkeypatch.setattr(retained, "cdk", stacks.type)
    retained.take_over(assembly(tmp_path, App=TEMPLATE, Other=gone), stacks)
    assert stacks.typed == [("import", "App", "--force"), ("deploy", "--all")]
    assert stacks.mappings == [APP]
    assert stacks.status == {}


@pytest.mark.nightly
@pytest.mark.parametrize(
    "status", ["CREATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "UPDATE_IN_PROGRESS", "CREATE_FAILED"]
)
def test_a_stack_that_is_deployed_is_not_deleted_and_nothing_of_it_is_imported(
    session: boto3.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    stacks: Any = Stacks(session, App=status)
    monkeypatch.setattr(retained, "cdk", stacks.type)
    folder = assembly(tmp_path, App=TEMPLATE)
    assert retained.left_behind(folder, stacks) == {}
    retained.take_over(folder, stacks)
    assert stacks.typed == [("deploy", "--all")]
    assert stacks.status == {"App": status}
    assert stacks.protected == {"App"}


@pytest.mark.nightly
def test_without_import_what_is_left_is_shown_and_nothing_is_typed(
    session: boto3.Session,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retained, "cdk", None)
    monkeypatch.setattr(boto3, "Session", lambda: Stacks(session))
    folder = assembly(tmp_path, App=TEMPLATE)
    assert retained.main(["--assembly", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out)["App"].keys() == APP.keys()


def test_a_cdk_that_fails_is_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)

    def fails(*words: str) -> None:
        raise subprocess.CalledProcessError(3, words)

    monkeypatch.setattr(retained, "cdk", fails)
    assert retained.main(["--import"]) == 3


@pytest.mark.nightly
def test_rows_that_are_missing_are_put_back_and_no_other_is_changed(
    session: boto3.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    client = session.client("dynamodb")
    client.create_table(TableName="restored", **KEY)

    def row(pk: str, what: str) -> dict[str, Any]:
        return {"pk": {"S": pk}, "sk": {"S": "1"}, "what": {"S": what}}

    for pk in ("orders#message#a", "orders#message#b", "orders#row#c"):
        client.put_item(TableName="restored", Item=row(pk, "then"))
    client.put_item(TableName="app-messages", Item=row("orders#message#b", "now"))
    words = ["restored", "app-messages", "--with", "#message#"]
    assert rows_back.main(words) == 0
    assert "1 row missing" in capsys.readouterr().out
    assert len(client.scan(TableName="app-messages")["Items"]) == 1
    assert rows_back.main([*words, "--write"]) == 0
    assert "orders#message#a 1\n1 row put back" in capsys.readouterr().out
    rows = client.scan(TableName="app-messages")["Items"]
    assert {item["pk"]["S"]: item["what"]["S"] for item in rows} == {
        "orders#message#a": "then",
        "orders#message#b": "now",
    }


@pytest.mark.nightly
def test_a_row_that_was_written_meanwhile_stays(session: boto3.Session) -> None:
    client = session.client("dynamodb")
    row = {"pk": {"S": "a"}, "sk": {"S": "1"}, "what": {"S": "then"}}
    client.put_item(TableName="app-messages", Item={**row, "what": {"S": "now"}})
    key = {"pk": {"S": "a"}, "sk": {"S": "1"}}
    assert not rows_back.put_back(client, "app-messages", key, row)
    assert client.get_item(TableName="app-messages", Key=key)["Item"]["what"] == {"S": "now"}
