"""`dlq list`: messages wherever they lie, without taking one."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations import aws, places
from console.operations.places import COST
from console.operations.places import place as place_of
from console.operations.selection import choice
from console.operations.session import Session
from console.operations.sources import chosen
from deadletter.failure.cause_index import hashed
from deadletter.failure.ledger import AboutLetter
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.replay.names import Name
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome
from deadletter.rules.business_key import digest_of
from tests.console.conftest import REGION, Cloud, Dlq
from tests.each_row import each_row

SETTINGS = {"context": {"tenantId": "body.tenantId"}, "idempotency_key": "body.order.id"}
RUN = "0123456789abcdef"
PARKED, DLQ, MAIN = "parked", "dlq", "main"


def read(dlq: Dlq, line: str = "", status: int = 0) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(dlq(f"list {line} --json", ends=status).stdout)
    return answer


def not_searched(answer: dict[str, Any]) -> list[tuple[str, int]]:
    return [(each["place"], each["messages"]) for each in answer["not_searched"]]


def wait(cloud: Cloud, lane: str, copy: str, pipeline: str = "orders", **body: Any) -> None:
    """A message in a lane of the waiting room."""
    key = digest_of(body["order"]["id"]) if "order" in body else ""
    mark = Stamp(f"origin of {copy}", attempt=2, at=int(time.time()) - 60, key=key)
    letter = Letter(copy, json.dumps(body), {stamps.NAME: stamps.attribute(mark)})
    due, because = time.time() + 600, f"{lane} is to end"
    cloud.admit(lane, letter, mark, due=due, because=because, pipeline=pipeline)


def received(cloud: Cloud, queue: str) -> str:
    """How often the first message of a queue has been received, this receive included."""
    [message] = cloud.sqs.receive_message(
        QueueUrl=cloud.urls[queue], VisibilityTimeout=0, MessageSystemAttributeNames=["All"]
    )["Messages"]
    return str(message["Attributes"]["ApproximateReceiveCount"])


def named(copy: str) -> Name:
    """A message as its run names it."""
    return Name(copy=copy, origin=f"origin of {copy}", place=("p", "s"), key="00", tenant="acme")


@pytest.fixture
def held(cloud: Cloud) -> Cloud:
    """Messages that wait, a large one in S3; one parked, one in the DLQ, one on record, one of a
    past run, one discarded.
    """
    cloud.deploy("orders", settings=SETTINGS)
    wait(cloud, "due", "small", tenantId="acme", order={"id": "A-7"}, tags=["a", "b"])
    wait(cloud, "circuit:orders", "large", tenantId="acme", order={"id": "A-8"}, text="x" * 9_000)
    cloud.park("orders", "POISON", '{"tenantId": "umbrella", "note": "Straße 7"}', rule="stop-it")
    cloud.letter('{"tenantId": "acme", "order": {"id": "A-9"}}')
    about = AboutLetter({"tenantId": "cedar"}, size=20)
    cloud.failed("orders", "on-record", about, error_type="ReadTimeout", message="no answer",
                 fingerprint="9c1f08e2aaaa")  # fmt: skip
    run = cloud.replay(ReplayRun(id=RUN, pipeline="orders", state=RunState.DONE))
    cloud.snapshot(run, [(named("gone"), ReplayOutcome.RECOVERED)])
    cloud.discarded(RUN, Letter("thrown", "{}"), Stamp("origin of thrown"))
    return cloud


FOUND = {
    "": ["circuit:orders", "main or dlq", "time"],
    "--look": ["circuit:orders", "dlq", "main or dlq", PARKED, "time"],
    "small": ["time"],
    "'origin of small'": ["time"],
    "A-7": ["time"],
    "A-9 --look": ["dlq"],
    "gone": [f"run:{RUN}"],
    f"--in run:{RUN}": [f"run:{RUN}"],
    "--in run:0123": [f"run:{RUN}"],
    "--in waiting": ["circuit:orders", "time"],
    "--in time": ["time"],
    "--in circuit:orders": ["circuit:orders"],
    "--in parked --look": [PARKED],
    "--in dlq --look": ["dlq", "main or dlq"],
    # What is in no lane waits for no cause, and is of its other place all the same.
    "--in cause:9c1f08e2 --in dlq --look": ["dlq", "main or dlq"],
    "--in main": ["main or dlq"],
    "--in discarded": ["discarded"],
    "-f body.order.id=A-8": ["circuit:orders"],
    "-f body.order.id=A-9 --look": ["dlq"],
    "-f body.tags=b": ["time"],
    "-f body.order.id=A-7 -f tenant=umbrella": [],
    "-f text~xxxx": ["circuit:orders"],
    "-f text~STRASSE --look": [PARKED],
    "-f text~ANSWER": ["main or dlq"],
    "-f tenant=umbrella --look": [PARKED],
    "-f tenant=cedar": ["main or dlq"],
    "-f tenant~eda": ["main or dlq"],
    "-f error=ReadTimeout": ["main or dlq"],
    "-f cause=9c1f08e2": ["main or dlq"],
    "-f outcome=recovered": [f"run:{RUN}"],
    "-f reason=POISON --look": [PARKED],
    "-f rule=stop-it --look": [PARKED],
    "-f attempt=2 --in waiting": ["circuit:orders", "time"],
    "-f 'size>5000' --in waiting --body": ["circuit:orders"],
    "-f 'age>30m' --in main": ["main or dlq"],
    "-f 'age<30m' --in main": [],
    "-f since=30m --in main": [],
    "-f until=30m --in main": ["main or dlq"],
    # A message without a stamp was sent when SQS got it.
    "-f since=30m --in dlq --look": ["dlq"],
    "-f until=30m --in dlq --look": ["main or dlq"],
}


LANES = ("due", "delay:slow", "rule:stop", "circuit:bank", "dedicated:vip", f"run:{RUN}")


@each_row(
    ("place", "lanes"),
    [
        ("waiting", ["circuit:bank", "delay:slow", "due", "rule:stop"]),
        ("time", ["delay:slow", "due"]),
        ("rule:stop", ["rule:stop"]),
        ("circuit:bank", ["circuit:bank"]),
        ("dedicated", ["dedicated:vip"]),
        ("dedicated:vip", ["dedicated:vip"]),
    ],
)
def test_what_is_listed_at_a_place_is_what_is_taken_from_it(
    cloud: Cloud, dlq: Dlq, place: str, lanes: list[str]
) -> None:
    cloud.deploy("orders", dedicated=("vip",))
    for lane in LANES:
        wait(cloud, lane, f"copy in {lane}")
    answer = json.loads(dlq(f"list --in {place} --json").stdout)
    listed = [str(each["current_id"]).removeprefix("copy in ") for each in answer["messages"]]
    # What a run has is its own.
    assert sorted(lane for lane in listed if not lane.startswith("run:")) == lanes
    session = Session(partial(aws.connect, None, REGION), "deadletter", time.time)
    taken = chosen(session, choice((), [place_of(place)], everything=True), "orders")
    assert sorted(each.lane for each in taken.sources if each.lane) == lanes


@each_row("typed", FOUND)
def test_a_message_is_found_wherever_it_is(held: Cloud, dlq: Dlq, typed: str) -> None:
    answer = json.loads(dlq(f"list {typed} --json").stdout)

    assert sorted(each["place"] for each in answer["messages"]) == FOUND[typed]
    assert answer["matching"] == len(FOUND[typed])
    assert held.visible("orders-parking-default") == held.visible("orders-dlq") == 1


def test_without_a_look_nothing_is_received_and_each_queue_is_named_with_its_cost(
    held: Cloud, dlq: Dlq
) -> None:
    held.letter("{}", queue="orders-main")
    answer = read(dlq)
    assert answer["received"] == 0
    assert not_searched(answer) == [(DLQ, 1), (PARKED, 1), (MAIN, 1)]
    assert {each["why"] for each in answer["not_searched"][:2]} == {COST}
    assert received(held, "orders-dlq") == received(held, "orders-parking-default") == "1"
    never = "Not searched: main (1)\n  never searched: a receive would count as a failed"
    dlq("list", says=(f"Not searched: dlq (1), parked (1)\n  {COST}\n", never))


def test_a_look_gives_back_what_it_receives_and_says_that_sqs_counts_it(
    held: Cloud, dlq: Dlq
) -> None:
    answer = read(dlq, "--look")
    assert (answer["received"], answer["not_given_back"]) == (2, 0)
    assert "SQS counts each look" in answer["notes"][-1]
    assert received(held, "orders-dlq") == "2"


def test_nothing_found_is_sure_only_if_all_was_searched(held: Cloud, dlq: Dlq) -> None:
    for line, sure in (("nowhere", False), ("nowhere --look", True)):
        answer = read(dlq, line, status=Exit.DONE if sure else Exit.ATTENTION)
        assert (answer["matching"], answer["is_sure"]) == (0, sure)
    # What records can't tell, and what others have in hand.
    answer = read(dlq, "-f body.order.id=A-1 --in dlq --look", status=1)
    assert not_searched(answer) == [("main or dlq", 1)]
    assert "do not say whether they match" in answer["not_searched"][0]["why"]
    held.sqs.receive_message(QueueUrl=held.urls["orders-dlq"], VisibilityTimeout=600)
    assert not_searched(read(dlq, "nowhere --look", status=1)) == [(DLQ, 1)]


@each_row(
    ("term", "near"),
    [
        ("tenant=Cedar", "tenant=cedar (1)"),
        ("tenant=acm", "tenant=acme (2)"),
        ("error=ReadTimeOut", "error=ReadTimeout (1)"),
    ],
)
def test_a_value_that_nothing_has_names_the_nearest_one(
    held: Cloud, dlq: Dlq, term: str, near: str
) -> None:
    assert read(dlq, f"-f {term}", status=1)["did_you_mean"] == [near]
    assert f"Did you mean {near}?" in dlq("list -f", term).stdout


OUTCOMES = {"open": 3, "failed": 2, "quarantined": 1, "processed": 1, "Stopped": 1, "left": 0}


@each_row(("outcome", "messages"), OUTCOMES.items())
@pytest.mark.parametrize("where", [f"--in run:{RUN}", ""])
def test_an_outcome_finds_what_its_run_counts(
    cloud: Cloud, dlq: Dlq, where: str, outcome: str, messages: int
) -> None:
    """Also of what waits in the run still, or has waited elsewhere under the same ID since."""
    if not cloud.is_deployed:
        cloud.deploy("bills", "orders", settings=SETTINGS)
        run = cloud.replay(ReplayRun(id=RUN, pipeline="orders", state=RunState.HELD))
        cloud.replay(ReplayRun(id="ab" * 8, pipeline="orders", state=RunState.ABORTED), why="x")
        fates = [ReplayOutcome.OPEN] * 3 + [ReplayOutcome.PARKED, ReplayOutcome.QUARANTINED]
        fates += [ReplayOutcome.STOPPED, ReplayOutcome.DUPLICATE]
        lanes = ["run:" + RUN] * 3 + ["", "parked", "rule:stop", ""]
        cloud.snapshot(run, [(named(f"m-{at}"), fate) for at, fate in enumerate(fates)])
        for at, lane in enumerate(lanes):
            wait(cloud, lane, f"m-{at}") if lane else None
    assert read(dlq, f"{where} -f outcome={outcome}")["matching"] == messages


@each_row(
    ("line", "status", "says"),
    [
        ("--in parked -f outcome=failed", Exit.USAGE, "--in run:ID"),
        ("-f outcome=god", Exit.USAGE, "There is no outcome 'god'."),
        ("--in run:beef", Exit.ABSENT, "There is no run 'beef'"),
        ("--in dedicated:vip", Exit.ABSENT, "orders has no dedicated:vip"),
        ("-f by=ann", Exit.USAGE, "asked of dlq audit"),
    ],
)
def test_what_can_not_be_listed_is_said(
    held: Cloud, dlq: Dlq, line: str, status: Exit, says: str
) -> None:
    dlq(f"list {line}", ends=status, refuses=says)


def test_a_place_where_nothing_waits_names_the_nearest_one(held: Cloud, dlq: Dlq) -> None:
    [note] = read(dlq, "--in circuit:ordres")["notes"]
    assert note == "Nothing of orders waits for circuit:ordres. Did you mean circuit:orders?"


def test_each_place_says_what_its_messages_wait_for(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")
    for lane, letters in (("rule:stop", 30), ("delay:stop", 2), ("run:4f0c", 1)):
        cloud.waiting("orders", lane, letters, due=4_000_000_000)
    answer = read(dlq, "--in waiting --limit 5")
    assert [(each["place"], each["messages"]) for each in answer["searched"]] == [
        ("rule:stop", 2), ("rule:stop", 30), ("run:4f0c", 1),
    ]  # fmt: skip
    page = dlq("list --in rule:stop").stdout
    assert "30  rule:stop: for rule stop to end, or to let them go" in page
    assert "2  rule:stop: for the delay that rule stop gave them, the first at" in page
    assert len(read(dlq, "--in rule:stop --limit 100")["messages"]) == 32


def test_a_waiting_message_with_a_record_is_listed_once_and_found_by_its_cause(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders")
    for copy in ("one", "two"):
        wait(cloud, "due", copy)
        facts = {"error_type": "KeyError", "message": "no price", "fingerprint": f"{copy}00000"}
        cloud.failed("orders", f"origin of {copy}", **facts)
    assert (len(read(dlq)["messages"]), read(dlq, "--in main")["messages"]) == (2, [])
    [message] = read(dlq, "--in cause:one0")["messages"]
    assert (message["message_id"], message["current_id"]) == ("origin of one", "one")
    said = (message["place"], message["error_type"], message["text"], message["attempts"])
    assert said == ("time", "KeyError", "no price", 2)
    assert message["because"] == "due is to end"


def test_an_id_that_no_place_has_is_told_of_by_its_record(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")
    cloud.failed("orders", "first")
    cloud.recovered("orders", "first")
    answer = read(dlq, "first")
    assert answer["notes"][0] == "first is processed, by its record. Its story:\ndlq show first"
    assert "--in discarded" in answer["notes"][1]


@pytest.mark.parametrize("ledger", ["plain", "hashed", "none"])
def test_a_tenant_is_shown_as_the_ledger_keeps_it(cloud: Cloud, dlq: Dlq, ledger: str) -> None:
    cloud.deploy("orders", settings={**SETTINGS, "ledger": ledger})
    kept = {"plain": "acme", "hashed": hashed("acme", "orders"), "none": ""}[ledger]
    wait(cloud, "due", "small", tenantId="acme")
    cloud.failed("orders", "on-record", AboutLetter({"tenantId": kept} if kept else {}, size=1))
    answer = read(dlq, "-f tenant=acme")
    expected = [kept] if ledger == "none" else [kept, kept]
    assert [each["tenant"] for each in answer["messages"]] == expected
    assert ("acme" in json.dumps(answer)) == (ledger == "plain")


def test_a_business_id_is_known_by_the_stamp_and_by_the_context(cloud: Cloud, dlq: Dlq) -> None:
    settings = {**SETTINGS, "context": {"order": "body.order.id"}}
    cloud.deploy("orders", settings=settings)
    cloud.park("orders", "POISON", key="default", origin="a")
    cloud.failed("orders", "on-record", AboutLetter({"order": "A-1"}))
    cloud.admit("due", Letter("copy", "{}"), Stamp("b", at=1, key=digest_of("A-1")), due=9e9)
    answer = read(dlq, "A-1")
    assert sorted(each["message_id"] for each in answer["messages"]) == ["b", "on-record"]


def test_parked_messages_say_why_and_those_saved_from_expiry_come_first(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders", parking=["default", "legal"])
    cloud.park("orders", "POISON", rule="stop", at=1_795_000_000)
    cloud.park("orders", "PERMANENT", key="legal")
    saved = cloud.rescued("orders", "EXPIRED", 1_000, origin="another")
    answer = read(dlq, "--in parked --look")
    found = {each["place"]: each for each in answer["messages"]}
    assert list(found) == ["parked", "parked:default", "parked:legal"]
    assert found["parked"]["current_id"] == saved
    poisoned = found["parked:default"]
    assert (poisoned["reason"], poisoned["because"], poisoned["rule"], poisoned["attempts"]) == (
        "POISON", "it is POISON", "stop", 3,
    )  # fmt: skip
    [only] = read(dlq, "--in parked:legal --look")["messages"]
    assert only["reason"] == "PERMANENT"


def test_no_more_are_listed_or_received_than_asked_for(cloud: Cloud, dlq: Dlq) -> None:
    cloud.deploy("orders")
    for number in range(25):
        cloud.park("orders", "POISON", origin=f"first-{number}")
    few = read(dlq, "--in parked --look --limit 3")
    assert (len(few["messages"]), few["matching"], few["searched"][0]["messages"]) == (3, 25, 25)
    assert few["received"] == 3
    every = read(dlq, "--in parked --look --limit 100")
    assert len({each["current_id"] for each in every["messages"]}) == 25
    assert cloud.visible("orders-parking-default") == 25


@each_row("line", ["--look", "--in dlq --look", f"--in run:{RUN}"])
def test_a_message_is_counted_once_where_a_few_of_many_are_read(
    cloud: Cloud, dlq: Dlq, line: str
) -> None:
    """By SQS's estimate or its lane's count, not by its record or its run's list again."""
    if not cloud.is_deployed:
        cloud.deploy("orders")
        run = cloud.replay(ReplayRun(id=RUN, pipeline="orders", state=RunState.HELD))
        cloud.snapshot(run, [(named(f"m-{at}"), ReplayOutcome.OPEN) for at in range(25)])
        for at in range(25):
            cloud.failed("orders", cloud.letter("{}"))
            wait(cloud, f"run:{RUN}", f"m-{at}")
    of_queues = 25 if line != "--look" else 50
    answer = read(dlq, line)
    assert (answer["matching"], answer["is_at_least"]) == (of_queues, True)


