"""`dlq retry`: what is counted, what a person agrees to, and what is started."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations import edits
from deadletter.aws.dynamodb import plain
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.circuit.state import State
from deadletter.contract import run_lane
from deadletter.message.letter import Attribute, Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import key_of
from deadletter.redrive.order import Order
from deadletter.redrive.redriver import LEASE_HELD
from deadletter.redrive.waiting_room import WaitingRoomEntry
from deadletter.replay.names import Name, key_hash
from deadletter.replay.plan import KeyPolicy
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome
from deadletter.routing.decision import Hold
from tests.console.cli.test_discard import counted, plans
from tests.console.cli.test_replay_report import OUTCOMES, RUN, run
from tests.console.conftest import BUCKET

WHY = ("--reason", "fixed in 4.2.1", "--yes")
SETTINGS = {
    "consumer_library": True,
    "context": {"tenantId": "body.tenant"},
    "idempotency_key": "body.order",
}
LATER = 4e9


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    cloud.deploy("orders", settings=SETTINGS, context=["tenantId"])
    functions.configure("orders", **SETTINGS)
    functions.routes = True
    return cloud


def failed(cloud: Any, tenant: str = "acme", **failure: Any) -> str:
    """A message in the DLQ whose consumer recorded a failure."""
    sent: str = cloud.letter(json.dumps({"tenant": tenant, "card": "4111-x"}))
    cloud.failed("orders", sent, **{"error_type": "KeyError", "fingerprint": "f1aaaaaa", **failure})
    return sent


def said(dlq: Any, *words: str) -> str:
    """The plan, as --dry-run says it."""
    done = dlq("retry", *words, "--dry-run", "--json")
    assert done.exit_code == Exit.DONE, done.output
    return "\n".join(json.loads(done.stdout)["would"])


def received(cloud: Any) -> int:
    """How often the first message of the DLQ was received before this."""
    (message,) = cloud.sqs.receive_message(
        QueueUrl=cloud.urls["orders-dlq"], AttributeNames=["All"], VisibilityTimeout=0
    )["Messages"]
    return int(message["Attributes"]["ApproximateReceiveCount"]) - 1


# What is chosen.


def test_one_plan_takes_messages_from_wherever_they_lie(
    orders: Any, functions: Any, dlq: Any
) -> None:
    in_queue = failed(orders)
    failed(orders, fingerprint="f2bbbbbb")
    orders.park("orders", "POISON", origin="parked")
    orders.failed("orders", "parked", fingerprint="f1aaaaaa")
    ledger = DynamoDBLedger(orders.dynamodb, "letters", "orders", time.time, 86_400)
    ledger.note_parked("parked", time.time(), "POISON", "")
    orders.waiting("orders", "due", 2, due=LATER)
    done = dlq("retry", "-f", "cause=f1aa", *WHY, "--json")
    assert done.exit_code == Exit.DONE, done.output
    answer = json.loads(done.stdout)
    assert (answer["messages"], answer["due"], answer["reason"]) == (2, 0, "fixed in 4.2.1")
    assert [run["state"] for run in answer["runs"]] == ["DONE", "DONE"]
    made = plans(orders)
    assert counted(orders, made["dlq"].run_id) == {key_of(in_queue)}
    assert counted(orders, made["parking:default"].run_id) == {key_of("parked")}
    for plan in made.values():
        assert (plan.destination, plan.why, plan.hold) == ("main", "fixed in 4.2.1", False)
    assert len(functions.machine.started) == 2


def test_a_cause_is_counted_from_the_records_and_no_message_is_received(
    orders: Any, dlq: Any
) -> None:
    failed(orders)
    text = said(dlq, "--in", "dlq", "-f", "cause=f1", "-f", "error=KeyError")
    assert "Send 1 message of orders again: 1 in the DLQ." in text
    assert "Last failures: 1 KeyError (f1aaaaaa)." in text
    assert "Counted from the records" in text
    assert received(orders) == 0


def test_what_no_record_tells_is_received_once_and_that_is_said(orders: Any, dlq: Any) -> None:
    failed(orders, "acme")
    text = said(dlq, "--in", "dlq", "-f", "tenant=acme")
    assert "1 message of the DLQ received to count them: adds 1 to each receive count." in text
    assert received(orders) == 1
    assert not plans(orders)


def test_all_of_a_dlq_takes_what_died_without_a_record(orders: Any, dlq: Any) -> None:
    failed(orders)
    orders.letter("{}")
    assert "Send 2 messages of orders again: 2 in the DLQ." in said(dlq, "--in", "dlq", "--all")


@pytest.mark.parametrize(
    ("choice", "due"),
    [
        (("--in", "rule:later"), {"delay:later": 2}),
        (("--in", "rule:stop"), {"rule:stop": 3}),
        (("--in", "time", "--all"), {"delay:later": 2, "due": 1}),
        (("--in", "waiting", "--all"), {"delay:later": 2, "due": 1, "rule:stop": 3}),
        (("rule:stop-1",), {"rule:stop": 1}),
    ],
)
def test_what_waits_is_due_now_and_no_others(
    orders: Any, functions: Any, dlq: Any, choice: tuple[str, ...], due: dict[str, int]
) -> None:
    for lane, number in (("delay:later", 2), ("rule:stop", 3), ("due", 1)):
        orders.waiting("orders", lane, number, due=LATER)
    done = dlq("retry", *choice, *WHY, "--json")
    assert done.exit_code == Exit.DONE, done.output
    assert json.loads(done.stdout)["due"] == sum(due.values())
    rows = [plain(row) for row in orders.dynamodb.scan(TableName="letters")["Items"]]
    changed = [row for row in rows if "lane" in row and 0 < row["due"] < LATER]
    lanes = [row["lane"].split("|")[1] for row in changed]
    assert {lane: lanes.count(lane) for lane in lanes} == due
    assert not functions.machine.started


def test_a_rule_in_force_is_named_with_what_lifts_it(orders: Any, dlq: Any) -> None:
    orders.waiting("orders", "rule:stop", 3, due=LATER)
    orders.rule("stop", tenantId="a", action="HOLD")
    orders.rule("block", tenantId="acme", action="QUARANTINE")
    orders.rule("other", tenantId="b", action="QUARANTINE", enabled=False)
    text = said(dlq, "--in", "rule:stop")
    assert "Rule stop is in force: what it matches waits again." in text
    assert "\n  dlq rules disable stop" in text
    failed(orders, "acme")
    refused = dlq("retry", "--in", "dlq", "-f", "tenant=acme", *WHY)
    assert refused.exit_code == Exit.ABSENT
    assert "1 message not included: QUARANTINED, by block." in refused.stderr
    assert "dlq rules disable block" in refused.stderr


def test_an_open_circuit_is_named_with_what_lifts_it(orders: Any, dlq: Any) -> None:
    orders.circuit("orders", "orders", State.OPEN)
    orders.park("orders", "POISON")
    text = said(dlq, "--in", "parked", "--all")
    assert "Circuit orders is OPEN" in text
    assert "dlq circuit close orders --expires 10m" in text


def test_a_message_is_found_by_each_of_its_ids(orders: Any, dlq: Any) -> None:
    sent = orders.park("orders", "POISON", '{"order": "A-4711"}', origin="first-a")
    orders.park("orders", "POISON", origin="first-b")
    for id_ in (sent, "first-a", "A-4711"):
        assert "They are first-a." in said(dlq, id_)


def test_expired_messages_stay_and_a_conflict_needs_a_word(orders: Any, dlq: Any) -> None:
    orders.park("orders", "EXPIRED", origin="expired", first_sent=1_600_000_000_000)
    refused = dlq("retry", "--in", "parked", "--all", *WHY)
    assert (refused.exit_code, "EXPIRED: never sent" in refused.stderr) == (Exit.ABSENT, True)
    orders.park("orders", "KEY_CONFLICT", origin="a")
    refused = dlq("retry", "--in", "parked", "--all", *WHY)
    assert (refused.exit_code, "--accept-conflict" in refused.stderr) == (Exit.USAGE, True)
    done = dlq("retry", "--in", "parked", "--all", "--accept-conflict", *WHY)
    assert done.exit_code == Exit.DONE, done.output
    assert "1 message not included: EXPIRED" in done.stdout
    assert plans(orders)["parking:default"].accept == "collision"


def test_a_plan_takes_what_a_person_sets(orders: Any, functions: Any, dlq: Any) -> None:
    orders.park("orders", "POISON", origin="a")
    options = ("--to", "deliver", "--rate", "3", "--stop-on-failure", "--approve", "--hold")
    text = said(dlq, "--in", "parked", "--all", *options)
    assert "A second person has to approve it" in text
    dlq("retry", "--in", "parked", "--all", *options, *WHY)
    plan = plans(orders)["parking:default"]
    assert (plan.destination, plan.rate, plan.approve, plan.hold) == ("deliver", 3.0, True, True)
    assert plan.on_failure is KeyPolicy.STOP
    unknown = dlq("retry", "--in", "parked", "--all", "--to", "nowhere", *WHY)
    assert (unknown.exit_code, "no destination" in unknown.stderr) == (Exit.ABSENT, True)


@pytest.mark.parametrize(
    ("choice", "status", "text"),
    [
        ((), Exit.USAGE, "Say which messages"),
        (("-f", "reason=EXPIRED"), Exit.ABSENT, "Not looked through: the main queue"),
        (("--in", "discarded", "--all"), Exit.USAGE, "come back by\n  dlq restore ID\n"),
        (("--edit", "--patch", "/dev/null", "a"), Exit.USAGE, "one of --edit and --patch"),
        (("--again", "a"), Exit.USAGE, "--in run:ID"),
        (("--auto", "-f", "tenant=a"), Exit.USAGE, "--auto takes all that is due"),
        (("--auto", "--in", "parked"), Exit.USAGE, "the automatic retry reads DLQs"),
    ],
)
def test_what_can_not_be_sent_is_said(
    orders: Any, functions: Any, dlq: Any, choice: tuple[str, ...], status: Exit, text: str
) -> None:
    orders.park("orders", "POISON")
    done = dlq("retry", *choice, *WHY)
    assert (done.exit_code, text in done.stderr) == (status, True), done.stderr
    assert not functions.machine.started


def test_a_retry_is_agreed_to(orders: Any, functions: Any, dlq: Any, at_a_terminal: None) -> None:
    orders.park("orders", "POISON", origin="a")
    done = dlq("retry", "--in", "parked", "--all", answers="fixed\nn\n")
    for text in (
        "App deadletter in account 123456789012",
        "Send 1 message of orders again: 1 in parking queue default.",
        "Parked for 1 POISON.",
        "First 1, 2, 5, 20, then up to 5/s",
        "Nothing was done.",
    ):
        assert text in done.stderr
    assert not functions.machine.started


# Runs.


def test_failed_messages_of_a_run_are_taken_from_where_they_are(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    orders.snapshot(run(), OUTCOMES)
    for origin in ("d", "another"):
        orders.park("orders", "PERMANENT", origin=origin)
    done = dlq("retry", "--in", f"run:{RUN[:6]}", "-f", "outcome=failed", *WHY)
    assert done.exit_code == Exit.DONE, done.output
    plan = plans(orders)["parking:default"]
    assert counted(orders, plan.run_id) == {key_of("d")}
    text = said(dlq, "--in", f"run:{RUN}", "-f", "outcome=failed")
    assert "1 message of 2 are not parked, and not sent" in text


def test_what_a_run_took_is_made_anew_with_a_new_key(orders: Any, functions: Any, dlq: Any) -> None:
    orders.replay(run())
    orders.snapshot(run(), OUTCOMES)
    keep(orders)
    text = said(dlq, "--in", f"run:{RUN}", "--again")
    assert "6 messages of run 4f0c1b2a3d4e5f60 would be made anew" in text
    assert "3 of 6 were processed before: the consumer processes them once more" in text
    done = dlq("retry", "a", "d", "--in", f"run:{RUN}", "--again", *WHY)
    assert done.exit_code == Exit.DONE, done.output
    plan = plans(orders)[f"originals:{RUN}"]
    assert (plan.accept, plan.counted, plan.why) == ("again", 2, "fixed in 4.2.1")
    assert counted(orders, plan.run_id) == {key_of("a"), key_of("d")}


def keep(cloud: Any, of: str = RUN) -> None:
    """The messages of a run, as it took them."""
    cloud.s3.put_object(Bucket=BUCKET, Key=f"originals/orders/{of}/a.jsonl.gz", Body=b"")


@pytest.mark.parametrize(
    ("state", "options", "status", "text"),
    [
        (RunState.RUNNING, (), Exit.ATTENTION, "only what an ended run took"),
        (RunState.DONE, ("-f", "outcome=god"), Exit.USAGE, "There is no outcome 'god'."),
        (RunState.DONE, ("-f", "tenant=a"), Exit.USAGE, "by ID or -f outcome=failed"),
        (RunState.DONE, ("-f", "outcome=left"), Exit.ABSENT, "has no such message"),
        (RunState.DONE, ("--again",), Exit.ABSENT, "replay_days are over"),
    ],
)
def test_what_can_not_be_sent_of_a_run_is_said(
    orders: Any, dlq: Any, state: RunState, options: tuple[str, ...], status: Exit, text: str
) -> None:
    orders.replay(run(state))
    orders.snapshot(run(), OUTCOMES[:2])
    done = dlq("retry", "--in", f"run:{RUN}", *options, *WHY)
    assert (done.exit_code, text in done.stderr) == (status, True), done.stderr


# Automatic runs.

REPORT = {
    "ended_well": True, "stopped": "the source is empty", "received": 128, "moved": 120,
    "decisions": {"REDRIVE": 1_100, "PARK:POISON": 8}, "failed": 0, "left": 8,
}  # fmt: skip


@pytest.mark.parametrize("word", ["retry", "redrive"])
def test_the_automatic_retry_is_run_now(cloud: Any, functions: Any, dlq: Any, word: str) -> None:
    """AWS's word runs the same command."""
    cloud.deploy("orders", dedicated=["vip"])
    functions.report = REPORT
    done = dlq(word, "--auto", *WHY)
    assert done.exit_code == Exit.DONE, done.output
    assert functions.invoked[-1] == (
        "orders-redrive", {"source": "dlq", "dry_run": False, "asked": True},
    )  # fmt: skip
    for text in ("120 messages of orders", "ended because: the source is empty", "PARK:POISON: 8"):
        assert text in done.stdout
    dlq(word, "--auto", "--in", "dedicated:vip", *WHY)
    assert functions.invoked[-1][1]["source"] == "vip"


