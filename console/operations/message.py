"""One message: a time line from sent to now, what comes next, and whether it was processed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import DAY, DEFAULT_PARKING, MAIN, Mode, Reason, parking_for
from deadletter.failure.failure import Failure
from deadletter.replay.ticket import OUTSIDE, ReplayOutcome

from .app import App
from .deadline import side_by_side
from .errors import Cause, Denied, Problem
from .letter_walk import MOST, SAMPLE, FoundLetter, look_into_queue
from .life_decision import UNKNOWN, DecisionNow, Judged, TriedRule, judged
from .life_logs import FOUND, NOTHING, ReceiveLog, receive_logs
from .life_place import (
    Place,
    Step,
    Where,
    found_in,
    gone,
    places,
    processed_by_claim,
    steps,
    tried_by_claim,
)
from .life_record import LetterRecord, RunTicket, known_of, record_of
from .list import attributes_of
from .names import Known, NameKind, of_first_id
from .places import forged
from .queue import QueueDepth, depth
from .replay_report import MEANING
from .replay_runs import RunSwitch
from .replay_runs import waits_for as run_waits_for
from .session import Here, Session
from .words import clock, duration, moment, size, waits_for

if TYPE_CHECKING:
    from deadletter.failure.ledger import LedgerRow
    from deadletter.message.stamp import Stamp

    from .audit_trail import AuditLine


@dataclass(frozen=True, slots=True)
class MessageFailure:
    """One receive that failed, and the decision that had begun its attempt."""

    attempt: Annotated[int, "number of the attempt; 0 is the first"]
    receive: Annotated[int, "number of the receive in that attempt"]
    at: Annotated[datetime | None, "when it failed"]
    queue: Annotated[str, "name of the queue that it came from"]
    category: Annotated[str, "what kind of failure"]
    error_type: Annotated[str, "the error; empty if it is not on record"]
    text: Annotated[str, "its text without data; empty if it is not kept"]
    place: Annotated[str, "file, line and function of your code; empty if it is not on record"]
    http_status: Annotated[int | None, "status of the answer; null without one"]
    cause: Annotated[str, "equal for failures of the same kind at the same place"]
    blame: Annotated[str, "who was to blame: dependency, configuration or neither"]
    blameless: Annotated[
        bool, "whether it was no fault of its own: a circuit or an endpoint made it wait"
    ]
    request_id: Annotated[str, "id of the Lambda invocation; empty if it is not on record"]
    version: Annotated[str, "the consumer's version; empty if it is not on record"]
    sent_at: Annotated[
        datetime | None, "when the message was sent into this attempt; null for the first"
    ]
    sent_because: Annotated[str, "why it was sent; empty for the first attempt"]
    sent_rule: Annotated[str, "id of the rule that spoke; empty if none did"]
    waited: Annotated[
        int | None, "seconds from the last failure of the attempt before; null if it is not known"
    ]


@dataclass(frozen=True, slots=True)
class MessageAct:
    """Something that happened to the message, or to what holds it."""

    at: Annotated[datetime | None, "when; null if that is not on record"]
    says: Annotated[str, "what, by whom and why, as far as it is on record"]


YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Processed:
    """Whether the consumer has processed the message, and how that is known."""

    answer: Annotated[str, f"{YES}, {NO} or unknown"]
    says: Annotated[str, "the record that says so, or what is lacking"]


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """All that is known of one message."""

    pipeline: Annotated[str, "name of the pipeline"]
    id: Annotated[str, "the id that was asked for"]
    message_id: Annotated[str, "its message ID; empty if only its business ID is on record"]
    trace: Annotated[str, "root of its X-Ray trace, the same in all attempts; empty without one"]
    first_sent: Annotated[datetime | None, "when its producer sent it; null if it is not known"]
    first_failed: Annotated[datetime | None, "when it failed first; null if it is not known"]
    attempts: Annotated[int, "retries so far"]
    fields: Annotated[Mapping[str, str], "values of the pipeline's `context`, as they are kept"]
    endpoint: Annotated[str, "key of its own circuit, such as its endpoint; empty if none"]
    size: Annotated[int | None, "bytes of body and attributes; null if it is not known"]
    acts: Annotated[Sequence[MessageAct], "its time line: what happened to it, the earliest first"]
    failures: Annotated[Sequence[MessageFailure], "its failures on record, oldest first"]
    places: Annotated[Sequence[Place], "where it is now, the surest place first"]
    processed: Annotated[Processed, "whether it was processed"]
    next: Annotated[str, "what comes next, in a sentence"]
    decision: Annotated[
        DecisionNow | None, "what would be decided now; null if automation decides nothing"
    ]
    rules: Annotated[
        Sequence[TriedRule] | None, "with --rules, each rule in the order of trial; else null"
    ]
    log_group: Annotated[str, "with --logs, the log group that was searched; else empty"]
    logs: Annotated[
        Sequence[ReceiveLog] | None, "with --logs, the consumer's log of each receive; else null"
    ]
    body: Annotated[str | None, "the body; null if it was not read"]
    attributes: Annotated[Mapping[str, Any] | None, "its attributes, as the body"]
    body_unread: Annotated[str, "with --body, why not; else empty"]
    steps: Annotated[Sequence[Step], "what a person can do"]
    not_searched: Annotated[Sequence[str], "where it was not looked for, and what that costs"]
    notes: Annotated[Sequence[str], "what could not be read"]

    @property
    def is_whole(self) -> bool:
        """Whether the body and the logs that were asked for could be read."""
        logs = (each.state in (FOUND, NOTHING) for each in self.logs or ())
        return not self.body_unread and all(logs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What is shown of a message beside its time line; `look` receives from queues."""

    body: bool = False
    look: bool = False
    logs: bool = False
    rules: bool = False


