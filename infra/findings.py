"""Findings of cdk-nag that are accepted, with the reason."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct

from . import here


def acknowledge(construct: IConstruct, *rules: str, because: str) -> None:
    """Accept findings of these rules of cdk-nag, by full id, in `construct` and below it."""
    cdk.Validations.of(construct).acknowledge(
        *(cdk.Acknowledgment(id=rule, reason=because) for rule in rules)
    )


def acknowledge_patterns(construct: IConstruct, *arns: str, because: str) -> None:
    """Accept that roles in `construct` name these patterns of ARNs, and no single resources."""
    rules = (f"AwsSolutions::AwsSolutions-IAM5[Resource::{_in_findings(arn)}]" for arn in arns)
    acknowledge(construct, *rules, because=because)


def _in_findings(arn: str) -> str:
    """An ARN as cdk-nag writes it."""
    for token, name in (
        (here.PARTITION, "<AWS::Partition>"),
        (here.REGION, "<AWS::Region>"),
        (here.ACCOUNT_ID, "<AWS::AccountId>"),
    ):
        arn = arn.replace(token, name)
    return arn
