"""Each example can be deployed, without circle or export, and holds what it promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.infra.circles import circle, resource_graph
from tests.infra.templates import Synthesis, filled, read

ROOT = Path(__file__).parents[2]

EXAMPLES = ROOT / "examples"

# The pipelines of each, by their parameters.
PIPELINES = {
    "bring-your-own": {"/deadletter/pipelines/orders"},
    "customer-keys": {"/deadletter/pipelines/results"},
    "fifo": {"/deadletter/pipelines/bookings"},
    "many-pipelines": {
        f"/shop/pipelines/{name}" for name in ("orders", "payments", "shipments", "returns")
    },
    "webhooks": {"/deadletter/pipelines/webhooks"},
}


def synthesized(
    example: str, folder: Path, *, bundled: bool = False, apps: Path = EXAMPLES
) -> Path:
    """The cloud assembly of an example, made as a person's `cdk synth` makes it.

    Unless it is `bundled`, without what goes into zips. `apps` may hold an edited copy.
    """
    flags = {
        key: value
        for key, value in json.loads((ROOT / "cdk.json").read_text())["context"].items()
        if key.startswith("@")
    }
    context = flags if bundled else {**flags, "aws:cdk:bundling-stacks": []}
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "CDK_OUTDIR": str(folder),
        "CDK_CONTEXT_JSON": json.dumps(context),
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "tools" / "editable", ROOT / "lambdas"))),
    }
    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=apps / example,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


Synthesized = Callable[[str], Synthesis]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Synthesized:
    """The stacks of an example."""

    @cache
    def of(example: str) -> Synthesis:
        return Synthesis(read(synthesized(example, tmp_path_factory.mktemp(example))), {})

    return of


def test_each_app_is_in_the_table_and_on_the_page() -> None:
    apps = {file.parent.name for file in EXAMPLES.glob("*/app.py")}
    assert apps == {*PIPELINES, "slack", "sign-in"}
    page = (EXAMPLES / "README.md").read_text()
    for folder in (each for each in EXAMPLES.iterdir() if each.is_dir()):
        if not folder.name.startswith("_"):
            assert f"({folder.name}/" in page, folder.name


# The first is synthesized in every run; a synthesis of each takes ten seconds.
FIRST = "bring-your-own"


@pytest.mark.slow_because("it synthesizes an app in a process of its own")
@pytest.mark.parametrize(
    "example",
    [
        FIRST,
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name in sorted(PIPELINES)
            if name != FIRST
        ),
    ],
)
def test_it_makes_its_pipelines_without_circle_or_export(
    templates: Synthesized, example: str
) -> None:
    app = templates(example)
    named = {parameter["Properties"]["Name"] for _, parameter in app.of("AWS::SSM::Parameter")}
    assert {name for name in named if "/pipelines/" in name} == PIPELINES[example]
    for stack in app.stacks.values():
        assert circle(resource_graph(stack.template)) == [], stack.name
        assert "Fn::ImportValue" not in json.dumps(stack.template)
    assert circle({name: set(stack.waits_for) for name, stack in app.stacks.items()}) == []


def test_the_consumer_of_a_shop_has_policy_variable_and_trust(templates: Synthesized) -> None:
    app = templates(FIRST)
    shop = app["Shop"]
    [ship] = [
        function["Properties"]
        for function in shop.of("AWS::Lambda::Function").values()
        if function["Properties"]["Handler"] == "ship.handler"
    ]
    role = ship["Role"]["Fn::GetAtt"][0]
    assert ship["Environment"]["Variables"] == {"DEADLETTER": "deadletter/orders"}
    allowed = {
        action
        for policy in shop.of("AWS::IAM::Policy").values()
        if policy["Properties"]["Roles"] == [{"Ref": role}]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        for action in actions(statement)
    }
    assert {"sqs:SendMessage", "dynamodb:UpdateItem", "ssm:GetParameters"} <= allowed
    for reader in ("redrive", "route", "replay"):
        variables = app.function(f"deadletter-orders-{reader}")["Environment"]["Variables"]
        trusted = json.loads(filled(variables["TRUSTED_SENDERS"]))
        assert filled({"Fn::GetAtt": [role, "RoleId"]}) in trusted, reader


@pytest.mark.nightly
def test_a_fifo_pipeline_has_a_fifo_parking_lot(templates: Synthesized) -> None:
    parking = templates("fifo")["Ledger"].named(
        "AWS::SQS::Queue", "QueueName", "deadletter-bookings-parking.fifo"
    )
    assert parking["FifoQueue"]


def test_the_queues_of_a_shop_are_observed(templates: Synthesized) -> None:
    shop = templates(FIRST)["Shop"]
    text = shop.named("AWS::SSM::Parameter", "Name", "/deadletter/pipelines/orders")["Value"]
    assert '"mode":"observe"' in json.dumps(text).replace("\\", "")


@pytest.mark.nightly
def test_what_comes_out_of_queues_under_a_key_is_kept_under_a_key(templates: Synthesized) -> None:
    clinic = templates("customer-keys")["Clinic"]
    parking = clinic.named("AWS::SQS::Queue", "QueueName", "deadletter-results-parking")
    assert parking["KmsMasterKeyId"]
    letters = clinic.named("AWS::DynamoDB::Table", "TableName", "deadletter-messages")
    assert letters["SSESpecification"]["KMSMasterKeyId"]


@pytest.mark.nightly
def test_a_stack_with_one_pipeline_needs_the_shared_one_alone(templates: Synthesized) -> None:
    app = templates("many-pipelines")
    for name in ("Shop-Orders", "Shop-Payments", "Shop-Shipments", "Shop-Returns"):
        others = {each for each in app[name].waits_for if not each.endswith(".assets")}
        assert others == {"Shop-Shared"}


def actions(statement: dict[str, Any]) -> Iterator[str]:
    said = statement["Action"]
    yield from [said] if isinstance(said, str) else said
