"""The queues and lanes of a pipeline in the watch's row: depths, ages, attendance, rescues, and
when the DLQ will be empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from zlib import crc32

from deadletter.contract import (
    DAY,
    DEFAULT_PARKING,
    HOUR,
    MAIN,
    MINUTE,
    PARKED_LANE,
    Mode,
    WatchDefaults,
    dedicated_lane,
    is_of_delays,
    parking_source,
)
from deadletter.message.queue import QueueState
from deadletter.redrive.source_memory import SourceMemory
from deadletter.redrive.waiting_room import is_of_run, is_shut
from deadletter.routing.decision import DUE
from deadletter.signals.figures import Figure
from deadletter.signals.troubles import Seen, TroubleKind
from deadletter.watch.observation import (
    FirstDue,
    LaneState,
    MetricPoint,
    Observation,
    OldestMessage,
)
from deadletter.watch.row import AttendedRow, DrainRow, LaneRow, MainRow, QueueRow, WatchRow
from deadletter.watch.watch_settings import WatchSettings

SURE_AFTER = 5.0 * MINUTE
"""Seconds of readings of 0 after which a queue is surely empty: SQS counts its messages
approximately, and a count is right a minute after the last change."""

LONGEST_GAP = 3.0 * MINUTE
"""Seconds: readings further apart than this are not in a row."""

ZEROS_FOR = 10.0 * MINUTE
"""Seconds for which a figure stays visible as 0: so that an alarm sees that it is over. After
that it is not published: a metric costs money as long as it is."""


def with_memory(row: QueueRow, memory: SourceMemory) -> QueueRow:
    """The row with what runs know of the queue."""
    if memory.emptied_at != row.drained_at:
        row = replace(row, drained_at=memory.emptied_at, left=None)
    return replace(row, oldest_seen=memory.oldest)


def with_state(row: QueueRow, state: QueueState, now: float) -> QueueRow:
    """The row after a reading of the queue."""
    letters = state.depth.total
    row = replace(
        row,
        messages=letters,
        left=letters if row.left is None else min(row.left, letters),
        read_at=now,
        created=state.created,
        retention=state.retention,
        zero_since=_zero_since(row, state, now),
    )
    if letters:
        return replace(row, filled_at=now if row.filled_at is None else row.filled_at)
    row = replace(row, filled_at=None)
    if row.zero_since is not None and now - row.zero_since >= SURE_AFTER:
        return replace(row, empty_at=now - SURE_AFTER, oldest_gone=row.oldest_seen)
    return row


def _zero_since(row: QueueRow, state: QueueState, now: float) -> float | None:
    if state.depth.total:
        return None
    in_a_row = row.zero_since is not None and now - row.read_at <= LONGEST_GAP
    return row.zero_since if in_a_row else now


def oldest_known(row: QueueRow) -> float | None:
    """When the oldest letter of the queue was sent, as far as it is known; None if it is empty.

    Runs say what they have seen. Of a letter that none has seen, only its arrival is known:
    the queue has held letters since then, and no run has emptied it.
    """
    if row.filled_at is None:
        return None
    arrived = max(row.filled_at, row.drained_at or 0.0)
    if row.oldest_seen is None or row.oldest_seen == row.oldest_gone:
        return arrived
    return min(row.oldest_seen, arrived)


def empty_at(row: QueueRow) -> float:
    """The last time at which the queue surely held none of the letters that it holds now."""
    return max(row.created, row.empty_at or 0.0, row.drained_at or 0.0)


def oldest_possible(row: QueueRow, sent_before: float) -> float:
    """A time before which no letter of the queue was sent.

    A letter may have been sent up to `sent_before` seconds before it came into this queue.
    """
    bound = empty_at(row) - sent_before
    oldest = oldest_known(row)
    return bound if oldest is None else min(bound, oldest)


def queue_points(source: str, row: QueueRow, lane: LaneRow, now: float) -> Iterator[MetricPoint]:
    """Depth, age and time to expiry of a queue, with the lane that belongs to it.

    Nothing is published for a source that has been empty for a while. Time to expiry is the
    queue's alone: nothing expires in a lane.
    """
    letters = row.messages + lane.messages
    if not letters:
        if row.held_at is not None and now - row.held_at <= ZEROS_FOR:
            yield MetricPoint(Figure.MESSAGES, 0, now, source)
            yield MetricPoint(Figure.OLDEST_MESSAGE_AGE, 0, now, source)
        return
    yield MetricPoint(Figure.MESSAGES, letters, now, source)
    oldest = oldest_known(row)
    sent = [time for time in (oldest, lane.oldest) if time is not None]
    age = max(0.0, now - min(sent, default=now))
    yield MetricPoint(Figure.OLDEST_MESSAGE_AGE, age, now, source)
    if oldest is not None and row.retention:
        left = oldest + row.retention - now
        yield MetricPoint(Figure.SECONDS_TO_EXPIRY, max(0.0, left), now, source)


ROOM = "room"
CIRCUIT, RULE = "circuit", "rule"
NO_LANE = LaneRow()

BETWEEN_COUNTS = 10.0 * MINUTE - 10.0
"""Seconds between two counts of all lanes: a count reads each letter's entry in the index."""

