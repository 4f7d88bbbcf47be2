"""`dlq discard` and `dlq restore`: what a person sees, and what is stored."""

from __future__ import annotations

import json
import re
from typing import Any
from unittest.mock import Mock

import pytest

from console.cli.exit import Exit
from deadletter.aws.objects import S3RunObjects
from deadletter.aws.replay_runs import unpacked
from deadletter.circuit.state import State
from deadletter.message.letter import Attribute, Letter
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import key_of
from deadletter.replay.plan import ReplayPlan, plan_from_text
from tests.console.conftest import routed
from tests.each_row import each_row

WHY = ("--reason", "not wanted", "--yes")
FIRST, SECOND = "4f0c1b2a3d4e5f60", "5f0c1b2a3d4e5f60"
SECRET = "4111-x"
SETTINGS = {
    "consumer_library": True,
    "context": {"tenantId": "body.tenantId"},
    "idempotency_key": "body.order",
}


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    return routed(cloud, functions, SETTINGS)


def plans(cloud: Any) -> dict[str, ReplayPlan]:
    """The stored plans, by their source."""
    rows = [row for row in rows_of(cloud) if row["sk"]["S"] == "plan"]
    texts = [plan_from_text(row["plan"]["S"]) for row in rows]
    return {plan.source: plan for plan in texts}


