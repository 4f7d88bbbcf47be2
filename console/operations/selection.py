"""Which messages a person means, in every command alike: `[ID...] [--in PLACE...] [-f TERM...]`.

A term is KEY OPERATOR VALUE, as behind kubectl's -l: `tenant=cedar`, `status>499`, `error~Timeout`.
Commas between values mean or, several terms mean and. What the router can tell becomes a Selection
of runs; the rest is compared with what is on record (`Beside`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from enum import StrEnum
from math import inf, isfinite
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import Category, Reason
from deadletter.message.strict_json import Unreadable, read_json

from .errors import Cause, Problem
from .verbs import PIPELINE, Asked
from .words import seconds, typed_time

if TYPE_CHECKING:
    from deadletter.routing.selection import Selection

    from .app import DeployedPipeline

CONTEXT = "context"
"""Where rules see the fields of a message that the settings name."""

TENANT = (CONTEXT, "tenantId")
"""Where rules see the customer whom a message is about."""


class Operator(StrEnum):
    """How a value is compared."""

    EQUAL = "="
    DIFFERS = "!="
    LESS = "<"
    MORE = ">"
    HAS = "~"
    """The text is in it."""


ALL = tuple(Operator)
_TEXTS = (Operator.EQUAL, Operator.DIFFERS, Operator.HAS)
_NUMBERS = (Operator.EQUAL, Operator.DIFFERS, Operator.LESS, Operator.MORE)
_IS = (Operator.EQUAL,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceKind:
    """Where messages lie, or what they wait for: all that is particular about a kind of place.

    word      what --in calls it
    value     what stands behind its colon; empty if nothing does
    optional  whether all places of the kind are meant without that
    usual     whether it is searched if no place is named
    refuses   why no message is taken from it to be sent or discarded, with {0} for its name; empty
              if messages are
    alone     searches the place of a name in a `places.Walk`, with no app at all; None if it is one
              of an app
    lanes     the kinds of lanes of the waiting room that it has
    is_lane   whether a typed name means a lane with a name
    means     whether a typed name means a message of such a lane (a `FoundMessage`)
    queues    the ids of its queues in a pipeline, by their names; None if it has none
    more      searches what is neither in a lane nor in one of these queues
    """

    word: str
    value: str = ""
    optional: bool = False
    usual: bool = False
    refuses: str = ""
    alone: Callable[[Any, str], None] | None = None
    lanes: Sequence[str] = ()
    is_lane: Callable[[str, str], bool] = lambda name, lane: name in ("", lane)
    means: Callable[[str, Any], bool] = lambda _name, _found: True
    queues: Callable[[DeployedPipeline], Mapping[str, str]] | None = None
    more: Callable[[Any], None] | None = None

    def __str__(self) -> str:
        return f"{self.word}:{self.value}" if self.value and not self.optional else self.word


@dataclass(frozen=True, slots=True)
class ChosenPlace:
    """A place, with its name if it has one."""

    kind: PlaceKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind.word}:{self.name}" if self.name else self.kind.word

    def has_lane(self, lane: str) -> bool:
        """Whether it has a lane of the waiting room, as far as the lane alone tells."""
        kind, _, name = lane.partition(":")
        return kind in self.kind.lanes and (not name or self.kind.is_lane(self.name, name))

    def queues_of(self, pipeline: DeployedPipeline) -> Mapping[str, str]:
        """The ids of its queues in a pipeline, by their names; Problem if none has its name."""
        if self.kind.queues is None:
            return {}
        known = self.kind.queues(pipeline)
        if self.name and self.name not in known:
            names = ", ".join(known) or "none"
            raise Problem(f"{pipeline.name} has no {self}: the names are {names}.", Cause.ABSENT)
        return {name: id_ for name, id_ in known.items() if self.name in ("", name)}


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: the key, how it is compared, and the values, of which one has to fit."""

    key: str
    operator: Operator
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.key}{self.operator}{','.join(self.values)}"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person has chosen. All of it has to hold; nothing is chosen if all is empty.

    ids         message ids, current ids or business ids: one of them
    places      where to look: one of them; everywhere the command looks if there is none
    terms       conditions
    everything  whether a person has said --all
    """

    ids: tuple[str, ...] = ()
    places: tuple[ChosenPlace, ...] = ()
    terms: tuple[Term, ...] = ()
    everything: bool = False

    @property
    def is_narrow(self) -> bool:
        """Whether it names messages, and not only places."""
        return bool(self.ids or self.terms)

    @property
    def is_of_app(self) -> bool:
        """Whether it asks for places of an app."""
        return not self.places or any(place.kind.alone is None for place in self.places)

    def typed(self) -> str:
        """The choice as it is typed, for a command to copy."""
        from shlex import quote

        parts = [*map(quote, self.ids)]
        parts += [f"--in {quote(str(place))}" for place in self.places]
        parts += [f"-f {quote(str(term))}" for term in self.terms]
        return " ".join([*parts, *(["--all"] if self.everything else [])])


@dataclass(frozen=True, slots=True)
class Key:
    """What a term can be about.

    says       what it is, for help
    path       where rules see it; empty for what only records and reports know
    operators  the comparisons that it takes
    known      the values that there are; empty if any is allowed
    number     how a value becomes a number; None for a text
    """

    says: str
    path: tuple[str, ...] = ()
    operators: tuple[Operator, ...] = _TEXTS
    known: tuple[str, ...] = ()
    number: Callable[[str], float] | None = None


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = inf
    if not isfinite(number):
        raise Problem(f"{text!r} is not a number.", Cause.INPUT)
    return int(number) if number.is_integer() else number


KEYS: Mapping[str, Key] = {
    "tenant": Key("the customer whom it is about", TENANT),
    "cause": Key("how it failed: the cause, of which 8 digits are enough", operators=_IS),
    "error": Key("the type of its last error", ("failure", "error_type")),
    "category": Key("the kind of its last failure", ("failure", "category"), known=(*Category,)),
    "status": Key(
        "the HTTP status of its last failure", ("failure", "http_status"), _NUMBERS, number=_number
    ),
    "reason": Key("why it is parked", operators=_IS, known=(*Reason,)),
    "attempt": Key("how often it was sent back", ("redrive", "attempt"), _NUMBERS, number=_number),
    "age": Key(
        "how long ago it was first sent: 90s, 15m, 2h, 4d",
        *(("redrive", "age_seconds"), (Operator.LESS, Operator.MORE)),
        number=seconds,
    ),
    "since": Key("first sent then or later: 2h, 4d, 2026-01-31T09:00 (UTC)", operators=_IS),
    "until": Key("first sent before then", operators=_IS),
    "match": Key("an event pattern, as rules have it: JSON, or @FILE", operators=_IS),
    # What only records and reports know.
    "text": Key("text in its error, body or attributes", operators=(Operator.HAS,)),
    "rule": Key("the rule that holds or parked it", operators=_IS),
    "outcome": Key("what became of it in its run", operators=_IS),
    "by": Key("who has done it", operators=(Operator.EQUAL, Operator.HAS)),
    "size": Key("bytes of body and attributes", (), _NUMBERS, number=_number),
}

OPEN_KEYS: Mapping[str, str] = {"body": "body", "attribute": "attributes", "field": CONTEXT}
"""Keys that are followed by a name, as `body.order.id`, and where rules see what they name."""

BESIDE = ("text", "rule", "outcome", "by", "size")
"""Keys that the router does not know: they choose among what is listed."""

_SPECIAL = re.compile(r"([*\\])")
"""What means something in a wildcard."""

_TERM = re.compile(r"([A-Za-z][\w.\-]*)\s*(!=|=|<|>|~)\s*(.*)", re.DOTALL)


def term(text: str) -> Term:
    """The term in a text; Problem that names what is wrong and what is allowed."""
    found = _TERM.fullmatch(text.strip())
    if found is None:
        raise Problem(
            f"{text!r} is no condition: write KEY=VALUE, as tenant=cedar, status>499 or"
            " error~Timeout.",
            Cause.INPUT,
        )
    name, operator = found[1], Operator(found[2])
    key = _key(name)
    if operator not in key.operators:
        allowed = " ".join(key.operators)
        raise Problem(f"{text!r}: {name} takes {allowed}, and not {operator}.", Cause.INPUT)
    value = found[3].strip()
    values = (value,) if name == "match" else tuple(part.strip() for part in value.split(","))
    if not all(values):
        raise Problem(f"{text!r} has an empty value.", Cause.INPUT)
    if key.known:
        values = tuple(_known(name, value, key.known) for value in values)
    if key.number is not None:
        for each in values:
            key.number(each)
        if len(values) > 1 and operator in (Operator.LESS, Operator.MORE):
            raise Problem(f"{text!r}: {operator} takes one value.", Cause.INPUT)
    return Term(name, operator, values)


def _key(name: str) -> Key:
    first, dot, rest = name.partition(".")
    if dot and rest and first in OPEN_KEYS:
        return Key("", (OPEN_KEYS[first], *rest.split(".")), ALL)
    if name not in KEYS:
        names = [*KEYS, *(f"{key}.NAME" for key in OPEN_KEYS)]
        raise Problem(unknown("key", name, names), Cause.INPUT)
    return KEYS[name]


def path_of(term: Term) -> tuple[str, ...]:
    """Where rules see what a term is about; empty if they see it nowhere, or in several places."""
    return _key(term.key).path


def key_of(name: str) -> str:
    """The key of what rules see under a dotted name: `tenant`, of `context.tenantId`."""
    known = {".".join(key.path): each for each, key in KEYS.items() if key.path}
    known["failure.fingerprint"] = "cause"
    top, _, rest = name.partition(".")
    opened = {top: key for key, top in OPEN_KEYS.items()}
    return known.get(name) or (f"{opened[top]}.{rest}" if top in opened else name)


def for_rules(typed: Iterable[str]) -> tuple[Term, ...]:
    """The terms in these texts; Problem for one that a rule can't tell of a message."""
    terms = tuple(map(term, typed))
    for each in terms:
        if each.key in KEYS and each.key not in RULE_KEYS:
            names = ", ".join([*RULE_KEYS, *(f"{key}.NAME" for key in OPEN_KEYS)])
            raise Problem(f"{each}: a rule knows no {each.key}. Allowed: {names}.", Cause.INPUT)
    return terms