MOST_LANES = 40
"""The most lanes of one count."""

AFTER_RESCUE = 15.0 * MINUTE
"""Seconds after the start of a rescue in which the lanes that it fills are counted each minute:
the queue's letters are in there, and must not look gone."""


def kind_of(lane: str) -> str:
    """The first word of a lane's name; the whole name for the lane of a dedicated DLQ.

    Delays that rules gave are counted with all others.
    """
    if is_of_delays(lane):
        return DUE
    return lane if lane.startswith(dedicated_lane("")) else lane.partition(":")[0]


def lanes_to_count(
    row: WatchRow | None, lanes: Sequence[str], now: float
) -> tuple[Sequence[str], bool]:
    """The lanes to count in this minute, and whether they stand for all.

    `lanes` are those of the room, the ones that were used last first.
    """
    if row is None or now - row.counted_at >= BETWEEN_COUNTS:
        return sorted(lanes, key=_rank)[:MOST_LANES], True
    if any(_just_rescued(queue, now) for queue in row.queues.values()):
        return [lane for lane in lanes if _is_of_queue(lane)][:MOST_LANES], False
    return (), False


def _rank(lane: str) -> int:
    """The place of a lane where there are more than one count takes.

    Those of queues and of delays are few. Letters of a run that has ended must not be overlooked.
    """
    return 0 if _is_of_queue(lane) or is_of_delays(lane) else 1 if is_of_run(lane) else 2


def _is_of_queue(lane: str) -> bool:
    """Whether a lane holds letters that were rescued from a queue, and counts for it."""
    return is_shut(lane) and not is_of_run(lane)


def _just_rescued(queue: QueueRow, now: float) -> bool:
    return queue.rescued_at is not None and now - queue.rescued_at <= AFTER_RESCUE


def count_lanes(
    rows: Mapping[str, LaneRow], lanes: Mapping[str, LaneState], *, counted: bool, now: float
) -> dict[str, LaneRow]:
    """The rows by kind, after a count; a kind that was not counted stays as it was.

    After a count of all lanes, a kind without a lane has no letters.
    """
    by_kind: dict[str, list[LaneState]] = {kind: [] for kind in (rows if counted else ())}
    for lane, state in lanes.items():
        by_kind.setdefault(kind_of(lane), []).append(state)
    return {
        **rows,
        **{kind: _row(rows.get(kind, NO_LANE), states, now) for kind, states in by_kind.items()},
    }


def _row(row: LaneRow, states: Sequence[LaneState], now: float) -> LaneRow:
    letters = sum(state.messages for state in states)
    due = [state.first_due for state in states if state.first_due is not None]
    if not letters:
        return replace(row, messages=0, more_at=None, first_due=None, filled_at=None)
    return replace(
        row,
        messages=letters,
        more_at=now if any(state.is_at_least for state in states) else None,
        first_due=min(due, default=None),
        filled_at=now if row.filled_at is None else row.filled_at,
    )


