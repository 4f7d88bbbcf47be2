"""`dlq parked`: the parking lot, where automation ended and a person begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deadletter.contract import Reason
from deadletter.message import stamp
from deadletter.message.stamp import Stamp

from ..operations import peek as peeking
from ..operations.app import DeployedPipeline
from ..operations.peek import HIDDEN, not_given_back
from ..operations.problem import Exit, Problem
from ..operations.queue import depth
from .command import OnePipeline, Session, command, group
from .output import (
    Block,
    CommandResult,
    Line,
    Reply,
    Styled,
    clock,
    count,
    duration,
    line,
    moment,
    size,
)

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

# Characters of a body that a terminal is given; JSON has all of it.
_MAX_BODY = 2_000


@dataclass(frozen=True, slots=True)
class ParkedLetter:
    """One letter in a parking queue, and why it is there."""

    message_id: Annotated[str, "MessageId of this copy"]
    queue: Annotated[str, "id of the parking queue"]
    reason: Annotated[str | None, "why; null if the letter carries no `Redrive` attribute"]
    because: Annotated[str | None, "the same in a sentence"]
    attempts: Annotated[int | None, "re-drives before it was parked"]
    rule: Annotated[str | None, "id of the rule that parked it"]
    parked_at: Annotated[datetime | None, "when"]
    first_sent: Annotated[datetime | None, "when its producer sent it"]
    origin: Annotated[str | None, "MessageId of its first life"]
    size: Annotated[int, "bytes of body and attributes"]
    received: Annotated[int, "how often it was received, peeks included"]
    body: Annotated[str | None, "the body; null without --show-body"]


@dataclass(frozen=True, slots=True)
class ParkedSample(CommandResult):
    """What `dlq parked list` answers."""

    at: Annotated[datetime, "when it was read"]
    pipeline: Annotated[str, "name of the pipeline"]
    parked: Annotated[int, "letters in its parking queues, as SQS estimates it"]
    looked_at: Annotated[int, "letters received to answer this"]
    not_given_back: Annotated[int, f"of them still hidden, for {HIDDEN} seconds at most"]
    letters: Annotated[Sequence[ParkedLetter], "the letters found, in no particular order"]


typer_app = group("Letters that automation gave up and a person has to judge.")

Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, max=100, help="How many to list.")
]
Why = Annotated[
    str | None,
    typer.Option("--reason", metavar="REASON", help=f"Only: {', '.join(Reason)}."),
]
ShowBody = Annotated[
    bool, typer.Option("--show-body", help="Show bodies too, control characters escaped.")
]


@command(
    typer_app,
    "list",
    example=[
        "dlq parked list --pipeline orders",
        "dlq parked list --pipeline orders --reason POISON --limit 3 --show-body",
        "dlq parked list --pipeline orders --json --query 'letters[].message_id'",
    ],
)
def list_(
    session: Session,
    pipeline: OnePipeline = None,
    limit: Limit = 10,
    reason: Why = None,
    show_body: ShowBody = False,
) -> Reply[ParkedSample]:
    """Peek at parked letters: which, why, since when.

    This is a sample. SQS hands out letters in no order, each peek raises their receive
    count, and hides them from others for a moment (30 seconds at most). In a FIFO queue
    it sees only the head of each group.

    Bodies are not shown unless you ask: they may hold your customers' data.
    """
    wanted = Wanted(limit, _known(reason) if reason else None, show_body)
    chosen = session.app().one(pipeline)
    return Reply(read(session, chosen, wanted), show)


def _known(reason: str) -> Reason:
    found = Reason.__members__.get(reason.upper())
    if found is None:
        raise Problem(
            f"There is no reason {reason!r}: the reasons are {', '.join(Reason)}.", Exit.USAGE
        )
    return found


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which parked letters somebody asks for."""

    limit: int
    reason: Reason | None = None
    body: bool = False


def read(session: Session, pipeline: DeployedPipeline, wanted: Wanted) -> ParkedSample:
    """A sample of the pipeline's parking queues, one queue after the other."""
    sqs = session.aws.sqs
    letters: list[ParkedLetter] = []
    looked_at = not_given_back = 0
    for key, url in pipeline.parking.items():
        missing = Wanted(wanted.limit - len(letters), wanted.reason, wanted.body)
        if missing.limit <= 0:
            break
        peeked = peek(sqs, key, url, missing, session.clock)
        letters += peeked.letters
        looked_at += peeked.looked_at
        not_given_back += peeked.not_given_back
    return ParkedSample(
        session.aws.account,
        session.aws.region,
        session.app_name,
        session.now,
        pipeline.name,
        sum(depth(sqs, url).visible for url in pipeline.parking.values()),
        looked_at,
        not_given_back,
        tuple(letters),
    )