def test_a_dry_run_of_it_says_what_it_would_decide(cloud: Any, functions: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    letter = {"message_id": "m-1", "action": "PARK", "reason": "POISON", "because": "it fails"}
    functions.report = {**REPORT, "messages": [letter]}
    text = said(dlq, "--auto")
    assert "m-1 PARK POISON: it fails" in text
    assert [event["dry_run"] for _, event in functions.invoked] == [True]


@pytest.mark.parametrize(
    "report",
    [
        {**REPORT, "failed": 1},
        {**REPORT, "counts": {"Undecided": 1}},
        {**REPORT, "ended_well": False, "trouble": "AccessDenied for sqs:ReceiveMessage"},
        {**REPORT, "stopped": LEASE_HELD},
    ],
)
def test_a_run_that_did_not_do_its_work_needs_a_person(
    cloud: Any, functions: Any, dlq: Any, report: Mapping[str, Any]
) -> None:
    cloud.deploy("orders")
    functions.report = report
    done = dlq("retry", "--auto", *WHY)
    assert done.exit_code == Exit.ATTENTION
    assert str(report.get("trouble", "")) in done.stdout


# Edits.

BODIES = ['{"order": 1, "price": 1.10}', '{"order": 2, "price": 1}', '{"order": 3}']


def held_run(state: RunState = RunState.HELD, ago: float = 300) -> ReplayRun:
    return ReplayRun(id=RUN, pipeline="orders", state=state, letters=3, created=1.0,
                     changed=time.time() - ago)  # fmt: skip


class Held:
    """A run that holds some messages, and sends nothing."""

    def __init__(self, cloud: Any, bodies: Sequence[str], run: ReplayRun) -> None:
        self.cloud, self.id = cloud, run.id
        self.names = [self._admit(number, body) for number, body in enumerate(bodies)]
        cloud.snapshot(run, [(name, ReplayOutcome.OPEN) for name in self.names])

    def _admit(self, number: int, body: str) -> Name:
        copy, origin = f"copy-{number}", f"origin-{number}"
        name = Name(copy=copy, origin=origin, place=(f"orders#letter#{copy}", "letter"),
                    key=key_hash(origin), cause=f"f{number % 2}", tenant="acme")  # fmt: skip
        stamp = Stamp(origin, run=self.id, decision="HOLD", because="test")
        hold = Hold(run_lane(self.id), 1.0, "test", shard=name.shard)
        letter = Letter(copy, body, {"tenant": Attribute("String", "acme")})
        assert self.cloud._room("orders").admit(
            [Order(ReceivedLetter(letter, "", 0.0), hold, stamp)]
        )
        return name

    def sent(self, number: int) -> Letter:
        """The message as it would be sent now."""
        name = self.names[number]
        place = json.dumps([*name.place, None])
        entry = WaitingRoomEntry(name.copy, place, run_lane(self.id), name.shard, 0.0)
        (found,) = self.cloud._room("orders", s3=self.cloud.s3).read([entry], 0.0).letters
        return found.letter


@pytest.fixture
def taken(orders: Any, monkeypatch: pytest.MonkeyPatch) -> list[Held]:
    """Runs that take three messages and are held with them, and end once they go on."""
    made: list[Held] = []

    def pause(_seconds: float) -> None:
        replays = orders.replays("orders")
        for before in replays.all():
            after = replace(before, generation=before.generation + 1)
            if before.state is RunState.PLANNED:
                made.append(Held(orders, BODIES, before))
                held = replace(after, state=RunState.HELD, resume_to=RunState.CANARY, letters=3)
                replays.change(before, held)
            elif before.state is RunState.CANARY:
                replays.change(before, replace(after, state=RunState.DONE, counts={"RECOVERED": 3}))

    monkeypatch.setattr("console.cli.progress.pause", pause)
    return made


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """An editor that replaces a text."""
    script = tmp_path / "editor.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\npath = Path(sys.argv[1])\n"
        f"path.write_text(path.read_text().replace({old!r}, {new!r}))\n"
    )
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")


