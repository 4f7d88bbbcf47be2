"""Of rules of one priority that can match the same message, the alphabet says which acts."""

from __future__ import annotations

from typing import Any

from deadletter.rules.rule import Rule, read_rule
from deadletter.rules.ties import tie_notes, tied
from tests.each_row import each_row
from tests.rules.account import Account
from tests.rules.rule_items import GONE, PIPELINE, item

IMPORTS: dict[str, Any] = {
    "rule_id": "imports",
    "action": "DELAYED_REDRIVE",
    "delay_seconds": 60,
    "tenantId": GONE,
    "messageType": "import",
}


def rule(**columns: Any) -> Rule:
    return read_rule(item(columns.pop("rule_id", "r"), **columns), PIPELINE)


def pattern(**fields: Any) -> dict[str, Any]:
    return {"tenantId": GONE, "pattern": fields}


@each_row(
    ("columns", "is_tied"),
    [
        ({}, True),
        ({"priority": 99}, False),
        ({"enabled": False}, False),
        ({"mode": "shadow"}, False),
        # Whichever goes first, the same is done.
        ({"action": "DELAYED_REDRIVE", "delay_seconds": 60}, False),
        ({"action": "DELAYED_REDRIVE", "delay_seconds": 61}, True),
        ({"messageType": "export"}, False),
        ({"messageType": "import"}, True),
        (pattern(context={"messageType": ["export", "import"]}), True),
        (pattern(context={"messageType": [{"prefix": "imp"}]}), True),
        (pattern(context={"messageType": [{"prefix": "exp"}]}), False),
        (pattern(context={"messageType": [{"exists": False}]}), False),
        (pattern(**{"$or": [{"context": {"messageType": ["x"]}}, {"body": {"a": [1]}}]}), True),
        (pattern(**{"$or": [{"context": {"messageType": [n]}} for n in ("x", "y")]}), False),
    ],
)
def test_rules_are_tied_if_nothing_but_their_ids_says_which_acts(
    columns: dict[str, Any], is_tied: bool
) -> None:
    one, other = rule(**columns), rule(**IMPORTS)
    assert bool(tied(one, [one, other])) is is_tied
    assert bool(tied(other, [one, other])) is is_tied
    assert set(tie_notes([one, other])) == ({"r", "imports"} if is_tied else set())


def test_a_field_of_the_body_may_have_several_values() -> None:
    one = rule(**pattern(body={"tags": ["a"]}))
    other = rule(**{**pattern(body={"tags": ["b"]}), "rule_id": "s", "action": "QUARANTINE"})
    assert tied(one, [other]) == [other]


def test_both_rules_say_which_goes_first_and_why() -> None:
    notes = tie_notes([rule(), rule(**IMPORTS)])
    start = "other rules of priority 100 can match the same messages: "
    assert notes == {
        "r": f"{start}imports goes before it, by the alphabet",
        "imports": f"{start}r goes after it, by the alphabet",
    }
    shared = rule(**IMPORTS, pipeline="*")
    notes = tie_notes([rule(), shared])
    assert notes["r"] == (
        f"{start}imports of * goes after it, for rules of a pipeline go before those of *"
    )


def test_of_many_tied_rules_the_first_are_named() -> None:
    others = [rule(**{**IMPORTS, "rule_id": name}) for name in "zyxwa"]
    note = tie_notes([rule(), *others])["r"]
    assert "a goes before it and w, x, y, 1 more go after it, by the alphabet" in note


# The rows.


def stored(rule_id: str, pipeline: str = "orders", **columns: Any) -> dict[str, Any]:
    keys = {"pipeline": pipeline, "rule_id": rule_id, "tenantId": "t", "action": "HOLD"}
    return {**keys, **columns}


def reasons(account: Account) -> dict[str, str]:
    """What the rows of each rule say, without what all of them begin with."""
    account.check_all()
    start = "other rules of priority 100 can match the same messages: "
    return {
        f"{rule_id} of {key}": row["status_reason"].removeprefix(start)
        for (key, rule_id), row in sorted(account.table.items())
        if row.get("status_reason")
    }


def test_both_rows_say_which_goes_first_until_one_is_edited_or_gone() -> None:
    account = Account()
    account.put(stored("b"))
    assert reasons(account) == {}
    account.put(stored("a", action="QUARANTINE"))
    both = {
        "a of orders": "b goes after it, by the alphabet",
        "b of orders": "a goes before it, by the alphabet",
    }
    assert reasons(account) == both
    account.put({**account.table["orders", "a"], "priority": 99})
    assert reasons(account) == {}
    account.put({**account.table["orders", "a"], "priority": 100})
    assert reasons(account) == both
    account.remove("orders", "a")
    assert reasons(account) == {}


def test_a_row_of_all_pipelines_names_those_of_all_and_is_named_by_the_others() -> None:
    account = Account()
    account.put(stored("b"))
    account.put(stored("a", "*", action="QUARANTINE"))
    account.put(stored("c", "*"))
    # The same is done by b and c.
    assert reasons(account) == {
        "a of *": "c of * goes after it, by the alphabet",
        "b of orders": "a of * goes after it, for rules of a pipeline go before those of *",
        "c of *": "a of * goes before it, by the alphabet",
    }
    account.remove("*", "a")
    assert reasons(account) == {}


def test_the_verdicts_on_tied_rules_come_to_rest() -> None:
    account = Account()
    for number in range(6):
        account.put(stored(f"r{number}", action=("HOLD", "QUARANTINE")[number % 2]))
    account.check_all()
    before = account.writes
    account.put({**account.table["orders", "r0"], "reason": "another"})
    account.check_all()
    assert account.writes == before


def test_a_batch_of_edits_reads_the_rules_once() -> None:
    account = Account()
    reads: list[str] = []
    under = account.under
    account.under = lambda key: reads.append(key) or under(key)  # type: ignore[method-assign, func-returns-value]
    for number in range(5):
        account.put(stored(f"r{number}", action=("HOLD", "QUARANTINE")[number % 2]))
    checker = account.checker()
    checker.check(account.edits)
    assert sorted(reads) == ["*", "orders"]
    # The next batch may come long after.
    account.put(stored("r1", action="HOLD"))
    checker.check(account.edits[-1:])
    assert sorted(reads) == ["*", "*", "orders", "orders"]
