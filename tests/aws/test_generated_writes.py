"""Random writes under random conditions come out in memory as they do in moto, by the same table.

Conditions and changes are values that memory evaluates and DynamoDB is told in words: the two could
say different things.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.errors import Conflict, Failed
from deadletter.aws.table import (
    Change,
    Condition,
    OrElse,
    above,
    absent,
    at_least,
    at_most,
    begins,
    below,
    between,
    differs,
    equals,
    every,
    is_number,
    one_of,
    parts,
    present,
    unchanged,
)
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryDynamoDB
from tests.aws.backends import REGION, _client
from tests.tables import LETTERS, create_messages_table

AT_ONCE = 25

NAMES = ("a", "b", "status", "size", "a column, as typed")
MAP = "m"


def scalar(random: Random) -> Any:
    return random.choice([0, 1, 2, 10, -1, Decimal("1.5"), "", "x", "xy", "y", b"x"])


def value(random: Random) -> Any:
    kinds: list[Callable[[], Any]] = [
        lambda: scalar(random),
        lambda: {name: scalar(random) for name in random.sample("xyz", 2)},
        lambda: [scalar(random) for _ in range(random.randrange(3))],
        lambda: {random.choice("xyz") for _ in range(2)},
        lambda: {random.randrange(3) for _ in range(2)},
    ]
    return random.choices(kinds, [12, 1, 1, 1, 1])[0]()


def row(random: Random) -> dict[str, Any]:
    names = random.sample(NAMES, random.randrange(len(NAMES)))
    within = {MAP: {"turn": scalar(random)}} if random.random() < 0.3 else {}
    return {name: value(random) for name in names} | within


def some_condition(random: Random, before: dict[str, Any], depth: int = 2) -> Condition:
    if depth and random.random() < 0.4:
        left, right = (some_condition(random, before, depth - 1) for _ in range(2))
        return random.choice([left & right, left | right, ~left, every([left, right])])
    path: Any = random.choice([*NAMES, (MAP, "turn")])
    # As often as not, what the row has.
    known = before.get(path) if isinstance(path, str) else before.get(MAP, {}).get("turn")
    wanted = known if known is not None and random.random() < 0.5 else value(random)
    conditions = [
        absent(path),
        present(path),
        equals(path, wanted),
        differs(path, wanted),
        one_of(path, [wanted, 1]),
        is_number(path),
        unchanged(before, random.sample(NAMES, 2)),
    ]
    # moto fails in itself where it is to order values of two types.
    is_text, is_count = isinstance(known, str), type(known) in (int, Decimal)
    if known is None or is_text or is_count:
        low, high = random.choice(["", "x"]), random.choice(["xy", "y"])
        least: Any = random.choice([0, 1]) if is_count else low
        # The text 10 is less than the text 2.
        most: Any = random.choice([2, Decimal("1.5")]) if is_count else high
        conditions += [below(path, most), at_most(path, most), above(path, least)]
        conditions += [at_least(path, least), between(path, least, most)]
    if known is None or is_text:
        conditions.append(begins(path, random.choice(["", "x"])))
    return random.choice(conditions)


def change(random: Random, key: str, before: dict[str, Any]) -> Change:
    names = random.sample(NAMES, 4)
    sets: dict[str, Any] = {names[0]: value(random)}
    if random.random() < 0.4:
        sets[names[0]] = OrElse(random.choice(NAMES), value(random))
    if random.random() < 0.3:
        # As it was before the change, which sets it too.
        sets[names[3]] = OrElse(names[0], value(random))
    adds = {names[1]: random.choice([1, -2, Decimal("0.5"), {"x", "q"}, {7}])}
    when = some_condition(random, before) if random.random() < 0.9 else None
    return Change(
        ("p", key),
        sets if random.random() < 0.8 else {},
        when,
        adds if random.random() < 0.4 else {},
        [names[2]],
    )


def outcome(table: DynamoDBTable, each: Change) -> Any:
    """What a write comes to: the row afterwards, the row in its way, or why it failed."""
    try:
        return table.change(
            each.key,
            each.sets,
            adds=each.adds,
            removes=each.removes,
            when=each.when,
            shown="ALL_NEW",
        )
    except Conflict as conflict:
        return ("conflict", conflict.item)
    except Failed as error:
        return ("failed", str(error))


@pytest.mark.parametrize("pairs", [500, pytest.param(2_000, marks=pytest.mark.nightly)])
def test_a_write_comes_to_the_same_in_memory_and_in_moto(mocked: Any, pairs: int) -> None:
    mocked.reset()
    memory: Any = MemoryDynamoDB(Clock())
    moto = _client("dynamodb")
    assert moto.meta.region_name == REGION
    for client in (memory, moto):
        create_messages_table(client)
    tables = [DynamoDBTable(client, LETTERS) for client in (memory, moto)]
    seen: set[str] = set()
    for seeds in parts(range(pairs), AT_ONCE):
        rows = {str(seed): row(Random(seed)) for seed in seeds}
        changes = {key: change(Random(f"change {key}"), key, rows[key]) for key in rows}
        # Some rows are missing.
        there = {key: each for key, each in rows.items() if int(key) % 7}
        for table in tables:
            table.write_many(puts=[{"pk": "p", "sk": key, **each} for key, each in there.items()])
        for key, each in changes.items():
            in_memory, in_moto = (outcome(table, each) for table in tables)
            assert in_memory == in_moto, f"seed {key}: {there.get(key)} {each}"
            seen.add(in_memory[0] if isinstance(in_memory, tuple) else "changed")
    assert seen == {"changed", "conflict", "failed"}
