"""`dlq explain`: one letter's life."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer

from ..operations import life as operation
from ..operations.life import LetterLife, LetterTry
from ..operations.life_decision import BY_LEDGER, UNKNOWN, DecisionNow
from ..operations.life_place import Place, Where
from ..operations.session import Session
from ..operations.words import clock, duration, size
from .command import command, plain_typer
from .output import Block, Line, Part, Reply, Styled, TextTable, line

typer_app = plain_typer()

LetterId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="MessageId of the letter, in its first life or of a copy that we hold."
    ),
]
Narrowed = Annotated[
    str | None, typer.Option("--pipeline", metavar="NAME", help="Search this pipeline only.")
]


@command(
    typer_app,
    "explain",
    example=[
        "dlq explain 8f14e45f-ceea-467f-9575-2a8c1d6e2b11",
        "dlq explain 8f14e45f-ceea-467f-9575-2a8c1d6e2b11 --json --query 'places[0].where'",
    ],
)
def explain(session: Session, id_: LetterId, pipeline: Narrowed = None) -> Reply[LetterLife]:
    """One letter's life: why it failed, where it is, what to type.

    It reads the ledger, the waiting room and the latest replay runs, and finds the pipeline
    itself. Nothing is received from a queue, so nothing is hidden or counted: a letter in a
    queue is judged as its ledger row describes it. If all its queues are empty, it is gone. Of a
    discarded letter it says who discarded it, when and why, and where its copy is kept.

    The ledger keeps the last two failed receives of each of the last eight lives.
    """
    return Reply(operation.explain(session, id_, pipeline), show)


def show(life: LetterLife) -> Iterator[Block]:
    """The life for a person: where it is first, then its history, then what to type."""
    yield line(
        Styled(f"Letter {life.id}", "strong"),
        f" of {life.pipeline} in account {life.account}, {life.region}",
    )
    for place in life.places:
        yield from _place(place, life.at)
    if life.now is not None:
        yield from _decision(life.now, life.at)
    for note in life.notes:
        yield line(Styled("Note: ", "alarm"), note)
    yield Line()
    yield TextTable((), [(f"  {name}", fact) for name, fact in _facts(life) if fact])
    yield Line()
    if life.tries:
        yield TextTable(("WHEN", ">LIFE", ">RECEIVE", "WHAT"), list(_timeline(life)))
    else:
        yield line("The ledger has no failure of it.")
    if life.steps:
        yield Line()
        yield line("What you can type:")
        yield TextTable((), [(f"  {step.command}", step.effect) for step in life.steps])


_STYLES = {Where.PARKED: "alarm", Where.PROCESSED: "good", Where.DISCARDED: "alarm"}


def _place(place: Place, now: datetime) -> Iterator[Block]:
    since = f" Since {_when(place.since, now)}." if place.since else ""
    style = _STYLES.get(Where(place.where), "strong")
    yield line(Styled(place.where, style), f": {place.says}{since}")
    if place.because:
        by_rule = f" (rule {place.rule})" if place.rule else ""
        yield line(f"because: {place.because}{by_rule}", indent=2)
    if place.due:
        yield line(f"judged again at {clock(place.due, now)} at the latest", indent=2)


def _decision(decision: DecisionNow, now: datetime) -> Iterator[Block]:
    what = {
        "REDRIVE": f"REDRIVE to the main queue after {duration(decision.delay or 0)}",
        "HOLD": f"HOLD in lane {decision.lane}",
        "DIVERT": f"DIVERT to dedicated DLQ {decision.queue}",
        "PARK": f"PARK as {decision.reason}",
    }.get(decision.action, decision.action)
    until = f", at the latest until {clock(decision.due, now)}" if decision.due else ""
    yield line("If it were judged now: ", Styled(f"{what}{until}", "strong"))
    by_rule = f" (rule {decision.rule})" if decision.rule else ""
    yield line(f"because: {decision.because}{by_rule}", indent=2)
    if decision.held_back:
        yield line(f"no run takes it now: {decision.held_back}", indent=2)
    if decision.by == BY_LEDGER:
        yield line(
            "judged by what the ledger keeps of it: its failures, context and endpoint; "
            "dlq rules explain reads the letter itself"
            if decision.action == UNKNOWN
            else "judged by what the ledger keeps of it, which is all that decides",
            indent=2,
        )


def _facts(life: LetterLife) -> Iterator[tuple[str, str]]:
    yield "origin", life.origin if life.origin != life.id else "this id"
    yield "trace", life.trace
    yield "first sent", _when(life.first_sent, life.at)
    yield "first failed", _when(life.first_failed, life.at)
    yield "re-drives", str(life.attempts)
    yield "released", _when(life.released_at, life.at)
    yield "context", ", ".join(f"{name} = {value}" for name, value in life.context.items())
    yield "endpoint", life.endpoint
    yield "size", size(life.size) if life.size is not None else ""


def _when(at: datetime | None, now: datetime) -> str:
    if at is None:
        return ""
    return f"{clock(at, now)}, {duration((now - at).total_seconds())} ago"


def _timeline(life: LetterLife) -> Iterator[tuple[Part, ...]]:
    """Each life's decision, once, and its failures."""
    told = {0}
    for each in life.tries:
        if each.life not in told and each.sent_at is not None:
            rule = f", rule {each.sent_rule}" if each.sent_rule else ""
            because = each.sent_because or "the reason is not on record"
            yield (_at(each.sent_at, life.at), str(each.life), "",
                   Styled(f"sent back: {because}{rule}", "faint"))  # fmt: skip
        told.add(each.life)
        yield (_at(each.at, life.at), str(each.life), str(each.receive), _failure(each))


def _at(at: datetime | None, now: datetime) -> str:
    if at is None:
        return ""
    day = "" if at.date() == now.date() else f"{at:%d %b} "
    return f"{day}{at:%H:%M:%S}"


def _failure(each: LetterTry) -> str:
    error = ": ".join(text for text in (each.error_type, each.message) if text) or "no text"
    status = f" (HTTP {each.http_status})" if each.http_status else ""
    facts = [
        each.category,
        f"at {each.place}" if each.place else "",
        "not counted against it: it had to wait" if each.blameless else "",
        f"{duration(each.waited)} after the life before" if each.waited is not None else "",
    ]
    return f"{error}{status} [{', '.join(fact for fact in facts if fact)}]"
