"""Events that others may subscribe to, on the account's default bus."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from deadletter.aws.errors import AWS_ERRORS, code
from deadletter.circuit.state import Circuit
from deadletter.contract import EVENT_SOURCE, EventType, Metric
from deadletter.outage.execution_step import CircuitEvents
from deadletter.rules.checker import CheckUnavailable, RuleRefusal

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient


class EventBridgeRuleEvents:
    """Says on EventBridge that a rule was refused, and why."""

    def __init__(self, client: EventBridgeClient) -> None:
        self._client = client

    def announce(self, refusal: RuleRefusal) -> None:
        detail = {
            "pipeline": refusal.pipeline,
            "rule_id": refusal.rule_id,
            "reason": refusal.reason,
        }
        try:
            answer = self._client.put_events(
                Entries=[
                    {
                        "Source": EVENT_SOURCE,
                        "DetailType": EventType.RULE_REFUSED,
                        "Detail": json.dumps(detail),
                    }
                ]
            )
        except AWS_ERRORS as error:
            raise CheckUnavailable(f"the event bus: {code(error)}") from error
        if answer["FailedEntryCount"]:
            raise CheckUnavailable(f"the event bus: {answer['Entries'][0].get('ErrorCode')}")


class EventBridgeCircuitEvents(CircuitEvents):
    """Says on EventBridge what state a circuit of a pipeline is in now.

    `count_metric` counts a metric by its name.
    """

    def __init__(
        self, client: EventBridgeClient, pipeline: str, count_metric: Callable[[str, int], None]
    ) -> None:
        self._client = client
        self._pipeline = pipeline
        self._count_metric = count_metric

    def announce(self, circuit: Circuit, before: str) -> None:
        detail = {
            "pipeline": self._pipeline,
            "key": circuit.key,
            "state": str(circuit.state),
            **({"before": before} if before else {}),
            "generation": circuit.generation,
            "restart": circuit.restart,
            "trips": circuit.trips,
            "opened_at": circuit.opened_at,
            "open_until": circuit.open_until,
            **({"forced_by": circuit.forced.by} if circuit.forced else {}),
        }
        entry = {
            "Source": EVENT_SOURCE,
            "DetailType": EventType.CIRCUIT_STATE_CHANGED,
            "Detail": json.dumps(detail),
        }
        try:
            answer = self._client.put_events(Entries=[entry])  # type: ignore[list-item]
        except AWS_ERRORS:
            self._count_metric(Metric.CIRCUIT_UNANNOUNCED, 1)
            return
        if answer["FailedEntryCount"]:
            self._count_metric(Metric.CIRCUIT_UNANNOUNCED, 1)
