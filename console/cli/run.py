"""`dlq run`: runs as a person lists, steers, follows and reads them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import chain
from shlex import quote
from typing import TYPE_CHECKING, Any

from deadletter.replay.run import RunState

from ..operations.replay_census import StaysOut
from ..operations.replay_plan import RunsStarted
from ..operations.replay_report import MEANING, GroupAccount, RunAccount
from ..operations.replay_runs import (
    IN_TROUBLE,
    ReplayChange,
    ReplayDetails,
    ReplayList,
    ReplayRow,
    RunSwitch,
    details,
    is_at_rest,
    missed,
    progress,
)
from ..operations.run_verbs import CHANGES, LIST
from ..operations.session import Session
from ..operations.verbs import Verb
from ..operations.words import clock, count, duration
from . import output
from .output import Block, Line, Styled, TextTable, line, said, typed
from .verb import VerbView

if TYPE_CHECKING:
    from ..operations.retry import Retried

# Seconds between two looks at a run that is watched.
WATCH_SECONDS = 2.0


def watched(switch: RunSwitch, answer: ReplayDetails) -> ReplayDetails:
    """Shows each change until the run has ended, or needs a person; returns the last."""
    shown = ""
    while True:
        text = progress(answer)
        if text != shown:
            output.show([line(f"{answer.at:%H:%M:%S} UTC  {text}")], sys.stderr)
            shown = text
        if is_at_rest(answer):
            return answer
        switch.session.pause(WATCH_SECONDS)
        answer = details(switch)


def _followed(session: Session, answer: Any) -> Any:
    """The answer once its runs have ended, or wait for a person. Ctrl-C leaves them running."""
    rows: list[ReplayRow] = []
    try:
        for run in answer.runs:
            switch = RunSwitch(session, answer.pipeline, run.run)
            rows.append(watched(switch, details(switch)).run)
    except KeyboardInterrupt:
        going = [run.run for run in answer.runs[len(rows) :]]
        says = f"Stopped watching: {count(len(going), 'run')} still at work, by itself. See"
        watch = (f"dlq show {quote(run)} --watch" for run in going)
        output.show(said("\n".join((says, *watch))), sys.stderr)
        raise
    return replace(answer, runs=tuple(rows))


def needs_person(answer: Any) -> bool:
    """Whether a run waits for a person, or a message was not processed."""
    return not all(run.state == RunState.DONE and not _failed(run) for run in answer.runs)


def _failed(run: ReplayRow) -> int:
    return sum(run.counts.get(name, 0) for name in ("PARKED", "QUARANTINED", "UNKNOWN"))


def show_ended(answer: RunsStarted | Retried) -> Iterator[Block]:
    """What has become of the runs, and what to type next."""
    yield line(
        Styled(f"{count(answer.messages, 'message')} of {answer.pipeline}", "strong"),
        f" in account {answer.account}, {answer.region}",
    )
    for run in answer.runs:
        yield from show_run(run)
    yield from chain(*map(said, StaysOut(answer.left_out, answer.not_found).says()))


def view_of_runs(
    verb: Verb,
    show: Callable[[Any], Iterator[Block]] = show_ended,
    attention: Callable[[Any], object] = needs_person,
    **more: Any,
) -> VerbView:
    """The view of a verb that starts runs: it follows them to their end."""
    return VerbView(verb, show, follow=_followed, attention=attention, **more)


def show_run(run: ReplayRow) -> Iterator[Block]:
    """What has become of a run, and what to type next."""
    messages = "not yet counted" if run.messages is None else f"{run.messages:,}"
    yield line(
        f"run {run.run} ",
        state(run.state),
        f": {messages}{' = ' if run.messages else ''}{_sum(run)}",
    )
    if run.because:
        yield line(run.because, indent=2)
    for command in _next(run):
        yield from typed(command)


def _sum(run: ReplayRow) -> str:
    counts = {name: number for name, number in run.counts.items() if number}
    return " + ".join(f"{number:,} {outcome(name)}" for name, number in counts.items())


def outcome(name: str) -> str:
    """An outcome of a message in a run, as a person reads it."""
    return {
        "OPEN": "not sent",
        "SENT": "sent, no outcome yet",
        "RECOVERED": "processed",
        "DUPLICATE": "skipped as duplicates",
        "SUPERSEDED": "skipped for later ones",
        "PARKED": "parked",
        "QUARANTINED": "parked by the run",
        "UNKNOWN": "sent, with no known outcome",
        "LEFT": "left over",
        "STOPPED": "waiting again",
    }.get(name, name.lower())


def _next(run: ReplayRow) -> Iterator[str]:
    match run.state:
        case RunState.HELD:
            yield f"dlq run resume {quote(run.run)}"
            yield f"dlq run abort {quote(run.run)}"
        case RunState.WAITING_APPROVAL:
            yield f"dlq run approve {quote(run.run)}"
            yield f"dlq run reject {quote(run.run)}"
        case RunState.DONE if run.counts.get("DISCARDED") and run.keeps_copies:
            yield f"dlq restore {quote(run.run)}"
        case RunState.DONE if not _failed(run):
            return
        case _:
            yield f"dlq show {quote(run.run)}"


def state(name: str) -> Styled:
    """A run's state in its colour."""
    if name in IN_TROUBLE:
        return Styled(name, "alarm")
    return Styled(name, "good" if name == RunState.DONE else "strong")


