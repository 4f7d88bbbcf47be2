"""Why a letter is judged as it is, explained by the deployed router."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from deadletter.contract import MAIN_DLQ
from deadletter.message import stamp
from deadletter.message.letter import Letter, compact_json
from deadletter.routing.decision import NotADecision, decode

from . import letters
from .answer import Answer
from .app import DeployedPipeline
from .aws import Aws, failure
from .letters import Sample
from .peek import HIDDEN, SAMPLE
from .problem import Cause, Problem
from .session import Session
from .words import count


@dataclass(frozen=True, slots=True)
class MissedField:
    """A field of a rule's pattern that the letter does not match."""

    path: Annotated[str, "where it stands in the pattern"]
    expected: Annotated[str, "what the pattern accepts there, in words"]
    found: Annotated[str, "the kind of the letter's value there, never the value"]


@dataclass(frozen=True, slots=True)
class TriedRule:
    """A rule and the outcome of its trial."""

    rule_id: Annotated[str, "id of the rule"]
    outcome: Annotated[str, "in words: matches and speaks, does not match, disabled, …"]
    missed: Annotated[Sequence[MissedField], "what the letter lacks"]


@dataclass(frozen=True, slots=True)
class Explanation(Answer):
    """What `dlq rules explain` answers."""

    at: Annotated[datetime, "when it was asked"]
    pipeline: Annotated[str, "name of the pipeline"]
    message_id: Annotated[str, "MessageId of this copy; `pasted` if it was never sent"]
    source: Annotated[str, "where the letter is from: dlq, parking, a dedicated DLQ or a file"]
    tried: Annotated[Sequence[TriedRule], "every rule: the refused, then in the order of trial"]
    decision: Annotated[
        Mapping[str, Any], "`action` (REDRIVE, HOLD, DIVERT, PARK), its details and `because`"
    ]
    attempts: Annotated[int, "re-drives so far"]
    forged: Annotated[bool, "whether it carries a `Redrive` attribute that is not ours"]
    not_given_back: Annotated[int, f"letters still hidden, for {HIDDEN} seconds at most"]
    body: Annotated[str | None, "the body; null without --show-body"]
    attributes: Annotated[
        Mapping[str, Any] | None, "its message attributes; null without --show-body"
    ]


# A person waits, and SQS hands out letters in any order: a longer look finds hardly more.
_SEARCH = replace(SAMPLE, seconds=6)


def explain(
    session: Session,
    pipeline: str | None,
    letter: str | Sample,
    *,
    source: str = MAIN_DLQ,
    show_body: bool = False,
) -> Explanation:
    """The router's explanation of a letter; nothing is moved.

    `letter` is a MessageId or origin id to look for in the source, or a pasted letter.
    Raises Problem if the letter is not found, or the router does not explain.
    """
    chosen = session.app().pipeline(pipeline)
    sample = _find(session, chosen, source, letter) if isinstance(letter, str) else letter
    single = _single(sample)
    answer = _ask_router(session.aws, chosen, single, sample.home)
    return Explanation(
        **session.place,
        at=session.now,
        pipeline=chosen.name,
        message_id=single.message_id,
        source=sample.source,
        tried=answer.tried,
        decision=answer.decision,
        attempts=answer.attempts,
        forged=answer.forged,
        not_given_back=sample.not_given_back,
        body=single.body if show_body else None,
        attributes=_attributes(single) if show_body else None,
    )


def _find(session: Session, pipeline: DeployedPipeline, source: str, message_id: str) -> Sample:
    sample = letters.sampled(
        session.aws.sqs,
        pipeline,
        source,
        1,
        session.clock,
        lambda letter: message_id in (letter.message_id, _origin(letter)),
        _SEARCH,
    )
    if not sample.letters:
        raise Problem(
            f"{message_id} is not among the {count(sample.looked_at, 'letter')} that {source} of "
            f"{pipeline.name} showed: dlq explain {message_id} tells where it is; or try another "
            "--source, or make it up with --body.",
            Cause.ABSENT,
        )
    return sample


def _origin(letter: Letter) -> str | None:
    attribute = letter.attributes.get(stamp.NAME)
    mark = stamp.parse(attribute.value) if attribute else None
    return mark.origin if mark else None


def _single(sample: Sample) -> Letter:
    if len(sample.letters) != 1:
        raise Problem(
            f"One letter at a time: {sample.source} holds {len(sample.letters)}.", Cause.INPUT
        )
    return sample.letters[0]


def _attributes(letter: Letter) -> Mapping[str, Any]:
    return {
        name: "binary" if isinstance(attribute.value, bytes) else attribute.value
        for name, attribute in letter.attributes.items()
    }


@dataclass(frozen=True, slots=True)
class RouterExplanation:
    """The router's answer."""

    tried: Sequence[TriedRule]
    decision: Mapping[str, Any]
    attempts: int
    forged: bool


def _ask_router(
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
            int(verdict["stamp"]["attempt"]) - (verdict["decision"]["action"] == "REDRIVE"),
            verdict.get("forged") is True,
        )
    except (KeyError, TypeError, ValueError, NotADecision) as error:
        raise Problem(
            f"The router function {pipeline.router_function} answered no explanation: "
            "use the dlq of the version that is deployed.",
            Cause.FAILED,
        ) from error


def _tried(data: Mapping[str, Any]) -> TriedRule:
    missed = (
        MissedField(str(field["path"]), str(field["expected"]), str(field["found"]))
        for field in data["missed"]
    )
    return TriedRule(str(data["rule"]), str(data["outcome"]), tuple(missed))