def shown(
    session: Session, app: App, id_: str, pipelines: Sequence[str], known: Known, extras: Extras
) -> ShownMessage:
    """The message with this id: a message ID, a current one that we hold, or a business ID.

    Raises Problem (ABSENT) if no pipeline knows it.
    """
    record, found = _found(session, app, id_, pipelines, known, extras)
    if known.claim is None and not known.unread and record.origin != id_:
        known = of_first_id(session, app, known, record.origin, record.pipeline.name)
    row, notes = record.row, [*record.notes, *filter(None, [known.unread])]
    here, more = _places(record, found, known, notes, extras)
    now = Judged(None)
    if here[0].is_judged or (extras.rules and found):
        try:
            now = judged(record, found)
        except Problem as problem:
            notes.append(f"What would be decided is not known: {problem.says}")
    if found is not None:
        notes += forged(found.is_forged, found.home)
    if row is not None and row.unreadable:
        notes.append("Its failure record is malformed: nothing is decided until it is repaired.")
    content, unread = None, ""
    if extras.body:
        content, unread = _content(record, found, here[0])
    group, logs = "", None
    if extras.logs:
        group, logs = receive_logs(record, notes)
    stamp = _stamp(record, found)
    first_at = (row.first_at or next((each.at for each in row.failures), None)) if row else None
    decision = now.decision if here[0].is_judged else None
    about = row.about if row else None
    return ShownMessage(
        pipeline=record.pipeline.name,
        id=id_,
        message_id=record.origin,
        trace=about.trace if about else "",
        first_sent=moment(stamp.first_sent / 1000) if stamp and stamp.first_sent else None,
        first_failed=moment(first_at),
        attempts=max(stamp.attempt if stamp else 0, row.attempt if row else 0),
        fields=about.context if about else {},
        endpoint=about.endpoint if about else "",
        size=found.letter.size if found else about.size if about else None,
        acts=_time_line(record, found, here, notes),
        failures=tuple(_failures(row)) if row else (),
        places=here,
        processed=_processed(record, here[0], known),
        next=_next(record, here[0], decision, notes),
        decision=decision,
        rules=now.tried if extras.rules else None,
        log_group=group,
        logs=logs,
        body=content.body if content else None,
        attributes=attributes_of(content) if content else None,
        body_unread=unread,
        steps=tuple(steps(replace(record, origin=record.origin or id_), here)),
        not_searched=tuple(more),
        notes=tuple(notes),
    )


# Where it is.


