"""Diagnoses an exception: category, blame, HTTP status, redacted message and fingerprint."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from deadletter.contract import Blame, Category
from deadletter.failure import codes
from deadletter.failure.blame import (
    SILENT,
    TeamsWord,
    blame_and_speakers,
    is_throttle,
    own_blame,
    stated_category,
)
from deadletter.failure.failure import CONNECTION_REFUSED, TIMEOUT, blame_of_status
from deadletter.failure.fingerprint import fingerprint_of
from deadletter.failure.foreign import (
    Link,
    attribute,
    chain_of,
    error_words,
    header,
    http_status,
    names_of,
    own_words,
    text_of,
    within,
)
from deadletter.failure.literals import literals_of
from deadletter.failure.place import traceback_of, where_raised, written_name
from deadletter.failure.redaction import ledger_message
from deadletter.failure.refused import refuses_the_letter
from deadletter.failure.signals import Permanent, Transient
from deadletter.message.letter import Letter

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The diagnosis of one exception.

    `error_type` is the exception's class, or `Timeout` or `ConnectionRefused` for a call
    without an answer; `message` is redacted; `retry_after` is seconds; `fingerprint` is
    equal for failures of one cause, also across deployments; `blame` is who was to blame;
    `throttled` says that the dependency works, and wants fewer requests.
    `place` is file, line and function where the team's own code failed, and `traceback` the way
    to it, without any text or value; a handler that gives its own verdict has no traceback.
    """

    category: Category
    error_type: str
    message: str
    http_status: int | None = None
    retry_after: float | None = None
    fingerprint: str = ""
    blame: Blame = Blame.NEITHER
    throttled: bool = False
    place: str = ""
    traceback: tuple[str, ...] = field(default=(), repr=False, compare=False)


# Characters kept of a class's name.
_LONGEST_TYPE = 80

# AWS, and GitHub with a 403, answer so when they are busy; it means 429.
_BUSY = 429

_UNAVAILABLE = 503

# Characters; a date has 29.
_LONGEST_RETRY_AFTER = 64

# Seconds: SQS keeps a message two weeks at most.
_LONGEST_WAIT = 14 * 86_400


def diagnose(
    error: BaseException,
    letter: Letter | None,
    *,
    now: float,
    team: TeamsWord = SILENT,
    dependency: str = "",
) -> Diagnosis:
    """The diagnosis of an error, by the first of its chain of causes that has a category.

    The handler's own verdict counts first, then who is to blame: a dependency that is down is
    transient, a broken configuration and a refused request are integration. Then a parser's
    error about the letter (schema). Without any of these an error is transient. `letter` is
    None if the message was not readable as a letter; `team` is what the team says of its own
    exceptions; `now` is epoch seconds, for a Retry-After that is a date; `dependency` is the
    circuit of the named dependency whose call failed. Never raises.
    """
    chain = chain_of(error)
    blame, speakers = blame_and_speakers(chain, team)
    literals = literals_of(error)
    category = _category_of(chain, letter, team)
    status = _first(chain, _status)
    no_answer = blame is Blame.DEPENDENCY and status is None
    error_type = (_first(chain, _no_answer) if no_answer else None) or _name(error)
    # An exception of our own may declare that its text contains no data.
    plain = attribute(type(error), "plain") is True
    message = text_of(error) if plain else own_words(error)
    if not plain:
        message = ledger_message(message, letter, literals_of(error, only_own=True), error_type)
    return Diagnosis(
        category=category,
        error_type=error_type,
        message=message,
        http_status=status,
        retry_after=_retry_after(chain, now) if category is Category.TRANSIENT else None,
        fingerprint=fingerprint_of(
            chain,
            error_type=error_type,
            speaker=speakers[0] if speakers else None,
            letter=letter,
            literals=literals,
            dependency=dependency,
        ),
        blame=blame,
        throttled=is_throttled(chain, blame, speakers),
        place=where_raised(chain),
        traceback=() if isinstance(error, Permanent | Transient) else traceback_of(chain),
    )


def is_throttled(chain: Sequence[Link], blame: Blame, speakers: Sequence[BaseException]) -> bool:
    """Whether a failure says that its dependency works and was asked too often.

    A 503 says so by its Retry-After: a service that is down cannot tell when it is back.
    """
    if blame is not Blame.DEPENDENCY:
        return False
    if any(_status(speaker) == _BUSY or is_throttle(speaker) for speaker in speakers):
        return True
    unavailable = any(http_status(speaker) == _UNAVAILABLE for speaker in speakers)
    return unavailable and _retry_after(chain, 0.0) is not None


def _category_of(chain: Sequence[Link], letter: Letter | None, team: TeamsWord) -> Category:
    for link in chain:
        category = _category(link.error, letter, team)
        # What was only being handled when another error came is not the reason to give up.
        if category is not None and (link.meant or not category.course.is_permanent):
            return category
    return Category.TRANSIENT


def _category(error: BaseException, letter: Letter | None, team: TeamsWord) -> Category | None:
    stated = stated_category(error)
    if isinstance(error, Permanent):
        return stated or Category.BUSINESS
    if isinstance(error, Transient) or team.on(error) is Blame.DEPENDENCY:
        return Category.TRANSIENT
    if stated is not None:
        return stated
    blame = own_blame(error)
    if blame is Blame.DEPENDENCY:
        return Category.TRANSIENT
    is_refusal = http_status(error) is not None or bool(error_words(error))
    if blame is Blame.CONFIGURATION or is_refusal:
        return Category.INTEGRATION
    return Category.SCHEMA if refuses_the_letter(error, letter) else None


def _first(chain: Sequence[Link], read: Callable[[BaseException], Value | None]) -> Value | None:
    return next((value for link in chain if (value := read(link.error)) is not None), None)


def _status(error: BaseException) -> int | None:
    """The HTTP status, and 429 for a 400 by which an AWS service says that it is busy."""
    status = http_status(error)
    refused = status is not None and blame_of_status(status) is not Blame.DEPENDENCY
    return _BUSY if refused and own_blame(error) is Blame.DEPENDENCY else status


def _no_answer(error: BaseException) -> str | None:
    """The error type of a call without an answer; None for any other error."""
    names = [name for name, _ in names_of(error)]
    if any(codes.TIMEOUT_NAME.search(name) for name in names):
        return TIMEOUT
    unreachable = isinstance(error, OSError) and error.errno in codes.NETWORK
    if unreachable or any(codes.NO_CONNECTION_NAME.search(name) for name in names):
        return CONNECTION_REFUSED
    return None


def _retry_after(chain: Sequence[Link], now: float) -> float | None:
    errors = [link.error for link in chain]
    for cause in errors:
        if isinstance(cause, Transient) and cause.retry_after is not None:
            return _seconds(cause.retry_after)
    for cause in errors:
        response = attribute(cause, "response")
        headers = (
            within(response, "ResponseMetadata", "HTTPHeaders")
            if isinstance(response, Mapping)
            else attribute(response, "headers")
        )
        for holder in (headers, attribute(cause, "headers")):
            value = header(holder, "Retry-After")
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


def _name(error: BaseException) -> str:
    name = written_name(type(error))
    return name[:_LONGEST_TYPE] if name.isascii() and name.isidentifier() else "Exception"
