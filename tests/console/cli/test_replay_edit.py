"""`dlq replay edit`, `mend` and `try`: letters of a held run are mended, and tried first."""

from __future__ import annotations

import base64
import io
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.aws.replay_edits import DynamoDBReplayEdits
from deadletter.aws.table import plain
from deadletter.contract import run_lane
from deadletter.message.letter import Attribute, Letter, from_event
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import WaitingRoomEntry
from deadletter.replay.names import Name, key_hash
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome
from deadletter.routing.decision import Hold
from tests.console.conftest import BUCKET

RUN = "4f0c1b2a3d4e5f60"
SETTINGS = {"consumer_library": True, "idempotency_key": "body.id"}
PATCH = '[{"op": "replace", "path": "/price", "value": 2.50}]'
WHY = ("--why", "the price was lost")


def run(state: RunState = RunState.HELD, ago: float = 300) -> ReplayRun:
    return ReplayRun(id=RUN, pipeline="orders", state=state, letters=3, created=1.0,
                     changed=time.time() - ago)  # fmt: skip


class Held:
    """A run that is held with some letters in its custody."""

    def __init__(self, cloud: Any, bodies: Sequence[str], state: RunState, ago: float) -> None:
        self.cloud = cloud
        self.run = cloud.replay(run(state, ago))
        self.names = [self._admit(number, body) for number, body in enumerate(bodies)]
        cloud.snapshot(self.run, [(name, ReplayOutcome.OPEN) for name in self.names])

    def _admit(self, number: int, body: str) -> Name:
        copy, origin = f"copy-{number}", f"origin-{number}"
        name = Name(copy=copy, origin=origin, place=(f"orders#letter#{copy}", "letter"),
                    key=key_hash(origin), cause=f"f{number % 2}", tenant="acme")  # fmt: skip
        stamp = Stamp(origin, run=RUN, decision="HOLD", because="test")
        hold = Hold(run_lane(RUN), 1.0, "test", shard=name.shard)
        received = ReceivedLetter(Letter(copy, body), "", 0.0)
        assert self.cloud._room("orders").admit([Order(received, hold, stamp)])
        return name

    def sent(self, number: int) -> tuple[str, Stamp | None]:
        """The body and the stamp with which a letter would be sent now."""
        received = self.waiting(number)
        return received.letter.body, received.stamp

    def attributes(self, number: int) -> Mapping[str, Attribute]:
        """The attributes with which it would be sent."""
        return self.waiting(number).letter.attributes

    def waiting(self, number: int) -> ReceivedLetter:
        name = self.names[number]
        entry = WaitingRoomEntry(
            name.copy, json.dumps([*name.place, None]), run_lane(RUN), name.shard, 0.0
        )
        (received,) = self.cloud._room("orders", s3=self.cloud.s3).read([entry], 0.0).letters
        return received

    def item(self, number: int) -> dict[str, Any]:
        partition, sort = self.names[number].place
        key = {"pk": {"S": partition}, "sk": {"S": sort}}
        return plain(self.cloud.dynamodb.get_item(TableName="letters", Key=key)["Item"])

    def records(self) -> list[dict[str, Any]]:
        prefix = f"replay/orders/{RUN}/edits/"
        listed = self.cloud.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        objects = [self.cloud.s3.get_object(Bucket=BUCKET, Key=row["Key"]) for row in listed]
        return [json.loads(answer["Body"].read()) for answer in objects]


BODIES = ['{"id": 1, "price": 1.10}', '{"id": 2, "price": 1}', '{"id": 3}']


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    cloud.deploy("orders", settings=SETTINGS)
    functions.configure("orders", **SETTINGS)
    functions.routes = True
    return cloud


@pytest.fixture
def held(orders: Any) -> Held:
    return Held(orders, BODIES, RunState.HELD, 300)


