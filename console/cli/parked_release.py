"""`dlq parked release`, `discard` and `restore`: letters leave the parking lot, or come back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer

from deadletter.replay.plan import MAIN_QUEUE
from deadletter.routing.selection import Selection

from ..operations.parked_release import ParkedExit, ParkedMove, ParkedTally
from ..operations.parked_restore import ParkedRestore
from ..operations.problem import Cause, Problem
from ..operations.session import Session
from ..operations.words import count, duration, moment
from . import asking, replay_options
from .asking import Confirm, Yes
from .command import OnePipeline, PipelineArgument, one_pipeline
from .output import Block, Line, Reply, Styled, TextTable, line
from .replay_options import (
    AcceptCollision,
    Causes,
    Ids,
    Pattern,
    Rate,
    Reasons,
    Since,
    Tenants,
    Until,
    Where,
    Why,
)

All = Annotated[bool, typer.Option("--all", help="All parked letters; else give a filter.")]
AllDiscarded = Annotated[
    bool, typer.Option("--all", help="All discarded letters; else give --run or a filter.")
]
DiscardingRun = Annotated[
    str | None,
    typer.Option(
        "--run", metavar="RUN", help="Only letters that this run threw away: its id, or its start."
    ),
]
NoExport = Annotated[
    bool,
    typer.Option("--no-export", help="Keep no copy of the discarded letters in the bucket."),
]


def release(
    session: Session,
    argument: PipelineArgument = None,
    pipeline: OnePipeline = None,
    all_: All = False,
    id_: Ids = None,
    reason: Reasons = None,
    cause: Causes = None,
    tenant: Tenants = None,
    since: Since = None,
    until: Until = None,
    pattern: Pattern = None,
    jmespath: Where = None,
    rate: Rate = None,
    accept_collision: AcceptCollision = False,
    why: Why = None,
    yes: Yes = False,
) -> Reply[ParkedExit]:
    """Send parked letters back to the main queue, by a small replay run.

    Say which: --all, or options that a letter has to meet, all of them. The letters are
    counted first: each is received once and given back. Their attempts and lives count
    anew. The run sends 1, 2, 5 and 20 letters first and holds itself if they fail.

    Each parking queue has a run of its own. A run takes its whole parking queue: letters
    that it does not release wait in lane `parked` of the waiting room from then on. They
    stay parked: list, show, export, release and discard find them there as before.
    """
    chosen = replay_options.selection(
        session,
        ids=id_,
        reasons=reason,
        causes=cause,
        tenants=tenant,
        since=since,
        until=until,
        pattern=pattern,
        where=jmespath,
    )
    _must_say_which(chosen, all_)
    move = ParkedMove(
        session,
        one_pipeline(argument, pipeline),
        chosen,
        why=asking.reason(why, "A release", option="--why"),
        rate=rate,
        accept_collision=accept_collision,
        progress=replay_options.progress,
    )
    replay_options.end_progress()
    if not yes:
        asking.confirm(session, *question(move, "Release"))
    return Reply(move.start(), show)


def discard(
    session: Session,
    argument: PipelineArgument = None,
    pipeline: OnePipeline = None,
    all_: All = False,
    id_: Ids = None,
    reason: Reasons = None,
    cause: Causes = None,
    tenant: Tenants = None,
    since: Since = None,
    until: Until = None,
    pattern: Pattern = None,
    jmespath: Where = None,
    no_export: NoExport = False,
    why: Why = None,
    yes: Yes = False,
    confirm_app: Confirm = None,
) -> Reply[ParkedExit]:
    """Throw parked letters away, for a reason that is kept with them.

    Say which: --all, or options that a letter has to meet, all of them. A copy of each
    whole letter is kept in the bucket below replay/<pipeline>/<run>/discarded/, unless you
    add --no-export. Nothing is sent anywhere. Before you are asked, you see how many there are,
    why they are parked, how they failed, the oldest, and the ids of some; no content.

    For 90 days dlq parked restore brings the letters back.

    To keep no copy is severe: --yes does not do. Type the app's name when asked, or give it
    with --confirm.
    """
    chosen = replay_options.selection(
        session,
        ids=id_,
        reasons=reason,
        causes=cause,
        tenants=tenant,
        since=since,
        until=until,
        pattern=pattern,
        where=jmespath,
    )
    _must_say_which(chosen, all_)
    move = ParkedMove(
        session,
        one_pipeline(argument, pipeline),
        chosen,
        why=asking.reason(why, "A discard", option="--why"),
        discard=True,
        keep_export=not no_export,
        progress=replay_options.progress,
    )
    replay_options.end_progress()
    if no_export:
        asking.confirm_by_name(session, confirm_app, session.app_name, *question(move, "Discard"))
    elif not yes:
        asking.confirm(session, *question(move, "Discard"))
    return Reply(move.start(), show)


def restore(
    session: Session,
    argument: PipelineArgument = None,
    pipeline: OnePipeline = None,
    all_: AllDiscarded = False,
    run: DiscardingRun = None,
    id_: Ids = None,
    reason: Reasons = None,
    cause: Causes = None,
    tenant: Tenants = None,
    since: Since = None,
    until: Until = None,
    pattern: Pattern = None,
    jmespath: Where = None,
    why: Why = None,
    yes: Yes = False,
) -> Reply[ParkedExit]:
    """Bring discarded letters back to the parking lot, as they were.

    Say which: --all, --run, or options that a letter has to meet, all of them. The letters are
    counted first, from the copies that were kept when they were discarded: for 90 days, and none
    with --no-export.

    Each comes back with its body, its attributes, its group and why it was parked, into lane
    `parked` of the waiting room: list, show, export, release and discard find it there. It comes
    back once, whoever else restores it, as a copy with an id of its own: name it by the id of its
    first life. Its copy in the bucket is deleted then. Nothing is sent.
    """
    chosen = replay_options.selection(
        session,
        ids=id_,
        reasons=reason,
        causes=cause,
        tenants=tenant,
        since=since,
        until=until,
        pattern=pattern,
        where=jmespath,
    )
    _must_say_which(chosen, all_, run, what="discarded letters: --run, --id")
    move = ParkedRestore(
        session,
        one_pipeline(argument, pipeline),
        chosen,
        run=run,
        why=asking.reason(why, "A restore", option="--why"),
        progress=replay_options.progress,
    )
    replay_options.end_progress()
    if not yes:
        asking.confirm(session, *_restore_question(move))
    return Reply(move.start(), show)


def _must_say_which(
    chosen: Selection,
    everything: bool,
    run: str | None = None,
    *,
    what: str = "parked letters: --id, --reason",
) -> None:
    """A person who types too little must not move the whole parking lot."""
    if everything == (chosen != Selection() or run is not None):
        raise Problem(
            "--all and a filter exclude each other: give one."
            if everything
            else f"Say which {what}, another filter, or --all.",
            Cause.INPUT,
        )


def _restore_question(move: ParkedRestore) -> Iterator[str]:
    """What would come back, and who threw it away."""
    letters = move.tally
    yield f"Restore {count(letters.letters, 'discarded letter')} of {move.pipeline}."
    yield f"They were parked for {_numbers(letters.reasons)}."
    yield from _some(letters)
    for discard in move.discards:
        at = moment(discard.at)
        when = f" at {_minute(at)}" if at else ""
        yield (
            f"Run {discard.run} discarded {discard.letters:,} of them{when}, for {discard.by}: "
            f"{discard.because}"
        )
    if move.damaged:
        yield f"Note: these copies can't be read, and stay: {', '.join(move.damaged)}"


def _some(letters: ParkedTally) -> Iterator[str]:
    """How the letters failed, how old they are, and which some of them are; nothing of a body."""
    yield f"Their last failures: {_numbers(letters.failures)}."
    oldest = letters.oldest
    sent = moment(oldest.first_sent / 1000) if oldest is not None else None
    if oldest is not None and sent is not None:
        yield f"The oldest was first sent at {_minute(sent)}: {oldest.origin}."
    named = letters.some
    more = f", and {letters.letters - len(named):,} more" if letters.letters > len(named) else ""
    yield f"By the ids of their first lives: {', '.join(named)}{more}."


def question(move: ParkedMove, verb: str) -> Iterator[str]:
    """What would be done, and what to think about first."""
    places = ", ".join(
        f"{draft.forecast.letters:,} in {draft.source.name}" for draft in move.drafts
    )
    yield f"{verb} {count(move.letters, 'parked letter')} of {move.pipeline}: {places}."
    yield f"They are parked for {_numbers(move.tally.reasons)}."
    if verb == "Discard":
        yield from _some(move.tally)
    if move.left_out:
        yield f"Left out, they stay parked: {_numbers(move.left_out)}."
    for draft in move.drafts:
        plan, forecast = draft.plan, draft.forecast
        if plan.destination == MAIN_QUEUE:
            canaries = ", ".join(map(str, plan.canary))
            yield (
                f"From {draft.source.name}: {plan.rate:g} letters/s ({forecast.rate_because}), "
                f"first {canaries}; about {duration(forecast.seconds)}."
            )
    for warning in dict.fromkeys(text for draft in move.drafts for text in draft.forecast.warnings):
        yield f"Note: {warning}"


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _numbers(letters: Counter[str]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in letters.most_common())


def show(answer: ParkedExit) -> Iterator[Block]:
    """The runs that were started, and how to follow them."""
    kind = "discarded letter" if answer.action == "restore" else "parked letter"
    what = f"being {answer.action.removesuffix('e')}ed"
    yield line(
        Styled(f"{count(answer.letters, kind)} of {answer.pipeline} {what}", "strong"),
        f" in account {answer.account}, {answer.region}",
    )
    headings = ("RUN", "FROM", ">LETTERS", "STATE")
    yield TextTable(
        headings,
        [
            (run.run, run.source, "" if run.letters is None else f"{run.letters:,}", run.state)
            for run in answer.runs
        ],
    )
    for place in answer.copies:
        yield line(f"Copies are kept below {place}")
    for run in answer.runs:
        yield Line()
        yield line(f"Follow it: dlq show {run.run} --watch")
        yield line(f"Stop it:   dlq replay hold {run.run}")
        if answer.copies:
            yield line(f"Undo it:   dlq parked restore {answer.pipeline} --run {run.run}")
    if answer.action == "restore":
        yield Line()
        yield line(f"See them then: dlq list --in parked --look --pipeline {answer.pipeline}")