def first_due(rows: Mapping[str, LaneRow], due: FirstDue | None, now: float) -> dict[str, LaneRow]:
    """The rows after a look at the letter that is due first in the lane of delays.

    Between two counts, a lane holds the letters of the last one.
    """
    looked = {} if due is None else {DUE: replace(rows.get(DUE, NO_LANE), first_due=due.at)}
    return {
        kind: replace(row, held_at=now) if row.messages or row.first_due else row
        for kind, row in {**rows, **looked}.items()
    }


def room_letters(rows: Mapping[str, LaneRow]) -> int:
    """The letters of the waiting room, without those in lanes that belong to a queue."""
    return sum(row.messages for kind, row in rows.items() if not is_shut(kind))


def room_points(
    rows: Mapping[str, LaneRow], *, message_ttl: float, not_closed_at: float, now: float
) -> Iterator[MetricPoint]:
    """Depth and ages of the waiting room, without the lanes that belong to a queue.

    Letters of a replay run count, and are never late: the run says when they leave.

    A delayed letter is late from its due time, but not before the pipeline's circuit has
    closed: at `not_closed_at` it was last seen open. A letter of a circuit's lane is due when it
    is `message_ttl` old. One that a rule holds has the rule's end: its age is
    known from when letters were first seen there.
    """
    inside = [row for kind, row in rows.items() if not is_shut(kind)]
    letters = room_letters(rows)
    if letters or any(_shows_zero(row, now) for row in inside):
        yield MetricPoint(Figure.MESSAGES, letters, now, ROOM)
    delayed, held = (rows.get(kind, NO_LANE) for kind in (DUE, RULE))
    late = None if delayed.first_due is None else max(delayed.first_due, not_closed_at)
    yield from _age(delayed, late, f"{ROOM}:{DUE}", now)
    waiting = rows.get(CIRCUIT, NO_LANE)
    sent = None if waiting.first_due is None else waiting.first_due - message_ttl
    yield from _age(waiting, sent, f"{ROOM}:{CIRCUIT}", now)
    yield from _age(held, held.filled_at, f"{ROOM}:{RULE}", now)


def _age(row: LaneRow, since: float | None, source: str, now: float) -> Iterator[MetricPoint]:
    if since is not None:
        yield MetricPoint(Figure.OLDEST_MESSAGE_AGE, max(0.0, now - since), now, source)
    elif _shows_zero(row, now):
        yield MetricPoint(Figure.OLDEST_MESSAGE_AGE, 0, now, source)


def _shows_zero(row: LaneRow, now: float) -> bool:
    return row.held_at is not None and now - row.held_at <= ZEROS_FOR


FULL_FOR = float(HOUR)
"""Seconds in which a main queue was not seen empty, after which its oldest message may be old."""

BETWEEN_QUESTIONS = 10.0 * MINUTE - 10.0
"""Seconds between two questions: 4,320 a month at most, for $0.04."""

NEAR = 0.5
"""The share of its retention that a message of the main queue has at least used up when its
expiry is shown: a queue that keeps messages for an hour would never be far from it."""


def must_ask(row: WatchRow | None, now: float) -> bool:
    """Whether CloudWatch has to be asked for the age of the oldest message."""
    queue = None if row is None else row.queues.get(MAIN)
    if row is None or queue is None or queue.filled_at is None:
        return False
    asked_long_ago = now - row.main.asked_at >= BETWEEN_QUESTIONS
    return asked_long_ago and now - queue.filled_at > FULL_FOR


def with_answer(row: MainRow, queue: QueueRow, answer: OldestMessage | None, now: float) -> MainRow:
    """What is known of the oldest message after this minute.

    It grows older until CloudWatch names another one, or the queue is seen empty.
    """
    if queue.filled_at is None:
        return MainRow(asked_at=row.asked_at)
    if answer is None:
        return row
    return MainRow(asked_at=now, oldest=row.oldest if answer.sent is None else answer.sent)


