"""Edits of the rules table reach the checker, and what it fails at reaches a person."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.settings.resources import resources_from_environment
from tests.infra.templates import Stack, Synthesis, filled
from tests.infra.test_permissions import KEY_TO_WRITE, listed, statements


@pytest.fixture(scope="module")
def shared(app: Synthesis) -> Stack:
    return app["Deadletter-Shared"]


def table(stack: Stack, name: str) -> dict[str, Any]:
    [table] = [
        table["Properties"]
        for key, table in stack.of("AWS::DynamoDB::Table").items()
        if name in key
    ]
    return dict(table)


def test_the_streams_show_an_edit_with_what_was_there_before(shared: Stack) -> None:
    streams = {
        table["Properties"]["TableName"]: table["Properties"]["StreamSpecification"]
        for table in shared.of("AWS::DynamoDB::Table").values()
        if "Stream" in str(table)
    }
    shown = {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert streams == {"deadletter-rules": shown, "deadletter-endpoints": shown}


@pytest.mark.parametrize("of", ["Rules", "Endpoints"])
def test_a_bad_record_is_tried_three_times_alone_and_kept_for_a_person(
    shared: Stack, of: str
) -> None:
    mappings = shared.of("AWS::Lambda::EventSourceMapping").values()
    assert len(mappings) == 2
    [properties] = [
        mapping["Properties"]
        for mapping in mappings
        if filled(mapping["Properties"]["EventSourceArn"]).startswith(f"<Storage{of}")
    ]
    assert filled(properties["EventSourceArn"]).endswith(".StreamArn>")
    assert properties["StartingPosition"] == "TRIM_HORIZON"
    assert properties["BatchSize"] == 10
    assert properties["MaximumRetryAttempts"] == 2
    assert properties["BisectBatchOnFunctionError"] is True
    assert properties["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    [(queue, failures)] = shared.of("AWS::SQS::Queue").items()
    destination = properties["DestinationConfig"]["OnFailure"]["Destination"]
    assert filled(destination) == f"<{queue}.Arn>"
    assert failures["Properties"]["QueueName"] == "deadletter-check-rules-failures"
    assert failures["Properties"]["RedriveAllowPolicy"] == {"redrivePermission": "denyAll"}


def test_the_history_ends_after_its_days(shared: Stack, app: Synthesis) -> None:
    ends = table(shared, "StorageAudit")["TimeToLiveSpecification"]
    assert ends == {"AttributeName": "ttl", "Enabled": True}
    assert app.environment("deadletter-check-rules")["AUDIT_DAYS"] == "400"


def test_the_checker_is_told_where_rules_history_and_terms_are(app: Synthesis) -> None:
    told = app.environment("deadletter-check-rules")
    assert set(told) == {
        *("APP", "RULES_TABLE", "MESSAGES_TABLE", "AUDIT_TABLE", "AUDIT_DAYS", "REGISTRATIONS")
    }
    resources = resources_from_environment(told)
    assert resources.rules_table == "deadletter-rules"
    assert resources.audit_table == "deadletter-audit"
    assert (resources.audit_days, resources.registrations) == (400, "/deadletter/pipelines")


def test_a_registration_may_grow_beyond_a_standard_parameter(app: Synthesis) -> None:
    stack = app["Deadletter-Orders"]
    [parameter] = stack.of("AWS::SSM::Parameter").values()
    assert parameter["Properties"]["Tier"] == "Intelligent-Tiering"


def test_a_customers_key_encrypts_what_the_checker_writes(sandboxed: Synthesis) -> None:
    stack = sandboxed["Mail-Shared"]
    made = stack.named("AWS::Lambda::Function", "FunctionName", "mail-check-rules")
    role = stack.resources[made["Role"]["Fn::GetAtt"][0]]
    [use] = [statement for statement in statements(role) if statement.get("Sid") == "Key"]
    assert set(use["Action"]) == KEY_TO_WRITE
    via = listed(use["Condition"]["StringEquals"]["kms:ViaService"])
    assert [filled(item).partition(".")[0] for item in via] == ["dynamodb", "sqs"]