RULE_KEYS = [name for name, key in KEYS.items() if key.path or name in ("cause", "match")]
"""Keys of what a rule can tell of a message."""


def _known(name: str, value: str, known: Sequence[str]) -> str:
    for each in known:
        if each.lower() == value.lower():
            return str(each)
    raise Problem(unknown(name, value, known), Cause.INPUT)


def closest(word: str, known: Iterable[str]) -> str | None:
    """The nearest of the known words, in any case; None if none is near."""
    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(word.lower(), by_lower, 1, 0.6)
    return by_lower[found[0]] if found else None


def unknown(what: str, typed: str, known: Sequence[str]) -> str:
    """That a word is unknown, with the nearest of those that are allowed, and all of them."""
    near = closest(typed, known)
    meant = "" if near is None else f" Did you mean {near}?"
    return f"There is no {what} {typed!r}.{meant} Allowed: {', '.join(known)}."


def choice(
    ids: Iterable[str] = (),
    places: Iterable[ChosenPlace] = (),
    terms: Iterable[str] = (),
    *,
    everything: bool = False,
) -> Choice:
    """What was typed, taken apart; Problem for what is not understood."""
    found = Choice(
        tuple(dict.fromkeys(ids)),
        tuple(places),
        tuple(map(term, terms)),
        everything,
    )
    if everything and found.is_narrow:
        raise Problem("--all and a filter exclude each other: give one of them.", Cause.INPUT)
    return found


