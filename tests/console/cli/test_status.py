"""`dlq status`: what it reads, what it calls attention to, and that it fits a screen."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest

from console.cli import status as cli
from console.cli.exit import Exit
from console.cli.output import TextTable
from console.operations import aws, status
from console.operations.circuits import circuit_row
from console.operations.deadline import Deadline
from console.operations.errors import Cause, Problem
from console.operations.queue import QueueDepth
from console.operations.session import Session
from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.aws.circuits import fields_of
from deadletter.aws.collisions import DynamoDBCollisions
from deadletter.aws.waiting_room import DynamoDBLanes
from deadletter.circuit.state import Circuit, CircuitPolicy, State
from deadletter.circuit.transitions import Reported
from deadletter.contract import DAY, HOUR, NAMESPACE
from deadletter.pace.auto_rate import AutoRate, Direction
from deadletter.pace.kinds import kind_of
from deadletter.pace.pace import CallPace, Wish, after_throttling, take
from deadletter.redrive.waiting_room import LaneCount
from deadletter.signals.figures import Count, Figure
from deadletter.signals.troubles import Seen, TroubleKind
from deadletter.watch.row import DrainRow, LaneRow, QueueRow
from tests.console.conftest import refusing
from tests.console.terminal import Terminal
from tests.each_row import each_row

RELEASE = 'dlq circuit release --pipeline orders --reason "it answers"'
A_TIME = r"(\d\d \w{3} )?\d\d:\d\d UTC"
"""A moment; of another day with its date, which is so near midnight."""


@pytest.fixture
def orders(cloud: Any) -> Any:
    """Pipeline orders is deployed."""
    cloud.deploy("orders")
    return cloud


def answer(dlq: Any, *arguments: str) -> Any:
    done = dlq("status --json", *arguments, ends=Exit.DONE)
    return json.loads(done.stdout)


def only_pipeline(dlq: Any) -> Any:
    (only,) = answer(dlq)["pipelines"]
    return only


def test_a_quiet_app_needs_no_attention(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", "invoices")
    done = dlq(
        "status --check", ends=Exit.DONE, says="deadletter in account 123456789012, eu-west-1"
    )
    assert done.stdout.startswith("Nothing needs a person.\n")
    assert answer(dlq)["needs_person"] is False
    outlook = answer(dlq)["pipelines"][0]["outlook"]
    assert (outlook["dlq_empty_because"], outlook["fewer_a_second"]) == ("it is empty now", None)
    assert "DLQ empty" not in dlq("status orders").stdout


def test_depths_distinguish_visible_in_flight_and_delayed(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", dedicated=["tenant-a"])
    for queue in (*["orders-dlq"] * 3, "orders-dlq-tenant-a"):
        cloud.letter("x", queue)
    cloud.sqs.receive_message(QueueUrl=cloud.urls["orders-dlq"], VisibilityTimeout=60)
    cloud.sqs.send_message(QueueUrl=cloud.urls["orders-main"], MessageBody="x", DelaySeconds=60)
    pipeline = only_pipeline(dlq)
    assert pipeline["dlq"] == {"visible": 2, "in_flight": 1, "delayed": 0}
    assert pipeline["main"] == {"visible": 0, "in_flight": 0, "delayed": 1}
    assert pipeline["dedicated"]["tenant-a"]["visible"] == 1


def test_lanes_beyond_the_first_are_only_numbered(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "MOST_LANES", 2)
    for number in range(5):
        orders.waiting("orders", f"circuit:{number}", 1)
    orders.waiting("orders", "due", 2)
    pipeline = only_pipeline(dlq)
    assert (len(pipeline["waiting"]), pipeline["places_not_counted"]) == (2, 4)
    assert pipeline["outlook"]["messages"] == 2
    assert "and 4 more things, not counted" in dlq("status").stdout


def _age(cloud: Any, queue: str, seconds: float, minutes_ago: float) -> None:
    at = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    cloud.figure("ApproximateAgeOfOldestMessage", seconds, at, QueueName=queue)


def test_the_age_of_the_oldest_letter_is_the_latest_figure_of_cloudwatch(
    orders: Any, dlq: Any
) -> None:
    orders.letter("x")
    _age(orders, "orders-dlq", 7_500, minutes_ago=40)
    assert only_pipeline(dlq)["oldest_message_seconds"] is None
    assert "Oldest message in the DLQ: unknown" in dlq("status").stdout
    _age(orders, "orders-dlq", 9_999, minutes_ago=8)
    _age(orders, "orders-dlq", 7_500, minutes_ago=3)
    _age(orders, "another-dlq", 1, minutes_ago=1)
    _age(orders, "orders-main", 120, minutes_ago=3)
    pipeline = only_pipeline(dlq)
    assert (pipeline["oldest_message_seconds"], pipeline["main_oldest_seconds"]) == (7_500, 120)
    shown = dlq("status").stdout
    assert "Oldest message in the DLQ: 2 h 05 min" in shown
    assert re.search(r"^main queue .* 2 min", shown, re.MULTILINE)
    # Of an empty queue the figure is late.
    orders.deploy("invoices")
    _age(orders, "invoices-dlq", 7_500, minutes_ago=3)
    assert "Oldest message in the DLQ: none" in dlq("status invoices").stdout


def test_the_last_run_that_had_work_is_told_with_its_counters(orders: Any, dlq: Any) -> None:
    assert only_pipeline(dlq)["last_run"] is None
    at = time.time() - 42.5
    orders.ran("orders", at, {Figure.REDRIVEN: 12, Count.LEFT_IN_PLACE: 3})
    run = only_pipeline(dlq)["last_run"]
    assert (run["moved"], run["left"], run["failed"]) == (12, 3, 0)
    says = ", 12 moved, 0 failed; ended because the source is empty"
    dlq("status --check", ends=Exit.DONE, says=says)
    orders.ran("orders", at, {Figure.REDRIVEN: 12, Figure.REDRIVE_FAILURE: 2})
    (item,) = answer(dlq)["attention"]
    assert item == {
        "pipeline": "orders", "kind": "unmoved", "page": None, "alarm": None, "needs_person": True,
        "says": "the last busy run could not move 2 messages",
        "type": "dlq retry --auto -p orders --dry-run",
    }  # fmt: skip


def _paced(cloud: Any, pace: CallPace, **more: Any) -> None:
    """The row of the pipeline's circuit, as the consumers' processes store it."""
    cloud.circuit("orders", "orders", "CLOSED", pace=fields_of(pace), **more)


def test_a_dependency_that_is_neither_well_nor_dead_is_paced(orders: Any, dlq: Any) -> None:
    now = datetime.now(UTC).timestamp()
    pace = after_throttling(10.0, 4.0, None, now - 720)
    pace = take(pace, Wish(places=1_390), now).pace
    kinds = {kind_of("c_customer", name): {"next_try": int(now), "good": 0} for name in "abc"}
    _paced(orders, pace, sick={"turn": 1, "kinds": kinds})
    assert only_pipeline(dlq)["circuit"]["slowed"] == {"context.customer": 3}
    says = (
        "paced: 4.4 calls a second, about 1,3", "messages wait, since 12 min, because it throttles",
        "slowed, since they fail while others succeed: 3 values of context.customer",
    )  # fmt: skip
    for line in ("status orders", "show circuit:orders"):
        dlq(line, says=says)


@each_row("field", ["ptat", "limit", "since"])
def test_a_pace_of_an_enemy_is_shown_within_reason(orders: Any, dlq: Any, field: str) -> None:
    now = datetime.now(UTC).timestamp()
    pace = replace(after_throttling(10.0, 4.0, None, now), **{field: 1e30})
    _paced(orders, pace)
    dlq("status orders", ends=0)
    answer = only_pipeline(dlq)["circuit"]["paced"]
    assert answer is None or (answer["limit"] <= 1e6 and answer["waiting"] < 1e6)


@each_row(
    ("state", "minutes", "kind", "says"),
    [
        ("OPEN", 30, "circuit-waits", "until circuit orders closes; its next canary is due at "),
        ("OPEN", -1, "circuit-waits", "until circuit orders closes; its next canary is due now"),
        ("OPEN", None, "circuit-waits", "no message goes back until circuit orders closes"),
        ("HALF_OPEN", None, "circuit-tries", "messages are tried one at a time"),
        ("ajar", None, "circuit-malformed", "the record of circuit orders is malformed"),
    ],
)
def test_a_circuit_that_is_not_closed_needs_attention(
    orders: Any, dlq: Any, state: str, minutes: float | None, kind: str, says: str
) -> None:
    until = {} if minutes is None else {"open_until": int(time.time() + 60 * minutes)}
    orders.circuit("orders", "orders", state, **until)
    status_answer = answer(dlq)
    (item,) = (each for each in status_answer["attention"] if each["page"] == "CircuitTrouble")
    assert item["kind"] == kind
    assert says in item["says"]
    shows = "dlq show circuit:orders --pipeline orders"
    assert item["type"] == (RELEASE if state == "ajar" else shows)
    rows = [each["type"] for each in status_answer["attention"] if each["kind"] == "bad-circuit"]
    assert len(rows) == (state == "ajar")
    assert set(rows) <= {RELEASE}
    known = status_answer["pipelines"][0]["circuit"]["state"]
    assert known == (state if state != "ajar" else "UNREADABLE")


def test_alarms_come_first(orders: Any, dlq: Any) -> None:
    orders.park("orders", "POISON")
    orders.circuit("orders", "orders", "OPEN")
    orders.alarm("deadletter-orders-dlq-age")
    orders.alarm("deadletter-orders-parked", state="OK")
    status_answer = answer(dlq)
    kinds = [item["kind"] for item in status_answer["attention"]]
    assert kinds == [None, "circuit-waits", "unattended"]
    assert "deadletter-orders-dlq-age is in ALARM since" in status_answer["attention"][0]["says"]


REASON = "circuit orders has not been closed for 31 minutes"
OPEN_LONG = Seen(TroubleKind.CIRCUIT_OPEN, {"key": "orders", "seconds": 31 * 60}, time.time())


def test_the_watch_says_why_an_alarm_rings_or_is_about_to(orders: Any, dlq: Any) -> None:
    orders.watched("orders", seen=(OPEN_LONG,))
    closes = 'type dlq circuit close --pipeline orders --expires 10m --reason "it answers"'
    [(kind, before)] = needs(dlq).items()
    assert (kind, before.startswith(f"{REASON} since ")) == ("circuit-open", True)
    assert before.endswith(closes)
    orders.alarm("deadletter-orders-CircuitTrouble")
    [after] = needs(dlq).values()
    assert after.endswith(f"ago: {REASON}; {closes}")
    (pipeline,) = answer(dlq)["pipelines"]
    (trouble,) = pipeline["seen"]
    assert (trouble["kind"], trouble["page"]) == ("circuit-open", "CircuitTrouble")
    assert trouble["facts"] == {"key": "orders", "seconds": 31 * 60}


def test_what_rings_because_nothing_moves_is_one_card_with_the_command_that_repairs(
    orders: Any, dlq: Any
) -> None:
    why = "TooManyRequestsException for lambda:Invoke on deadletter-orders-route"
    router_down = Seen(TroubleKind.ROUTER_DOWN, {"step": "router", "why": why}, time.time())
    no_run = Seen(TroubleKind.NO_RUN_YET, {"seconds": 540}, time.time())
    orders.watched("orders", seen=(no_run, router_down))
    orders.remembers(
        "orders", "dlq", ended_at=time.time(), stopped="the router gave no answer", trouble=why
    )
    for alarm in ("RedriveStalled", "DlqAge", "MessageAge"):
        orders.alarm(f"deadletter-orders-{alarm}")
    [(kind, says)] = needs(dlq).items()
    assert kind == "router-down"
    assert f"ago: router: {why} (DlqAge and MessageAge for the same reason); " in says
    repair = "aws lambda delete-function-concurrency --function-name deadletter-orders-route"
    assert says.endswith(f"type {repair}")
    assert f"    {repair}\n" in dlq("status").stdout


def test_letters_say_where_they_are_going(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", "invoices")
    cloud.watched("orders", direction="rising")
    dlq("status orders", says="Messages over the last ten looks: rising")
    dlq("status", says=("TREND", "rising"))
    invoices, orders = answer(dlq)["pipelines"]
    assert (invoices["direction"], orders["direction"]) == (None, "rising")
    assert "ten looks" not in dlq("status invoices").stdout


def test_an_alarm_belongs_to_the_pipeline_with_the_longer_name(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", "orders-eu")
    cloud.alarm("deadletter-orders-eu-dlq-age")
    cloud.alarm("deadletter-staging-dlq-age")
    orders, orders_eu = answer(dlq)["pipelines"]
    assert orders["alarms"] == []
    assert len(orders_eu["alarms"]) == 1
    assert answer(dlq, "--pipeline", "orders")["attention"] == []


@each_row(
    ("alarm", "says", "command"),
    [
        ("SharedTrouble", "something that all pipelines share fails", None),
        ("RuleTrouble", "a rule is invalid and matches nothing", "dlq rules list"),
    ],
)
def test_an_alarm_of_the_app_needs_a_person(
    cloud: Any, dlq: Any, alarm: str, says: str, command: str | None
) -> None:
    cloud.deploy(*(() if cloud.is_deployed else ("orders",)))
    cloud.alarm(f"deadletter-staging-{alarm}")
    cloud.alarm(f"deadletter-{alarm}")
    [card] = answer(dlq, "orders")["attention"]
    assert (card["pipeline"], card["page"], card["type"]) == ("*", alarm, command)
    assert card["says"].startswith(f"deadletter-{alarm} is in ALARM since")
    dlq("status --check", ends=Exit.ATTENTION, says=("1 thing needs a person", "pipelines  ", says))
    cloud.alarm(f"deadletter-{alarm}", state="OK")


def test_unreadable_parts_are_named_and_the_rest_is_shown(orders: Any, dlq: Any) -> None:
    orders.sqs.delete_queue(QueueUrl=orders.urls["orders-dlq"])
    orders.dynamodb.delete_table(TableName="circuits")
    done = dlq("status --json", ends=Exit.ATTENTION)
    status_answer = json.loads(done.stdout)
    assert [item["kind"] for item in status_answer["attention"]] == ["unread", "unread"]
    assert status_answer["attention"][1]["says"].startswith("the DLQ could not be read: ")
    (pipeline,) = status_answer["pipelines"]
    assert (pipeline["dlq"], pipeline["circuit"]) == (None, None)
    assert pipeline["main"]["visible"] == 0
    assert re.search(r"^DLQ +\? +\? +\?", dlq("status").stdout, re.MULTILINE)


def test_what_waits_and_was_not_read_is_not_nothing(
    cloud: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.deploy("orders", "bills", dedicated=["vip"])
    cloud.park("orders", "POISON")
    monkeypatch.setattr(DynamoDBLanes, "lanes", refusing("Query"))
    status_answer = json.loads(dlq("status --json", ends=Exit.ATTENTION).stdout)
    bills, orders = status_answer["pipelines"]
    assert (bills["waiting"], bills["places_not_counted"]) == (None, None)
    assert bills["outlook"]["messages"] is None
    assert bills["outlook"]["next"] == ["more may be to do: what waits could not be read"]
    assert "look at at least 1 message in the parking" in orders["outlook"]["next"][0]
    assert row_of(dlq).split()[5:8] == ["?", "?", "?"]
    shown = dlq("status bills --flow", ends=Exit.ATTENTION).stdout
    assert "What waits could not be read.\n" in shown
    assert re.search(r"^bills/waiting +waiting +\? +it could not be read", shown, re.MULTILINE)


def test_parked_messages_in_part_unread_are_at_least_the_others(
    cloud: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.deploy("orders", "bills", parking=("default", "other"))
    cloud.park("orders", "POISON")
    cloud.rescued("orders", "POISON", 1_000)
    cloud.waiting("orders", "due", 3)
    dlq("status", says="has to look at 2 messages in")
    with monkeypatch.context() as patch:
        patch.setattr(DynamoDBLanes, "count", refusing("Query"))
        assert row_of(dlq).split()[5:7] == ["?", "?"]
        dlq("status", says="has to look at at least 1 message in")
    cloud.sqs.delete_queue(QueueUrl=cloud.urls["orders-parking-other"])
    dlq("status", says="has to look at at least 2 messages in")


def test_figures_that_were_not_read_are_not_none(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.remembers("orders", "dlq", ended_at=time.time() - 60, ended_well_at=time.time() - 60)
    assert only_pipeline(dlq)["outlook"]["rate_measured"] == 0
    monkeypatch.setattr(status, "queue_figures", refusing("GetMetricData"))
    monkeypatch.setattr(status, "_alarms", refusing("DescribeAlarms"))
    (pipeline,) = json.loads(dlq("status --json").stdout)["pipelines"]
    outlook = pipeline["outlook"]
    assert (outlook["rate_measured"], outlook["measured_seconds"]) == (None, None)
    assert pipeline["alarms"] is None
    shown = dlq("status", says="; how many went back could not be read\n").stdout
    assert "more may be to do: CloudWatch's figures, the alarms could not be read." in shown


@pytest.mark.parametrize("unread", ["the circuit", "what the monitor sees"])
def test_what_may_keep_messages_back_and_was_not_read_is_not_known(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch, unread: str
) -> None:
    orders.letter("{}")
    read = "_circuits" if unread == "the circuit" else "read_memories"
    monkeypatch.setattr(status, read, refusing("GetItem"))
    status_answer = json.loads(dlq("status --flow --json").stdout)
    outlook = status_answer["pipelines"][0]["outlook"]
    ways = [each for each in status_answer["flow"]["edges"] if each["end"] == "orders/main"]
    because = f"unknown: {unread} could not be read"
    assert [(each["is_open"], each["because"]) for each in ways] == [(None, because)]
    assert outlook["dlq_empty_because"] == because
    assert [each.partition(":")[0] for each in outlook["next"]] == ["more may be to do"]


def test_what_runs_remember_and_was_not_read_is_not_blank(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "read_memories", refusing("Query"))
    (pipeline,) = json.loads(dlq("status --json").stdout)["pipelines"]
    assert {pipeline[name] for name in ("seen", "sources", "direction")} == {None}
    assert pipeline["outlook"]["rate_limit"] is None
    shown = dlq("status", says="Rate: at most unknown;").stdout
    assert re.search(r"^DLQ +0 +0 +0 +\? +\? +\? *$", shown, re.MULTILINE)


def test_rows_that_others_wrote_are_named_with_their_keys(orders: Any, dlq: Any) -> None:
    orders.waiting("orders", "due", 2)
    orders.failed("orders", "a-letter", fingerprint="ours")
    assert only_pipeline(dlq)["foreign_rows"] == []
    keys = [{"pk": f"other#done#{number}", "sk": "claim"} for number in range(4)]
    for key in keys:
        orders.put("messages", {
            "pk": {"S": key["pk"]}, "sk": {"S": key["sk"]},
            "lane": {"S": "orders|due|0"}, "due": {"N": "1"},
        })  # fmt: skip
    escape = {"pk": "other#ledger#\x1b[31m" + "x" * 500, "sk": "ledger"}
    orders.put("messages", {
        "pk": {"S": escape["pk"]}, "sk": {"S": escape["sk"]},
        "causes": {"S": "orders|0"}, "fingerprint": {"S": "enemy"}, "seen": {"N": "1"},
    })  # fmt: skip
    pipeline = only_pipeline(dlq)
    assert pipeline["foreign_rows"] == [*keys, escape]
    assert [lane["messages"] for lane in pipeline["waiting"]] == [2]
    said = dlq("status --check", ends=Exit.ATTENTION)
    [line] = [line for line in said.stdout.splitlines() if "belong" in line]
    assert "5 rows in what waits or its causes that do not belong there, and are ignored" in line
    assert "other#done#0 / claim, other#done#1 / claim, other#done#2 / claim and 2 more" in line
    # Who wrote a key chose it: it is cut, and controls no terminal.
    for key in keys:
        orders.dynamodb.delete_item(TableName="messages", Key={n: {"S": v} for n, v in key.items()})
    said = dlq("status").stdout
    assert r"other#ledger#\x1b[31m" in said
    assert "x" * 61 not in said


def test_an_observing_pipeline_says_that_it_moves_nothing(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", mode="observe")
    cloud.letter("{}")
    cloud.watched("orders", **_looked(range(100, 40, -6)))
    because = only_pipeline(dlq)["outlook"]["dlq_empty_because"]
    assert because.startswith("unknown: observe moves nothing")
    assert "mode observe (decides and reports, moves nothing)" in dlq("status").stdout
    cloud.deploy("invoices")
    assert "orders (observe)" in dlq("status").stdout


def test_a_queue_that_does_not_answer_is_named_and_a_bug_in_a_thread_is_a_bug(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "depth", Mock(side_effect=Deadline(9).missed()))
    (item,) = json.loads(dlq("status --json", ends=Exit.ATTENTION).stdout)["attention"]
    says = "the main queue, the DLQ, parking queue default could not be read: no answer within 9 s"
    assert (item["kind"], item["says"].startswith(says)) == ("unread", True)
    monkeypatch.setattr(status, "depth", Mock(side_effect=KeyError("x")))
    dlq("status", ends=Exit.BUG)


def test_each_of_thirty_pipelines_is_a_line_of_a_screen() -> None:
    depth = QueueDepth(128_400, 1_000, 12)
    tried = circuit_row("", Circuit("", State.HALF_OPEN), datetime.now(UTC))
    one = status.PipelineStatus(
        name="", mode="enforce", fifo=False, main=depth, dlq=depth, dedicated={}, waiting=(),
        parking={"default": QueueDepth(12, 0, 0)}, oldest_message_seconds=7_500, alarms=(),
        places_not_counted=0, circuit=tried,
        last_run={"at": time.time() - 40, "moved": 3},
    )  # fmt: skip
    every = [replace(one, name=f"pipeline-{number:02}") for number in range(30)]
    found = status.AppStatus("1", "eu-west-1", "deadletter", datetime.now(UTC), (), every)
    (table,) = (block for block in cli.show(found) if isinstance(block, TextTable))
    widths = [max(len(said(cell)) for cell in column) for column in zip(*table.rows, strict=True)]
    assert (sum(widths) + 2 * len(widths) <= 100, len(table.rows)) == (True, 30)


def said(cell: Any) -> str:
    return cell if type(cell) is str else str(cell[0])


def needs(dlq: Any) -> dict[str | None, str]:
    """What needs a person: sentences by kind, each with its command."""
    return {
        item["kind"]: f"{item['says']}; type {item['type']}" if item["type"] else item["says"]
        for item in answer(dlq)["attention"]
    }


def test_every_circuit_that_a_person_holds_is_named_with_who_why_and_until_when(
    cloud: Any, dlq: Any
) -> None:
    cloud.deploy("orders", settings={"circuit_key": "body.tenantId"})
    for circuit in ("open --expires never", "open hooks.acme --new --expires 2h"):
        dlq(f"circuit {circuit} --reason 'the bank is down' --yes", ends=Exit.DONE)
    status_answer = answer(dlq)
    own, keyed = status_answer["attention"]
    assert (own["kind"], own["type"]) == ("circuit-held", RELEASE)
    assert keyed["says"].startswith("circuit hooks.acme is held OPEN by arn:aws:")
    assert re.search(rf" since {A_TIME} until .*UTC: the bank is down$", keyed["says"])
    (pipeline,) = status_answer["pipelines"]
    assert [row["key"] for row in pipeline["held"]] == ["orders", "hooks.acme"]
    assert (pipeline["circuit"]["state"], pipeline["circuit"]["open_until"]) == ("OPEN", None)
    shown = dlq("status").stdout
    assert "Nothing needs a person; 2 things to know." in shown
    assert re.search(rf"circuit OPEN since {A_TIME}, held by arn:.*: the bank is down", shown)
    assert re.search(r"Next: circuit orders is held OPEN by .* until a person ends it", shown)


def test_a_watch_that_has_never_run_or_not_lately_needs_attention(orders: Any, dlq: Any) -> None:
    orders.watched("orders", ran_at=time.time() - 170)
    assert needs(dlq) == {}
    orders.watched("orders", ran_at=time.time() - 250)
    [(kind, says)] = needs(dlq).items()
    assert kind == "not-started"
    assert says.startswith(
        "deadletter-orders-watch has left no record for 4 min: it is not started"
    )
    assert says.endswith("; type npx cdk deploy Deadletter-Orders --revert-drift")
    key = {"pk": {"S": "orders#lease"}, "sk": {"S": "watch"}}
    orders.dynamodb.delete_item(TableName="messages", Key=key)
    never = needs(dlq)["monitor-never-ran"]
    assert never.startswith("the monitor has never run")
    assert never.endswith("; type npx cdk deploy Deadletter-Orders --revert-drift")


def test_a_run_that_received_letters_and_moved_none_is_named(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", dedicated=["vip"])
    cloud.remembers("orders", "vip", ended_at=time.time(), stopped="the source is empty")
    assert needs(dlq)["run-failed"].startswith(
        "the last run of dedicated DLQ vip did not end well: "
        "the source is empty (what kept it from its work is not on record)"
    )
    at, denied = time.time(), "AccessDeniedException for dynamodb:Query on deadletter-messages"
    cloud.remembers("orders", "vip", ended_at=at, stopped="no answer", trouble=denied)
    assert denied in needs(dlq)["run-failed"]
    cloud.remembers("orders", "vip", ended_at=at, ended_well_at=at, stopped="nothing to do")
    assert needs(dlq) == {}


def test_letters_that_could_not_be_judged_are_named_with_what_the_metric_means(
    orders: Any, dlq: Any
) -> None:
    now = time.time()
    troubles = {"Undecided": now - 180, "Unsendable": now - 7_200}
    orders.remembers("orders", "dlq", ended_at=now, ended_well_at=now, troubles=troubles)
    assert needs(dlq) == {
        "counted": "a run of the DLQ counted Undecided 3 min ago: "
        "messages that got no decision, or more than one; "
        "type dlq groups orders"
    }


def _remembered(cloud: Any, age: float, retention: float) -> None:
    """A letter in the DLQ that was sent so many seconds ago, and the queue's retention."""
    cloud.letter("{}")
    now = time.time()
    queue = QueueRow(
        messages=1, read_at=now, retention=retention, filled_at=now - 60, oldest_seen=now - age
    )
    cloud.watched("orders", queues={"dlq": queue})


