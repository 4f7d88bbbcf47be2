"""What is on record of one letter, in whichever pipeline: ledger, waiting room, replay runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from deadletter.contract import run_object
from deadletter.replay.ticket import ReplayOutcome

from .app import App, DeployedPipeline
from .deadline import side_by_side
from .errors import Cause, Problem, aws_errors
from .session import Here, Session
from .words import count, some

if TYPE_CHECKING:
    from deadletter.aws.waiting_room import WaitingLetter
    from deadletter.failure.ledger import LedgerRow
    from deadletter.replay.plan import ReplayPlan
    from deadletter.replay.run import ReplayRun
    from deadletter.replay.ticket import Ticket

MOST_WAITING = 2_000
"""Waiting letters of a pipeline that are read to find one by its origin: about a second."""

LATEST_RUNS = 10
"""Replay runs of a pipeline whose tickets are asked for a letter, the latest; those that have
thrown letters away are asked besides: nothing else says that a letter was discarded."""


@dataclass(frozen=True, slots=True)
class RunTicket:
    """What a run noted of a message when it sent it, or let it go; `plan` is None if forgotten."""

    run: ReplayRun
    ticket: Ticket
    plan: ReplayPlan | None = None


@dataclass(frozen=True, slots=True)
class LetterDiscard:
    """How a letter was thrown away, that nothing is known of since.

    `plan` is None if it is not on record any more; `copy` says where the letter's copy is kept, as
    S3 says now: empty if there is none, and None if that could not be read.
    """

    plan: ReplayPlan | None
    copy: str | None


@dataclass(frozen=True, slots=True)
class LetterRecord:
    """What is on record of one letter. `row` is None if the ledger has none.

    `waiting` are its copies in the waiting room; `discard` is how it was thrown away, if that is
    the last that a run noted of it; `notes` say what was not looked at.
    """

    here: Here
    origin: str
    row: LedgerRow | None
    waiting: Sequence[WaitingLetter] = ()
    tickets: Sequence[RunTicket] = ()
    notes: Sequence[str] = ()
    discard: LetterDiscard | None = None

    @property
    def pipeline(self) -> DeployedPipeline:
        return self.here.pipeline


def record_of(
    session: Session, app: App, id_: str, pipeline: str | None, unread: Sequence[str] = ()
) -> LetterRecord:
    """The record of the letter with this id: of its first life or of any copy that we hold.

    Without `pipeline` all pipelines are searched. Raises Problem (ABSENT) if none knows the id: it
    names what was not looked at, with what was `unread` elsewhere.
    """
    pipelines = app.select([] if pipeline is None else [pipeline])
    searched = [Here(session, app, each) for each in pipelines]
    # Made before the threads that use it.
    session.aws.dynamodb  # noqa: B018
    with side_by_side() as start:
        looks = [start(partial(known_of, each, id_)) for each in searched]
        known = [look.answer("Its record") for look in looks]
    record = next((each for each in known if each is not None), None)
    notes: list[str] = []
    candidates = searched if record is None else [record.here]
    waiting = record.waiting if record else ()
    origin = record.origin if record else id_
    for each in candidates if not waiting else ():
        waiting = _walk(each, {id_, origin}, notes)
        if waiting:
            stamp = waiting[0].stamp
            origin = stamp.origin if stamp else waiting[0].copy
            record = record or LetterRecord(each, origin, _row(each, origin))
            break
    tickets: Sequence[RunTicket] = ()
    for each in searched if record is None else [record.here]:
        # A letter that the ledger does not know may be known to a run.
        if tickets := _tickets(each, origin, notes):
            record = record or LetterRecord(each, origin, None)
            break
    if record is None:
        raise _unknown(id_, pipelines, [*unread, *notes])
    discard = None
    if tickets and tickets[-1].ticket.fate is ReplayOutcome.DISCARDED:
        discard = _discard(record.here, tickets[-1], notes)
    return LetterRecord(record.here, origin, record.row, waiting, tickets, tuple(notes), discard)


def _discard(here: Here, noted: RunTicket, notes: list[str]) -> LetterDiscard:
    """How a run threw a letter away, and where its copy is."""
    from deadletter.replay.objects import discarded_name

    run, plan = noted.run, noted.plan
    objects = here.objects(run.id)
    name = discarded_name(noted.ticket.copy)
    try:
        with aws_errors():
            is_kept = any(stored.name == name for stored in objects.listed(name))
    except Problem as problem:
        notes.append(f"Whether its copy is kept is not known: {problem.says}")
        return LetterDiscard(plan, None)
    place = f"s3://{here.app.messages_bucket}/{run_object(run.pipeline, run.id, name)}"
    return LetterDiscard(plan, place if is_kept else "")


def _row(here: Here, origin: str) -> LedgerRow | None:
    with aws_errors():
        return here.ledger.rows([origin]).get(origin)


def known_of(here: Here, id_: str) -> LetterRecord | None:
    """What one pipeline knows by this id alone, in two or three reads."""
    with aws_errors():
        waiting = here.lanes.waiting(id_)
    row = _row(here, id_)
    origin = id_
    stamp = waiting.stamp if waiting else None
    if stamp is None and row is not None:
        # The row of a copy that had no room for its stamp names the first life.
        stamp = row.stamp
    if stamp is not None and stamp.origin != id_:
        origin = stamp.origin
        row = _row(here, origin) or row
    if waiting is None and row is None:
        return None
    return LetterRecord(here, origin, row, (waiting,) if waiting else ())


def _walk(here: Here, ids: set[str], notes: list[str]) -> Sequence[WaitingLetter]:
    """The copies in the waiting room with one of these ids, of the copy or of its first life."""
    lanes = here.lanes
    with aws_errors():
        names = [lane.name for lane in lanes.lanes()]

    matches: list[WaitingLetter] = []
    with side_by_side() as start:
        looks = [(name, start(partial(lanes.look, name, MOST_WAITING))) for name in names]
        for name, look in looks:
            seen = look.answer("What waits")
            matches += [letter for letter in seen if ids & set(_ids(letter))]
            if len(seen) >= MOST_WAITING and not matches:
                notes.append(
                    f"More than {MOST_WAITING:,} messages of {here.pipeline.name} wait as {name}: "
                    "only the first were looked at; dlq list ID looks at all."
                )
    return matches


def _ids(letter: WaitingLetter) -> Iterator[str]:
    yield letter.copy
    if letter.stamp is not None:
        yield letter.stamp.origin


def _tickets(here: Here, origin: str, notes: list[str]) -> Sequence[RunTicket]:
    """What the latest replay runs noted of a letter, the earliest first."""
    bad: list[str] = []
    every = sorted(here.every_run(bad.append), key=lambda run: run.created, reverse=True)
    if bad:
        notes.append(f"Runs that could not be asked, as their rows cannot be read: {some(bad, 5)}.")
    older = [run for run in every[LATEST_RUNS:] if run.counts.get(ReplayOutcome.DISCARDED.name)]
    asked = [*every[:LATEST_RUNS], *older]
    if len(every) > len(asked):
        notes.append(
            f"{here.pipeline.name} has {count(len(every), 'run')}: only the latest {LATEST_RUNS} "
            "were asked about it, and those that have discarded messages."
        )

    def lost(problem: Problem) -> None:
        notes.append(f"Runs could not be asked: {problem.says}")

    with side_by_side() as start:
        asks = {run.id: here.tickets(run.id) for run in asked}
        reads = [(run, start(partial(asks[run.id].of, origin))) for run in asked]
        noted = [
            RunTicket(run, ticket) for run, read in reads for ticket in read.result(lost) or ()
        ]
    plans = _plans(here, {each.run.id for each in noted})
    known = (replace(each, plan=plans.get(each.run.id)) for each in noted)
    return tuple(sorted(known, key=lambda each: each.ticket.at))


def _plans(here: Here, runs: Collection[str]) -> Mapping[str, ReplayPlan | None]:
    """The plans of runs; None for one that is forgotten, or that can't be read."""
    from deadletter.settings.json_fields import BadSettings

    plans = here.plans

    def read(run: str) -> ReplayPlan | None:
        with suppress(BadSettings):
            return plans.plan(run)
        return None

    with side_by_side() as start:
        reads = {run: start(partial(read, run)) for run in runs}
        return {id_: each.result(lambda _: None) for id_, each in reads.items()}


def _unknown(id_: str, searched: Sequence[DeployedPipeline], notes: Sequence[str]) -> Problem:
    names = ", ".join(each.name for each in searched) or "no pipeline"
    lacks = (
        "no failure, no waiting message, nothing processed under this ID, no run, rule or circuit"
    )
    says = f"Nothing is on record of {id_!r} in {names}"
    return Problem(
        f"{says}, as far as was looked. {' '.join(notes)}" if notes else f"{says}: {lacks}.",
        Cause.ABSENT,
    )
