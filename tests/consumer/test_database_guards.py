"""The two database guards of docs/consumer.md let an effect happen once, whatever repeats."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from deadletter.testing import Letterbox

PAGE = (Path(__file__).parents[2] / "docs" / "consumer.md").read_text()

SCHEMA = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT);
CREATE TABLE parcels (order_id INTEGER);
CREATE TABLE processed (event TEXT PRIMARY KEY);
CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER);
INSERT INTO orders VALUES (7, 'paid'), (8, 'new');
INSERT INTO accounts VALUES ('a', 100);
"""

ORDER = {"orderId": 7}
PAYMENT = {"eventId": "e1", "account": "a", "amount": 5}

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Imports an example of the page, beside an empty shop."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with sqlite3.connect("shop.db") as shop:
        shop.executescript(SCHEMA)

    def example(name: str) -> ModuleType:
        [text] = re.findall(rf"```python\n# {name}\.py\n(.*?)```", PAGE, re.DOTALL)
        Path(f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return __import__(name)

    return example


def rows(query: str) -> list[Any]:
    with sqlite3.connect("shop.db") as shop:
        return shop.execute(query).fetchall()


def test_two_messages_about_one_order_ship_one_parcel(load: Load, letterbox: Letterbox) -> None:
    """They have no business key in common: for the library they are two messages."""
    letterbox.send(ORDER)
    letterbox.send(ORDER)
    letterbox.run(load("by_state").handler)
    assert rows("SELECT * FROM parcels") == [(7,)]
    assert letterbox.waiting == []
    assert letterbox.metrics["Skipped"] == 1


def test_an_order_that_is_not_paid_yet_comes_back(load: Load, letterbox: Letterbox) -> None:
    order = letterbox.send({"orderId": 8})
    assert letterbox.run(load("by_state").handler).returned == (order,)
    assert rows("SELECT * FROM parcels") == []


def test_two_messages_of_one_event_change_the_balance_once(
    load: Load, letterbox: Letterbox
) -> None:
    letterbox.send(PAYMENT)
    letterbox.send({**PAYMENT, "sentAt": "later"})
    letterbox.run(load("by_key").handler)
    assert rows("SELECT balance FROM accounts") == [(105,)]
    assert letterbox.waiting == []


@pytest.mark.parametrize(
    ("name", "message", "effect", "before", "after"),
    [
        ("by_state", ORDER, "SELECT count(*) FROM parcels", 0, 1),
        ("by_key", PAYMENT, "SELECT balance FROM accounts", 100, 105),
    ],
)
def test_a_crash_at_any_statement_repeats_nothing_and_loses_nothing(
    load: Load,
    letterbox: Letterbox,
    name: str,
    message: Any,
    effect: str,
    before: int,
    after: int,
) -> None:
    """The first run fails at its first statement, the second at its second, and so on."""
    example = load(name)
    for statements in range(9):
        order = letterbox.send(message)
        example.__dict__["db"] = CrashingConnection(sqlite3.connect("shop.db"), statements)
        finished = letterbox.run(example.handler).acknowledged == (order,)
        assert rows(effect) == [(after,)] if finished else [(before,)]
        if finished:
            break
    assert statements == 2
    example.__dict__["db"] = sqlite3.connect("shop.db")
    letterbox.clock.advance(3600)
    letterbox.run(example.handler)
    assert rows(effect) == [(after,)]
    assert letterbox.waiting == []


def test_a_copy_that_comes_during_the_transaction_waits(load: Load, letterbox: Letterbox) -> None:
    example = load("by_key")
    example.__dict__["db"] = sqlite3.connect("shop.db", timeout=0)
    payment = letterbox.send(PAYMENT)
    other = sqlite3.connect("shop.db")
    other.execute("INSERT INTO processed VALUES ('e1')")
    other.execute("UPDATE accounts SET balance = balance + 5")
    assert letterbox.run(example.handler).returned == (payment,)
    other.commit()
    letterbox.clock.advance(3600)
    assert letterbox.run(example.handler).acknowledged == (payment,)
    assert rows("SELECT balance FROM accounts") == [(105,)]


class CrashingConnection:
    """A connection that fails after a number of statements."""

    def __init__(self, connection: sqlite3.Connection, statements: int) -> None:
        self._connection, self._left = connection, statements

    def execute(self, *statement: Any) -> Any:
        if not self._left:
            raise OSError("connection lost")
        self._left -= 1
        return self._connection.execute(*statement)

    def __enter__(self) -> object:
        return self._connection.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self._connection.__exit__(*error)