@pytest.mark.parametrize("id_", ["copy-0", "origin-0"])
def test_an_edited_letter_is_sent_in_its_new_version_and_the_original_is_kept(
    held: Held, dlq: Any, id_: str
) -> None:
    done = dlq("replay", "edit", RUN, id_, "--patch", PATCH, *WHY, "--yes", "--json")
    assert done.exit_code == Exit.DONE, done.output
    answer = json.loads(done.stdout)
    body, stamp = held.sent(0)
    assert body == '{"id":1,"price":2.50}'
    assert stamp is not None
    assert (stamp.run, stamp.accept) == (RUN, None)
    assert json.loads(held.item(0)["letter"])["body"] == BODIES[0]
    (record,) = held.records()
    assert (record["before"]["body"], record["after"]["body"]) == (BODIES[0], body)
    assert (record["because"], record["origin"]) == ("the price was lost", "origin-0")
    assert answer["record"].startswith("edits/copy-0-")
    assert answer["before"] != answer["after"]
    assert held.sent(1)[0] == BODIES[1]


def test_attributes_are_edited_and_the_answer_s_hashes_cover_them(held: Held, dlq: Any) -> None:
    """With the body as it was; ours stays whatever a person types."""
    options = ("--attribute", "tenant=String:acme", "--attribute", "n=Number.int:7")
    done = dlq("replay", "edit", RUN, "copy-0", *options, *WHY, "--yes", "--json")
    assert done.exit_code == Exit.DONE, done.output
    answer = json.loads(done.stdout)
    assert answer["before"] != answer["after"]
    (record,) = held.records()
    assert record["before"]["body"] == record["after"]["body"] == BODIES[0]
    assert record["after"]["attributes"]["n"] == {"type": "Number.int", "text": "7"}
    assert held.attributes(0)["tenant"] == Attribute("String", "acme")
    done = dlq("replay", "edit", RUN, "copy-0", "--remove-attribute", "n", *WHY, "--yes", "--json")
    assert done.exit_code == Exit.DONE, done.output
    assert json.loads(done.stdout)["before"] == answer["after"]
    assert "n" not in held.attributes(0)
    audited = dlq("audit", "--json").stdout
    assert "acme" not in audited
    assert json.loads(done.stdout)["after"] in audited


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--attribute", "Redrive=String:{}"), "Redrive is ours"),
        (("--attribute", "tenant"), "NAME=TYPE:VALUE"),
        (("--attribute", "a=Text:4111-x"), "String, Number or Binary"),
        (("--remove-attribute", "absent"), "it has no attribute absent"),
        ((), "Say what to change"),
    ],
)
def test_an_attribute_that_is_not_possible_changes_nothing(
    held: Held, dlq: Any, options: tuple[str, ...], says: str
) -> None:
    done = dlq("replay", "edit", RUN, "copy-0", *options, *WHY, "--yes")
    assert done.exit_code != Exit.DONE
    assert says in done.output
    assert "4111" not in done.output
    assert held.records() == []


def test_attributes_of_many_letters_are_mended_and_shown_before(held: Held, dlq: Any) -> None:
    options = ("--attribute", "tenant=String:acme", "--patch", PATCH)
    shown = dlq("replay", "mend", RUN, *options, "--dry-run").stdout
    assert "+attribute tenant=String:acme" in shown
    done = dlq("replay", "mend", RUN, "--attribute", "tenant=String:acme", *WHY, "--yes")
    assert done.exit_code == Exit.DONE, done.output
    for number in range(len(BODIES)):
        assert held.attributes(number)["tenant"] == Attribute("String", "acme")


def test_a_large_edit_waits_in_the_bucket(held: Held, dlq: Any) -> None:
    patch = json.dumps([{"op": "add", "path": "/note", "value": "x" * 5_000}])
    for option in (PATCH, patch):
        done = dlq("replay", "edit", RUN, "copy-0", "--patch", option, *WHY, "--yes")
        assert done.exit_code == Exit.DONE, done.output
    item = held.item(0)
    assert "edit" not in item
    # The objects of a run expire; a letter may leave its run, and wait on.
    assert item["edit_object"].startswith("waiting/orders/copy-0.")
    assert len(held.sent(0)[0]) > 5_000