def test_a_message_is_edited_sent_and_proved_by_one_command(
    orders: Any, dlq: Any, taken: list[Held], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.park("orders", "POISON", BODIES[0], origin="origin-0")
    editor(tmp_path, monkeypatch, "1.10", "13")
    done = dlq("retry", "1", "--edit", *WHY)
    assert done.exit_code == Exit.DONE, done.output
    (run_,) = orders.replays("orders").all()
    assert plans(orders)["parking:default"].hold is True
    assert (run_.state, run_.counts) == (RunState.DONE, {"RECOVERED": 3})
    assert taken[0].sent(0).body == '{"order":1,"price":13}'
    assert f"run {run_.id} DONE: 3 = 3 processed" in done.stdout


def test_the_change_is_shown_before_a_person_agrees(
    orders: Any, functions: Any, dlq: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.park("orders", "POISON", BODIES[0], origin="origin-0")
    editor(tmp_path, monkeypatch, "1.10", "13")
    text = said(dlq, "origin-0", "--edit")
    assert '-    "price": 1.10' in text
    assert '+    "price": 13' in text
    assert "The idempotency key stays the same" in text
    assert not functions.machine.started


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("no such text", "", "it changes nothing"),
        ("{", "(", "is not JSON"),
        ('"attributes"', '"attribute"', "no attributes as TYPE:VALUE"),
    ],
)
def test_a_slip_in_the_editor_sends_nothing(
    orders: Any, functions: Any, dlq: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    old: str, new: str, text: str,
) -> None:  # fmt: skip
    orders.park("orders", "POISON", BODIES[0], origin="origin-0")
    editor(tmp_path, monkeypatch, old, new)
    done = dlq("retry", "origin-0", "--edit", *WHY)
    assert (done.exit_code, text in done.stderr) == (Exit.ATTENTION, True), done.stderr
    assert not functions.machine.started


