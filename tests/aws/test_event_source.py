"""The consumer's mapping as Lambda answers about it, and what an announcement does that fails."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from deadletter.aws.event_source import LambdaMappings
from deadletter.aws.events import EventBridgeCircuitEvents, EventBus
from deadletter.circuit.state import RAMP_STEPS, Circuit, Override, Pollers, State
from deadletter.circuit.transitions import Tripped
from deadletter.outage.mapping import (
    ConsumerMapping,
    ConsumerPause,
    Limits,
    MappingBusy,
    MappingUnavailable,
)
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryMappings, client_error
from tests.each_row import each_row
from tests.events.emitted import problems
from tests.outage.breakers import KEY, Circuits

GONE = client_error("GetEventSourceMapping", "ResourceNotFoundException", "", status=404)
DENIED = client_error("GetEventSourceMapping", "AccessDeniedException", "", status=403)
IN_USE = client_error("UpdateEventSourceMapping", "ResourceInUseException", "", status=400)
OFFLINE = EndpointConnectionError(endpoint_url="lambda")


class OneLambda:
    """A Lambda that answers every call with the same, and keeps what it was asked."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.asked: list[dict[str, Any]] = []

    def get_event_source_mapping(self, **asked: Any) -> Any:
        self.asked.append(asked)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    update_event_source_mapping = get_event_source_mapping

    def get_paginator(self, _: str) -> Any:
        return self

    def paginate(self, **asked: Any) -> Any:
        found = self.get_event_source_mapping(**asked)
        return [{"EventSourceMappings": []}, {"EventSourceMappings": found}]


def mappings(answer: Any, mapping_id: str = "m") -> tuple[LambdaMappings, OneLambda]:
    client: Any = OneLambda(answer)
    return (
        LambdaMappings(client, function="consumer", queue_arn="arn:main", mapping_id=mapping_id),
        client,
    )


@each_row(
    ("state", "enabled", "changing"),
    [
        ("Enabled", True, False),
        ("Disabled", False, False),
        ("Enabling", True, True),
        ("Disabling", False, True),
        ("Creating", True, True),
        ("Updating", True, True),
    ],
)
def test_a_state_says_what_it_is_and_whether_it_stays(
    state: str, enabled: bool, changing: bool
) -> None:
    found, _ = mappings({"UUID": "m", "State": state})
    assert found.find() == ConsumerMapping("m", enabled, changing, None)


def test_without_its_id_it_is_found_by_function_and_queue() -> None:
    deleting, own = {"UUID": "x", "State": "Deleting"}, {"UUID": "m", "State": "Enabled"}
    found, client = mappings([deleting, own], mapping_id="")
    assert found.find() == ConsumerMapping("m", True)
    assert client.asked == [{"FunctionName": "consumer", "EventSourceArn": "arn:main"}]


@pytest.mark.parametrize("answer", [GONE, {"UUID": "m", "State": "Deleting"}])
def test_a_deleted_mapping_reads_as_none(answer: Any) -> None:
    assert mappings(answer)[0].find() is None


@pytest.mark.parametrize("error", [DENIED, OFFLINE])
def test_no_answer_is_not_no_mapping(error: Exception) -> None:
    with pytest.raises(MappingUnavailable):
        mappings(error)[0].find()


def test_only_what_changes_is_written() -> None:
    found, client = mappings({"UUID": "m", "State": "Enabled"})
    had = ConsumerMapping("m", False, concurrency=50)
    found.change(had, enabled=True, limits=Limits(50))
    found.change(had, enabled=None, limits=Limits(10))
    found.change(had, enabled=None, limits=Limits())
    assert client.asked == [
        {"UUID": "m", "Enabled": True},
        {"UUID": "m", "ScalingConfig": {"MaximumConcurrency": 10}},
        {"UUID": "m", "ScalingConfig": {}},
    ]


@pytest.mark.parametrize(
    ("error", "raised"),
    [(IN_USE, MappingBusy), (DENIED, MappingUnavailable), (OFFLINE, MappingUnavailable)],
)
def test_a_change_that_is_refused_says_whether_to_ask_again(
    error: Exception, raised: type[Exception]
) -> None:
    with pytest.raises(raised):
        mappings(error)[0].change(ConsumerMapping("m", True), enabled=False, limits=Limits())


class Pipeline:
    """A paused consumer's circuit and its mapping in a strict Lambda."""

    def __init__(self, **limits: Any) -> None:
        self.circuits = Circuits()
        self.lambda_ = MemoryMappings(self.circuits.clock)
        made = self.lambda_.create_event_source_mapping(
            FunctionName="consumer", EventSourceArn="arn:main", **limits
        )
        self.id, self.arn = made["UUID"], made["EventSourceMappingArn"]
        client: Any = self.lambda_
        self.consumer_pause = ConsumerPause(
            breaker=self.circuits,
            circuits=self.circuits,
            mappings=LambdaMappings(client, function="consumer", queue_arn="arn:main"),
            clock=self.circuits.clock,
            count_metric=self.circuits.count_metric,
        )

    def pause(self) -> None:
        self.consumer_pause.pause(self.circuits.apply(KEY, Tripped()).circuit)

    def close(self) -> None:
        self.circuits.held[KEY] = replace(self.circuits.held[KEY], state=State.CLOSED)

    def resume(self, step: int) -> dict[str, Any]:
        self.consumer_pause.resume(self.circuits.held[KEY], step)
        return self.described()

    def described(self) -> dict[str, Any]:
        return self.lambda_.get_event_source_mapping(UUID=self.id)

    @property
    def tags(self) -> dict[str, str]:
        tags: dict[str, str] = self.lambda_.list_tags(Resource=self.arn)["Tags"]
        return tags