def test_a_large_edit_that_is_refused_is_not_sent(
    held: Held, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def patch(text: str) -> str:
        return json.dumps([{"op": "add", "path": "/note", "value": text * 5_000}])

    first = dlq("replay", "edit", RUN, "copy-0", "--patch", patch("x"), *WHY, "--yes")
    assert first.exit_code == Exit.DONE, first.output
    before = held.sent(0)

    stands = DynamoDBReplayEdits._still_stands
    monkeypatch.setattr(
        DynamoDBReplayEdits,
        "_still_stands",
        lambda self, run: stands(self, replace(run, generation=run.generation + 1)),
    )
    second = dlq("replay", "edit", RUN, "copy-0", "--patch", patch("y"), *WHY, "--yes")
    assert second.exit_code != Exit.DONE
    assert held.sent(0) == before


def test_the_function_and_not_the_caller_writes_the_letter(
    held: Held, dlq: Any, functions: Any
) -> None:
    """Who may write a letter's item can read it: people ask the function, without the body."""
    done = dlq("replay", "edit", RUN, "copy-0", "--patch", PATCH, *WHY, "--yes", "--json")
    [event] = [event for function, event in functions.invoked if function == "orders-redrive"]
    assert event == {"edit": {"run": RUN, "records": [json.loads(done.stdout)["record"]]}}


def test_a_letter_that_was_edited_meanwhile_is_not_overwritten(
    held: Held, dlq: Any, monkeypatch: pytest.MonkeyPatch, at_a_terminal: None
) -> None:
    """The record says what the letter was: it has to be true."""

    def edit_it(*_: Any) -> None:
        patch = PATCH.replace("2.50", "9")
        other = dlq("replay", "edit", RUN, "copy-0", "--patch", patch, *WHY, "--yes")
        assert other.exit_code == Exit.DONE, other.output

    monkeypatch.setattr("console.cli.asking.confirm", edit_it)
    done = dlq("replay", "edit", RUN, "copy-0", "--patch", PATCH, *WHY)
    assert done.exit_code == Exit.ATTENTION
    assert "the letter was edited meanwhile: look at it again" in done.stderr
    assert held.sent(0)[0] == '{"id":1,"price":9}'


def test_an_edit_says_what_to_do_if_the_function_refuses_or_fails(
    held: Held, dlq: Any, functions: Any
) -> None:
    functions.answers_requests = False
    typed = ("replay", "edit", RUN, "copy-0", "--patch", PATCH, *WHY, "--yes")
    for report, status, says in (
        ({"refused": "an edit names a run"}, Exit.ATTENTION, "refuses: an edit names a run"),
        ({"stopped": "nothing to do"}, Exit.ATTENTION, "knows no edit: use the dlq of the version"),
        (
            {"edited": [], "refused": {}, "trouble": "s3: SlowDown"},
            Exit.UNREACHABLE,
            "0 of 1 letter were edited, then: s3: SlowDown",
        ),
    ):
        functions.report = report
        done = dlq(*typed)
        assert done.exit_code == status, done.output
        assert says in " ".join(done.stderr.split())
    functions.report, functions.function_error = {"errorType": "KeyError"}, "Unhandled"
    done = dlq(*typed)
    assert "failed (KeyError): letters may be edited already" in " ".join(done.stderr.split())
    assert held.sent(0)[0] == BODIES[0]


def test_many_letters_are_mended_in_several_requests(
    held: Held, dlq: Any, functions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deadletter.replay.edit_request.MOST_EDITS", 2)
    transform = ("--transform", "merge(@, {price: `3`})")
    done = dlq("replay", "mend", RUN, *transform, *WHY, "--yes", "--json")
    assert done.exit_code == Exit.DONE, done.output
    assert json.loads(done.stdout)["mended"] == 3
    asked = [
        event["edit"]["records"] for name, event in functions.invoked if name == "orders-redrive"
    ]
    assert [len(records) for records in asked] == [2, 1]
    assert [json.loads(held.sent(number)[0])["price"] for number in range(3)] == [3, 3, 3]


def test_a_person_sees_the_difference_and_what_it_means(
    held: Held, dlq: Any, at_a_terminal: None
) -> None:
    done = dlq("replay", "edit", RUN, "copy-0", "--patch", PATCH, *WHY, answers="n\n")
    assert done.exit_code == Exit.ATTENTION
    for text in ('-  "price": 1.1', '+  "price": 2.5', "The idempotency key stays the same: if"):
        assert text in done.stderr
    assert held.sent(0)[0] == BODIES[0]


def test_an_edit_that_changes_the_key_says_so(held: Held, dlq: Any) -> None:
    patch = '[{"op": "replace", "path": "/id", "value": 9}]'
    done = dlq("replay", "edit", RUN, "copy-0", "--patch", patch, *WHY, "--yes")
    assert "The idempotency key changes: the edited letter is a message of its own" in done.stdout


def test_an_original_that_was_processed_needs_a_persons_word(
    held: Held, orders: Any, dlq: Any
) -> None:
    orders.recovered("orders", "origin-0")
    done = dlq("replay", "edit", RUN, "copy-0", "--patch", PATCH, *WHY, "--yes")
    assert done.exit_code == Exit.ATTENTION
    assert "the original was processed, so its effect may happen twice" in done.stderr
    assert held.sent(0)[0] == BODIES[0]
    done = dlq("replay", "edit", RUN, "copy-0", "--patch", PATCH, *WHY, "--yes",
               "--accept-collision")  # fmt: skip
    assert done.exit_code == Exit.DONE, done.output
    stamp = held.sent(0)[1]
    assert stamp is not None
    assert stamp.accept == "collision"


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        ((), Exit.USAGE, "Say what to change: --patch, --transform, --attribute or"),
        (("--patch", "{"), Exit.USAGE, "--patch: not JSON"),
        (("--patch", "[]"), Exit.USAGE, "a JSON Patch is a list"),
        (("--patch", '[{"op": "remove", "path": "/nope"}]'), Exit.ATTENTION, "is not there"),
        (("--transform", "nope"), Exit.ATTENTION, "the expression finds nothing"),
        (("--patch", PATCH, "--editor"), Exit.USAGE, "Give one of --patch, --transform"),
    ],
)
def test_an_edit_that_is_not_possible_changes_nothing(
    held: Held, dlq: Any, options: tuple[str, ...], status: Exit, text: str
) -> None:
    done = dlq("replay", "edit", RUN, "copy-0", *options, *WHY, "--yes")
    assert done.exit_code == status, done.output
    assert text in done.stderr
    assert held.sent(0)[0] == BODIES[0]
    assert not held.records()