def _found(
    session: Session,
    app: App,
    id_: str,
    pipelines: Sequence[str],
    known: Known,
    extras: Extras,
) -> tuple[LetterRecord, FoundLetter | None]:
    """What is on record of the message, and the message itself if a look has found it."""
    claim = known.claim
    pipeline = known.pipelines.get(NameKind.MESSAGE, ())
    searched = [Here(session, app, each) for each in app.select(pipeline or pipelines)]
    name = searched[0].pipeline.name if len(searched) == 1 else None
    if claim is not None and claim.is_done:
        # What was processed at once waits nowhere: no place is gone through.
        one = Here(session, app, app.pipeline(pipeline[0]))
        if known_of(one, claim.origin or id_) is None:
            return LetterRecord(one, claim.origin, None), None
    try:
        unread = [f"{_UNREAD}: {known.unread}"] if known.unread else []
        record = record_of(session, app, (claim.origin if claim else "") or id_, name, unread)
    except Problem as problem:
        if problem.cause is not Cause.ABSENT:
            raise
        seen = _looked(searched, {id_}) if extras.look else None
        if seen is not None:
            one, found = seen
            origin = found.stamp.origin if found.stamp else found.letter.message_id
            return known_of(one, origin) or LetterRecord(one, origin, None), found
        if claim is None:
            raise _absent(problem, extras) from problem
        one = Here(session, app, app.pipeline(pipeline[0]))
        return LetterRecord(one, claim.origin, None), None
    if not extras.look or record.waiting:
        return record, None
    ids = {id_, record.origin, *(each.ticket.copy for each in record.tickets)}
    seen = _looked([record.here], ids)
    return record, seen[1] if seen else None


def _looked(searched: Sequence[Here], ids: set[str]) -> tuple[Here, FoundLetter] | None:
    """The message with one of these ids in a queue that was looked into; all are given back."""
    matches: list[FoundLetter] = []

    def see(found: FoundLetter) -> None:
        if ids & found.ids:
            matches.append(found)

    for here in searched:
        session, pipeline = here.session, here.pipeline
        for home, url in pipeline.urls.items():
            if home == MAIN:
                continue
            session.say(f"Looking into {home} of {pipeline.name}")
            look = partial(look_into_queue, session, url, home, see, reach=SAMPLE)
            look(missing=lambda: 0 if matches else 10, trusted=pipeline.trusted_senders)
            if matches:
                return here, matches[0]
    return None


LOOK = (
    "DLQs and parking queues; --look receives their messages and gives them back, which adds 1 to "
    "each receive count"
)
LOOKED = (
    f"DLQs and parking queues beyond the first {MOST} messages of each, and behind the heads of "
    "FIFO groups"
)
UNSEEN_MAIN = (
    "the main queue; a look there would count as a receive of the consumer's, and hide the message "
    "from it"
)


def _absent(problem: Problem, extras: Extras) -> Problem:
    """That nothing is known of the id, with what was not searched, and what that costs."""
    return Problem(
        f"{problem.says} A message that no consumer with the library has tried has no record. Not "
        f"searched: {LOOKED if extras.look else LOOK}. Not searched: {UNSEEN_MAIN}.",
        Cause.ABSENT,
    )


def _places(
    record: LetterRecord, found: FoundLetter | None, known: Known, notes: list[str], extras: Extras
) -> tuple[Sequence[Place], Sequence[str]]:
    """Where the message is, and where it was not looked for."""
    if found is not None:
        return (found_in(f"queue {found.home} of {record.pipeline.name}", found),), ()
    here = tuple(places(record, _parking_queue(record)))
    if here and here[0].where == Where.QUEUE and _queues_are_empty(record, here[0], notes):
        here = (gone(here[0]),)
    claim = known.claim
    if claim is not None and claim.is_done and (not here or here[0].where == Where.GONE):
        here = (processed_by_claim(known.is_business_id),)
    if not here:
        here = (tried_by_claim(is_claimed=claim is not None and claim.is_claimed),)
    return here, () if here[0].where in _SURE else (LOOKED if extras.look else LOOK, UNSEEN_MAIN)


_SURE = (Where.WAITING, Where.RUN, Where.PROCESSED, Where.SUPERSEDED, Where.DISCARDED)

_DEPTHS_LAG = 120.0
"""Seconds after which SQS counts a message for sure; its documentation says one minute."""


