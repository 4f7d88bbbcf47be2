"""`dlq help`: what is said once for all commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from ..operations.errors import Cause, Problem
from ..operations.session import Session
from ..operations.verbs import Asked, Verb
from .command import plain_typer
from .commands import BESIDE_READER, COMMANDS, READER
from .exit import MEANING
from .glossary import TERMS
from .output import SCHEMA, Block, Line, Styled, TextTable, line
from .verb import add

typer_app = plain_typer()


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

add(
    typer_app,
    Verb(
        name="help",
        request=HelpRequest,
        examples=["dlq help words", "dlq help policies"],
        read=read,
    ),
    _show,
)
