"""EventBridge event patterns: the documents that a rule matches.

The language and its meaning are those of EventBridge and of the open-source matcher it
uses (github.com/aws/event-ruler). `compile_pattern` is stricter where they leave room or
would accept a typing mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.accepted import ABSENT, PatternRefused, quoted, refuse
from deadletter.rules.comparison import Comparison, compare
from deadletter.rules.fields import STEPS, FieldValues, Leaves, Outline, Place, TooCostly, Work
from deadletter.rules.operators import RESERVED
from deadletter.rules.together import Part, Spot, hold_together, spot_of

# Levels of names. EventBridge states no limit; no letter is this deep.
_MAX_DEPTH = 32

# EventBridge refuses a pattern whose `$or` lists have more combinations.
_MAX_COMBINATIONS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One name of a pattern and its comparison; `place` is the path of the list in the pattern."""

    name: str
    comparison: Comparison
    place: str


@dataclass(frozen=True, slots=True)
class FieldFinding:
    """The result of one field of a pattern. Never contains values of the letter."""

    path: str
    matched: bool
    expected: str
    found: str


Alternative = tuple[Field, ...]
"""Fields that have to match together, in the order of their names."""

KnownAnswers = dict[Field, bool]
"""The answers of fields on one document so far, so that no field is tried twice.

For an array: whether any of its values is accepted, in whichever element.
"""


class WorkOnLetter(Work):
    """The steps of one rule on one letter, and the leaves of each of its fields there so far."""

    __slots__ = ("spots",)

    def __init__(self) -> None:
        super().__init__()
        self.spots: dict[Field, Spot] = {}


class Likeness(Enum):
    """The result of one pattern on one document. TOO_COSTLY: its budget of steps is too small."""

    MATCHES = "matches"
    DIFFERS = "differs"
    TOO_COSTLY = "too costly"


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A compiled pattern. It matches a document if all fields of one alternative match.

    There is one alternative, or one for each combination of `$or` branches.
    """

    alternatives: tuple[Alternative, ...]
    fields: tuple[Field, ...]
    weight: float
    """No letter's fields cost more steps to compare than this for each unit of its size."""
    _outline: Outline

    @property
    def may_be_too_costly(self) -> bool:
        """False if no document is too costly to judge: exact values outside of arrays are free."""
        return self.weight > 0 or any(
            sum(field.name.startswith("body.") for field in fields) > 1
            for fields in self.alternatives
        )

    def matches(self, document: Mapping[str, Any]) -> bool:
        """True if the document matches the pattern; False if it is too costly to find out."""
        return self.judge(document) is Likeness.MATCHES

    def judge(self, document: Mapping[str, Any]) -> Likeness:
        """Whether the document matches the pattern, as far as the budget of steps goes."""
        return self.judge_leaves(self._outline.read(document))

    def judge_leaves(self, leaves: Leaves) -> Likeness:
        """The same of a document's leaves, read by an outline that has the pattern's names."""
        if self.weight * leaves.size > STEPS and costs_too_much(self, leaves):
            return Likeness.TOO_COSTLY
        answers: KnownAnswers = {}
        work = WorkOnLetter() if leaves.deep else None
        try:
            matched = any(all_hold(fields, leaves, answers, work) for fields in self.alternatives)
        except TooCostly:
            return Likeness.TOO_COSTLY
        return Likeness.MATCHES if matched else Likeness.DIFFERS

    def explain(self, document: Mapping[str, Any]) -> list[FieldFinding]:
        """A finding for each field of the pattern, in the order of the pattern.

        Values of the document are named by kind only. If all fields match and the pattern
        does not, a last finding says that they match in different elements of an array. None
        if the document is too costly to judge.
        """
        likeness = self.judge(document)
        if likeness is Likeness.TOO_COSTLY:
            return []
        leaves = self._outline.read(document)
        findings = [_finding(field, leaves, document) for field in self.fields]
        met = {
            field for field, finding in zip(self.fields, findings, strict=True) if finding.matched
        }
        if likeness is Likeness.DIFFERS:
            for fields in self.alternatives:
                if met.issuperset(fields):
                    names = ", ".join(field.name for field in fields)
                    findings.append(
                        FieldFinding(
                            path=names,
                            matched=False,
                            expected="all of these in one element of the array",
                            found="in different elements",
                        )
                    )
                    break
        return findings