def compiled(chosen: Choice, now: datetime) -> tuple[Selection, tuple[Term, ...]]:
    """The Selection of a choice, and the terms that only records can answer.

    Raises Problem for two terms that can't be told as one pattern.
    """
    from deadletter.routing.selection import Selection
    from deadletter.routing.selector import Selector
    from deadletter.settings.json_fields import BadSettings

    pattern: dict[str, Any] = {}
    fields: dict[str, Any] = {"ids": chosen.ids}
    beside = [each for each in chosen.terms if each.key in BESIDE]
    for each in chosen.terms:
        match each.key:
            case "reason":
                fields["reasons"] = tuple(map(Reason, each.values))
            case "since" | "until":
                fields[each.key] = typed_time(each.values[0], now, -1).timestamp()
            case "match":
                _merge(pattern, _pattern(each.values[0]), each)
            case "cause":
                prefixes = [{"prefix": value.lower()} for value in each.values]
                _merge(pattern, {"failure": {"fingerprint": prefixes}}, each)
            case key if key not in BESIDE:
                about = _key(key)
                conditions: Any = _conditions(each, about)
                for name in reversed(about.path):
                    conditions = {name: conditions}
                _merge(pattern, conditions, each)
    selection = Selection(pattern=pattern, **fields)
    try:
        Selector(selection)
    except BadSettings as error:
        raise Problem(f"These messages can't be chosen so: {error}.", Cause.INPUT) from error
    return selection, tuple(beside)


