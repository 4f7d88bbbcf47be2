"""Matches many patterns against one document at once, in their given order."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from deadletter.rules import hooks
from deadletter.rules.accepted import Test
from deadletter.rules.fields import FieldValues, Leaves, Outline, exact_key
from deadletter.rules.hooks import Hook
from deadletter.rules.lookups import Lookups, Numbers
from deadletter.rules.pattern import (
    Alternative,
    Field,
    KnownAnswers,
    Pattern,
    all_hold,
    costs_too_much,
)
from deadletter.rules.work import CHARACTERS_PER_STEP, STEPS, TooCostly, Work

K = TypeVar("K")

# Up to this many candidates that share a value are tried one by one.
_FEW = 4

# Characters of a text on which a comparison may take long.
_LONG = 1_000

# Names by which candidates are looked up one after the other.
_MOST_NAMES = 8

# Rules that one value may find through a hook without a bucket, for the choice between fields.
_WIDE: Final[Mapping[str, int]] = {
    hooks.BETWEEN: 10**6,
    hooks.ALL_BUT: 10**7,
    hooks.ANY.kind: 10**8,
}


@dataclass(slots=True, eq=False)
class _Branch:
    """Entries looked up by the values of one name each, and by further names below.

    `always` are the entries that nothing else finds; `all_but` those that name nothing narrower
    than values that are unwanted, and `excluded` has those that a value of a name excludes.
    """

    by_name: dict[str, Lookups[_Branch | Numbers]] = field(default_factory=dict)
    always: Numbers = field(default_factory=list)
    all_but: Numbers = field(default_factory=list)
    excluded: dict[str, dict[Hashable, set[int]]] = field(default_factory=dict)


class RuleIndex(Generic[K]):
    """Finds the rules that match a document, in order.

    Candidates are looked up by one field of each rule, so the number of rules hardly matters,
    and each is then judged as its pattern alone would judge it. Keys may repeat: the result has
    an entry for each rule, not for each key.
    """

    def __init__(self, rules: Iterable[tuple[K, Pattern]]) -> None:
        self._rules = list(rules)
        # One entry for each alternative: the rank of its rule, and its fields.
        self._entries: list[tuple[int, Alternative]] = [
            (rank, fields)
            for rank, (_, pattern) in enumerate(self._rules)
            for fields in pattern.alternatives
        ]
        self._outline = Outline({field.name for _, fields in self._entries for field in fields})
        self._root = self._branch(list(range(len(self._entries))), frozenset())
        self._heavy = sorted(
            (weight, rank)
            for rank, (_, pattern) in enumerate(self._rules)
            if (weight := pattern.weight) > 0
        )

    def matching(self, document: Mapping[str, Any]) -> Iterator[K]:
        """The keys of the matching rules, in the order given to the index. Lazy."""
        return (key for key, too_costly in self.judged(document) if not too_costly)

    def judged(self, document: Mapping[str, Any]) -> Iterator[tuple[K, bool]]:
        """The keys of the rules that match or are too costly to judge (True), in order.

        Lazy: the candidates are collected at the first step, and each is checked completely
        only at its turn.
        """
        leaves = self._outline.read(document)
        candidates: Numbers = []
        _collect(self._root, leaves, candidates)
        candidates.sort()
        answers: KnownAnswers = {}
        entries, rules, deep = self._entries, self._rules, leaves.deep
        costly = self._too_costly(leaves) if self._heavy else []
        costly.append(len(rules))
        next_costly = costly[0]
        judged, done = -1, -1
        work: Work | None = None
        for number in candidates:
            rank, fields = entries[number]
            while next_costly <= rank:
                done = next_costly
                yield rules[costly.pop(0)][0], True
                next_costly = costly[0]
            if rank == done:
                continue
            if deep and rank != judged:
                judged, work = rank, Work()
            try:
                if all_hold(fields, leaves, answers, work):
                    done = rank
                    yield rules[rank][0], False
            except TooCostly:
                done = rank
                yield rules[rank][0], True
        for rank in costly[:-1]:
            yield rules[rank][0], True

    def _too_costly(self, leaves: Leaves) -> Numbers:
        """The ranks of the rules whose comparisons alone are too costly, in ascending order."""
        size = 1.0
        for leaf in leaves.values():
            if leaf.__class__ is str:
                if len(leaf) > size:
                    size = max(size, 1 + len(leaf) / CHARACTERS_PER_STEP)
            elif leaf.__class__ is FieldValues:
                size = max(size, leaf.count + leaf.characters / CHARACTERS_PER_STEP)
        if self._heavy[-1][0] * size <= STEPS:
            return []
        suspects = self._heavy[bisect_left(self._heavy, (STEPS / size, -1)) :]
        return sorted(rank for _, rank in suspects if costs_too_much(self._rules[rank][1], leaves))

    def _branch(self, numbers: Numbers, used: frozenset[str]) -> _Branch:
        fields = {
            number: [
                field
                for field in self._entries[number][1]
                if not field.comparison.absent and field.name not in used
            ]
            for number in numbers
        }
        uses = Counter(
            (field.name, hook)
            for number in numbers
            for field in fields[number]
            for options in field.comparison.hooks
            for hook in options
            if hook.kind not in _WIDE
        )
        branch = _Branch()
        rows: dict[str, dict[Hook, Numbers]] = {}
        tests: dict[Hook, Test] = {}
        for number in numbers:
            best: tuple[int, str, list[Hook], Test] | None = None
            for tried in fields[number]:
                chosen = [_rarest(tried.name, options, uses) for options in tried.comparison.hooks]
                found = sum(count for count, _ in chosen)
                if best is None or found < best[0]:
                    best = (found, tried.name, [hook for _, hook in chosen], tried.comparison.test)
            if best is None:
                branch.always.append(number)
                continue
            if any(hook.kind == hooks.ALL_BUT for hook in best[2]):
                branch.all_but.append(number)
                _exclude(branch.excluded, number, fields[number])
                continue
            row = rows.setdefault(best[1], {})
            for hook in dict.fromkeys(best[2]):
                row.setdefault(hook, []).append(number)
                if hook.kind == hooks.ANY.kind:
                    tests[hook] = best[3]
        for name, row in rows.items():
            branch.by_name[name] = Lookups(
                {
                    hook: sharing
                    if len(sharing) <= _FEW or len(used) == _MOST_NAMES
                    else self._branch(sharing, used | {name})
                    for hook, sharing in row.items()
                    if hook.kind not in _WIDE
                },
                {hook: sharing for hook, sharing in row.items() if hook.kind in _WIDE},
                tests,
            )
        return branch


def _exclude(
    excluded: dict[str, dict[Hashable, set[int]]], number: int, fields: Iterable[Field]
) -> None:
    """Note the values that exclude an entry: those of each list that is one "anything-but"."""
    for tried in fields:
        if len(tried.comparison.hooks) == 1 and len(tried.comparison.hooks[0]) == 1:
            [[hook]] = tried.comparison.hooks
            if hook.kind == hooks.ALL_BUT:
                by_value = excluded.setdefault(tried.name, {})
                for key in hook.key:
                    by_value.setdefault(key, set()).add(number)


def _rarest(
    name: str, options: tuple[Hook, ...], uses: Mapping[tuple[str, Hook], int]
) -> tuple[int, Hook]:
    if len(options) == 1:
        hook = options[0]
        return _WIDE.get(hook.kind) or uses[name, hook], hook
    return min(
        ((_WIDE.get(hook.kind) or uses[name, hook], hook) for hook in options),
        key=lambda option: option[0],
    )


def _collect(branch: _Branch, leaves: Leaves, candidates: Numbers) -> None:
    candidates += branch.always
    if branch.all_but:
        candidates += _not_excluded(branch, leaves)
    by_name = branch.by_name
    for name, leaf in leaves.items():
        lookups = by_name.get(name)
        if lookups is None:
            continue
        if leaf.__class__ is FieldValues:
            _collect_values(lookups, leaf, leaves, candidates)
            continue
        bucket = lookups.exact.get(leaf if leaf.__class__ is str else exact_key(leaf))
        if bucket is not None:
            _follow(bucket, leaves, candidates)
        if not lookups.only_exact:
            if lookups.any_value:
                _collect_tested(lookups, leaf, candidates)
            for found in lookups.of_value(leaf, candidates):
                _follow(found, leaves, candidates)


def _collect_tested(lookups: Lookups[_Branch | Numbers], leaf: Any, candidates: Numbers) -> None:
    known = lookups.known_of_any_value(leaf) if leaf.__class__ is str else None
    if known is not None:
        candidates += known
        return
    for test, numbers in lookups.any_value:
        # A test that many share is made now, unless it may take long.
        if len(numbers) <= _FEW or _is_long(leaf) or test(leaf):
            candidates += numbers


def _is_long(leaf: Any) -> bool:
    return leaf.__class__ is str and len(leaf) > _LONG


def _not_excluded(branch: _Branch, leaves: Leaves) -> Numbers:
    """The entries that no value excludes; an array has other values too."""
    excluded: set[int] = set()
    for name, by_value in branch.excluded.items():
        leaf = leaves.get(name)
        if leaf.__class__ is not FieldValues and name in leaves:
            excluded |= by_value.get(exact_key(leaf), frozenset())
    if not excluded:
        return branch.all_but
    return [number for number in branch.all_but if number not in excluded]


def _collect_values(
    lookups: Lookups[_Branch | Numbers], leaf: FieldValues, leaves: Leaves, candidates: Numbers
) -> None:
    """The same for each different value of an array; each bucket and each entry once."""
    distinct = leaf.distinct
    buckets = {id(bucket): bucket for bucket in _of_keys(lookups.exact, distinct)}
    if not lookups.only_exact:
        wide = {number for _, numbers in lookups.any_value for number in numbers}
        for value, _ in distinct.values():
            found: Numbers = []
            for bucket in lookups.of_value(value, found):
                buckets[id(bucket)] = bucket
            wide.update(found)
        candidates += wide
    for bucket in buckets.values():
        _follow(bucket, leaves, candidates)


def _of_keys(
    table: Mapping[Hashable, _Branch | Numbers], distinct: Mapping[Hashable, object]
) -> Iterator[_Branch | Numbers]:
    fewer, other = (table, distinct) if len(table) < len(distinct) else (distinct, table)
    return (table[key] for key in fewer if key in other)


def _follow(bucket: _Branch | Numbers, leaves: Leaves, candidates: Numbers) -> None:
    if isinstance(bucket, list):
        candidates += bucket
    else:
        _collect(bucket, leaves, candidates)
