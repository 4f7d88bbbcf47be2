"""What needs a person in a pipeline, as cards, and what will become of its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.circuit.state import State
from deadletter.contract import (
    DAY,
    EVERY_PIPELINE,
    HOUR,
    MAIN,
    MAIN_DLQ,
    PARKED_LANE,
    Mode,
    config_key,
    is_of_delays,
    parking_source,
)
from deadletter.message import stamp
from deadletter.replay.run import RunState
from deadletter.signals.commands import TypedLine, typed
from deadletter.signals.counts import meaning
from deadletter.signals.figures import COUNTED, Count
from deadletter.signals.pages import APP_PAGES, PIPELINE_PAGES, Alarm
from deadletter.signals.troubles import TROUBLES, Fact, Seen, TroubleKind, known_names, shown

from . import observed
from .circuits import NOT_ON_RECORD, UNREADABLE, CircuitRow
from .figures import WINDOW, QueueFigures
from .pipeline_status import AlarmState, Outlook, PipelineStatus
from .queue import QueueDepth
from .watched import Memories, SourceStatus
from .words import clock, count, duration, moment

if TYPE_CHECKING:
    from deadletter.redrive.source_memory import SourceMemory
    from deadletter.settings.pipeline import Pipeline
    from deadletter.watch.row import WatchRow


# As the alarm RedriveStalled without data: the watch runs each minute.
_WATCH_OVERDUE = timedelta(minutes=3)

# Troubles of messages that are older are over, or the run that met them was long ago.
_RECENT = timedelta(hours=1)

# As the alarm MessageExpiry by default. In mode enforce the watch moves messages a day before.
_EXPIRES_SOON = {Mode.ENFORCE: 12 * HOUR, Mode.OBSERVE: 2 * DAY}

_OWN_NAMES = {MAIN: "the main queue", MAIN_DLQ: "the DLQ"}

# Foreign rows that a sentence names, and the characters of a key: who wrote it chose it.
_MOST_NAMED = 3
_LONGEST_KEY = 60


def attention(pipeline: PipelineStatus, now: datetime) -> Iterator[Seen]:
    """The troubles of a pipeline, with their facts."""
    ran_at = pipeline.monitor_ran_at
    # Without a source, what the watch remembers could not be read.
    if pipeline.sources and ran_at is None:
        yield Seen(TroubleKind.WATCH_NEVER_RAN)
    elif pipeline.sources and ran_at is not None and now - ran_at > _WATCH_OVERDUE:
        yield seen(TroubleKind.WATCH_SILENT, ago=duration(now - ran_at))
    for source in pipeline.sources or ():
        yield from _source(pipeline, source, now)
    if failed := counter(pipeline.last_run, "failed"):
        yield seen(TroubleKind.UNMOVED, messages=failed)
    if renamed := counter((pipeline.last_run or {}).get("counts"), Count.ATTRIBUTE_RENAMED):
        names = {"ours": stamp.NAME, "kept": stamp.KEPT_NAME}
        yield seen(TroubleKind.RENAMED, messages=renamed, **names)
    yield from (bad.seen for bad in pipeline.bad_rows)
    for run in pipeline.runs or ():
        kind = TroubleKind.RUN_STOPPED if run.lost else _OF_A_RUN.get(RunState(run.state))
        if kind is not None:
            yield seen(kind, run=run.run, why=run.because or "")
    if rows := pipeline.foreign_rows:
        keys = ", ".join(f"{_cut(row['pk'])} / {_cut(row['sk'])}" for row in rows[:_MOST_NAMED])
        more = max(0, len(rows) - _MOST_NAMED)
        yield seen(TroubleKind.FOREIGN_ROWS, rows=len(rows), keys=keys, more=more)
    for cause in pipeline.causes or ():
        began = clock(cause.since, now) if cause.since else ""
        about = {"cause": cause.cause, "error": cause.error_type}
        yield seen(TroubleKind.CAUSE_DOMINATES, **about, began=began)
    if (many := pipeline.collisions) is not None:
        kind, paths = TroubleKind.MANY_COLLIDE, ", ".join(many.paths)
        yield seen(kind, collided=many.collided, messages=many.messages, paths=paths)
    yield from map(_misconfigured, pipeline.misconfigured or ())
    if (own := own_circuit(pipeline, now)) is not None and own.kind is not TroubleKind.CIRCUIT_HELD:
        yield own
    yield from (_held(circuit, now) for circuit in pipeline.held or ())
    if (parked := parked_messages(pipeline)) is not None:
        yield parked
    if pipeline.observed is not None:
        yield observed.seen(pipeline.observed, now)


def seen(kind: TroubleKind, **facts: Fact) -> Seen:
    """A trouble that was seen now."""
    return Seen(kind, facts)


def _source(pipeline: PipelineStatus, source: SourceStatus, now: datetime) -> Iterator[Seen]:
    """The trouble of one queue of ours."""
    queue = source_name(source.source)
    left, is_held = source.seconds_to_expiry, holds(pipeline, source.source)
    observes = pipeline.mode == Mode.OBSERVE
    if left is not None and is_held and left <= _EXPIRES_SOON[Mode(pipeline.mode)]:
        moved = TroubleKind.EXPIRES_UNMOVED if observes else TroubleKind.EXPIRES
        kind = TroubleKind.EXPIRES_UNREAD if source.source == MAIN else moved
        yield seen(kind, queue=queue, left=duration(left), url=source.url)
    ending = source.last_ending
    if ending is not None and not ending.ended_well:
        # Why it ended, unless that says it already.
        trouble = ending.trouble or "what kept it from its work is not on record"
        why = ending.stopped if trouble in ending.stopped else f"{ending.stopped} ({trouble})"
        more = {"source": source.source} if source.source in pipeline.dedicated else {}
        if ending.at:
            more["ago"] = duration(now - ending.at)
        yield seen(TroubleKind.RUN_FAILED, queue=queue, why=why, **more)
    for counted, at in source.troubles.items():
        # Those are named one by one, if their names are known.
        is_named = counted == Count.BAD_ROW and pipeline.bad_rows
        if now - at <= _RECENT and not is_named:
            means, ago = _meaning(counted), duration(now - at)
            yield seen(TroubleKind.COUNTED, queue=queue, count=counted, means=means, ago=ago)
    if source.looks and is_held:
        runs = "observe has" if observes else "runs that move nothing have"
        yield seen(TroubleKind.LOOKED_AT, runs=runs, messages=source.looks, queue=queue)


def _meaning(name: str) -> str:
    """What a count means, within a sentence; empty if this version does not know it."""
    counted = COUNTED.get(name)
    text = "" if counted is None else meaning(counted)
    return f"{text[:1].lower()}{text[1:].rstrip('.')}"


_OF_A_RUN = {
    RunState.HELD: TroubleKind.RUN_HELD,
    RunState.WAITING_APPROVAL: TroubleKind.RUN_WAITS,
    RunState.BROKEN: TroubleKind.RUN_BROKEN,
}
"""What a run needs from a person; any other state goes on by itself."""


def own_circuit(pipeline: PipelineStatus, now: datetime) -> Seen | None:
    """What the pipeline's own circuit keeps from going back; None if it is closed or unknown."""
    circuit, key = pipeline.circuit, pipeline.name
    if circuit is None or circuit.state == State.CLOSED:
        return None
    held = next((row for row in pipeline.held or () if row.key == key), None)
    if held is not None:
        return _held(held, now)
    if circuit.state == State.HALF_OPEN:
        return seen(TroubleKind.CIRCUIT_TRIES, key=key)
    if circuit.state != State.OPEN:
        return seen(TroubleKind.CIRCUIT_MALFORMED, key=key)
    at = circuit.open_until
    due = "" if at is None else "now" if at <= now else f"at {clock(at, now)}"
    return seen(TroubleKind.CIRCUIT_WAITS, key=key, due=due)


