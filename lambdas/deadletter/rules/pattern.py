"""EventBridge event patterns: the documents that a rule matches.

The language and its meaning are those of EventBridge and of the open-source matcher it
uses (github.com/aws/event-ruler). `compile_pattern` is stricter where they leave room or
would accept a typing mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deadletter.message.strict_json import Unreadable, read_json
from deadletter.rules.fields import ArrayPath, FieldValues, NameNode, Outline
from deadletter.rules.operators import (
    ABSENT,
    RESERVED,
    Comparison,
    PatternRefused,
    compare,
    quoted,
    refuse,
)

__all__ = [
    "Alternative",
    "Field",
    "FieldFinding",
    "KnownAnswers",
    "Pattern",
    "PatternRefused",
    "all_hold",
    "compile_pattern",
]

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

KnownAnswers = dict[Field, bool | list[tuple[ArrayPath, bool]]]
"""The answers of fields on one document so far, so that no field is tried twice."""


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A compiled pattern. It matches a document if all fields of one alternative match.

    There is one alternative, or one for each combination of `$or` branches.
    """

    alternatives: tuple[Alternative, ...]
    _fields: tuple[Field, ...]
    _outline: Outline

    def matches(self, document: Mapping[str, Any]) -> bool:
        """True if the document matches the pattern."""
        leaves = self._outline.read(document)
        answers: KnownAnswers = {}
        return any(all_hold(fields, leaves, answers) for fields in self.alternatives)

    def explain(self, document: Mapping[str, Any]) -> list[FieldFinding]:
        """A finding for each field of the pattern, in the order of the pattern.

        Values of the document are named by kind only. If all fields match and the pattern
        does not, a last finding says that they match in different elements of an array.
        """
        leaves = self._outline.read(document)
        findings = [_finding(field, leaves, document) for field in self._fields]
        met = {
            field for field, finding in zip(self._fields, findings, strict=True) if finding.matched
        }
        if not self.matches(document):
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
        _fields=tuple(compiler.fields),
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


def all_hold(fields: Alternative, leaves: Mapping[str, Any], answers: KnownAnswers) -> bool:
    """True if all fields of one alternative match the leaves of a document.

    `leaves` were read by an Outline with the names of the fields; `answers` is empty for a
    new document and shared by all alternatives tried on it.
    """
    for field in fields:
        hit = answers.get(field)
        if hit is None:
            leaf = leaves.get(field.name, ABSENT)
            if leaf.__class__ is FieldValues:
                return _match_together(fields, leaves, answers)
            hit = answers[field] = field.comparison.test(leaf)
        elif hit.__class__ is list:
            return _match_together(fields, leaves, answers)
        if not hit:
            return False
    return True


Part = tuple[bool, list[tuple[ArrayPath, bool]]]
"""For one field: whether it may be missing, and the elements and the answer of each leaf."""


def _match_together(fields: Alternative, leaves: Mapping[str, Any], answers: KnownAnswers) -> bool:
    parts: list[Part] = []
    for field in fields:
        test, absent = field.comparison.test, field.comparison.absent
        hits = answers.get(field)
        if not isinstance(hits, list):
            leaf = leaves.get(field.name, ABSENT)
            if isinstance(leaf, FieldValues):
                hits = [(chain, any(map(test, values))) for chain, values in leaf]
                answers[field] = hits
            else:
                hits = [] if leaf is ABSENT else [((), test(leaf))]
        if not absent and not any(hit for _, hit in hits):
            return False
        parts.append((absent, hits))
    return _consistent(parts, 0)


def _consistent(parts: list[Part], depth: int) -> bool:
    """True if each part has an accepted leaf, no two in different elements of one array.

    The parts are in the order of their names, which decides what "missing" refers to, as
    in event-ruler: the first name that has leaves in an array chooses the element, and for
    the names after it only that element counts. Each leaf is read once for each array
    around it.
    """
    inside: dict[NameNode, list[Part]] = {}
    for part in parts:
        absent, hits = part
        if (not hits and absent) or any(hit and len(chain) == depth for chain, hit in hits):
            continue
        array = next((chain[depth][0] for chain, _ in hits if len(chain) > depth), None)
        if array is None:
            return False
        inside.setdefault(array, []).append(part)
    for members in inside.values():
        if len(members) == 1:
            if not any(hit for _, hit in members[0][1]):
                return False
        elif not any(_consistent(shares, depth + 1) for shares in _elements(members, depth)):
            return False
    return True


def _elements(members: list[Part], depth: int) -> Iterable[list[Part]]:
    """For each element of an array in which the first part has a leaf: the parts within it."""
    elements: dict[tuple[NameNode, int], list[Part]] = {}
    for number, (_, hits) in enumerate(members):
        for chain, hit in hits:
            if len(chain) > depth:
                element = chain[depth]
                if number == 0 and element not in elements:
                    elements[element] = [(absent, []) for absent, _ in members]
                if element in elements:
                    elements[element][number][1].append((chain, hit))
    return elements.values()


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
