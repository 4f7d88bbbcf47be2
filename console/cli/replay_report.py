"""`dlq replay rerun`: the failed letters of a run once more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations.parked_release import ParkedExit, ParkedMove
from ..operations.problem import Cause, Problem
from ..operations.replay_letters import letters_of
from ..operations.replay_report import ONLY
from ..operations.replay_runs import RunSwitch
from ..operations.session import Session
from ..operations.words import count
from . import asking, parked_release, replay_options
from .asking import Yes
from .command import OnePipeline
from .output import Block, Reply, Styled, line
from .replay_options import AcceptCollision, Rate, Run, Why

Only = Annotated[
    str,
    typer.Option(
        "--only",
        metavar="WHICH",
        help="failed: parked, quarantined; left: left over when the run was aborted.",
    ),
]


def rerun(
    session: Session,
    run: Run,
    only: Only = "failed",
    pipeline: OnePipeline = None,
    rate: Rate = None,
    accept_collision: AcceptCollision = False,
    why: Why = None,
    yes: Yes = False,
) -> Reply[ParkedExit]:
    """Replay the letters of an ended run once more: those that failed, or that it left over.

    The run's own manifest says which; nothing is chosen anew. They are where the run has
    put them, in the parking lot, and go to the main queue with attempts counted anew.
    """
    if only not in ONLY:
        raise Problem(f"--only is {' or '.join(ONLY)}, not {only!r}.", Cause.INPUT)
    switch = RunSwitch(session, pipeline, run)
    if switch.before.is_live:
        raise Problem(
            f"Run {switch.id} is {switch.before.state}: a rerun takes what an ended run has left. "
            f"dlq show {switch.id} --watch waits for its end.",
            Cause.FAILED,
        )
    origins = tuple(letter.name.origin for letter in letters_of(switch) if ONLY[only](letter))
    if not origins:
        raise Problem(
            f"Run {switch.id} has no letter that is {only}: nothing was done. "
            f"dlq show {switch.id} has the figures.",
            Cause.ABSENT,
        )
    move = ParkedMove(
        session,
        switch.pipeline.name,
        replay_options.selection(session, ids=origins),
        why=asking.reason(why, "A rerun", option="--why"),
        rate=rate,
        accept_collision=accept_collision,
        command="replay rerun",
        progress=replay_options.progress,
    )
    replay_options.end_progress()
    elsewhere = len(origins) - move.letters - sum(move.left_out.values())
    note = (
        f"Not in the parking lot, and not replayed: {count(elsewhere, 'letter')} of "
        f"{len(origins):,}. They have no known outcome, or were released or discarded before."
        if elsewhere > 0
        else ""
    )
    if not yes:
        asking.confirm(
            session, *parked_release.question(move, "Replay again"), *filter(None, [note])
        )

    def show(answer: ParkedExit) -> Iterator[Block]:
        yield from parked_release.show(answer)
        if note:
            yield line(Styled("! ", "alarm"), note)

    return Reply(move.start(), show)
