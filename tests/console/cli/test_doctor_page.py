"""`dlq doctor --send-page`: a test page goes where alarms would, or to nobody, and that is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from console.cli.exit import Exit
from console.operations import aws
from console.operations.key_policy import key_uses
from tests.console.conftest import ACCOUNT, REGION, Cloud, Dlq

TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:deadletter-alarms"


@pytest.fixture
def sns(cloud: Cloud) -> Iterator[Stubber]:
    """SNS that takes the calls of a test, in their order, and no other."""
    cloud.deploy("orders")
    cloud.redeploy("app", alarm_topic=TOPIC)
    with Stubber(aws.connect(None, REGION).sns) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def subscribed(sns: Stubber, confirmed: int, pending: int = 0) -> None:
    """Subscriptions on two pages, as SNS lists them."""
    every = [f"{TOPIC}:{number}" for number in range(confirmed)]
    every += ["PendingConfirmation"] * pending
    listed = [{"SubscriptionArn": arn, "Protocol": "email"} for arn in every]
    first = {"Subscriptions": listed[:1], "NextToken": "more"}
    sns.add_response("list_subscriptions_by_topic", first, {"TopicArn": TOPIC})
    rest = {"TopicArn": TOPIC, "NextToken": "more"}
    sns.add_response("list_subscriptions_by_topic", {"Subscriptions": listed[1:]}, rest)


class _Page:
    """Equals a page that says in its first words that it is a test, and names the app."""

    def __eq__(self, message: object) -> bool:
        page = json.loads(str(message))
        assert page["AlarmName"] == "deadletter-TEST"
        assert page["AlarmDescription"].startswith("TEST of the pager: nothing is wrong")
        assert page["AWSAccountId"] == ACCOUNT
        # What reads alarms must not open an incident for it.
        assert page["NewStateValue"] not in ("ALARM", "OK", "INSUFFICIENT_DATA")
        return True

    __hash__ = None  # type: ignore[assignment]


def publishes(sns: Stubber) -> None:
    subject = "TEST of the pager: nothing is wrong"
    request: dict[str, Any] = {"TopicArn": TOPIC, "Subject": subject, "Message": _Page()}
    sns.add_response("publish", {"MessageId": "m-1"}, request)


def under(sns: Stubber, key: str | None = None) -> None:
    """The topic is under a key, or under none."""
    attributes = {"TopicArn": TOPIC, **({"KmsMasterKeyId": key} if key else {})}
    sns.add_response("get_topic_attributes", {"Attributes": attributes}, {"TopicArn": TOPIC})


def paged(sns: Stubber, key: str | None = None) -> None:
    """A page goes to two that have subscribed to a topic under this key."""
    subscribed(sns, 2)
    under(sns, key)
    publishes(sns)


def test_a_page_that_says_that_it_is_a_test_goes_to_those_who_have_subscribed(
    sns: Stubber, dlq: Dlq, cloud: Cloud
) -> None:
    paged(sns)
    says = ("a test page is on its way to 2 subscriptions.", "SNS does not say whether it did")
    dlq("doctor --send-page", ends=Exit.DONE, says=says)
    rows = cloud.dynamodb.scan(TableName="audit")["Items"]
    begun = [row for row in rows if "command" in row]
    [row] = [(row["command"]["S"], row["why"]["S"]) for row in begun]
    assert row == ("doctor", "to see whether pages arrive")


def test_where_nobody_has_subscribed_nothing_is_published_and_the_exit_status_is_1(
    sns: Stubber, dlq: Dlq, cloud: Cloud
) -> None:
    subscribed(sns, 0, pending=1)
    under(sns)
    done = dlq("doctor --send-page --json", ends=Exit.ATTENTION)
    answer = json.loads(done.stdout)["page"]
    assert (answer["message_id"], answer["subscriptions"], answer["pending"]) == (None, 0, 1)
    nobody, waiting = answer["notes"]
    assert nobody.startswith("No one gets pages")
    assert f"aws sns subscribe --topic-arn {TOPIC}" in nobody
    assert waiting.startswith("1 subscription not confirmed yet")
    assert cloud.dynamodb.scan(TableName="audit")["Count"] == 0


def test_a_page_goes_out_although_sns_does_not_say_who_has_subscribed(
    sns: Stubber, dlq: Dlq
) -> None:
    sns.add_client_error("list_subscriptions_by_topic", "AuthorizationError", "not allowed", 403)
    under(sns)
    publishes(sns)
    done = dlq("doctor --send-page", ends=Exit.DONE)
    assert "on its way to an unknown number of subscriptions" in done.stdout
    assert "How many have subscribed to the topic is not known" in done.stdout


HOME = {"partition": "aws", "region": REGION, "account": ACCOUNT}
STATEMENT = key_uses("deadletter", **HOME)["cloudwatch"].statement
OWNER = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
DECIDES = {"Effect": "Allow", "Principal": OWNER, "Action": "kms:*", "Resource": "*"}


def key(*statements: object) -> str:
    policy = json.dumps({"Version": "2012-10-17", "Statement": [DECIDES, *statements]})
    made = boto3.client("kms", REGION).create_key(Policy=policy)
    return str(made["KeyMetadata"]["Arn"])


def test_a_page_that_arrives_does_not_hide_that_alarms_reach_no_one(
    sns: Stubber, dlq: Dlq, cloud: Cloud
) -> None:
    """Who publishes may use the key by IAM; CloudWatch has to stand in its policy."""
    closed = key()
    paged(sns, closed)
    says = (
        "a test page is on its way to 2 subscriptions.", "No alarm gets as far as the topic.",
        "does not let cloudwatch.amazonaws.com use it (kms:Decrypt, kms:GenerateDataKey)",
        f"aws kms put-key-policy --key-id {closed}",
    )  # fmt: skip
    dlq("doctor --send-page", ends=Exit.ATTENTION, says=says)


@pytest.mark.parametrize("arrive", [True, False])
def test_alarms_arrive_under_a_key_that_cloudwatch_may_use_and_not_under_that_of_aws(
    sns: Stubber, dlq: Dlq, arrive: bool
) -> None:
    paged(sns, key(STATEMENT) if arrive else "alias/aws/sns")
    done = dlq("doctor --send-page --json", ends=Exit.DONE if arrive else Exit.ATTENTION)
    assert json.loads(done.stdout)["page"]["alarms_arrive"] is arrive


def test_a_key_that_may_not_be_read_leaves_it_open_and_says_so(sns: Stubber, dlq: Dlq) -> None:
    subscribed(sns, 2)
    sns.add_client_error("get_topic_attributes", "AuthorizationError", "not allowed", 403)
    publishes(sns)
    done = dlq("doctor --send-page --json", ends=Exit.DONE)
    answer = json.loads(done.stdout)["page"]
    assert answer["alarms_arrive"] is None
    assert "Whether alarms reach the topic is not known" in answer["notes"][0]
