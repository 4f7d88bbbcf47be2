"""The consumer's log of each receive of one message, from CloudWatch Logs Insights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from deadletter.contract import pipeline_prefix

from .app import DeployedPipeline
from .errors import Cause, Problem, error_code, explain
from .life_record import LetterRecord
from .session import Session
from .words import count, moment

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient

    from deadletter.failure.failure import Failure

FOUND, NOTHING, UNFINISHED, FAILED = "FOUND", "NOTHING", "UNFINISHED", "FAILED"

# Seconds. A Lambda function runs for 15 minutes at most; a log line may be a little late.
_BEFORE, _AFTER = 960, 120

# An account runs some 30 queries at the same time, for everybody.
_AT_ONCE = 4

# Seconds between two looks at running queries.
_POLL = 0.5

_FOLDER = "/aws/lambda/"
"""What the names of Lambda's log groups begin with."""

# What may stand in a query: anything else could change it.
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,80}")

_RUNNING = frozenset({"Scheduled", "Running", "Unknown"})
_LATER = frozenset({"LimitExceededException", "ThrottlingException"})


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log."""

    at: Annotated[datetime | None, "when it was logged; null if CloudWatch did not say"]
    message: Annotated[str, "as the consumer wrote it"]


@dataclass(frozen=True, slots=True)
class ReceiveLog:
    """What the consumer logged while it had the message, in one receive."""

    attempt: Annotated[int, "number of the attempt; 0 is the first"]
    receive: Annotated[int, "number of the receive in that attempt"]
    at: Annotated[datetime | None, "when it failed"]
    request_id: Annotated[str, "id of the Lambda invocation; empty if it is not on record"]
    state: Annotated[
        str, f"{FOUND}, {NOTHING}, {UNFINISHED} (the time was up) or {FAILED} (refused)"
    ]
    note: Annotated[str, "why there are no lines, or not all; empty otherwise"]
    lines: Annotated[Sequence[LogLine], "lines of the whole invocation, the earliest first"]


SECONDS, LINES = 60, 100
"""How long it is waited for logs in all, and how many lines of each receive are read."""


def receive_logs(record: LetterRecord, notes: list[str]) -> tuple[str, Sequence[ReceiveLog]]:
    """The log group of the consumer, and its lines of each receive of a message.

    Queries that are still running at the end are stopped, also after Ctrl-C. AWS bills a query by
    the bytes that it reads.
    """
    session, failures = record.here.session, record.row.failures if record.row else ()
    group = _log_group(session, record.pipeline)
    if not failures:
        notes.append("No failure of it is on record, so there is no receive to look for in logs.")
        return group, ()
    try:
        return group, _LogSearch(session, group, record.origin).run(failures)
    except Problem as problem:
        notes.append(f"Its logs could not be read: {problem.says}")
        return group, ()


def _log_group(session: Session, pipeline: DeployedPipeline) -> str:
    """The log group of the pipeline's consumer."""
    function = pipeline.consumer_function
    if not function:
        # The webhook dispatcher, if the pipeline has it.
        return f"{_FOLDER}{pipeline_prefix(session.app_name, pipeline.name)}consumer"
    from botocore.exceptions import ClientError

    try:
        answer = session.aws.lambda_.get_function_configuration(FunctionName=function)
        group = answer.get("LoggingConfig", {}).get("LogGroup")
    except ClientError:
        # The usual name is right unless a team has chosen another one.
        group = None
    return group or f"{_FOLDER}{function.partition(':function:')[2] or function}"


