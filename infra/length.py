"""Lengths of time, as the CDK takes them."""

from __future__ import annotations

from functools import cache

import aws_cdk as cdk


@cache
def seconds(length: int) -> cdk.Duration:
    """So many seconds; each length is asked of the CDK once."""
    return cdk.Duration.seconds(length)
