"""What needs a person in a pipeline, as sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from deadletter.circuit.state import State
from deadletter.contract import (
    CONFIG_SUFFIX,
    DAY,
    HOUR,
    MAIN_DLQ,
    PARKED_LANE,
    Mode,
    parking_source,
)
from deadletter.message import stamp
from deadletter.replay.run import RunState
from deadletter.signals.commands import TypedLine, typed
from deadletter.signals.counts import meaning
from deadletter.signals.figures import COUNTED, Count
from deadletter.signals.pages import Alarm
from deadletter.signals.troubles import stack_of

from .bad_rows import bad_row_says
from .cards import Attention
from .causes import CauseRow
from .circuits import NOT_ON_RECORD, CircuitRow
from .collisions import ManyCollisions
from .queue import QueueDepth
from .replay_runs import ReplayRow
from .ringing import ringing
from .watched import RunEnding, SourceStatus
from .words import clock, count, duration

if TYPE_CHECKING:
    from .status import CircuitStatus, PipelineStatus

# As the alarm RedriveStalled without data: the watch runs each minute.
_WATCH_OVERDUE = timedelta(minutes=3)

# Troubles of letters that are older are over, or the run that met them was long ago.
_RECENT = timedelta(hours=1)

# As the alarm MessageExpiry by default. In mode enforce the watch moves letters a day before.
_EXPIRES_SOON = {Mode.ENFORCE: 12 * HOUR, Mode.OBSERVE: 2 * DAY}

# Foreign rows that a sentence names, and the characters of a key: who wrote it chose it.
_MOST_NAMED = 3
_LONGEST_KEY = 60


def attention(app: str, pipelines: Iterable[PipelineStatus], now: datetime) -> Iterator[Attention]:
    """What needs a person in these pipelines, with what a trouble of a page is about."""
    for pipeline in pipelines:
        yield from ringing(pipeline, now)
        yield from _needs(app, pipeline, now)


def _needs(app: str, pipeline: PipelineStatus, now: datetime) -> Iterator[Attention]:
    """Each kind of trouble of a pipeline, with its sentence and its command."""
    name = pipeline.name

    def card(
        kind: str, says: str, command: str | None = None, page: Alarm | None = None, **facts: str
    ) -> Attention:
        line = None if command is None else typed(command, {"pipeline": name, **facts})
        return Attention(name, kind, says, line, None if page is None else str(page))

    # Without a source, what the watch remembers could not be read.
    if pipeline.sources and (says := _watch_says(pipeline.watch_ran_at, now)):
        stack = stack_of(app, name)
        yield card("WATCH", says, TypedLine.DEPLOY, Alarm.REDRIVE_STALLED, stack=stack)
    for source in pipeline.sources:
        yield from _source_needs(pipeline, source, now, card)
    if failed := counter(pipeline.last_run, "failed"):
        says = f"the last busy run could not move {count(failed, 'letter')}"
        yield card("LAST_RUN", says, TypedLine.DRY_RUN)
    if renamed := counter((pipeline.last_run or {}).get("counts"), Count.ATTRIBUTE_RENAMED):
        letters = count(renamed, "letter")
        yield card(
            "LAST_RUN",
            f"the last busy run sent on {letters} whose own attribute {stamp.NAME} is now "
            f"{stamp.KEPT_NAME}: the name is reserved, so its producer needs another",
            TypedLine.PEEK,
        )
    for bad in pipeline.bad_rows:
        yield Attention(name, "LETTERS", bad_row_says(bad, now), bad.repair)
    for run in pipeline.replays:
        yield from _replay_needs(run, card)
    if pipeline.foreign_rows:
        yield card("FOREIGN", _foreign_says(pipeline.foreign_rows))
    circuits = Alarm.CIRCUIT_TROUBLE
    for cause in pipeline.causes:
        yield card("CAUSE", _cause_says(cause, now), TypedLine.CAUSES, circuits)
    if (many := pipeline.collisions) is not None:
        yield card("COLLISIONS", _collisions_say(many), TypedLine.COLLISIONS)
    for circuit in pipeline.misconfigured:
        says, key = _configuration_says(name, circuit), circuit.key
        yield card("CONFIGURATION", says, TypedLine.CIRCUIT, circuits, key=key)
    own_is_held = any(circuit.key == name for circuit in pipeline.held)
    if pipeline.circuit is not None and pipeline.circuit.state != State.CLOSED and not own_is_held:
        says = _circuit_says(pipeline.circuit, now)
        yield card("CIRCUIT", says, TypedLine.CIRCUIT, circuits, key=name)
    for circuit in pipeline.held:
        says = _held_says(name, circuit, now)
        yield card("HELD", says, TypedLine.AUTO, circuits, key=circuit.key)
    if parked := parked_letters(pipeline):
        says = f"{count(parked, 'parked letter')} {'waits' if parked == 1 else 'wait'} for a person"
        yield card("PARKED", says, TypedLine.PARKED, Alarm.PARKED_UNATTENDED)


def _source_needs(
    pipeline: PipelineStatus, source: SourceStatus, now: datetime, card: Callable[..., Attention]
) -> Iterator[Attention]:
    """The trouble of one queue of letters."""
    name, run_now, facts = source_name(source.source), TypedLine.REDRIVE, {}
    if source.source in pipeline.dedicated:
        run_now, facts = TypedLine.REDRIVE_FROM, {"source": source.source}
    left, holds = (
        source.seconds_to_expiry,
        _depth_of(pipeline, source.source) != QueueDepth(0, 0, 0),
    )
    if left is not None and holds and left <= _EXPIRES_SOON[Mode(pipeline.mode)]:
        says = f"SQS deletes the oldest letter in {name} in {duration(left)}: {_rescue(pipeline)}"
        yield card("EXPIRY", says, TypedLine.RETAIN, Alarm.MESSAGE_EXPIRY, url=source.url)
    ending = source.last_ending
    if ending is not None and not ending.ended_well:
        says = f"the last run of {name} did not end well: {_ending_says(ending, now)}"
        yield card("LAST_RUN", says, run_now, Alarm.REDRIVE_STALLED, **facts)
    for metric, at in source.troubles.items():
        # Those are named one by one, if their names are known.
        is_named = metric == Count.BAD_ROW and pipeline.bad_rows
        if now - at <= _RECENT and not is_named:
            says = f"a run of {name} counted {_trouble_says(metric, at, now)}"
            yield card("LETTERS", says, TypedLine.GROUPS)
    if source.looks and holds:
        looked = "observe has" if pipeline.mode == Mode.OBSERVE else "runs that move nothing have"
        yield card(
            "LOOKED",
            f"{looked} received {count(source.looks, 'letter')} of {name}; SQS leaves letters "
            "received three times out of its age metric; the alarm MessageAge goes on telling "
            "the truth",
        )


def _rescue(pipeline: PipelineStatus) -> str:
    if pipeline.mode == Mode.OBSERVE:
        return "observe moves nothing"
    return "its rescue should have moved it, and the redriver's log says why it has not"


def _trouble_says(metric: str, at: datetime, now: datetime) -> str:
    """A metric of letters that need a person, when it was counted, and what it means."""
    ago = duration((now - at).total_seconds())
    counted = COUNTED.get(metric)
    text = "" if counted is None else meaning(counted)
    means = f": {text[0].lower()}{text[1:].rstrip('.')}" if text else ""
    return f"{metric} {ago} ago{means}"


def _ending_says(ending: RunEnding, now: datetime) -> str:
    """Why and when a run ended that could not do its work."""
    at = f", {duration((now - ending.at).total_seconds())} ago" if ending.at else ""
    trouble = ending.trouble
    if trouble is None:
        why = f"{ending.stopped} (what kept it from its work is not on record)"
    elif trouble in ending.stopped:
        why = ending.stopped
    else:
        why = f"{ending.stopped} ({trouble})"
    return f"{why}{at}"


def _watch_says(ran_at: datetime | None, now: datetime) -> str | None:
    """What is wrong with the watch; None if it runs."""
    unseen = "no age, no expiry and no stalled run is seen meanwhile"
    if ran_at is None:
        return f"the watch has never run: {unseen}; deploy again if it is not deployed"
    if now - ran_at <= _WATCH_OVERDUE:
        return None
    since = duration((now - ran_at).total_seconds())
    return f"the watch has left no record for {since}: {unseen}"


def _replay_needs(run: ReplayRow, card: Callable[..., Attention]) -> Iterator[Attention]:
    """What a replay run needs from a person; nothing if it goes on by itself."""
    because = f": {run.because}" if run.because else ""
    says = f"replay run {run.run} is {run.state}"
    if run.lost:
        says += " and its execution has ended; the watch starts the next one"
        yield card("REPLAY", says, TypedLine.RUN, run=run.run)
        return
    match run.state:
        case RunState.HELD:
            yield card("REPLAY", f"{says}{because}", TypedLine.RESUME, run=run.run)
        case RunState.WAITING_APPROVAL:
            says = f"replay run {run.run} waits for approval"
            yield card("REPLAY", says, TypedLine.RUN, run=run.run)
        case RunState.BROKEN:
            page = Alarm.REPLAY_BROKEN
            yield card("REPLAY", f"{says}{because}", TypedLine.REPORT, page, run=run.run)


def _held_says(pipeline: str, circuit: CircuitRow, now: datetime) -> str:
    """By whom, why and until when a circuit is held, and how that ends."""
    own = circuit.key == pipeline
    name = "the circuit" if own else f"circuit {circuit.key}"
    since = f" since {clock(circuit.forced_since, now)}" if circuit.forced_since else ""
    until = (
        f"until {clock(circuit.forced_until, now)}"
        if circuit.forced_until
        else "until a person ends it"
    )
    return (
        f"{name} is held {circuit.forced} by {circuit.forced_by}{since} {until}: "
        f"{circuit.forced_reason}"
    )


def _foreign_says(rows: Sequence[Mapping[str, str]]) -> str:
    named = ", ".join(f"{_cut(row['pk'])} / {_cut(row['sk'])}" for row in rows[:_MOST_NAMED])
    others = len(rows) - _MOST_NAMED
    more = f" and {others:,} more" if others > 0 else ""
    return (
        f"{count(len(rows), 'row')} in its lanes or causes that do not belong there, and are "
        f"ignored: {named}{more}; a key begins with the pipeline whose role wrote it: see "
        "ForeignRow in docs/security.md"
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}…"


def _cause_says(cause: CauseRow, now: datetime) -> str:
    error = f" ({cause.error_type})" if cause.error_type else ""
    since = f" since {clock(cause.since, now)}" if cause.since else ""
    return (
        f"cause {cause.fingerprint}{error} suddenly fails most messages{since}: its letters are "
        "tried again and not parked"
    )


def _collisions_say(many: ManyCollisions) -> str:
    differ = f" and differ from it in {', '.join(many.paths)}" if many.paths else ""
    return (
        f"{many.collided:,} of {count(many.messages, 'message')} of ten minutes have the "
        f"idempotency key of a processed message{differ}: they are processed and not parked; "
        "say in idempotency_payload what is to be compared"
    )


def _configuration_says(pipeline: str, circuit: CircuitRow) -> str:
    dependency = circuit.key.removesuffix(CONFIG_SUFFIX)
    what = "its dependency" if dependency == pipeline else dependency
    return (
        f"letters wait until a person repairs how the consumer calls {what} (a key, a permission, "
        f"an endpoint): {circuit.because or NOT_ON_RECORD}"
    )


def _circuit_says(circuit: CircuitStatus, now: datetime) -> str:
    match circuit.state:
        case State.OPEN:
            if circuit.open_until is None:
                return "the circuit is OPEN: nothing is re-driven while it is"
            if circuit.open_until <= now:
                return "the circuit is OPEN, and its next canary is due"
            return f"the circuit is OPEN: no canary before {clock(circuit.open_until, now)}"
        case State.HALF_OPEN:
            return "the circuit is HALF_OPEN: letters are tried one at a time"
        case _:
            return "the circuit's record is not understood: its letters are held"


def source_name(source: str) -> str:
    """A source in words: "the DLQ", "dedicated DLQ vip", "parking queue default"."""
    if source == MAIN_DLQ:
        return "the DLQ"
    parking = source.removeprefix(parking_source(""))
    return f"parking queue {parking}" if parking != source else f"dedicated DLQ {source}"


def parked_letters(pipeline: PipelineStatus) -> int:
    """Letters in the parking queues, and those that were rescued from them."""
    in_queues = sum(queue.visible for queue in pipeline.parking.values() if queue is not None)
    return in_queues + sum(
        lane.letters or 0 for lane in pipeline.waiting if lane.lane == PARKED_LANE
    )


def _depth_of(pipeline: PipelineStatus, source: str) -> QueueDepth | None:
    """The depth of a queue now; None if it could not be read."""
    parking = {parking_source(id_): depth for id_, depth in pipeline.parking.items()}
    return {MAIN_DLQ: pipeline.dlq, **pipeline.dedicated, **parking}.get(source)


def counter(run: Mapping[str, Any] | None, name: str) -> int:
    """A number in the report of a run; 0 if it is missing."""
    number = (run or {}).get(name)
    return number if isinstance(number, int) else 0
