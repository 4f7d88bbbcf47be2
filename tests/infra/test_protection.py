"""Everything that holds data is encrypted, reached over TLS only, and not lost by mistake."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from typing import Any

import pytest

from infra.reference import PAGE
from tests.infra.conftest import Synthesize
from tests.infra.templates import Synthesis, filled

KEY = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd"

HOLDS_DATA = ("AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::S3::Bucket")


def refuses_plain_http(policy: dict[str, Any], action: str) -> bool:
    """Whether the policy denies every request without TLS."""
    return any(
        statement["Effect"] == "Deny"
        and statement["Action"] == action
        and statement["Principal"] in ("*", {"AWS": "*"})
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        for statement in policy["Statement"]
    )


def test_there_is_something_to_protect(app: Synthesis) -> None:
    counts = {kind: len(list(app.of(kind))) for kind in HOLDS_DATA}
    assert counts == {
        "AWS::DynamoDB::Table": 5,
        # orders 2 + 2 + 2, order-events 2 + 1 + 1, theirs 1, watched 3, the rule checker 1
        "AWS::SQS::Queue": 15,
        "AWS::S3::Bucket": 1,
    }


def test_tables_are_encrypted_backed_up_and_protected(app: Synthesis) -> None:
    for key, table in app.of("AWS::DynamoDB::Table"):
        properties = table["Properties"]
        # A key that AWS owns, which costs nothing.
        assert properties["SSESpecification"] == {"SSEEnabled": False}, key
        assert properties["PointInTimeRecoverySpecification"] == {
            "PointInTimeRecoveryEnabled": True
        }
        assert properties["DeletionProtectionEnabled"] is True
        assert properties["BillingMode"] == "PAY_PER_REQUEST"
        assert table["DeletionPolicy"] == table["UpdateReplacePolicy"] == "Retain"


def test_queues_are_encrypted_and_outlive_their_stack(app: Synthesis) -> None:
    for key, queue in app.of("AWS::SQS::Queue"):
        assert queue["Properties"]["SqsManagedSseEnabled"] is True, key
        # A queue that a failed first deployment left behind would block its own name.
        assert queue["DeletionPolicy"] == "RetainExceptOnCreate"
        assert queue["UpdateReplacePolicy"] == "Retain"


def test_every_queue_refuses_plain_http(app: Synthesis) -> None:
    policies = {
        filled(queue): policy["Properties"]["PolicyDocument"]
        for _, policy in app.of("AWS::SQS::QueuePolicy")
        for queue in policy["Properties"]["Queues"]
    }
    for key, _ in app.of("AWS::SQS::Queue"):
        assert refuses_plain_http(policies[f"<{key.partition('/')[2]}>"], "sqs:*"), key


def test_the_bucket_is_private_encrypted_and_outlives_every_letter(app: Synthesis) -> None:
    [(_, bucket)] = app.of("AWS::S3::Bucket")
    properties = bucket["Properties"]
    [rule] = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["DeletionPolicy"] == "RetainExceptOnCreate"
    [policy] = [bucket["Properties"] for _, bucket in app.of("AWS::S3::BucketPolicy")]
    assert refuses_plain_http(policy["PolicyDocument"], "s3:*")
    # A letter may be held for longer than anybody thought: no rule takes its body away.
    rules = properties["LifecycleConfiguration"]["Rules"]
    expiring = [item for item in rules if "ExpirationInDays" in item or "ExpirationDate" in item]
    assert [(item["Prefix"], item["ExpirationInDays"]) for item in expiring] == [
        ("replay/", 90),
        ("originals/", 30),
    ]


def test_originals_that_are_kept_no_more_go_as_soon_as_a_rule_can_say(
    synthesize: Synthesize,
) -> None:
    app = synthesize({"pipelines": [{"name": "orders"}], "replay_days": 0})
    [(_, bucket)] = app.of("AWS::S3::Bucket")
    rules = bucket["Properties"]["LifecycleConfiguration"]["Rules"]
    [days] = [item["ExpirationInDays"] for item in rules if item["Prefix"] == "originals/"]
    assert days == 1
    assert app.environment("deadletter-orders-replay")["REPLAY_DAYS"] == "0"


def test_the_topic_takes_alarms_of_this_account_over_tls_and_avoids_the_key_that_mutes_it(
    app: Synthesis,
) -> None:
    [(_, topic)] = app.of("AWS::SNS::Topic")
    [(_, key)] = app.of("AWS::KMS::Key")
    # CloudWatch can't publish under alias/aws/sns, and reports no error.
    [used] = app["Deadletter-Shared"].of("AWS::KMS::Key")
    assert filled(topic["Properties"]["KmsMasterKeyId"]) == f"<{used}.Arn>"
    assert key["Properties"]["EnableKeyRotation"] is True
    administration, alarms, tests = key["Properties"]["KeyPolicy"]["Statement"]
    account = {"AWS": "arn:aws:iam::111122223333:root"}
    assert filled(administration["Principal"]) == filled(tests["Principal"]) == account
    assert set(tests["Action"]) == {"kms:Decrypt", "kms:GenerateDataKey"}
    through = {"StringEquals": {"kms:ViaService": "sns.eu-west-1.amazonaws.com"}}
    assert filled(tests["Condition"]) == through
    assert not {"kms:Decrypt", "kms:GenerateDataKey", "kms:*"} & set(administration["Action"])
    assert alarms["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert set(alarms["Action"]) == {"kms:Decrypt", "kms:GenerateDataKey"}
    assert filled(alarms["Condition"]) == {"StringEquals": {"aws:SourceAccount": "111122223333"}}
    [(_, policy)] = app.of("AWS::SNS::TopicPolicy")
    document = policy["Properties"]["PolicyDocument"]
    assert refuses_plain_http(document, "sns:Publish")
    [publish] = [statement for statement in document["Statement"] if statement["Effect"] == "Allow"]
    assert publish["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert publish["Action"] == "sns:Publish"
    source = publish["Condition"]["StringEquals"]["aws:SourceAccount"]
    assert filled(source) == "111122223333"


def test_logs_are_kept_for_as_long_as_is_said(app: Synthesis, sandboxed: Synthesis) -> None:
    for synthesis, days in ((app, 90), (sandboxed, 7)):
        groups = dict(synthesis.of("AWS::Logs::LogGroup"))
        assert {item["Properties"]["RetentionInDays"] for item in groups.values()} == {days}
        named = {group["Properties"]["LogGroupName"] for group in groups.values()}
        functions = [
            function["Properties"] for _, function in synthesis.of("AWS::Lambda::Function")
        ]
        machines = [
            resource["Properties"]
            for _, resource in synthesis.of("AWS::StepFunctions::StateMachine")
        ]
        assert named == {f"/aws/lambda/{item['FunctionName']}" for item in functions} | {
            f"/aws/vendedlogs/states/{machine['StateMachineName']}" for machine in machines
        }


def test_stacks_that_hold_data_can_not_be_deleted_by_mistake(app: Synthesis) -> None:
    for name, stack in app.stacks.items():
        holds_data = any(stack.of(kind) for kind in HOLDS_DATA)
        assert stack.termination_protection is holds_data, name


def test_a_sandbox_can_be_thrown_away(sandboxed: Synthesis) -> None:
    for kind in HOLDS_DATA:
        for key, resource in sandboxed.of(kind):
            assert resource["DeletionPolicy"] == "Delete", key
    for _, table in sandboxed.of("AWS::DynamoDB::Table"):
        assert table["Properties"]["DeletionProtectionEnabled"] is False
    assert not any(item.termination_protection for item in sandboxed.stacks.values())


def test_a_customers_key_encrypts_everything(sandboxed: Synthesis) -> None:
    for key, queue in sandboxed.of("AWS::SQS::Queue"):
        assert queue["Properties"]["KmsMasterKeyId"] == KEY, key
    for _, table in sandboxed.of("AWS::DynamoDB::Table"):
        assert table["Properties"]["SSESpecification"] == {
            "KMSMasterKeyId": KEY,
            "SSEEnabled": True,
            "SSEType": "KMS",
        }
    for _, bucket in sandboxed.of("AWS::S3::Bucket"):
        [rule] = bucket["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["BucketKeyEnabled"] is True
        assert rule["ServerSideEncryptionByDefault"] == {
            "KMSMasterKeyID": KEY,
            "SSEAlgorithm": "aws:kms",
        }
    for _, log_group in sandboxed.of("AWS::Logs::LogGroup"):
        assert log_group["Properties"]["KmsKeyId"] == KEY
    for _, resource in sandboxed.of("AWS::SNS::Topic"):
        assert resource["Properties"]["KmsMasterKeyId"] == KEY
    assert list(sandboxed.of("AWS::KMS::Key")) == []


def test_the_settings_page_says_what_a_customers_key_has_to_allow(app: Synthesis) -> None:
    """The customer writes this policy; without it, alarms reach no one."""
    [example] = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.S)
    named = {
        item["Principal"].get("Service"): item["Action"]
        for item in json.loads(example)
        if "Service" in item["Principal"]
    }
    assert set(named["cloudwatch.amazonaws.com"]) == {"kms:Decrypt", "kms:GenerateDataKey"}
    assert "kms:Encrypt" in named["logs.eu-west-1.amazonaws.com"]
    [groups] = [item for item in json.loads(example) if item["Sid"] == "LogGroups"]
    [allowed] = groups["Condition"]["ArnLike"].values()
    for _, log_group in app.of("AWS::Logs::LogGroup"):
        name = log_group["Properties"]["LogGroupName"]
        arn = f"arn:aws:logs:eu-west-1:111122223333:log-group:{name}"
        assert any(fnmatchcase(arn, pattern) for pattern in allowed), arn


def test_only_main_queues_may_use_a_dlq_as_theirs_and_nothing_may_use_an_end(
    app: Synthesis,
) -> None:
    for key, queue in app.of("AWS::SQS::Queue"):
        name = str(queue["Properties"]["QueueName"])
        allowed = filled(queue["Properties"].get("RedriveAllowPolicy"))
        if name.removesuffix(".fifo").endswith("-main"):
            assert allowed is None, key
            assert queue["Properties"]["RedrivePolicy"]
        elif name.removesuffix(".fifo").endswith("-dlq"):
            [source] = allowed.pop("sourceQueueArns")
            assert allowed == {"redrivePermission": "byQueue"}, key
            assert source.rpartition(":")[2] == name.replace("-dlq", "-main")
        else:
            assert allowed == {"redrivePermission": "denyAll"}, key


@pytest.mark.parametrize("kind", [*HOLDS_DATA, "AWS::Lambda::Function", "AWS::IAM::Role"])
def test_everything_says_whose_it_is(sandboxed: Synthesis, kind: str) -> None:
    for key, resource in sandboxed.of(kind):
        tags = {tag["Key"]: tag["Value"] for tag in resource["Properties"]["Tags"]}
        assert tags["app"] == "mail", key
        assert ("pipeline" in tags) is ("Shared" not in key)


def test_nothing_secret_is_in_an_environment(app: Synthesis) -> None:
    for key, function in app.of("AWS::Lambda::Function"):
        text = json.dumps(function["Properties"]["Environment"]).lower()
        # The prefix of the secrets' names is no secret.
        assert "secret" not in text.replace("secret_prefix", ""), key
        assert "password" not in text
