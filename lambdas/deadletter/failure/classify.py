"""Diagnoses an exception: its category, HTTP status, redacted message and fingerprint."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any

from deadletter.failure.failure import CONNECTION_REFUSED, TIMEOUT, Category, is_dependency_status
from deadletter.failure.redaction import redact, searchable_text
from deadletter.failure.signals import Permanent, Transient
from deadletter.message.letter import Letter, NotALetter, utf8
from deadletter.message.strict_json import Unreadable, read_json


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The diagnosis of one exception.

    `error_type` is the exception's class, or `Timeout` or `ConnectionRefused` for a call
    without an answer; `message` is redacted; `retry_after` is seconds; `fingerprint` is
    equal for failures of the same type, with the same message, in the same function,
    also across deployments.
    """

    category: Category
    error_type: str
    message: str
    http_status: int | None = None
    retry_after: float | None = None
    fingerprint: str = ""


# Exceptions read of a chain of causes and groups; further ones explain nothing.
_CHAIN = 20

# Bytes of hash: a pipeline has a few hundred kinds of failure, not billions.
_FINGERPRINT = 8

# Characters kept of a class's name.
_LONGEST_TYPE = 80

# Parts of class names that libraries raise for a call without an answer in time.
_TIMEOUTS = ("Timeout", "TimedOut", "DeadlineExceeded")

# Parts of class names that libraries raise for a connection that failed or broke.
_NO_CONNECTION = ("ConnectError", "ConnectionError", "ConnectorError", "gaierror")
_NO_CONNECTION_ERRNO = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})

# Names of classes that parsers and validators raise: json, xml, pydantic, jsonschema,
# marshmallow, Powertools, protobuf, fastavro, msgspec.
_SCHEMA = frozenset(
    {
        "DecodeError",
        "InvalidEventSource",
        "ParseError",
        "SchemaError",
        "SchemaValidationError",
        "ValidationError",
    }
)

# An HTTP status, beside 5xx, 408 and 429, after which another try may succeed.
_TOO_EARLY = 425

# AWS answers with 400 when it is busy; it means 429.
_BUSY = 429
_AWS_BUSY = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)

# The least characters of a document that is searched for inside a body; a document that is
# equal to the body may be shorter.
_RECOGNISABLE = 16

# The limits of a search of a validator's data in a letter: texts, pieces of data visited (data
# may contain itself), and characters of a text.
_LEAVES = 50
_NODES = 500
_LONGEST_LEAF = 500
_WORD = re.compile(r"[^\W_]+")

# Characters; a date has 29.
_LONGEST_RETRY_AFTER = 64

# Seconds: SQS keeps a message two weeks at most.
_LONGEST_WAIT = 14 * 86_400


def diagnose(error: BaseException, letter: Letter | None, *, now: float) -> Diagnosis:
    """The diagnosis of an error, by the first of its chain of causes that has a category.

    The handler's own verdict counts first, then the HTTP status (408, 425, 429 and 5xx are
    transient; any other is a refusal by the dependency: integration), then a call without
    an answer, then a parser's error (schema). Without any of these an error is transient.
    `letter` is None if the message was not readable as a letter; `now` is epoch seconds,
    for a Retry-After that is a date. Never raises.
    """
    chain = list(islice(_chain(error), _CHAIN))
    category = next(
        (own for cause in chain if (own := _category(cause, letter)) is not None),
        Category.TRANSIENT,
    )
    status = _first(chain, _status)
    error_type = _first(chain, _no_answer) if status is None else None
    error_type = error_type or _name(error)
    # An exception of our own may declare that its text contains no data.
    plain = _attribute(type(error), "plain") is True
    message = _message(error) if plain else redact(_message(error), letter)
    return Diagnosis(
        category=category,
        error_type=error_type,
        message=message,
        http_status=status,
        retry_after=_retry_after(chain, now) if category is Category.TRANSIENT else None,
        fingerprint=_fingerprint(error_type, message, _place(error)),
    )


