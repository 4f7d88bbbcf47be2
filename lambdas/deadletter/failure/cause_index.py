"""The index of causes: one small entry for each letter that fails, without its history.

Its entries are attributes of the letter's row in the ledger, which an index of the table projects:
the write that records a failure keeps the entry as well. A row without the index's key is not in
it: the letter was processed, parked or thrown away. What an entry has of a message's content are a
few short values, as the settings allow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from deadletter.contract import (
    CAUSE_SHARDS,
    CAUSES,
    MINUTE,
    Blame,
    Category,
    LedgerKeeps,
    cause_partition,
)
from deadletter.failure.failure import Failure
from deadletter.failure.fate import was_tried
from deadletter.failure.ledger import NOTHING_KNOWN, AboutLetter, about_from_item

LARGEST_ENTRY = 1_000
"""Bytes of an entry: one of more than 1 KB would cost a second unit at each failure."""

LONGEST_WORDS = 200
LONGEST_ENDPOINT = 200
"""Bytes of the redacted message, and of the key of a circuit, in an entry."""

SEEN_WITHIN = 5 * MINUTE
"""Seconds to which an entry knows when its letter failed last. An entry that stays the same costs
nothing: most receives of one life fall into one of these steps, and fail alike. The row has the
exact times."""

NO_FINGERPRINT = "-"
"""The fingerprint of a failure that has none: an index holds no empty key."""

LONGEST_TRACE = 100
"""Bytes of the root of a trace, which the row keeps and the index does not hold."""

CUT = "…"

# Bytes of the table's keys and of what DynamoDB adds to names and values, at the most: a pipeline's
# name and a message id twice 40, and 21 for each number.
_KEYS_AND_NUMBERS = 300


@dataclass(frozen=True, slots=True)
class CauseEntry:
    """What the index says of one failing letter.

    `fingerprint` is empty if its last failure has none; `first_at` are the epoch seconds of the
    first failure, and `seen` those of the last one, rounded down to SEEN_WITHIN; `attempt` is the
    life that the last one ended, and `blame` who was to blame for it. `failures` are those that the
    letter's row keeps, of whatever cause, the earliest first: the index does not hold them. What
    was not read is empty or none.
    """

    origin: str
    fingerprint: str
    seen: float
    first_at: float
    category: str = ""
    error_type: str = ""
    words: str = ""
    http_status: int | None = None
    attempt: int = 0
    about: AboutLetter = NOTHING_KNOWN
    blame: Blame = Blame.NEITHER
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class EntryChange:
    """How a failure changes its row for the index.

    `sets` are set, `keeps` only where the row has no such attribute, `removes` are removed.
    """

    sets: Mapping[str, Any]
    keeps: Mapping[str, Any]
    removes: tuple[str, ...]


def shard_of(origin: str) -> int:
    """The shard that a letter is in: one partition takes 1,000 writes a second."""
    return crc32(origin.encode("utf-8", "surrogatepass")) % CAUSE_SHARDS


def entry_change(
    pipeline: str, origin: str, failure: Failure, about: AboutLetter | None
) -> EntryChange:
    """The change of a row by one failure; `about` is None if the message could not be read.

    A receive whose handler never had the message does not replace the cause of one that failed:
    while a circuit is open, every letter would look as if it had failed for that.
    """
    facts = _facts(failure, about)
    known = {name: value for name, value in facts.items() if value not in (None, "", {})}
    missing = tuple(name for name in facts if name not in known)
    always: dict[str, Any] = {
        CAUSES.partition: cause_partition(pipeline, shard_of(origin)),
        "seen": int(failure.at // SEEN_WITHIN) * SEEN_WITHIN,
    }
    first: dict[str, Any] = {"first_at": failure.at}
    if about is not None and about.trace:
        first["trace"] = cut(about.trace, LONGEST_TRACE)
    if not was_tried(failure):
        # Beside the kept facts of another failure, these words would be about that one.
        known.pop("words", None)
        return EntryChange(always, {**known, **first}, ())
    return EntryChange({**always, **known}, first, missing)


def _facts(failure: Failure, about: AboutLetter | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        str(CAUSES.sort): failure.fingerprint or NO_FINGERPRINT,
        "category": str(failure.category),
        "error_type": failure.error_type,
        "http_status": failure.http_status,
        # Not `attempt`: that is the highest of all, and this the last.
        "life": failure.attempt,
        "blame": str(failure.blame),
    }
    if about is not None:
        facts["context"] = dict(about.context)
        facts["endpoint"] = cut(about.endpoint, LONGEST_ENDPOINT)
        facts["size"] = about.size
    room = LARGEST_ENTRY - _KEYS_AND_NUMBERS - sum(map(_bytes, facts.values()))
    return {**facts, "words": cut(failure.message, max(0, min(LONGEST_WORDS, room)))}


def _bytes(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(_bytes(name) + _bytes(each) + 2 for name, each in value.items())
    return len(value.encode("utf-8", "replace")) if isinstance(value, str) else 0


def cut(text: str, most: int) -> str:
    """The text in at most so many bytes of UTF-8; one that is longer ends with "…"."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= most:
        return encoded.decode()
    kept = most - len(CUT.encode())
    return encoded[:kept].decode("utf-8", "ignore") + CUT if kept >= 0 else ""


def entry_from_item(item: Mapping[str, Any]) -> CauseEntry | None:
    """The entry in an item of the index, as plain data; None if it is malformed."""
    try:
        status, fingerprint = item.get("http_status"), str(item[str(CAUSES.sort)])
        seen = float(item["seen"])
        first_at = float(item.get("first_at", seen))
        return CauseEntry(
            origin=str(item["pk"]).split("#", 2)[2],
            fingerprint="" if fingerprint == NO_FINGERPRINT else fingerprint,
            seen=max(seen, first_at),
            first_at=first_at,
            category=str(Category(item["category"])) if "category" in item else "",
            error_type=str(item.get("error_type", "")),
            words=str(item.get("words", "")),
            http_status=None if status is None else int(status),
            attempt=int(item.get("life", 0)),
            about=about_from_item(item),
            blame=Blame(item.get("blame", Blame.NEITHER)),
        )
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError):
        return None


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