def test_a_file_has_all_messages_whole_and_only_its_owner_reads_it(
    cloud: Cloud, dlq: Dlq, tmp_path: Path
) -> None:
    cloud.deploy("orders", parking=["default", "legal"])
    cloud.park("orders", "POISON", body="one", key="legal", origin="a")
    for number in range(12):
        cloud.park("orders", "EXPIRED", body="more", origin=f"b-{number}")
    cloud.rescued("orders", "POISON", 1_000, origin="c")
    cloud.failed("orders", "on-record")
    file = tmp_path / "found.jsonl"
    answer = read(dlq, f"--look --limit 1 --out {file}")
    assert (answer["matching"], answer["written"], len(answer["messages"])) == (15, 14, 1)
    assert "Not in the file, as only a record of it was read: 1." in answer["notes"]
    rows = [json.loads(row) for row in file.read_text().splitlines()]
    assert {(row["place"], row["body"]) for row in rows} == {
        ("parked", "{}"), ("parked:legal", "one"), ("parked:default", "more"),
    }  # fmt: skip
    assert "Redrive" in rows[1]["attributes"]
    assert file.stat().st_mode & 0o077 == 0
    dlq("list --out", str(file), ends=Exit.USAGE, refuses="is there already")


def test_a_queue_needs_no_app_but_a_look(cloud: Cloud, dlq: Dlq) -> None:
    cloud.queue("billing-dlq")
    for number in range(4):
        cloud.letter(json.dumps({"tenantId": f"t-{number}"}), queue="billing-dlq")
    cloud.letter("{}", queue="billing-dlq", ERROR_CODE="NO_RESOURCE", ERROR_MESSAGE="no queue")
    unsearched = read(dlq, "--in queue:billing-dlq", status=1)["not_searched"]
    assert [(each["place"], each["messages"]) for each in unsearched] == [("queue:billing-dlq", 5)]
    assert unsearched[0]["why"] == COST
    answer = read(dlq, "--in queue:billing-dlq --look -f tenant=t-2 --body")
    assert [each["body"] for each in answer["messages"]] == ['{"tenantId": "t-2"}']
    page = dlq("list --in queue:billing-dlq --look").stdout
    assert "    NO_RESOURCE: no queue\n" in page
    assert cloud.visible("billing-dlq") == 5


