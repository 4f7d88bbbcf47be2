"""`dlq replay plan` and `start`: counted without moving anything, and refused on drift."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.replay_starts import unpacked
from deadletter.aws.table import plain
from deadletter.circuit.state import State
from deadletter.contract import CAUSES, Partition
from deadletter.redrive.journal import key_of
from deadletter.replay.plan import KeyPolicy, plan_from_text
from deadletter.replay.run import RunState

SETTINGS = {"consumer_library": True, "context": {"tenantId": "body.tenant"}}


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    cloud.deploy("orders", "invoices", settings=SETTINGS, dedicated=["vip"])
    functions.configure("orders", **SETTINGS, dedicated=["vip"])
    functions.routes = True
    return cloud


def planned(dlq: Any, *options: str) -> Any:
    done = dlq("replay", "plan", "--pipeline", "orders", "--json", *options)
    assert done.exit_code == Exit.DONE, done.output
    return json.loads(done.stdout)


def failed_letter(cloud: Any, tenant: str = "acme", **failure: Any) -> str:
    """A letter in the DLQ whose consumer recorded a failure."""
    letter: str = cloud.letter(json.dumps({"tenant": tenant, "card": "4111-x"}))
    facts = {"error_type": "KeyError", "fingerprint": "f1", **failure}
    cloud.failed("orders", letter, **facts)
    return letter


def test_a_dlq_is_counted_from_the_ledger_and_no_letter_is_received(orders: Any, dlq: Any) -> None:
    for _ in range(3):
        failed_letter(orders)
    failed_letter(orders, fingerprint="f2", error_type="ValueError", attempt=2)
    orders.recovered("orders", failed_letter(orders))
    orders.failed("invoices", "another-pipeline")
    orders.letter("{}")
    plan = planned(dlq)
    assert (plan["letters"], plan["by_ledger"], plan["in_queue"]) == (4, True, 6)
    assert [(row["cause"], row["error_type"], row["letters"]) for row in plan["causes"]] == [
        ("f1", "KeyError", 3), ("f2", "ValueError", 1),
    ]  # fmt: skip
    assert plan["attempts"] == {"0": 3, "2": 1}
    assert any("2 letters died without a record" in text for text in plan["warnings"])
    assert received(orders) == 0


def test_expired_letters_are_counted_and_no_option_takes_them(
    cloud: Any, functions: Any, dlq: Any
) -> None:
    terms = {**SETTINGS, "expires": "body.until", "message_ttl": 3_600}
    cloud.deploy("orders", settings=terms)
    functions.configure("orders", **terms)
    functions.routes = True
    cloud.failed("orders", cloud.letter("{}"), at=time.time() - 4_000)
    for until in (time.time() - 60, time.time() + 3_600):
        letter = cloud.letter(json.dumps({"until": until}))
        cloud.failed("orders", letter, at=time.time() - 10)
    plan = planned(dlq)
    assert (plan["letters"], plan["left_out"]) == (2, {"EXPIRED": 1})
    assert any("past their own expiry" in text for text in plan["warnings"])
    # The letter itself is young: only its failure is old.
    plan = planned(dlq, "--look")
    assert (plan["letters"], plan["left_out"]) == (2, {"EXPIRED": 1})
    assert not any("past their own expiry" in text for text in plan["warnings"])
    shown = dlq("replay", "plan", "--pipeline", "orders", "--look")
    assert "Left out: 1 EXPIRED." in shown.stdout
    done = dlq("replay", "plan", "--pipeline", "orders", "--include", "EXPIRED")
    assert done.exit_code == Exit.USAGE
    assert "An expired letter is never sent" in done.stderr


def test_letters_that_failed_in_the_version_that_runs_now_are_named(
    orders: Any, functions: Any, dlq: Any
) -> None:
    failed_letter(orders, version="6")
    failed_letter(orders, version="7")
    plan = planned(dlq)
    assert plan["failed_in"] == {"6": 1, "7": 1}
    assert plan["warnings"][0] == (
        "1 letter failed in version 7 of the consumer, which runs now: the fix is not in it."
    )
    # The team's own name for it comes before Lambda's.
    functions.consumer_version = "4.2.1"
    failed_letter(orders, version="4.2.1")
    assert "failed in version 4.2.1 of the consumer, which" in planned(dlq)["warnings"][0]


def test_of_a_container_the_version_of_the_failures_is_said(orders: Any, dlq: Any) -> None:
    failed_letter(orders, version="4.2.0")
    name = "/deadletter/pipelines/orders"
    described = json.loads(orders.ssm.get_parameter(Name=name)["Parameter"]["Value"])
    orders.parameter(name, json.dumps({**described, "consumer_function": ""}))
    plan = planned(dlq)
    assert any(
        "failed in version 4.2.0 of the consumer; which" in text for text in plan["warnings"]
    )


def received(cloud: Any) -> int:
    """How often any letter of the DLQ was received."""
    from moto.sqs.models import sqs_backends

    queue = sqs_backends["123456789012"]["eu-west-1"].queues["orders-dlq"]
    return sum(message.approximate_receive_count for message in queue._messages)


def test_letters_in_the_waiting_room_are_not_counted_as_in_the_dlq(orders: Any, dlq: Any) -> None:
    failed_letter(orders)
    orders.failed("orders", "first-life")
    orders.waiting("orders", "due", 1)
    assert planned(dlq)["letters"] == 1


def test_letters_that_were_processed_at_a_later_receive_or_parked_are_not_counted(
    orders: Any, dlq: Any
) -> None:
    waiting = failed_letter(orders)
    ledger = DynamoDBLedger(orders.dynamodb, "letters", "orders", time.time, 86_400)
    orders.failed("orders", "processed", at=time.time() - 7_200)
    ledger.leave_index("processed")
    orders.failed("orders", "parked")
    ledger.note_parked("parked", time.time(), "PERMANENT", "")
    plan = planned(dlq)
    assert (plan["letters"], plan["others"]) == (1, 0)
    assert waiting in dlq("replay", "plan", "--pipeline", "orders").stdout
    # A new failure: the letter is in the DLQ again.
    orders.failed("orders", "parked", at=time.time() + 1, attempt=1)
    assert planned(dlq)["letters"] == 2


def test_a_row_of_a_version_without_the_index_of_causes_stays_out(orders: Any, dlq: Any) -> None:
    """To find it takes a scan of the table, which shows the bodies of waiting letters too."""
    failed_letter(orders)
    old = failed_letter(orders)
    orders.dynamodb.update_item(
        TableName="letters",
        Key={"pk": {"S": Partition.LEDGER.of("orders", old)}, "sk": {"S": "ledger"}},
        UpdateExpression=f"REMOVE {CAUSES.partition}, {CAUSES.sort}, seen, first_at",
    )
    assert planned(dlq)["letters"] == 1


def test_the_ledger_counts_one_cause(orders: Any, dlq: Any) -> None:
    failed_letter(orders)
    failed_letter(orders, fingerprint="f2")
    plan = planned(dlq, "--cause", "f2")
    assert (plan["letters"], plan["others"]) == (1, 1)


@pytest.mark.parametrize(
    "options",
    [("--tenant", "acme"), ("--since", "2d"), ("--jmespath", "tenant == 'acme'"),
     ("--pattern", '{"body": {"tenant": ["acme"]}}')],
)  # fmt: skip
def test_what_the_ledger_does_not_know_needs_a_look(
    orders: Any, dlq: Any, options: tuple[str, ...]
) -> None:
    failed_letter(orders)
    failed_letter(orders, "other")
    done = dlq("replay", "plan", "--pipeline", "orders", *options)
    assert done.exit_code == Exit.USAGE
    assert f"it can't count by {options[0]}: add --look" in done.stderr
    plan = planned(dlq, "--look", *options)
    assert plan["letters"] == (2 if options[0] == "--since" else 1)
    assert plan["by_ledger"] is False


def test_a_look_counts_tenants_and_leaves_out_what_would_be_parked(orders: Any, dlq: Any) -> None:
    for tenant in ("acme", "acme", "globex"):
        failed_letter(orders, tenant)
    permanent = failed_letter(orders, category="schema")
    orders.letter("not json")
    plan = planned(dlq, "--look")
    assert plan["letters"] == 3
    assert plan["left_out"] == {"PERMANENT": 1, "MALFORMED": 1}
    assert [(row["name"], row["letters"]) for row in plan["tenants"]] == [
        ("acme", 2), ("globex", 1),
    ]  # fmt: skip
    assert orders.visible("orders-dlq") == 5
    assert planned(dlq, "--look", "--include", "PERMANENT")["letters"] == 4
    assert planned(dlq, "--look", "--id", permanent, "--include", "PERMANENT")["letters"] == 1


def test_a_plan_on_screen_says_all_that_a_person_needs(orders: Any, dlq: Any) -> None:
    failed_letter(orders)
    failed_letter(orders)
    text = dlq("replay", "plan", "--pipeline", "orders", "--look", "--rate", "5").stdout
    for part in (
        "Replay plan for orders in account 123456789012, eu-west-1: dlq to main",
        "2 letters.",
        "KeyError",
        "acme",
        "5 letters/s: as you asked",
        "1, 2, 5, 20",
        "18 Nov 03:40 UTC; 2 failed after it",
        "version 7 (alias live), code q1Zx0rJv8mD2",
        "! 2 letters failed after the consumer's last change (18 Nov 03:40 UTC), in the same",
        "To start it: add --out plan.json",
    ):
        assert part in text
    assert "4111-x" not in text


def test_an_open_circuit_is_warned_of(orders: Any, dlq: Any) -> None:
    failed_letter(orders)
    orders.circuit("orders", "orders", State.OPEN)
    assert any("Circuit orders is OPEN" in text for text in planned(dlq)["warnings"])


def test_letters_older_than_the_memory_of_idempotency_are_warned_of(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.pipeline("orders", settings={**SETTINGS, "idempotency_keep": 60})
    orders.rescued("orders", "POISON", int(time.time()) - 3_600)
    plan = planned(dlq, "--source", "lane:parked")
    assert any("idempotency remembers 1 min" in text for text in plan["warnings"])


def test_a_consumer_that_is_no_function_is_said_to_be_unknown(orders: Any, dlq: Any) -> None:
    failed_letter(orders)
    name = "/deadletter/pipelines/orders"
    described = json.loads(orders.ssm.get_parameter(Name=name)["Parameter"]["Value"])
    orders.parameter(name, json.dumps({**described, "consumer_function": ""}))
    plan = planned(dlq)
    assert (plan["consumer_changed"], plan["consumer_version"]) == (None, "")
    assert any("is no Lambda function of the settings" in text for text in plan["warnings"])


def test_a_plan_without_letters_says_where_to_look(orders: Any, dlq: Any, tmp_path: Path) -> None:
    failed_letter(orders)
    orders.letter("{}")
    path = tmp_path / "plan.json"
    options = ("--cause", "nope", "--why", "x", "--out", str(path))
    text = dlq("replay", "plan", "--pipeline", "orders", *options).stdout
    assert "0 letters; not chosen: 1." in text
    assert "There is nothing to replay, and no plan is written." in text
    assert "See what is there: dlq replay plan --pipeline orders --source dlq" in text
    assert "SQS estimates 2 letters in the queue: --look counts those that died" in text
    assert not path.exists()


def test_a_time_that_is_none_is_refused_with_what_is_allowed(orders: Any, dlq: Any) -> None:
    done = dlq("replay", "plan", "--pipeline", "orders", "--look", "--since", "yesterday")
    assert done.exit_code == Exit.USAGE
    assert "write how long ago (2h, 4d), or 2026-01-31T09:00 in UTC" in done.stderr


def test_the_age_of_letters_is_warned_of_when_they_are_counted_from_the_ledger(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.pipeline("orders", settings={**SETTINGS, "idempotency_keep": 60})
    failed_letter(orders)
    plan = planned(dlq)
    assert plan["by_ledger"] is True
    assert any("is at least 1 h 00 min old, and" in text for text in plan["warnings"])


def test_a_plan_says_which_letter_expires_first(orders: Any, dlq: Any) -> None:
    failed_letter(orders, at=time.time() - 100)
    oldest = failed_letter(orders, at=time.time() - 7_200)
    text = dlq("replay", "plan", "--pipeline", "orders").stdout
    assert f"letter {oldest}; when is unknown until the watch has looked" in text
    assert "Tenants and ordering keys are not in the ledger: --look counts them too." in text
    orders.rescued("orders", "POISON", 1_000)
    text = dlq("replay", "plan", "--pipeline", "orders", "--source", "lane:parked").stdout
    assert "nothing: the waiting room keeps letters" in text


def test_a_file_that_is_there_is_refused_before_anything_is_counted(
    orders: Any, dlq: Any, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    path.write_text("mine")
    options = ("--look", "--why", "x", "--out")
    failed_letter(orders)
    for given, text in ((path, "is there already"), (tmp_path / "no/plan", "there is no folder")):
        done = dlq("replay", "plan", "--pipeline", "orders", *options, str(given))
        assert done.exit_code == Exit.USAGE
        assert text in done.stderr
    assert path.read_text() == "mine"
    assert received(orders) == 0


def test_a_plan_of_which_no_letter_is_left_does_not_offer_to_start_it(
    orders: Any, functions: Any, dlq: Any, file: str
) -> None:
    for origin in json.loads(Path(file).read_text())["origins"]:
        orders.recovered("orders", origin)
    done = started(dlq, file)
    assert done.exit_code == Exit.ATTENTION
    assert "Counted, and no longer there: 2 letters." in done.stderr
    assert "See where letters are: dlq status --pipeline orders." in done.stderr
    assert "--only-counted" not in done.stderr


def test_without_the_library_neither_order_nor_outcomes_are_promised(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.pipeline("orders", settings={})
    functions.configure("orders")
    orders.rescued("orders", "POISON", int(time.time()) - 3_600)
    warnings = planned(dlq, "--source", "lane:parked")["warnings"]
    assert any("does not use the library: nothing keeps a letter" in text for text in warnings)
    assert any("no outcome is known" in text for text in warnings)


def test_without_the_library_no_crash_is_blamed_for_letters_without_a_record(
    orders: Any, functions: Any, dlq: Any
) -> None:
    orders.pipeline("orders", settings={})
    functions.configure("orders")
    orders.letter("{}")
    [warning] = [text for text in planned(dlq)["warnings"] if "ledger" in text]
    assert "The consumer does not use the library, which records failures: 1 letter" in warning
    assert "died" not in warning


def test_another_destination_has_no_outcome(orders: Any, dlq: Any) -> None:
    failed_letter(orders)
    plan = planned(dlq, "--to", "vip")
    assert plan["destination"] == "vip"
    assert any("Letters that go to vip have no outcome" in text for text in plan["warnings"])
    done = dlq("replay", "plan", "--pipeline", "orders", "--to", "nowhere")
    assert done.exit_code == Exit.ABSENT
    assert "it has main, deliver, vip" in done.stderr


@pytest.mark.parametrize(
    ("source", "status", "text"),
    [
        ("nope", Exit.ABSENT, "it has dlq, vip, parking:default, and its lanes as lane:<name>"),
        ("lane:run:123", Exit.USAGE, "the letters of a replay run belong to that run"),
        ("lane:", Exit.USAGE, "name a lane"),
    ],
)
def test_an_unknown_source_is_answered_with_the_known_ones(
    orders: Any, dlq: Any, source: str, status: Exit, text: str
) -> None:
    done = dlq("replay", "plan", "--pipeline", "orders", "--source", source)
    assert done.exit_code == status
    assert text in done.stderr


def test_the_rate_is_a_share_of_what_the_main_queue_usually_does(orders: Any, dlq: Any) -> None:
    failed_letter(orders)
    plan = planned(dlq)
    assert (plan["rate"], plan["rate_because"][:14]) == (5.0, "a careful one,")
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    for hours, deleted in ((1, 36_000), (2, 72_000), (3, 720_000)):
        orders.cloudwatch.put_metric_data(
            Namespace="AWS/SQS",
            MetricData=[
                {
                    "MetricName": "NumberOfMessagesDeleted",
                    "Dimensions": [{"Name": "QueueName", "Value": "orders-main"}],
                    "Timestamp": start - timedelta(hours=hours),
                    "Value": deleted,
                }
            ],
        )
    plan = planned(dlq)
    assert plan["rate"] == pytest.approx(3.0)
    assert plan["rate_because"].startswith("15 % of the 20 messages/s")


def test_a_plan_takes_what_a_person_sets(orders: Any, dlq: Any, tmp_path: Path) -> None:
    failed_letter(orders)
    file = tmp_path / "plan.json"
    planned(dlq, "--rate", "50", "--canary", "3,30", "--stop-on-failure", "--approve",
            "--expires", "4h", "--out", str(file), "--why", "fixed")  # fmt: skip
    plan = plan_from_text(json.dumps(json.loads(file.read_text())["plan"]))
    assert (plan.rate, plan.workers, plan.canary) == (50.0, 2, (3, 30))
    assert (plan.on_failure, plan.on_unknown) == (KeyPolicy.STOP, KeyPolicy.STOP)
    assert plan.approve is True
    assert plan.expires - plan.created == pytest.approx(4 * 3_600, abs=2)
    assert (plan.counted, plan.why, plan.outcome_timeout) == (1, "fixed", 1_800.0)


def test_a_bad_canary_is_refused(orders: Any, dlq: Any) -> None:
    done = dlq("replay", "plan", "--pipeline", "orders", "--canary", "1,x")
    assert done.exit_code == Exit.USAGE
    assert "--canary takes numbers of letters" in done.stderr


def test_a_plan_in_a_file_needs_a_reason(orders: Any, dlq: Any, tmp_path: Path) -> None:
    done = dlq("replay", "plan", "--pipeline", "orders", "--out", str(tmp_path / "p"))
    assert done.exit_code == Exit.USAGE
    assert "A plan needs a reason: add --why." in done.stderr


@pytest.fixture
def file(orders: Any, dlq: Any, tmp_path: Path) -> str:
    """A plan of two letters, in a file."""
    failed_letter(orders)
    failed_letter(orders)
    path = tmp_path / "plan.json"
    planned(dlq, "--out", str(path), "--why", "fixed")
    return str(path)


def started(dlq: Any, file: str, *options: str) -> Any:
    return dlq("replay", "start", "--plan", file, "--yes", *options)


def test_a_plan_is_started_once_however_often_it_is_typed(
    orders: Any, functions: Any, dlq: Any, file: str
) -> None:
    first = started(dlq, file)
    assert first.exit_code == Exit.DONE, first.output
    # The run takes its letters into custody: that is no drift.
    orders.sqs.purge_queue(QueueUrl=orders.urls["orders-dlq"])
    for origin in json.loads(Path(file).read_text())["origins"]:
        orders.recovered("orders", origin)
    second = json.loads(started(dlq, file, "--json").stdout)
    (run,) = orders.replays("orders").all()
    assert second["again"] is True
    assert second["run"]["run"] == run.id
    assert f"Follow it: dlq show {run.id} --watch" in first.stdout
    assert run.state is RunState.PLANNED
    assert [execution["name"] for execution in functions.machine.started] == [f"{run.id}-0"]
    assert len(counted(orders, run.id)) == 2


def counted(cloud: Any, run: str) -> frozenset[bytes]:
    rows = map(plain, cloud.dynamodb.scan(TableName="letters")["Items"])
    return frozenset().union(
        *(unpacked(row["keys"]) for row in rows if f"#run#{run}#" in row["pk"] and "keys" in row)
    )


def test_nothing_is_started_that_the_plan_has_not_counted(
    orders: Any, functions: Any, dlq: Any, file: str
) -> None:
    new = failed_letter(orders)
    done = started(dlq, file)
    assert done.exit_code == Exit.ATTENTION
    assert "Nothing was started" in done.stderr
    assert "1 letter are new" not in done.stderr
    assert "New, and not counted: 1 letter." in done.stderr
    assert f"dlq replay start --plan {file} --only-counted" in done.stderr
    assert not functions.machine.started
    done = started(dlq, file, "--only-counted")
    assert done.exit_code == Exit.DONE, done.output
    (run,) = orders.replays("orders").all()
    assert key_of(new) not in counted(orders, run.id)


def test_letters_that_are_gone_are_drift_too(
    orders: Any, functions: Any, dlq: Any, file: str
) -> None:
    first = json.loads(Path(file).read_text())["origins"][0]
    orders.recovered("orders", first)
    done = started(dlq, file)
    assert "Counted, and no longer there: 1 letter." in done.stderr
    assert "start with the 1 letter that" in done.stderr


def test_parked_letters_are_planned_wherever_they_are(
    orders: Any, functions: Any, dlq: Any, tmp_path: Path
) -> None:
    """Another run may move parked letters into lane `parked` between the plan and its start."""
    orders.park("orders", "POISON", origin="in-queue")
    copy = orders.rescued("orders", "POISON", 1_000)
    file = tmp_path / "plan.json"
    plan = planned(dlq, "--source", "parked", "--out", str(file), "--why", "fixed")
    assert (plan["source"], plan["letters"], plan["looked_at"]) == ("parking:default", 2, 1)
    assert planned(dlq, "--source", "parking:default", "--id", copy)["letters"] == 1
    orders.sqs.purge_queue(QueueUrl=orders.urls["orders-parking-default"])
    orders.rescued("orders", "POISON", 2_000, origin="in-queue")
    done = started(dlq, str(file), "--json")
    assert done.exit_code == Exit.DONE, done.output
    assert json.loads(done.stdout)["run"]["counted"] == 2


def test_several_parking_queues_are_named(orders: Any, dlq: Any) -> None:
    orders.deploy("orders", settings=SETTINGS, parking=("default", "legal"))
    done = dlq("replay", "plan", "--pipeline", "orders", "--source", "parked")
    assert done.exit_code == Exit.USAGE
    assert "give one of parking:default, parking:legal" in done.stderr
    assert planned(dlq, "--source", "parking:legal")["letters"] == 0


def test_a_changed_consumer_or_circuit_is_drift(
    orders: Any, functions: Any, dlq: Any, file: str
) -> None:
    functions.consumer_changed = "2026-11-19T04:00:00.000+0000"
    orders.circuit("orders", "orders", State.OPEN)
    done = started(dlq, file)
    assert "The consumer was changed at 19 Nov 04:00 UTC." in done.stderr
    assert "The circuit was CLOSED and is OPEN." in done.stderr


def test_a_start_asks_and_says_what_it_is_about(
    orders: Any, functions: Any, dlq: Any, file: str, at_a_terminal: None
) -> None:
    done = dlq("replay", "start", "--plan", file, answers="n\n")
    assert done.exit_code == Exit.ATTENTION
    assert "2 letters from dlq to main." in done.stderr
    assert "First 1, 2, 5, 20; then up to 5 letters/s." in done.stderr
    assert not functions.machine.started


def test_another_file_is_no_plan(orders: Any, functions: Any, dlq: Any, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    for text in ("{}", "[]", "x", '{"kind": "plan of a replay run"}'):
        path.write_text(text)
        done = started(dlq, str(path))
        assert done.exit_code == Exit.USAGE
        assert "This is no plan that dlq replay plan --out wrote" in done.stderr


def test_a_plan_of_another_app_is_refused(orders: Any, functions: Any, dlq: Any, file: str) -> None:
    data = json.loads(Path(file).read_text())
    Path(file).write_text(json.dumps({**data, "app": "staging"}))
    done = started(dlq, file)
    assert "This plan is of app staging" in done.stderr


def test_a_plan_that_has_expired_is_refused(
    orders: Any, functions: Any, dlq: Any, file: str
) -> None:
    data = json.loads(Path(file).read_text())
    data["plan"]["expires"] = time.time() - 1
    Path(file).write_text(json.dumps(data))
    assert "This plan has expired" in started(dlq, file).stderr


@pytest.fixture
def fifo(orders: Any, functions: Any) -> Any:
    """Pipeline orders with a FIFO DLQ that holds two groups of two letters."""
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = orders.queue("orders-dlq.fifo", **fifo)
    parameter = "/deadletter/pipelines/orders"
    row = json.loads(orders.ssm.get_parameter(Name=parameter)["Parameter"]["Value"])
    orders.parameter(parameter, json.dumps({**row, "dlq_url": url, "fifo": True}))
    functions.configure("orders", **SETTINGS, fifo=True)
    for group, tenant in (("g1", "acme"), ("g1", "globex"), ("g2", "globex"), ("g2", "globex")):
        orders.sqs.send_message(
            QueueUrl=url,
            MessageBody=json.dumps({"tenant": tenant, "at": time.perf_counter_ns()}),
            MessageGroupId=group,
        )
    return orders


def test_a_filter_widens_to_whole_groups(fifo: Any, dlq: Any, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = planned(dlq, "--look", "--tenant", "acme", "--why", "x", "--out", str(path))
    assert (plan["letters"], plan["groups"], plan["widened"], plan["others"]) == (2, 1, 1, 2)
    assert any("although they do not match: 1 letter;" in text for text in plan["warnings"])
    filed = json.loads(path.read_text())
    # Each letter was seen: only those ever join.
    assert (len(filed["origins"]), filed["plan"]["counted"]) == (2, 2)
    assert filed["plan"]["selection"]["groups"] == ["g1"]
    assert filed["plan"]["ordered"] is True
    assert not any("at most ten letters" in text for text in plan["warnings"])


def more_in_the_first_group(fifo: Any) -> None:
    """More letters of a FIFO group than SQS shows at once."""
    for number in range(12):
        fifo.sqs.send_message(
            QueueUrl=fifo.urls["orders-dlq.fifo"],
            MessageBody=json.dumps({"tenant": "acme", "number": number}),
            MessageGroupId="g1",
        )


def test_of_a_long_fifo_group_the_head_is_seen_and_all_of_it_joins(
    fifo: Any, dlq: Any, tmp_path: Path
) -> None:
    more_in_the_first_group(fifo)
    path = tmp_path / "plan.json"
    plan = planned(dlq, "--look", "--tenant", "acme", "--why", "x", "--out", str(path))
    assert any("at most ten letters" in text for text in plan["warnings"])
    filed = json.loads(path.read_text())
    assert (filed["origins"], filed["plan"]["counted"]) == (None, None)
    assert filed["plan"]["selection"]["groups"] == ["g1"]


def test_a_fifo_dlq_needs_a_look(fifo: Any, dlq: Any) -> None:
    done = dlq("replay", "plan", "--pipeline", "orders")
    assert done.exit_code == Exit.USAGE
    assert "The ledger does not know FIFO groups" in done.stderr


def test_a_new_letter_of_a_fifo_group_is_drift_where_each_was_counted(
    fifo: Any, functions: Any, dlq: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "plan.json")
    planned(dlq, "--look", "--why", "x", "--out", path)
    fifo.sqs.send_message(
        QueueUrl=fifo.urls["orders-dlq.fifo"], MessageBody='{"tenant": "acme"}', MessageGroupId="g1"
    )
    done = started(dlq, path)
    assert done.exit_code == Exit.ATTENTION
    assert "New, and not counted: 1 letter." in done.stderr
    assert started(dlq, path, "--only-counted").exit_code == Exit.DONE


def test_new_groups_are_drift(fifo: Any, functions: Any, dlq: Any, tmp_path: Path) -> None:
    more_in_the_first_group(fifo)
    path = str(tmp_path / "plan.json")
    planned(dlq, "--look", "--why", "x", "--out", path)
    fifo.sqs.send_message(
        QueueUrl=fifo.urls["orders-dlq.fifo"], MessageBody='{"tenant": "acme"}', MessageGroupId="g3"
    )
    done = started(dlq, path)
    assert done.exit_code == Exit.ATTENTION
    assert "New, and not counted: 1 FIFO group." in done.stderr
    assert started(dlq, path, "--only-counted").exit_code == Exit.DONE


def test_a_run_in_a_pipeline_that_observes_is_warned_of(orders: Any, dlq: Any) -> None:
    orders.pipeline("orders", settings=SETTINGS, mode="observe")
    failed_letter(orders)
    assert any("The pipeline observes" in text for text in planned(dlq)["warnings"])
