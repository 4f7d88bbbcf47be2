"""The letters in a pipeline's parking queues, and why each is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import PARKED_LANE, Reason, parking_source
from deadletter.message import stamp
from deadletter.message.stamp import Stamp

from . import peek as peeking
from .adapter_errors import aws_errors
from .answer import Answer
from .app import DeployedPipeline
from .peek import HIDDEN
from .queue import depth
from .session import Session
from .words import moment

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

    from deadletter.aws.waiting_room import DynamoDBLanes, WaitingLetter


@dataclass(frozen=True, slots=True)
class ParkedLetter:
    """A letter in a parking queue, and why it is there."""

    message_id: Annotated[str, "MessageId of this copy"]
    queue: Annotated[str, "id of the parking queue"]
    rescued: Annotated[
        bool, "whether it is in the waiting room now, because SQS was about to drop it"
    ]
    reason: Annotated[str | None, "why; null if the letter carries no `Redrive` attribute"]
    because: Annotated[str | None, "the same in a sentence"]
    attempts: Annotated[int | None, "re-drives before it was parked"]
    rule: Annotated[str | None, "id of the rule that parked it"]
    parked_at: Annotated[datetime | None, "when"]
    first_sent: Annotated[datetime | None, "when its producer sent it"]
    origin: Annotated[str | None, "MessageId of its first life"]
    size: Annotated[
        int | None, "bytes of body and attributes; null for a rescued letter that is in S3"
    ]
    received: Annotated[int, "how often it was received, peeks included; 0 if it was rescued"]
    body: Annotated[
        str | None, "the body; null without --show-body, and for a rescued letter that is in S3"
    ]


@dataclass(frozen=True, slots=True)
class ParkedSample(Answer):
    """What `dlq parked list` answers."""

    at: Annotated[datetime, "when it was read"]
    pipeline: Annotated[str, "name of the pipeline"]
    parked: Annotated[
        int, "letters in its parking queues, as SQS estimates it, and those rescued from them"
    ]
    rescued: Annotated[int, "those of them in lane `parked` of the waiting room"]
    looked_at: Annotated[int, "letters received to answer this"]
    not_given_back: Annotated[int, f"of them still hidden, for {HIDDEN} seconds at most"]
    letters: Annotated[Sequence[ParkedLetter], "the letters, in no particular order"]


@dataclass(frozen=True, slots=True)
class ParkedFilter:
    """Which parked letters are asked for."""

    limit: int
    reason: Reason | None = None
    body: bool = False


def read(session: Session, pipeline: str | None, wanted: ParkedFilter) -> ParkedSample:
    """A sample of the parked letters: first those rescued from a queue, then queue after queue.

    The rescued ones are the oldest, and looking at them costs no receive.
    """
    from deadletter.aws.waiting_room import DynamoDBLanes

    app = session.app()
    deployed = app.pipeline(pipeline)
    sqs = session.aws.sqs
    lanes = DynamoDBLanes(session.aws.dynamodb, app.letters_table, deployed.name)
    letters = rescued_letters(lanes, deployed, wanted)
    with aws_errors():
        rescued = lanes.count(PARKED_LANE)
    looked_at = not_given_back = 0
    for key, url in deployed.parking.items():
        missing = ParkedFilter(wanted.limit - len(letters), wanted.reason, wanted.body)
        if missing.limit <= 0:
            break
        look = peek(sqs, key, url, missing, session.clock)
        letters += look.letters
        looked_at += look.looked_at
        not_given_back += look.not_given_back
    return ParkedSample(
        **session.place,
        at=session.now,
        pipeline=deployed.name,
        parked=rescued + sum(depth(sqs, url).visible for url in deployed.parking.values()),
        rescued=rescued,
        looked_at=looked_at,
        not_given_back=not_given_back,
        letters=tuple(letters),
    )


def rescued_letters(
    lanes: DynamoDBLanes, pipeline: DeployedPipeline, wanted: ParkedFilter
) -> list[ParkedLetter]:
    """The wanted letters in lane `parked`, the oldest first."""
    most = peeking.MOST if wanted.reason else wanted.limit
    with aws_errors():
        waiting = lanes.look(PARKED_LANE, most, bodies=True)
    ids = {parking_source(id_): id_ for id_ in pipeline.parking}
    seen = (_rescued(letter, ids.get(letter.home, letter.home), wanted.body) for letter in waiting)
    return [letter for letter in seen if _matches(letter, wanted)][: wanted.limit]


def _rescued(waiting: WaitingLetter, queue: str, body: bool) -> ParkedLetter:
    letter = waiting.letter
    return _parked(
        waiting.copy,
        queue,
        waiting.stamp,
        rescued=True,
        sent_ms=letter.sent_ms or 0 if letter else 0,
        size=letter.size if letter else None,
        received=0,
        body=letter.body if letter and body else None,
    )


@dataclass(slots=True)
class ParkedLook:
    """What a peek at a queue has found so far."""

    letters: list[ParkedLetter] = field(default_factory=list)
    looked_at: int = 0
    not_given_back: int = 0


def peek(
    sqs: SQSClient, key: str, url: str, wanted: ParkedFilter, now: Callable[[], float]
) -> ParkedLook:
    """The wanted letters of a queue. All letters are given back, also after an error."""
    look = ParkedLook()

    def missing() -> int:
        more = wanted.limit - len(look.letters)
        # Any of the next ten letters may have the reason.
        return 10 if wanted.reason and more > 0 else more

    def see(message: MessageTypeDef) -> None:
        letter = parked(message, key, body=wanted.body)
        if len(look.letters) < wanted.limit and _matches(letter, wanted):
            look.letters.append(letter)

    peeked = peeking.peek(sqs, url, missing=missing, see=see, now=now)
    look.looked_at, look.not_given_back = peeked.looked_at, peeked.not_given_back
    return look


def _matches(letter: ParkedLetter, wanted: ParkedFilter) -> bool:
    return wanted.reason is None or letter.reason == wanted.reason


def parked(message: MessageTypeDef, queue: str, *, body: bool) -> ParkedLetter:
    """A received message as a parked letter; its body only if asked for."""
    attributes: Mapping[str, Any] = message.get("MessageAttributes", {})
    system: Mapping[Any, str] = message.get("Attributes", {})
    text = message.get("Body", "")
    return _parked(
        message["MessageId"],
        queue,
        _stamp(attributes),
        rescued=False,
        sent_ms=int(system.get("SentTimestamp", 0)),
        size=_utf8(text) + sum(_attribute_size(name, value) for name, value in attributes.items()),
        received=int(system.get("ApproximateReceiveCount", 0)),
        body=text if body else None,
    )


def _parked(
    message_id: str,
    queue: str,
    why: Stamp | None,
    *,
    rescued: bool,
    sent_ms: int,
    size: int | None,
    received: int,
    body: str | None,
) -> ParkedLetter:
    sent_ms = why.first_sent if why else sent_ms
    return ParkedLetter(
        message_id=message_id,
        queue=queue,
        rescued=rescued,
        reason=why.reason if why else None,
        because=why.because if why else None,
        attempts=why.attempt if why else None,
        rule=why.rule if why else None,
        parked_at=moment(why.at) if why else None,
        first_sent=moment(sent_ms / 1000) if 0 < sent_ms < 1 << 53 else None,
        origin=why.origin if why else None,
        size=size,
        received=received,
        body=body,
    )


def _stamp(attributes: Mapping[str, Any]) -> Stamp | None:
    value = attributes.get(stamp.NAME, {}).get("StringValue")
    return stamp.parse(value) if isinstance(value, str) else None


def _attribute_size(name: str, attribute: Mapping[str, Any]) -> int:
    value = attribute.get("BinaryValue") or _utf8(attribute.get("StringValue", ""))
    length = len(value) if isinstance(value, bytes) else value
    return _utf8(name) + _utf8(attribute["DataType"]) + int(length)


def _utf8(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
