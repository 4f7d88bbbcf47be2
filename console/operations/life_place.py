"""Where a message is, and the steps of its life."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import (
    DUE_LANE,
    PARKED_LANE,
    Reason,
    circuit_lane,
    delay_lane,
    parking_source,
    rule_lane,
)
from deadletter.replay.ticket import OUTSIDE, ReplayOutcome

from .life_record import LetterRecord, RunTicket
from .places import place_of
from .replay_report import MEANING
from .replay_runs import TO_SCHEDULE
from .words import moment, waits_for

if TYPE_CHECKING:
    from deadletter.aws.waiting_room import WaitingLetter
    from deadletter.failure.ledger import LedgerRow

    from .letter_walk import FoundLetter


@dataclass(frozen=True, slots=True)
class Step:
    """A command that a person may type next."""

    command: Annotated[str, "the command line"]
    effect: Annotated[str, "what it does, or why"]


WHY = '"<why>"'
"""The place of a person's reason in a command, in quotes: a shell redirects at a bare <."""


def steps(record: LetterRecord, places: Sequence[Place]) -> Iterator[Step]:
    """The commands that help with a letter at these places, the likeliest first."""
    typed, name = quote(record.origin), record.pipeline.name
    for place in places:
        yield from _at(place, typed, name)
    if record.row is not None and record.row.failures:
        yield Step(f"dlq show {typed} --logs", "shows the consumer's log of each receive:")


def _at(place: Place, typed: str, pipeline: str) -> Iterator[Step]:
    here = f"--pipeline {quote(pipeline)}"
    copy = quote(place.current_id) if place.current_id else typed
    match place.where:
        case Where.WAITING:
            yield from _in_lane(place, here)
            yield Step(
                f"dlq list {here} --in {quote(place_of(place.waiting_for or DUE_LANE))}",
                "shows what waits with it:",
            )
        case Where.RUN:
            yield Step(f"dlq show {quote(place.run or '')}", "says how far its run is:")
        case Where.PARKED:
            yield Step(f"dlq retry {typed} {here} --reason {WHY}", "sends it again:")
            yield Step(f"dlq discard {copy} {here} --reason {WHY}", "throws it away:")
        case Where.DISCARDED if place.kept:
            yield Step(f"dlq restore {typed} {here} --reason {WHY}", "parks it again:")
        case Where.QUEUE:
            yield Step(f"dlq show {typed} --look", "looks for it in the DLQ and parking queues:")
            yield Step(f"dlq retry --auto {here}", "retries what is due now, without the schedule:")


def _in_lane(place: Place, here: str) -> Iterator[Step]:
    lane = place.waiting_for or ""
    typed = quote(lane.partition(":")[2])
    if lane.startswith(circuit_lane("")):
        yield Step(
            f"dlq show circuit:{typed} {here}",
            "says why the circuit is open, and since when:",
        )
        yield Step(
            f"dlq circuit close {typed} {here} --reason {WHY} --expires 1h",
            "closes it by hand, so that its messages leave:",
        )
    elif lane.startswith(delay_lane("")):
        yield Step(
            f"dlq retry --in rule:{typed} {here} --reason {WHY}",
            "has the messages decided now that the rule delays:",
        )
    elif lane.startswith(rule_lane("")):
        yield Step(
            f"dlq rules disable {typed} {here} --reason {WHY}", "lets go what the rule holds:"
        )
    elif lane.startswith("dedicated:"):
        yield Step(
            f"dlq retry --auto --in dedicated:{typed} {here}", "has its dedicated DLQ decided now:"
        )


class Where(StrEnum):
    """The kinds of places."""

    WAITING = "WAITING"
    """Held outside SQS until something lets it go."""
    RUN = "RUN"
    """A run has it, or has sent it."""
    PARKED = "PARKED"
    """In a parking queue, or saved from one."""
    PROCESSED = "PROCESSED"
    SUPERSEDED = "SUPERSEDED"
    """Skipped by the consumer: a later message of its ordering key was processed."""
    QUEUE = "QUEUE"
    """In the main queue, at the consumer or in a DLQ: SQS cannot be asked for one message."""
    DISCARDED = "DISCARDED"
    """Thrown away by a person."""
    GONE = "GONE"
    """In no queue, or no longer failing, and no record says what became of it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place of a message."""

    where: Annotated[str, f"{', '.join(Where)}"]
    says: Annotated[str, "the same in a sentence"]
    since: Annotated[datetime | None, "since when; null if it is not known"] = None
    current_id: Annotated[str | None, "its current ID there; null if it is not known"] = None
    waiting_for: Annotated[
        str | None, "what it waits for, as `circuit:bank`, or `due`: a time; null if it does not"
    ] = None
    due: Annotated[datetime | None, "when it is due; null if no time makes it leave"] = None
    because: Annotated[str, "why it is there; empty if it is not on record"] = ""
    rule: Annotated[str | None, "id of the rule that put it there; null if none did"] = None
    run: Annotated[str | None, "id of the run; null without one"] = None
    queue: Annotated[str | None, "id of the parking queue; null elsewhere"] = None
    by: Annotated[str, "who discarded it; empty elsewhere, or if it is not on record"] = ""
    kept: Annotated[
        str | None, "where the copy of a discarded message is; null without one, or elsewhere"
    ] = None

    @property
    def is_judged(self) -> bool:
        """Whether automation will decide about the letter here."""
        return self.where in (Where.WAITING, Where.QUEUE)