def _misconfigured(circuit: CircuitRow) -> Seen:
    """What a circuit for configuration waits for."""
    if circuit.state == UNREADABLE:
        return seen(TroubleKind.CIRCUIT_MALFORMED, key=circuit.key)
    why = circuit.because or NOT_ON_RECORD
    return seen(TroubleKind.CONFIGURATION, key=circuit.key, why=why)


def _held(circuit: CircuitRow, now: datetime) -> Seen:
    """By whom, why and until when a circuit is held."""
    until, since = circuit.forced_until, circuit.forced_since
    return seen(
        TroubleKind.CIRCUIT_HELD,
        key=circuit.key,
        state=circuit.forced or "",
        by=circuit.forced_by or "",
        began=clock(since, now) if since else "",
        until=clock(until, now) if until else "a person ends it",
        why=circuit.forced_reason or "",
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}…"


def source_name(source: str) -> str:
    """A source in words: "the DLQ", "dedicated DLQ vip", "parking queue default"."""
    if source in _OWN_NAMES:
        return _OWN_NAMES[source]
    parking = source.removeprefix(parking_source(""))
    return f"parking queue {parking}" if parking != source else f"dedicated DLQ {source}"


def parked_messages(pipeline: PipelineStatus) -> Seen | None:
    """Messages in the parking queues, and those that were rescued from them; None without any."""
    rescued, least = _in_lanes(pipeline, lambda lane: lane == PARKED_LANE)
    queues = [queue for queue in pipeline.parking.values() if queue is not None]
    parked = sum(queue.visible for queue in queues) + rescued
    least = least if len(queues) == len(pipeline.parking) else "at least"
    kind, source = TroubleKind.UNATTENDED, "the parking queues"
    return seen(kind, messages=parked, least=least, source=source) if parked else None


