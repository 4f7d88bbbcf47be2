"""Puts the announcer of replay runs together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deadletter.aws.events import EventBus
from deadletter.contract import EventType
from deadletter.replay.announcing import RunAnnouncer
from deadletter.replay.run import ReplayRuns
from deadletter.settings.pipeline import Pipeline


def run_announcer_for(
    pipeline: Pipeline,
    runs: ReplayRuns,
    bus: EventBus | None,
    count_metric: Callable[[str, int], None],
) -> RunAnnouncer | None:
    """Announces changed replay runs; None without a bus."""
    if bus is None:
        return None

    def put(event_type: EventType, detail: Mapping[str, Any]) -> str | None:
        return bus.put(event_type, pipeline.name, detail)

    return RunAnnouncer(runs=runs, put=put, count_metric=count_metric)
