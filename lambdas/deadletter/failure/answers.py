"""The words by which an answer says what is wrong: of a status, of a stream, of several items."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from deadletter.failure.foreign import attribute, names_of

# By library: the attributes of its exceptions that hold the answer, or a word of it. What a
# `response` holds counts as far as the client has read it.
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
    try:
        words = [*_plain(error), *(_CASE.sub("_", word).lower() for word in _held(error))]
    except Exception:  # code of a foreign class
        return []
    # That it is an error says nothing.
    return [word for word in dict.fromkeys(words) if _WORD.fullmatch(word) and word != "error"]


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
            yield from _within(attribute(held, "_content") if name == "response" else held)


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
