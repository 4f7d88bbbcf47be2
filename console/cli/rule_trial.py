"""`dlq rules test`: a rule tried on letters, by the router itself and without effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deadletter.contract import EVERY_PIPELINE, MAIN_DLQ
from deadletter.rules.rule import Action, Rule, RuleMode, RuleRefused, read_rule

from ..operations import deployed, letters, rule_table
from ..operations.app import App, DeployedPipeline
from ..operations.aws import Aws
from ..operations.letters import Attributes, Body, Sample, Source
from ..operations.peek import HIDDEN, MOST, not_given_back
from ..operations.problem import Exit, Problem
from . import rule_text
from .command import OnePipeline, Session
from .output import Block, CommandResult, Line, Reply, Styled, TextTable, count, line
from .rule_words import Pattern, Tenant, Where, words

if TYPE_CHECKING:
    from deadletter.circuit.state import Circuit
    from deadletter.failure.ledger import Ledger, LedgerRow
    from deadletter.settings.pipeline import Pipeline as Terms

# What is looked at if nobody says how many.
SAMPLE = 100

# Fields that letters missed: what the screen shows.
_MAX_MISSED = 10

# Columns that decide whether a rule is tried at all. Here it always is.
_WHEN = ("enabled", "mode", "expires_at", "max_matches")

# The id of a rule that is only being thought of.
_UNNAMED = "this rule"


@dataclass(frozen=True, slots=True)
class MissedLetter:
    """One field of the pattern that letters did not meet."""

    path: Annotated[str, "where it stands in the pattern"]
    expected: Annotated[str, "what the pattern accepts there, in words"]
    found: Annotated[str, "the kind of what the letters have there, never the value"]
    letters: Annotated[int, "how many of the letters that it does not match"]


@dataclass(frozen=True, slots=True)
class Tested(CommandResult):
    """What `dlq rules test` answers."""

    at: Annotated[datetime, "when it was tried"]
    pipeline: Annotated[str, "the pipeline whose settings it was tried with"]
    rule_id: Annotated[str | None, "the rule; null if it stands in no table"]
    pattern: Annotated[Mapping[str, Any], "its event pattern, shorthand included"]
    source: Annotated[str, "where the letters come from: a queue's id, or a file"]
    looked_at: Annotated[int, "letters it was tried on"]
    matched: Annotated[int, "of them, those it would match"]
    matching: Annotated[Sequence[str], "MessageIds of those"]
    missed: Annotated[Sequence[MissedLetter], "what the others lack, the most frequent first"]
    not_given_back: Annotated[int, f"letters still hidden, for {HIDDEN} seconds at most"]


RuleId = Annotated[
    str | None, typer.Argument(metavar="RULE_ID", help="A rule that is in the table.")
]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, max=MOST, help="Letters to sample.")
]


def try_(
    session: Session,
    rule_id: RuleId = None,
    pipeline: OnePipeline = None,
    tenant: Tenant = None,
    where: Where = None,
    pattern: Pattern = None,
    source: Source = MAIN_DLQ,
    limit: Limit = SAMPLE,
    body: Body = None,
    attribute: Attributes = None,
) -> Reply[Tested]:
    """How many letters a rule would match, and what the others lack.

    Name a rule of the table, or say on the spot what it would be about. It is tried
    by itself, also if it is disabled or expired, on a sample of the DLQ, or on what you
    give with --body. Nothing is moved; sampled letters are given back at once.

    Values of messages are never shown, only their kind.
    """
    app = session.app()
    chosen = app.one(pipeline)
    typed = words(tenant, where, pattern)
    if (rule_id is None) == (not typed):
        raise Problem("Name a rule, or say what it is about: --tenant, --where, --pattern.",
                      Exit.USAGE)  # fmt: skip
    columns = (
        {"rule_id": _UNNAMED, "action": Action.DEFAULT, **typed}
        if rule_id is None
        else _stored(session.aws, app, chosen, rule_id)
    )
    rule = _read(columns, chosen, deployed.terms(chosen))
    sample = (
        letters.sampled(session.aws.sqs, chosen, source, limit, session.clock)
        if body is None
        else letters.pasted(body, attribute or (), session.clock())
    )
    outcome = tried(session, app, chosen, columns, sample)
    found = Tested(
        session.aws.account,
        session.aws.region,
        session.app_name,
        session.now,
        chosen.name,
        rule_id,
        rule.pattern,
        sample.source,
        len(sample.letters),
        len(outcome.matching),
        outcome.matching,
        outcome.missed,
        sample.not_given_back,
    )
    return Reply(found, show)


def _stored(aws: Aws, app: App, chosen: DeployedPipeline, rule_id: str) -> Mapping[str, Any]:
    stored = rule_table.table(aws, app.rules_table).read()
    for key in (chosen.name, EVERY_PIPELINE):
        for one in stored:
            if (one.pipeline, one.rule_id) == (key, rule_id):
                return one.columns
    raise Problem(
        f"There is no rule {rule_id!r} for {chosen.name}: see dlq rules list.", Exit.ABSENT
    )


def _read(columns: Mapping[str, Any], chosen: DeployedPipeline, terms: Terms) -> Rule:
    try:
        return read_rule(columns, terms)
    except RuleRefused as error:
        raise Problem(f"INVALID in {chosen.name}: {error}.", Exit.ATTENTION) from error


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a rule on a sample."""

    matching: Sequence[str]
    missed: Sequence[MissedLetter]


