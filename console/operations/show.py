"""What a name stands for, and all that is known of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Annotated

from deadletter.replay.run import RunState

from . import causes, circuits, groups, message, pipeline_settings, rules
from .audit_trail import AuditLine, history
from .causes import CauseRow
from .circuits import CircuitRow
from .errors import Cause, Problem
from .groups import GroupsRequest, MessageGroup
from .message import Extras, ShownMessage
from .names import NameKind, known, only, taken_apart
from .pipeline_settings import SettingsInForce
from .replay_report import RunAccount, report
from .replay_runs import ReplayDetails, RunSwitch, details, is_at_rest, progress
from .rules import ShownRule
from .selection import Pipeline
from .session import Answer, Session
from .verbs import Asked, Verb


@dataclass(frozen=True, kw_only=True)
class ShowRequest:
    """One message, run, rule, circuit, cause or pipeline: all that is on record of it.

    A message has a time line: each failure, and what rules, runs and people did with it; then
    whether it was processed, with the record that says so, what comes next, and where it was not
    looked for. Nothing is received from a queue without --look. A business ID whose message was
    processed at once is proved by the consumer's own entry.

    Of a run it says how far it is and what it waits for, and once it has ended what became of each
    message: the sum is all of the run, or it is BROKEN. The page of --html is one file, no bodies.
    The exit status is 1 if the run waits for a person or messages are unaccounted for, and if
    something could not be read.

    A failure record keeps the last two failed receives of each of the last eight attempts. AWS
    bills --logs by the bytes of logs that a query reads.
    """

    name: Annotated[
        str | None,
        Asked(
            "A message (message ID, current ID or business ID), a run, a rule, a circuit or a "
            "pipeline; rule:NAME, run:NAME and so on if it is several; or cause:ID.",
            metavar="ANYTHING",
        ),
    ] = None
    pipeline: Pipeline = None
    body: Annotated[bool, Asked("Of a message, its body and attributes too.", ("--body",))] = False
    look: Annotated[
        bool, Asked("Look for a message in DLQs and parking queues too.", ("--look",))
    ] = False
    logs: Annotated[
        bool, Asked("What the consumer logged at each receive that failed.", ("--logs",))
    ] = False
    rules: Annotated[bool, Asked("What each rule says of a message.", ("--rules",))] = False
    watch: Annotated[bool, Asked("Follow a run until it has ended.", ("--watch",))] = False
    html: Annotated[
        str | None,
        Asked("Write a run as one page with charts into a new file.", ("--html",), "FILE"),
    ] = None


@dataclass(frozen=True, slots=True)
class ShownCause:
    """A cause of failure in one pipeline: its messages, its state, and who has changed that."""

    pipeline: Annotated[str, "name of the pipeline"]
    cause: Annotated[str, "its 16 digits"]
    state: Annotated[
        CauseRow | None, "its hold, or who ended that; null if not read, or not within a day"
    ]
    group: Annotated[MessageGroup | None, "its messages that fail now; null if none was read"]
    changes: Annotated[Sequence[AuditLine], "what people did about it, the newest first"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown(Answer):
    """What `dlq show` answers."""

    kind: Annotated[str, f"what the name stands for: {', '.join(NameKind)}"]
    name: Annotated[str, "the name that was asked for"]
    message: Annotated[ShownMessage | None, "the message; null for another kind"] = None
    run: Annotated[ReplayDetails | None, "the run; null for another kind"] = None
    outcomes: Annotated[
        RunAccount | None, "what became of each message of a run that has ended, or with --html"
    ] = None
    unread: Annotated[
        str, "what of a run's outcomes, or of a cause, was not read, and why; empty if all was"
    ] = ""
    rule: Annotated[ShownRule | None, "the rule; null for another kind"] = None
    circuits: Annotated[
        Sequence[CircuitRow] | None,
        "the circuit, in each pipeline that has it; null otherwise",
    ] = None
    causes: Annotated[
        Sequence[ShownCause] | None, "the cause, in each pipeline that has it; null otherwise"
    ] = None
    pipeline: Annotated[SettingsInForce | None, "the pipeline; null for another kind"] = None


def read(session: Session, request: ShowRequest) -> Shown:
    """What the name stands for, with all that is known of it.

    Raises Problem for a name that stands for several, or for nothing on record.
    """
    app = session.app()
    chosen = app.select([] if request.pipeline is None else [request.pipeline])
    names = [each.name for each in chosen]
    typed = request.name or f"{NameKind.PIPELINE}:{app.pipeline(request.pipeline).name}"
    given, name = taken_apart(typed)
    if given is NameKind.CAUSE:
        unread: list[str] = []
        shown = tuple(cause for each in names for cause in _causes(session, each, name, unread))
        says = " ".join(dict.fromkeys(unread))
        if not shown and unread:
            says = f"Whether there is a cause {name!r} is unknown: {says}"
            raise Problem(says, Cause.FAILED)
        if not shown:
            says = f"No cause {name!r} fails messages, or has dominated within a day. Those known:"
            look = (f"dlq groups {quote(each)}" for each in names)
            raise Problem("\n".join((says, *look)), Cause.ABSENT)
        return Shown(**session.place, kind=given, name=name, causes=shown, unread=says)
    found = known(session, app, name, names)
    kind = given or only(found, name)
    switch = None
    if kind is NameKind.RUN or (kind is None and _RUN.fullmatch(name)):
        switch = _run(session, request.pipeline, name, surely=kind is NameKind.RUN)
    kind = NameKind.RUN if switch else kind or NameKind.MESSAGE
    said = Shown(**session.place, kind=str(kind), name=name)
    if switch is not None:
        return _shown_run(session, said, switch, request)
    match kind:
        case NameKind.PIPELINE:
            return replace(said, pipeline=pipeline_settings.read(session, app, name))
        case NameKind.RULE:
            return replace(said, rule=rules.show(session, request.pipeline, name))
        case NameKind.CIRCUIT:
            of = [name] if name in names else found.pipelines.get(kind, (request.pipeline,))
            rows = [circuits.show_circuit(session, pipeline, name) for pipeline in of]
            return replace(said, circuits=tuple(rows))
    extras = Extras(body=request.body, look=request.look, logs=request.logs, rules=request.rules)
    return replace(said, message=message.shown(session, app, name, names, found, extras))


def _causes(session: Session, pipeline: str, name: str, unread: list[str]) -> Iterator[ShownCause]:
    """The causes of a pipeline whose fingerprints begin so; `unread` is told what was not read."""
    answer = groups.read(session, GroupsRequest(pipeline=pipeline, terms=(f"cause={name}",)))
    unread += answer.notes if answer.causes is None or answer.is_at_least else ()
    prefix = name.lower()
    states = {row.cause: row for row in answer.causes or () if row.cause.startswith(prefix)}
    failing = {group.name: group for group in answer.groups if group.name.startswith(prefix)}
    for fingerprint in dict.fromkeys((*states, *failing)):
        yield ShownCause(
            pipeline,
            fingerprint,
            states.get(fingerprint),
            failing.get(fingerprint),
            history(session, causes.target(fingerprint), (pipeline,), _MOST_CHANGES),
        )


_MOST_CHANGES = 20

_RUN = re.compile(r"[0-9a-f]{4,16}")
"""The id of a run, or its first characters."""


def _run(session: Session, pipeline: str | None, name: str, *, surely: bool) -> RunSwitch | None:
    """The run with this id, or the only one that begins so; None if it need not be one."""
    try:
        return RunSwitch(session, pipeline, name)
    except Problem as problem:
        if surely or problem.cause is not Cause.ABSENT:
            raise
        return None


_OVER = (RunState.DONE, RunState.ABORTED, RunState.BROKEN)
WATCHED_EVERY = 2.0
"""Seconds between two looks at a run that is followed."""


def _shown_run(session: Session, said: Shown, switch: RunSwitch, request: ShowRequest) -> Shown:
    """The run, followed if that is asked for, and the account of it if it has ended."""
    run = details(switch)
    while request.watch and not is_at_rest(run):
        session.say(progress(run))
        session.pause(WATCHED_EVERY)
        run = details(switch)
    over = run.run.state in _OVER and run.run.messages is not None
    account, unread = None, ""
    try:
        account = report(switch) if over or request.html is not None else None
    except Problem as problem:
        if request.html is not None:
            raise
        unread = problem.says if problem.cause is not Cause.ABSENT else ""
    return replace(said, name=run.run.run, run=run, outcomes=account, unread=unread)


VERB = Verb(
    name="show",
    request=ShowRequest,
    examples=[
        "dlq show A-4711",
        "dlq show 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --logs --rules",
        "dlq show 4f0c1b --watch",
        "dlq show 4f0c1b --html report.html",
        "dlq show rule:stop-acme",
        "dlq show circuit:hooks.acme.example",
        "dlq show cause:9c1f08e2",
        "dlq show orders --json --query pipeline.policy",
    ],
    read=read,
)