def test_a_letter_that_is_not_in_custody_is_not_edited(held: Held, dlq: Any) -> None:
    done = dlq("replay", "edit", RUN, "copy-9", "--patch", PATCH, *WHY, "--yes")
    assert done.exit_code == Exit.ABSENT
    assert "has no letter copy-9 in custody" in done.stderr


@pytest.mark.parametrize(
    ("state", "ago", "text"),
    [
        (RunState.RUNNING, 300, f"Type dlq run hold {RUN} first"),
        (RunState.HELD, 10, "letters may still be under way. Try again in"),
    ],
)
def test_letters_of_a_run_that_may_send_are_not_edited(
    orders: Any, dlq: Any, state: RunState, ago: float, text: str
) -> None:
    letters = Held(orders, BODIES, state, ago)
    done = dlq("replay", "edit", RUN, "copy-0", "--patch", PATCH, *WHY, "--yes")
    assert done.exit_code == Exit.ATTENTION
    assert text in done.stderr
    assert letters.sent(0)[0] == BODIES[0]


def test_a_run_that_is_resumed_meanwhile_sends_the_letter_as_it_was(
    held: Held, orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch, at_a_terminal: None
) -> None:
    """The edit and the state of the run are one transaction."""

    def resume(*_: Any) -> None:
        dlq("run", "resume", RUN, "--reason", "x", "--yes")

    monkeypatch.setattr("console.cli.asking.confirm", resume)
    done = dlq("replay", "edit", RUN, "copy-0", "--patch", PATCH, *WHY)
    assert done.exit_code == Exit.ATTENTION
    assert "was changed meanwhile" in done.stderr
    assert held.sent(0)[0] == BODIES[0]


