"""The `aws` that the page is typed with reads what the AWS CLI reads, and refuses the rest."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from tests.operate.aws_cli import as_text, values


def request(operation: str, *words: str, service: str = "dynamodb") -> dict[str, Any]:
    """The request to a service that these options make."""
    client = boto3.client(service, region_name="us-east-1")  # type: ignore[call-overload]  # any
    return values(words, client.meta.service_model, operation)[0]


def test_options_are_those_of_the_operation() -> None:
    assert request("UpdateTable", "--table-name", "t", "--no-deletion-protection-enabled") == {
        "TableName": "t",
        "DeletionProtectionEnabled": False,
    }
    short = "Enabled=true,AttributeName=ttl"
    assert request("UpdateTimeToLive", "--time-to-live-specification", short) == {
        "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "ttl"}
    }


def test_a_map_is_written_as_a_structure_is() -> None:
    words = ("--queue-url", "u", "--attributes", "MessageRetentionPeriod=1209600")
    assert request("SetQueueAttributes", *words, service="sqs") == {
        "QueueUrl": "u",
        "Attributes": {"MessageRetentionPeriod": "1209600"},
    }


def test_a_mistyped_option_is_refused() -> None:
    with pytest.raises(SystemExit, match="UpdateTable has no option --table-nam"):
        request("UpdateTable", "--table-nam", "t")


def test_text_is_printed_as_the_aws_cli_does() -> None:
    assert as_text([["Modify", "False"], ["Add", "None"]]) == "Modify\tFalse\nAdd\tNone"
    assert as_text("arn:aws:sns") == "arn:aws:sns"
