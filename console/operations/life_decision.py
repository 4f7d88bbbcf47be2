"""What the router would decide about a letter now, from the tables it reads itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import MAIN_DLQ, PARKED_LANE, is_of_delays
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import encode

from . import deployed
from .adapter_errors import aws_errors
from .app import App
from .aws import REFUSED, error_code
from .letter_walk import waiting_room
from .life_record import LetterRecord, ledger_of
from .session import Session
from .words import moment

if TYPE_CHECKING:
    from deadletter.aws.waiting_room import WaitingLetter
    from deadletter.routing.direct_router import DirectRouter
    from deadletter.routing.router import Question

BY_LETTER, BY_LEDGER = "letter", "ledger"

_OWN_ROLE = "dlq"
"""The sender of a letter that is made up from the ledger."""


@dataclass(frozen=True, slots=True)
class DecisionNow:
    """What would be decided about a letter, by the same function as the deployed router's."""

    action: Annotated[str, "REDRIVE, HOLD, DIVERT or PARK"]
    because: Annotated[str, "why, in a sentence"]
    rule: Annotated[str | None, "id of the rule that decides; null if none does"]
    delay: Annotated[int | None, "REDRIVE: seconds of delay, drawn anew each time"]
    lane: Annotated[str | None, "HOLD: the lane of the waiting room"]
    due: Annotated[datetime | None, "HOLD: when it is judged again at the latest"]
    queue: Annotated[str | None, "DIVERT: id of the dedicated DLQ"]
    reason: Annotated[str | None, "PARK: why"]
    by: Annotated[
        str,
        f"{BY_LETTER}: the letter itself was judged; {BY_LEDGER}: its ledger row alone, so rules "
        "on body, attributes and context could not match",
    ]


def decision_now(session: Session, app: App, record: LetterRecord) -> DecisionNow | None:
    """The decision on a letter; None for one without anything to judge.

    A letter of the waiting room is judged as it waits. Any other is made up from the ledger: its
    body is unknown. So is that of a waiting letter to those who may not read bodies. Raises
    Problem if the tables cannot be read.
    """
    from botocore.exceptions import ClientError

    waiting = record.waiting[0] if record.waiting else None
    question = None
    if waiting is not None:
        try:
            question = _question_of(session, app, record, waiting)
        except ClientError as error:
            if error_code(error) not in REFUSED:
                raise
            waiting = None
    if waiting is None:
        question = _made_up(session, record)
    if question is None:
        return None
    with aws_errors():
        verdict, _ = _router(session, app, record).explain(question)
    return _answer(encode(verdict.decision), BY_LETTER if waiting else BY_LEDGER)


def _router(session: Session, app: App, record: LetterRecord) -> DirectRouter:
    from random import SystemRandom
    from uuid import uuid4

    from deadletter.aws.causes import DynamoDBCauses
    from deadletter.aws.circuits import DynamoDBCircuits
    from deadletter.aws.live_runs import DynamoDBLiveRuns
    from deadletter.aws.rules import DynamoDBRules
    from deadletter.routing.direct_router import DirectRouter

    client, name = session.aws.dynamodb, record.pipeline.name
    return DirectRouter(
        pipeline=deployed.settings(record.pipeline),
        rules=DynamoDBRules(client, app.rules_table, app.letters_table, session.clock),
        ledger=ledger_of(session, app, record.pipeline),
        circuits=DynamoDBCircuits(client, app.circuits_table, name),
        trusted_senders=frozenset({_OWN_ROLE}),
        clock=session.clock,
        random=SystemRandom(),
        causes=DynamoDBCauses(client, app.circuits_table, name, lambda: uuid4().hex),
        live_runs=DynamoDBLiveRuns(client, app.letters_table, name),
    )


def _question_of(
    session: Session, app: App, record: LetterRecord, waiting: WaitingLetter
) -> Question | None:
    from deadletter.redrive.waiting_room import is_of_run
    from deadletter.routing.router import Question

    with aws_errors():
        letter = waiting_room(session, app, record.pipeline).content(waiting)
    if letter is None:
        return None
    # The item's stamp is newer than the letter's own.
    stamp = waiting.stamp
    return Question(
        _sent_by_us(letter, stamp),
        served=is_of_delays(waiting.lane),
        home=MAIN_DLQ if waiting.lane == PARKED_LANE else waiting.home,
        spared=stamp.spared if stamp else 0,
        replay=is_of_run(waiting.lane),
        stamp=stamp,
    )


def _made_up(session: Session, record: LetterRecord) -> Question | None:
    """A question about a letter as its ledger row describes it; None without a row."""
    from deadletter.routing.router import Question

    row = record.row
    if row is None or row.unreadable:
        return None
    first = row.first_at or (row.failures[0].at if row.failures else session.clock())
    stamp = row.stamp or Stamp(record.origin, row.attempt, int(first * 1000))
    letter = Letter(record.origin, "{}", {}, {"SentTimestamp": str(stamp.first_sent)})
    return Question(_sent_by_us(letter, stamp), stamp=stamp)


def _sent_by_us(letter: Letter, stamp: Stamp | None) -> Letter:
    """The letter as one that the router believes: its stamp comes from our own tables."""
    from deadletter.message import stamp as stamps

    if stamp is None:
        return letter
    attributes = {**letter.attributes, stamps.NAME: stamps.attribute(stamp)}
    system = {**letter.system, "SenderId": _OWN_ROLE}
    return replace(letter, attributes=attributes, system=system)


def _answer(decision: Mapping[str, Any], by: str) -> DecisionNow:
    return DecisionNow(
        action=decision["action"],
        because=decision["because"],
        rule=decision.get("rule"),
        delay=decision.get("delay"),
        lane=decision.get("lane"),
        due=moment(decision.get("due")),
        queue=decision.get("queue"),
        reason=decision.get("reason"),
        by=by,
    )
