"""What needs a person in a pipeline, as far as `dlq` sees it beside the watch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from deadletter.circuit.state import State
from deadletter.contract import DAY, HOUR, MAIN, MAIN_DLQ, PARKED_LANE, Mode, parking_source
from deadletter.message import stamp
from deadletter.replay.run import RunState
from deadletter.signals.counts import meaning
from deadletter.signals.figures import COUNTED, Count
from deadletter.signals.troubles import Fact, Seen, TroubleKind

from . import observed
from .circuits import NOT_ON_RECORD, CircuitRow
from .queue import QueueDepth
from .replay_runs import ReplayRow
from .watched import RunEnding, SourceStatus
from .words import clock, duration

if TYPE_CHECKING:
    from .status import PipelineStatus

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
    # Without a source, what the watch remembers could not be read.
    if pipeline.sources:
        yield from _watch(pipeline.watch_ran_at, now)
    for source in pipeline.sources:
        yield from _source(pipeline, source, now)
    if failed := counter(pipeline.last_run, "failed"):
        yield Seen(TroubleKind.UNMOVED, {"messages": failed})
    if renamed := counter((pipeline.last_run or {}).get("counts"), Count.ATTRIBUTE_RENAMED):
        facts: dict[str, Fact] = {"messages": renamed, "ours": stamp.NAME}
        yield Seen(TroubleKind.RENAMED, facts | {"kept": stamp.KEPT_NAME})
    yield from (bad.seen for bad in pipeline.bad_rows)
    for run in pipeline.replays:
        if (kind := _replay(run)) is not None:
            yield Seen(kind, {"run": run.run, "why": run.because or ""})
    if pipeline.foreign_rows:
        yield _foreign(pipeline.foreign_rows)
    for cause in pipeline.causes:
        began = clock(cause.since, now) if cause.since else ""
        facts = {"cause": cause.fingerprint, "error": cause.error_type, "began": began}
        yield Seen(TroubleKind.CAUSE_DOMINATES, facts)
    if (many := pipeline.collisions) is not None:
        facts = {"collided": many.collided, "messages": many.messages}
        yield Seen(TroubleKind.MANY_COLLIDE, facts | {"paths": ", ".join(many.paths)})
    for circuit in pipeline.misconfigured:
        facts = {"key": circuit.key, "why": circuit.because or NOT_ON_RECORD}
        yield Seen(TroubleKind.CONFIGURATION, facts)
    if (own := own_circuit(pipeline, now)) is not None and own.kind is not TroubleKind.CIRCUIT_HELD:
        yield own
    yield from (_held(circuit, now) for circuit in pipeline.held)
    if (parked := parked_messages(pipeline)) is not None:
        yield parked
    if pipeline.observed is not None:
        yield observed.seen(pipeline.observed, now)


def _source(pipeline: PipelineStatus, source: SourceStatus, now: datetime) -> Iterator[Seen]:
    """The trouble of one queue of ours."""
    queue = source_name(source.source)
    left, is_held = source.seconds_to_expiry, holds(pipeline, source.source)
    observes = pipeline.mode == Mode.OBSERVE
    if left is not None and is_held and left <= _EXPIRES_SOON[Mode(pipeline.mode)]:
        moved = TroubleKind.EXPIRES_UNMOVED if observes else TroubleKind.EXPIRES
        kind = TroubleKind.EXPIRES_UNREAD if source.source == MAIN else moved
        yield Seen(kind, {"queue": queue, "left": duration(left), "url": source.url})
    ending = source.last_ending
    if ending is not None and not ending.ended_well:
        facts: dict[str, Fact] = {"queue": queue, "why": _why(ending)}
        if source.source in pipeline.dedicated:
            facts["source"] = source.source
        if ending.at:
            facts["ago"] = duration((now - ending.at).total_seconds())
        yield Seen(TroubleKind.RUN_FAILED, facts)
    for count, at in source.troubles.items():
        # Those are named one by one, if their names are known.
        is_named = count == Count.BAD_ROW and pipeline.bad_rows
        if now - at <= _RECENT and not is_named:
            facts = {"queue": queue, "count": count, "means": _meaning(count)}
            ago = duration((now - at).total_seconds())
            yield Seen(TroubleKind.COUNTED, facts | {"ago": ago})
    if source.looks and is_held:
        runs = "observe has" if observes else "runs that move nothing have"
        facts = {"runs": runs, "messages": source.looks, "queue": queue}
        yield Seen(TroubleKind.LOOKED_AT, facts)


def _meaning(name: str) -> str:
    """What a count means, within a sentence; empty if this version does not know it."""
    counted = COUNTED.get(name)
    text = "" if counted is None else meaning(counted)
    return f"{text[:1].lower()}{text[1:].rstrip('.')}"


def _why(ending: RunEnding) -> str:
    """Why a run ended that could not do its work."""
    trouble = ending.trouble or "what kept it from its work is not on record"
    return ending.stopped if trouble in ending.stopped else f"{ending.stopped} ({trouble})"


def _watch(ran_at: datetime | None, now: datetime) -> Iterator[Seen]:
    """What is wrong with the watch; nothing if it runs."""
    if ran_at is None:
        yield Seen(TroubleKind.WATCH_NEVER_RAN)
    elif now - ran_at > _WATCH_OVERDUE:
        ago = duration((now - ran_at).total_seconds())
        yield Seen(TroubleKind.WATCH_SILENT, {"ago": ago})


def _replay(run: ReplayRow) -> TroubleKind | None:
    """What a replay run needs from a person; None if it goes on by itself."""
    if run.lost:
        return TroubleKind.RUN_STOPPED
    needs = {
        RunState.HELD: TroubleKind.RUN_HELD,
        RunState.WAITING_APPROVAL: TroubleKind.RUN_WAITS,
        RunState.BROKEN: TroubleKind.RUN_BROKEN,
    }
    return needs.get(RunState(run.state))


def own_circuit(pipeline: PipelineStatus, now: datetime) -> Seen | None:
    """What the pipeline's own circuit keeps from going back; None if it is closed or unknown."""
    circuit, key = pipeline.circuit, pipeline.name
    if circuit is None or circuit.state == State.CLOSED:
        return None
    held = next((row for row in pipeline.held if row.key == key), None)
    if held is not None:
        return _held(held, now)
    if circuit.state == State.HALF_OPEN:
        return Seen(TroubleKind.CIRCUIT_TRIES, {"key": key})
    if circuit.state != State.OPEN:
        return Seen(TroubleKind.CIRCUIT_MALFORMED, {"key": key})
    at = circuit.open_until
    due = "" if at is None else "now" if at <= now else f"at {clock(at, now)}"
    return Seen(TroubleKind.CIRCUIT_WAITS, {"key": key, "due": due})


