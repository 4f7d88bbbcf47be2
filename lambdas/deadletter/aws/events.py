"""Events on EventBridge, on the account's default bus, for anyone to subscribe to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code
from deadletter.circuit.state import Circuit
from deadletter.contract import EVENT_SOURCE, EventType, Metric
from deadletter.outage.execution_step import CircuitEvents
from deadletter.rules.checker import CheckUnavailable, RuleRefusal

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient


class EventBridgeRuleEvents:
    """Announces refused rules on EventBridge, with the reason."""

    def __init__(self, client: EventBridgeClient) -> None:
        self._client = client

    def announce(self, refusal: RuleRefusal) -> None:
        detail = {
            "pipeline": refusal.pipeline,
            "rule_id": refusal.rule_id,
            "reason": refusal.reason,
        }
        error = _put(self._client, EventType.RULE_REFUSED, detail)
        if error is not None:
            raise CheckUnavailable(f"the event bus: {error}")


class EventBridgeCircuitEvents(CircuitEvents):
    """Announces the states of a pipeline's circuits on EventBridge; never raises.

    `count_metric` counts a metric by its name: an event that was not accepted is counted.
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
        if _put(self._client, EventType.CIRCUIT_STATE_CHANGED, detail) is not None:
            self._count_metric(Metric.CIRCUIT_UNANNOUNCED, 1)


def _put(client: EventBridgeClient, event_type: EventType, detail: Mapping[str, Any]) -> str | None:
    """Put one event on the bus. Returns None, or the error code if it was not accepted."""
    try:
        answer = client.put_events(
            Entries=[
                {
                    "Source": EVENT_SOURCE,
                    "DetailType": event_type,
                    "Detail": json.dumps(detail),
                }
            ]
        )
    except AWS_ERRORS as error:
        return code(error)
    return answer["Entries"][0].get("ErrorCode", "Unknown") if answer["FailedEntryCount"] else None
