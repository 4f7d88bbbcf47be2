"""The library reads the environment that the stacks give a function."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from deadletter.circuit.state import CircuitPolicy
from deadletter.contract import (
    ENDPOINT_KEY,
    Body,
    LedgerKeeps,
    Mode,
)
from deadletter.settings import registration
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import (
    Pipeline,
    ReplayPolicy,
    RetryPolicy,
    pipeline_from_json,
)
from deadletter.settings.resources import Resources, resources_from_environment
from deadletter.settings.webhook import Webhook, webhook_from_json
from infra import environment
from infra.context import read
from infra.refusal import Refused
from tests.each_row import each_row
from tests.infra.conftest import typed
from tests.infra.templates import Synthesis, parameter

THEIRS = "arn:aws:lambda:eu-west-1:111122223333:function:theirs"
MAPPING = "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f"

EVERYTHING: dict[str, Any] = {
    "name": "orders",
    "mode": "observe",
    "fifo": True,
    "consumer": {"function_arn": THEIRS, "mapping_id": MAPPING},
    "body": "opaque",
    "context": {"tenantId": "body.tenant"},
    "policy": {"max_attempts": 3, "backoff": {"base": 1, "cap": "1h"}},
    "policies": {"slow": {"backoff": {"cap": "2d"}}},
    "message_ttl": "10d",
    "poison_lives": 2,
    "consumer_library": True,
    "circuit_key": "attributes.endpoint",
    "circuit": {
        "minimum": 5,
        "health_url": "https://api.example/health",
    },
    "idempotency_key": "body.orderId",
    "idempotency_payload": "json(body.Message).order",
    "ledger": "hashed",
    "rate": 7.5,
    "dedicated": {"vip": False},
    "parking": {"POISON": "later", "schema": "later"},
    "ordering_key": "body.customer",
    "sequence": "body.version",
    "expires": "body.valid_until",
    "replay": {"approve_above": 100},
    "tuning": {
        "policy.backoff.factor": 3.0,
        "policy.backoff.floor": 0,
        "circuit.window": 300,
        "circuit.lease": 1200,
        "idempotency_keep": 5_184_000,
        "retry.cap": 300,
        "backlog_limit": 11,
        "workers": 2,
        "fixed_rate": 5.0,
        "replay.outcome_timeout": 7200,
    },
}


MACHINE = "arn:aws:states:eu-west-1:111122223333:stateMachine:deadletter-orders-circuit-breaker"


def test_a_pipeline_that_says_nothing_is_told_nothing_but_its_name() -> None:
    text = environment.pipeline(typed(consumer="none"))
    assert text == '{"name":"orders"}'
    assert pipeline_from_json(text) == Pipeline(name="orders")


def test_a_pipeline_that_says_everything_is_understood() -> None:
    [settings] = read({"ephemeral": True, "pipelines": [EVERYTHING]}).pipelines
    assert pipeline_from_json(environment.pipeline(settings)) == Pipeline(
        name="orders",
        mode=Mode.OBSERVE,
        fifo=True,
        body=Body.OPAQUE,
        context={"tenantId": "body.tenant"},
        policy=RetryPolicy(Backoff(1, 3.0, 3600, 0), 3),
        policies={"slow": RetryPolicy(Backoff(cap=172_800))},
        message_ttl=864_000,
        poison_lives=2,
        consumer_library=True,
        circuit_key="attributes.endpoint",
        circuit=CircuitPolicy(window=300, minimum=5, lease=1200, pause_consumer=True),
        idempotency_key="body.orderId",
        idempotency_keep=5_184_000,
        idempotency_payload="json(body.Message).order",
        ledger=LedgerKeeps.HASHED,
        retry=Backoff(10, 2.0, 300, 1),
        rate=7.5,
        fixed_rate=5.0,
        backlog_limit=11,
        workers=2,
        dedicated=("vip",),
        parking={"POISON": "later", "schema": "later"},
        ordering_key="body.customer",
        sequence="body.version",
        expires="body.valid_until",
        replay=ReplayPolicy(
            approve_above=100,
            outcome_timeout=7200,
        ),
    )


def test_the_webhook_writes_the_ledger_by_itself_and_has_a_circuit_for_each_endpoint() -> None:
    for consumer, library, key in ((None, True, ENDPOINT_KEY), ("none", False, None)):
        said = {"name": "orders"} | ({"consumer": consumer} if consumer else {})
        [settings] = read({"pipelines": [said]}).pipelines
        told = pipeline_from_json(environment.pipeline(settings))
        assert replace(told, circuit=CircuitPolicy()) == Pipeline(
            "orders", consumer_library=library, circuit_key=key
        )


@each_row(
    ("said", "pauses"),
    [
        ({}, True),
        ({"consumer": "none"}, False),
        ({"consumer": {"function_arn": THEIRS}}, False),
        ({"consumer": {"function_arn": THEIRS, "mapping_id": MAPPING}}, True),
    ],
)
def test_a_mapping_that_is_ours_or_named_is_paused(said: dict[str, Any], pauses: bool) -> None:
    [settings] = read({"pipelines": [{"name": "orders", **said}]}).pipelines
    assert pipeline_from_json(environment.pipeline(settings)).circuit.pause_consumer is pauses


def test_a_webhook_may_have_one_circuit_for_all_endpoints() -> None:
    [settings] = read({"pipelines": [{"name": "orders", "circuit_key": "pipeline"}]}).pipelines
    assert pipeline_from_json(environment.pipeline(settings)).circuit_key == "pipeline"


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 1_800),
        # Six times the consumer's timeout of 30 seconds, five receives: less than 30 minutes.
        ({"consumer": "none"}, 1_800),
        ({"consumer": {"kind": "none", "timeout": "12m"}}, 21_600),
    ],
)
def test_an_outcome_is_awaited_as_long_as_a_life_lasts(given: dict[str, Any], seconds: int) -> None:
    [settings] = read({"pipelines": [{"name": "orders", **given}]}).pipelines
    replay = pipeline_from_json(environment.pipeline(settings)).replay
    assert replay == ReplayPolicy(outcome_timeout=seconds)


def test_every_field_that_the_functions_read_is_tried_above() -> None:
    known = {field.name for field in fields(Pipeline)}
    assert {*EVERYTHING, *(path.partition(".")[0] for path in EVERYTHING["tuning"])} >= known


def test_an_environment_that_lambda_would_refuse_stops_the_synthesis() -> None:
    settings = typed(consumer="none", context={f"key{n}": "body.x" for n in range(250)})
    variables = {"PIPELINE": environment.pipeline(settings), "MAIN_URL": {"Ref": "AWS::Region"}}
    with pytest.raises(Refused) as refused:
        environment.check("deadletter-orders-redrive", settings, variables)
    assert str(refused.value) == (
        "Pipeline orders: the environment of deadletter-orders-redrive is 4449 bytes; allowed: at"
        " most 4096, so shorten context, policies, dedicated, parking or trusted_senders."
    )


def test_a_parameter_that_systems_manager_would_refuse_stops_the_synthesis() -> None:
    settings = typed()
    environment.check_parameter(settings, "x" * 8192)
    with pytest.raises(Refused, match="its parameter is 8193 bytes; allowed: at most 8192"):
        environment.check_parameter(settings, {"Fn::Join": ["", ["x" * 8191, "yz"]]})


def test_what_only_the_deployment_knows_counts_at_its_longest() -> None:
    settings = typed()
    joined = {"Fn::Join": ["-", ["x" * 4000, {"Ref": "AWS::Region"}, {"Ref": "Table"}]]}
    with pytest.raises(Refused, match="is 4145 bytes"):
        environment.check("route", settings, {"A": joined})


def test_every_function_knows_the_app_that_its_metrics_are_of(
    app: Synthesis, sandboxed: Synthesis
) -> None:
    for name, synthesis in (("deadletter", app), ("mail", sandboxed)):
        for key, function in synthesis.of("AWS::Lambda::Function"):
            if function["Properties"].get("FunctionName"):
                variables = function["Properties"]["Environment"]["Variables"]
                assert variables["APP"] == name, key


URL = "https://sqs.eu-west-1.amazonaws.com/111122223333/deadletter-orders-"

QUEUES = Resources(
    app="deadletter",
    main_url=f"{URL}main",
    main_arn="arn:aws:sqs:eu-west-1:111122223333:deadletter-orders-main",
    dlq_url=f"{URL}dlq",
    parking={"default": f"{URL}parking", "quarantine": f"{URL}parking_quarantine"},
    dedicated={"vip": f"{URL}dlq_vip", "slow": f"{URL}dlq_slow"},
)


def test_the_redriver_is_told_what_it_works_on(app: Synthesis) -> None:
    told = app.environment("deadletter-orders-redrive")
    resources = resources_from_environment(told)
    assert resources == replace(
        QUEUES,
        messages_table="deadletter-messages",
        messages_bucket="deadletter-messages-111122223333-eu-west-1",
        circuits_table="deadletter-circuits",
        router_function="deadletter-orders-route",
        redrive_function="deadletter-orders-redrive",
        trusted_senders=resources.trusted_senders,
        circuit_machine=MACHINE,
    )
    assert app.function(resources.router_function)
    pipeline = pipeline_from_json(told["PIPELINE"])
    assert pipeline.name == "orders"
    assert pipeline.dedicated == ("vip", "slow")


def test_the_watch_is_told_what_it_looks_at_and_starts(app: Synthesis) -> None:
    told = app.environment("deadletter-orders-watch")
    resources = resources_from_environment(told)
    assert resources == replace(
        QUEUES,
        messages_table="deadletter-messages",
        circuits_table="deadletter-circuits",
        router_function="deadletter-orders-route",
        redrive_function="deadletter-orders-redrive",
        redrive_every=60,
        circuit_machine=MACHINE,
        replay_machine=MACHINE.replace("circuit-breaker", "replay"),
        consumer_mapping=resources.consumer_mapping,
        watch='{"scheduled":["slow"]}',
    )
    assert "DispatcherMapping" in resources.consumer_mapping
    for function in (resources.router_function, resources.redrive_function):
        assert app.function(function)
    assert pipeline_from_json(told["PIPELINE"]).name == "orders"
    assert told["APP"] == "deadletter"


def test_the_router_is_told_what_it_reads(app: Synthesis) -> None:
    told = app.environment("deadletter-orders-route")
    assert set(told) == {
        *("APP", "PIPELINE", "MESSAGES_TABLE", "RULES_TABLE", "CIRCUITS_TABLE", "TRUSTED_SENDERS")
    }
    resources = resources_from_environment(told)
    assert resources.messages_table == "deadletter-messages"
    assert resources.rules_table == "deadletter-rules"
    assert resources.circuits_table == "deadletter-circuits"
    assert pipeline_from_json(told["PIPELINE"]).name == "orders"


def test_the_dispatcher_is_told_where_endpoints_are_registered_and_what_the_library_needs(
    app: Synthesis,
) -> None:
    told = app.environment("deadletter-orders-consumer")
    resources = resources_from_environment(told)
    assert resources == Resources(
        app="deadletter",
        main_url=QUEUES.main_url,
        parking=QUEUES.parking,
        messages_table="deadletter-messages",
        circuits_table="deadletter-circuits",
        endpoints_table="deadletter-endpoints",
        trusted_senders=resources.trusted_senders,
        circuit_machine=MACHINE,
    )
    assert pipeline_from_json(told["PIPELINE"]).consumer_library
    assert webhook_from_json(told["WEBHOOK"]) == Webhook(secret_prefix="deadletter/webhooks/")


def test_the_circuit_function_is_told_what_it_may_pause(app: Synthesis) -> None:
    told = app.environment("deadletter-orders-circuit")
    assert set(told) == {"APP", "PIPELINE", "CIRCUITS_TABLE", "CONSUMER_MAPPING"}
    resources = resources_from_environment(told)
    watch = resources_from_environment(app.environment("deadletter-orders-watch"))
    assert resources.consumer_mapping == watch.consumer_mapping
    assert resources.circuits_table == "deadletter-circuits"


def test_the_probe_is_told_where_canaries_come_from_and_who_takes_them(app: Synthesis) -> None:
    told = app.environment("deadletter-orders-probe")
    resources = resources_from_environment(told)
    assert resources == Resources(
        app="deadletter",
        main_url=QUEUES.main_url,
        main_arn=QUEUES.main_arn,
        dlq_url=QUEUES.dlq_url,
        dlq_arn="arn:aws:sqs:eu-west-1:111122223333:deadletter-orders-dlq",
        messages_table="deadletter-messages",
        messages_bucket="deadletter-messages-111122223333-eu-west-1",
        circuits_table="deadletter-circuits",
        router_function="deadletter-orders-route",
        consumer_function="arn:aws:lambda:eu-west-1:111122223333:function:deadletter-orders-consumer",
        consumer_timeout=60,
    )
    assert pipeline_from_json(told["PIPELINE"]).name == "orders"


def test_a_function_of_yours_is_probed_and_its_mapping_paused(app: Synthesis) -> None:
    mapping = "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f"
    for function in ("circuit", "watch"):
        told = resources_from_environment(app.environment(f"deadletter-theirs-{function}"))
        assert told.consumer_mapping == mapping, function
    probe = resources_from_environment(app.environment("deadletter-theirs-probe"))
    theirs = "arn:aws:lambda:eu-west-1:111122223333:function:their-consumer"
    assert (probe.consumer_function, probe.consumer_timeout) == (theirs, 30)
    replay = resources_from_environment(app.environment("deadletter-theirs-replay"))
    assert probe.health_url == replay.health_url == "https://api.example/health"


def test_where_no_function_consumes_none_is_probed_and_nothing_is_paused(app: Synthesis) -> None:
    for function in ("circuit", "watch", "redrive", "probe"):
        told = resources_from_environment(app.environment(f"deadletter-watched-{function}"))
        assert (told.consumer_mapping, told.consumer_function) == ("", ""), function
    assert set(app.environment("deadletter-watched-probe")) == {"APP", "PIPELINE", "CIRCUITS_TABLE"}


def test_a_probe_that_sends_canaries_itself_is_told_how_and_believed(sandboxed: Synthesis) -> None:
    told = sandboxed.environment("mail-hasty-probe")
    resources = resources_from_environment(told)
    assert (resources.consumer_function, resources.consumer_timeout) == ("", 30)
    assert resources.main_url.endswith("/mail-hasty-main")
    assert resources.dlq_url.endswith("/mail-hasty-dlq")
    assert resources.router_function == "mail-hasty-route"
    role = sandboxed.function("mail-hasty-probe")["Role"]["Fn::GetAtt"][0]
    for function in ("redrive", "route"):
        believed = resources_from_environment(sandboxed.environment(f"mail-hasty-{function}"))
        assert f"<{role}.RoleId>" in believed.trusted_senders, function
    registered = parameter(sandboxed, "/mail/pipelines/hasty")
    assert f"<{role}.RoleId>" in registered["trusted_senders"]


def test_a_health_check_alone_changes_nothing_that_the_library_is_told() -> None:
    said = {"name": "orders", "circuit": {"health_url": "https://api.example/health"}}
    [settings] = read({"pipelines": [said]}).pipelines
    assert "health" not in environment.pipeline(settings)


def test_redriver_and_router_believe_who_sends_letters_and_the_settings(app: Synthesis) -> None:
    roles = [
        app.function(f"deadletter-orders-{item}")["Role"]["Fn::GetAtt"][0]
        for item in ("redrive", "consumer")
    ]
    # Replay runs have the redriver's role.
    redriver, consumer = (f"<{role}.RoleId>" for role in roles)
    for function in ("redrive", "route", "replay"):
        told = app.environment(f"deadletter-orders-{function}")
        believed = resources_from_environment(told).trusted_senders
        assert believed == (redriver, consumer, "AROAOTHER"), function


def test_a_consumer_believes_the_redriver_and_replay_runs_alone(app: Synthesis) -> None:
    """What it sent itself is a new message, and would be skipped as a duplicate of the old."""
    roles = {
        app.function(f"deadletter-orders-{item}")["Role"]["Fn::GetAtt"][0]
        for item in ("redrive", "replay")
    }
    believed = tuple(f"<{role}.RoleId>" for role in roles)
    told = app.environment("deadletter-orders-consumer")
    assert resources_from_environment(told).trusted_senders == believed
    registered = parameter(app, "/deadletter/pipelines/orders")
    assert registered["trusted_senders"] == list(believed)


def test_the_function_of_replay_runs_is_told_what_it_works_on(app: Synthesis) -> None:
    told = app.environment("deadletter-orders-replay")
    resources = resources_from_environment(told)
    consumer = "arn:aws:lambda:eu-west-1:111122223333:function:deadletter-orders-consumer"
    assert resources == replace(
        QUEUES,
        messages_table="deadletter-messages",
        messages_bucket="deadletter-messages-111122223333-eu-west-1",
        circuits_table="deadletter-circuits",
        router_function="deadletter-orders-route",
        trusted_senders=resources.trusted_senders,
        circuit_machine=MACHINE,
        replay_machine=MACHINE.replace("circuit-breaker", "replay"),
        consumer_function=consumer,
        consumer_timeout=60,
        replay_days=30,
    )
    assert pipeline_from_json(told["PIPELINE"]).name == "orders"


@pytest.mark.parametrize("pipeline", ["orders", "order-events", "theirs", "watched"])
def test_a_function_of_yours_finds_what_ours_are_told(app: Synthesis, pipeline: str) -> None:
    registered = parameter(app, f"/deadletter/pipelines/{pipeline}")
    told = app.environment(f"deadletter-{pipeline}-redrive")
    assert registered["pipeline"] == json.loads(told["PIPELINE"])
    ours = resources_from_environment(told)
    assert registered["main_url"] == ours.main_url
    assert registered["parking"] == ours.parking
    assert registered["trusted_senders"] == list(ours.trusted_senders[:1])
    shared = json.dumps(parameter(app, "/deadletter/app"))
    settings, resources = registration.read(pipeline, shared, json.dumps(registered))
    assert settings == pipeline_from_json(told["PIPELINE"])
    assert resources.parking == ours.parking
    assert resources.circuit_machine == ours.circuit_machine
    assert resources.messages_table == "deadletter-messages"
    assert resources.circuits_table == "deadletter-circuits"


def test_a_pipeline_of_existing_queues_is_told_their_addresses(app: Synthesis) -> None:
    resources = resources_from_environment(app.environment("deadletter-theirs-redrive"))
    assert resources.main_url == "https://sqs.eu-west-1.amazonaws.com/111122223333/their-main"
    assert resources.main_arn == "arn:aws:sqs:eu-west-1:111122223333:their-main"
    assert resources.dlq_url == "https://sqs.eu-west-1.amazonaws.com/111122223333/their-dlq"


def test_a_pipeline_that_only_watches_says_so_to_its_functions(app: Synthesis) -> None:
    for function in ("redrive", "route"):
        told = app.environment(f"deadletter-watched-{function}")
        assert pipeline_from_json(told["PIPELINE"]).mode is Mode.OBSERVE


def test_the_watch_is_told_when_a_person_is_called(sandboxed: Synthesis, app: Synthesis) -> None:
    """Its variable holds what differs from the defaults."""
    assert json.loads(sandboxed.environment("mail-hasty-watch")["WATCH"]) == {
        "depth": 7,
        "depth_looks": 3,
        "room_late": 1200,
        "circuit_open_after": 420,
        "flapping_times": 5,
        "flapping_within": 7200,
        "open_circuits": 3,
        "open_circuits_for": 420,
        "parked_after": 172_800,
        "letter_expiry": 259_200,
    }
    assert json.loads(app.environment("deadletter-theirs-watch")["WATCH"]) == {}


def test_what_is_not_resolved_fits_whatever_its_tokens_stand_for() -> None:
    token = "${Token[Queue.Arn.12]}"
    room = environment.LIMIT - len("QUEUES")
    most = room // (len(token) + 128)
    assert environment.surely_fits({"QUEUES": token * most})
    assert not environment.surely_fits({"QUEUES": token * (most + 1)})
    # The region is shorter than its token.
    region = "${Token[AWS.Region.11]}"
    assert len(region) > len("ap-northeast-1")
    assert environment.surely_fits({"QUEUES": region * (room // len(region))})
