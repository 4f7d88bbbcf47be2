"""What kind of failure an exception is."""

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
    """What is known of a failure.

    `error_type` is the exception's class, or `Timeout` or `ConnectionRefused` for a call
    that never got an answer; `message` is redacted; `retry_after` is seconds;
    `fingerprint` is equal for failures of the same type, with the same message, at the
    same place in the code, whichever version of it is deployed.
    """

    category: Category
    error_type: str
    message: str
    http_status: int | None = None
    retry_after: float | None = None
    fingerprint: str = ""


# Exceptions that are looked at of a chain of causes and groups: more explain nothing.
_CHAIN = 20

# Bytes of hash: a pipeline has a few hundred kinds of failure, not billions.
_FINGERPRINT = 8

# Characters of a class's name.
_LONGEST_TYPE = 80

# Classes, by name, that libraries raise for a call without an answer in time.
_TIMEOUTS = ("Timeout", "TimedOut", "DeadlineExceeded")

# Classes, by name, that libraries raise where no connection came about or it broke.
_NO_CONNECTION = ("ConnectError", "ConnectionError", "ConnectorError", "gaierror")
_NO_CONNECTION_ERRNO = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})

# Classes, by name, that parsers and validators raise: json, xml, pydantic, jsonschema,
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

# HTTP statuses beside 5xx, 408 and 429 that another try can answer otherwise.
_TOO_EARLY = 425

