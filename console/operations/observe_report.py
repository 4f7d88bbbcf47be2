"""What a pipeline in mode observe would have done with its letters, by decision and cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from deadletter.contract import Mode

from .adapter_errors import aws_errors
from .answer import Answer
from .app import App, DeployedPipeline
from .aws import side_by_side
from .life_record import ledger_of
from .problem import Problem
from .session import Session
from .words import count, moment

if TYPE_CHECKING:
    from deadletter.failure.ledger import LedgerRow
    from deadletter.redrive.observed import ObservedLetter, WouldGo

# Rows of the ledger that one call reads.
_PART = 100


@dataclass(frozen=True, slots=True)
class ObservedCause:
    """Letters of one cause that would have gone the same way."""

    action: Annotated[str, "REDRIVE, HOLD, DIVERT or PARK"]
    target: Annotated[str, "where to: main queue, the lane, the dedicated DLQ, or why parked"]
    rule: Annotated[str, "id of the rule that decided; empty if none did"]
    because: Annotated[str, "why, of the latest of them"]
    cause: Annotated[str, "fingerprint of the last failure; empty if none is on record"]
    category: Annotated[str, "what kind of failure; empty if none is on record"]
    error_type: Annotated[str, "the error; empty if it is not on record"]
    words: Annotated[str, "its text without data; empty if it is not kept"]
    letters: Annotated[int, "letters, each counted once, by its first decision"]
    processed: Annotated[int, "of them processed since by the consumer"]
    first: Annotated[datetime | None, "when the first of them was judged"]
    last: Annotated[datetime | None, "when the last of them was judged"]
    sample: Annotated[str, "id of one of them: dlq show tells its life"]


@dataclass(frozen=True, slots=True)
class ObserveReport(Answer):
    """What `dlq observe report` answers."""

    at: Annotated[datetime, "when it was read"]
    causes: Annotated[Sequence[ObservedCause], "the most letters first"]
    pipeline: Annotated[str, "name of the pipeline"]
    mode: Annotated[str, "its mode now: observe or enforce"]
    since: Annotated[datetime | None, "when observing began; null if nothing was observed"]
    letters: Annotated[int, "letters that were judged, each once"]
    at_least: Annotated[bool, "whether there were more letters than are kept"]
    notes: Annotated[Sequence[str], "what is to know about these figures"]


def report(session: Session, pipeline: str | None) -> ObserveReport:
    """What mode observe would have done since it began, by decision and cause."""
    from deadletter.aws.observed import DynamoDBObserved

    app = session.app()
    chosen = app.pipeline(pipeline)
    store = DynamoDBObserved(session.aws.dynamodb, app.letters_table, chosen.name, session.clock)
    with aws_errors():
        sources = store.read()
    letters = {
        origin: letter for each in sources.values() for origin, letter in each.letters.items()
    }
    notes: list[str] = []
    rows = _rows(session, app, chosen, list(letters), notes)
    more = sum(each.more for each in sources.values())
    if more:
        notes.append(
            f"Only the first {len(letters):,} letters are kept; there were {count(more, 'look')} "
            "at others."
        )
    if chosen.mode != Mode.OBSERVE:
        notes.append("The pipeline does not observe any more: this is what it saw until then.")
    return ObserveReport(
        **session.place,
        at=session.now,
        causes=tuple(_grouped(letters, rows)),
        pipeline=chosen.name,
        mode=chosen.mode,
        since=moment(min((each.since for each in sources.values()), default=None)),
        letters=len(letters),
        at_least=more > 0,
        notes=tuple(notes),
    )


def _rows(
    session: Session,
    app: App,
    pipeline: DeployedPipeline,
    origins: Sequence[str],
    notes: list[str],
) -> Mapping[str, LedgerRow]:
    """The ledger's rows of these letters; without them the causes are unknown."""
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
    """The letters of one decision and cause."""

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
            letters=len(group.letters),
            processed=group.processed,
            first=moment(min(times)),
            last=moment(max(times)),
            sample=sample,
        )
