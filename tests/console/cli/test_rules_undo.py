"""`dlq rules undo` and `remove`, and `dlq show` of a rule."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations import item
from deadletter.failure.ledger import AboutLetter
from tests.console.rules import HOLD, hold, meanwhile, typed
from tests.each_row import each_row

SAID = ("--reason", "a slip", "--yes")
AT_TERMINAL = ("--reason", "a slip")
ADD = "add later -f tenant=a --action delayed_redrive=2h --reason 'a batch' --expires never --yes"
REPLACE = ADD.replace("2h", "20h") + " --replace"
UNDO = "undo later --reason 'a slip' --yes"


@pytest.fixture
def orders(cloud: Any) -> Any:
    cloud.deploy("orders", context=["tenantId"], settings={"context": {"tenantId": "body.t"}})
    return cloud


@pytest.fixture
def several(orders: Any) -> Any:
    """An app of three pipelines."""
    orders.deploy("billing", "invoices", context=["tenantId"])
    return orders


def read(dlq: Any, line: str, *more: str) -> Any:
    return json.loads(typed(dlq, line, *more, "--json").stdout)


@pytest.mark.parametrize("line", [ADD, REPLACE, "disable later", "remove later"])
def test_the_last_change_is_taken_back_whatever_it_was_and_the_undo_too(
    orders: Any, dlq: Any, line: str
) -> None:
    if line != ADD:
        typed(dlq, ADD)
    before = orders.rules()
    typed(dlq, line, *(() if "add" in line else SAID))
    after = orders.rules()
    assert before != after
    assert (read(dlq, UNDO)["after"] is None) is (line == ADD)
    assert orders.rules() == before
    typed(dlq, UNDO)
    assert orders.rules() == after


@pytest.mark.usefixtures("at_a_terminal")
def test_an_undo_says_what_changes_and_asks(orders: Any, dlq: Any) -> None:
    for line in (ADD, REPLACE):
        typed(dlq, line)
    asked = ("undo later", *AT_TERMINAL)
    says = ("Change rule later of orders back:", "delay_seconds: 72000 -> 7200")
    done = typed(dlq, *asked, answers="n\n", ends=Exit.ATTENTION, refuses=says)
    assert re.search(r"Take back rules add of [0-9:]{5} UTC, by user/moto: a batch\.", done.stderr)
    assert orders.rules()["later"]["delay_seconds"] == 72_000
    typed(dlq, UNDO)
    twice = typed(dlq, *asked, answers="n\n", ends=Exit.ATTENTION)
    assert re.search(r"Take back rules undo of [0-9:]{5} UTC, by user/moto: a slip\.", twice.stderr)


@pytest.mark.parametrize(
    ("then", "says"),
    [
        # That is not on record yet.
        ("another edit", "is not as its last change on record has left it"),
        ("a race", "Rule later has just been changed by another person"),
        ("other settings", "would be INVALID in orders"),
    ],
)
def test_a_rule_that_is_not_as_it_was_left_stays_as_it_is(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch, then: str, says: str
) -> None:
    for line in (ADD, REPLACE):
        typed(dlq, line)
    theirs = {"later": {**HOLD, "tenantId": "b"}}
    if then == "another edit":
        hold(orders, **theirs)
    elif then == "a race":
        meanwhile(monkeypatch, lambda: hold(orders, **theirs))
    else:
        orders.deploy("orders", context=["customer"])
    typed(dlq, UNDO, ends=Exit.ATTENTION, refuses=says)
    left = "a" if then == "other settings" else "b"
    assert orders.rules()["later"]["tenantId"] == left


def test_nothing_is_undone_of_a_rule_without_a_change_on_record(orders: Any, dlq: Any) -> None:
    assert "is on record" in typed(dlq, "undo nobody", *SAID, ends=Exit.ABSENT).stderr


# Without --pipeline.


@pytest.mark.parametrize("key", ["invoices", "*"])
def test_a_rule_with_a_unique_id_needs_no_pipeline(several: Any, dlq: Any, key: str) -> None:
    typed(dlq, ADD, "--pipeline", key)
    for command, enabled in (("disable", False), ("undo", None)):
        answer = read(dlq, f"{command} later", *SAID)
        assert (answer["pipeline"], answer["after"].get("enabled")) == (key, enabled)
    assert read(dlq, "remove later", *SAID)["pipeline"] == key
    assert several.rules() == {}
    # The record of its changes says where it was.
    assert read(dlq, UNDO)["pipeline"] == key


@each_row("command", ["disable", "undo", "remove"])
def test_of_several_rules_with_an_id_one_has_to_be_named(
    several: Any, dlq: Any, command: str
) -> None:
    hold(several)
    typed(dlq, ADD, "--pipeline", "orders")
    several.rule("later", "*", tenantId="b", action="HOLD")
    typed(dlq, f"{command} nobody", *SAID, ends=Exit.ABSENT)
    both = "Rules of every pipeline and of orders have the id 'later'"
    one = "add -p '*' or -p 'orders'"
    typed(dlq, f"{command} later", *SAID, ends=Exit.USAGE, refuses=(both, one))


def test_a_rule_that_was_removed_is_not_mixed_up_with_one_that_is_there(
    several: Any, dlq: Any
) -> None:
    typed(dlq, ADD, "--pipeline", "orders")
    typed(dlq, "remove later", *SAID)
    typed(dlq, ADD, "--pipeline", "billing")
    refuses = "Rules of billing and of orders have the id 'later', or had it"
    typed(dlq, UNDO, ends=Exit.USAGE, refuses=refuses)


def test_switching_off_is_undone_beside_a_rule_of_all_pipelines(orders: Any, dlq: Any) -> None:
    orders.rule("later", "*", **HOLD)
    orders.rule("later", **HOLD)
    here = ("--pipeline", "orders", *SAID)
    typed(dlq, "disable later", *here)
    assert read(dlq, "undo later", *here)["after"].get("enabled") is None


def test_what_names_a_pipeline_is_about_the_rule_of_all_if_it_has_none(
    several: Any, dlq: Any, at_a_terminal: None
) -> None:
    """A command that is printed can't know whose the rule is; the question says it."""
    typed(dlq, ADD, "--pipeline", "*")
    for command, enabled in (("disable", False), ("undo", None)):
        refuses = "orders has no rule later of its own: this is about all.\n"
        dlq(f"rules {command} later -p orders --reason x", answers="y", ends=0, refuses=refuses)
        assert several.rules()["later"].get("enabled") == enabled


