"""`dlq rules explain`: why a letter is judged as it is, by the router that judges it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from deadletter.contract import MAIN_DLQ
from deadletter.message import stamp
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive, decode

from ..operations import rule_explanation as operation
from ..operations.problem import Cause, Problem
from ..operations.rule_explanation import Explanation, TriedRule
from ..operations.session import Session
from ..operations.words import clock, count, duration, moment
from .command import OnePipeline
from .letters import Attributes, Body, Source, letters_in_file, not_given_back
from .output import Block, Line, Reply, Styled, line
from .progress import waiting

MessageId = Annotated[
    str | None,
    typer.Argument(
        metavar="MESSAGE_ID", help="MessageId of the letter, or of its first life (its origin)."
    ),
]
ShowBody = Annotated[
    bool,
    typer.Option("--show-body", help="Show body and attributes too, control characters escaped."),
]


All = Annotated[
    bool, typer.Option("--all", help="Every rule; else those that match, and the near misses.")
]


def explain(
    session: Session,
    message_id: MessageId = None,
    pipeline: OnePipeline = None,
    source: Source = MAIN_DLQ,
    body: Body = None,
    attribute: Attributes = None,
    show_body: ShowBody = False,
    all_: All = False,
) -> Reply[Explanation]:
    """Why a letter is judged as it is.

    The deployed router answers as it would answer the redriver: the rules that match the
    letter, those that nearly do with what it lacks, then the decision. --all and --json
    have every rule. Nothing is moved.

    dlq looks for the letter among those that SQS hands out, 500 at most, and gives them
    back at once; or make up a letter with --body. A parked letter is judged as if it were
    in the DLQ again.

    Bodies and attributes are not shown unless you ask.
    """
    if (message_id is None) == (body is None):
        raise Problem(
            "Name a letter by its MessageId, or make up a letter with --body.", Cause.INPUT
        )
    letter = (
        message_id
        if message_id is not None
        else letters_in_file(session, body or "", attribute or ())
    )
    with waiting("Looking for the letter, and asking the router"):
        explanation = operation.explain(
            session, pipeline, letter, source=source, show_body=show_body
        )
    return Reply(explanation, partial(show, everything=all_))


_STYLES = {"matches and speaks": "good", "does not match": "faint", "disabled": "faint"}


MOST_NEAR_MISSES = 5
"""Rules that do not match and are shown all the same: those that the letter lacks least for."""


def worth_showing(tried: Sequence[TriedRule]) -> list[TriedRule]:
    """The rules that say something about a letter, in their order, without what is far away."""
    misses = [rule for rule in tried if rule.outcome == "does not match"]
    near = sorted(misses, key=lambda rule: len(rule.missed))[:MOST_NEAR_MISSES]
    near_ids = {id(rule) for rule in near}
    silent = ("does not match", "disabled", "expired")
    return [rule for rule in tried if rule.outcome not in silent or id(rule) in near_ids]


def show(explanation: Explanation, *, everything: bool = True) -> Iterator[Block]:
    """The explanation for a person: rule by rule, then the decision."""
    yield line(
        Styled(f"Letter {explanation.message_id}", "strong"),
        f" of {explanation.pipeline}, from {explanation.source},"
        f" in account {explanation.account}, {explanation.region}",
    )
    facts = [f"{count(explanation.attempts, 're-drive')} so far"]
    if explanation.forged:
        facts.append(
            f"it carries an attribute {stamp.NAME} that is not ours: it is not believed, and goes "
            f"on as {stamp.KEPT_NAME}"
        )
    yield line("; ".join(facts))
    if explanation.not_given_back:
        yield line(not_given_back(explanation.not_given_back))
    yield Line()
    yield line(
        "Rules, in the order they are tried:" if explanation.tried else "There are no rules."
    )
    shown = list(explanation.tried) if everything else worth_showing(explanation.tried)
    for rule in shown:
        invalid = rule.outcome.startswith("INVALID")
        style = "alarm" if invalid else _STYLES.get(rule.outcome, "")
        yield line(Styled(rule.rule_id, "strong"), "  ", Styled(rule.outcome, style), indent=2)
        for field in rule.missed:
            yield line(f"{field.path}: expected {field.expected}; found {field.found}", indent=6)
    if more := len(explanation.tried) - len(shown):
        rules = "1 more rule does" if more == 1 else f"{more:,} more rules do"
        yield line(Styled(f"{rules} not match or are off: --all shows them", "faint"), indent=2)
    yield Line()
    decision = decode(explanation.decision)
    yield line("Decision: ", Styled(decision_text(decision, explanation.at), "strong"))
    yield line(f"because: {decision.because}", indent=2)
    if explanation.body is not None:
        yield Line()
        yield line(explanation.body)
        for name, value in (explanation.attributes or {}).items():
            yield line(f"{name} = {value}", indent=2)


def decision_text(decision: Decision, now: datetime) -> str:
    """A decision in words."""
    match decision:
        case Redrive(delay=delay):
            return f"REDRIVE to the main queue after {duration(delay)}"
        case Hold(lane=lane, due=due):
            at = moment(due)
            until = f", at the latest until {clock(at, now)}" if at else ""
            return f"HOLD in lane {lane}{until}"
        case Divert(queue=queue):
            return f"DIVERT to dedicated DLQ {queue}"
        case Park(reason=reason):
            return f"PARK as {reason}"