@each_row(
    ("mode", "hours", "says"),
    [
        ("enforce", 11, "in 11 h 00 min: it should have been saved"),
        ("enforce", 13, None),
        ("observe", 47, "in 1 d 23 h: observe moves nothing"),
        ("observe", 49, None),
    ],
)
def test_letters_that_are_about_to_expire_need_attention(
    cloud: Any, dlq: Any, mode: str, hours: float, says: str | None
) -> None:
    cloud.deploy("orders", mode=mode)
    _remembered(cloud, 4 * DAY - hours * HOUR, 4 * DAY + 50)
    found = needs(dlq).get("expires" if mode == "enforce" else "expires-unmoved")
    assert (found is None) is (says is None)
    for text in (f"oldest message in the DLQ {says}", "set-queue-attributes --queue-url https://"):
        assert found is None or text in found


def test_the_age_by_what_was_seen_is_shown_beside_that_of_sqs(orders: Any, dlq: Any) -> None:
    _remembered(orders, 3 * DAY, 14 * DAY)
    _age(orders, "orders-dlq", 0, minutes_ago=3)
    source = only_pipeline(dlq)["sources"][0]
    assert source["source"] == "dlq"
    assert 3 * DAY <= source["oldest_seconds"] < 3 * DAY + HOUR
    outlook = only_pipeline(dlq)["outlook"]
    assert (outlook["expires_in"], outlook["seconds_to_expiry"] // HOUR) == ("dlq", 263)
    shown = dlq("status").stdout
    assert "First message expires in: 10 d 23 h, in the DLQ" in shown
    assert "Oldest message in the DLQ: 3 d 0 h (SQS says 0 s, the monitor 3 d 0 h)" in shown
    orders.deploy("invoices")
    assert "3 d 0 h" in dlq("status").stdout


def test_letters_that_were_only_looked_at_are_told_with_what_that_does(
    cloud: Any, dlq: Any
) -> None:
    cloud.deploy("orders", mode="observe")
    cloud.remembers("orders", "dlq", looks=214, looked_at=time.time())
    assert needs(dlq) == {}
    cloud.letter("{}")
    assert needs(dlq) == {
        "looked-at": "observe has received 214 messages of the DLQ; SQS leaves messages received "
        "three times out of its age metric; the alarm MessageAge goes on telling the truth"
    }


def test_what_waits_is_counted_and_what_is_too_long_says_so(
    cloud: Any, dlq: Any, monkeypatch: Any
) -> None:
    cloud.deploy("orders", "invoices")
    for place, letters in (("orders due", 19), ("orders parked", 2), ("invoices due", 5)):
        cloud.waiting(*place.split(), letters)
    (orders,) = answer(dlq, "--pipeline", "orders")["pipelines"]
    counted = {
        lane["waiting_for"]: (lane["messages"], lane["is_at_least"]) for lane in orders["waiting"]
    }
    assert counted == {"due": (19, False), "parked": (2, False)}
    monkeypatch.setattr(DynamoDBLanes, "count", lambda *_: LaneCount(64_000, is_at_least=True))
    shown = dlq("status --pipeline orders").stdout
    assert shown.count("≥ 64,000") == 3
    assert "look at at least 64,000 messages in the parking" in needs(dlq)["unattended"]
    assert row_of(dlq).split()[5:8] == ["64,000+", "≥", "64,000/0/0"]


def row_of(dlq: Any) -> str:
    """The line of `orders` among those of all pipelines."""
    return next(line for line in dlq("status").stdout.splitlines() if line.startswith("orders "))


def test_rescued_letters_count_as_letters_of_their_queue(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders", "invoices", dedicated=["vip"])
    cloud.park("orders", "POISON")
    cloud.rescued("orders", "POISON", 1_000)
    cloud.waiting("orders", "dedicated:vip", 3)
    cloud.waiting("orders", "due", 2)
    assert needs(dlq)["unattended"] == (
        "a person has to look at 2 messages in the parking queues; "
        'type dlq retry --in parked --all -p orders --reason "fixed"'
    )
    sources = answer(dlq)["pipelines"][1]["sources"]
    assert {source["source"]: source["saved"] for source in sources} == {
        "main": 0, "dlq": 0, "vip": 3, "parking:default": 1,
    }  # fmt: skip
    assert row_of(dlq).split()[5:8] == ["2", "2/0/0", "3/0/0"]
    dlq("status --check", ends=Exit.ATTENTION)
    dlq("status --check --pipeline invoices", ends=Exit.DONE)
    shown = dlq("status --pipeline orders").stdout
    assert re.search(r"^parking queue default +1 +0 +0 +1 *$", shown, re.MULTILINE)


def test_many_collisions_are_named_with_the_paths_that_differ(orders: Any, dlq: Any) -> None:
    row, now = DynamoDBCollisions(orders.dynamodb, "circuits", "orders"), time.time()
    row.count({int(now // 60): (400, 30)}, ("body.sentAt", "body.requestId"), now)
    assert only_pipeline(dlq)["collisions"] is None
    row.stop(now + 600, now)
    assert only_pipeline(dlq)["collisions"]["collided"] == 30
    [says] = [item["says"] for item in answer(dlq)["attention"] if item["kind"] == "many-collide"]
    assert says == (
        "30 of 400 messages of ten minutes have the idempotency key of a processed message and"
        " differ from it in body.sentAt, body.requestId: they are processed and not parked; say in"
        " idempotency_payload what is to be compared"
    )


def _breaker(cloud: Any) -> DynamoDBBreaker:
    return DynamoDBBreaker(
        client=cloud.dynamodb, table="circuits", pipeline="orders", policy=CircuitPolicy(),
        clock=time.time, random=Random(1), new_id=lambda: uuid4().hex,
    )  # fmt: skip


def test_a_circuit_names_no_cause_that_its_record_has_not(orders: Any, dlq: Any) -> None:
    orders.circuit("orders", "orders", "OPEN", open_until=int(time.time()) + 600)
    orders.letter("{}")
    says = (
        "DLQ empty: unknown: no message goes back until circuit orders closes",
        "Why they fail:\n  dlq groups orders\n",
    )
    shown = dlq("status orders", says=says).stdout
    assert re.search(rf"circuit OPEN since {A_TIME}: why it opened is not on record\n", shown)
    assert re.search(rf"Next: no message goes back .*; its next canary is due at {A_TIME}", shown)


def test_a_circuit_that_its_calls_opened_says_how_many_failed(orders: Any, dlq: Any) -> None:
    _breaker(orders).apply("orders", Reported(good=9, bad=11))
    says = "11 of 20 calls failed in 120 s"
    assert only_pipeline(dlq)["circuit"]["because"] == says
    assert re.search(rf"circuit OPEN since {A_TIME}: {says}\n", dlq("status orders").stdout)
    assert f"it opened: {says}" in dlq("show circuit:orders").stdout


def test_a_circuit_that_a_person_opened_and_left_says_so(orders: Any, dlq: Any) -> None:
    """Nothing has failed: no failure may be named."""
    _breaker(orders).apply("orders", Reported(good=50, bad=1))
    dlq("circuit open --reason deploy --expires 1h -y", ends=0)
    dlq("circuit release --reason x -y", ends=0)
    circuit = only_pipeline(dlq)["circuit"]
    assert (circuit["state"], circuit["forced_by"]) == ("OPEN", None)
    assert re.fullmatch(r"arn:aws:.* opened it: deploy", circuit["because"])
    for shown in (dlq("status orders").stdout, dlq("show circuit:orders").stdout):
        assert "opened it: deploy" in shown
        assert "failed" not in shown.replace("0 failed", "")


def _happened(cloud: Any, metric: str, at: datetime, value: int) -> None:
    """A metric of one minute: of ours, or how often Lambda started the redriver."""
    ours = {"namespace": NAMESPACE, "app": "deadletter", "pipeline": "orders"}
    starts = {"namespace": "AWS/Lambda", "FunctionName": "orders-redrive"}
    cloud.figure(metric, value, at, **(starts if metric == "Invocations" else ours))


@pytest.mark.parametrize(
    ("ran", "rate", "window"),
    # A minute may begin before dlq looks: the last of its fifteen is not counted on.
    [(range(1, 13), 9 / 720, "12 min"), (range(3, 6), 9 / 180, "3 min")],
    ids=["all the time", "for three minutes"],
)
def test_the_rate_is_that_of_the_minutes_in_which_it_ran(
    cloud: Any, dlq: Any, ran: Any, rate: float, window: str
) -> None:
    cloud.deploy("orders", settings={"fixed_rate": 20.0})
    for _ in range(3):
        cloud.letter("{}")
    cloud.waiting("orders", "due", 7)
    outlook = only_pipeline(dlq)["outlook"]
    assert (outlook["messages"], outlook["rate_limit"]) == (10, 20.0)
    assert (outlook["rate_measured"], outlook["measured_seconds"]) == (0, None)
    # Of one moment: else two of them may fall into the same minute.
    now = datetime.now(UTC)
    for minute in ran:
        _happened(cloud, "Invocations", now - timedelta(minutes=minute), 1)
    _happened(cloud, Figure.REDRIVEN, now - timedelta(minutes=5), 9)

    outlook = only_pipeline(dlq)["outlook"]
    assert outlook["rate_measured"] == pytest.approx(rate, rel=0.01)
    shown = dlq("status").stdout
    assert f"Rate: at most 20 a second; {rate:.2g} a second went back in {window}" in shown


def _looked(depths: Iterable[int], ago: float = 0.0) -> dict[str, Any]:
    """What the watch remembers after these looks, one a minute; the last was `ago` seconds ago."""
    seen, now = tuple(depths), time.time() - ago
    times = tuple(now - 60.0 * (len(seen) - 1 - number) for number in range(len(seen)))
    return {"ran_at": now, "drain": DrainRow(times=times, depths=seen)}


def test_status_says_when_the_dlq_will_be_empty_at_the_measured_rate(cloud: Any, dlq: Any) -> None:
    """Six fewer a minute, and 46 at the last look: what a run may send at most says nothing."""
    cloud.deploy("orders", settings={"fixed_rate": 20.0})
    cloud.letter("{}")
    cloud.watched("orders", **_looked(range(100, 40, -6)))
    outlook = only_pipeline(dlq)["outlook"]
    at = datetime.fromisoformat(outlook["dlq_empty_at"])
    assert (at - datetime.now(UTC)).total_seconds() == pytest.approx(460, abs=30)
    shown = dlq("status").stdout
    assert re.search(r"DLQ empty: at .*UTC, in 7 min \(0.1 fewer a second over 10 looks", shown)


@each_row(
    ("depths", "ago", "because", "fewer"),
    [
        ([90] * 10, 0, "it does not become emptier: 10 looks, arrivals deducted", 0.0),
        (range(90, 190, 10), 0, "it does not become emptier: 10 looks", -1 / 6),
        ([90] * 3, 0, "unknown: 3 of 10 looks in a row found messages", None),
        ([4] * 10, 0, "unknown: fewer than 10 messages give no rate", None),
        (range(100, 40, -6), 400, "unknown: the monitor has not looked", None),
        ([], 0, "unknown: 0 of 10 looks in a row", None),
    ],
    ids=["flat", "rising", "too soon", "too few", "watch is silent", "never looked"],
)
def test_a_time_that_is_not_measured_is_not_invented(
    cloud: Any, dlq: Any, depths: Iterable[int], ago: float, because: str, fewer: float | None
) -> None:
    cloud.deploy("orders", settings={"fixed_rate": 20.0})
    cloud.letter("{}")
    cloud.watched("orders", **_looked(depths, ago))
    outlook = only_pipeline(dlq)["outlook"]
    assert outlook["dlq_empty_at"] is None
    assert outlook["dlq_empty_because"].startswith(because)
    assert outlook["fewer_a_second"] == (None if fewer is None else pytest.approx(fewer, abs=1e-3))
    assert f"DLQ empty: {because}" in dlq("status").stdout


def test_a_pipeline_that_did_not_run_has_no_rate(orders: Any, dlq: Any) -> None:
    assert "; no run is known in 15 min" in dlq("status").stdout
    assert only_pipeline(dlq)["outlook"]["measured_seconds"] is None
    now = time.time()
    for ago, says in ((60, "; none went back in 15 min"), (1_000, "; no run is known in 15 min")):
        at = now - ago
        orders.remembers("orders", "dlq", ended_at=at, ended_well_at=at, stopped="x")
        last = f"Last run: {ago // 60} min ago; ended because x"
        dlq("status", says=(says, last))


@each_row(
    ("direction", "because", "ago", "limit", "says"),
    [
        (Direction.RISING, "the consumer keeps up", 30, 112.5, "rising: the consumer keeps up"),
        (Direction.FALLEN, "failures 7%", 30, 112.5, "lowered 3 min ago: failures 7%"),
        # No run has chosen one of late.
        (Direction.RISING, "the consumer keeps up", 660, 50.0, "auto: the next run starts with it"),
    ],
)
def test_a_rate_that_finds_itself_says_what_it_does_and_why(
    orders: Any, dlq: Any, direction: Direction, because: str, ago: int, limit: float, says: str
) -> None:
    now = time.time()
    rate = AutoRate(112.5, direction, because, changed_at=now - 190, looked_at=now - ago)
    orders.remembers("orders", "dlq", auto_rate=rate, ended_at=now - ago, ended_well_at=now - ago)
    outlook = only_pipeline(dlq)["outlook"]
    assert (outlook["rate_limit"], outlook["rate_because"]) == (limit, says)
    assert f"Rate: at most {limit:.3g} a second, {says}; none went back" in dlq("status").stdout
    orders.deploy("orders", settings={"fixed_rate": 20.0})
    outlook = only_pipeline(dlq)["outlook"]
    assert (outlook["rate_limit"], outlook["rate_because"]) == (20.0, None)
    orders.deploy("orders")


def test_lanes_say_how_old_their_letters_are_and_when_the_first_is_due(
    cloud: Any, dlq: Any
) -> None:
    cloud.deploy("orders", settings={"message_ttl": 12.0 * DAY})
    now = time.time()
    lanes = {
        "due": LaneRow(messages=1, first_due=now + HOUR),
        "circuit": LaneRow(messages=1, first_due=now + 11 * DAY),
        "rule": LaneRow(messages=1, filled_at=now - HOUR),
    }
    for lane in ("due", "circuit:orders", "rule:r"):
        cloud.waiting("orders", lane, 1)
    cloud.watched("orders", lanes=lanes)
    circuit, due, rule = only_pipeline(dlq)["waiting"]
    assert (circuit["oldest_seconds"] // HOUR, rule["oldest_seconds"] // HOUR) == (24, 1)
    assert due["oldest_seconds"] is None
    assert datetime.fromisoformat(due["first_due"]).timestamp() == pytest.approx(now + HOUR, abs=2)
    assert "1 delayed message will be decided again when due, the first at " in dlq("status").stdout


def test_watch_needs_a_terminal(cloud: Any, dlq: Any) -> None:
    dlq("status --watch", ends=Exit.USAGE, refuses="--watch needs a terminal")


def test_watch_paints_until_ctrl_c_and_keeps_the_last_picture(
    orders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    session = Session(lambda: aws.connect(None, None), "deadletter")
    answer = status.read(session, [])
    answers = iter([answer, answer, Problem("no network", Cause.UNREACHABLE), KeyboardInterrupt()])

    def read(*_: Any) -> status.AppStatus:
        given = next(answers)
        if isinstance(given, BaseException):
            raise given
        return given

    monkeypatch.setattr(cli, "time", SimpleNamespace(sleep=lambda _: None))
    assert cli._watch(read) == answer
    assert screen.getvalue().count("Nothing needs a person.") >= 3
    assert "Not read again: no network" in screen.getvalue()