def _conditions(each: Term, key: Key) -> list[Any]:
    """The conditions of an event pattern that a term stands for."""
    if each.operator is Operator.HAS:
        texts = (_SPECIAL.sub(r"\\\1", value) for value in each.values)
        return [{"wildcard": f"*{text}*"} for text in texts]
    if each.operator in (Operator.LESS, Operator.MORE):
        number = (key.number or _number)(each.values[0])
        return [{"numeric": [str(each.operator), number]}]
    values = [either for value in each.values for either in _either(value, key)]
    return values if each.operator is Operator.EQUAL else [{"anything-but": values}]


def _either(value: str, key: Key) -> list[Any]:
    if key.number is not None:
        return [key.number(value)]
    return [value] if key.path[:1] in (("failure",), ()) else values_of(value)


def values_of(value: str) -> list[Any]:
    """A value as a text and, where it can be one, as a number or a literal of JSON."""
    try:
        other = json.loads(value)
    except ValueError:
        return [value]
    return [value] if isinstance(other, str | list | dict) else [value, other]


def _merge(into: dict[str, Any], more: Mapping[str, Any], about: Term) -> None:
    for name, value in more.items():
        there = into.get(name)
        if there is None:
            into[name] = value
        elif isinstance(there, dict) and isinstance(value, Mapping):
            _merge(there, value, about)
        elif (both := _range(there, value)) is not None:
            into[name] = both
        else:
            raise Problem(
                f"Two conditions on {about.key}: write one, with commas for or.", Cause.INPUT
            )


def _range(one: Any, other: Any) -> list[Any] | None:
    """Two bounds of a number as one condition; None if they are something else."""
    match one, other:
        case [{"numeric": [a, x]}], [{"numeric": [b, y]}] if a != b:
            return [{"numeric": [a, x, b, y] if a == ">" else [b, y, a, x]}]
    return None


def _pattern(text: str) -> dict[str, Any]:
    try:
        pattern = read_json(text)
    except Unreadable as error:
        raise Problem(
            f"match= is not readable: {error}. See docs/rules.md.", Cause.INPUT
        ) from error
    if not isinstance(pattern, dict):
        raise Problem("match= takes a JSON object: see docs/rules.md.", Cause.INPUT)
    return pattern


Ids = Annotated[
    tuple[str, ...],
    Asked("Message id, current id or business id; @FILE has one a line.", metavar="[ID]..."),
]
"""A request's field: messages by their ids."""

Pipelines = Annotated[tuple[str, ...], PIPELINE]
"""A request's field: the pipelines that are meant; all of them without one."""

NamedPipelines = Annotated[
    tuple[str, ...], Asked("Only of these pipelines, as --pipeline.", metavar="PIPELINE")
]
"""The same where a command takes no ids: they stand behind its name, or are given with -p."""

Pipeline = Annotated[str | None, PIPELINE]
"""A request's field: the one pipeline that is meant; it is needed if the app has several."""

NamedPipeline = Annotated[
    str | None,
    Asked("The pipeline, as --pipeline; needed if the app has several.", metavar="PIPELINE"),
]
"""The same where a command takes no ids."""


def _asked(keys: Iterable[str]) -> Asked:
    names = ", ".join([*keys, *(f"{key}.NAME" for key in OPEN_KEYS)])
    says = f"KEY=VALUE, or != < > ~ (contains), commas for or. Keys: {names}; repeatable."
    return Asked(says, ("--filter", "-f"), "TERM")


Terms = Annotated[tuple[str, ...], _asked(KEYS)]
"""A request's field: what messages have to meet, all of it."""

RuleTerms = Annotated[tuple[str, ...], _asked(RULE_KEYS)]
"""The same of what a rule can tell of a message."""

All = Annotated[bool, Asked("All of them; else say which.", ("--all",))]
"""A request's field: that a person means all that there is."""