def show_list(answer: ReplayList) -> Iterator[Block]:
    for row in answer.bad_rows:
        yield line(Styled(row.says, "alarm"))
        yield from typed(row.type or "dlq status")
    if not answer.runs:
        yield line(f"No run {'that can be read' if answer.bad_rows else 'is remembered'}.")
        return
    yield TextTable(
        ("RUN", "PIPELINE", "STATE", ">MESSAGES", ">ENDED", "STARTED", "BECAUSE"),
        [
            (
                run.run,
                run.pipeline,
                state(run.state),
                "" if run.messages is None else f"{run.messages:,}",
                f"{run.ended:,}",
                clock(run.created, answer.at) if run.created else "",
                _because(run),
            )
            for run in answer.runs
        ],
    )


def _because(run: ReplayRow) -> str:
    """Why a run is as it is, on one line of a list."""
    texts = [run.because]
    if run.lost:
        texts.append("its execution has ended")
    if missed(run):
        texts.append(f"{run.messages or 0:,} of {run.counted:,} counted messages joined")
    return "; ".join(text for text in texts if text)


_SAYS = {
    RunState.HELD: "Nothing is sent any more, at the latest two seconds from now. What is under "
    "way is awaited.",
    RunState.ABORTED: "It sends nothing any more. Its messages leave it within minutes.",
}


def _show_change(change: ReplayChange) -> Iterator[Block]:
    run = change.after
    yield line(
        Styled(f"Run {run.run} of {run.pipeline}", "strong"),
        f" in account {change.account}, {change.region}: {change.before.state} → ",
        state(run.state),
    )
    if (says := _SAYS.get(RunState(run.state))) is not None:
        yield line(says)
    following = list(_next(run)) if run.state == RunState.HELD else []
    for command in following or [f"dlq show {quote(run.run)} --watch"]:
        yield from typed(command)


def _is_troubled(answer: ReplayList) -> bool:
    runs = answer.runs
    return bool(answer.bad_rows) or any(run.state in IN_TROUBLE or run.lost for run in runs)


# A run that is shown.

_OF_ENTITIES = (
    "RECOVERED: the consumer ended without an error. What it has made of your orders or accounts "
    "is in its own store: look a few up there (a message is shown with when it was processed), "
    "first those of which newer messages came meanwhile."
)


