"""Who changed what: the audit table, read by pipeline and time, a line for each change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import AUDIT, CHANGED_BY, CHANGES, EVERY_PIPELINE

from . import item
from .audit import END
from .deadline import side_by_side
from .errors import Cause, Problem
from .rule_table import canonical, target
from .selection import NamedPipelines, Operator, Term, choice
from .session import Answer, Session
from .verbs import Asked, Verb
from .words import moment, typed_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# A change lasts so long at most: a run of the redriver, and a call that is waited for.
_LONGEST = 1_200.0

# Rows that are read of one pipeline. Two make a change; a page of a query is up to 1 MB.
_MOST_ROWS = 4_000


_USUAL, _AHEAD = timedelta(days=7), timedelta(minutes=5)

_FIRST = datetime(2020, 1, 1, tzinfo=UTC)  # before any change on record


# Rows as lines.

Row = Mapping[str, Any]

WITHIN = 300.0
"""Seconds between the record of a change by `dlq` and the stream's row of the same change: the
stream cuts its time to a second, and the clock of a person's machine may be wrong."""

BY_DLQ, BY_PAGE, OUTSIDE = "dlq", "dlq ui", "outside dlq"

RULE_EDIT, ENDPOINT_EDIT = "rules edit", "endpoint edit"
"""What stands for a command where a rule or an endpoint was changed without `dlq`."""

UNKNOWN = "unknown"

# Why an endpoint is disabled: `dlq` records its reason beside what it changes.
_BECAUSE = "because"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """One change: who made it, when, what, why, and what it did."""

    at: Annotated[datetime, "when"]
    pipeline: Annotated[str, "name of the pipeline; `*` for what belongs to all of them or to none"]
    command: Annotated[
        str,
        f"words of the command after `dlq`; `{RULE_EDIT}` or `{ENDPOINT_EDIT}` outside dlq",
    ]
    target: Annotated[str, "what was changed, such as `circuit orders` or `rule r1`"]
    via: Annotated[
        str, f"`{BY_DLQ}`, `{BY_PAGE}`, or `{OUTSIDE}`: the console, an API, or another program"
    ]
    who: Annotated[str | None, "ARN of the caller, with the session; null outside dlq"] = None
    user_id: Annotated[str | None, "the caller's UserId, checked by IAM; null outside dlq"] = None
    why: Annotated[str, "the reason given; empty without one"] = ""
    outcome: Annotated[str, f"`done`, `failed`, or `{UNKNOWN}`: it was stopped before it could say"]
    error: Annotated[str | None, "name of the error that it failed with"] = None
    before: Annotated[Mapping[str, Any] | None, "what it was; null if it is new or not on record"]
    after: Annotated[Mapping[str, Any] | None, "what it became; null if it is gone or unknown"]
    ended: Annotated[datetime | None, "when it was done or had failed; null if unknown"]


def lines(rows: Sequence[Row]) -> list[AuditLine]:
    """One line for each change, the newest first.

    An end is put to its beginning, and the history's row of a rule to the change by `dlq` that
    made it: the same rule, the same difference, within WITHIN. Each row is used once.
    """
    ends = {_name(row).removesuffix(END): row for row in rows if is_end(row)}
    begun = [row for row in rows if not is_end(row) and not is_history(row)]
    left = [row for row in rows if is_history(row)]
    changes = []
    for row in sorted(begun, key=happened):
        end = ends.get(_name(row))
        if end is None or end.get("outcome") != "failed":
            _take_out(left, row)
        changes.append(_by_dlq(row, end))
    changes += map(_outside, left)
    return sorted(changes, key=lambda change: change.at, reverse=True)


def happened(row: Row) -> float:
    """When, in epoch seconds."""
    return float(row[str(CHANGES.sort)])


def is_end(row: Row) -> bool:
    """Whether the row says how a change ended."""
    return str(row[AUDIT.sort]).endswith(END)


def is_history(row: Row) -> bool:
    """Whether the row is from the stream of the rules or of the endpoints table."""
    return "event_id" in row


def _name(row: Row) -> str:
    return f"{row[AUDIT.partition]}\n{row[AUDIT.sort]}"


def _take_out(history: list[Row], row: Row) -> None:
    """Removes the row of the history that a change by `dlq` has made, the nearest in time."""
    if not str(row["command"]).startswith(("rules ", "endpoint ")):
        return
    difference = _difference(row.get("before"), row.get("after"))
    same = [
        other
        for other in history
        if other[CHANGES.partition] == row[CHANGES.partition]
        and _target(other) == row["target"]
        and abs(happened(other) - happened(row)) <= WITHIN
        and _difference(*_images(other)) == difference
    ]
    if same:
        history.remove(min(same, key=lambda other: abs(happened(other) - happened(row))))


def _images(row: Row) -> Iterator[Mapping[str, Any] | None]:
    """The rule before and after, without its verdict; of an endpoint what the audit keeps."""
    for image in (row.get("old"), row.get("new")):
        if not isinstance(image, Mapping):
            yield None
        else:
            yield dict(sorted(image.items())) if "endpoint" in row else canonical(image)


