"""Who changed what: the audit table, read by pipeline and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Annotated

from deadletter.contract import AUDIT, CHANGES, EVERY_PIPELINE

from . import item
from .audit_lines import WITHIN, AuditLine, Row, happened, is_end, lines
from .deadline import side_by_side
from .errors import Cause, Problem
from .selection import NamedPipelines, Operator, Term, choice, past
from .session import Answer, Session
from .verbs import Asked, Verb
from .words import moment

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# A change lasts so long at most: a run of the redriver, and a call that is waited for.
_LONGEST = 1_200.0

# Rows that are read of one pipeline. Two make a change; a page of a query is up to 1 MB.
_MOST_ROWS = 4_000


_USUAL, _AHEAD = timedelta(days=7), timedelta(minutes=5)

_FIRST = datetime(2020, 1, 1, tzinfo=UTC)  # before any change on record


@dataclass(frozen=True, slots=True)
class AuditTrail(Answer):
    """What `dlq audit` answers."""

    at: Annotated[datetime, "when it was read"]
    changes: Annotated[Sequence[AuditLine], "the newest first"]
    since: Annotated[datetime, "changes from then on"]
    until: Annotated[datetime, "changes before then"]
    more: Annotated[
        datetime | None,
        "where older ones begin: ask again with it as until; null without",
    ]


@dataclass(frozen=True, slots=True)
class AuditQuestion:
    """Which changes are asked for: `what` begins the command, and `target` is what was changed.

    `terms` are about callers (by) and texts (text): of each, one value has to fit.

    Without `pipelines` those of the app. What belongs to all pipelines is always among them.
    """

    since: datetime
    until: datetime
    pipelines: Sequence[str] = ()
    terms: Sequence[Term] = ()
    what: str = ""
    target: str = ""
    limit: int = 50

    def wants(self, line: AuditLine) -> bool:
        """Whether the line is asked for."""
        of_time = self.since <= line.at < self.until
        words = self.what.lower().split()
        is_target = self.target in ("", line.target)
        is_command = line.command.split()[: len(words)] == words
        return (
            of_time and is_target and is_command and all(_fits(term, line) for term in self.terms)
        )


def _fits(term: Term, line: AuditLine) -> bool:
    """Whether one value of a term is of the caller, or in the texts of the change."""
    values = [value.lower() for value in term.values]
    if term.key == "text":
        text = f"{line.command}: {line.target}: {line.why}".lower()
        return any(value in text for value in values)
    who = (line.who or "").lower()
    if term.operator is Operator.EQUAL:
        # An ARN, the user in it, or the session of a role.
        return any(value == who or who.endswith(f"/{value}") for value in values)
    return any(value in who for value in values)


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    """Who changed what, when and why: the newest first.

    A change is recorded before it is made, with the caller's ARN and session, the reason, and
    how things were; then how it ended. A change of a rule or of an endpoint that was made
    elsewhere, such as in the DynamoDB console, is listed as outside dlq: there the author is
    unknown.

    Conditions are about by (=ann is a user or a session, ~ann is in the ARN), since, until
    and text (in the command, what was changed, or the reason). Without since, the last 7 days.

    Without a pipeline, all of them. What belongs to no single pipeline, such as an endpoint
    or a rule of '*', is always listed.
    """

    pipelines: NamedPipelines = ()
    terms: Annotated[
        tuple[str, ...],
        Asked("by=ann, by~role, since=2d, until=1h or text~WORD; repeatable.",
              ("--filter", "-f"), "TERM"),
    ] = ()  # fmt: skip
    limit: Annotated[int, Asked("At most so many.", ("--limit",), "N", least=1, most=1_000)] = 50


def read(session: Session, request: AuditRequest) -> AuditTrail:
    """The newest changes that are asked for. Problem for a pipeline without changes or name."""
    now = session.now
    # Another person's clock is ahead at times.
    times = {"since": now - _USUAL, "until": now + _AHEAD}
    terms = []
    for term in choice((), (), request.terms).terms:
        if term.key in times:
            times[term.key] = datetime.fromtimestamp(past(term.values[0], now), UTC)
        elif term.key in ("by", "text"):
            terms.append(term)
        else:
            raise Problem(f"{term}: changes are chosen by by, since, until and text.", Cause.INPUT)
    question = AuditQuestion(
        since=times["since"],
        until=times["until"],
        pipelines=request.pipelines,
        terms=terms,
        limit=request.limit,
    )
    return trail(session, question)


def trail(session: Session, question: AuditQuestion) -> AuditTrail:
    """The changes that a question asks for. Problem for a pipeline without changes or name."""
    app = session.app()
    known = [pipeline.name for pipeline in app.pipelines]
    names = dict.fromkeys([*(question.pipelines or known), EVERY_PIPELINE])
    client = session.aws.dynamodb
    with side_by_side() as start:
        reads = [
            (name, start(partial(_rows, client, app.audit_table, name, question))) for name in names
        ]
        found = {name: read.answer("The audit table") for name, read in reads}
    for name in question.pipelines:
        # One that was removed from the app has a history; a mistyped one has none.
        if name not in known and not found[name].rows:
            app.select([name])
    floor = max(rows.floor for rows in found.values())
    chosen = [
        line
        for line in lines([row for rows in found.values() for row in rows.rows])
        if question.wants(line) and line.at.timestamp() >= floor
    ]
    shown, rest = chosen[: question.limit], chosen[question.limit :]
    # The next page ends with a whole second, as a person can type it: those of it belong here.
    while rest and _second(rest[0].at) == _second(shown[-1].at):
        shown.append(rest.pop(0))
    border = _second(shown[-1].at) if rest else moment(floor) if floor else None
    return AuditTrail(
        **session.place,
        at=session.now,
        changes=shown,
        since=question.since,
        until=question.until,
        more=border,
    )


def history(
    session: Session, target: str, pipelines: Sequence[str] = (), limit: int = 200
) -> Sequence[AuditLine]:
    """The last changes of what the audit table names so, the newest first."""
    until = session.now + _AHEAD
    question = AuditQuestion(_FIRST, until, pipelines, target=target, limit=limit)
    return trail(session, question).changes


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one pipeline; before `floor` (epoch seconds) they are not all there."""

    rows: Sequence[Row]
    floor: float = 0.0


