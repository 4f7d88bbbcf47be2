"""The consumer's mapping as Lambda answers about it, and what an announcement does that fails."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from deadletter.aws.circuit_events import EventBridgeCircuitEvents
from deadletter.aws.event_source import LambdaMappings
from deadletter.circuit.state import Circuit, Override, State
from deadletter.outage.event_source import ConsumerMapping, MappingBusy, MappingUnavailable
from deadletter.testing.fakes import client_error

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


@pytest.mark.parametrize(
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
    found.change(had, enabled=True, concurrency=50)
    found.change(had, enabled=None, concurrency=10)
    found.change(had, enabled=None, concurrency=None)
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
        mappings(error)[0].change(ConsumerMapping("m", True), enabled=False, concurrency=None)


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
    announcer = EventBridgeCircuitEvents(bus, "orders", lambda name, n: metrics.update({name: n}))
    announcer.announce(Circuit("orders", State.OPEN, 3), "")
    assert metrics == {"CircuitUnannounced": 1}


def test_an_announcement_says_who_forced_it_and_not_why() -> None:
    bus: Any = Bus({"FailedEntryCount": 0, "Entries": [{}]})
    word = Override(State.OPEN, "ada", "customer 4711 complains", 2e9)
    circuit = Circuit("orders", State.OPEN, 3, forced=word)
    EventBridgeCircuitEvents(bus, "orders", lambda *_: None).announce(circuit, "CLOSED")
    [entry] = bus.entries
    assert (entry["Source"], entry["DetailType"]) == ("deadletter", "CircuitStateChanged")
    assert '"forced_by": "ada"' in entry["Detail"]
    assert "4711" not in entry["Detail"]
