"""What the ledger keeps of a message's content: a few short values, as the settings allow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deadletter.contract import LedgerKeeps
from deadletter.failure.cause_index import cut
from deadletter.failure.ledger import AboutLetter

LARGEST_CONTEXT = 256
"""Bytes of all names and values of the context together: they are a part of each index entry."""

_HASHED = "hash:"
_HASH_LENGTH = 12
_LONGEST_KEY = 64


def about_letter(
    context: Mapping[str, Any], endpoint: str, size: int, how: LedgerKeeps, pipeline: str
) -> AboutLetter:
    """What a row keeps once of its letter.

    `context` are the pipeline's values of the message, and `endpoint` is a value of it too:
    plain, hashed or left out as `how` says.
    """
    if how is LedgerKeeps.NONE:
        return AboutLetter(size=size)
    if how is LedgerKeeps.HASHED:
        endpoint = hashed(endpoint, pipeline) if endpoint else ""
    return AboutLetter(_fitted(kept_values(context, how, pipeline)), endpoint, size)


def kept_values(context: Mapping[str, Any], how: LedgerKeeps, pipeline: str) -> dict[str, str]:
    """The values of the context as people may see them outside of the message itself."""
    if how is LedgerKeeps.NONE:
        return {}
    values = {name: _text(value) for name, value in context.items()}
    if how is LedgerKeeps.HASHED:
        return {name: hashed(value, pipeline) for name, value in values.items()}
    return values


def hashed(value: str, pipeline: str) -> str:
    """A value under a name that says nothing: equal for equal values of one pipeline.

    A value that can be guessed can be confirmed: the key is no secret.
    """
    # Most pipelines keep their values plain.
    from hashlib import blake2b

    key = pipeline.encode()[:_LONGEST_KEY]
    digest = blake2b(value.encode("utf-8", "replace"), key=key).hexdigest()
    return f"{_HASHED}{digest[:_HASH_LENGTH]}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _fitted(values: Mapping[str, str]) -> dict[str, str]:
    """The values, cut from the largest until names and values fit into LARGEST_CONTEXT bytes."""
    for longest in range(LARGEST_CONTEXT, 0, -1):
        shorter = {name: cut(value, longest) for name, value in values.items()}
        if sum(len(text.encode()) for pair in shorter.items() for text in pair) <= LARGEST_CONTEXT:
            return shorter
    return {}
