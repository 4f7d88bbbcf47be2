"""What the deployed router says about a message, and each rule."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.message.letter import Letter, compact_json
from deadletter.routing.decision import NotADecision, decode

from .app import DeployedPipeline
from .aws import Aws, failure
from .problem import Cause, Problem

if TYPE_CHECKING:
    from deadletter.rules.rulebook import Trial


@dataclass(frozen=True, slots=True)
class MissedField:
    """A field of a rule's pattern that the message does not match."""

    path: Annotated[str, "where it stands in the pattern"]
    expected: Annotated[str, "what the pattern accepts there, in words"]
    found: Annotated[str, "the kind of the message's value there, never the value"]


@dataclass(frozen=True, slots=True)
class TriedRule:
    """A rule and the outcome of its trial."""

    rule_id: Annotated[str, "id of the rule"]
    outcome: Annotated[str, "in words: matches and speaks, does not match, can't be told, …"]
    missed: Annotated[Sequence[MissedField], "what the message lacks"]


@dataclass(frozen=True, slots=True)
class RouterExplanation:
    """The router's answer."""

    tried: Sequence[TriedRule]
    decision: Mapping[str, Any]
    forged: bool


def router_says(
    aws: Aws, pipeline: DeployedPipeline, letter: Letter, home: str
) -> RouterExplanation:
    """The answer of the pipeline's router; Problem if it fails or the answer is malformed."""
    from deadletter.routing.router import Question
    from deadletter.routing.wire import question_to_json

    question = question_to_json(Question(letter, home=home))
    answer = aws.lambda_.invoke(
        FunctionName=pipeline.router_function, Payload=compact_json({"explain": question})
    )
    try:
        payload = json.loads(answer["Payload"].read())
    except (ValueError, RecursionError):
        payload = None
    if "FunctionError" in answer:
        raise Problem(
            f"The router function {pipeline.router_function} failed ({failure(payload)}): "
            "its log in CloudWatch says more.",
            Cause.FAILED,
        )
    try:
        verdict = payload["verdict"]
        decode(verdict["decision"])
        return RouterExplanation(
            tuple(_tried(rule) for rule in payload["tried"]),
            verdict["decision"],
            verdict.get("forged") is True,
        )
    except (KeyError, TypeError, ValueError, NotADecision) as error:
        raise Problem(
            f"The router function {pipeline.router_function} answered no explanation: "
            "use the dlq of the version that is deployed.",
            Cause.FAILED,
        ) from error


def tried(trial: Trial) -> TriedRule:
    """A trial of the library's router, as the deployed one answers it."""
    missed = (MissedField(each.path, each.expected, each.found) for each in trial.missed)
    return TriedRule(trial.rule_id, trial.outcome, tuple(missed))


def _tried(data: Mapping[str, Any]) -> TriedRule:
    missed = (
        MissedField(str(field["path"]), str(field["expected"]), str(field["found"]))
        for field in data["missed"]
    )
    return TriedRule(str(data["rule"]), str(data["outcome"]), tuple(missed))
