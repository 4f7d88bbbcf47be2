"""`dlq replay repeat`: what a run took is sent once more, also what was processed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations.problem import Cause, Problem
from ..operations.replay_repeat import REPEATED, RepeatStarted, RunToRepeat
from ..operations.replay_runs import RunSwitch
from ..operations.session import Session
from ..operations.words import count
from . import asking
from .asking import Yes
from .command import OnePipeline
from .output import Block, Reply, Styled, line
from .replay_options import Ids, Rate, Run, Why

Only = Annotated[
    str,
    typer.Option(
        "--only",
        metavar="WHICH",
        help="all; recovered: processed, or skipped as duplicates; failed: parked, quarantined,"
        " or without a known outcome.",
    ),
]
Again = Annotated[
    bool,
    typer.Option(
        "--again",
        help="Give them a new idempotency key: the consumer processes what it has processed.",
    ),
]
Approve = Annotated[
    bool, typer.Option("--approve", help="Let a second person agree before anything is sent.")
]


def repeat(
    session: Session,
    run: Run,
    only: Only = "all",
    ids: Ids = None,
    again: Again = False,
    pipeline: OnePipeline = None,
    rate: Rate = None,
    approve: Approve = False,
    why: Why = None,
    yes: Yes = False,
) -> Reply[RepeatStarted]:
    """Send the letters of an ended run once more, as they were, also those that were processed.

    A run keeps each letter as it took it, for replay_days. New letters are made of them, in a
    run of its own: in order, with canaries, approval, hold and report. Without --again the
    consumer library skips what it has processed; with it, effects happen once more. No
    person sees a letter by this: the function makes them.
    """
    if only not in REPEATED:
        raise Problem(f"--only is {', '.join(REPEATED)}, not {only!r}.", Cause.INPUT)
    switch = RunSwitch(session, pipeline, run)
    if switch.before.is_live:
        raise Problem(
            f"Run {switch.id} is {switch.before.state}: only an ended run can be repeated. "
            f"dlq show {switch.id} --watch waits for its end.",
            Cause.FAILED,
        )
    repeating = RunToRepeat(
        switch,
        only=only,
        ids=ids or (),
        again=again,
        rate=rate,
        approve=approve,
        why=asking.reason(why, "A repetition", option="--why"),
    )
    if not yes:
        asking.confirm(
            session,
            *(f"! {warning}" for warning in repeating.warnings),
            f"Send {count(repeating.letters, 'letter')} of run {switch.id} once more?",
        )
    return Reply(repeating.start(), _show)


def _show(answer: RepeatStarted) -> Iterator[Block]:
    new = "with a new key" if answer.again else "with the key that they had"
    yield line(
        Styled(f"Run {answer.run.run}", "strong"),
        f" sends {count(answer.letters, 'letter')} of run {answer.repeats} once more, {new}.",
    )
    for warning in answer.warnings:
        yield line(Styled("! ", "alarm"), warning)
    yield line(f"Watch it: dlq show {answer.run.run} --watch")
