"""What a scanner finds that stays as it is, and why."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct


def acknowledge(construct: IConstruct, *rules: str, because: str) -> None:
    """Say why `construct` and what is below it break these rules of cdk-nag, by their full ids."""
    cdk.Validations.of(construct).acknowledge(
        *(cdk.Acknowledgment(id=rule, reason=because) for rule in rules)
    )