def rows_of(cloud: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = cloud.dynamodb.scan(TableName="messages")["Items"]
    return rows


def spoil(cloud: Any, of: str, **columns: Any) -> None:
    """A row of which some columns are malformed."""
    [row] = [row for row in rows_of(cloud) if row["pk"]["S"].endswith(of)]
    cloud.put("messages", row | columns)


def counted(cloud: Any, run: str) -> frozenset[bytes]:
    """The keys of the messages that a person saw counted."""
    keys = [
        row["keys"]["B"] for row in rows_of(cloud) if f"#run#{run}#" in row["pk"]["S"]
        and "keys" in row
    ]  # fmt: skip
    return frozenset().union(*map(unpacked, keys))


def objects(cloud: Any, run: str) -> S3RunObjects:
    return S3RunObjects(cloud.s3, "messages-bucket", "orders", run)


def discarded(cloud: Any, run: str, origin: str, reason: str = "POISON", **facts: Any) -> None:
    """The copy of a message that a run has thrown away."""
    stamp = Stamp(origin, 2, 1_789_000_000_000, reason=reason, run=run, decision="HOLD", base=2)
    body = json.dumps({"tenantId": "acme", "card": SECRET, "order": f"order-{origin}"})
    letter = Letter(f"copy-{origin}", body, {"a": Attribute("String", SECRET)}, {})
    who = {"by": "arn:aws:iam::123456789012:user/ann", "because": "one wrong line"}
    cloud.discarded(run, letter, stamp, **{"at": 1_790_000_000, **who, **facts})


def test_messages_are_thrown_away_from_wherever_they_lie_and_nothing_else_is(
    orders: Any, dlq: Any
) -> None:
    orders.park("orders", "POISON", origin="parked", body='{"tenantId": "acme"}')
    orders.waiting("orders", "due", 2, due=4e9)
    failed = orders.letter('{"tenantId": "acme"}')
    orders.letter('{"tenantId": "other"}')
    orders.failed("orders", failed, fingerprint="f1")
    done = dlq("discard -f tenant=acme", *WHY, "--json", ends=Exit.DONE)
    answer = json.loads(done.stdout)
    assert (answer["messages"], answer["reason"]) == (2, "not wanted")
    assert [run["state"] for run in answer["runs"]] == ["DONE", "DONE"]
    made = plans(orders)
    assert set(made) == {"dlq", "parking:default"}
    assert counted(orders, made["dlq"].run_id) == {key_of(failed)}
    assert counted(orders, made["parking:default"].run_id) == {key_of("parked")}
    for plan in made.values():
        assert (plan.destination, plan.why, plan.keep_export) == ("discard", "not wanted", True)
        assert (plan.rate, plan.ramp, plan.canary) == (100.0, (1.0,), ())


@pytest.mark.parametrize(
    ("choice", "sources"),
    [
        ("--in waiting --all", {"lane:due", "lane:rule:stop"}),
        ("--in rule:stop", {"lane:rule:stop"}),
        ("--in time --all", {"lane:due"}),
        ("--in dlq -f cause=f1", {"dlq"}),
        ("-f reason=poison", {"parking:default"}),
        ("its-first", {"parking:default"}),
        ("due-0", {"lane:due"}),
    ],
)
def test_a_place_a_term_or_an_id_says_where_to_look(
    orders: Any, dlq: Any, choice: str, sources: set[str]
) -> None:
    orders.rescued("orders", "POISON", 1_000, origin="its-first")
    for lane in ("due", "rule:stop"):
        orders.waiting("orders", lane, 1, due=4e9)
    orders.failed("orders", orders.letter("{}"), fingerprint="f1aaaaaaaaaa")
    dlq(f"discard {choice}", *WHY, ends=Exit.DONE)
    counts = {source: plan.counted for source, plan in plans(orders).items()}
    assert counts == dict.fromkeys(sources, 1)


def test_a_person_sees_what_would_be_thrown_away_and_no_content_of_it(
    orders: Any, functions: Any, dlq: Any, at_a_terminal: None
) -> None:
    for number in range(6):
        sent = 1_789_000_000_000 + number
        body = json.dumps({"card": SECRET})
        orders.park("orders", "POISON", body, origin=f"poison-{number}", first_sent=sent)
        orders.failed("orders", f"poison-{number}", error_type="KeyError", fingerprint="f1")
    orders.park("orders", "EXPIRED", origin="expired", first_sent=1_790_000_000_000)
    plan = (
        "Discard 7 messages of orders: 7 in parking queue default.",
        "Parked for 6 POISON, 1 EXPIRED.",
        "Last failures: 6 KeyError (f1), 1 not on record.",
        "The oldest was first sent at 2026-09-10 00:26 UTC: poison-0",
        "They are expired, poison-0, poison-1, poison-2, poison-3 and 2 more.",
        "They can be restored for 90 days.",
    )
    line = "discard --in parked --all --reason x"
    done = dlq(line, answers="n\n", ends=Exit.ATTENTION, refuses=plan)
    assert SECRET not in done.output
    assert not functions.machine.started
    planned = dlq("discard --in parked --all --dry-run --json")
    assert json.loads(planned.stdout)["would"][0].startswith("Discard 7 messages")
    assert not plans(orders)


def test_what_is_thrown_away_says_how_it_comes_back(orders: Any, dlq: Any) -> None:
    orders.park("orders", "POISON", origin="a")
    orders.circuit("orders", "orders", State.OPEN)
    done = dlq("discard --in parked --all", *WHY)
    run = plans(orders)["parking:default"].run_id
    assert f"run {run} DONE: 1 = 1 discarded\n  dlq restore {run}\n" in done.stdout
    assert "Circuit" not in done.output


def test_to_keep_no_copy_needs_the_name_of_the_app(orders: Any, dlq: Any) -> None:
    orders.park("orders", "POISON", origin="a")
    discard = "discard --in parked --all --reason x --no-copy"
    for given in ("--yes", "--yes --confirm billing"):
        dlq(f"{discard} {given}", ends=Exit.USAGE)
        assert plans(orders) == {}
    done = dlq(f"{discard} --confirm deadletter", ends=Exit.DONE)
    plan = plans(orders)["parking:default"]
    assert plan.keep_export is False
    again = dlq(f"retry --in run:{plan.run_id} --again", *WHY, ends=Exit.USAGE)
    assert "dlq restore" not in done.output + again.output


@each_row(
    ("choice", "status", "text"),
    [
        ("", Exit.USAGE, "Say which messages: an ID, -f KEY=VALUE"),
        ("--in parked", Exit.USAGE, "Say which messages"),
        ("--all a", Exit.USAGE, "--all and a filter exclude each other"),
        ("-f reason=EXPIRED", Exit.ABSENT, "No message of orders matches. Nothing was done. "),
        ("--in main --all", Exit.USAGE, "are with the consumer"),
        ("--in run:4f0c", Exit.USAGE, "dlq run abort 4f0c"),
        ("--in parked:legal", Exit.ABSENT, "orders has no parked:legal: the names are default."),
        ("--in dlq -f text~card", Exit.USAGE, "no change is chosen by text"),
    ],
)
def test_what_can_not_be_thrown_away_is_said(
    orders: Any, functions: Any, dlq: Any, choice: str, status: Exit, text: str
) -> None:
    orders.park("orders", "POISON")
    dlq(f"discard {choice}", *WHY, ends=status, refuses=text)
    assert not functions.machine.started


def test_ctrl_c_stops_the_watching_and_not_the_run(
    orders: Any, functions: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.park("orders", "POISON")
    monkeypatch.setattr("console.cli.output.pause", Mock(side_effect=KeyboardInterrupt))
    done = dlq("discard --in parked --all", *WHY, ends=Exit.STOPPED)
    run = plans(orders)["parking:default"].run_id
    assert re.search(r"^\d\d:\d\d:\d\d UTC  ", done.stderr, re.MULTILINE)
    assert "Stopped watching: 1 run still at work, by itself." in done.stderr
    assert f"\n  dlq show {run} --watch\n" in done.stderr
    assert functions.machine.started


# Restoring what was discarded.


def test_a_restore_starts_a_run_for_the_messages_of_a_run(
    orders: Any, functions: Any, dlq: Any
) -> None:
    for number in range(60):
        discarded(orders, FIRST, f"a-{number}")
    discarded(orders, SECOND, "b", "EXPIRED")
    # Other objects of a run are no messages.
    objects(orders, FIRST).put("report.json", b"{}")
    done = dlq(f"restore {FIRST[:6]}", *WHY, "--json", ends=Exit.DONE)
    answer = json.loads(done.stdout)
    assert answer["messages"] == 60
    (run,) = answer["runs"]
    plan = plans(orders)[f"discarded:{FIRST}"]
    assert (plan.run_id, plan.destination, plan.counted) == (run["run"], "restore", 60)
    assert (plan.why, plan.restored_run) == ("not wanted", FIRST)
    assert counted(orders, run["run"]) == {key_of(f"a-{number}") for number in range(60)}
    (execution,) = functions.machine.started
    assert json.loads(execution["input"]) == {"run": run["run"]}
    # The command itself moves nothing.
    assert len(objects(orders, FIRST).listed("discarded/")) == 60


@pytest.mark.parametrize(
    ("ids", "origins"),
    [("copy-c", "c"), ("a c", "ac"), ("order-b", "b"), ("order-a order-c", "ac")],
)
def test_messages_are_restored_by_any_of_their_ids(
    orders: Any, dlq: Any, ids: str, origins: str
) -> None:
    discarded(orders, FIRST, "a")
    discarded(orders, FIRST, "b", "EXPIRED")
    discarded(orders, SECOND, "c")
    done = dlq(f"restore {ids}", *WHY, ends=Exit.DONE)
    (plan,) = plans(orders).values()
    assert (plan.counted, plan.restored_run) == (len(origins), None)
    assert counted(orders, plan.run_id) == set(map(key_of, origins))
    assert f"DONE: {len(origins)} = {len(origins)} restored" in done.stdout


def test_a_restore_shows_who_threw_the_messages_away_and_no_content(
    orders: Any, functions: Any, dlq: Any, at_a_terminal: None
) -> None:
    discarded(orders, FIRST, "a")
    discarded(orders, FIRST, "b", "RETRIES_EXHAUSTED")
    discarded(orders, SECOND, "c", by="user/bob", because="a test", at=1_790_100_000)
    objects(orders, SECOND).put("discarded/torn.json", b"{")
    discarded(orders, SECOND, "d")
    orders.failed("orders", "d")
    spoil(orders, "#ledger#d", recovered_at={"S": "x"})
    plan = (
        "Restore 3 discarded messages of orders",
        "Parked for 2 POISON, 1 RETRIES_EXHAUSTED.",
        "They are a, b, c.",
        "Not found: e.",
        "1 message not included: a malformed failure record.",
        f"Run {FIRST} discarded 2 of them at 2026-09-21 14:13 UTC, for arn:aws:iam::123456789012:"
        "user/ann: one wrong line",
        f"Run {SECOND} discarded 1 of them at 2026-09-22 18:00 UTC, for user/bob: a test",
        f"these copies can't be read, and stay: {SECOND}/discarded/torn.json",
        "Nothing was done.",
    )
    done = dlq("restore a b c d e --reason x", answers="n\n", ends=Exit.ATTENTION, refuses=plan)
    assert SECRET not in done.output
    assert not functions.machine.started


def test_nothing_to_restore_is_said(orders: Any, functions: Any, dlq: Any) -> None:
    discarded(orders, FIRST, "a")
    discarded(orders, f"{FIRST[:8]}00000000", "b")
    for id_, status, text in (
        ("unknown", Exit.ABSENT, "No discarded message of orders matches whose copy is kept"),
        (SECOND, Exit.ABSENT, "none with --no-copy"),
        (FIRST[:8], Exit.USAGE, "Several runs begin with"),
    ):
        dlq("restore", id_, *WHY, ends=status, refuses=text)
    assert not functions.machine.started
