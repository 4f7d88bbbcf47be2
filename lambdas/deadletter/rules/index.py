"""Matches many patterns against one document at once, in their given order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Generic, TypeVar

from deadletter.rules.fields import FieldValues, Outline
from deadletter.rules.operators import Test, TextTest, exact_key
from deadletter.rules.pattern import Alternative, Field, KnownAnswers, Pattern, all_hold

K = TypeVar("K")

# Up to this many candidates that share a value are tried one by one.
_FEW = 4

Entry = tuple[int, int, Any, Alternative]
"""Rank of the rule, a unique number so that entries sort, the key, and one alternative."""


@dataclass(slots=True, eq=False)
class _Tests:
    """The fields of one name, their tests, and the entries that depend on each."""

    of_text: list[TextTest] = field(default_factory=list)
    of_any: list[Test] = field(default_factory=list)
    fields: list[tuple[Field, list[Entry]]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Branch:
    """Entries looked up by the value of one name each, and by further names below.

    An entry without exact values is tried by its narrowest field, once for all that share it.
    """

    by_value: dict[str, dict[Hashable, _Branch | list[Entry]]] = field(default_factory=dict)
    by_test: dict[str, _Tests] = field(default_factory=dict)
    always: list[Entry] = field(default_factory=list)


class RuleIndex(Generic[K]):
    """Finds the rules that match a document, in order.

    Rules are looked up by their exact values, so their number hardly matters; a rule
    without any (only wildcards, anything-but, ranges, exists, ...) costs one test of one
    field. Keys may repeat: the result has an entry for each rule, not for each key.
    """

    def __init__(self, rules: Iterable[tuple[K, Pattern]]) -> None:
        entries: list[Entry] = []
        for rank, (key, pattern) in enumerate(rules):
            for fields in pattern.alternatives:
                entries.append((rank, len(entries), key, fields))
        self._outline = Outline({field.name for entry in entries for field in entry[3]})
        self._root = _branch(entries, frozenset())

    def matching(self, document: Mapping[str, Any]) -> Iterator[K]:
        """The keys of the matching rules, in the order given to the index.

        Lazy: the candidates are collected at the first step, and each is checked completely
        only at its turn.
        """
        leaves = self._outline.read(document)
        answers: KnownAnswers = {}
        candidates: list[Entry] = []
        _collect(self._root, leaves, answers, candidates)
        candidates.sort()
        last = -1
        for rank, _, key, fields in candidates:
            if rank != last and all_hold(fields, leaves, answers):
                last = rank
                yield key


def _branch(entries: list[Entry], used: frozenset[str]) -> _Branch:
    branch = _Branch()
    exact: list[tuple[Entry, list[Field]]] = []
    tests: dict[Field, list[Entry]] = {}
    for entry in entries:
        fields = [field for field in entry[3] if field.comparison.keys and field.name not in used]
        narrow = min(entry[3], key=_breadth)
        if fields:
            exact.append((entry, fields))
        elif narrow.comparison.absent:
            branch.always.append(entry)
        else:
            tests.setdefault(narrow, []).append(entry)
    for tested, sharing in tests.items():
        same_name = branch.by_test.setdefault(tested.name, _Tests())
        same_name.of_text.append(tested.comparison.text)
        same_name.of_any.append(tested.comparison.test)
        same_name.fields.append((tested, sharing))
    uses = Counter(key for _, fields in exact for field in fields for key in _keys(field))
    rows: dict[str, dict[Hashable, list[Entry]]] = {}
    for entry, fields in exact:
        # The field whose values the fewest entries share leaves the fewest candidates.
        best = min(fields, key=lambda field: sum(uses[key] for key in _keys(field)))
        for name, key in _keys(best):
            rows.setdefault(name, {}).setdefault(key, []).append(entry)
    for name, row in rows.items():
        branch.by_value[name] = {
            key: sharing if len(sharing) <= _FEW else _branch(sharing, used | {name})
            for key, sharing in row.items()
        }
    return branch


def _keys(tested: Field) -> list[tuple[str, Hashable]]:
    return [(tested.name, key) for key in tested.comparison.keys or ()]


def _breadth(tested: Field) -> tuple[bool, bool]:
    return (tested.comparison.absent, tested.comparison.broad)


def _collect(
    branch: _Branch, leaves: Mapping[str, Any], answers: KnownAnswers, candidates: list[Entry]
) -> None:
    candidates += branch.always
    for name, leaf in leaves.items():
        row = branch.by_value.get(name)
        if row is not None:
            for key in _looked_up(leaf, row):
                hit = row.get(key)
                if isinstance(hit, list):
                    candidates += hit
                elif hit is not None:
                    _collect(hit, leaves, answers, candidates)
        tests = branch.by_test.get(name)
        if tests is not None:
            if leaf.__class__ is str:
                passed = [test(leaf) for test in tests.of_text]
            elif leaf.__class__ is FieldValues:
                passed = [any(map(test, leaf.values())) for test in tests.of_any]
            else:
                passed = [test(leaf) for test in tests.of_any]
            for tested, entries in compress(tests.fields, passed):
                answers[tested] = True
                candidates += entries


def _looked_up(leaf: Any, row: Mapping[Hashable, object]) -> Iterable[Hashable]:
    if leaf.__class__ is str:
        return (leaf,)
    if leaf.__class__ is FieldValues:
        # Each value once, although an array may repeat it.
        return {exact_key(value) for value in leaf.values()} & row.keys()
    return (exact_key(leaf),)
