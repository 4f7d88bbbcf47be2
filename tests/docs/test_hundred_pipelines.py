"""A hundred pipelines fit into an account, and take a dozen times the synthesis of one."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PIPELINES = 100

# Of a new account; it may have 1,000 roles.
FUNCTIONS_AT_ONCE = 10

# Seconds of a run with nothing to do; assumed, with room.
RUN = 2


# What one pipeline takes is mostly the CDK's own start.
TIMES_ONE = 12


def synthesize(pipelines: int, to: Path) -> float:
    """Synthesize an app of so many pipelines; the seconds of CPU that it took."""
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    [pipeline] = context["pipelines"]
    many = [{**pipeline, "name": f"p{number}"} for number in range(pipelines)]
    # No zip is made: that is the same for one pipeline.
    context |= {"dashboard": False, "pipelines": many, "aws:cdk:bundling-stacks": []}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, str(ROOT / "app.py")],
        env={
            **os.environ,
            "CDK_CONTEXT_JSON": json.dumps(context),
            "CDK_OUTDIR": str(to),
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'lambdas'}",
        },
        check=True,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.nightly
def test_a_hundred_pipelines_fit_into_an_account(tmp_path: Path) -> None:
    one = synthesize(1, tmp_path / "one")
    hundred = tmp_path / "hundred"
    assert synthesize(PIPELINES, hundred) <= TIMES_ONE * one

    stacks = [
        [*json.loads(file.read_text())["Resources"].values()]
        for file in hundred.glob("*.template.json")
    ]
    # CloudFormation's limit for a stack is 500.
    assert max(map(len, stacks)) < 100
    resources = [each for stack in stacks for each in stack]
    types = Counter(each["Type"] for each in resources)
    assert types["AWS::IAM::Role"] <= 5 * PIPELINES + 3
    assert types["AWS::IAM::ManagedPolicy"] <= 8

    # A schedule by rate begins when it is created, so the starts lie all over the minute.
    rates = [
        re.fullmatch(r"rate\((\d+) minutes?\)", each["Properties"]["ScheduleExpression"])
        for each in resources
        if each["Type"] == "AWS::Scheduler::Schedule" and each["Properties"]["State"] == "ENABLED"
    ]
    starts = sum(1 / int(rate[1]) for rate in rates if rate)
    assert len(rates) == len([rate for rate in rates if rate])
    assert 0 < starts * RUN / 60 <= FUNCTIONS_AT_ONCE
