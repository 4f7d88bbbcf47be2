"""Conditions and changes of requests, held against the items of a table in memory."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from deadletter.aws.dynamodb import stored
from deadletter.aws.table import Compared, Condition, Joined, Opposite, OrElse, Path
from deadletter.testing.fakes.attribute_values import (
    Item,
    ValidationError,
    Value,
    accept,
    add,
    set_of,
)

_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def holds(condition: Condition | None, item: Item) -> bool:
    """Whether an item is as a condition wants it; one that does not exist is empty."""
    match condition:
        case Joined(word, parts):
            return (all if word == "AND" else any)(holds(part, item) for part in parts)
        case Opposite(inner):
            return not holds(inner, item)
        case Compared(sign, path, values):
            return _compared(sign, _found(item, path), values)
    return True


def names_in(condition: Condition | None) -> frozenset[str]:
    """The attributes that a condition looks at."""
    match condition:
        case Joined(_, parts):
            return frozenset().union(*map(names_in, parts))
        case Opposite(inner):
            return names_in(inner)
        case Compared(_, path, _):
            return frozenset({path if isinstance(path, str) else path[0]})
    return frozenset()


def _found(item: Item, path: Path) -> Value | None:
    steps = (path,) if isinstance(path, str) else path
    value = item.get(steps[0])
    for step in steps[1:]:
        value = None if value is None else value.get("M", {}).get(step)
    return value


def _compared(sign: str, held: Value | None, values: Sequence[Any]) -> bool:
    if sign in ("attribute_exists", "attribute_not_exists"):
        return (held is None) is (sign == "attribute_not_exists")
    if held is None:
        # What does not exist differs from everything.
        return sign == "<>"
    if sign == "attribute_type":
        return values[0] in held
    wanted = [canonical_value(value) for value in values]
    match sign:
        case "=" | "IN":
            return held in wanted
        case "<>":
            return held not in wanted
        case "BETWEEN":
            return _ordered(">=", held, wanted[0]) and _ordered("<=", held, wanted[1])
        case "begins_with":
            return "S" in held and "S" in wanted[0] and held["S"].startswith(wanted[0]["S"])
    return _ordered(sign, held, wanted[0])


def _ordered(sign: str, left: Value, right: Value) -> bool:
    ((kind, content),) = left.items()
    if kind not in right or kind not in ("S", "N", "B"):
        return False
    of_kind = Decimal if kind == "N" else lambda each: each
    return bool(_ORDERS[sign](of_kind(content), of_kind(right[kind])))


def changed(
    item: Item, sets: Mapping[str, Any], adds: Mapping[str, Any], removes: Sequence[str]
) -> Item:
    """The item after a change, as a new one: everything is read before anything is written."""
    names = [*sets, *adds, *removes]
    if len(names) != len(set(names)):
        raise ValidationError("Two document paths overlap with each other")
    after = dict(item)
    for name, value in sets.items():
        if isinstance(value, OrElse):
            after[name] = item.get(value.name) or canonical_value(value.value)
        else:
            after[name] = canonical_value(value)
    for name, more in adds.items():
        after[name] = _added(item.get(name), canonical_value(more))
    for name in removes:
        after.pop(name, None)
    return after


def _added(value: Value | None, more: Value) -> Value:
    ((kind, content),) = more.items()
    if kind not in ("N", "SS", "NS", "BS") or (value is not None and kind not in value):
        raise ValidationError("An operand in the update expression has an incorrect data type")
    if value is None:
        return more
    if kind == "N":
        return {"N": add(value["N"], content)}
    return set_of(kind, list({*value[kind], *content}))


def canonical_value(value: Any) -> Value:
    """A plain value as a table keeps it."""
    # A text, as most values are, is one already.
    return {"S": value} if type(value) is str else accept(stored({"": value})[""])
