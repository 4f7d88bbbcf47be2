"""Looks at everything once a minute, publishes what it means, and starts rescues.

It receives no letter and moves none. Each step is guarded on its own: what one of them cannot
read goes on from memory, is trouble with a reason, and stops no other step.

What an idle pipeline pays for it a month, in us-east-1, at 43,200 minutes:

    SQS        3 queues, 1 GetQueueAttributes each        129,600 requests   at $0.40/M    $0.05
    DynamoDB   leases (1 unit), lanes (0.5), circuits in trouble (0.5), the lane of delays
               (8 shards, 0.5 each, and the same every ten minutes to count it), row (1 write)
                                                          276,480 read units  at $0.125/M  $0.03
                                                           43,200 write units at $0.625/M  $0.03
               causes of failure (1 unit)                  43,200 read units  at $0.125/M  $0.01
               the pipeline's own circuit (1 unit)         43,200 read units  at $0.125/M  $0.01
               replay runs (1 unit)                        43,200 read units  at $0.125/M  $0.01
    Router     rules (2 partitions, 1 unit each),
               circuits (none is asked for)                86,400 read units  at $0.125/M  $0.01
    Lambda     watch, 256 MB for 0.3 s, and router, 512 MB for 0.1 s, on arm64 (both assumed)
               43,200 x (0.075 + 0.05) GB-s = 5,400 GB-s  at $0.0000133                    $0.07
               86,400 requests                            at $0.20/M                       $0.02
    Scheduler  43,200 starts                              at $1.00/M                       $0.04
    Logs       about 1.5 KB a minute of both functions, 65 MB at $0.50/GB                  $0.03
    Metrics    RedriveStalled                              at $0.30                         $0.30

That is $0.61, half of it for the metric: it begins no traces. Everything else is published only
while there is something to say: a figure of a queue, a lane or a level costs $0.0004 an hour. A
main queue that is never seen empty costs 4,320 questions to CloudWatch a month, $0.04. While
letters are dead, and for a quarter of an hour after, news cost 8 reads of the index of causes a
minute, 0.5 to 3 units each ($0.001 to $0.005 a day), one question to CloudWatch for recovered
letters in ten minutes ($0.0015 a day), and $1.00 for a million events. An idle pipeline pays
nothing for them, however busy its consumer is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from deadletter.circuit.state import Circuit, CircuitsUnavailable
from deadletter.contract import CIRCUIT_LEVELS, DAY, MAIN, MAIN_DLQ, Mode, is_of_delays, run_lane
from deadletter.failure.causes import CausesReader, CausesUnavailable
from deadletter.message.queue import QueueState, QueueUnavailable
from deadletter.outage.reconciler import Sweep
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.source_memory import UNKNOWN, SourceMemory
from deadletter.redrive.waiting_room import Lane, LaneCount, RoomUnavailable
from deadletter.replay.care import Care
from deadletter.routing.router import Router, RouterUnavailable
from deadletter.signals.figures import COUNTED, Figure
from deadletter.signals.pages import Alarm
from deadletter.signals.troubles import since_before
from deadletter.watch.observation import (
    FirstDue,
    LaneState,
    MetricPoint,
    Observation,
    OldestMessage,
    SharedLook,
    circuits_state,
    rules_state,
)
from deadletter.watch.queues import (
    MOST_APART,
    count_lanes,
    direction,
    first_due,
    lane_of,
    lanes_to_count,
    mapping_is_due,
    must_ask,
    queue_points,
    rescue_due,
    room_letters,
    room_points,
    seconds_left,
    with_answer,
    with_counts,
    with_depth,
    with_look,
    with_memory,
    with_state,
)
from deadletter.watch.row import LaneRow, QueueRow, WatchRow
from deadletter.watch.troubles import (
    LEASE,
    ROUTER,
    RULE_CHECKER,
    failing_steps,
    level_points,
    not_closed_at,
    stall,
    unread_main_queue,
    with_circuits,
    with_levels,
    with_replays,
)
from deadletter.watch.watch_settings import WatchSettings

LONGEST_RETENTION = 14.0 * DAY
"""The longest that SQS keeps a message: the main queue's, as long as it could not be read."""

