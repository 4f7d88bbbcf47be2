"""What `dlq doctor --account` says of a deployment is what the templates make."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from moto import mock_aws
from typer.testing import CliRunner

from console.cli.exit import Exit
from console.cli.main import app as app_of_dlq
from console.operations.account import ACTIONS, ENDPOINTS, MADE, examined, planned
from console.operations.aws import Aws
from console.operations.deadline import Asking, Deadline, side_by_side
from console.operations.errors import Problem
from tests.each_row import each_row
from tests.infra.conftest import ROOT
from tests.infra.templates import Stack, Synthesis

REGION, ACCOUNT = "eu-west-1", "123456789012"  # moto's

TYPES = {
    "Roles": {"AWS::IAM::Role"},
    "Policies": {"AWS::IAM::ManagedPolicy"},
    "alarms": {"AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"},
    "state machines": {"AWS::StepFunctions::StateMachine"},
}
SERVICES = {"stepfunctions": "states"}


def counts(*stacks: Stack) -> dict[str, int]:
    kinds = Counter(each["Type"] for stack in stacks for each in stack.resources.values())
    return {kind: sum(kinds[type_] for type_ in types) for kind, types in TYPES.items()}


def test_so_many_of_each_kind_are_made_for_the_app_and_for_a_pipeline(app: Synthesis) -> None:
    shared = counts(app["Deadletter-Shared"])
    pipelines = [
        counts(stack, app[f"{name}-Queues"])
        for name, stack in app.stacks.items()
        if f"{name}-Queues" in app.stacks
    ]
    most = {kind: max(each[kind] for each in pipelines) for kind in TYPES}
    assert {kind: (shared[kind], most[kind]) for kind in TYPES} == MADE


def test_the_role_is_asked_for_an_action_of_each_service(
    app: Synthesis, sandboxed: Synthesis
) -> None:
    made = {
        type_.split("::")[1].lower()
        for synthesis in (app, sandboxed)
        for stack in synthesis.stacks.values()
        for type_ in (each["Type"] for each in stack.resources.values())
        if type_.startswith("AWS::")
    }
    asked = {action.partition(":")[0] for action in ACTIONS}
    assert {SERVICES.get(service, service) for service in made} <= asked


def test_the_endpoints_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    table = page.partition("| endpoint | for |")[2].partition("\n\n")[0]
    assert all(f"`{service}`" in table for service in ENDPOINTS)


ONE: Mapping[str, Any] = {"pipelines": [{}]}


class Answers:
    """What an account answers of Lambda and IAM, which moto does not know."""

    def __init__(self, limit: int = 1000, free: int = 1000, roles: int = 10, may: str = "allowed"):
        self._limit, self._free, self._roles, self._may = limit, free, roles, may

    def get_account_settings(self) -> Mapping[str, Any]:
        limits = {
            "ConcurrentExecutions": self._limit,
            "UnreservedConcurrentExecutions": self._free,
        }
        return {"AccountLimit": limits}

    def get_account_summary(self) -> Mapping[str, Any]:
        counts = {"Roles": self._roles, "RolesQuota": 1000, "Policies": 0, "PoliciesQuota": 1500}
        return {"SummaryMap": counts}

    def get_paginator(self, operation: str) -> Answers:
        assert operation == "simulate_principal_policy"
        return self

    def paginate(self, *, PolicySourceArn: str, ActionNames: list[str]) -> list[Any]:  # noqa: N803
        assert PolicySourceArn.endswith(f"/cdk-hnb659fds-cfn-exec-role-{ACCOUNT}-{REGION}")
        results = [
            {"EvalActionName": action, "EvalDecision": self._may if "iam:" in action else "allowed"}
            for action in ActionNames
        ]
        return [{"EvaluationResults": results}]


class Silent(Answers):
    """It refuses to say anything."""

    def get_account_settings(self) -> Mapping[str, Any]:
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetAccountSettings")

    def get_account_summary(self) -> Mapping[str, Any]:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "GetAccountSummary")

    def paginate(self, **_: Any) -> list[Any]:
        raise ClientError({"Error": {"Code": "NoSuchEntity"}}, "SimulatePrincipalPolicy")


@pytest.fixture(autouse=True)
def _account() -> Iterator[None]:
    with mock_aws():
        yield


@cache
def client(name: Any) -> Any:
    """Making one takes longer than a test; moto hooks into all that exist."""
    return boto3.client(name, REGION)


def bootstrap(version: int = 21) -> None:
    client("ssm").put_parameter(
        Name="/cdk-bootstrap/hnb659fds/version", Value=str(version), Type="String", Overwrite=True
    )


def found(
    answers: Answers | None = None, context: Mapping[str, Any] = ONE
) -> tuple[dict[str, str], list[str]]:
    """What is wrong, by the names of checks, and what could not be looked at."""
    said = answers or Answers()
    names = ("cloudwatch", "stepfunctions", "ssm", "ec2", "kms")
    clients = {name: client(name) for name in names}
    where = {"account": ACCOUNT, "region": REGION, "caller": "arn:aws:iam::1:user/ann"}
    aws = SimpleNamespace(iam=said, functions=said, **clients, **where)
    with side_by_side(Deadline(60)) as start:
        ask = Asking(start)
        faults = examined(cast(Aws, aws), ask, context)
    told = {fault.check: f"{fault.level} {fault.says} {fault.fix or ''}" for fault in faults}
    return told, [what for what, _ in ask.lost]


def test_an_account_with_all_of_it_is_told_that_monitors_may_keep_an_execution() -> None:
    bootstrap()
    faults, lost = found()
    assert (list(faults), lost) == (["reserves"], [])


def test_a_new_account_is_told_what_a_deployment_lacks() -> None:
    faults, _ = found(Answers(limit=10, free=10, roles=996, may="implicitDeny"))
    assert "npx cdk bootstrap aws://123456789012/eu-west-1" in faults["bootstrap"]
    assert "10 are not reserved; one pipeline takes up to 15" in faults["few-executions"]
    assert "--desired-value 1000" in faults["few-executions"]
    assert "leave `reserve_watch` false" in faults["reserves-none"]
    assert faults["quota"].startswith("ERROR it has 996 roles, and a deployment makes 8 more")
    assert "iam:CreatePolicy, iam:CreateRole, iam:PassRole, by its policies" in faults["deployer"]
    assert faults["deployer"].startswith("WARNING")
    refused, _ = found(Answers(may="explicitDeny"))
    assert refused["deployer"].startswith("ERROR")
    assert faults.keys() == {
        *("bootstrap", "deployer", "few-executions", "quota", "reserves-none"),
    }


@each_row(("free", "check"), [(102, "reserves"), (101, "reserves-none")])
def test_as_many_executions_as_lambda_keeps_are_left(free: int, check: str) -> None:
    bootstrap()
    assert list(found(Answers(free=free), {"pipelines": [{}, {}]})[0]) == [check]


def test_an_old_bootstrap_is_no_bootstrap() -> None:
    bootstrap(5)
    assert "has version 5 here" in found()[0]["bootstrap"]


def test_what_is_not_answered_is_named_and_never_well() -> None:
    bootstrap()
    faults, lost = found(Silent(), {"pipelines": [{}], "kms_key_arn": "arn:aws:kms:::key/gone"})
    assert faults == {}
    assert [what.partition(" cdk-")[0] for what in lost] == [
        *("how many functions may run at once", "roles and policies", "what"),
        "key arn:aws:kms:::key/gone",
    ]


def test_pipelines_beyond_a_quota_are_an_error_and_beyond_a_default_one_a_warning() -> None:
    bootstrap()
    faults, _ = found(context={"pipelines": [{}] * 600})
    assert faults["quota"].startswith("WARNING it has 0 alarms, and a deployment makes 5402 more")


def subnet(*endpoints: str, nat: bool = False) -> str:
    """A subnet in a VPC of its own."""
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    made = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    for service in endpoints:
        ec2.create_vpc_endpoint(VpcId=vpc, ServiceName=f"com.amazonaws.{REGION}.{service}")
    if nat:
        gateway = ec2.create_nat_gateway(SubnetId=made)["NatGateway"]["NatGatewayId"]
        table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
        ec2.associate_route_table(RouteTableId=table, SubnetId=made)
        ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=gateway)
    return str(made)


def test_a_subnet_has_a_way_out_or_an_endpoint_of_each_service() -> None:
    bootstrap()
    for well in (subnet(nat=True), subnet(*ENDPOINTS)):
        assert "no-way-out" not in found(context={**ONE, "vpc": {"subnet_ids": [well]}})[0]
    ill = subnet(*(service for service in ENDPOINTS if service != "sqs"))
    for ids, lacks in (([ill], "no endpoint of sqs:"), (["subnet-gone"], "dynamodb, events")):
        assert lacks in found(context={**ONE, "vpc": {"subnet_ids": ids}})[0]["no-way-out"]


def test_a_key_that_logs_may_not_use_fails_the_deployment() -> None:
    bootstrap()
    key = client("kms").create_key()["KeyMetadata"]["Arn"]
    faults, _ = found(context={**ONE, "kms_key_arn": key})
    assert {"logs-key", "pager-key"} <= faults.keys()


UNKNOWN_TO_MOTO = {"GetAccountSettings", "GetAccountSummary", "SimulatePrincipalPolicy"}


def test_dlq_says_what_is_lacking_and_what_it_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    clients: Any = BaseClient
    real = clients._make_api_call

    def call(client: Any, operation: str, members: dict[str, Any]) -> Any:
        if operation in UNKNOWN_TO_MOTO:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, operation)
        return real(client, operation, members)

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    monkeypatch.chdir(ROOT)
    typed = ["--region", REGION, "doctor", "--account"]
    done = CliRunner().invoke(app_of_dlq, typed, prog_name="dlq")
    assert f"Before a deployment of 1 pipeline in account {ACCOUNT}, {REGION}" in done.stdout
    assert f"ERROR bootstrap: {ACCOUNT}" in done.stdout
    assert "NOT CHECKED roles and policies: AWS refuses GetAccountSummary" in done.stdout
    assert done.exit_code == Exit.ATTENTION
    answer = json.loads(CliRunner().invoke(app_of_dlq, [*typed, "--json"]).stdout)
    assert [fault["check"] for fault in answer["findings"]] == ["bootstrap"]
    assert (answer["pipelines"], len(answer["unchecked"])) == (1, 3)


def test_what_is_to_be_deployed_is_read_from_cdk_json(tmp_path: Path) -> None:
    file = tmp_path / "cdk.json"
    assert planned(file) == ONE
    file.write_text(json.dumps({"context": {"app": "shop", "pipelines": [{}, {}]}}))
    assert planned(file) == {"app": "shop", "pipelines": [{}, {}]}
    for text in ("{", "[]", '{"context": {"pipelines": 3}}', '{"context": []}'):
        file.write_text(text)
        with pytest.raises(Problem, match="repair it first"):
            planned(file)