class _LogSearch:
    """One query for each receive, a few at the same time."""

    def __init__(self, session: Session, group: str, origin: str) -> None:
        self._session = session
        self._logs: CloudWatchLogsClient = session.aws.logs
        self._group = group
        self._origin = origin

    def run(self, failures: Sequence[Failure]) -> Sequence[ReceiveLog]:
        """The log of each receive, in order; UNFINISHED where the time was up."""
        until = self._session.clock() + SECONDS
        receives = [self._unread(failure) for failure in failures]
        waiting, running = list(range(len(failures))), dict[int, str]()
        try:
            while waiting or running:
                done = len(failures) - len(waiting) - len(running)
                self._session.say(f"Logs: {done} of {count(len(failures), 'receive')} read")
                while waiting and len(running) < _AT_ONCE:
                    query = self._start(failures[waiting[0]])
                    if query is None:
                        break
                    running[waiting.pop(0)] = query
                for number, query in list(running.items()):
                    read = self._read(receives[number], query)
                    if read is not None:
                        receives[number] = read
                        del running[number]
                if (waiting or running) and self._session.clock() >= until:
                    break
                if waiting or running:
                    self._session.pause(_POLL)
        finally:
            self._stop(list(running.values()))
        return tuple(receives)

    def _unread(self, failure: Failure) -> ReceiveLog:
        return ReceiveLog(
            failure.attempt, failure.receive, moment(failure.at), failure.request_id,
            UNFINISHED, "the time was up before it was read: type it again", (),
        )  # fmt: skip

    def _start(self, failure: Failure) -> str | None:
        """Begin the query for one receive. None if CloudWatch is busy: try again later."""
        from botocore.exceptions import ClientError

        try:
            return self._logs.start_query(
                logGroupName=self._group,
                startTime=int(failure.at) - _BEFORE,
                endTime=int(failure.at) + _AFTER,
                queryString=self._query(failure),
                limit=LINES,
            )["queryId"]
        except ClientError as error:
            if error_code(error) in _LATER:
                return None
            if error_code(error) == "ResourceNotFoundException":
                raise Problem(
                    f"there is no log group {self._group}.",
                    Cause.ABSENT,
                ) from error
            raise

    def _query(self, failure: Failure) -> str:
        id_ = failure.request_id or self._origin
        if not _PLAIN.fullmatch(id_):
            raise Problem(f"{id_!r} is no id that can be searched for.", Cause.INPUT)
        wanted = f'@message like "{id_}"'
        if failure.request_id:
            wanted = f'@requestId = "{id_}" or {wanted}'
        return f"fields @timestamp, @message | filter {wanted} | sort @timestamp asc"

    def _read(self, receive: ReceiveLog, query: str) -> ReceiveLog | None:
        """The receive with its lines; None while the query runs."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = self._logs.get_query_results(queryId=query)
        except (BotoCoreError, ClientError) as error:
            if error_code(error) in _LATER:
                return None
            problem = explain(error)
            return replace(receive, state=FAILED, note=problem.says if problem else str(error))
        status = answer.get("status", "Unknown")
        if status in _RUNNING:
            return None
        lines = tuple(map(_line, answer.get("results", [])))
        if status != "Complete":
            return replace(receive, state=FAILED, note=f"the query is {status}", lines=lines)
        if not lines:
            return replace(receive, state=NOTHING, note=self._nothing(receive))
        cut = f"the first {LINES} lines"
        return replace(receive, state=FOUND, lines=lines, note=cut if len(lines) >= LINES else "")

    def _nothing(self, receive: ReceiveLog) -> str:
        if receive.request_id:
            return "no line: the log group may not keep lines for so long, or has another name"
        return (
            "no line: no request id is on record (as in a container), and no line of that time "
            "names the message"
        )

    def _stop(self, queries: Sequence[str]) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        for query in queries:
            try:
                self._logs.stop_query(queryId=query)
            except (BotoCoreError, ClientError):
                # It ends by itself within an hour.
                continue


def _line(row: Sequence[object]) -> LogLine:
    fields = {
        str(field.get("field")): str(field.get("value", ""))
        for field in row
        if isinstance(field, dict)
    }
    return LogLine(_at(fields.get("@timestamp", "")), fields.get("@message", "").rstrip("\n"))


def _at(text: str) -> datetime | None:
    """A time of Logs Insights: "2026-11-22 20:11:43.120", in UTC."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None
