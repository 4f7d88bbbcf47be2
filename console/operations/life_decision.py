"""What the router would decide about a letter now, from the tables it reads itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import (
    MAIN_DLQ,
    PARKED_LANE,
    Body,
    LedgerKeeps,
    Mode,
    is_reserved_key,
    parking_source,
    rule_lane,
    with_config_keys,
)
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.replay.ticket import OUTSIDE
from deadletter.routing.decision import NotADecision, decode, encode

from .app import DeployedPipeline
from .aws import Aws
from .deadline import side_by_side
from .errors import REFUSED, aws_errors, error_code
from .letter_walk import FoundLetter
from .life_record import LetterRecord
from .matching import holds, known_by_row, untold
from .queue import QueueDepth, depth
from .redrive import ask, of_another_version
from .session import Here
from .words import moment

if TYPE_CHECKING:
    from deadletter.aws.waiting_room import WaitingLetter
    from deadletter.failure.ledger import LedgerRow
    from deadletter.routing.direct_router import DirectRouter
    from deadletter.routing.router import Question
    from deadletter.rules.document import Document
    from deadletter.rules.rule import Rule
    from deadletter.settings.pipeline import Pipeline

BY_MESSAGE, BY_RECORD = "message", "failure record"

_OWN_ROLE = "dlq"
"""The sender of a letter that is made up from the ledger."""


UNKNOWN = "UNKNOWN"
"""The action if what decides is not in the ledger."""


@dataclass(frozen=True, slots=True)
class MissedField:
    """A field of a rule's pattern that the message does not match."""

    path: Annotated[str, "where it stands in the pattern"]
    expected: Annotated[str, "what the pattern accepts there, in words"]
    found: Annotated[str, "the kind of the message's value there, never the value"]


@dataclass(frozen=True, slots=True)
class TriedRule:
    """A rule and the outcome of its trial."""

    rule_id: Annotated[str, "id of the rule"]
    outcome: Annotated[str, "in words: matches and speaks, does not match, can't be told, …"]
    missed: Annotated[Sequence[MissedField], "what the message lacks"]


@dataclass(frozen=True, slots=True)
class DecisionNow:
    """What would be decided about a message, by the same function as the deployed router's."""

    action: Annotated[
        str,
        f"REDRIVE, HOLD, DIVERT or PARK; {UNKNOWN} if it depends on what is not on record",
    ]
    because: Annotated[str, "why, in a sentence"]
    rule: Annotated[str | None, "id of the rule that decides; null if none does"]
    delay: Annotated[int | None, "REDRIVE: seconds of delay, drawn anew each time"]
    waiting_for: Annotated[str | None, "HOLD: what it waits for, as `circuit:bank`"]
    due: Annotated[datetime | None, "HOLD: when it is decided again at the latest"]
    queue: Annotated[str | None, "DIVERT: id of the dedicated DLQ"]
    reason: Annotated[str | None, "PARK: why"]
    by: Annotated[
        str,
        f"{BY_MESSAGE}: by the message itself; {BY_RECORD}: by that alone, which has its failures, "
        "fields and endpoint, and no body",
    ]
    held_back: Annotated[
        str, "why nothing takes the message now, whatever is decided; empty if the next retry does"
    ] = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """The decision on a message, None if nothing is to be decided, and what each rule says."""

    decision: DecisionNow | None
    tried: Sequence[TriedRule] = ()


def judged(record: LetterRecord, found: FoundLetter | None) -> Judged:
    """The decision on a message, and whether a run takes it.

    One that was found in a queue is judged by the deployed router, one that waits as it waits. Any
    other is judged by its failure record, and so is a waiting one for those who may not read
    bodies. Raises Problem if the tables cannot be read.
    """
    if found is not None:
        home = MAIN_DLQ if found.home.startswith(parking_source("")) else found.home
        now = _router_says(record.here.session.aws, record.pipeline, found.letter, home)
    else:
        now = _judged(record)
    if now.decision is None:
        return now
    return replace(now, decision=replace(now.decision, held_back=_held_back(record)))


def _judged(record: LetterRecord) -> Judged:
    from botocore.exceptions import ClientError

    from deadletter.routing.wire import answer_event, question_to_json

    waiting = record.waiting[0] if record.waiting else None
    if waiting is not None:
        try:
            with aws_errors():
                letter = record.here.room.content(waiting)
        except ClientError as error:
            if error_code(error) not in REFUSED:
                raise
        else:
            if letter is None:
                return Judged(None)
            event = {"explain": question_to_json(_question(letter, waiting))}
            with aws_errors():
                return _explained(answer_event(_router(record.here), event))
    return _by_ledger(record)


def _held_back(record: LetterRecord) -> str:
    """Why a run of the pipeline ends before it takes a letter, as the redriver finds it."""
    from deadletter.redrive.redriver import not_closed

    if record.pipeline.mode == Mode.OBSERVE:
        return "mode observe moves nothing"
    with aws_errors():
        return not_closed(record.here.circuits.read(with_config_keys([record.pipeline.name])))


