"""Events on EventBridge, on the account's default bus, for anyone to subscribe to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, member
from deadletter.contract import EVENT_SOURCE, EVENT_VERSION, EventType
from deadletter.signals.figures import Count

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient

    from deadletter.circuit.state import Circuit
    from deadletter.rules.checker import RuleRefusal


class EventBus:
    """The account's default bus, for the events of one app. `clock` gives epoch seconds.

    `deadletter.events.schema` has the fields of each event.
    """

    def __init__(self, client: EventBridgeClient, app: str, clock: Callable[[], float]) -> None:
        self._client = client
        self._app = app
        self._clock = clock

    def put(self, event_type: EventType, pipeline: str, detail: Mapping[str, Any]) -> str | None:
        """Put one event on the bus. Returns None, or the error code if it was not accepted."""
        whole = {
            "version": EVENT_VERSION,
            "app": self._app,
            "pipeline": pipeline,
            "at": round(self._clock(), 3),
            **detail,
        }
        if "command" in whole:
            # Most events have none.
            from deadletter.signals.commands import in_app

            whole["command"] = in_app(whole["command"], self._app)
        entry = {"Source": EVENT_SOURCE, "DetailType": str(event_type), "Detail": json.dumps(whole)}
        try:
            answer = self._client.put_events(Entries=[entry])  # type: ignore[list-item]
            failed, entries = member(answer, "FailedEntryCount"), member(answer, "Entries")
        except AWS_ERRORS as error:
            return code(error)
        return entries[0].get("ErrorCode", "Unknown") if failed else None


class EventBridgeCircuitEvents:
    """Announces the states of a pipeline's circuits on EventBridge; never raises.

    `count_metric` counts a metric by its name: an event that was not accepted is counted.
    """

    def __init__(
        self, bus: EventBus, pipeline: str, count_metric: Callable[[str, int], None]
    ) -> None:
        self._bus = bus
        self._pipeline = pipeline
        self._count_metric = count_metric

    def announce(self, circuit: Circuit, before: str) -> None:
        detail = {
            "key": circuit.key,
            "state": str(circuit.state),
            **({"before": before} if before else {}),
            "change": circuit.generation,
            "restart": circuit.restart,
            "openings": circuit.trips,
            "opened_at": circuit.opened_at,
            "open_until": circuit.open_until,
            **({"forced_by": circuit.forced.by} if circuit.forced else {}),
        }
        refused = self._bus.put(EventType.CIRCUIT_STATE_CHANGED, self._pipeline, detail)
        if refused is not None:
            self._count_metric(Count.CIRCUIT_UNANNOUNCED, 1)


class EventBridgeRuleEvents:
    """Announces refused rules on EventBridge, with the reason."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    def announce(self, refusal: RuleRefusal) -> None:
        detail = {"rule_id": refusal.rule_id, "reason": refusal.reason}
        error = self._bus.put(EventType.RULE_REFUSED, refusal.pipeline, detail)
        if error is not None:
            # Only the rule checker announces rules.
            from deadletter.rules.checker import CheckUnavailable

            raise CheckUnavailable(f"the event bus: {error}")
