"""The letters of a pipeline without receiving one, or the messages of any queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import MAIN_DLQ, PARKED_LANE, circuit_lane
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp

from .adapter_errors import aws_errors
from .answer import Answer
from .app import App, DeployedPipeline
from .group_sample import said_by_aws
from .letter_walk import waiting_room
from .peek import HIDDEN
from .problem import Cause, Problem
from .queue import LOOKS_COUNT, BareQueue, bare_queue
from .session import Session
from .words import count, moment

if TYPE_CHECKING:
    from deadletter.aws.waiting_room import DynamoDBWaitingRoom, WaitingLetter
    from deadletter.failure.cause_index import CauseEntry


@dataclass(frozen=True, slots=True)
class PeekedLetter:
    """One letter, as far as it is known without taking it."""

    place: Annotated[str, "`lane <name>`, `ledger` (it is in a queue of SQS) or `queue <name>`"]
    message_id: Annotated[str | None, "MessageId of this copy; null if only the first is known"]
    origin: Annotated[str, "MessageId of its first life"]
    since: Annotated[datetime | None, "since when it waits, failed last, or was sent"]
    due: Annotated[datetime | None, "when it is judged again at the latest; null outside a lane"]
    attempts: Annotated[int | None, "re-drives so far; null if it is not known"]
    because: Annotated[str, "why it waits, or the words of its last failure"]
    category: Annotated[str, "what kind of failure; empty if it is not known"]
    error_type: Annotated[str, "the error; empty if it is not known"]
    size: Annotated[int | None, "bytes of body and attributes; null if it is not known"]
    received: Annotated[int | None, "how often it was received, looks included; null if not known"]
    body: Annotated[str | None, "the body; null without --show-body"]
    attributes: Annotated[
        Mapping[str, Any] | None, "its message attributes; null without --show-body"
    ]


@dataclass(frozen=True, slots=True)
class LetterPeek(Answer):
    """What `dlq peek` answers."""

    at: Annotated[datetime, "when it was read"]
    pipeline: Annotated[str | None, "name of the pipeline; null for a queue of yours"]
    queue: Annotated[str | None, "name of the queue that was looked into; null if none was"]
    looked_at: Annotated[int, "messages that were received to answer this: 0 without a queue"]
    not_given_back: Annotated[int, f"of them still hidden, for {HIDDEN} seconds at most"]
    letters: Annotated[Sequence[PeekedLetter], "waiting letters, then those in queues"]
    notes: Annotated[Sequence[str], "warnings, and what was left out"]


def peek_at_pipeline(
    session: Session,
    pipeline: str | None,
    *,
    limit: int,
    lane: str | None = None,
    body: bool = False,
) -> LetterPeek:
    """Letters of the waiting room and of the ledger; nothing is received, hidden or counted.

    With `body` the DLQ is looked into as well: only there are the bodies of its letters.
    """
    app = session.app()
    chosen = app.pipeline(pipeline)
    notes: list[str] = []
    letters = list(_waiting(session, app, chosen, lane, limit, body))
    queue: BareQueue | None = None
    if lane is None and len(letters) < limit and body:
        queue = bare_queue(session, chosen.dlq_url, most=limit - len(letters))
        notes.append(LOOKS_COUNT)
        letters += [_received(letter, f"queue {MAIN_DLQ}", body=True) for letter in queue.letters]
    elif lane is None and len(letters) < limit:
        letters += _failing(session, app, chosen, limit - len(letters), notes)
    if lane is not None and not letters:
        notes.append(_empty(session, app, chosen, lane))
    return LetterPeek(
        **session.place,
        at=session.now,
        pipeline=chosen.name,
        queue=queue.name if queue else None,
        looked_at=queue.looked_at if queue else 0,
        not_given_back=queue.not_given_back if queue else 0,
        letters=tuple(letters),
        notes=tuple(notes),
    )


def peek_at_queue(session: Session, url: str, *, limit: int, body: bool = False) -> LetterPeek:
    """A sample of the messages of any queue, visible again at once; no app is needed."""
    queue = bare_queue(session, url, most=limit)
    notes = [LOOKS_COUNT]
    if queue.is_fifo:
        notes.append("It is a FIFO queue: of each group only the head is seen.")
    more = queue.depth.visible - queue.looked_at
    if more > 0:
        notes.append(f"About {count(more, 'more message')}: --limit shows more.")
    return LetterPeek(
        **session.place,
        at=session.now,
        pipeline=None,
        queue=queue.name,
        looked_at=queue.looked_at,
        not_given_back=queue.not_given_back,
        letters=tuple(
            _received(letter, f"queue {queue.name}", body=body) for letter in queue.letters
        ),
        notes=tuple(notes),
    )


def _waiting(
    session: Session,
    app: App,
    pipeline: DeployedPipeline,
    lane: str | None,
    limit: int,
    body: bool,
) -> Iterator[PeekedLetter]:
    """At most so many waiting letters, lane by lane, those that are due first."""
    room = waiting_room(session, app, pipeline)
    with aws_errors():
        names = [lane] if lane is not None else [each.name for each in room.lanes()]
    for name in names:
        with aws_errors():
            waiting = room.look(name, limit, bodies=body) if limit > 0 else ()
        limit -= len(waiting)
        for letter in waiting:
            yield _held(letter, _content(room, letter) if body else None)


def _content(room: DynamoDBWaitingRoom, letter: WaitingLetter) -> Letter | None:
    with aws_errors():
        return room.content(letter)


def _held(waiting: WaitingLetter, content: Letter | None) -> PeekedLetter:
    stamp, letter = waiting.stamp, content or waiting.letter
    return PeekedLetter(
        place=f"lane {waiting.lane}",
        message_id=waiting.copy,
        origin=stamp.origin if stamp else waiting.copy,
        since=moment(stamp.at) if stamp else None,
        due=moment(waiting.due),
        attempts=stamp.attempt if stamp else None,
        because=waiting.because,
        category="",
        error_type="",
        size=letter.size if letter else None,
        received=None,
        body=content.body if content else None,
        attributes=_attributes(content) if content else None,
    )


def _failing(
    session: Session, app: App, pipeline: DeployedPipeline, limit: int, notes: list[str]
) -> list[PeekedLetter]:
    """At most so many letters of the ledger's index that fail now, the latest failures first."""
    from deadletter.aws.cause_entries import DynamoDBCauseEntries
    from deadletter.contract import CAUSE_SHARDS, CAUSES

    index = DynamoDBCauseEntries(session.aws.dynamodb, app.letters_table, pipeline.name)
    entries: list[CauseEntry] = []
    with aws_errors():
        for shard in range(CAUSE_SHARDS):
            page = index.page(shard, limit, CAUSES.projected)
            found = [*page.entries]
            while page.last is not None and len(found) < limit:
                page = index.page(shard, limit, CAUSES.projected, after=page.last)
                found += page.entries
            entries += found
    entries.sort(key=lambda entry: entry.seen, reverse=True)
    if entries:
        notes.append(
            "Letters of the ledger are in a queue of SQS, and their bodies are only there: "
            "--show-body looks into the DLQ."
        )
    return [
        PeekedLetter(
            place="ledger",
            message_id=None,
            origin=entry.origin,
            since=moment(entry.seen),
            due=None,
            attempts=entry.attempt,
            because=entry.words,
            category=entry.category,
            error_type=entry.error_type,
            size=entry.about.size,
            received=None,
            body=None,
            attributes=None,
        )
        for entry in entries[:limit]
    ]


