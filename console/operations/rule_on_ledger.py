"""A rule tried on what the ledger keeps of failing letters: not on bodies, which it has none of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deadletter.contract import CAUSE_SHARDS, DAY, LedgerKeeps
from deadletter.failure.cause_index import CUT, CauseEntry
from deadletter.failure.ledger import LedgerRow
from deadletter.rules.accepted import ABSENT
from deadletter.rules.fields import plain_number
from deadletter.rules.pattern import Alternative, Field, Pattern, compile_pattern
from deadletter.settings.pipeline import Pipeline

from . import deployed
from .adapter_errors import aws_errors
from .app import DeployedPipeline
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
    keeps_tenants = settings.ledger is not LedgerKeeps.NONE and TENANT in settings.context
    return LedgerOutcome(
        looked,
        matching,
        len(tenants - {""}) if keeps_tenants else None,
        untold,
        tuple(sorted(unkept(compiled, settings))) if untold else (),
        read >= MOST_ROWS,
    )


def _entries(session: Session, table: str, pipeline: str) -> Iterator[CauseEntry]:
    from deadletter.aws.cause_entries import DynamoDBCauseEntries

    index = DynamoDBCauseEntries(session.aws.dynamodb, table, pipeline)
    left = MOST_ROWS
    for shard in range(CAUSE_SHARDS):
        last: Mapping[str, Any] | None = None
        while left > 0:
            with aws_errors():
                page = index.page(shard, min(_PAGE, left), _READ, after=last)
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
    if settings.ledger is LedgerKeeps.PLAIN:
        known["context"] = entry.about.context
        known |= {f"context.{name}": value for name, value in entry.about.context.items()}
    return known


def known_by_row(row: LedgerRow, attempts_used: int, settings: Pipeline) -> Mapping[str, Any]:
    """The same fields by a letter's whole row.

    A field of body or attributes is in it if the context keeps it under a name: by a plain path.
    """
    known: dict[str, Any] = {"pipeline": settings.name, "redrive.attempt": attempts_used}
    if (last := row.last) is not None:
        known |= {
            "failure.category": str(last.category),
            "failure.blame": str(last.blame),
            "failure.error_type": last.error_type,
            "failure.fingerprint": last.fingerprint,
        }
        if last.http_status is not None:
            known["failure.http_status"] = last.http_status
    # A row without a size knows nothing of its letter.
    if settings.ledger is LedgerKeeps.PLAIN and row.size is not None:
        known["context"] = row.context
        for name, value in row.context.items():
            known[f"context.{name}"] = value
            if _PLAIN_PATH.fullmatch(path := settings.context.get(name, "")):
                known[path] = value
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
        return settings.ledger is not LedgerKeeps.PLAIN
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

_PLAIN_PATH = re.compile(rf"(?:{'|'.join(_NEVER_KEPT)})(?:\.[A-Za-z_][A-Za-z0-9_]*)+")
"""A path of the context that names one field, as a pattern does."""


def _holds(field: Field, known: Mapping[str, Any]) -> bool | None:
    top = field.name.partition(".")[0]
    if top in _NEVER_KEPT:
        return _value_holds(field, known[field.name]) if field.name in known else None
    if field.name == "redrive.age_seconds":
        return None
    if top == "context":
        if "context" not in known:
            return None
        return _value_holds(field, known.get(field.name, ABSENT))
    return field.comparison.test(known.get(field.name, ABSENT))


def _value_holds(field: Field, value: Any) -> bool | None:
    """The ledger keeps values as text, and texts that are too long not whole."""
    if value is ABSENT:
        return field.comparison.test(ABSENT)
    if value.endswith(CUT):
        return None
    values: list[Any] = [value]
    with suppress(ValueError):
        values.append(plain_number(float(value)))
    if value in ("true", "false"):
        values.append(value == "true")
    answers = set(map(field.comparison.test, values))
    return answers.pop() if len(answers) == 1 else None
