"""`dlq rules undo` and `remove`, and `dlq show` of a rule."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations import item, rule_table
from deadletter.failure.ledger import AboutLetter

SAID = ("--reason", "a slip", "--yes")


@pytest.fixture
def orders(cloud: Any) -> Any:
    cloud.deploy("orders", context=["tenantId"], settings={"context": {"tenantId": "body.t"}})
    return cloud


def add(dlq: Any, rule_id: str = "later", delay: str = "2h", *more: str) -> None:
    done = dlq(
        *("rules", "add", rule_id, "-f", "tenant=a", "--action", f"delayed_redrive={delay}"),
        *("--reason", "a batch", "--expires", "never", "--yes", *more),
    )
    assert done.exit_code == Exit.DONE, done.output


def read(dlq: Any, *typed: str) -> Any:
    done = dlq("rules", *typed, "--json")
    assert done.exit_code == Exit.DONE, done.output
    return json.loads(done.stdout)


def change(dlq: Any, what: str) -> None:
    if what == "replace":
        add(dlq, "later", "20h", "--replace")
    elif what == "add":
        add(dlq)
    else:
        done = dlq("rules", what, "later", *SAID)
        assert done.exit_code == Exit.DONE, done.output


@pytest.mark.parametrize("what", ["add", "replace", "disable", "remove"])
def test_the_last_change_is_taken_back_whatever_it_was_and_the_undo_too(
    orders: Any, dlq: Any, what: str
) -> None:
    if what != "add":
        add(dlq)
    before = orders.rules()
    change(dlq, what)
    after = orders.rules()
    assert before != after
    answer = read(dlq, "undo", "later", *SAID)
    assert orders.rules() == before
    assert (answer["after"] is None) is (what == "add")
    read(dlq, "undo", "later", *SAID)
    assert orders.rules() == after


@pytest.mark.usefixtures("at_a_terminal")
def test_an_undo_says_what_changes_and_asks(orders: Any, dlq: Any) -> None:
    add(dlq)
    add(dlq, "later", "20h", "--replace")
    done = dlq("rules", "undo", "later", "--reason", "a slip", answers="n\n")
    assert done.exit_code == Exit.ATTENTION
    assert re.search(r"Take back rules add of [0-9:]{5} UTC, by user/moto: a batch\.", done.stderr)
    assert "Change rule later of orders back:" in done.stderr
    assert "delay_seconds: 72000 -> 7200" in done.stderr
    assert orders.rules()["later"]["delay_seconds"] == 72_000
    read(dlq, "undo", "later", *SAID)
    twice = dlq("rules", "undo", "later", "--reason", "a slip", answers="n\n")
    assert re.search(r"Take back rules undo of [0-9:]{5} UTC, by user/moto: a slip\.", twice.stderr)


def test_a_rule_that_was_changed_elsewhere_is_left_alone_until_that_is_on_record(
    orders: Any, dlq: Any
) -> None:
    add(dlq)
    orders.rule("later", tenantId="b", action="HOLD")
    done = dlq("rules", "undo", "later", *SAID)
    assert done.exit_code == Exit.ATTENTION
    assert "is not as its last change on record has left it" in done.stderr
    assert orders.rules()["later"]["tenantId"] == "b"


def test_a_rule_that_is_changed_between_the_look_and_the_undo_is_left_alone(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(dlq)
    add(dlq, "later", "20h", "--replace")
    real = rule_table.check

    def check(*arguments: Any, **options: Any) -> None:
        orders.rule("later", tenantId="b", action="HOLD")
        real(*arguments, **options)

    monkeypatch.setattr(rule_table, "check", check)
    done = dlq("rules", "undo", "later", *SAID)
    assert done.exit_code == Exit.ATTENTION
    assert "Rule later has just been changed by another person" in done.stderr
    assert orders.rules()["later"]["tenantId"] == "b"


def test_a_rule_that_would_be_invalid_again_stays_as_it_is(orders: Any, dlq: Any) -> None:
    add(dlq)
    add(dlq, "later", "20h", "--replace")
    orders.deploy("orders", context=["customer"])
    done = dlq("rules", "undo", "later", *SAID)
    assert done.exit_code == Exit.ATTENTION
    assert "would be INVALID in orders" in done.stderr


def test_nothing_is_undone_of_a_rule_without_a_change_on_record(orders: Any, dlq: Any) -> None:
    done = dlq("rules", "undo", "nobody", *SAID)
    assert done.exit_code == Exit.ABSENT
    assert "is on record" in done.stderr
    gone = dlq("rules", "remove", "nobody", *SAID)
    assert gone.exit_code == Exit.ABSENT


# Without --pipeline.


@pytest.fixture
def several(orders: Any) -> Any:
    """An app of three pipelines."""
    orders.deploy("billing", "invoices", context=["tenantId"])
    return orders


@pytest.mark.parametrize("key", ["invoices", "*"])
def test_a_rule_with_a_unique_id_needs_no_pipeline(several: Any, dlq: Any, key: str) -> None:
    add(dlq, "later", "2h", "--pipeline", key)
    steps = (("disable", False), ("undo", None))
    for command, enabled in steps:
        answer = read(dlq, command, "later", *SAID)
        assert (answer["pipeline"], answer["after"].get("enabled")) == (key, enabled)
    assert read(dlq, "remove", "later", *SAID)["pipeline"] == key
    assert several.rules() == {}
    # The record of its changes says where it was.
    assert read(dlq, "undo", "later", *SAID)["pipeline"] == key


@pytest.mark.parametrize("command", ["disable", "undo", "remove"])
def test_of_several_rules_with_an_id_one_has_to_be_named(
    several: Any, dlq: Any, command: str
) -> None:
    add(dlq, "later", "2h", "--pipeline", "orders")
    several.rule("later", "*", tenantId="b", action="HOLD")
    assert dlq("rules", command, "nobody", *SAID).exit_code == Exit.ABSENT
    done = dlq("rules", command, "later", *SAID)
    assert done.exit_code == Exit.USAGE
    assert "Rules of every pipeline and of orders have the id 'later'" in done.stderr
    assert "add -p '*' or -p 'orders'" in done.stderr


def test_a_rule_that_was_removed_is_not_mixed_up_with_one_that_is_there(
    several: Any, dlq: Any
) -> None:
    add(dlq, "later", "2h", "--pipeline", "orders")
    read(dlq, "remove", "later", *SAID)
    add(dlq, "later", "2h", "--pipeline", "billing")
    done = dlq("rules", "undo", "later", *SAID)
    assert done.exit_code == Exit.USAGE
    assert "Rules of billing and of orders have the id 'later', or had it" in done.stderr


def test_switching_off_is_undone_beside_a_rule_of_all_pipelines(orders: Any, dlq: Any) -> None:
    orders.rule("later", "*", tenantId="a", action="HOLD")
    orders.rule("later", tenantId="a", action="HOLD")
    here = ("later", "--pipeline", "orders", *SAID)
    read(dlq, "disable", *here)
    assert read(dlq, "undo", *here)["after"].get("enabled") is None


def test_a_rule_goes_back_to_a_time(orders: Any, dlq: Any) -> None:
    keys = {"pipeline": "orders", "rule_id": "later"}
    columns = {**keys, "tenantId": "a", "action": "DELAYED_REDRIVE", "delay_seconds": 7_200}
    happened = int(time.time()) - 7_200
    at = datetime.fromtimestamp(happened, UTC).isoformat()
    told = {"pk": "orders#later", "sk": f"{at}#1", "at": at, "happened": happened, **keys}
    orders.put("audit", item.stored({**told, "event_id": "1", "new": columns}))
    orders.put("rules", item.stored(columns))
    add(dlq, "later", "20h", "--replace")
    read(dlq, "undo", "later", "--to", "1h", *SAID)
    assert orders.rules()["later"]["delay_seconds"] == 7_200
    same = dlq("rules", "undo", "later", "--to", at, *SAID)
    assert same.exit_code == Exit.ATTENTION
    assert "nothing to do" in same.stderr
    read(dlq, "undo", "later", "--to", "3h", *SAID)
    assert orders.rules() == {}


def test_a_rule_is_shown_with_what_it_matched_and_its_last_changes(orders: Any, dlq: Any) -> None:
    add(dlq)
    add(dlq, "other")
    dlq("rules", "disable", "later", *SAID)
    dlq("rules", "undo", "later", *SAID)
    orders.rule("later", "*", tenantId="b", action="HOLD")
    orders.rule("aside", tenantId="a", action="QUARANTINE")
    orders.failed("orders", "m", AboutLetter({"tenantId": "A"}))
    found = json.loads(dlq("show", "later", "--json").stdout)["rule"]
    [pipeline] = found["pipelines"]
    assert {(rule["pipeline"], rule["status"]) for rule in pipeline["rules"]} == {
        ("orders", "VALID"),
        ("*", "INVALID"),
    }
    [matches] = found["matches"]
    assert (matches["pipeline"], matches["matched"], matches["here"]) == ("orders", 0, 1)
    assert pipeline["rules"][-1]["status_reason"].endswith("aside goes before it, by the alphabet")
    changes = [change["command"] for change in found["changes"]]
    assert changes == ["rules undo", "rules disable", "rules add"]
    page = dlq("show", "rule:later", "--pipeline", "orders").stdout
    assert "Matches 0 of 1 message here now" in page
    assert "Did you mean tenant=A (1)?" in page
    assert "DELAYED_REDRIVE by 2 h 00 min" in page
    assert "rules disable: rule later of orders" in page
    assert "enabled: none -> false" in page
    assert dlq("show", "rule:nobody").exit_code == Exit.ABSENT
