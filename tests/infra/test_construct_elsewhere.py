"""What a platform team does to all of its stacks works on ours: one app, synthesized once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import IConstruct

from infra import AppSettings, DeadletterApp, PipelineSettings, RedrivePipeline
from infra.typed import Vpc
from tests.infra.templates import Stack, read
from tests.infra.test_consumer_access import circle, resource_graph

pytestmark = pytest.mark.nightly

ACCOUNT = "111122223333"
BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/boundary"
SUBNETS, GROUPS = ("subnet-0a", "subnet-0b"), ("sg-0a",)
REGIONS = ("eu-west-1", "us-east-1")


@jsii.implements(cdk.IAspect)
class MoreMemory:
    """An Aspect of a platform team: it changes what it visits."""

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, lambda_.CfnFunction):
            node.add_property_override("MemorySize", 1024)


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("platform")
    app = cdk.App(outdir=str(folder), context={"aws:cdk:bundling-stacks": []})
    synthesizer = cdk.DefaultStackSynthesizer(qualifier="platform")
    platform = cdk.Stack(app, "Platform", synthesizer=synthesizer)
    vpc: Vpc = {"subnet_ids": SUBNETS, "security_group_ids": GROUPS}
    shared = DeadletterApp(platform, "Deadletter", settings=AppSettings(app="shop", vpc=vpc))
    teams(app, shared)
    iam.PermissionsBoundary.of(app).apply(
        iam.ManagedPolicy.from_managed_policy_arn(platform, "Boundary", BOUNDARY)
    )
    cdk.Tags.of(app).add("cost-centre", "42")
    cdk.Aspects.of(app).add(MoreMemory())
    for region in REGIONS:
        stage = cdk.Stage(app, region, env=cdk.Environment(account=ACCOUNT, region=region))
        RedrivePipeline(cdk.Stack(stage, "Shop"), "Orders", consumer_library=True)
    app.synth()
    return folder


def teams(app: cdk.App, shared: DeadletterApp) -> None:
    """Pipelines in stacks of their own: of new, imported, foreign and named queues."""
    queues = cdk.Stack(app, "Queues", synthesizer=cdk.DefaultStackSynthesizer(qualifier="platform"))
    dead = sqs.Queue(queues, "Dead")
    told = cdk.Stack(app, "Told", synthesizer=cdk.DefaultStackSynthesizer(qualifier="platform"))
    RedrivePipeline(
        told,
        "Generated",
        main_queue=sqs.Queue(
            queues,
            "Generated",
            dead_letter_queue=sqs.DeadLetterQueue(queue=dead, max_receive_count=5),
        ),
        shared=shared,
    )
    named_dead = sqs.Queue(queues, "NamedDead", queue_name="named-dead")
    RedrivePipeline(
        told,
        "Named",
        main_queue=sqs.Queue(
            queues,
            "Named",
            queue_name="named",
            dead_letter_queue=sqs.DeadLetterQueue(queue=named_dead, max_receive_count=5),
        ),
        dlq=named_dead,
        shared=shared,
    )
    parameter = cdk.CfnParameter(told, "QueueArn")
    RedrivePipeline(
        told,
        "Parameter",
        main_queue=sqs.Queue.from_queue_arn(told, "Theirs", parameter.value_as_string),
        settings=PipelineSettings(
            name="told",
            consumer={"function_arn": cdk.Fn.import_value("function-of-another-app")},
        ),
        shared=shared,
    )


@pytest.fixture(scope="module")
def stacks(assembly: Path) -> dict[str, Stack]:
    return read(assembly)


@pytest.fixture(scope="module")
def staged(assembly: Path) -> dict[str, Stack]:
    [*folders] = assembly.glob("assembly-*")
    return {
        region: next(iter(read(folder).values()))
        for region in REGIONS
        for folder in folders
        if folder.name.endswith(region)
    }


def of(stacks: dict[str, Stack], kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for stack in stacks.values():
        for key, resource in stack.of(kind).items():
            yield f"{stack.name}/{key}", resource["Properties"]


def test_stacks_wait_for_what_they_use_and_for_nothing_that_waits_for_them(
    stacks: dict[str, Stack],
) -> None:
    waits = {
        name: {other for other in stack.waits_for if other in stacks}
        for name, stack in stacks.items()
    }
    assert waits == {"Platform": set(), "Queues": set(), "Told": {"Platform", "Queues"}}
    for name, stack in stacks.items():
        assert circle(resource_graph(stack.template)) == [], name


def test_no_stack_imports_anything_of_ours(stacks: dict[str, Stack]) -> None:
    exported = json.dumps(stacks["Platform"].template.get("Outputs", {}))
    assert '"Export"' not in exported
    imported = json.dumps(stacks["Platform"].template)
    assert "Fn::ImportValue" not in imported


def test_a_queue_with_a_name_is_known_by_it(stacks: dict[str, Stack]) -> None:
    outputs = json.dumps(stacks["Queues"].template.get("Outputs", {}))
    assert "Generated" in outputs
    assert "Named" not in outputs


def test_only_queues_that_the_shared_stack_can_name_are_drawn(
    assembly: Path, stacks: dict[str, Stack]
) -> None:
    [dashboard] = stacks["Platform"].of("AWS::CloudWatch::Dashboard").values()
    body = json.dumps(dashboard["Properties"]["DashboardBody"])
    assert "## named" in body
    assert "## generated" not in body
    manifest = json.loads((assembly / "manifest.json").read_text())
    stack = manifest["artifacts"]["Told"]
    metadata = stack.get("metadata") or json.loads(
        (assembly / stack["additionalMetadataFile"]).read_text()
    )
    warned = [
        entry["data"]
        for found in metadata.values()
        for entry in found
        if entry["type"] == "aws:cdk:warning" and "no band" in entry["data"]
    ]
    assert len(warned) == 2


def test_every_role_has_the_boundary(stacks: dict[str, Stack]) -> None:
    roles = list(of(stacks, "AWS::IAM::Role"))
    assert len(roles) > 10
    assert [key for key, role in roles if role.get("PermissionsBoundary") != BOUNDARY] == []


def test_every_resource_with_tags_has_that_of_the_platform(stacks: dict[str, Stack]) -> None:
    tag, ours = {"Key": "cost-centre", "Value": "42"}, {"Key": "deadletter:app", "Value": "shop"}
    for kind in ("AWS::Lambda::Function", "AWS::SQS::Queue", "AWS::IAM::Role", "AWS::SNS::Topic"):
        found = list(of(stacks, kind))
        assert found, kind
        for key, resource in found:
            assert tag in resource["Tags"], key
            assert ours in resource["Tags"], key


def test_an_aspect_reaches_what_is_made_last(stacks: dict[str, Stack]) -> None:
    assert {f["MemorySize"] for _, f in of(stacks, "AWS::Lambda::Function")} == {1024}
    policies = [key for key, _ in of(stacks, "AWS::IAM::ManagedPolicy") if "OnCall" in key]
    assert len(policies) >= 7


def test_another_qualifier_of_the_bootstrap_is_used(stacks: dict[str, Stack]) -> None:
    for name, stack in stacks.items():
        text = json.dumps(stack.template)
        assert "hnb659fds" not in text, name
    codes = [function["Code"] for _, function in of(stacks, "AWS::Lambda::Function")]
    assert all("cdk-platform-assets" in json.dumps(code) for code in codes)


def test_all_functions_run_in_the_subnets(stacks: dict[str, Stack]) -> None:
    vpc = {"SubnetIds": list(SUBNETS), "SecurityGroupIds": list(GROUPS)}
    for key, function in of(stacks, "AWS::Lambda::Function"):
        assert function["VpcConfig"] == vpc, key
    for key, role in of(stacks, "AWS::IAM::Role"):
        if "lambda.amazonaws.com" in json.dumps(role["AssumeRolePolicyDocument"]):
            assert "ec2:CreateNetworkInterface" in json.dumps(role["Policies"]), key


def test_two_regions_have_the_same_pipeline(staged: dict[str, Stack]) -> None:
    here, there = (staged[region] for region in REGIONS)
    assert here.resources.keys() == there.resources.keys()
    # Such a name is the account's, in all regions: it has the region in it.
    for kind, key in (
        ("AWS::IAM::Role", "RoleName"),
        ("AWS::IAM::ManagedPolicy", "ManagedPolicyName"),
        ("AWS::S3::Bucket", "BucketName"),
        ("AWS::CloudWatch::Dashboard", "DashboardName"),
    ):
        names = [json.dumps(each[key]) for _, each in of(staged, kind) if key in each]
        assert names, kind
        assert all("AWS::Region" in name for name in names), kind
