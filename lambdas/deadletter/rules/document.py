"""One letter as the JSON document that rules are matched against."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from deadletter.contract import is_reserved_key
from deadletter.message import stamp
from deadletter.message.letter import Attribute, Letter, utf8
from deadletter.message.stamp import Stamp
from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.paths import Path, compiled, value_at
from deadletter.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from deadletter.failure.failure import Failure

# Bytes; a DynamoDB sort key holds 1,024, and the key is part of the name of a lane too. One
# message with a longer key would make the circuits unreadable for all messages.
_MAX_KEY = 512

_SCALARS = (str, int, float, bool)

TENANT = "tenantId"
"""The name in `context` of the customer whom a message is about."""


@dataclass(frozen=True, slots=True)
class Document:
    """The document; `unreadable` says why its body is missing, if it is.

    `expires` is when the message expires by itself (epoch seconds; None: never), and `undated`
    says that what should say so is no time.
    """

    value: Mapping[str, Any]
    unreadable: str | None = None
    circuit_key: str | None = None
    expires: float | None = None
    undated: bool = False


Build = Callable[[Letter, Stamp, "Failure | None", float], Document]
"""Finds the document of a letter; never raises, for any content."""


def possible_documents(
    pipeline: Pipeline, circuit_keys: Sequence[str | None]
) -> tuple[Sequence[Document], Sequence[str]]:
    """The documents that a letter may have whose content is not known, and what decides which.

    Of each setting that reads the content they have both sides.
    """
    documents, doubts = [Document({}, circuit_key=key) for key in circuit_keys], []
    if pipeline.expires is not None:
        pairs = ((document, replace(document, expires=0.0)) for document in documents)
        documents = [document for pair in pairs for document in pair]
        doubts.append(f"its own expiry decides; it is at {pipeline.expires} (--look)")
    return documents, doubts


class DocumentBuilder:
    """Builds the documents of one pipeline's letters.

    The pipeline's JMESPath expressions are compiled once; an invalid one raises
    BadSettings here, before any letter is read.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._name = pipeline.name
        self._context = {
            name: compiled(f"context.{name}", path) for name, path in pipeline.context.items()
        }
        key = pipeline.circuit_key
        self._circuit_key = compiled("circuit_key", key) if key else None
        self._expires = compiled("expires", pipeline.expires) if pipeline.expires else None

    def build(self, letter: Letter, mark: Stamp, last: Failure | None, now: float) -> Document:
        """The document of a letter. Never raises, for any content."""
        unreadable = None
        body: Any = None
        try:
            body = read_json(letter.body)
        except Unreadable as error:
            unreadable = str(error)
        # Under the same names in all lives of the letter.
        producers = letter.attributes
        if stamp.NAME in producers:
            producers = stamp.producer_attributes(letter, stamp.kept_name(letter, mark))
        value: dict[str, Any] = {
            "pipeline": self._name,
            "attributes": {
                name: attribute_value(attribute)
                for name, attribute in producers.items()
                if not isinstance(attribute.value, bytes)
            },
            # We sent a re-driven letter; its stamp has the original sender.
            "system": {**letter.system, "SenderId": mark.sender},
            "redrive": {"attempt": mark.attempts_used, "age_seconds": int(mark.age(now))},
        }
        if unreadable is None:
            value["body"] = body
        if last is not None:
            value["failure"] = _failure(last)
        context = {
            name: scalar
            for name, path in self._context.items()
            if (scalar := _scalar(path, value)) is not None
        }
        value["context"] = context
        key = _scalar(self._circuit_key, value) if self._circuit_key else None
        circuit_key = None if key is None else _as_key(str(key))
        if self._expires is None:
            return Document(value, unreadable, circuit_key)
        # Few pipelines have messages that expire: a cold start of the others does without.

        said = value_at(self._expires, value)
        expires = moment(said)
        undated = said is not None and expires is None
        return Document(value, unreadable, circuit_key, expires, undated)


def _scalar(path: Path, value: Mapping[str, Any]) -> str | int | float | bool | None:
    result = value_at(path, value)
    return result if isinstance(result, _SCALARS) else None


def _as_key(text: str) -> str | None:
    """The text as the key of a circuit; None if it is empty, too long or one of our own keys.

    Nor is one that has lines: what stands below a sentence is a command to type.
    """
    is_a_line = text.splitlines() == [text]
    return text if is_a_line and len(utf8(text)) <= _MAX_KEY and not is_reserved_key(text) else None


def attribute_value(attribute: Attribute) -> str | int | float:
    """An attribute that is no binary, as rules and paths see it: a number where it is one."""
    text = str(attribute.value)
    if attribute.data_type.partition(".")[0] == "Number":
        try:
            number = read_json(text)
        except Unreadable:
            return text
        if isinstance(number, int | float) and not isinstance(number, bool):
            return number
    return text


def _failure(last: Failure) -> dict[str, Any]:
    data: dict[str, Any] = {
        "category": str(last.category),
        "blame": str(last.blame),
        "error_type": last.error_type,
        "fingerprint": last.fingerprint,
    }
    if last.http_status is not None:
        data["http_status"] = last.http_status
    return data


# Epoch seconds of 2001-09-09. What is earlier is no expiry: a duration such as 3600, a zero, or the
# first day of some calendar.
_FIRST = 1e9

# A number in between is neither seconds (until the year 5138) nor milliseconds (since 2001).
_LAST_SECONDS, _FIRST_MILLISECONDS, _LAST_MILLISECONDS = 1e11, 1e12, 1e14

_LONGEST = 40
_NUMBER = re.compile(r"[0-9]{10,13}(\.[0-9]{1,9})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def moment(value: Any) -> float | None:
    """The time that a value means, in epoch seconds; None if it means none. Never raises.

    Read are epoch seconds and milliseconds, as a number or as text, and times in ISO 8601: UTC
    without an offset, and a day alone until its end. A time before 2001 is no expiry.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _of_number(value)
    if not isinstance(value, str) or len(value) > _LONGEST or not value.isascii():
        return None
    if _NUMBER.fullmatch(value):
        return _of_number(float(value))
    try:
        time = _of_text(value)
    except (ValueError, OverflowError):
        return None
    return time if time >= _FIRST else None


def _of_number(number: float) -> float | None:
    if _FIRST <= number < _LAST_SECONDS:
        return float(number)
    return number / 1000 if _FIRST_MILLISECONDS <= number < _LAST_MILLISECONDS else None


def _of_text(text: str) -> float:
    if _DAY.fullmatch(text):
        ends = date.fromisoformat(text) + timedelta(days=1)
        return datetime(ends.year, ends.month, ends.day, tzinfo=UTC).timestamp()
    if ":" not in text and "T" not in text:
        raise ValueError(text)
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