def _router(here: Here, document: Document | None = None) -> DirectRouter:
    from random import SystemRandom

    from deadletter.aws.replay_tickets import DynamoDBLiveRuns
    from deadletter.aws.rules import DynamoDBRules
    from deadletter.routing.direct_router import DirectRouter

    client, app, clock = here.session.aws.dynamodb, here.app, here.session.clock
    return DirectRouter(
        pipeline=here.pipeline.settings(),
        rules=DynamoDBRules(client, app.rules_table, app.messages_table, clock),
        ledger=here.ledger,
        circuits=here.circuits,
        trusted_senders=frozenset({_OWN_ROLE}),
        clock=clock,
        random=SystemRandom(),
        causes=here.causes,
        live_runs=DynamoDBLiveRuns(client, app.messages_table, here.pipeline.name),
        build=None if document is None else lambda *_: document,
    )


def _question(letter: Letter, waiting: WaitingLetter) -> Question:
    """What a run asks about a letter when it takes it out of its lane."""
    from deadletter.redrive.waiting_room import is_of_run
    from deadletter.routing.router import Question

    # The item's stamp is newer than the letter's own.
    stamp, lane = waiting.stamp, waiting.lane
    parked, of_run = lane == PARKED_LANE, is_of_run(lane)
    return Question(
        _sent_by_us(letter, stamp),
        served=not (parked or of_run),
        home=MAIN_DLQ if parked else waiting.home,
        spared=stamp.spared if stamp else 0,
        replay=of_run,
        stamp=stamp,
        admitted=lane.removeprefix(rule_lane("")) if lane.startswith(rule_lane("")) else None,
    )


def _by_ledger(record: LetterRecord) -> Judged:
    """The decision, if it is the same whatever is not on record; else UNKNOWN and why."""
    from deadletter.failure.ledger import NO_ROW
    from deadletter.rules.document import possible_documents
    from deadletter.rules.pattern import compile_pattern

    row, settings = record.row or NO_ROW, record.pipeline.settings()
    waiting = record.waiting[0] if record.waiting else None
    if row.unreadable or (record.row is None and waiting is None):
        return Judged(None)
    stamp = (waiting.stamp if waiting else None) or _stamp(record, row)
    letter = Letter(record.origin, "{}", {}, {"SentTimestamp": str(stamp.first_sent)})
    attempt = max(stamp.attempt, row.attempt)
    known = known_by_row(row, replace(stamp, attempt=attempt).attempts_used, settings)
    says: dict[str, str] = {}
    open_rules: dict[str, Sequence[str]] = {}

    def matches(rule: Rule) -> bool | None:
        pattern = compile_pattern(rule.pattern)
        answer = holds(pattern, known)
        says[rule.rule_id] = _OUTCOMES[answer]
        if answer is None:
            open_rules[rule.rule_id] = reads = untold(pattern, known)
            says[rule.rule_id] += f": it reads {', '.join(reads)} (--look)"
        return answer

    endpoints = _endpoints(record.here, row, settings)
    questions = (
        [_of_queue(letter, stamp, home) for home in _homes(record.here)]
        if waiting is None
        else [_question(letter, waiting)]
    )

    def decisions(*documents: Document) -> Sequence[Mapping[str, Any]]:
        with aws_errors():
            routers = [_router(record.here, document) for document in documents]
            return [
                encode(decision)
                for router in routers
                for question in questions
                for decision in router.possible(question, matches)
            ]

    documents, by_content = possible_documents(settings, endpoints)
    possible = decisions(*documents)
    doubts = [
        f"rule {rule} decides; it reads {', '.join(reads)} (--look)"
        for rule, reads in open_rules.items()
    ]
    if len(endpoints) > 1:
        doubts.append(
            "its endpoint decides, which is not on record; circuits of endpoints are open"
        )
    if len(questions) > 1:
        doubts.append("its queue decides: several of its DLQs hold messages (--look)")
    doubts += by_content
    tried_rules = tuple(TriedRule(rule, outcome, ()) for rule, outcome in says.items())
    if len({_gist(decision) for decision in possible}) > 1:
        return Judged(_answer(_unknown(possible, doubts), BY_RECORD), tried_rules)
    decided = possible[0]
    paths = [settings.context.get(name, "") for name in row.about.context]
    if settings.body is Body.JSON and not any(path.startswith("body.") for path in paths):
        # A value of the body on record shows that it could be read.
        [otherwise, *_] = decisions(replace(documents[0], unreadable="it is no JSON"))
        if _gist(otherwise) != _gist(decided):
            decided = {**decided, "because": f"{decided['because']}, if its body is JSON (--look)"}
    return Judged(_answer(decided, BY_RECORD), tried_rules)


_OUTCOMES = {True: "matches", False: "does not match", None: "can't be told"}


