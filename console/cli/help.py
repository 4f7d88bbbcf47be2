"""`dlq help`: what is said once for all commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from ..operations.errors import Cause, Problem
from ..operations.session import Session
from ..operations.verbs import Asked, Verb
from .commands import BESIDE_READER, COMMANDS, READER
from .exit import MEANING
from .output import SCHEMA, Block, Line, Styled, TextTable, line
from .verb import VerbView

TERMS: Mapping[str, str] = {
    "message": "One SQS message with its history. Its message ID is its first one, for ever; SQS "
    "gives each retry a new one, its current ID.",
    "business ID": "Your own number for a message, such as an order's: what idempotency_key finds.",
    "pipeline": "A main queue with its DLQs, parking queues, consumer and settings.",
    "DLQ": "The queue that SQS moves a message to after its last receive. A dedicated DLQ is one "
    "that a rule sets apart, such as a tenant's.",
    "attempt": "One way of a message from the main queue until it is processed or dead. It has one "
    "or more receives.",
    "retry": "A message is sent back to the main queue: automatically, or by a person's run.",
    "run": "A person's retry, discard or restore: planned, paced, stoppable, and each message "
    "accounted for. Also a turn of the automatic retry, which dlq run list leaves out.",
    "waiting": "Held outside SQS until a time, a circuit, a rule, a cause or a run lets it go.",
    "parked": "Automation has given it up: it is a person's turn. SQS does not delete it in mode "
    "enforce.",
    "discard": "A person throws a message away, and a copy is kept; restore brings it back.",
    "cause": "Failures of one kind, and their ID, whose first 8 digits dlq shows.",
    "failure record": "Why and when each receive of a message failed.",
    "rule": "What a person says of messages: QUARANTINE, HOLD, DELAYED_REDRIVE, THROTTLE, "
    "DEDICATED_DLQ or DEFAULT.",
    "shadow": "A rule that only counts what it would have done.",
    "mode": "observe decides and reports, and moves nothing; enforce moves.",
    "circuit": "Whether a dependency is called: closed (yes), open (no), half-open (a few calls "
    "try it).",
    "canary": "The first few messages of a run, or the call that tries an open circuit.",
    "monitor": "The function that looks at a pipeline each minute, and rings its alarms.",
    "expiry": "When SQS would delete a message. Mode enforce has it wait outside SQS before, if it "
    "is in a DLQ or parked.",
}
"""Each term that a person needs, and what it means; a sentence each, or two."""


@dataclass(frozen=True, slots=True)
class HelpTopic:
    """What `dlq help` answers."""

    topic: Annotated[str, "the topic; empty for the list of topics"]
    rows: Annotated[Sequence[tuple[str, str]], "its lines, each a word and what it means"]


@dataclass(frozen=True, kw_only=True)
class HelpRequest:
    """What holds for all commands: words, exit statuses, JSON, policies.

    dlq COMMAND --help explains a command. Asks AWS nothing.
    """

    topic: Annotated[
        str | None, Asked("words, exit, environment, json or policies.", metavar="TOPIC")
    ] = None


def read(_: Session, request: HelpRequest) -> HelpTopic:
    """The lines of a topic, or all topics."""
    topic = request.topic
    if topic is None:
        return HelpTopic("", [(name, says) for name, (says, _) in TOPICS.items()])
    if topic not in TOPICS:
        raise Problem(f"There is no topic {topic!r}: it is {', '.join(TOPICS)}.", Cause.INPUT)
    return HelpTopic(topic, TOPICS[topic][1])


def _show(help_topic: HelpTopic) -> Iterator[Block]:
    topic = help_topic.topic
    yield line(Styled(TOPICS[topic][0] if topic else "Topics", "strong"))
    yield Line()
    yield TextTable((), [(f"  {word}", says) for word, says in help_topic.rows])


_ENVIRONMENT = (
    ("AWS_PROFILE", "the profile, unless --profile is given"),
    ("AWS_REGION", "the region, unless --region is given; then the profile's own"),
    ("AWS_ENDPOINT_URL", "another AWS, such as an emulator"),
    ("DLQ_APP", "the app, unless --app is given"),
    ("NO_COLOR", "if set, no colour and no other styling"),
)
_JSON = (
    ("--json", "the answer; docs/answers.schema.json describes it"),
    ("--jsonl", "the rows of the answer's first list, one a line; what --query chose, likewise"),
    ("--query", "a JMESPath expression over the answer; it implies --json"),
    ("schema", f"{SCHEMA}, the version of all answers; keys are only added to it"),
    ("times", "ISO 8601 in UTC; durations are seconds, sizes are bytes"),
)
_POLICIES = (
    (READER, "every command that only looks"),
    *(
        (policy, ", ".join(name for name, needed in BESIDE_READER.items() if policy in needed))
        for policy in dict.fromkeys(policy for each in BESIDE_READER.values() for policy in each)
    ),
    (
        "none of them",
        ", ".join(sorted(name for name, each in COMMANDS.items() if each.asks_nothing)),
    ),
)
TOPICS: Mapping[str, tuple[str, Sequence[tuple[str, str]]]] = {
    "words": ("Words, and what they mean", list(TERMS.items())),
    "exit": (
        "Exit statuses; numbers are added, never changed",
        [(str(int(status)), says) for status, says in MEANING.items()],
    ),
    "environment": ("Variables of the environment", _ENVIRONMENT),
    "json": ("JSON answers", _JSON),
    "policies": ("The app's managed policies, each beside DlqReader", _POLICIES),
}
"""Each topic with its heading and its lines."""

VERB = Verb(
    name="help",
    request=HelpRequest,
    examples=["dlq help words", "dlq help policies"],
    read=read,
)

VIEWS = (VerbView(VERB, _show),)