def _rows(client: DynamoDBClient, table: str, pipeline: str, question: AuditQuestion) -> _Rows:
    """The rows of one pipeline, with those around that may belong to them."""
    from deadletter.aws.dynamodb import DynamoDBTable
    from deadletter.aws.table import between, stored_number

    rows: list[Row] = []
    since = stored_number(question.since.timestamp() - WITHIN)
    until = stored_number(question.until.timestamp() + _LONGEST)
    happening = between(str(CHANGES.sort), since, until)
    of_audit, last = DynamoDBTable(client, table, AUDIT), None
    while True:
        page, last = of_audit.page(pipeline, happening, index=CHANGES, backwards=True, after=last)
        rows += map(item.jsonable, page)
        if last is None:
            return _Rows(rows)
        floor = ceil(happened(rows[-1]) + WITHIN) if rows else 0.0
        enough = len(rows) >= _MOST_ROWS or _enough(rows, question, floor)
        if enough and floor < question.until.timestamp():
            return _Rows(rows, floor)


def _second(at: datetime) -> datetime:
    return at.replace(microsecond=0)


def _enough(rows: Sequence[Row], question: AuditQuestion, floor: float) -> bool:
    """Whether more rows than are asked for are whole."""
    if sum(not is_end(row) for row in rows) <= question.limit:
        return False
    wanted: Callable[[AuditLine], bool] = question.wants
    whole = [line for line in lines(rows) if wanted(line) and line.at.timestamp() >= floor]
    return len(whole) > question.limit


VERB = Verb(
    name="audit",
    request=AuditRequest,
    examples=[
        "dlq audit orders -f since=2d",
        "dlq audit -f by=ann -f text~circuit",
        "dlq audit -f text~rules --jsonl",
    ],
    read=read,
)
"""Lists changes."""
