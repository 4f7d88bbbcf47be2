"""The view of a run: how far it is, and what became of each of its messages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ..operations.replay_report import MEANING, GroupAccount, RunAccount
from ..operations.replay_runs import ReplayDetails, ReplayRow, progress
from ..operations.words import clock, duration
from . import runs
from .output import Block, Line, Styled, TextTable, line, said, typed

_OF_ENTITIES = (
    "RECOVERED: the consumer ended without an error. What it has made of your orders or accounts "
    "is in its own store: look a few up there (a message is shown with when it was processed), "
    "first those of which newer messages came meanwhile."
)


def show_run(answer: ReplayDetails) -> Iterator[Block]:
    """How far a run is, for a person."""
    run, now = answer.run, answer.at
    yield line(Styled(f"Run {run.run} of {run.pipeline}", "strong"), ": ", runs.state(run.state))
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
    ago = duration((now - run.changed).total_seconds())
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
    if account.counts.get("PARKED") or account.counts.get("QUARANTINED"):
        yield from _typed(
            "the failed ones again:", f"dlq retry --in run:{run.run} -f outcome=failed"
        )
    if account.counts.get("RECOVERED"):
        yield from _typed("processed wrongly?", f"dlq retry --in run:{run.run} --again")
    if account.counts.get("LEFT"):
        yield from _typed("those left over:", f"dlq retry --in run:{run.run} -f outcome=left")


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
    yield from _typed("then park what is left:", f"dlq run abort {run.run}")
    yield Line()


def _rows(account: RunAccount) -> Iterator[tuple[str, int]]:
    yield from account.counts.items()
    yield "UNACCOUNTED", account.unaccounted


def _group(group: GroupAccount) -> tuple[str, str, str]:
    counts = ", ".join(f"{number:,} {name.lower()}" for name, number in group.counts.items())
    category = f" ({group.category})" if group.category else ""
    return f"{group.name or 'not on record'}{category}", f"{group.messages:,}", counts