def test_an_editor_gets_the_body_line_by_line(
    held: Held, dlq: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "editor.py"
    script.write_text(
        "import pathlib, sys\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "assert path.stat().st_mode & 0o077 == 0\n"
        "text = path.read_text()\n"
        "path.write_text(text.replace('\"price\": 1\\n', '\"price\": 7\\n'))\n"
    )
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
    done = dlq("replay", "edit", RUN, "copy-1", "--editor", *WHY, "--yes")
    assert done.exit_code == Exit.DONE, done.output
    assert held.sent(1)[0] == '{"id":2,"price":7}'
    done = dlq("replay", "edit", RUN, "copy-2", "--editor", *WHY, "--yes")
    assert "Nothing was changed: it changes nothing." in done.stderr


def test_all_letters_that_a_filter_chooses_are_mended(held: Held, dlq: Any) -> None:
    done = dlq("replay", "mend", RUN, "--patch", PATCH, *WHY, "--yes", "--json")
    assert done.exit_code == Exit.ATTENTION
    answer = json.loads(done.stdout)
    assert (answer["matched"], answer["mended"]) == (3, 2)
    assert answer["refused"] == {"operation 1 (replace): its path is not there": 1}
    assert [held.sent(number)[0] for number in range(3)] == [
        '{"id":1,"price":2.50}', '{"id":2,"price":2.50}', BODIES[2],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "changed"),
    [(("--cause", "f1"), [1]), (("--jmespath", "id == `1`"), [0]), (("--id", "origin-1"), [1]),
     (("--tenant", "other"), [])],
)  # fmt: skip
def test_a_mend_keeps_to_its_filter(
    held: Held, dlq: Any, options: tuple[str, ...], changed: list[int]
) -> None:
    done = dlq("replay", "mend", RUN, "--patch", PATCH, *options, *WHY, "--yes")
    assert done.exit_code == (Exit.DONE if changed else Exit.ATTENTION)
    bodies = [held.sent(number)[0] for number in range(3)]
    assert [at for at in range(3) if bodies[at] != BODIES[at]] == changed


def test_a_dry_run_shows_a_sample_and_writes_nothing(held: Held, dlq: Any) -> None:
    done = dlq("replay", "mend", RUN, "--transform", "merge(@, {price: `3`})", "--dry-run")
    assert done.exit_code == Exit.DONE, done.output
    assert "3 letters of run 4f0c1b2a3d4e5f60 would be changed" in done.stdout
    assert '+  "price": 3' in done.stdout
    assert held.sent(0)[0] == BODIES[0]
    assert not held.records()


def test_a_mend_shows_a_sample_before_it_writes(held: Held, dlq: Any, at_a_terminal: None) -> None:
    done = dlq("replay", "mend", RUN, "--patch", PATCH, *WHY, answers="n\n")
    assert "Change 2 letters of run 4f0c1b2a3d4e5f60, such as:" in done.stderr
    assert "Not changed: 1: operation 1 (replace): its path is not there." in done.stderr
    assert held.sent(0)[0] == BODIES[0]


class Candidate:
    """Another version of the consumer."""

    def __init__(self, functions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[Any] = []
        self.contexts: list[Any] = []
        real = functions.invoke

        def invoke(**request: Any) -> Any:
            if request["FunctionName"] != "candidate":
                return real(**request)
            event = json.loads(request["Payload"])
            self.events.append(event)
            self.contexts.append(json.loads(base64.b64decode(request["ClientContext"])))
            return self.answer(event["Records"][0])

        monkeypatch.setattr(functions, "invoke", invoke)

    def answer(self, record: Any) -> Any:
        number = json.loads(record["body"]).get("id")
        if number == 1:
            error = {"errorType": "KeyError", "errorMessage": "price"}
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(json.dumps(error).encode())}
        failed = [{"itemIdentifier": record["messageId"]}] if number == 2 else []
        return {"Payload": io.BytesIO(json.dumps({"batchItemFailures": failed}).encode())}