def test_all_pipelines_are_listed_unless_some_are_named(held: Cloud, dlq: Dlq) -> None:
    held.deploy("bills", settings=SETTINGS)
    wait(held, "due", "bill", pipeline="bills", order={"id": "A-7"})
    assert [each["pipeline"] for each in read(dlq, "A-7")["messages"]] == ["bills", "orders"]
    [message] = read(dlq, "A-7 -p bills")["messages"]
    assert message["pipeline"] == "bills"


def test_a_list_that_ends_early_says_so(
    held: Cloud, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MOST", 1)
    answer = read(dlq, "-f tenant=acme --look", status=1)
    assert (answer["is_sure"], answer["is_at_least"]) == (False, True)
    places_left = [place for place, _ in not_searched(answer)]
    assert places_left == ["time", DLQ, PARKED, "main or dlq"]


def test_a_body_is_shown_only_if_asked_for_and_cannot_control_the_terminal(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders")
    wait(cloud, "due", "copy", secret="\x1b[2J", more="y" * 3_000)
    cloud.park("orders", "\x1b[2J", body="a\x9b0;x\x85\nb\u202e", because="\x9b31m", rule="\r")
    assert "secret" not in dlq("list --look").output
    page = dlq("list --look --body").stdout
    assert all(character == "\n" or character.isprintable() for character in page)
    assert r"a\x9b0;x\x85\nb\u202e" in page
    assert "more characters: see --json" in page
