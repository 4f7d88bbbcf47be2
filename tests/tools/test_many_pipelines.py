"""A hundred pipelines fit into an account, and into half a minute of CPU time."""

from __future__ import annotations

import pytest

from tools.many_pipelines import lines, measure


@pytest.mark.nightly
def test_a_hundred_pipelines_are_synthesized_in_half_a_minute() -> None:
    footprint = measure(100)
    assert footprint.types["AWS::IAM::Role"] <= 5 * 100 + 3
    assert footprint.types["AWS::IAM::ManagedPolicy"] <= 8
    # CloudFormation's limit for a stack is 500.
    assert footprint.largest < 100
    assert footprint.seconds <= 30, lines(footprint)
