"""Of two rules with the same id, of a pipeline and of all, one counts: both rows say which."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

from deadletter.rules.rulebook import read_rules
from deadletter.rules.ties import namesake_note
from tests.rules.account import ORDERS, PIPELINES, Account

MINE = "a rule of all pipelines has the same id, and this one counts in orders"
NOT_MINE = "a rule of all pipelines has the same id, and that one counts in orders"
THEIRS = "rules of pipelines have the same id, and theirs counts in orders"
FIX = ": give one of them another id"


def rule(pipeline: str = "orders", **columns: Any) -> dict[str, Any]:
    return {"pipeline": pipeline, "rule_id": "r", "action": "HOLD", "tenantId": "t", **columns}


def test_both_rows_say_that_there_are_two_and_which_counts() -> None:
    account = Account()
    account.put(rule())
    account.check_all()
    assert account.notes() == {"orders": None}
    account.put(rule("*"))
    account.check_all()
    assert account.notes() == {"*": THEIRS + FIX, "orders": MINE + FIX}
    assert {row["status"] for row in account.rows.values()} == {"VALID"}


def test_the_priority_says_which_of_them_counts() -> None:
    account = Account()
    account.put(rule())
    account.put(rule("billing", priority=50))
    account.put(rule("*", priority=60))
    account.check_all()
    these = "rules of pipelines have the same id, and theirs counts in billing"
    assert account.notes()["*"] == f"{these} and this one counts in orders{FIX}"
    assert account.notes()["orders"] == NOT_MINE + FIX
    account.put({**account.rows["*"], "priority": 40})
    account.check_all()
    both = "rules of pipelines have the same id, and this one counts in billing, orders"
    assert account.notes()["*"] == both + FIX


def test_what_they_say_is_what_the_router_does() -> None:
    for (own, shared), off in product(((100, 100), (100, 99), (99, 100)), ("", "own", "shared")):
        rows = [
            rule(priority=own, enabled=off != "own"),
            rule("*", priority=shared, enabled=off != "shared"),
        ]
        book = read_rules(rows, ORDERS)
        note = namesake_note("orders", rows[0], {"*": rows[1]}, PIPELINES)
        assert note == (MINE if book.rules["r"].pipeline == "orders" else NOT_MINE) + FIX


def test_when_one_goes_the_other_says_it_no_more() -> None:
    for gone, left in permutations(("*", "orders")):
        account = Account()
        account.put(rule())
        account.put(rule("*"))
        account.check_all()
        account.remove(gone)
        account.check_all()
        assert account.notes() == {left: None}


def test_the_order_in_which_two_edits_are_checked_makes_no_difference() -> None:
    for order in permutations(range(2)):
        account = Account()
        account.put(rule())
        account.put(rule("*"))
        account.check_all(order)
        assert account.notes() == {"*": THEIRS + FIX, "orders": MINE + FIX}


def test_the_verdicts_come_to_rest() -> None:
    """Each verdict that is written is an edit of its own: one more write would never end."""
    account = Account()
    account.put(rule())
    account.put(rule("*"))
    account.check_all()
    before = account.writes
    account.put({**account.rows["*"], "reason": "another"})
    account.check_all()
    assert account.writes == before


def test_a_rule_that_is_not_valid_is_no_namesake() -> None:
    account = Account()
    account.put(rule())
    account.put(rule("*", action="PURGE"))
    account.check_all()
    assert account.notes()["orders"] is None
    account.put({**account.rows["*"], "action": "HOLD"})
    account.check_all()
    assert account.notes() == {"*": THEIRS + FIX, "orders": MINE + FIX}


def test_a_broad_rule_that_was_valid_stays_so_beside_a_namesake() -> None:
    account = Account()
    broad = {**rule("*", pattern='{"pipeline": [{"prefix": ""}]}'), "status": "VALID"}
    del broad["tenantId"]
    account.table["*", "r"] = broad
    account.put(rule())
    account.check_all()
    assert account.rows["*"]["status"] == "VALID"
    assert account.rows["*"]["status_reason"].startswith(THEIRS)
    account.remove("orders")
    account.check_all()
    assert account.rows["*"]["status"] == "VALID"
    assert "the same id" not in account.rows["*"]["status_reason"]
