"""What a pipeline in mode observe would have done with its messages, by decision and cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from deadletter.signals.troubles import Fact, Seen, TroubleKind

from .adapter_errors import aws_errors
from .app import App, DeployedPipeline
from .aws import side_by_side
from .life_record import ledger_of
from .problem import Problem
from .session import Session
from .waiting import waits_for
from .words import clock, count, moment

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
    """What would have been done; None if nothing was observed."""
    found = _read(session, app, pipeline)
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

    store = DynamoDBObserved(session.aws.dynamodb, app.letters_table, pipeline.name, session.clock)
    with aws_errors():
        sources = store.read()
    if not sources:
        return None
    letters = {
        origin: letter for each in sources.values() for origin, letter in each.letters.items()
    }
    more = sum(each.more for each in sources.values())
    notes = []
    if more:
        notes.append(
            f"Only the first {len(letters):,} messages are kept; there were "
            f"{count(more, 'look')} at others."
        )
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
    ledger = ledger_of(session, app, pipeline)

    def reading(part: Sequence[str]) -> Callable[[], Mapping[str, LedgerRow]]:
        def read() -> Mapping[str, LedgerRow]:
            with aws_errors():
                return ledger.rows(part)

        return read

    def lost(problem: Problem) -> None:
        notes.append(f"Causes are missing: {problem.says}")

    rows: dict[str, LedgerRow] = {}
    with side_by_side() as start:
        parts = [origins[begin : begin + _PART] for begin in range(0, len(origins), _PART)]
        for read in [start(reading(part)) for part in parts]:
            rows.update(read.result(lost) or {})
    return rows


@dataclass(slots=True)
class _Group:
    """The messages of one decision and cause."""

    letters: list[tuple[str, ObservedLetter]] = field(default_factory=list)
    processed: int = 0
    row: LedgerRow | None = None


def _grouped(
    letters: Mapping[str, ObservedLetter], rows: Mapping[str, LedgerRow]
) -> Iterator[ObservedCause]:
    groups: dict[tuple[WouldGo, str], _Group] = {}
    for origin, letter in letters.items():
        row = rows.get(origin)
        last = row.last if row else None
        group = groups.setdefault((letter.where, last.fingerprint if last else ""), _Group())
        group.letters.append((origin, letter))
        if row is not None:
            group.row = group.row or row
            group.processed += row.recovered_at is not None
    by_size = sorted(groups.items(), key=lambda item: -len(item[1].letters))
    for (where, cause), group in by_size:
        last = group.row.last if group.row else None
        times = [letter.at for _, letter in group.letters]
        sample, latest = group.letters[-1]
        yield ObservedCause(
            action=where.action,
            target=where.target,
            rule=where.rule,
            because=latest.because,
            cause=cause,
            category=str(last.category) if last else "",
            error_type=last.error_type if last else "",
            words=last.message if last else "",
            messages=len(group.letters),
            processed=group.processed,
            first=moment(min(times)),
            last=moment(max(times)),
            sample=sample,
        )
