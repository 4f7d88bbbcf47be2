"""A function of yours becomes a pipeline's consumer, wherever it and its role are made.

One synthesis has all cases, on bare stacks, each night; what a whole pipeline adds is shown by the
examples. test_construct has the commonest case every time: a function beside the pipeline.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from infra.consumer_access import ConsumerAccess
from infra.permissions import Permissions
from infra.refusal import Refused
from infra.settings import AppDeployment, PipelineDeployment
from tests.infra.circles import circle, resource_graph
from tests.infra.conftest import ARN, typed
from tests.infra.templates import Synthesis, filled, read

ORDERS = typed(consumer="none", consumer_library=True)
FUNCTION = ARN.format("lambda", "function:theirs")
ROLE = "arn:aws:iam::111122223333:role/teams/theirs"
QUEUE = "arn:aws:sqs:eu-west-1:111122223333:deadletter-orders-main"


def function(scope: cdk.Stack, name: str, role: iam.IRole | None = None) -> lambda_.Function:
    """A function of a team, with a mapping from the main queue that knows its name only."""
    made = lambda_.Function(
        scope,
        name,
        runtime=lambda_.Runtime.PYTHON_3_13,
        handler="index.handler",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
        role=role,
    )
    made.add_event_source_mapping("Orders", event_source_arn=QUEUE, report_batch_item_failures=True)
    return made


def role(scope: cdk.Stack, name: str) -> iam.Role:
    return iam.Role(scope, name, assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))


def grant(
    scope: cdk.Stack,
    name: str,
    consumer: lambda_.IFunction,
    *,
    settings: PipelineDeployment = ORDERS,
    role_id: str | None = None,
) -> ConsumerAccess:
    permissions = Permissions()
    permissions.allow("Main", ["sqs:ReceiveMessage"], [QUEUE])
    return ConsumerAccess(
        scope,
        name,
        function=consumer,
        settings=settings,
        app=AppDeployment(),
        permissions=permissions,
        role_id=role_id,
    )


class Cases:
    """An app with the stack of a pipeline, one that is deployed before it and one after it."""

    def __init__(self, folder: Path) -> None:
        app = cdk.App(outdir=str(folder))
        self.pipeline = cdk.Stack(app, "Pipeline")
        before, after = cdk.Stack(app, "Before"), cdk.Stack(app, "After")
        lent = role(self.pipeline, "Lent")
        imported = {"function_arn": FUNCTION, "same_environment": True}
        theirs = iam.Role.from_role_arn(self.pipeline, "Theirs", ROLE)
        closed = role(self.pipeline, "Closed").without_policy_updates()
        self.access = {
            name: grant(self.pipeline, name, consumer, role_id=role_id)
            for name, consumer, role_id in (
                ("Beside", function(self.pipeline, "BesideFunction"), None),
                ("Elsewhere", function(before, "ElsewhereFunction"), None),
                ("Borrowing", function(after, "BorrowingFunction", lent), None),
                (
                    "Imported",
                    lambda_.Function.from_function_attributes(
                        self.pipeline, "ImportedFunction", role=theirs, **imported
                    ),
                    "AROATHEIRS",
                ),
                (
                    "Bare",
                    lambda_.Function.from_function_arn(self.pipeline, "BareFunction", FUNCTION),
                    None,
                ),
                ("Closing", function(self.pipeline, "ClosingFunction", closed), "AROACLOSED"),
            )
        }
        senders = {name: access.sender or "" for name, access in self.access.items()}
        for name, sender in senders.items():
            cdk.CfnOutput(self.pipeline, f"{name}Sender", value=sender)

        self.synthesis = Synthesis(read(Path(app.synth().directory)), {})
        manifest = json.loads((folder / "manifest.json").read_text())
        self.warnings = sorted(
            entry["data"].partition(" [ack")[0]
            for found in [
                *manifest["artifacts"]["Pipeline"].get("metadata", {}).values(),
                *metadata(folder, manifest),
            ]
            for entry in found
            if entry["type"] == "aws:cdk:warning"
        )


def metadata(folder: Path, manifest: Mapping[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """The metadata of a stack, which newer versions of the CDK keep in a file of its own."""
    name = manifest["artifacts"]["Pipeline"].get("additionalMetadataFile")
    if name:
        yield from json.loads((folder / name).read_text()).values()


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return Cases(tmp_path_factory.mktemp("cdk"))


def policies(cases: Cases, stack: str) -> dict[str, dict[str, Any]]:
    """Each inline policy of a stack that grants the main queue, by logical id."""
    return {
        key: policy
        for key, policy in cases.synthesis[stack].of("AWS::IAM::Policy").items()
        if policy["Properties"]["PolicyDocument"]["Statement"][0]["Resource"] == QUEUE
    }


def role_of(cases: Cases, stack: str, key: str) -> str:
    """The logical id of the role of the function that has `key` in its logical id."""
    [made] = [
        made
        for name, made in cases.synthesis[stack].of("AWS::Lambda::Function").items()
        if name.startswith(key)
    ]
    return str(made["Properties"]["Role"]["Fn::GetAtt"][0])


def variable(cases: Cases, stack: str, key: str) -> object:
    [made] = [
        made
        for name, made in cases.synthesis[stack].of("AWS::Lambda::Function").items()
        if name.startswith(key)
    ]
    return made["Properties"]["Environment"]["Variables"]["DEADLETTER"]


@pytest.mark.nightly
def test_a_function_beside_the_pipeline(cases: Cases) -> None:
    made = role_of(cases, "Pipeline", "BesideFunction")
    [key] = [
        key
        for key, policy in policies(cases, "Pipeline").items()
        if policy["Properties"]["Roles"] == [{"Ref": made}]
    ]
    assert variable(cases, "Pipeline", "BesideFunction") == "deadletter/orders"
    assert cases.synthesis["Pipeline"].template["Outputs"]["BesideSender"]["Value"] == {
        "Fn::GetAtt": [made, "RoleId"]
    }
    [waiting] = [
        resource["DependsOn"]
        for name, resource in cases.synthesis["Pipeline"].of("AWS::Lambda::Function").items()
        if name.startswith("BesideFunction")
    ]
    assert key in waiting


@pytest.mark.nightly
def test_a_function_in_another_stack_of_the_app(cases: Cases) -> None:
    made = role_of(cases, "Before", "ElsewhereFunction")
    [(key, policy)] = policies(cases, "Before").items()
    assert policy["Properties"]["Roles"] == [{"Ref": made}]
    assert variable(cases, "Before", "ElsewhereFunction") == "deadletter/orders"
    [waiting] = cases.synthesis["Before"].of("AWS::Lambda::Function").values()
    assert key in waiting["DependsOn"]

    [parameter] = cases.synthesis["Before"].of("AWS::SSM::Parameter").values()
    assert parameter["Properties"]["Value"] == {"Fn::GetAtt": [made, "RoleId"]}
    template = cases.synthesis["Pipeline"].template
    slot = template["Outputs"]["ElsewhereSender"]["Value"]["Ref"]
    assert template["Parameters"][slot] == {
        "Type": "AWS::SSM::Parameter::Value<String>",
        "Default": parameter["Properties"]["Name"],
    }
    assert parameter["Properties"]["Name"].startswith("/deadletter/consumers/orders/")
    assert "Before" in cases.synthesis["Pipeline"].waits_for


@pytest.mark.nightly
def test_a_function_in_a_later_stack_whose_role_is_made_beside_the_pipeline(cases: Cases) -> None:
    [roles] = [
        policy["Properties"]["Roles"]
        for policy in policies(cases, "Pipeline").values()
        if "Lent" in json.dumps(policy["Properties"]["Roles"])
    ]
    template = cases.synthesis["Pipeline"].template
    assert template["Outputs"]["BorrowingSender"]["Value"] == {
        "Fn::GetAtt": [roles[0]["Ref"], "RoleId"]
    }
    assert variable(cases, "After", "BorrowingFunction") == "deadletter/orders"
    assert not policies(cases, "After")
    assert "Pipeline" in cases.synthesis["After"].waits_for


@pytest.mark.nightly
def test_an_imported_function_with_its_role(cases: Cases) -> None:
    assert ["theirs"] in [
        policy["Properties"]["Roles"] for policy in policies(cases, "Pipeline").values()
    ]
    assert cases.access["Imported"].sender == "AROATHEIRS"
    assert [text for text in cases.warnings if "ImportedFunction" in text] == [
        "Pipeline orders: the function Pipeline/ImportedFunction is not made by this app: set its"
        " variable DEADLETTER to deadletter/orders."
    ]


@pytest.mark.nightly
def test_an_imported_function_without_its_role(cases: Cases) -> None:
    assert cases.access["Bare"].policy is None
    outputs = cases.synthesis["Pipeline"].template["Outputs"]
    [key] = [key for key in outputs if key.startswith("BareStatements")]
    said = json.loads(filled(outputs[key]["Value"]))
    assert said["Statement"] == [
        {"Action": "sqs:ReceiveMessage", "Effect": "Allow", "Resource": QUEUE, "Sid": "Main"}
    ]
    trust, policy, variable_ = sorted(
        (text for text in cases.warnings if "BareFunction" in text), key=len, reverse=True
    )
    assert key in policy
    assert "aws iam get-role" in trust
    assert "DEADLETTER" in variable_


@pytest.mark.nightly
def test_a_role_that_takes_no_policy_gets_a_warning_and_an_output(cases: Cases) -> None:
    outputs = cases.synthesis["Pipeline"].template["Outputs"]
    [key] = [key for key in outputs if key.startswith("ClosingStatements")]
    assert [key in text for text in cases.warnings if "ClosingFunction" in text] == [True]
    assert variable(cases, "Pipeline", "ClosingFunction") == "deadletter/orders"
    assert outputs["ClosingSender"]["Value"] == "AROACLOSED"


@pytest.mark.nightly
def test_neither_resources_nor_stacks_wait_for_each_other_in_a_circle(cases: Cases) -> None:
    for stack in cases.synthesis.stacks.values():
        assert circle(resource_graph(stack.template)) == [], stack.name
    stacks = {name: set(stack.waits_for) for name, stack in cases.synthesis.stacks.items()}
    assert circle(stacks) == []


@pytest.mark.nightly
def test_the_stack_of_a_function_exports_nothing_for_us(cases: Cases) -> None:
    assert not [
        output
        for output in cases.synthesis["Before"].template.get("Outputs", {}).values()
        if "Export" in output
    ]
    assert "Fn::ImportValue" not in json.dumps(cases.synthesis["Pipeline"].template)


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]
    template = {"Resources": {"A": {"P": {"Fn::Sub": "${B.Arn}"}}, "B": {"DependsOn": "A"}}}
    assert circle(resource_graph(template)) == ["A", "B"]


def test_a_role_whose_stack_needs_the_pipelines_is_refused_with_what_to_do() -> None:
    app = cdk.App()
    pipeline, team = cdk.Stack(app, "Pipeline"), cdk.Stack(app, "Team")
    grant(pipeline, "Access", function(team, "Function"))
    with pytest.raises(RuntimeError, match=r"make that role in Pipeline"):
        team.add_stack_dependency(pipeline, "its queue")


@pytest.mark.parametrize(
    ("settings", "role_id", "sentence"),
    [
        (typed(consumer_library=True), None, "the webhook dispatcher"),
        (typed(consumer="none"), None, "consumer_library is false"),
        (ORDERS, "arn:aws:iam::111122223333:role/x", "begins with AROA"),
    ],
)
def test_what_cannot_consume_is_refused(
    settings: PipelineDeployment, role_id: str | None, sentence: str
) -> None:
    stack = cdk.Stack(cdk.App(), "Pipeline")
    theirs = lambda_.Function.from_function_arn(stack, "Function", FUNCTION)
    with pytest.raises(Refused, match=sentence):
        grant(stack, "Access", theirs, settings=settings, role_id=role_id)


def test_a_role_of_another_region_is_refused() -> None:
    app = cdk.App()
    here = cdk.Stack(app, "Here", env=cdk.Environment(account="111122223333", region="eu-west-1"))
    there = cdk.Stack(app, "There", env=cdk.Environment(account="111122223333", region="us-east-1"))
    with pytest.raises(Refused, match="region us-east-1; allowed: eu-west-1"):
        grant(here, "Access", function(there, "Function"))