def test_a_provisioned_mapping_is_paused_and_resumed_by_its_pollers_alone() -> None:
    pipeline = Pipeline(ProvisionedPollerConfig={"MinimumPollers": 5, "MaximumPollers": 100})
    pipeline.pause()
    assert pipeline.described()["State"] == "Disabled"
    assert pipeline.tags == {"deadletter:paused": "g=1/c=-/p=5-100/t=1800000000"}
    pipeline.close()
    steps = [pipeline.resume(step) for step in range(1, RAMP_STEPS + 1)]
    assert [step["ProvisionedPollerConfig"] for step in steps] == [
        {"MinimumPollers": 2, "MaximumPollers": 20},
        {"MinimumPollers": 2, "MaximumPollers": 40},
        {"MinimumPollers": 3, "MaximumPollers": 60},
        {"MinimumPollers": 4, "MaximumPollers": 80},
        {"MinimumPollers": 5, "MaximumPollers": 100},
    ]
    assert {step["State"] for step in steps} == {"Enabled"}
    assert not any("ScalingConfig" in step for step in steps)
    assert pipeline.tags == {}


def test_a_mapping_with_a_limit_is_paused_and_resumed_by_it() -> None:
    pipeline = Pipeline(ScalingConfig={"MaximumConcurrency": 50})
    pipeline.pause()
    assert pipeline.tags == {"deadletter:paused": "g=1/c=50/p=-/t=1800000000"}
    pipeline.close()
    steps = [pipeline.resume(step) for step in range(1, RAMP_STEPS + 1)]
    limits = [step["ScalingConfig"]["MaximumConcurrency"] for step in steps]
    assert limits == [10, 20, 30, 40, 50]
    assert pipeline.tags == {}


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"ScalingConfig": {"MaximumConcurrency": 50}},
        {"ProvisionedPollerConfig": {"MinimumPollers": 5, "MaximumPollers": 100}},
    ],
)
def test_a_lost_row_gives_the_mapping_back_as_it_was(limits: dict[str, Any]) -> None:
    pipeline = Pipeline(**limits)
    before = pipeline.described()
    pipeline.pause()
    del pipeline.circuits.held[KEY]
    pipeline.consumer_pause.recover(KEY)
    assert pipeline.described() == before
    assert pipeline.tags == {}


def test_the_strict_lambda_refuses_a_concurrency_in_provisioned_mode() -> None:
    pipeline = Pipeline(ProvisionedPollerConfig={"MinimumPollers": 5, "MaximumPollers": 100})
    with pytest.raises(ClientError, match="provisioned mode"):
        pipeline.lambda_.update_event_source_mapping(
            UUID=pipeline.id, ScalingConfig={"MaximumConcurrency": 10}
        )


def test_a_limit_of_pollers_that_is_not_set_is_lambdas_default() -> None:
    config = {"MinimumPollers": 9}
    found, _ = mappings({"UUID": "m", "State": "Enabled", "ProvisionedPollerConfig": config})
    assert found.find() == ConsumerMapping("m", True, pollers=Pollers(9, 200))


def test_the_strict_lambda_takes_no_json_in_a_tag() -> None:
    pipeline = Pipeline()
    with pytest.raises(ClientError, match="not allowed"):
        pipeline.lambda_.tag_resource(Resource=pipeline.arn, Tags={"a": '{"g": 1}'})


class Bus:
    """An event bus that answers as it is told."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.entries: list[dict[str, Any]] = []

    def put_events(self, *, Entries: list[dict[str, Any]]) -> Any:  # noqa: N803
        self.entries += Entries
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize("answer", [OFFLINE, {"FailedEntryCount": 1, "Entries": [{}]}])
def test_an_outage_goes_on_unannounced(answer: Any) -> None:
    metrics: Counter[str] = Counter()
    bus: Any = Bus(answer)
    announcer = EventBridgeCircuitEvents(
        EventBus(bus, "shop", Clock()), "orders", lambda name, n: metrics.update({name: n})
    )
    announcer.announce(Circuit("orders", State.OPEN, 3), "")
    assert metrics == {"CircuitUnannounced": 1}


def test_an_announcement_says_who_forced_it_and_not_why() -> None:
    bus: Any = Bus({"FailedEntryCount": 0, "Entries": [{}]})
    word = Override(State.OPEN, "ada", "customer z4711 complains", 2e9)
    circuit = Circuit("orders", State.OPEN, 3, forced=word)
    events = EventBus(bus, "shop", Clock())
    EventBridgeCircuitEvents(events, "orders", lambda *_: None).announce(circuit, "CLOSED")
    [entry] = bus.entries
    assert (entry["Source"], entry["DetailType"]) == ("deadletter", "CircuitStateChanged")
    assert '"forced_by": "ada"' in entry["Detail"]
    assert "z4711" not in entry["Detail"]
    assert problems(entry["DetailType"], json.loads(entry["Detail"])) == []


def test_a_circuit_that_nobody_holds_is_announced_by_the_schema_too() -> None:
    bus: Any = Bus({"FailedEntryCount": 0, "Entries": [{}]})
    events = EventBus(bus, "shop", Clock())
    EventBridgeCircuitEvents(events, "orders", lambda *_: None).announce(
        Circuit("orders", State.OPEN, 3), ""
    )
    [entry] = bus.entries
    assert problems(entry["DetailType"], json.loads(entry["Detail"])) == []