def _in_lanes(pipeline: PipelineStatus, is_meant: Callable[[str], bool]) -> tuple[int, str]:
    """The messages of these lanes as far as they were counted, and whether there may be more."""
    lanes = [lane for lane in pipeline.waiting or () if is_meant(lane.waiting_for)]
    is_cut = any(lane.messages is None or lane.is_at_least for lane in lanes)
    least = "at least" if is_cut or pipeline.waiting is None else ""
    return sum(lane.messages or 0 for lane in lanes), least


def holds(pipeline: PipelineStatus, source: str) -> bool:
    """Whether a queue holds messages now, as far as that could be read."""
    return pipeline.depths.get(source) != QueueDepth(0, 0, 0)


def counter(run: Mapping[str, Any] | None, name: str) -> int:
    """A number in the report of a run; 0 if it is missing."""
    number = (run or {}).get(name)
    return number if isinstance(number, int) else 0


def outlook(
    pipeline: PipelineStatus,
    now: datetime,
    settings: Pipeline | None,
    figure: QueueFigures | None,
    memories: Memories,
    unread: Sequence[str],
) -> Outlook:
    """The outlook of a pipeline, by CloudWatch's `figure` and what its watch remembers."""
    memory = memories.by_source.get(MAIN_DLQ)
    ended = moment(memory.ended_at) if memory is not None else None
    ran = int(WINDOW.total_seconds()) if ended is not None and now - ended <= WINDOW else None
    empty_at, empty_because, fewer = _drain(pipeline, memories.row, now)
    more = [f"more may be to do: {', '.join(unread)} could not be read"] if unread else ()
    rate_limit, rate_because = rate_now(settings, memory, now)
    if pipeline.sources is None and rate_because is not None:
        rate_limit = rate_because = None  # Runs remember it.
    seconds, source = min(
        (
            (source.seconds_to_expiry, source.source)
            for source in pipeline.sources or ()
            if source.seconds_to_expiry is not None and holds(pipeline, source.source)
        ),
        default=(None, None),
    )
    return Outlook(
        messages=_to_send(pipeline),
        dlq_empty_at=empty_at,
        dlq_empty_because=empty_because,
        fewer_a_second=fewer,
        rate_limit=rate_limit,
        rate_measured=None if figure is None else figure.rate,
        measured_seconds=None if figure is None else figure.ran or ran,
        seconds_to_expiry=seconds,
        expires_in=source,
        next=(*_next(pipeline, now, seconds, source), *more),
        rate_because=rate_because,
    )


