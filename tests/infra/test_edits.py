"""Any edit of the settings can be deployed over what the settings made before."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from tests.infra.conftest import ARN, ROOT, TOPIC, Synthesize
from tests.infra.edits import KINDS, left, lost, refusals
from tests.infra.shop import STATES_OF_A_SHOP
from tests.infra.templates import Stack, Synthesis

KEY = ARN.format("kms", "key/1234abcd")

WEBHOOK: dict[str, Any] = {"name": "orders"}
FUNCTION = {
    "name": "orders",
    "consumer": {
        "function_arn": ARN.format("lambda", "function:their-consumer"),
        "mapping_id": "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f",
    },
}
POLLER = {"name": "orders", "consumer": "none"}
REFUNDS = {"name": "refunds", "consumer": "none"}
BROUGHT = {
    "main_queue": {"arn": ARN.format("sqs", "their-main")},
    "dlq": {"arn": ARN.format("sqs", "their-dlq")},
}


def one(pipeline: dict[str, Any], **app: Any) -> dict[str, Any]:
    return {**app, "pipelines": [pipeline]}


# What settings may say; see docs/settings.md.
STATES: dict[str, dict[str, Any]] = {
    "webhook": one(WEBHOOK),
    "function": one(FUNCTION),
    "no consumer": one(POLLER),
    "another pipeline": {"pipelines": [WEBHOOK, REFUNDS]},
    "webhooks removed": {"pipelines": [REFUNDS]},
    "renamed": one({**WEBHOOK, "name": "sales"}),
    "fifo beside": {"pipelines": [WEBHOOK, {"name": "events", "fifo": True, "consumer": "none"}]},
    "fifo": one({**WEBHOOK, "fifo": True}),
    "brought queues": one({**WEBHOOK, **BROUGHT}),
    "customer's key": one(WEBHOOK, kms_key_arn=KEY),
    "another key": one(WEBHOOK, kms_key_arn=ARN.format("kms", "key/5678ef")),
    "customer's topic": one(WEBHOOK, alarm_topic_arn=TOPIC),
    "in a VPC": one(
        WEBHOOK, vpc={"subnet_ids": ["subnet-0a1b2c3d"], "security_group_ids": ["sg-0a1b2c3d"]}
    ),
    "no dashboard": one(WEBHOOK, dashboard=False),
    "other texts": one(
        {**WEBHOOK, "owner": "the order team", "alarms": {"depth": 7}},
        owner="the shop team",
        runbook="https://runbook.example",
    ),
    "other days": one(WEBHOOK, log_retention_days=7, replay_days=0),
    "observe": one({**WEBHOOK, "mode": "observe"}),
    "circuits": one(
        {
            **WEBHOOK,
            "circuit_key": "body.shop",
            "circuit": {"health_url": "https://api.example/health"},
        }
    ),
    "dedicated": one({**WEBHOOK, "dedicated": {"vip": False, "slow": True}}),
    "dedicated, undrained": one({**WEBHOOK, "dedicated": {"vip": False}}),
    "parking": one(
        {**WEBHOOK, "parking": {"POISON": "poison"}},
    ),
    "trusted": one({**FUNCTION, "trusted_senders": ["AROAOTHER"], "consumer_library": True}),
}

QUEUE = "AWS::SQS::Queue deadletter-"
OF_ORDERS = [f"{QUEUE}orders-{name}" for name in ("dlq", "main", "parking")]

# What stays in the account, in no template any more, after an edit.
STAYS = [
    ("webhook", "function", []),
    ("another pipeline", "webhooks removed", OF_ORDERS),
    ("webhook", "renamed", OF_ORDERS),
    ("webhook", "fifo", OF_ORDERS),
    ("webhook", "brought queues", OF_ORDERS[:2]),
    ("dedicated", "dedicated, undrained", [f"{QUEUE}orders-dlq_slow"]),
    ("parking", "webhook", [f"{QUEUE}orders-parking_poison"]),
]

# What a deployment may delete: logs of what is gone, and the alarm topic for another one's sake.
# Who subscribed to it subscribes to the other.
GOES = ("AWS::Logs::LogGroup ", "AWS::SNS::Topic deadletter-alarms", "AWS::KMS::Key ")


@pytest.fixture(scope="module")
def states(synthesize: Synthesize) -> Mapping[str, Mapping[str, Stack]]:
    return {name: synthesize(context).stacks for name, context in STATES.items()}


@pytest.mark.nightly
def test_every_state_of_the_settings_can_be_deployed_over_every_other(
    states: Mapping[str, Mapping[str, Stack]],
) -> None:
    refused = {
        (before, after): reasons
        for before, after in permutations(states, 2)
        if (reasons := refusals(states[before], states[after]))
    }
    assert refused == {}


@pytest.mark.nightly
def test_an_edit_deletes_no_letters(states: Mapping[str, Mapping[str, Stack]]) -> None:
    for before, after in permutations(states, 2):
        for name in lost(states[before], states[after]):
            assert name.startswith(GOES), (before, after, name)
    for before, after, names in STAYS:
        assert left(states[before], states[after]) == names, (before, after)


@pytest.mark.nightly
def test_the_table_of_kinds_says_what_the_schemas_of_aws_say() -> None:
    # Takes seconds to import.
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

    for name, kind in KINDS.items():
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", name).schema
        paths = [
            *schema.get("createOnlyProperties", ()),
            *schema.get("conditionalCreateOnlyProperties", ()),
        ]
        assert {path.split("/")[2] for path in paths} == set(kind.fixed), name
        assert set(kind.identity) <= set(schema["properties"]), name


def test_the_page_has_every_state() -> None:
    rows = [row.split("|") for row in (ROOT / "docs" / "edits.md").read_text().splitlines()]
    named = {name for row in rows if len(row) == 5 for name in row[2].strip().split(", ")}
    assert {part for name in STATES for part in name.split(", ")} <= named


def test_no_stack_exports_anything(app: Synthesis) -> None:
    for name, stack in app.stacks.items():
        for output in stack.template.get("Outputs", {}).values():
            assert "Export" not in output, name


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, Stack]]:
    return {state.__name__: state(tmp_path_factory.mktemp("cdk")) for state in STATES_OF_A_SHOP}


@pytest.mark.nightly
def test_every_edit_of_pipelines_in_an_app_of_a_team_can_be_deployed(
    shops: Mapping[str, Mapping[str, Stack]],
) -> None:
    exporting = shops["queues_of_another_stack"]
    for before, after in permutations(shops.values(), 2):
        if before is not exporting:
            assert refusals(before, after) == []
            continue
        # The stack of the queues exports them, for that of the pipeline. So the latter goes
        # first and alone: `cdk deploy --exclusively Heals`, and then all.
        assert all(reason.startswith("export ") for reason in refusals(before, after))
        between = {**before, "Heals": after["Heals"]}
        assert refusals(before, between) == []
        assert refusals(between, after) == []


# The templates of an app by the names of its stacks.
Templates = dict[str, dict[str, Any]]

SHARED, PIPELINE, QUEUES = "Deadletter-Shared", "Deadletter-Orders", "Deadletter-Orders-Queues"


def first(templates: Templates, stack: str, kind: str) -> tuple[str, dict[str, Any]]:
    """The first resource of a kind in a stack, by its logical id."""
    resources = templates[stack]["Resources"].items()
    return next((key, resource) for key, resource in resources if resource["Type"] == kind)


def export_in_use(before: Templates, _: Templates) -> None:
    before[SHARED]["Outputs"]["Key"] = {"Value": "a key", "Export": {"Name": "key"}}
    before[PIPELINE]["Outputs"]["Used"] = {"Value": {"Fn::ImportValue": "key"}}


def export_changed(before: Templates, after: Templates) -> None:
    export_in_use(before, after)
    after[SHARED]["Outputs"]["Key"] = {"Value": "another", "Export": {"Name": "key"}}


def description_of_a_named_policy(before: Templates, after: Templates) -> None:
    for templates, text in ((before, "reads"), (after, "reads all")):
        _, policy = first(templates, SHARED, "AWS::IAM::ManagedPolicy")
        policy["Properties"] |= {"ManagedPolicyName": "readers", "Description": text}


def renamed_construct(kind: str, stack: str) -> Callable[[Templates, Templates], None]:
    def edit(_: Templates, after: Templates) -> None:
        key, resource = first(after, stack, kind)
        del after[stack]["Resources"][key]
        after[stack]["Resources"][f"{key}Renamed"] = resource

    return edit


def moved_function(_: Templates, after: Templates) -> None:
    key, function = first(after, PIPELINE, "AWS::Lambda::Function")
    del after[PIPELINE]["Resources"][key]
    after[SHARED]["Resources"][key] = function


def name_twice(_: Templates, after: Templates) -> None:
    key, queue = first(after, QUEUES, "AWS::SQS::Queue")
    after[QUEUES]["Resources"][f"{key}Again"] = queue


def other_keys_of_a_table(_: Templates, after: Templates) -> None:
    _, table = first(after, SHARED, "AWS::DynamoDB::Table")
    table["Properties"]["KeySchema"][0]["AttributeName"] = "other"


def generated_name(before: Templates, after: Templates) -> None:
    for templates in (before, after):
        _, table = first(templates, SHARED, "AWS::DynamoDB::Table")
        del table["Properties"]["TableName"]
    other_keys_of_a_table(before, after)


def other_kind(_: Templates, after: Templates) -> None:
    _, topic = first(after, SHARED, "AWS::SNS::Topic")
    topic["Type"] = "AWS::SQS::Queue"


def other_function_behind_a_resource(_: Templates, after: Templates) -> None:
    _, heartbeat = first(after, PIPELINE, "Custom::FirstHeartbeat")
    heartbeat["Properties"]["ServiceToken"] = ARN.format("lambda", "function:other")


def parameter_of_another_stack(before: Templates, after: Templates) -> None:
    read = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/deadletter/gone"}
    for templates in (before, after):
        templates[PIPELINE].setdefault("Parameters", {})["Read"] = read
    _, parameter = first(before, SHARED, "AWS::SSM::Parameter")
    made = {**parameter, "Properties": {**parameter["Properties"], "Name": "/deadletter/gone"}}
    before[SHARED]["Resources"]["Made"] = made


def two_indexes(before: Templates, _: Templates) -> None:
    _, table = first(before, SHARED, "AWS::DynamoDB::Table")
    del table["Properties"]["GlobalSecondaryIndexes"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (export_in_use, "export key is gone or changed, and the deployed Deadletter-Orders"),
        (export_changed, "export key is gone or changed, and the deployed Deadletter-Orders"),
        (description_of_a_named_policy, "readers is replaced under its own name: Description"),
        (renamed_construct("AWS::CloudWatch::Alarm", PIPELINE), " moves from Deadletter-Orders/"),
        (renamed_construct("AWS::SQS::Queue", QUEUES), " moves from Deadletter-Orders-Queues/"),
        (renamed_construct("AWS::SQS::QueuePolicy", QUEUES), "AWS::SQS::QueuePolicy"),
        (renamed_construct("AWS::Lambda::EventSourceMapping", PIPELINE), "deadletter-orders-main"),
        (moved_function, "to Deadletter-Shared/"),
        (name_twice, " is in Deadletter-Orders-Queues/"),
        (other_keys_of_a_table, "is replaced under its own name: KeySchema"),
        (generated_name, "is replaced by an empty one: KeySchema"),
        (other_kind, "becomes a AWS::SQS::Queue under one logical id"),
        (other_function_behind_a_resource, "can't get another ServiceToken"),
        (parameter_of_another_stack, "parameter /deadletter/gone is not made before"),
        (two_indexes, "changes 2 indexes at once"),
    ],
)
def test_an_edit_that_cloudformation_refuses_is_found(
    app: Synthesis, fault: Callable[[Templates, Templates], None], reason: str
) -> None:
    before, after = copy_of(app), copy_of(app)
    fault(before, after)
    told = refusals(stacks(app, before), stacks(app, after))
    assert [text for text in told if reason in text], told
    # Only this.
    assert len(told) == 1


def copy_of(synthesis: Synthesis) -> Templates:
    """The templates of one pipeline and of what it shares, to be changed."""
    wanted = (SHARED, PIPELINE, QUEUES)
    copy: Templates = json.loads(json.dumps({name: synthesis[name].template for name in wanted}))
    return copy


def stacks(synthesis: Synthesis, templates: Templates) -> dict[str, Stack]:
    """The stacks of a synthesis with other templates."""
    return {
        name: replace(synthesis[name], template=template) for name, template in templates.items()
    }


def test_an_edit_that_loses_letters_is_found(app: Synthesis) -> None:
    before, after = copy_of(app), copy_of(app)
    key, queue = first(after, QUEUES, "AWS::SQS::Queue")
    del after[QUEUES]["Resources"][key]
    name = f"AWS::SQS::Queue {queue['Properties']['QueueName']}"
    assert left(stacks(app, before), stacks(app, after)) == [name]
    before[QUEUES]["Resources"][key]["DeletionPolicy"] = "Delete"
    assert lost(stacks(app, before), stacks(app, after)) == [name]
