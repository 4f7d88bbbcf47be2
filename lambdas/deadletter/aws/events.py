"""Events on EventBridge, on the account's default bus, for anyone to subscribe to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code
from deadletter.contract import EVENT_SOURCE, EventType

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient


def put_event(
    client: EventBridgeClient, event_type: EventType, detail: Mapping[str, Any]
) -> str | None:
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
