"""Letters to try a rule or the router on: a sample of a queue, or pasted text."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deadletter.contract import MAIN_DLQ
from deadletter.message.letter import Attribute, Letter, NotALetter, from_api, from_event
from deadletter.message.strict_json import Unreadable, read_json

from .app import DeployedPipeline
from .peek import SAMPLE, Reach, peek
from .problem import Cause, Problem

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

PARKING = "parking"
"""The source that stands for all parking queues of a pipeline."""

PASTED = "pasted"
"""The id of a letter that was never sent."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Letters of one source; `home` is the id of the DLQ that they count as being in."""

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
    reach: Reach = SAMPLE,
) -> Sample:
    """Up to `limit` wanted letters of a source, all of them given back."""
    letters: list[Letter] = []

    def missing() -> int:
        # Unwanted letters cost a look too: always ask for ten.
        return 10 if len(letters) < limit else 0

    def see(message: MessageTypeDef) -> None:
        try:
            letter = from_api(message)
        except NotALetter:
            return
        if len(letters) < limit and wanted(letter):
            letters.append(letter)

    looked_at = not_given_back = 0
    for url in queues(pipeline, source):
        look = peek(sqs, url, missing=missing, see=see, now=now, reach=reach)
        looked_at += look.looked_at
        not_given_back += look.not_given_back
    home = source if source in pipeline.dedicated else MAIN_DLQ
    return Sample(source, letters, looked_at, not_given_back, home)


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
                  Cause.ABSENT)  # fmt: skip


def pasted(source: str, text: str, attributes: Mapping[str, str], now: float) -> Sample:
    """The letters in a text; `attributes` are added to each.

    The text is a body, or the output of `aws sqs receive-message`; `source` names it.
    """
    more = {name: Attribute("String", value) for name, value in attributes.items()}
    letters = [
        Letter(letter.message_id, letter.body, {**letter.attributes, **more}, letter.system)
        for letter in _messages(text) or [_unsent(text, now)]
    ]
    return Sample(source, letters, len(letters))


def _unsent(text: str, now: float) -> Letter:
    """A letter with this body, as if it had just been sent."""
    return Letter(PASTED, text.rstrip("\r\n"), {}, {"SentTimestamp": str(int(now * 1000))})


def _messages(text: str) -> list[Letter]:
    """The letters in the output of `aws sqs receive-message` or a Lambda event; else none."""
    try:
        data = read_json(text)
        match data:
            case {"Messages": [*messages]}:
                return [from_api(_decoded(message)) for message in messages]
            case {"Records": [*records]}:
                return [from_event(record) for record in records]
            case {"MessageId": str(), "Body": str()}:
                return [from_api(_decoded(data))]
    except (Unreadable, NotALetter, ValueError, TypeError, AttributeError):
        pass
    return []


def _decoded(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with bytes in place of the base64 of the AWS CLI."""
    attributes = {
        name: {**attribute, "BinaryValue": base64.b64decode(attribute["BinaryValue"])}
        if "BinaryValue" in attribute
        else attribute
        for name, attribute in message.get("MessageAttributes", {}).items()
    }
    return {**message, "MessageAttributes": attributes}