def seconds_left(row: MainRow, queue: QueueRow, now: float) -> float | None:
    """Seconds until SQS drops the oldest message; None while that is far away, or not known."""
    if row.oldest is None or not queue.retention:
        return None
    left = max(0.0, row.oldest + queue.retention - now)
    return left if left <= queue.retention * (1 - NEAR) else None


def mapping_is_due(pipeline: str, row: WatchRow | None, now: float) -> bool:
    """Whether to ask Lambda for the consumer's mapping, whose control plane is the account's.

    Every tenth minute, and each second one while messages wait: its answers are for all pipelines
    of the account, so each has a minute of its own.
    """
    minute = int(now // MINUTE) + crc32(pipeline.encode())
    waits = row is None or row.queues.get(MAIN, _EMPTY).messages > 0
    return minute % (2 if waits else 10) == 0


_EMPTY = QueueRow()


IN_RESCUE = AFTER_RESCUE + BETWEEN_COUNTS
"""Seconds after the start of a rescue in which a letter may count twice, in its queue and in its
lane, or not at all in its queue."""

SHARED = parking_source(DEFAULT_PARKING)
"""The parking queue that the lane of all parked letters counts for."""


def lane_name(source: str) -> str | None:
    """The lane whose letters count for a source; None if those of another source do."""
    if source == SHARED:
        return PARKED_LANE
    return None if source.startswith(parking_source("")) else dedicated_lane(source)


def lane_of(source: str, lanes: Mapping[str, LaneRow]) -> LaneRow:
    """The lane with the letters that were rescued from a source.

    All parked letters share one: they count for the parking queue that every pipeline has.
    """
    name = lane_name(source)
    return NO_LANE if name is None else lanes.get(name, NO_LANE)


def for_people(settings: WatchSettings) -> tuple[str, ...]:
    """The sources whose letters only a person takes out."""
    undrained = (id_ for id_ in settings.dedicated if id_ not in settings.alarms.scheduled)
    return (*undrained, *map(parking_source, settings.parking))


def with_counts(
    rows: Mapping[str, AttendedRow],
    queues: Mapping[str, QueueRow],
    lanes: Mapping[str, LaneRow],
    observation: Observation,
    settings: WatchSettings,
    now: float,
) -> dict[str, AttendedRow]:
    """The rows after this minute's readings, by source; there is none of an empty source.

    Letters that were rescued from another parking queue go on in the shared lane, and have waited
    as long as they did in their queue.
    """
    after: dict[str, AttendedRow] = {}
    moved: list[float] = []
    for source in for_people(settings):
        queue, lane = queues[source], lane_of(source, lanes)
        letters = queue.messages + lane.messages
        row = rows.get(source, AttendedRow(messages=letters, at=now))
        in_rescue = queue.rescued_at is not None and now - queue.rescued_at <= IN_RESCUE
        if in_rescue and lane_name(source) is None:
            # It loses letters that no person takes.
            if row.messages:
                moved.append(row.at)
            row = AttendedRow(messages=queue.messages, at=row.at)
        elif source in observation.queues and _is_counted(source, lane, observation):
            row = with_reading(row, letters, now, in_rescue=in_rescue)
        if row.messages or letters:
            after[source] = row
    if moved and SHARED in after:
        after[SHARED] = replace(after[SHARED], at=min(after[SHARED].at, *moved))
    return after


def _is_counted(source: str, lane: LaneRow, observation: Observation) -> bool:
    """Whether the lane's letters are known as of this minute. A lane is counted now and then."""
    return not lane.messages or observation.counted or lane_name(source) in observation.lanes


def with_reading(row: AttendedRow, letters: int, now: float, *, in_rescue: bool) -> AttendedRow:
    """The row after a count of letters, which SQS gives approximately.

    Fewer letters are believed when all readings of SURE_AFTER say so, and so are more. In a
    rescue letters count twice: then there are no more of them.
    """
    readings = [*zip(row.times, row.counts, strict=False), (now, letters)]
    # One that is as old as SURE_AFTER is enough.
    old = [at for at, _ in readings if now - at >= SURE_AFTER]
    readings = [(at, count) for at, count in readings if not old or at >= old[-1]]
    times, counts = (tuple(values) for values in zip(*readings, strict=True))
    row = replace(row, times=times, counts=counts)
    if old and max(counts) < row.messages:
        row = replace(row, messages=max(counts), at=now)
    elif old and min(counts) > row.messages and not in_rescue:
        row = replace(row, messages=min(counts))
    return row if row.messages or any(counts) else replace(row, at=now)


def unattended(
    rows: Mapping[str, AttendedRow],
    queues: Mapping[str, QueueRow],
    lanes: Mapping[str, LaneRow],
    after: float,
    now: float,
) -> Iterator[tuple[str, int, float | None]]:
    """The sources that hold letters and that none has left for `after` seconds.

    Each with its letters and the seconds; None if there are more letters than were counted: some
    may have left.
    """
    for source, row in rows.items():
        lane = lane_of(source, lanes)
        letters = queues[source].messages + lane.messages
        if letters and row.messages and now - row.at >= after:
            yield source, letters, now - row.at if lane.more_at is None else None


def unattended_troubles(found: Iterable[tuple[str, int, float | None]]) -> Iterator[Seen]:
    """Which messages need a person, by source."""
    for source, letters, seconds in found:
        facts: dict[str, str | float] = {"source": source, "messages": letters}
        facts |= {"least": "at least"} if seconds is None else {"seconds": seconds}
        yield Seen(TroubleKind.UNATTENDED, facts)


MARGIN = float(DAY)
"""Seconds before SQS could drop a letter in which its rescue begins."""

BETWEEN_RESCUES = 2.0 * MINUTE - 10.0
"""Seconds between two starts of a rescue of one source, a little less than two minutes: the
watch does not start on the second."""

SAME_LETTERS_AGAIN = 15.0 * MINUTE - 10.0
"""Seconds between two rescues of a queue that holds no more letters than the last one has left."""

DRAINED_WITHIN = float(HOUR)
"""A queue that was empty within this time is drained by the runs."""


def rescue_due(
    row: QueueRow,
    *,
    mode: Mode,
    sent_before: float,
    runs_drain: bool,
    now: float,
) -> bool:
    """Whether everything has to be moved out of a queue now.

    A letter may have been sent up to `sent_before` seconds before it came into the queue: so
    where retention is short, the bound is near from the first minute. Then a rescue is due only
    if the runs do not drain the queue. A queue that cannot be read may hold letters.
    """
    may_hold = row.messages > 0 or now - row.read_at > BETWEEN_RESCUES
    more_than_left = row.messages > (row.left or 0)
    pause = BETWEEN_RESCUES if more_than_left else SAME_LETTERS_AGAIN
    pause_over = row.rescued_at is None or now - row.rescued_at >= pause
    if mode is not Mode.ENFORCE or not row.retention or not may_hold or not pause_over:
        return False
    near = oldest_possible(row, sent_before) + row.retention - MARGIN <= now
    always_near = row.retention - sent_before - MARGIN <= DRAINED_WITHIN
    drained = runs_drain and now - empty_at(row) <= DRAINED_WITHIN
    return near and not (always_near and drained)


LOOKS = 10
"""The looks at the depth that are compared: the last half with the first half."""

FLAT = 0.2
"""The share by which the halves may differ: SQS counts approximately."""

RISING: Final = "rising"
FALLING: Final = "falling"
LEVEL: Final = "flat"


def with_depth(depths: Sequence[int], depth: int) -> tuple[int, ...]:
    """The last depths after one more look."""
    return (*depths, depth)[-LOOKS:]


def direction(depths: Sequence[int]) -> str:
    """Where the depth goes: `rising`, `falling` or `flat`; empty if there were too few looks.

    The mean of the last half is compared with the mean of the first half: flat is within 20
    percent of it.
    """
    if len(depths) < LOOKS:
        return ""
    first, last = sum(depths[: LOOKS // 2]), sum(depths[-(LOOKS // 2) :])
    if last > first * (1 + FLAT):
        return RISING
    return FALLING if last < first * (1 - FLAT) else LEVEL


TARGET = 2.0 * HOUR
"""Seconds within which the DLQ is to be empty. A queue that needs longer is noticed by customers,
and what it needs is more `rate`, or a fix: it is said long before the first letter is old."""

LEAST = 10
"""Letters below which there is no rate: SQS counts approximately, and one letter more or less
would be a tenth."""

STILL = 0.01
"""The share by which the second five looks have to be below the first: less is not told from the
noise of SQS's counts, and would promise an end that lies days ahead."""

MOST_APART = 5.0 * MINUTE
"""Seconds between two runs beyond which ten looks see less than two of them, and so no rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainTime:
    """When the DLQ will be empty.

    seconds   from the last look; None if it does not become emptier, or if that is not known
    fewer     letters a second by which it became emptier, arrivals deducted; None if not known
    looks     how many looks in a row saw letters in it while runs could work
    """

    seconds: float | None = None
    fewer: float | None = None
    looks: int = 0

    @property
    def is_late(self) -> bool:
        """Whether the target is missed at the measured rate. What is not known is not late."""
        return self.fewer is not None and (self.seconds is None or self.seconds > TARGET)


def drain_time(row: DrainRow) -> DrainTime:
    """When the DLQ will be empty, as far as ten looks in a row tell."""
    looks = len(row.depths)
    if looks < LOOKS:
        return DrainTime(looks=looks)
    half = LOOKS // 2
    first, last = sum(row.depths[:half]) / half, sum(row.depths[half:]) / half
    between = (sum(row.times[half:]) - sum(row.times[:half])) / half
    if first < LEAST or between <= 0:
        return DrainTime(looks=looks)
    fewer = (first - last) / between
    if last > first * (1 - STILL):
        return DrainTime(fewer=fewer, looks=looks)
    return DrainTime(seconds=max(0.0, row.depths[-1] / fewer), fewer=fewer, looks=looks)


def with_look(
    row: DrainRow,
    depth: int,
    alarms: WatchDefaults,
    *,
    runs_can_work: bool,
    emptied_at: float | None,
    now: float,
) -> DrainRow:
    """The row after a look at the DLQ.

    Looks from before a run has emptied it (`emptied_at`), or from a time in which no letter could
    go back, say nothing of when it will be empty.
    """
    looks = [*zip(row.times, row.depths, strict=False), (now, depth)] if depth else []
    if not runs_can_work or (row.times and now - row.times[-1] > LONGEST_GAP):
        looks = looks[-1:] if runs_can_work else []
    looks = [(at, seen) for at, seen in looks[-LOOKS:] if emptied_at is None or at >= emptied_at]
    after = DrainRow(
        times=tuple(at for at, _ in looks),
        depths=tuple(seen for _, seen in looks),
        deep=row.deep + 1 if depth > alarms.depth else 0,
    )
    late = row.late + 1 if drain_time(after).is_late else 0
    return DrainRow(times=after.times, depths=after.depths, deep=after.deep, late=late)


def depth_troubles(row: DrainRow, letters: int, alarms: WatchDefaults) -> Iterator[Seen]:
    """Why the depth of the DLQ needs a person: nothing if it does not."""
    if row.deep >= alarms.depth_looks:
        yield Seen(TroubleKind.DEEP, {"messages": letters, "most": alarms.depth})
    if row.late < alarms.depth_looks:
        return
    facts: dict[str, str | float] = {"looks": LOOKS, "messages": letters}
    seconds = drain_time(row).seconds
    if seconds is None:
        yield Seen(TroubleKind.NOT_EMPTIER, facts)
    else:
        yield Seen(TroubleKind.EMPTY_LATE, facts | {"seconds": seconds})