def _held(circuit: CircuitRow, now: datetime) -> Seen:
    """By whom, why and until when a circuit is held."""
    until, since = circuit.forced_until, circuit.forced_since
    return Seen(
        TroubleKind.CIRCUIT_HELD,
        {
            "key": circuit.key,
            "state": circuit.forced or "",
            "by": circuit.forced_by or "",
            "began": clock(since, now) if since else "",
            "until": clock(until, now) if until else "a person ends it",
            "why": circuit.forced_reason or "",
        },
    )


def _foreign(rows: Sequence[Mapping[str, str]]) -> Seen:
    keys = ", ".join(f"{_cut(row['pk'])} / {_cut(row['sk'])}" for row in rows[:_MOST_NAMED])
    more = max(0, len(rows) - _MOST_NAMED)
    return Seen(TroubleKind.FOREIGN_ROWS, {"rows": len(rows), "keys": keys, "more": more})


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
    in_queues = sum(queue.visible for queue in pipeline.parking.values() if queue is not None)
    parked = in_queues + sum(
        lane.letters or 0 for lane in pipeline.waiting if lane.lane == PARKED_LANE
    )
    facts: dict[str, Fact] = {"messages": parked, "source": "the parking lot"}
    return Seen(TroubleKind.UNATTENDED, facts) if parked else None


def holds(pipeline: PipelineStatus, source: str) -> bool:
    """Whether a queue holds messages now, as far as that could be read."""
    parking = {parking_source(id_): depth for id_, depth in pipeline.parking.items()}
    return {MAIN: pipeline.main, MAIN_DLQ: pipeline.dlq, **pipeline.dedicated, **parking}.get(
        source
    ) != QueueDepth(0, 0, 0)


def counter(run: Mapping[str, Any] | None, name: str) -> int:
    """A number in the report of a run; 0 if it is missing."""
    number = (run or {}).get(name)
    return number if isinstance(number, int) else 0