_UNREAD = QueueRow()


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """What follows from one look.

    row      what the watch remembers from now on
    points   the figures to publish
    rescues  the sources whose letters have to be moved before SQS drops them
    """

    row: WatchRow
    points: tuple[MetricPoint, ...]
    rescues: tuple[str, ...] = ()

    @property
    def trouble(self) -> dict[str, Any]:
        """What the log says of this minute, as JSON-ready data; empty if all is well."""
        return {
            **({"seen": [asdict(seen) for seen in self.row.seen]} if self.row.seen else {}),
            **({"rescues": list(self.rescues)} if self.rescues else {}),
            **(
                {"failing": {step: asdict(failing) for step, failing in self.row.failing.items()}}
                if self.row.failing
                else {}
            ),
        }


def judge_minute(
    row: WatchRow | None, observation: Observation, settings: WatchSettings, now: float
) -> Minute:
    """What follows from one minute's look. Without a `row`, it is the first minute.

    What could not be read goes on from memory: an age grows, a level stays as it was.
    """
    before = row or WatchRow(first_at=now, ran_at=now)
    row = _remembered(before, observation, settings, now)
    levels, seen = with_levels(row, observation, settings, now)
    row = replace(row, levels=levels)
    stalled = (
        *stall(row, observation.memories, settings, now),
        *unread_main_queue(row, observation.consumer, now),
    )
    row = replace(row, seen=tuple(since_before((*stalled, *seen), before.seen, now)))
    points = (
        *_source_points(row, settings, now),
        *room_points(
            row.lanes,
            message_ttl=settings.message_ttl,
            not_closed_at=not_closed_at(row),
            now=now,
        ),
        *level_points(row.levels, now),
        # Published each minute: the alarm rings as well when there is no value.
        MetricPoint(Figure.REDRIVE_STALLED, int(bool(stalled)), now),
    )
    return Minute(row=row, points=points, rescues=_rescues(row, observation, settings, now))


def _remembered(
    before: WatchRow, observation: Observation, settings: WatchSettings, now: float
) -> WatchRow:
    """The row with everything that was read in this minute, and without a judgement on it."""
    lanes = _lanes(before.lanes, observation, now)
    queues = _queues(before, lanes, observation, settings, now)
    alarms = settings.alarms
    depths, drain = before.depths, before.drain
    if MAIN_DLQ in observation.queues:
        drain = with_look(
            drain,
            queues[MAIN_DLQ].messages,
            alarms,
            runs_can_work=_runs_can_work(before, observation, settings),
            emptied_at=queues[MAIN_DLQ].drained_at,
            now=now,
        )
        depths = with_depth(depths, queues[MAIN_DLQ].messages + room_letters(lanes))
    return replace(
        before,
        ran_at=now,
        botocore=settings.botocore,
        failing=failing_steps(before, observation.failed, now),
        lanes=lanes,
        queues=queues,
        counted_at=now if observation.counted else before.counted_at,
        held=_held(before, observation, now),
        circuits=with_circuits(before.circuits, observation.circuits, alarms, now),
        attended=with_counts(before.attended, queues, lanes, observation, settings, now),
        replays=with_replays(before.replays, observation.replays, now),
        main=with_answer(before.main, queues[MAIN], observation.main, now),
        depths=depths,
        direction=direction(depths),
        drain=drain,
    )


def _runs_can_work(before: WatchRow, observation: Observation, settings: WatchSettings) -> bool:
    """Whether letters of the DLQ go back, so often that a minute's look can tell."""
    circuits = observation.circuits
    if circuits is None:
        level = before.levels.get(Figure.CIRCUIT_STATE)
        is_closed = level is None or not level.value
    else:
        is_closed = not max(circuits.level, circuits.named)
    is_enforced = settings.mode is Mode.ENFORCE
    is_stalled = bool(before.of(Alarm.REDRIVE_STALLED))
    return is_enforced and is_closed and not is_stalled and settings.every <= MOST_APART


def with_rescues(row: WatchRow, sources: Sequence[str], now: float) -> WatchRow:
    """The row once rescues of these sources have been started."""
    started = {source: replace(row.queues[source], rescued_at=now) for source in sources}
    return replace(row, queues={**row.queues, **started})


def _lanes(
    lanes: Mapping[str, LaneRow], observation: Observation, now: float
) -> dict[str, LaneRow]:
    counted = count_lanes(lanes, observation.lanes, counted=observation.counted, now=now)
    return first_due(counted, observation.due, now)


