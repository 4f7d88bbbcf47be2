"""Findings of cdk-nag that are accepted, with the reason."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct


def acknowledge(construct: IConstruct, *rules: str, because: str) -> None:
    """Accept findings of these rules of cdk-nag, by full id, in `construct` and below it."""
    cdk.Validations.of(construct).acknowledge(
        *(cdk.Acknowledgment(id=rule, reason=because) for rule in rules)
    )
