"""The scanner finds nothing that has no written reason."""

from __future__ import annotations

from tests.infra.templates import Synthesis

FOLDER = "arn:<AWS::Partition>:s3:::deadletter-messages-<AWS::AccountId>-<AWS::Region>/waiting"
REPLAYS = FOLDER.replace("/waiting", "/replay")
ORIGINALS = FOLDER.replace("/waiting", "/originals")

# How the names of queues with letters end.
ENDS = ("", ".fifo", "_*")

# What is acknowledged, each with its reason where it is made.
ACKNOWLEDGED = {
    "AwsSolutions-L1",
    "AwsSolutions-S1",
    "AwsSolutions-SF1",
    "AwsSolutions-SQS3",
    "AwsSolutions-IAM5[Resource::*]",
    "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>"
    ":stateMachine:deadletter-*-replay]",
    *(
        f"AwsSolutions-IAM5[Resource::{FOLDER}/{pipeline}/*]"
        for pipeline in ("orders", "order-events", "theirs", "watched")
    ),
    *(
        f"AwsSolutions-IAM5[Resource::{REPLAYS}/{pipeline}/*{edits}]"
        for pipeline in ("orders", "order-events", "theirs", "watched")
        for edits in ("", "/edits/*")
    ),
    *(
        f"AwsSolutions-IAM5[Resource::{ORIGINALS}/{pipeline}/*]"
        for pipeline in ("orders", "order-events", "theirs", "watched")
    ),
    "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>"
    ":execution:deadletter-*-replay:*]",
    # People on call, of all pipelines.
    *(
        f"AwsSolutions-IAM5[Resource::{folder}]"
        for folder in (
            f"{FOLDER}/*",
            *(f"{REPLAYS}/*/*/manifest/*", f"{REPLAYS}/*/*/report.json"),
            f"{REPLAYS}/*/*/edits/*",
            f"{REPLAYS}/*/*/discarded/*",
        )
    ),
    *(
        "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:cloudwatch:<AWS::Region>"
        f":<AWS::AccountId>:{alarms}]"
        for alarms in ("alarm:deadletter-*", "alarm-mute-rule:deadletter-*-mute")
    ),
    *(
        "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>"
        f":deadletter-*{end}]"
        for end in ("", *(f"-{kind}{id_}" for kind in ("dlq", "parking") for id_ in ENDS))
    ),
    *(
        "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:lambda:<AWS::Region>:<AWS::AccountId>"
        f":function:deadletter-*-{role}]"
        for role in ("*", "route", "redrive", "watch", "circuit", "probe", "replay")
    ),
    # What is brought, by its tag.
    *(
        f"AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:{service}:<AWS::Region>"
        f":<AWS::AccountId>:{type_}*]"
        for service, type_ in (("sqs", ""), ("lambda", "function:"), ("logs", "log-group:"))
    ),
    "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:ssm:<AWS::Region>:<AWS::AccountId>"
    ":parameter/deadletter/pipelines/*]",
    "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:ssm:<AWS::Region>:<AWS::AccountId>"
    ":parameter/deadletter/*]",
    "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:secretsmanager:<AWS::Region>"
    ":<AWS::AccountId>:secret:deadletter/webhooks/*]",
    *(
        f"AwsSolutions-IAM5[Resource::arn:{home}:log-group:/aws/lambda/{consumer}:*]"
        for home, consumer in (
            ("<AWS::Partition>:logs:<AWS::Region>:<AWS::AccountId>", "deadletter-*-consumer"),
            ("aws:logs:eu-west-1:111122223333", "their-consumer"),
        )
    ),
    "Serverless-LambdaAsyncFailureDestination",
    "Serverless-LambdaDLQ",
    "Serverless-LambdaEventSourceMappingDestination",
    "Serverless-LambdaLatestVersion",
    "Serverless-LambdaStarPermissions",
    "Serverless-LambdaTracing",
    "Serverless-SQSRedrivePolicy",
}


def test_cdk_nag_finds_nothing(app: Synthesis) -> None:
    packs = {pack["pluginName"]: pack["violations"] for pack in app.report["pluginReports"]}
    assert packs == {"AwsSolutions": [], "Serverless": []}


def test_every_acknowledgment_is_needed_and_has_a_reason(app: Synthesis) -> None:
    silenced = [
        finding for pack in app.report["pluginReports"] for finding in pack["suppressedViolations"]
    ]
    assert {finding["ruleName"] for finding in silenced} == ACKNOWLEDGED
    assert all(len(finding["reason"].split()) > 4 for finding in silenced)
