"""Who would have been called: the alarms that rang while the demo ran.

The demo's outage is short and heals by itself, and what is parked is parked today: on a machine
that keeps up, no alarm rings in it, not even for a minute. So what counts is the history of all
alarms, and not the state that they are left in. It is no part of the verdict: an alarm's minute
lasts six seconds here, and a busy machine may take longer for what a minute is enough for.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Pages:
    """The number of alarms that are deployed, and those that were in ALARM at any time."""

    alarms: int
    rang: tuple[str, ...]

    @property
    def says(self) -> str:
        names = f": {', '.join(self.rang)}" if self.rang else ""
        return f"alarms that rang: {len(self.rang)}{names} (of {self.alarms} that watched)"


def pages(cloudwatch: Any) -> Pages:
    """Read the alarms that are deployed and the history of their states."""
    deployed = [
        alarm
        for page in cloudwatch.get_paginator("describe_alarms").paginate()
        for alarm in page.get("MetricAlarms", ())
    ]
    changes = (
        item
        for page in cloudwatch.get_paginator("describe_alarm_history").paginate(
            HistoryItemType="StateUpdate"
        )
        for item in page["AlarmHistoryItems"]
    )
    ringing = {alarm["AlarmName"] for alarm in deployed if alarm["StateValue"] == "ALARM"}
    return Pages(len(deployed), tuple(sorted(ringing | set(into_alarm(changes)))))


def into_alarm(changes: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Name the alarm of each change into ALARM."""
    for change in changes:
        if json.loads(change["HistoryData"])["newState"]["stateValue"] == "ALARM":
            yield change["AlarmName"]