def _queues_are_empty(record: LetterRecord, place: Place, notes: list[str]) -> bool:
    """Whether no queue that the message could be in holds one, as SQS estimates."""
    since, session = place.since, record.here.session
    # With a note, it may be in a place that was not looked at.
    if record.notes or since is None or (session.now - since).total_seconds() < _DEPTHS_LAG:
        return False
    pipeline, sqs = record.pipeline, session.aws.sqs

    def lost(problem: Problem) -> None:
        notes.append(f"Whether its queues are empty is not known: {problem.says}")

    urls = (pipeline.main_url, pipeline.dlq_url, *pipeline.dedicated.values())
    with side_by_side() as start:
        reads = [start(partial(depth, sqs, url)) for url in urls]
        depths = [read.result(lost) for read in reads]
    return all(each == QueueDepth(0, 0, 0) for each in depths)


def _parking_queue(record: LetterRecord) -> str:
    """The id of the parking queue that the message was sent to."""
    row = record.row
    reason = row.parked_as if row else None
    if reason is None or not record.pipeline.pipeline:
        return DEFAULT_PARKING
    last = row.last if row and reason != Reason.KEY_CONFLICT else None
    queues = record.pipeline.settings().parking
    return parking_for(queues, reason, str(last.category) if last else None)


# Whether it was processed, and what comes next.


_UNREAD = "the consumer's entries could not be read"


def _processed(record: LetterRecord, place: Place, known: Known) -> Processed:
    """Yes needs a record that says so; no needs a record that ends in another way."""
    claim = known.claim
    of = "this business ID" if known.is_business_id else "its ID"
    if claim is not None and claim.is_done:
        return Processed(YES, f"the consumer's entry of {of} is done")
    if place.where == Where.PROCESSED:
        return Processed(YES, place.says)
    if place.where == Where.SUPERSEDED:
        if claim is not None and claim.is_abandoned:
            return Processed("unknown", f"{place.says} A receive before that told of no end")
        return Processed(NO, place.says)
    if known.unread:
        return Processed("unknown", _UNREAD)
    if claim is not None:
        tried = "is being tried now" if claim.is_claimed else "was tried, and is not done"
        return Processed(NO, f"the consumer's entry of {of} says that it {tried}")
    settings = record.pipeline.settings()
    untold = (
        place.where == Where.QUEUE and place.run and record.tickets[-1].ticket.fate not in OUTSIDE
    )
    if untold or place.where == Where.GONE or not settings.consumer_library:
        why = "no record says so" if settings.consumer_library else "its consumer keeps no record"
        return Processed("unknown", why)
    kept = f"(kept {settings.idempotency_keep / DAY:.0f} d)"
    if settings.idempotency_key is None:
        return Processed(NO, f"the consumer has no entry of its ID {kept}")
    ends = "its failure record ends with no success" if record.row else "no failure is on record"
    says = f"{ends}; the consumer's entry {kept} is under its business ID: name it by that"
    return Processed(NO if record.row else "unknown", says)


_NEXT = {
    Where.PROCESSED: "nothing: it is processed",
    Where.SUPERSEDED: "nothing: a later one of its ordering key is processed",
    Where.DISCARDED: "nothing by itself",
    Where.GONE: "nothing: no queue is known to hold it",
}


def _next(
    record: LetterRecord, place: Place, decision: DecisionNow | None, notes: list[str]
) -> str:
    """What comes next: the router's answer or that of its run, or what is lacking."""
    if place.where == Where.RUN:
        if not record.waiting and record.tickets[-1].ticket.fate is ReplayOutcome.SENT:
            return "its outcome is awaited"
        try:
            switch = RunSwitch(record.here.session, record.pipeline.name, place.run or "")
            plan = switch.plan
            waits = run_waits_for(switch.before, plan).partition("\n")[0].rstrip(".:")
            return f"its run, to {plan.destination}, waits for: {waits}"
        except Problem as problem:
            notes.append(f"What its run does next is not known: {problem.says}")
    if place.where == Where.PARKED:
        if record.pipeline.mode == Mode.OBSERVE:
            return "nothing by itself; mode observe lets SQS delete it at its queue's retention"
        return "nothing by itself; parked messages do not expire"
    if decision is None:
        return _NEXT.get(Where(place.where), "not known: nothing to decide by is on record")
    until = (
        f" until {clock(decision.due, record.here.session.now)} at the latest"
        if decision.due
        else ""
    )
    what = {
        "REDRIVE": f"goes back to the main queue after {duration(decision.delay or 0)}",
        "HOLD": f"waits for {waits_for(decision.waiting_for or '')}{until}",
        "DIVERT": f"goes to dedicated DLQ {decision.queue}",
        "PARK": f"is parked as {decision.reason}",
        UNKNOWN: "can't be told",
    }.get(decision.action, decision.action)
    rule = f" (rule {decision.rule})" if decision.rule else ""
    held = f"; nothing takes it now: {decision.held_back}" if decision.held_back else ""
    return f"{what}: {decision.because}{rule}{held}"


