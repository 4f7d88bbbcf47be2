"""A first deployment fails half-way, and what docs/operate.md types repairs it.

CloudFormation takes back what it made, but for the tables, which are protected from deletion.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.server import ROOT, Sandbox
from tests.e2e.receiver import Receiver
from tests.operate.procedures import read, stands_in
from tests.operate.team import ORDERS, PlatformTeam
from tests.operate.test_operate import heals, register, type_fence
from tests.operate.test_what_stayed import KEY

pytestmark = [pytest.mark.sandbox, pytest.mark.nightly]

REPAIR = "Repair a failed first deployment"
SHARED = "Deadletter-Shared"
TABLES = {f"deadletter-{name}" for name in ("messages", "rules", "audit", "circuits", "endpoints")}

# A name that the app needs and that is taken: CloudFormation comes to it after the other tables.
TAKEN = "deadletter-rules"

ROW = {"pk": {"S": "orders#note"}, "sk": {"S": "kept"}, "text": {"S": "written while it failed"}}


@pytest.fixture
def team(tmp_path: Path) -> Iterator[PlatformTeam]:
    """A team whose first deployment has failed; the cause is mended, and a table holds a row."""
    with Sandbox(ROOT / "build" / "first-deployment") as sandbox, Receiver() as receiver:
        team = PlatformTeam(sandbox, tmp_path, receiver)
        team.change(pipelines=[ORDERS])
        assert team.type("npx cdk bootstrap").status == 0
        tables = sandbox.client("dynamodb")
        tables.create_table(TableName=TAKEN, **KEY)
        failed = team.type("npx cdk deploy --all")
        assert failed.status != 0
        assert stack(team)["StackStatus"] == "ROLLBACK_COMPLETE", failed.output
        tables.delete_table(TableName=TAKEN)
        tables.put_item(TableName="deadletter-messages", Item=ROW)
        yield team


def stack(team: PlatformTeam) -> dict[str, Any]:
    answer = team.sandbox.client("cloudformation").describe_stacks(StackName=SHARED)
    found: dict[str, Any] = answer["Stacks"][0]
    return found


def deploys(team: PlatformTeam, script: str) -> str:
    typed = team.type(script)
    assert typed.status == 0, typed.output
    return typed.output


def is_whole(team: PlatformTeam) -> None:
    """All is deployed and protected, the tables are the stack's, and the row is there."""
    client = team.sandbox.client("cloudformation")
    assert stack(team)["EnableTerminationProtection"]
    pages = client.get_paginator("list_stack_resources").paginate(StackName=SHARED)
    owned = {
        resource["PhysicalResourceId"]
        for page in pages
        for resource in page["StackResourceSummaries"]
        if resource["ResourceType"] == "AWS::DynamoDB::Table"
    }
    assert owned == TABLES
    tables = team.sandbox.client("dynamodb")
    key = {name: ROW[name] for name in ("pk", "sk")}
    assert tables.get_item(TableName="deadletter-messages", Key=key)["Item"] == ROW
    for table in TABLES:
        assert tables.describe_table(TableName=table)["Table"]["DeletionProtectionEnabled"]
    register(team)
    heals(team)


def delete_by_hand(team: PlatformTeam) -> None:
    client = team.sandbox.client("cloudformation")
    client.update_termination_protection(StackName=SHARED, EnableTerminationProtection=False)
    client.delete_stack(StackName=SHARED)
    client.get_waiter("stack_delete_complete").wait(StackName=SHARED)


def symptoms() -> list[str]:
    """What the page says that one sees."""
    page = (ROOT / "docs" / "operate.md").read_text()
    section = page.partition(f"## {REPAIR}\n")[2].partition("\n## ")[0]
    return section.split("```\n")[1].splitlines()


def test_one_command_repairs_a_first_deployment_that_failed(team: PlatformTeam) -> None:
    protected, exists, _ = symptoms()
    assert stack(team)["StackStatus"] == "ROLLBACK_COMPLETE"
    assert stack(team)["EnableTerminationProtection"]
    left = TABLES - {TAKEN}
    assert team.left() & TABLES == left
    # What a person sees who only tries again, and then who deletes the stack.
    again = team.type("npx cdk deploy --all")
    assert again.status != 0
    assert stands_in(protected.replace(SHARED, f"…{SHARED}…"), again.output), again.output
    delete_by_hand(team)
    again = team.type("npx cdk deploy --all")
    assert again.status != 0
    assert "already exists" in again.output, again.output
    assert "already exists" in exists
    assert stack(team)["StackStatus"] == "ROLLBACK_COMPLETE"

    # Looking changes nothing.
    before = team.left()
    shown = deploys(team, "python -m tools.retained")
    assert all(table in shown for table in left)
    assert stack(team)["StackStatus"] == "ROLLBACK_COMPLETE"
    assert team.left() == before

    [fence] = read()[REPAIR]
    type_fence(team, fence)
    is_whole(team)


def test_with_the_stack_gone_the_cdk_takes_the_tables_over_by_itself(team: PlatformTeam) -> None:
    """As docs/operate.md says of a CDK app of one's own."""
    delete_by_hand(team)
    command = "cdk deploy --all --import-existing-resources"
    assert f"`{command}`" in (ROOT / "docs" / "operate.md").read_text()
    deploys(team, f"npx {command}")
    is_whole(team)
