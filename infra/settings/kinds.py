"""Kinds of values that stand in several settings, and the limits that AWS sets them.

Durations are whole seconds, or text such as "15m".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import jmespath
from jmespath import functions
from jmespath.exceptions import JMESPathError
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from deadletter.contract import (
    AUTO,
    EVERYTHING,
    MOST_SHARDS,
    NOTHING,
    PARKED_FOR,
    PATH_FUNCTIONS,
    Body,
    Collision,
    KeyPolicy,
    LedgerContext,
    LedgerMessage,
    Mode,
    Transport,
)

from ..arn import Arn, NotAnArn, is_token
from ..duration import DAY, HOUR, MINUTE, seconds

# SQS keeps a message at most this long.
LONGEST_RETENTION = 14 * DAY


# SQS hides a message at most this long.
LONGEST_VISIBILITY = 12 * HOUR


# Lambda allows 64 characters for "<app>-<pipeline>-consumer". Names with an id of a queue can be
# longer than their service allows; `infra.context` checks each of them.
APP_LENGTH, PIPELINE_LENGTH, ID_LENGTH = 24, 28, 16


WORDS = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"


def _words(length: int) -> Any:
    return Field(
        pattern=WORDS,
        max_length=length,
        json_schema_extra={
            "allowed": "lower-case letters, digits and single hyphens, starting with a letter,"
            f" at most {length} characters"
        },
    )


def _arn(kind: str, pattern: str, example: str) -> Any:
    shape = re.compile(pattern)

    def check(text: str) -> str:
        if is_token(text):
            return text
        try:
            arn = Arn.parse(text)
        except NotAnArn:
            arn = None
        if arn is None or arn.service != kind or not shape.fullmatch(arn.resource):
            raise PydanticCustomError("not_an_arn", "not the ARN of this kind of thing")
        return text

    return AfterValidator(check), Field(json_schema_extra={"allowed": f"an ARN like {example}"})


UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


def _uuid(text: str) -> str:
    if not is_token(text) and not re.match(UUID, text):
        raise PydanticCustomError("not_a_uuid", "not a UUID")
    return text


# JMESPath itself notices an unknown function only when it meets a message, and finds nothing.
_FUNCTIONS = {*functions.Functions.FUNCTION_TABLE, *PATH_FUNCTIONS}


def _expression(text: str) -> str:
    try:
        tree = jmespath.compile(text).parsed
    except JMESPathError as error:
        raise PydanticCustomError("jmespath", "does not compile") from error
    if unknown := sorted(set(_called(tree)) - _FUNCTIONS):
        raise PydanticCustomError(
            "jmespath", "calls {unknown}, which is no function", {"unknown": ", ".join(unknown)}
        )
    return text


def _called(tree: dict[str, Any]) -> Iterator[str]:
    """The names of the functions that an expression calls."""
    if tree["type"] == "function_expression":
        yield tree["value"]
    for child in tree["children"]:
        yield from _called(child)


def _compared(text: str) -> str:
    return text if text in (EVERYTHING, NOTHING) else _expression(text)


# Letters a second.
_HIGHEST_RATE = 10_000


def _rate(value: object) -> float | Literal["auto"]:
    if value == AUTO:
        return AUTO
    if isinstance(value, int | float) and value is not True and 0 < value <= _HIGHEST_RATE:
        return float(value)
    raise PydanticCustomError("rate", "not a rate")


RateOrAuto = Annotated[
    float | Literal["auto"],
    PlainValidator(_rate),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": _HIGHEST_RATE},
                {"const": AUTO},
            ]
        }
    ),
]


def _shards(value: object) -> int | Literal["auto"]:
    if value == AUTO:
        return AUTO
    if isinstance(value, int) and value is not True and 1 <= value <= MOST_SHARDS:
        return value
    raise PydanticCustomError("shards", "not a number of shards")


ShardsOrAuto = Annotated[
    int | Literal["auto"],
    PlainValidator(_shards),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MOST_SHARDS}, {"const": AUTO}]}
    ),
]


AppName = Annotated[str, _words(APP_LENGTH)]


PipelineName = Annotated[str, _words(PIPELINE_LENGTH)]


Id = Annotated[str, _words(ID_LENGTH)]


WRITTEN = BeforeValidator(seconds), Field(json_schema_extra={"unit": "seconds"})


Seconds = Annotated[int, *WRITTEN]


Port = Annotated[int, Field(ge=1, le=65535)]


Visibility = Annotated[int, Field(ge=0, le=LONGEST_VISIBILITY), *WRITTEN]


# CloudWatch accepts periods of 10 and 30 seconds, and finds no data in most of them.
Period = Annotated[
    int,
    Field(ge=MINUTE, le=DAY, multiple_of=MINUTE),
    *WRITTEN,
    Field(
        json_schema_extra={
            "allowed": "a duration of whole minutes from 1m to 1d, because no metric that the"
            " alarms watch is published more than once a minute"
        }
    ),
]


QueueArn = Annotated[
    str,
    *_arn("sqs", r"[A-Za-z0-9_-]{1,75}(\.fifo)?", "arn:aws:sqs:eu-west-1:111122223333:orders"),
]


FunctionArn = Annotated[
    str,
    *_arn(
        "lambda",
        r"function:[A-Za-z0-9_-]{1,64}(:[A-Za-z0-9_$-]+)?",
        "arn:aws:lambda:eu-west-1:111122223333:function:orders",
    ),
]


TopicArn = Annotated[
    str, *_arn("sns", r"[A-Za-z0-9_-]{1,256}", "arn:aws:sns:eu-west-1:111122223333:pager")
]


MappingId = Annotated[
    str,
    AfterValidator(_uuid),
    Field(
        json_schema_extra={
            "pattern": UUID,
            "allowed": "a UUID such as 1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f",
        }
    ),
]


Owner = Annotated[
    str,
    Field(
        # One line of a description of 1,024 characters.
        pattern=r"^[^\x00-\x1f\x7f]+$",
        max_length=80,
        json_schema_extra={"allowed": "text of at most 80 characters, without line breaks"},
    ),
]


HealthUrl = Annotated[
    str,
    Field(
        # Queries and users may hold secrets, which must not be in a function's environment.
        pattern=r"^https://[A-Za-z0-9.-]+(:443)?(/[^\s?#]*)?$",
        max_length=500,
        json_schema_extra={
            "allowed": "an https URL on port 443, without query, such as https://api.example/health"
        },
    ),
]


KeyArn = Annotated[
    str,
    *_arn("kms", r"key/[A-Za-z0-9-]+", "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd"),
]


Path = Annotated[
    str,
    AfterValidator(_expression),
    Field(
        json_schema_extra={
            "allowed": "a JMESPath expression, such as body.tenant or json(body.Message).tenant"
        }
    ),
]


Compared = Annotated[
    str,
    AfterValidator(_compared),
    Field(
        json_schema_extra={
            "allowed": f"{EVERYTHING}, {NOTHING}, or a JMESPath expression, such as body.order"
        }
    ),
]


if TYPE_CHECKING:
    ModeText = Mode
    BodyText = Body
    LedgerMessageText = LedgerMessage
    LedgerContextText = LedgerContext
    CollisionText = Collision
    KeyPolicyText = KeyPolicy
    TransportText = Transport
    ParkedForText = str
else:
    # Of an enum, pydantic takes only members; of a Literal also the text that a person types.
    ModeText = Literal[tuple(Mode)]
    BodyText = Literal[tuple(Body)]
    LedgerMessageText = Literal[tuple(LedgerMessage)]
    LedgerContextText = Literal[tuple(LedgerContext)]
    CollisionText = Literal[tuple(Collision)]
    KeyPolicyText = Literal[tuple(KeyPolicy)]
    TransportText = Literal[tuple(Transport)]
    ParkedForText = Literal[tuple(str(key) for key in PARKED_FOR)]


class Settings(BaseModel):
    """A frozen model with strict types that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
