"""`dlq explain`: one letter's life."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.replay_tickets import DynamoDBTickets
from deadletter.circuit.state import State
from deadletter.contract import PARKED_LANE, Reason, circuit_lane, delay_lane
from deadletter.failure.failure import Category, Failure
from deadletter.failure.ledger import AboutLetter
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome, Ticket
from deadletter.routing.decision import Hold
from tests.console.conftest import Cloud, Dlq, FakeLambda

ORIGIN = "8f14e45f-ceea-467f-9575-2a8c1d6e2b11"
COPY = "11111111-ceea-467f-9575-2a8c1d6e2b11"
TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"
LIBRARY = {"consumer_library": True}


def told(dlq: Dlq, *arguments: str) -> dict[str, Any]:
    result = dlq("explain", *arguments, "--json")
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def wait(cloud: Cloud, lane: str, body: str = "{}", because: str = "test", **stamp: Any) -> None:
    """A copy of the letter that the redriver put into a lane."""
    letter = Letter(COPY, body, system={"AWSTraceHeader": TRACE, "SentTimestamp": "1000"})
    now = int(time.time())
    facts = {"attempt": 2, "first_sent": (now - 60) * 1000, "decision": "HOLD", "at": now - 30}
    held = Order(
        ReceivedLetter(letter, "", 0.0),
        Hold(lane, now + 600.0, because),
        Stamp(ORIGIN, **{**facts, **stamp}),
    )
    assert cloud._room("orders", cloud.s3).admit([held])


def failed(cloud: Cloud, **facts: Any) -> None:
    said = {"error_type": "ReadTimeout", "message": "no answer", "category": Category.TRANSIENT}
    cloud.failed("orders", ORIGIN, **{**said, **facts})
    cloud.letter("{}")


def test_each_try_is_told_with_the_decision_that_began_its_life(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", "bills", settings=LIBRARY)
    now = time.time()
    failed(cloud, at=now - 3_000, receive=3, request_id="req-1", queue="orders-main")
    failed(
        cloud, at=now - 2_000, attempt=1, http_status=503,
        sent_at=int(now - 2_100), sent_because="attempt 1, backoff of 90 s", sent_rule="slow",
    )  # fmt: skip

    life = told(dlq, ORIGIN)

    assert (life["pipeline"], life["origin"], life["attempts"]) == ("orders", ORIGIN, 1)
    first, second = life["tries"]
    assert (first["life"], first["receive"], first["request_id"]) == (0, 3, "req-1")
    assert (first["error_type"], first["sent_because"], first["waited"]) == (
        "ReadTimeout",
        "",
        None,
    )
    assert (second["life"], second["http_status"], second["waited"]) == (1, 503, 1_000)
    assert (second["sent_because"], second["sent_rule"]) == ("attempt 1, backoff of 90 s", "slow")


def test_a_letter_in_a_queue_is_said_to_be_in_one_that_cannot_be_asked(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    failed(cloud)

    life = told(dlq, ORIGIN)

    [place] = life["places"]
    assert place["where"] == "QUEUE"
    assert "cannot be asked for one message" in place["says"]
    assert (life["now"]["action"], life["now"]["by"]) == ("REDRIVE", "ledger")
    commands = [step["command"] for step in life["steps"]]
    assert f"dlq rules explain {ORIGIN} --pipeline orders" in commands
    assert f"dlq logs {ORIGIN} --pipeline orders" in commands


def test_what_would_be_decided_is_what_the_router_would_decide(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    failed(cloud, category=Category.SCHEMA)

    now = told(dlq, ORIGIN)["now"]

    assert (now["action"], now["reason"]) == ("PARK", "PERMANENT")
    assert now["because"] == (
        "last failure was of category schema; it last failed with ReadTimeout: no answer"
    )


@pytest.mark.parametrize("id_", [ORIGIN, COPY])
def test_a_waiting_letter_is_found_by_its_first_life_and_by_its_copy(
    cloud: Cloud, dlq: Dlq, id_: str
) -> None:
    cloud.deploy("bills", "orders", settings=LIBRARY)
    cloud.circuit("orders", "orders", State.OPEN)
    wait(cloud, circuit_lane("orders"), because="circuit orders is OPEN")
    failed(cloud, attempt=2, dependency_down=True)

    life = told(dlq, id_)

    [place] = life["places"]
    assert (place["where"], place["lane"], place["copy"]) == ("WAITING", "circuit:orders", COPY)
    assert place["because"] == "circuit orders is OPEN"
    assert life["origin"] == ORIGIN
    assert (life["now"]["action"], life["now"]["by"]) == ("HOLD", "letter")
    assert life["steps"][0]["command"] == "dlq circuit show orders --pipeline orders"


def test_a_waiting_letter_without_a_ledger_row_is_found_by_its_first_life(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders")
    wait(cloud, "due")

    life = told(dlq, ORIGIN)

    assert life["places"][0]["lane"] == "due"
    assert life["tries"] == []
    # Its delay counts as served when it is due.
    assert (life["now"]["action"], life["now"]["delay"]) == ("REDRIVE", 0)


def test_a_letter_of_a_rule_is_judged_with_its_body(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")
    cloud.rule("stop", pattern='{"body": {"kind": ["bad"]}}', action="QUARANTINE")
    wait(cloud, "due", body='{"kind": "bad"}')

    now = told(dlq, ORIGIN)["now"]

    assert (now["action"], now["rule"]) == ("PARK", "stop")


def test_the_trace_of_a_letter_in_a_queue_comes_from_the_ledger(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    ledger = DynamoDBLedger(cloud.dynamodb, "letters", "orders", time.time, 86_400)
    for trace in ("1-5759e988-bd862e3fe1be46a994272793", "another"):
        about = AboutLetter(context={"tenantId": "acme"}, size=812, trace=trace)
        ledger.failed(ORIGIN, Failure(time.time(), 0, Category.TRANSIENT), about)

    life = told(dlq, ORIGIN)

    assert life["trace"] == "1-5759e988-bd862e3fe1be46a994272793"
    assert (life["context"], life["size"]) == ({"tenantId": "acme"}, 812)
    assert life["first_failed"] is not None


def test_a_processed_letter_needs_nothing(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    failed(cloud)
    cloud.recovered("orders", ORIGIN)

    life = told(dlq, ORIGIN)

    assert [place["where"] for place in life["places"]] == ["PROCESSED"]
    assert life["now"] is None


def test_a_letter_that_a_later_receive_processed_needs_nothing(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    failed(cloud)
    DynamoDBLedger(cloud.dynamodb, "letters", "orders", time.time, 86_400).leave_index(ORIGIN)

    life = told(dlq, ORIGIN)

    [place] = life["places"]
    assert (place["where"], life["now"]) == ("PROCESSED", None)
    assert "processed at a later receive" in place["says"]
    assert [step["command"].split()[1] for step in life["steps"]] == ["logs"]


def test_a_letter_whose_queues_are_empty_is_gone(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    cloud.failed("orders", ORIGIN)

    life = told(dlq, ORIGIN)

    assert ([place["where"] for place in life["places"]], life["now"]) == (["GONE"], None)
    assert [step["command"].split()[1] for step in life["steps"]] == ["logs"]


def test_a_letter_that_failed_a_moment_ago_is_not_gone(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    cloud.failed("orders", ORIGIN, at=time.time() - 5)

    assert [place["where"] for place in told(dlq, ORIGIN)["places"]] == ["QUEUE"]


def test_a_letter_that_failed_after_it_was_processed_is_not_processed(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    cloud.recovered("orders", ORIGIN)
    failed(cloud, at=time.time() + 5, attempt=1)

    assert [place["where"] for place in told(dlq, ORIGIN)["places"]] == ["QUEUE"]


def test_a_letter_that_the_consumer_parked_is_parked_and_can_be_released(
    cloud: Cloud, dlq: Dlq
) -> None:
    queues = {"POISON": "later", "schema": "schema"}
    cloud.deploy("orders", settings={**LIBRARY, "parking": queues})
    failed(cloud, category=Category.SCHEMA, error_type="SchemaError", message="no price")
    ledger = DynamoDBLedger(cloud.dynamodb, "letters", "orders", time.time, 86_400)
    ledger.parked(ORIGIN, 0, time.time(), str(Reason.PERMANENT))

    life = told(dlq, ORIGIN)

    [place] = life["places"]
    assert (place["where"], place["because"]) == ("PARKED", "SchemaError: no price")
    assert "Parked as PERMANENT" in place["says"]
    assert place["queue"] == "schema"
    assert life["now"] is None
    assert f'dlq parked release --pipeline orders --id {ORIGIN} --why "<why>"' in [
        step["command"] for step in life["steps"]
    ]


@pytest.mark.parametrize("lane", [circuit_lane("orders"), "rule:slow", PARKED_LANE])
def test_each_suggested_command_brings_the_reason_that_it_needs(
    cloud: Cloud, dlq: Dlq, lane: str
) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    wait(cloud, lane)

    for step in told(dlq, ORIGIN)["steps"]:
        result = dlq(*shlex.split(step["command"])[1:])
        assert "needs a reason" not in result.stderr
        assert "Say when" not in result.stderr
        assert result.exit_code != Exit.USAGE or "add --yes" in result.stderr, result.stderr


def test_a_rescued_letter_is_parked_for_the_reason_that_it_was_parked_for(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders")
    copy = cloud.rescued("orders", "POISON", int(time.time()) - 60)

    [place] = told(dlq, copy)["places"]

    assert (place["where"], place["lane"], place["queue"]) == ("PARKED", "parked", "default")
    assert place["because"] == "it is POISON"


def ticket(cloud: Cloud, run: str, fate: ReplayOutcome) -> None:
    tickets = DynamoDBTickets(
        cloud.dynamodb, "letters", pipeline="orders", run=run, clock=time.time,
        in_parallel=lambda calls: [call() for call in calls],
    )  # fmt: skip
    tickets.put(
        [Ticket(run=run, origin=ORIGIN, copy=COPY, shard=0, position=0, attempt=1,
                at=time.time(), fate=fate)]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fate", "where"),
    [
        (ReplayOutcome.SENT, "RUN"),
        (ReplayOutcome.RECOVERED, "PROCESSED"),
        (ReplayOutcome.DISCARDED, "DISCARDED"),
        (ReplayOutcome.RESTORED, "PARKED"),
        (ReplayOutcome.QUARANTINED, "PARKED"),
        (ReplayOutcome.UNKNOWN, "QUEUE"),
    ],
)
def test_a_replay_run_says_what_became_of_the_letter_it_sent(
    cloud: Cloud, dlq: Dlq, fate: ReplayOutcome, where: str
) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    failed(cloud)
    run = cloud.replay(ReplayRun(id="0123456789abcdef", pipeline="orders", state=RunState.RUNNING))
    ticket(cloud, run.id, fate)

    [place] = told(dlq, ORIGIN)["places"]

    assert place["where"] == where
    assert (place["run"] == run.id) is (where != "QUEUE")


DISCARDS: dict[str, Any] = {
    "source": "parking:default", "destination": "discard", "who": "user/ann", "why": "a wrong line",
}  # fmt: skip


def discard(cloud: Cloud, *, kept: bool = True) -> ReplayRun:
    """A run that has thrown the letter away, as its execution has left it."""
    run = cloud.replay(
        ReplayRun(id="", pipeline="orders", state=RunState.DONE, counts={"DISCARDED": 1}),
        **DISCARDS,
    )
    ticket(cloud, run.id, ReplayOutcome.DISCARDED)
    if kept:
        name = f"replay/orders/{run.id}/discarded/{COPY}.json"
        cloud.s3.put_object(Bucket="letters-bucket", Key=name, Body=b"{}")
    return run


def is_discarded(place: Mapping[str, Any], run: str) -> bool:
    return (place["where"], place["by"], place["because"], place["run"], place["copy"]) == (
        *("DISCARDED", "user/ann", "a wrong line", run, COPY),
    )


@pytest.mark.parametrize("parked_by", ["consumer", "redriver"])
def test_a_discarded_letter_is_said_to_be_discarded_by_whom_when_why_and_where_its_copy_is(
    cloud: Cloud, dlq: Dlq, parked_by: str
) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    failed(cloud, at=time.time() - 900)
    ledger = DynamoDBLedger(cloud.dynamodb, "letters", "orders", time.time, 86_400)
    if parked_by == "consumer":
        ledger.parked(ORIGIN, 1, time.time() - 800, "PERMANENT")
    else:
        ledger.note_parked(ORIGIN, time.time() - 800, "POISON", "")
    run = discard(cloud)

    life = told(dlq, ORIGIN)

    [place] = life["places"]
    assert is_discarded(place, run.id)
    assert place["kept"] == f"s3://letters-bucket/replay/orders/{run.id}/discarded/{COPY}.json"
    assert abs(datetime.fromisoformat(place["since"]).timestamp() - time.time()) < 60
    commands = [step["command"] for step in life["steps"]]
    assert f'dlq parked restore --pipeline orders --id {ORIGIN} --run {run.id} --why "<why>"' in (
        commands
    )
    text = " ".join(dlq("explain", ORIGIN).stdout.split())
    assert f"DISCARDED: Discarded by user/ann, with replay run {run.id}." in text
    assert "because: a wrong line" in text


def test_a_discarded_letter_without_a_copy_is_said_to_have_none(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    failed(cloud, at=time.time() - 900)
    discard(cloud, kept=False)

    life = told(dlq, ORIGIN)

    assert life["places"][0]["kept"] is None
    assert "No copy of it is kept." in life["places"][0]["says"]
    assert not any("restore" in step["command"] for step in life["steps"])


def test_a_letter_that_only_its_discard_knows_is_explained(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("bills", "orders")
    run = discard(cloud)

    assert is_discarded(told(dlq, ORIGIN)["places"][0], run.id)


def test_a_discard_is_found_behind_many_later_runs(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    failed(cloud, at=time.time() - 900)
    run = discard(cloud)
    for number in range(12):
        later = ReplayRun(id=f"{number:016}", pipeline="orders", created=time.time() + number)
        assert cloud.replays("orders").create(later)

    assert is_discarded(told(dlq, ORIGIN)["places"][0], run.id)


def test_a_copy_that_failed_after_a_discard_is_not_said_to_be_discarded(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    discard(cloud)
    failed(cloud, at=time.time() + 5)

    assert [place["where"] for place in told(dlq, ORIGIN)["places"]] == ["QUEUE"]


def test_a_run_is_not_asked_about_a_letter_that_failed_again_since(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    run = cloud.replay(ReplayRun(id="0123456789abcdef", pipeline="orders", state=RunState.DONE))
    ticket(cloud, run.id, ReplayOutcome.RECOVERED)
    failed(cloud, at=time.time() + 5, attempt=2)

    assert [place["where"] for place in told(dlq, ORIGIN)["places"]] == ["QUEUE"]


def test_an_unknown_id_names_what_can_look_into_the_queues(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", "bills")

    result = dlq("explain", "nothing")

    assert result.exit_code == 4
    assert "No letter 'nothing' is on record in bills, orders" in result.stderr
    assert "dlq rules explain ID" in result.stderr


def test_a_malformed_row_is_said_to_be_one(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")
    cloud.put("letters", {"pk": {"S": f"orders#ledger#{ORIGIN}"}, "sk": {"S": "ledger"},
                          "f0_0": {"S": "odd"}})  # fmt: skip

    life = told(dlq, ORIGIN)

    assert "malformed" in life["notes"][0]
    assert life["now"] is None


def test_nothing_is_received_and_no_function_is_called(
    cloud: Cloud, dlq: Dlq, functions: FakeLambda
) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    failed(cloud)
    functions.raises = AssertionError("a function was called")

    assert dlq("explain", ORIGIN).exit_code == 0


def test_a_person_reads_place_decision_history_and_commands(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings=LIBRARY)
    now = time.time()
    failed(cloud, at=now - 3_000, message="no answer\x1b[31m")
    failed(cloud, at=now - 2_000, attempt=1, sent_at=int(now - 2_100),
           sent_because="attempt 1, backoff of 90 s", sent_rule="slow")  # fmt: skip

    result = dlq("explain", ORIGIN)

    assert result.exit_code == 0
    for text in (
        f"Letter {ORIGIN} of orders",
        "QUEUE: In a queue of SQS",
        "If it were judged now: REDRIVE to the main queue",
        "sent back: attempt 1, backoff of 90 s, rule slow",
        r"ReadTimeout: no answer\x1b[31m",
        f"dlq logs {ORIGIN} --pipeline orders",
    ):
        assert text in result.stdout


def test_a_letter_that_waits_for_the_delay_of_a_rule_does_not_wait_for_it_twice(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders")
    everything = '{"pipeline": ["orders"]}'
    cloud.rule("later", pattern=everything, action="DELAYED_REDRIVE", delay_seconds=7_200)
    wait(cloud, delay_lane("later"), because="attempt 1, delay of 7200 s by rule later")

    assert told(dlq, ORIGIN)["now"]["action"] == "REDRIVE"
