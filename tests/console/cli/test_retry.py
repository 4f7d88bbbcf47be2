"""`dlq retry`: what is counted, what a person agrees to, and what is started."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations import edits
from deadletter.aws.dynamodb import plain
from deadletter.circuit.state import State
from deadletter.contract import run_lane
from deadletter.message.letter import Attribute, Letter
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import key_of
from deadletter.redrive.redriver import LEASE_HELD
from deadletter.redrive.waiting_room import WaitingRoomEntry
from deadletter.replay.names import Name, key_hash
from deadletter.replay.plan import KeyPolicy
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome
from tests.console.cli.test_discard import counted, plans, spoil
from tests.console.cli.test_replay_report import OUTCOMES, RUN, name, run
from tests.console.conftest import BUCKET, routed
from tests.each_row import each_row

WHY = ("--reason", "fixed in 4.2.1", "--yes")
SETTINGS = {
    "consumer_library": True,
    "context": {"tenantId": "body.tenant"},
    "idempotency_key": "body.order",
}
LATER = 4e9
ABSENT = "6f6e1bd2-6f2b-4a53-8a10-0f4f9c1f5b7e"


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    return routed(cloud, functions, SETTINGS, context=["tenantId"])


def failed(cloud: Any, tenant: str = "acme", **failure: Any) -> str:
    """A message in the DLQ whose consumer recorded a failure."""
    sent: str = cloud.letter(json.dumps({"tenant": tenant, "card": "4111-x"}))
    cloud.failed("orders", sent, **{"error_type": "KeyError", "fingerprint": "f1aaaaaa", **failure})
    return sent


def said(dlq: Any, line: str, *texts: str) -> None:
    """The plan, as --dry-run says it, has these texts."""
    done = dlq(f"retry {line} --dry-run --json", ends=Exit.DONE)
    plan = "\n".join(json.loads(done.stdout)["would"])
    assert [text for text in texts if text not in plan] == [], plan


def received(cloud: Any) -> int:
    """How often the first message of the DLQ was received before this."""
    (message,) = cloud.sqs.receive_message(
        QueueUrl=cloud.urls["orders-dlq"], MessageSystemAttributeNames=["All"], VisibilityTimeout=0
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
    orders.ledger().note_parked("parked", time.time(), "POISON", "")
    orders.waiting("orders", "due", 2, due=LATER)
    answer = json.loads(dlq("retry -f cause=f1aa --json", *WHY, ends=Exit.DONE).stdout)
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
    said(
        dlq, "--in dlq -f cause=f1 -f error=KeyError",
        "Send 1 message of orders again: 1 in the DLQ.",
        "Last failures: 1 KeyError (f1aaaaaa).", "Counted from the records",
    )  # fmt: skip
    assert received(orders) == 0


def test_what_no_record_tells_is_received_once_and_that_is_said(orders: Any, dlq: Any) -> None:
    failed(orders, "acme")
    says = "1 message of the DLQ received to count them: adds 1 to each receive count."
    said(dlq, "--in dlq -f tenant=acme", says)
    assert received(orders) == 1
    assert not plans(orders)
    # All of it takes what died without a record, too.
    orders.letter("{}")
    said(dlq, "--in dlq --all", "Send 2 messages of orders again: 2 in the DLQ.")


@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_a_message_that_is_on_no_record_is_received_by_its_ids(
    orders: Any, dlq: Any, verb: str
) -> None:
    own, sent = orders.letter("{}"), int(time.time() * 1000)
    again = orders.park("orders", "POISON", queue="orders-dlq", origin="first", first_sent=sent)
    done = dlq(f"{verb} {own} {again} {ABSENT} --json", *WHY)
    answer = json.loads(done.stdout)
    assert (answer["messages"], answer["not_found"]) == (2, [ABSENT])
    assert counted(orders, plans(orders)["dlq"].run_id) == {key_of(own), key_of("first")}
    planned = dlq(f"{verb} {own} {ABSENT} --dry-run", ends=Exit.DONE).output
    assert f"\nNot found: {ABSENT}.\n" in planned
    assert "2 messages of the DLQ received to count them: adds 1 to each" in planned
    assert f"\nNot found: {ABSENT}.\n" in dlq(f"{verb} {own} {ABSENT}", *WHY).stdout


@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_ids_of_your_own_that_no_message_has_are_named(orders: Any, dlq: Any, verb: str) -> None:
    orders.letter('{"order": "A-1"}')
    planned = dlq(f"{verb} A-1 A-2 --dry-run", ends=Exit.DONE).output
    assert "\nNot found: A-2.\n" in planned
    refuses = "one kind at a time"
    dlq(f"{verb} A-1 {ABSENT}", *WHY, ends=Exit.USAGE, refuses=refuses)


def test_what_a_record_says_is_not_called_a_look_into_the_queue(orders: Any, dlq: Any) -> None:
    failed(orders)
    says = "Looked through: the DLQ (its failure records: nothing was received), parking queue"
    dlq("retry -f cause=beef", *WHY, ends=Exit.ABSENT, refuses=says)
    assert received(orders) == 0


@pytest.mark.parametrize("verb", ["retry --hold", "discard"])
def test_messages_of_which_nothing_can_be_decided_are_counted_as_left_out(
    orders: Any, dlq: Any, verb: str
) -> None:
    for origin in ("a", "b"):
        orders.park("orders", "POISON", origin=origin)
        orders.failed("orders", origin)
        orders.ledger().note_parked(origin, time.time(), "POISON", "")
    for number in range(2):
        copy = Letter(f"copy-{number}", "{}", {}, {"SentTimestamp": f"{time.time() * 1000:.0f}"})
        orders.admit("rule:stop", copy, Stamp(copy.message_id), due=LATER)
    spoil(orders, "#ledger#a", recovered_at={"S": "x"})
    spoil(orders, "#message#copy-0", stamp={"S": "{broken"})
    line = f"{verb} --in parked --in rule:stop --all"
    answer = json.loads(dlq(line, *WHY, "--json").stdout)
    assert answer["messages"] == 2
    assert answer["left_out"] == {"a malformed failure record": 1, "not stored whole": 1}
    planned = dlq(f"{line} --dry-run", ends=Exit.DONE).output
    assert "\n1 message not included: a malformed failure record.\n" in planned
    refuses = "1 message not included: a malformed failure record."
    dlq(f"{verb} a", *WHY, ends=Exit.ABSENT, refuses=refuses)
    spoil(orders, f"#ledger#{failed(orders)}", recovered_at={"S": "x"})
    dlq(f"{verb} --in dlq -f cause=f1", *WHY, ends=Exit.ABSENT, refuses=refuses)


@pytest.mark.parametrize(
    ("choice", "due"),
    [
        ("--in rule:later", {"delay:later": 2}),
        ("--in rule:stop", {"rule:stop": 3}),
        ("--in time --all", {"delay:later": 2, "due": 1}),
        ("--in waiting --all", {"delay:later": 2, "due": 1, "rule:stop": 3}),
        ("rule:stop-1", {"rule:stop": 1}),
        # Their items have the first id, and the messages themselves no room for it.
        ("first-life", {"delay:later": 2, "due": 1, "rule:stop": 3}),
    ],
)
def test_what_waits_is_due_now_and_no_others(
    orders: Any, functions: Any, dlq: Any, choice: str, due: dict[str, int]
) -> None:
    for lane, number in (("delay:later", 2), ("rule:stop", 3), ("due", 1)):
        orders.waiting("orders", lane, number, due=LATER)
    done = dlq(f"retry {choice} --json", *WHY, ends=Exit.DONE)
    assert json.loads(done.stdout)["due"] == sum(due.values())
    rows = [plain(row) for row in orders.dynamodb.scan(TableName="messages")["Items"]]
    changed = [row for row in rows if "lane" in row and 0 < row["due"] < LATER]
    lanes = [row["lane"].split("|")[1] for row in changed]
    assert {lane: lanes.count(lane) for lane in lanes} == due
    assert not functions.machine.started


def test_a_rule_in_force_is_named_with_what_lifts_it(orders: Any, dlq: Any) -> None:
    orders.waiting("orders", "rule:stop it", 3, due=LATER)
    orders.rule("stop it", tenantId="a", action="HOLD")
    orders.rule("block", tenantId="acme", action="QUARANTINE")
    orders.rule("other", tenantId="b", action="QUARANTINE", enabled=False)
    lifts = "\ndlq rules disable 'stop it' -p orders"
    said(
        dlq, "--in 'rule:stop it'", "Rule stop it is in force: what it matches waits again.", lifts
    )
    failed(orders, "acme")
    lifts = "\n  dlq rules disable block -p orders\n"
    refuses = f"1 message not included: QUARANTINED, by block. It is lifted by{lifts}"
    dlq("retry --in dlq -f tenant=acme", *WHY, ends=Exit.ABSENT, refuses=refuses)


def test_only_the_rule_that_decides_is_named(orders: Any, dlq: Any) -> None:
    orders.rule("aaa-fraud", tenantId="cedar", action="QUARANTINE")
    orders.rule("aab-shadow", tenantId="acme", action="QUARANTINE", mode="shadow")
    orders.rule("aac-over", tenantId="acme", action="QUARANTINE", expires_at=1)
    orders.rule("stop it", tenantId="acme", action="QUARANTINE")
    failed(orders, "acme")
    refuses = "QUARANTINED, by stop it. It is lifted by\n  dlq rules disable 'stop it' -p orders\n"
    dlq("retry --in dlq -f tenant=acme", *WHY, ends=Exit.ABSENT, refuses=refuses)


def test_a_message_is_found_by_each_of_its_ids_and_an_open_circuit_is_named(
    orders: Any, dlq: Any
) -> None:
    sent = orders.park("orders", "POISON", '{"order": "A-4711"}', origin="first-a")
    orders.park("orders", "POISON", origin="first-b")
    orders.circuit("orders", "acme west", State.OPEN)
    orders.circuit("orders", "bank", "OPEN?")
    lifts = ("\ndlq circuit close 'acme west' -p orders --expires 10m", "bank is UNREADABLE: ")
    for id_ in (sent, "first-a", "A-4711"):
        said(dlq, id_, "They are first-a.", *lifts)


def test_expired_messages_stay_and_a_conflict_needs_a_word(orders: Any, dlq: Any) -> None:
    orders.park("orders", "EXPIRED", origin="expired", first_sent=1_600_000_000_000)
    dlq("retry --in parked --all", *WHY, ends=Exit.ABSENT, refuses="EXPIRED: never sent")
    orders.park("orders", "KEY_CONFLICT", origin="a")
    dlq("retry --in parked --all", *WHY, ends=Exit.USAGE, refuses="--accept-conflict")
    says = "1 message not included: EXPIRED"
    dlq("retry --in parked --all --accept-conflict", *WHY, ends=Exit.DONE, says=says)
    assert plans(orders)["parking:default"].accept == "collision"


def test_a_plan_takes_what_a_person_sets(orders: Any, functions: Any, dlq: Any) -> None:
    orders.park("orders", "POISON", origin="a")
    line = "--in parked --all --to deliver --rate 3 --stop-on-failure --approve --hold"
    said(dlq, line, "A second person has to approve it")
    dlq(f"retry {line}", *WHY)
    plan = plans(orders)["parking:default"]
    assert (plan.destination, plan.rate, plan.approve, plan.hold) == ("deliver", 3.0, True, True)
    assert plan.on_failure is KeyPolicy.STOP


@each_row(
    ("to", "text"),
    [
        ("nowhere", "no destination 'nowhere': it has main, deliver."),
        ("discard", "it has main, deliver. Messages are thrown away by\n  dlq discard"),
    ],
)
def test_messages_are_sent_to_no_other_destination(
    orders: Any, functions: Any, dlq: Any, to: str, text: str
) -> None:
    orders.park("orders", "POISON")
    dlq(f"retry --in parked --all --to {to}", *WHY, ends=Exit.ABSENT, refuses=text)
    assert not functions.machine.started


@each_row(
    ("choice", "status", "text"),
    [
        ("", Exit.USAGE, "Say which messages"),
        ("-f reason=EXPIRED", Exit.ABSENT, "Not looked through: the main queue"),
        ("--in discarded --all", Exit.USAGE, "come back by\n  dlq restore ID\n"),
        ("--edit --patch /dev/null a", Exit.USAGE, "one of --edit and --patch"),
        ("--again a", Exit.USAGE, "--in run:ID"),
        ("--auto -f tenant=a", Exit.USAGE, "--auto takes all that is due"),
        ("--auto --in parked", Exit.USAGE, "the automatic retry reads DLQs"),
    ],
)
def test_what_can_not_be_sent_is_said(
    orders: Any, functions: Any, dlq: Any, choice: str, status: Exit, text: str
) -> None:
    orders.park("orders", "POISON")
    dlq(f"retry {choice}", *WHY, ends=status, refuses=text)
    assert not functions.machine.started


def test_a_queue_of_no_app_is_only_read(cloud: Any, dlq: Any) -> None:
    """Nothing is deployed: that is not what keeps it from being sent."""
    dlq("retry --in queue:theirs --all", *WHY, ends=Exit.USAGE, refuses="is only read")


def test_a_retry_is_agreed_to(orders: Any, functions: Any, dlq: Any, at_a_terminal: None) -> None:
    orders.park("orders", "POISON", origin="a")
    plan = (
        "App deadletter in account 123456789012",
        "Send 1 message of orders again: 1 in parking queue default.",
        "Parked for 1 POISON.", "First 1, 2, 5, 20, then up to 5/s", "Nothing was done.",
    )  # fmt: skip
    dlq("retry --in parked --all", answers="fixed\nn\n", refuses=plan)
    assert not functions.machine.started


# Runs.


def test_failed_messages_of_a_run_are_taken_from_where_they_are(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    orders.snapshot(run(), OUTCOMES)
    for origin in ("d", "another"):
        orders.park("orders", "PERMANENT", origin=origin)
    dlq(f"retry --in run:{RUN[:6]} -f outcome=failed", *WHY, ends=Exit.DONE)
    assert counted(orders, plans(orders)["parking:default"].run_id) == {key_of("d")}
    says = "1 message of 2 are not parked, and not sent"
    said(dlq, f"--in run:{RUN} -f outcome=failed", says)
    said(dlq, f"d no-such --in run:{RUN}", "Send 1 message", "Not found: no-such.")


def test_what_a_run_took_is_made_anew_with_a_new_key(orders: Any, functions: Any, dlq: Any) -> None:
    orders.replay(run())
    orders.snapshot(run(), OUTCOMES)
    keep(orders)
    said(
        dlq, f"--in run:{RUN} --again", f"6 messages of run {RUN} would be made anew",
        "3 of 6 were processed before: the consumer processes them once more",
        "2 of 6 were parked, and can be parked still",
    )  # fmt: skip
    says = "\nNot found: no-such.\n"
    dlq(f"retry a d no-such --in run:{RUN} --again", *WHY, ends=Exit.DONE, says=says)
    plan = plans(orders)[f"originals:{RUN}"]
    assert (plan.accept, plan.counted, plan.why) == ("again", 2, "fixed in 4.2.1")
    assert counted(orders, plan.run_id) == {key_of("a"), key_of("d")}


def test_what_has_no_known_outcome_may_have_been_processed(orders: Any, dlq: Any) -> None:
    orders.replay(run())
    fates = (ReplayOutcome.RECOVERED, ReplayOutcome.UNKNOWN, ReplayOutcome.DELIVERED)
    orders.snapshot(run(), [(name(fate.name), fate) for fate in fates])
    keep(orders)
    says = "1 of 3 were processed before, and 2 with no known outcome may have been: the consumer"
    said(dlq, f"--in run:{RUN} --again", says)
    planned = dlq(f"retry --in run:{RUN} --again --dry-run", ends=Exit.DONE).output
    assert "parked still" not in planned


def keep(cloud: Any, of: str = RUN) -> None:
    """The messages of a run, as it took them."""
    cloud.s3.put_object(Bucket=BUCKET, Key=f"originals/orders/{of}/a.jsonl.gz", Body=b"")


def test_a_pipeline_that_observes_moves_nothing_that_is_due(
    cloud: Any, functions: Any, dlq: Any
) -> None:
    orders = routed(cloud, functions, SETTINGS, mode="observe")
    orders.waiting("orders", "due", 2, due=LATER)
    said(dlq, "--in time --all", "The pipeline observes, so its next automatic run moves none")


@pytest.mark.parametrize(
    ("state", "options", "status", "text"),
    [
        (RunState.RUNNING, "", Exit.ATTENTION, "only what an ended run took"),
        (RunState.DONE, "-f outcome=god", Exit.USAGE, "There is no outcome 'god'."),
        (RunState.DONE, "-f tenant=a", Exit.USAGE, "by ID or -f outcome=failed"),
        (RunState.DONE, "-f outcome=left", Exit.ABSENT, "has no such message"),
        (RunState.DONE, "--again", Exit.ABSENT, "replay_days are over"),
    ],
)
def test_what_can_not_be_sent_of_a_run_is_said(
    orders: Any, dlq: Any, state: RunState, options: str, status: Exit, text: str
) -> None:
    orders.replay(run(state))
    orders.snapshot(run(), OUTCOMES[:2])
    dlq(f"retry --in run:{RUN} {options}", *WHY, ends=status, refuses=text)


# Automatic runs.

REPORT = {
    "ended_well": True, "stopped": "the source is empty", "received": 128, "moved": 120,
    "decisions": {"REDRIVE": 1_100, "PARK:POISON": 8}, "failed": 0, "left": 8,
}  # fmt: skip


def test_the_automatic_retry_is_run_now(cloud: Any, functions: Any, dlq: Any) -> None:
    cloud.deploy("orders", dedicated=["vip"])
    functions.report = REPORT
    says = ("120 messages of orders", "ended because: the source is empty", "PARK:POISON: 8")
    dlq("retry --auto", *WHY, ends=Exit.DONE, says=says)
    assert functions.invoked[-1] == (
        "orders-redrive", {"source": "dlq", "dry_run": False, "asked": True},
    )  # fmt: skip
    # AWS's word runs the same command.
    dlq("redrive --auto --in dedicated:vip", *WHY, ends=Exit.DONE)
    assert functions.invoked[-1][1]["source"] == "vip"


def test_a_dry_run_of_it_says_what_it_would_decide(cloud: Any, functions: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    letter = {"message_id": "m-1", "action": "PARK", "reason": "POISON", "because": "it fails"}
    functions.report = {**REPORT, "messages": [letter]}
    said(dlq, "--auto", "m-1 PARK POISON: it fails")
    assert [event["dry_run"] for _, event in functions.invoked] == [True]


@each_row(
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
    dlq("retry --auto", *WHY, ends=Exit.ATTENTION, says=str(report.get("trouble", "")))


# Edits.

BODIES = ['{"order": 1, "price": 1.10}', '{"order": 2, "price": 1}', '{"order": 3}']


def held_run(state: RunState = RunState.HELD, ago: float = 300) -> ReplayRun:
    return ReplayRun(id=RUN, pipeline="orders", state=state, messages=3, created=1.0,
                     changed=time.time() - ago)  # fmt: skip


class Held:
    """A run that holds some messages, and sends nothing."""

    def __init__(self, cloud: Any, bodies: Sequence[str], run: ReplayRun) -> None:
        self.cloud, self.id = cloud, run.id
        self.names = [self._admit(number, body) for number, body in enumerate(bodies)]
        cloud.snapshot(run, [(name, ReplayOutcome.OPEN) for name in self.names])

    def _admit(self, number: int, body: str) -> Name:
        copy, origin = f"copy-{number}", f"origin-{number}"
        name = Name(copy=copy, origin=origin, place=(f"orders#message#{copy}", "message"),
                    key=key_hash(origin), cause=f"f{number % 2}", tenant="acme")  # fmt: skip
        stamp = Stamp(origin, run=self.id, decision="HOLD", because="test")
        letter = Letter(copy, body, {"tenant": Attribute("String", "acme")})
        self.cloud.admit(run_lane(self.id), letter, stamp, shard=name.shard)
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
                held = replace(after, state=RunState.HELD, resume_to=RunState.CANARY, messages=3)
                replays.change(before, held)
            elif before.state is RunState.CANARY:
                replays.change(before, replace(after, state=RunState.DONE, counts={"RECOVERED": 3}))

    monkeypatch.setattr("console.cli.output.pause", pause)
    return made


Editor = Callable[[str, str], None]


@pytest.fixture
def editor(orders: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """An editor that replaces a text, and a parked message to edit."""
    orders.park("orders", "POISON", BODIES[0], origin="origin-0")
    script = tmp_path / "editor.py"
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")

    def replaces(old: str, new: str) -> None:
        script.write_text(
            "import sys\nfrom pathlib import Path\npath = Path(sys.argv[1])\n"
            f"path.write_text(path.read_text().replace({old!r}, {new!r}))\n"
        )

    return replaces


def test_a_message_is_edited_sent_and_proved_by_one_command(
    orders: Any, dlq: Any, taken: list[Held], editor: Editor
) -> None:
    editor("1.10", "13")
    done = dlq("retry 1 --edit", *WHY, ends=Exit.DONE)
    (run_,) = orders.replays("orders").all()
    assert plans(orders)["parking:default"].hold is True
    assert (run_.state, run_.counts) == (RunState.DONE, {"RECOVERED": 3})
    assert taken[0].sent(0).body == '{"order":1,"price":13}'
    assert f"run {run_.id} DONE: 3 = 3 processed" in done.stdout


def test_the_change_is_shown_before_a_person_agrees(
    functions: Any, dlq: Any, editor: Editor
) -> None:
    editor("1.10", "13")
    change = ('-    "price": 1.10', '+    "price": 13', "The idempotency key stays the same")
    said(dlq, "origin-0 --edit", *change)
    assert not functions.machine.started


@each_row(
    ("old", "new", "text"),
    [
        ("no such text", "", "it changes nothing"),
        ("{", "(", "is not JSON"),
        ('"attributes"', '"attribute"', "no attributes as TYPE:VALUE"),
    ],
)
def test_a_slip_in_the_editor_sends_nothing(
    functions: Any, dlq: Any, editor: Editor, old: str, new: str, text: str
) -> None:
    editor(old, new)
    dlq("retry origin-0 --edit", *WHY, ends=Exit.ATTENTION, refuses=text)
    assert not functions.machine.started


def test_a_body_that_an_edit_leaves_broken_is_not_sent(
    orders: Any, functions: Any, dlq: Any, editor: Editor
) -> None:
    orders.park("orders", "MALFORMED", '{"price": 1.10,,}', origin="broken")
    editor("1.10", "13")
    refuses = "its body would still not be JSON"
    dlq("retry broken --edit", *WHY, ends=Exit.ATTENTION, refuses=refuses)
    assert not functions.machine.started


@pytest.fixture
def patch(orders: Any, tmp_path: Path) -> Path:
    """A file for a JSON patch, and three parked messages to edit."""
    for number, body in enumerate(BODIES):
        orders.park("orders", "POISON", body, origin=f"origin-{number}")
    return tmp_path / "patch.json"


def test_many_messages_are_patched_before_any_is_sent(
    dlq: Any, taken: list[Held], patch: Path
) -> None:
    patch.write_text('[{"op": "add", "path": "/currency", "value": "EUR"}]')
    dlq(f"retry --in parked --all --patch {patch}", *WHY, ends=Exit.DONE)
    assert {json.loads(taken[0].sent(number).body)["currency"] for number in range(3)} == {"EUR"}


def test_nothing_is_sent_unless_every_message_takes_the_patch(
    functions: Any, dlq: Any, patch: Path
) -> None:
    patch.write_text('[{"op": "replace", "path": "/price", "value": 2}]')
    refuses = "not all can be edited. 1: operation 1 (replace): its path is not there"
    line = f"retry --in parked --all --patch {patch}"
    dlq(line, *WHY, ends=Exit.ATTENTION, refuses=refuses)
    patch.write_text("[]")
    dlq(line, *WHY, ends=Exit.USAGE, refuses="See RFC 6902")
    assert not functions.machine.started


def test_a_run_that_is_held_without_its_messages_is_ended_as_none_can_be_edited(
    orders: Any, dlq: Any, editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(_seconds: float) -> None:
        (before,) = orders.replays("orders").all()
        after = replace(before, generation=1, state=RunState.HELD, because="the circuit is OPEN")
        orders.replays("orders").change(before, after)

    editor("1.10", "13")
    monkeypatch.setattr("console.cli.output.pause", pause)
    refuses = "(the circuit is OPEN), so it was ended: nothing was edited"
    dlq("retry origin-0 --edit", *WHY, ends=Exit.ATTENTION, refuses=refuses)
    assert orders.replays("orders").all()[0].state is RunState.ABORTED


def test_a_held_run_is_what_resume_starts(orders: Any, dlq: Any, taken: list[Held]) -> None:
    orders.park("orders", "POISON", BODIES[0], origin="origin-0")
    done = dlq("retry --in parked --all --hold", *WHY)
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
