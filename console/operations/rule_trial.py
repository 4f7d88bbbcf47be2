"""A rule tried on letters by the router itself, without effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import EVERY_PIPELINE, MAIN_DLQ
from deadletter.rules.rule import Action, Rule, RuleMode, RuleRefused, read_rule

from . import deployed, letters, rule_table
from .adapter_errors import aws_errors
from .answer import Answer
from .app import App, DeployedPipeline
from .aws import Aws, side_by_side
from .deadline import Deadline
from .letters import Sample
from .peek import HIDDEN
from .problem import Cause, Problem
from .rule_backtest import Against, kept_letters
from .rule_on_ledger import RuleMatches, matches_on_record, uncounted
from .session import Session

if TYPE_CHECKING:
    from deadletter.circuit.state import Circuit
    from deadletter.failure.ledger import Ledger, LedgerRow
    from deadletter.settings.pipeline import Pipeline as Terms

SAMPLE = 100
"""Letters to sample if no number is given."""

RECORDS = "the failure records"
"""The source of a trial that receives nothing."""

# Columns that decide whether a rule is tried at all. Here it always is.
_WHEN = ("enabled", "mode", "expires_at", "max_matches")

# The id of a rule that is in no table.
_UNNAMED = "this rule"


@dataclass(frozen=True, slots=True)
class MissedPatternField:
    """A field of the pattern that letters did not match."""

    path: Annotated[str, "where it stands in the pattern"]
    expected: Annotated[str, "what the pattern accepts there, in words"]
    found: Annotated[str, "the kind of the letters' values there, never the values"]
    letters: Annotated[int, "how many of the letters that it does not match"]


@dataclass(frozen=True, slots=True)
class RuleTrial(Answer):
    """What `dlq rules test` answers."""

    at: Annotated[datetime, "when it was tried"]
    pipeline: Annotated[str, "the pipeline whose settings it was tried with"]
    rule_id: Annotated[str | None, "the rule; null if it is in no table"]
    pattern: Annotated[Mapping[str, Any], "its event pattern, shorthand included"]
    source: Annotated[
        str, "where the letters come from: a queue's id, `parked`, `waiting`, or a file"
    ]
    looked_at: Annotated[int, "letters it was tried on"]
    matched: Annotated[int, "of them, those it would match"]
    matching: Annotated[Sequence[str], "MessageIds of those"]
    missed: Annotated[Sequence[MissedPatternField], "what the others lack, the most frequent first"]
    not_given_back: Annotated[int, f"letters still hidden, for {HIDDEN} seconds at most"]
    takes_seconds: Annotated[
        float | None, "how long a THROTTLE takes to let the matching go; null for other rules"
    ] = None
    expire: Annotated[int | None, "of the matching, those that are too old before their turn"] = (
        None
    )
    on_record: Annotated[
        RuleMatches | None,
        "what it matches by the failure records of the pipeline; null for pasted messages",
    ] = None


def try_rule(
    session: Session,
    pipeline: str | None,
    rule: str | Mapping[str, Any],
    *,
    source: str = MAIN_DLQ,
    limit: int = SAMPLE,
    pasted: Sample | None = None,
    against: Against = Against.SAMPLE,
) -> RuleTrial:
    """How many letters a rule would match, and what the others lack.

    `rule` is the id of a rule in the table, or columns that say which letters it matches.
    The letters are those pasted, or else a sample of the source, or those that are kept `against`.
    """
    app = session.app()
    chosen = app.pipeline(pipeline)
    columns = (
        _stored(session.aws, app, chosen, rule)
        if isinstance(rule, str)
        else {"rule_id": _UNNAMED, "action": Action.DEFAULT, **rule}
    )
    valid = _read(columns, chosen, deployed.terms(chosen))
    pace, on_record = None, None
    if against is Against.LEDGER:
        on_record, matching = matches_on_record(session, app, chosen, valid.pattern)
        sample, looked_at = Sample(RECORDS, (), 0), on_record.here
        outcome = TrialOutcome(matching, ())
    else:
        if against is not Against.SAMPLE:
            sample = kept_letters(session, app, chosen, against, limit)
        else:
            sqs, clock = session.aws.sqs, session.clock
            sample = pasted or letters.sampled(sqs, chosen, source, limit, clock)
        looked_at = len(sample.letters)
        outcome = tried(session, app, chosen, columns, sample)
        on_record = None if pasted else matches_in(session, app, [chosen], valid.pattern)[0]
        if valid.rate is not None:
            pace = _pace(session, chosen, valid.rate, outcome, sample)
    return RuleTrial(
        **session.place,
        at=session.now,
        pipeline=chosen.name,
        rule_id=rule if isinstance(rule, str) else None,
        pattern=valid.pattern,
        source=sample.source,
        looked_at=looked_at,
        matched=len(outcome.matching),
        matching=outcome.matching,
        missed=outcome.missed,
        not_given_back=sample.not_given_back,
        takes_seconds=None if pace is None else pace[0],
        expire=None if pace is None else pace[1],
        on_record=on_record,
    )


def matches_in(
    session: Session,
    app: App,
    pipelines: Sequence[DeployedPipeline],
    pattern: Mapping[str, Any],
) -> Sequence[RuleMatches]:
    """What a valid pattern matches in each of these pipelines, by the failure records."""
    aws, deadline = session.aws, Deadline()
    _ = aws.sqs, aws.dynamodb  # made before there are threads
    lost: dict[str, RuleMatches] = {}

    def note(pipeline: str, problem: Problem) -> None:
        lost[pipeline] = uncounted(pipeline, problem)

    with side_by_side() as start:
        reads = {
            each.name: start(partial(matches_on_record, session, app, each, pattern, deadline))
            for each in pipelines
        }
        found = {name: read.result(partial(note, name)) for name, read in reads.items()}
    return [lost[name] if known is None else known[0] for name, known in found.items()]


def _pace(
    session: Session, chosen: DeployedPipeline, rate: float, outcome: TrialOutcome, sample: Sample
) -> tuple[float, int]:
    """The seconds until a THROTTLE has let the last letter go, and the letters too old by then.

    The oldest goes first.
    """
    from deadletter.message import stamp as stamps

    judge = deployed.judge(session.aws, chosen)
    matching = set(outcome.matching)
    sent = sorted(
        stamps.read(letter, judge.trusted_senders).stamp.first_sent / 1000
        for letter in sample.letters
        if letter.message_id in matching
    )
    now, lives = session.clock(), judge.settings.message_ttl
    late = sum(bool(at) and at + lives <= now + (n + 1) / rate for n, at in enumerate(sent))
    return len(sent) / rate, late


def _stored(aws: Aws, app: App, chosen: DeployedPipeline, rule_id: str) -> Mapping[str, Any]:
    stored = rule_table.table(aws, app.rules_table).read()
    for key in (chosen.name, EVERY_PIPELINE):
        for rule in stored:
            if (rule.pipeline, rule.rule_id) == (key, rule_id):
                return rule.columns
    raise Problem(
        f"There is no rule {rule_id!r} for {chosen.name}: see dlq rules list.", Cause.ABSENT
    )


def _read(columns: Mapping[str, Any], chosen: DeployedPipeline, terms: Terms) -> Rule:
    try:
        return read_rule(columns, terms)
    except RuleRefused as error:
        raise Problem(f"INVALID in {chosen.name}: {error}.", Cause.FAILED) from error


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """The result of a rule on a sample."""

    matching: Sequence[str]
    missed: Sequence[MissedPatternField]


def tried(
    session: Session, app: App, chosen: DeployedPipeline, columns: Mapping[str, Any], sample: Sample
) -> TrialOutcome:
    """A valid rule tried on each letter, by a router with no other rule."""
    from random import SystemRandom

    from deadletter.aws.ledger import DynamoDBLedger
    from deadletter.routing.direct_router import DirectRouter
    from deadletter.routing.router import Question

    ledger = DynamoDBLedger(
        session.aws.dynamodb, app.letters_table, chosen.name, session.clock, keep_seconds=0
    )
    judge = deployed.judge(session.aws, chosen)
    router = DirectRouter(
        pipeline=judge.settings,
        rules=SingleRule(columns),
        ledger=CachedLedger(ledger),
        circuits=NoCircuits(),
        trusted_senders=judge.trusted_senders,
        clock=session.clock,
        random=SystemRandom(),
    )
    questions = [Question(letter, home=sample.home) for letter in sample.letters]
    matching: list[str] = []
    missed: Counter[tuple[str, str, str]] = Counter()
    with aws_errors():
        # This reads the ledger rows of all letters at once; after that they are cached.
        router.decide(questions)
        for question in questions:
            # A shadow rule counts exactly what it would have acted on.
            if router.decide([question]).shadow_matches:
                matching.append(question.letter.message_id)
                continue
            _, trials = router.explain(question)
            fields = [field for trial in trials for field in trial.missed]
            missed.update({(field.path, field.expected, field.found) for field in fields})
    return TrialOutcome(
        tuple(matching),
        tuple(MissedPatternField(*field, number) for field, number in missed.most_common()),
    )


class SingleRule:
    """A rules table with a single rule, as a shadow that is always tried."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        always = {name: value for name, value in columns.items() if name not in _WHEN}
        self._items = [{**always, "mode": RuleMode.SHADOW}]

    def items(self, pipeline: str) -> Sequence[Mapping[str, Any]]:
        return self._items


class CachedLedger:
    """A ledger that reads each row once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._rows: dict[str, LedgerRow] = {}
        self._asked: set[str] = set()

    def rows(self, origins: Sequence[str]) -> Mapping[str, LedgerRow]:
        new = [origin for origin in origins if origin not in self._asked]
        if new:
            self._rows.update(self._ledger.rows(new))
            self._asked.update(new)
        return {origin: self._rows[origin] for origin in origins if origin in self._rows}

    def matches(self, rules: Sequence[str]) -> Mapping[str, int]:
        return {}


class NoCircuits:
    """No circuits: they do not decide what a rule matches."""

    def read(self, keys: Sequence[str]) -> Mapping[str, Circuit]:
        return {}