def places(record: LetterRecord, parking_queue: str) -> Iterator[Place]:
    """Where the letter is, the surest place first; at least one.

    `parking_queue` is the id of the queue that its kind of parked letter goes to.
    """
    if record.waiting:
        for waiting in record.waiting:
            yield _waiting(waiting)
        return
    row = record.row
    by_run = _by_run(record, parking_queue)
    if by_run is not None:
        yield by_run
        return
    if row is None:
        return
    last = row.failures[-1].at if row.failures else 0.0
    if row.recovered_at is not None and row.recovered_at >= last:
        how = _RECOVERED.get(row.recovered_as, "processed")
        says, since = f"Its failure record says that it was {how}.", moment(row.recovered_at)
        is_past = row.recovered_as == "superseded"
        yield Place(Where.SUPERSEDED if is_past else Where.PROCESSED, says, since=since)
    elif _is_parked(row):
        yield _parked(row, parking_queue)
    elif row.has_left_index:
        yield Place(
            Where.GONE,
            "It no longer fails: it was processed at a later receive of its first attempt, or "
            "discarded by a run that is not on record any more.",
        )
    else:
        yield Place(
            Where.QUEUE,
            "In a queue, which SQS can't be asked about: in the main queue, with the consumer, "
            "or in the DLQ.",
            since=moment(last) if last else None,
        )


def gone(place: Place) -> Place:
    """The place of a letter whose queues are empty, though its record has no end."""
    return Place(
        Where.GONE,
        "The main queue and the DLQs are empty, with no message in flight: it was processed "
        "and that is not on record, or deleted, as by a purge or another consumer.",
        since=place.since,
    )


def found_in(queue: str, found: FoundLetter) -> Place:
    """The place of a message that was just seen in a queue."""
    stamp, copy = found.stamp, found.letter.message_id
    if not found.home.startswith(parking_source("")):
        return Place(Where.QUEUE, f"In {queue}: it was seen there just now.", current_id=copy)
    return Place(
        Where.PARKED,
        f"Parked as {(stamp and stamp.reason) or 'an unknown reason'}, in {queue}: it was seen "
        "there just now.",
        current_id=copy,
        since=moment(stamp.at) if stamp else None,
        because=(stamp and stamp.because) or "",
        rule=stamp.rule if stamp else None,
        queue=found.home.removeprefix(parking_source("")),
    )


def processed_by_claim(is_business_id: bool) -> Place:
    """The place of a message that its consumer's own record says is processed."""
    of = "this business ID" if is_business_id else "its ID"
    return Place(Where.PROCESSED, f"The consumer's entry of {of} says that it was processed.")


def tried_by_claim(*, is_claimed: bool) -> Place:
    """The place of a message of which only its consumer's own record is known."""
    what = "works on it" if is_claimed else "has tried it"
    return Place(Where.QUEUE, f"The consumer {what}, and no failure of it is on record.")


def _waiting(waiting: WaitingLetter) -> Place:
    from deadletter.redrive.waiting_room import is_of_run

    stamp, lane = waiting.stamp, waiting.lane
    known: dict[str, Any] = {
        "current_id": waiting.copy,
        "waiting_for": lane,
        "since": moment(stamp.at) if stamp else None,
        "because": waiting.because or (stamp.because or "" if stamp else ""),
        "rule": stamp.rule if stamp else None,
    }
    if lane == PARKED_LANE:
        queue = waiting.home.removeprefix("parking:")
        because = (stamp.because if stamp else None) or waiting.because
        says = f"Parked, and saved from expiry: it was in parking queue {queue}."
        return Place(Where.PARKED, says, **{**known, "queue": queue, "because": because})
    if is_of_run(lane):
        run = lane.partition(":")[2]
        says = f"Run {run} has it."
        return Place(Where.RUN, says, **{**known, "run": run})
    says = f"It waits for {waits_for(lane)}."
    return Place(Where.WAITING, says, **{**known, "due": moment(waiting.due)})


_RECOVERED = {
    "found processed": "found processed, by a process that ended before it said how",
    "skipped": "skipped, because its handler found nothing to do",
    "duplicate": "skipped, because it was processed before",
    "superseded": "skipped, because a later one of its ordering key was processed",
}
"""How a message was processed, by what its failure record says, if it was not as usual."""