def _queues(
    row: WatchRow,
    lanes: Mapping[str, LaneRow],
    observation: Observation,
    settings: WatchSettings,
    now: float,
) -> dict[str, QueueRow]:
    queues = {}
    for source in (MAIN, *settings.sources):
        queue = row.queues.get(source, _UNREAD)
        if observation.memories is not None:
            queue = with_memory(queue, observation.memories.get(source, UNKNOWN))
        if source in observation.queues:
            queue = with_state(queue, observation.queues[source], now)
        if queue.messages or lane_of(source, lanes).messages:
            queue = replace(queue, held_at=now)
        queues[source] = queue
    return queues


def _source_points(row: WatchRow, settings: WatchSettings, now: float) -> Iterator[MetricPoint]:
    """The figures of each queue, and of the pipeline: its oldest letter and its soonest expiry."""
    points = [
        point
        for source in settings.sources
        for point in queue_points(source, row.queues[source], lane_of(source, row.lanes), now)
    ]
    main = seconds_left(row.main, row.queues[MAIN], now)
    if main is not None:
        points.append(MetricPoint(Figure.SECONDS_TO_EXPIRY, main, now, MAIN))
    yield from points
    ages = [
        point.value
        for point in points
        if point.metric is Figure.OLDEST_MESSAGE_AGE and point.source in settings.drained
    ]
    if ages:
        yield MetricPoint(Figure.OLDEST_MESSAGE_AGE, max(ages), now)
    soonest = [point.value for point in points if point.metric is Figure.SECONDS_TO_EXPIRY]
    if soonest:
        yield MetricPoint(Figure.SECONDS_TO_EXPIRY, min(soonest), now)


def _rescues(
    row: WatchRow, observation: Observation, settings: WatchSettings, now: float
) -> tuple[str, ...]:
    # No run drains a parking queue, or a dedicated DLQ without a schedule.
    drained = settings.drained if _circuit_closed(observation) else ()
    main_retention = row.queues[MAIN].retention or LONGEST_RETENTION
    # On FIFO the time of the first send does not follow a letter into the DLQ, and nothing is
    # moved into a parking queue but by a send.
    dlqs = () if settings.fifo else (MAIN_DLQ, *settings.dedicated)
    return tuple(
        source
        for source in settings.sources
        if rescue_due(
            row.queues[source],
            mode=settings.mode,
            sent_before=main_retention if source in dlqs else 0.0,
            runs_drain=source in drained,
            now=now,
        )
    )


def _circuit_closed(observation: Observation) -> bool:
    circuits = observation.circuits
    return circuits is not None and circuits.level == CIRCUIT_LEVELS["CLOSED"]


def _held(row: WatchRow, observation: Observation, now: float) -> dict[str, float]:
    """Since when circuits are held without an end; unchanged if circuits could not be read."""
    if observation.circuits is None:
        return dict(row.held)
    return {
        key: row.held.get(key, now) if begun is None else begun
        for key, begun in observation.circuits.held.items()
    }


CIRCUITS, REPAIRS, CAUSES, ROOM = "circuits", "repairs", "causes", "what waits"
REPLAYS, OLDEST = "runs of people", "age of the main queue"
"""Steps of the watch, beside LEASE, ROUTER, RULE_CHECKER, and one for each queue and rescue."""


InParallel = Callable[[Sequence[Callable[[], None]]], object]
"""Takes steps at the same time, and returns when all have ended."""


class RescueUnavailable(Exception):
    """The redriver could not be started; the next minute tries again."""


class RuleCheckUnavailable(Exception):
    """Whether the rule checker works can't be told; the next minute asks again."""


class WatchStore(Protocol):
    """The watch's own row, beside the lease items of runs. Each method raises LeaseUnavailable."""

    def read(self) -> tuple[WatchRow | None, Mapping[str, SourceMemory]]:
        """The row, None in the first minute, and what runs have left, by source."""

    def write(self, row: WatchRow) -> None: ...