def _category(error: BaseException, letter: Letter | None) -> Category | None:
    if isinstance(error, Permanent):
        return error.category
    if isinstance(error, Transient):
        return Category.TRANSIENT
    declared = _attribute(error, "category")
    if isinstance(declared, Category):
        return declared
    status = _status(error)
    if status is not None:
        not_now = is_dependency_status(status) or status == _TOO_EARLY
        return Category.TRANSIENT if not_now else Category.INTEGRATION
    if _no_answer(error) is not None:
        return Category.TRANSIENT
    return Category.SCHEMA if _blames_the_letter(error, letter) else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes, and the members of an error group.

    Endless if the causes form a circle.
    """
    waiting = [error]
    for current in waiting:
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions[:_CHAIN])
        # urllib keeps the cause in `reason`.
        for source in (current.__cause__, _attribute(current, "reason")):
            if isinstance(source, BaseException):
                waiting.append(source)


def _first(chain: list[BaseException], read: Any) -> Any:
    return next((value for cause in chain if (value := read(cause)) is not None), None)


def _status(error: BaseException) -> int | None:
    """The HTTP status of an exception, from any attribute in which libraries keep it."""
    response = _attribute(error, "response")
    if isinstance(response, Mapping):
        return _aws_status(response)
    for holder, name in (
        (error, "status"),
        (error, "status_code"),
        (error, "code"),
        (response, "status_code"),
        (response, "status"),
    ):
        status = _attribute(holder, name)
        if _is_error_status(status):
            return int(status)
    return None


def _aws_status(response: Mapping[Any, Any]) -> int | None:
    code = _within(response, "Error", "Code")
    if isinstance(code, str) and code in _AWS_BUSY:
        return _BUSY
    status = _within(response, "ResponseMetadata", "HTTPStatusCode")
    return int(status) if _is_error_status(status) else None


def _is_error_status(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 300 <= value <= 599


def _no_answer(error: BaseException) -> str | None:
    """The error type of a call without an answer; None for any other error."""
    names = [kind.__name__ for kind in type(error).__mro__]
    if any(part in name for name in names for part in _TIMEOUTS):
        return TIMEOUT
    unreachable = isinstance(error, OSError) and error.errno in _NO_CONNECTION_ERRNO
    if unreachable or any(part in name for name in names for part in _NO_CONNECTION):
        return CONNECTION_REFUSED
    return None


def _blames_the_letter(error: BaseException, letter: Letter | None) -> bool:
    """True if a parser or a validator refused the letter's content.

    An error that names the refused document or data counts only if the letter contains it:
    a parser may also fail on the answer of a dependency, which is not the letter's fault.
    """
    if isinstance(error, NotALetter | Unreadable):
        return True
    if isinstance(error, json.JSONDecodeError):
        return letter is not None and _contains_document(letter, error.doc)
    if isinstance(error, UnicodeDecodeError):
        return letter is not None and _contains_bytes(letter, error.object)
    if any(kind.__name__ in _SCHEMA for kind in type(error).__mro__):
        return letter is None or _contains_words(letter, _refused_data(error))
    return letter is not None and _is_beyond_json(error, letter)


def _refused_data(error: BaseException) -> Any:
    """The data that a validator refused, from any attribute in which libraries keep it."""
    try:
        # pydantic
        return [detail["input"] for detail in error.errors()[:_CHAIN]]  # type: ignore[attr-defined]
    except Exception:  # code of a foreign class
        # jsonschema, fastjsonschema and Powertools, marshmallow
        names = ("instance", "value", "data")
        values = (_attribute(error, name) for name in names)
        return next((value for value in values if value is not None), None)


def _contains_words(letter: Letter, data: Any) -> bool:
    """True if every word of the data is in the letter, and for data without words."""
    words = {word for text in islice(_texts(data), _LEAVES) for word in _WORD.findall(text)}
    if not words:
        return True
    letter_text = searchable_text(letter)
    return all(word.lower() in letter_text for word in words)


def _texts(data: Any) -> Iterator[str]:
    """The text keys and values of some data. Numbers are left out: JSON has many forms of one."""
    waiting = [data]
    for node in islice(waiting, _NODES):
        if isinstance(node, str):
            yield node[:_LONGEST_LEAF]
        elif isinstance(node, bytes):
            yield node[:_LONGEST_LEAF].decode("utf-8", "ignore")
        elif isinstance(node, dict):
            waiting += [*islice(node, _LEAVES), *islice(node.values(), _LEAVES)]
        elif isinstance(node, list | tuple):
            waiting += node[:_LEAVES]


def _contains_document(letter: Letter, document: Any) -> bool:
    if not isinstance(document, str):
        return False
    texts = [letter.body, *(str(attribute.value) for attribute in letter.attributes.values())]
    if document in texts:
        return True
    # JSON inside JSON is escaped.
    escaped = json.dumps(document)[1:-1]
    return len(document.strip()) >= _RECOGNISABLE and any(
        document in text or escaped in text for text in texts
    )


def _contains_bytes(letter: Letter, document: Any) -> bool:
    if not isinstance(document, bytes) or not document:
        return False
    body = utf8(letter.body)
    attributes = letter.attributes.values()
    values = [item.value for item in attributes if isinstance(item.value, bytes)]
    return document in (body, *values) or base64.b64encode(document) == body.strip()


def _is_beyond_json(error: BaseException, letter: Letter) -> bool:
    """True if `json` failed on a body with too deep nesting or with too long a number."""
    too_deep = isinstance(error, RecursionError)
    too_long = type(error) is ValueError and _place(error)[0].startswith("json.")
    if not too_deep and not too_long:
        return False
    try:
        read_json(letter.body)
    except Unreadable as refusal:
        return type(refusal.__cause__) is type(error)
    return False


def _retry_after(chain: list[BaseException], now: float) -> float | None:
    for cause in chain:
        if isinstance(cause, Transient) and cause.retry_after is not None:
            return _seconds(cause.retry_after)
    for cause in chain:
        response = _attribute(cause, "response")
        headers = (
            _within(response, "ResponseMetadata", "HTTPHeaders")
            if isinstance(response, Mapping)
            else _attribute(response, "headers")
        )
        for holder in (headers, _attribute(cause, "headers")):
            value = _header(holder)
            if value is not None:
                return retry_after(value, now)
    return None


def retry_after(value: str, now: float) -> float | None:
    """The seconds in a Retry-After header, which is a number of seconds or a date.

    None for any other text; 0 for a past date; two weeks at most.
    """
    text = value[:_LONGEST_RETRY_AFTER].strip()
    if text.isascii() and text.isdigit():
        return _seconds(int(text))
    try:
        when = parsedate_to_datetime(text)
        # HTTP dates are always GMT, also without a zone.
        at = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return _seconds(max(0.0, at - now))


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(min(value, _LONGEST_WAIT)) if 0 <= value < math.inf else None


def _header(headers: Any) -> str | None:
    for name in ("Retry-After", "retry-after"):
        try:
            value = headers.get(name)
        except Exception:  # code of a foreign class
            return None
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str):
            return value
    return None


def _attribute(holder: Any, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except Exception:  # code of a foreign class
        return None


def _within(data: Mapping[Any, Any], *path: str) -> Any:
    value: Any = data
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # code of a foreign class
        return ""


def _name(error: BaseException) -> str:
    name = type(error).__name__
    return name[:_LONGEST_TYPE] if name.isascii() and name.isidentifier() else "Exception"


def _place(error: BaseException) -> tuple[str, str]:
    """Module and function that raised. Path and line are left out: a deployment changes them."""
    trace, frame = error.__traceback__, None
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
    if frame is None:
        return "", ""
    return str(frame.f_globals.get("__name__", "")), frame.f_code.co_qualname


def _fingerprint(error_type: str, message: str, place: tuple[str, str]) -> str:
    identity = json.dumps([error_type, message.lower(), *place])
    return hashlib.sha256(identity.encode()).hexdigest()[: 2 * _FINGERPRINT]