def test_a_rule_goes_back_to_a_time(orders: Any, dlq: Any) -> None:
    keys = {"pipeline": "orders", "rule_id": "later"}
    columns = {**keys, "tenantId": "a", "action": "DELAYED_REDRIVE", "delay_seconds": 7_200}
    happened = int(time.time()) - 7_200
    at = datetime.fromtimestamp(happened, UTC).isoformat()
    told = {"pk": "orders#later", "sk": f"{at}#1", "at": at, "happened": happened, **keys}
    orders.put("audit", item.stored({**told, "event_id": "1", "new": columns}))
    orders.put("rules", item.stored(columns))
    typed(dlq, REPLACE)
    typed(dlq, UNDO, "--to", "1h")
    assert orders.rules()["later"]["delay_seconds"] == 7_200
    assert "nothing to do" in typed(dlq, UNDO, "--to", at, ends=Exit.ATTENTION).stderr
    typed(dlq, UNDO, "--to", "3h")
    assert orders.rules() == {}


def test_a_rule_is_shown_with_what_it_matched_and_its_last_changes(orders: Any, dlq: Any) -> None:
    for line in (ADD, ADD.replace("later", "other")):
        typed(dlq, line)
    typed(dlq, "disable later", *SAID)
    typed(dlq, UNDO)
    orders.rule("later", "*", tenantId="b", action="HOLD")
    orders.rule("aside", tenantId="a", action="QUARANTINE")
    orders.failed("orders", "m", AboutLetter({"tenantId": "A"}))
    found = json.loads(dlq("show later --json").stdout)["rule"]
    [pipeline], [matches] = found["pipelines"], found["matches"]
    verdicts = {(rule["pipeline"], rule["status"]) for rule in pipeline["rules"]}
    assert verdicts == {("orders", "VALID"), ("*", "INVALID")}
    assert (matches["pipeline"], matches["matched"], matches["here"]) == ("orders", 0, 1)
    assert pipeline["rules"][-1]["status_reason"].endswith("aside goes before it, by the alphabet")
    changes = [change["command"] for change in found["changes"]]
    assert changes == ["rules undo", "rules disable", "rules add"]
    says = (
        "Matches 0 of 1 message here now",
        "Did you mean tenant=A (1)?",
        "DELAYED_REDRIVE by 2 h 00 min",
        "rules disable: rule later of orders",
        "enabled: none -> false",
    )
    dlq("show rule:later --pipeline orders", says=says)
    assert dlq("show rule:nobody").exit_code == Exit.ABSENT