def compile_pattern(pattern: Mapping[str, Any] | str) -> Pattern:
    """The compiled pattern. Text is read as JSON.

    Raises PatternRefused for what EventBridge refuses, and for what it accepts although a
    person cannot have meant it: a key twice in one object, a name constrained twice (in
    and outside `$or`; in EventBridge the last one counts), a `$or` that is not a list of
    objects (in EventBridge an ordinary name), an empty list in `anything-but`. Levels are
    limited to 32. EventBridge refuses "too complex" wildcards; here every wildcard is
    accepted, because matching takes linear time. Numbers are compared as doubles, as in
    event-ruler, without EventBridge's documented limit of five billion.
    """
    if isinstance(pattern, str):
        try:
            pattern = read_json(pattern)
        except Unreadable as error:
            raise PatternRefused(f"the pattern is unreadable: {error}") from error
    if not isinstance(pattern, Mapping):
        raise PatternRefused(f"a pattern is an object {{...}}, not {quoted(pattern)}")
    compiler = _Compiler()
    alternatives = compiler.add(pattern, (), "", [{}], inside_or=False)
    return Pattern(
        alternatives=tuple(
            tuple(fields[name] for name in sorted(fields)) for fields in alternatives
        ),
        fields=tuple(compiler.fields),
        weight=sum(
            max(field.comparison.steps, field.comparison.scan.of_any) for field in compiler.fields
        ),
        _outline=Outline({field.name for field in compiler.fields}),
    )


Draft = dict[str, Field]
"""An alternative under construction: its fields by name."""


class _Compiler:
    def __init__(self) -> None:
        self.fields: list[Field] = []
        self._combinations = 1

    def add(
        self,
        pattern: Mapping[Any, Any],
        steps: tuple[str, ...],
        place: str,
        drafts: list[Draft],
        *,
        inside_or: bool,
    ) -> list[Draft]:
        """The drafts with the fields of this object added, and forked for each `$or`."""
        if not pattern:
            refuse(place or "the pattern", "an empty object would match everything; name a field")
        for key, value in pattern.items():
            where = f"{place}.{key}" if place else str(key)
            if not isinstance(key, str):
                refuse(where, f"a name is a string, not {quoted(key)}")
            if key == "$or":
                drafts = self._fork(value, steps, where, drafts)
                continue
            if inside_or and key in RESERVED:
                refuse(where, f"{quoted(key)} can't be a name inside $or")
            onward = (*steps, *key.split("."))
            if len(onward) > _MAX_DEPTH:
                refuse(where, f"nested deeper than {_MAX_DEPTH} levels")
            if isinstance(value, Mapping):
                drafts = self.add(value, onward, where, drafts, inside_or=inside_or)
            else:
                self._constrain(Field(".".join(onward), compare(where, value), where), drafts)
        return drafts

    def _fork(
        self, branches: Any, steps: tuple[str, ...], place: str, drafts: list[Draft]
    ) -> list[Draft]:
        if not isinstance(branches, list | tuple) or len(branches) < 2:
            refuse(place, "$or takes a list of at least two objects, such as [{...}, {...}]")
        self._combinations *= len(branches)
        if self._combinations > _MAX_COMBINATIONS:
            refuse(place, f"the $or lists make more than {_MAX_COMBINATIONS} combinations")
        forked: list[Draft] = []
        for number, branch in enumerate(branches):
            where = f"{place}[{number}]"
            if not isinstance(branch, Mapping):
                refuse(where, f"$or takes objects, not {quoted(branch)}")
            copies = [dict(draft) for draft in drafts]
            forked += self.add(branch, steps, where, copies, inside_or=True)
        return forked

    def _constrain(self, field: Field, drafts: list[Draft]) -> None:
        self.fields.append(field)
        for draft in drafts:
            if field.name in draft:
                refuse(
                    field.place, f"{field.name} is constrained twice; put its values in one list"
                )
            draft[field.name] = field


