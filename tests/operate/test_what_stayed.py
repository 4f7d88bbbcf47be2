"""What `cdk import` is told about resources that stayed, and rows of restored tables put back.

Most of it is nightly, for a fake account takes seconds to come up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tools import retained, rows_back

ACCOUNT = "123456789012"
REGION = "us-east-1"

BUCKET_NAME = {
    "Fn::Join": ["", ["app-letters-", {"Ref": "AWS::AccountId"}, "-", {"Ref": "AWS::Region"}]]
}


def resource(kind: str, policy: str, **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "DeletionPolicy": policy, "Properties": properties}


TEMPLATE = {
    "Resources": {
        "Letters": resource("AWS::DynamoDB::Table", "Retain", TableName="app-letters"),
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
        session.client("dynamodb").create_table(TableName="app-letters", **KEY)
        session.client("sqs").create_queue(QueueName="app-main")
        session.client("sqs").create_queue(QueueName="app-deleted")
        session.client("s3").create_bucket(Bucket=f"app-letters-{ACCOUNT}-{REGION}")
        yield session


@pytest.mark.nightly
def test_what_is_there_is_named_as_cloudformation_knows_it(session: boto3.Session) -> None:
    [url] = session.client("sqs").list_queues(QueueNamePrefix="app-main")["QueueUrls"]
    assert retained.mapping(TEMPLATE, session) == {
        "Letters": {"TableName": "app-letters"},
        "Main": {"QueueUrl": url},
        "Bodies": {"BucketName": f"app-letters-{ACCOUNT}-{REGION}"},
    }


def test_a_name_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no name that this can read: .*Fn::GetAtt"):
        retained.text({"Fn::GetAtt": ["Main", "QueueName"]}, ACCOUNT, REGION)


@pytest.mark.nightly
@pytest.mark.usefixtures("session")
def test_nothing_to_import_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = {"Resources": {"Gone": TEMPLATE["Resources"]["Gone"]}}
    (tmp_path / "App.template.json").write_text(json.dumps(empty))
    assert retained.main(["App", "--assembly", str(tmp_path)]) == 1
    assert "Nothing of App is left: deploy as usual." in capsys.readouterr().err


@pytest.mark.nightly
def test_rows_that_are_missing_are_put_back_and_no_other_is_changed(
    session: boto3.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    client = session.client("dynamodb")
    client.create_table(TableName="restored", **KEY)

    def row(pk: str, what: str) -> dict[str, Any]:
        return {"pk": {"S": pk}, "sk": {"S": "1"}, "what": {"S": what}}

    for pk in ("orders#letter#a", "orders#letter#b", "orders#row#c"):
        client.put_item(TableName="restored", Item=row(pk, "then"))
    client.put_item(TableName="app-letters", Item=row("orders#letter#b", "now"))
    words = ["restored", "app-letters", "--with", "#letter#"]
    assert rows_back.main(words) == 0
    assert "1 row missing" in capsys.readouterr().out
    assert len(client.scan(TableName="app-letters")["Items"]) == 1
    assert rows_back.main([*words, "--write"]) == 0
    assert "orders#letter#a 1\n1 row put back" in capsys.readouterr().out
    rows = client.scan(TableName="app-letters")["Items"]
    assert {item["pk"]["S"]: item["what"]["S"] for item in rows} == {
        "orders#letter#a": "then",
        "orders#letter#b": "now",
    }


@pytest.mark.nightly
def test_a_row_that_was_written_meanwhile_stays(session: boto3.Session) -> None:
    client = session.client("dynamodb")
    row = {"pk": {"S": "a"}, "sk": {"S": "1"}, "what": {"S": "then"}}
    client.put_item(TableName="app-letters", Item={**row, "what": {"S": "now"}})
    key = {"pk": {"S": "a"}, "sk": {"S": "1"}}
    assert not rows_back.put_back(client, "app-letters", key, row)
    assert client.get_item(TableName="app-letters", Key=key)["Item"]["what"] == {"S": "now"}