@dataclass(slots=True)
class ParkedLook:
    """What a peek at one queue has found so far."""

    letters: list[ParkedLetter] = field(default_factory=list)
    looked_at: int = 0
    not_given_back: int = 0


def peek(
    sqs: SQSClient, key: str, url: str, wanted: Wanted, now: Callable[[], float]
) -> ParkedLook:
    """The wanted letters of one queue, all of them given back, whatever happens."""
    found = ParkedLook()

    def missing() -> int:
        more = wanted.limit - len(found.letters)
        # Looking for a reason, the next ten may hold the one.
        return 10 if wanted.reason and more > 0 else more

    def see(message: MessageTypeDef) -> None:
        letter = parked(message, key, body=wanted.body)
        if len(found.letters) < wanted.limit and _matches(letter, wanted):
            found.letters.append(letter)

    looked = peeking.peek(sqs, url, missing=missing, see=see, now=now)
    found.looked_at, found.not_given_back = looked.looked_at, looked.not_given_back
    return found


def _matches(letter: ParkedLetter, wanted: Wanted) -> bool:
    return wanted.reason is None or letter.reason == wanted.reason


def parked(message: MessageTypeDef, queue: str, *, body: bool) -> ParkedLetter:
    """A received message as a parked letter; its body only if asked for."""
    attributes: Mapping[str, Any] = message.get("MessageAttributes", {})
    system: Mapping[Any, str] = message.get("Attributes", {})
    text = message.get("Body", "")
    why = _stamp(attributes)
    sent_ms = why.first_sent if why else int(system.get("SentTimestamp", 0))
    return ParkedLetter(
        message_id=message["MessageId"],
        queue=queue,
        reason=why.reason if why else None,
        because=why.because if why else None,
        attempts=why.attempt if why else None,
        rule=why.rule if why else None,
        parked_at=moment(why.at) if why else None,
        first_sent=moment(sent_ms / 1000) if 0 < sent_ms < 1 << 53 else None,
        origin=why.origin if why else None,
        size=_utf8(text) + sum(_attribute_size(*one) for one in attributes.items()),
        received=int(system.get("ApproximateReceiveCount", 0)),
        body=text if body else None,
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


def show(found: ParkedSample) -> Iterator[Block]:
    """The sample as a person reads it: a line with the facts, then why."""
    yield line(
        Styled(f"Parked letters of {found.pipeline}", "strong"),
        f" in account {found.account}, {found.region}",
    )
    yield line(f"{len(found.letters)} listed, {found.looked_at} looked at, {found.parked:,} there.")
    if found.not_given_back:
        yield line(not_given_back(found.not_given_back))
    for letter in found.letters:
        yield Line()
        yield from _letter(letter, found.at)


def _letter(letter: ParkedLetter, now: datetime) -> Iterable[Block]:
    facts = [
        f"after {count(letter.attempts, 'attempt')}" if letter.attempts is not None else "",
        f"by rule {letter.rule}" if letter.rule else "",
        f"parked {_when(letter.parked_at, now)}" if letter.parked_at else "",
        f"{_age(letter.first_sent, now)} old" if letter.first_sent else "",
        size(letter.size),
        f"in queue {letter.queue}",
    ]
    yield line(
        Styled(letter.message_id, "strong"),
        "  ",
        Styled(letter.reason or "reason unknown", "alarm"),
        "  ",
        ", ".join(one for one in facts if one),
    )
    because = letter.because or (
        "no reason given"
        if letter.reason
        else "it carries no Redrive attribute; if it had no room for one, the ledger knows"
    )
    yield line(because, indent=4)
    if letter.body is not None:
        yield line(letter.body[:_MAX_BODY], indent=4)
        if (more := len(letter.body) - _MAX_BODY) > 0:
            yield line(Styled(f"{count(more, 'more character')}: see --json", "faint"), indent=4)


def _when(at: datetime, now: datetime) -> str:
    return f"{clock(at, now)}, {_age(at, now)} ago"


def _age(at: datetime, now: datetime) -> str:
    return duration((now - at).total_seconds())
