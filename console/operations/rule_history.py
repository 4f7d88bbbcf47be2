"""One rule as it is, and how it came to be so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from deadletter.contract import EVERY_PIPELINE
from deadletter.failure.ledger import RuleCounts

from . import deployed, rule_table
from .adapter_errors import aws_errors
from .app import App, DeployedPipeline
from .audit_lines import AuditLine
from .audit_trail import AuditQuestion, trail
from .problem import Cause, Problem
from .rule_list import PipelineRules, listed
from .rule_on_ledger import RuleMatches
from .rule_table import table, target
from .rule_trial import matches_in
from .session import Session

FIRST = datetime(2020, 1, 1, tzinfo=UTC)
"""Before any change on record."""

_MOST_SHOWN = 20  # changes of a rule that are shown beside it

# Another person's clock may be ahead.
_AHEAD = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class ShownRule:
    """A rule, and how it came to be so."""

    pipelines: Annotated[
        Sequence[PipelineRules], "the rules with this id, as each pipeline takes them"
    ]
    changes: Annotated[Sequence[AuditLine], "the last changes, the newest first"]
    matches: Annotated[
        Sequence[RuleMatches],
        "what it matches by the failure records, for each pipeline where it counts",
    ]


def history(
    session: Session, pipeline: str | None, rule_id: str, limit: int
) -> Sequence[AuditLine]:
    """The last changes of the rules with this id, of a pipeline and of `*`, the newest first."""
    return trail(
        session,
        AuditQuestion(
            since=FIRST,
            until=session.now + _AHEAD,
            pipelines=() if pipeline in (None, EVERY_PIPELINE) else (str(pipeline),),
            what="rules",
            target=target(rule_id),
            limit=limit,
        ),
    ).changes


def changes_of(session: Session, key: str, rule_id: str) -> Sequence[AuditLine]:
    """The last changes of the rule that is stored under a key, the newest first."""
    return [
        line
        for line in history(session, key, rule_id, limit=200)
        if line.pipeline == key and line.outcome != "failed"
    ]


def keys_of(session: Session, rule_id: str) -> Sequence[str]:
    """The keys under which a rule with this id was changed: pipelines, or `*`."""
    lines = history(session, None, rule_id, limit=200)
    return [line.pipeline for line in lines if line.outcome != "failed"]


def show(session: Session, pipeline: str | None, rule_id: str) -> ShownRule:
    """The rules with this id, what they do, what they have matched, and who changed them."""
    app = session.app()
    chosen = app.pipelines if pipeline in (None, EVERY_PIPELINE) else (app.pipeline(pipeline),)
    keys = {EVERY_PIPELINE, *(each.name for each in chosen)}
    # The others too: some go before it.
    stored = table(session.aws, app.rules_table).read()
    if not any(rule.rule_id == rule_id and rule.pipeline in keys for rule in stored):
        raise Problem(f"There is no rule {rule_id!r}: see dlq rules list.", Cause.ABSENT)
    now = session.clock()
    pipelines = []
    # A rule of * and one of a pipeline may have the id, and other patterns.
    counting: dict[str, list[DeployedPipeline]] = {}
    for each in chosen:
        terms = deployed.terms(each)
        book = rule_table.book([row.columns for row in stored], terms)
        same_id = [r for r in (*book.rules.values(), *book.switched_off) if r.rule_id == rule_id]
        counts = _counts(session, app, each.name, [rule.counts_key for rule in same_id])
        rows = listed(stored, terms, book, counts, now)
        if found := tuple(row for row in rows if row.rule_id == rule_id):
            pipelines.append(PipelineRules(each.name, found))
        for rule in [book.rules[rule_id]] if rule_id in book.rules else []:
            counting.setdefault(json.dumps(rule.pattern), []).append(each)
    return ShownRule(
        pipelines=tuple(pipelines),
        changes=history(session, pipeline, rule_id, limit=_MOST_SHOWN),
        matches=tuple(
            matches
            for pattern, where in counting.items()
            for matches in matches_in(session, app, where, json.loads(pattern))
        ),
    )


def _counts(
    session: Session, app: App, pipeline: str, keys: Sequence[str]
) -> Mapping[str, RuleCounts]:
    from deadletter.aws.ledger import DynamoDBLedger

    ledger = DynamoDBLedger(
        session.aws.dynamodb, app.letters_table, pipeline, session.clock, keep_seconds=0
    )
    with aws_errors():
        return ledger.counts(keys)