class WatchedLanes(Protocol):
    """The lanes of the waiting room. Each method raises RoomUnavailable."""

    def lanes(self) -> Sequence[Lane]: ...

    def count(self, lane: str) -> LaneCount:
        """The letters in a lane, or that there are at least so many."""

    def first_due(self, lane: str) -> float | None:
        """When the first letter of a lane is due (epoch seconds); None if it is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSetup:
    """Everything that a watch is given.

    queues       reads the state of a queue of ours, by source id or MAIN; raises QueueUnavailable
    sweep        cleans up after outages; told whether to look at the consumer's mapping
    causes       reads the causes of failure; None where the consumer records none
    rescue       starts a run that moves everything out of a source; raises RescueUnavailable
    circuits     reads circuits by their keys; raises CircuitsUnavailable
    oldest       asks CloudWatch for the oldest message of the main queue; raises QueueUnavailable
    replays      keeps replay runs going, by the ids of runs in whose lanes letters wait
    shared       the look at what all pipelines share; raises RuleCheckUnavailable
    news         tells what is new in the row and the figures of a minute, and returns the row
                 that remembers it
    counts       what the sweep and the care for replays count, by metric; it is published and
                 begun anew each minute
    in_parallel  runs steps at the same time
    """

    settings: WatchSettings
    store: WatchStore
    queues: Callable[[str], QueueState]
    sweep: Callable[[bool], Sweep]
    router: Router
    lanes: WatchedLanes
    rescue: Callable[[str], None]
    clock: Callable[[], float]
    in_parallel: InParallel
    circuits: Callable[[Sequence[str]], Mapping[str, Circuit]]
    oldest: Callable[[], OldestMessage]
    causes: CausesReader | None = None
    replays: Callable[[Iterable[str]], Care] | None = None
    shared: Callable[[], SharedLook] | None = None
    news: Callable[[WatchRow, Sequence[MetricPoint], float], WatchRow] | None = None
    counts: Counter[str] = field(default_factory=Counter)


MOST_LANES_OF_DELAYS = 5
"""Lanes of delays whose first letter is looked at in each minute: those that were used last."""

_UNAVAILABLE = (
    QueueUnavailable,
    RouterUnavailable,
    RoomUnavailable,
    RescueUnavailable,
    CausesUnavailable,
    CircuitsUnavailable,
    RuleCheckUnavailable,
)


class Watch:
    """The watch of one pipeline. Between its runs it keeps its row, should the table be away."""

    def __init__(self, setup: WatchSetup) -> None:
        self._setup = setup
        self._row: WatchRow | None = None
        self._failed_late: dict[str, str] = {}

    def run(self) -> Minute:
        """Look once, start the rescues that are due, and remember."""
        setup, now = self._setup, self._setup.clock()
        look = _Look(setup, now, dict(self._failed_late))
        row = look.read_store(self._row)
        setup.in_parallel(look.steps(row))
        look.care_for_replays()
        minute = judge_minute(row, look.seen, setup.settings, now)
        self._failed_late = {}
        started = [source for source in minute.rescues if self._start_rescue(source)]
        row = with_rescues(minute.row, started, now)
        # Told before it is remembered: a crash here tells it twice, and not never.
        self._row = row if setup.news is None else setup.news(row, minute.points, now)
        try:
            setup.store.write(self._row)
        except LeaseUnavailable as error:
            self._failed_late[LEASE] = _why(error)
        return replace(minute, row=self._row, rescues=tuple(started), points=self._points(minute))

    def _start_rescue(self, source: str) -> bool:
        try:
            self._setup.rescue(source)
        except RescueUnavailable as error:
            self._failed_late[f"rescue of {source}"] = _why(error)
            return False
        return True

    def _points(self, minute: Minute) -> tuple[MetricPoint, ...]:
        """The figures of the minute, with what its sweep has counted."""
        counts = dict(self._setup.counts)
        self._setup.counts.clear()
        at = minute.row.ran_at
        counted = (MetricPoint(COUNTED[name], count, at) for name, count in counts.items())
        return (*minute.points, *counted)


class _Look:
    """One look at everything, step by step; a step that fails leaves its reason."""

    def __init__(self, setup: WatchSetup, now: float, failed: dict[str, str]) -> None:
        self.seen = Observation(failed=failed)
        self._setup = setup
        self._now = now

    def read_store(self, kept: WatchRow | None) -> WatchRow | None:
        """The newest row that is known: the stored one, or the one that was `kept`."""
        try:
            stored, self.seen.memories = self._setup.store.read()
        except LeaseUnavailable as error:
            self.seen.failed[LEASE] = _why(error)
            return kept
        rows = [row for row in (kept, stored) if row is not None]
        return max(rows, key=lambda row: row.ran_at, default=None)

    def steps(self, row: WatchRow | None) -> list[Callable[[], None]]:
        """The steps that need no other; they can be taken at the same time."""
        queues = (MAIN, *self._setup.settings.sources)
        oldest = [self._guarded(OLDEST, self._ask_for_oldest)] if must_ask(row, self._now) else []
        return [
            self._guarded(CIRCUITS, partial(self._clean_up, row)),
            *oldest,
            self._guarded(CAUSES, self._read_causes),
            self._guarded(ROUTER, self._ask_router),
            self._guarded(RULE_CHECKER, self._ask_rule_checker),
            self._guarded(ROOM, partial(self._look_into_room, row)),
            *(self._guarded(f"queue {id_}", partial(self._read_queue, id_)) for id_ in queues),
        ]

    def _guarded(self, step: str, call: Callable[[], None]) -> Callable[[], None]:
        def guarded() -> None:
            try:
                call()
            except _UNAVAILABLE as error:
                self.seen.failed[step] = _why(error)

        return guarded

    def _clean_up(self, row: WatchRow | None) -> None:
        sweep = self._setup.sweep(mapping_is_due(self._setup.settings.pipeline, row, self._now))
        self.seen.consumer = sweep.disabled
        if sweep.failed:
            step = CIRCUITS if sweep.troubled is None else REPAIRS
            self.seen.failed[step] = sweep.failed[0]
        if sweep.troubled is None:
            return
        # A circuit that has opened and closed since the last look is in no trouble any more.
        pipeline = self._setup.settings.pipeline
        known = {pipeline, *(row.circuits.openings if row else ())}
        closed = known - {circuit.key for circuit in sweep.troubled}
        others = self._setup.circuits(sorted(closed)) if closed else {}
        self.seen.circuits = circuits_state(pipeline, (*sweep.troubled, *others.values()))

    def care_for_replays(self) -> None:
        """After the lanes were counted: a run that has ended keeps no letters."""
        if self._setup.replays is None:
            return
        prefix = run_lane("")
        waiting = [
            lane.removeprefix(prefix)
            for lane, state in self.seen.lanes.items()
            if lane.startswith(prefix) and state.messages
        ]
        care = self._setup.replays(waiting)
        if care.failed:
            self.seen.failed[REPLAYS] = care.failed[0]
        if care.known:
            self.seen.replays = care

    def _ask_router(self) -> None:
        self.seen.rules = rules_state(self._setup.router.decide([]))

    def _ask_rule_checker(self) -> None:
        shared = self._setup.shared
        self.seen.shared = SharedLook() if shared is None else shared()

    def _ask_for_oldest(self) -> None:
        self.seen.main = self._setup.oldest()

    def _read_causes(self) -> None:
        causes = self._setup.causes
        self.seen.causes = 0 if causes is None else len(causes.read().held(self._now))

    def _read_queue(self, id_: str) -> None:
        self.seen.queues[id_] = self._setup.queues(id_)

    def _look_into_room(self, row: WatchRow | None) -> None:
        lanes = self._setup.lanes
        listed = sorted(lanes.lanes(), key=lambda lane: lane.touched, reverse=True)
        names = [lane.name for lane in listed]
        of_delays = list(filter(is_of_delays, names))[:MOST_LANES_OF_DELAYS]
        due = [at for lane in of_delays if (at := lanes.first_due(lane)) is not None]
        self.seen.due = FirstDue(min(due, default=None))
        to_count, all_of_them = lanes_to_count(row, names, self._now)
        states: dict[str, LaneState] = {}

        def count(lane: str) -> None:
            counted = lanes.count(lane)
            first_due = lanes.first_due(lane) if counted.messages else None
            states[lane] = LaneState(counted.messages, first_due, counted.is_at_least)

        self._setup.in_parallel([partial(count, lane) for lane in to_count])
        # A count that failed half-way is none: half a kind would look like fewer letters.
        self.seen.lanes, self.seen.counted = states, all_of_them


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