# AWS says that it is busy with a 400; it means 429.
_BUSY = 429
_AWS_BUSY = frozenset(
    {
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)

# Characters that a document must have to be known again inside a body; equal it may always be.
_RECOGNISABLE = 16

# Texts of some data, and characters of each, that are looked for in a letter, and how many
# pieces are walked to find them: data may hold itself.
_LEAVES = 50
_NODES = 500
_LONGEST_LEAF = 500
_WORD = re.compile(r"[^\W_]+")

# Characters; a date has 29.
_LONGEST_RETRY_AFTER = 64

# Seconds: SQS keeps no message longer than two weeks, whatever it is asked to wait for.
_LONGEST_WAIT = 14 * 86_400


def diagnose(error: BaseException, letter: Letter | None, *, now: float) -> Diagnosis:
    """The kind of failure that the error is: the first of its chain of causes that says so.

    The handler's own verdict first, then the HTTP status (408, 425, 429 and 5xx are
    transient, all else a dependency that refuses us: integration), then a call without
    an answer, then a parser's error (schema). What says nothing is transient. `letter`
    is None where what came was none; `now` is epoch seconds, for a Retry-After that is
    a date. Never raises.
    """
    chain = list(islice(_chain(error), _CHAIN))
    category = next(
        (found for one in chain if (found := _category(one, letter)) is not None),
        Category.TRANSIENT,
    )
    status = _first(chain, _status)
    error_type = _first(chain, _no_answer) if status is None else None
    error_type = error_type or _name(error)
    # An exception of our own may say that its text quotes nothing and nobody.
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
    said = _attribute(error, "category")
    if isinstance(said, Category):
        return said
    status = _status(error)
    if status is not None:
        waits = is_dependency_status(status) or status == _TOO_EARLY
        return Category.TRANSIENT if waits else Category.INTEGRATION
    if _no_answer(error) is not None:
        return Category.TRANSIENT
    return Category.SCHEMA if _blames_the_letter(error, letter) else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from, and what a group of errors holds.

    Without end where causes go round in a circle.
    """
    waiting = [error]
    for one in waiting:
        yield one
        if isinstance(one, BaseExceptionGroup):
            waiting.extend(one.exceptions[:_CHAIN])
        # urllib keeps what went wrong as the reason.
        for source in (one.__cause__, _attribute(one, "reason")):
            if isinstance(source, BaseException):
                waiting.append(source)


def _first(chain: list[BaseException], ask: Any) -> Any:
    return next((found for one in chain if (found := ask(one)) is not None), None)


def _status(error: BaseException) -> int | None:
    """The HTTP status that an exception carries, wherever its library keeps it."""
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
        found = _attribute(holder, name)
        if _is_error_status(found):
            return int(found)
    return None


def _aws_status(response: Mapping[Any, Any]) -> int | None:
    code = _within(response, "Error", "Code")
    if isinstance(code, str) and code in _AWS_BUSY:
        return _BUSY
    found = _within(response, "ResponseMetadata", "HTTPStatusCode")
    return int(found) if _is_error_status(found) else None


def _is_error_status(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and 300 <= found <= 599


def _no_answer(error: BaseException) -> str | None:
    """What a call without an answer is recorded as; None for anything else."""
    names = [one.__name__ for one in type(error).__mro__]
    if any(part in name for name in names for part in _TIMEOUTS):
        return TIMEOUT
    unreachable = isinstance(error, OSError) and error.errno in _NO_CONNECTION_ERRNO
    if unreachable or any(part in name for name in names for part in _NO_CONNECTION):
        return CONNECTION_REFUSED
    return None


def _blames_the_letter(error: BaseException, letter: Letter | None) -> bool:
    """Whether a parser or a validator refused what the letter says.

    A parser that names its document, and a validator that shows what it refused, is
    believed only if the letter holds it: a dependency that answers with an error instead
    of what was asked for is no fault of the letter.
    """
    if isinstance(error, NotALetter | Unreadable):
        return True
    if isinstance(error, json.JSONDecodeError):
        return letter is not None and _holds(letter, error.doc)
    if isinstance(error, UnicodeDecodeError):
        return letter is not None and _holds_bytes(letter, error.object)
    if any(one.__name__ in _SCHEMA for one in type(error).__mro__):
        return letter is None or _stands_in(letter, _shown(error))
    return letter is not None and _is_beyond_json(error, letter)


def _shown(error: BaseException) -> Any:
    """What a validator says that it refused, wherever its library keeps it; None if nowhere."""
    try:
        # pydantic
        return [one["input"] for one in error.errors()[:_CHAIN]]  # type: ignore[attr-defined]
    except Exception:  # whatever a stranger's class does
        # jsonschema, fastjsonschema and Powertools, marshmallow
        names = ("instance", "value", "data")
        return next((one for name in names if (one := _attribute(error, name)) is not None), None)


def _stands_in(letter: Letter, shown: Any) -> bool:
    """Whether each word of some data is in the letter; nothing to recognise is everywhere."""
    words = {word for text in islice(_texts(shown), _LEAVES) for word in _WORD.findall(text)}
    if not words:
        return True
    said = searchable_text(letter)
    return all(word.lower() in said for word in words)


def _texts(shown: Any) -> Iterator[str]:
    """Keys and values of some data, as far as JSON has one way to write them."""
    waiting = [shown]
    for one in islice(waiting, _NODES):
        if isinstance(one, str):
            yield one[:_LONGEST_LEAF]
        elif isinstance(one, bytes):
            yield one[:_LONGEST_LEAF].decode("utf-8", "ignore")
        elif isinstance(one, dict):
            waiting += [*islice(one, _LEAVES), *islice(one.values(), _LEAVES)]
        elif isinstance(one, list | tuple):
            waiting += one[:_LEAVES]


def _holds(letter: Letter, document: Any) -> bool:
    if not isinstance(document, str):
        return False
    texts = [letter.body, *(str(one.value) for one in letter.attributes.values())]
    if document in texts:
        return True
    # JSON inside JSON stands there escaped.
    escaped = json.dumps(document)[1:-1]
    return len(document.strip()) >= _RECOGNISABLE and any(
        document in text or escaped in text for text in texts
    )


def _holds_bytes(letter: Letter, document: Any) -> bool:
    if not isinstance(document, bytes) or not document:
        return False
    body = utf8(letter.body)
    values = [one.value for one in letter.attributes.values() if isinstance(one.value, bytes)]
    return document in (body, *values) or base64.b64encode(document) == body.strip()


def _is_beyond_json(error: BaseException, letter: Letter) -> bool:
    """Whether json gave up on a body that is nested too deep, or on a number too long."""
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
    for one in chain:
        if isinstance(one, Transient) and one.retry_after is not None:
            return _seconds(one.retry_after)
    for one in chain:
        response = _attribute(one, "response")
        headers = (
            _within(response, "ResponseMetadata", "HTTPHeaders")
            if isinstance(response, Mapping)
            else _attribute(response, "headers")
        )
        for holder in (headers, _attribute(one, "headers")):
            found = _header(holder)
            if found is not None:
                return retry_after(found, now)
    return None


def retry_after(value: str, now: float) -> float | None:
    """The seconds that a Retry-After header asks for: a number of them, or a date.

    None for what is neither; a date that has passed is 0; never more than two weeks.
    """
    text = value[:_LONGEST_RETRY_AFTER].strip()
    if text.isascii() and text.isdigit():
        return _seconds(int(text))
    try:
        when = parsedate_to_datetime(text)
        # HTTP's dates are always GMT, whether they say so or not.
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
            found = headers.get(name)
        except Exception:  # whatever a stranger's class does
            return None
        if isinstance(found, int) and not isinstance(found, bool):
            found = str(found)
        if isinstance(found, str):
            return found
    return None


def _attribute(holder: Any, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except Exception:  # a property of a stranger's class
        return None


def _within(data: Mapping[Any, Any], *path: str) -> Any:
    found: Any = data
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a stranger's __str__
        return ""


def _name(error: BaseException) -> str:
    name = type(error).__name__
    return name[:_LONGEST_TYPE] if name.isascii() and name.isidentifier() else "Exception"


def _place(error: BaseException) -> tuple[str, str]:
    """Module and function that raised: no path and no line, which the next deployment moves."""
    trace, frame = error.__traceback__, None
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
    if frame is None:
        return "", ""
    return str(frame.f_globals.get("__name__", "")), frame.f_code.co_qualname


def _fingerprint(error_type: str, message: str, place: tuple[str, str]) -> str:
    whole = json.dumps([error_type, message.lower(), *place])
    return hashlib.sha256(whole.encode()).hexdigest()[: 2 * _FINGERPRINT]
