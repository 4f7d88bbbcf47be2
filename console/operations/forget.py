"""Everything that is kept of a letter, or of all letters with a value in their context, erased.

Only our functions take letters out of queues and out of the waiting room: replay runs do it, which
throw letters away, keep no copy, and forget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from shlex import quote
from typing import Annotated, Any

from deadletter.contract import PARKED_LANE, REPORT_DAYS, Mode, Reason, run_lane
from deadletter.replay.plan import DISCARD, LANE, LONGEST_RUN, ReplayPlan
from deadletter.routing.selection import Selection

from .app import App, DeployedPipeline
from .discard import DISCARD_RATE
from .errors import Cause, Problem, aws_errors, explain
from .life_place import Where, places
from .life_record import LetterRecord, record_of
from .matching import FoundMessage, Matcher
from .places import DEDICATED, PARKED, WAITING, Walk
from .replay_census import parked_sources
from .replay_plan import start
from .replay_runs import ReplayRow
from .selection import Choice, ChosenPlace, Operator, Pipeline, Term, choice, values_of
from .session import Answer, Here, Session
from .verbs import Asked, Verb, always
from .words import clock, count

USUAL_DAYS = 35
"""Days that DynamoDB keeps point-in-time copies, unless a table says fewer."""

NOWHERE = f"{LANE}due"
"""The source of a run that has no letter to take and only erases what is kept."""

NEVER_REACHED = (
    "The main queue, and the consumer: what is in flight can fail again and come back. Type the "
    "command again with --dry-run a day later.",
    "Claims of idempotency: hashes of the key and of the message, until idempotency_keep is over.",
    "Names in lists and reports of runs: ids, tenants and hashes of ordering keys, for "
    f"{REPORT_DAYS} days.",
    "Files of dlq list --out, logs of your consumers, and what other systems have received.",
    "Backups, exports and replicas of the table or the bucket that you make yourself.",
)
"""Where letters, or what is known of them, may be that this erases nowhere."""

NOT_BY_KEY = (
    "With a key: records of messages that were processed and that no run has kept (they "
    "have the values of the context, until 45 days after the last failure), and objects that can't "
    "be read. dlq forget ID erases such a row."
)
"""What else is reached by an id alone: no table of letters can be searched by their content."""

KEPT_BY_RUNS = (
    "Not looked into here: messages as runs took them, and copies of discards and of edits, "
    "also of messages that were processed. The runs look at each of them, and forget what has the "
    "key, with its failure record."
)


@dataclass(frozen=True, slots=True)
class KeptTrace:
    """A place that keeps something of what is to be forgotten."""

    place: Annotated[str, "`waiting <for what>`, `queue <source>`, `record`, or `run <id>`"]
    messages: Annotated[int | None, "messages found there; null if they are not counted"]
    says: Annotated[str, "what is there, and how it goes"]


@dataclass(frozen=True, slots=True)
class ForgottenMessages(Answer):
    """What `dlq forget` answers."""

    pipeline: Annotated[str, "name of the pipeline"]
    by: Annotated[str, "id or key: what was given; a key's value is in no answer"]
    id: Annotated[str | None, "the id that was given; null for a key"]
    kept: Annotated[Sequence[KeptTrace], "what is kept, and where, as far as it was looked at"]
    sources: Annotated[
        Sequence[str], "the queues, and what messages wait for, that runs go through"
    ]
    runs: Annotated[Sequence[ReplayRow], "the runs, one for each of them, as they were seen last"]
    copies_until: Annotated[
        datetime | None,
        "until when the table's point-in-time copies still hold it; null without such copies",
    ]
    not_reached: Annotated[Sequence[str], "what no run reaches"]
    notes: Annotated[Sequence[str], "what was not looked at, or is to be known"]
    reason: Annotated[str, "the reason given"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest:
    """Erase what is kept of a message, for a data protection request.

    Of one message by its ID, or of all with a value of a field. They are thrown away without a
    copy, wherever runs find them: in DLQs, among the parked and those that wait. Then their records
    are deleted, and copies that earlier discards and edits have left. Each place has a run of its
    own, which takes what it goes through: other messages of a DLQ wait for their delay from then
    on, and parked ones stay parked.

    By a field, runs also look through what runs have kept, and forget messages that were processed.
    In a FIFO pipeline they take no message and erase only what is kept.

    It says until when point-in-time copies still hold it, and what it can't reach. The audit keeps
    the ID, who and why; of a field it keeps that there was one. It can't be undone: type the app's
    name when asked, or give it with --confirm. Interrupted, type it again.
    """

    ids: Annotated[tuple[str, ...], Asked("Message id or current id: one.", metavar="[ID]")] = ()
    pipeline: Pipeline = None
    terms: Annotated[
        tuple[str, ...],
        Asked("field.NAME=VALUE, a name of the pipeline's context: one.", ("--filter", "-f"),
              "TERM"),
    ] = ()  # fmt: skip
    everything: Annotated[
        bool, Asked("Go through every place, also where it is not known.", ("--all",))
    ] = False


class MessagesToForget:
    """Letters that a person is about to have forgotten: looked for, and nothing changed.

    `id_` is the id of a letter, of its first life or of a copy that we hold; else `key` is a name
    of the pipeline's `context`, and its value. With `everywhere` runs go through every queue and
    lane, also where nothing is known to be.
    """

    def __init__(
        self,
        session: Session,
        id_: str | None,
        key: tuple[str, str] | None,
        pipeline: str | None,
        *,
        everywhere: bool = False,
    ) -> None:
        self._session = session
        self._app = session.app()
        self._notes: list[str] = []
        self._kept: list[KeptTrace] = []
        self._id = id_
        if key is not None:
            self._pipeline = self._app.pipeline(pipeline)
            self._selection = _of_key(self._pipeline, *key)
            self._sources = self._of_key(*key)
        else:
            found = self._of_letter(id_ or "", pipeline)
            self._pipeline, self._selection, self._sources = found
        if everywhere:
            lanes = [LANE + lane for lane in self._lanes()]
            self._sources = list(dict.fromkeys((*_queues(self._pipeline), *lanes)))
        if not self._sources:
            raise Problem(
                f"Nothing of {id_} is on record in {self._pipeline.name}, so nothing was done. "
                "With --all runs go through every place.",
                Cause.ABSENT,
            )
        self._refuse_what_runs_can_not_do()
        above = self._pipeline.settings().replay.approve_above
        if above is not None and self._sources:
            self._notes.append(
                f"A run of more than {above:,} messages waits until a person approves it: "
                "nothing is erased before."
            )

    def question(self) -> Iterator[str]:
        """What would be erased, where, and what is not reached."""
        what = f"message {self._id}" if self._id else "all messages with this value"
        yield f"Forget {what} of {self._pipeline.name}: {in_words(self._sources)}."
        for trace in self._kept:
            number = "" if trace.messages is None else f", {count(trace.messages, 'message')}"
            yield f"{trace.place}{number}: {trace.says}"
        answer = self._answer((), "")
        if answer.copies_until is not None:
            until = clock(answer.copies_until, answer.at)
            yield f"Point-in-time copies of the table hold it until {until}."
        yield from (f"Not reached: {place}" for place in answer.not_reached)
        yield from (f"Note: {note}" for note in answer.notes)

    def start(self, why: str) -> ForgottenMessages:
        """Start the runs that erase it, one for each source.

        A run that was started goes on by itself. Typed again after an interruption, the command
        starts runs for what is left.
        """
        runs = [self._start(source, why) for source in self._sources]
        return self._answer(runs, why)

    def _start(self, source: str, why: str) -> ReplayRow:
        session, now = self._session, self._session.now.timestamp()
        plan = ReplayPlan(
            pipeline=self._pipeline.name,
            source=source,
            selection=self._selection,
            destination=DISCARD,
            rate=DISCARD_RATE,
            canary=(),
            ramp=(1.0,),
            keep_export=False,
            forget=True,
            created=round(now, 3),
            expires=round(now + LONGEST_RUN, 3),
            who=session.aws.caller,
            why=why,
        )
        what = f"message {self._id}" if self._id else "messages with a value"
        target = f"{what} by run {plan.run_id}"
        # Not counted: what turns up until the snapshot is forgotten too.
        return start(session, plan, None, command="forget", target=target)

    def _answer(self, runs: Sequence[ReplayRow], why: str) -> ForgottenMessages:
        session = self._session
        now = session.now
        until = _copies_until(session, self._app, self._notes, now)
        return ForgottenMessages(
            **session.place,
            pipeline=self._pipeline.name,
            by="id" if self._id else "key",
            id=self._id,
            kept=tuple(self._kept),
            sources=tuple(self._sources),
            runs=tuple(runs),
            copies_until=until,
            not_reached=NEVER_REACHED if self._id else (*NEVER_REACHED, NOT_BY_KEY),
            notes=tuple(dict.fromkeys(self._notes)),
            reason=why,
        )

    def _of_letter(
        self, id_: str, pipeline: str | None
    ) -> tuple[DeployedPipeline, Selection, list[str]]:
        """The pipeline of a letter, how runs know it, and the sources where it may be."""
        try:
            record = record_of(self._session, self._app, id_, pipeline)
        except Problem as problem:
            if problem.cause is not Cause.ABSENT:
                raise
            # It may be the id of a copy in a queue: --all goes through all of them.
            chosen = self._app.pipeline(pipeline)
            self._notes.append(problem.says)
            return chosen, _ids(chosen, {id_}), []
        self._notes += record.notes
        copies = {waiting.copy for waiting in record.waiting}
        sources = list(dict.fromkeys(self._sources_of(record)))
        if record.row is not None:
            says = "Why and when it failed, and values of its context; a run deletes the row."
            self._kept.append(KeptTrace("record", None, says))
        for noted in record.tickets:
            says = (
                "Its outcome there, and perhaps the message as the run took it. That goes, and so "
                "do copies of a discard or of edits."
            )
            self._kept.append(KeptTrace(f"run {noted.run.id}", None, says))
        ids = {id_, record.origin, *copies, *(noted.ticket.copy for noted in record.tickets)}
        return record.pipeline, _ids(record.pipeline, ids), sources

    def _sources_of(self, record: LetterRecord) -> Iterator[str]:
        live = [noted.run.id for noted in record.tickets if noted.run.is_live]
        for waiting in record.waiting:
            if waiting.lane.startswith(run_lane("")):
                live.append(waiting.lane.removeprefix(run_lane("")))
        if live:
            raise Problem(
                f"Run {live[0]} has this message: let it end, or end it with\n"
                f"dlq run abort {quote(live[0])}",
                Cause.FAILED,
            )
        for waiting in record.waiting:
            says = "The message, its body in the item or in the bucket; a run throws it away."
            self._kept.append(KeptTrace(f"waiting {waiting.lane}", 1, says))
            yield LANE + waiting.lane
        if record.waiting:
            return
        where = next(places(record, "")).where if record.row else Where.QUEUE
        if where is Where.QUEUE:
            yield from _dlqs(record.pipeline)
        elif where is Where.PARKED:
            yield from (source.id for source in parked_sources(record.pipeline))
        else:
            # The letter is gone, and what is kept of it is not.
            yield NOWHERE
            return
        for source in _dlqs(record.pipeline) if where is Where.QUEUE else ("parking",):
            says = "As far as is known: SQS cannot be asked for one message. A run looks at all."
            self._kept.append(KeptTrace(f"queue {source}", None, says))

    def _of_key(self, name: str, value: str) -> list[str]:
        """The sources that may have letters with this key: all queues, and lanes that have one."""
        chosen = Choice(
            places=tuple(map(ChosenPlace, (WAITING, PARKED, DEDICATED))),
            terms=(Term(f"field.{name}", Operator.EQUAL, (value,)),),
        )
        by_place: Counter[str] = Counter()

        def see(found: FoundMessage, _: Matcher) -> None:
            if found.letter is not None:
                by_place[f"waiting {found.lane}" if found.lane else f"queue {found.place}"] += 1
                self._session.say(f"{by_place.total():,} messages found")

        walk = Walk(self._session, chosen, see, look=False, read_letters=True)
        walk.pipeline(self._app, self._pipeline)
        for place, letters in sorted(by_place.items()):
            self._kept.append(KeptTrace(place, letters, "A run throws them away."))
        self._notes += walk.notes
        seen = "" if self._pipeline.fifo else ": the runs look at every message"
        self._notes.append(f"Queues were not looked into{seen}.")
        self._notes.append(KEPT_BY_RUNS)
        if self._pipeline.fifo and not by_place:
            self._notes.append(
                "The pipeline is FIFO: no run takes a message of a FIFO group. One with this value "
                "that still waits where no one has looked stays there."
            )
            return [NOWHERE]
        lanes = list(self._lanes())
        if walk.is_complete and not walk.notes:
            lanes = [lane for lane in lanes if by_place[f"waiting {lane}"]]
        return [*_queues(self._pipeline), *(LANE + lane for lane in lanes)]

    def _lanes(self) -> Iterator[str]:
        """The lanes whose letters a run may take; notes those of runs.

        Parked letters in lane `parked` belong to the parking queues.
        """
        with aws_errors():
            here = Here(self._session, self._app, self._pipeline)
            names = [lane.name for lane in here.lanes.lanes()]
        for lane in names:
            if lane.startswith(run_lane("")):
                run = lane.removeprefix(run_lane(""))
                self._notes.append(f"Messages of run {run} are not reached before it ends.")
            elif lane != PARKED_LANE:
                yield lane

    def _refuse_what_runs_can_not_do(self) -> None:
        pipeline = self._pipeline
        if pipeline.mode == Mode.OBSERVE and self._sources:
            raise Problem(
                f"Pipeline {pipeline.name} observes, so no run of it takes a message: set mode "
                "enforce and deploy.",
                Cause.FAILED,
            )
        if pipeline.fifo and self._sources not in ([], [NOWHERE]):
            raise Problem(
                f"Pipeline {pipeline.name} is FIFO: a run takes whole message groups, and would "
                "throw other messages away with this one. Discard it where it is parked (dlq "
                "discard ID), and forget it then: of a message that is gone, all else is erased.",
                Cause.FAILED,
            )


def _ids(pipeline: DeployedPipeline, ids: set[str]) -> Selection:
    return Selection(ids=tuple(sorted(ids)), include=tuple(Reason), groups=_groups(pipeline))


def _groups(pipeline: DeployedPipeline) -> tuple[str, ...] | None:
    """Of a FIFO pipeline no letter is taken, whatever its group."""
    return () if pipeline.fifo else None


def _of_key(pipeline: DeployedPipeline, name: str, value: str) -> Selection:
    """The letters with this value in their context; Problem for a name that it does not have."""
    known = [str(each) for each in pipeline.terms.get("context", ())]
    if name not in known or not value:
        has = f"it has {', '.join(known)}" if known else "it has none"
        raise Problem(
            f"field.{name}=… is no field of pipeline {pipeline.name}: write field.NAME=VALUE, with "
            f"a name of its context ({has}).",
            Cause.INPUT,
        )
    pattern: Mapping[str, Any] = {"context": {name: values_of(value)}}
    return Selection(pattern=pattern, include=tuple(Reason), groups=_groups(pipeline))


def _dlqs(pipeline: DeployedPipeline) -> Iterator[str]:
    yield "dlq"
    yield from pipeline.dedicated


def _queues(pipeline: DeployedPipeline) -> Iterator[str]:
    yield from _dlqs(pipeline)
    yield from (source.id for source in parked_sources(pipeline))


def _copies_until(session: Session, app: App, notes: list[str], now: datetime) -> datetime | None:
    """Until when copies of the table and of the bucket still hold what is erased now."""
    days: int | None = USUAL_DAYS
    try:
        answer: Any = session.aws.dynamodb.describe_continuous_backups(TableName=app.messages_table)
        recovery = answer["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
        is_on = recovery.get("PointInTimeRecoveryStatus") == "ENABLED"
        days = recovery.get("RecoveryPeriodInDays", USUAL_DAYS) if is_on else None
        versioning = session.aws.s3.get_bucket_versioning(Bucket=app.messages_bucket)
        if versioning.get("Status"):
            notes.append(
                f"Bucket {app.messages_bucket} keeps versions, which deleting leaves there: a "
                "lifecycle rule of yours has to expire them."
            )
    except Exception as error:
        problem = explain(error)
        if problem is None:
            raise
        notes.append(f"How long copies are kept is not known, {USUAL_DAYS} days are assumed: "
                     f"{problem.says}")  # fmt: skip
    return None if days is None else now + timedelta(days=days)


def in_words(sources: Sequence[str]) -> str:
    """The number of runs that it takes, and through what."""
    return f"{count(len(sources), 'run')}, through {', '.join(sources)}"


def prepare(session: Session, request: ForgetRequest) -> MessagesToForget:
    """What is kept of these messages, and where; Problem if nothing is."""
    choose = choice(request.ids, (), request.terms)
    if len(choose.ids) + len(choose.terms) != 1:
        raise Problem("Name one ID, or one -f field.NAME=VALUE", Cause.INPUT)
    id_, key = (choose.ids[0] if choose.ids else None), None
    for term in choose.terms:
        top, _, name = term.key.partition(".")
        if top != "field" or term.operator is not Operator.EQUAL or len(term.values) != 1:
            raise Problem("Messages are forgotten by an ID or -f field.NAME=VALUE", Cause.INPUT)
        key = (name, term.values[0])
    return MessagesToForget(session, id_, key, request.pipeline, everywhere=request.everything)


def commit(_: Session, plan: MessagesToForget, reason: str) -> ForgottenMessages:
    """Starts the runs that erase it."""
    return plan.start(reason)


VERB = Verb(
    name="forget",
    request=ForgetRequest,
    examples=(
        "dlq forget 6f6e1bd2-6f2b-4a53-8a10-0f4f9c1f5b7e --dry-run",
        'dlq forget 6f6e1bd2-6f2b-4a53-8a10-0f4f9c1f5b7e --reason "request 4711"',
        'dlq forget -f field.tenantId=t-17 -p orders --all --reason "request 4712"',
    ),
    change="To forget messages",
    prepare=prepare,
    question=MessagesToForget.question,
    commit=commit,
    severe=always,
)
