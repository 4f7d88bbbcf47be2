"""Findings of cdk-nag that are accepted, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from constructs import IConstruct


def acknowledge(construct: IConstruct, *rules: str, because: str) -> None:
    """Accept findings of these rules of cdk-nag, by full id, in `construct` and below it."""
    cdk.Validations.of(construct).acknowledge(
        *(cdk.Acknowledgment(id=rule, reason=because) for rule in rules)
    )


def acknowledge_each(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Accept findings, each rule with a reason of its own, in `construct` and below it."""
    cdk.Validations.of(construct).acknowledge(
        *(cdk.Acknowledgment(id=rule, reason=reason) for rule, reason in reasons.items())
    )