def tried(
    session: Session, app: App, chosen: DeployedPipeline, columns: Mapping[str, Any], sample: Sample
) -> Outcome:
    """A valid rule tried on each letter, by a router that knows no other."""
    from random import SystemRandom

    from deadletter.aws.ledger import DynamoDBLedger
    from deadletter.routing.router import DirectRouter, Question, RouterUnavailable

    ledger = DynamoDBLedger(
        session.aws.dynamodb, app.letters_table, chosen.name, session.clock, keep_seconds=0
    )
    judge = deployed.judge(session.aws, chosen)
    router = DirectRouter(
        pipeline=judge.settings,
        rules=_Only(columns),
        ledger=_Remembered(ledger),
        circuits=_NoCircuits(),
        trusted_senders=judge.trusted_senders,
        clock=session.clock,
        random=SystemRandom(),
    )
    questions = [Question(one, home=sample.home) for one in sample.letters]
    matching: list[str] = []
    missed: Counter[tuple[str, str, str]] = Counter()
    try:
        # The ledger is asked for all of them at once; after that it is remembered.
        router.decide(questions)
        for question in questions:
            # A shadow rule counts exactly what it would have acted on.
            if router.decide([question]).shadow_matches:
                matching.append(question.letter.message_id)
                continue
            _, trials = router.explain(question)
            missed.update(
                {(one.path, one.expected, one.found) for trial in trials for one in trial.missed}
            )
    except RouterUnavailable as error:
        raise _root(error) from None
    return Outcome(
        tuple(matching), tuple(MissedLetter(*one, number) for one, number in missed.most_common())
    )


class _Only:
    """A rules table with one rule in it, as a shadow that is always tried."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        always = {name: value for name, value in columns.items() if name not in _WHEN}
        self._items = [{**always, "mode": RuleMode.SHADOW}]

    def items(self, pipeline: str) -> Sequence[Mapping[str, Any]]:
        return self._items


class _Remembered:
    """A ledger that is asked for each row once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._rows: dict[str, LedgerRow] = {}
        self._asked: set[str] = set()

    def rows(self, origins: Sequence[str]) -> Mapping[str, LedgerRow]:
        new = [one for one in origins if one not in self._asked]
        if new:
            self._rows.update(self._ledger.rows(new))
            self._asked.update(new)
        return {one: self._rows[one] for one in origins if one in self._rows}

    def matches(self, rules: Sequence[str]) -> Mapping[str, int]:
        return {}


class _NoCircuits:
    """Circuits that nobody asks about: they have no say in what a rule matches."""

    def read(self, keys: Sequence[str]) -> Mapping[str, Circuit]:
        return {}


def _root(error: BaseException) -> BaseException:
    """What AWS said, below what the router made of it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def show(found: Tested) -> Iterator[Block]:
    """The outcome as a person reads it."""
    yield line(
        Styled(says(found.matched, found.looked_at, found.source), "strong"),
        f" in account {found.account}, {found.region}",
    )
    yield line(f"About: {rule_text.about(found.pattern)}", indent=2)
    if found.not_given_back:
        yield line(not_given_back(found.not_given_back))
    if found.missed:
        yield Line()
        yield TextTable(
            (">LETTERS", "FIELD OF THE PATTERN", "EXPECTED", "FOUND"),
            [
                (f"{one.letters:,}", one.path, one.expected, one.found)
                for one in found.missed[:_MAX_MISSED]
            ],
        )
        if (more := len(found.missed) - _MAX_MISSED) > 0:
            yield line(f"and {count(more, 'more field')}: see --json")


def says(matched: int, looked_at: int, source: str) -> str:
    """The outcome in a sentence: "Would match 37 of 120 letters sampled from dlq"."""
    return f"Would match {matched:,} of {count(looked_at, 'letter')} from {source}"
