"""`dlq parked release`: letters leave the parking lot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import typer

from deadletter.replay.plan import MAIN_QUEUE
from deadletter.routing.selection import Selection

from ..operations.parked_release import ParkedExit, ParkedMove
from ..operations.problem import Cause, Problem
from ..operations.session import Session
from ..operations.words import count, duration
from . import asking, replay_options
from .asking import Yes
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
    stay parked: list, show, export and release find them there as before.
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


def _must_say_which(chosen: Selection, everything: bool) -> None:
    """A person who types too little must not move the whole parking lot."""
    if everything == (chosen != Selection()):
        raise Problem(
            "--all and a filter exclude each other: give one."
            if everything
            else "Say which parked letters: --id, --reason, another filter, or --all.",
            Cause.INPUT,
        )


def question(move: ParkedMove, verb: str) -> Iterator[str]:
    """What would be done, and what to think about first."""
    places = ", ".join(
        f"{draft.forecast.letters:,} in {draft.source.name}" for draft in move.drafts
    )
    yield f"{verb} {count(move.letters, 'parked letter')} of {move.pipeline}: {places}."
    yield f"They are parked for {_numbers(move.reasons)}."
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


def _numbers(letters: Counter[str]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in letters.most_common())


def show(answer: ParkedExit) -> Iterator[Block]:
    """The runs that were started, and how to follow them."""
    yield line(
        Styled(f"{count(answer.letters, 'parked letter')} of {answer.pipeline} released", "strong"),
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
    for run in answer.runs:
        yield Line()
        yield line(f"Follow it: dlq show {run.run} --watch")
        yield line(f"Stop it:   dlq run hold {run.run}")