def test_many_messages_are_patched_before_any_is_sent(
    orders: Any, dlq: Any, taken: list[Held], tmp_path: Path
) -> None:
    for number, body in enumerate(BODIES):
        orders.park("orders", "POISON", body, origin=f"origin-{number}")
    patch = tmp_path / "patch.json"
    patch.write_text('[{"op": "add", "path": "/currency", "value": "EUR"}]')
    done = dlq("retry", "--in", "parked", "--all", "--patch", str(patch), *WHY)
    assert done.exit_code == Exit.DONE, done.output
    assert [json.loads(taken[0].sent(number).body)["currency"] for number in range(3)] == [
        "EUR"
    ] * 3


def test_a_run_that_is_held_without_its_messages_is_ended_as_none_can_be_edited(
    orders: Any, dlq: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(_seconds: float) -> None:
        (before,) = orders.replays("orders").all()
        after = replace(before, generation=1, state=RunState.HELD, because="the circuit is OPEN")
        orders.replays("orders").change(before, after)

    orders.park("orders", "POISON", BODIES[0], origin="origin-0")
    editor(tmp_path, monkeypatch, "1.10", "13")
    monkeypatch.setattr("console.cli.progress.pause", pause)
    done = dlq("retry", "origin-0", "--edit", *WHY)
    assert done.exit_code == Exit.ATTENTION
    assert "(the circuit is OPEN), so it was ended: nothing was edited" in done.stderr
    assert orders.replays("orders").all()[0].state is RunState.ABORTED


def test_nothing_is_sent_unless_every_message_takes_the_patch(
    orders: Any, functions: Any, dlq: Any, tmp_path: Path
) -> None:
    for number, body in enumerate(BODIES):
        orders.park("orders", "POISON", body, origin=f"origin-{number}")
    patch = tmp_path / "patch.json"
    patch.write_text('[{"op": "replace", "path": "/price", "value": 2}]')
    done = dlq("retry", "--in", "parked", "--all", "--patch", str(patch), *WHY)
    assert done.exit_code == Exit.ATTENTION
    assert "not all can be edited. 1: operation 1 (replace): its path is not there" in done.stderr
    patch.write_text("[]")
    done = dlq("retry", "--in", "parked", "--all", "--patch", str(patch), *WHY)
    assert (done.exit_code, "See RFC 6902" in done.stderr) == (Exit.USAGE, True)
    assert not functions.machine.started


def test_a_held_run_is_what_resume_starts(orders: Any, dlq: Any, taken: list[Held]) -> None:
    orders.park("orders", "POISON", BODIES[0], origin="origin-0")
    done = dlq("retry", "--in", "parked", "--all", "--hold", *WHY)
    (run_,) = orders.replays("orders").all()
    assert (done.exit_code, run_.state) == (Exit.ATTENTION, RunState.HELD)
    assert f"\n  dlq run resume {run_.id}\n" in done.stdout


def test_a_text_and_attributes_are_edited_as_they_are_typed() -> None:
    letter = Letter("copy", "plain text", {"n": Attribute("Number", "5")})
    written = edits.document(letter).replace("plain", "other").replace("Number:5", "String:x")
    after = edits.from_document(written)(letter)
    assert (after.body, after.attributes) == ("other text", {"n": Attribute("String", "x")})
    body = '{"a":1.10,"b":[{}],"c":[]}'
    same = Letter("copy", body, {"n": Attribute("Binary", b"x")})
    assert edits.from_document(edits.document(same))(same) == same