def _target(row: Row) -> str:
    """What a row of the history is about, as `dlq` names it."""
    if "endpoint" in row:
        from . import endpoints

        return endpoints.target(str(row["endpoint"]))
    return target(str(row["rule_id"]))


def _difference(before: Row | None, after: Row | None) -> tuple[bool, bool, dict[str, Any]]:
    """Whether there was a rule, whether there is one, and the columns that have changed.

    Not the images: `dlq rules disable` also disables a rule that another person has just edited.
    """
    old, new = before or {}, after or {}
    names = {*old, *new} - {_BECAUSE}
    columns = {name: new.get(name) for name in names if old.get(name) != new.get(name)}
    return before is not None, after is not None, columns


def _by_dlq(row: Row, end: Row | None) -> AuditLine:
    ended = end or {}
    user_id = str(row[AUDIT.partition]).removeprefix(CHANGED_BY)
    return AuditLine(
        at=_time(row),
        pipeline=str(row[CHANGES.partition]),
        command=str(row["command"]),
        target=str(row["target"]),
        via=str(row.get("via", BY_DLQ)),
        who=_who(str(row["who"]), user_id),
        user_id=user_id,
        why=str(row.get("why", "")),
        outcome=str(ended.get("outcome", UNKNOWN)),
        error=ended.get("error"),
        before=_in_order(row, row.get("before")),
        after=_in_order(row, ended.get("after", row.get("after"))),
        ended=_time(end) if end else None,
    )


def _is_of_rule(row: Row) -> bool:
    return str(row["command"]).startswith("rules ")


def _in_order(row: Row, facts: Row | None) -> Row | None:
    """The facts in a fixed order: DynamoDB keeps none."""
    if facts is None:
        return None
    return canonical(facts) if _is_of_rule(row) else dict(sorted(facts.items()))


def _who(says: str, user_id: str) -> str:
    """The ARN that a row says, or the UserId if the session is another: then the ARN is forged.

    The UserId stands in the key, and IAM lets each caller write below the own one only.
    """
    _, colon, session = user_id.partition(":")
    forged = colon and not says.endswith(f"/{session}")
    return f"{user_id}, who calls itself {says}" if forged else says


def _outside(row: Row) -> AuditLine:
    before, after = _images(row)
    return AuditLine(
        at=_time(row),
        pipeline=str(row[CHANGES.partition]),
        command=ENDPOINT_EDIT if "endpoint" in row else RULE_EDIT,
        target=_target(row),
        via=OUTSIDE,
        outcome="done",
        before=before,
        after=after,
        ended=_time(row),
    )


def _time(row: Row) -> datetime:
    at = moment(happened(row))
    assert at is not None, "the index holds numbers"
    return at


# Read by pipeline and time.


@dataclass(frozen=True, slots=True)
class AuditTrail(Answer):
    """What `dlq audit` answers."""

    changes: Annotated[Sequence[AuditLine], "the newest first"]
    since: Annotated[datetime, "changes from then on"]
    until: Annotated[datetime, "changes before then"]
    more: Annotated[
        datetime | None,
        "where older ones begin: ask again with it as until; null without",
    ]


@dataclass(frozen=True, slots=True)
class AuditQuestion:
    """Which changes are asked for: `target` is what was changed.

    `terms` are about callers (by) and texts (text): of each, one value has to fit.

    Without `pipelines` those of the app. What belongs to all pipelines is always among them.
    """

    since: datetime
    until: datetime
    pipelines: Sequence[str] = ()
    terms: Sequence[Term] = ()
    target: str = ""
    limit: int = 50

    def wants(self, line: AuditLine) -> bool:
        """Whether the line is asked for."""
        of_time = self.since <= line.at < self.until
        is_target = self.target in ("", line.target)
        return of_time and is_target and all(_fits(term, line) for term in self.terms)


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
            times[term.key] = typed_time(term.values[0], now, -1)
        elif term.key in ("by", "text"):
            terms.append(term)
        else:
            raise Problem(f"{term}: changes are chosen by by, since, until and text.", Cause.INPUT)
    if times["since"] >= times["until"]:
        ends = (f"{name}={at:%Y-%m-%dT%H:%M}" for name, at in times.items())
        raise Problem(f"{' has to be before '.join(ends)}.", Cause.INPUT)
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
    chosen = _whole([row for rows in found.values() for row in rows.rows], question, floor)
    shown, rest = chosen[: question.limit], chosen[question.limit :]
    # The next page ends with a whole second, as a person can type it: those of it belong here.
    while rest and _second(rest[0].at) == _second(shown[-1].at):
        shown.append(rest.pop(0))
    border = _second(shown[-1].at) if rest else moment(floor) if floor else None
    return AuditTrail(
        **session.place,
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
    return len(_whole(rows, question, floor)) > question.limit


def _whole(rows: Sequence[Row], question: AuditQuestion, floor: float) -> list[AuditLine]:
    """The changes that are asked for, none of which may lack a row."""
    found = (line for line in lines(rows) if line.at.timestamp() >= floor)
    return [line for line in found if question.wants(line)]


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
