"""What a name means: a message, a run, a rule, a circuit or a pipeline, by five keyed reads.

A cause is no name by itself: it is typed as `cause:ID`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

from deadletter.contract import (
    CIRCUITS,
    EVERY_PIPELINE,
    MESSAGES,
    RULES,
    WAITING_FIGURES,
    Partition,
    Table,
)

from .app import App
from .deadline import side_by_side
from .errors import Cause, Problem
from .session import Session

if TYPE_CHECKING:
    from deadletter.aws.claims import KeptClaim


class NameKind(StrEnum):
    """What a name can stand for. A name with its kind is typed as `rule:stop-cedar`."""

    MESSAGE = "message"
    RUN = "run"
    RULE = "rule"
    CIRCUIT = "circuit"
    CAUSE = "cause"
    PIPELINE = "pipeline"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known under a name, and in which pipelines.

    `claim` is what the consumer has kept under the name as a business id, or as the id of a message
    that has no other key; `unread` is why that could not be read.
    """

    pipelines: Mapping[NameKind, tuple[str, ...]]
    claim: KeptClaim | None = None
    is_business_id: bool = False
    unread: str = ""

    @property
    def kinds(self) -> tuple[NameKind, ...]:
        """Each kind of what is known, in the order of NameKind."""
        return tuple(kind for kind in NameKind if kind in self.pipelines)


def taken_apart(text: str) -> tuple[NameKind | None, str]:
    """The kind that was typed before a name, None without one, and the name."""
    kind, colon, name = text.partition(":")
    return (NameKind(kind), name) if colon and kind in set(NameKind) and name else (None, text)


def known(session: Session, app: App, name: str, names: Sequence[str]) -> Known:
    """What is known under a name in the pipelines of these names.

    A pipeline's own circuit, which has its name, is no second meaning.
    """
    from deadletter.aws.dynamodb import DynamoDBTable

    client = session.aws.dynamodb

    def rows(
        table: str, keys: Sequence[tuple[str, str]], *columns: str, of: Table = MESSAGES
    ) -> Callable[[], Any]:
        return lambda: DynamoDBTable(client, table, of).get_many(keys, only=columns).values()

    failures = {Partition.LEDGER.of(each, name): each for each in names}
    waiting = {Partition.LETTER.of(each, name): each for each in names}
    runs = {Partition.RUNS.of(each): each for each in names}
    letters, circuits, rules = app.messages_table, app.circuits_table, app.rules_table
    of_letters = [(key, "ledger") for key in failures]
    of_waiting = [(key, "message") for key in waiting]
    of_letters += [(key, name) for key in runs]
    in_rules = [(each, name) for each in (*names, EVERY_PIPELINE)]
    in_circuits = [(each, name) for each in names]
    with side_by_side() as start:
        reads = (
            start(rows(letters, of_letters, "pk", "sk")),
            start(rows(letters, of_waiting, *WAITING_FIGURES)),
            start(rows(rules, in_rules, RULES.partition, RULES.sort, of=RULES)),
            start(rows(circuits, in_circuits, CIRCUITS.partition, CIRCUITS.sort, of=CIRCUITS)),
        )
        claims = start(partial(_claims, session, app, name, names))
        on_record, held, found_rules, found_circuits = (
            read.answer("What the name stands for") for read in reads
        )
        unread: list[str] = []
        kept = claims.result(lambda problem: unread.append(problem.says)) or {}
    found = {
        NameKind.MESSAGE: [
            *(failures[row["pk"]] for row in on_record if row["pk"] in failures),
            *(waiting[row["pk"]] for row in held),
            *(pipeline for pipeline, _ in kept),
        ],
        NameKind.RUN: [runs[row["pk"]] for row in on_record if row["pk"] in runs],
        NameKind.RULE: [row[RULES.partition] for row in found_rules],
        NameKind.CIRCUIT: [row[CIRCUITS.partition] for row in found_circuits if name not in names],
        NameKind.PIPELINE: [name] if name in names else [],
    }
    pipelines = {kind: tuple(dict.fromkeys(each)) for kind, each in found.items() if each}
    (_, is_business_id), claim = next(iter(kept.items()), (("", False), None))
    return Known(pipelines, claim, is_business_id, "".join(unread))


def of_first_id(session: Session, app: App, known: Known, origin: str, pipeline: str) -> Known:
    """What is known of a message, with what its consumer has kept under its first ID."""
    unread: list[str] = []
    with side_by_side() as start:
        claims = start(partial(_claims, session, app, origin, [pipeline]))
        kept = claims.result(lambda problem: unread.append(problem.says)) or {}
    return replace(known, claim=next(iter(kept.values()), None), unread="".join(unread))


def _claims(
    session: Session, app: App, name: str, names: Sequence[str]
) -> Mapping[tuple[str, bool], KeptClaim]:
    """What consumers have kept, by the pipeline and by whether the name is a business id there."""
    from deadletter.aws.claims import kept_claims
    from deadletter.rules.business_key import digest_of

    # As `processing.idempotency` makes them.
    digests = {digest_of(f"key:{name}"): True, digest_of(f"origin:{name}"): False}
    keys = [(each, digest) for each in names for digest in digests]
    kept = kept_claims(session.aws.dynamodb, app.messages_table, keys, session.clock())
    return {(pipeline, digests[digest]): claim for (pipeline, digest), claim in kept.items()}


def only(known: Known, name: str) -> NameKind | None:
    """The one meaning of a name, None without any; Problem that names them if there are several."""
    if len(several := known.pipelines.get(NameKind.MESSAGE, ())) > 1:
        typed = "\n".join(f"dlq show {quote(name)} -p {quote(each)}" for each in several)
        raise Problem(f"{name!r} is a message of {' and '.join(several)}. Type one of\n{typed}",
                      Cause.INPUT)  # fmt: skip
    if len(known.kinds) > 1:
        kinds = " and a ".join(known.kinds)
        typed = "\n".join(f"dlq show {quote(f'{kind}:{name}')}" for kind in known.kinds)
        raise Problem(f"{name!r} is a {kinds}. Type one of\n{typed}", Cause.INPUT)
    return next(iter(known.kinds), None)