def _of_queue(letter: Letter, stamp: Stamp, home: str) -> Question:
    from deadletter.routing.router import Question

    return Question(_sent_by_us(letter, stamp), home=home, stamp=stamp)


def _homes(here: Here) -> Sequence[str]:
    """The DLQs that a letter of no lane may lie in, by their ids: those that hold letters.

    One in the main queue will die into the DLQ. A queue that could not be read may hold it.
    """
    pipeline, sqs = here.pipeline, here.session.aws.sqs
    if not pipeline.dedicated:
        return [MAIN_DLQ]
    urls = [
        (MAIN_DLQ, pipeline.main_url), (MAIN_DLQ, pipeline.dlq_url), *pipeline.dedicated.items(),
    ]  # fmt: skip
    with side_by_side() as start:
        reads = [(home, start(partial(depth, sqs, url))) for home, url in urls]
        holds_some = [
            home for home, read in reads if read.result(lambda _: None) != QueueDepth(0, 0, 0)
        ]
    return list(dict.fromkeys(holds_some)) or [MAIN_DLQ]


def _gist(decision: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a decision does: not its reason, nor a delay, which is drawn anew each time."""
    return tuple(decision.get(name) for name in ("action", "lane", "queue", "reason", "rule"))


def _unknown(possible: Sequence[Mapping[str, Any]], doubts: Sequence[str]) -> Mapping[str, Any]:
    """The answer if the decision depends on what is not known, with all that it may be."""
    ways = {_gist(decision): decision for decision in possible}
    either = " or ".join(
        f"{decision['action']}{f' by rule {rule}' if (rule := decision.get('rule')) else ''}"
        for decision in ways.values()
    )
    return {"action": UNKNOWN, "because": f"{'; '.join(doubts)}: {either}"}


def _stamp(record: LetterRecord, row: LedgerRow) -> Stamp:
    """The stamp of a letter in a queue, as far as its row and its tickets tell it."""
    if row.stamp is not None:
        return row.stamp
    first = row.first_at or (row.failures[0].at if row.failures else record.here.session.clock())
    stamp = Stamp(
        record.origin,
        row.attempt,
        int(first * 1000),
        # The re-drives after lives that used no attempt.
        base=sum(not row.used_attempt(life) for life in range(row.attempt)),
    )
    noted = record.tickets[-1] if record.tickets else None
    if noted is None or noted.ticket.attempt < row.attempt:
        return stamp
    stamp = replace(stamp, attempt=noted.ticket.attempt)
    if noted.ticket.fate in OUTSIDE:
        # It left the run unsent: its next failure is no concern of the run.
        return stamp
    return replace(stamp, run=noted.run.id, ticket=noted.ticket.copy)


def _endpoints(here: Here, row: LedgerRow, settings: Pipeline) -> Sequence[str | None]:
    """The keys that the letter's own circuit may have; None for no circuit, or one that is closed.

    The ledger keeps the key as its setting for the context says: plain, hashed, or not at all.
    """
    from deadletter.failure.cause_index import hashed

    how, name = settings.ledger, here.pipeline.name
    if settings.circuit_key is None or how is LedgerKeeps.PLAIN:
        return [row.about.endpoint or None]
    with aws_errors():
        circuits = here.circuits.troubled()
    keys = [circuit.key for circuit in circuits if not circuit.is_closed]
    own = [key for key in keys if key != name and not is_reserved_key(key)]
    if how is LedgerKeeps.HASHED:
        return [next((key for key in own if hashed(key, name) == row.about.endpoint), None)]
    return [None, *own[:1]]


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
        waiting_for=decision.get("lane"),
        due=moment(decision.get("due")),
        queue=decision.get("queue"),
        reason=decision.get("reason"),
        by=by,
    )


def _router_says(aws: Aws, pipeline: DeployedPipeline, letter: Letter, home: str) -> Judged:
    """The answer of the pipeline's router; Problem if it fails or the answer is malformed."""
    from deadletter.routing.router import Question
    from deadletter.routing.wire import question_to_json

    event = {"explain": question_to_json(Question(letter, home=home))}
    function, unknown = pipeline.router_function, "nothing was moved"
    answer = ask(aws, function, event, lost=unknown, failed=unknown)
    try:
        return _explained(answer)
    except (KeyError, TypeError, ValueError, NotADecision) as error:
        raise of_another_version(function, "answered no explanation") from error


def _explained(answer: Mapping[str, Any]) -> Judged:
    """A router's answer to the question for an explanation."""
    decision = answer["verdict"]["decision"]
    decode(decision)
    return Judged(_answer(decision, BY_MESSAGE), tuple(map(_tried, answer["tried"])))


def _tried(data: Mapping[str, Any]) -> TriedRule:
    missed = (
        MissedField(str(field["path"]), str(field["expected"]), str(field["found"]))
        for field in data["missed"]
    )
    return TriedRule(str(data["rule"]), str(data["outcome"]), tuple(missed))
