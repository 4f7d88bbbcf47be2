"""What a pipeline in mode observe would have done with its messages, by decision and cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from deadletter.contract import Mode
from deadletter.signals.troubles import Fact, Seen, TroubleKind

from .app import App, DeployedPipeline
from .deadline import Asking, side_by_side
from .errors import aws_errors
from .session import Here, Session
from .words import clock, count, moment, waits_for

if TYPE_CHECKING:
    from deadletter.failure.ledger import LedgerRow
    from deadletter.redrive.observed import ObservedLetter, WouldGo

# Rows of the failure records that one call reads.
_PART = 100

_DONE = {"REDRIVE": "retried", "HOLD": "held", "DIVERT": "diverted", "PARK": "parked"}
"""What would have been done with a number of messages; the likeliest first."""


@dataclass(frozen=True, slots=True)
class ObservedCounts:
    """What would have been done since observing began, each message counted once."""

    since: Annotated[datetime | None, "when observing began"]
    messages: Annotated[int, "messages that were decided on"]
    at_least: Annotated[bool, "whether there were more than the first 2,000 of each queue"]
    would: Annotated[Mapping[str, int], "of them by decision: REDRIVE, HOLD, DIVERT or PARK"]


@dataclass(frozen=True, slots=True)
class ObservedCause:
    """Messages of one cause that would have gone the same way."""

    action: Annotated[str, "REDRIVE, HOLD, DIVERT or PARK"]
    target: Annotated[str, "where to: main queue, what it waits for, dedicated DLQ, why parked"]
    rule: Annotated[str, "id of the rule that decided; empty if none did"]
    because: Annotated[str, "why, of the latest of them"]
    cause: Annotated[str, "the cause of the last failure; empty if none is on record"]
    category: Annotated[str, "what kind of failure; empty if none is on record"]
    error_type: Annotated[str, "the error; empty if it is not on record"]
    words: Annotated[str, "its text without data; empty if it is not kept"]
    messages: Annotated[int, "messages, each counted once, by its first decision"]
    processed: Annotated[int, "of them processed since by the consumer"]
    first: Annotated[datetime | None, "when the first of them was decided on"]
    last: Annotated[datetime | None, "when the last of them was decided on"]
    sample: Annotated[str, "ID of one of them: dlq show tells its story"]


@dataclass(frozen=True, slots=True)
class ObservedPipeline:
    """What mode observe would have done, with the causes."""

    counts: Annotated[ObservedCounts, "how many messages"]
    causes: Annotated[Sequence[ObservedCause], "the most messages first"]
    notes: Annotated[Sequence[str], "what is to know about these figures"]


def counted(session: Session, app: App, pipeline: DeployedPipeline) -> ObservedCounts | None:
    """What would have been done; None in another mode, and if nothing was observed."""
    found = _read(session, app, pipeline) if pipeline.mode == Mode.OBSERVE else None
    return found and found[0]


def read(session: Session, app: App, pipeline: DeployedPipeline) -> ObservedPipeline | None:
    """The same by decision and cause."""
    found = _read(session, app, pipeline)
    if found is None:
        return None
    counts, letters, notes = found
    rows = _rows(session, app, pipeline, list(letters), notes)
    return ObservedPipeline(counts, tuple(_grouped(letters, rows)), tuple(notes))


def seen(counts: ObservedCounts, now: datetime) -> Seen:
    """The card of what would have been done."""
    would = (f"{done} {counts.would[action]:,}" for action, done in _DONE.items()
             if counts.would.get(action))  # fmt: skip
    facts: dict[str, Fact] = {
        "messages": counts.messages,
        "would": ", ".join(would) or "done nothing",
        "least": "at least" if counts.at_least else "",
        "began": "" if counts.since is None else clock(counts.since, now),
    }
    return Seen(TroubleKind.OBSERVED, facts)


def where_to(cause: ObservedCause) -> str:
    """Where messages would have gone, in words."""
    match cause.action:
        case "REDRIVE":
            return "would be retried"
        case "HOLD":
            return f"would wait for {waits_for(cause.target.removeprefix('lane '))}"
        case "DIVERT":
            return f"would go into {cause.target}"
        case _:
            return f"would be parked: {cause.target}"


_Found = tuple[ObservedCounts, "Mapping[str, ObservedLetter]", list[str]]


def _read(session: Session, app: App, pipeline: DeployedPipeline) -> _Found | None:
    from deadletter.aws.observed import DynamoDBObserved

    store = DynamoDBObserved(session.aws.dynamodb, app.messages_table, pipeline.name, session.clock)
    with aws_errors():
        sources = store.read()
    if not sources:
        return None
    letters: dict[str, ObservedLetter] = {}
    for each in sources.values():
        letters |= each.messages
    more = sum(each.more for each in sources.values())
    only = f"Only the first {len(letters):,} messages are kept; there were "
    notes = [f"{only}{count(more, 'look')} at others."] if more else []
    since = moment(min(each.since for each in sources.values()))
    would = Counter(letter.where.action for letter in letters.values())
    return ObservedCounts(since, len(letters), more > 0, would), letters, notes


def _rows(
    session: Session,
    app: App,
    pipeline: DeployedPipeline,
    origins: Sequence[str],
    notes: list[str],
) -> Mapping[str, LedgerRow]:
    """The failure records of these messages; without them the causes are unknown."""
    rows: dict[str, LedgerRow] = {}

    ledger = Here(session, app, pipeline).ledger
    with side_by_side() as start:
        ask = Asking(start)
        parts = [origins[begin : begin + _PART] for begin in range(0, len(origins), _PART)]
        for read in [ask("Causes", ledger.rows, part) for part in parts]:
            rows.update(read() or {})
    notes += [f"{what} are missing: {why.says}" for what, why in ask.lost]
    return rows


def _since(row: LedgerRow, at: float) -> bool:
    return row.was_processed and (row.recovered_at or 0) >= at


def _grouped(
    letters: Mapping[str, ObservedLetter], rows: Mapping[str, LedgerRow]
) -> Iterator[ObservedCause]:
    groups: dict[tuple[WouldGo, str], list[str]] = {}
    for origin, letter in letters.items():
        last = rows[origin].last if origin in rows else None
        groups.setdefault((letter.where, last.fingerprint if last else ""), []).append(origin)
    for (where, cause), origins in sorted(groups.items(), key=lambda group: -len(group[1])):
        last = next((rows[each].last for each in origins if each in rows), None)
        times = [letters[origin].at for origin in origins]
        yield ObservedCause(
            action=where.action,
            target=where.target,
            rule=where.rule,
            because=letters[origins[-1]].because,
            cause=cause,
            category=str(last.category) if last else "",
            error_type=last.error_type if last else "",
            words=last.message if last else "",
            messages=len(origins),
            processed=sum(_since(rows[each], letters[each].at) for each in origins if each in rows),
            first=moment(min(times)),
            last=moment(max(times)),
            sample=origins[-1],
        )
