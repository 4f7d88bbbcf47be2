"""`dlq waiting`: what waits outside SQS, and letters that are called back."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from console.cli.exit import Exit
from console.operations import aws, waiting
from console.operations.session import Session
from console.operations.waiting import Recall, RecallRequest, way_out
from deadletter.redrive.recall import is_recallable

LATER = 4_000_000_000


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    cloud.deploy("orders", context=["tenantId"])
    for lane, letters in (("rule:stop", 3), ("delay:later", 2), ("due", 1), ("run:4f0c", 1)):
        cloud.waiting("orders", lane, letters, due=LATER)
    return cloud


def due_of(orders: Any) -> dict[str, int]:
    """How many letters of each lane are due now."""
    now = time.time()
    items = orders.dynamodb.scan(TableName="letters")["Items"]
    waiting = [item for item in items if "copy" in item and int(item["due"]["N"]) <= now]
    lanes = [item["lane"]["S"].split("|")[1] for item in waiting]
    return {lane: lanes.count(lane) for lane in lanes}


RECALL = ("waiting", "recall", "orders", "--reason", "a slip", "--yes")


@pytest.mark.parametrize(
    ("chosen", "due"),
    [
        (("--rule", "later"), {"delay:later": 2}),
        (("--lane", "rule:stop"), {"rule:stop": 3}),
        (("--lane", "due"), {"due": 1}),
        (("--lane", "due", "--rule", "stop"), {}),
        (("--id", "rule:stop-1"), {"rule:stop": 1}),
        (("--pattern", '{"body": {"kind": ["none"]}}'), {}),
    ],
    ids=["rule", "lane", "due", "both", "id", "pattern"],
)
def test_letters_are_due_once_they_are_called_back_and_no_others(
    orders: Any, dlq: Any, functions: Any, chosen: tuple[str, ...], due: dict[str, int]
) -> None:
    functions.configure("orders")
    done = dlq(*RECALL, *chosen, "--json")
    assert due_of(orders) == due
    if not due:
        assert done.exit_code == Exit.ABSENT
        return
    answer = json.loads(done.stdout)
    assert (answer["letters"], answer["gone"], answer["lanes"]) == (sum(due.values()), 0, due)


def test_a_recall_says_which_rules_hold_its_letters_still(
    orders: Any, dlq: Any, at_a_terminal: Any
) -> None:
    orders.rule("stop", tenantId="a", action="HOLD")
    asked = dlq(*RECALL[:-1], "--rule", "stop", answers="n\n")
    assert asked.exit_code == Exit.ATTENTION
    assert "Call back 3 letters of orders: 3 in rule:stop." in asked.stderr
    assert "Rule stop is in force: what it matches still is held again." in asked.stderr
    assert due_of(orders) == {}


@pytest.mark.parametrize(
    ("lane", "instead"),
    [
        ("run:4f0c", "dlq run abort 4f0c"),
        ("parked", "dlq parked release --pipeline orders --all"),
        ("dedicated:slow", "dlq redrive now --pipeline orders --source slow"),
    ],
)
def test_lanes_that_a_person_empties_otherwise_are_refused_with_the_way(
    orders: Any, dlq: Any, lane: str, instead: str
) -> None:
    done = dlq(*RECALL, "--lane", lane)
    assert done.exit_code == Exit.USAGE
    assert instead in " ".join(done.stderr.split())
    assert due_of(orders) == {}


def test_a_recall_has_to_say_which_letters(orders: Any, dlq: Any) -> None:
    done = dlq(*RECALL)
    assert done.exit_code == Exit.USAGE
    assert "--lane, --rule, --id or another filter" in done.stderr
    gone = dlq(*RECALL, "--rule", "nobody")
    assert gone.exit_code == Exit.ABSENT
    assert "dlq list --in waiting --pipeline orders" in gone.stderr


def test_a_letter_that_has_left_its_lane_is_let_alone(orders: Any) -> None:
    session = Session(lambda: aws.connect(None, None), "deadletter")
    recall = Recall(session, RecallRequest("orders", lane="rule:stop"))
    items = orders.dynamodb.scan(TableName="letters")["Items"]
    [item] = [each for each in items if each.get("copy") == {"S": "rule:stop-1"}]
    orders.dynamodb.delete_item(
        TableName="letters", Key={name: item[name] for name in ("pk", "sk")}
    )
    answer = recall.do("a slip")
    assert (answer.letters, answer.gone) == (2, 1)
    assert due_of(orders) == {"rule:stop": 2}


def test_the_function_and_not_the_caller_writes_the_letters(
    orders: Any, dlq: Any, functions: Any
) -> None:
    """Who may write a letter's item can read it: people ask the function."""
    done = dlq(*RECALL, "--rule", "later", "--json")
    assert done.exit_code == Exit.DONE, done.output
    [(function, event)] = functions.invoked
    assert (function, list(event)) == ("orders-redrive", ["recall"])
    assert sorted(lane for _, lane in event["recall"]) == ["delay:later"] * 2


def test_many_letters_are_called_back_in_several_requests_with_progress(
    orders: Any, functions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_PAGE", 2)
    session = Session(lambda: aws.connect(None, None), "deadletter")
    said: list[str] = []
    answer = Recall(session, RecallRequest("orders", lane="rule:stop")).do("a slip", said.append)
    assert (answer.letters, answer.gone, answer.lanes) == (3, 0, {"rule:stop": 3})
    assert said == ["2 of 3 letters called back", "3 of 3 letters called back"]
    assert [len(event["recall"]) for _, event in functions.invoked] == [2, 1]


def test_a_recall_says_what_to_do_if_the_function_is_gone_fails_or_does_not_know_it(
    orders: Any, dlq: Any, functions: Any
) -> None:
    gone = {"Error": {"Code": "ResourceNotFoundException", "Message": "Function not found: x"}}
    functions.raises = ClientError(gone, "Invoke")  # type: ignore[arg-type]
    done = dlq(*RECALL, "--lane", "due")
    assert done.exit_code == Exit.ABSENT
    assert "was it deleted after the last deployment?" in " ".join(done.stderr.split())

    functions.raises, functions.answers_requests = None, False
    functions.report, functions.function_error = {"errorType": "KeyError"}, "Unhandled"
    done = dlq(*RECALL, "--lane", "due")
    assert done.exit_code == Exit.ATTENTION
    assert "failed (KeyError): letters may be due already" in " ".join(done.stderr.split())

    functions.report, functions.function_error = {"stopped": "nothing to do"}, None
    done = dlq(*RECALL, "--lane", "due")
    assert done.exit_code == Exit.ATTENTION
    assert "knows no recall: use the dlq of the version that is deployed" in " ".join(
        done.stderr.split()
    )

    functions.report = {"recalled": 0, "trouble": "dynamodb: ThrottlingException"}
    done = dlq(*RECALL, "--lane", "due")
    assert done.exit_code == Exit.UNREACHABLE
    assert "Not all letters could be made due: dynamodb: Throttl" in " ".join(done.stderr.split())
    assert due_of(orders) == {}


def test_the_function_opens_the_lanes_that_dlq_opens() -> None:
    lanes = ("due", "delay:r", "rule:r", "circuit:c", "run:x", "parked", "dedicated:d")
    for lane in lanes:
        assert is_recallable(lane) == (way_out(lane, "orders") is None), lane
