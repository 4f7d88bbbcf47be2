"""Every change by `dlq` is written into the audit table first: without a record, no change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from deadletter.contract import AUDIT, CHANGES, change_partition

from . import item
from .app import App
from .errors import Cause, Denied, Problem, aws_errors, error_code, explain
from .session import Session

DONE, FAILED = "done", "failed"

END = "#end"
"""What the sort key of an end has behind that of its beginning."""

Facts = Mapping[str, Any]
"""JSON-ready data; never a body, an attribute's value, a secret, or a URL with its path."""

MAX_REASON = 1_000
"""Characters of a reason; the router refuses a rule with a longer one."""

_DAY = 86_400
# Characters of one side: both go into one item of at most 400 KB; a valid rule has 32 KB at most.
_MOST_STORED = 128 * 1024
# An end is never as early as its beginning, so that the newest first is the end.
_LEAST_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class IntendedChange:
    """What a person is about to do with a command ("circuit open") to a target, and why.

    `pipeline` is EVERY_PIPELINE for what belongs to no single one. `after` is what the change
    is to lead to, as far as it is known.
    """

    command: str
    pipeline: str
    target: str
    why: str = ""
    before: Facts | None = None
    after: Facts | None = None


class RecordedChange:
    """A change that stands in the audit table and is under way. The first end counts."""

    def __init__(self, session: Session, app: App, change: IntendedChange) -> None:
        self._session = session
        self._app = app
        self._at = round(session.clock(), 3)
        self._key = {
            AUDIT.partition: change_partition(session.aws.user_id),
            AUDIT.sort: f"{self._at:014.3f}#{uuid4().hex[:12]}",
        }
        self._pipeline, self._what = change.pipeline, f"{change.command}: {change.target}"
        self._ended = False
        self._begin(change)

    def done(self, after: Facts | None = None) -> None:
        """It was made; `after` is what it has led to, if that says more than the beginning."""
        self._end({"outcome": DONE, "after": _kept(after)})

    def failed(self, error: str) -> None:
        """It was not made, or not wholly; `error` is the error's name."""
        self._end({"outcome": FAILED, "error": error})

    def _begin(self, change: IntendedChange) -> None:
        table = self._app.audit_table
        facts = {
            "command": change.command,
            "target": change.target,
            "who": self._session.aws.caller,
            "why": change.why or None,
            "via": self._session.via,
            "before": _kept(change.before),
            "after": _kept(change.after),
        }
        try:
            self._put(self._key, self._at, facts)
        except Exception as error:
            problem = explain(error)
            if problem is None:
                raise
            kind = Denied if isinstance(problem, Denied) else Problem
            raise kind(
                f"Nothing {'more ' if DONE in self._session.changes.values() else ''}was done, "
                "because the change could not be recorded first (a "
                f"dynamodb:PutItem into the audit table {table}). {problem.says}",
                problem.cause,
            ) from error

    def _end(self, facts: Facts) -> None:
        if self._ended:
            return
        self._ended = True
        self._session.changes[self._what] = facts["outcome"]
        key = {**self._key, AUDIT.sort: f"{self._key[AUDIT.sort]}{END}"}
        at = max(round(self._session.clock(), 3), self._at + _LEAST_SECONDS)
        try:
            self._put(key, at, facts)
        except Exception as error:
            # The change is made: that its end is missing is what `dlq audit` says of it.
            if explain(error) is None:
                raise

    def _put(self, key: Facts, at: float, facts: Facts) -> None:
        from deadletter.aws.dynamodb import DynamoDBTable
        from deadletter.aws.table import absent

        row = {
            **key,
            CHANGES.partition: self._pipeline,
            str(CHANGES.sort): round(at, 3),
            "ttl": int(at) + self._app.audit_days * _DAY,
            **{name: fact for name, fact in facts.items() if fact is not None},
        }
        table = DynamoDBTable(self._session.aws.dynamodb, self._app.audit_table, AUDIT)
        # Written once: rows are added, and never replaced.
        with aws_errors():
            table.put(item.exact(row), absent(AUDIT.partition))


def _kept(facts: Facts | None) -> Facts | None:
    """The facts, or their size if they are too large for an item."""
    size = 0 if facts is None else len(json.dumps(facts, ensure_ascii=True))
    return facts if size <= _MOST_STORED else {"too_large": f"{size:,} characters"}


@contextmanager
def recorded(session: Session, app: App, change: IntendedChange) -> Iterator[RecordedChange]:
    """Records a change, lets it be made, and records how that ended.

    Raises Problem, and nothing is to be done, if it can't be recorded. The body may say `done`
    with what has come of it, or `failed`; otherwise it is done unless it raises.
    """
    record = RecordedChange(session, app, change)
    try:
        yield record
    except BaseException as error:
        record.failed(error_name(error))
        raise
    record.done()


@contextmanager
def told_in_part(session: Session) -> Iterator[None]:
    """A Problem behind a change that was made says so: several may have to be made."""
    try:
        yield
    except Exception as error:
        problem, changes = explain(error), session.changes
        done = [what for what, outcome in changes.items() if outcome == DONE]
        if problem is None or not done:
            raise
        failed = [what for what in changes if what not in done]
        doubt = f" Not made, or not wholly: {', '.join(failed)}." if failed else ""
        says = f"Changes made: {', '.join(done)}.{doubt} {problem.says}"
        raise type(problem)(says, problem.cause) from error


def error_name(error: BaseException) -> str:
    """The name of an error: the code from AWS if there is one. Its text may quote a message."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Exception) and (code := error_code(cause)):
            return code
        cause = cause.__cause__
    if isinstance(error, Problem):
        return f"{type(error).__name__}: {error.cause.name}"
    return type(error).__name__


def checked_reason(text: str | None, change: str) -> str:
    """The reason without spaces around it; `change` needs one ("A rule"), unless it is empty.

    Raises Problem if it is missing or too long.
    """
    reason = (text or "").strip()
    if change and not reason:
        raise Problem(f"{change} needs a reason: add --reason.", Cause.INPUT)
    if len(reason) > MAX_REASON:
        raise Problem(f"A reason has at most {MAX_REASON:,} characters.", Cause.INPUT)
    return reason