def _received(letter: Letter, place: str, *, body: bool) -> PeekedLetter:
    stamp = stamp_of(letter)
    received = letter.system.get("ApproximateReceiveCount", "")
    error, words = said_by_aws(letter)
    return PeekedLetter(
        place=place,
        message_id=letter.message_id,
        origin=stamp.origin if stamp else letter.message_id,
        since=moment(letter.sent_ms / 1000) if letter.sent_ms else None,
        due=None,
        attempts=stamp.attempt if stamp else None,
        because=(stamp.because if stamp else None) or words,
        category="",
        error_type=error,
        size=letter.size,
        received=int(received) if received.isdigit() else None,
        body=letter.body if body else None,
        attributes=_attributes(letter) if body else None,
    )


def stamp_of(letter: Letter) -> Stamp | None:
    """The stamp that a letter carries, whoever wrote it."""
    attribute = letter.attributes.get(stamps.NAME)
    return None if attribute is None else stamps.parse(attribute.value)


def _attributes(letter: Letter) -> Mapping[str, Any]:
    return {
        name: "binary" if isinstance(attribute.value, bytes) else attribute.value
        for name, attribute in letter.attributes.items()
    }


def _empty(session: Session, app: App, pipeline: DeployedPipeline, lane: str) -> str:
    """A sentence about a lane without letters; Problem (ABSENT) if it is not in use."""
    from deadletter.routing.decision import DUE

    with aws_errors():
        names = sorted({each.name for each in waiting_room(session, app, pipeline).lanes()})
    lanes = f"the lanes in use are {', '.join(names)}" if names else "no letter waits in any lane"
    if lane not in (*names, DUE, PARKED_LANE, circuit_lane(pipeline.name)):
        raise Problem(f"{pipeline.name} has no lane {lane!r} in use: {lanes}.", Cause.ABSENT)
    return f"Lane {lane} of {pipeline.name} is empty: {lanes}."


def one_place(pipeline: str | None, queue: str | None, lane: str | None) -> None:
    """Raises Problem if a queue of yours is named beside a pipeline's own places."""
    if queue is not None and (pipeline is not None or lane is not None):
        raise Problem(
            "--queue names a queue by itself: leave out --pipeline and --lane.", Cause.INPUT
        )