def _drain(
    pipeline: PipelineStatus, looked: WatchRow | None, now: datetime
) -> tuple[datetime | None, str, float | None]:
    """When the DLQ will be empty, how that is known or why it is not, and its net rate."""
    from deadletter.watch.queues import LEAST, LONGEST_GAP, LOOKS, drain_time

    if (dlq := pipeline.dlq) is None:
        return None, "unknown: the DLQ could not be read", None
    if not dlq.total:
        return now, "it is empty now", None
    if (stops := why_nothing_goes_back(pipeline, now)) is not None:
        return None, f"unknown: {stops}", None
    if looked is None or now.timestamp() - looked.ran_at > LONGEST_GAP:
        return None, "unknown: the monitor has not looked for three minutes", None
    told = drain_time(looked.drain)
    if told.looks < LOOKS:
        looks = f"{told.looks} of {LOOKS} looks in a row found messages while runs could work"
        return None, f"unknown: {looks}; a run may empty it at once", None
    if told.fewer is None:
        return None, f"unknown: fewer than {LEAST} messages give no rate", None
    if told.seconds is None:
        return None, f"it does not become emptier: {LOOKS} looks, arrivals deducted", told.fewer
    at = moment(looked.drain.times[-1] + told.seconds)
    rate = f"{told.fewer:.2g} fewer a second over {LOOKS} looks, arrivals deducted"
    return at, rate, told.fewer


def rate_now(
    settings: Pipeline | None, memory: SourceMemory | None, now: datetime
) -> tuple[float | None, str | None]:
    """The letters a second that may go back now, and what a rate that finds itself does and why."""
    if settings is None:
        return None, None
    if settings.fixed_rate is not None:
        return settings.fixed_rate, None
    from deadletter.pace.auto_rate import Direction, is_forgotten

    known = None if memory is None else memory.auto_rate
    if known is None or is_forgotten(known, now.timestamp()):
        return settings.first_rate, "auto: the next run starts with it"
    does = str(known.direction)
    if known.direction is Direction.FALLEN:
        does += f" {duration(now.timestamp() - known.changed_at)} ago"
    return known.rate, f"{does}: {known.because}"


def _to_send(pipeline: PipelineStatus) -> int | None:
    """Letters of the DLQ and of the lane of delays; None if one of them could not be counted."""
    delayed, least = _in_lanes(pipeline, is_of_delays)
    return None if pipeline.dlq is None or least else pipeline.dlq.total + delayed


def why_nothing_goes_back(pipeline: PipelineStatus, now: datetime) -> str | None:
    """Why no message of the DLQ goes back now; None if they do."""
    stops, key = own_circuit(pipeline, now), config_key(pipeline.name)
    rows = (*(pipeline.held or ()), *(pipeline.misconfigured or ()))
    config = next((row for row in rows if row.key == key and row.state != State.CLOSED), None)
    if pipeline.mode == Mode.OBSERVE:
        stops = Seen(TroubleKind.OBSERVES)
    elif pipeline.is_stalled:
        stops = Seen(TroubleKind.NOTHING_MOVES)
    elif stops is None and config is not None:
        stops = _held(config, now) if config.forced else _misconfigured(config)
    return why_unknown(pipeline) if stops is None else stops.says()


def why_unknown(pipeline: PipelineStatus) -> str | None:
    """What may keep all messages from going back, but was not read; None if all of it was."""
    if pipeline.circuit is None:
        return "the circuit could not be read"
    return "what the monitor sees could not be read" if pipeline.seen is None else None


