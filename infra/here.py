"""Where the app is deployed: tokens that CloudFormation fills in."""

from __future__ import annotations

import aws_cdk as cdk

# Asked of the CDK once: a hundred pipelines name the account in twenty thousand places.
ACCOUNT_ID = cdk.Aws.ACCOUNT_ID
PARTITION = cdk.Aws.PARTITION
REGION = cdk.Aws.REGION
URL_SUFFIX = cdk.Aws.URL_SUFFIX


def arn(service: str, resource: str) -> str:
    """The ARN of a resource in the account and region of the deployment."""
    return f"arn:{PARTITION}:{service}:{REGION}:{ACCOUNT_ID}:{resource}"
