"""Reads exceptions of foreign libraries: the chain behind one, what each carries, and its words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deadletter.failure.failure import WEIGHT, blame_of_status

# Exceptions read of a chain of causes and groups; further ones explain nothing.
_CHAIN = 20

# Attributes in which libraries keep the exception that they wrap: urllib and urllib3, SQLAlchemy,
# google.api_core and PynamoDB, s3transfer, azure.core.
_WRAPPED = ("reason", "orig", "cause", "last_exception", "inner_exception", "original_exception")

# Attributes of an exception, or of what it holds, in which libraries keep the HTTP status.
_STATUS = (
    "status",
    "status_code",
    "code",
    "http_status",
    "http_status_code",
    "response_code",
    "httpcode",
    "errcode",
)
_STATUS_HOLDERS = ("response", "meta", "resp")
_STATUS_HELD = ("status_code", "status", "code")

# Libraries whose exceptions have the status as their first argument.
_STATUS_FIRST = frozenset({"elasticsearch", "opensearchpy"})

# Classes of other protocols and the library of one, whose codes look like HTTP's.
_NOT_HTTP = ("AMQP", "PyMongo", "SMTP")
_NOT_HTTP_LIBRARY = "clickhouse_driver"

# Items read of an operation on several.
_ITEMS = 100


# The classes that every Python driver of a database has.
_DBAPI = frozenset(
    {"DBAPIError", "DatabaseError", "DataError", "IntegrityError", "InterfaceError"}
    | {"InternalError", "NotSupportedError", "OperationalError", "ProgrammingError"}
)


@dataclass(frozen=True, slots=True)
class Link:
    """One exception of a chain, `depth` steps behind the one that was raised.

    `meant` is False if it was only being handled when a nearer one was raised: Python links
    such a pair by itself.
    """

    error: BaseException
    meant: bool = True
    depth: int = 0


def chain_of(error: BaseException) -> list[Link]:
    """The exception, its causes, and the members of groups; the nearest first.

    A `__context__` counts as Python prints it: not behind `from`, and not after `from None`.
    """
    links, seen = [Link(error)], {id(error)}
    for link in links:
        for source, meant in _sources(link.error):
            if id(source) not in seen and len(links) < _CHAIN:
                seen.add(id(source))
                links.append(Link(source, meant and link.meant, link.depth + 1))
    return links


def _sources(error: BaseException) -> Iterator[tuple[BaseException, bool]]:
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions[:_CHAIN]:
            yield member, True
    for source in (error.__cause__, *wrapped_in(error)):
        if isinstance(source, BaseException):
            yield source, True
    if error.__context__ is not None and not error.__suppress_context__:
        yield error.__context__, False


def wrapped_in(error: BaseException) -> Iterator[BaseException]:
    """The exceptions that a library keeps in attributes of the one it raises."""
    for name in _WRAPPED:
        wrapped = attribute(error, name)
        if isinstance(wrapped, BaseException):
            yield wrapped
    # tenacity keeps the last attempt as a future.
    wrapped = answer(attribute(error, "last_attempt"), "exception")
    if isinstance(wrapped, BaseException):
        yield wrapped


def http_status(error: BaseException) -> int | None:
    """The HTTP status of an exception, from any attribute in which libraries keep it."""
    # The code of a SystemExit is the process's.
    other = any(
        name.startswith(_NOT_HTTP) or library == _NOT_HTTP_LIBRARY
        for name, library in names_of(error)
    )
    if other or isinstance(error, SystemExit):
        return None
    response = attribute(error, "response")
    if isinstance(response, Mapping):
        return _error_status(within(response, "ResponseMetadata", "HTTPStatusCode"))
    own = [attribute(error, name) for name in _STATUS]
    if error.args and next(names_of(error))[1] in _STATUS_FIRST:
        own.append(error.args[0])
    holders = [attribute(error, name) for name in _STATUS_HOLDERS]
    held = (attribute(holder, name) for holder in holders for name in _STATUS_HELD)
    statuses = (_error_status(value) for value in (*own, *held))
    known = next((status for status in statuses if status is not None), None)
    return known or _status_of_items(error)


def _status_of_items(error: BaseException) -> int | None:
    """Of the statuses in the error of a bulk, one that speaks of the dependency, or the first."""
    found = [_error_status(item.get("status")) for item in _items(error)]
    statuses = [status for status in found if status is not None]
    return min(statuses, key=lambda status: WEIGHT.index(blame_of_status(status)), default=None)


def _items(error: BaseException) -> Iterator[Mapping[Any, Any]]:
    """What became of each item, in the clients of search engines."""
    errors = attribute(error, "errors")
    if not isinstance(errors, list) or next(names_of(error))[1] not in _STATUS_FIRST:
        return
    for operation in errors[:_ITEMS]:
        results = operation.values() if isinstance(operation, dict) else ()
        yield from (result for result in results if isinstance(result, dict))


def tried(error: BaseException) -> Iterator[BaseException]:
    """The errors of several hosts or items that one error stands for."""
    errors = attribute(error, "errors")
    tries = list(errors.values()) if isinstance(errors, dict) else errors
    tries = tries[:_ITEMS] if isinstance(tries, list | tuple) else ()
    yield from (each for each in tries if isinstance(each, BaseException))
    failed = (item.get("exception") for item in _items(error))
    yield from (each for each in failed if isinstance(each, BaseException))


def _error_status(value: Any) -> int | None:
    # httplib2 keeps a text.
    if isinstance(value, str) and len(value) == 3 and value.isdecimal():
        value = int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return int(value) if is_number and 300 <= value <= 599 else None


def attribute(holder: Any, name: str) -> Any:
    """The attribute, or None: a foreign class may run any code to find it."""
    try:
        return getattr(holder, name, None)
    except Exception:  # code of a foreign class
        return None


def answer(holder: Any, name: str) -> Any:
    """What a method without arguments returns, or None."""
    try:
        return getattr(holder, name)()
    except Exception:  # code of a foreign class
        return None


def header(headers: Any, name: str) -> str | None:
    """A header of an answer by its name, in lower case too; a number as text."""
    for form in (name, name.lower()):
        try:
            value = headers.get(form)
        except Exception:  # code of a foreign class
            return None
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str):
            return value
    return None


def within(data: Mapping[Any, Any], *path: str) -> Any:
    """The value at a path of nested mappings, or None."""
    value: Any = data
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def text_of(error: BaseException) -> str:
    """The exception's text; empty if it has none or fails to build it."""
    try:
        return str(error)
    except Exception:  # code of a foreign class
        return ""


