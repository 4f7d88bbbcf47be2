"""The words by which an answer says what is wrong: of a status, of a stream, of several items."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from deadletter.failure.foreign import attribute, http_status, names_of

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
_ITEMS = 20

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
        for item in data[:_ITEMS]:
            yield from _within(item, depth + 1)
    elif isinstance(data, Mapping):
        yield from (data[name] for name in _WORDS if isinstance(data.get(name), str))
        for name in _WITHIN:
            yield from _within(data.get(name), depth + 1)