def _next(
    pipeline: PipelineStatus, now: datetime, expires: int | None, source: str | None
) -> Iterator[str]:
    stops = why_nothing_goes_back(pipeline, now)
    in_dlq = 0 if pipeline.dlq is None else pipeline.dlq.visible
    if stops is None and in_dlq:
        yield f"the next run judges {count(in_dlq, 'message')} of the DLQ"
    elif stops is not None and stops != why_unknown(pipeline):
        yield stops
    delayed, least = _in_lanes(pipeline, is_of_delays)
    if delayed and stops is None:
        due = [lane.first_due for lane in pipeline.waiting or () if lane.first_due is not None]
        first = min(due, default=None)
        when = "in time" if first is None else "now" if first <= now else f"at {clock(first, now)}"
        letters = f"{least} {count(delayed, 'delayed message')}".lstrip()
        yield f"{letters} will be decided again when due, the first {when}"
    if expires is not None and source is not None:
        is_moved = pipeline.mode != Mode.OBSERVE and source != MAIN
        moves = "; a day before, the monitor moves it" if is_moved else ""
        oldest = f"the first message of {source_name(source)}"
        yield f"SQS deletes {oldest} in {duration(expires)}{moves}"
    if (parked := parked_messages(pipeline)) is not None:
        yield f"{parked.says()}: {parked.repair(pipeline=pipeline.name)}"


# Cards: one for each trouble, with one command. What belongs to one page is one card, in the most
# specific words, and a page that another one explains is named on its card.

_OLD = (Alarm.DLQ_AGE, Alarm.MESSAGE_AGE)
EXPLAINS: Mapping[Alarm, tuple[Alarm, ...]] = {
    Alarm.REDRIVE_STALLED: (*_OLD, Alarm.DLQ_DEPTH, Alarm.MESSAGE_EXPIRY),
    Alarm.CIRCUIT_TROUBLE: (*_OLD, Alarm.DLQ_DEPTH),
    Alarm.DLQ_DEPTH: _OLD,
    Alarm.MESSAGE_EXPIRY: _OLD,
    Alarm.DLQ_AGE: (Alarm.MESSAGE_AGE,),
}
"""Pages that are no trouble of their own while another one rings."""

_PAGES = {page.alarm: page for page in PIPELINE_PAGES}

_HAVE_TROUBLES = {card.page for card in TROUBLES.values()}
"""Pages whose troubles are in the catalogue: where none is seen, what rang is over."""

_SILENT = (TroubleKind.WATCH_SILENT, TroubleKind.WATCH_NEVER_RAN)
"""What rings because nothing is published: the watch cannot see it."""

_UNTOLD = (*_SILENT, TroubleKind.UNREAD)
"""With these, what is not seen can be there."""

_ORDER = {kind: place for place, kind in enumerate(TroubleKind)}


@dataclass(frozen=True, slots=True)
class Attention:
    """Something that needs a person, or is good to know."""

    pipeline: Annotated[str, "name of the pipeline; `*` for what belongs to all of them"]
    kind: Annotated[
        str | None,
        "which trouble it is, such as `router-down`: see the runbook; null if only an alarm is "
        "known",
    ]
    says: Annotated[str, "a sentence for people"]
    type: Annotated[str | None, "the command that ends it, or leads there; null if none does"] = (
        None
    )
    page: Annotated[str | None, "the alarm that it is about; null if it is about none"] = None
    alarm: Annotated[str | None, "the name of the alarm that rings for it; null if none does"] = (
        None
    )
    needs_person: Annotated[
        bool, "false if automation, or a person, has it in hand already: it is good to know"
    ] = True

    @property
    def urgency(self) -> tuple[bool, int]:
        """What rings comes first, then the order of the catalogue."""
        return self.alarm is None, -1 if self.kind is None else _ORDER[TroubleKind(self.kind)]


def cards_of_app(alarms: Iterable[AlarmState], now: datetime) -> Iterator[Attention]:
    """What needs a person beside the pipelines: alarms of the app itself that ring."""
    for alarm in alarms:
        page = next(page for page in APP_PAGES if alarm.name.endswith(f"-{page.alarm}"))
        says = f"{_rings(alarm, now)}: {page.says.removesuffix('.')}; likely {page.cause}"
        first = None if page.repair is TypedLine.STATUS else page.first
        yield Attention(EVERY_PIPELINE, None, says, first, str(page.alarm), alarm.name)


