"""Reads what is new, tells it, and remembers what was told. It never makes the watch fail.

Where recovered letters come from: the consumer alone knows that it has processed one. It counts
them in RedriveSuccess, also in a team's own function or container, so CloudWatch is asked for
that metric, for one question in ten minutes, while letters are dead or were in the last quarter
of an hour. Rows that leave the index would not do: parked and discarded letters leave it too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from deadletter.contract import EventType
from deadletter.failure.ledger import LedgerUnavailable
from deadletter.signals.figures import Count, Figure
from deadletter.watch.cause_look import CausePages, look_at_causes
from deadletter.watch.news import (
    CausesLook,
    NewsLook,
    RecoveredLetters,
    count_recovered,
    judge_news,
    reads_causes,
    told,
)
from deadletter.watch.point import MetricPoint
from deadletter.watch.row import WatchRow
from deadletter.watch.watch_settings import WatchSettings

MOST_TOLD = 25
"""News of one minute; the others follow in the next."""

MOST_REFUSED = 2
"""Refusals after which the bus is not tried again in this minute."""


class RecoveredUnread(Exception):
    """The number of recovered letters could not be read; the next minute tries again."""


class Bus(Protocol):
    """Where events are put."""

    def put(self, event_type: EventType, pipeline: str, detail: Mapping[str, Any]) -> str | None:
        """Put one event. Returns None, or why it was not accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Newsroom:
    """Everything that telling news takes.

    causes     the index of causes; None where the consumer keeps none
    recovered  the letters that were recovered between two times; raises RecoveredUnread
    """

    settings: WatchSettings
    bus: Bus
    recovered: Callable[[float, float], int]
    in_parallel: Callable[[Sequence[Callable[[], None]]], object]
    count_metric: Callable[[str, int], None]
    causes: CausePages | None = None

    def tell(self, row: WatchRow, points: Sequence[MetricPoint], now: float) -> WatchRow:
        """Tell what is new in this minute's row and figures. Returns the row that knows it."""
        expiry = {
            point.source: point.value
            for point in points
            if point.metric is Figure.SECONDS_TO_EXPIRY and point.source in row.queues
        }
        look = NewsLook(
            causes=self._look_at_causes(row, now),
            recovered=self._count_recovered(row, now),
            expiry={source: value for source, value in expiry.items() if source is not None},
        )
        remembered, news = judge_news(row, look, self.settings, now)
        refused = 0
        for each in news[:MOST_TOLD]:
            if self.bus.put(each.type, self.settings.pipeline, each.detail) is None:
                remembered = told(remembered, each, now)
                continue
            self.count_metric(Count.EVENT_REFUSED, 1)
            refused += 1
            if refused >= MOST_REFUSED:
                break
        return replace(row, news=remembered)

    def _look_at_causes(self, row: WatchRow, now: float) -> CausesLook | None:
        if self.causes is None or not reads_causes(row, now):
            return None
        try:
            return look_at_causes(self.causes, self.in_parallel)
        except LedgerUnavailable:
            self.count_metric(Count.NEWS_UNREAD, 1)
            return None

    def _count_recovered(self, row: WatchRow, now: float) -> RecoveredLetters | None:
        window = count_recovered(row, now)
        if window is None:
            return None
        try:
            return RecoveredLetters(self.recovered(*window), *window)
        except RecoveredUnread:
            self.count_metric(Count.NEWS_UNREAD, 1)
            return None
