"""`dlq rules explain`: why a letter is judged as it is, by the router that judges it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from deadletter.contract import MAIN_DLQ
from deadletter.message import stamp
from deadletter.message.letter import Letter, compact_json
from deadletter.routing.decision import Decision, Divert, Hold, NotADecision, Park, Redrive, decode

from ..operations import letters
from ..operations.app import DeployedPipeline
from ..operations.aws import Aws, failure
from ..operations.letters import Attributes, Body, Sample, Source
from ..operations.peek import HIDDEN, not_given_back
from ..operations.problem import Exit, Problem
from .command import OnePipeline, Session
from .output import (
    Block,
    CommandResult,
    Line,
    Reply,
    Styled,
    clock,
    count,
    duration,
    line,
    moment,
)


@dataclass(frozen=True, slots=True)
class MissedField:
    """One field of a rule's pattern that the letter does not meet."""

    path: Annotated[str, "where it stands in the pattern"]
    expected: Annotated[str, "what the pattern accepts there, in words"]
    found: Annotated[str, "the kind of what the letter has there, never the value"]


@dataclass(frozen=True, slots=True)
class Tried:
    """One rule, and what came of it."""

    rule_id: Annotated[str, "id of the rule"]
    outcome: Annotated[str, "in words: matches and speaks, does not match, disabled, …"]
    missed: Annotated[Sequence[MissedField], "what the letter lacks"]


@dataclass(frozen=True, slots=True)
class Explained(CommandResult):
    """What `dlq rules explain` answers."""

    at: Annotated[datetime, "when it was asked"]
    pipeline: Annotated[str, "name of the pipeline"]
    message_id: Annotated[str, "MessageId of this copy; `pasted` if it was never sent"]
    source: Annotated[str, "where the letter is from: dlq, parking, a dedicated DLQ or a file"]
    tried: Annotated[Sequence[Tried], "every rule: the refused, then in the order of trial"]
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


def explain(
    session: Session,
    message_id: MessageId = None,
    pipeline: OnePipeline = None,
    source: Source = MAIN_DLQ,
    body: Body = None,
    attribute: Attributes = None,
    show_body: ShowBody = False,
) -> Reply[Explained]:
    """Why a letter is judged as it is.

    The deployed router answers, as it would for the redriver, and nothing is moved: every
    rule with what the letter lacks to match it, then the decision.

    The letter is looked for among those that SQS hands out, 500 at most, which are given
    back at once; or make one up with --body. A parked letter is judged as if it lay in
    the DLQ again.

    Bodies and attributes are not shown unless you ask.
    """
    app = session.app()
    chosen = app.one(pipeline)
    if (message_id is None) == (body is None):
        raise Problem("Name a letter by its MessageId, or make one up with --body.", Exit.USAGE)
    if message_id is not None:
        found = _looked_for(session, chosen, source, message_id)
    else:
        found = letters.pasted(body or "", attribute or (), session.clock())
    letter = _only(found)
    said = _asked(session.aws, chosen, letter, found.home)
    explained = Explained(
        session.aws.account,
        session.aws.region,
        session.app_name,
        session.now,
        chosen.name,
        letter.message_id,
        found.source,
        said.tried,
        said.decision,
        said.attempts,
        said.forged,
        found.not_given_back,
        letter.body if show_body else None,
        _values(letter) if show_body else None,
    )
    return Reply(explained, show)


def _looked_for(
    session: Session, pipeline: DeployedPipeline, source: str, message_id: str
) -> Sample:
    found = letters.sampled(
        session.aws.sqs,
        pipeline,
        source,
        1,
        session.clock,
        lambda letter: message_id in (letter.message_id, _origin(letter)),
    )
    if not found.letters:
        raise Problem(
            f"{message_id} is not among the {count(found.looked_at, 'letter')} that {source} of "
            f"{pipeline.name} showed: try again or another --source, or make it up with --body; "
            "it may also be waiting (see dlq status), or delivered.",
            Exit.ABSENT,
        )
    return found


