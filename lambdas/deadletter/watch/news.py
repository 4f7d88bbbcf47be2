"""What is new in a minute, and is announced: causes, recoveries, parked messages, expiry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from deadletter.contract import (
    CAUSE_SHARDS,
    DEFAULT_PARKING,
    HOUR,
    MAIN,
    MINUTE,
    PARKED_LANE,
    EventType,
    parking_source,
)
from deadletter.failure.cause_index import CauseEntry
from deadletter.failure.ledger import LedgerUnavailable
from deadletter.signals.figures import Count, Figure
from deadletter.watch.observation import MetricPoint
from deadletter.watch.queues import AFTER_RESCUE, NO_LANE
from deadletter.watch.row import AnnouncedCause, NewsRow, ParkedRow, QueueRow, WatchRow
from deadletter.watch.watch_settings import WatchSettings

MOST_CAUSES = 50
"""Causes that are remembered: the row is written each minute, and paid for by the KB."""

OVER_AFTER = 5.0 * MINUTE
"""Seconds without a letter of a cause until it is over: an index lags, and a letter that fails
for another cause may leave it for a moment."""

RECENT = float(HOUR)
"""Seconds within which a cause must have failed a letter to be new. Rows of letters that somebody
else deleted from their queue stay in the index for weeks."""

LOOKS_ON = 15.0 * MINUTE
"""Seconds after the last dead letter in which causes are still read, and recoveries counted."""

OVER_IN_ANY_CASE = float(HOUR)
"""Seconds without a dead letter after which every cause is over, whatever rows are left."""

DIGEST = 10.0 * MINUTE
"""Seconds between two news of letters that recovered, or that were parked in one queue."""

METRICS_LAG = 3.0 * MINUTE
"""Seconds that CloudWatch may take until a minute's count is complete."""

LONGEST_COUNT = 24.0 * HOUR
"""The longest time that recovered letters are counted for, if the watch was away for longer."""

FAR_AGAIN = float(HOUR)
"""Seconds beyond the threshold at which a source's expiry is far again: bounds of ages move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCause:
    """The letters that fail for one cause, as the index has them: `since` and `last_at` are epoch
    seconds, `sample` is the origin id of one of them. `is_at_least`: not all were read.
    """

    messages: int
    since: float
    last_at: float
    sample: str
    category: str = ""
    error_type: str = ""
    http_status: int | None = None
    is_at_least: bool = False


@dataclass(frozen=True, slots=True)
class CausesLook:
    """The causes by fingerprint; `is_whole` says that no other letter fails."""

    causes: Mapping[str, SeenCause] = field(default_factory=dict)
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class RecoveredLetters:
    """Letters that were processed between two times."""

    count: int
    since: float
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NewsLook:
    """What was read for the news; None was not, or could not be.

    expiry  seconds until SQS drops the oldest message, by source or MAIN
    """

    causes: CausesLook | None = None
    recovered: RecoveredLetters | None = None
    expiry: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class News:
    """One event to tell; `about` is the cause, the queue or the source."""

    type: EventType
    about: str
    detail: Mapping[str, Any]


def dead_at(row: WatchRow) -> float:
    """When there was last a letter that may come back, outside the main queue; 0 if never.

    Parked letters fail no more.
    """
    parked = parking_source("")
    queues = [q.held_at for id_, q in row.queues.items() if id_ != MAIN and parked not in id_]
    lanes = [lane.held_at for kind, lane in row.lanes.items() if kind != PARKED_LANE]
    return max((at for at in (*queues, *lanes) if at is not None), default=0.0)


def reads_causes(row: WatchRow, now: float) -> bool:
    """Whether causes have to be read in this minute: an idle pipeline pays nothing for them."""
    quiet = now - dead_at(row)
    return quiet <= LOOKS_ON or (bool(row.news.causes) and quiet <= OVER_IN_ANY_CASE)


def count_recovered(row: WatchRow, now: float) -> tuple[float, float] | None:
    """The time for which CloudWatch has to be asked for recovered letters; None if it has not."""
    since = row.news.recovered_until
    if not since or now - since < DIGEST + METRICS_LAG:
        return None
    until = (now - METRICS_LAG) // MINUTE * MINUTE
    return max(since, until - LONGEST_COUNT), until


def judge_news(
    row: WatchRow, look: NewsLook, settings: WatchSettings, now: float
) -> tuple[NewsRow, tuple[News, ...]]:
    """What to remember before anything is told, and what to tell. `row` is this minute's."""
    quiet = now - dead_at(row)
    causes = look.causes
    if causes is None and quiet > OVER_IN_ANY_CASE:
        causes = CausesLook()
    news = replace(
        row.news,
        read_at=_read_at(row.news, causes, quiet, now),
        causes=row.news.causes if causes is None else _causes(row.news, causes, now),
        parked=_parked(row, settings, now),
        expiring=_expiring(row.news, look, settings),
        recovered_until=_recovered_until(row.news, look, quiet, now),
    )
    told = (
        *(() if causes is None else _cause_news(news, causes, settings, now)),
        *_recovered_news(look, settings),
        *_parked_news(news, settings, now),
        *_expiry_news(row, news, look, settings),
    )
    return news, told