_BY_RUN = {
    ReplayOutcome.RECOVERED: Where.PROCESSED,
    ReplayOutcome.DUPLICATE: Where.PROCESSED,
    ReplayOutcome.SUPERSEDED: Where.SUPERSEDED,
    ReplayOutcome.PARKED: Where.PARKED,
    ReplayOutcome.QUARANTINED: Where.PARKED,
    ReplayOutcome.EXPIRED: Where.PARKED,
    ReplayOutcome.LEFT: Where.PARKED,
    ReplayOutcome.RESTORED: Where.PARKED,
    ReplayOutcome.STOPPED: Where.QUEUE,
    ReplayOutcome.UNKNOWN: Where.QUEUE,
    ReplayOutcome.DELIVERED: Where.QUEUE,
    ReplayOutcome.MISSING: Where.GONE,
}
"""Where a run leaves a message; with any other outcome the run has it, or has sent it."""


def _by_run(record: LetterRecord, parking_queue: str) -> Place | None:
    """Where the last replay run left the letter, unless its row knows something later."""
    if not record.tickets:
        return None
    noted: RunTicket = record.tickets[-1]
    ticket, fate = noted.ticket, noted.ticket.fate
    if fate is ReplayOutcome.DISCARDED:
        # A discard begins no life: what the row says of the letter's last one is from before.
        has_news = record.row is not None and _is_of_after(record.row, ticket.at)
        return None if has_news else _discarded(record, noted)
    where = _BY_RUN.get(fate, Where.RUN)
    if fate is ReplayOutcome.LEFT and noted.run.leave_to == TO_SCHEDULE:
        where = Where.QUEUE
    if record.row is not None and _is_later(record.row, noted, where):
        return None
    says = f"Run {noted.run.id}: {MEANING[fate.name]}."
    queue = parking_queue if where is Where.PARKED else None
    since, copy = moment(ticket.at), ticket.copy
    return Place(where, says, run=noted.run.id, since=since, current_id=copy, queue=queue)


def _is_of_after(row: LedgerRow, at: float) -> bool:
    """Whether the row knows something of the letter that happened after that time."""
    times = [row.recovered_at, row.parked_at, *(each.at for each in row.failures)]
    return any(time is not None and time > at for time in times)


def _discarded(record: LetterRecord, noted: RunTicket) -> Place:
    ticket, discard = noted.ticket, record.discard
    plan = discard.plan if discard else None
    by = plan.who if plan else ""
    copy = discard.copy if discard else None
    says = f"Discarded by {by or 'a person who is not on record any more'}"
    says = f"{says}, with run {noted.run.id}."
    if copy:
        says = f"{says} Its copy is kept at {copy}."
    elif copy == "":
        says = f"{says} No copy of it is kept."
    return Place(
        Where.DISCARDED,
        says,
        run=noted.run.id,
        since=moment(ticket.at),
        current_id=ticket.copy,
        because=plan.why if plan else "",
        by=by,
        kept=copy or None,
    )


def _is_later(row: LedgerRow, noted: RunTicket, where: Where) -> bool:
    """Whether the row says how the life ended that a run began, or of a life after it."""
    ticket = noted.ticket
    # What left a run unsent has the life that it came with.
    ended = ticket.fate not in OUTSIDE and row.outcome_in(ticket.attempt)
    if ended or max(row.recovered_at or 0, row.parked_at or 0) > ticket.at:
        return True
    last = row.failures[-1] if row.failures else None
    failed = last is not None and last.at > ticket.at
    is_over = not noted.run.is_live or where in (Where.QUEUE, Where.GONE)
    return failed and (row.attempt > ticket.attempt or is_over)


def _is_parked(row: LedgerRow) -> bool:
    return row.is_parked or (bool(row.ended_as) and (row.ended_attempt or 0) >= row.attempt)


def _why_parked(row: LedgerRow) -> str:
    """The failure that the letter was parked for; its reason if no failure explains it."""
    reason = str(row.parked_as or row.ended_reason or "")
    if reason not in (Reason.PERMANENT, Reason.POISON) or row.parked_rule or not row.failures:
        return reason
    last = row.failures[-1]
    return ": ".join(filter(None, (last.error_type, last.message))) or reason


def _parked(row: LedgerRow, queue: str) -> Place:
    reason = row.parked_as or row.ended_reason or "an unknown reason"
    says = (
        f"Parked as {reason}, in parking queue {queue} as far as is on record: SQS can't be asked "
        "about one message."
    )
    return Place(
        Where.PARKED,
        says,
        since=moment(row.parked_at),
        because=_why_parked(row),
        rule=row.parked_rule or None,
        queue=queue,
    )
