"""`dlq redrive`: start a run now. Only the Lambda function moves letters; this starts it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from deadletter.contract import MAIN_DLQ

from ..operations import redrive as operation
from ..operations.redrive import RedriveRun, RedriveTarget
from ..operations.session import Session
from ..operations.words import count, duration, moment
from . import asking
from .asking import OptionalWhy, Yes
from .command import OnePipeline, PipelineArgument, command, group, one_pipeline
from .exit import Exit
from .output import Block, Line, Reply, Styled, TextTable, line
from .progress import pause, waiting

typer_app = group("Start a re-drive run now, without waiting for the schedule.")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Decide and report; move nothing.")]
Source = Annotated[
    str,
    typer.Option("--source", metavar="ID", help="Which queue: dlq, or the id of a dedicated DLQ."),
]


@command(
    typer_app,
    "now",
    example=[
        "dlq redrive now orders --dry-run",
        "dlq redrive now --pipeline orders",
        "dlq redrive now --pipeline orders --source tenant-a --yes --json",
    ],
)
def now(
    session: Session,
    name: PipelineArgument = None,
    pipeline: OnePipeline = None,
    dry_run: DryRun = False,
    source: Source = MAIN_DLQ,
    why: OptionalWhy = None,
    yes: Yes = False,
) -> Reply[RedriveRun]:
    """Start a re-drive run now and wait for its report.

    The run is the same as the scheduled run: rules, backoff and circuit apply, nothing is
    forced. It starts at once where scheduled runs wait because earlier ones moved nothing.
    dlq asks before it starts and names account and region. A dry run judges a sample of
    letters, moves nothing and does not ask.

    Where another run is at work, or Lambda has no room, this waits for 15 minutes at most.

    Ctrl-C stops the waiting, not the run. The exit status is 1 if the run failed, could not
    do its work (its report names what AWS refused or did not answer), found other runs at work
    all the time, or left a letter that could not be judged or moved.
    """
    because = asking.why(why)
    queue = operation.target(session, one_pipeline(name, pipeline), source)
    if not (yes or dry_run):
        asking.confirm(session, _question(queue, operation.visible_letters(session, queue)))
    try:
        what = "A dry run looks at" if dry_run else "A run works on"
        with waiting(f"{what} {queue.pipeline.name} (Ctrl-C stops only the waiting)") as say:

            def pause_for_another(seconds: float) -> None:
                say(f"Waiting until another run of {queue.pipeline.name} has ended")
                pause(seconds)

            run = operation.start(
                session, queue, dry_run=dry_run, pause=pause_for_another, why=because
            )
    except KeyboardInterrupt:
        sys.stderr.write(
            "\nStopped waiting; a run that is at work goes on to its end: see dlq status.\n"
        )
        raise
    return Reply(run, show, Exit.ATTENTION if run.needs_person else Exit.DONE)


def _question(queue: RedriveTarget, visible: int) -> str:
    name = "the DLQ" if queue.source == MAIN_DLQ else f"dedicated DLQ {queue.source}"
    run, letters = f"Start a run of {queue.pipeline.name}", count(visible, "letter")
    if queue.observes:
        return f"{run} over {letters} in {name} (observe: moves nothing)."
    return f"{run} that may move {letters} out of {name}."


_IN_THE_HEADING = {"pipeline", "source", "dry_run", "stopped", "ended_well", "trouble", "letters"}
_FIRST = (
    *("decisions", "received", "moved", "failed", "left"),
    *("possible_duplicates", "possible_duplicates_of_killed_runs"),
)


def show(run: RedriveRun) -> Iterator[Block]:
    """The report for a person."""
    report = run.report
    what = "Dry run" if run.dry_run else "Run"
    yield line(
        Styled(f"{what} of {run.pipeline}", "strong"),
        f" over {run.source} in account {run.account}, {run.region}",
    )
    yield line(f"Ended because: {report.get('stopped') or 'the run gave no reason'}")
    if run.was_busy:
        yield line(
            Styled("Nothing was done: other runs were at work all the time.", "alarm"),
            f" Type dlq status {run.pipeline} to see what they do.",
        )
    elif not run.ended_well:
        yield line(Styled("The run could not do its work.", "alarm"), f" {_next(run)}")
    yield Line()
    known = [name for name in _FIRST if name in report]
    names = [*known, *(name for name in report if name not in {*known, *_IN_THE_HEADING})]
    figures = [name for name in names if not isinstance(report[name], dict)]
    yield TextTable((), [(_title(name), _value(name, report[name])) for name in figures])
    for name in names:
        if isinstance(report[name], dict) and report[name]:
            yield Line()
            rows = [(str(key), _text(value)) for key, value in report[name].items()]
            yield TextTable((_title(name).upper(), ">"), rows)
    yield from _letters(run)
    if run.dry_run:
        yield Line()
        yield line("Nothing was moved.")


# More do not fit on a screen.
_MOST_LETTERS = 20


def _letters(run: RedriveRun) -> Iterator[Block]:
    """Which letters would go where, when and why."""
    letters = [letter for letter in run.report.get("letters", ()) if isinstance(letter, dict)]
    if not letters:
        return
    yield Line()
    yield TextTable(
        ("LETTER", "DECISION", "WHEN", "BECAUSE"),
        [
            (
                str(letter.get("message_id")),
                _decision(letter),
                _when(letter),
                str(letter.get("because", "")),
            )
            for letter in letters[:_MOST_LETTERS]
        ],
    )
    if (more := len(letters) - _MOST_LETTERS) > 0:
        yield line(f"and {count(more, 'more letter')}: add --json")


def _decision(letter: Mapping[str, Any]) -> str:
    target = letter.get("lane") or letter.get("queue") or letter.get("reason")
    return f"{letter.get('action')} {target}" if target else str(letter.get("action"))


def _when(letter: Mapping[str, Any]) -> str:
    delay, due = letter.get("delay"), moment(letter.get("due"))
    if isinstance(delay, int):
        return f"after {duration(delay)}" if delay else "now"
    return due.strftime("%d %b %H:%M UTC") if due else ""


def _next(run: RedriveRun) -> str:
    """What a person does after a run that could not do its work."""
    source = "" if run.source == MAIN_DLQ else f" --source {run.source}"
    again = f"type dlq redrive now --pipeline {run.pipeline}{source} again"
    if run.trouble is not None:
        return (
            f"{run.trouble}: if it is a missing permission, deploy or grant it; if it is "
            f"throttling, wait a minute; then {again}."
        )
    return (
        "It received letters and moved none of them; they are still in their queue. "
        f"The figures below and the function's log say why; mend that, then {again}."
    )


def _title(name: str) -> str:
    return name.replace("_", " ")


def _value(name: str, value: Any) -> str | Styled:
    text = _text(value)
    return Styled(text, "alarm") if name == "failed" and value else text


def _text(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case dict():
            return ", ".join(f"{key} {_text(member)}" for key, member in value.items()) or "none"
        case list():
            return ", ".join(map(_text, value)) or "none"
        case None:
            return "none"
        case _:
            return str(value)