def _origin(letter: Letter) -> str | None:
    attribute = letter.attributes.get(stamp.NAME)
    mark = stamp.parse(attribute.value) if attribute else None
    return mark.origin if mark else None


def _only(found: Sample) -> Letter:
    if len(found.letters) != 1:
        raise Problem(
            f"One letter at a time: {found.source} holds {len(found.letters)}.", Exit.USAGE
        )
    return found.letters[0]


def _values(letter: Letter) -> Mapping[str, Any]:
    return {
        name: "binary" if isinstance(one.value, bytes) else one.value
        for name, one in letter.attributes.items()
    }


@dataclass(frozen=True, slots=True)
class _Said:
    """The router's answer."""

    tried: Sequence[Tried]
    decision: Mapping[str, Any]
    attempts: int
    forged: bool


def _asked(aws: Aws, pipeline: DeployedPipeline, letter: Letter, home: str) -> _Said:
    """What the pipeline's router says; Problem if it fails, or says what nobody understands."""
    from deadletter.routing.router import Question
    from deadletter.routing.wire import question_to_json

    question = question_to_json(Question(letter, home=home))
    answer = aws.lambda_.invoke(
        FunctionName=pipeline.router_function, Payload=compact_json({"explain": question})
    )
    try:
        said = json.loads(answer["Payload"].read())
    except (ValueError, RecursionError):
        said = None
    if "FunctionError" in answer:
        raise Problem(
            f"The router function {pipeline.router_function} failed ({failure(said)}): "
            "its log in CloudWatch says more.",
            Exit.ATTENTION,
        )
    try:
        verdict = said["verdict"]
        decode(verdict["decision"])
        return _Said(
            tuple(_tried(one) for one in said["tried"]),
            verdict["decision"],
            int(verdict["stamp"]["attempt"]) - (verdict["decision"]["action"] == "REDRIVE"),
            verdict.get("forged") is True,
        )
    except (KeyError, TypeError, ValueError, NotADecision) as error:
        raise Problem(
            f"The router function {pipeline.router_function} answered no explanation: "
            "use the dlq of the version that is deployed.",
            Exit.ATTENTION,
        ) from error


def _tried(data: Mapping[str, Any]) -> Tried:
    missed = (
        MissedField(str(one["path"]), str(one["expected"]), str(one["found"]))
        for one in data["missed"]
    )
    return Tried(str(data["rule"]), str(data["outcome"]), tuple(missed))


_STYLES = {"matches and speaks": "good", "does not match": "faint", "disabled": "faint"}


def show(found: Explained) -> Iterator[Block]:
    """The explanation as a person reads it: rule by rule, then the decision."""
    yield line(
        Styled(f"Letter {found.message_id}", "strong"),
        f" of {found.pipeline}, from {found.source}, in account {found.account}, {found.region}",
    )
    facts = [f"{count(found.attempts, 're-drive')} so far"]
    if found.forged:
        facts.append("it carries a Redrive attribute that is not ours, and is not believed")
    yield line("; ".join(facts))
    if found.not_given_back:
        yield line(not_given_back(found.not_given_back))
    yield Line()
    yield line("Rules, in the order they are tried:" if found.tried else "There are no rules.")
    for one in found.tried:
        style = "alarm" if one.outcome.startswith("INVALID") else _STYLES.get(one.outcome, "")
        yield line(Styled(one.rule_id, "strong"), "  ", Styled(one.outcome, style), indent=2)
        for field in one.missed:
            yield line(f"{field.path}: expected {field.expected}; found {field.found}", indent=6)
    yield Line()
    decided = decode(found.decision)
    yield line("Decision: ", Styled(said(decided, found.at), "strong"))
    yield line(f"because: {decided.because}", indent=2)
    if found.body is not None:
        yield Line()
        yield line(found.body)
        for name, value in (found.attributes or {}).items():
            yield line(f"{name} = {value}", indent=2)


def said(decision: Decision, now: datetime) -> str:
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
