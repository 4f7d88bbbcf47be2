"""Queues that other services than SQS use as their DLQ.

Lambda, SNS and EventBridge have DLQs of their own kinds: what lies there was never in a main queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_sns import SNSClient

MOST = 200
"""Functions, subscriptions and rules that are asked: each takes a call."""


def function_uses(functions: LambdaClient, arn: str) -> Sequence[str]:
    """The functions that send failed asynchronous invocations to the queue, in words."""
    return list(_function_uses(functions, arn))


def _function_uses(functions: LambdaClient, arn: str) -> Iterator[str]:
    pages = functions.get_paginator("list_functions").paginate()
    rows = (row for page in pages for row in page["Functions"])
    for row in islice(rows, MOST):
        name = row["FunctionName"]
        if row.get("DeadLetterConfig", {}).get("TargetArn") == arn:
            yield f"the DLQ of asynchronous invocations of Lambda function {name}"
        answer = functions.list_function_event_invoke_configs(FunctionName=name)
        for config in answer.get("FunctionEventInvokeConfigs", ()):
            destination = config.get("DestinationConfig", {}).get("OnFailure", {})
            if destination.get("Destination") == arn:
                yield f"the on-failure destination of Lambda function {name}"


def subscription_uses(sns: SNSClient, arn: str) -> Sequence[str]:
    """The SNS subscriptions whose undelivered notifications go to the queue, in words."""
    pages = sns.get_paginator("list_subscriptions").paginate()
    rows = (row for page in pages for row in page["Subscriptions"])
    found = []
    for row in islice(rows, MOST):
        subscription = row.get("SubscriptionArn", "")
        if not subscription.startswith("arn:"):
            # It waits for its confirmation.
            continue
        answer = sns.get_subscription_attributes(SubscriptionArn=subscription)
        policy = json.loads(answer["Attributes"].get("RedrivePolicy") or "{}")
        if policy.get("deadLetterTargetArn") == arn:
            topic = row["TopicArn"].rpartition(":")[2]
            found.append(f"the DLQ of a subscription of SNS topic {topic}")
    return found


def rule_uses(events: EventBridgeClient, arn: str) -> Sequence[str]:
    """The targets of EventBridge rules whose undelivered events go to the queue, in words."""
    pages = events.get_paginator("list_rules").paginate()
    names = (rule["Name"] for page in pages for rule in page["Rules"])
    return [
        f"the DLQ of target {target['Id']} of EventBridge rule {name}"
        for name in islice(names, MOST)
        for target in events.list_targets_by_rule(Rule=name)["Targets"]
        if target.get("DeadLetterConfig", {}).get("Arn") == arn
    ]