def told(row: NewsRow, news: News, now: float) -> NewsRow:
    """The row once these news were told."""
    about = news.about
    match news.type:
        case EventType.CAUSE_APPEARED:
            cause = replace(row.causes[about], is_told=True)
            return replace(row, causes={**row.causes, about: cause})
        case EventType.CAUSE_OVER:
            left = {each: cause for each, cause in row.causes.items() if each != about}
            return replace(row, causes=left)
        case EventType.MESSAGES_RECOVERED:
            return replace(row, recovered_until=float(news.detail["until"]))
        case EventType.MESSAGES_PARKED:
            letters = int(news.detail["messages"])
            parked = ParkedRow(messages=letters, last=letters, told_at=now)
            return replace(row, parked={**row.parked, about: parked})
        case _:
            return replace(row, expiring={**row.expiring, about: now})


def _read_at(row: NewsRow, causes: CausesLook | None, quiet: float, now: float) -> float:
    if causes is not None and causes.is_whole:
        return now if quiet <= LOOKS_ON else 0.0
    return row.read_at if quiet <= LOOKS_ON else 0.0


def _causes(row: NewsRow, look: CausesLook, now: float) -> dict[str, AnnouncedCause]:
    """The causes that are remembered: those that were known, and new ones as long as there is
    room, the largest first.
    """
    known = {}
    for fingerprint, cause in row.causes.items():
        seen = look.causes.get(fingerprint)
        if seen is not None:
            known[fingerprint] = replace(
                cause, seen_at=now, messages=max(cause.messages, seen.messages)
            )
        elif cause.is_told or not _is_over(cause, look, now):
            known[fingerprint] = cause
    recently = min(now - RECENT, row.read_at or now)
    new = sorted(
        (-seen.messages, fingerprint)
        for fingerprint, seen in look.causes.items()
        if fingerprint not in known and (seen.is_at_least or seen.last_at >= recently)
    )
    for _, fingerprint in new[: max(0, MOST_CAUSES - len(known))]:
        seen = look.causes[fingerprint]
        known[fingerprint] = AnnouncedCause(
            noticed_at=now,
            seen_at=now,
            messages=seen.messages,
            category=seen.category,
            error_type=seen.error_type,
        )
    return known


def _is_over(cause: AnnouncedCause, look: CausesLook, now: float) -> bool:
    return look.is_whole and now - cause.seen_at >= OVER_AFTER


def _cause_news(
    row: NewsRow, look: CausesLook, settings: WatchSettings, now: float
) -> Iterator[News]:
    command = {"command": f"dlq groups {settings.pipeline}"}
    for fingerprint, cause in row.causes.items():
        seen = look.causes.get(fingerprint)
        facts = {
            "cause": fingerprint,
            "category": cause.category,
            "error_type": cause.error_type,
        }
        if seen is not None and not cause.is_told:
            status = {} if seen.http_status is None else {"http_status": seen.http_status}
            detail = {
                **facts,
                **status,
                "messages": seen.messages,
                "is_at_least": seen.is_at_least,
                "since": seen.since,
                "sample": seen.sample,
                **command,
            }
            yield News(EventType.CAUSE_APPEARED, fingerprint, detail)
        elif seen is None and cause.is_told and _is_over(cause, look, now):
            detail = {**facts, "messages": cause.messages, "since": cause.noticed_at, **command}
            yield News(EventType.CAUSE_OVER, fingerprint, detail)


def _recovered_until(row: NewsRow, look: NewsLook, quiet: float, now: float) -> float:
    """Until when recoveries are settled, if they are counted: while letters are dead, and a
    while after.
    """
    if not row.recovered_until:
        return now // MINUTE * MINUTE if quiet <= MINUTE else 0.0
    if look.recovered is None or look.recovered.count:
        return row.recovered_until
    return look.recovered.until if quiet <= LOOKS_ON else 0.0


def _recovered_news(look: NewsLook, settings: WatchSettings) -> Iterator[News]:
    letters = look.recovered
    if letters is not None and letters.count:
        detail = {
            "count": letters.count,
            "since": letters.since,
            "until": letters.until,
            "command": f"dlq status {settings.pipeline}",
        }
        yield News(EventType.MESSAGES_RECOVERED, "", detail)


def _parked(row: WatchRow, settings: WatchSettings, now: float) -> dict[str, ParkedRow]:
    rows = {}
    for id_ in settings.parking:
        before = row.news.parked.get(id_, ParkedRow(messages=0, last=0))
        queue = row.queues.get(parking_source(id_))
        if queue is None or queue.read_at != now or _is_rescued(queue, now):
            after = before
        else:
            letters = queue.messages + _lane_letters(row, id_)
            known = min(before.messages, max(before.last, letters))
            after = replace(before, messages=known, last=letters)
        if after.messages or after.last or now - after.told_at < DIGEST:
            rows[id_] = after
    return rows


