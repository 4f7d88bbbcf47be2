"""What rules are matched against: one letter as a JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

from deadletter.failure.failure import Failure
from deadletter.message import stamp
from deadletter.message.letter import Attribute, Letter, utf8
from deadletter.message.stamp import Stamp
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline

# Bytes; a DynamoDB sort key holds 1,024, and it is part of the name of a lane too. One
# message with a longer key would make the circuits unreadable for all.
_MAX_KEY = 512


@dataclass(frozen=True, slots=True)
class Document:
    """The document, and why its body is missing from it, if it is."""

    value: Mapping[str, Any]
    unreadable: str | None = None
    circuit_key: str | None = None


class DocumentBuilder:
    """Turns letters of one pipeline into documents.

    The pipeline's JMESPath expressions are compiled once; a bad one raises
    BadSettings here, before any letter is touched.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._name = pipeline.name
        self._context = {
            name: _compiled(f"context.{name}", path) for name, path in pipeline.context.items()
        }
        key = pipeline.circuit_key
        self._circuit_key = _compiled("circuit_key", key) if key else None

    def build(self, letter: Letter, mark: Stamp, last: Failure | None, now: float) -> Document:
        """The letter as its rules see it. Never raises for what a letter holds."""
        unreadable = None
        body: Any = None
        try:
            body = read_json(letter.body)
        except Unreadable as error:
            unreadable = str(error)
        value: dict[str, Any] = {
            "pipeline": self._name,
            "attributes": {
                name: _attribute(one)
                for name, one in letter.attributes.items()
                if name != stamp.NAME and not isinstance(one.value, bytes)
            },
            # A re-driven letter was sent by us; who it came from stands in its stamp.
            "system": {**letter.system, "SenderId": mark.sender},
            "redrive": {"attempt": mark.attempt, "age_seconds": int(mark.age(now))},
        }
        if unreadable is None:
            value["body"] = body
        if last is not None:
            value["failure"] = _failure(last)
        context = {
            name: found
            for name, path in self._context.items()
            if (found := _scalar(path, value)) is not None
        }
        value["context"] = context
        key = _scalar(self._circuit_key, value) if self._circuit_key else None
        return Document(value, unreadable, None if key is None else _as_key(str(key)))


def _compiled(where: str, path: str) -> ParsedResult:
    try:
        return jmespath.compile(path)
    except JMESPathError as error:
        raise BadSettings(f"{where}: {path!r} is not a JMESPath expression") from error


def _scalar(path: ParsedResult, value: Mapping[str, Any]) -> str | int | float | bool | None:
    # A function applied to the wrong type, or a comparison of a body's odd values,
    # is a letter without that context, not a batch without an answer.
    try:
        found = path.search(value)
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError):
        return None
    return found if isinstance(found, str | int | float | bool) else None


def _as_key(text: str) -> str | None:
    """What a message says as the key of a circuit; a key that nothing can be stored by is none."""
    if not text or len(utf8(text)) > _MAX_KEY:
        return None
    return text


def _attribute(one: Attribute) -> str | int | float:
    text = str(one.value)
    if one.data_type.partition(".")[0] == "Number":
        try:
            number = read_json(text)
        except Unreadable:
            return text
        if isinstance(number, int | float) and not isinstance(number, bool):
            return number
    return text


def _failure(last: Failure) -> dict[str, Any]:
    found: dict[str, Any] = {
        "category": str(last.category),
        "error_type": last.error_type,
        "fingerprint": last.fingerprint,
    }
    if last.http_status is not None:
        found["http_status"] = last.http_status
    return found
