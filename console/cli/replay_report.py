"""`dlq replay report` and `rerun`: what became of each letter, and the failed ones once more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..operations.parked_release import ParkedExit, ParkedMove
from ..operations.private_file import new_private_file
from ..operations.problem import Cause, Problem
from ..operations.replay_letters import letters_of
from ..operations.replay_page import page
from ..operations.replay_report import (
    MEANING,
    ONLY,
    GroupAccount,
    RunAccount,
    report,
)
from ..operations.replay_runs import RunSwitch
from ..operations.session import Session
from ..operations.words import count
from . import asking, parked_release, replay_options
from .asking import Yes
from .command import OnePipeline
from .exit import Exit
from .output import Block, Line, Reply, Styled, TextTable, line
from .replay_options import AcceptCollision, Rate, Why
from .replay_runs import Run

Html = Annotated[
    str | None,
    typer.Option("--html", metavar="FILE", help="Write one page with charts into a new file."),
]
Only = Annotated[
    str,
    typer.Option(
        "--only",
        metavar="WHICH",
        help="failed: parked, quarantined; left: left over when the run was aborted.",
    ),
]


_OF_ENTITIES = (
    "RECOVERED: the consumer ended without an error. What it has made of your orders or accounts "
    "is in its own store: look a few up there (dlq explain ID says when each was processed), "
    "first those of which newer messages came meanwhile."
)


def report_(
    session: Session, run: Run, pipeline: OnePipeline = None, html: Html = None
) -> Reply[RunAccount]:
    """Say what became of each letter of a run: the sum is the snapshot, or it is BROKEN.

    A run that has ended has a report in the bucket; of a live run the figures are as of
    now. The page of --html is one file, with nothing from other hosts and without bodies.

    The exit status is 1 if letters are unaccounted for, or if the run did not take all
    letters that its plan has counted.
    """
    account = report(RunSwitch(session, pipeline, run))
    if html is not None:
        with new_private_file(Path(html)) as file:
            file.write(page(account))
        account = replace(account, file=html)
    attention = account.unaccounted or account.missed
    return Reply(account, _show_report, Exit.ATTENTION if attention else Exit.DONE)


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
            f"dlq replay show {switch.id} --watch waits for its end.",
            Cause.FAILED,
        )
    origins = tuple(letter.name.origin for letter in letters_of(switch) if ONLY[only](letter))
    if not origins:
        raise Problem(
            f"Run {switch.id} has no letter that is {only}: nothing was done. "
            f"dlq replay report {switch.id} has the figures.",
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


def _show_report(account: RunAccount) -> Iterator[Block]:
    run = account.run
    yield line(
        Styled(f"Replay run {run.run} of {run.pipeline}", "strong"),
        f" in account {account.account}, {account.region}: {run.state}",
    )
    yield line(Styled(account.says, "alarm" if account.unaccounted else "good"))
    if account.missed:
        yield line(Styled("! ", "alarm"), account.missed)
    if not account.final:
        yield line("The run has not ended: these are the figures as of now.")
    yield Line()
    yield TextTable(
        ("OUTCOME", ">LETTERS", "MEANS"),
        [
            *((name, f"{number:,}", MEANING.get(name, "")) for name, number in _rows(account)),
            ("snapshot", f"{account.letters:,}", ""),
        ],
    )
    if account.counts.get("RECOVERED"):
        yield line(_OF_ENTITIES)
    tables = (
        ("CAUSE", account.causes),
        ("TENANT", account.tenants),
        ("ORDERING KEY", account.keys),
    )
    for title, groups in tables:
        if any(group.name for group in groups):
            yield Line()
            yield TextTable((title, ">LETTERS", "OUTCOMES"), [_group(group) for group in groups])
    yield Line()
    if account.unaccounted:
        yield from _show_missing(account)
    if account.file is not None:
        yield line(f"The page is {account.file}.")
    if not account.final:
        yield line(f"See: dlq replay show {run.run}")
        return
    if account.counts.get("PARKED") or account.counts.get("QUARANTINED"):
        yield line(f"Try the failed ones again: dlq replay rerun {run.run} --only failed")
    if account.counts.get("RECOVERED"):
        yield line(f"Were they processed wrongly?   dlq replay repeat {run.run} --again")
    if account.counts.get("LEFT"):
        yield line(f"Replay those left over:    dlq replay rerun {run.run} --only left")


def _show_missing(account: RunAccount) -> Iterator[Block]:
    """The letters without an outcome, and what to do about them."""
    run, letters = account.run, account.missing
    if letters:
        more = account.unaccounted - len(letters)
        yield line(f"Without an outcome{f', and {more:,} more' if more > 0 else ''}:")
        for origin in letters:
            yield line(origin, indent=2)
    yield line(
        "Look for each in the consumer's log, and with dlq parked show ID --pipeline "
        f"{run.pipeline}. Then park what is left: dlq replay abort {run.run}"
    )
    yield Line()


def _rows(account: RunAccount) -> Iterator[tuple[str, int]]:
    yield from account.counts.items()
    yield "UNACCOUNTED", account.unaccounted


def _group(group: GroupAccount) -> tuple[str, str, str]:
    counts = ", ".join(f"{number:,} {name.lower()}" for name, number in group.counts.items())
    category = f" ({group.category})" if group.category else ""
    return f"{group.name or 'not on record'}{category}", f"{group.letters:,}", counts