def show_details(answer: ReplayDetails) -> Iterator[Block]:
    """How far a run is, for a person."""
    run, now = answer.run, answer.at
    yield line(Styled(f"Run {run.run} of {run.pipeline}", "strong"), ": ", state(run.state))
    yield line(progress(answer), indent=2)
    yield from said(f"Waits for: {answer.waits_for}", indent=2)
    if answer.missed:
        yield from said(f"! {answer.missed}", indent=2)
    yield Line()
    pace = f"{run.rate:g} of {answer.full_rate:g} messages/s"
    facts = {
        "from, to": f"{answer.source} to {answer.destination}",
        "planned by": f"{answer.who}: {answer.why}",
        "approved by": run.approved_by,
        "step": f"{run.step + 1} of {answer.steps}, at {pace}",
        "pace so far": f"{answer.messages_per_second:g} messages/s",
        "changed": _changed(run, now),
        "executions": f"{run.restarts + 1}, one after the other" if run.restarts else "",
        "expires": clock(run.expires, now) if run.expires else "",
    }
    yield TextTable((), [(f"  {name}", fact) for name, fact in facts.items() if fact])


def _changed(run: ReplayRow, now: datetime) -> str:
    if run.changed is None:
        return ""
    because = f": {run.because}" if run.because else ""
    ago = duration(now - run.changed)
    return f"{ago} ago by {run.by or 'its execution'}{because}"


def show_account(account: RunAccount) -> Iterator[Block]:
    """What became of each message of a run, for a person."""
    run = account.run
    yield Line()
    yield line(Styled(account.says, "alarm" if account.unaccounted else "good"))
    if not account.final:
        yield line("The run has not ended: these are the figures as of now.")
    yield Line()
    yield TextTable(
        ("OUTCOME", ">MESSAGES", "MEANS"),
        [
            *((name, f"{number:,}", MEANING.get(name, "")) for name, number in _rows(account)),
            ("all", f"{account.messages:,}", ""),
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
            yield TextTable((title, ">MESSAGES", "OUTCOMES"), [_group(group) for group in groups])
    yield Line()
    if account.unaccounted:
        yield from _show_missing(account)
    if account.file is not None:
        yield line(f"The page is {account.file}.")
    if not account.final:
        return
    again = f"dlq retry --in run:{quote(run.run)}"
    if account.counts.get("PARKED") or account.counts.get("QUARANTINED"):
        yield from _typed("the failed ones again:", f"{again} -f outcome=failed")
    if account.counts.get("RECOVERED"):
        yield from _typed("processed wrongly?", f"{again} --again")
    if account.counts.get("LEFT"):
        yield from _typed("those left over:", f"{again} -f outcome=left")


def _typed(why: str, command: str) -> Iterator[Block]:
    yield line(Styled(why, "faint"))
    yield from typed(command)


def _show_missing(account: RunAccount) -> Iterator[Block]:
    """The letters without an outcome, and what to do about them."""
    run, letters = account.run, account.missing
    if letters:
        more = account.unaccounted - len(letters)
        yield line(f"Without an outcome{f', and {more:,} more' if more > 0 else ''}:")
        for origin in letters:
            yield line(origin, indent=2)
    yield from _typed("Look for each, in the consumer's log too:", "dlq show ID --look --logs")
    yield from _typed("then park what is left:", f"dlq run abort {quote(run.run)}")
    yield Line()


def _rows(account: RunAccount) -> Iterator[tuple[str, int]]:
    yield from account.counts.items()
    yield "UNACCOUNTED", account.unaccounted


def _group(group: GroupAccount) -> tuple[str, str, str]:
    counts = ", ".join(f"{number:,} {name.lower()}" for name, number in group.counts.items())
    category = f" ({group.category})" if group.category else ""
    return f"{group.name or 'not on record'}{category}", f"{group.messages:,}", counts


VIEWS = (
    VerbView(LIST, show_list, attention=_is_troubled),
    *(VerbView(verb, _show_change) for verb in CHANGES),
)