def costs_too_much(pattern: Pattern, leaves: Leaves) -> bool:
    """True if the comparisons of the pattern may take more than STEPS steps on these leaves.

    Decided before any of them is made, and from sizes alone. Exact values are free: fields
    beside an exact value that the document does not have are not counted.
    """
    costly = {
        field: cost
        for field in pattern.fields
        if field.name in leaves and (cost := field.comparison.cost(leaves[field.name]))
    }
    if sum(costly.values()) <= STEPS:
        return False
    exact: dict[Field, bool] = {}
    counted: set[Field] = set()
    for fields in pattern.alternatives:
        for field in fields:
            if field.comparison.keys is not None:
                hit = exact.get(field)
                if hit is None:
                    hit = field.comparison.accepts(leaves.get(field.name, ABSENT))
                    exact[field] = hit
                if not hit:
                    break
        else:
            counted.update(fields)
    return sum(cost for field, cost in costly.items() if field in counted) > STEPS


def all_hold(
    fields: Alternative, leaves: Leaves, answers: KnownAnswers, work: WorkOnLetter | None
) -> bool:
    """True if all fields of one alternative match the leaves of a document.

    `leaves` were read by an Outline with the names of the fields; `answers` is empty for a
    new document and shared by all alternatives tried on it. `work` is that of the rule: it is
    needed for deep leaves, and TooCostly is raised if it does not suffice.
    """
    for field in fields:
        hit = answers.get(field)
        if hit is None:
            hit = answers[field] = field.comparison.accepts(leaves.get(field.name, ABSENT))
        if not hit:
            return False
    return work is None or _hold_in_elements(fields, leaves, work)


def _hold_in_elements(fields: Alternative, leaves: Leaves, work: WorkOnLetter) -> bool:
    """True if fields that match on their own also match in one element of each array."""
    deep: list[tuple[Field, FieldValues]] = []
    for field in fields:
        leaf = leaves.get(field.name)
        if leaf.__class__ is FieldValues and leaf.deep:
            deep.append((field, leaf))
    if len(deep) < 2 and not any(field.comparison.absent for field, _ in deep):
        return True
    work.spend(len(fields))
    parts: list[Part] = []
    for field, leaf in deep:
        spot = work.spots.get(field)
        if spot is None:
            spot = work.spots[field] = spot_of(_hits(field.comparison, leaf), work)
        parts.append((field.comparison.absent, spot))
    return hold_together(parts, work)


def _hits(comparison: Comparison, leaf: FieldValues) -> Iterator[tuple[Place, bool]]:
    """The places of the accepted values; if the field may be missing, those of all values."""
    distinct = leaf.distinct
    if comparison.keys is not None:
        for key in comparison.keys:
            if key in distinct:
                yield from ((place, True) for place in distinct[key][1])
        return
    for value, places in distinct.values():
        hit = comparison.test(value)
        if hit or comparison.absent:
            yield from ((place, hit) for place in places)


_KINDS: Final[Mapping[type, str]] = {str: "string", bool: "boolean", type(None): "null"}


def _finding(field: Field, leaves: Mapping[str, Any], document: Mapping[str, Any]) -> FieldFinding:
    leaf = leaves.get(field.name, ABSENT)
    if isinstance(leaf, FieldValues):
        matched = any(map(field.comparison.test, leaf.values()))
        kinds = sorted({_KINDS.get(type(value), "number") for value in leaf.values()})
        kind = f"array of {', '.join(kinds)}"
    else:
        matched = field.comparison.test(leaf)
        kind = (
            _KINDS.get(type(leaf), "number")
            if leaf is not ABSENT
            else _kind_without_leaf(field, document)
        )
    return FieldFinding(field.place, matched, field.comparison.words, kind)


def _kind_without_leaf(field: Field, document: Mapping[str, Any]) -> str:
    """The kind of value at a name without a leaf: comparisons read leaves only."""
    value: Any = document
    for step in field.name.split("."):
        value = value.get(step, ABSENT) if isinstance(value, Mapping) else ABSENT
    if isinstance(value, Mapping):
        return "an object"
    return "an array without values" if isinstance(value, list | tuple) else "absent"
