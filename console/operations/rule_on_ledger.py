"""A rule tried on what the ledger keeps of failing letters: not on bodies, which it has none of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deadletter.contract import CAUSE_SHARDS, DAY, LedgerContext
from deadletter.failure.cause_index import CauseEntry
from deadletter.rules.accepted import ABSENT
from deadletter.rules.fields import plain_number
from deadletter.rules.pattern import Alternative, Field, Pattern, compile_pattern
from deadletter.settings.pipeline import Pipeline

from . import deployed
from .adapter_errors import aws_errors
from .app import DeployedPipeline
from .problem import Cause, Problem
from .session import Session

MOST_ROWS = 20_000
"""Letters that are read at most."""

_PAGE = 1_000
_READ = ("category", "blame", "error_type", "http_status", "context", "life")


DAYS = 7
"""Days back from now in which a letter has failed."""


@dataclass(frozen=True, slots=True)
class LedgerOutcome:
    """The result of a rule on the letters in the ledger that failed of late and may come back.

    `untold` are letters of which the ledger does not keep what the rule reads; `tenants` is None if
    it keeps no tenants. With `is_at_least` there are more letters than were read.
    """

    looked_at: int
    matching: Sequence[str]
    tenants: int | None
    untold: int
    why_untold: Sequence[str]
    is_at_least: bool


def on_ledger(
    session: Session, pipeline: DeployedPipeline, pattern: Mapping[str, Any], table: str
) -> LedgerOutcome:
    """What a valid pattern matches of the letters that failed within DAYS."""
    from deadletter.rules.document import TENANT

    settings = deployed.judge(session.aws, pipeline).settings
    compiled = compile_pattern(pattern)
    since = session.clock() - DAYS * DAY
    matching: list[str] = []
    tenants: set[str] = set()
    looked = untold = read = 0
    for entry in _entries(session, table, pipeline.name):
        read += 1
        if entry.seen < since:
            continue
        looked += 1
        says = holds(compiled, known_of(entry, settings))
        untold += says is None
        if says:
            matching.append(entry.origin)
            tenants.add(entry.about.context.get(TENANT, ""))
    keeps_tenants = settings.ledger_context is not LedgerContext.NONE and TENANT in settings.context
    return LedgerOutcome(
        looked,
        matching,
        len(tenants - {""}) if keeps_tenants else None,
        untold,
        tuple(sorted(unkept(compiled, settings))) if untold else (),
        read >= MOST_ROWS,
    )


def _entries(session: Session, table: str, pipeline: str) -> Iterator[CauseEntry]:
    from deadletter.aws.cause_entries import DynamoDBCauseEntries, NoCauseIndex

    index = DynamoDBCauseEntries(session.aws.dynamodb, table, pipeline)
    left = MOST_ROWS
    for shard in range(CAUSE_SHARDS):
        last: Mapping[str, Any] | None = None
        while left > 0:
            with aws_errors():
                try:
                    page = index.page(shard, min(_PAGE, left), _READ, after=last)
                except NoCauseIndex as error:
                    raise Problem(
                        "The deployed version keeps no index of causes: deploy again to have one.",
                        Cause.ABSENT,
                    ) from error
            left -= len(page.entries)
            yield from page.entries
            last = page.last
            if last is None:
                break


def known_of(entry: CauseEntry, settings: Pipeline) -> Mapping[str, Any]:
    """The fields of a letter's document, by dotted name, as far as its row tells them.

    `context` is in it if the ledger keeps its values as they are.
    """
    known: dict[str, Any] = {
        "pipeline": settings.name,
        "failure.category": entry.category,
        "failure.blame": str(entry.blame),
        "failure.error_type": entry.error_type,
        "failure.fingerprint": entry.fingerprint,
        "redrive.attempt": entry.attempt,
    }
    if entry.http_status is not None:
        known["failure.http_status"] = entry.http_status
    if settings.ledger_context is LedgerContext.PLAIN:
        known["context"] = entry.about.context
        known |= {f"context.{name}": value for name, value in entry.about.context.items()}
    return known


def unkept(pattern: Pattern, settings: Pipeline) -> set[str]:
    """What a pattern reads that the ledger does not keep, in words."""
    words = set()
    for field in pattern.fields:
        top = field.name.partition(".")[0]
        if top in ("body", "attributes"):
            words.add("bodies and attributes are not kept")
        elif _is_unkept(field.name, settings):
            is_hash = top == "context"
            words.add("contexts are hashed or left out" if is_hash else f"{field.name} is not kept")
    return words


def _is_unkept(name: str, settings: Pipeline) -> bool:
    top = name.partition(".")[0]
    if top == "context":
        return settings.ledger_context is not LedgerContext.PLAIN
    return top in ("body", "attributes", "system") or name == "redrive.age_seconds"


def holds(pattern: Pattern, known: Mapping[str, Any]) -> bool | None:
    """Whether a pattern matches a letter of which only some fields are known; None: can't be told.

    One field that does not match is enough to say no, whatever the others are.
    """
    answers = [_all_hold(fields, known) for fields in pattern.alternatives]
    if any(answer is True for answer in answers):
        return True
    return None if None in answers else False


def _all_hold(fields: Alternative, known: Mapping[str, Any]) -> bool | None:
    answers = [_holds(field, known) for field in fields]
    if any(answer is False for answer in answers):
        return False
    return None if None in answers else True


_NEVER_KEPT = ("body", "attributes", "system")


def _holds(field: Field, known: Mapping[str, Any]) -> bool | None:
    top = field.name.partition(".")[0]
    if top in _NEVER_KEPT or field.name == "redrive.age_seconds":
        return None
    if top == "context":
        return _context_holds(field, known)
    return field.comparison.test(known.get(field.name, ABSENT))


def _context_holds(field: Field, known: Mapping[str, Any]) -> bool | None:
    """The ledger keeps values as text, and texts that are too long not whole."""
    if "context" not in known:
        return None
    value = known.get(field.name, ABSENT)
    if value is ABSENT:
        return field.comparison.test(ABSENT)
    as_text = field.comparison.test(value)
    try:
        as_number = field.comparison.test(plain_number(float(value)))
    except ValueError:
        return as_text
    return as_text if as_text == as_number else None
