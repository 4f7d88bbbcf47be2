"""`dlq search`: letters by content or id, wherever we hold them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deadletter.failure.about_letter import hashed
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.replay.names import Name
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome
from deadletter.routing.decision import Hold
from tests.console.conftest import Cloud, Dlq

TENANT = {"context": {"tenantId": "body.tenantId"}}
RUN = "0123456789abcdef"


def read(dlq: Dlq, *arguments: str, status: int = 0) -> dict[str, Any]:
    result = dlq("search", *arguments, "--json")
    assert result.exit_code == status, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def found(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((match["place"], match["message_id"]) for match in answer["matches"])


def wait(cloud: Cloud, lane: str, copy: str, pipeline: str = "orders", **body: Any) -> None:
    mark = Stamp(f"origin of {copy}", attempt=2)
    letter = Letter(copy, json.dumps(body), {stamps.NAME: stamps.attribute(mark)})
    held = Order(ReceivedLetter(letter, "", 0.0), Hold(lane, 1.0, "test"), mark)
    assert cloud._room(pipeline, cloud.s3).admit([held])


@pytest.fixture
def letters(cloud: Cloud) -> Cloud:
    """A letter in a lane, a large one in S3, a parked one, one in the DLQ, one of a past run."""
    cloud.deploy("orders", settings=TENANT)
    wait(cloud, "due", "small", tenantId="acme", order={"id": 7}, tags=["a", "b"])
    wait(cloud, "circuit:orders", "large", tenantId="acme", order={"id": 8}, text="x" * 9_000)
    cloud.park("orders", "POISON", '{"tenantId": "umbrella", "note": "Straße 7"}')
    cloud.letter('{"tenantId": "acme", "order": {"id": 9}}')
    run = cloud.replay(ReplayRun(id=RUN, pipeline="orders", state=RunState.DONE))
    name = Name(copy="gone", origin="origin of gone", place=("p", "s"), key="00", tenant="acme")
    cloud.snapshot(run, [(name, ReplayOutcome.RECOVERED)])
    return cloud


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        (("--field", "body.order.id=7"), ["lane due"]),
        (("--field", "body.order.id=8"), ["lane circuit:orders"]),
        (("--field", "body.tags=b"), ["lane due"]),
        (("--field", "body.order.id=7", "--tenant", "umbrella"), []),
        (("xxxx",), ["lane circuit:orders"]),
        (("STRASSE",), ["queue parking:default"]),
        (("--tenant", "umbrella"), ["queue parking:default"]),
        (("--tenant", "acme"), ["lane circuit:orders", "lane due", f"snapshot {RUN}"]),
        (("--id", "small"), ["lane due"]),
        (("--id", "origin of small"), ["lane due"]),
        (("--id", "origin of gone"), [f"snapshot {RUN}"]),
        (("--field", "body.order.id=9"), []),
        (("--field", "body.order.id=9", "--dlq"), ["queue dlq"]),
    ],
)
def test_a_letter_is_found_wherever_it_is(
    letters: Cloud, dlq: Dlq, arguments: tuple[str, ...], places: list[str]
) -> None:
    answer = read(dlq, *arguments, status=0 if places else 1)

    assert sorted(match["place"] for match in answer["matches"]) == places
    assert answer["complete"]
    assert letters.visible("orders-parking-default") == 1


def test_a_letter_of_a_snapshot_says_what_became_of_it(letters: Cloud, dlq: Dlq) -> None:
    [match] = read(dlq, "--id", "gone", "--no-queues")["matches"]

    assert (match["outcome"], match["tenant"], match["body"]) == ("RECOVERED", "acme", None)


def test_without_queues_nothing_is_received(letters: Cloud, dlq: Dlq) -> None:
    answer = read(dlq, "--tenant", "umbrella", "--no-queues", status=1)

    assert (answer["matches"], answer["received"]) == ([], 0)
    assert ["parking queues" in place for place in answer["not_searched"]] == [True, False]


def test_a_place_that_was_not_searched_is_named_with_how_to_include_it(
    letters: Cloud, dlq: Dlq
) -> None:
    sought = ("search", "--field", "body.order.id=9")
    shown = dlq(*sought)
    assert shown.exit_code == 1
    assert "Not searched: the DLQ and the dedicated DLQs: add --dlq" in shown.stdout
    assert "Not searched" not in dlq(*sought, "--dlq").stdout
    absent = dlq("search", "nowhere", "--dlq")
    assert (absent.exit_code, "0 letters found" in absent.stdout) == (0, True)


def test_all_pipelines_are_searched_unless_some_are_named(letters: Cloud, dlq: Dlq) -> None:
    letters.deploy("bills")
    wait(letters, "due", "bill", pipeline="bills", order={"id": 7})

    by_id = ("--field", "body.order.id=7")
    assert [match["pipeline"] for match in read(dlq, *by_id)["matches"]] == ["bills", "orders"]
    [match] = read(dlq, *by_id, "--pipeline", "bills")["matches"]
    assert match["pipeline"] == "bills"


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        (("--limit", "1"), "It ended at 1 matches"),
        (("--most", "1"), "It ended at 1 letters"),
    ],
)
def test_a_search_that_ends_early_says_so(
    letters: Cloud, dlq: Dlq, bound: tuple[str, str], words: str
) -> None:
    answer = read(dlq, "--tenant", "acme", *bound, status=1)

    assert not answer["complete"]
    assert words in answer["notes"][0]
    assert "queue parking:default of orders" in answer["not_searched"]


def test_each_place_that_it_did_not_reach_is_named(letters: Cloud, dlq: Dlq) -> None:
    letters.deploy("returns")
    wait(letters, "circuit:orders", "another", tenantId="acme")
    answer = read(dlq, "--tenant", "acme", "--most", "1", "--dlq", status=1)
    assert answer["not_searched"] == [
        "the rest of lane circuit:orders of orders",
        "lane due of orders",
        "the snapshots of replay runs of orders",
        "queue parking:default of orders",
        "queue dlq of orders",
        "pipeline returns",
    ]


def test_the_main_queue_is_named_as_one_that_no_search_looks_into(letters: Cloud, dlq: Dlq) -> None:
    by_text = read(dlq, "nowhere", "--dlq")
    assert by_text["never_searched"] == [
        "the main queue (orders-main), and what consumers have in hand: it is theirs to receive",
        "letters that have left their replay run: snapshots hold ids and tenants, and no content,"
        " so --id and --tenant find them",
    ]
    assert len(read(dlq, "--id", "nowhere", "--dlq")["never_searched"]) == 1
    assert "Never searched: the main queue (orders-main)" in dlq("search", "nowhere").stdout


def test_messages_that_others_have_in_hand_are_counted(letters: Cloud, dlq: Dlq) -> None:
    letters.sqs.receive_message(QueueUrl=letters.urls["orders-dlq"], VisibilityTimeout=600)
    answer = read(dlq, "nowhere", "--dlq", status=1)
    assert answer["notes"] == [
        "1 message of queue dlq of orders could not be seen: in another receiver's hand, or "
        "delayed."
    ]
    assert not answer["complete"]


def test_each_match_is_one_line_of_json(letters: Cloud, dlq: Dlq) -> None:
    result = dlq("search", "--tenant", "acme", "--no-queues", "--jsonl")

    assert result.exit_code == 0
    rows = [json.loads(row) for row in result.stdout.splitlines()]
    assert sorted(row["message_id"] for row in rows) == ["gone", "large", "small"]


@pytest.mark.parametrize(
    ("how", "shown"), [("hashed", hashed("acme", "orders")), ("none", "")], ids=["hashed", "none"]
)
def test_a_tenant_is_shown_as_the_ledger_keeps_it(
    cloud: Cloud, dlq: Dlq, how: str, shown: str
) -> None:
    cloud.deploy("orders", settings={**TENANT, "ledger": how})
    wait(cloud, "due", "small", tenantId="acme")
    run = cloud.replay(ReplayRun(id=RUN, pipeline="orders", state=RunState.DONE))
    name = Name(copy="gone", origin="origin of gone", place=("p", "s"), key="00", tenant="acme")
    cloud.snapshot(run, [(name, ReplayOutcome.RECOVERED)])

    matches = read(dlq, "--tenant", "acme")["matches"]

    assert [match["tenant"] for match in matches] == [shown, shown]
    assert "acme" not in dlq("search", "--tenant", "acme").stdout


def test_a_body_is_shown_only_if_asked_for_and_cannot_control_the_terminal(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders")
    cloud.park("orders", "POISON", "secret \x1b[2J")

    assert "secret" not in dlq("search", "SECRET").stdout
    shown = dlq("search", "SECRET", "--show-body").stdout
    assert r"secret \x1b[2J" in shown
    assert "dlq explain" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Say what to look for"),
        (("--field", "body"), "--field takes PATH=VALUE"),
        (("--field", "body[=1"), "is not JMESPath"),
        (("x", "--dlq", "--no-queues"), "exclude each other"),
    ],
)
def test_what_cannot_be_searched_for_is_refused(
    letters: Cloud, dlq: Dlq, arguments: tuple[str, ...], words: str
) -> None:
    result = dlq("search", *arguments)

    assert result.exit_code == 2
    assert words in result.stderr