def _is_rescued(queue: QueueRow, now: float) -> bool:
    """Whether letters are on their way from the queue to its lane: they count twice, or not."""
    return queue.rescued_at is not None and now - queue.rescued_at <= AFTER_RESCUE


def _lane_letters(row: WatchRow, id_: str) -> int:
    return row.lanes.get(PARKED_LANE, NO_LANE).messages if id_ == DEFAULT_PARKING else 0


def _parked_news(row: NewsRow, settings: WatchSettings, now: float) -> Iterator[News]:
    for id_, parked in row.parked.items():
        count = parked.last - parked.messages
        if count > 0 and now - parked.told_at >= DIGEST:
            detail = {
                "queue": id_,
                "count": count,
                "messages": parked.last,
                "command": f"dlq list --in parked --look --pipeline {settings.pipeline}",
            }
            yield News(EventType.MESSAGES_PARKED, id_, detail)


def _expiring(row: NewsRow, look: NewsLook, settings: WatchSettings) -> dict[str, float]:
    far = settings.alarms.letter_expiry + FAR_AGAIN
    return {
        source: at
        for source, at in row.expiring.items()
        if source in look.expiry and look.expiry[source] <= far
    }


def _expiry_news(
    row: WatchRow, news: NewsRow, look: NewsLook, settings: WatchSettings
) -> Iterator[News]:
    for source, seconds in look.expiry.items():
        if seconds <= settings.alarms.letter_expiry and source not in news.expiring:
            detail = {
                "source": source,
                "seconds": round(seconds),
                "messages": row.queues[source].messages,
                "command": f"dlq status {settings.pipeline}",
            }
            yield News(EventType.MESSAGES_EXPIRE_SOON, source, detail)


PAGE = 25
"""Rows of a page, 6 read units at most; and the letters of one cause that are counted in a
shard, before the answer says "at least"."""

MOST_PAGES = 2 * MOST_CAUSES
"""Pages of one shard in one look."""

NAMES = ("category", "error_type", "http_status")
"""The attributes that are read beside keys and times."""


class CausePages(Protocol):
    """The index of one pipeline's causes. Raises LedgerUnavailable."""

    def page(
        self,
        shard: int,
        most: int,
        names: Sequence[str],
        *,
        after: Mapping[str, Any] | None = None,
        beyond: str = "",
    ) -> IndexPage: ...


class IndexPage(Protocol):
    """A page of a shard; `last` is None at its end, and has the fingerprint `last_fingerprint`."""

    @property
    def entries(self) -> Sequence[CauseEntry]: ...

    @property
    def last(self) -> Mapping[str, Any] | None: ...

    @property
    def last_fingerprint(self) -> str: ...


@dataclass(slots=True)
class _Shard:
    """What was read of one shard; `cut` has the causes with more letters than were read."""

    entries: list[CauseEntry] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)
    is_whole: bool = False
    failed: LedgerUnavailable | None = None


def look_at_causes(
    index: CausePages, in_parallel: Callable[[Sequence[Callable[[], None]]], object]
) -> CausesLook:
    """The causes, with counts that are bounded. Raises LedgerUnavailable if a shard was not read.

    Letters whose failure has no fingerprint are left out: that is no cause.
    """
    shards = [_Shard() for _ in range(CAUSE_SHARDS)]
    in_parallel([partial(_read, index, n, shard) for n, shard in enumerate(shards)])
    for shard in shards:
        if shard.failed is not None:
            raise shard.failed
    members: dict[str, list[CauseEntry]] = {}
    for shard in shards:
        for entry in shard.entries:
            if entry.fingerprint:
                members.setdefault(entry.fingerprint, []).append(entry)
    cut = {fingerprint for shard in shards for fingerprint in shard.cut}
    return CausesLook(
        {name: _cause(entries, name in cut) for name, entries in members.items()},
        all(shard.is_whole for shard in shards),
    )


def _read(index: CausePages, number: int, shard: _Shard) -> None:
    after: Mapping[str, Any] | None = None
    beyond = ""
    for _ in range(MOST_PAGES):
        try:
            page = index.page(number, PAGE, NAMES, after=after, beyond=beyond)
        except LedgerUnavailable as error:
            shard.failed = error
            return
        shard.entries += page.entries
        if page.last is None:
            shard.is_whole = True
            return
        last = page.last_fingerprint
        if sum(entry.fingerprint == last for entry in shard.entries) >= PAGE:
            shard.cut.add(last)
            after, beyond = None, last
        else:
            after = page.last


def _cause(entries: Sequence[CauseEntry], is_at_least: bool) -> SeenCause:
    newest = max(entries, key=lambda entry: entry.seen)
    return SeenCause(
        messages=len(entries),
        since=min(entry.first_at for entry in entries),
        last_at=newest.seen,
        sample=newest.origin,
        category=newest.category,
        error_type=newest.error_type,
        http_status=newest.http_status,
        is_at_least=is_at_least,
    )


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