def _stamp(record: LetterRecord, found: FoundLetter | None) -> Stamp | None:
    """What the message carries, as far as it is known without its body."""
    stamps = (found.stamp if found else None, *(each.stamp for each in record.waiting))
    return next(filter(None, stamps), record.row.stamp if record.row else None)


# Its time line.


def _time_line(
    record: LetterRecord, found: FoundLetter | None, here: Sequence[Place], notes: list[str]
) -> Sequence[MessageAct]:
    """Every act on the message that is on record, the earliest first."""
    acts = [*_own_acts(record, found), *map(_run_act, record.tickets), *_places_since(here)]
    times = [act.at for act in acts if act.at]
    if times:
        lines = _changes(record, here, min(times), notes)
        acts += [MessageAct(each.at, _change(each)) for each in lines]
    # What has no time stands behind what it follows.
    key, keyed = -inf, []
    for act in acts:
        key = act.at.timestamp() if act.at else key
        keyed.append((key, act))
    acts = [act for _, act in sorted(keyed, key=lambda pair: pair[0])]
    return tuple(dict.fromkeys(acts))


def _own_acts(record: LetterRecord, found: FoundLetter | None) -> Iterator[MessageAct]:
    """What its failure record and its stamp say."""
    row, stamp = record.row, _stamp(record, found)
    if stamp is not None and stamp.first_sent:
        by = f" by {stamp.sender}" if stamp.sender else ""
        bytes_ = f", {size(row.about.size)}" if row and row.about.size is not None else ""
        yield MessageAct(moment(stamp.first_sent / 1000), f"sent{by}{bytes_}")
    if row is None:
        return
    told = {0}
    for failure in row.failures:
        if failure.attempt not in told and failure.sent_at is not None:
            rule = f" (rule {failure.sent_rule})" if failure.sent_rule else ""
            because = failure.sent_because or "the reason is not on record"
            yield MessageAct(moment(failure.sent_at), f"sent back: {because}{rule}")
        told.add(failure.attempt)
        yield MessageAct(moment(failure.at), f"failed: {_failed(failure)}")
    if row.ended_as:
        yield MessageAct(
            None, f"parked by the consumer: {row.ended_reason or 'reason not on record'}"
        )
    if row.parked_at is not None:
        rule = f" by rule {row.parked_rule}" if row.parked_rule else ""
        yield MessageAct(
            moment(row.parked_at), f"parked: {row.parked_as or 'reason not on record'}{rule}"
        )
    if row.recovered_at is not None:
        yield MessageAct(moment(row.recovered_at), f"the consumer says: {row.recovered_as}")


def _failed(failure: Failure) -> str:
    error = ": ".join(filter(None, (failure.error_type, failure.message))) or "no text"
    status = f"{failure.http_status} " if failure.http_status else ""
    attempt = f"retry {failure.attempt}" if failure.attempt else "first attempt"
    facts = [
        str(failure.category),
        f"at {failure.place}" if failure.place else "",
        f"version {failure.version}" if failure.version else "",
        "not counted against it" if failure.dependency_down else "",
        f"{attempt}, receive {failure.receive}",
    ]
    return f"{status}{error} ({', '.join(filter(None, facts))})"


def _run_act(noted: RunTicket) -> MessageAct:
    plan = noted.plan
    by = f" by {plan.who}: {plan.why or 'no reason given'}" if plan else ", whose plan is forgotten"
    fate = MEANING[noted.ticket.fate.name]
    return MessageAct(moment(noted.ticket.at), f"run {noted.run.id}{by}; {fate}")


def _places_since(here: Sequence[Place]) -> Iterator[MessageAct]:
    """Since when it is where it is, if only its place says so."""
    for place in here:
        if place.where == Where.WAITING or (place.where == Where.PARKED and place.waiting_for):
            rule = f" (rule {place.rule})" if place.rule else ""
            what = "waits" if place.where == Where.WAITING else "parked"
            yield MessageAct(
                place.since, f"{what}: {place.because or 'reason not on record'}{rule}"
            )


