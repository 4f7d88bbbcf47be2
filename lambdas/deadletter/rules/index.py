"""Many patterns asked about one document at once, in the order they were given."""

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

# Candidates that share a value are few enough to try one by one up to here.
_FEW = 4

Entry = tuple[int, int, Any, Alternative]
"""Rank of the rule, a number of its own so that entries sort, the key, and one alternative."""


@dataclass(slots=True, eq=False)
class _Tests:
    """Fields of one name, the test of each, and what depends on it."""

    of_text: list[TextTest] = field(default_factory=list)
    of_any: list[Test] = field(default_factory=list)
    fields: list[tuple[Field, list[Entry]]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Branch:
    """Alternatives told apart by the value of one name each, and again below if that is not
    enough. What has no exact value is tried by its narrowest field, once for all that share it.
    """

    by_value: dict[str, dict[Hashable, _Branch | list[Entry]]] = field(default_factory=dict)
    by_test: dict[str, _Tests] = field(default_factory=dict)
    always: list[Entry] = field(default_factory=list)


class RuleIndex(Generic[K]):
    """The rules that match a document, first rule first.

    Rules are looked up by their exact values, so their number hardly matters; a rule
    without any (only wildcards, anything-but, ranges, exists, ...) costs one test of one
    field. Keys may repeat: the result has an entry for each rule, not for each key.
    """

    def __init__(self, rules: Iterable[tuple[K, Pattern]]) -> None:
        entries: list[Entry] = []
        for rank, (key, pattern) in enumerate(rules):
            for fields in pattern.alternatives:
                entries.append((rank, len(entries), key, fields))
        self._outline = Outline({one.name for entry in entries for one in entry[3]})
        self._root = _branch(entries, frozenset())

    def matching(self, document: Mapping[str, Any]) -> Iterator[K]:
        """The keys of the matching rules, in the order given to the index.

        Lazy: the candidates are found at the first step, and what remains to be checked
        of each only when its turn comes.
        """
        found = self._outline.read(document)
        known: KnownAnswers = {}
        candidates: list[Entry] = []
        _collect(self._root, found, known, candidates)
        candidates.sort()
        last = -1
        for rank, _, key, fields in candidates:
            if rank != last and all_hold(fields, found, known):
                last = rank
                yield key


def _branch(entries: list[Entry], used: frozenset[str]) -> _Branch:
    branch = _Branch()
    exact: list[tuple[Entry, list[Field]]] = []
    tests: dict[Field, list[Entry]] = {}
    for entry in entries:
        fields = [one for one in entry[3] if one.comparison.keys and one.name not in used]
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
    crowd = Counter(one_key for _, fields in exact for one in fields for one_key in _keys(one))
    rows: dict[str, dict[Hashable, list[Entry]]] = {}
    for entry, fields in exact:
        # The field whose values are shared with the fewest others tells the most.
        best = min(fields, key=lambda one: sum(crowd[one_key] for one_key in _keys(one)))
        for name, key in _keys(best):
            rows.setdefault(name, {}).setdefault(key, []).append(entry)
    for name, row in rows.items():
        branch.by_value[name] = {
            key: sharing if len(sharing) <= _FEW else _branch(sharing, used | {name})
            for key, sharing in row.items()
        }
    return branch


def _keys(one: Field) -> list[tuple[str, Hashable]]:
    return [(one.name, key) for key in one.comparison.keys or ()]


def _breadth(one: Field) -> tuple[bool, bool]:
    return (one.comparison.absent, one.comparison.broad)


def _collect(
    branch: _Branch, found: Mapping[str, Any], known: KnownAnswers, candidates: list[Entry]
) -> None:
    candidates += branch.always
    for name, leaf in found.items():
        row = branch.by_value.get(name)
        if row is not None:
            for key in _looked_up(leaf, row):
                hit = row.get(key)
                if isinstance(hit, list):
                    candidates += hit
                elif hit is not None:
                    _collect(hit, found, known, candidates)
        tests = branch.by_test.get(name)
        if tests is not None:
            if leaf.__class__ is str:
                passed = [test(leaf) for test in tests.of_text]
            elif leaf.__class__ is FieldValues:
                passed = [any(map(test, leaf.values())) for test in tests.of_any]
            else:
                passed = [test(leaf) for test in tests.of_any]
            for one, entries in compress(tests.fields, passed):
                known[one] = True
                candidates += entries


def _looked_up(leaf: Any, row: Mapping[Hashable, object]) -> Iterable[Hashable]:
    if leaf.__class__ is str:
        return (leaf,)
    if leaf.__class__ is FieldValues:
        # Each value once, however often an array repeats it.
        return {exact_key(value) for value in leaf.values()} & row.keys()
    return (exact_key(leaf),)
