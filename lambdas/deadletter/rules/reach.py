"""What a rule can match at all in a pipeline: nothing, some letters, or every one.

Body and attributes are the producers': anything may be in them. The rest of a letter's document is
ours, so that its names, the types of its values and some values are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deadletter.contract import Blame, Category
from deadletter.rules.accepted import ABSENT
from deadletter.rules.pattern import Field, Pattern
from deadletter.rules.typed import nearest
from deadletter.settings.pipeline import Pipeline

_TEXT, _NUMBER = "text", "a number"

FAILURE: Final[Mapping[str, Any]] = {
    "category": tuple(map(str, Category)),
    "blame": tuple(map(str, Blame)),
    "error_type": _TEXT,
    "fingerprint": _TEXT,
    "http_status": _NUMBER,
}
"""The fields of `failure`: their type, or all their values. A letter may have none of them."""

REDRIVE: Final[Mapping[str, Any]] = {"attempt": _NUMBER, "age_seconds": _NUMBER}
"""The fields of `redrive`; every letter has them."""

# Attributes of SQS; all of them are text, numbers and times too.
_SYSTEM_ALWAYS = (
    "ApproximateFirstReceiveTimestamp",
    "ApproximateReceiveCount",
    "SenderId",
    "SentTimestamp",
)
_SYSTEM = (
    *_SYSTEM_ALWAYS,
    "AWSTraceHeader",
    "DeadLetterQueueSourceArn",
    "MessageDeduplicationId",
    "MessageGroupId",
    "SequenceNumber",
)

_OPEN = ("body", "attributes")
_CLOSED = ("pipeline", "context", "failure", "redrive", "system")

# Texts and numbers of every sort: what accepts all of them accepts any.
_TEXTS = ("", "a", "Z~9", "\x01", "0", "\u00e9\u4e16", "x" * 70)
_NUMBERS = (0, 1, 7.5, 10**9)

# Attempts and ages in seconds of nearly every letter: up to 20, and from a minute to 14 days.
_REDRIVES: Final[Mapping[str, tuple[int, ...]]] = {
    "attempt": (0, 1, 2, 5, 20),
    "age_seconds": (60, 3_600, 86_400, 14 * 86_400),
}


@dataclass(frozen=True, slots=True)
class PatternReach:
    """What a pattern can match: `misses` says why some or all of its branches match nothing.

    `empty` says of fields that no letter has, and that are asked to be absent: so they always are.
    """

    never: bool
    misses: tuple[str, ...]
    empty: tuple[str, ...] = ()


def reach_of(pattern: Pattern, pipeline: Pipeline) -> PatternReach:
    """What a valid pattern can match of this pipeline's letters."""
    misses: dict[str, None] = {}
    empty: dict[str, None] = {}
    dead = 0
    for fields in pattern.alternatives:
        found = [why for field in fields if (why := _why_never(field, pipeline)) is not None]
        dead += bool(found)
        misses.update(dict.fromkeys(found))
        unknown = (_why_unknown(field, pipeline) for field in fields if field.comparison.absent)
        empty.update(dict.fromkeys(why for why in unknown if why is not None))
    return PatternReach(dead == len(pattern.alternatives), tuple(misses), tuple(empty))


def is_broad(pattern: Pattern, pipeline: Pipeline) -> bool:
    """Whether some branch of a pattern holds for every letter of the pipeline, or nearly."""
    return any(
        all(_is_always_accepted(field, pipeline) for field in fields)
        for fields in pattern.alternatives
    )


def _why_never(field: Field, pipeline: Pipeline) -> str | None:
    """Why no letter of the pipeline has a value that the field accepts; None if one may."""
    top, _, rest = field.name.partition(".")
    comparison = field.comparison
    if top in _OPEN or comparison.absent:
        return None
    unknown = _why_unknown(field, pipeline)
    if unknown is not None:
        return unknown
    match top:
        case "pipeline":
            is_ours = comparison.test(pipeline.name)
            return None if is_ours else f"{field.name} is {pipeline.name} here"
        case "failure":
            return _of_wrong_kind(field, FAILURE[rest])
        case "redrive":
            return _of_wrong_kind(field, REDRIVE[rest])
        case "system":
            return _of_wrong_kind(field, _TEXT)
    return None


def _why_unknown(field: Field, pipeline: Pipeline) -> str | None:
    """Why no letter of the pipeline has the field; None if one may."""
    top, _, rest = field.name.partition(".")
    if top in _OPEN or field.name == "pipeline":
        return None
    below: Mapping[str, Iterable[str]] = {
        "context": pipeline.context,
        "failure": FAILURE,
        "redrive": REDRIVE,
        "system": _SYSTEM,
    }
    names = below.get(top)
    if names is None:
        return _unknown(field.name, (*_OPEN, *_CLOSED), "")
    return None if rest in names else _unknown(field.name, names, top)


def _unknown(name: str, known: Iterable[str], below: str) -> str:
    """That no letter has the field, with the nearest name that there is."""
    rest = name.removeprefix(f"{below}.") if below else name
    names = sorted(known)
    if near := nearest(rest, names):
        hint = f"did you mean {near}?"
    else:
        hint = f"there are {', '.join(names)}" if names else "this pipeline has none"
    return f"no message has {name}; {hint}"


def _of_wrong_kind(field: Field, kind: Any) -> str | None:
    """Why the values of a field are never accepted: of another type, or none of them."""
    comparison = field.comparison
    if isinstance(kind, tuple):
        if any(map(comparison.test, kind)):
            return None
        return f"{field.name} is one of {', '.join(kind)}"
    is_accepted = comparison.numbers if kind == _NUMBER else comparison.texts
    return None if is_accepted else f"{field.name} is {kind} in every message"


def _is_always_accepted(field: Field, pipeline: Pipeline) -> bool:
    """Whether every letter that has the field has a value that is accepted.

    A field of the body that only has to be there tells letters apart; one of the context does not,
    because the pipeline's settings take it from every letter.
    """
    accepts = field.comparison.test
    top, _, rest = field.name.partition(".")
    if _why_unknown(field, pipeline) is not None:
        return field.comparison.absent
    if top == "pipeline":
        return accepts(pipeline.name)
    if top == "redrive":
        return all(map(accepts, _REDRIVES[rest]))
    all_texts = all(map(accepts, _TEXTS))
    if top == "context" or (top == "system" and rest in _SYSTEM_ALWAYS):
        return all_texts
    anything = all_texts and all(map(accepts, _NUMBERS))
    return anything and accepts(ABSENT) if anything else all_texts