def cards(
    app: str, pipeline: PipelineStatus, found: Iterable[Seen], now: datetime
) -> Iterator[Attention]:
    """What needs a person in a pipeline; an alarm that rings has its reason on its card.

    `found` is what `dlq` has seen beside the watch.
    """
    rings: dict[Alarm, AlarmState] = {}
    watch = [trouble.seen for trouble in pipeline.seen or ()]
    every = list(_seen_once(watch, found))
    writer = _Cards(app, pipeline, now, every)
    for alarm in pipeline.alarms or ():
        name = alarm.name.rpartition("-")[2]
        if name in _PAGES:
            rings[Alarm(name)] = alarm
        else:
            yield writer.ringing(alarm)
    silent = [each for each in every if each.kind in _SILENT]
    called = {*rings, *(each.page for each in (*watch, *silent))}
    explained: dict[Alarm, Alarm] = {}
    for page, others in EXPLAINS.items():
        for other in others if page in called else ():
            explained.setdefault(other, page)
    for each in every:
        if each.page is None or each.page not in called:
            yield writer.card(each)
    for page in _ordered(called):
        if page not in explained:
            beside = [other for other in _ordered(called) if explained.get(other) is page]
            group = shown(each for each in every if each.page is page)
            yield writer.of_page(page, rings.get(page), group, beside)


def _seen_once(watch: Iterable[Seen], found: Iterable[Seen]) -> Iterator[Seen]:
    """Each trouble once, with the facts of both who have seen it."""
    others = list(found)
    for each in watch:
        same = next((other for other in others if each.is_same(other)), None)
        if same is not None:
            others.remove(same)
        facts = {} if same is None else same.facts
        yield Seen(each.kind, {**each.facts, **facts}, each.since)
    yield from others


def _ordered(pages: Iterable[Alarm | None]) -> list[Alarm]:
    named = set(pages)
    return [page for page in Alarm if page in named]


class _Cards:
    """Writes the cards of one pipeline."""

    def __init__(
        self, app: str, pipeline: PipelineStatus, now: datetime, seen: Sequence[Seen]
    ) -> None:
        self._pipeline, self._now = pipeline, now
        self._is_told = not any(each.kind in _UNTOLD for each in seen)
        self._known: Mapping[str, Fact] = known_names(app, pipeline.name)

    def card(self, seen: Seen, *, is_called: bool = False) -> Attention:
        since = "" if seen.facts.get("began") else self._since(seen)
        return Attention(
            self._pipeline.name,
            str(seen.kind),
            f"{seen.says()}{since}",
            seen.repair(**self._known),
            None if seen.page is None else str(seen.page),
            needs_person=is_called or not TROUBLES[seen.kind].by_itself,
        )

    def of_page(
        self, page: Alarm, alarm: AlarmState | None, group: Sequence[Seen], beside: Sequence[Alarm]
    ) -> Attention:
        """The card of a page that rings or is about to, in the words of its first trouble."""
        others = f" ({' and '.join(beside)} for the same reason)" if beside else ""
        if alarm is None:
            card = self.card(group[0], is_called=True)
            return replace(card, says=f"{card.says}{others}")
        card = self.ringing(alarm)
        if not group and page in _HAVE_TROUBLES and self._is_told:
            says = f"{card.says}: what it rang for is over, and it ends by itself"
            return replace(card, says=says, page=str(page), needs_person=False)
        why = f": {group[0].says()}" if group else ""
        row = _PAGES[page]
        is_observed = self._pipeline.mode == Mode.OBSERVE and row.observed is not None
        line = row.observed if is_observed else row.repair
        repair = group[0].repair(**self._known) if group else None
        return replace(
            card,
            kind=str(group[0].kind) if group else None,
            says=f"{card.says}{why}{others}",
            type=repair or typed(str(line), self._known),
            page=str(page),
        )

    def ringing(self, alarm: AlarmState) -> Attention:
        """An alarm whose reason is not known; it may be one of your own."""
        return Attention(self._pipeline.name, None, _rings(alarm, self._now), alarm=alarm.name)

    def _since(self, seen: Seen) -> str:
        at = moment(seen.since) if seen.since else None
        return "" if at is None else f" since {clock(at, self._now)}"


def _rings(alarm: AlarmState, now: datetime) -> str:
    ago = duration(now - alarm.since)
    return f"{alarm.name} is in ALARM since {clock(alarm.since, now)}, {ago} ago"
