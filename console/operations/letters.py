"""Letters to try something on: a sample of a queue, or what somebody pastes."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deadletter.contract import MAIN_DLQ
from deadletter.message.letter import Attribute, Letter, NotALetter, from_api, from_event
from deadletter.message.strict_json import Unreadable, read_json

from .app import DeployedPipeline
from .peek import peek
from .problem import Exit, Problem

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

PARKING = "parking"
"""The source that stands for all parking queues of a pipeline."""

PASTED = "pasted"
"""The id of a letter that has none, because it never was a message."""

Source = Annotated[
    str,
    typer.Option(
        "--source", metavar="ID", help="Which queue: dlq, parking, or the id of a dedicated DLQ."
    ),
]
Body = Annotated[
    str | None,
    typer.Option(
        "--body",
        metavar="FILE",
        help="A body, or what `aws sqs receive-message` printed, instead of a queue; - is stdin.",
    ),
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute", metavar="NAME=VALUE", help="With --body: a message attribute it has."
    ),
]


@dataclass(frozen=True, slots=True)
class Sample:
    """Some letters, all from one source; `home` is the id of the DLQ they count as being in."""

    source: str
    letters: Sequence[Letter]
    looked_at: int
    not_given_back: int = 0
    home: str = MAIN_DLQ


def sampled(
    sqs: SQSClient,
    pipeline: DeployedPipeline,
    source: str,
    limit: int,
    now: Callable[[], float],
    wanted: Callable[[Letter], bool] = lambda _: True,
) -> Sample:
    """Up to `limit` wanted letters of a source, all of them given back."""
    found: list[Letter] = []

    def missing() -> int:
        # Letters that are not wanted cost a look too: always ask for ten.
        return 10 if len(found) < limit else 0

    def see(message: MessageTypeDef) -> None:
        try:
            letter = from_api(message)
        except NotALetter:
            return
        if len(found) < limit and wanted(letter):
            found.append(letter)

    looked_at = not_given_back = 0
    for url in queues(pipeline, source):
        looked = peek(sqs, url, missing=missing, see=see, now=now)
        looked_at += looked.looked_at
        not_given_back += looked.not_given_back
    home = source if source in pipeline.dedicated else MAIN_DLQ
    return Sample(source, found, looked_at, not_given_back, home)


def queues(pipeline: DeployedPipeline, source: str) -> Sequence[str]:
    """The URLs of a source's queues; Problem if the pipeline has no such source."""
    if source == MAIN_DLQ:
        return (pipeline.dlq_url,)
    if source in pipeline.dedicated:
        return (pipeline.dedicated[source],)
    if source == PARKING:
        return tuple(pipeline.parking.values())
    allowed = ", ".join([MAIN_DLQ, PARKING, *pipeline.dedicated])
    raise Problem(f"Pipeline {pipeline.name} has no source {source!r}: it has {allowed}.",
                  Exit.ABSENT)  # fmt: skip


def pasted(path: str, attributes: Sequence[str], now: float) -> Sample:
    """The letters in a file or on standard input; `attributes` are added to each."""
    text = read_text(path)
    more = dict(_attribute(one) for one in attributes)
    letters = [
        Letter(one.message_id, one.body, {**one.attributes, **more}, one.system)
        for one in _messages(text) or [_unsent(text, now)]
    ]
    return Sample(path, letters, len(letters))


def read_text(path: str) -> str:
    """What is in a file, or on standard input for "-"; Problem if that is not text."""
    try:
        if path == "-":
            return sys.stdin.read()
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Problem(f"Can't read {path}: {why}.", Exit.USAGE) from error


def _attribute(text: str) -> tuple[str, Attribute]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise Problem(f"--attribute takes NAME=VALUE, not {text!r}.", Exit.USAGE)
    return name, Attribute("String", value)


def _unsent(text: str, now: float) -> Letter:
    """A body by itself, as if it had just been sent."""
    return Letter(PASTED, text.rstrip("\r\n"), {}, {"SentTimestamp": str(int(now * 1000))})


def _messages(text: str) -> list[Letter]:
    """The letters in what `aws sqs receive-message` or Lambda writes; none if it is a body."""
    try:
        data = read_json(text)
        match data:
            case {"Messages": [*found]}:
                return [from_api(_decoded(one)) for one in found]
            case {"Records": [*found]}:
                return [from_event(one) for one in found]
            case {"MessageId": str(), "Body": str()}:
                return [from_api(_decoded(data))]
    except (Unreadable, NotALetter, ValueError, TypeError, AttributeError):
        pass
    return []


def _decoded(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with bytes where the AWS CLI writes base64."""
    attributes = {
        name: {**one, "BinaryValue": base64.b64decode(one["BinaryValue"])}
        if "BinaryValue" in one
        else one
        for name, one in message.get("MessageAttributes", {}).items()
    }
    return {**message, "MessageAttributes": attributes}
