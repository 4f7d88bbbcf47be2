"""What becomes of a pipeline's letters if nothing changes: rate, drain time, what comes next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from deadletter.contract import MAIN, Mode, is_of_delays
from deadletter.signals.troubles import Seen, TroubleKind

from .attention import holds, own_circuit, parked_messages, source_name
from .words import clock, count, duration, moment

if TYPE_CHECKING:
    from deadletter.redrive.source_memory import SourceMemory
    from deadletter.settings.pipeline import Pipeline
    from deadletter.watch.row import WatchRow

    from .status import PipelineStatus


@dataclass(frozen=True, slots=True)
class Outlook:
    """What becomes of a pipeline's letters if nothing changes."""

    letters: Annotated[
        int | None, "letters in the DLQ and in lane `due`; null if they could not be counted"
    ]
    dlq_empty_at: Annotated[
        datetime | None,
        "when the DLQ will be empty, by `fewer_a_second`; null if that is not known, or if it does "
        "not become emptier: `dlq_empty_because` says which",
    ]
    dlq_empty_because: Annotated[str, "how that is known, or why it is not"]
    fewer_a_second: Annotated[
        float | None,
        "letters a second by which the DLQ became emptier over the watch's last ten looks, "
        "arrivals deducted; 0 or less if it does not; null before ten looks",
    ]
    rate_limit: Annotated[
        float | None,
        "letters a second that go back to main at most: the setting, or what the last run chose",
    ]
    rate_measured: Annotated[
        float | None,
        "letters a second that went back over the `measured_seconds`; null if none did",
    ]
    measured_seconds: Annotated[
        int | None,
        "seconds of the last 15 minutes from its first run to its last; null if none is known",
    ]
    seconds_to_expiry: Annotated[
        int | None, "until SQS deletes the first letter; null if none is known"
    ]
    expires_in: Annotated[str | None, "the source of that letter"]
    next: Annotated[Sequence[str], "what happens next, as sentences"]
    rate_because: Annotated[
        str | None, "what a rate that finds itself does, and why; null if it is fixed"
    ] = None


def outlook(
    pipeline: PipelineStatus,
    now: datetime,
    *,
    rate_limit: float | None,
    rate_measured: float | None,
    measured_seconds: int | None,
    rate_because: str | None = None,
    first_due: datetime | None,
    looked: WatchRow | None,
) -> Outlook:
    """The outlook of a pipeline.

    `first_due` is when its first delayed letter is due, `looked` what its watch remembers.
    """
    empty_at, empty_because, fewer = _drain(pipeline, looked, now)
    expiring = [
        (source.seconds_to_expiry, source.source)
        for source in pipeline.sources
        if source.seconds_to_expiry is not None and holds(pipeline, source.source)
    ]
    seconds, source = min(expiring, default=(None, None))
    return Outlook(
        _to_send(pipeline),
        empty_at,
        empty_because,
        fewer,
        rate_limit,
        rate_measured,
        measured_seconds,
        seconds,
        source,
        tuple(_next(pipeline, now, first_due, seconds, source)),
        rate_because,
    )


def _drain(
    pipeline: PipelineStatus, looked: WatchRow | None, now: datetime
) -> tuple[datetime | None, str, float | None]:
    """When the DLQ will be empty, how that is known or why it is not, and its net rate."""
    from deadletter.watch.direction import LOOKS
    from deadletter.watch.drain_time import LEAST, LONGEST_GAP, drain_time

    if (dlq := pipeline.dlq) is None:
        return None, "unknown: the DLQ could not be read", None
    letters = dlq.visible + dlq.in_flight + dlq.delayed
    if not letters:
        return now, "it is empty now", None
    if (stops := why_nothing_goes_back(pipeline, now)) is not None:
        return None, f"unknown: {stops}", None
    if pipeline.circuit is None:
        return None, "unknown: the circuit could not be read", None
    if looked is None or now.timestamp() - looked.ran_at > LONGEST_GAP:
        return None, "unknown: the watch has not looked for three minutes", None
    told = drain_time(looked.drain)
    if told.looks < LOOKS:
        looks = f"{told.looks} of {LOOKS} looks in a row found letters while runs could work"
        return None, f"unknown: {looks}; a run may empty it at once", None
    if told.fewer is None:
        return None, f"unknown: fewer than {LEAST} letters give no rate", None
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
    from deadletter.redrive.auto_rate import Direction, is_forgotten

    known = None if memory is None else memory.auto_rate
    if known is None or is_forgotten(known, now.timestamp()):
        return settings.first_rate, "auto: the next run starts with it"
    does = str(known.direction)
    if known.direction is Direction.FALLEN:
        does += f" {duration(now.timestamp() - known.changed_at)} ago"
    return known.rate, f"{does}: {known.because}"


def _to_send(pipeline: PipelineStatus) -> int | None:
    """Letters of the DLQ and of the lane of delays; None if one of them could not be counted."""
    if pipeline.dlq is None:
        return None
    due = [lane.letters for lane in pipeline.waiting if is_of_delays(lane.lane)]
    if None in due:
        return None
    queue = pipeline.dlq
    return queue.visible + queue.in_flight + queue.delayed + sum(number or 0 for number in due)


def why_nothing_goes_back(pipeline: PipelineStatus, now: datetime) -> str | None:
    """Why no message of the DLQ goes back now; None if they do."""
    stops = own_circuit(pipeline, now)
    if pipeline.mode == Mode.OBSERVE:
        stops = Seen(TroubleKind.OBSERVES)
    elif pipeline.is_stalled:
        stops = Seen(TroubleKind.NOTHING_MOVES)
    return None if stops is None else stops.says()


def _next(
    pipeline: PipelineStatus,
    now: datetime,
    first_due: datetime | None,
    expires: int | None,
    source: str | None,
) -> Iterator[str]:
    stops = why_nothing_goes_back(pipeline, now)
    in_dlq = pipeline.dlq
    delayed = sum(lane.letters or 0 for lane in pipeline.waiting if is_of_delays(lane.lane))
    if stops is not None:
        yield stops
    elif in_dlq is not None and in_dlq.visible:
        yield f"the next run judges {count(in_dlq.visible, 'letter')} of the DLQ"
    if delayed and stops is None:
        letters = count(delayed, "delayed letter")
        when = (
            "now"
            if first_due is not None and first_due <= now
            else f"at {clock(first_due, now)}"
            if first_due is not None
            else "in time"
        )
        yield f"{letters} will be judged again when due, the first {when}"
    if expires is not None and source is not None:
        is_moved = pipeline.mode != Mode.OBSERVE and source != MAIN
        moves = "; a day before, the watch moves it" if is_moved else ""
        yield f"SQS deletes the first letter of {source_name(source)} in {duration(expires)}{moves}"
    if (parked := parked_messages(pipeline)) is not None:
        yield f"{parked.says()}: {parked.repair(pipeline=pipeline.name)}"
