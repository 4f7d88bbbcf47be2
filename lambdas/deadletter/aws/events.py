"""Events on EventBridge, on the account's default bus, for anyone to subscribe to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, member
from deadletter.contract import EVENT_SOURCE, EVENT_VERSION, EventType

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient


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
        entry = {"Source": EVENT_SOURCE, "DetailType": str(event_type), "Detail": json.dumps(whole)}
        try:
            answer = self._client.put_events(Entries=[entry])  # type: ignore[list-item]
            failed, entries = member(answer, "FailedEntryCount"), member(answer, "Entries")
        except AWS_ERRORS as error:
            return code(error)
        return entries[0].get("ErrorCode", "Unknown") if failed else None