def own_words(error: BaseException) -> str:
    """The exception's text, without the number that drivers of databases give with it."""
    args = error.args
    if len(args) == 2 and isinstance(args[0], int) and type(args[1]) is str:
        text = text_of(error)
        return args[1] if text == str(args) else text
    return text_of(error)


def names_of(error: BaseException) -> Iterator[tuple[str, str]]:
    """For each class of the exception, nearest first: its name, and its library's."""
    for kind in type(error).__mro__:
        yield kind.__name__, str(kind.__module__).partition(".")[0]


def dbapi_names(error: BaseException) -> set[str]:
    """The classes of an error of a driver that follows Python's standard for databases."""
    return {name for name, _ in names_of(error)} & _DBAPI


# By library: the attributes of its exceptions that hold the answer, or a word of it. Behind a
# `response` may be any service: it counts for a 403 alone, and as far as the client has read it.
_HELD = {
    "anthropic": ("body", "type"),
    "google": ("errors",),
    "googleapiclient": ("error_details", "content"),
    "googlemaps": ("status",),
    "gql": ("errors",),
    "groq": ("body",),
    "httpx": ("response",),
    "openai": ("body", "type", "code"),
    "requests": ("response",),
    "simple_salesforce": ("content",),
}

FORBIDDEN = 403
"""The status for what is not allowed, by which Google and GitHub also refuse what they limit."""

_SEARCH = frozenset({"elasticsearch", "opensearchpy"})

# Where a document says it: Google, Anthropic, OpenAI, GraphQL and Salesforce.
_WORDS = ("reason", "type", "code", "status", "errorCode")
_WITHIN = ("error", "errors", "extensions")

# Levels of a document, and items of a list in it.
_DEPTH = 4
_LISTED = 20

# Bytes of an answer that is read as JSON.
_LARGEST = 65_536

_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(r"[a-z]{2,30}(_[a-z]{1,30}){0,5}")


def error_words(error: BaseException) -> list[str]:
    """The words for an error in an answer, such as `invalid_auth`, in lower case. Never raises.

    `rateLimitExceeded` and `RATE_LIMIT_EXCEEDED` are `rate_limit_exceeded`.
    """
    return list(dict.fromkeys((*_known(_plain, error), *words_of_a_service(error))))


def words_of_a_service(error: BaseException) -> list[str]:
    """Those of them that are words of a known service, and no team's own. Never raises."""
    return _known(_held, error)


def _known(read: Callable[[BaseException], Iterator[str]], error: BaseException) -> list[str]:
    try:
        words = list(dict.fromkeys(read(error)))
    except Exception:  # code of a foreign class
        return []
    # That it is an error says nothing.
    return [word for word in words if _WORD.fullmatch(word) and word != "error"]


def _plain(error: BaseException) -> Iterator[str]:
    """The word of Slack's API and of OAuth, from any class."""
    getter = attribute(attribute(error, "response"), "get")
    word = getter("error") if callable(getter) else attribute(error, "error")
    if not isinstance(word, str):
        return
    # In the clients of search engines it is the text of another error.
    if not any(library in _SEARCH for _, library in names_of(error)):
        yield word


def _held(error: BaseException) -> Iterator[str]:
    for library in dict.fromkeys(library for _, library in names_of(error)):
        for name in _HELD.get(library, ()):
            held = attribute(error, name)
            if name == "response":
                held = attribute(held, "_content") if http_status(error) == FORBIDDEN else None
            yield from (_CASE.sub("_", word).lower() for word in _within(held))


def _within(data: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(data, bytes) and depth == 0 and len(data) <= _LARGEST:
        try:
            data = json.loads(data)
        except (ValueError, RecursionError):
            return
    if depth >= _DEPTH:
        return
    if isinstance(data, str):
        yield data
    elif isinstance(data, list | tuple):
        for item in data[:_LISTED]:
            yield from _within(item, depth + 1)
    elif isinstance(data, Mapping):
        yield from (data[name] for name in _WORDS if isinstance(data.get(name), str))
        for name in _WITHIN:
            yield from _within(data.get(name), depth + 1)
