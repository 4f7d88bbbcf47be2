"""`dlq forget`: what is shown first, what is stored and started, and what is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.contract import Reason
from deadletter.failure.ledger import AboutLetter
from deadletter.replay.plan import DISCARD, ReplayPlan
from deadletter.replay.run import ReplayRun, RunState
from tests.console.cli.test_discard import plans as every_plan
from tests.console.conftest import BUCKET, routed

WHY = ("--reason", "request 4711")
SURE = ("--confirm", "deadletter")
ORIGIN = "6f6e1bd2-6f2b-4a53-8a10-0f4f9c1f5b7e"
SETTINGS: Mapping[str, Any] = {"context": {"tenantId": "body.tenant", "card": "body.card"}}


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    """Pipeline orders, whose letters have a tenant and a card in their context."""
    return routed(cloud, functions, SETTINGS, context=list(SETTINGS["context"]))


def plans(cloud: Any) -> dict[str, ReplayPlan]:
    """The stored plans of runs that throw letters away, by their source."""
    return {source: plan for source, plan in every_plan(cloud).items() if plan.forgets}


def said(dlq: Any, *words: str) -> str:
    """The plan, as --dry-run says it."""
    done = dlq("forget", *words, "--dry-run", "--json", ends=Exit.DONE)
    return "\n".join(json.loads(done.stdout)["would"])


def audited(cloud: Any) -> list[dict[str, Any]]:
    rows = cloud.dynamodb.scan(TableName="audit")["Items"]
    return [row for row in rows if not row["sk"]["S"].endswith("#end")]


def test_the_plan_says_what_is_kept_and_where_and_changes_nothing(orders: Any, dlq: Any) -> None:
    orders.failed("orders", ORIGIN, AboutLetter(context={"card": "4111-x"}))
    orders.rescued("orders", "POISON", 1_763_000_000, origin=ORIGIN)
    text = said(dlq, ORIGIN)
    parts = (
        f"Forget message {ORIGIN} of orders: 1 run, through lane:parked.",
        "\nwaiting parked, 1 message: ",
        "\nrecord: ",
        "\nNot reached: The main queue",
    )
    assert [part for part in parts if part not in text] == []
    # Point-in-time copies are off in this account.
    assert "Point-in-time" not in text
    assert (plans(orders), audited(orders)) == ({}, [])
    assert "4111-x" not in text


def test_it_says_until_when_point_in_time_copies_hold_what_is_erased(orders: Any, dlq: Any) -> None:
    orders.failed("orders", ORIGIN)
    orders.dynamodb.update_continuous_backups(TableName="messages")
    enabled = {"Status": "Enabled"}
    orders.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration=enabled)
    assert "keeps versions" in said(dlq, ORIGIN)
    answer = json.loads(dlq(f"forget {ORIGIN}", *WHY, *SURE, "--json").stdout)
    at, until = (datetime.fromisoformat(answer[name]) for name in ("at", "copies_until"))
    assert until - at == timedelta(days=35)


def test_a_run_throws_the_letter_away_keeps_no_copy_and_forgets(
    orders: Any, functions: Any, dlq: Any
) -> None:
    copy = orders.rescued("orders", "POISON", 1_763_000_000, origin=ORIGIN)
    orders.failed("orders", ORIGIN)
    done = dlq("forget", copy, *WHY, *SURE, "--json", ends=Exit.DONE)
    [(source, plan)] = plans(orders).items()
    assert source == "lane:parked"
    assert (plan.destination, plan.keep_export, plan.forgets) == (DISCARD, False, True)
    assert set(plan.selection.ids) == {copy, ORIGIN}
    # Whatever automation thinks of it.
    assert set(plan.selection.include) == set(Reason)
    # What turns up until then is taken too.
    assert plan.counted is None
    [run] = json.loads(done.stdout)["runs"]
    [started] = functions.machine.started
    assert json.loads(started["input"])["run"] == run["run"] == plan.run_id
    [row] = audited(orders)
    target = f"message {copy} by run {plan.run_id}"
    assert (row["command"]["S"], row["target"]["S"]) == ("forget", target)
    assert row["why"]["S"] == "request 4711"


@pytest.mark.parametrize(
    ("parked", "sources"), [(False, {"dlq", "slow"}), (True, {"parking:default", "parking:broken"})]
)
def test_a_letter_in_a_queue_is_looked_for_where_it_may_be(
    cloud: Any, functions: Any, dlq: Any, parked: bool, sources: set[str]
) -> None:
    cloud.deploy("orders", dedicated=["slow"], parking=["default", "broken"])
    functions.configure("orders")
    cloud.failed("orders", ORIGIN)
    if parked:
        cloud.ledger().note_parked(ORIGIN, time.time(), "POISON", "")
    dlq(f"forget {ORIGIN}", *WHY, *SURE, ends=Exit.DONE)
    assert set(plans(cloud)) == sources


def test_letters_with_a_key_are_taken_from_every_queue_and_the_lanes_that_have_one(
    orders: Any, dlq: Any
) -> None:
    orders.waiting("orders", "due", 1, due=4e9)
    orders.letter('{"card": "4111-x"}', tenantId="a")
    done = dlq("forget -f field.card=4111-x", *WHY, *SURE, "--json", ends=Exit.DONE)
    assert set(plans(orders)) == {"dlq", "parking:default"}
    assert plans(orders)["dlq"].selection.pattern == {"context": {"card": ["4111-x"]}}
    answer = json.loads(done.stdout)
    assert (answer["by"], answer["id"]) == ("key", None)
    # The value stands in the run's plan, and nowhere else.
    assert "4111-x" not in done.output
    rows = audited(orders)
    targets = {row["target"]["S"].rpartition(" ")[0] for row in rows}
    assert targets == {"messages with a value by run"}
    assert "4111-x" not in json.dumps(rows, default=str)
    assert orders.visible("orders-dlq") == 1


def test_a_run_that_a_person_has_to_approve_is_told_before(
    cloud: Any, functions: Any, dlq: Any
) -> None:
    cloud.deploy("orders", settings={"replay": {"approve_above": 1_000}})
    cloud.failed("orders", ORIGIN)
    text = said(dlq, ORIGIN)
    assert "more than 1,000 messages waits until a person approves it" in text


def test_what_nobody_looks_at_for_a_key_is_said(orders: Any, dlq: Any) -> None:
    """The runs read what runs have kept; no person may, and no table is searched by content."""
    text = said(dlq, "-f", "field.card=4111-x")
    assert "Note: Not looked into here: messages as runs took them" in text
    assert "With a key: records of messages that were processed" in text
    orders.failed("orders", ORIGIN)
    assert "With a key" not in said(dlq, ORIGIN)


def test_of_a_fifo_pipeline_what_is_kept_is_forgotten_by_a_key_and_no_letter_is_taken(
    orders: Any, dlq: Any
) -> None:
    orders.redeploy(fifo=True)
    done = dlq("forget -f field.card=4111-x", *WHY, *SURE, "--json", ends=Exit.DONE)
    assert [*plans(orders)] == ["lane:due"]
    assert plans(orders)["lane:due"].selection.groups == ()
    notes = json.loads(done.stdout)["notes"]
    assert [note for note in notes if "no run takes a message of a FIFO group" in note]
    done = dlq("forget -f field.card=4111-x --all", *WHY, *SURE, ends=Exit.ATTENTION)
    assert "whole message groups" in done.stderr


def test_a_key_that_the_pipeline_does_not_have_is_refused(orders: Any, dlq: Any) -> None:
    for words, text in (
        ("-f field.orderId=7", "it has tenantId, card"),
        ("-f field.card=", "has an empty value"),
        ("-f tenant=a", "by an ID or -f field.NAME=VALUE"),
        ("", "Name one ID"),
        ("a b", "Name one ID"),
    ):
        dlq(f"forget {words}", *WHY, *SURE, ends=Exit.USAGE, refuses=text)
    assert plans(orders) == {}


def test_an_unknown_id_is_only_looked_for_everywhere_if_a_person_says_so(
    orders: Any, dlq: Any
) -> None:
    orders.waiting("orders", "due", 1, due=4e9)
    done = dlq(f"forget {ORIGIN}", *WHY, *SURE, ends=Exit.ABSENT)
    assert "With --all runs go through every place" in done.stderr
    dlq(f"forget {ORIGIN} --all", *WHY, *SURE, ends=Exit.DONE)
    assert set(plans(orders)) == {"dlq", "parking:default", "lane:due"}


def test_a_letter_in_the_custody_of_a_run_stays_until_the_run_has_ended(
    orders: Any, dlq: Any
) -> None:
    orders.replay(ReplayRun(id="4f0c1b2a3d4e5f60", pipeline="orders", state=RunState.HELD))
    orders.waiting("orders", "run:4f0c1b2a3d4e5f60", 1)
    done = dlq("forget run:4f0c1b2a3d4e5f60-0", *WHY, *SURE, ends=Exit.ATTENTION)
    assert "dlq run abort 4f0c1b2a3d4e5f60" in done.stderr
    assert plans(orders).keys() == set()


def test_without_the_apps_name_nothing_is_forgotten(orders: Any, dlq: Any) -> None:
    orders.failed("orders", ORIGIN)
    for words in (WHY, (*WHY, "--confirm", "another")):
        dlq(f"forget {ORIGIN}", *words, ends=Exit.USAGE)
    assert "needs a reason" in dlq(f"forget {ORIGIN}", *SURE).stderr
    assert (plans(orders), audited(orders)) == ({}, [])


def test_a_pipeline_that_observes_and_fifo_letters_are_refused_before_a_run_is(
    cloud: Any, functions: Any, dlq: Any
) -> None:
    cloud.deploy("orders", mode="observe")
    cloud.failed("orders", ORIGIN)
    dlq(f"forget {ORIGIN}", *WHY, *SURE, ends=Exit.ATTENTION, refuses="observes")
    cloud.redeploy(mode="enforce", fifo=True)
    dlq(f"forget {ORIGIN}", *WHY, *SURE, ends=Exit.ATTENTION, refuses="whole message groups")
    # Of one that is gone, what is kept can be forgotten.
    cloud.recovered("orders", ORIGIN)
    dlq(f"forget {ORIGIN}", *WHY, *SURE, ends=Exit.DONE)
    assert len(functions.machine.started) == 1
    assert plans(cloud)["lane:due"].selection.groups == ()
