"""A small app with a finding for each scanner."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs


def plant(app: cdk.App) -> None:
    """A queue without encryption, a policy that allows everything, an unknown property."""
    stack = cdk.Stack(app, "Planted")
    queue = sqs.CfnQueue(stack, "Bare", sqs_managed_sse_enabled=False)
    queue.add_property_override("VisibilityTimeoutInHours", 1)
    iam.CfnManagedPolicy(
        stack,
        "Anything",
        policy_document={
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": "sqs:*", "Resource": "*"},
                {"Effect": "Allow", "Action": "sqs:RecieveMessage", "Resource": queue.attr_arn},
                {"Effect": "Allow", "Action": "s3:GetObject", "Resource": queue.attr_arn},
            ],
        },
    )
    # In a policy of its own: after an unknown action, parliament's community auditors stop.
    iam.CfnManagedPolicy(
        stack,
        "Grantor",
        policy_document={
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Action": "iam:AttachRolePolicy",
                    "Resource": f"arn:aws:iam::{stack.account}:role/any",
                }
            ],
        },
    )
    lambda_.CfnFunction(
        stack,
        "Old",
        code={"zipFile": "pass"},
        handler="index.handler",
        role=f"arn:aws:iam::{stack.account}:role/any",
        runtime="python3.8",
    )