_MOST_CHANGES = 1_000
_AHEAD = timedelta(minutes=5)
"""Another person's clock may be ahead."""


def _changes(
    record: LetterRecord, here: Sequence[Place], since: datetime, notes: list[str]
) -> Sequence[AuditLine]:
    """What people did to the message, or to the rules, circuits and runs that had it."""
    from .audit_trail import AuditQuestion, trail

    session, row, name = record.here.session, record.row, record.pipeline.name
    runs = {noted.run.id for noted in record.tickets}
    rules = {each.sent_rule for each in row.failures} | {row.parked_rule} if row else set()
    rules |= {place.rule for place in here if place.rule}
    circuits = {row.about.endpoint} if row and row.about.endpoint else set()
    for place in here:
        kind, _, what = (place.waiting_for or "").partition(":")
        circuits |= {what} if kind == "circuit" else set()
        rules |= {what} if kind in ("rule", "delay") else set()
    targets = {f"{kind} {each}" for kind, several in (("run", runs), ("rule", rules),
               ("circuit", circuits)) for each in several}  # fmt: skip
    ids = {record.origin, *(noted.ticket.copy for noted in record.tickets)} - {""}
    ids |= {waiting.copy for waiting in record.waiting}
    try:
        found = trail(
            session,
            AuditQuestion(since, session.now + _AHEAD, pipelines=(name,), limit=_MOST_CHANGES),
        )
    except Exception as error:
        from .errors import explain

        problem = explain(error)
        if problem is None:
            raise
        notes.append(f"What people did could not be read: {problem.says}")
        return ()
    if found.more is not None:
        notes.append(f"What people did before {clock(found.more, session.now)} was not read.")
    return [
        line
        for line in found.changes
        if line.target in targets
        or ids & set(line.target.split())
        or any(line.target.endswith(f"of run {run}") for run in runs)
    ]


def _change(line: AuditLine) -> str:
    who = line.who.rpartition(":")[2] if line.who else "a person or program outside dlq"
    end = "" if line.outcome == "done" else f" ({line.outcome})"
    return f"{line.command}: {line.target} by {who}{end}: {line.why or 'no reason given'}"


def _failures(row: LedgerRow) -> Iterator[MessageFailure]:
    """The failures on record; each says how long the message had waited before its attempt."""
    ended: dict[int, float] = {}
    for failure in row.failures:
        ended[failure.attempt] = max(failure.at, ended.get(failure.attempt, 0.0))
    for failure in row.failures:
        before = ended.get(failure.attempt - 1)
        is_known = before is not None and failure.sent_at is not None
        yield MessageFailure(
            attempt=failure.attempt,
            receive=failure.receive,
            at=moment(failure.at),
            queue=failure.queue,
            category=str(failure.category),
            error_type=failure.error_type,
            text=failure.message,
            place=failure.place,
            http_status=failure.http_status,
            cause=failure.fingerprint,
            blame=str(failure.blame),
            blameless=failure.dependency_down,
            request_id=failure.request_id,
            version=failure.version,
            sent_at=moment(failure.sent_at),
            sent_because=failure.sent_because,
            sent_rule=failure.sent_rule,
            waited=max(0, int(failure.at - (before or 0.0))) if is_known else None,
        )


# Its body.


def _content(record: LetterRecord, found: FoundLetter | None, place: Place) -> tuple[Any, str]:
    """The message, as it was found or read without a receive; or None, and why it was not read."""
    from botocore.exceptions import ClientError

    from deadletter.replay.objects import discarded_letter, discarded_name

    from .errors import aws_errors, explain

    if found is not None:
        return found.letter, ""
    letter, why = None, "it is only in a queue, if anywhere; --look receives it"
    try:
        with aws_errors():
            if record.waiting:
                letter, why = record.here.room.content(record.waiting[0]), _GONE
            elif place.kept and place.run and place.current_id:
                name = discarded_name(place.current_id)
                data = record.here.objects(place.run).get(name)
                letter, why = discarded_letter(name, data).letter if data else None, _GONE
    except (ClientError, Problem, ValueError) as error:
        problem = explain(error)
        why = problem.says.rstrip(".") if problem else "its copy is damaged"
        if isinstance(problem, Denied):
            why = f"that takes the policy BodyReader. {why}"
    return letter, "" if letter else f"The body was not read: {why}."


_GONE = "it has left its place meanwhile, or is damaged"
