"""Events that others may subscribe to, on the account's default bus."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from deadletter.aws.answers import AWS_ERRORS, code
from deadletter.rule_check import CheckUnavailable, Refusal

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient

SOURCE = "deadletter"
RULE_REFUSED = "RuleRefused"


class EventBridgeAnnouncer:
    """Says on EventBridge that a rule was refused, and why."""

    def __init__(self, client: EventBridgeClient) -> None:
        self._client = client

    def announce(self, refusal: Refusal) -> None:
        detail = {
            "pipeline": refusal.pipeline,
            "rule_id": refusal.rule_id,
            "reason": refusal.reason,
        }
        try:
            answer = self._client.put_events(
                Entries=[
                    {"Source": SOURCE, "DetailType": RULE_REFUSED, "Detail": json.dumps(detail)}
                ]
            )
        except AWS_ERRORS as error:
            raise CheckUnavailable(f"the event bus: {code(error)}") from error
        if answer["FailedEntryCount"]:
            raise CheckUnavailable(f"the event bus: {answer['Entries'][0].get('ErrorCode')}")