def test_letters_of_a_run_are_tried_on_another_version(
    held: Held, functions: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = Candidate(functions, monkeypatch)
    done = dlq("replay", "try", RUN, "--function", "candidate", "--yes", "--json")
    assert done.exit_code == Exit.ATTENTION, done.output
    tried = {row["origin"]: row for row in json.loads(done.stdout)["tried"]}
    assert {origin: row["outcome"] for origin, row in tried.items()} == {
        "origin-0": "still failing", "origin-1": "still failing", "origin-2": "fixed",
    }  # fmt: skip
    assert tried["origin-0"]["error"] == "KeyError: price"
    assert all(context == {"custom": {"replay": RUN}} for context in candidate.contexts)
    assert all(len(event["Records"]) == 1 for event in candidate.events)
    (record,) = candidate.events[0]["Records"]
    assert record["eventSourceARN"] == "arn:aws:sqs:eu-west-1:123456789012:orders-main"
    assert held.sent(0)[0] == BODIES[0]


def test_an_edit_of_attributes_is_tried_as_it_would_be_sent(
    held: Held, functions: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = Candidate(functions, monkeypatch)
    options = ("--attribute", "n=Number.int:7", "--attribute", "key=Binary:3q0=")
    done = dlq("replay", "edit", RUN, "copy-2", *options, *WHY, "--yes")
    assert done.exit_code == Exit.DONE, done.output
    done = dlq("replay", "try", RUN, "--id", "copy-2", "--function", "candidate", "--yes")
    assert done.exit_code == Exit.DONE, done.output
    ((record,),) = [event["Records"] for event in candidate.events]
    tried = from_event({**record, "attributes": {}})
    assert (tried.body, dict(tried.attributes)) == (BODIES[2], dict(held.attributes(2)))
    assert tried.attributes["key"] == Attribute("Binary", b"\xde\xad")


def test_of_each_cause_one_letter_is_tried_first(
    held: Held, functions: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Candidate(functions, monkeypatch)
    done = dlq("replay", "try", RUN, "--function", "candidate", "--count", "2", "--yes", "--json")
    assert {row["cause"] for row in json.loads(done.stdout)["tried"]} == {"f0", "f1"}


def test_letters_are_tried_on_a_program_here(held: Held, dlq: Any, tmp_path: Path) -> None:
    script = tmp_path / "handler.py"
    script.write_text(
        "import json, sys\n"
        "(record,) = json.load(sys.stdin)['Records']\n"
        "sys.exit(0 if 'price' in record['body'] else 'no price')\n"
    )
    done = dlq("replay", "try", RUN, "--local", f"{sys.executable} {script}", "--yes")
    assert done.exit_code == Exit.ATTENTION
    assert "2 of 3 letters fixed" in done.stdout
    assert "Nothing was moved. Mend the consumer or the letters" in done.stdout
    assert "exit status 1: no price" in done.stdout


def test_letters_of_a_plan_are_tried_before_it_starts(
    orders: Any, functions: Any, dlq: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = Candidate(functions, monkeypatch)
    letter = orders.letter('{"id": 5}')
    orders.failed("orders", letter)
    file = str(tmp_path / "plan.json")
    dlq("replay", "plan", "--out", file, "--why", "x")
    orders.letter('{"id": 6}')
    done = dlq("replay", "try", "--plan", file, "--function", "candidate", "--yes")
    assert done.exit_code == Exit.DONE, done.output
    assert "1 of 1 letter fixed by candidate" in done.stdout
    assert f"Start it: dlq replay start --plan {file}" in done.stdout
    assert [event["Records"][0]["messageId"] for event in candidate.events] == [letter]
    assert orders.visible("orders-dlq") == 2


def test_parked_letters_of_a_plan_are_tried_wherever_they_are(
    orders: Any, functions: Any, dlq: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Candidate(functions, monkeypatch)
    orders.park("orders", "POISON", origin="in-queue")
    orders.rescued("orders", "POISON", 1_000)
    orders.failed("orders", "in-queue", fingerprint="f7")
    file = str(tmp_path / "plan.json")
    dlq("replay", "plan", "--source", "parked", "--out", file, "--why", "x")
    done = dlq("replay", "try", "--plan", file, "--function", "candidate", "--yes", "--json")
    assert done.exit_code == Exit.DONE, done.output
    answer = json.loads(done.stdout)
    causes = {row["origin"]: row["cause"] for row in answer["tried"]}
    assert causes == {"in-queue": "f7", "first-life": ""}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((RUN,), "Say what to try them on"),
        ((RUN, "--function", "a", "--local", "b"), "Say what to try them on"),
        (("--local", "x"), "Name a RUN, or a plan with --plan FILE."),
        ((RUN, "--local", "/nonexistent/program"), "can't be started"),
        ((RUN, "--local", " "), "--local needs a command"),
    ],
)
def test_a_trial_without_letters_or_handler_is_refused(
    held: Held, dlq: Any, options: tuple[str, ...], text: str
) -> None:
    done = dlq("replay", "try", *options, "--yes")
    assert done.exit_code == Exit.USAGE
    assert text in done.stderr
