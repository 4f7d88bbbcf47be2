"""Where the app is deployed: tokens that CloudFormation fills in."""

from __future__ import annotations

import aws_cdk as cdk

# Asked of the CDK once: a hundred pipelines name the account in twenty thousand places.
ACCOUNT_ID = cdk.Aws.ACCOUNT_ID
PARTITION = cdk.Aws.PARTITION
REGION = cdk.Aws.REGION
URL_SUFFIX = cdk.Aws.URL_SUFFIX


def in_findings(arn: str) -> str:
    """An ARN as cdk-nag writes it."""
    for token, name in (
        (PARTITION, "<AWS::Partition>"),
        (REGION, "<AWS::Region>"),
        (ACCOUNT_ID, "<AWS::AccountId>"),
    ):
        arn = arn.replace(token, name)
    return arn
