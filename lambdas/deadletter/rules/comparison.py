"""The comparison of one field of an event pattern: a list of plain values and operators."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from deadletter.rules.accepted import (
    ABSENT,
    AcceptedText,
    AcceptedValue,
    Accepts,
    Test,
    any_test,
    as_test,
    listed,
    quoted,
    refuse,
)
from deadletter.rules.fields import CHARACTERS_PER_STEP, FieldValues
from deadletter.rules.operators import read_address, read_exact, read_expression, same_address
from deadletter.rules.wildcard import LONG_TEXT, NO_SCAN, Scan


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The list of one field: a value matches if any entry of the list accepts it.

    `keys` are the exact values, in the form of `exact_key`, if the list holds nothing else.
    `absent` is True if a missing field is accepted. Each accepted value is a text that contains
    each of `pieces`. `texts` and `numbers` say whether it may accept any of these. `steps` is what
    one value costs to try, `scan` what the search of its text costs. `words` describes the list
    for a person.
    """

    test: Test
    words: str
    keys: frozenset[Hashable] | None
    absent: bool
    texts: bool
    numbers: bool
    steps: float
    scan: Scan
    pieces: tuple[str, ...] = ()

    def accepts(self, leaf: Any) -> bool:
        """True if the leaf, or any value of an array, is accepted.

        Also if the field may be missing from the element of an array that another field chooses.
        """
        if leaf.__class__ is not FieldValues:
            return self.test(leaf)
        if self.absent and leaf.deep:
            return True
        if self.keys is not None:
            return not self.keys.isdisjoint(leaf.distinct)
        # Most long arrays lack a piece, which one search finds out for all of their texts.
        if self.pieces and not all(piece in leaf.joined for piece in self.pieces):
            return False
        return any(self.test(value) for value, _ in leaf.distinct.values())

    def cost(self, leaf: Any) -> float:
        """The most steps that it takes to try this leaf."""
        if leaf.__class__ is str:
            each = self.scan.of_long if len(leaf) > LONG_TEXT else self.scan.of_any
            return self.steps + len(leaf) * each / CHARACTERS_PER_STEP
        if leaf.__class__ is FieldValues:
            return (
                leaf.count * self.steps + leaf.characters * self.scan.of_any / CHARACTERS_PER_STEP
            )
        return self.steps


def compare(where: str, values: Any) -> Comparison:
    """The comparison in a pattern's list. Raises PatternRefused, naming `where`."""
    if not isinstance(values, list | tuple):
        refuse(where, f"{quoted(values)} is neither a list nor an object; write [{quoted(values)}]")
    if not values:
        refuse(where, "an empty list matches nothing; leave the field out or name a value")
    keys: set[Hashable] = set()
    accepted: list[Accepts] = []
    words: list[str] = []
    for value in values:
        if isinstance(value, Mapping):
            accepts, text = read_expression(where, value)
            if isinstance(accepts, frozenset):
                keys |= accepts
            else:
                accepted.append(accepts)
        else:
            text = quoted(value)
            keys.add(read_exact(where, value))
            if isinstance(value, str) and ":" in value and read_address(value):
                # 2001:db8::1 has other spellings, which AWS accepts.
                accepted.append(same_address(value))
        words.append(text)
    only = accepted[0] if len(accepted) == 1 and not keys else None
    tried = [accepts for accepts in accepted if not isinstance(accepts, frozenset)]
    if keys:
        accepted.append(frozenset(keys))
    test = any_test([as_test(accepts) for accepts in accepted])
    return Comparison(
        test=test,
        words=listed(words),
        keys=frozenset(keys) if not tried else None,
        absent=test(ABSENT),
        texts=any(isinstance(key, str) for key in keys)
        or any(not getattr(accepts, "only_numbers", False) for accepts in tried),
        numbers=any(isinstance(key, int | float | Decimal) for key in keys)
        or any(isinstance(accepts, AcceptedValue) for accepts in tried),
        steps=sum(accepts.steps for accepts in tried),
        scan=sum((accepts.scan for accepts in tried), NO_SCAN),
        pieces=only.pieces if isinstance(only, AcceptedText) else (),
    )
