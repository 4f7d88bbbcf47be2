"""What the stacks make, by the sort of pipeline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from deadletter.contract import CAUSES
from tests.infra.conftest import ROOT
from tests.infra.edits import refusals
from tests.infra.templates import Stack, Synthesis, filled, parameter

URL = "https://sqs.eu-west-1.amazonaws.com/111122223333/"

# CloudFormation's limit for one stack.
MOST_RESOURCES = 500


def queues(stack: Stack) -> dict[str, dict[str, Any]]:
    """The queues a stack makes, by name."""
    made = [queue["Properties"] for queue in stack.of("AWS::SQS::Queue").values()]
    return {item["QueueName"]: item for item in made}


def test_there_is_one_stack_for_all_and_two_for_each_pipeline(app: Synthesis) -> None:
    assert set(app.stacks) == {
        "Deadletter-Shared",
        *("Deadletter-Orders", "Deadletter-Orders-Queues"),
        *("Deadletter-OrderEvents", "Deadletter-OrderEvents-Queues"),
        *("Deadletter-Theirs", "Deadletter-Theirs-Queues"),
        *("Deadletter-Watched", "Deadletter-Watched-Queues"),
    }


def test_a_pipeline_waits_for_its_queues_which_it_knows_by_name_only(app: Synthesis) -> None:
    for name in ("Orders", "OrderEvents", "Theirs", "Watched"):
        assert app[f"Deadletter-{name}"].waits_for >= {
            *("Deadletter-Shared", f"Deadletter-{name}-Queues")
        }
        exported = [item for item in app[f"Deadletter-{name}-Queues"].outputs if "Export" in item]
        assert exported == [], "an export keeps a queue from ever being removed"


def test_only_the_stateful_stacks_hold_data(app: Synthesis) -> None:
    for name in ("Orders", "OrderEvents", "Theirs", "Watched"):
        for kind in ("AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::S3::Bucket"):
            assert app[f"Deadletter-{name}"].of(kind) == {}


def test_the_outputs_name_queues_and_tables(app: Synthesis) -> None:
    assert app["Deadletter-Orders-Queues"].outputs == {
        "OrdersMainQueueUrl": f"{URL}deadletter-orders-main",
        "OrdersDlqUrl": f"{URL}deadletter-orders-dlq",
        "OrdersParkingLotUrl": f"{URL}deadletter-orders-parking",
    }
    assert app["Deadletter-Theirs-Queues"].outputs == {
        "TheirsMainQueueUrl": f"{URL}their-main",
        "TheirsDlqUrl": f"{URL}their-dlq",
        "TheirsParkingLotUrl": f"{URL}deadletter-theirs-parking",
    }
    tables = app["Deadletter-Shared"].outputs
    for name in ("Messages", "Rules", "Circuits"):
        assert tables[f"{name}TableName"] == f"deadletter-{name.lower()}"


def test_the_tables_have_the_keys_that_the_library_reads(app: Synthesis) -> None:
    """And the audit has one index: DynamoDB adds no second one to it in the same deployment."""

    def keys(described: Mapping[str, Any]) -> tuple[str, ...]:
        kinds = [part["KeyType"] for part in described["KeySchema"]]
        assert kinds == ["HASH", "RANGE"][: len(kinds)]
        return tuple(part["AttributeName"] for part in described["KeySchema"])

    tables = {
        key.removeprefix("Storage")[:-8]: table["Properties"]
        for key, table in app["Deadletter-Shared"].of("AWS::DynamoDB::Table").items()
    }
    assert {name: keys(table) for name, table in tables.items()} == {
        "Messages": ("pk", "sk"),
        "Rules": ("pipeline", "rule_id"),
        "Audit": ("pk", "sk"),
        "Circuits": ("pipeline", "circuit_key"),
        "Endpoints": ("tenant", "endpoint"),
    }
    indexes = {
        (name, index["IndexName"]): (keys(index), index["Projection"])
        for name, table in tables.items()
        for index in table.get("GlobalSecondaryIndexes", ())
    }
    only_keys = {"ProjectionType": "KEYS_ONLY"}
    of_causes = {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(CAUSES.projected)}
    assert indexes == {
        ("Messages", "lanes"): (("lane", "due"), only_keys),
        ("Messages", "causes"): (("causes", "fingerprint"), of_causes),
        ("Audit", "changes"): (("pipeline", "happened"), {"ProjectionType": "ALL"}),
        ("Circuits", "troubled"): (("troubled",), only_keys),
    }
    numbers = {
        (name, each["AttributeName"])
        for name, table in tables.items()
        for each in table["AttributeDefinitions"]
        if each["AttributeType"] == "N"
    }
    assert numbers == {("Messages", "due"), ("Audit", "happened")}
    for name in ("Messages", "Circuits"):
        expected = {"AttributeName": "ttl", "Enabled": True}
        assert tables[name]["TimeToLiveSpecification"] == expected


def test_main_and_dlq_name_each_other(app: Synthesis) -> None:
    made = queues(app["Deadletter-Orders-Queues"])
    main, dlq = made["deadletter-orders-main"], made["deadletter-orders-dlq"]
    dlq_id = main["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]
    assert app["Deadletter-Orders-Queues"].resources[dlq_id]["Properties"] == dlq
    assert main["RedrivePolicy"]["maxReceiveCount"] == 5
    assert filled(dlq["RedriveAllowPolicy"]) == {
        "redrivePermission": "byQueue",
        "sourceQueueArns": ["arn:aws:sqs:eu-west-1:111122223333:deadletter-orders-main"],
    }
    assert main["MessageRetentionPeriod"] == 4 * 86_400
    assert dlq["MessageRetentionPeriod"] == 14 * 86_400
    assert main["VisibilityTimeout"] == 360
    assert main["ReceiveMessageWaitTimeSeconds"] == 20


def test_no_queue_may_use_the_parking_lot_or_a_dedicated_dlq_as_its_dlq(app: Synthesis) -> None:
    made = queues(app["Deadletter-Orders-Queues"])
    ends = {name: item for name, item in made.items() if not name.endswith(("-main", "-dlq"))}
    assert set(ends) == {
        *("deadletter-orders-parking", "deadletter-orders-parking_quarantine"),
        *("deadletter-orders-dlq_vip", "deadletter-orders-dlq_slow"),
    }
    for item in ends.values():
        assert item["RedriveAllowPolicy"] == {"redrivePermission": "denyAll"}
        assert item["MessageRetentionPeriod"] == 14 * 86_400


def test_all_queues_of_a_fifo_pipeline_are_fifo(app: Synthesis) -> None:
    made = queues(app["Deadletter-OrderEvents-Queues"])
    assert set(made) == {
        f"deadletter-order-events-{item}.fifo" for item in ("main", "dlq", "dlq_vip", "parking")
    }
    assert all(item["FifoQueue"] is True for item in made.values())


def test_of_a_pipeline_with_queues_and_a_consumer_only_the_rest_is_made(app: Synthesis) -> None:
    assert set(queues(app["Deadletter-Theirs-Queues"])) == {"deadletter-theirs-parking"}
    stack = app["Deadletter-Theirs"]
    assert {
        function["Properties"]["FunctionName"]
        for function in stack.of("AWS::Lambda::Function").values()
    } == {
        f"deadletter-theirs-{item}"
        for item in ("redrive", "watch", "route", "circuit", "probe", "replay")
    }
    assert stack.of("AWS::Lambda::EventSourceMapping") == {}
    assert len(stack.of("AWS::Scheduler::Schedule")) == 2


def test_a_pipeline_that_only_watches_is_made_like_any_other(app: Synthesis) -> None:
    assert {resource["Type"] for resource in app["Deadletter-Watched"].resources.values()} == {
        resource["Type"] for resource in app["Deadletter-OrderEvents"].resources.values()
    }
    assert parameter(app, "/deadletter/pipelines/watched")["mode"] == "observe"


@pytest.mark.parametrize(
    ("role", "name", "event"), [("redrive", "dlq", {"source": "dlq"}), ("watch", "watch", {})]
)
def test_redriver_and_watch_run_every_minute_and_are_never_retried(
    app: Synthesis, role: str, name: str, event: dict[str, str]
) -> None:
    stack = app["Deadletter-Orders"]
    schedule = stack.named("AWS::Scheduler::Schedule", "Name", f"deadletter-orders-{name}")
    assert schedule["ScheduleExpression"] == "rate(1 minute)"
    assert schedule["State"] == "ENABLED"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    target = schedule["Target"]
    assert json.loads(target["Input"]) == event
    assert target["RetryPolicy"] == {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}
    invoked = stack.resources[target["Arn"]["Fn::GetAtt"][0]]["Properties"]
    assert invoked["FunctionName"] == f"deadletter-orders-{role}"
    [again] = [
        config["Properties"]
        for config in stack.of("AWS::Lambda::EventInvokeConfig").values()
        if config["Properties"]["FunctionName"]["Ref"] == target["Arn"]["Fn::GetAtt"][0]
    ]
    assert again["MaximumRetryAttempts"] == 0
    assert again["MaximumEventAgeInSeconds"] == 60


def test_the_watch_runs_every_minute_whatever_the_redriver_does(app: Synthesis) -> None:
    for _, schedule in app.of("AWS::Scheduler::Schedule"):
        if schedule["Properties"]["Name"].endswith("-watch"):
            assert schedule["Properties"]["ScheduleExpression"] == "rate(1 minute)"
            assert schedule["Properties"]["State"] == "ENABLED"


def test_a_dedicated_dlq_has_its_own_schedule_which_is_off_unless_wanted(app: Synthesis) -> None:
    stack = app["Deadletter-Orders"]
    vip = stack.named("AWS::Scheduler::Schedule", "Name", "deadletter-orders-dlq_vip")
    assert vip["State"] == "DISABLED"
    assert json.loads(vip["Target"]["Input"]) == {"source": "vip"}
    slow = stack.named("AWS::Scheduler::Schedule", "Name", "deadletter-orders-dlq_slow")
    assert (slow["State"], slow["ScheduleExpression"]) == ("ENABLED", "rate(1 minute)")


def test_the_dispatcher_reads_the_main_queue_and_reports_what_failed(app: Synthesis) -> None:
    stack = app["Deadletter-Orders"]
    [(_, mapping)] = stack.of("AWS::Lambda::EventSourceMapping").items()
    properties = mapping["Properties"]
    assert filled(properties["EventSourceArn"]).endswith(":deadletter-orders-main")
    assert properties["BatchSize"] == 10
    assert properties["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert properties["ScalingConfig"] == {"MaximumConcurrency": 10}


def test_functions_are_small_arm_machines_with_traces_and_json_logs(app: Synthesis) -> None:
    sizes = {"redrive": (512, 55), "route": (512, 20), "consumer": (512, 60)}
    sizes |= {"circuit": (256, 50), "probe": (256, 180), "watch": (256, 30)}
    sizes |= {"replay": (1024, 900)}
    for role, (memory, timeout) in sizes.items():
        function = app.function(f"deadletter-orders-{role}")
        assert (function["MemorySize"], function["Timeout"]) == (memory, timeout)
        assert (function["Runtime"], function["Architectures"]) == ("python3.13", ["arm64"])
        each_minute = role in ("redrive", "route", "watch")
        assert function["TracingConfig"] == {"Mode": "PassThrough" if each_minute else "Active"}
        assert function["LoggingConfig"]["LogFormat"] == "JSON"
        # An account with a low limit could not deploy.
        assert "ReservedConcurrentExecutions" not in function


def test_all_functions_have_the_processor_and_the_network_of_the_settings(
    sandboxed: Synthesis,
) -> None:
    functions = [each["Properties"] for _, each in sandboxed.of("AWS::Lambda::Function")]
    assert len(functions) > 20
    for function in functions:
        assert function["Architectures"] == ["x86_64"]
        variables = function["Environment"]["Variables"]
        assert variables["HTTPS_PROXY"] == "http://proxy:3128"
        assert variables["AWS_USE_FIPS_ENDPOINT"] == "true"


def test_a_monitor_keeps_an_execution_if_the_settings_say_so(sandboxed: Synthesis) -> None:
    reserved = {
        function["Properties"]["FunctionName"]: function["Properties"].get(
            "ReservedConcurrentExecutions"
        )
        for _, function in sandboxed.of("AWS::Lambda::Function")
    }
    # The automatic retry keeps none: that would be the most it has at once.
    assert {name for name, kept in reserved.items() if kept} == {
        f"mail-{pipeline}-watch" for pipeline in ("orders", "order-events", "hasty")
    }
    assert {kept for kept in reserved.values() if kept} == {1}


def test_every_handler_is_a_function_in_the_asset(app: Synthesis) -> None:
    handlers = {
        function["Properties"]["Handler"] for _, function in app.of("AWS::Lambda::Function")
    }
    assert handlers == {
        f"handlers.{item}.handler"
        for item in (
            *("redrive", "watch", "route", "dispatch", "circuit", "probe", "replay", "check_rules"),
            "first_heartbeat",
        )
    }
    for handler in handlers:
        _, module, name = handler.split(".")
        source = (ROOT / "lambdas" / "handlers" / f"{module}.py").read_text()
        assert f"\ndef {name}(" in source


def test_all_functions_share_one_asset(app: Synthesis) -> None:
    assert (
        len(
            {
                function["Properties"]["Code"]["S3Key"]
                for _, function in app.of("AWS::Lambda::Function")
            }
        )
        == 1
    )


def test_the_command_line_finds_the_app_by_its_parameters(app: Synthesis) -> None:
    shared = parameter(app, "/deadletter/app")
    assert set(shared) == {
        *("messages_table", "rules_table", "audit_table", "circuits_table", "endpoints_table"),
        *("messages_bucket", "alarm_topic", "audit_days"),
    }
    assert shared["alarm_topic"] == "arn:aws:sns:eu-west-1:111122223333:deadletter-alarms"
    assert parameter(app, "/deadletter/pipelines/orders") == {
        "main_url": f"{URL}deadletter-orders-main",
        "dlq_url": f"{URL}deadletter-orders-dlq",
        "parking": {
            "default": f"{URL}deadletter-orders-parking",
            "quarantine": f"{URL}deadletter-orders-parking_quarantine",
        },
        "dedicated": {
            "vip": f"{URL}deadletter-orders-dlq_vip",
            "slow": f"{URL}deadletter-orders-dlq_slow",
        },
        "redrive_function": "deadletter-orders-redrive",
        "router_function": "deadletter-orders-route",
        "circuit_machine": (
            "arn:aws:states:eu-west-1:111122223333:stateMachine:deadletter-orders-circuit-breaker"
        ),
        "replay_machine": (
            "arn:aws:states:eu-west-1:111122223333:stateMachine:deadletter-orders-replay"
        ),
        "fifo": False,
        "mode": "enforce",
        "terms": {
            "context": ["tenantId"],
            "dedicated": ["vip", "slow"],
            "policies": [],
            "max_delay": 1_036_800,
        },
        "pipeline": {
            "name": "orders",
            "context": {"tenantId": "body.tenantId"},
            "parking": {"QUARANTINED": "quarantine"},
            "consumer_library": True,
            "circuit_key": "context.tenantId",
            "circuit": {"pause_consumer": True},
            "dedicated": ["vip", "slow"],
        },
        "trusted_senders": parameter(app, "/deadletter/pipelines/orders")["trusted_senders"],
        "stacks": {"pipeline": "Deadletter-Orders", "queues": "Deadletter-Orders-Queues"},
        "keys": [],
        "webhook": {"ports": [443], "allow_loopback": False},
    }
    theirs = parameter(app, "/deadletter/pipelines/theirs")
    assert theirs["consumer_function"].endswith(":function:their-consumer")
    assert "webhook" not in theirs


def test_thirty_pipelines_fit(thirty: Synthesis) -> None:
    assert len(thirty.stacks) == 61
    assert max(len(item.resources) for item in thirty.stacks.values()) < MOST_RESOURCES


def test_a_hundred_pipelines_take_half_of_the_roles_of_an_account(thirty: Synthesis) -> None:
    """An account has 1,000; thirty pipelines are counted, each with the dispatcher as consumer."""
    assert len(list(thirty.of("AWS::IAM::Role"))) == 30 * 5 + 3


def test_two_apps_in_one_account_share_no_name(app: Synthesis, sandboxed: Synthesis) -> None:
    def names(synthesis: Synthesis) -> set[str]:
        keys = ("QueueName", "FunctionName", "AlarmName", "Name", "LogGroupName", "TopicName")
        return {
            str(filled(resource["Properties"][key]))
            for stack in synthesis.stacks.values()
            for resource in stack.resources.values()
            for key in keys
            if isinstance(resource.get("Properties", {}).get(key), str)
        }

    assert names(app)
    assert names(sandboxed)
    assert names(app) & names(sandboxed) == set()


def references(value: Any) -> Iterator[str]:
    """The logical ids that a part of a template refers to."""
    match value:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]}:
            yield name
        case {"Fn::Sub": str(text)}:
            yield from re.findall(r"\$\{(\w+)", text)
        case dict():
            for item in value.values():
                yield from references(item)
        case list():
            for item in value:
                yield from references(item)


def test_no_resource_waits_for_itself(app: Synthesis) -> None:
    """CloudFormation refuses a circle: roles name a mapping whose function names roles."""
    for stack in app.stacks.values():
        waits = {
            key: {*references(resource), *listed(resource.get("DependsOn", []))}
            & stack.resources.keys()
            for key, resource in stack.resources.items()
        }
        while free := {key for key, needs in waits.items() if not needs}:
            waits = {key: needs - free for key, needs in waits.items() if key not in free}
        assert waits == {}, stack.name


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def test_all_pipelines_can_be_removed_and_others_added_at_once(
    app: Synthesis, thirty: Synthesis
) -> None:
    assert refusals(app.stacks, thirty.stacks) == []
    assert refusals(thirty.stacks, app.stacks) == []
